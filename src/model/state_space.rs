//! State-space layers (Mamba), and what each layer of a stack that has some is made of.

use super::stack::Decoder;

/// State-space layers among or beside layers of attention (Mamba, Mamba-2 and hybrids of them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSpace {
    /// What each layer is made of.
    pub layers: Vec<HybridLayer>,
    /// The recurrence.
    pub scan: Scan,
    /// Channels within the layer.
    pub inner: u64,
    /// Numbers that a channel remembers.
    pub state: u64,
    /// Tokens under the convolution.
    pub kernel: u64,
    /// The convolution has a bias.
    pub conv_bias: bool,
    /// The input matrix has a bias.
    pub in_bias: bool,
    /// The output matrix has a bias.
    pub out_bias: bool,
    /// The residual stream is fp32, whatever the weights are (`residual_in_fp32`).
    pub wide_stream: bool,
    /// What matrices read and give is multiplied by numbers of the configuration (`FalconH1DecoderLayer`).
    pub multiplied: bool,
}

/// What a layer is made of. A layer of one part alone has one norm (Mamba, Nemotron-H).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HybridLayer {
    /// A state-space model mixes its tokens.
    pub state_space: bool,
    /// Attention does; with both, they read the same input (Falcon-H1).
    pub attention: bool,
    /// It has a feed-forward block, dense or of experts.
    pub feed_forward: bool,
}

/// The recurrence of a state-space layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// One decay for all channels of a head, by matrix multiplications chunk by chunk (Mamba-2, arXiv 2405.21060).
    Heads {
        /// Heads.
        heads: u64,
        /// Groups of heads that share what goes into the state and what is read from it.
        groups: u64,
        /// Tokens of a chunk.
        chunk: u64,
        /// A gated norm stands before the output matrix.
        normed: bool,
    },
    /// A decay for each channel and number of the state, token by token (Mamba, arXiv 2312.00752).
    Channels {
        /// Rank of the time step.
        rank: u64,
        /// Norms over the time step and both projections.
        norms: ScanNorms,
    },
}

/// Norms over what a scan of channels reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanNorms {
    /// None (Mamba).
    No,
    /// Within the kernel, without weights (Falcon-Mamba).
    Bare,
    /// Modules of their own (Jamba).
    Own,
}

impl StateSpace {
    /// Channels under the convolution.
    #[must_use]
    pub const fn convolved(&self) -> u64 {
        match self.scan {
            Scan::Heads { groups, .. } => {
                self.inner.saturating_add(groups.saturating_mul(self.state).saturating_mul(2))
            }
            Scan::Channels { .. } => self.inner,
        }
    }

    /// Columns of the input matrix: gate, what is convolved, and a time step a head.
    #[must_use]
    pub const fn projected(&self) -> u64 {
        let both = self.inner.saturating_add(self.convolved());
        match self.scan {
            Scan::Heads { heads, .. } => both.saturating_add(heads),
            Scan::Channels { .. } => both,
        }
    }
}

impl Decoder {
    /// What layer `index` is made of.
    #[must_use]
    pub fn parts_of(&self, index: u64) -> HybridLayer {
        let usual = HybridLayer { state_space: false, attention: true, feed_forward: true };
        let listed = self.state_space.as_ref().map(|space| {
            let at = usize::try_from(index).ok();
            at.and_then(|at| space.layers.get(at).copied())
        });
        listed.flatten().unwrap_or(usual)
    }
}
