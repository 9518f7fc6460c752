//! How far a training run is, as its log, its hook or the rhythm of its GPU tells.

use serde::{Deserialize, Serialize};

use super::{Absence, Reading, ReadingKind, StatedSettings};
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds, TokensPerSec};

/// Whose lines a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogFormat {
    /// Megatron-LM, and what descends from it (Megatron-DeepSpeed, NeMo's legacy trainer).
    Megatron,
    /// torchtitan.
    Torchtitan,
    /// nanoGPT.
    NanoGpt,
    /// Hugging Face's Trainer: one dictionary a line.
    HuggingFace,
    /// A tqdm bar without a framework's mark.
    Bar,
    /// DeepSpeed's engine.
    DeepSpeed,
    /// Lightning's progress bar.
    Lightning,
    /// torchtune: its bar and its metric logger.
    Torchtune,
    /// litgpt.
    LitGpt,
    /// Composer, which llm-foundry logs through.
    Composer,
    /// The user's own pattern.
    Own,
    /// TensorBoard's files of events.
    TensorBoard,
    /// W&B's log of a run.
    Wandb,
    /// Nobody's that is known: objects of JSON, one a line.
    Json,
    /// Nobody's that is known: lines with a step and a loss.
    Text,
}

impl LogFormat {
    /// Whether such lines are a framework's or the user's choice, and not anybody's.
    #[must_use]
    pub const fn is_sure(self) -> bool {
        !matches!(self, Self::Json | Self::Text)
    }

    /// Whether they are files of events rather than lines.
    #[must_use]
    pub const fn is_events(self) -> bool {
        matches!(self, Self::TensorBoard | Self::Wandb)
    }

    /// The name that people know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Megatron => "Megatron-LM",
            Self::Torchtitan => "torchtitan",
            Self::NanoGpt => "nanoGPT",
            Self::HuggingFace => "Hugging Face Trainer",
            Self::Bar => "progress bar",
            Self::DeepSpeed => "DeepSpeed",
            Self::Lightning => "Lightning",
            Self::Torchtune => "torchtune",
            Self::LitGpt => "litgpt",
            Self::Composer => "Composer",
            Self::Own => "own pattern",
            Self::TensorBoard => "TensorBoard events",
            Self::Wandb => "W&B's log",
            Self::Json => "JSON lines",
            Self::Text => "lines of step and loss",
        }
    }
}

/// What a run's progress is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ProgressSource {
    /// Nothing so far.
    #[default]
    Nobody,
    /// Lines of its log.
    Log(LogFormat),
    /// The hook inside of the process.
    Hook,
    /// The periodicity of power and activity.
    Rhythm,
}

/// How far a run is. What nobody told is absent with the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// What it is known from.
    pub told_by: ProgressSource,
    /// Optimizer steps done; batches where the framework counts those.
    pub step: Reading<u64>,
    /// Optimizer steps of the whole run.
    pub total_steps: Reading<u64>,
    /// Steps between the two of which a log told last; none where it has told of one so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told_every: Option<u64>,
    /// Epochs done, with a fraction.
    pub epoch: Reading<f64>,
    /// The loss, in the framework's own mean. May be NaN: then the log says so.
    pub loss: Reading<f64>,
    /// Norm of all gradients, before they were clipped. May be NaN, too.
    pub grad_norm: Reading<f64>,
    /// Time of one optimizer step.
    pub step_time: Reading<Seconds>,
    /// Tokens a second of the whole run.
    pub tokens_per_s: Reading<TokensPerSec>,
    /// Tokens a second of one GPU.
    pub tokens_per_s_per_gpu: Reading<TokensPerSec>,
    /// Samples a second of the whole run.
    pub samples_per_s: Reading<f64>,
    /// The framework's own model FLOP utilization.
    pub mfu: Reading<Fraction>,
    /// The framework's own count of model operations a second on one GPU.
    pub model_flops_per_gpu: Reading<FlopsPerSec>,
    /// Allocated bytes at the last line that tells them.
    pub allocated: Reading<Bytes>,
    /// `torch.cuda.max_memory_allocated()`.
    pub peak_allocated: Reading<Bytes>,
    /// `torch.cuda.max_memory_reserved()`.
    pub peak_reserved: Reading<Bytes>,
    /// What the log's header states of the training.
    #[serde(skip_serializing_if = "StatedSettings::is_empty")]
    pub stated: StatedSettings,
}

impl Progress {
    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.told_by != ProgressSource::Nobody
    }

    /// Time to the end of the run: the steps that are left at the present pace.
    #[must_use]
    pub fn remaining(&self) -> Reading<Seconds> {
        let (Some(step), Some(total)) = (self.step.value(), self.total_steps.value()) else {
            return Reading::Absent(Absence::NotRead);
        };
        // A total that is passed is one of something else: of an epoch.
        if step > total {
            return Reading::Absent(Absence::NotRead);
        }
        let left = total.saturating_sub(*step) as f64;
        match self.step_time.map(|time| Seconds(time.0 * left)) {
            // What lies ahead is never measured.
            Reading::Known { value, at, .. } => Reading::Known { value, at, kind: ReadingKind::Estimated },
            absent @ Reading::Absent(_) => absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Moment;

    #[test]
    fn what_is_left_is_the_steps_ahead_at_the_present_pace() {
        let at = Moment(7);
        let progress = Progress {
            step: Reading::measured(1_840, at),
            total_steps: Reading::measured(12_000, at),
            step_time: Reading::measured(Seconds(3.94), at),
            ..Progress::default()
        };
        // (12 000 - 1 840) x 3.94 = 40 030.4
        let left = progress.remaining();
        assert_eq!(left.kind(), Some(ReadingKind::Estimated));
        assert!((left.value().unwrap().0 - 40_030.4).abs() < 1e-6);
        assert!(Progress::default().remaining().value().is_none());
    }
}
