//! Operators that write over their input, and tensors and parameters that belong to other tapes.

use super::builder::Builder;
use super::element::Element;
use super::tape::{Flow, Home, Spec, Tensor, TensorId};
use super::weight::{Part, TiedGrad};

impl Builder<'_> {
    /// A parameter that is never trained and that no operator of the walk reads.
    pub fn frozen(&mut self, part: Part, rows: u64, columns: u64) {
        self.weight(part, rows, columns);
        if let Some(weight) = self.tape.weights.last_mut() {
            weight.trained = false;
        }
    }

    /// The parameter made last is one of another tape: held and counted there.
    pub fn tie_last(&mut self) {
        if let Some(weight) = self.tape.weights.last_mut() {
            weight.tied = true;
        }
    }

    /// The parameter written last is an output matrix as well, whose gradient waits for the embedding's: as a transposed
    /// view of the matmul that made it, unless autocast casts that.
    pub fn waits_for_head(&mut self) {
        let view = !self.is_autocast();
        self.meets(TiedGrad::Waiting { view });
    }

    /// Other tapes make parts of the gradient of the parameter written last.
    pub fn meets(&mut self, meets: TiedGrad) {
        if let Some(weight) = self.tape.weights.last_mut() {
            weight.meets = meets;
        }
    }

    /// The last two dimensions of the parameter written last, of more than two.
    pub fn window(&mut self, (rows, columns): (u64, u64)) {
        if let Some(weight) = self.tape.weights.last_mut() {
            weight.window = Some((rows.max(1), columns.max(1)));
        }
    }

    /// A tensor that another tape made and holds.
    pub fn elsewhere(&mut self, numel: u64, element: Element, grad: bool) -> TensorId {
        let group = self.group;
        self.tape.tensor(Tensor { numel, element, group, home: Home::Elsewhere, grad, cached: false, view_of: None })
    }

    /// `a += b`: the sum takes the memory of `a`.
    pub fn add_in_place(&mut self, name: &'static str, a: TensorId, b: TensorId) -> TensorId {
        let root = self.tape.storage(a);
        let whole = *self.tape.get(a);
        let grad = self.needs_grad(a) || self.needs_grad(b);
        let view = Tensor { home: Home::Local, cached: false, grad, view_of: Some(root), ..whole };
        let out = self.tape.tensor(view);
        let flow = if self.numel(b) == whole.numel { Flow::Pass } else { Flow::New };
        let inputs = [(a, Flow::Pass), (b, flow)];
        self.tape.push(&Spec { name, inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
        out
    }

    /// `index_add_`: some rows are added to those of `sum`, which keeps its memory; they are saved for the shape of
    /// their gradient.
    pub fn add_rows(&mut self, name: &'static str, sum: TensorId, rows: TensorId) -> TensorId {
        let root = self.tape.storage(sum);
        let whole = *self.tape.get(sum);
        let grad = whole.grad || self.needs_grad(rows);
        let out = self.tape.tensor(Tensor { home: Home::Local, cached: false, grad, view_of: Some(root), ..whole });
        let inputs = [(sum, Flow::Pass), (rows, Flow::New)];
        let saved = [rows];
        let saved = if self.needs_grad(rows) { &saved[..] } else { &[] };
        self.tape.push(&Spec { name, inputs: &inputs, outputs: &[out], saved, elementwise: true, ..Spec::default() });
        out
    }

    /// `x *= by`, where one number of `by` serves many of `x`: the product takes the memory of `x`, of which a copy is
    /// saved where `by` gets a gradient.
    pub fn mul_in_place(&mut self, name: &'static str, x: TensorId, by: TensorId) -> TensorId {
        let root = self.tape.storage(x);
        let whole = *self.tape.get(x);
        let grad = self.needs_grad(by);
        let view = Tensor { home: Home::Local, cached: false, grad: whole.grad || grad, view_of: Some(root), ..whole };
        let out = self.tape.tensor(view);
        let copy = grad.then(|| self.make(whole.numel, whole.element, false));
        let outputs: Vec<TensorId> = std::iter::once(out).chain(copy).collect();
        let kept = whole.grad.then_some(by);
        let saved: Vec<TensorId> = copy.into_iter().chain(kept).collect();
        self.tape.push(&Spec {
            name,
            inputs: &[(x, Flow::New), (by, Flow::New)],
            outputs: &outputs,
            saved: &saved,
            scratch_backward: if grad { whole.bytes() } else { 0 },
            elementwise: true,
            ..Spec::default()
        });
        out
    }

    /// `relu_`: the output takes the memory of the input, and is kept.
    pub fn relu_in_place(&mut self, name: &'static str, x: TensorId) -> TensorId {
        self.over(name, x, true)
    }

    /// What a matmul adds its result to, written into the memory of `x` before and read by it (`baddbmm`): the gradient of
    /// `x` is that of the sum.
    pub fn added_in_place(&mut self, name: &'static str, x: TensorId) -> TensorId {
        let root = self.tape.storage(x);
        let whole = *self.tape.get(x);
        let out = self.tape.tensor(Tensor { home: Home::Local, cached: false, view_of: Some(root), ..whole });
        let inputs = [(x, Flow::Pass)];
        self.tape.push(&Spec { name, inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
        out
    }

    /// `x[rows] = part`: what it holds has the memory of `x`.
    pub fn put_in_place(&mut self, name: &'static str, x: TensorId, part: TensorId) -> TensorId {
        let root = self.tape.storage(x);
        let whole = *self.tape.get(x);
        let grad = whole.grad || self.needs_grad(part);
        let out = self.tape.tensor(Tensor { home: Home::Local, cached: false, grad, view_of: Some(root), ..whole });
        let inputs = [(x, Flow::New), (part, Flow::New)];
        self.tape.push(&Spec { name, inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
        out
    }

    /// `x *= number`: the product takes the memory of `x`.
    pub fn overwritten(&mut self, name: &'static str, x: TensorId) -> TensorId {
        self.over(name, x, false)
    }

    fn over(&mut self, name: &'static str, x: TensorId, keeps: bool) -> TensorId {
        let root = self.tape.storage(x);
        let whole = *self.tape.get(x);
        let out = self.tape.tensor(Tensor { home: Home::Local, cached: false, view_of: Some(root), ..whole });
        let saved = [out];
        self.tape.push(&Spec {
            name,
            inputs: &[(x, Flow::New)],
            outputs: &[out],
            saved: if keeps && whole.grad { &saved } else { &[] },
            elementwise: true,
            ..Spec::default()
        });
        out
    }
}
