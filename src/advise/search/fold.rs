//! Plans that are as fast as another and differ from it in one knob: told with that one.

use super::{KNOBS, RankedPlan};
use crate::advise::walls::throughput;

/// Below this share speed, or memory, is alike: predictions stray further.
const ALIKE: f64 = 0.01;

/// A ranked plan with those that are told with it.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedPlan<'a> {
    /// Its rank, from 1, among all.
    pub rank: usize,
    /// The plan.
    pub plan: &'a RankedPlan,
    /// The knobs in which the others differ from it, each one alone, in words: `virtual_pipeline 10`, with
    /// the memory that it takes more or less.
    pub alike: Vec<String>,
}

/// The ranked plans, each variant that differs in one immaterial knob folded into the first like it.
#[must_use]
pub fn fold(ranked: &[RankedPlan]) -> Vec<FoldedPlan<'_>> {
    let mut folded: Vec<FoldedPlan<'_>> = Vec::new();
    for (at, one) in ranked.iter().enumerate() {
        match folded.iter_mut().find_map(|first| Some((immaterial(first.plan, one)?, first))) {
            Some((words, first)) => first.alike.push(words),
            None => folded.push(FoldedPlan { rank: at + 1, plan: one, alike: Vec::new() }),
        }
    }
    folded
}

/// The knob in which `other` differs alone, where that does not matter to the speed and it fits as `first` does.
fn immaterial(first: &RankedPlan, other: &RankedPlan) -> Option<String> {
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < ALIKE;
    let (a, b) = (&first.outline, &other.outline);
    if a.capacity.verdict() != b.capacity.verdict() || !close(throughput(a), throughput(b)) {
        return None;
    }
    let alike = close(a.capacity.needed.as_f64(), b.capacity.needed.as_f64());
    let memory = if alike { String::new() } else { format!(" ({})", b.capacity.needed - a.capacity.needed) };
    match other.knobs.differences(&first.knobs).as_slice() {
        [(knob, value)] => {
            let name = KNOBS[*knob];
            Some(format!("{} {value}{memory}", name.rsplit('.').next().unwrap_or(name)))
        }
        _ => None,
    }
}
