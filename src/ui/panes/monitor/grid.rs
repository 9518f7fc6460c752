//! Many devices in little room: short rows side by side, or a cell each.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::super::{scroll, sparks};
use super::rows::{label, label_width};
use super::{attention, is_hot, is_slowed, percent};
use crate::app::{Pane, SelectedRow, State};
use crate::reading::{Absence, DeviceSample, Reading};
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::text::{RenderLine, left, marked, right};

/// Cells of a short row.
pub const SHORT: usize = 37;

const BAR: usize = 5;
/// Widths of the figures of a short row.
const FIGURES: [(&str, usize); 5] = [("GiB", 6), ("busy", 5), ("tens", 5), ("W", 5), ("°C", 4)];

/// Short rows, so many side by side, the numbers going down each.
pub fn draw_columns(state: &State, columns: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let devices = state.monitor.devices();
    let height = devices.len().div_ceil(columns.max(1)).max(1);
    let heads: String = FIGURES.iter().map(|(head, width)| right(head, *width)).collect();
    let head = format!("{}{heads}", left("  # memory", label_width(devices) + 2 + BAR + 2));
    for (column, devices_in) in devices.chunks(height).enumerate() {
        let x = area.x + (column * SHORT) as u16;
        let place = Rect { x, width: SHORT as u16, ..area }.intersection(area);
        let first = column * height;
        for row in 0..devices_in.len() {
            look.place_row(place, row + 1, first + row);
        }
        let rows = devices_in.iter().enumerate().map(|(row, device)| short_row(state, first + row, device, look));
        let lines = std::iter::once(Line::styled(head.clone(), look.theme.dim())).chain(rows);
        for (line, place) in lines.zip(place.rows()) {
            line.render(place, buffer);
        }
    }
}

fn short_row<'a>(state: &State, position: usize, device: &DeviceSample, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    let chosen = is_chosen(state, position);
    let style = if chosen { theme.selected() } else { theme.text() };
    let mut spans = vec![label(device, chosen, label_width(state.monitor.devices()), style, look)];
    match &device.memory {
        Reading::Known { value, .. } => {
            spans.push(Span::styled("▕", theme.dim()));
            spans.extend(bar::solid(value.used, value.total, value.total, BAR, look));
            spans.push(Span::styled("▏", theme.dim()));
        }
        Reading::Absent(why) => spans.push(Span::styled(left(&why.to_string(), BAR + 2), theme.danger())),
    }
    let figures = [
        (marked(&device.memory, |memory| memory.used.in_gib()), style),
        (marked(&device.busy, percent), style),
        (marked(&device.tensor_activity, percent), style),
        (marked(&device.power, |power| format!("{:.0}", power.0)), attention(is_slowed(device), style, look)),
        (marked(&device.temperature, |value| format!("{:.0}", value.0)), attention(is_hot(device), style, look)),
    ];
    for ((text, style), (_, width)) in figures.into_iter().zip(FIGURES) {
        spans.push(Span::styled(right(&text, width), style));
    }
    Line::from(spans)
}

/// Cells of the numbers before a line of cells.
const NUMBERS: usize = 7;

/// What a cell of the heat map stands for: a share of the whole.
type Heat = (&'static str, fn(&DeviceSample) -> Option<f64>);

const HEATS: [Heat; 3] = [
    ("memory", |device| device.memory.value().and_then(|memory| Some(memory.used.share_of(memory.total)?.0))),
    ("tensor, else busy", |device| device.tensor_activity.value().or(device.busy.value()).map(|share| share.0)),
    ("power", |device| device.power.value()?.ratio_to(*device.power_limit.value()?)),
];

/// Devices in a line of the heat map.
fn in_line(width: usize) -> usize {
    let each = width.saturating_sub(NUMBERS) / HEATS.len();
    [32, 16].into_iter().find(|cells| cells + 1 < each).unwrap_or(8)
}

/// Lines that the heat map needs.
pub fn heat_height(devices: usize, width: usize) -> usize {
    1 + devices.div_ceil(in_line(width))
}

/// A cell for each device and figure, the selected one marked in all of them.
pub fn draw_heat(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let devices = state.monitor.devices();
    let cells = in_line(area.width as usize);
    // What stands for it where it is missing is said where there is room.
    let short = |head: &'static str| head.split_once(',').map_or(head, |(first, _)| first);
    let head = |head: &'static str| if head.len() > cells + 1 { short(head) } else { head };
    let heads: String = HEATS.iter().map(|(name, _)| left(head(name), cells + 2)).collect();
    let mut lines = vec![Line::styled(format!("{}{heads}", left("", NUMBERS)), look.theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let all = devices.len().div_ceil(cells);
    let first = scroll(state.monitor.shown_device() / cells, all, room);
    for line in first..all.min(first + room) {
        let positions = line * cells..devices.len().min((line + 1) * cells);
        let numbers = format!(" {}-{}", positions.start, positions.end - 1);
        let mut spans = vec![Span::styled(left(&numbers, NUMBERS), look.theme.dim())];
        for (figure, (_, share)) in HEATS.into_iter().enumerate() {
            let left = area.x + (NUMBERS + figure * (cells + 2)) as u16;
            let y = area.y + lines.len() as u16;
            for (cell, position) in positions.clone().enumerate() {
                look.place_cells(Rect { x: left + cell as u16, y, width: 1, height: 1 }, position);
            }
            spans.extend(positions.clone().map(|position| cell(state, position, share, look)));
            spans.push(Span::raw(" ".repeat(cells + 2 - positions.len())));
        }
        lines.push(Line::from(spans));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn cell<'a>(state: &State, position: usize, share: fn(&DeviceSample) -> Option<f64>, look: &Look) -> Span<'a> {
    let theme = &look.theme;
    let device = &state.monitor.devices()[position];
    let gone = device.memory.absence() == Some(&Absence::Gone);
    let (text, style) = match share(device) {
        _ if gone => ("×".to_owned(), theme.danger()),
        None => ("·".to_owned(), theme.dim()),
        Some(share) => {
            let slow = is_hot(device) || is_slowed(device);
            (sparks(std::iter::once(Some(share)), 1.0), attention(slow, theme.observed(), look))
        }
    };
    Span::styled(text, if is_chosen(state, position) { marked_cell(style) } else { style })
}

fn marked_cell(style: Style) -> Style {
    style.add_modifier(ratatui::style::Modifier::REVERSED)
}

fn is_chosen(state: &State, position: usize) -> bool {
    state.views.focus == Pane::Monitor && state.monitor.selected == SelectedRow::Device(position)
}
