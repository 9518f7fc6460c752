//! What grows, where a run's memory does: told by what PyTorch counts, since the driver sees one figure.

use crate::reading::{Moment, Progress, Reading};
use crate::units::Bytes;

/// What it is that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthKind {
    /// What is left in tensors after a step: something is kept from step to step.
    Leak,
    /// The most in tensors within a step, which are given back: batches get larger or sequences longer.
    Batches,
    /// The most in tensors; whether they are given back nobody tells.
    Tensors,
    /// What the caching allocator holds and no tensor uses.
    Fragmentation,
    /// Memory that is not PyTorch's allocator's: NCCL, libraries, another process.
    Outside,
}

impl GrowthKind {
    /// What one would say.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Leak => "a leak: tensors are kept from step to step",
            Self::Batches => "larger batches or longer sequences",
            Self::Tensors => "more in tensors: a leak, or longer sequences",
            Self::Fragmentation => "a fragmented allocator: reserved grows, tensors do not",
            Self::Outside => "memory outside of PyTorch's allocator",
        }
    }
}

/// How much more a run holds than it did when it was first looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRise {
    /// On its device.
    pub device: Bytes,
    /// At most in tensors.
    pub peak: Option<Bytes>,
    /// By the caching allocator.
    pub reserved: Option<Bytes>,
}

impl MemoryRise {
    /// With so much more of every figure that is counted.
    #[must_use]
    pub fn with(self, more: Bytes) -> Self {
        let risen = |bytes: Bytes| bytes + more;
        Self { device: risen(self.device), peak: self.peak.map(risen), reserved: self.reserved.map(risen) }
    }
}

/// What was counted at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    at: Moment,
    device: Bytes,
    allocated: Option<Bytes>,
    peak: Option<Bytes>,
    reserved: Option<Bytes>,
}

/// Counts that are kept. Where there are more, every second one goes and from then on half as many are taken: they
/// stay evenly spread over the whole run.
const KEPT: usize = 256;

/// Counts that a judgement needs.
const LEAST: usize = 6;

/// What holds more than this share of the growth is what grows.
const MOST: f64 = 0.5;

/// What PyTorch counted over the time of a run, beside what the driver charged.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    counts: Vec<Count>,
    /// Milliseconds that lie between two of them at least.
    apart: u64,
}

impl Counts {
    /// Takes in what `progress` tells, while the device holds `device` bytes.
    pub fn note(&mut self, progress: &Progress, device: Bytes, now: Moment) {
        if self.counts.last().is_some_and(|last| now.0 < last.at.0 + self.apart) {
            return;
        }
        let bytes = |reading: &Reading<Bytes>| reading.value().copied();
        let count = Count {
            at: now,
            device,
            allocated: bytes(&progress.allocated),
            peak: bytes(&progress.peak_allocated),
            reserved: bytes(&progress.peak_reserved),
        };
        if self.counts.len() == KEPT {
            let mut number = 0;
            self.counts.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            let whole = now.0.saturating_sub(self.counts.first().map_or(now.0, |first| first.at.0));
            self.apart = whole / (KEPT as u64 / 2);
        }
        self.counts.push(count);
    }

    /// What the device held, oldest first.
    pub fn points(&self) -> impl Iterator<Item = (Moment, Bytes)> + Clone {
        self.counts.iter().map(|count| (count.at, count.device))
    }

    /// How much each figure has risen since the first count; none of what is not counted.
    #[must_use]
    pub fn risen(&self) -> Option<MemoryRise> {
        let (first, last) = (self.counts.first()?, self.counts.last()?);
        let since = |before: Option<Bytes>, now: Option<Bytes>| Some(now?.saturating_sub(before?));
        Some(MemoryRise {
            device: last.device.saturating_sub(first.device),
            peak: since(first.peak, last.peak),
            reserved: since(first.reserved, last.reserved),
        })
    }

    /// What grew since `since`, where that can be told.
    #[must_use]
    pub fn grows(&self, since: Moment) -> Option<GrowthKind> {
        let counts: Vec<&Count> = self.counts.iter().filter(|count| count.at >= since).collect();
        if counts.len() < LEAST {
            return None;
        }
        let quarter = counts.len() / 4;
        let (first, last) = (&counts[..quarter], &counts[counts.len() - quarter..]);
        let grown =
            |of: &dyn Fn(&Count) -> Option<Bytes>| Some(middle(last, of)?.as_f64() - middle(first, of)?.as_f64());
        let whole = grown(&|count| Some(count.device)).filter(|whole| *whole > 0.0)?;
        let Some(reserved) = grown(&|count| count.reserved) else {
            return (grown(&|count| count.peak)? > MOST * whole).then_some(GrowthKind::Tensors);
        };
        if reserved < MOST * whole {
            return Some(GrowthKind::Outside);
        }
        let peak = grown(&|count| count.peak)?;
        if peak < MOST * reserved {
            return Some(GrowthKind::Fragmentation);
        }
        Some(match grown(&|count| count.allocated) {
            Some(allocated) if allocated >= MOST * peak => GrowthKind::Leak,
            Some(_) => GrowthKind::Batches,
            None => GrowthKind::Tensors,
        })
    }
}

/// The median of a figure.
fn middle(counts: &[&Count], of: &dyn Fn(&Count) -> Option<Bytes>) -> Option<Bytes> {
    let mut values: Vec<Bytes> = counts.iter().filter_map(|count| of(count)).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GiB of allocated, peak, reserved and device at each minute.
    fn counted(at: impl Fn(f64) -> [f64; 4]) -> Option<GrowthKind> {
        let mut counts = Counts::default();
        for minute in 0..300_u32 {
            let now = Moment(u64::from(minute) * 60_000);
            let [allocated, peak, reserved, device] = at(f64::from(minute)).map(Bytes::from_gib);
            let progress = Progress {
                allocated: Reading::measured(allocated, now),
                peak_allocated: Reading::measured(peak, now),
                peak_reserved: Reading::measured(reserved, now),
                ..Progress::default()
            };
            counts.note(&progress, device, now);
        }
        counts.grows(Moment(0))
    }

    #[test]
    fn each_kind_of_growth_is_told_by_what_grows_with_it() {
        let leak = |minute: f64| [20.0, 40.0, 45.0, 48.0].map(|gib| gib + 0.01 * minute);
        assert_eq!(counted(leak), Some(GrowthKind::Leak));
        let batches = |minute: f64| {
            let more = 0.01 * minute;
            [20.0, 40.0 + more, 45.0 + more, 48.0 + more]
        };
        assert_eq!(counted(batches), Some(GrowthKind::Batches));
        let pieces = |minute: f64| [20.0, 40.0, 45.0 + 0.01 * minute, 48.0 + 0.01 * minute];
        assert_eq!(counted(pieces), Some(GrowthKind::Fragmentation));
        let outside = |minute: f64| [20.0, 40.0, 45.0, 48.0 + 0.01 * minute];
        assert_eq!(counted(outside), Some(GrowthKind::Outside));
    }

    #[test]
    fn nothing_is_said_of_what_does_not_grow_or_is_not_counted() {
        assert_eq!(counted(|_| [20.0, 40.0, 45.0, 48.0]), None);
        let mut counts = Counts::default();
        for minute in 0..20_u64 {
            counts.note(&Progress::default(), Bytes((48 << 30) + (minute << 24)), Moment(minute * 60_000));
        }
        assert_eq!(counts.grows(Moment(0)), None);
    }
}
