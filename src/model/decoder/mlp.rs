//! Feed-forward blocks.

use super::DecoderContext;
use super::xielu::xielu;
use crate::framework::{Gate, PointwiseAct};
use crate::model::architecture::{Act, Family};
use crate::model::builder::{Builder, Linear, MADE_AGAIN, Stash};
use crate::model::element::Group;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// A dense feed-forward block.
    pub fn mlp(&self, b: &mut Builder<'_>, x: TensorId, width: u64, _name: &'static str) -> TensorId {
        b.group = Group::Mlp;
        let d = self.d;
        let (rows, inner) = (self.run.tokens(), self.split(width));
        let part = Part::Mlp;
        let linear = |name, from, to| Linear { name, from, to, bias: d.mlp_bias, part };
        let gathered = self.gathered_bytes(b, x, part);
        let middle = if !d.gated {
            let up = b.linear(x, rows, linear("mlp.up_proj", d.hidden, inner));
            self.gathered(b, gathered, false);
            let middle = self.act(b, up, "mlp.act");
            let dropout = if d.activation_dropout > 0.0 { self.run.dropout_or(d.activation_dropout) } else { 0.0 };
            b.dropout("mlp.dropout", middle, dropout)
        } else if self.run.modules.is_one_matrix(d.fused_gate_up) {
            let both = b.linear(x, rows, linear("mlp.gate_up_proj", d.hidden, inner.saturating_mul(2)));
            self.gathered(b, gathered, false);
            let middle = self.gate_of_one(b, both, "mlp.act");
            let dropout = if d.activation_dropout > 0.0 { self.run.dropout_or(d.activation_dropout) } else { 0.0 };
            b.dropout("mlp.dropout", middle, dropout)
        } else {
            let gate = b.linear(x, rows, linear("mlp.gate_proj", d.hidden, inner));
            let up = b.linear(x, rows, linear("mlp.up_proj", d.hidden, inner));
            self.gathered(b, gathered, false);
            let gate = self.times(b, "mlp.multiplier", gate);
            self.gate_of_two(b, gate, up, "mlp.act")
        };
        // `BertLayer.feed_forward_chunk`, `ViTLayer.forward`.
        if self.run.modules.python_names.is
            && (self.family.has_bert_layers() || matches!(self.family, Family::Deberta | Family::Vit))
        {
            b.named.push(middle);
        }
        let out = b.linear(middle, rows, linear("mlp.down_proj", inner, d.hidden));
        let out = self.times(b, "mlp.multiplier", out);
        self.reduced(b, out)
    }

    /// The activation function of `x`.
    pub fn act(&self, b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
        let fused = self.run.modules.act.is == PointwiseAct::Fused;
        match self.d.act {
            Act::Relu => b.pointwise(name, x, Stash::Output),
            Act::Relu2 if !fused => {
                let positive = b.pointwise(name, x, Stash::Output);
                b.pow(name, positive)
            }
            Act::GeluNew if !fused => gelu_new(b, x, name),
            Act::GeluFast if !fused => gelu_fast(b, x, name),
            Act::QuickGelu if !fused => {
                let scaled = b.pointwise(name, x, Stash::Nothing);
                let gate = b.pointwise(name, scaled, Stash::Output);
                b.mul(name, x, gate)
            }
            Act::GeluBloom if !fused => gelu_bloom(b, x, name),
            Act::Xielu if !fused => xielu(b, x, name),
            _ => b.pointwise(name, x, Stash::Input),
        }
    }

    /// `act(gate) * up` of two tensors.
    pub(super) fn gate_of_two(
        &self,
        b: &mut Builder<'_>,
        gate: TensorId,
        up: TensorId,
        name: &'static str,
    ) -> TensorId {
        // The function of adapters in one with their layers writes gradients over what it saved (axolotl, `swiglu_backward`).
        let kind = if b.is_in_kernel(MADE_AGAIN) { Gate::InPlace } else { self.run.modules.gate.is };
        match kind {
            Gate::Eager => {
                let active = self.act(b, gate, name);
                b.mul(name, active, up)
            }
            fused @ (Gate::Fused | Gate::InPlace) => {
                let flow = if fused == Gate::InPlace { Flow::InPlace } else { Flow::New };
                let (numel, element) = (b.numel(up), b.element(up));
                let grad = b.needs_grad(gate) || b.needs_grad(up);
                let out = b.make(numel, element, grad);
                let saved = [gate, up];
                b.op(&Spec {
                    name,
                    inputs: &[(gate, flow), (up, flow)],
                    outputs: &[out],
                    saved: if grad { &saved } else { &[] },
                    elementwise: true,
                    ..Spec::default()
                });
                out
            }
        }
    }

    /// `act(gate) * up` of one tensor that holds both.
    pub(super) fn gate_of_one(&self, b: &mut Builder<'_>, both: TensorId, name: &'static str) -> TensorId {
        let (half, element) = (b.numel(both) / 2, b.element(both));
        if self.run.modules.gate.is == Gate::Fused {
            return b.unary(name, (both, Flow::New), (half, element), Stash::Input);
        }
        let [gate, up] = b.split(name, both, [half, half]);
        if self.run.modules.gate.is == Gate::InPlace {
            // Halves of a row are no whole tensors: the kernel's are copies (ops/utils.py, ensure_contiguous).
            let [gate, up] = [gate, up].map(|half| b.copy(name, half));
            return self.gate_of_two(b, gate, up, name);
        }
        let active = self.act(b, gate, name);
        b.mul(name, active, up)
    }
}

/// `0.5 * x * (1 + tanh(c * (x + 0.044715 * x^3)))` as transformers writes it (activations.py, NewGELUActivation).
fn gelu_new(b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
    let half = b.pointwise(name, x, Stash::Nothing);
    let cube = b.pow(name, x);
    let scaled = b.pointwise(name, cube, Stash::Nothing);
    let sum = b.add(name, x, scaled);
    let inner = b.pointwise(name, sum, Stash::Nothing);
    let tanh = b.pointwise(name, inner, Stash::Output);
    let one_plus = b.pointwise(name, tanh, Stash::Nothing);
    b.mul(name, half, one_plus)
}

/// `0.5 * x * (1 + tanh(x * c * (1 + 0.044715 * x * x)))` (activations.py, FastGELUActivation).
fn gelu_fast(b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
    let half = b.pointwise(name, x, Stash::Nothing);
    let scaled = b.pointwise(name, x, Stash::Nothing);
    let small = b.pointwise(name, x, Stash::Nothing);
    let square = b.mul(name, small, x);
    let sum = b.pointwise(name, square, Stash::Nothing);
    let inner = b.mul(name, scaled, sum);
    let tanh = b.pointwise(name, inner, Stash::Output);
    let one_plus = b.pointwise(name, tanh, Stash::Nothing);
    b.mul(name, half, one_plus)
}

/// One function that saves its input (models/bloom/modeling_bloom.py, GeLUFunction): written out it holds four tensors
/// forward and five backward at one time.
fn gelu_bloom(b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
    let bytes = b.tape.get(x).allocated();
    let out = b.pointwise(name, x, Stash::Input);
    scratch(b, bytes.saturating_mul(3), bytes.saturating_mul(4));
    out
}

/// Scratch of the operator written last, backward only.
pub(super) fn scratch_backward(b: &mut Builder<'_>, bytes: u64) {
    if let Some(op) = b.tape.ops.last_mut() {
        op.scratch_backward = op.scratch_backward.saturating_add(bytes);
    }
}

/// Scratch of the operator written last.
pub(super) fn scratch(b: &mut Builder<'_>, forward: u64, backward: u64) {
    scratch_backward(b, backward);
    if let Some(op) = b.tape.ops.last_mut() {
        op.scratch_forward = op.scratch_forward.saturating_add(forward);
    }
}
