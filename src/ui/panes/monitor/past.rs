//! The last minutes of the selected GPU, a line for each figure.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::app::{HistoryPoint, Monitor, State};
use crate::ui::Look;
use crate::ui::text::{RenderLine, left, marked};
use crate::units::{Bytes, Seconds};

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
    // The scale of a device that no longer tells its own.
    let held = state.plans.compared().prediction().map_or(0.0, |prediction| prediction.capacity.bytes.as_f64());
    let rows = [
        HistoryRow {
            label: "memory",
            value: |point| point.memory.map(Bytes::as_f64),
            top: device.memory.value().map_or(held, |memory| memory.total.as_f64()),
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
            top: device.power_limit.value().map_or(0.0, |limit| limit.0),
            latest: marked(&device.power, ToString::to_string),
        },
        HistoryRow {
            label: "busy",
            value: |point| point.busy.map(|share| share.0),
            top: 1.0,
            latest: marked(&device.busy, ToString::to_string),
        },
    ];
    for (past, place) in rows.iter().zip(area.rows()) {
        draw_row(&state.monitor, position, past, look, place, buffer);
    }
}

fn draw_row(monitor: &Monitor, position: usize, past: &HistoryRow<'_>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = (area.width as usize).saturating_sub(8 + 24);
    let history = &monitor.history;
    // As fine as fits: the scale changes only when the past has doubled.
    let fitting = history.points(position).len().div_ceil(width.saturating_sub(1).max(1));
    let groups = history.groups(position, fitting.next_power_of_two());
    let drawn = sparks(&groups, width, past);
    let seen = match (groups.first().and_then(|group| group.first()), groups.last().and_then(|group| group.last())) {
        (Some(first), Some(last)) => last.at.since(first.at),
        _ => Seconds(0.0),
    };
    let span = match past.label {
        "memory" if seen.0 < 60.0 => format!("{:.0} s", seen.0),
        "memory" => seen.to_string(),
        _ => String::new(),
    };
    let tail = format!(" {} {span}", left(&past.latest, 11));
    Line::from(vec![
        Span::styled(format!(" {}", left(past.label, 7)), theme.dim()),
        Span::styled(drawn, theme.observed()),
        Span::styled(tail, theme.dim()),
    ])
    .render(area, buffer);
}

/// The highest value of each group, newest at the right. A group without values is blank, nothing is a low line.
fn sparks(groups: &[Vec<&HistoryPoint>], width: usize, past: &HistoryRow<'_>) -> String {
    let highest = |group: &Vec<&HistoryPoint>| group.iter().filter_map(|point| (past.value)(point)).reduce(f64::max);
    let drawn = groups.len().min(width);
    let cells = super::super::sparks(groups.iter().skip(groups.len() - drawn).map(highest), past.top);
    " ".repeat(width - drawn) + &cells
}
