//! What the devices did in the last minutes, in bounded memory.

use std::collections::VecDeque;

use crate::reading::{Kind, Moment, Reading, Sample};
use crate::units::{Bytes, BytesPerSec, Fraction, Seconds, Watts};

/// Points kept for a device: ten minutes at one a second.
pub const KEPT: usize = 600;

/// One device at one moment, reduced to what is drawn over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// When.
    pub at: Moment,
    /// Device memory in use.
    pub memory: Option<Bytes>,
    /// Share of time with a kernel running.
    pub busy: Option<Fraction>,
    /// Share of peak of the matrix units.
    pub tensor: Option<Fraction>,
    /// DRAM traffic and the kind of that figure.
    pub bandwidth: Option<(BytesPerSec, Kind)>,
    /// Power drawn.
    pub power: Option<Watts>,
}

/// The recent past of every device, by its place in the samples.
#[derive(Debug, Clone, Default)]
pub struct History {
    devices: Vec<VecDeque<Point>>,
    /// Samples taken in since the start: tells how far the kept points have moved on.
    taken: usize,
}

impl History {
    /// Takes in a sample; the oldest points make room.
    pub fn push(&mut self, sample: &Sample) {
        self.taken += 1;
        self.devices.resize_with(sample.devices.len().max(self.devices.len()), VecDeque::new);
        for (points, device) in self.devices.iter_mut().zip(&sample.devices) {
            if points.len() == KEPT {
                points.pop_front();
            }
            let bandwidth = device.dram_bandwidth.value().copied().zip(device.dram_bandwidth.kind());
            points.push_back(Point {
                at: sample.at,
                memory: device.memory.value().map(|memory| memory.used),
                busy: device.busy.value().copied(),
                tensor: device.tensor_activity.value().copied(),
                bandwidth,
                power: device.power.value().copied(),
            });
        }
    }

    /// The points of a device, oldest first.
    pub fn points(&self, device: usize) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        static NONE: VecDeque<Point> = VecDeque::new();
        self.devices.get(device).unwrap_or(&NONE).iter()
    }

    /// The points of a device in groups of `size`, oldest first. Groups keep their borders
    /// as time goes on, so that a picture of them moves only when one is complete.
    pub fn groups(&self, device: usize, size: usize) -> Vec<Vec<&Point>> {
        let size = size.max(1);
        let points = self.points(device);
        let first = self.taken.saturating_sub(points.len());
        let mut groups: Vec<Vec<&Point>> = Vec::new();
        for (index, point) in points.enumerate() {
            match groups.last_mut() {
                Some(group) if !(first + index).is_multiple_of(size) => group.push(point),
                _ => groups.push(vec![point]),
            }
        }
        groups
    }

    /// Mean DRAM traffic of a device over the last `window`. Absent as in the newest sample.
    #[must_use]
    pub fn mean_bandwidth(
        &self,
        device: usize,
        newest: &Reading<BytesPerSec>,
        window: Seconds,
    ) -> Reading<BytesPerSec> {
        let seen = self.within(device, window).filter_map(|point| Some(point.bandwidth?.0.0));
        with_mean(newest, seen, BytesPerSec)
    }

    /// Mean activity of the matrix units over the last `window`. Absent as in the newest sample.
    #[must_use]
    pub fn mean_tensor(&self, device: usize, newest: &Reading<Fraction>, window: Seconds) -> Reading<Fraction> {
        let seen = self.within(device, window).filter_map(|point| Some(point.tensor?.0));
        with_mean(newest, seen, Fraction)
    }

    fn within(&self, device: usize, window: Seconds) -> impl Iterator<Item = &Point> {
        let newest = self.points(device).next_back().map_or(Moment(0), |point| point.at);
        self.points(device).rev().take_while(move |point| newest.since(point.at).0 <= window.0)
    }
}

fn with_mean<T>(newest: &Reading<T>, seen: impl Iterator<Item = f64>, unit: fn(f64) -> T) -> Reading<T> {
    let (sum, count) = seen.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    newest.map(|_| unit(sum / f64::from(count.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Absence, DeviceSample};

    fn sample(second: u64, bandwidth: Reading<BytesPerSec>) -> Sample {
        let device = DeviceSample { dram_bandwidth: bandwidth, ..DeviceSample::default() };
        Sample { at: Moment(second * 1000), devices: vec![device], ..Sample::default() }
    }

    #[test]
    fn the_mean_covers_the_window_and_keeps_the_kind() {
        let mut history = History::default();
        for (second, rate) in [(0, 100.0), (10, 1.0), (11, 2.0), (12, 6.0)] {
            history.push(&sample(second, Reading::upper_bound(BytesPerSec(rate), Moment(second * 1000))));
        }
        let newest = Reading::upper_bound(BytesPerSec(6.0), Moment(12_000));
        // (1 + 2 + 6) / 3 = 3; the point of second 0 lies outside.
        let mean = history.mean_bandwidth(0, &newest, Seconds(5.0));
        assert_eq!(mean.value(), Some(&BytesPerSec(3.0)));
        assert_eq!(mean.kind(), Some(Kind::UpperBound));
    }

    #[test]
    fn a_device_that_is_gone_has_no_mean() {
        let mut history = History::default();
        history.push(&sample(0, Reading::measured(BytesPerSec(1.0), Moment(0))));
        let mean = history.mean_bandwidth(0, &Reading::Absent(Absence::Gone), Seconds(60.0));
        assert_eq!(mean, Reading::Absent(Absence::Gone));
    }

    #[test]
    fn groups_keep_their_borders() {
        let mut history = History::default();
        let sizes = |history: &History| history.groups(0, 4).iter().map(Vec::len).collect::<Vec<_>>();
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
