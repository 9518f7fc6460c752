//! Shapes of the models that are not decoder-only transformers. Transformer blocks are
//! described by the same [`Decoder`] fields whatever they are part of.

use super::architecture::{Act, Architecture, Decoder, DecoderOutput, Ends, Family, ModelShape, Sizes};
use super::sight::Sight;
use super::traced;
use crate::plan::keywords::{ModelType, Norm, Position};
use crate::plan::{Fault, keys};

/// How a sample enters an encoder-decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Tokens; distances between them are learned as a bias on the scores (T5).
    Relative {
        /// Rows of the bias.
        buckets: u64,
        /// Each layer has a bias of its own (umT5), else the first one's is for all.
        each: bool,
    },
    /// Tokens and learned positions (Megatron's T5).
    Learned,
    /// Tokens, scaled, and positions, of which each sample gathers its own (BART and what is copied from it).
    Scaled {
        /// The positions are a table that is trained; else sinusoids, held as a parameter.
        learned: bool,
    },
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
    /// Classes; none without a head.
    pub labels: Option<u64>,
}

impl ResidualNet {
    /// Blocks of all stages.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.depths.iter().fold(0, |sum: u64, depth| sum.saturating_add(*depth))
    }
}

/// diffusers' `UNet2DConditionModel`.
#[derive(Debug, Clone, PartialEq)]
pub struct Unet {
    /// Channels of the latents.
    pub channels: u64,
    /// Channels of what it predicts.
    pub out_channels: u64,
    /// Latents a side.
    pub image: u64,
    /// Channels of each level, down.
    pub widths: Vec<u64>,
    /// Residual blocks of each level on the way down; one more on the way up.
    pub layers: Vec<u64>,
    /// Transformer blocks behind each residual block.
    pub transformer_layers: Vec<u64>,
    /// Attention heads of each level.
    pub heads: Vec<u64>,
    /// Width of the text's hidden states, as each level reads them.
    pub cross_widths: Vec<u64>,
    /// Whether both attentions of a level's transformer blocks read the text (the upscaler's).
    pub only_cross: Vec<bool>,
    /// The same in the middle.
    pub middle_only_cross: bool,
    /// Whether each level attends on the way down.
    pub down_attention: Vec<bool>,
    /// The same on the way up, in the order of the way up.
    pub up_attention: Vec<bool>,
    /// Whether the middle attends.
    pub middle_attention: bool,
    /// Projections into and out of transformers are linear layers, not convolutions.
    pub linear_projection: bool,
    /// Width of what is embedded beside the time (SDXL); 0: nothing.
    pub added_width: u64,
    /// Rows of a table of classes (or of noise levels) beside the time; 0: none.
    pub classes: u64,
    /// Groups of a norm.
    pub groups: u64,
}

impl Unet {
    /// Width of the text's hidden states.
    #[must_use]
    pub fn text_width(&self) -> u64 {
        self.cross_widths.iter().copied().max().unwrap_or(1)
    }

    /// Width of the time's embedding: four times the first level's.
    #[must_use]
    pub fn time_width(&self) -> u64 {
        self.widths.first().copied().unwrap_or(1).saturating_mul(4)
    }

    /// Modules that run one after another between the first and the last convolution.
    #[must_use]
    pub fn modules(&self) -> u64 {
        let levels = self.widths.len();
        let at = |list: &[u64], level: usize| list.get(level).copied().unwrap_or(1);
        let attends = |list: &[bool], at: usize| list.get(at).copied().unwrap_or(false);
        let transformer = |level: usize| at(&self.transformer_layers, level).saturating_add(2);
        let mut sum = 2 + if self.middle_attention { transformer(levels.saturating_sub(1)) } else { 0 };
        for level in 0..levels {
            let down = if attends(&self.down_attention, level) { transformer(level) } else { 0 };
            let up = if attends(&self.up_attention, levels - 1 - level) { transformer(level) } else { 0 };
            let layers = at(&self.layers, level);
            sum += layers.saturating_mul(1 + down) + (layers + 1).saturating_mul(2 + up);
        }
        // One that halves and one that doubles between any two levels.
        sum + 2 * (levels as u64).saturating_sub(1)
    }
}

/// The diffusion transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct DiT {
    /// Its blocks.
    pub block: Decoder,
    /// Latents a side.
    pub image: u64,
    /// Latents a side of a patch.
    pub patch: u64,
    /// Channels of the latents.
    pub channels: u64,
    /// Classes.
    pub classes: u64,
    /// It predicts the variance too.
    pub learn_sigma: bool,
}

impl DiT {
    /// Channels of what it predicts.
    #[must_use]
    pub const fn out_channels(&self) -> u64 {
        if self.learn_sigma { self.channels.saturating_mul(2) } else { self.channels }
    }

    /// Patches of a sample.
    #[must_use]
    pub const fn patches(&self) -> u64 {
        patches(self.image, self.patch)
    }
}

impl Decoder {
    /// Blocks with layer norms, biases and GELU, and nothing else.
    #[must_use]
    pub fn plain(hidden: u64, layers: u64, heads: u64) -> Self {
        let head_dim = hidden / if heads == 0 { 1 } else { heads };
        let intermediate = hidden.saturating_mul(4);
        let sizes = Sizes { hidden, layers, heads, kv_heads: heads, head_dim, intermediate, vocab: 1 };
        Self {
            position: Position::Learned,
            rotary_dim: 0,
            act: Act::Gelu,
            gated: false,
            norm: Norm::Layernorm,
            norm_bias: true,
            qkv_bias: true,
            out_bias: true,
            mlp_bias: true,
            final_norm: false,
            ..Self::of_sizes(sizes)
        }
    }
}

/// Square patches of a square image.
const fn patches(image: u64, patch: u64) -> u64 {
    let side = image / if patch == 0 { 1 } else { patch };
    side.saturating_mul(side)
}

/// What a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Tokens, at most so many where that is known.
    Tokens(Option<u64>),
    /// Rows of columns, one a sample unless the plan says how many.
    Rows,
    /// Tokens for an encoder and for a decoder, at most so many where that is known; how many the encoder always has.
    Pair(Option<u64>, Option<u64>),
    /// An image, of so many tokens, so many pixels a side; whether another size would do.
    Image(u64, u64, bool),
    /// Latents, so many a side, with a text.
    Captioned(u64),
}

impl Architecture {
    /// The same with a head of `classes` in place of the vocabulary's, as `AutoModelForSequenceClassification` has it.
    ///
    /// # Errors
    /// It is no decoder: those alone have a vocabulary's head that another one stands in for.
    pub fn with_classes(mut self, classes: u64) -> Result<Self, Fault> {
        let kind = self.kind();
        let ModelShape::Decoder(decoder) = &mut self.shape else {
            return Err(Fault::of(
                keys::model::classes,
                format!("is not for a {kind} that is described field by field"),
            ));
        };
        decoder.says = DecoderOutput::TextClass(classes);
        decoder.tie_embeddings = false;
        decoder.head_bias = false;
        self.name.push_str(&format!(" with a head of {classes}"));
        Ok(self)
    }

    /// The fields of its transformer blocks, where it has some.
    #[must_use]
    pub const fn block(&self) -> Option<&Decoder> {
        match &self.shape {
            ModelShape::Decoder(decoder) => Some(decoder),
            ModelShape::Encoder(encoder) => Some(&encoder.stack),
            ModelShape::EncoderDecoder(model) => Some(&model.block),
            ModelShape::DiT(net) => Some(&net.block),
            ModelShape::ResidualNet(_) | ModelShape::Layers(_) | ModelShape::Unet(_) | ModelShape::Traced(_) => None,
        }
    }

    /// Whether models of its kind are trained by loops of their own rather than by a trainer of language models: those
    /// that denoise and convolutional ones.
    #[must_use]
    pub const fn has_own_loop(&self) -> bool {
        use ModelShape::{DiT, Layers, ResidualNet, Unet};
        matches!(self.shape, Unet(_) | DiT(_) | ResidualNet(_) | Layers(_))
    }

    /// Its kind, as a plan names it.
    #[must_use]
    pub fn kind(&self) -> ModelType {
        match &self.shape {
            ModelShape::Decoder(_) => ModelType::TransformerDecoder,
            ModelShape::Encoder(encoder) => match encoder.ends {
                Ends::Text { .. } => ModelType::TransformerEncoder,
                Ends::Image { .. } => ModelType::VisionTransformer,
            },
            ModelShape::EncoderDecoder(_) => ModelType::TransformerEncoderDecoder,
            ModelShape::ResidualNet(_) => ModelType::Cnn,
            ModelShape::Layers(_) => ModelType::Mlp,
            ModelShape::Unet(_) | ModelShape::DiT(_) => ModelType::DiffusionModel,
            ModelShape::Traced(model) => traced::kind(model),
        }
    }

    /// Channels of the widest tensor with a row for each position, and attention heads.
    #[must_use]
    pub fn widest(&self) -> (u64, u64) {
        let most = |widths: &[u64]| widths.iter().copied().max().unwrap_or(1);
        match &self.shape {
            ModelShape::ResidualNet(net) => (most(&net.widths).max(net.embedding).max(net.channels), 1),
            ModelShape::Layers(list) => (list.widest(), 1),
            // Gate and value of a feed-forward block, four times the channels each.
            ModelShape::Unet(net) => (most(&net.widths).saturating_mul(8).max(net.text_width()), most(&net.heads)),
            ModelShape::EncoderDecoder(model) => {
                let block = &model.block;
                let width = block.hidden.max(block.intermediate).max(model.encoder_intermediate).max(block.vocab);
                (width.max(block.heads.saturating_mul(block.head_dim)), block.heads.max(model.encoder_heads))
            }
            _ => self.block().map_or((1, 1), |block| {
                let width = block.hidden.max(block.intermediate).max(block.vocab);
                (width.max(block.heads.saturating_mul(block.head_dim)), block.heads)
            }),
        }
    }

    /// Layers that run one after another, as pipeline stages hold them.
    #[must_use]
    pub fn layers(&self) -> u64 {
        match &self.shape {
            ModelShape::Decoder(decoder) => {
                decoder.layers.saturating_add(decoder.sight.as_ref().map_or(0, |sight| sight.layers()))
            }
            ModelShape::Encoder(encoder) => encoder.stack.layers,
            ModelShape::ResidualNet(net) => net.blocks(),
            ModelShape::Layers(list) => list.layers.len() as u64,
            ModelShape::Unet(net) => net.modules(),
            ModelShape::DiT(net) => net.block.layers,
            ModelShape::Traced(model) => traced::layers(model),
            // The decoder's embedding stands between the halves.
            ModelShape::EncoderDecoder(model) => {
                model.encoder_layers.saturating_add(model.block.layers).saturating_add(1)
            }
        }
    }

    /// What a language model sees with.
    #[must_use]
    pub fn sight(&self) -> Option<&Sight> {
        match &self.shape {
            ModelShape::Decoder(decoder) => decoder.sight.as_deref(),
            _ => None,
        }
    }

    /// Pixels a side of an image, where it reads one.
    #[must_use]
    pub fn image(&self) -> Option<u64> {
        match self.input() {
            Input::Image(_, side, _) | Input::Captioned(side) => Some(side),
            _ => None,
        }
    }

    /// What a sample is.
    #[must_use]
    pub fn input(&self) -> Input {
        match &self.shape {
            ModelShape::Decoder(decoder) => Input::Tokens(decoder.max_positions),
            ModelShape::Encoder(encoder) => match encoder.ends {
                // RoBERTa's positions begin behind that of padding (models/roberta, padding_idx 1).
                Ends::Text { .. } => match (self.family, encoder.stack.max_positions) {
                    (Family::Roberta, Some(rows)) => Input::Tokens(Some(rows.saturating_sub(2))),
                    (_, rows) => Input::Tokens(rows),
                },
                Ends::Image { image, patch, .. } => Input::Image(patches(image, patch).saturating_add(1), image, false),
            },
            ModelShape::ResidualNet(_) => Input::Image(1, 224, true),
            ModelShape::Layers(_) => Input::Rows,
            ModelShape::Unet(net) => Input::Captioned(net.image),
            ModelShape::DiT(net) => Input::Image(net.patches(), net.image, false),
            ModelShape::Traced(model) => traced::input(model),
            ModelShape::EncoderDecoder(model) => match model.start {
                Start::Audio { positions, .. } => Input::Pair(Some(positions), model.block.max_positions),
                Start::Relative { .. } | Start::Learned | Start::Scaled { .. } => {
                    Input::Pair(None, model.block.max_positions)
                }
            },
        }
    }
}
