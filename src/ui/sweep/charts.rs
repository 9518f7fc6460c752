//! Throughput, and memory under the GPU's size, along the values of one key, with both walls.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{fits, heads, outline};
use crate::advise::{BandwidthWall, CapacityWall, throughput};
use crate::app::{Field, SweepView};
use crate::order::StableOrder;
use crate::predict::Outline;
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::chart::{Chart, ChartMark, ChartWall, round_up};
use crate::ui::header::tokens;
use crate::units::three_figures;

/// The points of a sweep along one axis, the others as the selected point has them.
pub struct SweepLine<'a> {
    view: &'a SweepView,
    axis: usize,
    points: Vec<usize>,
}

impl<'a> SweepLine<'a> {
    /// Those through the selected point.
    pub fn of(view: &'a SweepView, axis: usize) -> Self {
        Self { view, axis, points: view.line(axis) }
    }

    /// What is held, where another key varies too: `tok/s by sequence, tensor par. 4`.
    fn title(&self, figure: &str) -> String {
        let view = self.view;
        let label = |axis: usize| view.fields.get(axis).map_or("", |field: &Field| field.label());
        let held = view.sweep.points.get(view.selected).into_iter().flat_map(|point| {
            let others = (0..view.fields.len()).filter(|axis| *axis != self.axis);
            others.map(|axis| format!(", {} {}", label(axis), printable(view.sweep.value(point, axis))))
        });
        format!(" {figure} by {}{}", label(self.axis), held.collect::<String>())
    }

    /// Draws the throughput.
    pub fn draw_rate(&self, look: &Look, area: Rect, buffer: &mut Buffer) {
        let rate = self.chart(throughput, tokens, look);
        Chart { title: self.title(heads(self.view).0), ..rate }.draw(look, area, buffer);
    }

    /// Draws the memory.
    pub fn draw_memory(&self, look: &Look, area: Rect, buffer: &mut Buffer) {
        let outlines = self.points.iter().filter_map(|index| outline(self.view, *index));
        let mut caps: Vec<f64> = outlines.map(|outline| outline.capacity.bytes.gib()).collect();
        caps.dedup();
        // Where GPUs are what varies, each has its own, and the marks tell which fit.
        let cap = caps.first().copied().filter(|_| caps.len() == 1);
        let bytes = self.chart(|outline| outline.capacity.needed.gib(), three_figures, look);
        // What is many times too much need not be told apart: what fits should be.
        let most = cap.map_or(bytes.y.1, |cap| bytes.y.1.clamp(cap, 2.0 * cap));
        let level = cap.map(|at| ChartWall { at, name: format!("{} {}", self.view.device(), three_figures(at)) });
        let clipped = bytes.marks.iter().any(|mark| mark.at.1 > round_up(most));
        let title = self.title(self.view.memory_unit()) + if clipped { " · ↑ above" } else { "" };
        Chart { title, y: (0.0, round_up(most)), level, ..bytes }.draw(look, area, buffer);
    }

    /// A figure over the values: joined where the values are numbers.
    fn chart(&self, figure: impl Fn(&Outline) -> f64, label: fn(f64) -> String, look: &Look) -> Chart {
        let theme = &look.theme;
        let (view, points) = (self.view, &self.points);
        let values: Vec<Option<f64>> = points.iter().map(|index| outline(view, *index).map(&figure)).collect();
        let ordered = view.sweep.axes.get(self.axis).is_some_and(|axis| axis.numbers().is_some());
        let place = |at: usize, value: f64| (at as f64, value);
        let joined = values.windows(2).enumerate().filter_map(|(at, pair)| match pair {
            [Some(from), Some(to)] => Some([place(at, *from), place(at + 1, *to)]),
            _ => None,
        });
        let chosen = |at: usize| points[at] == view.selected;
        let mut marks: Vec<(usize, ChartMark)> = values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| {
                let (symbol, style) = match outline(view, points[at]).is_some_and(fits) {
                    _ if chosen(at) => ("◆", theme.accent()),
                    true => ("●", theme.good()),
                    false => ("×", theme.danger()),
                };
                Some((at, ChartMark { at: place(at, (*value)?), symbol, style }))
            })
            .collect();
        // The selected one is over the others, and its name is under the axis before all.
        marks.order_by_key(|(at, _)| chosen(*at));
        let mut ticks: Vec<usize> = (0..points.len()).collect();
        ticks.order_by_key(|at| !chosen(*at));
        let name = |at: usize| printable(view.sweep.value(&view.sweep.points[points[at]], self.axis));
        Chart {
            title: String::new(),
            x: (-0.5, points.len() as f64 - 0.5),
            y: (0.0, round_up(values.iter().flatten().copied().fold(0.0, f64::max))),
            label,
            ticks: ticks.into_iter().map(|at| (at as f64, name(at))).collect(),
            line: if ordered { joined.collect() } else { Vec::new() },
            stems: !ordered,
            marks: marks.into_iter().map(|(_, mark)| mark).collect(),
            walls: self.walls(),
            level: None,
        }
    }

    /// The memory's wall lies between the last that fits and the next.
    fn walls(&self) -> Vec<ChartWall> {
        let place = |point: usize| self.points.iter().position(|index| *index == point).unwrap_or_default() as f64;
        let mut walls = Vec::new();
        for found in self.view.walls_here().filter(|wall| wall.axis == self.axis) {
            if let CapacityWall::Between { fits, too_large } = found.capacity {
                let at = f64::midpoint(place(fits), place(too_large));
                walls.push(ChartWall { at, name: "capacity wall".to_owned() });
            }
            if let BandwidthWall::Flat { from, .. } = found.throughput {
                walls.push(ChartWall { at: place(from), name: "bandwidth wall".to_owned() });
            }
        }
        walls
    }
}
