//! Models that a framework has no modules of, and cuts that its scripts do not make.

use super::{Degrees, NOT_MODELLED, Notes};
use crate::framework::{ModelParallelism, Profile};
use crate::model::{Architecture, Decoder, ModelShape, Start};
use crate::plan::keywords::{Engine, Mode, ModelType, Norm, Position};
use crate::plan::{Plan, keys};

/// Refuses what the framework cannot run, and says where its modules only stand in for others.
pub(super) fn check(
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    plan: &Plan,
    notes: &mut Notes,
) {
    let mode = plan.training.mode.unwrap_or(Mode::Train);
    // A tape's modules are the user's own, whose cuts and classes are refused where they are read; the catalogue's are not.
    let own = matches!(architecture.shape, ModelShape::Traced(_)) && plan.model.preset.is_none();
    if !own && !kind(profile, architecture, notes) {
        return;
    }
    splits((profile, degrees), mode, notes);
    // Layers that a plan writes out by their sizes may be anybody's, and servers cut models in ways of their own.
    let named = plan.model.hf_config.is_some() || plan.model.preset.is_some();
    if named && mode == Mode::Train {
        cut_classes((profile, degrees), architecture, notes);
    }
    shards((profile, degrees), mode, notes);
}

/// Whether the framework has modules of such a model.
fn kind(profile: &Profile, architecture: &Architecture, notes: &mut Notes) -> bool {
    let (kind, kinds) = (architecture.kind(), profile.support.kinds.is);
    if !kinds.contains(&kind) {
        let known = joined(kinds.iter().map(|kind| class_of(*kind)));
        let words =
            format!("{} has no {}: it has {known}; leave it out, or say pytorch", profile.name(), class_of(kind));
        notes.fault(keys::model::framework, words);
        return false;
    }
    let foreign = matches!(&architecture.shape, ModelShape::EncoderDecoder(model) if model.start != Start::Learned);
    if foreign && profile.support.learned_positions.is {
        let words = format!(
            "{}: of encoder-decoders its own T5 of learned positions is predicted; leave it out, or say pytorch",
            profile.name()
        );
        notes.fault(keys::model::framework, words);
        return false;
    }
    if profile.support.only_gpt2.is && architecture.block().is_some_and(|block| !is_gpt2(block)) {
        let words = format!(
            "{}: not modelled for this model, as it has GPT-2's blocks alone; these are counted as a script like it would run them",
            profile.name()
        );
        notes.assume(keys::model::framework, words);
    }
    true
}

/// As sentences call a kind.
const fn class_of(kind: ModelType) -> &'static str {
    match kind {
        ModelType::TransformerDecoder => "decoders",
        ModelType::TransformerEncoder => "encoders",
        ModelType::TransformerEncoderDecoder => "encoder-decoders",
        ModelType::VisionTransformer => "vision transformers",
        ModelType::Cnn => "convolutional networks",
        ModelType::Mlp => "lists of layers",
        ModelType::DiffusionModel => "diffusion models",
    }
}

fn is_gpt2(block: &Decoder) -> bool {
    block.position == Position::Learned
        && block.norm == Norm::Layernorm
        && !block.gated
        && block.kv_heads == block.heads
        && block.moe.is_none()
}

/// Refuses degrees of parallelism that the framework's scripts have not.
fn splits((profile, degrees): (&Profile, &Degrees), mode: Mode, notes: &mut Notes) {
    let own = profile.support.splits_in(mode);
    for split in ModelParallelism::ALL.iter().filter(|split| !own.contains(split)) {
        let degree = match split {
            ModelParallelism::Tensor => degrees.tensor,
            ModelParallelism::Pipeline => degrees.pipeline,
            ModelParallelism::Context => degrees.context,
            ModelParallelism::Expert => degrees.expert,
        };
        if degree > 1 {
            let has = joined(["data"].into_iter().chain(own.iter().map(|split| split.name())));
            let only = if own.is_empty() { " alone" } else { "" };
            let words = format!("{degree}: {} has {has} parallelism{only}; must be 1", profile.name());
            notes.fault(split.key(), words);
        }
    }
}

/// Says where tensor parallelism is of classes that do not say how all of their layers are cut, as a framework's own plan may. DeepSpeed's finds the matrices by itself
/// (deepspeed, module_inject/auto_tp.py).
fn cut_classes((profile, degrees): (&Profile, &Degrees), architecture: &Architecture, notes: &mut Notes) {
    let Some(block) = architecture.block().filter(|_| profile.modules.family_classes.is) else { return };
    if degrees.tensor > 1 && !block.class_rules.cut_by_plan && degrees.engine != Engine::Deepspeed {
        let words = format!(
            "{}, of which transformers' class of this model leaves matrices of its layers whole: {NOT_MODELLED}",
            degrees.tensor
        );
        notes.assume(keys::distribution::tensor_parallel, words);
    }
}

/// Refuses sharding that the framework's scripts have not, unless the plan says which engine is put around its modules.
fn shards((profile, degrees): (&Profile, &Degrees), mode: Mode, notes: &mut Notes) {
    let (asked, own) = (degrees.asked(), profile.support.shards.is);
    let ranks = degrees.data.saturating_mul(degrees.context);
    if own.contains(&asked) || mode == Mode::Inference || ranks < 2 {
        return;
    }
    let (name, usual) = (profile.name(), profile.data_parallel.replicated.is);
    if degrees.engine_is_given {
        let words =
            format!("{asked}: {name} itself shares nothing out; counted as {} around its modules does", degrees.engine);
        notes.assume(keys::distribution::sharding, words);
    } else {
        let words = format!(
            "{asked}: {name} has {usual} alone, which shares nothing out; must be none, or name in distribution.engine what \
             you put around its modules"
        );
        notes.fault(keys::distribution::sharding, words);
    }
}

/// `a`, `a and b`, `a, b and c`.
fn joined<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
