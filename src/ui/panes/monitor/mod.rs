//! GPUs, their recent past, and the processes on them; one of them closely; all processes closely.

mod cluster;
mod detail;
mod facts;
mod grid;
mod past;
mod processes;
mod rows;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;

use super::{progress, say};
use crate::app::{Monitor, MonitorView, Recordings, SourceState, State};
use crate::printable::printable;
use crate::reading::DeviceSample;
use crate::ui::Look;
use crate::ui::text::{RenderLine, wrapped};
use crate::units::{Fraction, Megahertz};

pub fn title(monitor: &Monitor) -> String {
    let devices = monitor.devices();
    let parts = devices.iter().filter(|device| device.mig.is_some()).count();
    let whole = match devices.len() - parts {
        0 => None,
        1 => Some("1 GPU".to_owned()),
        more => Some(format!("{more} GPUs")),
    };
    let parts = (parts > 0).then(|| format!("{parts} MIG parts"));
    let gpus = Vec::from_iter(whole.into_iter().chain(parts)).join(", ");
    let source = match &monitor.source {
        SourceState::Running(info) => format!("{}: {}", info.kind.word(), printable(&info.detail)),
        SourceState::Starting | SourceState::Failed(_) | SourceState::Unwatched => String::new(),
    };
    let lost = if monitor.dropped > 0 { format!("{} samples lost", monitor.dropped) } else { String::new() };
    Vec::from_iter([gpus, source, lost].into_iter().filter(|part| !part.is_empty())).join(" · ")
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let monitor = &state.monitor;
    if monitor.sample.is_none() {
        let text = match &monitor.source {
            SourceState::Starting => "asking the driver…".to_owned(),
            SourceState::Running(_) => "waiting for the first sample…".to_owned(),
            SourceState::Failed(why) => printable(why),
            SourceState::Unwatched => {
                "A lesson's plan stands alone: nothing is watched. `memwall` shows what runs.".to_owned()
            }
        };
        return say(&text, look, area, buffer);
    }
    let area = draw_damage(&state.recordings, look, area, buffer);
    match monitor.view {
        MonitorView::Device => detail::draw(state, look, area, buffer),
        MonitorView::Cluster => cluster::draw(state, look, area, buffer),
        MonitorView::Processes => processes::draw(state, look, area, buffer),
        MonitorView::Now | MonitorView::History => draw_now(state, look, area, buffer),
    }
}

/// Why a recording ends here, where it was to go on, in the last lines; what is above them.
fn draw_damage(recordings: &Recordings, look: &Look, area: Rect, buffer: &mut Buffer) -> Rect {
    let broken = recordings.playback.as_ref().filter(|playback| playback.ended());
    let Some(damage) = broken.and_then(|playback| playback.damage.as_deref()) else { return area };
    let said = printable(&format!("the recording breaks off: {damage}"));
    let lines = wrapped(&said, area.width as usize, 3);
    let [above, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(lines.len() as u16)]).areas(area);
    for (line, place) in lines.into_iter().zip(below.rows()) {
        Line::styled(line, look.theme.danger()).render(place, buffer);
    }
    above
}

fn draw_now(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    if state.monitor.devices().is_empty() {
        let rest = progress::draw(state, look, area, buffer);
        return processes::draw(state, look, rest, buffer);
    }
    let (shape, [table, facts, past, rest]) = shares(area, state);
    match shape {
        Shape::Rows => rows::draw(state, look, table, buffer),
        Shape::Columns(columns) => grid::draw_columns(state, columns, look, table, buffer),
        Shape::Heat => grid::draw_heat(state, look, table, buffer),
    }
    // What has no row of its own has its figures here.
    facts::draw(state, shape != Shape::Rows, look, facts, buffer);
    past::draw(state, look, past, buffer);
    let rest = progress::draw(state, look, rest, buffer);
    processes::draw(state, look, rest, buffer);
}

/// How devices are drawn: the more there are, the less each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A row each.
    Rows,
    /// A short row each, so many side by side.
    Columns(usize),
    /// A cell each for a few figures.
    Heat,
}

/// Devices, a line or two of facts, recent history, processes. Processes always keep a few lines,
/// then devices take what they need, then history.
fn shares(area: Rect, state: &State) -> (Shape, [Rect; 4]) {
    let devices = state.monitor.devices().len();
    let processes = 1 + state.monitor.processes().len().clamp(1, 3);
    let room = (area.height as usize).saturating_sub(processes + 2);
    let width = area.width as usize;
    let fits = |columns: &usize| 1 + devices.div_ceil(*columns) < room;
    let shape = if devices < room {
        Shape::Rows
    } else {
        (2..=width / grid::SHORT).find(fits).map_or(Shape::Heat, Shape::Columns)
    };
    let (facts, table) = match shape {
        Shape::Rows => (1, 1 + devices),
        Shape::Columns(columns) => (2, 1 + devices.div_ceil(columns)),
        Shape::Heat => (2, grid::heat_height(devices, width).min(room.saturating_sub(1))),
    };
    let history = (room + 1).saturating_sub(facts - 1 + table).clamp(1, 5);
    // What is left over goes to processes, but history is worth more than blank lines.
    let places = Layout::vertical([
        Constraint::Length(table as u16),
        Constraint::Length(facts as u16),
        Constraint::Length(history as u16),
        Constraint::Fill(1),
    ])
    .areas(area);
    (shape, places)
}

/// From this temperature on GPUs slow down.
const HOT: f64 = 85.0;

fn is_hot(device: &DeviceSample) -> bool {
    device.temperature.value().is_some_and(|temperature| temperature.0 >= HOT)
}

fn is_slowed(device: &DeviceSample) -> bool {
    device.throttle.value().is_some_and(|reasons| !reasons.is_empty())
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
