//! The past at several spans, from a minute to a day, in memory that does not grow.
//!
//! Every span has its own row of buckets, each a fixed length of time, and every sample goes
//! into all of them: none is made from another, so that turning from one span to the next shows
//! what was seen. A bucket keeps the lowest, the highest and the mean, so that a peak of a
//! second is still there after a day.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::reading::{DeviceMetric, DeviceSample, Moment, Progress, Reading, ReadingKind, Sample, Spread};

/// A stretch of the past that can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistorySpan {
    /// One minute.
    Minute,
    /// Ten minutes.
    #[default]
    TenMinutes,
    /// One hour.
    Hour,
    /// Six hours.
    SixHours,
    /// 24 hours.
    Day,
}

impl HistorySpan {
    /// All of them, the shortest first.
    pub const ALL: [Self; 5] = [Self::Minute, Self::TenMinutes, Self::Hour, Self::SixHours, Self::Day];

    /// Its length and that of one of its buckets, in milliseconds.
    const fn millis(self) -> (u64, u64) {
        match self {
            Self::Minute => (60_000, 250),
            Self::TenMinutes => (600_000, 2_000),
            Self::Hour => (3_600_000, 10_000),
            Self::SixHours => (21_600_000, 60_000),
            Self::Day => (86_400_000, 240_000),
        }
    }

    /// Its length in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Minute => "1 min",
            Self::TenMinutes => "10 min",
            Self::Hour => "1 h",
            Self::SixHours => "6 h",
            Self::Day => "24 h",
        }
    }

    /// The next shorter one; the shortest stays.
    #[must_use]
    pub const fn shorter(self) -> Self {
        match self {
            Self::Minute | Self::TenMinutes => Self::Minute,
            Self::Hour => Self::TenMinutes,
            Self::SixHours => Self::Hour,
            Self::Day => Self::SixHours,
        }
    }

    /// The next longer one; the longest stays.
    #[must_use]
    pub const fn longer(self) -> Self {
        match self {
            Self::Minute => Self::TenMinutes,
            Self::TenMinutes => Self::Hour,
            Self::Hour => Self::SixHours,
            Self::SixHours | Self::Day => Self::Day,
        }
    }
}

/// A bucket: how the figures of a device were spread over its time; none where there was none.
#[derive(Debug, Clone)]
struct Bucket {
    /// Which one, counted from the Unix epoch.
    number: u64,
    figures: [Option<StoredSpread>; DeviceMetric::ALL.len()],
}

/// A spread in half the room: three digits are shown of it, and seven are kept.
#[derive(Debug, Clone, Copy)]
struct StoredSpread {
    low: f32,
    high: f32,
    mean: f32,
    count: u16,
    kind: ReadingKind,
}

impl From<Spread> for StoredSpread {
    #[allow(clippy::cast_possible_truncation)]
    fn from(spread: Spread) -> Self {
        let count = u16::try_from(spread.count()).unwrap_or(u16::MAX);
        let [low, high, mean] = [spread.low, spread.high, spread.mean()].map(|value| value as f32);
        Self { low, high, mean, count, kind: spread.kind }
    }
}

impl From<StoredSpread> for Spread {
    fn from(stored: StoredSpread) -> Self {
        let [low, high, mean] = [stored.low, stored.high, stored.mean].map(f64::from);
        Self::of_many(low, high, mean, u32::from(stored.count), stored.kind)
    }
}

/// The past of every device, at every span.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    devices: Vec<[VecDeque<Bucket>; HistorySpan::ALL.len()]>,
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
    /// followed: a day of one takes 300 kB.
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
                self.put_device(position, device, progress, sample.at);
            }
        }
    }

    /// A device's past begins with this.
    pub fn begin(&mut self, device: usize, past: &[(Moment, DeviceSample)]) {
        let Some(rows) = self.devices.get_mut(device) else { return };
        *rows = Default::default();
        self.alone = Some(device);
        for (at, sample) in past {
            self.advance(*at);
            self.put_device(device, sample, None, *at);
        }
    }

    fn advance(&mut self, at: Moment) {
        if at > self.newest {
            self.spacing = [at.0 - self.newest.0, self.spacing[0]];
            self.newest = at;
        }
    }

    fn put_device(&mut self, position: usize, device: &DeviceSample, progress: Option<&Progress>, at: Moment) {
        let hold = self.hold();
        let figures =
            DeviceMetric::ALL.map(|figure| spread(&figure.of_run(progress).unwrap_or_else(|| figure.of(device))));
        if let Some(rows) = self.devices.get_mut(position) {
            for (span, row) in HistorySpan::ALL.into_iter().zip(rows) {
                put(row, span, at, figures, hold);
            }
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
        let Some(rows) = self.devices.get(device).filter(|_| columns > 0) else { return spreads };
        let (length, bucket_length) = span.millis();
        let width = (length / columns as u64).max(1);
        let end = self.end(span, columns as u64);
        let start = end.saturating_sub(width * columns as u64);
        let row = &rows[span as usize];
        for (bucket, next) in row.iter().zip(row.iter().skip(1).map(Some).chain([None])) {
            let Some(spread) = bucket.figures[figure as usize].map(Spread::from) else { continue };
            // A bucket counts for every column that it reaches into, and until the next one.
            let from = bucket.number * bucket_length;
            let own = from.saturating_add(bucket_length);
            let next = next.map(|next| next.number * bucket_length);
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
        let row = &self.devices.get(device)?[span as usize];
        let (length, bucket_length) = span.millis();
        let oldest = self.newest.0.saturating_sub(length);
        let within = |bucket: &&Bucket| (bucket.number * bucket_length).saturating_add(bucket_length) > oldest;
        row.iter()
            .filter(within)
            .filter_map(|bucket| bucket.figures[figure as usize].map(Spread::from))
            .reduce(Spread::with)
    }
}

fn spread(reading: &Reading<f64>) -> Option<Spread> {
    let kind = reading.kind().unwrap_or(ReadingKind::Measured);
    reading.value().filter(|value| value.is_finite()).map(|value| Spread::of(*value, kind))
}

/// Adds figures to the bucket of their time; what has left the span makes room.
fn put(
    row: &mut VecDeque<Bucket>,
    span: HistorySpan,
    at: Moment,
    figures: [Option<Spread>; DeviceMetric::ALL.len()],
    hold: u64,
) {
    let (length, bucket_length) = span.millis();
    let number = at.0 / bucket_length;
    match row.back_mut() {
        // A clock that goes back a little adds to what is newest.
        Some(newest) if newest.number >= number => {
            for (into, figure) in newest.figures.iter_mut().zip(figures) {
                *into = match (*into, figure) {
                    (Some(before), Some(now)) => Some(Spread::from(before).with(now).into()),
                    (before, now) => before.or(now.map(StoredSpread::from)),
                };
            }
        }
        _ => row.push_back(Bucket { number, figures: figures.map(|figure| figure.map(StoredSpread::from)) }),
    }
    // The span, and what reaches into its first column.
    let oldest = number.saturating_sub((length + hold) / bucket_length + 1);
    while row.front().is_some_and(|bucket| bucket.number < oldest) {
        row.pop_front();
    }
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
        let buckets: usize = spans.devices[0].iter().map(VecDeque::len).sum();
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
