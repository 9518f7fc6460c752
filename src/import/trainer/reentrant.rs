//! Which of PyTorch's checkpoints recomputes, where arguments say it.

use super::super::imported::ImportedPlan;
use super::super::settings::{self, Settings};
use crate::plan::keys;
use serde_json::Value;

/// Takes `use_reentrant` out of `gradient_checkpointing_kwargs`, as a section, a dictionary or JSON in a flag.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    const ARGUMENTS: &str = "gradient_checkpointing_kwargs";
    const NAME: &str = "use_reentrant";
    let recomputes = imported.get(keys::training::activation_checkpointing).is_some_and(|found| found.value == "full");
    if !recomputes {
        return;
    }
    let section = settings.flag(&format!("{ARGUMENTS}.{NAME}"));
    let written = || {
        let found = settings.get(ARGUMENTS)?.clone();
        let parsed = || serde_json::from_str::<Value>(found.value.as_str()?).ok();
        let arguments = if found.value.is_object() { Some(found.value.clone()) } else { parsed() };
        let told = settings::truth(arguments?.get(NAME)?)?;
        Some(found.map(|_| told))
    };
    imported.set(keys::training::use_reentrant, section.or_else(written).filter(|found| found.value));
}
