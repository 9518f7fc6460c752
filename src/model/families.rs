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

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Tokens, at most so many where that is known.
    Tokens(Option<u64>),
}

impl Architecture {
    /// The model as a decoder, where it is one.
    #[must_use]
    pub const fn decoder(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            Shape::Encoder(_) => None,
        }
    }

    /// The fields of its transformer blocks, where it has some.
    #[must_use]
    pub const fn block(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            Shape::Encoder(encoder) => Some(&encoder.block),
        }
    }

    /// Its kind, as a plan names it.
    #[must_use]
    pub const fn kind(&self) -> ModelType {
        match &self.shape {
            Shape::Decoder(_) => ModelType::TransformerDecoder,
            Shape::Encoder(_) => ModelType::TransformerEncoder,
        }
    }

    /// Layers that run one after another, as pipeline stages hold them.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        match &self.shape {
            Shape::Decoder(decoder) => decoder.layers,
            Shape::Encoder(encoder) => encoder.block.layers,
        }
    }

    /// What a sample is.
    #[must_use]
    pub const fn input(&self) -> Input {
        match &self.shape {
            Shape::Decoder(decoder) => Input::Tokens(decoder.max_positions),
            Shape::Encoder(encoder) => Input::Tokens(encoder.block.max_positions),
        }
    }
}
