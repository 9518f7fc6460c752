//! What a hook in the simulated process would tell of the run: its steps, its memory as PyTorch counts it.

use super::run::GpuActivity;
use super::{DemoGpu, Tick};
use crate::predict::Prediction;
use crate::reading::{Progress, ProgressSource, Reading};
use crate::units::{Seconds, TokensPerSec};

/// Optimizer steps of the run: a plan seldom says how long its run is, and months are no demo. A run that has made them
/// is given as many again.
const LENGTH: u64 = 12_000;

/// What the run has to tell beyond what its GPU shows.
#[derive(Debug)]
pub struct DemoReport {
    /// Tokens of a step over all GPUs; none for models without tokens.
    tokens: Option<f64>,
    /// Nothing goes backward: a server, which counts no steps.
    serves: bool,
}

impl DemoReport {
    /// The run of the plan behind `prediction`.
    pub fn of(prediction: &Prediction) -> Self {
        let time = &prediction.time;
        Self { tokens: time.tokens_per_s.map(|rate| rate * time.step.0), serves: prediction.flops.backward.0 <= 0.0 }
    }

    /// The command of the run.
    pub const fn command(&self) -> &'static str {
        if self.serves { "python serve.py (demo)" } else { "python train.py (demo)" }
    }

    /// How far it is, where a step takes `step` seconds; nothing before the first is done. Memory is `card`'s.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn at(&self, now: &Tick, step: f64, card: Option<&DemoGpu>) -> Option<Progress> {
        let GpuActivity::Stepping(seconds) = now.doing else { return None };
        let done = (seconds / step) as u64;
        if done == 0 {
            return None;
        }
        // Losses fall by a power of the steps: 11 is that of knowing nothing of 60 000 tokens.
        let loss = 1.8 + 9.2 * (done as f64).powf(-0.25);
        let counted = card.map(|card| card.memory.counted(now.doing));
        let bytes = |which: usize| counted.map_or_else(Reading::not_read, |all| Reading::measured(all[which], now.at));
        let memory = Progress {
            told_by: ProgressSource::Hook,
            peak_reserved: bytes(0),
            peak_allocated: bytes(1),
            allocated: bytes(2),
            ..Progress::default()
        };
        if self.serves {
            return Some(memory);
        }
        Some(Progress {
            step: Reading::measured(done, now.at),
            total_steps: Reading::measured((done / LENGTH + 1) * LENGTH, now.at),
            loss: Reading::measured((loss * 1000.0).round() / 1000.0, now.at),
            step_time: Reading::measured(Seconds(step), now.at),
            tokens_per_s: self
                .tokens
                .map_or_else(Reading::not_read, |tokens| Reading::measured(TokensPerSec(tokens / step), now.at)),
            ..memory
        })
    }
}
