//! Settings that no reader asked for and whose names say what they decide: a batch, a length, a precision, a degree.
//! A tool's own name for one of these is not known here, so it is said, and no default stands in for it.

use serde_json::Value;

use super::concept_table::{CONCEPTS, Concept, LENGTH, LONGEST};
use super::settings::{truth, whole};

/// Sections and purposes whose settings are none of the trained model's.
const ELSEWHERE: [&str; 39] = [
    // DeepSpeed's reading and writing of disks.
    "aio.",
    // `--ckpt-fully-parallel-load`: how a checkpoint is read and written.
    "fully_parallel",
    "eval",
    "valid",
    "test",
    "val_",
    "predict",
    "infer",
    "generat",
    "gen_",
    "rollout",
    "vllm",
    "sglang",
    "critic",
    "ref.",
    "ref_",
    "reward",
    "teacher",
    "preprocess",
    "cache",
    "caching",
    "save",
    "log_prob",
    "logprob",
    "logging",
    "wandb",
    "comet",
    "launcher",
    "benchmark",
    "profil",
    "convert",
    "export",
    "icl",
    "log_",
    "tensorboard",
    "group_by",
    "buffer",
    "pin_memory",
    "merge",
];

/// Sections of data, where a length is that of a sample all the same.
const DATA: [&str; 3] = ["data.", "dataset", "tokeniz"];

/// Names of the model that is trained, beside the ones that readers know; and of what is none.
const MODELS: [&str; 9] = [
    "model_name_or_path",
    "=model_path",
    "=base_model",
    "=model_name",
    "=model_id",
    "=pretrained_model",
    "=pretrained_model_path",
    "=base_model_path",
    "=llm_path",
];

/// Names of adapters; where the plan has a rank they are its details.
const ADAPTERS: [&str; 8] =
    ["lora", "peft", "=adapter", "use_adapter", "prefix_tuning", "prompt_tuning", "ia3", "dora"];
const DETAILS: [&str; 16] = [
    "alpha",
    "dropout",
    "bias",
    "path",
    "name",
    "weight",
    "dir",
    "_lr",
    "lr_",
    "target",
    "task_type",
    "merge",
    "scal",
    "init",
    "dtype",
    "modules",
];

/// What an unread setting decides by its name; none where it changes nothing, or where its name does not tell.
pub fn of(name: &str, value: &Value, adapted: bool) -> Option<&'static [&'static str]> {
    let lower = name.to_lowercase().replace('-', "_");
    let last = lower.rsplit('.').next().unwrap_or(&lower);
    let fits = |parts: &[&str]| {
        parts.iter().any(|part| part.strip_prefix('=').map_or_else(|| last.contains(part), |whole| last == whole))
    };
    let validates = last.ends_with("_val") || last.starts_with("llm_judge");
    if is_off(value) || validates || ELSEWHERE.iter().any(|part| lower.contains(part)) {
        return None;
    }
    let data = DATA.iter().any(|part| lower.contains(part));
    if fits(&MODELS) && !data && !lower.contains("adapter") && !lower.contains("peft") {
        return Some(&["model.preset", "model.hf_config", "model.size_billions"]);
    }
    // `--baseline lora`
    let word = value.as_str().map(str::to_lowercase).unwrap_or_default();
    if !adapted && !data && ["lora", "qlora", "dora", "adalora", "ia3", "vera"].contains(&word.as_str()) {
        return Some(&[]);
    }
    if !adapted && !data && fits(&ADAPTERS) && !DETAILS.iter().any(|part| last.contains(part)) {
        return Some(&[]);
    }
    // Adapters whose rank or places have the shortest of names.
    if !adapted && !data && (last == "target_modules" || (last == "rank" && whole(value).is_some_and(|rank| rank > 1)))
    {
        return Some(&[]);
    }
    const TYPES: [&str; 6] = ["fp32", "float32", "fp16", "float16", "bf16", "bfloat16"];
    if matches!(last, "data_type" | "datatype") && TYPES.contains(&word.as_str()) {
        return Some(&["training.precision"]);
    }
    let found =
        CONCEPTS.iter().find(|concept| fits(concept.parts) && !concept.others.iter().any(|part| lower.contains(part)));
    let found = found.filter(|concept| !data || (lower.contains('.') && concept.keys.contains(&LENGTH)));
    let number = whole(value);
    // More tokens than any sample has are those of the run.
    let fitting = |concept: &&Concept| number.is_none_or(|number| number > concept.idle && number < LONGEST);
    found.filter(fitting).map(|concept| concept.keys)
}

/// Whether an unread setting is a length by its name.
pub fn is_length(name: &str, value: &Value) -> bool {
    const PARTS: [&str; 9] = ["source", "summary", "response", "output", "answer", "target", "query", "global", "env"];
    let whole = !PARTS.iter().any(|part| name.to_lowercase().contains(part));
    whole && of(name, value, true).is_some_and(|keys| keys.contains(&LENGTH))
}

/// Whether a value says that there is none of it.
fn is_off(value: &Value) -> bool {
    let text = value.as_str().map(str::to_lowercase);
    let none =
        text.is_some_and(|text| matches!(text.trim(), "" | "none" | "null" | "no" | "auto" | "disabled" | "default"));
    let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty);
    none || empty || value.is_null() || truth(value) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::of;
    use serde_json::json;

    #[test]
    fn names_tell_what_they_decide() {
        for (name, value, told) in [
            ("acc_steps", json!("4"), true),
            ("activations_checkpoint_method", json!("uniform"), true),
            ("train.max_input_length", json!(2048), true),
            ("virtual_pipeline_model_parallel_size", json!(12), true),
            ("ulysses_degree", json!("2"), true),
            ("lora_enabled", json!("true"), true),
            ("lora_enabled", json!("false"), false),
            ("load_8bit", json!(true), true),
            ("rank", json!(64), true),
            ("rank", json!(0), false),
            ("target_modules", json!(["q_proj"]), true),
            ("data_type", json!("float32"), true),
            ("data_type", json!("chat"), false),
            ("eval_batch_size", json!(8), false),
            ("learning_rate", json!(1e-4), false),
            ("sequence_parallel_size", json!(1), false),
            ("fp8_amax_history_len", json!(1024), false),
            ("accumulate_allreduce_grads_in_fp32", json!(true), false),
            ("actor_rollout_ref.rollout.tensor_model_parallel_size", json!(4), false),
        ] {
            assert_eq!(of(name, &value, false).is_some(), told, "{name}");
        }
    }
}
