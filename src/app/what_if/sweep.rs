//! What happens to the plan over the values of one key, or of two.

use super::WhatIfError;
use std::path::Path;

use crate::advise::{Axis, AxisWalls, BandwidthWall, CapacityWall, Sweep, divisors, sweep};
use crate::app::editor::Editor;
use crate::app::editor::editing;
use crate::app::editor::field::{FIELDS, Field};
use crate::app::editor::step::with_value;
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::{Overlay, State};
use crate::catalog::Catalog;
use crate::plan::schema::ValueKind;

/// Numbers of one key; two keys are at most this many squared.
const MOST_VALUES: usize = 40;

/// Names of one key: all GPUs, all models of the catalogue and some of the user's own.
const MOST_NAMES: usize = 128;

/// A sweep, and the selected point of it.
#[derive(Debug, Clone)]
pub struct SweepView {
    /// What varies: one field or two.
    pub fields: Vec<Field>,
    /// The points.
    pub sweep: Sweep,
    /// The selected one.
    pub selected: usize,
    /// The one that the plan is, where it is among them.
    pub now: Option<usize>,
    /// The map of two keys shows memory, not throughput.
    pub memory: bool,
    /// The plan is for a CPU: its memory is not a GPU's.
    pub on_cpu: bool,
}

/// The walls that stand at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// The last that fits along an axis.
    pub last_that_fits: bool,
    /// From here on, more brings hardly any throughput.
    pub flat: bool,
    /// From here on, more takes throughput away.
    pub falls: bool,
}

impl SweepView {
    /// Sweeps `fields` of the plan, on the point that the plan is.
    ///
    /// # Errors
    /// In one line, why there is nothing to sweep.
    pub fn of(fields: Vec<Field>, editor: &Editor, catalog: &Catalog) -> Result<Self, WhatIfError> {
        let plan = editor.plan().ok_or(WhatIfError::InvalidPlan)?;
        let axis = |field: &Field| {
            let values = values(*field, editor, catalog);
            if values.len() < 2 {
                return Err(WhatIfError::OneValue(field.label()));
            }
            let text = format!("{}={}", field.key(), values.join(","));
            Axis::parse(&text, Path::new("")).map_err(WhatIfError::Refused)
        };
        let axes = fields.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
        let sweep = sweep(plan, axes, catalog).map_err(WhatIfError::Refused)?;
        let is_now = |at: &[usize]| {
            fields.iter().zip(at).zip(&sweep.axes).all(|((field, at), axis)| axis.values[*at] == editor.shown(*field))
        };
        let now = sweep.points.iter().position(|point| is_now(&point.at));
        let on_cpu = editor.prediction().is_some_and(|prediction| prediction.on_cpu);
        Ok(Self { fields, sweep, selected: now.unwrap_or(0), now, memory: false, on_cpu })
    }

    /// What has the memory.
    #[must_use]
    pub const fn device(&self) -> &'static str {
        if self.on_cpu { "CPU" } else { "GPU" }
    }

    /// The unit of memory.
    #[must_use]
    pub const fn memory_unit(&self) -> &'static str {
        if self.on_cpu { "GiB" } else { "GiB a GPU" }
    }

    /// The walls that stand at a point.
    #[must_use]
    pub fn marks(&self, index: usize) -> Marks {
        let fits = |wall: &AxisWalls| matches!(wall.capacity, CapacityWall::Between { fits, .. } if fits == index);
        let ends = |wall: &&AxisWalls| matches!(wall.throughput, BandwidthWall::Flat { from, .. } if from == index);
        let falls = |wall: &AxisWalls| wall.throughput.falls();
        let walls = &self.sweep.walls;
        Marks {
            last_that_fits: walls.iter().any(fits),
            flat: walls.iter().filter(ends).any(|wall| !falls(wall)),
            falls: walls.iter().filter(ends).any(falls),
        }
    }

    /// The points of the line along an axis on which the selected one lies.
    #[must_use]
    pub fn line(&self, axis: usize) -> Vec<usize> {
        let points = &self.sweep.points;
        let Some(here) = points.get(self.selected).map(|point| &point.at) else { return Vec::new() };
        let on_it = |at: &[usize]| at.iter().zip(here).enumerate().all(|(of, (one, own))| of == axis || one == own);
        (0..points.len()).filter(|index| on_it(&points[*index].at)).collect()
    }

    /// The walls of the lines on which the selected point lies.
    pub fn walls_here(&self) -> impl Iterator<Item = &AxisWalls> {
        self.sweep.walls.iter().filter(|wall| self.line(wall.axis).contains(&wall.line))
    }

    /// Values along the last axis: the columns of two, the rows of one.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.sweep.axes.last().map_or(1, |axis| axis.values.len())
    }

    /// Moves the selection by rows and columns.
    fn step(&mut self, rows: isize, columns: isize) {
        let wide = if self.fields.len() > 1 { self.columns() } else { 1 };
        let (row, column) = (self.selected / wide, self.selected % wide);
        let last = self.sweep.points.len() / wide - 1;
        let row = row.saturating_add_signed(rows).min(last);
        let column = column.saturating_add_signed(columns).min(wide - 1);
        self.selected = row * wide + column;
    }
}

/// The values that a field is swept over.
fn values(field: Field, editor: &Editor, catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = field.choices(catalog).into_iter().map(|choice| choice.name).collect();
    if !names.is_empty() {
        names.truncate(MOST_NAMES);
        return names;
    }
    let Some(job) = editor.job() else { return Vec::new() };
    let numbers = match (field, field.number(job)) {
        (Field::Batch, Some(now)) => {
            let unit = (job.batch.micro * job.degrees.data).max(1);
            doubled(now / unit, unit)
        }
        (Field::MicroBatch, Some(_)) => divisors((job.batch.global / job.degrees.data.max(1)).max(1)),
        (Field::Sequence, Some(now)) => doubled(now, 1),
        (Field::NumGpus | Field::DataParallel, Some(now)) => doubled(now, 1),
        (_, Some(_)) => divisors(job.degrees.num_gpus),
        (_, None) => {
            let now = editor.shown(field).parse::<f64>().ok();
            let whole = matches!(field.schema().map(|key| key.kind), Some(ValueKind::Whole { .. }));
            return now.map_or_else(Vec::new, |now| spread(now, whole));
        }
    };
    numbers.into_iter().take(MOST_VALUES).map(|number| number.to_string()).collect()
}

/// Eight times less to sixteen times more, doubling, in multiples of `unit`.
fn doubled(now: u64, unit: u64) -> Vec<u64> {
    let now = now.max(1);
    let low = now >> now.trailing_zeros().min(3);
    let numbers = std::iter::successors(Some(low), |number| number.checked_mul(2));
    numbers.take_while(|number| *number <= now.saturating_mul(16)).map(|number| number.saturating_mul(unit)).collect()
}

/// Eight times less to eight times more.
fn spread(now: f64, whole: bool) -> Vec<String> {
    let mut values: Vec<f64> = (-3..=3).map(|power| now * 2_f64.powi(power)).collect();
    if whole {
        values.iter_mut().for_each(|value| *value = value.round());
    }
    values.dedup();
    values.into_iter().map(|value| value.to_string()).collect()
}

/// Opens the sweep of the selected field.
pub fn open(state: &mut State) {
    if let Some(field) = state.plans.form.field(&state.plans.editor) {
        show(state, vec![field]);
    }
}

/// Sweeps the fields and shows that.
pub fn show(state: &mut State, fields: Vec<Field>) {
    match SweepView::of(fields, &state.plans.editor, &state.catalog) {
        Ok(view) => {
            state.dialogs.sweep = Some(view);
            state.dialogs.overlay = Some(Overlay::Sweep);
        }
        Err(why) => state.notice = Some(problem(why.to_string())),
    }
}

/// Sweeps a second field beside the first.
pub fn add(state: &mut State, label: &str) {
    let Some(first) = state.dialogs.sweep.as_ref().and_then(|view| view.fields.first().copied()) else { return };
    if let Some(second) = FIELDS.into_iter().find(|field| field.label() == label) {
        show(state, vec![first, second]);
    }
}

/// A key while a sweep is shown.
pub fn on_key(state: &mut State, key: KeyPress) {
    let Some(view) = &mut state.dialogs.sweep else {
        state.dialogs.overlay = None;
        return;
    };
    match key {
        KeyPress::Up | KeyPress::Char('k') => view.step(-1, 0),
        KeyPress::Down | KeyPress::Char('j') => view.step(1, 0),
        KeyPress::Left | KeyPress::Char('h') => view.step(0, -1),
        KeyPress::Right | KeyPress::Char('l') => view.step(0, 1),
        KeyPress::PageUp | KeyPress::Home => view.step(isize::MIN, 0),
        KeyPress::PageDown | KeyPress::End => view.step(isize::MAX, 0),
        KeyPress::Enter => take(state),
        KeyPress::Char('v') if view.fields.len() > 1 => view.memory = !view.memory,
        KeyPress::Char('a') => {
            let other = |field: &Field| view.fields.first() != Some(field);
            let line = |field: Field| field.schema().map_or("", |key| key.line);
            let fields = FIELDS.into_iter().filter(other);
            let choices =
                fields.map(|field| crate::app::picker::choice::Choice::of(field.label(), line(field))).collect();
            state.dialogs.picker = Some(Picker::open(PickerPurpose::SecondKey, choices, None));
        }
        _ => state.dialogs.overlay = None,
    }
}

/// Puts the selected point into the plan.
fn take(state: &mut State) {
    let Some(view) = &state.dialogs.sweep else { return };
    let Some(point) = view.sweep.points.get(view.selected) else { return };
    if let Err(why) = &point.outcome {
        state.notice = Some(problem(why.to_string()));
        return;
    }
    let mut scratch = state.plans.editor.clone();
    let mut said = Vec::new();
    for (at, field) in view.fields.iter().enumerate() {
        let value = view.sweep.value(point, at);
        match with_value(*field, value, &scratch, &state.catalog) {
            Ok(document) => scratch.apply(document, &state.catalog),
            Err(fault) => {
                state.notice = Some(problem(fault.to_string()));
                return;
            }
        }
        said.push(format!("{} {value}", field.label()));
    }
    state.dialogs.overlay = None;
    if let Some(document) = scratch.document().cloned() {
        if state.plans.editor.document().is_some_and(|before| before.text() == document.text()) {
            state.notice = Some(info(format!("nothing changes: the plan says {} already", said.join(", "))));
            return;
        }
        editing::apply(state, document);
        state.notice = Some(info(format!("taken; s saves it, u takes it back: {}", said.join(", "))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn editor() -> (Editor, Catalog) {
        let catalog = Catalog::embedded().unwrap();
        let text = "model: {preset: llama-2-7b, batch_size: 64, sequence_length: 2048}\ntraining: {micro_batch_size: 2}\n\
                    hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 8}\n";
        (Editor::open_text("a".to_owned(), None, text.to_owned(), &catalog), catalog)
    }

    #[test]
    fn values_are_legal_ones_around_the_plans_own() {
        let (editor, catalog) = editor();
        // 8 replicas of 2: multiples of 16 from 64 / 4 to 64 x 16.
        let batches = values(Field::Batch, &editor, &catalog);
        assert_eq!(batches, ["16", "32", "64", "128", "256", "512", "1024"]);
        assert_eq!(values(Field::TensorParallel, &editor, &catalog), ["1", "2", "4", "8"]);
        assert_eq!(values(Field::MicroBatch, &editor, &catalog), ["1", "2", "4", "8"]);
        assert_eq!(values(Field::Sharding, &editor, &catalog).first().map(String::as_str), Some("none"));
    }

    #[test]
    fn it_opens_on_the_plan_and_two_fields_make_a_grid() {
        let (editor, catalog) = editor();
        let view = SweepView::of(vec![Field::Sequence], &editor, &catalog).unwrap();
        assert_eq!(view.sweep.value(&view.sweep.points[view.selected], 0), "2048");
        let mut view = SweepView::of(vec![Field::Sequence, Field::Sharding], &editor, &catalog).unwrap();
        assert_eq!(view.sweep.points.len(), view.sweep.axes[0].values.len() * view.columns());
        view.step(isize::MIN, isize::MIN);
        view.step(1, 2);
        assert_eq!(view.sweep.points[view.selected].at, [1, 2]);
    }
}
