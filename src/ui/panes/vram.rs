//! The predicted memory of one GPU, part by part, against the GPU and the run.

mod layers;
mod stages;
mod terms;
mod timeline;
mod times;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::{Observed, progress, say, unpredicted};
use crate::app::{MemoryRow, MemoryView, Pane, Plans, SourceState, State, memory_rows};
use crate::compare::Comparison;
use crate::predict::{Component, Phase, Prediction, Verdict};
use crate::printable::printable;
use crate::reading::Reading;
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::memory_unit::MemoryUnit;
use crate::ui::text::{left, right, wrapped};
use crate::units::Bytes;

/// The list beside the timeline.
const LIST: u16 = 36;

/// What the difference to the baseline takes beside it.
const SINCE: u16 = 8;

/// A timeline narrower than this says nothing.
const CHART: u16 = 32;

pub fn title(state: &State) -> String {
    let stages = state.plans.editor.prediction().map_or(1, |prediction| prediction.stages.len());
    let stage = state.plans.editor.prediction().map_or(0, |prediction| prediction.largest().stage);
    let broken = !state.plans.editor.faults().is_empty() && state.plans.editor.prediction().is_some();
    let view = match state.views.memory.view {
        _ if broken => "last good plan",
        MemoryView::Timeline if state.plans.editor.serves() => "over the prompts",
        view => view.word(),
    };
    let of = if stages > 1 { format!(" · stage {stage} of {stages}, the largest") } else { String::new() };
    let base = state.plans.reference().map_or_else(String::new, |baseline| format!(" · against {}", baseline.name));
    let on_cpu = state.plans.editor.prediction().is_some_and(|prediction| prediction.on_cpu);
    let unit = match state.views.memory.view {
        MemoryView::Times => String::new(),
        _ if on_cpu => format!(" · {}", unit(state).word()),
        _ => format!(" · {} a GPU", unit(state).word()),
    };
    format!("{view}{unit}{of}{base}")
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(prediction) = state.plans.editor.prediction() else {
        return say(&unpredicted(&state.plans.editor, "its memory is"), look, area, buffer);
    };
    let [bars, rest] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    draw_bars(state, prediction, look, bars, buffer);
    match state.views.memory.view {
        MemoryView::Components => draw_components(state, prediction, look, rest, buffer),
        MemoryView::Times => times::draw(state, prediction, look, rest, buffer),
        MemoryView::Terms => terms::draw(state, prediction.largest(), look, rest, buffer),
        MemoryView::Layers => layers::draw(state, prediction, look, rest, buffer),
        MemoryView::Stages => stages::draw(state, prediction, look, rest, buffer),
        MemoryView::Timeline => timeline::draw(state, prediction, look, rest, buffer),
    }
}

/// The unit of the figures in the pane. The curve over a step goes up to the device's memory.
fn unit(state: &State) -> MemoryUnit {
    let needed = |prediction: &Prediction| prediction.capacity.needed;
    let plans = [state.plans.editor.prediction(), state.plans.reference().map(|baseline| &baseline.prediction)];
    let planned = plans.into_iter().flatten().map(needed).max().unwrap_or_default();
    let (_, peak) = memory_of_run(state);
    match state.views.memory.view {
        MemoryView::Timeline => MemoryUnit::Gib,
        _ => MemoryUnit::of(planned.max(peak.value().copied().unwrap_or_default())),
    }
}

/// What of the run stands in the pane; none where that is most of it.
pub fn observed(state: &State) -> Option<Observed> {
    if matches!(state.views.memory.view, MemoryView::Layers | MemoryView::Stages) || has_no_run(state) {
        return None;
    }
    let (now, peak) = memory_of_run(state);
    let now = match now {
        Reading::Known { value, .. } => Ok(value),
        Reading::Absent(why) => Err(why),
    };
    let failed = matches!(state.monitor.source, SourceState::Failed(_));
    let told = ["allocated", "reserved"].map(|figure| progress::told(state, figure, unit(state)));
    let is_over = state.run.last_attempt.is_shown();
    Some(Observed::Memory { now, peak: peak.value().copied(), told, failed, is_over })
}

/// Whether the plan that is shown is no run's: a lesson.
fn has_no_run(state: &State) -> bool {
    state.plans.stands_alone()
}

/// What the run holds, and the most that it has held; nothing beside a lesson.
fn memory_of_run(state: &State) -> (Reading<Bytes>, Reading<Bytes>) {
    if has_no_run(state) {
        return Default::default();
    }
    // Of one that has ended the most counts: what it held as it went is no figure of it.
    let is_over = state.run.last_attempt.is_shown();
    let of = |comparison: &Comparison| {
        let most = comparison.memory.observed.clone();
        (if is_over { most.clone() } else { comparison.memory_now.clone() }, most)
    };
    state.run.comparison.as_ref().map(of).unwrap_or_default()
}

fn draw_bars(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let capacity = prediction.capacity;
    let (observed, peak) = memory_of_run(state);
    let most = peak.value().copied().unwrap_or_default().max(capacity.needed);
    let scale = capacity.bytes.max(most);
    let width = (area.width as usize).saturating_sub(7 + 19);
    let unit = unit(state);
    let all = if unit == MemoryUnit::Gib { capacity.bytes.in_gib() } else { capacity.bytes.to_string() };
    let label = match state.plans.drafted_beside() {
        // What is written has errors: the bar is of what was written before.
        _ if !state.plans.editor.faults().is_empty() => "last ▕",
        Some(_) => "draft▕",
        None => "plan ▕",
    };
    let mut plan = vec![Span::styled(label, theme.dim())];
    plan.extend(bar::stacked(prediction.largest(), scale, capacity.bytes, width, look));
    plan.push(Span::styled("▏", theme.dim()));
    plan.push(Span::styled(right(&unit.show(capacity.needed), 6), theme.predicted()));
    plan.push(Span::styled(format!("  of {all}"), theme.dim()));
    let is_over = state.run.last_attempt.is_shown();
    let mut run = vec![Span::styled(if is_over { "ended▕" } else { "run  ▕" }, theme.dim())];
    match &observed {
        _ if has_no_run(state) => run.clear(),
        Reading::Known { value, .. } => {
            run.extend(bar::solid(*value, scale, capacity.bytes, width, look));
            run.push(Span::styled("▏", theme.dim()));
            run.push(Span::styled(right(&unit.show(*value), 6), theme.observed()));
            if is_over {
                run.push(Span::styled("  at most", theme.dim()));
            } else if let Some(peak) = peak.value() {
                run.push(Span::styled(format!("  peak {}", unit.show(*peak)), theme.dim()));
            }
        }
        Reading::Absent(why) => {
            let failed = matches!(state.monitor.source, SourceState::Failed(_));
            let why = if failed { "no source".to_owned() } else { why.to_string() };
            let held = peak.value().map(|peak| format!(", held {} at most", unit.show(*peak))).unwrap_or_default();
            run.push(Span::styled(format!(" – {why}{held}"), theme.dim()));
        }
    }
    for (line, place) in [Line::from(plan), Line::from(run)].into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
    if let Some(baseline) = state.plans.reference() {
        // A tick where the baseline's plan ends.
        let column = bar::cells(baseline.prediction.capacity.needed, scale, width.saturating_sub(1));
        let tick = Rect { x: area.x + 6 + column as u16, width: 1, height: 1, ..area };
        Line::styled("┊", theme.warning()).render(tick.intersection(area), buffer);
    }
}

fn draw_components(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let stage = prediction.largest();
    let lines = component_lines(state, prediction, look, area);
    let wide = LIST + if state.plans.reference().is_some() { SINCE } else { 0 };
    if area.width < wide + CHART || area.height < 8 {
        return render(lines, area, buffer);
    }
    let [list, chart] = Layout::horizontal([Constraint::Length(wide), Constraint::Fill(1)]).areas(area);
    let spare = (area.height as usize).saturating_sub(lines.len());
    render(lines, list, buffer);
    if spare >= 6 {
        // A tall pane has room for the largest terms below the components.
        let below = Rect { y: list.bottom() - spare as u16 + 1, height: spare as u16 - 1, ..area };
        let chart = Rect { height: chart.height - below.height - 1, ..chart };
        timeline::draw_curve(state, prediction, None, look, chart, buffer);
        terms::draw_below(state, stage, look, below, buffer);
    } else {
        timeline::draw_curve(state, prediction, None, look, chart, buffer);
    }
}

/// The lines of the list's rows.
fn row_lines<'a>(state: &State, prediction: &'a Prediction, look: &Look, area: Rect) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let unit = unit(state);
    let stage = prediction.largest();
    let before = state.plans.reference().map(|baseline| baseline.prediction.largest());
    let rows = memory_rows(&state.plans, stage);
    let selected = state.views.memory.selected.min(rows.len().saturating_sub(1));
    let line = |(index, row): (usize, MemoryRow)| {
        look.place_row(area, index, index);
        let chosen = state.views.focus == Pane::Vram && index == selected;
        let mark = Span::styled(if chosen { "▸" } else { " " }, theme.accent());
        let (name, figure, bytes, was) = match row {
            MemoryRow::Component(component) => {
                let bytes = stage.component(component);
                let share = bytes.share_of(stage.device_used).map_or(0.0, |share| share.percent());
                return Line::from(vec![
                    mark,
                    Span::styled(format!("{} ", bar::pattern(component).repeat(2)), theme.component(component)),
                    Span::styled(left(bar::word(component), 12), if chosen { theme.selected() } else { theme.text() }),
                    Span::styled(right(&unit.show(bytes), 7), theme.text()),
                    Span::styled(format!("{share:>5.0} %"), theme.dim()),
                    Span::styled(right(&since((&state.plans, unit), prediction, component), 8), theme.warning()),
                ]);
            }
            MemoryRow::Allocated => {
                ("allocated", "allocated", stage.peak_allocated, before.map(|before| before.peak_allocated))
            }
            MemoryRow::Reserved => {
                ("reserved", "reserved", stage.peak_reserved, before.map(|before| before.peak_reserved))
            }
            MemoryRow::DeviceUsed => {
                let name = prediction.device_used_name();
                (name, name, stage.device_used, before.map(|before| before.device_used))
            }
        };
        let mut spans = vec![
            mark,
            Span::styled("   ", theme.dim()),
            Span::styled(left(name, 12), if chosen { theme.selected() } else { theme.dim() }),
            Span::styled(right(&unit.show(bytes), 7), theme.predicted()),
        ];
        match was {
            Some(was) => spans.push(Span::styled(right(&unit.difference(bytes, was), 15), theme.warning())),
            None => spans.extend(progress::observed(state, figure, unit, look)),
        }
        Line::from(spans)
    };
    rows.into_iter().enumerate().map(line).collect()
}

fn component_lines<'a>(state: &State, prediction: &'a Prediction, look: &Look, area: Rect) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let stage = prediction.largest();
    let mut lines = row_lines(state, prediction, look, area);
    lines.push(verdict_line(state, prediction, look));
    if let Some(remedy) = state.plans.form.remedy() {
        let words = wrapped(&format!("X fixes: {}", printable(remedy)), LIST as usize - 2, 2);
        lines.extend(words.into_iter().map(|line| Line::styled(format!(" {line}"), look.theme.accent())));
    }
    lines.push(Line::from(vec![
        Span::styled(" peak in ", theme.dim()),
        Span::styled(phase_word(&state.plans, stage.peak_phase), theme.text()),
    ]));
    let cause = wrapped(&stage.peak_cause, LIST as usize - 2, 3);
    lines.extend(cause.into_iter().map(|line| Line::styled(format!(" {line}"), theme.dim())));
    lines
}

/// A phase in words: a server has no other than its prompts' pass.
fn phase_word(plans: &Plans, phase: Phase) -> &'static str {
    if plans.editor.serves() { "reading the prompts" } else { phase.word() }
}

/// How much more or less than in the baseline; nothing where nothing is pinned.
fn since((plans, unit): (&Plans, MemoryUnit), prediction: &Prediction, component: Component) -> String {
    let Some(baseline) = plans.reference() else { return String::new() };
    let before = baseline.prediction.largest().component(component);
    unit.difference(prediction.largest().component(component), before)
}

fn verdict_line<'a>(state: &State, prediction: &Prediction, look: &Look) -> Line<'a> {
    let capacity = prediction.capacity;
    // Below what the run holds nobody shall read it as the run's.
    let whose = match (memory_of_run(state).0, state.plans.drafted_beside()) {
        _ if !state.plans.editor.faults().is_empty() => "last good plan ",
        (Reading::Absent(_), _) => "",
        (_, Some(_)) => "draft ",
        (_, None) => "plan ",
    };
    let left = capacity.bytes.saturating_sub(capacity.needed);
    let text = match capacity.verdict() {
        Verdict::Fits => format!(" {whose}fits, {left} left"),
        Verdict::Tight => format!(" {whose}tight, only {left} left"),
        Verdict::DoesNotFit => format!(" {whose}does not fit, {} over", capacity.needed.saturating_sub(capacity.bytes)),
    };
    Line::styled(text, look.theme.verdict(capacity.verdict()))
}

fn render(lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}
