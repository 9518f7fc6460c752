//! The plan as a form.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::scroll;
use crate::app::{DependentChange, Field, FieldOrigin, FieldStep, Pane, Plans, ReadingState, State};
use crate::plan::Fault;
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::text::{fit, left, right, signed_percent, width_of, wrapped};

/// Cells of a field's name with the gap behind it.
const LABEL: usize = 12;

pub fn title(plans: &Plans) -> String {
    let (place, count) = plans.tabs.place();
    let mut parts = Vec::new();
    if count > 1 {
        parts.push(format!("{} of {count}", place + 1));
    }
    if plans.editor.prediction().is_none() {
        parts.push(if plans.editor.waits_for_bench() { "not measured" } else { "has errors" }.to_owned());
    }
    if plans.editor.standing() != ReadingState::Read {
        parts.push("reading".to_owned());
    }
    let own = plans.editor.name();
    if plans.compared().name() != own {
        // The header names the run's.
        parts.push(printable(own));
    }
    if let Some(run) = plans.drafted_beside() {
        parts.push(format!("draft beside {}", printable(run.plan().name())));
    }
    if plans.editor.modified() {
        parts.push("unsaved".to_owned());
    }
    if plans.baseline.as_ref().is_some_and(|baseline| baseline.is(&plans.editor)) {
        parts.push("baseline".to_owned());
    }
    parts.join(" · ")
}

/// Share of the speed below which a step is no gain.
const WORTH_TELLING: f64 = 0.005;

/// Lines below the fields for what neighbouring values would do and take along, so that fields keep their places.
const NOTES: usize = 3;

/// Cells of a field with its value where those beside it stand in columns of their own.
const FIELD: u16 = 50;

/// The same where there is little room, and what two columns beside that take.
const NARROW: (u16, u16) = (26, 50);

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    if state.plans.form.all && area.width >= NARROW.0 + NARROW.1 {
        let field = if area.width >= 2 * FIELD { FIELD } else { NARROW.0 };
        let [fields, beside] = Layout::horizontal([Constraint::Length(field), Constraint::Fill(1)]).areas(area);
        draw_fields(state, look, fields, buffer);
        draw_beside(&state.plans, look, beside, buffer);
    } else {
        draw_fields(state, look, area, buffer);
    }
}

/// Changes how the work is done, not what it is or on how many of which GPUs.
fn is_a_knob(field: Field) -> bool {
    let key = field.key();
    let work = ["model.preset", "model.sequence_length", "model.hf_config", "distribution.data_parallel"];
    !work.contains(&key) && !["hardware.", "cluster.", "model.architecture."].iter().any(|part| key.starts_with(part))
}

/// What the value below and the value above each field's would do; of the steps that do the same work on the same
/// GPUs the fastest is marked.
fn draw_beside(plans: &Plans, look: &Look, area: Rect, buffer: &mut Buffer) {
    let columns: [Rect; 2] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(area);
    let (first, room) = visible(plans, area.height);
    let faster = |step: &&FieldStep| step.outcome.fits && step.outcome.speed > WORTH_TELLING;
    let by_speed = |a: &&FieldStep, b: &&FieldStep| a.outcome.speed.total_cmp(&b.outcome.speed);
    let fields = plans.form.fields(&plans.editor);
    let same_work = fields.iter().filter(|field| is_a_knob(**field)).filter_map(|field| plans.form.sides(*field));
    let fastest = same_work.flatten().flatten().filter(faster).max_by(by_speed);
    for (index, field) in fields.iter().enumerate().skip(first).take(room) {
        let row = (index - first) as u16;
        let Some(steps) = plans.form.sides(*field) else {
            for column in columns {
                let place = Rect { y: column.y + row, height: 1, ..column };
                Line::styled(look.keys("…"), look.theme.dim()).render(place, buffer);
            }
            continue;
        };
        for ((arrow, step), column) in ["‹", "›"].into_iter().zip(steps).zip(columns) {
            let place = Rect { y: column.y + row, height: 1, ..column };
            if let Some(step) = step {
                let mut note = whole_note(arrow, step, look, place.width as usize);
                if fastest.is_some_and(|fastest| std::ptr::eq(fastest, step)) {
                    note.spans.iter_mut().for_each(|span| span.style = look.theme.good());
                }
                note.render(place, buffer);
            }
        }
    }
}

/// The first field in view, and how many there is room for.
fn visible(plans: &Plans, height: u16) -> (usize, usize) {
    let fields = plans.form.fields(&plans.editor).len();
    let room = usize::from(height).saturating_sub(NOTES);
    (scroll(plans.form.selected, fields, room), room)
}

fn draw_fields(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let fields = state.plans.form.fields(&state.plans.editor);
    let notes = notes(state, look, area.width as usize);
    let room = (area.height as usize).saturating_sub(notes.len());
    let first = scroll(state.plans.form.selected, fields.len(), room);
    let rows = fields.iter().enumerate().skip(first).take(room).map(|(index, field)| {
        look.place_row(area, index - first, index);
        let selected = index == state.plans.form.selected;
        row(state, *field, selected, look, area.width as usize)
    });
    let blank = std::iter::repeat_with(Line::default).take(room.saturating_sub(fields.len() - first));
    for (line, place) in rows.chain(blank).chain(notes).zip(area.rows()) {
        line.render(place, buffer);
    }
    let below = fields.len().saturating_sub(first + room);
    for (count, arrow, row) in [(first, '↑', 0), (below, '↓', room.saturating_sub(1))] {
        note_hidden(count, arrow, look, Rect { y: area.y + row as u16, height: 1, ..area }, buffer);
    }
}

/// How many fields are above or below those in view, at the end of a line that has room for it.
fn note_hidden(count: usize, arrow: char, look: &Look, line: Rect, buffer: &mut Buffer) {
    let text = look.keys(&format!("{arrow} {count} more")).into_owned();
    let width = text.chars().count() as u16;
    let start = line.right().saturating_sub(width + 1);
    let is_free = (start..line.right()).all(|x| buffer.cell((x, line.y)).is_some_and(|cell| cell.symbol() == " "));
    if count > 0 && line.width > width && is_free {
        Line::styled(text, look.theme.dim()).right_aligned().render(line, buffer);
    }
}

fn row<'a>(state: &'a State, field: Field, selected: bool, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let focused = state.views.focus == Pane::Plan;
    let editor = &state.plans.editor;
    let label = if selected && focused { theme.accent() } else { theme.dim() };
    let mut spans = vec![Span::styled(left(&fit(&field.short(), LABEL - 1), LABEL), label)];
    let room = width.saturating_sub(LABEL + 2);
    let typing = state.plans.form.typing.as_ref().filter(|_| selected);
    if let Some(typed) = typing {
        spans.push(Span::styled("▸ ", theme.accent()));
        spans.push(Span::styled(printable(typed), theme.text()));
        spans.push(Span::styled(" ", theme.text().add_modifier(Modifier::REVERSED)));
        if typed.is_empty() {
            let was = fit(&format!(" was {}", editor.shown(field)), room.saturating_sub(1));
            spans.push(Span::styled(was, theme.dim()));
        }
        return Line::from(spans);
    }
    // What the plan file says is plain; what follows from it is dim, and what was assumed for it stands in parentheses.
    let origin = editor.origin(field);
    let style = match origin {
        _ if editor.faults().iter().any(|fault| fault.key == field.key()) => theme.danger(),
        _ if editor.lacking().is_some_and(|(lacking, _)| lacking == field) => theme.warning(),
        FieldOrigin::Plan => theme.text(),
        FieldOrigin::Derived(_) | FieldOrigin::Assumed => theme.dim(),
    };
    let shown = editor.shown(field);
    let value = fit(&printable(&shown), room);
    if selected && focused {
        let form = &state.plans.form;
        // Until it is known whether there is another value, there may be.
        let open = !form.is_known(editor);
        let lower = if open || form.lower.is_some() { "‹ " } else { "  " };
        let upper = if open || form.upper.is_some() { " ›" } else { "  " };
        spans.push(Span::styled(lower, theme.accent()));
        spans.push(Span::styled(value, theme.selected()));
        spans.push(Span::styled(upper, theme.accent()));
    } else if origin == FieldOrigin::Assumed {
        spans.push(Span::styled(format!(" ({value})"), style));
    } else {
        spans.push(Span::raw("  "));
        spans.push(Span::styled(value, style));
    }
    if let Some(was) = state.plans.reference().and_then(|baseline| baseline.was(field, &shown)) {
        let room = width.saturating_sub(width_of(&spans) + 2);
        spans.push(Span::styled(fit(&format!("  was {}", printable(&was)), room), theme.warning()));
    }
    Line::from(spans)
}

/// What the neighbouring values of the selected field would do, or what is wrong with the plan.
fn notes<'a>(state: &'a State, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    // The selected field's own fault before others.
    let faults = state.plans.editor.faults();
    let selected = state.plans.form.field(&state.plans.editor).map(Field::key);
    let own = faults.iter().find(|fault| Some(fault.key.as_str()) == selected);
    if let Some(fault) = own.or_else(|| faults.first()) {
        let more = match faults.len() {
            1 => String::new(),
            several => format!(" (and {} more)", several - 1),
        };
        // Nobody has seen the lines of a plan that is no file's.
        let at = fault.at.filter(|_| state.plans.editor.path().is_some());
        let fault = Fault { at, ..fault.clone() };
        let words = printable(&format!("{fault}{more}"));
        let style = if state.plans.editor.waits_for_bench() { theme.warning() } else { theme.danger() };
        return wrapped(&words, width, 7).into_iter().map(|line| Line::styled(line, style)).collect();
    }
    if state.views.focus != Pane::Plan {
        return Vec::new();
    }
    if state.plans.form.typing.is_some() {
        return typed_notes(&state.plans, look, width);
    }
    let open = if state.plans.form.is_known(&state.plans.editor) { "" } else { " …" };
    let unknown =
        |arrow| if open.is_empty() { Line::default() } else { Line::styled(format!("{arrow}{open}"), theme.dim()) };
    [("›", &state.plans.form.upper), ("‹", &state.plans.form.lower)]
        .into_iter()
        .map(|(arrow, step)| step.as_ref().map_or_else(|| unknown(arrow), |step| step_note(arrow, step, look, width)))
        .chain(remark(&state.plans, look, width))
        .collect()
}

/// What is to be said of the selected field: what a step takes along; what speaks against its value; where that is
/// from; else what the key is.
fn remark<'a>(plans: &Plans, look: &Look, width: usize) -> Option<Line<'a>> {
    let theme = &look.theme;
    let field = plans.form.field(&plans.editor)?;
    let lacking = plans.editor.lacking().filter(|(lacking, _)| *lacking == field).map(|(_, missing)| missing);
    if let Some(caveat) = lacking.or_else(|| plans.editor.caveat(field).map(str::to_owned)) {
        return Some(Line::styled(fit(&printable(&caveat), width), theme.warning()));
    }
    let own = match plans.editor.origin(field) {
        FieldOrigin::Assumed => Some("assumed".to_owned()),
        FieldOrigin::Derived(key) => Some(format!("from {}", key.rsplit('.').next().unwrap_or(key))),
        FieldOrigin::Plan => None,
    };
    let along = taken_along(plans, width.saturating_sub(own.as_ref().map_or(0, |own| own.len() + 2)));
    let said = match (own, along.is_empty()) {
        (Some(own), false) => format!("{own}; {along}"),
        (Some(own), true) => format!("{own}; ←→ or ⏎ sets it"),
        (None, false) => along,
        (None, true) if !plans.form.is_known(&plans.editor) => String::new(),
        (None, true) => field.schema().map_or_else(String::new, |key| key.line.to_owned()),
    };
    Some(Line::styled(fit(&look.keys(&said), width), theme.dim()))
}

/// `also GPUs 512: ‹ 256 › 1024`: the figures that the steps would change too, as many as there is room for.
fn taken_along(plans: &Plans, width: usize) -> String {
    let [lower, upper] = [&plans.form.lower, &plans.form.upper]
        .map(|step| step.as_ref().map_or(&[] as &[DependentChange], |step| step.follows.as_slice()));
    let only_lower = lower.iter().filter(|one| upper.iter().all(|other| other.what != one.what));
    let mut said = String::new();
    for follow in upper.iter().chain(only_lower) {
        let to = |steps: &[DependentChange], arrow| {
            let found = steps.iter().find(|one| one.what == follow.what);
            found.map_or_else(String::new, |one| format!(" {arrow} {}", one.to))
        };
        let joint = if said.is_empty() { "also " } else { ", " };
        let part = format!("{joint}{} {}:{}{}", follow.what, follow.from, to(lower, '‹'), to(upper, '›'));
        if !said.is_empty() && said.chars().count() + part.chars().count() > width {
            break;
        }
        said += &part;
    }
    said
}

/// What the value that is being typed would do, and what may be typed.
fn typed_notes<'a>(plans: &'a Plans, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let rule = plans.form.field(&plans.editor).and_then(Field::schema).map(|key| key.kind.to_string());
    let rule = Line::styled(fit(&rule.unwrap_or_default(), width), theme.dim());
    let would = match (&plans.form.typed, plans.form.typing.as_deref()) {
        (Some(step), _) => whole_note("▸", step, look, width),
        (None, Some(typed)) if !typed.trim().is_empty() => {
            Line::styled(fit("makes no valid plan as things stand", width), theme.warning())
        }
        _ => Line::default(),
    };
    vec![would, rule]
}

/// The same with what changes along, where there is room: `› 16  GPUs 8→16  -12.3 GiB  +90 %`.
fn whole_note<'a>(arrow: &'a str, step: &FieldStep, look: &Look, width: usize) -> Line<'a> {
    let along =
        step.follows.first().map(|follow| format!("  {} {}{}{}", follow.what, follow.from, look.arrow(), follow.to));
    effect_note(arrow, step, &along.unwrap_or_default(), look, width)
}

/// `› 4096  +2.10 GiB  -3 %`: the value, memory, speed.
fn step_note<'a>(arrow: &'a str, step: &FieldStep, look: &Look, width: usize) -> Line<'a> {
    effect_note(arrow, step, "", look, width)
}

fn effect_note<'a>(arrow: &'a str, step: &FieldStep, along: &str, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let outcome = &step.outcome;
    let speed = if outcome.fits { signed_percent(outcome.speed) } else { "too big".to_owned() };
    let effect = format!(" {} {}", outcome.memory, right(&speed, 7));
    let style = if outcome.fits { theme.dim() } else { theme.warning() };
    let room = width.saturating_sub(effect.chars().count());
    let value = fit(&step.value, room.saturating_sub(3));
    let along =
        Some(along).filter(|along| value.chars().count() + along.chars().count() + 3 <= room).unwrap_or_default();
    let spans = vec![Span::styled(format!("{arrow} {value}{along}"), theme.dim())];
    let room = width.saturating_sub(width_of(&spans));
    let mut line = Line::from(spans);
    line.push_span(Span::styled(right(&effect, room), style));
    line
}
