//! What Oumi makes of a model that sees: whether its tower is there, is shown pictures and trains.

use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::rows::not_modelled;
use crate::settings::Settings;
use crate::vision;

/// A model that `core/configs/internal/supported_models.py` does not list for pictures is made by `AutoModelForCausalLM`
/// (`builders/models.py`, `_get_transformers_model_class`), and only a collator for pictures shows it any.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    let known = imported.tower.is_some();
    vision::of_causal_class(imported);
    if !known && imported.tower.is_some() && !sees(settings) {
        let text = Origin::Program("no data.train.collator_name for pictures: text alone".to_owned());
        imported.say(keys::model::images, 0, text);
    }
}

/// Whether the data's collator is one for pictures (`vision_language_with_padding`, `vision_language_sft`).
pub fn sees(settings: &Settings) -> bool {
    settings.text("data.train.collator_name").is_some_and(|found| found.value.contains("vision"))
}

/// Modules by their names, which train no more (`src/oumi/builders/models.py`, `_freeze_model_layers`): Qwen2-VL's `visual` is
/// its tower with its projector.
pub fn frozen_layers(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.texts("model.freeze_layers").filter(|found| !found.value.is_empty()) else { return };
    if found.value.iter().all(|name| name.rsplit('.').next() == Some("visual"))
        && let Some(tower) = &mut imported.tower
    {
        tower.frozen = true;
        return;
    }
    not_modelled(imported, &format!("{}: layers that are frozen: {}", found.origin, found.value.join(", ")));
}
