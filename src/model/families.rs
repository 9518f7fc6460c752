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

/// A vision transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct Vision {
    /// Its blocks.
    pub block: Decoder,
    /// Pixels a side of an image.
    pub image: u64,
    /// Pixels a side of a patch.
    pub patch: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Classes; 0: a pooler in their place.
    pub labels: u64,
}

impl ResidualNet {
    /// Blocks of all stages.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        let (mut sum, mut at) = (0_u64, 0);
        while at < self.depths.len() {
            sum = sum.saturating_add(self.depths.as_slice()[at]);
            at += 1;
        }
        sum
    }
}

impl Vision {
    /// Patches of an image.
    #[must_use]
    pub const fn patches(&self) -> u64 {
        let side = self.image / if self.patch == 0 { 1 } else { self.patch };
        side.saturating_mul(side)
    }
}

/// A residual convolutional network.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualNet {
    /// Blocks of each stage.
    pub depths: Vec<u64>,
    /// Channels behind each stage.
    pub widths: Vec<u64>,
    /// Channels of the stem.
    pub embedding: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Three convolutions a block, the middle one narrow; else two.
    pub bottleneck: bool,
    /// The first stage halves the image too.
    pub halves_first: bool,
    /// A block that halves does so in its first convolution, not the second.
    pub halves_in_first: bool,
    /// Classes.
    pub labels: u64,
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Tokens, at most so many where that is known.
    Tokens(Option<u64>),
    /// Tokens for an encoder and for a decoder, at most so many where that is known; how many the encoder always has.
    Pair(Option<u64>, Option<u64>),
    /// An image, of so many tokens, so many pixels a side; whether another size would do.
    Image(u64, u64, bool),
}

impl Architecture {
    /// The model as a decoder, where it is one.
    #[must_use]
    pub const fn decoder(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            _ => None,
        }
    }

    /// The fields of its transformer blocks, where it has some.
    #[must_use]
    pub const fn block(&self) -> Option<&Decoder> {
        match &self.shape {
            Shape::Decoder(decoder) => Some(decoder),
            Shape::Encoder(encoder) => Some(&encoder.block),
            Shape::EncoderDecoder(model) => Some(&model.block),
            Shape::Vision(model) => Some(&model.block),
            Shape::ResidualNet(_) => None,
        }
    }

    /// Its kind, as a plan names it.
    #[must_use]
    pub const fn kind(&self) -> ModelType {
        match &self.shape {
            Shape::Decoder(_) => ModelType::TransformerDecoder,
            Shape::Encoder(_) => ModelType::TransformerEncoder,
            Shape::EncoderDecoder(_) => ModelType::TransformerEncoderDecoder,
            Shape::Vision(_) => ModelType::VisionTransformer,
            Shape::ResidualNet(_) => ModelType::Cnn,
        }
    }

    /// Layers that run one after another, as pipeline stages hold them.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        match &self.shape {
            Shape::Decoder(decoder) => decoder.layers,
            Shape::Encoder(encoder) => encoder.block.layers,
            Shape::Vision(model) => model.block.layers,
            Shape::ResidualNet(net) => net.blocks(),
            // The decoder's embedding stands between the halves.
            Shape::EncoderDecoder(model) => model.encoder_layers.saturating_add(model.block.layers).saturating_add(1),
        }
    }

    /// Pixels a side of an image, where it reads one.
    #[must_use]
    pub const fn image(&self) -> Option<u64> {
        match self.input() {
            Input::Image(_, side, _) => Some(side),
            _ => None,
        }
    }

    /// What a sample is.
    #[must_use]
    pub const fn input(&self) -> Input {
        match &self.shape {
            Shape::Decoder(decoder) => Input::Tokens(decoder.max_positions),
            Shape::Encoder(encoder) => Input::Tokens(encoder.block.max_positions),
            Shape::Vision(model) => Input::Image(model.patches().saturating_add(1), model.image, false),
            Shape::ResidualNet(_) => Input::Image(1, 224, true),
            Shape::EncoderDecoder(model) => match model.start {
                Start::Audio { positions, .. } => Input::Pair(Some(positions), model.block.max_positions),
                Start::Relative { .. } | Start::Learned => Input::Pair(None, model.block.max_positions),
            },
        }
    }
}
