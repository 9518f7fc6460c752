//! Predicted against observed, why they differ, and with the kind of each figure.

mod curves;
mod figures;
mod kinds;
mod run;
mod why;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{say, unpredicted};
use crate::app::{Baseline, CompareRow, Pane, Plans, SourceState, State, measured_rows};
use crate::compare::MemoryOwner;
use crate::predict::Prediction;
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::picker::in_words;
use crate::ui::text::{RenderLine, left, signed_percent, wrapped};

/// Room for the name of a row.
const NAME: usize = 12;

/// Lines from the selected one on that are in view.
const BELOW: usize = 4;

pub fn title(state: &State, curves: bool) -> String {
    let monitor = &state.monitor;
    let whose = match state.run.comparison.as_ref().map(|comparison| comparison.whose) {
        None => "predicted and observed".to_owned(),
        Some(MemoryOwner::Process { pid, device: None }) => format!("process {pid}, on no GPU"),
        Some(MemoryOwner::Process { pid, device: Some(device) }) => {
            format!("process {pid} on GPU {}", monitor.gpu_name_at(device))
        }
        // Of GPUs elsewhere no process can be attached to.
        Some(MemoryOwner::Device { device }) if monitor.cluster.is_there() => {
            format!("all of GPU {}, which has held most", monitor.gpu_name_at(device))
        }
        Some(MemoryOwner::Device { device }) if state.run.last_attempt.is_shown() => format!("all of GPU {device}"),
        Some(MemoryOwner::Device { device }) => format!("all of GPU {device}; attach to a process for its share"),
        Some(MemoryOwner::Log) => "the log alone; attach to its process for its memory".to_owned(),
    };
    let whose = if state.run.last_attempt.is_shown() { format!("the run that ended · {whose}") } else { whose };
    if curves { format!("over time · {whose}") } else { whose }
}

/// Lines from the top down, and which of them the selected row stands on.
struct Page<'a> {
    lines: Vec<Line<'a>>,
    /// The row that each line stands for, where it can be selected.
    rows: Vec<Option<usize>>,
    /// The one of the next lines.
    row: Option<usize>,
    selected: Option<usize>,
    /// It is the first row: all above it is shown.
    at_top: bool,
    width: usize,
    /// What the next note is preceded by.
    mark: &'static str,
}

impl<'a> Page<'a> {
    const fn new(area: Rect, at_top: bool) -> Self {
        let width = area.width as usize;
        Self { lines: Vec::new(), rows: Vec::new(), row: None, selected: None, at_top, width, mark: " " }
    }

    fn add(&mut self, line: impl Into<Line<'a>>) {
        self.lines.push(line.into());
        self.rows.push(self.row);
    }

    /// Lines that are one row.
    fn of_row(&mut self, row: usize, add: impl FnOnce(&mut Self)) {
        self.row = Some(row);
        add(self);
        self.row = None;
    }

    /// A name and what is said of it, over at most so many lines.
    fn note(&mut self, name: &str, text: &str, most: usize, look: &Look) {
        self.styled_note(name, text, most, look.theme.dim(), look);
    }

    fn styled_note(&mut self, name: &str, text: &str, most: usize, style: Style, look: &Look) {
        for (index, line) in wrapped(text, self.width.saturating_sub(NAME + 1), most).into_iter().enumerate() {
            let mark = if index == 0 { std::mem::replace(&mut self.mark, " ") } else { " " };
            self.add(vec![
                Span::styled(format!("{mark}{}", left(if index == 0 { name } else { "" }, NAME)), look.theme.text()),
                Span::styled(line, style),
            ]);
        }
    }

    /// Notes that are one row together: all of them are in view where it is selected.
    fn block(&mut self, chosen: bool, add: impl FnOnce(&mut Self)) {
        if !chosen {
            return add(self);
        }
        self.mark = "▸";
        let first = self.lines.len();
        add(self);
        self.mark = " ";
        self.selected = Some(self.lines.len().saturating_sub(BELOW).max(first));
    }

    fn render(self, look: &Look, area: Rect, buffer: &mut Buffer) {
        let height = area.height as usize;
        // The selected row is in view, with what comes below it.
        let first = self
            .selected
            .filter(|_| !self.at_top)
            .map_or(0, |selected| (selected + BELOW).min(self.lines.len()).saturating_sub(height));
        for ((line, row), place) in self.lines.into_iter().zip(self.rows).skip(first).zip(area.rows()) {
            if let Some(row) = row {
                look.place_cells(place, row);
            }
            line.render(place, buffer);
        }
    }
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(prediction) = state.plans.compared().prediction() else {
        return uncompared(state, &unpredicted(state.plans.compared(), "a comparison is"), look, area, buffer);
    };
    let Some(comparison) = &state.run.comparison else {
        return uncompared(state, &nothing_observed(state), look, area, buffer);
    };
    if state.views.curves {
        return curves::draw(state, comparison, look, area, buffer);
    }
    let mut page = Page::new(area, state.views.compared == 0);
    let row = (state.views.focus == Pane::Compare).then(|| CompareRow::of(state));
    let is_over = state.run.telemetry.ended(&state.monitor, state.now).is_some();
    figures::add(comparison, (prediction, state.plans.compared().serves(), is_over), look, &mut page);
    if let Some(line) = baseline_line(&state.plans, prediction, look) {
        page.add(line);
    }
    page.add(Line::default());
    run::ran_out(state, look, &mut page);
    why::add(state, comparison, look, &mut page);
    page.add(Line::default());
    page.of_row(CompareRow::Run.number(state), |page| {
        page.block(row == Some(CompareRow::Run), |page| run::add(state, look, page));
    });
    page.add(Line::default());
    page.of_row(CompareRow::Kinds.number(state), |page| {
        page.block(row == Some(CompareRow::Kinds), |page| {
            for (what, text) in kinds::of(state, comparison) {
                page.note(what, &text, 2, look);
            }
        });
    });
    page.add(Line::default());
    assumptions(state, prediction, look, &mut page);
    page.render(look, area, buffer);
}

/// What the run tells of itself, where there is nothing to compare it with, and why that is.
fn uncompared(state: &State, why: &str, look: &Look, area: Rect, buffer: &mut Buffer) {
    let told = measured_rows(state);
    let alerts = &state.run.alerts;
    if told.is_empty() && state.run.ran_out.is_none() && alerts.raised.is_empty() && alerts.past.is_empty() {
        return say(why, look, area, buffer);
    }
    let mut page = Page::new(area, true);
    run::ran_out(state, look, &mut page);
    for (name, text) in told {
        page.styled_note(name, &printable(&text), 3, look.theme.observed(), look);
    }
    page.add(Line::default());
    page.note("compared", why, 3, look);
    if state.plans.run.is_none() && state.plans.editor.waits_for_model() {
        let how = "for a model that no preset is, write `trace: model.tape.json.gz` in place of `preset`; \
                   `memwall run --trace model.tape.json.gz -- COMMAND` makes that file from one step";
        page.note("its plan", how, 4, look);
    }
    page.add(Line::default());
    run::add(state, look, &mut page);
    page.render(look, area, buffer);
}

/// Why there is nothing to hold against the plan.
fn nothing_observed(state: &State) -> String {
    let idle = state.monitor.run_devices().next().is_some() && state.monitor.is_idle();
    let said = match (&state.plans.run, &state.monitor.sample) {
        _ if state.monitor.source == SourceState::Unwatched => {
            "a lesson's plan stands alone: nothing runs that it could be compared with"
        }
        _ if state.monitor.attached.is_none() && state.run.telemetry.news.no_log.is_some() => {
            "the log tells of no step so far: there is nothing to compare"
        }
        _ if state.monitor.is_unanswered() => "no GPU answers: there is nothing to compare",
        _ if idle && state.monitor.attached.is_none() => "the GPUs are idle: there is nothing to compare",
        (None, Some(_)) if state.run.telemetry.ended(&state.monitor, state.now).is_some() => {
            "the run has ended without a plan: R applies the one in front"
        }
        (None, Some(_)) => {
            "the run has no plan: i in the monitor reads it from the process, R applies the one in front"
        }
        _ => "nothing observed yet",
    };
    said.to_owned()
}

fn assumptions(state: &State, prediction: &Prediction, look: &Look, page: &mut Page<'_>) {
    let head = format!(" what the prediction assumes ({})", prediction.assumptions.len());
    page.add(Line::styled(head, look.theme.dim()));
    for (index, text) in prediction.assumptions.iter().enumerate() {
        let chosen = state.views.focus == Pane::Compare && CompareRow::of(state) == CompareRow::Assumption(index);
        if chosen {
            page.selected = Some(page.lines.len());
        }
        let (mark, style) = if chosen { ("▸", look.theme.text()) } else { ("·", look.theme.dim()) };
        let wrapped = wrapped(&printable(text), page.width.saturating_sub(3), 4);
        page.of_row(CompareRow::Assumption(index).number(state), |page| {
            for (index, line) in wrapped.into_iter().enumerate() {
                page.add(Line::styled(format!(" {} {line}", if index == 0 { mark } else { " " }), style));
            }
        });
    }
}

/// The plan against the baseline, where one is pinned.
fn baseline_line<'a>(plans: &Plans, prediction: &Prediction, look: &Look) -> Option<Line<'a>> {
    let baseline = plans.baseline.as_ref()?;
    let outcome = baseline.outcome(prediction);
    let said = format!("{}, step {}", in_words(&outcome), step_since(baseline, prediction));
    Some(Line::from(vec![
        Span::styled(format!(" {}", left("baseline", NAME)), look.theme.text()),
        Span::styled(format!(" {}: {said}", printable(&baseline.name)), look.theme.warning()),
    ]))
}

fn step_since(baseline: &Baseline, prediction: &Prediction) -> String {
    let ratio = prediction.time.step.ratio_to(baseline.prediction.time.step);
    ratio.map_or_else(|| "–".to_owned(), |ratio| signed_percent(ratio - 1.0))
}
