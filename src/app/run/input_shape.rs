//! What a model takes in a pass, as its modules show.

use super::settings::ToldSetting;
use crate::model::ModelShape;
use crate::plan::keys;
use crate::predict::Job;
use crate::reading::HookModules;
use crate::units::grouped;

/// What the model took in the pass that was looked into: samples, and tokens or pixels a side of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InputShape {
    pub samples: u64,
    pub length: u64,
    image: bool,
}

impl InputShape {
    /// By the ids that an embedding took, or the picture that a convolution took; none where ranks share out a sample.
    pub(super) fn of(modules: &HookModules, tokens: Option<u64>, job: &Job) -> Option<Self> {
        let degrees = &job.degrees;
        if degrees.tensor * degrees.pipeline * degrees.context > 1 {
            return None;
        }
        let image = job.batch.image > 0;
        // What denoises counts its latents, and an image encoder beside it takes the pixels.
        if image && !matches!(job.architecture.shape, ModelShape::Encoder(_) | ModelShape::ResidualNet(_)) {
            return None;
        }
        let shapes = modules.kinds.iter().filter(|kind| kind.leaf).filter_map(|kind| match kind.shape[..] {
            [samples, length] if !image && kind.class.contains("Embedding") => Some((samples, length)),
            [samples, _, height, width] if image && kind.class.contains("Conv") && height == width => {
                Some((samples, height))
            }
            _ => None,
        });
        // Positions are the same of all samples, those of pairs (T5's `relative_attention_bias`) more than the tokens, and
        // later convolutions see less.
        let are_all = |(samples, length): &(u64, u64)| {
            image || tokens.is_some_and(|tokens| tokens.is_multiple_of(samples.saturating_mul(*length)))
        };
        let (samples, length) =
            shapes.filter(are_all).max_by_key(|(samples, length)| (samples.saturating_mul(*length), *samples))?;
        (samples > 0 && length > 0).then_some(Self { samples, length, image })
    }

    pub(super) fn samples(self, job: &Job) -> ToldSetting {
        let (runs, planned) = (self.samples, job.batch.micro);
        let words = || format!("micro batch {}, the plan's is {}", grouped(runs), grouped(planned));
        ToldSetting::number(keys::training::micro_batch_size, runs, planned, words)
    }

    pub(super) fn length(self, job: &Job) -> Option<ToldSetting> {
        let runs = self.length;
        if self.image {
            let planned = job.batch.image;
            let words = || format!("images of {runs} pixels a side, the plan's have {planned}");
            return Some(ToldSetting::number(keys::model::image_size, runs, planned, words));
        }
        // What a decoder reads beside an encoder may be what the embedding saw.
        let planned = job.batch.sequence;
        let words = || format!("sequences of {runs} tokens, the plan's have {planned}");
        (planned > 0 && job.batch.target != runs)
            .then(|| ToldSetting::number(keys::model::sequence_length, runs, planned, words))
    }
}
