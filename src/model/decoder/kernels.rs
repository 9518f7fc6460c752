//! The attention core: its sizes, which kernel computes it, and what each kernel keeps.

use super::DecoderContext;
use super::attention::product;
use crate::framework::{Rope, Softmax};
use crate::model::architecture::Family;
use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId, Unit};
use crate::model::walk::{AttentionChoice, FusedKernels, Kernel};
use crate::model::work::{Scores, Work};
use crate::plan::keywords::Position;

/// Flash attention takes heads of a multiple of so many channels (sdp_utils.cpp, `check_head_dim_size_flash`).
const FLASH_DIM: u64 = 8;

/// Elements to which the memory-efficient kernel's mask is filled up along the keys, by a copy in each call
/// (aten/src/ATen/native/transformers/attention.cpp, `preprocess_mask`).
const MASK_ALIGNMENT: u64 = 8;

/// Whether that kernel takes a mask over so many keys as it is.
pub const fn is_aligned(keys: u64) -> bool {
    keys.is_multiple_of(MASK_ALIGNMENT)
}

/// Sizes of the attention core on one rank.
#[derive(Clone, Copy)]
pub struct Core {
    pub batch: u64,
    /// Query positions on this rank.
    pub queries: u64,
    /// Key positions that they attend to.
    pub keys: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Head size of queries and keys.
    pub dim: u64,
    /// Head size of values.
    pub value_dim: u64,
    /// A window narrower than the sequence needs a mask outside flash kernels.
    pub masked: bool,
    /// Queries and keys lie contiguous by head (a `cat` made them).
    pub by_head: bool,
    /// Share of the pairs of query and key that a kernel which skips masked blocks computes.
    pub visible: f64,
}

impl Core {
    pub(super) fn query(&self) -> u64 {
        product(&[self.batch, self.queries, self.heads, self.dim])
    }

    pub(super) fn output(&self) -> u64 {
        product(&[self.batch, self.queries, self.heads, self.value_dim])
    }

    pub fn scores(&self) -> u64 {
        product(&[self.batch, self.heads, self.queries, self.keys])
    }

    /// A matmul broadcasts a single head of one sample by a view.
    pub(super) const fn is_view(&self) -> bool {
        self.kv_heads == 1 && self.batch == 1
    }

    pub(super) fn rows(&self) -> u64 {
        product(&[self.batch, self.heads, self.queries])
    }

    /// Operations of the five matmuls of a fused backward pass: scores again, and gradients of scores, queries, keys
    /// and values.
    fn flops_backward(&self) -> f64 {
        2.0 * self.rows() as f64 * self.keys as f64 * (3 * self.dim + 2 * self.value_dim) as f64
    }

    /// The fused kernel's work.
    pub(super) fn work(&self) -> Work {
        Work::Attention(Scores {
            heads: self.batch.saturating_mul(self.heads),
            queries: self.queries,
            sharing: self.heads / self.kv_heads.max(1),
            dim: u64::midpoint(self.dim, self.value_dim),
            visible: self.visible,
        })
    }

    /// Operations of both matmuls, not halved for causality.
    pub(super) fn flops(&self) -> f64 {
        2.0 * self.rows() as f64 * self.keys as f64 * (self.dim + self.value_dim) as f64
    }
}

impl DecoderContext<'_> {
    /// Sizes of the core in a layer with or without a window.
    pub fn core(&self, windowed: bool) -> Core {
        let (d, run) = (self.d, self.run);
        // transformers spares itself the mask where the whole sequence is shorter than the window
        // (masking_utils.py, _ignore_causal_mask_sdpa).
        let window = d.sliding_window.filter(|window| windowed && *window <= run.sequence);
        if let Some(block) = window.filter(|_| self.class_rules().window_blocks) {
            return self.in_blocks(block);
        }
        let biased = self.hands_bias();
        let reach = window.map_or(1.0, |window| window as f64 / run.sequence.max(1) as f64);
        let skips = self.causal && run.cache.is_none_or(|cache| cache.past == 0);
        Core {
            batch: run.batch,
            queries: run.local_sequence(),
            keys: run.context_tokens(),
            heads: self.split(d.heads),
            kv_heads: self.split(d.kv_heads),
            dim: d.head_dim,
            value_dim: d.value_dim(),
            masked: run.padded || window.is_some() || biased || self.class_rules().always_masked,
            by_head: self.joins_rotated() && d.mla.is_none(),
            // Of a window's w, all but the first w queries see w keys; without one w is the whole sequence.
            visible: if skips { reach - reach * reach / 2.0 } else { 1.0 },
        }
    }

    /// Whether PyTorch's attention is given ALiBi as a mask for each head: Falcon does so, and whoever writes another model
    /// with it has no other way to (no kernel of PyTorch takes slopes).
    pub(super) fn hands_bias(&self) -> bool {
        let own = matches!(self.family, Family::Falcon | Family::Llama);
        own && self.d.position == Position::Alibi && self.run.attention == AttentionChoice::Dispatch
    }

    /// Patches attend within square windows of so many alone, each a sample of its own; those at the edges have fewer.
    fn in_blocks(&self, block: u64) -> Core {
        let (d, run) = (self.d, self.run);
        let across = run.sequence.isqrt().div_ceil(block.isqrt().max(1));
        let windows = across.saturating_mul(across).max(1);
        let each = run.sequence.div_ceil(windows);
        Core {
            batch: run.batch.saturating_mul(windows),
            queries: each,
            keys: each,
            heads: d.heads,
            kv_heads: d.kv_heads,
            dim: d.head_dim,
            value_dim: d.head_dim,
            masked: false,
            by_head: false,
            visible: 1.0,
        }
    }

    /// Which kernel runs (PyTorch 2.9, `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`).
    pub fn kernel(&self, core: &Core) -> Kernel {
        let element = self.run.compute();
        match self.run.attention {
            AttentionChoice::Eager => Kernel::Eager,
            _ if self.class_rules().written_scores => Kernel::Eager,
            AttentionChoice::Flash => Kernel::Flash,
            // Sinks or a position bias on the scores leave transformers no fused kernel. A score cap does not: it is
            // dropped (integrations/sdpa_attention.py).
            AttentionChoice::Dispatch if self.class_rules().wide_scores => Kernel::Eager,
            AttentionChoice::Dispatch if self.d.attention_sinks && self.run.modules.fused_sinks.is => Kernel::Flash,
            AttentionChoice::Dispatch if self.d.attention_sinks => Kernel::Eager,
            AttentionChoice::Dispatch if self.d.position == Position::Alibi && self.family == Family::Bloom => {
                Kernel::Eager
            }
            AttentionChoice::Dispatch if self.run.fused == FusedKernels::Cpu => self.kernel_on_cpu(core),
            AttentionChoice::Dispatch => {
                let half = matches!(element, Element::Bf16 | Element::F16 | Element::Fp8);
                // Falcon calls SDPA without `enable_gqa` (models/falcon/modeling_falcon.py).
                let grouped = core.heads == core.kv_heads || self.family != Family::Falcon;
                let whole = core.heads == core.kv_heads || self.repeats();
                let flash = half && self.run.fused == FusedKernels::Flash;
                // Before compute capability 8.0 the memory-efficient kernel takes no bf16.
                let efficient = match self.run.fused {
                    FusedKernels::Efficient => element != Element::Bf16,
                    fused => fused == FusedKernels::Flash,
                };
                if flash && grouped && !core.masked && core.dim <= 256 && core.dim == core.value_dim {
                    Kernel::Flash
                } else if efficient && (whole || (core.masked && grouped)) {
                    Kernel::Efficient
                } else {
                    Kernel::Math
                }
            }
        }
    }

    /// A CPU's flash kernel takes every type, masks and fewer heads of keys, but no dropout (PyTorch 2.9,
    /// `aten/src/ATen/native/transformers/sdp_utils_cpp.cpp`, `use_flash_attention_cpp`). Under a mask transformers repeats
    /// the keys' heads, and it keeps the mask as the memory-efficient kernel does.
    fn kernel_on_cpu(&self, core: &Core) -> Kernel {
        let whole = core.heads == core.kv_heads || self.repeats();
        let takes = self.score_dropout() == 0.0 && core.dim == core.value_dim;
        match takes && (whole || self.family != Family::Falcon) {
            false => Kernel::Math,
            true if whole || core.masked => Kernel::Efficient,
            true => Kernel::Flash,
        }
    }

    /// Whether the module repeats keys and values before any kernel (models/qwen2_moe, `Qwen2MoeSdpaAttention`).
    const fn repeats(&self) -> bool {
        let own = self.run.modules.family_classes.is && matches!(self.family, Family::Qwen2Moe);
        self.run.modules.repeated_kv.is || own || self.class_rules().repeats_kv
    }

    /// The attention core; its output lies as the output matrix reads it.
    pub fn attend(&self, b: &mut Builder<'_>, q: TensorId, k: TensorId, v: TensorId, core: &Core) -> TensorId {
        match self.kernel(core) {
            kernel @ (Kernel::Flash | Kernel::Efficient) => self.fused(b, [q, k, v], core, kernel),
            Kernel::Math => self.math(b, [q, k, v], core),
            Kernel::Eager if self.run.modules.softmax.is == Softmax::Fused => self.fused_softmax(b, [q, k, v], core),
            Kernel::Eager => self.eager(b, [q, k, v], core),
        }
    }

    /// Whether a model makes its mask once for all layers, as BERT does (models/bert/modeling_bert.py); Falcon's has a bias
    /// for each head where it has one.
    const fn makes_mask_once(&self) -> bool {
        matches!(
            self.family,
            Family::Bert
                | Family::Roberta
                | Family::Distilbert
                | Family::Albert
                | Family::Falcon
                | Family::Opt
                | Family::Jamba
                | Family::Qwen2Moe
                | Family::Bart
                | Family::ModernBert
                | Family::Mbart
        )
    }

    /// A fused kernel: saves queries, keys, values, its output and the log-sum of each row.
    fn fused(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core, kernel: Kernel) -> TensorId {
        let name = "attention.core";
        if kernel == Kernel::Flash && !core.dim.is_multiple_of(FLASH_DIM) {
            return self.widened(b, qkv, core);
        }
        let [q, k, v] = qkv;
        // transformers repeats keys and values for a kernel with a mask (integrations/sdpa_attention.py).
        let repeat = core.heads != core.kv_heads && (kernel == Kernel::Efficient || self.repeats());
        let [k, v] = [k, v].map(|x| if repeat { self.repeated_once(b, x, core) } else { x });
        let [q, k, v] = [q, k, v].map(|x| b.lower(name, x));
        let element = b.element(q);
        let grad = b.needs_grad(q) || b.needs_grad(k) || b.needs_grad(v);
        let biased = self.hands_bias();
        // Autocast casts it in each call.
        let once = self.makes_mask_once() || self.class_rules().typed_mask || biased;
        let shared = once && element == self.stream_element() && is_aligned(core.keys);
        let is_masked = core.masked && kernel == Kernel::Efficient;
        let mask = (is_masked && !shared).then(|| {
            // A boolean mask is turned into one of the score's type in each call.
            let heads = if biased { core.heads } else { 1 };
            let keys = core.keys.next_multiple_of(MASK_ALIGNMENT);
            let mask = b.make(product(&[core.batch, heads, core.queries, keys]), element, false);
            b.op(&Spec { name: "attention.mask", outputs: &[mask], elementwise: true, ..Spec::default() });
            mask
        });
        let out = b.make(core.output(), element, grad);
        // The memory-efficient kernel pads each head's rows to 32.
        let rows = if kernel == Kernel::Efficient {
            product(&[core.batch, core.heads, core.queries.div_ceil(32).saturating_mul(32)])
        } else {
            core.rows()
        };
        let log_sum = b.make(rows, Element::F32, false);
        let (seed, offset) = (b.make(1, Element::I64, false), b.make(1, Element::I64, false));
        // Under a mask of its own the memory-efficient kernel skips no block: it knows no structure in it.
        let core = &Core { visible: if is_masked { 1.0 } else { core.visible }, ..*core };
        let exchange = self.context_exchange(b, [q, k, v], core);
        let [kept_q, kept_k, kept_v] = exchange.as_ref().map_or([q, k, v], |exchange| exchange.saved);
        let saved = [kept_q, kept_k, kept_v, out, log_sum, seed, offset, mask.unwrap_or(log_sum)];
        let mut outputs = vec![out, log_sum, seed, offset];
        outputs.extend(exchange.iter().flat_map(|exchange| &exchange.made));
        b.op(&Spec {
            name,
            unit: Unit::Attention(element),
            work: core.work(),
            inputs: &[(q, Flow::New), (k, Flow::New), (v, Flow::New)],
            outputs: &outputs,
            saved: if grad { &saved } else { &[] },
            scratch_forward: exchange.as_ref().map_or(0, |exchange| exchange.forward),
            scratch_backward: exchange.as_ref().map_or(0, |exchange| exchange.backward),
            flops: (core.flops(), core.flops_backward()),
            ..Spec::default()
        });
        let sent = exchange.is_some_and(|exchange| exchange.output_sent);
        // Queries that a `cat` made lie by head, as the kernel's result then does (latent attention's as well).
        let by_head = core.by_head || (self.run.modules.rope.is == Rope::Eager && self.joins_rotated());
        // flash-attn's kernels take samples before tokens: what they give of several is put in order (Transformer Engine
        // 2.16, pytorch/attention/dot_product_attention/backends.py, FlashAttention.forward).
        let several = core.batch > 1 && self.run.cut.context == 1;
        let turned = self.run.flash_attn && core.dim == core.value_dim && several;
        if sent || turned || (by_head && kernel == Kernel::Flash) { b.copy("attention.merge", out) } else { out }
    }

    /// Flash attention of heads that are filled up to a size that it has, and the result without what was filled up
    /// (aten/src/ATen/native/transformers/attention.cpp, `pad_last_dim`).
    fn widened(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core) -> TensorId {
        let dim = core.dim.next_multiple_of(FLASH_DIM);
        let qkv = qkv.map(|x| {
            let x = b.lower("attention.pad", x);
            let numel = (b.numel(x) / core.dim.max(1)).saturating_mul(dim);
            b.copy_of("attention.pad", x, numel)
        });
        let out = self.fused(b, qkv, &Core { dim, value_dim: dim, by_head: false, ..*core }, Kernel::Flash);
        b.copy_of("attention.merge", out, core.output())
    }

    pub(super) fn repeated(&self, b: &mut Builder<'_>, x: TensorId, core: &Core) -> TensorId {
        self.repeated_as(b, "attention.repeat_kv", x, core)
    }

    /// A copy with as many heads as queries have.
    pub(super) fn repeated_as(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId, core: &Core) -> TensorId {
        let numel = (b.numel(x) / core.kv_heads.max(1)).saturating_mul(core.heads);
        b.copy_of(name, x, numel)
    }

    /// Keys or values repeated to the number of query heads: those of a single head by a view, of which autocast's
    /// cast makes a whole copy.
    fn repeated_once(&self, b: &mut Builder<'_>, x: TensorId, core: &Core) -> TensorId {
        let lower = self.run.compute();
        if core.kv_heads > 1 {
            self.repeated(b, x, core)
        } else if self.run.types.autocast.is_some() && b.element(x) != lower {
            b.unary("attention.repeat_kv", (x, Flow::New), (core.query(), lower), Stash::Nothing)
        } else {
            x
        }
    }
}
