//! Allocated bytes over one step: the curve, the baseline's, what is observed, the peak's cause.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke};

use super::{phase_word, render};
use crate::app::{Pane, Plans, State};
use crate::predict::{Phase, Prediction, TimelinePoint};
use crate::ui::Look;
use crate::ui::memory_unit::{MemoryUnit, SAME};
use crate::ui::text::{fit, wrapped};
use crate::units::Bytes;

/// The whole pane for the curve, with the selected point in words.
pub fn draw(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let stage = prediction.largest();
    let [chart, words] = Layout::vertical([Constraint::Fill(1), Constraint::Length(3)]).areas(area);
    let selected = state.views.memory.selected.min(stage.timeline.len().saturating_sub(1));
    let marked = (state.views.focus == Pane::Vram).then_some(selected);
    draw_curve(state, prediction, marked, look, chart, buffer);
    let mut lines = Vec::new();
    if let Some(point) = stage.timeline.get(selected) {
        let left = stage.peak_allocated.saturating_sub(point.allocated);
        let below = if left == Bytes::ZERO { "the peak".to_owned() } else { format!("{left} below the peak") };
        lines.push(Line::from(vec![
            Span::styled(" ◆ ", theme.accent()),
            Span::styled(format!("{} · {}", phase_word(&state.plans, point.phase), point.at), theme.text()),
            Span::styled(format!("  {}, {below}", point.allocated), theme.dim()),
            Span::styled(format!("  {}", against(&state.plans, point, selected)), theme.warning()),
        ]));
    }
    let cause = format!(
        "peak {} in {}: {}",
        stage.peak_allocated,
        phase_word(&state.plans, stage.peak_phase),
        stage.peak_cause
    );
    let cause = wrapped(&cause, (area.width as usize).saturating_sub(2), 2);
    lines.extend(cause.into_iter().map(|line| Line::styled(format!(" {line}"), theme.dim())));
    render(lines, words, buffer);
}

/// How that point differs from the baseline's, where both have it at the same place.
fn against(plans: &Plans, point: &TimelinePoint, index: usize) -> String {
    let timeline = plans.reference().map(|baseline| &baseline.prediction.largest().timeline);
    let before = timeline.and_then(|points| points.get(index)).filter(|before| before.at == point.at);
    let more = before.map(|before| MemoryUnit::Gib.difference(point.allocated, before.allocated));
    more.map_or_else(
        String::new,
        |more| if more == SAME { "as the baseline".to_owned() } else { format!("{more} to base") },
    )
}

/// The curve under the capacity; `marked`: the point that is selected.
pub fn draw_curve(
    state: &State,
    prediction: &Prediction,
    marked: Option<usize>,
    look: &Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let stage = prediction.largest();
    let points = &stage.timeline;
    if points.len() < 2 || area.height < 5 {
        return;
    }
    let theme = &look.theme;
    let [head, chart, phases] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let over = if state.plans.editor.serves() { "while the prompts are read" } else { "over one step" };
    Line::styled(format!("  allocated {over}, GiB"), theme.dim()).render(head, buffer);
    let before = state.plans.reference().map(|baseline| baseline.prediction.largest());
    let highest = before.map_or(stage.peak_allocated, |before| before.peak_allocated.max(stage.peak_allocated));
    let top = prediction.capacity.bytes.max(highest).gib();
    let [axis, plot] = Layout::horizontal([Constraint::Length(7), Constraint::Fill(1)]).areas(chart);
    draw_axis(top, look, axis, buffer);
    let last = (points.len() - 1) as f64;
    let capacity = prediction.capacity.bytes.gib();
    draw_lines(points, before.map(|before| before.timeline.as_slice()), (marked, [capacity, top]), look, plot, buffer);
    let plot_width = plot.width as usize;
    // The selected one is drawn over those that share its column.
    for index in marked.into_iter().flat_map(|marked| (0..points.len()).chain([marked])) {
        let column = (index as f64 * f64::from(plot.width.saturating_sub(1)) / last) as u16;
        look.place_cells(Rect { x: plot.x + column, width: 1, ..plot }, index);
    }
    for phase in [Phase::Forward, Phase::Backward, Phase::Optimizer] {
        let Some(first) = points.iter().position(|point| point.phase == phase) else { continue };
        let column = (first as f64 / last * plot_width as f64) as u16;
        let place = Rect { x: plot.x + column, width: plot.width.saturating_sub(column), ..phases };
        Line::styled(fit(phase_word(&state.plans, phase), place.width as usize), theme.dim()).render(place, buffer);
    }
}

/// Both plans' memory and the capacity, GiB up to the top.
fn draw_lines(
    points: &[TimelinePoint],
    before: Option<&[TimelinePoint]>,
    (marked, [capacity, top]): (Option<usize>, [f64; 2]),
    look: &Look,
    plot: Rect,
    buffer: &mut Buffer,
) {
    let theme = &look.theme;
    let (colour, guide) = (theme.roof_colour(), theme.guide_colour());
    let last = (points.len() - 1) as f64;
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, last])
        .y_bounds([0.0, top])
        .paint(|canvas| {
            canvas.draw(&Stroke { x1: 0.0, y1: capacity, x2: last, y2: capacity, color: guide });
            if let Some(before) = before {
                // Another plan has another number of points: both curves span the step.
                let stretch = last / (before.len().saturating_sub(1)).max(1) as f64;
                for (index, pair) in before.windows(2).enumerate() {
                    let x = index as f64 * stretch;
                    let (from, to) = (pair[0].allocated.gib(), pair[1].allocated.gib());
                    canvas.draw(&Stroke { x1: x, y1: from, x2: x + stretch, y2: to, color: guide });
                }
                canvas.layer();
            }
            for (index, pair) in points.windows(2).enumerate() {
                let (x, from, to) = (index as f64, pair[0].allocated.gib(), pair[1].allocated.gib());
                canvas.draw(&Stroke { x1: x, y1: from, x2: x + 1.0, y2: to, color: colour });
            }
            if let Some((index, point)) = marked.and_then(|index| Some((index, points.get(index)?))) {
                canvas.print(index as f64, point.allocated.gib(), Span::styled("◆", theme.accent()));
            }
        })
        .render(plot, buffer);
}

/// Labels at the top, the middle and the bottom.
fn draw_axis(top: f64, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    for (row, place) in area.rows().enumerate() {
        let share = 1.0 - row as f64 / f64::from(area.height.saturating_sub(1).max(1));
        let labelled = row == 0 || row + 1 == area.height as usize || row == area.height as usize / 2;
        // The middle row stands for the half, though it lies up to half a row beside it.
        let share = if row == area.height as usize / 2 { 0.5 } else { share };
        let label = if labelled { format!("{:>5.0} ┤", top * share) } else { "      │".to_owned() };
        Line::styled(label, theme.dim()).render(place, buffer);
    }
}
