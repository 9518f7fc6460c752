//! A row for each device.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::scroll;
use super::{attention, facts, is_hot, is_slowed, megahertz, percent};
use crate::app::{Pane, SelectedRow, State};
use crate::printable::printable;
use crate::reading::{DeviceSample, Reading};
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::header::terabytes;
use crate::ui::text::{RenderLine, left, marked, right};

/// Widths of the columns after the memory bar.
const COLUMNS: [usize; 7] = [6, 6, 8, 7, 6, 5, 6];

/// A shorter memory bar says nothing, nor does the word above it have room.
const SHORTEST_BAR: usize = 8;

/// The columns that leave room for the bar: the last ones stand in the view of one GPU too.
fn columns(width: usize, label: usize) -> &'static [usize] {
    let fits = |count: &usize| width >= COLUMNS[..*count].iter().sum::<usize>() + 4 + label + SHORTEST_BAR;
    let count = (1..=COLUMNS.len()).rev().find(fits).unwrap_or(1);
    &COLUMNS[..count]
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let devices = monitor.devices();
    let columns = columns(area.width as usize, label_width(devices));
    let fixed: usize = columns.iter().sum();
    let bar_width = (area.width as usize).saturating_sub(fixed + 4 + label_width(devices)).min(60);
    let heads = ["GiB", "busy", "tensor", "TB/s", "W", "°C", "MHz"];
    let head: String = heads.iter().zip(columns).map(|(head, width)| right(head, *width)).collect();
    let number = label_width(devices);
    let title = left(&format!("{}  memory", right("#", number + 1)), bar_width + number + 4);
    let mut lines = vec![Line::styled(format!("{title}{head}"), theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let selected = monitor.shown_device();
    let first = scroll(selected, devices.len(), room);
    for (position, device) in devices.iter().enumerate().skip(first).take(room) {
        look.place_row(area, lines.len(), position);
        let chosen = state.views.focus == Pane::Monitor && monitor.selected == SelectedRow::Device(position);
        lines.push(device_line(device, chosen, (label_width(devices), bar_width, columns), look));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// Cells that the longest label needs: parts of a GPU have long ones.
pub fn label_width(devices: &[DeviceSample]) -> usize {
    devices.iter().map(|device| device.label().len()).max().unwrap_or(0).max(2)
}

/// The number of a device, marked when it is selected, and red when it has trouble.
pub fn label<'a>(device: &DeviceSample, chosen: bool, width: usize, style: Style, look: &Look) -> Span<'a> {
    let style = if facts::trouble(device).is_some() { look.theme.danger() } else { style };
    Span::styled(format!("{}{:>width$} ", if chosen { "▸" } else { " " }, device.label()), style)
}

/// A device with the widths of its label and its memory bar.
fn device_line<'a>(
    device: &DeviceSample,
    chosen: bool,
    (number, bar_width, columns): (usize, usize, &[usize]),
    look: &Look,
) -> Line<'a> {
    let theme = &look.theme;
    let style = if chosen { theme.selected() } else { theme.text() };
    let mut spans = vec![label(device, chosen, number, style, look)];
    match &device.memory {
        Reading::Known { value, .. } => {
            spans.push(Span::styled("▕", theme.dim()));
            spans.extend(bar::solid(value.used, value.total, value.total, bar_width, look));
            spans.push(Span::styled("▏", theme.dim()));
        }
        Reading::Absent(why) => {
            spans.push(Span::styled(left(&printable(&format!(" {why}")), bar_width + 2), theme.danger()));
        }
    }
    let cells = [
        (marked(&device.memory, |memory| memory.used.in_gib()), style),
        (marked(&device.busy, percent), style),
        (marked(&device.tensor_activity, percent), style),
        (marked(&device.dram_bandwidth, |rate| terabytes(*rate)), style),
        (marked(&device.power, |power| format!("{:.0}", power.0)), style),
        (marked(&device.temperature, |value| format!("{:.0}", value.0)), attention(is_hot(device), style, look)),
        (marked(&device.sm_clock, megahertz), attention(is_slowed(device), style, look)),
    ];
    for ((text, style), width) in cells.into_iter().zip(columns) {
        spans.push(Span::styled(right(&text, *width), style));
    }
    Line::from(spans)
}
