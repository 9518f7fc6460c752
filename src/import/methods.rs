//! Ways of training beside plain fine-tuning: how many sequences a sample is, and what is held beside the model.
//! TRL's trainers at f2cd5771 (`dpo_trainer.py`, `kto_trainer.py`, `cpo_trainer.py`, `orpo_trainer.py`,
//! `reward_trainer.py`, `grpo_trainer.py`); ms-swift, LLaMA-Factory, OpenRLHF and axolotl run theirs or do as they do.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::Origin;
use super::rollout;
use super::rows::not_modelled;
use super::settings::Settings;
use super::versions::{self, NEWEST};
use crate::plan::keys;

/// A way of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingMethod {
    /// Direct preference optimization: chosen and rejected in one pass, a reference beside.
    Dpo,
    /// Kahneman-Tversky optimization: single answers, a reference beside.
    Kto,
    /// Chosen and rejected in one pass without a reference: ORPO, `SimPO`, CPO.
    Pairs,
    /// Group relative policy optimization and its kin: answers are generated.
    Grpo,
    /// Proximal policy optimization: critic, reward model, reference, generation.
    Ppo,
    /// A reward model: chosen and rejected, a head of one value.
    Reward,
    /// A student with its teacher.
    Distillation,
}

/// Parts of names of scripts, folders and options, and the method that they name. The first that fits counts.
const NAMES: &[(&str, TrainingMethod)] = &[
    ("simpo", TrainingMethod::Pairs),
    ("orpo", TrainingMethod::Pairs),
    ("cpo", TrainingMethod::Pairs),
    ("kto", TrainingMethod::Kto),
    ("bco", TrainingMethod::Kto),
    ("dpo", TrainingMethod::Dpo),
    ("grpo", TrainingMethod::Grpo),
    ("rloo", TrainingMethod::Grpo),
    ("reinforce", TrainingMethod::Grpo),
    ("ppo", TrainingMethod::Ppo),
    ("reward", TrainingMethod::Reward),
    ("train_rm", TrainingMethod::Reward),
    ("run_rm", TrainingMethod::Reward),
    ("distill", TrainingMethod::Distillation),
    ("gkd", TrainingMethod::Distillation),
];

impl TrainingMethod {
    /// The method that a name tells.
    pub fn of_name(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        if lower == "rm" {
            return Some(Self::Reward);
        }
        // Of short names a word of its own: `support` is no PPO.
        let words: Vec<&str> = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
        let tells = |part: &str| if part.len() <= 3 { words.contains(&part) } else { lower.contains(part) };
        let found = NAMES.iter().find(|(part, _)| tells(part)).map(|(_, method)| *method);
        // Fine-tuning on answers of another model has no teacher beside (open-r1, `sft/config_distill.yaml`).
        let found = found.filter(|method| *method != Self::Distillation || !words.contains(&"sft"));
        // `dpov2_train.py`
        found.or_else(|| words.iter().any(|word| word.starts_with("dpo")).then_some(Self::Dpo))
    }

    /// The method that the keys of a file tell, whose path may name it.
    pub fn of_settings(settings: &Settings, path: &str) -> Option<Self> {
        let beta = settings.holds("beta") || settings.holds("dpo_beta");
        let prompts = ["max_prompt_length", "loss_type", "dpo_loss_type"].iter().any(|name| settings.holds(name));
        if settings.holds("num_generations") || settings.holds("max_completion_length") {
            return Some(Self::Grpo);
        }
        let kind = settings.text("loss_type").and_then(|found| Self::of_name(&found.value));
        kind.or_else(|| settings.holds("gamma_beta_ratio").then_some(Self::Pairs))
            .or_else(|| Self::of_name(path))
            .or_else(|| (beta && prompts).then_some(Self::Dpo))
    }

    /// The method of a script whose name tells none, by what its text imports or makes (DeepSpeed-Chat's `main.py`).
    pub fn of_script(text: &str) -> Option<Self> {
        const TRAINERS: [(&str, TrainingMethod); 8] = [
            ("DPOTrainer(", TrainingMethod::Dpo),
            ("KTOTrainer(", TrainingMethod::Kto),
            ("ORPOTrainer(", TrainingMethod::Pairs),
            ("CPOTrainer(", TrainingMethod::Pairs),
            ("GRPOTrainer(", TrainingMethod::Grpo),
            ("PPOTrainer(", TrainingMethod::Ppo),
            ("RewardTrainer(", TrainingMethod::Reward),
            ("GKDTrainer(", TrainingMethod::Distillation),
        ];
        let has = |part: &str| text.contains(part);
        let made: Vec<TrainingMethod> =
            TRAINERS.iter().filter(|(part, _)| has(part)).map(|(_, method)| *method).collect();
        // Of a project's modules those for other methods may be among what was read.
        let supervised =
            text.lines().any(|line| line.contains("SFTTrainer(") && !line.trim_start().starts_with("class "));
        if supervised && made.is_empty() {
            return None;
        }
        // A script of several trains by one that is not told here.
        // One that makes a plain Trainer too, as a task's name decides, does so.
        let plain = text.lines().any(|line| {
            let made = ["SFTTrainer(", " Trainer(", "=Trainer("].iter().any(|part| line.contains(part));
            made && !["class ", "#", "from ", "import "].iter().any(|start| line.trim_start().starts_with(start))
        });
        match made.as_slice() {
            [] => {}
            [only] if !plain => return Some(*only),
            _ => return None,
        }
        if has("chosen") && has("rejected") && has("AutoModelForSequenceClassification") {
            Some(Self::Reward)
        } else if has("chosen") && has("ref_model") {
            Some(Self::Dpo)
        } else if has("create_critic_model(") {
            Some(Self::Reward)
        } else {
            None
        }
    }

    /// A fused loss stands in the model's own forward pass, where labels are given. A method that takes log-probabilities
    /// from the logits gives none (LLaMA-Factory, `model/loader.py`: `require_logits`; TRL before 0.25, ms-swift,
    /// axolotl: `dpo_trainer.py`). Losses over generated answers and of a teacher's have kernels of their own.
    fn keep_all_logits(self, imported: &mut ImportedPlan) {
        if !matches!(self, Self::Grpo | Self::Distillation) {
            drop_fused(imported);
        }
    }

    /// Whether the trainer of TRL has a fused loss for the method, by one name since 0.25 (pull request 4364).
    fn is_fused_by_trl(self, settings: &Settings, context: &ImportContext) -> bool {
        let named = matches!(self, Self::Dpo | Self::Kto | Self::Grpo);
        let since = || versions::of(&context.run.versions, "trl").and_then(|range| range.is_within((0, 25), NEWEST));
        named && (settings.is("use_liger_loss") || since().unwrap_or(true))
    }

    const fn takes_pairs(self) -> bool {
        matches!(self, Self::Dpo | Self::Pairs | Self::Reward)
    }

    /// Counts a pair as the two sequences that run together, and says what is held beside.
    pub fn apply(self, imported: &mut ImportedPlan) {
        self.keep_all_logits(imported);
        if self.takes_pairs() {
            double(imported, "training.micro_batch_size");
            double(imported, "model.batch_size");
        }
        // With adapters the base itself, adapters off, is the reference.
        let adapters = imported.get(keys::lora::rank).is_some();
        let beside = match self {
            Self::Dpo => return hold_reference(imported, adapters, "DPO: a reference model beside"),
            Self::Kto => {
                hold_reference(imported, adapters, "KTO: a reference model beside");
                // TRL runs it before the policy's (`kto_trainer.py`, `_compute_loss`), and so do those that run TRL's or
                // Megatron's; LLaMA-Factory behind it, beside what that keeps (`train/kto/trainer.py`).
                if imported.tool != "LLaMA-Factory" {
                    return imported.note("KTO: the pass without gradients for the KL term is not in the time");
                }
                "KTO: a second forward pass for the KL term"
            }
            Self::Pairs => return,
            Self::Grpo => "reinforcement: the reference model where beta is above 0, and what generates",
            Self::Ppo => "PPO: the reference, critic and reward models, and what generates",
            Self::Reward => {
                // Megatron's heads are its own.
                let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
                if !core {
                    let why = "reward model: a head of one value in place of the vocabulary's";
                    return imported.say(keys::model::classes, 1, Origin::Derived(why.to_owned()));
                }
                "reward model: a head of one value in place of the vocabulary's"
            }
            Self::Distillation => "distillation: the teacher beside, and what generates",
        };
        not_modelled(imported, beside);
    }
}

/// Takes out a fused loss that stands in the model's own forward pass and is not run.
fn drop_fused(imported: &mut ImportedPlan) {
    let fused = imported.get(keys::training::loss).filter(|found| found.value == "fused").cloned();
    if let Some(found) = fused {
        imported.drop(keys::training::loss);
        let origin = found.origin;
        imported.note(format!("{origin}: the model's fused loss, which this method does not run: it keeps all logits"));
    }
}

/// A frozen copy of the model beside it; with adapters the base itself, adapters off, is the reference.
fn hold_reference(imported: &mut ImportedPlan, adapters: bool, why: &str) {
    imported.say(keys::training::reference_model, true, Origin::Derived(why.to_owned()));
    match adapters {
        false => imported.note(format!("{why}, which is counted")),
        true => imported
            .note("the base without its adapters is the reference: each sample is read once more, no copy is held"),
    }
}

/// Whether TRL's trainer generates the answers: engines that Ray places have names of their own (open-instruct,
/// `grpo_fast.py`).
fn generates(method: TrainingMethod, settings: &Settings, context: &ImportContext) -> bool {
    let placed = settings.holds("vllm_num_engines") || settings.holds("num_learners_per_node");
    method == TrainingMethod::Grpo && !placed && context.program.name() != "grpo_fast.py"
}

/// Says of settings that `of_trainer` asks for later that they are read.
pub fn accept_names(method: Option<TrainingMethod>, settings: &Settings, context: &ImportContext) {
    if method.is_some_and(|method| generates(method, settings, context)) {
        rollout::TRL.accept(settings);
    }
}

/// What a method of a script on the Trainer holds beside the model, TRL's names for it.
pub fn of_trainer(method: TrainingMethod, imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    if generates(method, settings, context) {
        if !method.is_fused_by_trl(settings, context) {
            drop_fused(imported);
        }
        return rollout::TRL.apply(imported, settings, context);
    }
    let fused = imported.get(keys::training::loss).filter(|found| found.value == "fused").cloned();
    // open-instruct's own loop gives no labels either.
    let own = context.program.name() == "dpo_tune_cache.py";
    let fused = fused.filter(|_| !own && method.is_fused_by_trl(settings, context));
    if fused.is_some() {
        imported.drop(keys::training::loss);
    }
    method.apply(imported);
    if let Some(found) = fused {
        imported.say(keys::training::loss, found.value, found.origin);
    }
    without_reference(imported, settings);
    // The model itself makes the reference's log-probabilities before it trains (open-instruct, `dpo_tune_cache.py`).
    let cached = context.program.name() == "dpo_tune_cache.py";
    if cached && imported.get(keys::training::reference_model).is_some() {
        imported.drop(keys::training::reference_model);
        imported.notes.retain(|line| !line.contains("which is counted") && !line.contains("no copy is held"));
        imported.note("the reference's log-probabilities are kept from before: no reference is held");
    }
}

/// No reference is held where its log-probabilities are made before, or where the loss has none
/// (TRL, `trainer/dpo_config.py`).
pub fn without_reference(imported: &mut ImportedPlan, settings: &Settings) {
    let spared = ["precompute_ref_log_probs", "reference_free"].iter().any(|name| settings.is(name));
    if spared && imported.get(keys::training::reference_model).is_some() {
        imported.drop(keys::training::reference_model);
    }
}

/// The reference's weights lie on the host and take the policy's place, parameter by parameter, for their pass (NeMo-RL,
/// `dtensor_policy_worker.py`, `use_reference_model`; NeMo-Aligner, `megatron_gpt_dpo_model.py`, `get_ref_policy_logprobs`).
pub fn reference_on_host(imported: &mut ImportedPlan) {
    if imported.get(keys::training::reference_model).is_some() {
        imported.drop(keys::training::reference_model);
        imported.notes.retain(|line| !line.ends_with("a reference model beside, which is counted"));
        imported.note(ON_HOST);
    }
}

/// What is said of such a reference.
pub const ON_HOST: &str =
    "the reference's weights lie on the host and take the policy's place for a pass, which is not in the time";

/// Twice as many samples as `key` says, unless it follows from others.
fn double(imported: &mut ImportedPlan, key: &'static str) {
    let Some(found) = imported.get(key).cloned() else { return };
    if let (Some(pairs), false) = (found.value.as_u64(), matches!(found.origin, Origin::Derived(_))) {
        let origin = Origin::Derived(format!("{}: {pairs} pairs of chosen and rejected", found.origin));
        imported.say(key, pairs.saturating_mul(2), origin);
    }
}

/// A loss of the Trainer's own takes the labels away from the model, whose fused loss then does not run (`transformers/
/// trainer.py`, `compute_loss`: `labels = inputs.pop("labels")`; LLaMA-Factory's `train/sft/trainer.py`).
fn own_loss(imported: &mut ImportedPlan, settings: &Settings) {
    const SWITCHES: [&str; 3] = ["use_dft_loss", "use_asft_loss", "use_eaft_loss"];
    let smoothed = settings.number("label_smoothing_factor").filter(|found| found.value > 0.0);
    if let Some(found) = &smoothed {
        not_modelled(imported, &format!("{}: smoothing keeps a log-softmax of all logits", found.origin));
    }
    if smoothed.is_some() || SWITCHES.iter().any(|name| settings.is(name)) {
        drop_fused(imported);
    }
}

/// Says what prediction does not follow of options that many tools share: kinds of adapters, offloading of activations.
pub fn options(imported: &mut ImportedPlan, settings: &Settings) {
    own_loss(imported, settings);
    const ADAPTERS: &[(&str, &str)] = &[
        ("use_dora", "DoRA: a magnitude for each output and the norm of each adapted weight"),
        ("peft_use_dora", "DoRA: a magnitude for each output and the norm of each adapted weight"),
        ("lora_dora", "DoRA: a magnitude for each output and the norm of each adapted weight"),
        ("use_adalora", "AdaLoRA: ranks that shrink from init_r to target_r, and singular values beside"),
        ("use_vera", "VeRA: shared random matrices in place of LoRA's"),
        ("use_oft", "OFT: rotations in place of LoRA's matrices"),
        ("use_qat", "quantisation-aware training: fake-quantised copies of weights and activations"),
    ];
    for (name, what) in ADAPTERS {
        if settings.is(name) {
            not_modelled(imported, what);
        }
    }
    let offloaded = ["activation_offloading", "enable_activation_offloading"].iter().find(|name| settings.is(name));
    if let Some(name) = offloaded {
        let none = imported.get(keys::training::activation_checkpointing).is_none_or(|found| found.value == "none");
        match settings.on(name).filter(|_| none && imported.get(keys::training::cpu_offload).is_none()) {
            Some(found) => imported.say(keys::training::cpu_offload, "activations", found.origin),
            None => not_modelled(imported, "activation offloading beside recomputation: kept inputs go to the host"),
        }
    }
    // What a pass holds is counted at the full length either way.
    for name in ["packing", "padding_free", "sample_packing", "neat_packing", "use_rslora", "group_by_length"] {
        settings.accept(name);
    }
}

#[cfg(test)]
mod tests {
    use super::TrainingMethod;

    #[test]
    fn names_tell_a_method() {
        for (name, method) in [
            ("dpo_training.py", Some(TrainingMethod::Dpo)),
            ("recipes/zephyr-141b-A35b/orpo/config_full.yaml", Some(TrainingMethod::Pairs)),
            ("llama-3-8b-instruct-simpo-v2.yaml", Some(TrainingMethod::Pairs)),
            ("reward_modeling.py", Some(TrainingMethod::Reward)),
            ("rm", Some(TrainingMethod::Reward)),
            ("sft.py", None),
            ("support/dpo/config.yaml", Some(TrainingMethod::Dpo)),
            ("support_tune.py", None),
        ] {
            assert_eq!(TrainingMethod::of_name(name), method, "{name}");
        }
    }
}
