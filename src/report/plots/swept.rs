//! Sweeps along their first axis, and the front of a search.

use super::{gib, plan_name};
use crate::advise::{BandwidthWall, CapacityWall, SearchOutcome, Sweep, SweepPoint, throughput};
use crate::order::StableOrder;
use crate::predict::Outline;
use crate::report::plot::{BLACK, GREY, INKS, LIMIT, Plot, PlotAxis, PlotLabel, PlotLayer, WHITE};
use crate::report::sweep::rate_name;
use crate::report::text::grouped;

/// Lines that can be told apart.
const MOST_LINES: usize = INKS.len() - 1;

/// Memory and throughput along the axis that varies most, a line for each value of the others, with both walls.
#[must_use]
pub fn sweep(plan: &str, sweep: &Sweep) -> Vec<Plot> {
    let Some(along) = axis(sweep) else { return Vec::new() };
    let place = |point: &SweepPoint| match sweep.axes[along].numbers() {
        Some(numbers) => numbers[point.at[along]],
        None => point.at[along] as f64 + 0.5,
    };
    let name = sweep.axes[along].key.path;
    let x = match sweep.axes[along].numbers() {
        Some(numbers) => {
            let ticks = numbers.iter().zip(&sweep.axes[along].values).map(|(at, value)| (*at, value.clone()));
            let mut ticks: Vec<(f64, String)> = ticks.collect();
            ticks.order_by(|a, b| a.0.total_cmp(&b.0));
            PlotAxis::over(name, numbers.iter().copied()).with_ticks(ticks)
        }
        None => PlotAxis::named(name, sweep.axes[along].values.iter().cloned()),
    };
    let figure = |title: &str, label: &str, of: &dyn Fn(&Outline) -> f64| {
        let values: Vec<f64> = sweep.points.iter().filter_map(|point| Some(of(point.outcome.as_ref().ok()?))).collect();
        let lines = lines(sweep, along).into_iter().take(MOST_LINES).enumerate().flat_map(|(at, (name, points))| {
            let mut points: Vec<(f64, f64)> =
                points.into_iter().filter_map(|point| Some((place(point), of(point.outcome.as_ref().ok()?)))).collect();
            points.order_by(|a, b| a.0.total_cmp(&b.0));
            let dots = PlotLayer::dots(None, INKS[at], INKS[at], points.clone());
            let mut line = PlotLayer::line(name.clone(), INKS[at], points);
            line.name = line.name.filter(|name| !name.is_empty());
            [line, dots]
        });
        Plot {
            title: format!("{title} over {name}: {}", plan_name(plan)),
            x: x.clone(),
            y: PlotAxis::over(label, values),
            layers: lines.collect(),
            labels: Vec::new(),
        }
    };
    let mut memory = figure("Memory", "device-used on a GPU, GiB", &|outline| gib(outline.capacity.needed));
    let mut rate = figure("Throughput", rate_name(sweep), &throughput);
    capacities(sweep, along, &place, &mut memory);
    walls(sweep, along, &place, (&mut memory, &mut rate));
    vec![memory, rate]
}

/// The axis of numbers with most values, else the first.
fn axis(sweep: &Sweep) -> Option<usize> {
    let numbers = (0..sweep.axes.len()).filter(|axis| sweep.axes[*axis].numbers().is_some());
    numbers.max_by_key(|axis| (sweep.axes[*axis].values.len(), usize::MAX - axis)).or(if sweep.axes.is_empty() {
        None
    } else {
        Some(0)
    })
}

/// The points of each line along an axis, with what the other axes are on it.
fn lines(sweep: &Sweep, along: usize) -> Vec<(String, Vec<&SweepPoint>)> {
    let mut lines: Vec<(String, Vec<&SweepPoint>)> = Vec::new();
    for point in &sweep.points {
        let others = (0..sweep.axes.len()).filter(|axis| *axis != along);
        let name = others.map(|axis| format!("{} {}", sweep.axes[axis].key.name(), sweep.value(point, axis)));
        let name = name.collect::<Vec<_>>().join(", ");
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines
}

/// The GPU's memory, where it is one size and in reach.
fn capacities(sweep: &Sweep, along: usize, place: &dyn Fn(&SweepPoint) -> f64, memory: &mut Plot) {
    let mut sizes: Vec<_> =
        sweep.points.iter().filter_map(|point| Some(point.outcome.as_ref().ok()?.capacity.bytes)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let [size] = sizes.as_slice() else { return };
    let most = sweep.points.iter().filter_map(|point| Some(gib(point.outcome.as_ref().ok()?.capacity.needed)));
    memory.y = PlotAxis::over(&memory.y.label, most.chain([gib(*size)]));
    let named = sweep.axes[along].values.len() as f64;
    let places = sweep.points.iter().map(place);
    let (from, to) = match sweep.axes[along].numbers() {
        None => (0.0, named),
        Some(_) => places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at))),
    };
    memory.layers.push(PlotLayer::dashed(LIMIT, vec![(from, gib(*size)), (to, gib(*size))]));
    memory.labels.push(PlotLabel { at: (from, gib(*size)), words: format!("capacity {size}"), ink: LIMIT });
}

fn walls(sweep: &Sweep, along: usize, place: &dyn Fn(&SweepPoint) -> f64, (memory, rate): (&mut Plot, &mut Plot)) {
    for wall in sweep.walls.iter().filter(|wall| wall.axis == along).take(MOST_LINES) {
        let figures = |at: usize| sweep.points[at].outcome.as_ref().ok();
        if let CapacityWall::Between { fits, .. } = wall.capacity
            && let Some(outline) = figures(fits)
        {
            let at = (place(&sweep.points[fits]), gib(outline.capacity.needed));
            let words = format!("{} is the last that fits", sweep.value(&sweep.points[fits], along));
            memory.labels.push(PlotLabel { at, words, ink: BLACK });
        }
        if let BandwidthWall::Flat { from, .. } = wall.throughput
            && let Some(outline) = figures(from)
        {
            let at = (place(&sweep.points[from]), throughput(outline));
            let words = format!("flat from {} on", sweep.value(&sweep.points[from], along));
            rate.labels.push(PlotLabel { at, words, ink: BLACK });
        }
    }
}

/// Memory against throughput of the plans that a search ranked, with its front: nothing is better in both.
#[must_use]
pub fn pareto(plan: &str, found: &SearchOutcome) -> Plot {
    let at = |outline: &Outline| (gib(outline.capacity.needed), throughput(outline));
    let ranked: Vec<(f64, f64)> = found.ranked.iter().map(|one| at(&one.outline)).collect();
    let mut front: Vec<(f64, f64)> = found.front.iter().map(|one| at(&one.outline)).collect();
    front.order_by(|a, b| a.0.total_cmp(&b.0));
    let own = found.own.as_ref().ok().map(|own| at(&own.outline));
    let all = || ranked.iter().chain(&front).copied().chain(own);
    let unit = match found.ranked.first().map(|one| one.outline.decode.as_ref().unwrap_or(&one.outline.time)) {
        Some(time) if time.tokens_per_s.is_none() => "samples/s",
        _ => "tokens/s",
    };
    let mut labels = Vec::new();
    if let Some(best) = found.ranked.first() {
        let words = format!("best: {} {unit}", grouped(throughput(&best.outline)));
        labels.push(PlotLabel { at: at(&best.outline), words, ink: BLACK });
    }
    labels.extend(own.map(|at| PlotLabel { at, words: "the plan as it is".to_owned(), ink: LIMIT }));
    Plot {
        title: format!("Memory against throughput: {}", plan_name(plan)),
        x: PlotAxis::over("device-used on a GPU, GiB", all().map(|(x, _)| x)),
        y: PlotAxis::over(unit, all().map(|(_, y)| y)),
        layers: vec![
            PlotLayer::line("front", INKS[0], front.clone()),
            PlotLayer::dots(Some("ranked".to_owned()), GREY, WHITE, ranked),
            PlotLayer::dots(None, INKS[0], INKS[0], front),
            PlotLayer::dots(Some("as it is".to_owned()), LIMIT, LIMIT, own.into_iter().collect()),
        ],
        labels,
    }
}
