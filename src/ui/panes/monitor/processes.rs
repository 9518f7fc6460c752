//! The processes on GPUs and what they have started.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use super::super::scroll;
use super::percent;
use crate::app::{AttachedState, Monitor, MonitorView, Pane, ProcessRow, SelectedRow, SortBy, State};
use crate::printable::printable;
use crate::reading::{HostProcess, Moment, ProcessPlace, Reading};
use crate::ui::Look;
use crate::ui::text::{RenderLine, fit, left, marked, right};
use crate::units::{Bytes, BytesPerSec, Seconds};

/// A column of the table.
struct Column {
    head: &'static str,
    width: usize,
    /// Text stands at the left, figures at the right.
    text: bool,
    value: fn(&ProcessRow<'_>, Moment) -> String,
}

/// Cells that the command keeps before another column is shown.
const COMMAND: usize = 18;

const PID: Column = Column { head: "pid", width: 8, text: false, value: |row, _| row.pid.to_string() };
const GPU: Column = Column { head: "gpu", width: 5, text: false, value: |row, _| gpus(row) };
const MEMORY: Column = Column { head: "GiB", width: 9, text: false, value: |row, _| memory(row) };
const CPU: Column =
    Column { head: "cpu", width: 6, text: false, value: |row, _| of_host(row, |host| marked(&host.cpu, percent)) };
const RESIDENT: Column = Column {
    head: "host",
    width: 10,
    text: false,
    value: |row, _| of_host(row, |host| marked(&host.resident, ToString::to_string)),
};
/// How long it could have run and had no core.
const WAIT: Column = Column {
    head: "wait",
    width: 6,
    text: false,
    value: |row, _| of_host(row, |host| marked(&host.cpu_wait, percent)),
};
const USER: Column = Column {
    head: "user",
    width: 8,
    text: true,
    value: |row, _| of_host(row, |host| marked(&host.user, |user| printable(user))),
};
const BUSY: Column = Column {
    head: "sm",
    width: 6,
    text: false,
    value: |row, _| if row.depth > 0 { String::new() } else { marked(&row.busy, percent) },
};
const WORK: Column = Column {
    head: "type",
    width: 5,
    text: false,
    value: |row, _| if row.depth > 0 { String::new() } else { row.work.letter().to_owned() },
};
const TIME: Column = Column {
    head: "time",
    width: 7,
    text: false,
    value: |row, now| of_host(row, |host| marked(&host.started, |at| runtime(*at, now))),
};
const THREADS: Column = Column {
    head: "thr",
    width: 6,
    text: false,
    value: |row, _| of_host(row, |host| marked(&host.detail.threads, ToString::to_string)),
};
const READ: Column =
    Column { head: "read/s", width: 11, text: false, value: |row, _| of_host(row, |host| rate(&host.detail.read)) };
const WRITTEN: Column =
    Column { head: "write/s", width: 11, text: false, value: |row, _| of_host(row, |host| rate(&host.detail.written)) };
const PLACE: Column = Column { head: "container", width: 14, text: true, value: |row, _| of_host(row, place) };

/// In the order of the table; beside GPUs and their past.
const FEW: [&Column; 4] = [&PID, &GPU, &MEMORY, &CPU];
/// With more room.
const SOME: [&Column; 6] = [&PID, &GPU, &MEMORY, &CPU, &RESIDENT, &USER];
/// Where no GPU is watched, for the process of a run on a CPU.
const OF_CPU: [&Column; 6] = [&PID, &CPU, &WAIT, &RESIDENT, &TIME, &USER];
/// The most important first: as many as fit.
const ALL: [&Column; 13] =
    [&PID, &GPU, &MEMORY, &BUSY, &CPU, &TIME, &USER, &RESIDENT, &THREADS, &WORK, &READ, &WRITTEN, &PLACE];

/// From this width on there is room for some.
const SOME_FROM: usize = 76;

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let monitor = &state.monitor;
    let columns = columns(&state.monitor, area.width as usize);
    let note = note(&state.monitor);
    let [head, list, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(u16::from(note.is_some()))])
            .areas(area);
    let processes = monitor.processes();
    let hidden = processes.len().saturating_sub(list.height as usize);
    draw_head(&state.monitor, &columns, hidden, look, head, buffer);
    if processes.is_empty() {
        Line::styled(format!("      {}", nobody(&state.monitor)), look.theme.dim()).render(list, buffer);
    }
    let room = list.height as usize;
    let is_selected = |process: &ProcessRow<'_>| monitor.selected == SelectedRow::Process(process.pid);
    let selected = processes.iter().position(is_selected);
    let first = scroll(selected.unwrap_or(0), processes.len(), room);
    for ((index, process), place) in processes.iter().enumerate().skip(first).zip(list.rows()) {
        look.place_cells(place, monitor.devices().len() + index);
        let chosen = state.views.focus == Pane::Monitor && is_selected(process);
        row(state, process, &columns, chosen, look, area.width as usize).render(place, buffer);
    }
    if let Some(note) = note {
        Line::styled(fit(&format!(" {note}"), area.width as usize), look.theme.warning()).render(below, buffer);
    }
}

fn columns(monitor: &Monitor, width: usize) -> Vec<&'static Column> {
    let without_gpus = monitor.devices().is_empty();
    if monitor.view != MonitorView::Processes && !without_gpus {
        return if width >= SOME_FROM { SOME.to_vec() } else { FEW.to_vec() };
    }
    let mut room = width.saturating_sub(COMMAND);
    let all = if without_gpus { OF_CPU.as_slice() } else { ALL.as_slice() };
    all.iter()
        .copied()
        .take_while(|column| {
            let fits = column.width + 2 <= room;
            room = room.saturating_sub(column.width + 2 * usize::from(column.text));
            fits
        })
        .collect()
}

/// Names of the columns; how many processes have no row; what is sought, and the order, where it is not the usual one.
fn draw_head(monitor: &Monitor, columns: &[&Column], hidden: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let list = &monitor.list;
    let heads: String = columns.iter().map(|column| cell(column, column.head)).collect();
    Line::styled(format!(" {heads}  command"), look.theme.dim()).render(area, buffer);
    let mut said = Vec::new();
    if hidden > 0 {
        said.push(format!("{hidden} more"));
    }
    if list.sort != SortBy::Gpu {
        said.push(format!("by {}", list.sort.word()));
    }
    if list.typing || !list.sought.is_empty() {
        said.push(format!("/{}{}", printable(&list.sought), if list.typing { "▏" } else { "" }));
    }
    Line::styled(said.join(" "), look.theme.accent()).right_aligned().render(area, buffer);
}

fn cell(column: &Column, text: &str) -> String {
    if column.text { format!("  {}", left(text, column.width)) } else { right(text, column.width) }
}

/// Why there is no row.
fn nobody(monitor: &Monitor) -> String {
    if !monitor.list.sought.is_empty() {
        return "no process with these letters: esc shows all".to_owned();
    }
    if monitor.devices().is_empty() {
        return match &monitor.attached {
            Some(attached) => format!("process {} is not there any more", attached.pid),
            None => "no process is attached: --attach PID follows one on the CPU".to_owned(),
        };
    }
    let why = monitor.devices().iter().find_map(|device| device.processes.absence());
    why.map_or("no process on a GPU".to_owned(), |why| format!("processes: {}", printable(&why.to_string())))
}

/// What has to be known of all rows together.
fn note(monitor: &Monitor) -> Option<String> {
    let (elsewhere, all) = monitor.elsewhere();
    (elsewhere > 0).then(|| {
        format!(
            "{elsewhere} of {all} processes have pids of another namespace: their GPU's totals count; \
             a container sees them with --pid=host"
        )
    })
}

fn row<'a>(
    state: &State,
    process: &ProcessRow<'_>,
    columns: &[&Column],
    chosen: bool,
    look: &Look,
    width: usize,
) -> Line<'a> {
    let theme = &look.theme;
    // Of one that has ended another process may have the pid.
    let is_over = |state: &AttachedState| matches!(state, AttachedState::Ended | AttachedState::Replaced);
    let attached = state.monitor.attached.as_ref().filter(|attached| !is_over(&attached.state));
    let attached = attached.is_some_and(|attached| attached.pid == process.pid)
        && state.run.telemetry.ended(&state.monitor, state.now).is_none();
    let style = match (chosen, process.depth) {
        (true, _) => theme.selected(),
        (false, 0) => theme.text(),
        (false, _) => theme.dim(),
    };
    let mark = match (attached, chosen) {
        (true, _) => Span::styled("▶", theme.observed()),
        (false, true) => Span::styled("▸", theme.accent()),
        (false, false) => Span::raw(" "),
    };
    let cells: String = columns.iter().map(|column| cell(column, &(column.value)(process, state.now))).collect();
    let branch = if process.depth > 0 { format!("{}└ ", "  ".repeat(process.depth - 1)) } else { String::new() };
    let command = of_host(process, |host| marked(&host.command, |command| printable(command)));
    let text = format!("{cells}  {branch}{command}");
    Line::from(vec![mark, Span::styled(fit(&text, width.saturating_sub(1)), style)])
}

fn of_host(row: &ProcessRow<'_>, show: impl FnOnce(&HostProcess) -> String) -> String {
    row.host.map_or_else(|| "–".to_owned(), show)
}

fn gpus(row: &ProcessRow<'_>) -> String {
    match row.on.as_slice() {
        // Its own row, where nothing tells of a device.
        [] if row.depth == 0 => "–".to_owned(),
        [] => String::new(),
        [(device, _)] => device.label(),
        several => format!("{}×", several.len()),
    }
}

fn memory(row: &ProcessRow<'_>) -> String {
    if row.on.is_empty() && row.depth > 0 {
        String::new()
    } else {
        row.memory().map_or_else(|| "–".to_owned(), Bytes::in_gib)
    }
}

fn rate(reading: &Reading<BytesPerSec>) -> String {
    marked(reading, |rate| if rate.0 < 1.0 { "0".to_owned() } else { rate.to_string() })
}

fn place(host: &HostProcess) -> String {
    marked(&host.detail.place, |place| match place {
        ProcessPlace::Host => "host".to_owned(),
        ProcessPlace::Container(name) => printable(name),
    })
}

/// How long it has been running since `started` seconds after the epoch: `42 s`, `12 min`, `1 h 12`, `3 d 4`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn runtime(started: u64, now: Moment) -> String {
    let Seconds(seconds) = now.since(Moment(started.saturating_mul(1000)));
    let seconds = seconds as u64;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours}h{minutes:02}"),
        (days, hours, _) => format!("{days}d{hours:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_times_take_six_cells_at_most() {
        let after = |seconds: u64| runtime(1_000, Moment((1_000 + seconds) * 1000));
        assert_eq!([42, 725, 4_320, 273_600].map(after), ["42 s", "12 min", "1h12", "3d04"]);
        assert_eq!(after(100 * 86_400).len(), 6);
    }
}
