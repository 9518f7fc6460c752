//! The parts of a model that sees, and which of them train.

use super::imported::ImportedPlan;
use super::settings::Settings;
use crate::plan::keys;

/// A preset that is a language model with its tower.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeModel {
    pub preset: String,
    /// What of it does not train where the tower does not.
    pub frozen: Vec<&'static str>,
    /// Somebody says of each part whether it trains.
    pub stated: bool,
}

impl WholeModel {
    /// What tools freeze of a checkpoint is its tower with what joins it.
    pub fn of(preset: impl Into<String>) -> Self {
        Self { preset: preset.into(), frozen: vec!["vision_tower", "multi_modal_projector"], stated: false }
    }

    /// Whether what does not train is known part by part, whatever a script freezes.
    pub fn is_parted(&self) -> bool {
        self.stated || self.frozen.contains(&"language_model")
    }

    /// Images of any size are shown, in steps of so many pixels: four patches are one token.
    pub fn grain(&self) -> Option<u64> {
        let of = |start: &str, pixels: u64| self.preset.starts_with(start).then_some(pixels);
        of("qwen3", 32).or_else(|| of("qwen2", 28))
    }
}

/// What joins a tower to a language model, in LLaVA's scripts (`llava/model/multimodal_projector/builder.py`).
pub const PROJECTOR: &str = "mm_projector_type";

/// LLaVA 1.5 by its parts: Vicuna, CLIP at 336 pixels, a projector of two layers. Its own scripts train all but the tower, or
/// with `--tune_mm_mlp_adapter True` the projector alone (`llava/train/train.py`).
pub fn llava_like(imported: &ImportedPlan, settings: &Settings, tower: &str) -> Option<WholeModel> {
    let language = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let sizes = [("llama-2-7b", "llava-1.5-7b"), ("llama-2-13b", "llava-1.5-13b")];
    let preset = sizes.into_iter().find(|(name, _)| *name == language)?.1.to_owned();
    let projector = settings.text(PROJECTOR).filter(|found| found.value == "mlp2x_gelu");
    projector.filter(|_| tower == "clip-vit-large-patch14-336")?;
    let alone = settings.flag("tune_mm_mlp_adapter").is_some_and(|found| found.value);
    let frozen = if alone { vec!["vision_tower", "language_model", "lm_head"] } else { vec!["vision_tower"] };
    Some(WholeModel { preset, frozen, stated: false })
}

/// Parts of a model, and the arguments that say of them whether they train, with whether each freezes.
type PartWithArguments = (&'static [&'static str], &'static [(&'static str, bool)]);

/// The parts of a model that scripts let train or not by an argument of each, the argument's name and whether it freezes:
/// Qwen's own `qwen-vl-finetune` (`qwenvl/train/train_qwen.py`, `set_model`) and `Qwen2-VL-Finetune`
/// (`src/train/train_sft.py`, `configure_vision_tower`, `configure_llm`). A joint of tower and language model is in the
/// tower there (`visual.merger`).
const PARTS: [PartWithArguments; 3] = [
    (&["vision_tower"], &[("tune_mm_vision", false), ("freeze_vision_tower", true)]),
    (&["multi_modal_projector"], &[("tune_mm_mlp", false), ("freeze_merger", true), ("tune_merger", false)]),
    (&["language_model", "lm_head"], &[("tune_mm_llm", false), ("freeze_llm", true)]),
];

/// Whether these are all parts of a model.
pub fn are_all(modules: &[&str]) -> bool {
    PARTS.iter().all(|(parts, _)| parts.iter().all(|part| modules.contains(part)))
}

/// What of a model with a tower does not train, where an argument of each part says so; none of those that adapters stand in.
pub fn stated_parts(settings: &Settings) -> Option<Vec<&'static str>> {
    let mut frozen = Vec::new();
    for (parts, names) in PARTS {
        let (name, freezes) = names.iter().find(|(name, _)| settings.holds(name))?;
        if settings.flag(name)?.value == *freezes {
            frozen.extend(parts);
        }
        settings.accept(name);
    }
    Some(frozen)
}
