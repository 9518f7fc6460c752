//! Everything that is known of one device.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use super::facts;
use super::percent;
use crate::app::{Pane, State};
use crate::printable::printable;
use crate::reading::{DeviceSample, Health, NvLinks, Peer, Reading};
use crate::ui::Look;
use crate::ui::text::{RenderLine, fit, left, marked};
use crate::units::{Celsius, Fraction, Megahertz};

/// Least cells of a column.
const COLUMN: usize = 31;
/// Cells of a label.
const LABEL: usize = 13;

/// Figures that belong together.
type MetricGroup = (&'static str, Vec<(&'static str, String)>);

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let Some(device) = state.monitor.devices().get(state.monitor.shown_device()) else { return };
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    let name = device.name.value().map_or_else(|| "unnamed".to_owned(), |name| printable(name));
    let uuid = device.uuid.value().map(|uuid| printable(uuid)).unwrap_or_default();
    let place = device.location.as_ref().filter(|_| state.monitor.cluster.is_there());
    let place = place.map_or_else(String::new, |place| format!("  {}", printable(&place.label())));
    let arrow = if state.views.focus == Pane::Monitor { "▸" } else { " " };
    Line::from(vec![
        Span::styled(format!("{arrow}GPU {} {name}", device.label()), theme.text()),
        Span::styled(place, theme.text()),
        Span::styled(format!("  {uuid}"), theme.dim()),
    ])
    .render(head, buffer);
    let trouble =
        facts::trouble(device).map_or_else(Line::default, |text| Line::styled(format!(" {text}"), theme.danger()));
    trouble.render(Rect { y: head.y + 1, height: 1, ..head }, buffer);
    let groups = [memory(device), compute(device), power(device), links(device), health(device), board(device)];
    let columns = ((body.width as usize) / COLUMN).max(1);
    let filled = filled(&groups, columns, (body.height as usize).max(1));
    let pages = filled.len().div_ceil(columns).max(1);
    let page = state.monitor.page % pages;
    let width = body.width / columns as u16;
    for (column, rows) in filled.iter().skip(page * columns).take(columns).enumerate() {
        let place = Rect { x: body.x + column as u16 * width, width: width.saturating_sub(1), ..body };
        for (row, place) in rows.iter().zip(place.rows()) {
            row.line(look, place.width as usize).render(place, buffer);
        }
    }
    if pages > 1 {
        let more = format!(" {} of {pages}: PgDn ", page + 1);
        Line::styled(more, theme.accent()).right_aligned().render(Rect { y: head.y + 1, height: 1, ..head }, buffer);
    }
}

/// A row of a column.
enum Row<'a> {
    Title(&'static str),
    Figure(&'static str, &'a str),
}

impl Row<'_> {
    fn line(&self, look: &Look, width: usize) -> Line<'static> {
        let theme = &look.theme;
        match self {
            Self::Title(title) => Line::styled(*title, theme.accent()),
            Self::Figure(label, text) => {
                let style = if text.starts_with('–') { theme.dim() } else { theme.text() };
                Line::from(vec![
                    Span::styled(left(&format!(" {label}"), LABEL), theme.dim()),
                    Span::styled(fit(text, width.saturating_sub(LABEL)), style),
                ])
            }
        }
    }
}

/// Columns of at most `height` rows: each group whole in one where that takes no more pages; else
/// they run on, with the title again where a group goes on in the next column.
fn filled(groups: &[MetricGroup], columns: usize, height: usize) -> Vec<Vec<Row<'_>>> {
    let whole = whole(groups, height);
    let running = running(groups, height);
    let pages = |columned: &[Vec<Row<'_>>]| columned.len().div_ceil(columns);
    if whole.iter().all(|column| column.len() <= height) && pages(&whole) <= pages(&running) { whole } else { running }
}

fn rows(group: &MetricGroup) -> impl Iterator<Item = Row<'_>> {
    let (title, figures) = group;
    std::iter::once(Row::Title(title)).chain(figures.iter().map(|(label, text)| Row::Figure(label, text)))
}

fn whole(groups: &[MetricGroup], height: usize) -> Vec<Vec<Row<'_>>> {
    let mut columns: Vec<Vec<Row<'_>>> = Vec::new();
    for group in groups {
        match columns.last_mut() {
            Some(column) if column.len() + 1 + group.1.len() <= height => column.extend(rows(group)),
            _ => columns.push(rows(group).collect()),
        }
    }
    columns
}

fn running(groups: &[MetricGroup], height: usize) -> Vec<Vec<Row<'_>>> {
    let mut columns: Vec<Vec<Row<'_>>> = vec![Vec::new()];
    for group in groups {
        for row in rows(group) {
            let filled = columns.last().map_or(0, Vec::len);
            // A title stands with a figure below it.
            let needed = if matches!(row, Row::Title(_)) { 2 } else { 1 };
            if filled + needed > height {
                let again = matches!(row, Row::Figure(..)) && height > 1;
                columns.push(if again { vec![Row::Title(group.0)] } else { Vec::new() });
            }
            if let Some(column) = columns.last_mut() {
                column.push(row);
            }
        }
    }
    columns
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

/// A clock of the highest one: the unit once.
fn clock(now: &Reading<Megahertz>, most: &Reading<Megahertz>) -> String {
    match most.value() {
        Some(_) => pair((now, |now| format!("{:.0}", now.0)), " of ", (most, plain)),
        None => said(now, plain),
    }
}

fn memory(device: &DeviceSample) -> MetricGroup {
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

fn compute(device: &DeviceSample) -> MetricGroup {
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

fn power(device: &DeviceSample) -> MetricGroup {
    let board = &device.board;
    let slowed =
        said(&device.throttle, |reasons| if reasons.is_empty() { "no".to_owned() } else { reasons.join(", ") });
    let figures = vec![
        ("power", pair((&device.power, plain), " of ", (&device.power_limit, plain))),
        ("energy", said(&board.energy, plain)),
        ("temperature", pair((&device.temperature, degrees), ", mem ", (&board.memory_temperature, degrees))),
        ("fan", said(&board.fan, percent)),
        ("SM clock", clock(&device.sm_clock, &device.sm_clock_max)),
        ("mem clock", clock(&device.memory_clock, &board.memory_clock_max)),
        ("slowed", slowed),
        ("· by power", said(&board.slowed_by_power, of_time)),
        ("· by heat", said(&board.slowed_by_heat, of_time)),
        ("state", said(&board.performance_state, |state| format!("P{state}"))),
    ];
    ("power and clocks", figures)
}

fn links(device: &DeviceSample) -> MetricGroup {
    let links = &device.links;
    let nvlinks = said(&links.nvlinks, |NvLinks { active, all, version }| {
        let version = version.map_or_else(String::new, |version| format!(", v{version}"));
        format!("{active} of {all} up{version}{}", link_errors(&device.health))
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
        ("· errors", said(&links.nvlink_errors, plain)),
        ("others", said(&links.peers, |peers| ways(peers))),
    ];
    ("links", figures)
}

/// Errors over NVLink since the driver was loaded; nothing where there were none, or nobody tells.
fn link_errors(health: &Health) -> String {
    let kinds = [
        (&health.nvlink_recoveries, "recoveries"),
        (&health.nvlink_crc_errors, "CRC errors"),
        (&health.nvlink_replays, "replays"),
    ];
    let told = kinds.iter().filter_map(|(errors, what)| Some((errors.value().filter(|count| **count > 0)?, what)));
    told.map(|(count, what)| format!(", {count} {what}")).collect()
}

/// The ways to other GPUs, those that are alike together: `1-3 one PCIe switch`.
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

/// Errors of SRAM, and whether they are too many.
fn in_sram(health: &Health) -> String {
    let count = said(&health.sram_uncorrected, plain);
    if health.sram_exceeded.value() == Some(&true) { format!("{count}, beyond its threshold") } else { count }
}

fn health(device: &DeviceSample) -> MetricGroup {
    let health = &device.health;
    let yes = |flag: &bool| if *flag { "yes" } else { "no" }.to_owned();
    let figures = vec![
        ("ECC", said(&health.ecc, |on| if *on { "on" } else { "off" }.to_owned())),
        ("corrected", said(&health.corrected, plain)),
        ("uncorrected", said(&health.uncorrected, plain)),
        ("· in SRAM", in_sram(health)),
        ("bad pages", said(&health.retired_pages, plain)),
        ("bad rows", said(&health.remapped_rows, plain)),
        ("to be reset", said(&health.repair_pending, yes)),
        ("Xid events", said(&health.xids, |xids| xids.count.to_string())),
    ];
    ("errors", figures)
}

fn board(device: &DeviceSample) -> MetricGroup {
    let board = &device.board;
    let safe = |text: &String| printable(text);
    let figures = vec![
        ("PCI", said(&board.pci, safe)),
        ("serial", said(&board.serial, safe)),
        ("chip", pair((&board.architecture, safe), ", compute ", (&board.capability, safe))),
        ("video BIOS", said(&board.vbios, safe)),
        ("NUMA node", said(&board.numa_node, plain)),
    ];
    ("board", figures)
}
