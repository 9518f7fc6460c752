//! By what the layers of a stack differ.

use crate::model::architecture::Decoder;

/// What mixes a layer's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixer {
    /// Nothing: the layer is a feed-forward block.
    No,
    /// Attention to all tokens.
    Full,
    /// Attention within the window.
    Windowed,
    /// The gated delta rule.
    Delta,
    /// A short convolution.
    Conv,
    /// A state-space model.
    StateSpace,
    /// A state-space model and attention, which read the same.
    Both,
}

/// By what layers of a stack differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerKind {
    pub experts: bool,
    pub mixer: Mixer,
    /// It has a feed-forward block.
    pub feeds: bool,
    /// Whether a gradient flows to what comes in.
    pub reached: bool,
    /// What comes in is a matrix's output: autocast made it of its type.
    pub lowered: bool,
    /// What comes in has the type of the embedding, not that of the stream behind it.
    pub narrow: bool,
    /// Its weights are the first layer's.
    pub borrows: bool,
    /// A norm stands before its attention.
    pub normed: bool,
}

impl LayerKind {
    pub fn of(d: &Decoder, index: u64) -> Self {
        let parts = d.parts_of(index);
        let mixer = match (d.delta_of(index), d.is_windowed_layer(index)) {
            _ if parts.state_space && parts.attention => Mixer::Both,
            _ if parts.state_space => Mixer::StateSpace,
            _ if !parts.attention => Mixer::No,
            (Some(_), _) => Mixer::Delta,
            _ if d.short_conv_of(index).is_some() => Mixer::Conv,
            (None, true) => Mixer::Windowed,
            (None, false) => Mixer::Full,
        };
        Self {
            experts: parts.feed_forward && d.is_moe_layer(index),
            mixer,
            feeds: parts.feed_forward,
            reached: true,
            lowered: false,
            narrow: false,
            borrows: false,
            normed: d.input_norms,
        }
    }
}
