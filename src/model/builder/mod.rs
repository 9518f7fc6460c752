//! Writing a tape the way autograd records it. Each method is one ATen operator (or a
//! short fixed run of them) with what its derivative formula saves
//! (PyTorch `tools/autograd/derivatives.yaml`), and with autocast's casts where
//! `aten/src/ATen/autocast_mode.h` lists the operator.

mod adapters;
mod names;
mod products;
mod shared;

pub use adapters::{Adapters, MADE_AGAIN};
pub use products::{EMBEDDING, HEAD, JOINT, Operands, is_covered};
pub use shared::LinearWeights;

use super::element::{Element, Group};
use super::frozen::FrozenParts;
use super::tape::{Flow, Home, Spec, Tape, Tensor, TensorId};
use super::weight::{Collective, Part, Weight};

/// In which types a module runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Types {
    /// Type of the weights as the modules see them.
    pub weight: Element,
    /// The type to which autocast takes matrix multiplications, where autocast is on.
    pub autocast: Option<Element>,
    /// Whether autocast keeps its copies of weights.
    pub weight_cache: bool,
    /// How the linear layers of a block keep their FP8 operands, where Transformer Engine makes them.
    pub fp8: Option<Operands>,
    /// Sequence parallel gathers what those layers read after its cast to FP8.
    pub gathers_fp8: bool,
    /// What comes into a layer is cast to the type that is computed in.
    pub casts_inputs: bool,
}

/// A tape being written.
#[derive(Debug)]
pub struct Builder<'a> {
    /// What is written so far.
    pub tape: Tape,
    types: &'a Types,
    pub(in crate::model) adapters: Option<&'a Adapters>,
    /// Parts without gradients; beside adapters no other weight has any.
    pub frozen: FrozenParts,
    /// Biases are added by an operator of their own, without autocast (models/falcon, `FalconLinear`).
    pub bias_apart: bool,
    /// Weights are those of another tape, as its operators read them.
    pub borrows_weights: bool,
    /// Which term the next tensors belong to.
    pub group: Group,
    /// What a function that runs has names for.
    pub held: Vec<TensorId>,
    /// What the block has names for until it returns.
    pub named: Vec<TensorId>,
}

/// What a pointwise operator keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stash {
    /// Nothing.
    Nothing,
    /// Its input.
    Input,
    /// Its output.
    Output,
}

/// A linear layer.
#[derive(Debug, Clone, Copy)]
pub struct Linear {
    /// Name of the operator; adapters stand on it by this name.
    pub name: &'static str,
    /// Columns of the input.
    pub from: u64,
    /// Columns of the output.
    pub to: u64,
    /// Whether it has a bias.
    pub bias: bool,
    /// What it is part of.
    pub part: Part,
}

impl<'a> Builder<'a> {
    /// An empty tape.
    pub fn new(types: &'a Types, adapters: Option<&'a Adapters>) -> Self {
        Self {
            tape: Tape::with_room(),
            types,
            adapters,
            frozen: FrozenParts::default(),
            bias_apart: false,
            borrows_weights: false,
            group: Group::Residual,
            held: Vec::new(),
            named: Vec::new(),
        }
    }

    fn local(&mut self, numel: u64, element: Element, grad: bool) -> TensorId {
        let group = self.group;
        self.tape.tensor(Tensor { numel, element, group, home: Home::Local, grad, cached: false, view_of: None })
    }

    /// The hidden state that comes in.
    pub fn input(&mut self, numel: u64, element: Element, grad: bool) -> TensorId {
        self.tape.tensor(Tensor {
            numel,
            element,
            group: Group::Residual,
            home: Home::Input,
            grad,
            cached: false,
            view_of: None,
        })
    }

    fn grad(&self, id: TensorId) -> bool {
        self.tape.get(id).grad
    }

    /// Type of a tensor.
    pub fn element(&self, id: TensorId) -> Element {
        self.tape.get(id).element
    }

    /// Elements of a tensor.
    pub fn numel(&self, id: TensorId) -> u64 {
        self.tape.get(id).numel
    }

    /// A parameter of `numel` elements.
    pub fn weight(&mut self, part: Part, rows: u64, columns: u64) -> TensorId {
        self.weights(part, rows, columns, 1, 1)
    }

    /// Whether weights of that part get gradients; adapters always do.
    fn is_trained(&self, part: Part) -> bool {
        self.adapters.is_none() && !self.frozen.has(part)
    }

    /// `copies` parameters alike, of which a token passes `active`.
    pub fn weights(&mut self, part: Part, rows: u64, columns: u64, copies: u64, active: u64) -> TensorId {
        let trained = part == Part::Adapter || self.is_trained(part);
        if self.borrows_weights {
            return self.elsewhere(rows.saturating_mul(columns).saturating_mul(copies), self.types.weight, trained);
        }
        let weight = Weight { copies, active, ..Weight::matrix(part, trained, rows, columns) };
        let element = match (part, self.adapters) {
            (Part::Adapter, Some(adapters)) => adapters.element,
            _ => self.types.weight,
        };
        self.tape.weight(weight, element)
    }

    /// `_to_copy`: nothing when the type is the same already.
    pub fn cast(&mut self, name: &'static str, x: TensorId, element: Element) -> TensorId {
        if self.element(x) == element {
            return x;
        }
        let tensor = *self.tape.get(x);
        // The other tape made that copy, which autocast's cache keeps.
        if self.borrows_weights && tensor.home == Home::Elsewhere && tensor.grad && self.types.weight_cache {
            return self.elsewhere(tensor.numel, element, tensor.grad);
        }
        let weight = matches!(tensor.home, Home::Weight(_));
        let group = if weight { Group::WeightCopy } else { self.group };
        // autocast keeps copies of leaves that need gradients only (autocast_mode.cpp, cached_cast).
        let cached = weight && tensor.grad && self.types.weight_cache;
        let grad = tensor.grad;
        let out = self.tape.tensor(Tensor {
            numel: tensor.numel,
            element,
            group,
            home: Home::Local,
            grad,
            cached,
            view_of: None,
        });
        self.tape.push(&Spec {
            name,
            inputs: &[(x, Flow::New)],
            outputs: &[out],
            elementwise: true,
            ..Spec::default()
        });
        out
    }

    /// Whether autocast is on.
    pub const fn is_autocast(&self) -> bool {
        self.types.autocast.is_some()
    }

    /// The type that autocast would make of it; its own without autocast.
    pub fn lowered_type(&self, x: TensorId) -> Element {
        self.types.autocast.unwrap_or_else(|| self.element(x))
    }

    /// What autocast does before an operator of its lower-precision list.
    pub fn lower(&mut self, name: &'static str, x: TensorId) -> TensorId {
        self.types.autocast.map_or(x, |element| self.cast(name, x, element))
    }

    /// What autocast does before an operator of its fp32 list.
    pub fn upper(&mut self, name: &'static str, x: TensorId) -> TensorId {
        if self.types.autocast.is_some() { self.cast(name, x, Element::F32) } else { x }
    }

    /// An operator on each element of one tensor.
    pub fn pointwise(&mut self, name: &'static str, x: TensorId, keeps: Stash) -> TensorId {
        let (numel, element, grad) = (self.numel(x), self.element(x), self.grad(x));
        let out = self.local(numel, element, grad);
        let saved = match keeps {
            Stash::Input => &[x][..],
            Stash::Output => &[out][..],
            Stash::Nothing => &[][..],
        };
        let saved = if grad { saved } else { &[] };
        self.tape.push(&Spec {
            name,
            inputs: &[(x, Flow::New)],
            outputs: &[out],
            saved,
            elementwise: true,
            ..Spec::default()
        });
        out
    }

    /// An operator on one tensor whose output has a size and type of its own.
    pub fn unary(&mut self, name: &'static str, x: (TensorId, Flow), out: (u64, Element), keeps: Stash) -> TensorId {
        let grad = self.grad(x.0);
        let made = self.local(out.0, out.1, grad);
        let kept = match keeps {
            Stash::Input => x.0,
            _ => made,
        };
        let saved = [kept];
        let saved = if grad && keeps != Stash::Nothing { &saved[..] } else { &[] };
        self.tape.push(&Spec { name, inputs: &[x], outputs: &[made], saved, elementwise: true, ..Spec::default() });
        made
    }

    /// `pow`: saves its input; its backward makes two tensors more before the gradient.
    pub fn pow(&mut self, name: &'static str, x: TensorId) -> TensorId {
        let x = self.upper(name, x);
        let out = self.pointwise(name, x, Stash::Input);
        let scratch = self.tape.get(x).allocated().saturating_mul(2);
        if let Some(op) = self.tape.ops.last_mut() {
            op.scratch_backward = scratch;
        }
        out
    }

    /// `a + b`: nothing saved, the gradient passes through.
    pub fn add(&mut self, name: &'static str, a: TensorId, b: TensorId) -> TensorId {
        let element = self.element(a).promoted(self.element(b));
        let numel = self.numel(a).max(self.numel(b));
        let grad = self.grad(a) || self.grad(b);
        let out = self.local(numel, element, grad);
        let flow =
            |id: TensorId| if self.element(id) == element && self.numel(id) == numel { Flow::Pass } else { Flow::New };
        let inputs = [(a, flow(a)), (b, flow(b))];
        self.tape.push(&Spec { name, inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
        out
    }

    /// `a * b`: each saved for the other's gradient.
    pub fn mul(&mut self, name: &'static str, a: TensorId, b: TensorId) -> TensorId {
        let element = self.element(a).promoted(self.element(b));
        let numel = self.numel(a).max(self.numel(b));
        let (needs_a, needs_b) = (self.grad(a), self.grad(b));
        let out = self.local(numel, element, needs_a || needs_b);
        let saved = [a, b];
        let saved = match (needs_b, needs_a) {
            (true, true) => &saved[..],
            (true, false) => &saved[..1],
            (false, true) => &saved[1..],
            (false, false) => &[],
        };
        // A broadcast operand's gradient is made full size, then summed.
        let broadcast = (needs_a && self.numel(a) < numel) || (needs_b && self.numel(b) < numel);
        // One of a narrower type is made in the wider type, then cast.
        let whole = self.tape.get(out).allocated();
        let narrow =
            [(a, needs_a), (b, needs_b)].into_iter().filter(|(id, needs)| *needs && self.element(*id) != element);
        let wider = narrow.map(|(id, _)| whole.saturating_sub(self.tape.get(id).allocated())).sum();
        let scratch = if broadcast { whole } else { wider };
        self.tape.push(&Spec {
            name,
            inputs: &[(a, Flow::New), (b, Flow::New)],
            outputs: &[out],
            saved,
            scratch_backward: scratch,
            elementwise: true,
            ..Spec::default()
        });
        out
    }

    /// Views of consecutive parts of `x`; their gradients are gathered into one tensor.
    pub fn split<const N: usize>(&mut self, name: &'static str, x: TensorId, parts: [u64; N]) -> [TensorId; N] {
        let whole = *self.tape.get(x);
        let root = self.tape.storage(x);
        let views = parts.map(|numel| {
            self.tape.tensor(Tensor { numel, home: Home::Local, cached: false, view_of: Some(root), ..whole })
        });
        self.tape.push(&Spec { name, inputs: &[(x, Flow::New)], outputs: &views, launches: 0, ..Spec::default() });
        views
    }

    /// A contiguous copy; its gradient is a view of the output's.
    pub fn copy(&mut self, name: &'static str, x: TensorId) -> TensorId {
        let numel = self.numel(x);
        self.copy_of(name, x, numel)
    }

    /// A copy that repeats `x` (or takes part of it) to `numel` elements.
    pub fn copy_of(&mut self, name: &'static str, x: TensorId, numel: u64) -> TensorId {
        let (element, grad) = (self.element(x), self.grad(x));
        let out = self.local(numel, element, grad);
        let flow = if numel == self.numel(x) { Flow::Pass } else { Flow::New };
        self.tape.push(&Spec { name, inputs: &[(x, flow)], outputs: &[out], ..Spec::default() });
        out
    }

    /// `native_dropout`: its output and a mask of one byte an element. Nothing at probability 0.
    pub fn dropout(&mut self, name: &'static str, x: TensorId, probability: f64) -> TensorId {
        if probability <= 0.0 {
            return x;
        }
        let (numel, element, grad) = (self.numel(x), self.element(x), self.grad(x));
        let out = self.local(numel, element, grad);
        let mask = self.local(numel, Element::Bool, false);
        let saved = if grad { &[mask][..] } else { &[] };
        self.tape.push(&Spec {
            name,
            inputs: &[(x, Flow::New)],
            outputs: &[out, mask],
            saved,
            elementwise: true,
            ..Spec::default()
        });
        out
    }

    /// Any operator: outputs are made first with [`Builder::make`].
    pub fn op(&mut self, spec: &Spec<'_>) {
        self.tape.push(spec);
    }

    /// A tensor for an operator of one's own.
    pub fn make(&mut self, numel: u64, element: Element, grad: bool) -> TensorId {
        self.local(numel, element, grad)
    }

    /// A tensor that stays for later tokens.
    pub fn remembered(&mut self, numel: u64, element: Element) -> TensorId {
        let (group, home) = (Group::KvCache, Home::Local);
        self.tape.tensor(Tensor { numel, element, group, home, grad: false, cached: true, view_of: None })
    }

    /// Whether a gradient flows to it.
    pub fn needs_grad(&self, id: TensorId) -> bool {
        self.grad(id)
    }

    /// A collective that runs here.
    pub fn collective(&mut self, collective: Collective) {
        self.tape.collectives.push(collective);
    }

    /// The tape, with what leaves it.
    pub fn finish(mut self, output: TensorId) -> Tape {
        self.block_returns();
        self.tape.output = Some(output);
        self.tape
    }
}
