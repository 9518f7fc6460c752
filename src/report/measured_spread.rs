//! How far measured runs like the plan's lie from its figures.

use crate::compare::{Bands, Tolerance};
use crate::predict::{Job, Prediction};
use crate::units::{Bytes, Seconds};

/// Within how many deviations 95 of 100 lie.
const NEARLY_ALL: f64 = 2.0;

/// What bounds the figures of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredSpread {
    /// A step's least and most time; none where this machine was measured while other programs ran.
    pub step: Option<[Seconds; 2]>,
    /// Least and most device-used bytes of the GPU that needs most.
    pub used: [Bytes; 2],
    /// Few measured runs are of this kind: a wider kind's stands in.
    pub few: bool,
}

impl MeasuredSpread {
    /// Of a plan that trains; measured runs tell nothing of answering.
    #[must_use]
    pub fn of(job: &Job, prediction: &Prediction) -> Option<Self> {
        let bands = Bands::of(job);
        let disturbed = job.speed.curves.measured.as_ref().is_some_and(|measured| measured.doubt().is_some());
        let around = |Tolerance { below, above }: Tolerance| [1.0 - below, 1.0 + above];
        let step = prediction.time.step.0;
        let used = prediction.capacity.needed.as_f64();
        prediction.decode.is_none().then(|| Self {
            step: (!disturbed).then(|| around(bands.time.within(NEARLY_ALL)).map(|share| Seconds(share * step))),
            used: around(bands.device_used.within(NEARLY_ALL)).map(|share| Bytes::from_f64(share * used)),
            few: bands.few,
        })
    }

    /// Of the time, in words.
    pub fn of_step(&self) -> String {
        let Some([least, most]) = self.step else {
            return "how far a run strays from it is not known: other programs disturbed what was measured here"
                .to_owned();
        };
        let few = if self.few { "; few like it were measured: a wider kind's" } else { "" };
        format!("95 of 100 runs like it take {least} to {most} a step{few}")
    }

    /// Of the memory, in words.
    pub fn of_memory(&self, there: Bytes) -> String {
        let [least, most] = self.used;
        let beyond = if least <= there && most > there { ", some more than there is" } else { "" };
        format!("95 of 100 runs like it use {} to {most}{beyond}", least.in_gib())
    }
}
