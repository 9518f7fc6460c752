//! A linear layer that runs more than once: its weights, their gradients and autocast's copies of them are there once.

use super::{Builder, Linear};
use crate::model::tape::TensorId;
use crate::model::weight::Part;

/// The weights of a linear layer, as its matmuls read them.
#[derive(Debug, Clone, Copy)]
pub struct LinearWeights {
    /// The layer.
    pub layer: Linear,
    /// Its matrix.
    weight: TensorId,
    /// Its bias.
    bias: Option<TensorId>,
    /// The matrices of the adapter that stands on it.
    adapter: Option<(TensorId, TensorId)>,
}

impl Builder<'_> {
    /// The weights of a linear layer that runs more than once.
    pub fn linear_weights(&mut self, layer: Linear) -> LinearWeights {
        let weight = self.weight(layer.part, layer.to, layer.from);
        let bias = layer.bias.then(|| self.weight(layer.part, layer.to, 1));
        // A quantised matrix stays as it lies.
        let quantised = self.adapters.is_some_and(|adapters| adapters.base_bits.is_some());
        let weight = if quantised { weight } else { self.lower(layer.name, weight) };
        let bias = bias.map(|bias| self.lower(layer.name, bias));
        let rank =
            self.adapters.filter(|adapters| adapters.targets.contains(&layer.name)).map(|adapters| adapters.rank);
        let adapter = rank.map(|rank| {
            self.tape.adapted.push(layer.name);
            let a = self.weight(Part::Adapter, rank, layer.from);
            let b = self.weight(Part::Adapter, layer.to, rank);
            (self.lower("lora.a", a), self.lower("lora.b", b))
        });
        LinearWeights { layer, weight, bias, adapter }
    }

    /// The layer with those weights, over `rows` rows of `x`.
    pub fn linear_with(&mut self, x: TensorId, rows: u64, weights: &LinearWeights) -> TensorId {
        let LinearWeights { layer, weight, bias, adapter } = *weights;
        let out = self.block_matrix(layer.name, x, (weight, layer.part), bias, (rows, layer.from, layer.to));
        if self.types.autocast.is_some_and(|lower| lower != self.element(x)) {
            self.holds("linear.return", &[x]);
        }
        match adapter {
            Some(matrices) => self.adapted_by(x, out, rows, layer, matrices, 1),
            None => out,
        }
    }
}
