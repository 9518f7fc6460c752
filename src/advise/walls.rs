//! The two walls of a sweep: where memory ends, and where throughput flattens.

use super::axis::Axis;
use super::sweep::SweepPoint;
use crate::predict::Outline;

/// Throughput has flattened where nothing beyond brings more than this share on top.
const FLAT: f64 = 0.05;

/// Both walls along one axis, the other axes held.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisWalls {
    /// The axis.
    pub axis: usize,
    /// A point of the line: its values of all other axes are the line's.
    pub line: usize,
    /// Where memory ends.
    pub capacity: CapacityWall,
    /// Where throughput flattens.
    pub throughput: BandwidthWall,
}

/// The capacity wall. The numbers are places in the sweep's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityWall {
    /// The last that fits, and the next, which does not.
    Between {
        /// It fits.
        fits: usize,
        /// It does not.
        too_large: usize,
    },
    /// Everything fits.
    AllFit,
    /// Nothing does.
    NoneFits,
}

/// The bandwidth wall. The numbers are places in the sweep's points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BandwidthWall {
    /// From this value on, larger ones bring no more than a few percent.
    Flat {
        /// The point.
        from: usize,
        /// What the best of the larger ones brings on top, as a share; below 0 where all are slower.
        gain: f64,
        /// What the largest brings on top: it may be far slower than the best.
        end: f64,
    },
    /// It still grows at the last value.
    Grows,
}

impl BandwidthWall {
    /// Larger values do not keep what throughput there is: it falls by more than the share that still counts as flat.
    #[must_use]
    pub fn falls(&self) -> bool {
        matches!(self, Self::Flat { end, .. } if *end < -FLAT)
    }
}

/// What a plan gets done in a second: tokens of all GPUs, or samples where there are no tokens; of generation the
/// tokens that it answers with.
#[must_use]
pub fn throughput(outline: &Outline) -> f64 {
    let time = outline.decode.as_ref().unwrap_or(&outline.time);
    time.tokens_per_s.unwrap_or(time.samples_per_s)
}

/// The walls of every line of the grid that runs along an axis of numbers.
pub fn walls(axes: &[Axis], points: &[SweepPoint]) -> Vec<AxisWalls> {
    let mut walls = Vec::new();
    for (axis, numbers) in axes.iter().enumerate().filter_map(|(axis, values)| Some((axis, values.numbers()?))) {
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        let stride: usize = axes[axis + 1..].iter().map(|axis| axis.values.len()).product();
        for (line, _) in points.iter().enumerate().filter(|(_, point)| point.at[axis] == 0) {
            let along = order.iter().map(|value| line + value * stride);
            let along: Vec<(usize, &Outline)> =
                along.filter_map(|at| Some((at, points[at].outcome.as_ref().ok()?))).collect();
            if along.len() > 1 {
                walls.push(AxisWalls { axis, line, capacity: capacity(&along), throughput: flattens(&along) });
            }
        }
    }
    walls
}

fn capacity(along: &[(usize, &Outline)]) -> CapacityWall {
    let fits = |outline: &Outline| outline.capacity.needed <= outline.capacity.bytes;
    // Beyond one that does not fit others may fit again by their allocator's luck: the wall ends the longest stretch.
    let stretches = along.chunk_by(|one, next| fits(one.1) || !fits(next.1));
    let length = |stretch: &&[(usize, &Outline)]| stretch.iter().filter(|(_, outline)| fits(outline)).count();
    let ended = stretches.filter(|stretch| stretch.last().is_some_and(|(_, last)| !fits(last)));
    let longest = ended.max_by_key(length).unwrap_or_default();
    let end = longest.windows(2).find(|pair| fits(pair[0].1) && !fits(pair[1].1));
    // More of a key may need less (ranks that share out the states): the wall is then on the other side.
    let start = along.windows(2).find(|pair| !fits(pair[0].1) && fits(pair[1].1));
    match (end, start) {
        (Some(pair), _) => CapacityWall::Between { fits: pair[0].0, too_large: pair[1].0 },
        (None, Some(pair)) => CapacityWall::Between { fits: pair[1].0, too_large: pair[0].0 },
        (None, None) if along.iter().all(|(_, outline)| fits(outline)) => CapacityWall::AllFit,
        (None, None) => CapacityWall::NoneFits,
    }
}

fn flattens(along: &[(usize, &Outline)]) -> BandwidthWall {
    let mut best_beyond = f64::NEG_INFINITY;
    let last = along.last().map_or(0.0, |(_, outline)| throughput(outline));
    let mut flat = BandwidthWall::Grows;
    for (place, (at, outline)) in along.iter().enumerate().rev() {
        let own = throughput(outline);
        if place + 1 < along.len() {
            let gain = best_beyond / own - 1.0;
            if gain <= FLAT {
                flat = BandwidthWall::Flat { from: *at, gain, end: last / own - 1.0 };
            } else {
                break;
            }
        }
        best_beyond = best_beyond.max(own);
    }
    flat
}
