//! The predicted memory of one GPU, part by part, against the card and the run.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke};

use super::{progress, say, scroll};
use crate::app::{MemoryView, Pane, Source, State};
use crate::predict::{Component, Layer, Phase, Prediction, StageMemory, Verdict};
use crate::reading::Reading;
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::text::{fit, left, right, wrapped};
use crate::units::Bytes;

/// The list beside the timeline.
const LIST: u16 = 36;

/// A timeline narrower than this says nothing.
const CHART: u16 = 32;

pub fn title(state: &State) -> String {
    let stages = state.editor.prediction().map_or(1, |prediction| prediction.stages.len());
    let stage = state.editor.prediction().map_or(0, |prediction| prediction.largest().stage);
    let view = if state.editor.faults().is_empty() { state.memory.view.word() } else { "last good plan" };
    if stages > 1 {
        format!("{view} · stage {stage} of {stages}, the largest · GiB a GPU")
    } else {
        format!("{view} · GiB a GPU")
    }
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(prediction) = state.editor.prediction() else {
        return say("no valid plan: nothing to predict", look, area, buffer);
    };
    let [bars, rest] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    draw_bars(state, prediction, look, bars, buffer);
    match state.memory.view {
        MemoryView::Components => draw_components(state, prediction, look, rest, buffer),
        MemoryView::Terms => draw_terms(state, prediction.largest(), look, rest, buffer),
        MemoryView::Stages => draw_stages(state, prediction, look, rest, buffer),
    }
}

fn draw_bars(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let capacity = prediction.capacity;
    let comparison = state.comparison.as_ref();
    let observed = comparison.map(|comparison| comparison.memory_now.clone()).unwrap_or_default();
    let peak = comparison.map(|comparison| comparison.memory.observed.clone()).unwrap_or_default();
    let most = peak.value().copied().unwrap_or_default().max(capacity.needed);
    let scale = capacity.bytes.max(most);
    let width = (area.width as usize).saturating_sub(7 + 19);
    let mut plan = vec![Span::styled("plan ▕", theme.dim())];
    plan.extend(bar::stacked(prediction.largest(), scale, capacity.bytes, width, look));
    plan.push(Span::styled("▏", theme.dim()));
    plan.push(Span::styled(right(&capacity.needed.in_gib(), 6), theme.predicted()));
    plan.push(Span::styled(format!("  of {}", capacity.bytes.in_gib()), theme.dim()));
    let mut run = vec![Span::styled("run  ▕", theme.dim())];
    match &observed {
        Reading::Known { value, .. } => {
            run.extend(bar::solid(*value, scale, capacity.bytes, width, look));
            run.push(Span::styled("▏", theme.dim()));
            run.push(Span::styled(right(&value.in_gib(), 6), theme.observed()));
            if let Some(peak) = peak.value() {
                run.push(Span::styled(format!("  peak {}", peak.in_gib()), theme.dim()));
            }
        }
        Reading::Absent(why) => {
            let failed = matches!(state.monitor.source, Source::Failed(_));
            let why = if failed { "no source".to_owned() } else { why.to_string() };
            let held = peak.value().map(|peak| format!(", held {} at most", peak.in_gib())).unwrap_or_default();
            run.push(Span::styled(format!(" – {why}{held}"), theme.dim()));
        }
    }
    for (line, place) in [Line::from(plan), Line::from(run)].into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn draw_components(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let stage = prediction.largest();
    let lines = component_lines(state, prediction, look);
    if area.width < LIST + CHART || area.height < 8 {
        return render(lines, area, buffer);
    }
    let [list, chart] = Layout::horizontal([Constraint::Length(LIST), Constraint::Fill(1)]).areas(area);
    let spare = (area.height as usize).saturating_sub(lines.len());
    render(lines, list, buffer);
    if spare >= 6 {
        // A tall pane has room for the largest terms below the components.
        let below = Rect { y: list.bottom() - spare as u16 + 1, height: spare as u16 - 1, ..area };
        let chart = Rect { height: chart.height - below.height - 1, ..chart };
        draw_timeline(prediction, stage, look, chart, buffer);
        draw_terms(state, stage, look, below, buffer);
    } else {
        draw_timeline(prediction, stage, look, chart, buffer);
    }
}

fn component_lines<'a>(state: &State, prediction: &'a Prediction, look: &Look) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let stage = prediction.largest();
    let mut lines: Vec<Line<'_>> = Component::ALL
        .into_iter()
        .filter(|component| *component != Component::KvCache || stage.component(*component) > Bytes::ZERO)
        .map(|component| {
            let bytes = stage.component(component);
            let share = bytes.share_of(stage.device_used).map_or(0.0, |share| share.percent());
            Line::from(vec![
                Span::styled(format!(" {} ", bar::pattern(component).repeat(2)), theme.component(component)),
                Span::styled(left(bar::word(component), 12), theme.text()),
                Span::styled(right(&bytes.in_gib(), 7), theme.text()),
                Span::styled(format!("{share:>5.0} %"), theme.dim()),
            ])
        })
        .collect();
    for (name, bytes) in
        [("allocated", stage.peak_allocated), ("reserved", stage.peak_reserved), ("device-used", stage.device_used)]
    {
        let mut spans = vec![
            Span::styled(format!("    {}", left(name, 12)), theme.dim()),
            Span::styled(right(&bytes.in_gib(), 7), theme.predicted()),
        ];
        spans.extend(progress::observed(state, name, look));
        lines.push(Line::from(spans));
    }
    lines.push(verdict_line(prediction, look));
    lines.push(Line::from(vec![
        Span::styled(" peak in ", theme.dim()),
        Span::styled(stage.peak_phase.word(), theme.text()),
    ]));
    let cause = wrapped(&stage.peak_cause, LIST as usize - 2, 3);
    lines.extend(cause.into_iter().map(|line| Line::styled(format!(" {line}"), theme.dim())));
    lines
}

fn verdict_line<'a>(prediction: &Prediction, look: &Look) -> Line<'a> {
    let capacity = prediction.capacity;
    let left = capacity.bytes.saturating_sub(capacity.needed);
    let text = match capacity.verdict() {
        Verdict::Fits => format!(" fits, {left} left"),
        Verdict::Tight => format!(" tight, only {left} left"),
        Verdict::DoesNotFit => format!(" does not fit, {} over", capacity.needed.saturating_sub(capacity.bytes)),
    };
    Line::styled(text, look.theme.verdict(capacity.verdict()))
}

/// Allocated bytes over one step, under the capacity.
fn draw_timeline(prediction: &Prediction, stage: &StageMemory, look: &Look, area: Rect, buffer: &mut Buffer) {
    let points = &stage.timeline;
    if points.len() < 2 || area.height < 5 {
        return;
    }
    let theme = &look.theme;
    let [head, chart, phases] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    Line::styled("  allocated over one step, GiB", theme.dim()).render(head, buffer);
    let top = prediction.capacity.bytes.max(stage.peak_allocated).gib();
    let [axis, plot] = Layout::horizontal([Constraint::Length(7), Constraint::Fill(1)]).areas(chart);
    for (row, place) in axis.rows().enumerate() {
        let share = 1.0 - row as f64 / f64::from(chart.height.saturating_sub(1).max(1));
        let labelled = row == 0 || row + 1 == chart.height as usize || row == chart.height as usize / 2;
        // The middle row stands for the half, though it lies up to half a row beside it.
        let share = if row == chart.height as usize / 2 { 0.5 } else { share };
        let label = if labelled { format!("{:>5.0} ┤", top * share) } else { "      │".to_owned() };
        Line::styled(label, theme.dim()).render(place, buffer);
    }
    let last = (points.len() - 1) as f64;
    let colour = theme.roof_colour();
    let guide = theme.guide_colour();
    let capacity = prediction.capacity.bytes.gib();
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, last])
        .y_bounds([0.0, top])
        .paint(|canvas| {
            canvas.draw(&Stroke { x1: 0.0, y1: capacity, x2: last, y2: capacity, color: guide });
            for (index, pair) in points.windows(2).enumerate() {
                let (x, from, to) = (index as f64, pair[0].allocated.gib(), pair[1].allocated.gib());
                canvas.draw(&Stroke { x1: x, y1: from, x2: x + 1.0, y2: to, color: colour });
            }
        })
        .render(plot, buffer);
    let plot_width = plot.width as usize;
    for phase in [Phase::Forward, Phase::Backward, Phase::Optimizer] {
        let Some(first) = points.iter().position(|point| point.phase == phase) else { continue };
        let column = (first as f64 / last * plot_width as f64) as u16;
        let place = Rect { x: plot.x + column, width: plot.width.saturating_sub(column), ..phases };
        Line::styled(fit(phase.word(), place.width as usize), theme.dim()).render(place, buffer);
    }
}

fn draw_terms(state: &State, stage: &StageMemory, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let focused = state.focus == Pane::Vram;
    let mut terms: Vec<_> = stage.terms.iter().collect();
    terms.sort_by_key(|term| std::cmp::Reverse(term.bytes));
    let selected = state.memory.selected.min(terms.len().saturating_sub(1));
    let room = (area.height as usize).saturating_sub(2);
    let width = area.width as usize;
    let name_width = (width / 3).clamp(18, 34);
    let head = format!(
        " {} {} {}",
        left("named term", name_width + 3),
        right("GiB", 7),
        fit("how it comes about", width.saturating_sub(name_width + 15))
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    for (index, term) in terms.iter().enumerate().skip(scroll(selected, terms.len(), room)).take(room) {
        let chosen = focused && index == selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸" } else { " " }, theme.accent()),
            Span::styled(format!("{} ", bar::pattern(term.component).repeat(2)), theme.component(term.component)),
            Span::styled(left(&term.name, name_width), style),
            Span::styled(right(&term.bytes.in_gib(), 9), theme.text()),
            Span::styled(format!(" {}", fit(&term.formula, width.saturating_sub(name_width + 14))), theme.dim()),
        ]));
    }
    if let Some(term) = terms.get(selected).filter(|_| focused) {
        let counted = match term.layer {
            Layer::Allocated => "allocated",
            Layer::Reserved => "reserved",
            Layer::Device => "outside the allocator",
        };
        lines.push(Line::styled(fit(&format!(" {counted}; source: {}", term.source), width), theme.dim()));
    }
    render(lines, area, buffer);
}

fn draw_stages(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let columns = |cells: [&str; 6]| -> String {
        cells.iter().zip([7, 8, 9, 11, 10, 13]).map(|(cell, width)| right(cell, width)).collect()
    };
    let head = columns(["stage", "layers", "static", "allocated", "reserved", "device-used"]);
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let selected = state.memory.selected.min(prediction.stages.len().saturating_sub(1));
    let first = scroll(selected, prediction.stages.len(), room);
    for (index, stage) in prediction.stages.iter().enumerate().skip(first).take(room) {
        let text = columns([
            &stage.stage.to_string(),
            &stage.layers.to_string(),
            &stage.static_bytes.in_gib(),
            &stage.peak_allocated.in_gib(),
            &stage.peak_reserved.in_gib(),
            &stage.device_used.in_gib(),
        ]);
        let style = stage_style(prediction, index, state.focus == Pane::Vram && index == selected, look);
        lines.push(Line::styled(text, style));
    }
    render(lines, area, buffer);
}

fn stage_style(prediction: &Prediction, index: usize, chosen: bool, look: &Look) -> Style {
    if chosen {
        look.theme.selected()
    } else if prediction.stages[index].device_used > prediction.capacity.bytes {
        look.theme.danger()
    } else {
        look.theme.text()
    }
}

fn render(lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}
