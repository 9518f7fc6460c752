//! What a model is made of, whichever file described it.

use super::families::{DiT, EncoderDecoder, ResidualNet, Unet};
use crate::plan::keywords::{Norm, Position};

/// A model: a name, whose modules it uses, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// How screens and reports call it ("llama 32 x 4096").
    pub name: String,
    /// Whose modules transformers runs for it.
    pub family: Family,
    /// Its shape.
    pub shape: Shape,
}

/// The kinds of model that have a walk.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A decoder-only transformer.
    Decoder(Decoder),
    /// An encoder of text or of image patches.
    Encoder(Encoder),
    /// An encoder and a decoder that attends to it.
    EncoderDecoder(EncoderDecoder),
    /// A residual convolutional network.
    ResidualNet(ResidualNet),
    /// A UNet that denoises latents.
    Unet(Unet),
    /// A transformer that denoises latents.
    DiT(DiT),
}

/// An encoder: blocks whose attention sees everything, between ends of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// Its blocks, in the terms of a decoder's.
    pub stack: Decoder,
    /// What comes before and behind them.
    pub ends: Ends,
}

/// Embedding and head of an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// Tokens.
    Text {
        /// Rows of the segment embedding.
        types: u64,
        /// A matrix over the first token.
        pooler: bool,
        /// What it is trained for.
        head: TextHead,
    },
    /// Patches of an image.
    Image {
        /// Pixels a side.
        image: u64,
        /// Pixels a side of a patch.
        patch: u64,
        /// Colours.
        channels: u64,
        /// Classes.
        classes: u64,
    },
}

/// What an encoder of text is trained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextHead {
    /// Nothing: hidden states.
    No,
    /// Masked tokens.
    MaskedLm,
    /// Masked tokens and whether two sentences follow each other.
    Pretraining,
    /// A class of the whole text; `true`: by a head with a matrix of its own (`RoBERTa`).
    Classes(u64, bool),
}

/// Whose modules a model uses in transformers: they differ in what they save.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// OPT.
    Opt,
    /// GPT-NeoX, Pythia.
    GptNeox,
    /// BLOOM.
    Bloom,
    /// Falcon.
    Falcon,
    /// Llama and everything built like it.
    Llama,
    /// Mistral.
    Mistral,
    /// Mixtral.
    Mixtral,
    /// Qwen 2 and 2.5.
    Qwen2,
    /// Qwen 1.5 and 2 with experts.
    Qwen2Moe,
    /// Qwen 3.
    Qwen3,
    /// Qwen 3 with experts.
    Qwen3Moe,
    /// Gemma.
    Gemma,
    /// Gemma 2.
    Gemma2,
    /// The text part of Gemma 3.
    Gemma3Text,
    /// Phi 1, 1.5 and 2.
    Phi,
    /// Phi 3.
    Phi3,
    /// `DeepSeek` V2.
    DeepseekV2,
    /// `DeepSeek` V3.
    DeepseekV3,
    /// gpt-oss.
    GptOss,
    /// nanoGPT.
    Nanogpt,
    /// BERT.
    Bert,
    /// `RoBERTa`.
    Roberta,
    /// Vision transformer.
    Vit,
    /// T5.
    T5,
    /// Whisper.
    Whisper,
    /// `ResNet`.
    Resnet,
    /// diffusers' UNet.
    Unet,
    /// The diffusion transformer.
    Dit,
}

/// The function between the matrices of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// GELU by `erf` or by a fused `tanh` kernel: one operator.
    Gelu,
    /// GELU written out in Python with `tanh` and `pow` (`gelu_new`).
    GeluNew,
    /// GELU written out in Python as BLOOM does, with its own backward.
    GeluBloom,
    /// `x * sigmoid(1.702 x)` in Python.
    QuickGelu,
    /// `SiLU`.
    Silu,
    /// `ReLU`.
    Relu,
    /// Squared `ReLU`.
    Relu2,
    /// gpt-oss's clamped `SiLU` variant.
    ClampedSwiglu,
}

/// Norms over queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    No,
    /// One weight vector of the head size for all heads.
    PerHead,
}

/// A decoder-only transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Number of blocks.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Width of the (dense) feed-forward block.
    pub intermediate: u64,
    /// Rows of the embedding as the model was published.
    pub vocab: u64,
    /// `vocab_padding_multiple`, where given.
    pub vocab_multiple: Option<u64>,
    /// Longest sequence, where known.
    pub max_positions: Option<u64>,
    /// Rows that the learned position table has beyond `max_positions`.
    pub extra_positions: u64,
    /// The output matrix is the embedding.
    pub tie_embeddings: bool,
    /// How positions enter.
    pub position: Position,
    /// Channels of a head that are rotated.
    pub rotary_dim: u64,
    /// The activation function.
    pub act: Act,
    /// Whether it gates a second matrix (`SwiGLU`, `GeGLU`).
    pub gated: bool,
    /// The norm.
    pub norm: Norm,
    /// Whether norms have a bias.
    pub norm_bias: bool,
    /// Bias of the query, key and value matrices.
    pub qkv_bias: bool,
    /// Bias of the attention's output matrix.
    pub out_bias: bool,
    /// Bias of the feed-forward matrices.
    pub mlp_bias: bool,
    /// Bias of the output head.
    pub head_bias: bool,
    /// Norms over queries and keys.
    pub qk_norm: QkNorm,
    /// Attention and feed-forward read the same input.
    pub parallel_block: bool,
    /// A parallel block with one norm for both halves.
    pub shared_norm: bool,
    /// Norms behind attention and feed-forward as well as before (Gemma 2 and 3).
    pub sandwich_norms: bool,
    /// Norm over the embedding (BLOOM).
    pub embedding_norm: bool,
    /// Norms behind attention and feed-forward instead of before (BERT).
    pub post_norm: bool,
    /// A norm before the head.
    pub final_norm: bool,
    /// Width of the embedding where it differs from `hidden` (OPT-350M).
    pub embedding_dim: u64,
    /// Tokens that a windowed layer attends to.
    pub sliding_window: Option<u64>,
    /// With a window: each k-th layer attends to everything. 0: none does.
    pub full_attention_every: u64,
    /// Cap on the logits.
    pub logit_softcap: bool,
    /// Cap on attention scores.
    pub attention_softcap: bool,
    /// A learned sink per head.
    pub attention_sinks: bool,
    /// Dropout on attention probabilities.
    pub attention_dropout: f64,
    /// Dropout before residual additions.
    pub hidden_dropout: f64,
    /// Dropout on the embedding.
    pub embedding_dropout: f64,
    /// Queries, keys and values from one matrix.
    pub fused_qkv: bool,
    /// Gate and up projection in one matrix.
    pub fused_gate_up: bool,
    /// Experts.
    pub moe: Option<Moe>,
    /// Multi-head latent attention.
    pub mla: Option<Mla>,
    /// Multi-token-prediction layers.
    pub mtp_layers: u64,
}

/// A mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct Moe {
    /// Routed experts.
    pub experts: u64,
    /// Of which a token goes to.
    pub per_token: u64,
    /// Width of one expert.
    pub intermediate: u64,
    /// Width of the shared experts together; 0: none.
    pub shared_intermediate: u64,
    /// A learned gate on the shared expert (Qwen 2).
    pub shared_gate: bool,
    /// Leading layers with a dense block.
    pub first_dense: u64,
    /// Each k-th layer has experts.
    pub frequency: u64,
    /// Which of those k: layer `i` where `(i + offset)` divides by `frequency`.
    pub offset: u64,
    /// Layers with a dense block by name (Qwen's `mlp_only_layers`).
    pub dense_layers: Vec<u64>,
    /// The router has a bias (gpt-oss).
    pub router_bias: bool,
    /// Experts have biases (gpt-oss).
    pub expert_bias: bool,
}

/// Multi-head latent attention (`DeepSeek`).
#[derive(Debug, Clone, PartialEq)]
pub struct Mla {
    /// Rank of the query's compression; 0: queries are not compressed.
    pub q_lora_rank: u64,
    /// Rank of the key-value compression.
    pub kv_lora_rank: u64,
    /// Head channels without rotation.
    pub qk_nope_head_dim: u64,
    /// Head channels with rotation.
    pub qk_rope_head_dim: u64,
    /// Head size of values.
    pub v_head_dim: u64,
}

/// The sizes that every stack of blocks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Number of blocks.
    pub layers: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Size of a head.
    pub head_dim: u64,
    /// Width of the feed-forward block.
    pub intermediate: u64,
    /// Rows of the embedding.
    pub vocab: u64,
}

impl Decoder {
    /// A stack of these sizes as Llama writes it: rotary positions, RMS norms, gated SiLU, no
    /// biases, nothing that only some families have.
    #[must_use]
    pub const fn of_sizes(sizes: Sizes) -> Self {
        let Sizes { hidden, layers, heads, kv_heads, head_dim, intermediate, vocab } = sizes;
        Self {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            vocab_multiple: None,
            max_positions: None,
            extra_positions: 0,
            tie_embeddings: false,
            position: Position::Rope,
            rotary_dim: head_dim,
            act: Act::Silu,
            gated: true,
            norm: Norm::Rmsnorm,
            norm_bias: false,
            qkv_bias: false,
            out_bias: false,
            mlp_bias: false,
            head_bias: false,
            qk_norm: QkNorm::No,
            parallel_block: false,
            shared_norm: false,
            sandwich_norms: false,
            embedding_norm: false,
            post_norm: false,
            final_norm: true,
            embedding_dim: hidden,
            sliding_window: None,
            full_attention_every: 0,
            logit_softcap: false,
            attention_softcap: false,
            attention_sinks: false,
            attention_dropout: 0.0,
            hidden_dropout: 0.0,
            embedding_dropout: 0.0,
            fused_qkv: false,
            fused_gate_up: false,
            moe: None,
            mla: None,
            mtp_layers: 0,
        }
    }

    /// Whether layer `index` has experts.
    #[must_use]
    pub fn is_moe_layer(&self, index: u64) -> bool {
        self.moe.as_ref().is_some_and(|moe| {
            index >= moe.first_dense
                && (index + moe.offset).is_multiple_of(moe.frequency.max(1))
                && !moe.dense_layers.contains(&index)
        })
    }

    /// Whether layer `index` attends within the sliding window.
    #[must_use]
    pub fn is_windowed_layer(&self, index: u64) -> bool {
        self.sliding_window.is_some()
            && (self.full_attention_every == 0 || !(index + 1).is_multiple_of(self.full_attention_every))
    }

    /// Head size of values.
    #[must_use]
    pub fn value_dim(&self) -> u64 {
        self.mla.as_ref().map_or(self.head_dim, |mla| mla.v_head_dim)
    }

    /// Rows of the embedding with padding: the plan's own multiple, or Megatron's.
    #[must_use]
    pub fn padded_vocab(&self, framework_multiple: u64) -> u64 {
        let multiple = self.vocab_multiple.unwrap_or(framework_multiple).max(1);
        self.vocab.div_ceil(multiple).saturating_mul(multiple)
    }
}
