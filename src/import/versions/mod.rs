//! What differs by the version of a library: that of the run's own environment, or what a requirements file beside a
//! launch file states.

mod calls;
mod of_run;
mod range;
mod requirements;
mod tables;

use std::collections::BTreeMap;

use super::adapters;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::settings::Settings;
use super::trainer::reentrant;
use crate::plan::keys;

pub use calls::narrowed;
pub use range::{NEWEST, Version, VersionRange};
pub use requirements::beside;
use tables::{ADAPTERS_IN_FP32, EXPERTS_IN_ONE, FOREACH, TF32};
pub use tables::{FSDP_UPCASTS, NLL_IN_PARTS, TRAINER, TRL, TRL_GROUPS, TRL_PAIRS, TRL_SFT, VersionedDefault};

/// The versions that a library has here; none where nobody says.
pub fn of(versions: &BTreeMap<String, String>, library: &str) -> Option<VersionRange> {
    versions.get(library).and_then(|text| VersionRange::parse(text))
}

/// Sets the defaults of the versions that run over those of the tables, where nobody says the setting. Versions that a
/// requirement leaves open, and that differ in one, are noted.
pub fn apply(
    rows: &[VersionedDefault],
    versions: &BTreeMap<String, String>,
    settings: &mut Settings,
    imported: &mut ImportedPlan,
) {
    // A default of the script's own arguments goes over the library's, whichever version that has.
    let told = |settings: &Settings, name: &str| {
        const OWN: [&str; 4] = ["the script", "LLaMA-Factory v1", "LLaVA 1.2", "LLaVA's train_mem.py"];
        let own = |found: &Setting<serde_json::Value>| matches!(found.origin, Origin::Default { framework, .. } if OWN.contains(&framework));
        settings.is_set(name) || settings.get(name).is_some_and(own)
    };
    let mut open: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(range) = of(versions, row.library).filter(|_| !told(settings, row.name)) else { continue };
        match range.is_within(row.since, row.until) {
            Some(true) => {
                settings.over(Settings::defaults(row.label, &[(row.name, row.value)]));
            }
            Some(false) => {}
            // Of several that it may be the newest counts; the others are noted.
            None => {
                let mut label = row.label.to_owned();
                if range.below <= row.until && range.below > row.since {
                    settings.over(Settings::defaults(row.label, &[(row.name, row.value)]));
                    label += ", which is taken";
                }
                let stated = versions.get(row.library).map_or("", String::as_str);
                let what = format!("{} {stated}: `{}` differs among these", row.library, row.name);
                match open.iter_mut().find(|(told, _)| *told == what) {
                    Some((_, labels)) => labels.push(label),
                    None => open.push((what, vec![label])),
                }
            }
        }
    }
    for (what, labels) in open {
        imported.note(format!("{what} ({})", labels.join("; ")));
    }
}

/// Takes out what is said of settings that differ among versions, where the plan has no use for them: of FSDP without it, of
/// checkpoints without any, of an optimizer that an engine puts another in place of.
fn pass_over(imported: &mut ImportedPlan) {
    let is = |key: &str, word: &str| imported.get(key).is_some_and(|found| found.value.to_string().contains(word));
    let fsdp = is(keys::distribution::engine, "fsdp") || imported.get(keys::distribution::engine).is_none();
    let kept = is(keys::training::activation_checkpointing, "none");
    let offloaded = is(keys::training::cpu_offload, "optimizer") || is(keys::training::cpu_offload, "parameters");
    let told = |key: &str| imported.get(key).is_some_and(|found| !matches!(found.origin, Origin::Default { .. }));
    let optimizer = offloaded || told(keys::training::optimizer);
    let attention = told(keys::training::attention);
    imported.notes.retain(|line| {
        let of = |name: &str| line.contains(&format!(": `{name}` differs among these"));
        !(of("fsdp_config.version") && !fsdp
            || of("gradient_checkpointing_kwargs.use_reentrant") && kept
            || of("optim") && optimizer
            || of("attn_implementation") && attention)
    });
}

/// What PyTorch's own version changes of a plan that is complete, whoever made it.
pub fn finish(imported: &mut ImportedPlan, versions: &BTreeMap<String, String>) {
    pass_over(imported);
    let within = |library: &str, since, until| of(versions, library).and_then(|range| range.is_within(since, until));
    let value = |imported: &ImportedPlan, key: &str| {
        imported.get(key).and_then(|found| found.value.as_str().map(str::to_owned))
    };
    if within("torch", (0, 0), FOREACH) == Some(true) {
        if value(imported, keys::training::optimizer).as_deref() == Some("adamw") {
            let option = "AdamW(foreach=None), a loop".to_owned();
            imported.say(
                keys::training::optimizer,
                "adamw-loop",
                Origin::Default { framework: "PyTorch before 2.0", option },
            );
        }
        // Of several passes the later ones find gradients there whatever the step began with; adapters have few.
        let passes = imported.whole(keys::training::gradient_accumulation_steps).is_some_and(|steps| steps > 1);
        let few = passes || imported.get(keys::lora::rank).is_some();
        let ddp = value(imported, keys::distribution::engine).as_deref() == Some("ddp");
        if imported.tool == "transformers" && ddp && !few {
            imported.note("not modelled: PyTorch before 2.0 keeps gradients between steps (zero_grad writes zeros)");
        }
    }
    if within("torch", TF32[0], TF32[1]) == Some(true)
        && value(imported, keys::training::precision).as_deref() == Some("fp32")
    {
        let option = "torch.backends.cuda.matmul.allow_tf32 on".to_owned();
        imported.say(keys::training::precision, "tf32", Origin::Default { framework: "PyTorch 1.7 to 1.11", option });
    }
    let half =
        value(imported, keys::training::precision).filter(|word| !word.contains("32") && !word.contains("mixed"));
    // Beside quantised weights they stay as they are made, in fp32 (peft 0.11, `tuners/lora/layer.py`, `update_layer`: moved
    // "if weight.dtype.is_floating_point").
    let adapted = imported.get(keys::lora::rank).is_some() && imported.get(keys::lora::base_bits).is_none();
    let half = half.filter(|_| adapted && imported.get(keys::lora::dtype).is_none());
    if let Some(word) = half.filter(|_| within("peft", (0, 0), ADAPTERS_IN_FP32) == Some(true)) {
        // Other tools raise them themselves, or may.
        if imported.tool == "transformers" {
            let option = "adapters in the weights' own type".to_owned();
            imported.say(keys::lora::dtype, word, Origin::Default { framework: "peft before 0.12", option });
        } else {
            imported.note("not modelled: peft before 0.12 keeps adapters in the weights' own type; counted in fp32");
        }
    }
    if within("transformers", EXPERTS_IN_ONE, (u64::MAX, 0)) == Some(true) {
        adapters_of_experts(imported);
    }
    eight_bits_of_embeddings(imported);
    let enabled = imported
        .get(keys::training::activation_checkpointing)
        .is_some_and(|found| found.origin.to_string().contains("gradient_checkpointing_enable"));
    if enabled && imported.get(keys::training::use_reentrant).is_none() {
        reentrant::of_transformers(imported, versions);
    }
}

/// The Trainer registers every embedding for states of 32 bits where bitsandbytes' optimizer has those of 8 (`trainer.py`,
/// `create_optimizer`: `register_module_override`); a loop of one's own makes the optimizer without it. DeepSpeed steps flat
/// tensors, which no module's registration is found for (bitsandbytes, `optim/optimizer.py`, `check_overrides`).
fn eight_bits_of_embeddings(imported: &mut ImportedPlan) {
    const TRAINERS: [&str; 4] = ["transformers", "axolotl", "LLaMA-Factory", "ms-swift"];
    let told = imported.get(keys::training::optimizer).filter(|found| found.value == "adamw-8bit");
    let by_trainer = told.is_some_and(|found| !matches!(found.origin, Origin::Program(_)));
    if !by_trainer || !TRAINERS.contains(&imported.tool.as_str()) || imported.get(keys::lora::rank).is_some() {
        return;
    }
    let is = |key: &str, word: &str| imported.get(key).is_some_and(|found| found.value == word);
    if is(keys::distribution::sharding, "none") {
        let option = "states of embeddings in fp32 beside 8 bits".to_owned();
        let origin = Origin::Default { framework: "transformers", option };
        return imported.say(keys::training::embedding_states_fp32, true, origin);
    }
    if !is(keys::distribution::engine, "deepspeed") {
        imported.note(
            "not modelled: the Trainer keeps 8-bit states of embeddings in fp32, 6 B more for each of their parameters",
        );
    }
}

/// transformers keeps the experts of a layer in one parameter each way since its fifth version (`models/qwen2_moe/
/// modeling_qwen2_moe.py`, `Qwen2MoeExperts`): peft's adapters of linear layers do not reach them.
pub fn adapters_of_experts(imported: &mut ImportedPlan) {
    // NeMo-Automodel looks for linear layers as peft does (`components/_peft/module_matcher.py`).
    const BY_PEFT: [&str; 7] =
        ["axolotl", "LLaMA-Factory", "transformers", "ms-swift", "Oumi", "NeMo-Automodel", "NeMo-RL"];
    let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    if !BY_PEFT.contains(&imported.tool.as_str()) || core {
        return;
    }
    adapters::leave_experts(imported);
    if adapters::reach_experts(imported, &adapters::OF_LAYERS) {
        imported.note(
            "not modelled: transformers 5 keeps experts in parameters that adapters of linear layers do not reach; adapters in \
             every expert are counted",
        );
    }
}
