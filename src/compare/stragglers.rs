//! Ranks that are off their equals: robust statistics over GPUs that do the same work.
//!
//! A rank is held against the median of its group, the ranks that do the same work, by the median absolute deviation
//! (MAD) of all ranks from theirs: several stragglers move neither (P. J. Rousseeuw, C. Croux, "Alternatives to the
//! Median Absolute Deviation", 1993). The measures of work are joined, because each alone is noisy and a GPU that is slow
//! is slow in all of them. Nothing is named before it has held for [`INTERVALS`] intervals.

mod cause;
mod statistics;

use std::collections::VecDeque;

pub use cause::StragglerCause;

use self::statistics::{group_medians, residuals, scale};
use crate::order::StableOrder;
use crate::reading::{DeviceSample, Moment, Reading};
use crate::units::Seconds;

/// Intervals that a rank must be off before it is named.
pub const INTERVALS: usize = 3;

/// Deviations from the median, on average over the intervals. Noise alone reaches it once in 10^11 intervals of a GPU;
/// ranks that differ from each other at all times once in 30 000 ranks.
const NAMED: f64 = 4.0;

/// A rank whose measures are off by less is not worth a name, however still the others are.
const LEAST: f64 = 0.05;

/// A GPU that works less than this share of the time does nothing, where its equals work more than half of it.
const IDLE: f64 = 0.05;

/// Fewer equal ranks have no median to speak of: they are held against all ranks.
const SMALLEST_GROUP: usize = 4;

/// Fewer ranks altogether are compared with nobody.
const SMALLEST: usize = 4;

/// What is compared between equal ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Share of peak of the matrix units.
    Tensor,
    /// Share of the multiprocessors that had work.
    Sm,
    /// DRAM traffic.
    Dram,
    /// Power drawn.
    Power,
    /// Share of time with a kernel running.
    Busy,
    /// Clock of the multiprocessors.
    Clock,
    /// Optimizer steps a second, as the rank's process tells.
    StepRate,
    /// Share of the time of steps in which the rank's process trains: it neither waits for data, nor saves, nor
    /// evaluates, nor collects garbage.
    Training,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Tensor, Self::Sm, Self::Dram, Self::Power, Self::Busy, Self::Clock, Self::StepRate, Self::Training];
    /// Each of these alone tells a rank that is off.
    const SINGLE: [Self; 6] = [Self::Clock, Self::Dram, Self::Busy, Self::Tensor, Self::StepRate, Self::Training];
    /// Those that measure work: together they tell a slow rank.
    const WORK: [Self; 4] = [Self::Tensor, Self::Sm, Self::Dram, Self::Power];

    fn of(self, device: &DeviceSample) -> Option<f64> {
        match self {
            Self::Tensor => device.tensor_activity.value().map(|share| share.0),
            Self::Sm => device.sm_activity.value().map(|share| share.0),
            Self::Dram => device.dram_bandwidth.value().map(|rate| rate.0),
            Self::Power => device.power.value().map(|power| power.0),
            Self::Busy => device.busy.value().map(|share| share.0),
            Self::Clock => device.sm_clock.value().map(|clock| clock.0),
            Self::StepRate => device.rank.as_ref()?.step_time.filter(|time| time.0 > 0.0).map(|time| 1.0 / time.0),
            Self::Training => device.rank.as_ref()?.aside().map(|share| 1.0 - share.0),
        }
    }
}

/// How far a rank was from its equals in one interval.
#[derive(Debug, Clone, Copy, Default)]
struct Deviation {
    /// By measure: as a share of the group's median, and in deviations.
    measures: [Option<(f64, f64)>; Measure::ALL.len()],
    /// The measures of work together.
    work: Option<(f64, f64)>,
    /// It does nothing while its equals work.
    is_idle: bool,
    /// It does not answer while others do.
    is_silent: bool,
    /// Its step does not end, for a reason of its own.
    is_stalled: bool,
    /// Damaged and repeated packets on its links since the interval before.
    link_errors: u64,
    /// Its link is narrower than those of its equals.
    is_narrow: bool,
}

/// What is remembered of a rank.
#[derive(Debug, Clone, Default)]
struct Rank {
    recent: VecDeque<Deviation>,
    errors: Option<u64>,
    /// Since when it has been off without a break.
    since: Option<Moment>,
}

/// A rank that is off its equals.
#[derive(Debug, Clone, PartialEq)]
pub struct Straggler {
    /// Its place among the ranks.
    pub rank: usize,
    /// Why, as far as its metrics tell.
    pub cause: StragglerCause,
    /// How far its work is from that of its equals, as a share; none where it does not answer.
    pub off: Option<f64>,
    /// How far the share of its steps in which it trains is from that of its equals, where its process says that this is
    /// why.
    pub training: Option<f64>,
    /// For how long.
    pub lasted: Seconds,
    /// How sure that is: the farthest first.
    weight: f64,
}

impl Straggler {
    /// In words: `throttled, 11 % less work than its equals`.
    #[must_use]
    pub fn words(&self) -> String {
        let difference = self.difference();
        let comma = if difference.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.cause, difference.trim_start())
    }

    /// How far it is off its equals, as words go on: `  11 % less work than its equals`; nothing where it does not answer.
    #[must_use]
    pub fn difference(&self) -> String {
        match (self.training, self.off) {
            (Some(training), _) => format!("  trains {} of its time than its equals", more_or_less(training, "")),
            (None, Some(off)) => format!("  {} than its equals", more_or_less(off, " work")),
            (None, None) => String::new(),
        }
    }
}

/// `11 % less work`.
fn more_or_less(off: f64, what: &str) -> String {
    format!("{:.0} % {}{what}", off.abs() * 100.0, if off < 0.0 { "less" } else { "more" })
}

/// Watches ranks over intervals.
#[derive(Debug, Clone, Default)]
pub struct StragglerWatch {
    ranks: Vec<Rank>,
    /// The usual spread of each measure, and of the work, over intervals.
    scales: [Option<f64>; Measure::ALL.len() + 1],
    named: Vec<Straggler>,
}

impl StragglerWatch {
    /// Those that are off now, the farthest first.
    #[must_use]
    pub fn named(&self) -> &[Straggler] {
        &self.named
    }

    /// Forgets what was seen: other ranks are watched from now on.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Takes in an interval: each rank's GPU, and the group of ranks that do the same work as it.
    pub fn push(&mut self, ranks: &[(&DeviceSample, usize)], at: Moment) {
        if ranks.len() != self.ranks.len() {
            self.restart();
            self.ranks.resize_with(ranks.len(), Rank::default);
        }
        if ranks.len() < SMALLEST {
            return;
        }
        let groups = merged(ranks);
        let deviations = self.deviations(ranks, &groups);
        for (rank, deviation) in self.ranks.iter_mut().zip(deviations) {
            if rank.recent.len() == INTERVALS {
                rank.recent.pop_front();
            }
            rank.recent.push_back(deviation);
        }
        self.name(ranks, &groups, at);
    }

    fn deviations(&mut self, ranks: &[(&DeviceSample, usize)], groups: &[usize]) -> Vec<Deviation> {
        let mut deviations = vec![Deviation::default(); ranks.len()];
        for (place, measure) in Measure::ALL.into_iter().enumerate() {
            let values: Vec<Option<f64>> = ranks.iter().map(|(device, _)| measure.of(device)).collect();
            let off = residuals(&values, groups);
            let Some(spread) = smoothed(&mut self.scales[place], scale(&off, statistics::LEAST_SPREAD)) else {
                continue;
            };
            for (deviation, off) in deviations.iter_mut().zip(&off) {
                deviation.measures[place] = off.map(|off| (off, (off / spread).clamp(-FARTHEST, FARTHEST)));
            }
        }
        let work: Vec<Option<(f64, f64)>> = deviations.iter().map(Deviation::joined).collect();
        let together: Vec<Option<f64>> = work.iter().map(|work| work.map(|(_, off)| off)).collect();
        let last = Measure::ALL.len();
        if let Some(spread) = smoothed(&mut self.scales[last], scale(&together, LEAST_JOINED)) {
            for (deviation, work) in deviations.iter_mut().zip(work) {
                deviation.work = work.map(|(off, deviations)| (off, deviations / spread));
            }
        }
        self.put_states(ranks, groups, &mut deviations);
        deviations
    }

    /// What is no measure: silence, idleness, errors of links.
    fn put_states(&mut self, ranks: &[(&DeviceSample, usize)], groups: &[usize], deviations: &mut [Deviation]) {
        let busy: Vec<Option<f64>> = ranks.iter().map(|(device, _)| Measure::Busy.of(device)).collect();
        let width = |device: &DeviceSample| device.links.pcie_width.value().map(|width| f64::from(*width));
        let widths: Vec<Option<f64>> = ranks.iter().map(|(device, _)| width(device)).collect();
        let errors: Vec<Option<u64>> = ranks.iter().map(|(device, _)| link_errors(device)).collect();
        let (busy_medians, width_medians) = (group_medians(&busy, groups), group_medians(&widths, groups));
        let grown: Vec<Option<f64>> = self
            .ranks
            .iter()
            .zip(&errors)
            .map(|(rank, now)| Some(now.as_ref()?.saturating_sub(rank.errors?) as f64))
            .collect();
        let usual = group_medians(&grown, groups);
        let others_answer = ranks.iter().any(|(device, _)| is_answering(device));
        // Where most stall alike, none of them is the straggler.
        let stalled = ranks.iter().filter(|(device, _)| stalls(device)).count();
        for (place, (device, _)) in ranks.iter().enumerate() {
            let median = |medians: &[Option<f64>]| medians[groups[place]];
            let deviation = &mut deviations[place];
            deviation.is_silent = others_answer && !is_answering(device);
            deviation.is_stalled = stalls(device) && 2 * stalled < ranks.len();
            deviation.is_idle =
                busy[place].is_some_and(|busy| busy < IDLE) && median(&busy_medians).is_some_and(|median| median > 0.5);
            deviation.is_narrow = device.narrow_link().is_some_and(|link| link.starts_with("PCIe x"))
                || widths[place].zip(median(&width_medians)).is_some_and(|(width, median)| width < median);
            // Where every link of a group has errors, none is the straggler.
            if median(&usual) == Some(0.0) {
                deviation.link_errors = grown[place].map_or(0, |grown| grown as u64);
            }
            self.ranks[place].errors = errors[place].or(self.ranks[place].errors);
        }
    }

    fn name(&mut self, ranks: &[(&DeviceSample, usize)], groups: &[usize], at: Moment) {
        let norms = cause::GroupNorms::of(ranks, groups);
        self.named.clear();
        for (place, rank) in self.ranks.iter_mut().enumerate() {
            let Some((weight, off)) = rank.weight() else {
                rank.since = None;
                continue;
            };
            let since = *rank.since.get_or_insert(at);
            let (device, usual) = (ranks[place].0, norms.group(groups[place]));
            let by_gpu = cause::of(&rank.recent, device, usual);
            // What its process says is seen, not guessed; but one that has stopped says nothing new.
            let told = cause::told(&rank.recent, device, usual).filter(|_| !by_gpu.is_stopped());
            let lasted = at.since(since);
            let (cause, training) = told.map_or((by_gpu, None), |(training, cause)| (cause, Some(training)));
            self.named.push(Straggler { rank: place, cause, off, training, lasted, weight });
        }
        self.named.order_by(|one, other| other.weight.total_cmp(&one.weight).then(one.rank.cmp(&other.rank)));
    }
}

/// Beyond so many deviations a measure weighs no more: one that is wrong altogether must not decide alone.
const FARTHEST: f64 = 8.0;

/// The joined work of several measures strays less than one, but no less than this.
const LEAST_JOINED: f64 = 0.25;

/// Weights of what is no measure: it is certain.
const SILENT: f64 = 100.0;
const STALLED: f64 = 95.0;
const STOPPED: f64 = 90.0;

impl Deviation {
    fn measure(&self, measure: Measure) -> Option<(f64, f64)> {
        self.measures[measure as usize]
    }

    /// The measures of work together: mean share, mean deviations.
    fn joined(&self) -> Option<(f64, f64)> {
        let known: Vec<(f64, f64)> = Measure::WORK.iter().filter_map(|measure| self.measure(*measure)).collect();
        let count = known.len() as f64;
        let (off, deviations) = known.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (!known.is_empty()).then(|| (off / count, deviations / count))
    }
}

impl Rank {
    /// How sure it is that the rank is off, and how far its work is; none where it is not.
    fn weight(&self) -> Option<(f64, Option<f64>)> {
        if self.recent.len() < INTERVALS {
            return None;
        }
        let all = |holds: fn(&Deviation) -> bool| self.recent.iter().all(holds);
        let work = mean(&self.recent, |deviation| deviation.work);
        let off = work.map(|(off, _)| off);
        if all(|deviation| deviation.is_silent) {
            return Some((SILENT, None));
        }
        // Those that wait for a stalled one are idle: it comes before them.
        if all(|deviation| deviation.is_stalled) {
            return Some((STALLED, off));
        }
        if all(|deviation| deviation.is_idle) {
            return Some((STOPPED, off));
        }
        let single = Measure::SINGLE.map(|measure| mean(&self.recent, |deviation| deviation.measure(measure)));
        let low = single
            .into_iter()
            .chain([work])
            .flatten()
            .filter(|(off, deviations)| *off <= -LEAST && *deviations <= -NAMED);
        let lowest = low.map(|(_, deviations)| -deviations).max_by(f64::total_cmp);
        let links = self.recent.iter().filter(|deviation| deviation.link_errors > 0).count() >= 2
            || all(|deviation| deviation.is_narrow);
        lowest.or(links.then_some(NAMED)).map(|weight| (weight, off))
    }
}

/// The mean over intervals, all of which must be low: one alone names nobody.
fn mean(recent: &VecDeque<Deviation>, of: impl Fn(&Deviation) -> Option<(f64, f64)>) -> Option<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for deviation in recent {
        let (off, deviations) = of(deviation)?;
        if deviations > -1.0 {
            return Some((0.0, 0.0));
        }
        sum = (sum.0 + off, sum.1 + deviations);
    }
    let count = recent.len().max(1) as f64;
    Some((sum.0 / count, sum.1 / count))
}

/// The spread that counts: that of before, and a little of the newest.
fn smoothed(before: &mut Option<f64>, newest: Option<f64>) -> Option<f64> {
    const NEWEST: f64 = 0.2;
    *before = match (*before, newest) {
        (Some(before), Some(newest)) => Some(before * (1.0 - NEWEST) + newest * NEWEST),
        (before, newest) => before.or(newest),
    };
    *before
}

/// Groups that are large enough; the ranks of others are one group.
fn merged(ranks: &[(&DeviceSample, usize)]) -> Vec<usize> {
    let count = ranks.iter().map(|(_, group)| group + 1).max().unwrap_or(0);
    let mut sizes = vec![0_usize; count];
    for (_, group) in ranks {
        sizes[*group] += 1;
    }
    ranks.iter().map(|(_, group)| if sizes[*group] < SMALLEST_GROUP { count } else { *group }).collect()
}

fn stalls(device: &DeviceSample) -> bool {
    device.rank.as_ref().is_some_and(|rank| rank.stalls_by_itself())
}

fn is_answering(device: &DeviceSample) -> bool {
    device.power.value().is_some() || device.busy.value().is_some() || device.memory.value().is_some()
}

fn link_errors(device: &DeviceSample) -> Option<u64> {
    let known = |reading: &Reading<u64>| reading.value().copied();
    let parts = [known(&device.links.pcie_replays), known(&device.links.nvlink_errors)];
    parts.iter().flatten().copied().reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests;
