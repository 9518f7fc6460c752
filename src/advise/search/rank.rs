//! Which plans are kept of those that a search passes: the best, the front, the smallest.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::knobs::Knobs;
use crate::advise::walls::throughput;
use crate::predict::Outline;
use crate::units::{Bytes, Seconds};

/// A plan with its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub knobs: Knobs,
    pub outline: Outline,
}

impl Candidate {
    pub fn fits(&self) -> bool {
        self.outline.capacity.needed <= self.outline.capacity.bytes
    }

    /// Time of a sample: steps of other batches compare by it.
    pub fn pace(&self) -> Seconds {
        self.outline.time.step / self.knobs.batch() as f64
    }

    /// Faster first; of equal ones the one that does less to save memory, then the smaller.
    pub fn order(&self, other: &Self) -> Ordering {
        let rate = throughput(&other.outline).total_cmp(&throughput(&self.outline));
        rate.then_with(|| self.knobs.effort().cmp(&other.knobs.effort()))
            .then_with(|| self.outline.capacity.needed.cmp(&other.outline.capacity.needed))
            .then_with(|| self.knobs.sequence_of().cmp(&other.knobs.sequence_of()))
    }
}

/// How long a plan of the front may take, for one of the best.
const FRONT: f64 = 1.5;

/// Figures of the plans that others must beat.
#[derive(Debug, Clone, Default)]
pub struct Incumbents {
    /// Time of a sample of the best plan, and of the last of those that are told apart.
    best: Option<Seconds>,
    last: Option<Seconds>,
    /// That and memory of the front.
    front: Vec<(Seconds, Bytes)>,
}

impl Incumbents {
    /// Whether a plan that takes at least `least` a sample and needs at least `memory` can be among the best or on the front.
    pub fn may_matter(&self, least: Seconds, memory: Bytes) -> bool {
        if self.last.is_none_or(|last| least <= last) {
            return true;
        }
        let worth = self.best.is_none_or(|best| least.0 <= FRONT * best.0);
        worth && !self.front.iter().any(|(step, needed)| *step < least && *needed <= memory)
    }
}

/// What is kept of the plans that were passed.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// The best that fit, best first.
    pub best: Vec<Candidate>,
    /// Fitting ones that no other beats in both, fastest first.
    pub front: Vec<Candidate>,
    /// The one that needs least.
    pub nearest: Option<Candidate>,
    /// The least time of a sample of each set of degrees of which a plan fits.
    pub degrees: BTreeMap<[u64; 4], Seconds>,
    pub fitting: u64,
    pub evaluated: u64,
}

impl SearchResults {
    pub const fn none() -> Self {
        Self { best: Vec::new(), front: Vec::new(), nearest: None, degrees: BTreeMap::new(), fitting: 0, evaluated: 0 }
    }

    /// Takes in that a plan of these degrees fits and takes so long a sample.
    fn reached(&mut self, degrees: [u64; 4], pace: Seconds) {
        let known = self.degrees.entry(degrees).or_insert(pace);
        *known = known.min(pace);
    }

    /// Takes a plan in; the `top` best are kept.
    pub fn add(&mut self, candidate: Candidate, top: usize) {
        self.evaluated += 1;
        if self.nearest.as_ref().is_none_or(|least| smaller(&candidate, least)) {
            self.nearest = Some(candidate.clone());
        }
        if !candidate.fits() {
            return;
        }
        self.fitting += 1;
        self.reached(candidate.knobs.degrees(), candidate.pace());
        add_to_front(&mut self.front, &candidate);
        add_to_best(&mut self.best, candidate, top);
    }

    /// Leaves out what takes too long to be worth its memory.
    pub fn trim_front(&mut self) {
        if let Some(best) = self.best.first() {
            let most = FRONT * best.pace().0;
            self.front.retain(|one| one.pace().0 <= most);
        }
    }

    /// What later plans must beat.
    pub fn incumbents(&self, top: usize) -> Incumbents {
        Incumbents {
            best: self.best.first().map(Candidate::pace),
            last: self.best.get(top - 1).map(Candidate::pace),
            front: self.front.iter().map(|one| (one.pace(), one.outline.capacity.needed)).collect(),
        }
    }

    /// Both together.
    pub fn with(mut self, other: Self, top: usize) -> Self {
        for candidate in other.best {
            add_to_best(&mut self.best, candidate, top);
        }
        for candidate in &other.front {
            add_to_front(&mut self.front, candidate);
        }
        self.nearest = match (self.nearest, other.nearest) {
            (Some(a), Some(b)) => Some(if smaller(&b, &a) { b } else { a }),
            (one, None) | (None, one) => one,
        };
        for (degrees, pace) in other.degrees {
            self.reached(degrees, pace);
        }
        self.fitting += other.fitting;
        self.evaluated += other.evaluated;
        self
    }
}

fn smaller(a: &Candidate, b: &Candidate) -> bool {
    a.outline.capacity.needed.cmp(&b.outline.capacity.needed).then_with(|| a.order(b)) == Ordering::Less
}

fn add_to_best(best: &mut Vec<Candidate>, candidate: Candidate, top: usize) {
    let at = best.partition_point(|known| known.order(&candidate) == Ordering::Less);
    if at < top {
        best.insert(at, candidate);
        best.truncate(top);
    }
}

/// The front is fastest first, and so the most memory first. Of plans that are alike in both the first in order stays.
fn add_to_front(front: &mut Vec<Candidate>, candidate: &Candidate) {
    let figures = |one: &Candidate| (one.pace().0, one.outline.capacity.needed);
    let beats = |one: &Candidate, other: &Candidate| {
        let ((step, needed), (its_step, its_needed)) = (figures(one), figures(other));
        let alike = step.total_cmp(&its_step).is_eq() && needed == its_needed;
        step <= its_step && needed <= its_needed && (!alike || one.order(other) != Ordering::Greater)
    };
    if front.iter().any(|known| beats(known, candidate)) {
        return;
    }
    front.retain(|known| !beats(candidate, known));
    let at = front.partition_point(|known| figures(known).0 < figures(candidate).0);
    front.insert(at, candidate.clone());
}
