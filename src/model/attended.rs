//! What a decoder's attention sees, as MFU counts it.

use super::stack::Decoder;

/// Keys that a token is set against, summed over the layers that attend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttendedKeys {
    /// All tokens, behind the mask or before it, and in a layer with a sliding window no more than that holds.
    pub all: f64,
    /// Those of them that the causal mask takes away, as the mean over the tokens.
    pub masked: f64,
}

impl Decoder {
    /// Layers whose queries meet keys: not those that a recurrence or a convolution mixes, nor those that mix nothing.
    #[must_use]
    pub fn attention_layers(&self) -> u64 {
        (0..self.layers).filter(|index| self.attends(*index)).count() as u64
    }

    /// Whether queries meet keys in layer `index`.
    #[must_use]
    pub fn attends(&self, index: u64) -> bool {
        self.parts_of(index).attention && self.delta_of(index).is_none() && self.short_conv_of(index).is_none()
    }

    /// Keys that each of so many tokens is set against.
    #[must_use]
    pub fn attended_keys(&self, tokens: u64) -> AttendedKeys {
        let window = self.sliding_window.map_or(tokens, |window| window.min(tokens));
        let windowed = (0..self.layers).filter(|index| self.attends(*index) && self.is_windowed_layer(*index)).count();
        let (windowed, all) = (windowed as f64, self.attention_layers() as f64);
        let (tokens, window) = (tokens as f64, window as f64);
        AttendedKeys {
            all: (all - windowed) * tokens + windowed * window,
            masked: ((all - windowed) * tokens + windowed * window * window / tokens.max(1.0)) / 2.0,
        }
    }
}
