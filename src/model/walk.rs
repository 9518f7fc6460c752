//! What a walk is asked for, and what it gives: tapes, one of each kind of layer, and
//! the order in which they run.

use super::builder::{Adapters, Types};
use super::element::Element;
use super::frozen::FrozenParts;
use super::sight::SeenImages;
use super::tape::Tape;
use super::weight::Weight;
use crate::framework::Modules;
use crate::plan::keywords::CpComm;

/// How the model is cut over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Tensor parallel.
    pub tensor: u64,
    /// The output matrix is whole on each of its ranks.
    pub whole_head: bool,
    /// Norms and residuals split along the sequence too.
    pub sequence: bool,
    /// Context parallel.
    pub context: u64,
    /// How its ranks exchange keys and values.
    pub exchange: CpComm,
    /// Expert parallel.
    pub expert: u64,
    /// Each of its ranks gathers the tokens of all.
    pub gathers_tokens: bool,
    /// Tensor parallel within experts.
    pub expert_tensor: u64,
}

impl Cut {
    /// One GPU holds everything.
    pub const WHOLE: Self = Self {
        tensor: 1,
        whole_head: false,
        sequence: false,
        context: 1,
        exchange: CpComm::P2p,
        expert: 1,
        gathers_tokens: false,
        expert_tensor: 1,
    };
}

/// Which kernel computes attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Flash attention.
    Flash,
    /// PyTorch's memory-efficient kernel.
    Efficient,
    /// PyTorch's math fallback: scores in memory.
    Math,
    /// Written out in the module: scores in memory.
    Eager,
}

/// How the loss treats logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossRule {
    /// `logits.float()` before the cross-entropy.
    Upcast,
    /// Cross-entropy on the logits as they are.
    Plain,
    /// `logits.float()`, then PyTorch's loss-parallel cross-entropy over sharded logits.
    ShardedLogits,
    /// Head and loss in chunks of tokens, each with its backward pass.
    Chunked {
        /// How many chunks.
        chunks: u64,
        /// The loss of a chunk is compiled: no fp32 copy of its logits.
        compiled: bool,
    },
    /// Head and loss together, a part of the tokens at a time: all that is kept is the gradient of their input.
    Fused {
        /// How many parts; `None`: by Liger's law.
        parts: Option<u64>,
    },
    /// Megatron's: an fp32 copy whose exponentials are kept.
    VocabParallel,
    /// Megatron's fused kernels: the same memory with fewer temporaries.
    VocabParallelFused,
    /// Transformer Engine's: the logits are overwritten by their gradient.
    TeFused,
}

/// One micro-batch on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct MicroBatch<'a> {
    /// What the framework's modules do.
    pub modules: &'a Modules,
    /// In which types.
    pub types: &'a Types,
    /// Adapters.
    pub adapters: Option<&'a Adapters>,
    /// Samples.
    pub batch: u64,
    /// Tokens a sample, before context parallel splits them.
    pub sequence: u64,
    /// Tokens a sample that the decoder of an encoder-decoder reads.
    pub target: u64,
    /// Pixels (or latents) a side of an image.
    pub image: u64,
    /// Images before a language model that sees.
    pub seen: SeenImages,
    /// The cut.
    pub cut: Cut,
    /// What computes attention; `None`: by PyTorch's rules.
    pub attention: AttentionChoice,
    /// The kernels that PyTorch's rules choose among.
    pub fused: FusedKernels,
    /// Transformer Engine takes flash-attn's kernels and not cuDNN's.
    pub flash_attn: bool,
    /// Some layers are recomputed.
    pub checkpointed: bool,
    /// What is looked up for tokens needs a gradient, whether or not the table learns.
    pub graded_inputs: bool,
    /// A padding mask is given.
    pub padded: bool,
    /// The last token's logits and no loss: prefill.
    pub head_only: bool,
    /// How the loss treats logits.
    pub loss: LossRule,
    /// A dropout that overrides the model's own.
    pub dropout: Option<f64>,
    /// Parts that are frozen.
    pub frozen: FrozenParts,
    /// Rows that the vocabulary is padded to a multiple of.
    pub vocab_multiple: u64,
    /// Keys and values are kept for later tokens.
    pub cache: Option<Cache>,
}

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cache {
    /// In which type; none: that of the computation.
    pub element: Option<Element>,
    /// Tokens a sample that are in it already: 0 while a prompt is read.
    pub past: u64,
    /// Latent attention keeps its compressed keys and values in place of each head's.
    pub latents: bool,
}

/// The plan's choice of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionChoice {
    /// PyTorch's dispatcher decides.
    Dispatch,
    /// Fused, always.
    Flash,
    /// Written out.
    Eager,
}

/// Fused attention kernels of PyTorch that a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FusedKernels {
    /// Flash and memory-efficient ones: compute capability 8.0 and above.
    Flash,
    /// The memory-efficient one, which takes no bf16.
    Efficient,
    /// A CPU's flash kernel.
    Cpu,
    /// None: attention is composed of matrix products and a softmax.
    Absent,
}

impl MicroBatch<'_> {
    /// Tokens on this rank.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.batch.saturating_mul(self.local_sequence())
    }

    /// Tokens a sample on this rank.
    #[must_use]
    pub const fn local_sequence(&self) -> u64 {
        self.sequence.div_ceil(self.cut.context)
    }

    /// Tokens a sample that attention sees: these and the cached ones before them.
    #[must_use]
    pub const fn context_tokens(&self) -> u64 {
        match self.cache {
            Some(cache) => self.sequence.saturating_add(cache.past),
            None => self.sequence,
        }
    }

    /// Tokens on this rank where norms and residuals are split along the sequence.
    #[must_use]
    pub const fn stream_tokens(&self) -> u64 {
        if self.cut.sequence { self.tokens().div_ceil(self.cut.tensor) } else { self.tokens() }
    }

    /// The type in which the modules compute.
    #[must_use]
    pub fn compute(&self) -> Element {
        self.types.autocast.unwrap_or(self.types.weight)
    }

    /// A dropout probability: the plan's, or the model's own.
    #[must_use]
    pub fn dropout_or(&self, own: f64) -> f64 {
        self.dropout.unwrap_or(own)
    }
}

/// The tapes of a model.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// Embedding and whatever else runs once before the layers.
    pub first: Tape,
    /// One tape for each kind of layer, with its name.
    pub kinds: Vec<(&'static str, Tape)>,
    /// Kind of each layer, in order.
    pub order: Vec<usize>,
    /// Head and loss.
    pub last: Tape,
    /// Bytes of what `first` makes and layers share (rotary tables, masks).
    pub shared: u64,
    /// Bytes of two masks that layers are handed: checkpointed ones keep them.
    pub masks: [u64; 2],
    /// Which of them each layer is handed (in a decoder: whether it attends within a window); a higher number: none.
    pub mask_of: Vec<usize>,
    /// Bytes of module buffers (GPT-2's causal masks).
    pub buffers: u64,
    /// Bytes of the micro-batch's inputs and labels.
    pub inputs: u64,
    /// Gradients that wait for a layer far from the one that made them.
    pub pending: Vec<Pending>,
    /// What layers hold for each other during the forward pass only: made by the first, until the last.
    pub passing: Vec<Passing>,
    /// Bytes that a block returns beside its hidden state: they live until the next block has returned.
    pub returned: u64,
    /// Nothing in that block saves it.
    pub returned_unsaved: bool,
    /// The head's matrix is the embedding's.
    pub tied: bool,
}

/// A gradient that one layer's backward pass makes for another, which runs later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// The layer that makes it: its place in the order.
    pub made_by: usize,
    /// The last layer during whose backward pass it waits.
    pub until: usize,
    /// Bytes.
    pub bytes: u64,
}

/// What is held in the forward pass for layers further on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    /// The first layer that runs while it is held: the one behind the layer that makes it.
    pub from: usize,
    /// The last one; the highest number where what stands behind all layers has it too.
    pub until: usize,
    /// Bytes.
    pub bytes: u64,
    /// Whether layers read it: a recomputed one keeps it until it has run again. Else a frame of the caller has it.
    pub is_read: bool,
    /// The layer before the first reads it as what comes in.
    pub came_in: bool,
    /// The layer before the first makes and saves it: held beside that only where it is recomputed, which saves nothing.
    pub made_again: bool,
    /// The first layer that would keep it to run again.
    pub reader: usize,
}

impl Passing {
    /// What layers from one to another read, and nothing but they.
    #[must_use]
    pub const fn read(from: usize, until: usize, bytes: u64) -> Self {
        Self { from, until, bytes, is_read: true, came_in: false, made_again: false, reader: from }
    }

    /// What a frame has while layers from one to another run.
    #[must_use]
    pub const fn by_frame(from: usize, until: usize, bytes: u64) -> Self {
        Self { from, until, bytes, is_read: false, came_in: false, made_again: false, reader: from }
    }
}

/// Exact parameter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// All, tied ones once.
    pub total: u64,
    /// With gradients.
    pub trained: u64,
    /// Those that one token passes.
    pub active: u64,
}

impl Count {
    /// Adds a parameter of so many layers; a tied one is another's.
    pub(super) fn add(&mut self, weight: &Weight, layers: u64) {
        if weight.tied {
            return;
        }
        let all = weight.parameters().saturating_mul(weight.copies).saturating_mul(layers);
        self.total = self.total.saturating_add(all);
        if weight.trained || weight.unreached {
            self.trained = self.trained.saturating_add(all);
        }
        let active = weight.parameters().saturating_mul(weight.active).saturating_mul(layers);
        self.active = self.active.saturating_add(active);
    }
}

impl Walk {
    /// Counts the parameters of the whole walk.
    #[must_use]
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        let mut add = |tape: &Tape, times: u64| {
            for weight in &tape.weights {
                count.add(weight, times);
            }
        };
        add(&self.first, 1);
        let mut layers = vec![0; self.kinds.len()];
        for kind in &self.order {
            layers[*kind] += 1;
        }
        for ((_, tape), layers) in self.kinds.iter().zip(layers) {
            add(tape, layers);
        }
        add(&self.last, 1);
        count
    }
}
