//! A stack of transformer blocks: the fields by which families differ.

use std::sync::Arc;

use super::architecture::{Act, QkNorm};
use super::rules::ClassRules;
use super::sight::Sight;
use super::state_space::StateSpace;
use crate::plan::keywords::{Norm, Position};

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
    /// Whether norms have a weight (OLMo's have none).
    pub norm_weight: bool,
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
    /// Norms before attention and feed-forward (OLMo 2 has those behind alone).
    pub input_norms: bool,
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
    /// With a window: the layers that attend within it, where they are listed; else by `full_attention_every`.
    pub windowed_layers: Option<Vec<bool>>,
    /// Cap on the logits.
    pub logit_softcap: bool,
    /// Cap on attention scores.
    pub attention_softcap: bool,
    /// A learned sink per head.
    pub attention_sinks: bool,
    /// The attention's output is gated by a second half of the queries' matrix.
    pub attention_gate: bool,
    /// Layers that mix tokens by the gated delta rule instead.
    pub delta: Option<DeltaNet>,
    /// Layers that mix tokens by a short convolution instead.
    pub short_conv: Option<ShortConv>,
    /// Layers of state-space models.
    pub state_space: Option<StateSpace>,
    /// Attention to what stands at a place and to how far that is, apart.
    pub distances: Option<Distances>,
    /// Dropout on attention probabilities.
    pub attention_dropout: f64,
    /// Dropout before residual additions.
    pub hidden_dropout: f64,
    /// Dropout within the feed-forward block.
    pub activation_dropout: f64,
    /// Dropout on the embedding.
    pub embedding_dropout: f64,
    /// Queries, keys and values from one matrix.
    pub fused_qkv: bool,
    /// Keys and values are views that repeat those of each group for all its queries (Falcon's new decoder).
    pub broadcast_kv: bool,
    /// Gate and up projection in one matrix.
    pub fused_gate_up: bool,
    /// Experts.
    pub moe: Option<Moe>,
    /// Multi-head latent attention.
    pub mla: Option<Mla>,
    /// Multi-token-prediction layers.
    pub mtp_layers: u64,
    /// What it sees with.
    pub sight: Option<Arc<Sight>>,
    /// What the head says.
    pub says: DecoderOutput,
    /// What its class writes in a way of its own.
    pub class_rules: ClassRules,
}

/// What a decoder is trained to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DecoderOutput {
    /// The next token.
    Tokens,
    /// Nothing: the hidden states are what it gives.
    States,
    /// One of so many classes of the whole text.
    TextClass(u64),
    /// One of so many classes of each token.
    TokenClass {
        /// Classes.
        classes: u64,
        /// Dropout before the head.
        dropout: f64,
    },
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
    /// Width of the tokens that routed experts read and write, where a matrix before them and one behind bring the stream's
    /// to it and back (Nemotron 3 Super).
    pub latent: Option<u64>,
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
    /// A parameter that nothing trains is added to the scores by which experts are chosen (ERNIE 4.5).
    pub score_bias: bool,
}

/// Disentangled attention (`DeBERTa` v2 and v3): scores of contents and of distances are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distances {
    /// Rows of the table of distances, which all layers share: both ways, near ones each, far ones in buckets. 0: there is no
    /// table.
    pub rows: u64,
    /// A norm stands over that table.
    pub normed: bool,
    /// The matrices of queries and keys project distances as well; else further ones do.
    pub shared: bool,
    /// Queries attend to distances.
    pub to_position: bool,
    /// Distances attend to keys.
    pub from_position: bool,
}

/// Linear attention by the gated delta rule (Qwen3-Next, Qwen3.5).
#[derive(Debug, Clone, PartialEq)]
pub struct DeltaNet {
    /// The layers that have it.
    pub layers: Vec<bool>,
    /// Heads of queries and keys.
    pub key_heads: u64,
    /// Heads of values.
    pub value_heads: u64,
    /// Size of a key head.
    pub key_dim: u64,
    /// Size of a value head.
    pub value_dim: u64,
    /// Tokens under the convolution.
    pub kernel: u64,
    /// One matrix for queries, keys, values and gate, another for both gates of the rule (Qwen3-Next); else four.
    pub joined: bool,
}

/// A convolution along the sequence between two gates (LFM2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortConv {
    /// The layers that have it.
    pub layers: Vec<bool>,
    /// Tokens under it.
    pub kernel: u64,
    /// Its matrices and the convolution have a bias.
    pub bias: bool,
}

impl DeltaNet {
    /// Channels of all key heads.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.key_heads.saturating_mul(self.key_dim)
    }

    /// Channels of all value heads.
    #[must_use]
    pub const fn values(&self) -> u64 {
        self.value_heads.saturating_mul(self.value_dim)
    }
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
            norm_weight: true,
            norm_bias: false,
            qkv_bias: false,
            out_bias: false,
            mlp_bias: false,
            head_bias: false,
            qk_norm: QkNorm::No,
            parallel_block: false,
            shared_norm: false,
            sandwich_norms: false,
            input_norms: true,
            embedding_norm: false,
            post_norm: false,
            final_norm: true,
            embedding_dim: hidden,
            sliding_window: None,
            full_attention_every: 0,
            windowed_layers: None,
            logit_softcap: false,
            attention_softcap: false,
            attention_sinks: false,
            attention_gate: false,
            delta: None,
            short_conv: None,
            state_space: None,
            distances: None,
            attention_dropout: 0.0,
            hidden_dropout: 0.0,
            activation_dropout: 0.0,
            embedding_dropout: 0.0,
            fused_qkv: false,
            broadcast_kv: false,
            fused_gate_up: false,
            moe: None,
            mla: None,
            mtp_layers: 0,
            sight: None,
            says: DecoderOutput::Tokens,
            class_rules: ClassRules::USUAL,
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

    /// What mixes the tokens of layer `index`, where that is no attention.
    #[must_use]
    pub fn delta_of(&self, index: u64) -> Option<&DeltaNet> {
        let is = |net: &&DeltaNet| usize::try_from(index).is_ok_and(|at| net.layers.get(at) == Some(&true));
        self.delta.as_ref().filter(is)
    }

    /// The convolution that mixes the tokens of layer `index`, where that is no attention.
    #[must_use]
    pub fn short_conv_of(&self, index: u64) -> Option<&ShortConv> {
        let is = |conv: &&ShortConv| usize::try_from(index).is_ok_and(|at| conv.layers.get(at) == Some(&true));
        self.short_conv.as_ref().filter(is)
    }

    /// Whether layer `index` attends within the sliding window.
    #[must_use]
    pub fn is_windowed_layer(&self, index: u64) -> bool {
        let listed = self
            .windowed_layers
            .as_ref()
            .map(|layers| usize::try_from(index).ok().and_then(|index| layers.get(index).copied()).unwrap_or(false));
        let by_pattern = || self.full_attention_every == 0 || !(index + 1).is_multiple_of(self.full_attention_every);
        self.sliding_window.is_some() && listed.unwrap_or_else(by_pattern)
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
