//! Time in a prediction: where a step's goes, and what comes of it.

use crate::units::{BytesPerSec, FlopsPerSec, Seconds, Watts};

/// Where the time of a step goes, and what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// One optimizer step.
    pub step: Seconds,
    /// In operators bound by the compute roof.
    pub compute: Seconds,
    /// In operators bound by DRAM bandwidth.
    pub memory_bound: Seconds,
    /// In collectives that nothing hides.
    pub communication: Seconds,
    /// Waiting for other pipeline stages.
    pub bubble: Seconds,
    /// The GPU waiting for the host to launch kernels.
    pub launch: Seconds,
    /// Of all GPUs; none for plans without tokens.
    pub tokens_per_s: Option<f64>,
    /// Of one GPU.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Of all GPUs.
    pub samples_per_s: f64,
    /// Model operations a second on one GPU, recomputation not counted.
    pub model_flops_per_gpu: FlopsPerSec,
    /// (6N + 12 L h s) x tokens/s per GPU over the dense peak, s at most a sliding window. None where the formula does not apply.
    pub mfu: Option<f64>,
    /// The same with recomputation.
    pub hfu: Option<f64>,
    /// DRAM traffic over the step time.
    pub bandwidth: BytesPerSec,
    /// That over the GPU's peak.
    pub mbu: f64,
    /// Hours to train `run.total_tokens`. None where there is no such figure.
    pub total_hours: Option<f64>,
    /// What those cost. None without a price.
    pub total_cost: Option<f64>,
    /// What one GPU draws on average over the step. None where its board power is not known.
    pub power: Option<Watts>,
}

/// What most of a step is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Operators bound by the compute roof.
    Compute,
    /// Operators bound by DRAM bandwidth.
    Hbm,
    /// Collectives that nothing hides.
    Link,
    /// Waiting for other pipeline stages.
    Bubble,
    /// The GPU waiting for the host to launch kernels.
    Launch,
}

impl Bottleneck {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Hbm => "hbm",
            Self::Link => "link",
            Self::Bubble => "bubble",
            Self::Launch => "launch",
        }
    }

    /// For people.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Hbm => "memory bandwidth",
            Self::Link => "links between GPUs",
            Self::Bubble => "pipeline bubble",
            Self::Launch => "waiting for the host",
        }
    }
}

impl StepTime {
    /// The part of the step that takes most.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        let parts = [
            (Bottleneck::Compute, self.compute),
            (Bottleneck::Hbm, self.memory_bound),
            (Bottleneck::Link, self.communication),
            (Bottleneck::Bubble, self.bubble),
            (Bottleneck::Launch, self.launch),
        ];
        parts.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(Bottleneck::Compute, |(part, _)| part)
    }

    /// Tokens of the whole training. None where there is no such figure.
    #[must_use]
    pub fn total_tokens(&self) -> Option<f64> {
        self.total_hours.zip(self.tokens_per_s).map(|(hours, rate)| hours * 3600.0 * rate)
    }
}
