//! Samples and tokens of a step.

use super::{Degrees, Notes, Profile, sight, traced};
use crate::model::{Architecture, Input, SeenImages};
use crate::plan::Plan;
use crate::plan::keys;
use crate::plan::keywords::Mode;

/// Samples and tokens of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Samples of one optimizer step over all GPUs.
    pub global: u64,
    /// Samples of one forward pass on one GPU.
    pub micro: u64,
    /// Forward passes of one optimizer step.
    pub accumulation: u64,
    /// Tokens of a sample that pass through the model.
    pub sequence: u64,
    /// Tokens of a sample whose keys and values are cached already: 0 but for a step of generation.
    pub past: u64,
    /// Tokens of a sample that the decoder of an encoder-decoder reads; elsewhere 0.
    pub target: u64,
    /// Pixels (or latents) a side of an image; elsewhere 0.
    pub image: u64,
    /// Images before a language model that sees.
    pub seen: SeenImages,
}

impl Batch {
    /// Tokens of one optimizer step over all GPUs.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.global.saturating_mul(self.sequence.saturating_add(self.target))
    }
}

/// What a fault of the batch says where nobody tells how many GPUs there are.
fn assumed_gpus(plan: &Plan, degrees: &Degrees) -> String {
    if plan.gpus().is_some() && !plan.leaves_nodes_open() {
        return String::new();
    }
    format!("; cluster.num_gpus is not told: {} assumed", degrees.num_gpus)
}

/// `batch_size` = `micro_batch_size` x `gradient_accumulation_steps` x `data_parallel`.
pub(super) fn resolve(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    notes: &mut Notes,
) -> Option<Batch> {
    let (sequence, target, image) = sample(plan, architecture, notes);
    let ranks = degrees.data;
    let (batch, micro) = (plan.model.batch_size, plan.training.micro_batch_size);
    let accumulation = plan.training.gradient_accumulation_steps;
    let usual = usual_steps(plan, profile, degrees);
    let equation = |global: u64, micro: u64, accumulation: u64| {
        format!(
            "model.batch_size {global} must be training.micro_batch_size {micro} x \
             training.gradient_accumulation_steps {accumulation} x distribution.data_parallel {ranks}"
        )
    };
    let (global, micro, accumulation) = match (batch, micro, accumulation) {
        (Some(global), Some(micro), given) => {
            let each = micro.saturating_mul(ranks);
            let accumulation = given.unwrap_or_else(|| (global / each.max(1)).max(1));
            if each.saturating_mul(accumulation) != global {
                let fault = match given {
                    Some(accumulation) => equation(global, micro, accumulation),
                    None => format!(
                        "{global} is no multiple of training.micro_batch_size {micro} x distribution.data_parallel \
                         {ranks} = {each}"
                    ),
                } + &assumed_gpus(plan, degrees);
                notes.fault(keys::model::batch_size, fault);
                return None;
            }
            (global, micro, accumulation)
        }
        (Some(global), None, given) => {
            let accumulation = given.unwrap_or(usual);
            let each = accumulation.saturating_mul(ranks);
            if each == 0 || global % each != 0 {
                notes.fault(keys::model::batch_size, uneven(global, ranks, given.or((usual > 1).then_some(usual))));
                return None;
            }
            if given.is_none() && plan.training.mode != Some(Mode::Inference) {
                notes.assume(keys::training::gradient_accumulation_steps, usual);
            }
            notes.assume(keys::training::micro_batch_size, global / each);
            (global, global / each, accumulation)
        }
        (None, micro, accumulation) => {
            let micro =
                notes.or(keys::training::micro_batch_size, micro, traced::only_batch(architecture).unwrap_or(1));
            let accumulation = notes.or(keys::training::gradient_accumulation_steps, accumulation, usual);
            let global = micro.saturating_mul(accumulation).saturating_mul(ranks);
            notes.assume(keys::model::batch_size, global);
            (global, micro, accumulation)
        }
    };
    if global == 0 || micro == 0 || accumulation == 0 {
        notes.fault(keys::model::batch_size, "a batch of 0 samples trains nothing");
        return None;
    }
    let seen = sight::seen(plan, architecture, sequence, notes);
    Some(Batch { global, micro, accumulation, sequence, past: 0, target, image, seen })
}

/// Accumulation steps where nothing is said: one, or as many as a framework cuts a rank's batch into for its pipeline.
fn usual_steps(plan: &Plan, profile: &Profile, degrees: &Degrees) -> u64 {
    let cuts = profile.pipeline.cuts_batch.is && plan.training.mode != Some(Mode::Inference);
    if cuts { degrees.pipeline } else { 1 }
}

/// A batch that no micro batch shares out.
fn uneven(global: u64, ranks: u64, accumulation: Option<u64>) -> String {
    if global < ranks && global > 0 {
        let samples = if global == 1 { "1 sample does".to_owned() } else { format!("{global} samples do") };
        return format!(
            "{samples} not reach distribution.data_parallel {ranks}: give a batch of {ranks} or more, or \
             tensor_parallel or pipeline_parallel"
        );
    }
    let steps =
        accumulation.map_or_else(String::new, |steps| format!(" x training.gradient_accumulation_steps {steps}"));
    format!("{global} samples do not divide evenly over distribution.data_parallel {ranks}{steps}")
}

/// Tokens of a sample, what its decoder reads beside that, and pixels a side of an image.
fn sample(plan: &Plan, architecture: &Architecture, notes: &mut Notes) -> (u64, u64, u64) {
    let part = &plan.model;
    let or = |key: &str, given: Option<u64>, most: Option<u64>, only: Option<u64>, notes: &mut Notes| {
        given.unwrap_or_else(|| {
            let default = only.unwrap_or_else(|| most.map_or(2048, |most| most.min(2048)).max(1));
            notes.assume(key, default);
            default
        })
    };
    let only = traced::only_lengths(architecture);
    match architecture.input() {
        Input::Tokens(most) => (or("model.sequence_length", part.sequence_length, most, only.0, notes), 0, 0),
        Input::Rows => (notes.or(keys::model::sequence_length, part.sequence_length, 1), 0, 0),
        Input::Pair(fixed, most) => {
            let given = part.encoder_sequence_length.or(part.sequence_length);
            let source = fixed.unwrap_or_else(|| or("model.sequence_length", given, most, only.0, notes));
            let target = part.decoder_sequence_length.or(fixed.and(part.sequence_length));
            let most = Some(most.unwrap_or(source).min(source));
            (source, or("model.decoder_sequence_length", target, most, only.1, notes), 0)
        }
        Input::Captioned(own) => {
            // CLIP's text encoder gives Stable Diffusion 77 hidden states.
            let text = notes.or(keys::model::encoder_sequence_length, part.encoder_sequence_length, 77);
            let side = notes.or(keys::model::image_size, part.image_size, own);
            if part.image_size.is_some() {
                // Stable Diffusion's autoencoder halves each side three times.
                let pixels = side.saturating_mul(8);
                notes.assume(keys::model::image_size, format!("{side} latents a side, an image of {pixels} pixels"));
            }
            (text, 0, side)
        }
        Input::Image(tokens, own, any) => {
            let given = part.image_size.unwrap_or_else(|| {
                notes.assume(keys::model::image_size, own);
                own
            });
            if given != own && !any {
                notes
                    .fault(keys::model::image_size, format!("{given}: this model takes images of {own} pixels a side"));
            }
            (tokens, 0, given)
        }
    }
}
