//! Liger's kernels in the place of transformers' modules (Liger-Kernel 0.8.2, `transformers/monkey_patch.py`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::script_defaults::script_of;
use super::script_modules::project_text;
use super::settings::Settings;
use crate::plan::keys;

/// What stands in for a kind of model that Liger knows (`apply_liger_kernel_to_*`, the defaults of its arguments).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KindKernels {
    /// Kernels by the plan's words.
    modules: &'static [&'static str],
    /// The loss without logits.
    fused_loss: bool,
}

const ALL: &[&str] = &["rms_norm", "rope", "glu"];

/// What Liger has for a kind of model; none: nothing (`MODEL_TYPE_TO_APPLY_LIGER_FN`).
fn of_kind(kind: &str) -> Option<KindKernels> {
    let (modules, fused_loss) = match kind {
        "llama" | "smollm3" | "ministral" | "mistral" | "mixtral" | "gemma" | "gemma2" | "gemma3_text" | "gemma3"
        | "qwen2" | "qwen3" | "qwen3_moe" | "phi3" | "olmo2" | "olmo3" | "llava" | "internvl" | "qwen2_vl"
        | "qwen2_5_vl" | "qwen3_vl_moe" | "mllama" | "llama4" | "paligemma" => (ALL, true),
        "granite" => (ALL, false),
        "gpt_oss" | "qwen3_vl" => (&ALL[..2], true),
        "pixtral" => (ALL, false),
        "glm4" | "glm4v" | "qwen3_next" | "qwen3_5" | "qwen3_5_text" | "qwen3_5_moe" | "qwen3_5_moe_text" => {
            (&["rms_norm", "glu"][..], true)
        }
        "nemotron" => (&[][..], true),
        _ => return None,
    };
    Some(KindKernels { modules, fused_loss })
}

/// All kernels that Liger has for the model, which a setting switches on together; [`fit`] takes out what its kind lacks.
pub fn apply(imported: &mut ImportedPlan, found: &Setting<bool>) {
    if found.value {
        imported.set(keys::training::liger_kernels, Some(found.clone().map(|_| ALL.to_vec())));
    }
}

/// The same, but for a script that has a switch `use_liger` of its own, whose kernels it puts in itself.
pub fn of_script(imported: &mut ImportedPlan, found: &Setting<bool>, context: &ImportContext) {
    let text = script_of(context).map(|(path, text)| project_text(context, &path, &text)).unwrap_or_default();
    let own = ["use_liger:", "--use_liger\""].iter().any(|part| text.contains(part));
    match own && found.value && !puts_in_all(&text) {
        true => {
            not_modelled(imported, &format!("{}: which of Liger's kernels the script itself puts in", found.origin))
        }
        false => apply(imported, found),
    }
}

/// Whether a script has Liger put in whatever it has for the model: its function of one kind without a word of which, or its
/// class. Of several kinds that it calls the model may be none.
fn puts_in_all(text: &str) -> bool {
    let bare = |rest: &str| {
        let given = rest.split_once('(').map_or("", |(_, inner)| inner);
        let given = given.split_once(')').map_or("", |(inner, _)| inner);
        given.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
    };
    let named =
        |rest: &str| rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
    let calls: Vec<&str> = text.split("apply_liger_kernel_to_").skip(1).collect();
    let kinds: BTreeSet<String> = calls.iter().copied().map(named).collect();
    let class = text.contains("AutoLigerKernelForCausalLM.from_pretrained(");
    (class || kinds.len() == 1) && kinds.len() < 2 && calls.into_iter().all(bare)
}

/// The same by a setting's name, where the loss takes logits and Liger's own is not run.
pub fn switched(imported: &mut ImportedPlan, settings: &Settings, name: &str) {
    if let Some(found) = settings.on(name) {
        apply(imported, &found);
    }
}

/// Takes out what Liger has not for the kind of model that the plan names.
pub fn fit(imported: &mut ImportedPlan, context: &ImportContext) {
    let Some(found) = imported.get(keys::training::liger_kernels).cloned() else { return };
    let kind = inline_kind(imported).or_else(|| preset_kind(imported, context));
    let Some(kind) = kind else { return };
    let theirs = of_kind(&kind);
    let fused = imported.get(keys::training::loss).filter(|loss| loss.value == "fused" && loss.origin == found.origin);
    if fused.is_some() && !theirs.is_some_and(|kernels| kernels.fused_loss) {
        imported.drop(keys::training::loss);
    }
    let told: Vec<&str> =
        found.value.as_array().map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default();
    let known = theirs.map_or(&[][..], |kernels| kernels.modules);
    let left: Vec<&str> = told.into_iter().filter(|name| known.contains(name)).collect();
    imported.drop(keys::training::liger_kernels);
    if theirs.is_none() {
        imported.note(format!("{}: Liger has no kernels for {kind}: none is counted", found.origin));
    } else if !left.is_empty() {
        let origin: Origin = found.origin;
        imported.say(keys::training::liger_kernels, left, origin);
    }
}

fn preset_kind(imported: &ImportedPlan, context: &ImportContext) -> Option<String> {
    let preset = imported.get(keys::model::preset)?.value.as_str()?;
    Some(context.catalog.model(preset)?.hf_config.get("model_type")?.as_str()?.to_owned())
}

fn inline_kind(imported: &ImportedPlan) -> Option<String> {
    Some(imported.get(keys::model::hf_config)?.value.get("model_type")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{of_kind, puts_in_all};

    #[test]
    fn a_call_without_a_word_puts_in_all() {
        assert!(puts_in_all("monkey_patch.apply_liger_kernel_to_qwen2_vl(\n    # cross_entropy=True,\n)"));
        assert!(!puts_in_all("apply_liger_kernel_to_llama(rope=False)") && !puts_in_all("import liger_kernel"));
        assert!(!puts_in_all("apply_liger_kernel_to_llama()\napply_liger_kernel_to_qwen2()"));
        assert!(puts_in_all("model = AutoLigerKernelForCausalLM.from_pretrained(name, use_cache=False)"));
    }

    /// What axolotl, LLaMA-Factory and the Trainer ask by name, and what has no such kernels.
    #[test]
    fn kinds_are_those_of_the_library() {
        assert!(of_kind("llama").is_some_and(|kernels| kernels.fused_loss && kernels.modules.len() == 3));
        assert!(of_kind("granite").is_some_and(|kernels| !kernels.fused_loss));
        assert!(of_kind("glm4").is_some_and(|kernels| !kernels.modules.contains(&"rope")));
        assert!(of_kind("gpt_oss").is_some_and(|kernels| !kernels.modules.contains(&"glu")));
        assert!(of_kind("gpt_neox").is_none() && of_kind("bloom").is_none());
    }
}
