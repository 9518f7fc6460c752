//! GPUs, their recent past, and the processes on them.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::{say, scroll};
use crate::app::{Pane, Point, ProcessRow, Selected, Source, State};
use crate::printable::printable;
use crate::reading::{Absence, DeviceSample, Reading};
use crate::ui::Look;
use crate::ui::bar;
use crate::ui::header::terabytes;
use crate::ui::text::{fit, left, marked, right, width_of};
use crate::units::{Bytes, Fraction, Megahertz, Seconds};

pub fn title(state: &State) -> String {
    let devices = state.monitor.devices().len();
    let mut title = match devices {
        0 => String::new(),
        1 => "1 GPU".to_owned(),
        more => format!("{more} GPUs"),
    };
    if let Source::Running(info) = &state.monitor.source {
        title = format!("{title} · {}: {}", info.kind.word(), printable(&info.detail));
    }
    if state.monitor.dropped > 0 {
        title = format!("{title} · {} samples lost", state.monitor.dropped);
    }
    title
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let monitor = &state.monitor;
    if monitor.sample.is_none() {
        let text = match &monitor.source {
            Source::Starting => "asking the driver…".to_owned(),
            Source::Running(_) => "waiting for the first sample…".to_owned(),
            Source::Failed(why) => printable(why),
        };
        return say(&text, look, area, buffer);
    }
    let processes = monitor.processes();
    let devices = monitor.devices().len();
    let [table, facts, past, rest] = shares(area, devices, processes.len());
    draw_devices(state, look, table, buffer);
    draw_facts(state, look, facts, buffer);
    draw_past(state, look, past, buffer);
    draw_processes(state, &processes, look, rest, buffer);
}

/// The table of devices, a line of facts, recent history, processes. Processes always keep
/// a few lines, then devices take what they need, then history.
fn shares(area: Rect, devices: usize, processes: usize) -> [Rect; 4] {
    let facts = 1;
    let least = 1 + processes.clamp(1, 3);
    let room = (area.height as usize).saturating_sub(1 + facts + least);
    let shown = devices.min(room.saturating_sub(1)).max(1);
    let history = (room - shown.min(room)).clamp(1, 5);
    // What is left over goes to processes, but history is worth more than blank lines.
    Layout::vertical([
        Constraint::Length(1 + shown as u16),
        Constraint::Length(facts as u16),
        Constraint::Length(history as u16),
        Constraint::Fill(1),
    ])
    .areas(area)
}

/// From this width on processes show their host memory and user beside their command.
const HOST_FROM: u16 = 76;

/// Widths of the columns after the memory bar.
const COLUMNS: [usize; 7] = [6, 6, 8, 7, 6, 5, 6];

fn draw_devices(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let devices = monitor.devices();
    let fixed: usize = COLUMNS.iter().sum();
    let bar_width = (area.width as usize).saturating_sub(fixed + 6).min(60);
    let heads = ["GiB", "busy", "tensor", "TB/s", "W", "°C", "MHz"];
    let head: String = heads.iter().zip(COLUMNS).map(|(head, width)| right(head, width)).collect();
    let title = left("  #  memory", bar_width + 6);
    let mut lines = vec![Line::styled(format!("{title}{head}"), theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let selected = monitor.shown_device();
    let first = scroll(selected, devices.len(), room);
    for (position, device) in devices.iter().enumerate().skip(first).take(room) {
        let chosen = state.focus == Pane::Monitor && monitor.selected == Selected::Device(position);
        lines.push(device_line(device, chosen, bar_width, look));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn device_line<'a>(device: &DeviceSample, chosen: bool, bar_width: usize, look: &Look) -> Line<'a> {
    let theme = &look.theme;
    let style = if chosen { theme.selected() } else { theme.text() };
    let mut spans = vec![Span::styled(format!("{}{:>2} ", if chosen { "▸" } else { " " }, device.index), style)];
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
    let throttled = device.throttle.value().is_some_and(|reasons| !reasons.is_empty());
    let hot = device.temperature.value().is_some_and(|temperature| temperature.0 >= 85.0);
    let cells = [
        (marked(&device.memory, |memory| memory.used.in_gib()), style),
        (marked(&device.busy, percent), style),
        (marked(&device.tensor_activity, percent), style),
        (marked(&device.dram_bandwidth, |rate| terabytes(*rate)), style),
        (marked(&device.power, |power| format!("{:.0}", power.0)), style),
        (marked(&device.temperature, |value| format!("{:.0}", value.0)), attention(hot, style, look)),
        (marked(&device.sm_clock, megahertz), attention(throttled, style, look)),
    ];
    for ((text, style), width) in cells.into_iter().zip(COLUMNS) {
        spans.push(Span::styled(right(&text, width), style));
    }
    Line::from(spans)
}

fn attention(needed: bool, style: Style, look: &Look) -> Style {
    if needed { look.theme.warning() } else { style }
}

fn percent(share: &Fraction) -> String {
    format!("{:.0}%", share.percent())
}

fn megahertz(clock: &Megahertz) -> String {
    format!("{:.0}", clock.0)
}

/// What the row of the shown device has no room for: its name, why clocks are low, why figures are missing.
fn draw_facts(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let Some(device) = state.monitor.devices().get(state.monitor.shown_device()) else { return };
    let theme = &look.theme;
    let name = device.name.value().map_or_else(|| "unnamed".to_owned(), |name| printable(name));
    let mut spans = vec![Span::styled(format!(" GPU {} {name}", device.index), theme.text())];
    if let Some(limit) = device.power_limit.value() {
        spans.push(Span::styled(format!(" · limit {limit}"), theme.dim()));
    }
    if let Some(reasons) = device.throttle.value().filter(|reasons| !reasons.is_empty()) {
        spans.push(Span::styled(format!(" · slowed: {}", reasons.join(", ")), theme.warning()));
    }
    for (why, what) in missing(device) {
        let room = (area.width as usize).saturating_sub(width_of(&spans));
        let text = format!(" · {}: {}", what.join(", "), printable(&why.to_string()));
        spans.push(Span::styled(fit(&text, room), theme.dim()));
    }
    Line::from(spans).render(area, buffer);
}

/// Figures that a device does not have, by the reason.
fn missing(device: &DeviceSample) -> Vec<(&Absence, Vec<&'static str>)> {
    let figures = [
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

/// One row of recent history.
struct Past<'a> {
    label: &'a str,
    value: fn(&Point) -> Option<f64>,
    top: f64,
    latest: String,
}

fn draw_past(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let position = state.monitor.shown_device();
    let Some(device) = state.monitor.devices().get(position) else { return };
    let peak = state.editor.prediction().map_or(0.0, |prediction| prediction.roofline.bandwidth.0);
    // The scale of a device that no longer tells its own.
    let held = state.editor.prediction().map_or(0.0, |prediction| prediction.capacity.bytes.as_f64());
    let rows = [
        Past {
            label: "memory",
            value: |point| point.memory.map(Bytes::as_f64),
            top: device.memory.value().map_or(held, |memory| memory.total.as_f64()),
            latest: marked(&device.memory, |memory| memory.used.to_string()),
        },
        Past {
            label: "DRAM",
            value: |point| point.bandwidth.map(|(rate, _)| rate.0),
            top: device.dram_peak.value().map_or(peak, |peak| peak.0),
            latest: marked(&device.dram_bandwidth, ToString::to_string),
        },
        Past {
            label: "tensor",
            value: |point| point.tensor.map(|share| share.0),
            top: 1.0,
            latest: marked(&device.tensor_activity, ToString::to_string),
        },
        Past {
            label: "power",
            value: |point| point.power.map(|power| power.0),
            top: device.power_limit.value().map_or(0.0, |limit| limit.0),
            latest: marked(&device.power, ToString::to_string),
        },
        Past {
            label: "busy",
            value: |point| point.busy.map(|share| share.0),
            top: 1.0,
            latest: marked(&device.busy, ToString::to_string),
        },
    ];
    for (past, place) in rows.iter().zip(area.rows()) {
        draw_row(state, position, past, look, place, buffer);
    }
}

fn draw_row(state: &State, position: usize, past: &Past<'_>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let width = (area.width as usize).saturating_sub(8 + 24);
    let history = &state.monitor.history;
    // As fine as fits: the scale changes only when the past has doubled.
    let fitting = history.points(position).len().div_ceil(width.saturating_sub(1).max(1));
    let groups = history.groups(position, fitting.next_power_of_two());
    let drawn = sparks(&groups, width, past);
    let seen = match (groups.first().and_then(|group| group.first()), groups.last().and_then(|group| group.last())) {
        (Some(first), Some(last)) => last.at.since(first.at),
        _ => Seconds(0.0),
    };
    let span = if past.label == "memory" { seen.to_string() } else { String::new() };
    let tail = format!(" {} {span}", left(&past.latest, 11));
    Line::from(vec![
        Span::styled(format!(" {}", left(past.label, 7)), theme.dim()),
        Span::styled(drawn, theme.observed()),
        Span::styled(tail, theme.dim()),
    ])
    .render(area, buffer);
}

/// The highest value of each group, newest at the right. A group without values is blank, nothing is a low line.
fn sparks(groups: &[Vec<&Point>], width: usize, past: &Past<'_>) -> String {
    let highest = |group: &Vec<&Point>| group.iter().filter_map(|point| (past.value)(point)).reduce(f64::max);
    let drawn = groups.len().min(width);
    let cells = super::sparks(groups.iter().skip(groups.len() - drawn).map(highest), past.top);
    " ".repeat(width - drawn) + &cells
}

fn draw_processes(state: &State, processes: &[ProcessRow<'_>], look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let host = if area.width >= HOST_FROM { "      host  user    " } else { "" };
    let mut lines = vec![Line::styled(format!("      pid  gpu      GiB   cpu{host}  command"), theme.dim())];
    if processes.is_empty() {
        let why = monitor.devices().iter().find_map(|device| device.processes.absence());
        let text =
            why.map_or("no process on a GPU".to_owned(), |why| format!("processes: {}", printable(&why.to_string())));
        lines.push(Line::styled(format!("      {text}"), theme.dim()));
    }
    let room = (area.height as usize).saturating_sub(1);
    let is_selected = |process: &ProcessRow<'_>| monitor.selected == Selected::Process(process.pid);
    let selected = processes.iter().position(is_selected);
    let first = scroll(selected.unwrap_or(0), processes.len(), room);
    for process in processes.iter().skip(first).take(room) {
        let chosen = state.focus == Pane::Monitor && is_selected(process);
        lines.push(process_line(state, process, chosen, look, area.width as usize));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn process_line<'a>(state: &State, process: &ProcessRow<'_>, chosen: bool, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let attached = state.monitor.attached.as_ref().is_some_and(|attached| attached.pid == process.pid);
    let style = if chosen { theme.selected() } else { theme.text() };
    let gpus = match process.on.as_slice() {
        [(index, _)] => index.to_string(),
        several => format!("{}×", several.len()),
    };
    let memory = process.memory().map_or_else(|| "–".to_owned(), Bytes::in_gib);
    let (mut cpu, mut resident, mut user, mut command) =
        ("–".to_owned(), "–".to_owned(), "–".to_owned(), "–".to_owned());
    if let Some(host) = process.host {
        cpu = marked(&host.cpu, percent);
        resident = marked(&host.resident, ToString::to_string);
        user = marked(&host.user, |user| printable(user));
        command = marked(&host.command, |command| printable(command));
    }
    let mut text = [(process.pid.to_string(), 8), (gpus, 5), (memory, 9), (cpu, 6)]
        .map(|(cell, width)| right(&cell, width))
        .concat();
    if width >= usize::from(HOST_FROM) {
        text += &format!("{}  {}", right(&resident, 10), left(&user, 8));
    }
    text += "  ";
    let room = width.saturating_sub(text.chars().count() + 1);
    let mark = match (attached, chosen) {
        (true, _) => Span::styled("▶", theme.observed()),
        (false, true) => Span::styled("▸", theme.accent()),
        (false, false) => Span::raw(" "),
    };
    Line::from(vec![mark, Span::styled(text, style), Span::styled(fit(&command, room), style)])
}
