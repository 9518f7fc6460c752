//! Where a gradient flows: no further back than the first parameter that is trained.

use super::DecoderContext;
use super::layer_kind::LayerKind;
use crate::model::builder::{Adapters, EMBEDDING, HEAD};
use crate::model::sight::trains_before;
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Whether a gradient flows to the embedding's output.
    pub(super) fn reaches_embedding(&self) -> bool {
        let frozen = self.run.frozen;
        let normed = self.d.embedding_norm && !frozen.has(Part::Norm);
        let own = match self.run.adapters {
            // The first layer's own adapters need none of it.
            Some(adapters) => [&adapters.targets, &adapters.saved].iter().any(|names| names.contains(&EMBEDDING)),
            None => !frozen.has(Part::Embedding) || normed,
        };
        own || self.run.graded_inputs || trains_before(self.d, self.run)
    }

    /// Whether a gradient flows through the blocks: not where adapters, or what else is trained, stand behind them alone.
    pub fn reaches_blocks(&self) -> bool {
        let adapted = |adapters: &Adapters| adapters.targets.iter().any(|target| ![EMBEDDING, HEAD].contains(target));
        self.run.adapters.map_or_else(|| self.trains_blocks(), adapted) || self.reaches_embedding()
    }

    /// Whether weights of the blocks are trained, of a model without adapters.
    pub fn trains_blocks(&self) -> bool {
        if self.run.frozen.is_nothing() {
            return true;
        }
        let stream = self.stream_element();
        let mut kinds: Vec<LayerKind> = Vec::new();
        (0..self.d.layers).map(|layer| LayerKind { reached: false, ..LayerKind::of(self.d, layer) }).any(|kind| {
            let new = !kinds.contains(&kind);
            kinds.push(kind);
            new && self.block(stream, kind).weights.iter().any(|weight| weight.trained)
        })
    }
}
