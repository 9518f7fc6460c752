//! Reinforcement learning: what generates answers on the GPUs that train, and passes that are packed up to a number of
//! tokens.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::{model, vision};
use crate::plan::keys;

/// An engine that takes `share` of each GPU, and what stands beside it while it generates (a word of
/// `training.generation_beside`).
pub fn engine(imported: &mut ImportedPlan, share: Option<Setting<f64>>, beside: Setting<&'static str>) {
    let Some(share) = share.filter(|found| found.value > 0.0 && found.value < 1.0) else {
        return not_modelled(imported, "what the engine that generates takes of the GPUs");
    };
    imported.set(keys::training::generation_memory, Some(share));
    imported.set(keys::training::generation_beside, Some(beside));
}

/// Samples of a pass that holds up to `tokens` tokens of whole sequences: at least one, and the last of them counted
/// whole.
pub fn packed(imported: &mut ImportedPlan, tokens: Option<Setting<u64>>) {
    let Some(tokens) = tokens.filter(|found| found.value > 0) else { return };
    let Some(length) = imported.whole(keys::model::sequence_length).filter(|length| *length > 0) else { return };
    let context = imported.whole(keys::distribution::context_parallel).unwrap_or(1).max(1);
    let all = tokens.value.saturating_mul(context);
    let samples = all.div_ceil(length).max(1);
    let origin = Origin::Derived(format!("{}: {all} tokens a pass / {length}", tokens.origin));
    imported.say(keys::training::micro_batch_size, samples, origin);
    if all > length && !all.is_multiple_of(length) {
        imported.note(format!(
            "a pass holds up to {all} tokens: {samples} samples of {length} at the most, the last counted whole"
        ));
    }
    imported.packed = true;
}

/// A frozen model beside the policy, by its name: its parameters where the catalogue knows it, else what is not modelled.
pub fn frozen(imported: &mut ImportedPlan, context: &ImportContext, named: &Setting<String>, what: &str) {
    let preset = model::preset(context, &named.value).or_else(|| {
        let held = model::held(context, &named.value)?;
        imported.note(format!("{what} {}: taken as {held}, which its name holds", named.value));
        Some(held)
    });
    let known = preset.and_then(|preset| context.catalog.model(&preset)).map(|model| model.params);
    let Some(parameters) = known.or_else(|| vision::parameters(context, &named.value)) else {
        return not_modelled(imported, &format!("{what} {}: not in the catalogue", named.value));
    };
    let before = imported.get(keys::training::frozen_models_billions).and_then(|found| found.value.as_f64());
    let billions = before.unwrap_or(0.0) + parameters as f64 / 1e9;
    let origin = Origin::Derived(format!("{}: {what} {}", named.origin, named.value));
    imported.say(keys::training::frozen_models_billions, billions, origin);
}

/// A sample is a prompt with its answer.
fn lengths(imported: &mut ImportedPlan, settings: &Settings) {
    let both = settings.whole("max_prompt_length").zip(settings.whole("max_completion_length"));
    if let Some((prompt, answer)) = both {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
}

/// `--vllm_device auto` of ms-swift before 3.5: vLLM takes the last GPUs in sight, one for each of `num_infer_workers`,
/// which train as well only where processes are as many (`swift/trainers/rlhf_trainer/grpo_trainer.py`, `__init__`).
pub fn devices_of_its_own(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(found) = settings.text("vllm_device") else { return };
    if !settings.is("use_vllm") || settings.holds("vllm_mode") {
        return;
    }
    let workers = settings.whole("num_infer_workers").map_or(1, |found| found.value);
    let training = imported.whole(keys::cluster::gpus_per_node);
    let seen = context.visible_gpus().map(|gpus| gpus.value);
    if found.value == "auto" && training == Some(workers) && seen == training {
        return;
    }
    imported.drop(keys::training::generation_memory);
    imported.drop(keys::training::generation_beside);
    match training.zip(seen) {
        Some((training, seen)) if found.value == "auto" && seen >= training.saturating_add(workers) => {
            imported.note(format!(
                "{}: vLLM answers on the last {workers} of {seen} GPUs in sight, on none of the {training} that train",
                found.origin
            ));
        }
        _ => not_modelled(imported, &format!("{} {}: vLLM, and which GPUs it takes", found.origin, found.value)),
    }
}

/// A trainer of transformers' kind that generates answers: TRL's `GRPOConfig`, ms-swift's `RLHFArguments`.
pub struct TrainerRollout {
    /// Weight of the divergence from the reference where nobody says it.
    pub beta: f64,
    /// Part of the memory of vLLM in the training processes where nobody says it.
    pub share: f64,
    /// The name of the switch that lets vLLM sleep.
    pub sleeps: &'static str,
    /// Whether vLLM is in the training processes where `vllm_mode` is absent; none where versions differ.
    pub colocated: Option<bool>,
}

/// TRL 1.0, `trl/trainer/grpo_config.py`; before 0.24 or so the mode was `server`.
pub const TRL: TrainerRollout =
    TrainerRollout { beta: 0.0, share: 0.3, sleeps: "vllm_enable_sleep_mode", colocated: None };

/// ms-swift 4, `swift/rlhf_trainers/args_mixin.py` and `swift/arguments/rlhf_args.py`, `_init_grpo` (`beta` 0.04).
pub const SWIFT: TrainerRollout =
    TrainerRollout { beta: 0.04, share: 0.9, sleeps: "sleep_level", colocated: Some(true) };

/// What a script that makes TRL's `GRPOConfig` holds beside the policy. Before 0.19 there was a reference where nobody
/// said `beta`; without a version that stays open.
pub fn of_script(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let known = ["trl", "transformers"].iter().any(|library| context.run.versions.contains_key(*library));
    let adapters = imported.get(keys::lora::rank).is_some();
    TRL.apply(imported, settings, context);
    if !known && !adapters && settings.get("beta").is_none() {
        not_modelled(imported, "a reference model beside, where TRL is older than 0.19 (beta 0.04)");
    }
    for name in ["num_generations", "max_completion_length", "max_prompt_length"] {
        settings.accept(name);
    }
}

impl TrainerRollout {
    /// Says what is held beside the policy.
    pub fn apply(&self, imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
        // Versions whose vLLM has a device hold a reference by default (TRL 0.14 and 0.15, `grpo_config.py`: beta 0.04).
        let usual = if settings.is("use_vllm") && self.device(settings).is_some() { SWIFT.beta } else { self.beta };
        let beta = settings.number("beta").map_or(usual, |found| found.value);
        if beta > 0.0 {
            imported.say(keys::training::reference_model, true, Origin::Derived(format!("beta {beta}: a reference")));
        }
        if let Some(found) = settings.first_text(&["reward_model", "reward_model_name_or_path", "reward_model_path"]) {
            frozen(imported, context, &found, "the reward model");
        }
        lengths(imported, settings);
        self.generation(imported, settings);
        self.accept(settings);
    }

    /// Says of the names that `apply` asks for that they are read; vLLM's device is where `generation` knows what it is.
    pub fn accept(&self, settings: &Settings) {
        for name in [
            "beta",
            "use_vllm",
            "vllm_mode",
            "vllm_gpu_memory_utilization",
            "reward_model",
            "reward_model_name_or_path",
            self.sleeps,
        ] {
            settings.accept(name);
        }
        if self.device(settings).is_some() || !settings.is("use_vllm") {
            settings.accept("vllm_device");
        }
    }

    /// TRL 0.14 and 0.15 (`grpo_trainer.py`, `__init__`): vLLM has a device of its own, by default the first behind those
    /// of the processes that train.
    fn device(&self, settings: &Settings) -> Option<Setting<String>> {
        let named = |found: &Setting<String>| found.value == "auto" || found.value.starts_with("cuda:");
        let device = settings.text("vllm_device").filter(named);
        device.filter(|_| settings.text("vllm_mode").is_none() && self.colocated.is_none())
    }

    /// Says what generates the answers.
    pub fn generation(&self, imported: &mut ImportedPlan, settings: &Settings) {
        if !settings.is("use_vllm") {
            // What would be said to vLLM.
            for name in ["vllm_device", "vllm_gpu_memory_utilization", "vllm_max_model_len"] {
                settings.accept(name);
            }
            imported.note("the model generates its answers itself between the updates: that is not counted");
            return;
        }
        let mode = settings.text("vllm_mode");
        let told = mode.as_ref().map(|found| found.value == "colocate");
        let server = settings.holds("vllm_server_host") || settings.holds("vllm_server_base_url");
        if let Some(found) = self.device(settings) {
            for name in ["vllm_device", "vllm_gpu_memory_utilization", "vllm_max_model_len"] {
                settings.accept(name);
            }
            let said = match found.value.as_str() {
                "auto" => "the first GPU behind those that train".to_owned(),
                device => {
                    format!("{device}, where nothing trains if its number is not below that of the node's processes")
                }
            };
            return imported.note(format!("{}: vLLM answers on {said}", found.origin));
        }
        match told.or(if server { Some(false) } else { self.colocated }) {
            Some(true) => {
                let usual = || Setting::new(self.share, Origin::Derived("vllm_gpu_memory_utilization".to_owned()));
                let share = settings.number("vllm_gpu_memory_utilization").unwrap_or_else(usual);
                let asleep =
                    settings.is(self.sleeps) || settings.whole(self.sleeps).is_some_and(|level| level.value > 0);
                let moved = settings.is("offload_model") && settings.is("offload_optimizer");
                let word = match (asleep, moved) {
                    (false, _) => "step",
                    (true, true) => "nothing",
                    (true, false) => "states",
                };
                let origin = Origin::Derived(format!("{} {asleep}", self.sleeps));
                engine(imported, Some(share), Setting::new(word, origin));
            }
            Some(false) => imported.note("vLLM answers as a server of its own: its GPUs are not the plan's"),
            None => not_modelled(imported, "vLLM: beside the training or on GPUs of its own (vllm_mode is not said)"),
        }
        for name in ["offload_model", "offload_optimizer"] {
            settings.accept(name);
        }
    }
}
