//! Samples that ms-swift packs into one of `max_length` (`swift/dataset/packing.py`).

use super::imported::ImportedPlan;
use super::rows::not_modelled;
use super::settings::Settings;
use crate::plan::keys;

/// Says that samples are packed, and what of a pair is not.
pub fn say(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.on("packing") else { return };
    // `swift/arguments/base_args/base_args.py`: `packing_length` is `max_length` where nobody says it.
    match settings.whole("packing_length").filter(|length| length.value > 0) {
        Some(length) => {
            imported.note(format!("{}: samples are packed to {}", found.origin, length.value));
            imported.set(keys::model::sequence_length, Some(length));
        }
        None => imported.note(format!("{}: samples are packed to max_length", found.origin)),
    }
    // `lengths` has both of a pair (`template/base.py`, `encode`), whose sum is packed.
    if settings.text("rlhf_type").is_some_and(|kind| ["dpo", "rm"].contains(&kind.value.as_str())) {
        let said = "both of a pair are packed into one max_length, but for pairs that are longer: two are counted";
        not_modelled(imported, &format!("{}: {said}", found.origin));
    }
}
