//! Shapes of the models that are not decoder-only transformers. Transformer blocks are
//! described by the same [`Decoder`] fields whatever they are part of.

use super::architecture::{Architecture, Decoder, Shape};
use crate::plan::keywords::ModelType;

/// What stands on an encoder (`architectures` in the configuration).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderHead {
    /// The hidden states, or the pooler's output.
    Bare,
    /// A prediction for each token of the vocabulary.
    MaskedLm,
    /// That, and whether two sentences follow each other.
    PreTraining,
    /// One class for each sample.
    Sequence,
    /// One class for each token.
    Token,
}

/// An encoder-only transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// Its blocks and embedding.
    pub block: Decoder,
    /// Norms stand behind the residual additions (BERT), not before the matrices (Megatron).
    pub post_norm: bool,
    /// Kinds of token, each with a row of an embedding.
    pub token_types: u64,
    /// A dense layer on the first token.
    pub pooler: bool,
    /// What stands on it.
    pub head: EncoderHead,
    /// Classes of a classifying head.
    pub labels: u64,
}

/// How a sample enters an encoder-decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Tokens; distances between them are learned as a bias on the scores (T5).
    Relative {
        /// Rows of the bias.
        buckets: u64,
    },
    /// Tokens and learned positions (Megatron's T5).
    Learned,
    /// A spectrum through two convolutions (Whisper).
    Audio {
        /// Channels of the spectrum.
        mel_bins: u64,
        /// Positions of the encoder.
        positions: u64,
    },
}

/// An encoder and a decoder that attends to its output.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderDecoder {
    /// The decoder's blocks, and what both halves share.
    pub block: Decoder,
    /// Layers of the encoder.
    pub encoder_layers: u64,
    /// Its heads.
    pub encoder_heads: u64,
    /// Width of its feed-forward blocks.
    pub encoder_intermediate: u64,
    /// How a sample enters.
    pub start: Start,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Tokens, at most so many where that is known.
    Tokens(Option<u64>),
    /// Tokens for an encoder and for a decoder, at most so many where that is known; how many the encoder always has.
    Pair(Option<u64>, Option<u64>),
}

impl Architecture {
    /// The model as a decoder, where it is one.
    #[must_use]
    pub const fn decoder(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            Shape::Encoder(_) | Shape::EncoderDecoder(_) => None,
        }
    }

    /// The fields of its transformer blocks, where it has some.
    #[must_use]
    pub const fn block(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            Shape::Encoder(encoder) => Some(&encoder.block),
            Shape::EncoderDecoder(model) => Some(&model.block),
        }
    }

    /// Its kind, as a plan names it.
    #[must_use]
    pub const fn kind(&self) -> ModelType {
        match &self.shape {
            Shape::Decoder(_) => ModelType::TransformerDecoder,
            Shape::Encoder(_) => ModelType::TransformerEncoder,
            Shape::EncoderDecoder(_) => ModelType::TransformerEncoderDecoder,
        }
    }

    /// Layers that run one after another, as pipeline stages hold them.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        match &self.shape {
            Shape::Decoder(decoder) => decoder.layers,
            Shape::Encoder(encoder) => encoder.block.layers,
            // The decoder's embedding stands between the halves.
            Shape::EncoderDecoder(model) => model.encoder_layers.saturating_add(model.block.layers).saturating_add(1),
        }
    }

    /// What a sample is.
    #[must_use]
    pub const fn input(&self) -> Input {
        match &self.shape {
            Shape::Decoder(decoder) => Input::Tokens(decoder.max_positions),
            Shape::Encoder(encoder) => Input::Tokens(encoder.block.max_positions),
            Shape::EncoderDecoder(model) => match model.start {
                Start::Audio { positions, .. } => Input::Pair(Some(positions), model.block.max_positions),
                Start::Relative { .. } | Start::Learned => Input::Pair(None, model.block.max_positions),
            },
        }
    }
}
