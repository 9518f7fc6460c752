//! A plan pinned to be compared with: every pane shows the difference to it.

use crate::app::editor::Editor;
use crate::app::editor::field::Field;
use crate::app::editor::step::{StepOutcome, outcome_of};
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::predict::{Component, Job, Outline, Prediction, RooflineOp};
use crate::units::SignedBytes;

/// The plan as it was when it was pinned.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// What it is called.
    pub name: String,
    text: String,
    job: Job,
    /// What it predicts.
    pub prediction: Prediction,
}

impl Baseline {
    /// Pins the plan as it stands; none while it makes no prediction.
    #[must_use]
    pub fn pin(editor: &Editor) -> Option<Self> {
        let valid = editor.faults().is_empty();
        let (job, prediction) = editor.job().zip(editor.prediction()).filter(|_| valid)?;
        let (job, prediction) = (job.clone(), prediction.clone());
        Some(Self { name: editor.name().to_owned(), text: editor.text().to_owned(), job, prediction })
    }

    /// Everything decided about it.
    #[must_use]
    pub const fn job(&self) -> &Job {
        &self.job
    }

    /// Whether it is that plan, letter by letter.
    #[must_use]
    pub fn is(&self, editor: &Editor) -> bool {
        self.text == editor.text()
    }

    /// What `prediction` needs and does more than this.
    #[must_use]
    pub fn outcome(&self, prediction: &Prediction) -> StepOutcome {
        StepOutcome::between(&self.prediction, prediction)
    }

    /// The same of another plan's figures.
    #[must_use]
    pub fn outcome_of(&self, outline: &Outline) -> StepOutcome {
        outcome_of(&self.prediction, outline)
    }

    /// The value of a field here, where it is another one than `shown`.
    #[must_use]
    pub fn was(&self, field: Field, shown: &str) -> Option<String> {
        field.effective(&self.job).filter(|was| was != shown)
    }

    /// Bytes more or less than here that `prediction`'s largest stage holds for a component.
    #[must_use]
    pub fn component(&self, prediction: &Prediction, component: Component) -> SignedBytes {
        prediction.largest().component(component) - self.prediction.largest().component(component)
    }

    /// The operator of that name.
    #[must_use]
    pub fn op(&self, name: &str) -> Option<&RooflineOp> {
        self.prediction.roofline.ops.iter().find(|op| op.name == name)
    }
}

/// Pins the plan; a plan that is pinned as it stands is let go.
pub fn pin(state: &mut State) {
    if state.plans.baseline.as_ref().is_some_and(|baseline| baseline.is(&state.plans.editor)) {
        state.plans.baseline = None;
        state.notice = Some(info("no baseline any more"));
        return;
    }
    match Baseline::pin(&state.plans.editor) {
        Some(baseline) => {
            state.plans.baseline = Some(baseline);
            state.notice = Some(info("pinned: every pane shows the difference to this plan from now on"));
        }
        None => state.notice = Some(problem("a plan that is not valid cannot be pinned")),
    }
}
