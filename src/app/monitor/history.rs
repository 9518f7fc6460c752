//! What the devices did in the last minutes, in bounded memory.

use std::collections::{VecDeque, vec_deque};

use super::places::rearranged;
use crate::reading::{Absence, DeviceSample, Moment, Reading, ReadingKind, Sample};
use crate::units::{Bytes, BytesPerSec, Fraction, Seconds, Watts};

/// Points kept for a device: ten minutes at one a second.
pub const KEPT: usize = 600;

/// Points kept for all devices together: of a cluster's, each has fewer.
const KEPT_TOGETHER: usize = 64 * KEPT;

/// Of a device that is not known.
static NO_POINTS: VecDeque<HistoryPoint> = VecDeque::new();

/// Points that are kept of each of so many devices: enough for a mean over some intervals at least.
fn kept(devices: usize) -> usize {
    (KEPT_TOGETHER / devices.max(1)).clamp(12, KEPT)
}

/// One device at one moment, reduced to what is drawn over time.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPoint {
    /// When.
    pub at: Moment,
    /// Device memory in use.
    pub memory: Option<Bytes>,
    /// Share of time with a kernel running.
    pub busy: Option<Fraction>,
    /// Share of peak of the matrix units.
    pub tensor: Option<Fraction>,
    /// Share of the time in which the FP32 pipes were active.
    pub fp32: Option<Fraction>,
    /// DRAM traffic and the kind of that figure.
    pub bandwidth: Option<(BytesPerSec, ReadingKind)>,
    /// Power drawn.
    pub power: Option<Watts>,
}

/// The recent past of every device, by its place in the samples.
#[derive(Debug, Clone, Default)]
pub struct History {
    devices: Vec<VecDeque<HistoryPoint>>,
    /// Samples taken in since the start: tells how far the kept points have moved on.
    taken: usize,
}

impl History {
    /// Takes in a sample; the oldest points make room.
    pub fn push(&mut self, sample: &Sample) {
        self.taken += 1;
        self.devices.resize_with(sample.devices.len().max(self.devices.len()), VecDeque::new);
        let kept = kept(self.devices.len());
        for (points, device) in self.devices.iter_mut().zip(&sample.devices) {
            while points.len() >= kept {
                points.pop_front();
            }
            points.push_back(HistoryPoint::of(device, sample.at));
        }
    }

    /// Takes the past of each device to its new place, by the place where it was.
    pub fn rearrange(&mut self, former: &[Option<usize>]) {
        rearranged(&mut self.devices, former);
    }

    /// A device's past begins with this.
    pub fn begin(&mut self, device: usize, past: &[(Moment, DeviceSample)]) {
        let Some(points) = self.devices.get_mut(device) else { return };
        let known = past.len().saturating_sub(KEPT);
        *points = past.iter().skip(known).map(|(at, device)| HistoryPoint::of(device, *at)).collect();
    }

    /// The points of a device, oldest first.
    pub fn points(&self, device: usize) -> vec_deque::Iter<'_, HistoryPoint> {
        self.devices.get(device).unwrap_or(&NO_POINTS).iter()
    }

    /// The points of a device in groups of `size`, oldest first. Groups keep their borders
    /// as time goes on, so that a picture of them moves only when one is complete.
    pub fn groups(
        &self,
        device: usize,
        size: usize,
    ) -> impl ExactSizeIterator<Item = vec_deque::Iter<'_, HistoryPoint>> + Clone {
        let size = size.max(1);
        let points = self.devices.get(device).unwrap_or(&NO_POINTS);
        // How many of the first group's points are no longer kept.
        let gone = self.taken.saturating_sub(points.len()) % size;
        let groups = if points.is_empty() { 0 } else { (gone + points.len()).div_ceil(size) };
        (0..groups).map(move |group| {
            let end = (group + 1) * size - gone;
            points.range((group * size).saturating_sub(gone)..end.min(points.len()))
        })
    }

    /// The stretch of work that a device is in: back from now to where it last did nothing
    /// twice in a row (once may be a pause between two steps), but no further than `longest`. Moments that
    /// are not `steady` are left out: it may go on before them.
    #[must_use]
    pub fn stretch(&self, device: usize, longest: Seconds, steady: impl Fn(Moment) -> bool) -> Stretch<'_> {
        let is_steady = |point: &&HistoryPoint| steady(point.at);
        let newest = self.points(device).rev().find(is_steady).map_or(Moment(0), |point| point.at);
        let recent =
            self.points(device).rev().filter(is_steady).take_while(|point| newest.since(point.at).0 <= longest.0);
        let mut points: Vec<&HistoryPoint> = Vec::new();
        let mut idle = 0;
        for point in recent {
            idle = if point.is_idle() { idle + 1 } else { 0 };
            points.push(point);
            if idle == 2 {
                points.truncate(points.len() - 2);
                break;
            }
        }
        // Nothing that is steady is no idleness.
        let unsteady = points.is_empty() && idle == 0 && self.points(device).len() > 0;
        Stretch { points, unsteady }
    }
}

impl HistoryPoint {
    fn of(device: &DeviceSample, at: Moment) -> Self {
        Self {
            at,
            memory: device.memory.value().map(|memory| memory.used),
            busy: device.busy.value().copied(),
            tensor: device.tensor_activity.value().copied(),
            fp32: device.counters.fp32.value().copied(),
            bandwidth: device.dram_bandwidth.value().copied().zip(device.dram_bandwidth.kind()),
            power: device.power.value().copied(),
        }
    }

    fn is_idle(&self) -> bool {
        self.busy.is_some_and(|busy| busy.0 == 0.0)
    }
}

/// Points without a long pause, newest first.
#[derive(Debug, Clone)]
pub struct Stretch<'a> {
    points: Vec<&'a HistoryPoint>,
    /// There are points, none of them steady.
    unsteady: bool,
}

impl Stretch<'_> {
    /// How long it has lasted.
    #[must_use]
    pub fn lasted(&self) -> Seconds {
        match (self.points.first(), self.points.last()) {
            (Some(newest), Some(oldest)) => newest.at.since(oldest.at),
            _ => Seconds(0.0),
        }
    }

    /// Device memory in use over it, oldest first.
    pub fn memory(&self) -> impl Iterator<Item = (Moment, Bytes)> + Clone {
        self.points.iter().rev().filter_map(|point| Some((point.at, point.memory?)))
    }

    /// Mean DRAM traffic over it: of points of the newest's kind alone, at least one `step` long.
    #[must_use]
    pub fn bandwidth(&self, newest: &Reading<BytesPerSec>, step: Seconds) -> Reading<BytesPerSec> {
        let kind = newest.kind();
        let of_kind =
            |point: &&HistoryPoint| point.bandwidth.filter(|(_, seen)| Some(*seen) == kind).map(|(rate, _)| rate.0);
        self.mean(newest, step, of_kind, BytesPerSec)
    }

    /// Mean activity of the matrix units over it, at least one `step` long.
    #[must_use]
    pub fn tensor(&self, newest: &Reading<Fraction>, step: Seconds) -> Reading<Fraction> {
        self.mean(newest, step, |point| point.tensor.map(|share| share.0), Fraction)
    }

    /// Mean activity of the FP32 pipes over it, at least one `step` long.
    #[must_use]
    pub fn fp32(&self, newest: &Reading<Fraction>, step: Seconds) -> Reading<Fraction> {
        self.mean(newest, step, |point| point.fp32.map(|share| share.0), Fraction)
    }

    /// Mean share of time with a kernel running over it, at least one `step` long.
    #[must_use]
    pub fn busy(&self, newest: &Reading<Fraction>, step: Seconds) -> Reading<Fraction> {
        self.mean(newest, step, |point| point.busy.map(|share| share.0), Fraction)
    }

    /// Mean power over it, at least one `step` long.
    #[must_use]
    pub fn power(&self, newest: &Reading<Watts>, step: Seconds) -> Reading<Watts> {
        self.mean(newest, step, |point| point.power.map(|power| power.0), Watts)
    }

    fn mean<T>(
        &self,
        newest: &Reading<T>,
        step: Seconds,
        value: impl Fn(&&HistoryPoint) -> Option<f64>,
        unit: fn(f64) -> T,
    ) -> Reading<T> {
        let values: Vec<f64> = self.points.iter().filter_map(value).collect();
        match newest {
            Reading::Absent(why) => Reading::Absent(why.clone()),
            Reading::Known { .. } if self.points.is_empty() && !self.unsteady => Reading::Absent(Absence::Idle),
            Reading::Known { .. } if values.len() < LEAST || self.lasted().0 < step.0 => {
                Reading::Absent(Absence::TooShort)
            }
            Reading::Known { .. } => newest.map(|_| unit(values.iter().sum::<f64>() / values.len() as f64)),
        }
    }
}

/// Points that a mean needs.
const LEAST: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Absence;

    fn sample(second: u64, bandwidth: Reading<BytesPerSec>) -> Sample {
        busy(second, 1.0, bandwidth)
    }

    fn busy(second: u64, share: f64, bandwidth: Reading<BytesPerSec>) -> Sample {
        let at = Moment(second * 1000);
        let busy = Reading::measured(Fraction(share), at);
        let device = DeviceSample { dram_bandwidth: bandwidth, busy, ..DeviceSample::default() };
        Sample { at, devices: vec![device], ..Sample::default() }
    }

    const STEP: Seconds = Seconds(2.0);
    const LONGEST: Seconds = Seconds(30.0);

    #[test]
    fn the_mean_is_of_the_newests_kind() {
        let mut history = History::default();
        // The first figure of a GPU with counters is a bound: it is none of the measured ones.
        history.push(&sample(0, Reading::upper_bound(BytesPerSec(100.0), Moment(0))));
        for (second, rate) in [(1, 1.0), (2, 2.0), (3, 6.0)] {
            history.push(&sample(second, Reading::measured(BytesPerSec(rate), Moment(second * 1000))));
        }
        let newest = Reading::measured(BytesPerSec(6.0), Moment(3_000));
        // (1 + 2 + 6) / 3 = 3
        let mean = history.stretch(0, LONGEST, |_| true).bandwidth(&newest, STEP);
        assert_eq!((mean.value(), mean.kind()), (Some(&BytesPerSec(3.0)), Some(ReadingKind::Measured)));
    }

    #[test]
    fn idle_time_before_the_work_does_not_count() {
        let mut history = History::default();
        let rate = |second: u64, rate| Reading::measured(BytesPerSec(rate), Moment(second * 1000));
        for second in 0..5 {
            history.push(&busy(second, 0.0, rate(second, 0.0)));
        }
        assert_eq!(
            history.stretch(0, LONGEST, |_| true).bandwidth(&rate(4, 0.0), STEP),
            Reading::Absent(Absence::Idle)
        );
        history.push(&busy(5, 1.0, rate(5, 4.0)));
        assert_eq!(
            history.stretch(0, LONGEST, |_| true).bandwidth(&rate(5, 4.0), STEP),
            Reading::Absent(Absence::TooShort)
        );
        // One pause, and on.
        for (second, share, value) in [(6, 0.0, 0.0), (7, 1.0, 4.0), (8, 1.0, 4.0)] {
            history.push(&busy(second, share, rate(second, value)));
        }
        // (4 + 0 + 4 + 4) / 4 = 3
        let mean = history.stretch(0, LONGEST, |_| true).bandwidth(&rate(8, 4.0), STEP);
        assert_eq!(mean.value(), Some(&BytesPerSec(3.0)));
    }

    #[test]
    fn a_device_that_is_gone_has_no_mean() {
        let mut history = History::default();
        history.push(&sample(0, Reading::measured(BytesPerSec(1.0), Moment(0))));
        let mean = history.stretch(0, LONGEST, |_| true).bandwidth(&Reading::Absent(Absence::Gone), STEP);
        assert_eq!(mean, Reading::Absent(Absence::Gone));
    }

    #[test]
    fn groups_keep_their_borders() {
        let mut history = History::default();
        let sizes = |history: &History| history.groups(0, 4).map(|group| group.len()).collect::<Vec<_>>();
        for second in 0..6 {
            history.push(&sample(second, Reading::not_read()));
        }
        assert_eq!(sizes(&history), [4, 2]);
        for second in 6..KEPT as u64 + 1 {
            history.push(&sample(second, Reading::not_read()));
        }
        // 601 taken, the oldest gone: the first group lacks it, the last has begun with number 600.
        let sizes = sizes(&history);
        assert_eq!((sizes[0], sizes[1], sizes.last()), (3, 4, Some(&1)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        for second in 0..2 * KEPT as u64 {
            history.push(&sample(second, Reading::not_read()));
        }
        assert_eq!(history.points(0).len(), KEPT);
        assert_eq!(history.points(7).len(), 0);
    }
}
