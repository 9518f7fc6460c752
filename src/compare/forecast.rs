//! Where a run's memory is going: flat, or growing, and when it will be all used.

use crate::reading::Moment;
use crate::units::{Bytes, BytesPerSec, Seconds};

/// What the memory of a run does over time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Forecast {
    /// Too little was seen to say.
    #[default]
    TooShort,
    /// It does not grow beyond its noise.
    Flat,
    /// It grows.
    Growing(MemoryGrowth),
}

/// Memory that grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryGrowth {
    /// How fast.
    pub rate: BytesPerSec,
    /// Time until all of the capacity is used, at that rate.
    pub left: Seconds,
    /// The soonest that the spread of the rates allows.
    pub soonest: Seconds,
    /// The latest; none where the slowest rate is no growth.
    pub latest: Option<Seconds>,
    /// Since when it was seen to.
    pub since: Moment,
}

impl MemoryGrowth {
    /// When memory will be full: `memory full in ~24 min`.
    #[must_use]
    pub fn short(&self) -> String {
        format!("memory full in ~{}", self.left.roughly())
    }

    /// The same with how sure that is: `memory full in ~24 min (20 min to 31 min)`.
    #[must_use]
    pub fn words(&self) -> String {
        let latest = self.latest.map_or_else(|| "never".to_owned(), Seconds::roughly);
        let soonest = self.soonest.roughly();
        if soonest == latest { self.short() } else { format!("{} ({soonest} to {latest})", self.short()) }
    }
}

/// Pieces that the time is divided into: each counts with its highest point, since that is
/// what runs out of memory.
const PIECES: usize = 32;

/// Pieces that must have been seen.
const LEAST: usize = 12;

/// Growth over the whole time that is worth a word, as a share of the capacity.
const WORTH: f64 = 0.002;

/// What a trend without cause reaches in one of some hundred looks: 99.5 % of a normal deviate, one-sided.
const SURE: f64 = 2.58;

/// Two-sided 95 %.
const SPREAD: f64 = 1.96;

/// Reads the future off `points` (time and memory, oldest first).
///
/// Growth is told from noise by the test of Mann (1945) and Kendall over the peaks of equal
/// pieces of time, and its rate is the median of the slopes between any two of them (Sen
/// 1968), with the range of that estimate's order statistics. Memory that rose and stays, as
/// at the start of every run, is no growth: each quarter of the time must lie above the one before.
#[must_use]
pub fn forecast(points: impl Iterator<Item = (Moment, Bytes)> + Clone, capacity: Bytes) -> Forecast {
    let start = points.clone().next().map_or(Moment::default(), |(at, _)| at);
    let pieces = pieces(points);
    if pieces.len() < LEAST {
        return Forecast::TooShort;
    }
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    let grown = last.1 - first.1;
    if grown < WORTH * capacity.as_f64() || !climbs(&pieces) || trend(&pieces) < SURE {
        return Forecast::Flat;
    }
    let slopes = slopes(&pieces);
    let count = pieces.len() as f64;
    let half = SPREAD * (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt() / 2.0;
    let middle = slopes.len() as f64 / 2.0;
    let at = |position: f64| slopes[(position.max(0.0) as usize).min(slopes.len() - 1)];
    let (low, rate, high) = (at(middle - half), at(middle), at(middle + half));
    let room = (capacity.as_f64() - last.1).max(0.0);
    if rate <= 0.0 {
        return Forecast::Flat;
    }
    Forecast::Growing(MemoryGrowth {
        rate: BytesPerSec(rate),
        left: Seconds(room / rate),
        soonest: Seconds(room / high.max(rate)),
        latest: (low > 0.0).then(|| Seconds(room / low)),
        since: start,
    })
}

/// The highest point of each piece of time: seconds since the start, bytes.
fn pieces(points: impl Iterator<Item = (Moment, Bytes)> + Clone) -> Vec<(f64, f64)> {
    let Some((start, _)) = points.clone().next() else { return Vec::new() };
    let whole = points.clone().last().map_or(0.0, |(end, _)| end.since(start).0);
    if whole <= 0.0 {
        return Vec::new();
    }
    let mut pieces: Vec<Option<(f64, f64)>> = vec![None; PIECES];
    for (at, bytes) in points {
        let seconds = at.since(start).0;
        let piece = ((seconds / whole * PIECES as f64) as usize).min(PIECES - 1);
        let point = (seconds, bytes.as_f64());
        if pieces[piece].is_none_or(|known| point.1 > known.1) {
            pieces[piece] = Some(point);
        }
    }
    pieces.into_iter().flatten().collect()
}

/// Whether the median of each quarter lies above that of the one before.
fn climbs(pieces: &[(f64, f64)]) -> bool {
    let quarter = pieces.len() / 4;
    let medians: Vec<f64> = pieces.chunks(quarter.max(1)).take(4).map(median).collect();
    medians.windows(2).all(|pair| pair[1] > pair[0])
}

fn median(of: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = of.iter().map(|(_, bytes)| *bytes).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Mann and Kendall's statistic as a normal deviate: pairs in rising order less those in falling order.
fn trend(pieces: &[(f64, f64)]) -> f64 {
    let mut balance = 0.0;
    for (index, earlier) in pieces.iter().enumerate() {
        for later in &pieces[index + 1..] {
            if later.1 > earlier.1 {
                balance += 1.0;
            } else if later.1 < earlier.1 {
                balance -= 1.0;
            }
        }
    }
    let count = pieces.len() as f64;
    balance / (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt()
}

/// The slopes between any two points, ascending.
fn slopes(pieces: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (index, earlier) in pieces.iter().enumerate() {
        for later in &pieces[index + 1..] {
            let seconds = later.0 - earlier.0;
            if seconds > 0.0 {
                slopes.push((later.1 - earlier.1) / seconds);
            }
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Bytes = Bytes(80 << 30);

    fn series(seconds: u64, memory: impl Fn(u64) -> f64) -> Vec<(Moment, Bytes)> {
        (0..seconds).map(|second| (Moment(second * 1000), Bytes::from_gib(memory(second)))).collect()
    }

    /// A hash, as noise that is the same in every run: between -1 and 1.
    fn noise(second: u64) -> f64 {
        let mut z = second.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn of(points: &[(Moment, Bytes)]) -> Forecast {
        forecast(points.iter().copied(), CAPACITY)
    }

    #[test]
    fn a_leak_ends_when_the_arithmetic_says() {
        // 50 GiB and 0.01 GiB a second over 600 s: 55.99 GiB at the end, 24.01 GiB left, 2401 s.
        let Forecast::Growing(growth) = of(&series(600, |second| 50.0 + 0.01 * second as f64)) else { panic!() };
        assert!((growth.left.0 - 2401.0).abs() < 5.0, "{growth:?}");
        assert!(growth.soonest.0 <= growth.left.0 && growth.latest.unwrap().0 >= growth.left.0);
    }

    #[test]
    fn a_leak_under_sawtooth_and_noise_is_found_and_its_range_holds_the_truth() {
        let saw = |second: u64| 8.0 * ((second % 7) as f64 / 7.0) + 0.5 * noise(second);
        let Forecast::Growing(growth) = of(&series(1200, |second| 40.0 + 0.005 * second as f64 + saw(second))) else {
            panic!("not found")
        };
        // Peaks reach about 40 + 8 * 6 / 7 + 0.5 + 6 = 53.4: (80 - 53.4) / 0.005 = 5300 s.
        assert!(growth.soonest.0 < 5300.0 && growth.latest.is_none_or(|latest| latest.0 > 5300.0), "{growth:?}");
    }

    #[test]
    fn noise_is_no_growth() {
        for seed in 0..200_u64 {
            let noisy = series(600, |second| 60.0 + 2.0 * noise(second + 10_000 * seed));
            assert_eq!(of(&noisy), Forecast::Flat, "seed {seed}");
        }
    }

    #[test]
    fn memory_that_rose_and_stays_is_no_growth() {
        let warmed_up = series(600, |second| if second < 120 { 20.0 + second as f64 / 4.0 } else { 50.0 });
        assert_eq!(of(&warmed_up), Forecast::Flat);
        let one_jump = series(600, |second| if second < 400 { 50.0 } else { 55.0 });
        assert_eq!(of(&one_jump), Forecast::Flat);
    }

    #[test]
    fn a_few_seconds_say_nothing() {
        assert_eq!(of(&series(5, |second| second as f64)), Forecast::TooShort);
        assert_eq!(of(&[]), Forecast::TooShort);
    }
}
