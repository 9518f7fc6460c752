//! Everything that is known of one device.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::facts;
use super::percent;
use crate::app::{Pane, State};
use crate::printable::printable;
use crate::reading::{DeviceSample, NvLinks, Peer, Reading};
use crate::ui::Look;
use crate::ui::text::{fit, left, marked};
use crate::units::{Celsius, Fraction};

/// Cells of a column.
const COLUMN: usize = 39;
/// Cells of a label.
const LABEL: usize = 16;

/// Figures that belong together.
type Group = (&'static str, Vec<(&'static str, String)>);

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let Some(device) = state.monitor.devices().get(state.monitor.shown_device()) else { return };
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    let name = device.name.value().map_or_else(|| "unnamed".to_owned(), |name| printable(name));
    let uuid = device.uuid.value().map(|uuid| printable(uuid)).unwrap_or_default();
    let arrow = if state.focus == Pane::Monitor { "▸" } else { " " };
    Line::from(vec![
        Span::styled(format!("{arrow}GPU {} {name}", device.label()), theme.text()),
        Span::styled(format!("  {uuid}"), theme.dim()),
    ])
    .render(head, buffer);
    let trouble =
        facts::trouble(device).map_or_else(Line::default, |text| Line::styled(format!(" {text}"), theme.danger()));
    trouble.render(Rect { y: head.y + 1, height: 1, ..head }, buffer);
    let groups = [memory(device), compute(device), power(device), links(device), health(device), board(device)];
    let lines = lines(&groups, look);
    let columns = ((body.width as usize) / COLUMN).max(1);
    let height = (body.height as usize).max(1);
    let pages = lines.len().div_ceil(columns * height).max(1);
    let page = state.monitor.page % pages;
    for (column, part) in lines.chunks(height).skip(page * columns).take(columns).enumerate() {
        let x = body.x + (column * COLUMN) as u16;
        let place = Rect { x, width: COLUMN as u16 - 1, ..body }.intersection(body);
        for (line, place) in part.iter().zip(place.rows()) {
            line.render(place, buffer);
        }
    }
    if pages > 1 {
        let more = format!(" {} of {pages}: PgDn ", page + 1);
        Line::styled(more, theme.accent()).right_aligned().render(Rect { y: head.y + 1, height: 1, ..head }, buffer);
    }
}

fn lines<'a>(groups: &[Group], look: &Look) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let mut lines = Vec::new();
    for (title, figures) in groups {
        lines.push(Line::styled(format!(" {title}"), theme.accent()));
        for (label, text) in figures {
            let dash = text.starts_with('–');
            lines.push(Line::from(vec![
                Span::styled(left(&format!("  {label}"), LABEL), theme.dim()),
                Span::styled(fit(text, COLUMN - LABEL - 1), if dash { theme.dim() } else { theme.text() }),
            ]));
        }
    }
    lines
}

/// A figure with its mark, or a dash and why there is none.
fn said<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    match reading.absence() {
        Some(why) => format!("– {}", printable(&why.to_string())),
        None => marked(reading, show),
    }
}

/// Two figures in a line, or one dash and why there is none.
fn pair<T, U>(
    (one, show): (&Reading<T>, impl FnOnce(&T) -> String),
    between: &str,
    (other, show_other): (&Reading<U>, impl FnOnce(&U) -> String),
) -> String {
    if one.absence().is_some() {
        return said(one, show);
    }
    let rest = if other.value().is_some() { format!("{between}{}", marked(other, show_other)) } else { String::new() };
    format!("{}{rest}", marked(one, show))
}

fn plain<T: ToString>(value: &T) -> String {
    value.to_string()
}

fn of_time(share: &Fraction) -> String {
    format!("{} of the time", percent(share))
}

fn degrees(temperature: &Celsius) -> String {
    format!("{:.0} °C", temperature.0)
}

fn memory(device: &DeviceSample) -> Group {
    let bandwidth = match device.dram_bandwidth.kind() {
        Some(kind) => format!("{} {}", marked(&device.dram_bandwidth, plain), kind.word()),
        None => said(&device.dram_bandwidth, plain),
    };
    let figures = vec![
        ("used", said(&device.memory, |memory| memory.used.to_string())),
        ("free", said(&device.memory, |memory| memory.free.to_string())),
        ("reserved", said(&device.memory_reserved, plain)),
        ("total", said(&device.memory, |memory| memory.total.to_string())),
        ("DRAM", bandwidth),
        ("DRAM peak", said(&device.dram_peak, plain)),
        ("memory busy", said(&device.memory_busy, percent)),
    ];
    ("memory", figures)
}

fn compute(device: &DeviceSample) -> Group {
    let counters = &device.counters;
    let figures = vec![
        ("busy", said(&device.busy, percent)),
        ("SM active", said(&device.sm_activity, percent)),
        ("occupancy", said(&counters.occupancy, percent)),
        ("tensor", said(&device.tensor_activity, percent)),
        ("· fp16 fp8", said(&counters.tensor_half, percent)),
        ("· int8", said(&counters.tensor_integer, percent)),
        ("· fp64", said(&counters.tensor_double, percent)),
        ("fp32 pipes", said(&counters.fp32, percent)),
        ("fp16 pipes", said(&counters.fp16, percent)),
        ("fp64 pipes", said(&counters.fp64, percent)),
    ];
    ("compute", figures)
}

fn power(device: &DeviceSample) -> Group {
    let board = &device.board;
    let slowed =
        said(&device.throttle, |reasons| if reasons.is_empty() { "no".to_owned() } else { reasons.join(", ") });
    let figures = vec![
        ("power", pair((&device.power, plain), " of ", (&device.power_limit, plain))),
        ("energy", said(&board.energy, plain)),
        ("temperature", pair((&device.temperature, degrees), ", memory ", (&board.memory_temperature, degrees))),
        ("fan", said(&board.fan, percent)),
        ("SM clock", pair((&device.sm_clock, plain), " of ", (&device.sm_clock_max, plain))),
        ("mem clock", pair((&device.memory_clock, plain), " of ", (&board.memory_clock_max, plain))),
        ("slowed", slowed),
        ("· by power", said(&board.slowed_by_power, of_time)),
        ("· by heat", said(&board.slowed_by_heat, of_time)),
        ("state", said(&board.performance_state, |state| format!("P{state}"))),
    ];
    ("power and clocks", figures)
}

fn links(device: &DeviceSample) -> Group {
    let links = &device.links;
    let nvlinks = said(&links.nvlinks, |NvLinks { active, all, version }| {
        let version = version.map_or_else(String::new, |version| format!(", version {version}"));
        format!("{active} of {all} up{version}")
    });
    let figures = vec![
        (
            "PCIe",
            pair((&links.pcie_generation, |now| format!("gen {now}")), " of ", (&links.pcie_generation_max, plain)),
        ),
        ("lanes", pair((&links.pcie_width, |now| format!("x{now}")), " of x", (&links.pcie_width_max, plain))),
        ("PCIe in", said(&links.pcie_received, plain)),
        ("PCIe out", said(&links.pcie_sent, plain)),
        ("· replays", said(&links.pcie_replays, plain)),
        ("NVLink", nvlinks),
        ("NVLink in", said(&links.nvlink_received, plain)),
        ("NVLink out", said(&links.nvlink_sent, plain)),
        ("others", said(&links.peers, |peers| ways(peers))),
    ];
    ("links", figures)
}

/// The ways to other cards, those that are alike together: `1-3 one PCIe switch`.
fn ways(peers: &[Peer]) -> String {
    let mut kinds: Vec<(&str, Vec<u32>)> = Vec::new();
    for peer in peers {
        match kinds.iter_mut().find(|(between, _)| *between == peer.between) {
            Some((_, list)) => list.push(peer.index),
            None => kinds.push((&peer.between, vec![peer.index])),
        }
    }
    let said = kinds.iter().map(|(between, list)| match list.as_slice() {
        [first, .., last] => format!("{} ({first}…{last}) {between}", list.len()),
        one => format!("{} {between}", one.first().map_or_else(String::new, ToString::to_string)),
    });
    if kinds.is_empty() { "none".to_owned() } else { said.collect::<Vec<_>>().join(", ") }
}

fn health(device: &DeviceSample) -> Group {
    let health = &device.health;
    let yes = |flag: &bool| if *flag { "yes" } else { "no" }.to_owned();
    let figures = vec![
        ("ECC", said(&health.ecc, |on| if *on { "on" } else { "off" }.to_owned())),
        ("corrected", said(&health.corrected, plain)),
        ("uncorrected", said(&health.uncorrected, plain)),
        ("pages retired", said(&health.retired_pages, plain)),
        ("rows replaced", said(&health.remapped_rows, plain)),
        ("to be reset", said(&health.repair_pending, yes)),
        ("Xid events", said(&health.xids, |xids| xids.count.to_string())),
    ];
    ("errors", figures)
}

fn board(device: &DeviceSample) -> Group {
    let board = &device.board;
    let safe = |text: &String| printable(text);
    let figures = vec![
        ("PCI", said(&board.pci, safe)),
        ("chip", pair((&board.architecture, safe), ", compute ", (&board.capability, safe))),
        ("video BIOS", said(&board.vbios, safe)),
        ("NUMA node", said(&board.numa_node, plain)),
    ];
    ("board", figures)
}
