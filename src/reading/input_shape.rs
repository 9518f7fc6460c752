//! What a model takes in a pass, as its modules show.

use super::HookModules;

/// What the model took in the pass that was looked into: samples, and tokens or pixels a side of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputShape {
    /// Samples of a pass: the micro batch.
    pub samples: u64,
    /// Tokens of a sample, or pixels a side.
    pub length: u64,
}

impl InputShape {
    /// By the ids that an embedding took, of which a step has `tokens` on this process; none where that leaves a doubt.
    /// Of a model whose ranks share out a sample it is no sample's length.
    #[must_use]
    pub fn of_tokens(modules: &HookModules, tokens: Option<u64>) -> Option<Self> {
        let shapes = modules.kinds.iter().filter(|kind| kind.leaf && kind.class.contains("Embedding"));
        let shapes = shapes
            .filter_map(|kind| if let [samples, length] = kind.shape[..] { Some((samples, length)) } else { None });
        // Positions are the same of all samples, those of pairs (T5's `relative_attention_bias`) more than the tokens.
        let are_all = |(samples, length): &(u64, u64)| {
            tokens.is_some_and(|tokens| tokens.is_multiple_of(samples.saturating_mul(*length)))
        };
        // `torch.nn.LSTM` takes the length first by itself, and is often given the samples first all the same: nobody knows
        // which of both is which.
        let is_clear =
            |(samples, length): &(u64, u64)| samples == length || modules.length_first != Some((*samples, *length));
        Self::largest(shapes.filter(are_all).filter(is_clear))
    }

    /// By the square picture that a convolution took: later ones see less.
    #[must_use]
    pub fn of_images(modules: &HookModules) -> Option<Self> {
        let shapes = modules.kinds.iter().filter(|kind| kind.leaf && kind.class.contains("Conv"));
        Self::largest(shapes.filter_map(|kind| match kind.shape[..] {
            [samples, _, height, width] if height == width => Some((samples, height)),
            _ => None,
        }))
    }

    fn largest(shapes: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let (samples, length) = shapes.max_by_key(|(samples, length)| (samples.saturating_mul(*length), *samples))?;
        (samples > 0 && length > 0).then_some(Self { samples, length })
    }

    /// Passes of a step of `tokens`; none where they are no whole number.
    #[must_use]
    pub fn passes(self, tokens: u64) -> Option<u64> {
        let pass = self.samples.saturating_mul(self.length);
        tokens.is_multiple_of(pass).then(|| tokens / pass)
    }
}
