//! The roofline: what the GPU can do at each arithmetic intensity, and where the plan's
//! operators and the run stand below that.

mod axes;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Context, Line as Stroke, Points};

use super::{say, unpredicted};
use crate::app::{OpKind, RunState, State, TRAIL};
use crate::catalog::Peaks;
use crate::compare::Comparison;
use crate::predict::{Bound, Roofline, RooflineOp};
use crate::printable::printable;
use crate::reading::Absence;
use crate::ui::Look;
use crate::ui::text::{fit, without_mean};
use crate::units::{FlopsPerSec, Intensity, three_figures};
use axes::{Axes, end_of_cpu};

/// Cells left of the plot for its labels.
const GUTTER: u16 = 7;

/// Peaks below so many powers of ten, 300 GFLOP/s, are told in GFLOP/s.
const SLOW: f64 = 11.5;

/// Of fewer powers of ten the axis has figures between them too.
const FEW_DECADES: f64 = 1.5;

/// Lines of the selected operator and of the run.
const CAPTION: u16 = 2;

/// From this width on the table stands beside the chart.
const BOTH: u16 = 90;

pub fn title(state: &State) -> String {
    state.plans.editor.prediction().map_or_else(String::new, |prediction| {
        let roofline = &prediction.roofline;
        // Whose operators these are, where they are not the run's.
        let whose = match state.plans.drafted_beside() {
            _ if !state.plans.editor.faults().is_empty() => "last good plan · ",
            Some(_) => "draft · ",
            None => "",
        };
        let title = format!("{whose}{} · {} · {}", roofline.peak_name, roofline.peak, roofline.bandwidth);
        match &state.views.roofline.kind {
            OpKind::All => title,
            kind => format!("{} alone · {title}", kind.word()),
        }
    })
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(prediction) = state.plans.editor.prediction() else {
        return say(&unpredicted(&state.plans.editor, "its operators are"), look, area, buffer);
    };
    let roofline = &prediction.roofline;
    let selected = state.views.roofline.selected.min(state.views.roofline.ops(roofline).count().saturating_sub(1));
    if area.width >= BOTH {
        let [above, caption] = Layout::vertical([Constraint::Fill(1), Constraint::Length(CAPTION)]).areas(area);
        let [chart, table] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(50)]).areas(above);
        draw_chart(state, roofline, selected, look, chart, buffer);
        draw_caption(roofline, selected, state, look, caption, buffer);
        table::draw(state, roofline, selected, look, table, buffer);
    } else if state.views.roofline.table {
        table::draw(state, roofline, selected, look, area, buffer);
    } else {
        let [chart, caption] = Layout::vertical([Constraint::Fill(1), Constraint::Length(CAPTION)]).areas(area);
        draw_chart(state, roofline, selected, look, chart, buffer);
        draw_caption(roofline, selected, state, look, caption, buffer);
    }
}

fn draw_chart(state: &State, roofline: &Roofline, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [chart, labels] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let [gutter, plot] = Layout::horizontal([Constraint::Length(GUTTER), Constraint::Fill(1)]).areas(chart);
    let about = state.views.roofline.ops(roofline).nth(selected).and_then(|op| op.intensity);
    let roofs = roofs(state, roofline);
    let highest =
        roofs.iter().map(|(_, peak)| *peak).fold(roofline.peak, |one, other| if other > one { other } else { one });
    let on_cpu = state.plans.editor.prediction().is_some_and(|prediction| prediction.on_cpu);
    let end = on_cpu.then(|| end_of_cpu(roofline));
    let axes = Axes::of(roofline, highest, (state.views.roofline.zoom, end), about);
    draw_axes(&axes, look, gutter, plot, labels, buffer);
    draw_plot(&axes, roofline, selected, state, look, plot, buffer);
    draw_roof_names(&axes, &roofs, look, plot, buffer);
    draw_ridge(&axes, roofline, look, plot, buffer);
}

/// The GPU's dense peaks besides the plan's own, where those are to be shown.
fn roofs(state: &State, roofline: &Roofline) -> Vec<(&'static str, FlopsPerSec)> {
    let Some(job) = state.plans.editor.job().filter(|_| state.views.roofline.every_roof) else { return Vec::new() };
    let Peaks { fp32, tf32, fp16, bf16, fp8, int8: _, fp4 } = job.hardware.gpu.peaks;
    [("fp4", fp4), ("fp8", fp8), ("bf16", bf16), ("fp16", fp16), ("tf32", tf32), ("fp32", fp32)]
        .into_iter()
        .filter_map(|(name, peak)| Some((name, peak?)))
        .filter(|(name, _)| *name != roofline.peak_name)
        .collect()
}

/// Names at the right ends of further roofs; of those that are alike, the first.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn draw_roof_names(axes: &Axes, roofs: &[(&str, FlopsPerSec)], look: &Look, plot: Rect, buffer: &mut Buffer) {
    let mut taken = Vec::new();
    for (name, peak) in roofs {
        let share = (axes.ceiling - axes.y(*peak)) / (axes.ceiling - axes.floor);
        let row = (share * f64::from(plot.height.saturating_sub(1))).round() as u16;
        if taken.contains(&row) {
            continue;
        }
        taken.push(row);
        let place = Rect {
            y: plot.y + row,
            height: 1,
            x: plot.right().saturating_sub(5).max(plot.x),
            width: 5.min(plot.width),
        };
        Line::styled(*name, look.theme.dim()).right_aligned().render(place, buffer);
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn draw_axes(axes: &Axes, look: &Look, gutter: Rect, plot: Rect, labels: Rect, buffer: &mut Buffer) {
    let style = look.theme.dim();
    let rows = f64::from(plot.height.saturating_sub(1).max(1));
    for place in gutter.rows() {
        Line::styled("      │", style).render(place, buffer);
    }
    // A CPU's rates are of other decades than a GPU's.
    let (unit, less) = if axes.ceiling < SLOW { ("GFLOP/s", 9) } else { ("TFLOP/s", 12) };
    // Within few decades powers of ten alone would be one tick.
    let figures: &[u32] = if axes.ceiling - axes.floor < FEW_DECADES { &[1, 2, 5] } else { &[1] };
    for (decade, figure) in (axes.floor.floor() as i32..=axes.ceiling.floor() as i32)
        .flat_map(|decade| figures.iter().map(move |figure| (decade, *figure)))
    {
        let share = (axes.ceiling - f64::from(decade) - f64::from(figure).log10()) / (axes.ceiling - axes.floor);
        if !(0.0..=1.0).contains(&share) {
            continue;
        }
        let row = (share * rows).round() as u16;
        let label = tick(figure, decade - less);
        let place = Rect { y: gutter.y + row.min(gutter.height.saturating_sub(1)), height: 1, ..gutter };
        Line::styled(format!("{label:>5} ┤"), style).render(place, buffer);
    }
    Line::styled(unit, style).render(Rect { height: 1, ..gutter }, buffer);
    let columns = f64::from(plot.width.saturating_sub(1));
    // The last one would stand outside.
    for decade in (axes.left.ceil() as i32..=axes.right.floor() as i32).filter(|decade| f64::from(*decade) < axes.right)
    {
        let share = (f64::from(decade) - axes.left) / (axes.right - axes.left);
        let x = plot.x + (share * columns).round() as u16;
        let place = Rect { x, width: labels.right().saturating_sub(x), ..labels };
        Line::styled(tick(1, decade), style).render(place, buffer);
    }
    Line::styled("FLOP/B", style).render(labels, buffer);
}

/// The ridge's name beside its line, in the lowest row that has room for it: no operator is written over.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn draw_ridge(axes: &Axes, roofline: &Roofline, look: &Look, plot: Rect, buffer: &mut Buffer) {
    if !axes.shows(roofline.ridge) {
        return;
    }
    let ridge = roofline.ridge.0;
    let ridge = if ridge < 10.0 { format!("ridge {}", three_figures(ridge)) } else { format!("ridge {ridge:.0}") };
    let share = (axes.x(roofline.ridge) - axes.left) / (axes.right - axes.left);
    let x = plot.x + (share * f64::from(plot.width.saturating_sub(1))).round() as u16 + 1;
    let width = (ridge.chars().count() as u16).min(plot.right().saturating_sub(x));
    let is_free = |row: &Rect| (x..x + width).all(|x| buffer.cell((x, row.y)).is_some_and(|cell| cell.symbol() == " "));
    let rows: Vec<Rect> = plot.rows().collect();
    if let Some(row) = rows.iter().rev().find(|row| is_free(row)) {
        let place = Rect { x, y: row.y, width, height: 1 };
        Line::styled(fit(&ridge, place.width as usize), look.theme.dim()).render(place, buffer);
    }
}

/// A figure and a power of ten without an exponent.
fn tick(figure: u32, decade: i32) -> String {
    if decade >= 0 {
        format!("{figure}{}", "0".repeat(decade.unsigned_abs() as usize))
    } else {
        format!("0.{}{figure}", "0".repeat(decade.unsigned_abs() as usize - 1))
    }
}

/// How a point of the trail is drawn that is so far back, as a share of the whole trail.
fn faded(age: f64, look: &Look) -> (&'static str, Style) {
    match age {
        ..0.2 => ("•", look.theme.observed()),
        ..0.6 => ("∙", look.theme.observed()),
        _ => ("∙", look.theme.dim()),
    }
}

fn draw_plot(
    axes: &Axes,
    roofline: &Roofline,
    selected: usize,
    state: &State,
    look: &Look,
    plot: Rect,
    buffer: &mut Buffer,
) {
    let theme = &look.theme;
    let (roof, guide) = (theme.roof_colour(), theme.guide_colour());
    let memory = |x: f64| FlopsPerSec(10_f64.powf(x) * roofline.bandwidth.0);
    let ridge_shown = axes.shows(roofline.ridge);
    let guide_points = if ridge_shown {
        dotted(axes.x(roofline.ridge), axes.floor, axes.y(roofline.peak), f64::from(plot.height) * 2.0)
    } else {
        Vec::new()
    };
    let ops: Vec<&RooflineOp> = state.views.roofline.ops(roofline).collect();
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([axes.left, axes.right])
        .y_bounds([axes.floor, axes.ceiling])
        .paint(|canvas| {
            for (_, peak) in roofs(state, roofline) {
                let from = axes.x(peak.ridge(roofline.bandwidth));
                canvas.draw(&Stroke { x1: from, y1: axes.y(peak), x2: axes.right, y2: axes.y(peak), color: guide });
            }
            canvas.draw(&Points { coords: &guide_points, color: guide });
            let ridge = axes.x(roofline.ridge);
            // Where the memory roof leaves the chart above, it is another type's ridge.
            let highest = axes.x(Intensity(10_f64.powf(axes.ceiling) / roofline.bandwidth.0));
            let lowest = axes.x(Intensity(10_f64.powf(axes.floor) / roofline.bandwidth.0));
            let end = ridge.min(highest);
            if lowest < end {
                let (y1, y2) = (axes.y(memory(lowest)), axes.y(memory(end)));
                canvas.draw(&Stroke { x1: lowest, y1, x2: end, y2, color: roof });
            }
            let peak = axes.y(roofline.peak);
            canvas.draw(&Stroke { x1: ridge, y1: peak, x2: axes.right, y2: peak, color: roof });
            canvas.layer();
            draw_marks(canvas, axes, (&ops, selected), state, look, plot);
        })
        .render(plot, buffer);
}

/// The operators where they are predicted to get, the baseline's small, the run where it is.
fn draw_marks(
    canvas: &mut Context<'_>,
    axes: &Axes,
    (ops, selected): (&[&RooflineOp], usize),
    state: &State,
    look: &Look,
    plot: Rect,
) {
    let theme = &look.theme;
    let snap = |point| axes.snapped(point, plot);
    for before in
        state.plans.reference().into_iter().flat_map(|baseline| state.views.roofline.ops(&baseline.prediction.roofline))
    {
        let Some((x, y)) = place(axes, before).map(snap) else { continue };
        canvas.print(x, y, Span::styled("▫", theme.warning()));
    }
    for (index, op) in ops.iter().enumerate().filter(|(index, _)| *index != selected) {
        let Some((x, y)) = place(axes, op).map(snap) else { continue };
        let mark = match op.bound {
            Bound::Compute => "●",
            Bound::Memory => "○",
            Bound::SmallKernel => "·",
        };
        // The few operators that take most of the time stand out.
        let style = if index < 5 { theme.text() } else { theme.dim() };
        look.place_cells(axes.cell((x, y), plot), index);
        canvas.print(x, y, Span::styled(mark, style));
    }
    let trail = state.views.roofline.trail.points().filter(|_| !state.plans.stands_alone());
    for (back, point) in trail.rev().enumerate().collect::<Vec<_>>().into_iter().rev() {
        let (x, y) = snap((axes.x(point.intensity), axes.y(point.rate)));
        let (mark, style) = faded(back as f64 / TRAIL as f64, look);
        canvas.print(x, y, Span::styled(mark, style));
    }
    if let Some(point) = compared(state).and_then(|comparison| comparison.point) {
        let (x, y) = snap((axes.x(point.intensity), axes.y(point.rate)));
        canvas.print(x, y, Span::styled("◉", theme.observed()));
    }
    if let Some((x, y)) = ops.get(selected).and_then(|op| place(axes, op)).map(snap) {
        look.place_cells(axes.cell((x, y), plot), selected);
        canvas.print(x, y, Span::styled("◆", theme.accent()));
    }
}

/// A vertical line of `count` dots.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn dotted(x: f64, from: f64, to: f64, count: f64) -> Vec<(f64, f64)> {
    (0..count as u32).map(|dot| (x, from + (to - from) * f64::from(dot) / count)).collect()
}

/// Where an operator stands: at its intensity, as high as the prediction lets it get.
fn place(axes: &Axes, op: &RooflineOp) -> Option<(f64, f64)> {
    let rate = attained(op)?;
    let intensity = op.intensity.filter(|intensity| axes.shows(*intensity))?;
    Some((axes.x(intensity), axes.y(rate)))
}

fn attained(op: &RooflineOp) -> Option<FlopsPerSec> {
    (op.flops.0 > 0.0 && op.seconds.0 > 0.0).then(|| FlopsPerSec(op.flops.0 / op.seconds.0))
}

fn draw_caption(roofline: &Roofline, selected: usize, state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let mut lines = Vec::new();
    if let Some(op) = state.views.roofline.ops(roofline).nth(selected) {
        let intensity = op.intensity.map_or_else(|| "–".to_owned(), |intensity| intensity.to_string());
        let since = table::since(&state.plans, op);
        let since = match since.as_str() {
            "" => since,
            "·" => "  as in base".to_owned(),
            _ => format!("  {since} to base"),
        };
        let (bound, share) = (op.bound.phrase(), share(roofline, op));
        let room = (area.width as usize).saturating_sub(3 + op.name.len());
        // Where it stands, and below which roof, is seen on the chart: that goes first.
        let ways = [
            format!("  {intensity}  {bound}  {share:.0} % of kernel time{since}"),
            format!("  {bound}  {share:.0} % of kernel time{since}"),
            format!("  {bound}  {share:.0} % of kernels{since}"),
            format!("  {share:.0} % of kernels{since}"),
        ];
        let facts = ways.iter().find(|way| way.chars().count() <= room).unwrap_or(&ways[3]);
        lines.push(Line::from(vec![
            Span::styled(" ◆ ", theme.accent()),
            Span::styled(op.name.to_string(), theme.text()),
            Span::styled(fit(facts, room), theme.dim()),
        ]));
    }
    let run = match compared(state).map(|comparison| comparison.point) {
        None if state.plans.stands_alone() => String::new(),
        None => "run: nothing compared yet".to_owned(),
        Some(None) => format!("run: {}", no_point(&state.run)),
        Some(Some(point)) => {
            let mark = point.kind.mark();
            format!("run  {mark}{}  {mark}{}  {}", point.intensity, point.rate, point.kind.word())
        }
    };
    let run = fit(&run, (area.width as usize).saturating_sub(3));
    if !run.is_empty() {
        lines.push(Line::from(vec![Span::styled(" ◉ ", theme.observed()), Span::styled(run, theme.dim())]));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// The comparison of the run with the plan that is shown: a lesson has none.
fn compared(state: &State) -> Option<&Comparison> {
    state.run.comparison.as_ref().filter(|_| !state.plans.stands_alone())
}

/// Why nothing of the run is on the chart; none where something is, or where nothing of it belongs there.
pub fn why_no_point(state: &State) -> Option<String> {
    let on_chart = compared(state).is_some_and(|comparison| comparison.point.is_some());
    let is_bare = !state.plans.stands_alone() && !on_chart && state.views.roofline.trail.points().next().is_none();
    is_bare.then(|| no_point(&state.run))
}

/// Why the run is not on the chart.
fn no_point(run: &RunState) -> String {
    let Some(comparison) = &run.comparison else { return "no sample yet".to_owned() };
    let missing = [
        ("tensor activity", comparison.compute.observed.absence()),
        ("DRAM bandwidth", comparison.bandwidth.observed.absence()),
    ];
    match missing.into_iter().find_map(|(what, why)| Some((what, why?))) {
        Some((_, Absence::NoGpu)) => "no point: no GPU is used".to_owned(),
        Some((_, Absence::NotAttached)) => "no point: no process is attached".to_owned(),
        Some((what, why)) => format!("no point: {what} {}", printable(&without_mean(why))),
        None => "idle".to_owned(),
    }
}

fn share(roofline: &Roofline, op: &RooflineOp) -> f64 {
    let all: f64 = roofline.ops.iter().map(|op| op.seconds.0).sum();
    if all > 0.0 { op.seconds.0 / all * 100.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn ticks_are_powers_of_ten_written_out() {
        assert_eq!([-2, -1, 0, 1, 3].map(|decade| tick(2, decade)), ["0.02", "0.2", "2", "20", "2000"]);
    }
}
