//! The last minutes of the selected GPU, a line for each figure.

use std::collections::vec_deque;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::app::{HistoryPoint, Monitor, State};
use crate::ui::Look;
use crate::ui::text::{RenderLine, left, marked};
use crate::units::Bytes;

/// One row of recent history.
struct HistoryRow<'a> {
    label: &'a str,
    value: fn(&HistoryPoint) -> Option<f64>,
    top: f64,
    latest: String,
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let position = state.monitor.shown_device();
    let Some(device) = state.monitor.devices().get(position) else { return };
    let peak = state.plans.compared().prediction().map_or(0.0, |prediction| prediction.roofline.bandwidth.0);
    let scale = state.monitor.scale(position);
    // The scale of a device that never told its own.
    let held = state.plans.compared().prediction().map_or(0.0, |prediction| prediction.capacity.bytes.as_f64());
    let rows = [
        HistoryRow {
            label: "memory",
            value: |point| point.memory.map(Bytes::as_f64),
            top: scale.memory.map_or(held, Bytes::as_f64),
            latest: marked(&device.memory, |memory| memory.used.to_string()),
        },
        HistoryRow {
            label: "DRAM",
            value: |point| point.bandwidth.map(|(rate, _)| rate.0),
            top: device.dram_peak.value().map_or(peak, |peak| peak.0),
            latest: marked(&device.dram_bandwidth, ToString::to_string),
        },
        HistoryRow {
            label: "tensor",
            value: |point| point.tensor.map(|share| share.0),
            top: 1.0,
            latest: marked(&device.tensor_activity, ToString::to_string),
        },
        HistoryRow {
            label: "power",
            value: |point| point.power.map(|power| power.0),
            top: scale.power.map_or(0.0, |limit| limit.0),
            latest: marked(&device.power, ToString::to_string),
        },
        HistoryRow {
            label: "busy",
            value: |point| point.busy.map(|share| share.0),
            top: 1.0,
            latest: marked(&device.busy, ToString::to_string),
        },
    ];
    let monitor = &state.monitor;
    let width = (area.width as usize).saturating_sub(8 + 24);
    // As fine as fits: the scale changes only when the past has doubled.
    let fitting = monitor.history.points(position).len().div_ceil(width.saturating_sub(1).max(1));
    let groups = monitor.history.groups(position, fitting.next_power_of_two());
    let drawn = groups.len().min(width);
    let hidden = groups.len() - drawn;
    let groups = groups.skip(hidden);
    for (row, place) in rows.iter().zip(area.rows()) {
        let span = if row.label == "memory" { seen(monitor, position) } else { String::new() };
        let theme = &look.theme;
        Line::from(vec![
            Span::styled(format!(" {}", left(row.label, 7)), theme.dim()),
            Span::styled(" ".repeat(width - drawn) + &sparks(groups.clone(), row), theme.observed()),
            Span::styled(format!(" {} {span}", left(&row.latest, 11)), theme.dim()),
        ])
        .render(place, buffer);
    }
}

/// How long the points of a device have been kept.
fn seen(monitor: &Monitor, position: usize) -> String {
    let mut points = monitor.history.points(position);
    let oldest = points.next();
    match (oldest, points.next_back().or(oldest)) {
        (Some(oldest), Some(newest)) => match newest.at.since(oldest.at) {
            seen if seen.0 < 60.0 => format!("{:.0} s", seen.0),
            seen => seen.to_string(),
        },
        _ => "0 s".to_owned(),
    }
}

/// The highest value of each group, newest at the right. A group without values is blank, nothing is a low line.
fn sparks<'a>(groups: impl Iterator<Item = vec_deque::Iter<'a, HistoryPoint>>, row: &HistoryRow<'_>) -> String {
    super::super::sparks(groups.map(|group| group.filter_map(row.value).reduce(f64::max)), row.top)
}
