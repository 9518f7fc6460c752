//! The past at several spans, from a minute to a day, in memory that does not grow.
//!
//! Every span has its own row of buckets, each a fixed length of time, and every sample goes
//! into all of them: none is made from another, so that turning from one span to the next shows
//! what was seen. A bucket keeps the lowest, the highest and the mean, so that a peak of a
//! second is still there after a day.

mod row;
mod span;

pub use span::HistorySpan;

use super::places::rearranged;
use crate::reading::{DeviceMetric, DeviceSample, Moment, Progress, Reading, ReadingKind, Sample, Spread};
use row::{Row, SignedSpread, StoredSpread, UnsignedSpread};

/// What every device has a past of, and what the run has one of.
const OF_DEVICES: usize = DeviceMetric::OF_DEVICES.len();
const OF_RUN: usize = DeviceMetric::OF_RUN.len();

/// The rows of every span, in the order of [`HistorySpan::ALL`].
type Rows<S, const N: usize> = [Row<S, N>; HistorySpan::ALL.len()];

/// The past of every device and of the run, at every span.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    devices: Vec<Rows<UnsignedSpread, OF_DEVICES>>,
    run: Rows<SignedSpread, OF_RUN>,
    newest: Moment,
    /// Time between the last samples, in milliseconds, the newest first.
    spacing: [u64; 2],
    /// The one device that is followed, of a cluster's.
    alone: Option<usize>,
}

/// Devices that are all followed: those of a node, and of some parts of it.
const FOLLOWED: usize = 64;

impl Spans {
    /// Takes in a sample, with what the run tells at that time. Of a cluster's devices, only the one at `shown` is
    /// followed: a day of one takes 120 kB.
    pub fn push(&mut self, sample: &Sample, progress: Option<&Progress>, shown: usize) {
        self.advance(sample.at);
        self.devices.resize_with(sample.devices.len().max(self.devices.len()), Default::default);
        let is_cluster = sample.devices.len() > FOLLOWED;
        if is_cluster && self.alone != Some(shown) {
            self.devices.iter_mut().for_each(|rows| *rows = Default::default());
            self.alone = Some(shown);
        }
        for (position, device) in sample.devices.iter().enumerate() {
            if !is_cluster || position == shown {
                self.put_device(position, device, sample.at);
            }
        }
        if progress.is_some() {
            let figures = DeviceMetric::OF_RUN.map(|metric| metric.of_run(progress).as_ref().and_then(spread));
            let hold = self.hold();
            put(&mut self.run, sample.at, figures, hold);
        }
    }

    /// Takes the past of each device to its new place, by the place where it was.
    pub fn rearrange(&mut self, former: &[Option<usize>]) {
        rearranged(&mut self.devices, former);
        self.alone = self.alone.and_then(|alone| former.iter().position(|place| *place == Some(alone)));
    }

    /// A device's past begins with this.
    pub fn begin(&mut self, device: usize, past: &[(Moment, DeviceSample)]) {
        let Some(rows) = self.devices.get_mut(device) else { return };
        *rows = Default::default();
        self.alone = Some(device);
        for (at, sample) in past {
            self.advance(*at);
            self.put_device(device, sample, *at);
        }
    }

    fn advance(&mut self, at: Moment) {
        if at > self.newest {
            self.spacing = [at.0 - self.newest.0, self.spacing[0]];
            self.newest = at;
        }
    }

    fn put_device(&mut self, position: usize, device: &DeviceSample, at: Moment) {
        let hold = self.hold();
        let figures = DeviceMetric::OF_DEVICES.map(|metric| spread(&metric.of(device)));
        if let Some(rows) = self.devices.get_mut(position) {
            put(rows, at, figures, hold);
        }
    }

    /// For how long, in milliseconds, a figure stands for what follows: a sample may be late, but
    /// where two are missing nobody knows.
    fn hold(&self) -> u64 {
        const LONGEST: u64 = 120_000;
        self.spacing[0].min(self.spacing[1]).saturating_mul(2).min(LONGEST)
    }

    /// The end of the stretch that `columns` show of a span: they keep their borders as time
    /// goes on, so that a picture of them moves only when one is complete.
    fn end(&self, span: HistorySpan, columns: u64) -> u64 {
        let width = (span.millis().0 / columns).max(1);
        (self.newest.0 / width).saturating_add(1).saturating_mul(width)
    }

    /// A figure of a device over a span that ends now, in so many columns of equal time, the
    /// newest last; none where nothing was read.
    #[must_use]
    pub fn columns(
        &self,
        device: usize,
        span: HistorySpan,
        figure: DeviceMetric,
        columns: usize,
    ) -> Vec<Option<Spread>> {
        let mut spreads: Vec<Option<Spread>> = vec![None; columns];
        if columns == 0 {
            return spreads;
        }
        let (length, bucket_length) = span.millis();
        let width = (length / columns as u64).max(1);
        let end = self.end(span, columns as u64);
        let start = end.saturating_sub(width * columns as u64);
        let buckets: Vec<(u64, Option<Spread>)> = self.buckets(device, span, figure).collect();
        for (position, (number, spread)) in buckets.iter().enumerate() {
            let Some(spread) = *spread else { continue };
            // A bucket counts for every column that it reaches into, and until the next one.
            let from = number * bucket_length;
            let own = from.saturating_add(bucket_length);
            let next = buckets.get(position + 1).map(|(next, _)| next * bucket_length);
            let next = next.filter(|next| next.saturating_sub(own) <= self.hold());
            let until = next.unwrap_or(own).min(end);
            if until <= start {
                continue;
            }
            let first = from.saturating_sub(start) / width;
            let last = (until - 1 - start) / width;
            for column in first..=last {
                let Some(into) = usize::try_from(column).ok().and_then(|column| spreads.get_mut(column)) else { break };
                *into = Some(into.map_or(spread, |before| before.with(spread)));
            }
        }
        spreads
    }

    /// A figure of a device over a whole span.
    #[must_use]
    pub fn whole(&self, device: usize, span: HistorySpan, figure: DeviceMetric) -> Option<Spread> {
        let (length, bucket_length) = span.millis();
        let oldest = self.newest.0.saturating_sub(length);
        self.buckets(device, span, figure)
            .filter(|(number, _)| (number * bucket_length).saturating_add(bucket_length) > oldest)
            .filter_map(|(_, spread)| spread)
            .reduce(Spread::with)
    }

    /// The number of each bucket of a span, the oldest first, and what it says of a figure.
    fn buckets(
        &self,
        device: usize,
        span: HistorySpan,
        figure: DeviceMetric,
    ) -> Box<dyn Iterator<Item = (u64, Option<Spread>)> + '_> {
        let place = |of: &[DeviceMetric]| of.iter().position(|one| *one == figure);
        match (place(&DeviceMetric::OF_RUN), place(&DeviceMetric::OF_DEVICES)) {
            (Some(place), _) => Box::new(self.run[span as usize].read(place)),
            (None, place) => {
                let rows = self.devices.get(device).zip(place).into_iter();
                Box::new(rows.flat_map(move |(rows, place)| rows[span as usize].read(place)))
            }
        }
    }
}

/// Adds figures to every span.
fn put<S: StoredSpread, const N: usize>(rows: &mut Rows<S, N>, at: Moment, figures: [Option<Spread>; N], hold: u64) {
    for (span, row) in HistorySpan::ALL.into_iter().zip(rows) {
        row.put(span, at, figures, hold);
    }
}

fn spread(reading: &Reading<f64>) -> Option<Spread> {
    let kind = reading.kind().unwrap_or(ReadingKind::Measured);
    reading.value().filter(|value| value.is_finite()).map(|value| Spread::of(*value, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Watts;

    fn sample(at: Moment, watts: f64) -> Sample {
        let device = DeviceSample { power: Reading::measured(Watts(watts), at), ..DeviceSample::default() };
        Sample { at, devices: vec![device], ..Sample::default() }
    }

    /// A day and a half at one sample a second, with one second at 900 W ten hours before its end.
    fn long_run() -> (Spans, Moment) {
        let mut spans = Spans::default();
        let seconds = 36 * 3600;
        for second in 0..seconds {
            let watts = if second == seconds - 36_000 { 900.0 } else { 500.0 };
            spans.push(&sample(Moment(1_790_000_000_000 + second * 1000), watts), None, 0);
        }
        (spans, Moment(1_790_000_000_000 + (seconds - 1) * 1000))
    }

    #[test]
    fn a_peak_of_a_second_is_still_there_after_hours() {
        let (spans, _) = long_run();
        let day = spans.columns(0, HistorySpan::Day, DeviceMetric::Power, 100);
        let peaks: Vec<usize> =
            (0..100).filter(|column| day[*column].is_some_and(|spread| spread.high > 899.0)).collect();
        // Ten of 24 hours before the end: at 58.3 % of the width, in one column or on the border of two.
        assert!(!peaks.is_empty() && peaks.iter().all(|column| (57..=59).contains(column)), "{peaks:?}");
        assert!(
            spans
                .columns(0, HistorySpan::SixHours, DeviceMetric::Power, 100)
                .iter()
                .flatten()
                .all(|spread| spread.high < 501.0)
        );
        let whole = spans.whole(0, HistorySpan::Day, DeviceMetric::Power).unwrap();
        assert_eq!((whole.low, whole.high), (500.0, 900.0));
        // 86 400 s with one at 900 W: 500 + 400 / 86 400.
        assert!((whole.mean() - 500.0046).abs() < 1e-3, "{}", whole.mean());
    }

    #[test]
    fn every_span_is_full_from_its_first_sample_to_its_last() {
        let (spans, _) = long_run();
        for span in HistorySpan::ALL {
            for columns in [1, 37, 60, 200] {
                let seen = spans.columns(0, span, DeviceMetric::Power, columns).iter().flatten().count();
                assert_eq!(seen, columns, "{span:?}");
            }
        }
    }

    #[test]
    fn columns_keep_their_borders_as_time_goes_on() {
        let mut spans = Spans::default();
        let at = |second: u64| Moment(1_790_000_000_000 + second * 1000);
        for second in 0..600 {
            spans.push(&sample(at(second), (second % 17) as f64), None, 0);
        }
        let before = spans.columns(0, HistorySpan::TenMinutes, DeviceMetric::Power, 60);
        for second in 600..610 {
            spans.push(&sample(at(second), (second % 17) as f64), None, 0);
        }
        // Ten seconds are one column.
        let after = spans.columns(0, HistorySpan::TenMinutes, DeviceMetric::Power, 60);
        assert_eq!(before[2..59], after[1..58]);
    }

    #[test]
    fn memory_does_not_grow() {
        let (spans, _) = long_run();
        let buckets: usize = spans.devices[0].iter().map(|row| row.read(0).count()).sum();
        // 60 s at 1 a second, 300, 360, 360, 360; three seconds more of each, and a bucket begun at either end.
        assert!(buckets <= (60 + 5) + (300 + 4) + 3 * (360 + 3), "{buckets}");
    }

    #[test]
    fn times_that_no_clock_shows_do_no_harm() {
        let mut spans = Spans::default();
        for at in [0, 5, 5, 3, u64::MAX - 1, u64::MAX, 7] {
            spans.push(&sample(Moment(at), 1.0), None, 0);
        }
        for span in HistorySpan::ALL {
            assert!(spans.columns(0, span, DeviceMetric::Power, 7)[6].is_some(), "{span:?}");
            assert!(spans.whole(0, span, DeviceMetric::Power).is_some());
        }
    }

    #[test]
    fn a_gap_stays_a_gap() {
        let mut spans = Spans::default();
        for second in (0..20).chain(40..60) {
            spans.push(&sample(Moment(1_790_000_000_000 + second * 1000), 500.0), None, 0);
        }
        let minute = spans.columns(0, HistorySpan::Minute, DeviceMetric::Power, 60);
        let seen: String = minute.iter().map(|spread| if spread.is_some() { '#' } else { '.' }).collect();
        // The first 20 seconds are the first 20 columns, and 20 s are missing.
        assert_eq!(seen, format!("{0}{1}{0}", "#".repeat(20), ".".repeat(20)));
    }

    #[test]
    fn what_was_not_read_is_no_zero() {
        let mut spans = Spans::default();
        spans.push(&Sample { at: Moment(5_000), devices: vec![DeviceSample::default()], ..Sample::default() }, None, 0);
        assert!(spans.columns(0, HistorySpan::Minute, DeviceMetric::Memory, 10).iter().all(Option::is_none));
        assert_eq!(spans.whole(0, HistorySpan::Minute, DeviceMetric::Memory), None);
        assert_eq!(spans.whole(7, HistorySpan::Minute, DeviceMetric::Memory), None);
    }
}
