//! What a model is made of, whichever file described it.

use std::sync::Arc;

use super::families::{DiT, EncoderDecoder, ResidualNet, Unet};
use super::layers::LayerList;
pub use super::stack::{Decoder, DecoderOutput, DeltaNet, Mla, Moe, ShortConv, Sizes};
pub use super::state_space::{HybridLayer, Scan, ScanNorms, StateSpace};
use crate::plan::traced::TracedModel;

/// A model: a name, whose modules it uses, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// How screens and reports call it ("llama 32 x 4096").
    pub name: String,
    /// Whose modules transformers runs for it.
    pub family: Family,
    /// Its shape.
    pub shape: ModelShape,
}

/// The kinds of model that have a walk.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelShape {
    /// A decoder-only transformer.
    Decoder(Decoder),
    /// An encoder of text or of image patches.
    Encoder(Encoder),
    /// An encoder and a decoder that attends to it.
    EncoderDecoder(EncoderDecoder),
    /// A residual convolutional network.
    ResidualNet(ResidualNet),
    /// Layers one behind the other.
    Layers(LayerList),
    /// A UNet that denoises latents.
    Unet(Unet),
    /// A transformer that denoises latents.
    DiT(DiT),
    /// What PyTorch itself was seen to run.
    Traced(Arc<TracedModel>),
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
        /// What stands behind the blocks.
        head: ImageHead,
    },
}

/// What an encoder of text is trained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextHead {
    /// Nothing: hidden states.
    No,
    /// Masked tokens.
    MaskedLm,
    /// The next token: the same head with a decoder's loss.
    CausalLm,
    /// Masked tokens and whether two sentences follow each other.
    Pretraining,
    /// A class of the whole text.
    Classes(u64, DenseHead),
    /// A class of each token; `true`: dropout before the head.
    TokenClasses(u64, bool),
    /// Whether each token was replaced (`ElectraForPreTraining`).
    Replaced,
}

/// What stands between the first token and the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenseHead {
    /// Nothing but the pooler.
    Pooler,
    /// A matrix and tanh behind dropout (`RobertaClassificationHead`).
    Tanh,
    /// A matrix and ReLU (`DistilBertForSequenceClassification`).
    Relu,
    /// A matrix and GELU behind dropout (`ElectraClassificationHead`).
    Gelu,
    /// A matrix and GELU (`ElectraSequenceSummary`; `ContextPooler` of `DeBERTa`).
    Summary,
    /// A matrix, GELU and a norm over the first token (`ModernBertPredictionHead`).
    Normed,
    /// The same over the mean of all tokens.
    MeanNormed,
}

/// What an encoder of images gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageHead {
    /// One of so many classes.
    Classes(u64),
    /// The class token through a matrix, of so many channels.
    Pooler(u64),
    /// So many numbers of a patch's pixels, of patches that a token of its own stands for.
    Pixels(u64),
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
    /// Qwen3-Next.
    Qwen3Next,
    /// The text part of Qwen 3.5.
    Qwen35,
    /// The same with experts.
    Qwen35Moe,
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
    /// LFM2.
    Lfm2,
    /// Mamba, and Falcon-Mamba.
    Mamba,
    /// Mamba-2.
    Mamba2,
    /// Bamba.
    Bamba,
    /// Granite 4.
    GraniteHybrid,
    /// Falcon-H1.
    FalconH1,
    /// Nemotron-H, Nemotron Nano 2 and 3.
    NemotronH,
    /// Jamba.
    Jamba,
    /// nanoGPT.
    Nanogpt,
    /// BERT.
    Bert,
    /// `RoBERTa`.
    Roberta,
    /// `DistilBERT`.
    Distilbert,
    /// ELECTRA.
    Electra,
    /// ALBERT.
    Albert,
    /// `DeBERTa` v2 and v3.
    Deberta,
    /// `ModernBERT`, as transformers 4 has it.
    ModernBert,
    /// Vision transformer.
    Vit,
    /// A tower of vision before a language model.
    Tower,
    /// T5.
    T5,
    /// Whisper.
    Whisper,
    /// BART.
    Bart,
    /// mBART and Pegasus: BART's layers with norms before their halves.
    Mbart,
    /// `ResNet`.
    Resnet,
    /// PyTorch's own layers.
    Layers,
    /// diffusers' UNet.
    Unet,
    /// The diffusion transformer.
    Dit,
    /// Its own, as they were traced.
    Traced,
}

impl Family {
    /// Whether its layers are BERT's, but for the kernels of their attention (`BertLayer`, and classes that say that they are
    /// copied from it).
    #[must_use]
    pub const fn has_bert_layers(self) -> bool {
        matches!(self, Self::Bert | Self::Roberta | Self::Electra)
    }

    /// Whether its layers are BART's, whatever stands before and behind them.
    #[must_use]
    pub const fn has_bart_layers(self) -> bool {
        matches!(self, Self::Bart | Self::Mbart)
    }

    /// Whether it is a stack of blocks that see all positions: every family of `ModelShape::Encoder`.
    #[must_use]
    pub const fn is_encoder(self) -> bool {
        self.has_bert_layers()
            || matches!(self, Self::Distilbert | Self::Albert | Self::Deberta | Self::ModernBert | Self::Vit)
    }
}

/// The function between the matrices of a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// GELU by `erf` or by a fused `tanh` kernel: one operator.
    Gelu,
    /// GELU written out in Python with `tanh` and `pow` (`gelu_new`).
    GeluNew,
    /// The same without `pow` (`gelu_fast`).
    GeluFast,
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
    /// Apertus' own, with two numbers that are trained (`XIELUActivation`).
    Xielu,
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
    /// Over the head size, without a weight.
    Bare,
    /// A weight for each channel of all heads together.
    Whole,
}
