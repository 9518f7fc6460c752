//! The roofline: what the card can do at each arithmetic intensity, and where the plan's
//! operators and the run stand below that.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

use super::{say, scroll};
use crate::app::{Pane, State, TRAIL, Trail};
use crate::compare::RunPoint;
use crate::predict::{Bound, Roofline, RooflineOp};
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::text::{fit, left, right};
use crate::units::{FlopsPerSec, Intensity};

/// Decades of the intensity axis: fixed, so that charts of different plans compare.
const DECADES: (f64, f64) = (-1.0, 4.0);

/// Cells left of the plot for its labels.
const GUTTER: u16 = 7;

/// From this width on the table stands beside the chart.
const BOTH: u16 = 90;

pub fn title(state: &State) -> String {
    state.editor.prediction().map_or_else(String::new, |prediction| {
        let roofline = &prediction.roofline;
        format!("{} · {} · {}", roofline.peak_name, roofline.peak, roofline.bandwidth)
    })
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(prediction) = state.editor.prediction() else {
        return say("no valid plan: nothing to predict", look, area, buffer);
    };
    let roofline = &prediction.roofline;
    let selected = state.roofline.selected.min(roofline.ops.len().saturating_sub(1));
    if area.width >= BOTH {
        let [chart, table] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(50)]).areas(area);
        draw_chart(state, roofline, selected, look, chart, buffer);
        draw_table(state, roofline, selected, look, table, buffer);
    } else if state.roofline.table {
        draw_table(state, roofline, selected, look, area, buffer);
    } else {
        draw_chart(state, roofline, selected, look, area, buffer);
    }
}

/// The axes: where a point of the chart lies in the plot.
struct Axes {
    floor: f64,
    ceiling: f64,
}

impl Axes {
    /// From the memory roof at the lowest intensity, where the roof starts, to just above the peak.
    fn of(roofline: &Roofline) -> Self {
        let floor = (roofline.bandwidth.0.log10() + DECADES.0).max(0.0);
        Self { floor, ceiling: (roofline.peak.0 * 1.6).log10().max(floor + 1.0) }
    }

    fn x(intensity: Intensity) -> f64 {
        intensity.0.max(f64::MIN_POSITIVE).log10().clamp(DECADES.0, DECADES.1)
    }

    /// The middle of the cell in which a braille dot at that place lies. Marks are printed
    /// by another rounding than dots are drawn: without this they stand above their roof.
    fn snapped(&self, (x, y): (f64, f64), plot: Rect) -> (f64, f64) {
        let middle = |share: f64, cells: u16, dots: f64| {
            let last = f64::from(cells.saturating_sub(1).max(1));
            let cell = ((share * (f64::from(cells) * dots - 1.0)).round() / dots).floor();
            ((cell + 0.5) / last).min(1.0)
        };
        let (width, height) = (DECADES.1 - DECADES.0, self.ceiling - self.floor);
        let right = middle((x - DECADES.0) / width, plot.width, 2.0);
        let down = middle((self.ceiling - y) / height, plot.height, 4.0);
        (DECADES.0 + right * width, self.ceiling - down * height)
    }

    fn y(&self, rate: FlopsPerSec) -> f64 {
        rate.0.max(f64::MIN_POSITIVE).log10().clamp(self.floor, self.ceiling)
    }
}

fn draw_chart(state: &State, roofline: &Roofline, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [chart, labels, caption] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1), Constraint::Length(2)]).areas(area);
    let [gutter, plot] = Layout::horizontal([Constraint::Length(GUTTER), Constraint::Fill(1)]).areas(chart);
    let axes = Axes::of(roofline);
    draw_axes(&axes, roofline, look, gutter, plot, labels, buffer);
    let point = state.comparison.as_ref().and_then(|comparison| comparison.point);
    let run = Run { point, trail: &state.roofline.trail };
    draw_plot(&axes, roofline, selected, &run, look, plot, buffer);
    draw_caption(roofline, selected, state, look, caption, buffer);
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn draw_axes(
    axes: &Axes,
    roofline: &Roofline,
    look: &Look,
    gutter: Rect,
    plot: Rect,
    labels: Rect,
    buffer: &mut Buffer,
) {
    let style = look.theme.dim();
    let rows = f64::from(plot.height.saturating_sub(1).max(1));
    for place in gutter.rows() {
        Line::styled("      │", style).render(place, buffer);
    }
    for decade in axes.floor.ceil() as i32..=axes.ceiling.floor() as i32 {
        let share = (axes.ceiling - f64::from(decade)) / (axes.ceiling - axes.floor);
        let row = (share * rows).round() as u16;
        // TFLOP/s: 12 decades less.
        let label = tick(decade - 12);
        let place = Rect { y: gutter.y + row.min(gutter.height.saturating_sub(1)), height: 1, ..gutter };
        Line::styled(format!("{label:>5} ┤"), style).render(place, buffer);
    }
    Line::styled("TFLOP/s", style).render(Rect { height: 1, ..gutter }, buffer);
    let columns = f64::from(plot.width.saturating_sub(1));
    for decade in DECADES.0 as i32..DECADES.1 as i32 {
        let share = (f64::from(decade) - DECADES.0) / (DECADES.1 - DECADES.0);
        let x = plot.x + (share * columns).round() as u16;
        let place = Rect { x, width: labels.right().saturating_sub(x), ..labels };
        Line::styled(tick(decade), style).render(place, buffer);
    }
    Line::styled("FLOP/B", style).render(labels, buffer);
    let ridge = format!("ridge {:.0}", roofline.ridge.0);
    let share = (Axes::x(roofline.ridge) - DECADES.0) / (DECADES.1 - DECADES.0);
    let x = plot.x + (share * columns).round() as u16 + 1;
    let place = Rect { x, y: plot.bottom().saturating_sub(1), width: plot.right().saturating_sub(x), height: 1 };
    Line::styled(fit(&ridge, place.width as usize), style).render(place, buffer);
}

/// A power of ten without an exponent.
fn tick(decade: i32) -> String {
    if decade >= 0 {
        format!("1{}", "0".repeat(decade.unsigned_abs() as usize))
    } else {
        format!("0.{}1", "0".repeat(decade.unsigned_abs() as usize - 1))
    }
}

/// The run: where it stands on average, and where it was from sample to sample.
struct Run<'a> {
    point: Option<RunPoint>,
    trail: &'a Trail,
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
    run: &Run<'_>,
    look: &Look,
    plot: Rect,
    buffer: &mut Buffer,
) {
    let theme = &look.theme;
    let (roof, guide) = (theme.roof_colour(), theme.guide_colour());
    let ridge = (Axes::x(roofline.ridge), axes.y(roofline.peak));
    let guide_points = dotted(ridge.0, axes.floor, ridge.1, f64::from(plot.height) * 2.0);
    let start = axes.y(roofline.roof_at(Intensity(10_f64.powf(DECADES.0))));
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([DECADES.0, DECADES.1])
        .y_bounds([axes.floor, axes.ceiling])
        .paint(|canvas| {
            canvas.draw(&Points { coords: &guide_points, color: guide });
            canvas.draw(&Stroke { x1: DECADES.0, y1: start, x2: ridge.0, y2: ridge.1, color: roof });
            canvas.draw(&Stroke { x1: ridge.0, y1: ridge.1, x2: DECADES.1, y2: ridge.1, color: roof });
            canvas.layer();
            let snap = |point| axes.snapped(point, plot);
            let ops = roofline.ops.iter().enumerate();
            for (index, op) in ops.filter(|(index, _)| *index != selected) {
                let Some((x, y)) = place(axes, op).map(snap) else { continue };
                let mark = if op.bound == Bound::Compute { "●" } else { "○" };
                // The few operators that take most of the time stand out.
                let style = if index < 5 { theme.text() } else { theme.dim() };
                canvas.print(x, y, Span::styled(mark, style));
            }
            for (back, point) in run.trail.points().rev().enumerate().collect::<Vec<_>>().into_iter().rev() {
                let (x, y) = snap((Axes::x(point.intensity), axes.y(point.rate)));
                let (mark, style) = faded(back as f64 / TRAIL as f64, look);
                canvas.print(x, y, Span::styled(mark, style));
            }
            if let Some(point) = run.point {
                let (x, y) = snap((Axes::x(point.intensity), axes.y(point.rate)));
                canvas.print(x, y, Span::styled("◉", theme.observed()));
            }
            if let Some((x, y)) = roofline.ops.get(selected).and_then(|op| place(axes, op)).map(snap) {
                canvas.print(x, y, Span::styled("◆", theme.accent()));
            }
        })
        .render(plot, buffer);
}

/// A vertical line of `count` dots.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn dotted(x: f64, from: f64, to: f64, count: f64) -> Vec<(f64, f64)> {
    (0..count as u32).map(|dot| (x, from + (to - from) * f64::from(dot) / count)).collect()
}

/// Where an operator stands: at its intensity, as high as the prediction lets it get.
fn place(axes: &Axes, op: &RooflineOp) -> Option<(f64, f64)> {
    let rate = attained(op)?;
    Some((Axes::x(op.intensity?), axes.y(rate)))
}

fn attained(op: &RooflineOp) -> Option<FlopsPerSec> {
    (op.flops.0 > 0.0 && op.seconds.0 > 0.0).then(|| FlopsPerSec(op.flops.0 / op.seconds.0))
}

fn draw_caption(roofline: &Roofline, selected: usize, state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let mut lines = Vec::new();
    if let Some(op) = roofline.ops.get(selected) {
        let intensity = op.intensity.map_or_else(|| "–".to_owned(), |intensity| intensity.to_string());
        let facts = format!("  {intensity}  {}-bound  {:.0} % of time", op.bound.word(), share(roofline, op));
        let room = (area.width as usize).saturating_sub(3 + op.name.len());
        lines.push(Line::from(vec![
            Span::styled(" ◆ ", theme.accent()),
            Span::styled(op.name.to_string(), theme.text()),
            Span::styled(fit(&facts, room), theme.dim()),
        ]));
    }
    let run = match state.comparison.as_ref().map(|comparison| comparison.point) {
        None => "run: no sample yet".to_owned(),
        Some(None) => format!("run: {}", no_point(state)),
        Some(Some(point)) => {
            let mark = point.kind.mark();
            format!("run  {mark}{}  {mark}{}  {}", point.intensity, point.rate, point.kind.word())
        }
    };
    let run = fit(&run, (area.width as usize).saturating_sub(3));
    lines.push(Line::from(vec![Span::styled(" ◉ ", theme.observed()), Span::styled(run, theme.dim())]));
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// Why the run is not on the chart.
fn no_point(state: &State) -> String {
    let Some(comparison) = &state.comparison else { return "no sample yet".to_owned() };
    let missing = [
        ("tensor activity", comparison.compute.observed.absence()),
        ("DRAM bandwidth", comparison.bandwidth.observed.absence()),
    ];
    match missing.into_iter().find_map(|(what, why)| Some((what, why?))) {
        Some((what, why)) => format!("no point: {what} {}", printable(&why.to_string())),
        None => "idle".to_owned(),
    }
}

fn share(roofline: &Roofline, op: &RooflineOp) -> f64 {
    let all: f64 = roofline.ops.iter().map(|op| op.seconds.0).sum();
    if all > 0.0 { op.seconds.0 / all * 100.0 } else { 0.0 }
}

fn draw_table(state: &State, roofline: &Roofline, selected: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let name = (area.width as usize).saturating_sub(33).clamp(10, 40);
    let row = |cells: [&str; 5]| {
        let [operator, count, intensity, bound, time] = cells;
        format!(
            "{}{}{}  {}{}",
            left(operator, name),
            right(count, 7),
            right(intensity, 9),
            left(bound, 8),
            right(time, 6)
        )
    };
    let mut lines =
        vec![Line::styled(format!(" {}", row(["operator", "runs", "FLOP/B", "bound", "time"])), theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let first = scroll(selected, roofline.ops.len(), room);
    for (index, op) in roofline.ops.iter().enumerate().skip(first).take(room) {
        let chosen = index == selected && state.focus == Pane::Roofline;
        let style = if chosen { theme.selected() } else { op_style(op, look) };
        let intensity = op.intensity.map_or_else(|| "–".to_owned(), |value| crate::units::three_figures(value.0));
        let time = format!("{:.1} %", share(roofline, op));
        let text = row([&op.name, &op.count.to_string(), &intensity, op.bound.word(), &time]);
        lines.push(Line::styled(format!("{}{text}", if chosen { "▸" } else { " " }), style));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn op_style(op: &RooflineOp, look: &Look) -> Style {
    match op.bound {
        Bound::Compute => look.theme.text(),
        Bound::Memory => look.theme.dim(),
    }
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn ticks_are_powers_of_ten_written_out() {
        assert_eq!([-2, -1, 0, 1, 3].map(tick), ["0.01", "0.1", "1", "10", "1000"]);
    }
}
