//! A loss that is no number any more: since when, and what it was before.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::app::state::State;
use crate::reading::Moment;
use crate::units::{grouped, three_figures};

/// The loss of a run that is no number, or none that ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrokenLoss {
    /// NaN or an infinity.
    pub loss: f64,
    /// The step that told it first, by the log or the process itself.
    pub since: Option<u64>,
    /// Optimizer steps that the process had made by then, where no step is told.
    pub made: Option<u64>,
    /// The last loss that was a number, where it was seen.
    pub finite: Option<f64>,
}

impl BrokenLoss {
    /// Whether more is known than that it is no number.
    #[must_use]
    pub const fn is_dated(&self) -> bool {
        self.since.is_some() || self.made.is_some() || self.finite.is_some()
    }

    /// In a few words: `NaN since step 40, last finite 2.31`.
    #[must_use]
    pub fn words(&self) -> String {
        let since = match (self.since, self.made) {
            (Some(step), _) => format!(" since step {}", grouped(step)),
            (None, Some(made)) => format!(" after {} optimizer steps", grouped(made)),
            (None, None) => String::new(),
        };
        let finite = self.finite.map_or_else(String::new, |loss| format!(", last finite {}", three_figures(loss)));
        format!("{}{since}{finite}", self.loss)
    }
}

impl Telemetry {
    /// Notes the loss while it is a number.
    pub(super) fn note_loss(&mut self, monitor: &Monitor, now: Moment) {
        let told = self.progress(monitor, now).and_then(|(_, known)| known.loss.value().copied());
        self.finite_loss = told.filter(|loss| loss.is_finite()).or(self.finite_loss);
    }
}

/// The loss that the run told last, where that is no number or none that ends.
#[must_use]
pub fn broken(state: &State) -> Option<BrokenLoss> {
    let telemetry = &state.run.telemetry;
    let (_, known) = telemetry.progress(&state.monitor, state.now)?;
    let loss = known.loss.value().copied().filter(|loss| !loss.is_finite())?;
    let printed = || telemetry.hooked(&state.monitor, state.now)?.printed?.turned;
    let turn = printed();
    let since = telemetry.news.loss_since.or(turn.and_then(|turn| turn.step));
    Some(BrokenLoss { loss, since, made: turn.map(|turn| turn.made), finite: telemetry.finite_loss })
}
