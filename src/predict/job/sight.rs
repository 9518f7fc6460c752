//! Images before a language model that sees: how many, how large, and what no plan can have beside them.

use super::storage::Storage;
use super::{Degrees, Notes};
use crate::framework::Profile;
use crate::model::{Architecture, SeenImages};
use crate::plan::{Plan, keys};

/// Images of a sample and their size, where a language model sees them. Their tokens are among the sample's.
pub(super) fn seen(plan: &Plan, architecture: &Architecture, sequence: u64, notes: &mut Notes) -> SeenImages {
    let Some(sight) = architecture.sight() else { return SeenImages::default() };
    let images = notes.or(keys::model::images, plan.model.images, 1);
    let side = plan.model.image_size.unwrap_or_else(|| {
        if images > 0 {
            notes.assume(keys::model::image_size, sight.usual_side());
        }
        sight.usual_side()
    });
    let (only, grain) = (sight.patches.only, sight.grain());
    if let Some(only) = only.filter(|only| *only != side) {
        notes.fault(keys::model::image_size, format!("{side}: this model takes images of {only} pixels a side"));
    } else if let Some(tiles) = &sight.tiles {
        // `LlavaOnevisionProcessor` says how many images a sample has (`batch_num_images`).
        if images > 1 && tiles.most.is_some() {
            let said = "of several images of a sample LLaVA-OneVision cuts none into tiles, which has no rules here";
            notes.fault(keys::model::images, format!("{images}: {said}"));
        }
    } else if only.is_none() && (!side.is_multiple_of(grain.max(1)) || side == 0) {
        notes.fault(keys::model::image_size, format!("{side}: a side is a multiple of {grain} pixels"));
    }
    let tokens = images.saturating_mul(sight.tokens_of(side));
    if tokens > sequence {
        let said = format!("{sequence}: {images} of {side} pixels a side take {tokens} tokens of each sample");
        notes.fault(keys::model::sequence_length, said);
    }
    SeenImages { images, side }
}

/// Refuses what cuts a tower, and other classes than transformers'.
pub(super) fn check(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    if architecture.sight().is_none() {
        return;
    }
    let cuts = [
        (keys::distribution::tensor_parallel, degrees.tensor),
        (keys::distribution::pipeline_parallel, degrees.pipeline),
        (keys::distribution::context_parallel, degrees.context),
        (keys::distribution::expert_parallel, degrees.expert),
    ];
    for (key, degree) in cuts.into_iter().filter(|(_, degree)| *degree > 1) {
        notes.fault(
            key,
            format!("{degree}: nothing here cuts a tower of vision; must be 1, or give the language model by itself"),
        );
    }
    if !profile.modules.family_classes.is {
        notes.fault(
            keys::model::framework,
            "has no tower of vision here: transformers' classes are known, or give the language model by itself",
        );
    }
    if plan.training.lora.as_ref().is_some_and(|lora| lora.vision_tower != Some(true)) {
        notes.assume("training.lora.targets", "of the language model alone; peft finds such names in the tower too");
    }
}

/// Refuses types that a class cannot be trained in.
pub(super) fn check_types(architecture: &Architecture, storage: &Storage, notes: &mut Notes) {
    let narrows = storage.autocast && storage.seen != storage.compute;
    if narrows && architecture.sight().is_some_and(|sight| sight.indexed) {
        notes.fault(
            keys::training::precision,
            "under autocast PyTorch refuses to write this model's tokens of images among those of its text (transformers \
             4.57.6 and 5.3, SmolVLMModel.inputs_merger): train weights of 16 bits, or fp32",
        );
    }
}
