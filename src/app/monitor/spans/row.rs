//! One span's buckets, of which only the newest changes.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use super::HistorySpan;
use crate::reading::{Moment, ReadingKind, Spread};

/// How `N` figures were spread over the time of a bucket; none where there was none.
type Figures<const N: usize> = [Option<Spread>; N];

/// The buckets of a span, the oldest first: those that are over in the form `S`, which takes less room.
#[derive(Debug, Clone)]
pub struct Row<S, const N: usize> {
    over: VecDeque<Bucket<[Option<S>; N]>>,
    newest: Option<Bucket<Figures<N>>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket<F> {
    /// Which one, counted from the Unix epoch.
    number: u64,
    figures: F,
}

impl<S, const N: usize> Default for Row<S, N> {
    fn default() -> Self {
        Self { over: VecDeque::new(), newest: None }
    }
}

impl<S: StoredSpread, const N: usize> Row<S, N> {
    /// Adds figures to the bucket of their time; what has left the span makes room.
    pub fn put(&mut self, span: HistorySpan, at: Moment, figures: Figures<N>, hold: u64) {
        let (length, bucket_length) = span.millis();
        let number = at.0 / bucket_length;
        match &mut self.newest {
            // A clock that goes back a little adds to what is newest.
            Some(newest) if newest.number >= number => {
                for (into, figure) in newest.figures.iter_mut().zip(figures) {
                    *into = match (*into, figure) {
                        (Some(before), Some(now)) => Some(before.with(now)),
                        (before, now) => before.or(now),
                    };
                }
            }
            newest => {
                if let Some(Bucket { number, figures }) = newest.replace(Bucket { number, figures }) {
                    let figures = figures.map(|figure| figure.map(S::store));
                    self.over.push_back(Bucket { number, figures });
                }
            }
        }
        // The span, and what reaches into its first column.
        let oldest = number.saturating_sub((length + hold) / bucket_length + 1);
        while self.over.front().is_some_and(|bucket| bucket.number < oldest) {
            self.over.pop_front();
        }
    }

    /// The number of each bucket, the oldest first, and what it says of one figure.
    pub fn read(&self, figure: usize) -> impl Iterator<Item = (u64, Option<Spread>)> + '_ {
        let over = self.over.iter().map(move |bucket| (bucket.number, bucket.figures[figure].map(S::load)));
        over.chain(self.newest.iter().map(move |bucket| (bucket.number, bucket.figures[figure])))
    }
}

/// A spread in less room, kept for as long as a day.
pub trait StoredSpread: Copy {
    fn store(spread: Spread) -> Self;
    fn load(self) -> Spread;
}

/// A figure of the run: it may have any sign and any size.
#[derive(Debug, Clone, Copy)]
pub struct SignedSpread {
    low: f32,
    high: f32,
    mean: f32,
    count: Count,
}

impl StoredSpread for SignedSpread {
    #[allow(clippy::cast_possible_truncation)]
    fn store(spread: Spread) -> Self {
        let [low, high, mean] = [spread.low, spread.high, spread.mean()].map(|value| value as f32);
        Self { low, high, mean, count: Count::of(spread) }
    }

    fn load(self) -> Spread {
        let [low, high, mean] = [self.low, self.high, self.mean].map(f64::from);
        self.count.spread(low, high, mean)
    }
}

/// A figure of a device, in ten bytes: none is below zero. In `f32`s the day of eight devices grew by more than a
/// megabyte.
#[derive(Debug, Clone, Copy)]
pub struct UnsignedSpread {
    low: Short,
    high: Short,
    /// Where the mean is between them, in 65 535ths.
    mean: u16,
    count: Count,
}

impl StoredSpread for UnsignedSpread {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn store(spread: Spread) -> Self {
        let range = spread.high - spread.low;
        let share = if range > 0.0 { (spread.mean() - spread.low) / range } else { 0.0 };
        let mean = (share * f64::from(u16::MAX)).round() as u16;
        Self { low: Short::of(spread.low), high: Short::of(spread.high), mean, count: Count::of(spread) }
    }

    fn load(self) -> Spread {
        let (low, high) = (self.low.value(), self.high.value());
        let mean = low + (high - low) * f64::from(self.mean) / f64::from(u16::MAX);
        self.count.spread(low, high, mean)
    }
}

/// How many values, up to 16 383, and of what kind: the two highest bits. Never zero, so that a spread that is not
/// there takes no more room.
#[derive(Debug, Clone, Copy)]
struct Count(NonZeroU16);

impl Count {
    const KIND: u32 = 14;
    const MOST: u16 = (1 << Self::KIND) - 1;

    fn of(spread: Spread) -> Self {
        let kind: u16 = match spread.kind {
            ReadingKind::Measured => 0,
            ReadingKind::UpperBound => 1,
            ReadingKind::Estimated => 2,
        };
        let count = u16::try_from(spread.count()).unwrap_or(Self::MOST).clamp(1, Self::MOST);
        Self(NonZeroU16::new(kind << Self::KIND | count).unwrap_or(NonZeroU16::MIN))
    }

    fn spread(self, low: f64, high: f64, mean: f64) -> Spread {
        let kind = match self.0.get() >> Self::KIND {
            0 => ReadingKind::Measured,
            1 => ReadingKind::UpperBound,
            _ => ReadingKind::Estimated,
        };
        Spread::of_many(low, high, mean, u32::from(self.0.get() & Self::MOST), kind)
    }
}

/// A number of at least 0: an `f32` without its sign and its last seven bits, right to a hundred-thousandth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Short([u8; 3]);

impl Short {
    #[allow(clippy::cast_possible_truncation)]
    fn of(value: f64) -> Self {
        // Half of what is dropped is added, for the nearest; the sign's bit is the highest and is 0.
        let bits = (value.max(0.0) as f32).to_bits().saturating_add(1 << 6) >> 7;
        let [a, b, c, _] = bits.to_le_bytes();
        Self([a, b, c])
    }

    fn value(self) -> f64 {
        let [a, b, c] = self.0;
        f64::from(f32::from_bits(u32::from_le_bytes([a, b, c, 0]) << 7))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_tells_is_kept_to_a_hundred_thousandth() {
        // A share, degrees, watts, MHz, 80 GiB, a B300's DRAM, an NVL72's links.
        for value in [0.001, 0.5, 1.0, 63.0, 699.9, 1980.0, 85_899_345_920.0, 8e12, 1.3e14] {
            let kept = Short::of(value).value();
            assert!((kept - value).abs() <= value * 1e-5, "{value} {kept}");
        }
        assert_eq!(Short::of(0.0).value(), 0.0);
        // Next to nothing is not nothing.
        assert!(Short::of(1e-12).value() > 0.0);
    }

    #[test]
    fn a_spread_that_is_over_takes_ten_bytes() {
        assert_eq!(size_of::<Option<UnsignedSpread>>(), 10);
        let bound = Spread::of(350.0, ReadingKind::UpperBound).with(Spread::of(450.0, ReadingKind::Measured));
        let kept = UnsignedSpread::store(bound).load();
        assert_eq!((kept.low, kept.high, kept.count(), kept.kind), (350.0, 450.0, 2, ReadingKind::UpperBound));
        // Within half of a 65 535th of the 100 W between them.
        assert!((kept.mean() - 400.0).abs() < 1e-3, "{}", kept.mean());
        let loss = Spread::of(-2.5, ReadingKind::Estimated).with(Spread::of(1.5, ReadingKind::Measured));
        assert_eq!(SignedSpread::store(loss).load(), loss);
    }
}
