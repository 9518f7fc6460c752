//! Adapters beside linear layers, and axolotl's functions that run a layer with its adapter at once (`kernels/lora.py`).

use super::{Builder, Linear};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Home, Spec, Tensor, TensorId, Unit, rounded};
use crate::model::work::{MatMul, Work};

/// Adapters on linear layers (peft).
#[derive(Debug, Clone, PartialEq)]
pub struct Adapters {
    /// Rank.
    pub rank: u64,
    /// Names of the linear layers that get one.
    pub targets: Vec<&'static str>,
    /// Those of a tower of vision and of its joint.
    pub tower: Vec<&'static str>,
    /// The embedding and the output matrix, where a copy of them trains whole (peft's `modules_to_save`).
    pub saved: Vec<&'static str>,
    /// Dropout before the first matrix.
    pub dropout: f64,
    /// The adapters' type.
    pub element: Element,
    /// Bits of a base weight, where it is quantised.
    pub base_bits: Option<u64>,
    /// A layer with quantised weights gives its output in the type of its input, whatever autocast computes in.
    pub restores_input_type: bool,
    /// Layers whose adapters run in one function with their weights (axolotl's kernels).
    pub kernels: Vec<&'static str>,
}

/// The layer whose input such a function makes anew in the backward pass (`LoRA_MLP`): in the place of a gradient.
pub const MADE_AGAIN: &str = "mlp.down_proj";

const DROPOUT: &str = "lora.dropout";

impl Builder<'_> {
    /// Whether a layer's adapter runs in one function with its weight.
    pub fn is_in_kernel(&self, layer: &str) -> bool {
        self.adapters.is_some_and(|adapters| adapters.kernels.contains(&layer))
    }

    /// An adapter of these matrices in such a function: added to the layer's output in place, in the type of its input. It
    /// saves what both matrices read, and makes what lies between them anew (`matmul_lora`).
    pub(super) fn adapted_in_kernel(
        &mut self,
        x: TensorId,
        out: TensorId,
        rows: u64,
        layer: Linear,
        (a, b): (TensorId, TensorId),
    ) -> TensorId {
        let Some(adapters) = self.adapters else { return out };
        let group = std::mem::replace(&mut self.group, Group::Adapter);
        let again = layer.name == MADE_AGAIN;
        let read = self.lower("lora.input", x);
        let dropped = if again { read } else { self.dropped_once(read, adapters.dropout) };
        let element = self.element(read);
        let (a, b) = (self.cast("lora.a", a, element), self.cast("lora.b", b, element));
        let inner = self.make(rows.saturating_mul(adapters.rank), element, true);
        let saved = [a, dropped, read];
        self.kernel_product(
            "lora.a",
            (rows, layer.from, adapters.rank),
            &Spec {
                inputs: &[(dropped, Flow::New), (a, Flow::New)],
                outputs: &[inner],
                saved: if again {
                    &saved[..1]
                } else if dropped == read {
                    &saved[..2]
                } else {
                    &saved
                },
                ..Spec::default()
            },
        );
        let whole = *self.tape.get(out);
        let storage = self.tape.storage(out);
        let sum =
            self.tape.tensor(Tensor { home: Home::Local, grad: true, cached: false, view_of: Some(storage), ..whole });
        let remade = rounded(self.numel(inner).saturating_mul(element.bytes()));
        self.kernel_product(
            "lora.b",
            (rows, adapters.rank, layer.to),
            &Spec {
                inputs: &[(out, Flow::Pass), (inner, Flow::New), (b, Flow::New)],
                outputs: &[sum],
                saved: &[b],
                scratch_backward: remade,
                ..Spec::default()
            },
        );
        self.group = group;
        sum
    }

    /// A matmul of such a function; `shape` is rows, inner, columns. The backward pass multiplies for both gradients, and for
    /// what lies between the matrices once more.
    fn kernel_product(&mut self, name: &'static str, shape: (u64, u64, u64), spec: &Spec<'_>) {
        let (rows, inner, columns) = shape;
        let element = spec.outputs.first().map_or(Element::Bf16, |out| self.element(*out));
        let product = 2.0 * rows as f64 * inner as f64 * columns as f64;
        let work = Work::Product(MatMul { batch: 1, rows, inner, columns, layer: false });
        let backward = if name == "lora.a" { 3.0 } else { 2.0 };
        self.tape.push(&Spec {
            name,
            unit: Unit::Matrix(element),
            work,
            flops: (product, backward * product),
            ..*spec
        });
    }

    /// What an input is after dropout, which layers of one input share (`_apply_dropout`).
    fn dropped_once(&mut self, x: TensorId, probability: f64) -> TensorId {
        let same =
            self.tape.ops.iter().rev().find(|op| op.name == DROPOUT && self.tape.ids(op.inputs).first() == Some(&x));
        let shared = same.and_then(|op| self.tape.ids(op.outputs).first().copied());
        shared.unwrap_or_else(|| self.dropout(DROPOUT, x, probability))
    }
}
