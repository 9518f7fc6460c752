//! Why one plan is slower than another, from the differences between their figures.

use super::RankedPlan;
use crate::plan::Checkpointing;
use crate::predict::Outline;
use crate::units::{Seconds, three_figures};

/// Parts of the difference that are left untold: less than this share of it.
const SMALL: f64 = 0.1;

/// Why `other` lost against `best`, in words.
#[must_use]
pub fn why_slower(best: &RankedPlan, other: &RankedPlan) -> String {
    let (fast, slow) = (&best.outline, &other.outline);
    // Of other batches: for as many samples.
    let longer = slow.time.step * same_samples(best, other) - fast.time.step;
    let share = longer.0 / fast.time.step.0;
    if share < 5e-5 {
        let needed = slow.capacity.needed - fast.capacity.needed;
        return format!("as fast, {needed} of memory{}", effort(best, other));
    }
    let mut parts = parts(best, other);
    parts.sort_by(|a, b| b.0.0.abs().total_cmp(&a.0.0.abs()));
    let told = parts.iter().filter(|(seconds, _)| seconds.0.abs() >= SMALL * longer.0.abs());
    let told: Vec<String> = told.take(3).map(|(seconds, what)| format!("{what} {}", signed(*seconds))).collect();
    format!("{} % longer: {}", three_figures(100.0 * share), told.join(", "))
}

fn same_samples(best: &RankedPlan, other: &RankedPlan) -> f64 {
    best.knobs.batch() as f64 / other.knobs.batch() as f64
}

fn effort(best: &RankedPlan, other: &RankedPlan) -> String {
    if other.knobs.effort() > best.knobs.effort() { ", and does more to save it".to_owned() } else { String::new() }
}

fn signed(seconds: Seconds) -> String {
    let sign = if seconds.0 < 0.0 { '-' } else { '+' };
    format!("{sign}{}", Seconds(seconds.0.abs()))
}

/// Where the time differs, and what made it so.
fn parts(best: &RankedPlan, other: &RankedPlan) -> Vec<(Seconds, String)> {
    let of = |outline: &Outline| {
        let time = &outline.time;
        [time.compute + time.memory_bound, time.communication, time.bubble]
    };
    let scale = same_samples(best, other);
    let (fast, slow) = (of(&best.outline), of(&other.outline).map(|part| part * scale));
    let differ = |at: usize| slow[at] - fast[at];
    let rest = (other.outline.time.step * scale - slow.iter().copied().sum())
        - (best.outline.time.step - fast.iter().copied().sum());
    vec![
        (differ(0), format!("kernels{}", kernels(best, other))),
        (differ(1), format!("exposed communication{}", communication(best, other))),
        (differ(2), format!("pipeline bubble{}", bubble(best, other))),
        (rest, "waiting for launches".to_owned()),
    ]
}

fn kernels(best: &RankedPlan, other: &RankedPlan) -> String {
    let (a, b) = (&best.knobs, &other.knobs);
    if a.checkpointing != b.checkpointing {
        match b.checkpointing {
            Checkpointing::None => " (nothing recomputed)".to_owned(),
            _ => format!(" (recomputation: {})", b.checkpointing),
        }
    } else if a.micro != b.micro {
        format!(" (micro batch {} for {})", b.micro, a.micro)
    } else if a.tensor != b.tensor {
        format!(" (tensor parallel {} for {})", b.tensor, a.tensor)
    } else if a.sharding != b.sharding {
        format!(" (states updated by each rank: sharding {} for {})", b.sharding, a.sharding)
    } else {
        String::new()
    }
}

fn communication(best: &RankedPlan, other: &RankedPlan) -> String {
    let (a, b) = (&best.knobs, &other.knobs);
    let degrees = [
        ("tensor", a.tensor, b.tensor),
        ("context", a.context, b.context),
        ("expert", a.expert, b.expert),
        ("data", a.data, b.data),
    ];
    let more: Vec<String> =
        degrees.iter().filter(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name} parallel {b} for {a}")).collect();
    match more.as_slice() {
        [] if a.sharding != b.sharding => format!(" ({} for {})", b.sharding, a.sharding),
        [] => String::new(),
        _ => format!(" ({})", more.join(", ")),
    }
}

fn bubble(best: &RankedPlan, other: &RankedPlan) -> String {
    let (a, b) = (&best.knobs, &other.knobs);
    if (a.pipeline, a.chunks, a.accumulation) == (b.pipeline, b.chunks, b.accumulation) {
        return String::new();
    }
    let of = |knobs: &super::Knobs| {
        let chunks = if knobs.chunks > 1 { format!(" of {} chunks", knobs.chunks) } else { String::new() };
        format!("{} stages{chunks}, {} micro-batches", knobs.pipeline, knobs.accumulation)
    };
    format!(" ({} for {})", of(b), of(a))
}
