//! What a run with the hook came to, for a few lines at its end.

mod modules;

pub use modules::modules_json;

use std::fmt::Write as _;

use crate::compare::{Forecast, forecast};
use crate::order::StableOrder;
use crate::predict::{Prediction, StageMemory};
use crate::printable::printable;
use crate::reading::{HookEnd, HookMemory, HookStep, HookedRun, Moment, Reading};
use crate::units::{Bytes, grouped, three_figures};

/// The process that held most, with its newest step.
#[must_use]
pub fn fullest(runs: &[HookedRun]) -> Option<(&HookedRun, &HookStep)> {
    let with_steps = runs.iter().filter_map(|run| Some((run, run.step.as_ref()?)));
    with_steps.max_by_key(|(run, step)| (step.peak_allocated.value().copied(), std::cmp::Reverse(run.pid)))
}

/// The run in a few lines, against the plan where there is one: the process that held most, then each of several.
/// `forgotten` processes were heard and are not among `runs`; the process `failed_first` failed before others did.
#[must_use]
pub fn summary(runs: &[HookedRun], forgotten: u64, plan: Option<&Prediction>, failed_first: Option<u32>) -> String {
    let mut text = String::new();
    match fullest(runs) {
        Some((run, step)) => {
            several(&mut text, runs, run);
            largest(&mut text, run, step);
            match plan.filter(|plan| plan.on_cpu && step.memory == HookMemory::Resident) {
                Some(plan) => resident(&mut text, run, step, plan),
                None => memory(&mut text, run, step, plan.map(Prediction::largest)),
            }
            growth(&mut text, run, step);
            if let Some(modules) = &run.modules {
                // What a pass keeps on a CPU is no figure of a plan for a GPU.
                let alike = plan.filter(|plan| plan.on_cpu || step.memory != HookMemory::Resident);
                modules::table(&mut text, modules, alike);
            }
        }
        None => without_steps(&mut text, runs, plan),
    }
    let nothing_seen = !runs.iter().any(|run| run.step.is_some() || run.modules.is_some());
    if runs.len() > 1 || (nothing_seen && !runs.is_empty()) {
        let mut each: Vec<&HookedRun> = runs.iter().collect();
        each.order_by_key(|run| (run.about.as_ref().and_then(|about| about.rank), run.pid));
        each.into_iter().for_each(|run| process(&mut text, run, failed_first == Some(run.pid)));
    }
    if forgotten > 0 {
        let _ = writeln!(text, "memwall: {forgotten} processes more were heard and are not listed");
    }
    text
}

/// Where no optimizer stepped: what the modules of a pass hold, if somebody looked into them.
fn without_steps(text: &mut String, runs: &[HookedRun], plan: Option<&Prediction>) {
    let seen = runs.iter().find_map(|run| Some((run.about.as_ref()?, run.modules.as_ref()?)));
    match seen {
        Some((about, modules)) => {
            let device = printable(about.device_name.as_deref().unwrap_or(&about.device));
            let _ = writeln!(text, "memwall: no optimizer step; {} parameters on {device}", grouped(about.params));
            modules::table(text, modules, plan);
        }
        None => text.push_str(
            "memwall: no optimizer step was observed (nothing that steps one, no PyTorch, or a Python that ignores \
             PYTHONPATH; --modules looks into a pass without one)\n",
        ),
    }
}

/// How many trainings there were, where the command started more than one: what follows is of the one that held most. The
/// ranks of one launcher are one training.
fn several(text: &mut String, runs: &[HookedRun], most: &HookedRun) {
    let with_steps = runs.iter().filter(|run| run.step.is_some());
    let mut trainings: Vec<(Option<u32>, u32)> = with_steps
        .map(|run| {
            let about = run.about.as_ref();
            match about.filter(|about| about.world.is_some_and(|world| world > 1)) {
                Some(about) => (about.torchrun, 0),
                None => (None, run.pid),
            }
        })
        .collect();
    trainings.sort_unstable();
    trainings.dedup();
    if trainings.len() > 1 {
        let _ = writeln!(text, "memwall: {} trainings; of process {}, which held most:", trainings.len(), most.pid);
    }
}

/// How far a peak may be the last one: a process that was killed tells nothing of what it held after it spoke last.
fn bound(run: &HookedRun) -> &'static str {
    if run.end.is_none() && run.exit.is_some_and(|(exit, _)| exit.code != Some(0)) { "at least" } else { "at most" }
}

/// The process that held most.
fn largest(text: &mut String, run: &HookedRun, step: &HookStep) {
    text.push_str("memwall: ");
    steps(text, run, step);
    if let Some(about) = &run.about {
        let _ = write!(
            text,
            "; {} parameters{}, {} on {}",
            grouped(about.params),
            if about.params_are_all { "" } else { " in the optimizer" },
            printable(&about.optimizer),
            printable(about.device_name.as_deref().unwrap_or(&about.device))
        );
        if let (Some(rank), Some(world)) = (about.rank, about.world.filter(|world| *world > 1)) {
            let _ = write!(text, ", rank {rank} of {world} held most");
        }
    }
    text.push('\n');
}

/// How many steps, and what they took: most of them, and the last ones where that is another time.
fn steps(text: &mut String, run: &HookedRun, step: &HookStep) {
    // A process that was killed tells nothing of the steps since it spoke last.
    let least = if run.end.is_none() { "at least " } else { "" };
    // Of a step that does not end its stack tells, and how many were before it.
    let made = run.places.as_ref().map_or(step.step, |places| places.step.max(step.step));
    let _ = write!(text, "{least}{made} step{}", if made == 1 { "" } else { "s" });
    if let Some([before, end]) = run.pace.turned() {
        let _ = write!(text, ", {before} each, {end} at the end");
    } else if let Some(each) = run.pace.usual() {
        let _ = write!(text, ", {each} each");
    }
}

/// One of several processes, in a line.
fn process(text: &mut String, run: &HookedRun, failed_first: bool) {
    text.push_str("memwall:   ");
    if let Some(rank) = run.about.as_ref().and_then(|about| about.rank) {
        let _ = write!(text, "rank {rank}, ");
    }
    if let Some(restarts) = run.about.as_ref().map(|about| about.restarts).filter(|restarts| *restarts > 0) {
        let _ = write!(text, "restart {restarts}, ");
    }
    let _ = write!(text, "process {}: ", run.pid);
    let Some(step) = &run.step else {
        text.push_str("no optimizer step was observed\n");
        return;
    };
    steps(text, run, step);
    let word = if step.memory == HookMemory::Resident { "resident" } else { "allocated" };
    if let Reading::Known { value, .. } = &step.peak_allocated {
        let _ = write!(text, ", {value} {word} {}", bound(run));
    }
    let seen = run.exit.map(|(exit, _)| exit).filter(|exit| exit.code != Some(0));
    let first = if failed_first { ", the first to end" } else { "" };
    match run.end.as_ref().and_then(HookEnd::words).or_else(|| seen?.words()) {
        Some(words) => {
            let _ = write!(text, "; ended with {}{first}", printable(&words));
        }
        None if failed_first => text.push_str("; ended without a word, the first to end"),
        None => {}
    }
    text.push('\n');
}

fn memory(text: &mut String, run: &HookedRun, step: &HookStep, plan: Option<&StageMemory>) {
    let figures = [
        ("allocated", &step.peak_allocated, plan.map(|plan| plan.peak_allocated)),
        ("reserved", &step.peak_reserved, plan.map(|plan| plan.peak_reserved)),
    ];
    if step.memory == HookMemory::Resident {
        if let Reading::Known { value, .. } = &step.peak_allocated {
            let note = if plan.is_some() { "; a plan predicts a GPU's memory" } else { "" };
            let _ = writeln!(text, "memwall: {value} resident {} (no GPU was used){note}", bound(run));
        }
        return;
    }
    for (name, observed, predicted) in figures {
        let Reading::Known { value, .. } = observed else { continue };
        let _ = write!(text, "memwall: {name} {value} {}", bound(run));
        if let Some(predicted) = predicted {
            let _ = write!(text, ", predicted {predicted}: {} ({})", *value - predicted, relative(*value, predicted));
        }
        text.push('\n');
    }
    if step.retries > 0 {
        let _ = writeln!(text, "memwall: the allocator freed its cache and tried again {} times", step.retries);
    }
}

/// Growth that is worth a word: a part of what was held before it, and that much at least.
const GROWN: f64 = 0.1;
const GROWN_BY: Bytes = Bytes(64 << 20);

/// Until so much of the run is over, caches and pools fill: what grows then is no leak.
const FILLING: f64 = 0.25;

/// A leak goes on as fast as this, beside the stretch before.
const STEADY: f64 = 0.5;

/// Memory that grows from step to step, to the end, and not only at the start.
fn growth(text: &mut String, run: &HookedRun, step: &HookStep) {
    let points = run.held.points();
    let Some((late, rate)) = steady_growth(points) else { return };
    let (Some((first, _, before)), Some((last, _, now))) = (late.first(), late.last()) else { return };
    let what = if step.memory == HookMemory::Resident { "resident" } else { "allocated after a step" };
    let _ = writeln!(
        text,
        "memwall: memory grows with the steps: {before} {what} at step {}, {now} at step {}, {rate} a step: a leak, where \
         batches do not get larger",
        grouped(*first),
        grouped(*last)
    );
}

/// Step, time and memory of a process.
type HeldPoint = (u64, Moment, Bytes);

/// The late points of a run whose memory rises in them to the end, and by how much a step; none where it does not.
fn steady_growth(points: &[HeldPoint]) -> Option<(&[HeldPoint], Bytes)> {
    let (begin, end) = (points.first()?.0, points.last()?.0);
    let filled = begin + ((end - begin) as f64 * FILLING).ceil() as u64;
    let late = &points[points.partition_point(|(step, ..)| *step < filled)..];
    let ((first, _, before), (last, _, now)) = (late.first()?, late.last()?);
    let grown = now.saturating_sub(*before);
    let grows = matches!(forecast(late.iter().map(|(_, at, held)| (*at, *held)), *now), Forecast::Growing(_));
    if !grows || grown < GROWN_BY || grown.as_f64() < GROWN * before.as_f64() {
        return None;
    }
    let middle = late[late.len() / 2];
    let rate = |from: (u64, Bytes), to: (u64, Bytes)| {
        (to.1.as_f64() - from.1.as_f64()) / to.0.saturating_sub(from.0).max(1) as f64
    };
    let earlier = rate((*first, *before), (middle.0, middle.2));
    let later = rate((middle.0, middle.2), (*last, *now));
    (later >= STEADY * earlier).then(|| (late, Bytes::from_f64(rate((*first, *before), (*last, *now)))))
}

/// A run on a CPU against its plan.
fn resident(text: &mut String, run: &HookedRun, step: &HookStep, prediction: &Prediction) {
    if let Reading::Known { value, .. } = &step.peak_allocated {
        let predicted = prediction.largest().device_used;
        let off = relative(*value, predicted);
        let _ = writeln!(text, "memwall: {value} resident {}, predicted {predicted}: {off}", bound(run));
    }
    if let Some(each) = run.pace.usual() {
        let predicted = prediction.time.step;
        let percent = if predicted.0 > 0.0 { (each.0 / predicted.0 - 1.0) * 100.0 } else { 0.0 };
        let sign = if percent < 0.0 { "" } else { "+" };
        let _ = writeln!(text, "memwall: {each} a step, predicted {predicted}: {sign}{} %", three_figures(percent));
    }
}

/// How far observed is from predicted.
fn relative(observed: Bytes, predicted: Bytes) -> String {
    match predicted.as_f64() {
        0.0 => "–".to_owned(),
        predicted => {
            let percent = (observed.as_f64() / predicted - 1.0) * 100.0;
            format!("{}{} %", if percent < 0.0 { "" } else { "+" }, three_figures(percent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;

    /// 40 steps of a second; after each the process holds what `held` says, in MiB.
    fn said(held: impl Fn(u64) -> u64) -> String {
        let mut run = HookedRun::new(7, Moment(0));
        for number in 1..=40 {
            let at = Moment(number * 1_000);
            let held = Reading::measured(Bytes(held(number) << 20), at);
            run.stepped(HookStep {
                step: number,
                step_time: Reading::measured(Seconds(1.0), at),
                memory: HookMemory::Resident,
                allocated: held.clone(),
                peak_allocated: held,
                ..HookStep::default()
            });
        }
        summary(&[run], 0, None, None)
    }

    #[test]
    fn memory_that_grows_with_each_step_is_told() {
        // 640 and 8 a step. A quarter of 39 steps behind the first is the eleventh: 728 MiB, and 960 MiB at the last.
        let leak = said(|step| 640 + 8 * step);
        assert!(leak.contains("0.71 GiB resident at step 11, 0.94 GiB at step 40, 8.00 MiB a step: a leak"), "{leak}");
        // What was there before it began does not count, nor does what filled up at first.
        let after = said(|step| if step < 9 { 200 * step } else { 1800 + 16 * step });
        assert!(after.contains("1.93 GiB resident at step 11, 2.38 GiB at step 40, 16.0 MiB a step"), "{after}");
        // What rises once stays, and what grows by little is none.
        for flat in [said(|step| if step < 4 { 300 } else { 640 }), said(|step| 640 + step)] {
            assert!(!flat.contains("grows"), "{flat}");
        }
    }

    /// A jump of 600 MiB at the start and noise of 1 MiB a step after it, and a cache that fills: half of what is missing to
    /// 900 MiB each fourth step.
    #[test]
    fn memory_that_jumps_or_fills_up_at_the_start_is_no_leak() {
        let jumps = said(|step| if step < 6 { 100 * step } else { 600 + step });
        let fills = said(|step| 100 + (800.0 * (1.0 - 0.5_f64.powf(step as f64 / 4.0))) as u64);
        for text in [jumps, fills] {
            assert!(!text.contains("grows"), "{text}");
        }
    }
}
