//! Models by the folders of the paths that name them.

use super::common::ImportContext;
use super::{model, vision};

/// A model of the catalogue that a folder of a path is called, of which the last part tells no size of its own:
/// `outputs/Qwen2.5-7B-Instruct/checkpoint-500`.
pub fn above(context: &ImportContext, path: &str) -> Option<String> {
    let (folders, last) = path.rsplit_once('/')?;
    // `organisation/name` on the hub has no folders.
    let local = folders.contains('/') || path.starts_with('.');
    if !local || model::billions(last).is_some() || is_other(path) {
        return None;
    }
    let sized = folders.rsplit('/').find(|folder| model::billions(folder).is_some())?;
    model::preset(context, sized).or_else(|| model::held(context, sized))
}

/// Parts of a path that make it another model than its family's.
const OTHERS: [&str; 6] = ["reward", "draft", "prune", "distil", "merge", "moe"];

/// Whether the path is of a model that a family's name says too little of.
fn is_other(path: &str) -> bool {
    OTHERS.iter().any(|part| path.to_lowercase().contains(part)) || vision::is_multimodal(path)
}

/// A model of the catalogue by a path whose end is a size and whose folder a family: `hf_llama2_models/70B`.
pub fn sized_below(context: &ImportContext, path: &str) -> Option<String> {
    const HOLDS_MODELS: [&str; 9] =
        ["hf", "model", "models", "meta", "checkpoint", "checkpoints", "ckpt", "weights", "pretrained"];
    const TUNING: [&str; 6] = ["hf", "chat", "base", "instruct", "it", "sft"];
    let (folders, last) = path.trim_end_matches('/').rsplit_once('/').filter(|_| !is_other(path))?;
    let last = last.to_lowercase().replace('_', "-");
    let mut words = last.split('-').filter(|word| !TUNING.contains(word));
    let size = words.next().filter(|word| model::billions(word).is_some() && words.next().is_none())?;
    let folder = folders.rsplit('/').next()?.to_lowercase().replace('_', "-");
    let parts: Vec<&str> = folder.split('-').collect();
    let known = |long: usize| {
        // Beside the family's own words a folder says no more than that it holds models.
        let says_more = |part: &[&str]| parts.iter().any(|word| !part.contains(word) && !HOLDS_MODELS.contains(word));
        parts.windows(long).filter(|part| !says_more(part)).find_map(|part| {
            let family = part.join("-");
            // `llama2`: the catalogue has `llama-2-70b`.
            let letters = family.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
            let apart = format!("{letters}-{}", family.get(letters.len()..).unwrap_or_default());
            model::preset(context, &format!("{family}-{size}"))
                .or_else(|| model::preset(context, &format!("{apart}-{size}")))
        })
    };
    (1..=parts.len().min(3)).rev().find_map(known)
}
