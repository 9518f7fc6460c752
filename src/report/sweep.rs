//! A sweep for people and for scripts: a row a plan, and the two walls.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::csv::{cell, table};
use super::json::number;
use super::page::paragraph;
use super::table::{Align, Table};
use super::text::{grouped, shortened};
use crate::advise::{AxisWalls, BandwidthWall, CapacityWall, Sweep, SweepPoint, throughput};
use crate::predict::{Bottleneck, Breakdown, Component, Outline, Traffic, Verdict};
use crate::units::{Bytes, Fraction, GIB, three_figures};

/// Lines along which walls are told; a larger grid's are in the JSON.
const MOST_LINES: usize = 16;

/// Cells of a value.
const VALUE: usize = 24;

/// The sweep of the plan of that name, as text.
#[must_use]
pub fn text(plan: &str, sweep: &Sweep, width: usize) -> String {
    let mut text = String::new();
    let keys: Vec<&str> = sweep.axes.iter().map(|axis| axis.key.path).collect();
    paragraph(&mut text, "", &format!("{plan}: {} plans over {}", sweep.points.len(), keys.join(" x ")), width);
    if !sweep.walls.is_empty() {
        walls(&mut text, sweep, width);
    }
    text.push('\n');
    text.push_str(&rows(sweep).render("  ", width));
    let answers = outlines(sweep).any(|outline| outline.decode.is_some());
    let of = if answers { "the prefill" } else { "a step" };
    let _ = writeln!(text, "\ntraffic of {of} on one GPU by kind, GiB; demand and share of its peak");
    text.push_str(&traffic(sweep).render("  ", width));
    text.push_str("\nmemory of a GPU at the peak by component, GiB\n");
    text.push_str(&components(sweep).render("  ", width));
    let capacities = capacities(sweep);
    if let [one] = capacities.as_slice() {
        let _ = writeln!(text, "\nGiB: device-used of {one} on each GPU");
    } else if !capacities.is_empty() {
        text.push_str("\nGiB: device-used on each GPU, of its capacity\n");
    }
    text
}

/// How much the GPUs have, each size once.
fn capacities(sweep: &Sweep) -> Vec<Bytes> {
    let mut all: Vec<Bytes> = outlines(sweep).map(|outline| outline.capacity.bytes).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn outlines(sweep: &Sweep) -> impl Iterator<Item = &Outline> {
    sweep.points.iter().filter_map(|point| point.outcome.as_ref().ok())
}

/// A column of figures: its head, and its cell for a plan.
type Column = (&'static str, Align, fn(&Outline) -> String);

/// What the plans of a sweep are told by: training in steps; answering in the reading of the prompts and in what is
/// written then.
fn columns(sweep: &Sweep) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![("GiB", Align::Right, |outline| outline.capacity.needed.in_gib())];
    if capacities(sweep).len() > 1 {
        columns.push(("of", Align::Right, |outline| outline.capacity.bytes.in_gib()));
    }
    columns.push(("fits", Align::Left, |outline| verdict(outline).to_owned()));
    if outlines(sweep).any(|outline| outline.decode.is_some()) {
        let prompts = |outline: &Outline| outline.time.tokens_per_s.map_or_else(none, grouped);
        let token = |outline: &Outline| outline.decode.as_ref().map_or_else(none, |time| time.step.to_string());
        columns.push(("prefill", Align::Right, |outline| outline.time.step.to_string()));
        columns.push(("prompt tokens/s", Align::Right, prompts));
        columns.push(("a token each", Align::Right, token));
    } else {
        columns.push(("step", Align::Right, |outline| outline.time.step.to_string()));
    }
    columns.push((rate_name(sweep), Align::Right, |outline| grouped(throughput(outline))));
    columns.push(("a GiB", Align::Right, |outline| grouped(per_gib(outline))));
    if outlines(sweep).any(|outline| outline.time.mfu.is_some()) {
        let mfu = |outline: &Outline| outline.time.mfu.map_or_else(none, |mfu| three_figures(100.0 * mfu));
        columns.push(("MFU %", Align::Right, mfu));
    }
    columns
}

/// What a GiB of all GPUs' memory gets done in a second.
fn per_gib(outline: &Outline) -> f64 {
    let all = outline.capacity.needed.as_f64() / GIB as f64 * outline.num_gpus as f64;
    throughput(outline) / all
}

/// A column for each kind of traffic that any plan has.
fn traffic(sweep: &Sweep) -> Table {
    type Kind = (&'static str, fn(Traffic) -> Bytes);
    const KINDS: [Kind; 4] = [
        ("parameters", |traffic| traffic.parameters),
        ("gradients", |traffic| traffic.gradients),
        ("activations", |traffic| traffic.activations),
        ("states", |traffic| traffic.optimizer_states),
    ];
    let seen = |(_, of): &Kind| breakdowns(sweep).any(|breakdown| of(breakdown.traffic) > Bytes::ZERO);
    let kinds: Vec<Kind> = KINDS.into_iter().filter(seen).collect();
    let heads = kinds.iter().map(|(name, _)| *name).chain(["in all", "demand", "% of peak"]);
    let mut table = Table::new(axis_heads(sweep).chain(heads.map(|head| (head, Align::Right))));
    for point in &sweep.points {
        let (Ok(outline), Some(breakdown)) = (&point.outcome, &point.breakdown) else { continue };
        let each = kinds.iter().map(|(_, of)| of(breakdown.traffic).in_gib());
        // Of a model that answers both are of reading the prompts.
        let time = &outline.time;
        let demand = [time.bandwidth.to_string(), format!("{:.0}", 100.0 * time.mbu)];
        let cells = each.chain([breakdown.traffic.total().in_gib()]).chain(demand);
        table.row(values(sweep, point).chain(cells));
    }
    table
}

/// A column for each component that any plan has.
fn components(sweep: &Sweep) -> Table {
    let seen = |component: &Component| {
        breakdowns(sweep).any(|breakdown| breakdown.components[*component as usize] > Bytes::ZERO)
    };
    let all: Vec<Component> = Component::ALL.into_iter().filter(seen).collect();
    let heads = all.iter().map(|component| (SHORT[*component as usize], Align::Right));
    let mut table = Table::new(axis_heads(sweep).chain(heads));
    for point in &sweep.points {
        let Some(breakdown) = &point.breakdown else { continue };
        let cells = all.iter().map(|component| breakdown.components[*component as usize].in_gib());
        table.row(values(sweep, point).chain(cells));
    }
    table
}

/// Components in a word, in the order of [`Component::ALL`].
const SHORT: [&str; Component::ALL.len()] =
    ["weights", "gradients", "states", "activations", "temporary", "KV cache", "buffers", "overhead"];

fn breakdowns(sweep: &Sweep) -> impl Iterator<Item = &Breakdown> {
    sweep.points.iter().filter_map(|point| point.breakdown.as_ref())
}

fn axis_heads(sweep: &Sweep) -> impl Iterator<Item = (&'static str, Align)> {
    sweep.axes.iter().map(|axis| {
        let align = if axis.numbers().is_some() { Align::Right } else { Align::Left };
        (axis.key.name(), align)
    })
}

fn values<'a>(sweep: &'a Sweep, point: &'a SweepPoint) -> impl Iterator<Item = String> + 'a {
    (0..sweep.axes.len()).map(|axis| shortened(sweep.value(point, axis), VALUE))
}

fn none() -> String {
    "–".to_owned()
}

fn verdict(outline: &Outline) -> &'static str {
    match outline.capacity.verdict() {
        Verdict::Fits => "yes",
        Verdict::Tight => "tight",
        Verdict::DoesNotFit => "no",
    }
}

fn rows(sweep: &Sweep) -> Table {
    let columns = columns(sweep);
    let heads = axis_heads(sweep);
    let figures = columns.iter().map(|(head, align, _)| (*head, *align));
    let mut table = Table::new(heads.chain(figures).chain([("", Align::Left)]));
    for point in &sweep.points {
        let values = values(sweep, point);
        let (cells, reason): (Vec<String>, String) = match &point.outcome {
            Ok(outline) => {
                let link = point.link.as_ref().map_or_else(String::new, |link| format!("also interconnect {link}"));
                (columns.iter().map(|(.., cell)| cell(outline)).collect(), link)
            }
            Err(reason) => (columns.iter().map(|_| none()).collect(), reason.to_string()),
        };
        table.row(values.chain(cells).chain([reason]));
    }
    table
}

/// What is counted a second: the same for all plans of one kind of model.
pub(super) fn rate_name(sweep: &Sweep) -> &'static str {
    match outlines(sweep).next() {
        Some(outline) if outline.decode.is_some() => "answer tokens/s",
        Some(outline) if outline.time.tokens_per_s.is_none() => "samples/s",
        _ => "tokens/s",
    }
}

/// Both walls: two sentences where there is one line of values, a table where the grid has several.
fn walls(text: &mut String, sweep: &Sweep, width: usize) {
    if let [wall] = sweep.walls.as_slice() {
        let name = sweep.axes[wall.axis].key.name();
        let open = unpredicted(sweep, wall);
        let known = if open > 0 { format!("{name} that can be predicted") } else { name.to_owned() };
        let memory = match wall.capacity {
            CapacityWall::AllFit if open > 0 => format!("unknown, every {known} fits, {open} cannot be predicted"),
            CapacityWall::AllFit => format!("none, every {name} fits"),
            CapacityWall::NoneFits if open > 0 => format!("no {known} fits, {open} cannot be predicted"),
            CapacityWall::NoneFits => format!("no {name} fits"),
            CapacityWall::Between { fits, too_large } => {
                format!("{name} {} fits, {} does not", with_use(sweep, fits, wall), with_use(sweep, too_large, wall))
            }
        };
        paragraph(text, "", &format!("capacity wall: {memory}"), width);
        let speed = match wall.throughput {
            BandwidthWall::Grows => format!("none, throughput still grows at the largest {known}"),
            BandwidthWall::Flat { from, gain, end } => {
                let at = with_rate(sweep, from, wall);
                let falls = wall.throughput.falls();
                let turns = if falls && gain <= 0.0 { "is highest" } else { "flattens" };
                let then = if falls { format!(", and the largest {} less", Fraction(-end)) } else { String::new() };
                format!("throughput {turns} at {name} {at}; {}{then}", beyond(gain))
            }
        };
        return paragraph(text, "", &format!("{}: {speed}", wall_name(sweep, wall)), width);
    }
    let heads = ["along", "where", "memory ends: fits, does not", "throughput flattens or falls"];
    let mut table = Table::new(heads.map(|head| (head, Align::Left)));
    for wall in sweep.walls.iter().take(MOST_LINES) {
        let known = if unpredicted(sweep, wall) > 0 { " of those predicted" } else { "" };
        let memory = match wall.capacity {
            CapacityWall::AllFit => format!("all{known} fit"),
            CapacityWall::NoneFits => format!("none{known} fits"),
            CapacityWall::Between { fits, too_large } => {
                format!("{}, {}", with_use(sweep, fits, wall), with_use(sweep, too_large, wall))
            }
        };
        let speed = match wall.throughput {
            BandwidthWall::Grows => "still grows".to_owned(),
            BandwidthWall::Flat { from, .. } => with_rate(sweep, from, wall),
        };
        table.row([sweep.axes[wall.axis].key.name().to_owned(), held(sweep, wall), memory, speed]);
    }
    text.push_str(&table.render("", width));
    if sweep.walls.len() > MOST_LINES {
        let _ = writeln!(text, "{} further lines of the grid: see --format json", sweep.walls.len() - MOST_LINES);
    }
}

/// The wall at which throughput ends, by what most of the time goes to there.
fn wall_name(sweep: &Sweep, wall: &AxisWalls) -> &'static str {
    let BandwidthWall::Flat { from, .. } = wall.throughput else { return "throughput wall" };
    let time = |outline: &Outline| outline.decode.as_ref().unwrap_or(&outline.time).bottleneck();
    match sweep.points[from].outcome.as_ref().map(time) {
        Ok(Bottleneck::Hbm) => "bandwidth wall",
        Ok(Bottleneck::Compute) => "throughput wall (compute-bound)",
        Ok(Bottleneck::Link) => "throughput wall (bound by links)",
        Ok(Bottleneck::Bubble) => "throughput wall (pipeline bubble)",
        Ok(Bottleneck::Launch) => "throughput wall (waits for the host)",
        Err(_) => "throughput wall",
    }
}

/// How many plans of the wall's line are none.
fn unpredicted(sweep: &Sweep, wall: &AxisWalls) -> usize {
    let line = &sweep.points[wall.line].at;
    let along = |point: &&SweepPoint| {
        point.at.iter().zip(line).enumerate().all(|(axis, (own, of_line))| axis == wall.axis || own == of_line)
    };
    sweep.points.iter().filter(along).filter(|point| point.outcome.is_err()).count()
}

/// What the other axes are on the wall's line.
fn held(sweep: &Sweep, wall: &AxisWalls) -> String {
    let line = &sweep.points[wall.line];
    let others = (0..sweep.axes.len()).filter(|axis| *axis != wall.axis);
    others
        .map(|axis| format!("{} {}", sweep.axes[axis].key.name(), shortened(sweep.value(line, axis), VALUE)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn with_use(sweep: &Sweep, at: usize, wall: &AxisWalls) -> String {
    let point = &sweep.points[at];
    let used = point.outcome.as_ref().map_or_else(|_| "–".to_owned(), |outline| outline.capacity.needed.to_string());
    format!("{} ({used})", sweep.value(point, wall.axis))
}

fn with_rate(sweep: &Sweep, at: usize, wall: &AxisWalls) -> String {
    let point = &sweep.points[at];
    let rate = point.outcome.as_ref().map_or(0.0, throughput);
    format!("{} ({} {})", sweep.value(point, wall.axis), grouped(rate), rate_name(sweep))
}

fn beyond(gain: f64) -> String {
    if gain > 0.0005 {
        format!("larger ones bring {} more at most", Fraction(gain))
    } else {
        "larger ones bring nothing".to_owned()
    }
}

/// The sweep as one JSON object; figures as in the report of a plan.
#[must_use]
pub fn json(plan: &str, sweep: &Sweep) -> Value {
    json!({
        "plan": plan,
        "axes": sweep.axes.iter().map(|axis| json!({"key": axis.key.path, "values": axis.values})).collect::<Vec<_>>(),
        "rows": sweep.points.iter().map(|point| Value::Object(row(sweep, point))).collect::<Vec<_>>(),
        "walls": sweep.walls.iter().map(|wall| wall_json(sweep, wall)).collect::<Vec<_>>(),
    })
}

/// The sweep as CSV: a row a plan.
///
/// # Errors
/// Where a row cannot be written.
pub fn csv(sweep: &Sweep) -> Result<String, ::csv::Error> {
    table(
        sweep
            .points
            .iter()
            .map(|point| row(sweep, point).into_iter().map(|(name, value)| (name, cell(&value))).collect()),
    )
}

fn row(sweep: &Sweep, point: &SweepPoint) -> Map<String, Value> {
    let outline = point.outcome.as_ref().ok();
    let mut row = Map::new();
    for (axis, one) in sweep.axes.iter().enumerate() {
        row.insert(one.key.path.to_owned(), Value::from(sweep.value(point, axis)));
    }
    figures_json(outline, &mut row);
    breakdown_json(point, &mut row);
    // Of each plan its own, where its GPU does not have the plan's.
    row.insert("also_interconnect".to_owned(), point.link.as_deref().map_or(Value::Null, Value::from));
    row.insert(
        "reason".to_owned(),
        point.outcome.as_ref().err().map_or(Value::Null, |reason| Value::from(reason.to_string())),
    );
    row
}

/// What a plan's memory and traffic are for, in one row; null where there is no plan.
fn breakdown_json(point: &SweepPoint, row: &mut Map<String, Value>) {
    let (outline, breakdown) = (point.outcome.as_ref().ok(), point.breakdown.as_ref());
    let mut put = |name: String, value: Option<Value>| row.insert(name, value.unwrap_or(Value::Null));
    put("throughput_per_gib".to_owned(), outline.map(|outline| number(per_gib(outline))));
    let time = outline.map(|outline| outline.decode.as_ref().unwrap_or(&outline.time));
    put("bandwidth_gb_s".to_owned(), time.map(|time| number(time.bandwidth.0 / 1e9)));
    put("mbu".to_owned(), time.map(|time| number(time.mbu)));
    put("bottleneck".to_owned(), time.map(|time| Value::from(time.bottleneck().word())));
    let traffic = breakdown.map(|breakdown| breakdown.traffic);
    put("traffic.total".to_owned(), traffic.map(|traffic| traffic.total().0.into()));
    put("traffic.parameters".to_owned(), traffic.map(|traffic| traffic.parameters.0.into()));
    put("traffic.gradients".to_owned(), traffic.map(|traffic| traffic.gradients.0.into()));
    put("traffic.activations".to_owned(), traffic.map(|traffic| traffic.activations.0.into()));
    put("traffic.optimizer_states".to_owned(), traffic.map(|traffic| traffic.optimizer_states.0.into()));
    for component in Component::ALL {
        let bytes = breakdown.map(|breakdown| breakdown.components[component as usize].0.into());
        put(format!("memory.{}", component.key()), bytes);
    }
}

/// The figures of a plan in one row; null where there are none.
pub(super) fn figures_json(outline: Option<&Outline>, row: &mut Map<String, Value>) {
    let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
    let figure = |of: fn(&Outline) -> Option<f64>| number(outline.and_then(of));
    put("fits", outline.map_or(Value::Null, |outline| Value::from(outline.capacity.needed <= outline.capacity.bytes)));
    put("device_used", outline.map_or(Value::Null, |outline| Value::from(outline.capacity.needed.0)));
    put("capacity", outline.map_or(Value::Null, |outline| Value::from(outline.capacity.bytes.0)));
    put("step_s", figure(|outline| Some(outline.time.step.0)));
    put("tokens_per_s", figure(|outline| outline.time.tokens_per_s));
    put("samples_per_s", figure(|outline| Some(outline.time.samples_per_s)));
    put("mfu", figure(|outline| outline.time.mfu));
    put("communication_s", figure(|outline| Some(outline.time.communication.0)));
    put("bubble_s", figure(|outline| Some(outline.time.bubble.0)));
    put("decode_tokens_per_s", figure(|outline| outline.decode.as_ref()?.tokens_per_s));
}

fn wall_json(sweep: &Sweep, wall: &AxisWalls) -> Value {
    let value = |at: usize| Value::from(sweep.value(&sweep.points[at], wall.axis));
    let line = &sweep.points[wall.line];
    let held: Map<String, Value> = (0..sweep.axes.len())
        .filter(|axis| *axis != wall.axis)
        .map(|axis| (sweep.axes[axis].key.path.to_owned(), Value::from(sweep.value(line, axis))))
        .collect();
    let (word, fits, too_large) = match wall.capacity {
        CapacityWall::Between { fits, too_large } => ("between", value(fits), value(too_large)),
        CapacityWall::AllFit => ("all fit", Value::Null, Value::Null),
        CapacityWall::NoneFits => ("none fits", Value::Null, Value::Null),
    };
    let (flat, gain) = match wall.throughput {
        BandwidthWall::Flat { from, gain, .. } => (value(from), number(gain)),
        BandwidthWall::Grows => (Value::Null, Value::Null),
    };
    json!({
        "key": sweep.axes[wall.axis].key.path,
        "held": held,
        "capacity": {"wall": word, "fits": fits, "too_large": too_large},
        "bandwidth": {"flat_from": flat, "gain_beyond": gain},
    })
}
