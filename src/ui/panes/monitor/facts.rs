//! What the row of the selected device has no room for: its name, why clocks are low, what is wrong
//! with it, why figures are missing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{megahertz, percent};
use crate::app::State;
use crate::compare::Forecast;
use crate::printable::printable;
use crate::reading::{Absence, DeviceSample, Health};
use crate::ui::Look;
use crate::ui::header::terabytes;
use crate::ui::text::{RenderLine, fit, marked, width_of};

/// Draws them; `figures` too, where no row has them.
pub fn draw(state: &State, figures: bool, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(device) = state.monitor.devices().get(state.monitor.shown_device()) else { return };
    let theme = &look.theme;
    let mut lines = Vec::new();
    let name = device.name.value().map_or_else(|| "unnamed".to_owned(), |name| printable(name));
    let mut spans = vec![Span::styled(format!(" GPU {} {name}", device.label()), theme.text())];
    if let Some(limit) = device.power_limit.value() {
        spans.push(Span::styled(format!(" · limit {limit}"), theme.dim()));
    }
    if let Some(trouble) = trouble(device) {
        spans.push(Span::styled(format!(" · {trouble}"), theme.danger()));
    }
    if let Some(reasons) = device.throttle.value().filter(|reasons| !reasons.is_empty()) {
        spans.push(Span::styled(format!(" · slowed: {}", reasons.join(", ")), theme.warning()));
    }
    let watched = Some(state.monitor.shown_device()) == state.monitor.run_device();
    if let Forecast::Growing(growth) = state.run.outlook.memory
        && watched
    {
        spans.push(Span::styled(format!(" · {}", growth.words()), theme.warning()));
    }
    for (why, what) in missing(device) {
        let room = (area.width as usize).saturating_sub(width_of(&spans));
        let why = printable(&why.to_string());
        // Of a device without any figure the reason is all there is to say.
        let text = if what.len() == FIGURES { format!(" · {why}") } else { format!(" · {}: {why}", what.join(", ")) };
        spans.push(Span::styled(fit(&text, room), theme.dim()));
    }
    if figures {
        lines.push(Line::styled(fit(&figures_of(device), area.width as usize), theme.text()));
    }
    lines.push(Line::from(spans));
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

/// What its row would say.
fn figures_of(device: &DeviceSample) -> String {
    let parts = [
        marked(&device.memory, |memory| memory.used.in_gib()) + " GiB",
        marked(&device.busy, percent) + " busy",
        marked(&device.tensor_activity, percent) + " tensor",
        marked(&device.dram_bandwidth, |rate| terabytes(*rate)) + " TB/s",
        marked(&device.power, |power| format!("{:.0}", power.0)) + " W",
        marked(&device.temperature, |value| format!("{:.0}", value.0)) + " °C",
        marked(&device.sm_clock, megahertz) + " MHz",
    ];
    format!(" GPU {}  {}", device.label(), parts.join("  "))
}

/// What is wrong with a device, if something is.
pub fn trouble(device: &DeviceSample) -> Option<String> {
    let Health { uncorrected, sram_exceeded, repair_failed, nvlink_recoveries, xids, .. } = &device.health;
    let mut said = Vec::new();
    if let Some(last) = xids.value().and_then(|xids| xids.last) {
        said.push(last.code.map_or_else(|| "unknown Xid".to_owned(), |code| format!("Xid {code}{}", meaning(code))));
    }
    match uncorrected.value() {
        None | Some(0) => {}
        Some(1) => said.push("1 memory error".to_owned()),
        Some(more) => said.push(format!("{more} memory errors")),
    }
    if sram_exceeded.value() == Some(&true) {
        said.push("SRAM errors beyond the threshold".to_owned());
    }
    match nvlink_recoveries.value() {
        None | Some(0) => {}
        Some(1) => said.push("NVLink recovered once".to_owned()),
        Some(more) => said.push(format!("NVLink recovered {more} times")),
    }
    said.extend(device.narrow_link());
    if repair_failed.value() == Some(&true) {
        said.push("no spare memory row left".to_owned());
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// What those that trainers meet stand for, after NVIDIA's "XID Errors" (r555).
const fn meaning(code: u64) -> &'static str {
    match code {
        13 => ": exception in a kernel",
        31 => ": page fault in a kernel",
        43 => ": a kernel hung or was stopped",
        45 => ": cleaned up after an error",
        48 => ": double-bit memory error",
        63 => ": memory row replaced",
        64 => ": memory row not replaced",
        74 => ": NVLink error",
        79 => ": fell off the bus",
        94 => ": contained memory error",
        95 => ": uncontained memory error",
        119 | 120 => ": firmware does not answer",
        _ => "",
    }
}

/// Figures of a row.
const FIGURES: usize = 7;

/// Figures that a device does not have, by the reason.
fn missing(device: &DeviceSample) -> Vec<(&Absence, Vec<&'static str>)> {
    let figures: [_; FIGURES] = [
        ("memory", device.memory.absence()),
        ("busy", device.busy.absence()),
        ("tensor", device.tensor_activity.absence()),
        ("TB/s", device.dram_bandwidth.absence()),
        ("W", device.power.absence()),
        ("°C", device.temperature.absence()),
        ("MHz", device.sm_clock.absence()),
    ];
    let mut reasons: Vec<(&Absence, Vec<&'static str>)> = Vec::new();
    for (what, why) in figures.into_iter().filter_map(|(what, why)| Some((what, why?))) {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, figures)) => figures.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    reasons
}
