//! The tape: what a module executes, operator by operator, as PyTorch's autograd sees
//! it. Memory, flops, traffic and time are all read from it.
//!
//! An operator names the tensors that it reads, writes and saves. Views are not
//! operators: they share their tensor. A tensor that two operators save is one
//! tensor, so it counts once. Sizes are those of one GPU's share.

use super::element::{Element, Group};
pub use super::spec::Spec;
use super::weight::{Collective, Weight};
use super::work::Work;

/// Index of a tensor in its tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// Where a tensor's memory is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Made by an operator of this tape.
    Local,
    /// The hidden state that comes in: this tape holds it from its start.
    Input,
    /// A parameter: index into [`Tape::weights`].
    Weight(u32),
    /// Made by another tape, which holds it; its gradient waits there (an encoder's output).
    Elsewhere,
}

/// A tensor.
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// Elements.
    pub numel: u64,
    /// Their type.
    pub element: Element,
    /// For the list of terms.
    pub group: Group,
    /// Where its memory is accounted for.
    pub home: Home,
    /// Whether a gradient flows to it.
    pub grad: bool,
    /// Kept beyond the tape, whoever uses it: an autocast copy until autocast is left, keys and values for tokens to come.
    pub cached: bool,
    /// The tensor whose memory this one is a view of.
    pub view_of: Option<TensorId>,
}

/// The granule of PyTorch's CUDA caching allocator (c10/core/AllocatorConfig.h, `kMinBlockSize`).
pub const GRANULE: u64 = 512;

/// Bytes as the allocator rounds them.
#[must_use]
pub const fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(GRANULE).saturating_mul(GRANULE)
}

impl Tensor {
    /// Bytes of its elements.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.numel.saturating_mul(self.element.bytes())
    }

    /// Bytes as the allocator rounds them.
    #[must_use]
    pub const fn allocated(&self) -> u64 {
        rounded(self.bytes())
    }
}

/// How the gradient of an operator's input is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// None flows.
    Stop,
    /// The gradient of the output itself, or a view of it.
    Pass,
    /// A new tensor of the input's size and type.
    New,
    /// The same, handed on as a view of it: nothing is added to its memory.
    View,
    /// The saved input itself, overwritten.
    InPlace,
}

/// Which unit computes an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Matrix units, for operands of that type.
    Matrix(Element),
    /// A convolution on matrix units.
    Convolution(Element),
    /// Fused attention on matrix units.
    Attention(Element),
    /// Vector units.
    Vector,
}

impl Unit {
    /// Whether it multiplies matrices, one kernel for each: a matmul's, or a convolution's.
    #[must_use]
    pub const fn multiplies(self) -> bool {
        matches!(self, Self::Matrix(_) | Self::Convolution(_))
    }
}

/// A range in one of the tape's pools.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolRange {
    /// First.
    pub from: u32,
    /// One past the last.
    pub to: u32,
}

impl PoolRange {
    pub(super) const fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }
}

/// An operator.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// Its name with its module ("mlp.up").
    pub name: &'static str,
    /// Which unit computes it.
    pub unit: Unit,
    /// On what.
    pub work: Work,
    /// What it reads.
    pub inputs: PoolRange,
    /// What it writes.
    pub outputs: PoolRange,
    /// What it saves for the backward pass.
    pub saved: PoolRange,
    /// Bytes that it needs only while it runs forward.
    pub scratch_forward: u64,
    /// The same backward.
    pub scratch_backward: u64,
    /// Operations forward.
    pub flops_forward: f64,
    /// Operations backward.
    pub flops_backward: f64,
    /// Computes on each element (a copy does not).
    pub elementwise: bool,
    /// What it makes stays where its block is recomputed (torch/utils/checkpoint.py, `create_selective_checkpoint_contexts`).
    pub stays: bool,
    /// Where an operand is smaller than what comes out, the engine sums its gradient.
    pub broadcasts: bool,
    /// How many kernels of this kind run (one for each expert).
    pub launches: u64,
}

/// Operators of a tape that are checkpointed themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerCheckpoint {
    /// The first of them.
    pub from: usize,
    /// One past the last.
    pub to: usize,
    /// They run again to the last one.
    pub reruns_all: bool,
}

/// Operators that follow each other several times over: each time the same ones, of tensors of the same sizes and types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedOps {
    /// The first of them.
    pub from: usize,
    /// How many they are each time.
    pub ops: usize,
    /// How often they are there.
    pub times: usize,
}

impl RepeatedOps {
    /// Of runs that begin at `starts` and do the same, all but the first and the last: those two stand next to other
    /// operators. None where they differ or are few.
    #[must_use]
    pub fn between(starts: &[usize]) -> Option<Self> {
        let [_, from, next, .., _] = starts else { return None };
        let (ops, times) = (next - from, starts.len() - 2);
        let alike = starts.windows(2).skip(1).all(|pair| pair[1] - pair[0] == ops);
        (alike && times > 1).then_some(Self { from: *from, ops, times })
    }

    /// One past the last.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.from + self.ops * self.times
    }
}

/// A module's operators in the order of the forward pass.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    /// Tensors.
    pub tensors: Vec<Tensor>,
    /// Operators.
    pub ops: Vec<Op>,
    /// Parameters.
    pub weights: Vec<Weight>,
    /// Tensors named by operators.
    ids: Vec<TensorId>,
    /// How gradients flow to each input, parallel to the inputs' part of `ids`.
    pub(super) flows: Vec<Flow>,
    /// The hidden state that leaves.
    pub output: Option<TensorId>,
    /// Further tensors whose gradients come in from later tapes.
    pub also: Vec<TensorId>,
    /// Of these, what a recomputed tape makes again: whoever reads it is the last to have it.
    pub also_made_again: Vec<TensorId>,
    /// What comes in is saved by the tape that made it, and held there.
    pub borrows: bool,
    /// Recomputed, it saves nothing of what leaves: whoever runs next holds that as long as it is needed there.
    pub leaves_output: bool,
    /// The gradient of what leaves waits for another tensor too, and stays while this one runs backward.
    pub shares_gradient: bool,
    /// Recomputed, it runs to its last operator in a backward pass of its own, whose frame holds what comes out and its gradient.
    pub reruns_all: bool,
    /// Recomputed, it runs until the last tensor that it saves is there again.
    pub stops_early: bool,
    /// What is saved and goes no earlier than the graph, when the backward pass is over: attributes of a custom function's context.
    pub lasting: Vec<TensorId>,
    /// What its operators save for other tapes alone: no function of its own asks for that.
    pub for_others: Vec<TensorId>,
    /// What later tapes hold of what it makes and saves, and no gradient comes back to: recomputed, it makes that again beside theirs.
    pub held_later: Vec<TensorId>,
    /// What other tapes hold whether this one saves it or not: its gradient takes memory beside it.
    pub waiting: Vec<TensorId>,
    /// Recomputed, what comes in is such an attribute.
    pub input_lasts: bool,
    /// Checkpoints in it, which are recomputed once more where it is.
    pub inner: Vec<InnerCheckpoint>,
    /// Checkpointing leaves it alone: it is no repeated block.
    pub plain: bool,
    /// PyTorch was seen to run it: its flows say which gradients are views, and its operators what frames hold.
    pub traced: bool,
    /// Bytes sent in collectives of the tensor-parallel group, forward.
    pub collectives: Vec<Collective>,
    /// Linear layers that an adapter stands on.
    pub adapted: Vec<&'static str>,
    /// Operators that need to be timed only once.
    pub repeat: Option<RepeatedOps>,
}

#[allow(clippy::cast_possible_truncation)]
impl Tape {
    /// An empty tape with room for a transformer's block: growing one costs a fifth of a prediction's time.
    #[must_use]
    pub fn with_room() -> Self {
        Self::with_room_for(80, 40, 16, 224)
    }

    /// One with room for as many tensors, operators, weights, and tensors named by operators.
    #[must_use]
    pub fn with_room_for(tensors: usize, ops: usize, weights: usize, named: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(tensors),
            ops: Vec::with_capacity(ops),
            weights: Vec::with_capacity(weights),
            ids: Vec::with_capacity(named),
            flows: Vec::with_capacity(named),
            ..Self::default()
        }
    }

    /// How many tensors, operators, weights and tensors named by operators there are.
    #[must_use]
    pub const fn lengths(&self) -> [usize; 4] {
        [self.tensors.len(), self.ops.len(), self.weights.len(), self.ids.len()]
    }

    /// Makes room for what came since it had those `lengths`, so many times over.
    pub fn reserve_again(&mut self, lengths: [usize; 4], times: usize) {
        let [tensors, ops, weights, named] = lengths;
        self.tensors.reserve((self.tensors.len() - tensors).saturating_mul(times));
        self.ops.reserve((self.ops.len() - ops).saturating_mul(times));
        self.weights.reserve((self.weights.len() - weights).saturating_mul(times));
        let more = (self.ids.len() - named).saturating_mul(times);
        self.ids.reserve(more);
        self.flows.reserve(more);
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// Adds a parameter; its tensor in the type that weights are stored in.
    pub fn weight(&mut self, weight: Weight, element: Element) -> TensorId {
        self.weights.push(weight);
        let home = Home::Weight(self.weights.len() as u32 - 1);
        let numel = weight.numel.saturating_mul(weight.copies);
        self.tensor(Tensor {
            numel,
            element,
            group: Group::WeightCopy,
            home,
            grad: weight.trained,
            cached: false,
            view_of: None,
        })
    }

    /// Adds an operator.
    pub fn push(&mut self, spec: &Spec<'_>) {
        let from = self.ids.len();
        self.flows.resize(from, Flow::Stop);
        self.ids.extend(spec.inputs.iter().map(|(id, _)| *id));
        let tensors = &self.tensors;
        let reached = |(id, flow): &(TensorId, Flow)| if tensors[id.0 as usize].grad { *flow } else { Flow::Stop };
        self.flows.extend(spec.inputs.iter().map(reached));
        let inputs = PoolRange { from: from as u32, to: self.ids.len() as u32 };
        let outputs = self.pool(spec.outputs);
        let saved = self.pool(spec.saved);
        self.ops.push(Op {
            name: spec.name,
            unit: spec.unit,
            work: spec.work,
            inputs,
            outputs,
            saved,
            scratch_forward: spec.scratch_forward,
            scratch_backward: spec.scratch_backward,
            flops_forward: spec.flops.0,
            flops_backward: spec.flops.1,
            elementwise: spec.elementwise,
            stays: spec.stays,
            broadcasts: spec.broadcasts,
            launches: spec.launches,
        });
    }

    pub(super) fn pool(&mut self, ids: &[TensorId]) -> PoolRange {
        let from = self.ids.len() as u32;
        self.ids.extend_from_slice(ids);
        PoolRange { from, to: self.ids.len() as u32 }
    }

    /// The tensors that a span names.
    #[must_use]
    pub fn ids(&self, span: PoolRange) -> &[TensorId] {
        &self.ids[span.range()]
    }

    /// How gradients flow to the inputs that `span` names.
    #[must_use]
    pub fn flows(&self, span: PoolRange) -> &[Flow] {
        &self.flows[span.range()]
    }

    /// A tensor.
    #[must_use]
    pub fn get(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// The tensor that holds the memory of `id`.
    #[must_use]
    pub fn storage(&self, id: TensorId) -> TensorId {
        self.get(id).view_of.unwrap_or(id)
    }

    /// What comes in: of memory that holds more or less than its elements, the view.
    #[must_use]
    pub fn input(&self) -> Option<TensorId> {
        let root = self.tensors.iter().position(|tensor| tensor.home == Home::Input)?;
        let root = TensorId(u32::try_from(root).ok()?);
        let view = TensorId(root.0 + 1);
        let is_view = self.tensors.get(view.0 as usize).is_some_and(|tensor| tensor.view_of == Some(root));
        let is_made = self.ops.iter().any(|op| self.ids(op.outputs).contains(&view));
        Some(if is_view && !is_made { view } else { root })
    }

    /// Elements of all its parameters on this GPU, tied ones left out.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let own = self.weights.iter().filter(|weight| !weight.tied);
        own.fold(0, |sum: u64, weight| sum.saturating_add(weight.parameters().saturating_mul(weight.copies)))
    }
}
