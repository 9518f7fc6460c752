//! The values of a field: the ones beside it, the ones that typed text stands for, and
//! which other keys must follow so that the plan stays consistent.

use super::Editor;
use super::amount;
use super::field::Field;
use super::gpus::{Gpus, NODES, PER_NODE};
use crate::advise::divisors;
use crate::app::picker;
use crate::catalog::Catalog;
use crate::plan::schema::ValueKind;
use crate::plan::{Change, Document, Fault, keys};
use crate::predict::{self, Capacity, Job, Outline, Prediction, StepTime, Verdict};
use crate::units::SignedBytes;

/// Neighbouring values that are tried before giving up on finding a valid one.
const TRIES: usize = 48;

/// Direction of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To a smaller value, or one earlier in its list.
    Less,
    /// To a larger value, or one later in its list.
    More,
}

/// What another value would do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Device-used bytes more or less than now.
    pub memory: SignedBytes,
    /// Relative change of the samples a second of all GPUs: 0.1 is a tenth faster.
    pub speed: f64,
    /// Whether it would fit.
    pub fits: bool,
}

impl StepOutcome {
    /// From one prediction to another.
    #[must_use]
    pub fn between(now: &Prediction, then: &Prediction) -> Self {
        Self::of((now.capacity, speed(now)), (then.capacity, speed(then)))
    }

    /// From the figures of one plan to those of another.
    #[must_use]
    pub fn since(now: &Outline, then: &Outline) -> Self {
        Self::of((now.capacity, judged(now)), (then.capacity, judged(then)))
    }

    fn of(now: (Capacity, &StepTime), then: (Capacity, &StepTime)) -> Self {
        let rate = |time: &StepTime| time.tokens_per_s.unwrap_or(time.samples_per_s);
        let before = rate(now.1);
        Self {
            memory: then.0.needed - now.0.needed,
            speed: if before > 0.0 { rate(then.1) / before - 1.0 } else { 0.0 },
            fits: then.0.verdict() != Verdict::DoesNotFit,
        }
    }
}

/// From a prediction to the figures of another plan.
pub fn outcome_of(now: &Prediction, then: &Outline) -> StepOutcome {
    StepOutcome::of((now.capacity, speed(now)), (then.capacity, judged(then)))
}

/// The same of a plan's figures.
fn judged(outline: &Outline) -> &StepTime {
    outline.decode.as_ref().unwrap_or(&outline.time)
}

/// The time that a plan is judged by: of a server, that of one more token for each request.
fn speed(prediction: &Prediction) -> &StepTime {
    prediction.decode.as_ref().unwrap_or(&prediction.time)
}

/// A figure of the plan that changes with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DependentChange {
    /// The figure in the form's words.
    pub what: &'static str,
    /// What it is.
    pub from: String,
    /// What it would be.
    pub to: String,
}

impl DependentChange {
    /// Every figure but the `field`'s own in which `then` differs.
    fn between(field: Field, now: &Job, then: &Job) -> Vec<Self> {
        let figures = |job: &Job| {
            let of = |field: Field| (field.label(), field.number(job).unwrap_or_default().to_string());
            let fields = [Field::NumGpus, Field::Batch, Field::DataParallel, Field::MicroBatch].map(of);
            let link = job.hardware.interconnect.name.clone();
            let others = [("acc. steps", job.batch.accumulation.to_string()), (INTERCONNECT.label(), link)];
            fields.into_iter().chain(others)
        };
        let pairs = figures(now).zip(figures(then)).filter(|(now, then)| now != then && now.0 != field.label());
        pairs.map(|((what, from), (_, to))| Self { what, from, to }).collect()
    }
}

/// What taking another value would do.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldStep {
    /// The value.
    pub value: String,
    /// What it makes of the plan's keys.
    pub change: Change,
    /// Figures of the plan that would change with it, the most important first.
    pub follows: Vec<DependentChange>,
    /// What it would do.
    pub outcome: StepOutcome,
}

/// The nearest value in `direction` that makes a valid plan.
pub fn step(field: Field, direction: Direction, editor: &Editor, catalog: &Catalog) -> Option<FieldStep> {
    let job = editor.job()?;
    neighbours(field, direction, editor, job, catalog)
        .into_iter()
        .take(TRIES)
        .find_map(|value| outlook(field, &value, editor, catalog))
}

/// What the nearest value in `direction` that makes a valid plan makes of its keys; nothing is predicted.
pub fn nearest(field: Field, direction: Direction, editor: &Editor, catalog: &Catalog) -> Option<Change> {
    let job = editor.job()?;
    let mut values = neighbours(field, direction, editor, job, catalog).into_iter().take(TRIES);
    values.find_map(|value| {
        let change = change(field, &value, editor, job, catalog)?;
        editor.resolved(&change, catalog).map(|_| change)
    })
}

/// What a value would do; none where it makes no valid plan.
pub fn outlook(field: Field, value: &str, editor: &Editor, catalog: &Catalog) -> Option<FieldStep> {
    let job = editor.job()?;
    let change = change(field, value, editor, job, catalog)?;
    let now = editor.prediction()?;
    let then = editor.resolved(&change, catalog)?;
    let outcome = outcome_of(now, &predict::outline(&then));
    let follows = DependentChange::between(field, job, &then);
    Some(FieldStep { value: value.to_owned(), change, follows, outcome })
}

/// Why the nearest value in `direction` makes no valid plan; none where there is no such value.
pub fn why_not(field: Field, direction: Direction, editor: &Editor, catalog: &Catalog) -> Option<String> {
    let job = editor.job()?;
    if (field, direction) == (Field::NumGpus, Direction::Less) {
        let degrees = &job.degrees;
        let within = [("tensor", degrees.tensor), ("pipeline", degrees.pipeline), ("context", degrees.context)];
        let parts: Vec<String> =
            within.iter().filter(|(_, degree)| *degree > 1).map(|(name, degree)| format!("{name} {degree}")).collect();
        let least: u64 = within.iter().map(|(_, degree)| degree).product();
        let said = format!("{} take {least} GPUs at least; f, then g finds plans on fewer", parts.join(" x "));
        return (!parts.is_empty()).then_some(said);
    }
    let value = neighbours(field, direction, editor, job, catalog).into_iter().next()?;
    let document = with_value(field, &value, editor, catalog).ok()?;
    let mut tried = editor.clone();
    tried.apply(document, catalog);
    let fault = tried.faults().first()?;
    Some(format!("{} {value}: {}", field.label(), fault.message))
}

/// The values on one side of the field's own, nearest first.
fn neighbours(field: Field, direction: Direction, editor: &Editor, job: &Job, catalog: &Catalog) -> Vec<String> {
    let current = editor.shown(field);
    let list: Vec<String> = field.choices(catalog).into_iter().map(|choice| choice.name).collect();
    if !list.is_empty() {
        let at = list.iter().position(|name| *name == current);
        return match (direction, at) {
            (Direction::More, Some(at)) => list.into_iter().skip(at + 1).collect(),
            (Direction::Less, Some(at)) => list.into_iter().take(at).rev().collect(),
            // A value that is not in the list (an explicit architecture, a custom GPU) has the whole list above it.
            (Direction::More, None) => list,
            (Direction::Less, None) => Vec::new(),
        };
    }
    if let Field::Other(_) = field {
        return free_neighbours(field, direction, &current);
    }
    let Some(now) = field.number(job) else { return Vec::new() };
    let mut values = ladder(field, now, job);
    match direction {
        Direction::More => values.retain(|value| *value > now),
        Direction::Less => {
            values.retain(|value| *value < now);
            values.reverse();
        }
    }
    values.into_iter().map(|value| value.to_string()).collect()
}

/// Twice and half a number that no other key depends on, then one more or less.
fn free_neighbours(field: Field, direction: Direction, current: &str) -> Vec<String> {
    let Some(kind) = field.schema().map(|key| key.kind) else { return Vec::new() };
    let Ok(now) = current.replace('_', "").parse::<f64>() else { return Vec::new() };
    let candidates = match (kind, direction) {
        (ValueKind::Whole { .. }, Direction::More) => [now * 2.0, now + 1.0],
        (ValueKind::Whole { .. }, Direction::Less) => [(now / 2.0).floor(), now - 1.0],
        (ValueKind::Share, Direction::More) => [now + 0.1, now + 0.01],
        (ValueKind::Share, Direction::Less) => [now - 0.1, now - 0.01],
        (ValueKind::Positive { .. } | ValueKind::Amount { .. }, Direction::More) => [now * 2.0, now * 1.1],
        (ValueKind::Positive { .. } | ValueKind::Amount { .. }, Direction::Less) => [now / 2.0, now / 1.1],
        _ => return Vec::new(),
    };
    // Shares are added up in tenths: without rounding they would read 0.30000000000000004.
    let tidy = |value: f64| (value * 1e9).round() / 1e9;
    let beside = |value: &f64| *value >= 0.0 && (*value - now).abs() > f64::EPSILON;
    let mut values: Vec<f64> = candidates.map(tidy).into_iter().filter(beside).collect();
    values.dedup();
    values.into_iter().map(|value| value.to_string()).collect()
}

/// The values that a number field steps through, ascending.
fn ladder(field: Field, now: u64, job: &Job) -> Vec<u64> {
    let replicas = job.degrees.data.max(1);
    let batch = &job.batch;
    match field {
        Field::Batch => {
            // A batch is a whole number of micro batches on each replica; doubling goes furthest.
            let unit = replicas.saturating_mul(batch.micro).max(1);
            let units = now.div_ceil(unit);
            let up = [2 * units, units + 1, units + 2, units + 3];
            let down = [units / 2, units.saturating_sub(1)];
            let mut values: Vec<u64> = down.into_iter().chain(up).map(|units| units.saturating_mul(unit)).collect();
            // Nearest first would be one unit up: prefer the doubling, keep the rest as a way out.
            values.retain(|value| *value > 0);
            values.sort_unstable();
            values.dedup();
            prefer_powers(values, now)
        }
        Field::MicroBatch => divisors((batch.global / replicas).max(1)),
        Field::Sequence => (7..27).map(|power| 1_u64 << power).collect(),
        Field::TensorParallel | Field::PipelineParallel | Field::ContextParallel | Field::ExpertParallel => {
            divisors(job.degrees.num_gpus)
        }
        _ => (0..20).map(|power| 1_u64 << power).collect(),
    }
}

/// Keeps doubling and halving where those are there; else everything.
fn prefer_powers(values: Vec<u64>, now: u64) -> Vec<u64> {
    let powers: Vec<u64> = values.iter().copied().filter(|value| *value == 2 * now || 2 * value == now).collect();
    let missing = |higher: bool| !powers.iter().any(|value| (*value > now) == higher);
    values.into_iter().filter(|value| powers.contains(value) || missing(*value > now)).collect()
}

/// The change of the text that gives `field` this value and keeps the keys that depend
/// on it consistent, as far as the text says them. None when they cannot be.
pub fn change(field: Field, value: &str, editor: &Editor, job: &Job, catalog: &Catalog) -> Option<Change> {
    let mut change = Change { set: vec![(field.key(), value.to_owned())], remove: Vec::new() };
    match field {
        Field::Model => {
            // It would win over the preset; what the preset wins over may stay.
            change.remove = vec!["model.hf_config"];
            return Some(change);
        }
        Field::Gpu => {
            change.remove = vec!["hardware.custom"];
            change.set.extend(link_of(value, editor, catalog).map(|link| (INTERCONNECT.key(), link)));
            return Some(change);
        }
        _ => {}
    }
    let counted = field.number(job).is_some() || matches!(field, NODES | PER_NODE);
    let Some(number) = value.parse::<u64>().ok().filter(|_| counted) else { return Some(change) };
    let gpus = Gpus::with(field, number, editor, job)?;
    let mut follow = |key: &'static str, value: u64| {
        if editor.has(key) && key != field.key() {
            change.set.push((key, value.to_string()));
        }
    };
    follow("cluster.num_gpus", gpus.all);
    follow("distribution.data_parallel", gpus.data);
    if gpus.all != job.degrees.num_gpus {
        follow(PER_NODE.key(), gpus.per_node);
        follow(NODES.key(), gpus.all.div_ceil(gpus.per_node));
    }
    let batch = if field == Field::Batch { number } else { job.batch.global };
    let micro = if field == Field::MicroBatch { number } else { job.batch.micro };
    let at_once = micro.checked_mul(gpus.data)?;
    let batch_said = editor.has(keys::model::batch_size) || field == Field::Batch;
    if editor.has(keys::training::gradient_accumulation_steps) && batch_said {
        if at_once == 0 || batch == 0 || !batch.is_multiple_of(at_once) {
            return None;
        }
        follow("training.gradient_accumulation_steps", batch / at_once);
    }
    Some(change)
}

/// The own link of the GPU of that name, where it does not have the one that the text says.
fn link_of(gpu: &str, editor: &Editor, catalog: &Catalog) -> Option<String> {
    let (gpu, link) = (catalog.gpu(gpu)?, editor.said(INTERCONNECT.key())?);
    let lacks = catalog.link(&link).is_some_and(|link| !catalog.has_link(gpu, link));
    lacks.then(|| gpu.link.clone())
}

const INTERCONNECT: Field = Field::Other("cluster.interconnect");

/// The value that typed text stands for: a name or its beginning, a number with a unit, or
/// what was typed.
#[must_use]
pub fn meant(field: Field, typed: &str, catalog: &Catalog) -> String {
    let known = match field {
        Field::Model => catalog.model(typed).map(|model| model.name.clone()),
        Field::Gpu => catalog.gpu(typed).map(|gpu| gpu.name.clone()),
        _ => None,
    };
    let best = || {
        let choices = field.choices(catalog);
        picker::ranked(&choices, typed).first().and_then(|at| choices.get(*at)).map(|choice| choice.name.clone())
    };
    let number = || field.schema().and_then(|key| amount::read(key, typed));
    known.or_else(|| field.word(typed)).or_else(best).or_else(number).unwrap_or_else(|| typed.to_owned())
}

/// The plan with this value of the field; it need not be a valid plan.
///
/// # Errors
/// Where the text cannot be changed so.
pub fn with_value(field: Field, value: &str, editor: &Editor, catalog: &Catalog) -> Result<Document, Fault> {
    let alone = || Change { set: vec![(field.key(), value.to_owned())], remove: Vec::new() };
    let change = editor.job().and_then(|job| change(field, value, editor, job, catalog)).unwrap_or_else(alone);
    editor.with(&change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_and_halving_win_where_they_are_possible() {
        assert_eq!(prefer_powers(vec![8, 12, 20, 24, 32], 16), [8, 32]);
        assert_eq!(prefer_powers(vec![4, 8, 16, 20, 24], 12), [4, 8, 24]);
    }

    #[test]
    fn numbers_that_stand_alone_double_and_halve() {
        let neighbours = |key, direction, now| free_neighbours(Field::Other(key), direction, now);
        assert_eq!(neighbours("model.size_billions", Direction::More, "13.0"), ["26", "14.3"]);
        assert_eq!(neighbours("distribution.virtual_pipeline", Direction::Less, "1"), ["0"]);
        assert_eq!(neighbours("training.dropout", Direction::More, "0.2"), ["0.3", "0.21"]);
    }
}
