//! The run over time beside what is predicted of it: step time, memory, loss.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span as Text};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

use crate::app::{BrokenLoss, State, broken_loss};
use crate::compare::Comparison;
use crate::reading::{Absence, DeviceMetric, ReadingKind, Spread};
use crate::ui::Look;
use crate::ui::panes::history_axis::{range, unit, words};
use crate::ui::text::{fit, left, right};

/// The label and the axis before a chart, and the values behind it.
const LABEL: u16 = 13;
const VALUES: u16 = 21;

/// Dots between two of the predicted line.
const DOTS: usize = 6;

/// One metric over the span.
struct Curve {
    metric: DeviceMetric,
    predicted: Option<f64>,
    seen: Option<Spread>,
    columns: Vec<Option<Spread>>,
}

impl Curve {
    fn of(state: &State, device: usize, metric: DeviceMetric, predicted: Option<f64>, columns: usize) -> Self {
        let (spans, span) = (&state.monitor.spans, state.monitor.span);
        let seen = spans.whole(device, span, metric);
        Self { metric, predicted, seen, columns: spans.columns(device, span, metric, columns) }
    }

    /// What was seen and what is predicted lie between these.
    fn range(&self) -> (f64, f64) {
        let predicted = self.predicted.map(|predicted| Spread::of(predicted, ReadingKind::Measured));
        let both = self.seen.into_iter().chain(predicted).reduce(Spread::with);
        range(self.metric, both)
    }
}

/// Draws them under each other, over the span of the history.
pub fn draw(state: &State, comparison: &Comparison, look: &Look, area: Rect, buffer: &mut Buffer) {
    let device = device(state, comparison);
    let columns = usize::from(area.width.saturating_sub(LABEL + VALUES)) * 2;
    // What a CPU does is held against no plan for GPUs, here as in the numbers.
    let is_compared = comparison.step.observed.absence() != Some(&Absence::NoGpu);
    let step = (is_compared && comparison.step.predicted.0 > 0.0).then_some(comparison.step.predicted.0);
    let curve = |metric, predicted| Curve::of(state, device, metric, predicted, columns);
    let memory = curve(DeviceMetric::Memory, Some(comparison.memory.predicted.as_f64()));
    // A server has no steps that a log or hook could count.
    let curves = if state.plans.compared().serves() {
        vec![memory]
    } else {
        vec![curve(DeviceMetric::StepTime, step), memory, curve(DeviceMetric::Loss, None)]
    };
    let [body, axis] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let places = Layout::vertical(curves.iter().map(|_| Constraint::Fill(1))).spacing(1).split(body);
    for (curve, place) in curves.iter().zip(places.iter()) {
        let broken = broken_loss(state).filter(|_| curve.metric == DeviceMetric::Loss);
        curve.draw(broken, look, *place, buffer);
    }
    let [_, plot, _] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(VALUES)]).areas(axis);
    Line::styled(format!("-{}", state.monitor.span.word()), look.theme.dim()).render(plot, buffer);
    Line::styled("now", look.theme.dim()).right_aligned().render(plot, buffer);
}

/// The place of the device that is compared.
fn device(state: &State, comparison: &Comparison) -> usize {
    let place = comparison
        .whose
        .device()
        .and_then(|index| state.monitor.devices().iter().position(|device| device.index == index));
    place.unwrap_or_else(|| state.monitor.shown_device())
}

impl Curve {
    fn draw(&self, broken: Option<BrokenLoss>, look: &Look, area: Rect, buffer: &mut Buffer) {
        let theme = &look.theme;
        let [label, plot, values] =
            Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(VALUES)])
                .areas(area);
        let (bottom, top) = self.range();
        for (row, place) in label.rows().enumerate() {
            let name = [self.metric.word(), unit(self.metric)].get(row).copied().unwrap_or_default();
            let mark = match row {
                0 => words(self.metric, top),
                row if row + 1 == usize::from(label.height) => words(self.metric, bottom),
                _ => String::new(),
            };
            let tick = if mark.is_empty() { "│" } else { "┤" };
            Line::from(vec![
                Text::styled(format!(" {}", left(name, 6)), if row == 0 { theme.text() } else { theme.dim() }),
                Text::styled(format!("{}{tick}", right(&mark, 5)), theme.dim()),
            ])
            .render(place, buffer);
        }
        if let Some(broken) = broken.filter(|_| self.seen.is_none()) {
            let words = fit(&format!(" {}", broken.words()), usize::from(plot.width));
            return Line::styled(words, theme.danger()).render(plot, buffer);
        }
        if self.seen.is_none() && self.predicted.is_none() {
            let why = fit(" – the run tells none: its log or the hook would", usize::from(plot.width));
            return Line::styled(why, theme.dim()).render(plot, buffer);
        }
        self.draw_plot((bottom, top), look, plot, buffer);
        // The plan's memory is a peak: what is set against it is the most that was seen.
        let (word, observed) = match self.metric {
            DeviceMetric::Memory => ("most", self.seen.map(|seen| seen.high)),
            // It falls: where it stands now says more.
            DeviceMetric::Loss => ("last", self.columns.iter().flatten().next_back().copied().map(Spread::mean)),
            _ => ("mean", self.seen.map(Spread::mean)),
        };
        let off = observed.zip(self.predicted).filter(|(_, predicted)| *predicted > 0.0);
        let off = off.map(|(observed, predicted)| crate::ui::text::signed_percent(observed / predicted - 1.0));
        let number = |value: Option<f64>| {
            let value = value.map_or_else(|| "–".to_owned(), |value| words(self.metric, value));
            format!("{} {}", right(&value, 7), unit(self.metric))
        };
        let mut lines = vec![(word, number(observed), theme.observed())];
        if self.predicted.is_some() {
            lines.push(("plan ┈", number(self.predicted), theme.predicted()));
        }
        // With its sign under the units.
        lines.extend(off.map(|off| ("off by", right(&off, 9), theme.text())));
        for ((word, text, style), place) in lines.into_iter().zip(values.rows()) {
            Line::from(vec![Text::styled(format!(" {}", left(word, 6)), theme.dim()), Text::styled(text, style)])
                .render(place, buffer);
        }
    }

    /// From the lowest to the highest of each column; what is predicted is dotted.
    fn draw_plot(&self, (bottom, top): (f64, f64), look: &Look, area: Rect, buffer: &mut Buffer) {
        let (colour, guide) = (look.theme.roof_colour(), look.theme.guide_colour());
        let last = self.columns.len().saturating_sub(1) as f64;
        Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, last.max(1.0)])
            .y_bounds([bottom, top.max(f64::MIN_POSITIVE)])
            .paint(|canvas| {
                if let Some(predicted) = self.predicted {
                    let dots = (0..self.columns.len()).step_by(DOTS).map(|x| (x as f64, predicted));
                    canvas.draw(&Points { coords: &dots.collect::<Vec<_>>(), color: guide });
                }
                let mut before: Option<Spread> = None;
                for (column, spread) in self.columns.iter().enumerate() {
                    if let Some(spread) = spread {
                        let low = before.map_or(spread.low, |before| spread.low.min(before.high));
                        let high = before.map_or(spread.high, |before| spread.high.max(before.low));
                        let x = column as f64;
                        canvas.draw(&Stroke { x1: x, y1: low, x2: x, y2: high, color: colour });
                    }
                    before = *spread;
                }
            })
            .render(area, buffer);
    }
}
