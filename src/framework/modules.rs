//! What a framework's modules do: which operators run, and what each of them keeps.

use super::{Rule, rule};

/// How an RMS norm runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RmsNorm {
    /// Six operators with an fp32 copy; the weight multiplies after the cast back.
    Eager,
    /// The same; the weight multiplies before the cast back.
    EagerWide,
    /// The same, with `1 + weight` in fp32 before the cast back.
    EagerOnePlus,
    /// One operator: saves its input and the reciprocal deviation.
    Fused,
    /// Liger's: the same, whatever the class writes; the gradient of the input takes the memory of the output's.
    Liger,
    /// The same with a gradient of its own, where another module reads the output's too (`in_place=False`).
    LigerApart,
}

/// How rotary embeddings are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rope {
    /// `x * cos + rotate_half(x) * sin`, operator by operator.
    Eager,
    /// As complex numbers in fp32, then cast back.
    Complex,
    /// One operator that saves nothing but the table.
    Fused,
    /// The same, in the memory of what it rotates (Liger).
    InPlace,
}

/// How a gated activation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `act(gate) * up`: two operators; gate, its activation and up are saved.
    Eager,
    /// One operator that saves its two inputs.
    Fused,
    /// The same, whose gradients overwrite them (Liger).
    InPlace,
}

/// How an activation that is written out in Python runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointwiseAct {
    /// As the class writes it.
    AsWritten,
    /// One operator that saves its input.
    Fused,
}

/// Where the attention's result is made contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitHeads {
    /// Views of the projections.
    Views,
    /// Queries, keys and values copied out of one projection.
    Copies,
}

/// How attention that is written out treats its scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Softmax {
    /// Scaled, masked, softmax in fp32, cast back: one operator each.
    Separate,
    /// One kernel that keeps its output in the scores' type.
    Fused,
}

/// How routed experts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experts {
    /// A Python loop over expert modules.
    Loop,
    /// Tokens permuted, one grouped matrix multiplication a matrix.
    Grouped,
    /// The same, each token weighted by its probability before the last matrix multiplication, not after it.
    Weighted,
}

/// Where sequence parallel's gathered input of a matrix lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// In a tensor that autograd saves.
    Saved,
    /// The output matrix's in a buffer that stays.
    KeptByHead,
    /// Every matrix's in the same buffer that stays.
    Kept,
}

/// How attention runs where ranks share a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedSequence {
    /// Transformer Engine's functions, by the plan's `cp_comm`.
    Engine,
    /// PyTorch's: keys and values gathered, results in fp32.
    Gathered,
}

/// The type of adapters' weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterType {
    /// fp32, whatever the model's.
    Fp32,
    /// The model's own.
    Model,
}

/// Which modules stand for a model that is given by its fields alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The transformers class of that kind; encoders normalise behind their blocks.
    Transformers,
    /// nanoGPT's.
    Nanogpt,
    /// Megatron's; encoders normalise before their blocks.
    Megatron,
}

/// An operator of the walk, and the module whose matrix multiplication it is, as the end of its path.
pub type Module = (&'static str, &'static str);

/// What a framework's modules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modules {
    /// The attention and feed-forward modules.
    pub block: Rule<Layout>,
    /// The module of layer norms, where PyTorch's own is not it.
    pub layer_norm: Option<&'static str>,
    /// RMS norm.
    pub rms_norm: Rule<RmsNorm>,
    /// Rotary embedding.
    pub rope: Rule<Rope>,
    /// Gated activation.
    pub gate: Rule<Gate>,
    /// Activations written in Python.
    pub act: Rule<PointwiseAct>,
    /// Queries, keys, values.
    pub heads: Rule<SplitHeads>,
    /// The softmax of attention that is written out.
    pub softmax: Rule<Softmax>,
    /// Sequence parallel's gathered inputs.
    pub gather: Rule<Gather>,
    /// A buffer for gathered inputs and scores, which stays (Megatron's `GlobalMemoryBuffer`).
    pub global_buffer: Rule<bool>,
    /// Attention under context parallel.
    pub shared_sequence: Rule<SharedSequence>,
    /// Routed experts.
    pub experts: Rule<Experts>,
    /// One matrix for queries, keys and values, and one for gate and up, where the family has several.
    pub fused_projections: Rule<bool>,
    /// A matrix for each of queries, keys, values, gate and up, where the family's class has one for several.
    pub split_projections: Rule<bool>,
    /// The vocabulary is padded to this many rows a tensor-parallel rank.
    pub vocab_multiple: Rule<u64>,
    /// Mixed precision runs under autocast with its cache of weight copies.
    pub autocast: Rule<bool>,
    /// Its fused attention takes a learned sink.
    pub fused_sinks: Rule<bool>,
    /// Keys and values repeated to the number of query heads before attention.
    pub repeated_kv: Rule<bool>,
    /// The logits, and the hidden state that they are made of, are held until the loss is there.
    pub logits_held: Rule<bool>,
    /// Each new token makes the cache anew, a copy with that token behind.
    pub grows_cache: Rule<bool>,
    /// Modules behind the last layer predict further tokens, where the model has some.
    pub prediction: Rule<bool>,
    /// ReLU overwrites its input.
    pub inplace_relu: Rule<bool>,
    /// Modules register position ids, causal masks or rotary frequencies as buffers.
    pub position_tables: Rule<bool>,
    /// The model makes the attention mask before its first layer, and each layer is handed it.
    pub masks: Rule<bool>,
    /// Python functions hold tensors by name after their last use, as transformers' blocks and loops do.
    pub python_names: Rule<bool>,
    /// Each family has a class of its own, with its own norms and attention, where its file differs from Llama's.
    pub family_classes: Rule<bool>,
    /// State-space layers of heads have a module that tensor parallel splits, with norm and output matrix behind the kernel.
    pub splits_scan: Rule<bool>,
    /// A block that is recomputed runs to its end again, not only as far as anything is saved.
    pub reruns_all: Rule<bool>,
    /// Transformer Engine's modules run: its attention, its FP8 operands, its workspaces.
    pub transformer_engine: Rule<bool>,
    /// The router multiplies by Transformer Engine, whoever's the other modules are.
    pub router_by_engine: Rule<bool>,
    /// Inputs of linear layers are cast to FP8 before sequence parallel gathers them, where a tensor has one scale.
    pub fp8_gathers: Rule<bool>,
    /// Weights can be stored and gathered in FP8 (`training.fp8_param_gather`).
    pub fp8_shards: Rule<bool>,
    /// Weights are cast to FP8 once a step, not once a micro batch.
    pub fp8_weights_once: Rule<bool>,
    /// Type of adapters.
    pub adapters: Rule<AdapterType>,
    /// Scales of 4-bit weights are quantised too, asked for or not.
    pub quantised_scales: Rule<bool>,
    /// Ranks that share 4-bit weights out share their scales out too; where not, every rank has all.
    pub shares_scales: Rule<bool>,
    /// A layer with quantised weights gives its output in the type of its input, and an adapter beside it copies that.
    pub restores_input_type: Rule<bool>,
    /// What it calls the linear layers of every model; none: as the family's transformers class does.
    pub linear_layers: Rule<Option<&'static [Module]>>,
    /// The embedding and the output matrix, where adapters stand on them by name; none: as transformers' classes name them.
    pub vocabulary_layers: Rule<Option<&'static [Module]>>,
    /// Modules that adapters stand on where a plan names none; none: by family, as peft does.
    pub adapter_targets: Rule<Option<&'static [&'static str]>>,
}

impl Modules {
    /// The same modules under `torch.compile`: chains of elementwise operators are one kernel.
    #[must_use]
    pub const fn compiled(self) -> Self {
        const INDUCTOR: &str =
            "PyTorch 2.9, torch/_inductor/scheduler.py, Scheduler.fuse_nodes: elementwise chains and reductions fuse";
        Self {
            rms_norm: rule(RmsNorm::Fused, INDUCTOR),
            rope: rule(Rope::Fused, INDUCTOR),
            gate: rule(Gate::Fused, INDUCTOR),
            act: rule(PointwiseAct::Fused, INDUCTOR),
            softmax: rule(Softmax::Fused, INDUCTOR),
            ..self
        }
    }

    /// Whether projections are one matrix, of which the family's class has one or several.
    #[must_use]
    pub const fn is_one_matrix(&self, in_class: bool) -> bool {
        self.fused_projections.is || (in_class && !self.split_projections.is)
    }

    /// The same modules with those of Liger's kernels that a plan names in their place.
    #[must_use]
    pub const fn with_liger(self, kernels: LigerKernels) -> Self {
        let norm = if kernels.norm_apart { RmsNorm::LigerApart } else { RmsNorm::Liger };
        Self {
            rms_norm: if kernels.rms_norm { rule(norm, "Liger-Kernel 0.8, ops/rms_norm.py") } else { self.rms_norm },
            rope: if kernels.rope { rule(Rope::InPlace, "Liger-Kernel 0.8, ops/rope.py") } else { self.rope },
            gate: if kernels.glu { rule(Gate::InPlace, "Liger-Kernel 0.8, ops/swiglu.py") } else { self.gate },
            ..self
        }
    }
}

/// Which modules Liger's kernels replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LigerKernels {
    /// RMS norms.
    pub rms_norm: bool,
    /// Norms whose gradient has memory of its own.
    pub norm_apart: bool,
    /// Rotary embedding.
    pub rope: bool,
    /// The gated activation.
    pub glu: bool,
}
