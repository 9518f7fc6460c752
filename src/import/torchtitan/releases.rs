//! Releases of torchtitan that compute otherwise than the one whose rules are counted.

use serde_json::{Value, json};

use crate::imported::ImportedPlan;
use crate::plan::keys;
use crate::rows::not_modelled;
use crate::settings::Settings;

/// What torchtitan of 2026, whose configurations are Python, does otherwise than that of 2025, by whose runs the rules were
/// measured: the embedding is a unit of FSDP, which frees it behind
/// its forward pass (`distributed/fsdp.py`), `FullAC` recomputes to each block's end
/// (`early_stop=False`), and, not compiled, norms are one kernel (PyTorch 2.9) and `enable_gqa` repeats no keys and values.
pub fn since_2026(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.flag("loss.chunked").is_none() {
        return;
    }
    let is = |key: &str, word: &Value| imported.get(key).is_some_and(|found| found.value == *word);
    let mut other = Vec::new();
    if is(keys::distribution::sharding, &json!("zero3")) {
        other.push("the embedding does not stay gathered");
    }
    if is(keys::training::activation_checkpointing, &json!("full")) {
        other.push("blocks are recomputed to their end: 5 % of a step");
    }
    if !is(keys::training::compile, &json!(true)) {
        other.push("norms keep less and keys are not repeated");
    }
    for how in other {
        not_modelled(imported, &format!("torchtitan of 2026: {how}"));
    }
}
