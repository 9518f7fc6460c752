//! Why a rank is off its equals, as far as its metrics tell.

use std::collections::VecDeque;
use std::fmt;

use super::statistics::group_medians;
use super::{Deviation, Measure, mean};
use crate::reading::{Activity, DeviceSample};

/// Why a rank is off its equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StragglerCause {
    /// It does not answer while others do.
    NoAnswer,
    /// Its step does not end, and it waits for no other rank.
    Stalled,
    /// It does nothing while its equals work.
    Idle,
    /// Heat holds its clock down.
    Hot,
    /// The power limit holds its clock down.
    PowerCapped,
    /// Its clock is low, and nothing says why.
    Throttled,
    /// Its memory moves less than that of its equals while its multiprocessors work as much.
    LowDramBandwidth,
    /// Packets on its links are damaged or sent again.
    LinkErrors,
    /// Its PCIe link has fewer lanes than those of its equals.
    NarrowLink,
    /// It has nothing to run for part of the time: it waits for its data or its host.
    WaitingForData,
    /// Its process writes or reads checkpoints for longer than its equals.
    Checkpoint,
    /// Its process evaluates for longer than its equals.
    Evaluation,
    /// Its process collects garbage for longer than its equals.
    GarbageCollection,
    /// It works less than its equals, and nothing says why.
    Slow,
}

impl StragglerCause {
    /// Whether it does nothing at all.
    #[must_use]
    pub const fn is_stopped(self) -> bool {
        matches!(self, Self::NoAnswer | Self::Stalled | Self::Idle)
    }
}

impl fmt::Display for StragglerCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "no answer",
            Self::Stalled => "stalled",
            Self::Idle => "idle",
            Self::Hot => "hot",
            Self::PowerCapped => "power-capped",
            Self::Throttled => "throttled",
            Self::LowDramBandwidth => "low DRAM bandwidth",
            Self::LinkErrors => "link errors",
            Self::NarrowLink => "lower link width",
            Self::WaitingForData => "waiting for data",
            Self::Checkpoint => "checkpoint",
            Self::Evaluation => "evaluation",
            Self::GarbageCollection => "garbage collection",
            Self::Slow => "slow",
        })
    }
}

/// What is usual in a group.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usual {
    temperature: Option<f64>,
    /// Shares of the time of steps, in the order of [`Activity::ASIDE`].
    aside: [Option<f64>; Activity::ASIDE.len()],
    power_limit: Option<f64>,
    /// Half of the group or more is held down by power: large GPUs run so.
    is_capped: bool,
}

/// What is usual in each group.
#[derive(Debug)]
pub struct GroupNorms(Vec<Usual>);

impl GroupNorms {
    pub fn of(ranks: &[(&DeviceSample, usize)], groups: &[usize]) -> Self {
        let medians = |of: &dyn Fn(&DeviceSample) -> Option<f64>| {
            group_medians(&ranks.iter().map(|(device, _)| of(device)).collect::<Vec<_>>(), groups)
        };
        let temperature = medians(&|device| device.temperature.value().map(|degrees| degrees.0));
        let power_limit = medians(&|device| device.power_limit.value().map(|limit| limit.0));
        let capped = medians(&|device| Some(if is_capped(device) { 1.0 } else { 0.0 }));
        let aside = Activity::ASIDE
            .map(|activity| medians(&|device| device.rank.as_ref()?.share_of(activity).map(|share| share.0)));
        let usual = temperature.into_iter().zip(power_limit).zip(capped).enumerate();
        Self(
            usual
                .map(|(group, ((temperature, power_limit), capped))| Usual {
                    temperature,
                    aside: aside.each_ref().map(|shares| shares.get(group).copied().flatten()),
                    power_limit,
                    is_capped: capped.is_some_and(|capped| capped > 0.0),
                })
                .collect(),
        )
    }

    pub fn group(&self, group: usize) -> Usual {
        self.0.get(group).copied().unwrap_or_default()
    }
}

/// From here on GPUs of data centres slow down (H100 and A100: 87 °C and 85 °C, `nvidia-smi -q -d TEMPERATURE`).
const HOT: f64 = 85.0;
/// Degrees above its equals that make a warm GPU a hot one.
const HOTTER: f64 = 15.0;
/// A share of the time, of the power limit, that says something.
const HELD_DOWN: f64 = 0.05;
const AT_LIMIT: f64 = 0.97;

fn says(device: &DeviceSample, words: &[&str]) -> bool {
    device.throttle.value().is_some_and(|reasons| reasons.iter().any(|reason| words.contains(&reason.as_ref())))
}

fn is_capped(device: &DeviceSample) -> bool {
    let slowed = device.board.slowed_by_power.value().is_some_and(|share| share.0 > HELD_DOWN);
    let at_limit = || {
        let share = device.power.value().zip(device.power_limit.value());
        share.is_some_and(|(power, limit)| limit.0 > 0.0 && power.0 / limit.0 >= AT_LIMIT)
    };
    says(device, &["power cap", "power brake"]) || slowed || at_limit()
}

fn is_hot(device: &DeviceSample, usual: Usual) -> bool {
    let degrees = device.temperature.value().map(|degrees| degrees.0);
    let slowed = device.board.slowed_by_heat.value().is_some_and(|share| share.0 > HELD_DOWN);
    says(device, &["hot", "too hot"])
        || slowed
        || degrees.is_some_and(|degrees| {
            degrees >= HOT || usual.temperature.is_some_and(|usual| degrees >= usual + HOTTER && degrees >= HOT - 5.0)
        })
}

/// What takes the most time of the rank's steps beyond what it takes of its equals'.
fn aside(device: &DeviceSample, usual: Usual) -> Option<StragglerCause> {
    const CAUSES: [StragglerCause; Activity::ASIDE.len()] = [
        StragglerCause::WaitingForData,
        StragglerCause::Checkpoint,
        StragglerCause::Evaluation,
        StragglerCause::GarbageCollection,
    ];
    let rank = device.rank.as_ref()?;
    let beyond = Activity::ASIDE
        .into_iter()
        .zip(usual.aside)
        .zip(CAUSES)
        .filter_map(|((activity, usual), cause)| Some((rank.share_of(activity)?.0 - usual.unwrap_or(0.0), cause)));
    beyond.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, cause)| cause)
}

/// How much less of its steps a rank trains than its equals, as a share, and what it does instead; none where its process
/// does not say so.
pub fn told(recent: &VecDeque<Deviation>, device: &DeviceSample, usual: Usual) -> Option<(f64, StragglerCause)> {
    let (training, deviations) = mean(recent, |deviation| deviation.measure(Measure::Training))?;
    let is_off = training <= -0.05 && deviations <= -2.0;
    Some((training, aside(device, usual).filter(|_| is_off)?))
}

/// The likeliest cause of a rank that is off, by what is seen of its GPU.
pub fn of(recent: &VecDeque<Deviation>, device: &DeviceSample, usual: Usual) -> StragglerCause {
    let all = |holds: fn(&Deviation) -> bool| recent.iter().all(holds);
    if all(|deviation| deviation.is_silent) {
        return StragglerCause::NoAnswer;
    }
    if all(|deviation| deviation.is_stalled) {
        return StragglerCause::Stalled;
    }
    if all(|deviation| deviation.is_idle) {
        return StragglerCause::Idle;
    }
    let low = |measure: Measure| mean(recent, |deviation| deviation.measure(measure)).unwrap_or_default();
    let (clock, clock_deviations) = low(Measure::Clock);
    let lower_limit =
        device.power_limit.value().zip(usual.power_limit).is_some_and(|(own, usual)| own.0 < 0.95 * usual);
    if clock <= -0.03 && clock_deviations <= -2.0 {
        return if is_hot(device, usual) {
            StragglerCause::Hot
        } else if lower_limit || (is_capped(device) && !usual.is_capped) {
            StragglerCause::PowerCapped
        } else {
            StragglerCause::Throttled
        };
    }
    let (dram, sm) = (low(Measure::Dram), low(Measure::Sm));
    if recent.iter().filter(|deviation| deviation.link_errors > 0).count() >= 2 {
        return StragglerCause::LinkErrors;
    }
    if all(|deviation| deviation.is_narrow) {
        return StragglerCause::NarrowLink;
    }
    if dram.1 <= -2.0 && sm.0 > dram.0 / 2.0 && low(Measure::Tensor).0 > dram.0 * 0.75 {
        return StragglerCause::LowDramBandwidth;
    }
    if low(Measure::Busy).0 <= -0.05 && low(Measure::Busy).1 <= -2.0 {
        return StragglerCause::WaitingForData;
    }
    StragglerCause::Slow
}
