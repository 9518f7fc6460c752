//! Names of settings that were seen in launch files and change neither what is held nor the time of a step, or whose
//! effect another setting tells: kinds of losses, tokens, schedules of checkpoints, sizes of buckets. What has another
//! name and is on may change a plan.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::Value;

use crate::settings::text;

/// The names, each without the sections before it, in small letters and with underscores.
const NAMES: &str = include_str!("inert_names.txt");

/// Whether a setting of that name changes nothing of a plan.
pub fn is_inert(name: &str) -> bool {
    static ALL: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let all = ALL.get_or_init(|| NAMES.lines().collect());
    if let Some(section) = section_that_tells(name) {
        return is_inert(section);
    }
    let last = name.rsplit('.').next().unwrap_or(name).trim_start_matches(['-', '+']);
    all.contains(last.to_lowercase().replace('-', "_").as_str())
}

/// The section of a setting whose own name says nothing: what `enabled` turns on is that section's.
pub fn section_that_tells(name: &str) -> Option<&str> {
    const SAYING_NOTHING: [&str; 4] = ["enable", "enabled", "mode", "type"];
    let (section, last) = name.rsplit_once('.')?;
    SAYING_NOTHING.contains(&last).then_some(section)
}

/// Settings that state what happens anyway where they have that value, and decide something with another one: one node,
/// the wrapping block by block that sharding is counted with, one picture a sample.
const USUAL: [(&str, &[&str]); 17] = [
    ("mode", &["default"]),
    ("num_nodes", &["1"]),
    ("n_nodes", &["1"]),
    ("nnodes", &["1"]),
    ("gpu_ids", &["all"]),
    ("wrapping_strategy", &["by_block", "by_block_and_size"]),
    ("fsdp_auto_wrap_policy", &["transformer_based_wrap"]),
    ("auto_wrap_policy", &["transformer_based_wrap"]),
    ("pipeline_dtype", &["bfloat16", "bf16", "torch.bfloat16"]),
    ("image_aspect_ratio", &["pad", "square"]),
    ("model_dtype", &["fp32", "float32"]),
    ("tp_recompute_allgather", &["true"]),
    ("batching_strategy", &["normal"]),
    ("cp_mode", &["ulysses"]),
    ("grad_sync_mode", &["batch"]),
    ("backward_prefetch", &["backward_pre"]),
    ("task_type", &["causal_lm"]),
];

/// Whether a setting states what is counted anyway.
pub fn is_usual(name: &str, value: &Value) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name).trim_start_matches(['-', '+']).replace('-', "_");
    let word = text(value).unwrap_or_default().to_lowercase();
    USUAL.iter().any(|(usual, values)| *usual == last && values.contains(&word.as_str()))
}

/// How large and how many the pictures of a sample are: what a vision tower keeps of them, and nothing of the text.
const PICTURES: [&str; 16] = [
    "dynamic_resolution",
    "frames_upbound",
    "image_aspect_ratio",
    "image_grid_pinpoints",
    "image_max_pixels",
    "image_resolution",
    "image_size",
    "max_num",
    "max_num_frames",
    "max_num_tiles",
    "max_pixels",
    "max_slice_nums",
    "use_thumbnail",
    "use_tiling",
    "video_max_pixels",
    "video_resolution",
];

/// Whether a setting is about the size or the number of pictures.
pub fn is_of_pictures(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name).trim_start_matches(['-', '+']).replace('-', "_");
    PICTURES.contains(&last.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NAMES, is_inert, is_of_pictures, is_usual};

    #[test]
    fn a_name_counts_without_its_sections() {
        assert!(is_inert("zero_optimization.reduce_bucket_size"));
        assert!(is_inert("model.lora-alpha"));
        assert!(!is_inert("use_qlora"));
        assert!(!is_inert("some_new_switch"));
        // What is on is the section's.
        assert!(is_inert("rope_scaling.type") && is_inert("type"));
        assert!(!is_inert("hybrid_engine.enabled") && !is_inert("exp_manager.ema.enable"));
    }

    #[test]
    fn what_is_kept_or_timed_is_not_inert() {
        // Liger's norms and axolotl's kernels keep less, dropout keeps its masks, pictures decide what a tower keeps, and
        // `device_map` splits a model over GPUs.
        for name in
            ["liger_rms_norm", "lora_mlp_kernel", "attention_dropout", "lora_dropout", "max_pixels", "device_map"]
        {
            assert!(!is_inert(name), "{name}");
        }
        assert!(is_of_pictures("--max_pixels") && !is_of_pictures("max_length"));
    }

    #[test]
    fn a_value_may_state_what_happens_anyway() {
        assert!(is_usual("fsdp.wrapping_strategy", &json!("by_block")));
        assert!(!is_usual("fsdp.wrapping_strategy", &json!("size_based")));
        assert!(is_usual("num_nodes", &json!(1)) && !is_usual("num_nodes", &json!(2)));
    }

    #[test]
    fn names_are_in_order_and_once() {
        assert!(NAMES.lines().zip(NAMES.lines().skip(1)).all(|(one, next)| one < next));
    }
}
