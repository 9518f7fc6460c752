//! Where the run has been on the roofline: a point for each sample.

use std::collections::VecDeque;

use crate::app::run::observation::executed;
use crate::app::state::State;
use crate::compare::{RunPoint, run_point};

/// Points that are kept.
pub const TRAIL: usize = 30;

/// The last points, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Trail {
    points: VecDeque<RunPoint>,
    /// The device that they are of: another one's would be another trail.
    device: Option<u32>,
}

impl Trail {
    /// The points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &RunPoint> + ExactSizeIterator {
        self.points.iter()
    }
}

/// Adds where the compared device is in the newest sample; nothing while it is idle.
pub fn note(state: &mut State) {
    let device = state.run.comparison.as_ref().and_then(|comparison| comparison.whose.device());
    let trail = &mut state.views.roofline.trail;
    if trail.device != device {
        *trail = Trail { points: VecDeque::new(), device };
    }
    let sample = state.monitor.devices().iter().find(|sample| Some(sample.index) == device);
    let (Some(sample), Some(job)) = (sample, state.plans.compared().job()) else { return };
    let Some(prediction) = state.plans.compared().prediction() else { return };
    let rate = executed(&sample.tensor_activity, &sample.counters.fp32, prediction.roofline.peak, &job.hardware.gpu);
    // Without counters there is no rate of a second, only that of whole steps.
    let of_steps =
        || state.run.comparison.as_ref().and_then(|comparison| comparison.point).filter(|_| rate.absence().is_some());
    if let Some(point) = run_point(&rate, &sample.dram_bandwidth).or_else(of_steps) {
        if trail.points.len() == TRAIL {
            trail.points.pop_front();
        }
        trail.points.push_back(point);
    }
}
