//! The largest value of a field that fits on the GPU: searched, shown with what one more would need, taken.

use super::WhatIfError;
use crate::advise::divisors;
use crate::app::editor::Editor;
use crate::app::editor::editing;
use crate::app::editor::field::Field;
use crate::app::editor::step::{StepOutcome, change, outcome_of};
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::state::{Overlay, State};
use crate::catalog::Catalog;
use crate::plan::Change;
use crate::plan::keys;
use crate::predict::{Capacity, Job, Outline, largest};

/// No search goes beyond this: a sequence or batch that long fits nowhere.
const MOST: u64 = 1 << 36;

/// Sequences are cut to a multiple of this: kernels are fastest so, and people write them so.
const TOKENS: u64 = 128;

/// A size of the plan, and what it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// `micro batch 12: batch 96 = 12 x 8 replicas x 1 accumulation step`.
    pub words: String,
    /// What it needs, and of how much.
    pub capacity: Capacity,
}

/// The largest value of a field that fits.
#[derive(Debug, Clone)]
pub struct LargestSize {
    /// It.
    pub size: Size,
    /// The plan as it is.
    pub now: Size,
    /// The next one, which is too large; none where no larger one is a valid plan.
    pub next: Option<Size>,
    /// What it would do to the plan.
    pub outcome: StepOutcome,
    /// What it makes of the plan's keys; none where the plan is that already.
    change: Option<Change>,
}

/// Shows the largest batch that fits, or the largest micro batch or sequence where that field is selected.
pub fn open(state: &mut State) {
    let field = match state.plans.form.field(&state.plans.editor) {
        Some(field @ (Field::MicroBatch | Field::Sequence)) => field,
        _ => Field::Batch,
    };
    match largest_that_fits(field, &state.plans.editor, &state.catalog) {
        Ok(found) => {
            state.dialogs.largest = Some(found);
            state.dialogs.overlay = Some(Overlay::Largest);
        }
        Err(why) => state.notice = Some(problem(why.to_string())),
    }
}

/// A key while it is shown: Enter takes it.
pub fn on_key(state: &mut State, key: KeyPress) {
    state.dialogs.overlay = None;
    let Some(found) = state.dialogs.largest.take().filter(|_| key == KeyPress::Enter) else { return };
    let Some(change) = found.change else { return };
    match state.plans.editor.with(&change) {
        Ok(document) => {
            editing::apply(state, document);
            state.notice = Some(info(format!("taken; s saves it, u takes it back: {}", found.size.words)));
        }
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}

/// A plan with another value of the field.
struct SizedPlan {
    micro: u64,
    value: u64,
    change: Change,
    outline: Outline,
}

/// Searches the values of one field.
struct Search<'a> {
    field: Field,
    editor: &'a Editor,
    job: &'a Job,
    catalog: &'a Catalog,
}

impl Search<'_> {
    /// Micro batches in a step.
    fn steps(&self) -> u64 {
        (self.job.batch.global / (self.job.batch.micro * self.job.degrees.data).max(1)).max(1)
    }

    /// The plan with that value: of the batch, that many samples at a time.
    fn with(&self, value: u64) -> Option<SizedPlan> {
        let change = match self.field {
            Field::Batch => whole_batch(value, self.editor, self.job)?,
            field => change(field, &value.to_string(), self.editor, self.job, self.catalog)?,
        };
        let outline = self.editor.outline(&change, self.catalog)?;
        let micro = if self.field == Field::Sequence { self.job.batch.micro } else { value };
        Some(SizedPlan { micro, value, change, outline })
    }

    fn fitting(&self, value: u64) -> Option<SizedPlan> {
        self.with(value).filter(|sized| sized.outline.capacity.needed <= sized.outline.capacity.bytes)
    }

    /// The largest value, and the one after it.
    fn run(&self) -> Option<(SizedPlan, Option<SizedPlan>)> {
        match self.field {
            Field::MicroBatch => {
                let values = divisors((self.job.batch.global / self.job.degrees.data.max(1)).max(1));
                let (at, found) =
                    values.iter().enumerate().rev().find_map(|(at, value)| Some((at, self.fitting(*value)?)))?;
                Some((found, values.get(at + 1).and_then(|value| self.with(*value))))
            }
            Field::Sequence => {
                let (tokens, _) = largest(MOST, |tokens| self.fitting(tokens))?;
                let unit = if tokens > TOKENS { TOKENS } else { 1 };
                let tidy = tokens / unit * unit;
                Some((self.with(tidy)?, self.with(tidy + unit)))
            }
            _ => {
                let (micro, found) = largest(MOST, |micro| self.fitting(micro))?;
                Some((found, self.with(micro + 1)))
            }
        }
    }

    fn words(&self, micro: u64, value: u64) -> String {
        if self.field == Field::Sequence {
            return format!("sequence {value}");
        }
        let replicas = self.job.degrees.data;
        let steps = match self.field {
            Field::MicroBatch => self.job.batch.global / (micro * replicas).max(1),
            _ => self.steps(),
        };
        let many = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        let batch = micro.saturating_mul(replicas).saturating_mul(steps);
        let parts = [many(replicas, "replica"), many(steps, "accumulation step")].join(" x ");
        format!("micro batch {micro}, batch {batch} = {micro} x {parts}")
    }

    fn size(&self, sized: &SizedPlan) -> Size {
        Size { words: self.words(sized.micro, sized.value), capacity: sized.outline.capacity }
    }
}

/// The largest value of `field` that fits.
///
/// # Errors
/// Why there is none.
fn largest_that_fits(field: Field, editor: &Editor, catalog: &Catalog) -> Result<LargestSize, WhatIfError> {
    let valid = editor.job().zip(editor.prediction()).filter(|_| editor.faults().is_empty());
    let Some((job, prediction)) = valid else { return Err(WhatIfError::InvalidPlan) };
    let search = Search { field, editor, job, catalog };
    let Some((found, next)) = search.run() else {
        let least = search.with(1).map(|sized| sized.outline.capacity);
        let needs = least.map_or_else(String::new, |least| {
            format!(" needs {} of {} GiB", least.needed.in_gib(), least.bytes.in_gib())
        });
        let one = if field == Field::Sequence { "one token" } else { "micro batch 1" };
        return Err(WhatIfError::NothingFits { smallest: format!("{one}{needs}") });
    };
    let value = if field == Field::Sequence { job.batch.sequence } else { job.batch.micro };
    let now = Size { words: search.words(job.batch.micro, value), capacity: prediction.capacity };
    let outcome = outcome_of(prediction, &found.outline);
    let size = search.size(&found);
    let change = (size.words != now.words).then_some(found.change);
    Ok(LargestSize { next: next.map(|next| search.size(&next)), size, now, outcome, change })
}

/// A larger micro batch with as many micro batches as now, so that pipelines stay as full.
fn whole_batch(micro: u64, editor: &Editor, job: &Job) -> Option<Change> {
    let batch = micro.checked_mul((job.batch.global / job.batch.micro.max(1)).max(1))?;
    let set = [("model.batch_size", batch, true), ("training.micro_batch_size", micro, false)];
    let accumulated = editor.has(keys::training::gradient_accumulation_steps);
    // Two of the three say everything; a third that stands there has to agree.
    let set = set.into_iter().filter(|(key, _, always)| *always || editor.has(key) || !accumulated);
    Some(Change { set: set.map(|(key, value, _)| (key, value.to_string())).collect(), remove: Vec::new() })
}
