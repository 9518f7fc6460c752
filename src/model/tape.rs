//! The tape: what a module executes, operator by operator, as PyTorch's autograd sees
//! it. Memory, flops, traffic and time are all read from it.
//!
//! An operator names the tensors that it reads, writes and saves. Views are not
//! operators: they share their tensor. A tensor that two operators save is one
//! tensor, so it counts once. Sizes are those of one GPU's share.

/// The type of an element in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// 8 bytes: token ids.
    I64,
    /// 4 bytes.
    F32,
    /// 2 bytes.
    Bf16,
    /// 2 bytes.
    F16,
    /// 1 byte.
    Fp8,
    /// 1 byte: masks.
    Bool,
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I64 => 8,
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Fp8 | Self::Bool => 1,
        }
    }

    /// The name as PyTorch prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I64 => "int64",
            Self::F32 => "fp32",
            Self::Bf16 => "bf16",
            Self::F16 => "fp16",
            Self::Fp8 => "fp8",
            Self::Bool => "bool",
        }
    }

    /// The type that both promote to.
    #[must_use]
    pub const fn promoted(self, other: Self) -> Self {
        if other.bytes() > self.bytes() { other } else { self }
    }
}

/// What a tensor belongs to, for the list of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Group {
    /// The residual stream between and within blocks.
    Residual,
    /// Saved by norms.
    Norm,
    /// Saved by attention.
    Attention,
    /// Saved by the feed-forward block.
    Mlp,
    /// Saved by experts and their dispatch.
    Experts,
    /// Embedding output, rotary tables, masks.
    Embedding,
    /// Convolutions and their norms.
    Convolution,
    /// Adapters (LoRA).
    Adapter,
    /// 16-bit (or 8-bit) copies of weights.
    WeightCopy,
    /// Logits and the loss.
    Logits,
    /// Gradients of activations.
    ActivationGradient,
    /// Gradients of weights made in this pass.
    WeightGradient,
}

/// Number of groups.
pub const GROUPS: usize = 12;

impl Group {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; GROUPS] = [
        Self::Residual,
        Self::Norm,
        Self::Attention,
        Self::Mlp,
        Self::Experts,
        Self::Embedding,
        Self::Convolution,
        Self::Adapter,
        Self::WeightCopy,
        Self::Logits,
        Self::ActivationGradient,
        Self::WeightGradient,
    ];
}

/// Index of a tensor in its tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(pub u32);

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
    /// An autocast copy: kept until autocast is left, whoever uses it.
    pub cached: bool,
    /// The tensor whose memory this one is a view of.
    pub view_of: Option<Id>,
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

/// What a parameter is part of: decides how it is sharded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Embedding tables.
    Embedding,
    /// Attention matrices.
    Attention,
    /// Feed-forward matrices.
    Mlp,
    /// Norms.
    Norm,
    /// Routers.
    Router,
    /// Routed experts: they have data-parallel ranks of their own.
    Expert,
    /// The output matrix.
    Head,
    /// Convolutions.
    Convolution,
    /// Adapters (LoRA).
    Adapter,
}

/// A parameter tensor (or several alike).
#[derive(Debug, Clone, Copy)]
pub struct Weight {
    /// Elements of one tensor on one GPU.
    pub numel: u64,
    /// How many such tensors.
    pub copies: u64,
    /// Of which one token passes through.
    pub active: u64,
    /// What it is part of.
    pub part: Part,
    /// Whether it is trained.
    pub trained: bool,
    /// The same tensor as one of another tape (a tied head): held and counted there.
    pub tied: bool,
    /// Rows and columns, where it is a matrix (Adafactor, Muon).
    pub rows: u64,
    /// Bytes of an element where it is stored otherwise than the other weights (quantised), in 1/1000.
    pub millibytes: Option<u64>,
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
    /// The saved input itself, overwritten.
    InPlace,
}

/// Which unit computes an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Matrix units, for operands of that type.
    Matrix(Element),
    /// Fused attention on matrix units.
    Attention(Element),
    /// Vector units.
    Vector,
}

/// A range in one of the tape's pools.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// First.
    pub from: u32,
    /// One past the last.
    pub to: u32,
}

impl Span {
    const fn range(self) -> std::ops::Range<usize> {
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
    /// What it reads.
    pub inputs: Span,
    /// What it writes.
    pub outputs: Span,
    /// What it saves for the backward pass.
    pub saved: Span,
    /// Bytes that it needs only while it runs forward.
    pub scratch_forward: u64,
    /// The same backward.
    pub scratch_backward: u64,
    /// Operations forward.
    pub flops_forward: f64,
    /// Operations backward.
    pub flops_backward: f64,
    /// Elementwise: may be fused with its neighbours by a compiler.
    pub elementwise: bool,
    /// How many kernels of this kind run (one for each expert).
    pub launches: u64,
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
    ids: Vec<Id>,
    /// How gradients flow to each input, parallel to the inputs' part of `ids`.
    flows: Vec<Flow>,
    /// The hidden state that leaves.
    pub output: Option<Id>,
    /// A second tensor whose gradient comes in from later tapes.
    pub also: Option<Id>,
    /// Tensors that later tapes read: kept over the forward pass where those are recomputed.
    pub carried: Vec<Id>,
    /// What comes in is saved by the tape that made it, and held there.
    pub borrows: bool,
    /// Checkpointing leaves it alone: it is no repeated block.
    pub plain: bool,
    /// Bytes sent in collectives of the tensor-parallel group, forward.
    pub collectives: Vec<Collective>,
}

/// A collective in a tape.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    /// What.
    pub kind: CollectiveKind,
    /// Between which ranks.
    pub group: RankGroup,
    /// Bytes of the full tensor.
    pub bytes: u64,
    /// How often it runs forward.
    pub forward: u32,
    /// How often it (or its transpose) runs backward.
    pub backward: u32,
}

/// Kinds of collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveKind {
    /// All-reduce.
    AllReduce,
    /// All-gather, or its transpose.
    AllGather,
    /// All-to-all.
    AllToAll,
    /// Point to point, around a ring.
    Ring,
}

/// Ranks that talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankGroup {
    /// Tensor parallel.
    Tensor,
    /// Context parallel.
    Context,
    /// Expert parallel.
    Expert,
}

/// What an operator is, for [`Tape::push`].
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Inputs with the flow of their gradients.
    pub inputs: &'a [(Id, Flow)],
    /// Outputs.
    pub outputs: &'a [Id],
    /// Saved tensors.
    pub saved: &'a [Id],
    /// Scratch forward, bytes.
    pub scratch_forward: u64,
    /// Scratch backward, bytes.
    pub scratch_backward: u64,
    /// Operations forward and backward.
    pub flops: (f64, f64),
    /// May be fused with its neighbours.
    pub elementwise: bool,
    /// Number of kernels.
    pub launches: u64,
}

impl Default for Spec<'_> {
    fn default() -> Self {
        Self {
            name: "",
            unit: Unit::Vector,
            inputs: &[],
            outputs: &[],
            saved: &[],
            scratch_forward: 0,
            scratch_backward: 0,
            flops: (0.0, 0.0),
            elementwise: false,
            launches: 1,
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
impl Tape {
    /// Adds a tensor.
    pub fn tensor(&mut self, tensor: Tensor) -> Id {
        self.tensors.push(tensor);
        Id(self.tensors.len() as u32 - 1)
    }

    /// Adds a parameter; its tensor in the type that weights are stored in.
    pub fn weight(&mut self, weight: Weight, element: Element) -> Id {
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
        let inputs_from = self.ids.len() as u32;
        for (id, flow) in spec.inputs {
            self.ids.push(*id);
            self.flows.resize(self.ids.len() - 1, Flow::Stop);
            let grad = self.tensors[id.0 as usize].grad;
            self.flows.push(if grad { *flow } else { Flow::Stop });
        }
        let inputs = Span { from: inputs_from, to: self.ids.len() as u32 };
        let outputs = self.pool(spec.outputs);
        let saved = self.pool(spec.saved);
        self.ops.push(Op {
            name: spec.name,
            unit: spec.unit,
            inputs,
            outputs,
            saved,
            scratch_forward: spec.scratch_forward,
            scratch_backward: spec.scratch_backward,
            flops_forward: spec.flops.0,
            flops_backward: spec.flops.1,
            elementwise: spec.elementwise,
            launches: spec.launches,
        });
    }

    fn pool(&mut self, ids: &[Id]) -> Span {
        let from = self.ids.len() as u32;
        self.ids.extend_from_slice(ids);
        Span { from, to: self.ids.len() as u32 }
    }

    /// The tensors that a span names.
    #[must_use]
    pub fn ids(&self, span: Span) -> &[Id] {
        &self.ids[span.range()]
    }

    /// How gradients flow to the inputs that `span` names.
    #[must_use]
    pub fn flows(&self, span: Span) -> &[Flow] {
        &self.flows[span.range()]
    }

    /// A tensor.
    #[must_use]
    pub fn get(&self, id: Id) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// The tensor that holds the memory of `id`.
    #[must_use]
    pub fn storage(&self, id: Id) -> Id {
        self.get(id).view_of.unwrap_or(id)
    }

    /// Elements of all its parameters on this GPU, tied ones left out.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let own = self.weights.iter().filter(|weight| !weight.tied);
        own.fold(0, |sum: u64, weight| sum.saturating_add(weight.numel.saturating_mul(weight.copies)))
    }
}
