//! The time of an optimizer step out of its micro batches: of all of them where each has a line, of one where a line
//! tells a step's last alone.

use super::facts::MicroStep;
use crate::reading::{Moment, Reading, ReadingKind};
use crate::units::Seconds;

/// The micro batches so far.
#[derive(Debug, Default)]
pub struct Micro {
    /// The last that was told.
    count: Option<u64>,
    /// The time of those of the step under way, where none of them is missing.
    so_far: Option<Seconds>,
    /// The last that ended a step, with the steps done then.
    ended: Option<(u64, u64)>,
}

/// The time of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepDuration {
    time: Seconds,
    kind: ReadingKind,
}

impl StepDuration {
    /// The reading that it is.
    pub const fn reading(self, at: Moment) -> Reading<Seconds> {
        Reading::Known { value: self.time, at, kind: self.kind }
    }
}

impl Micro {
    /// Takes in the next micro batch that was told, with the optimizer steps done by then; the time of the step that
    /// it ends, once that is known.
    pub fn take(&mut self, micro: MicroStep, steps: Option<u64>) -> Option<StepDuration> {
        let follows = self.count.is_some_and(|last| last + 1 == micro.count);
        self.count = Some(micro.count);
        self.so_far = self.so_far.filter(|_| follows).map(|sum| Seconds(sum.0 + micro.time.0));
        if !micro.last {
            return None;
        }
        let before = steps.and_then(|steps| self.ended.replace((micro.count, steps)).map(|ended| (ended, steps)));
        let whole = self.so_far.replace(Seconds(0.0)).map(|time| StepDuration { time, kind: ReadingKind::Measured });
        whole.or_else(|| {
            let ((count, done), steps) = before?;
            let batches =
                micro.count.checked_sub(count)? as f64 / steps.checked_sub(done).filter(|some| *some > 0)? as f64;
            Some(StepDuration { time: Seconds(micro.time.0 * batches), kind: ReadingKind::Estimated })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro(count: u64, millis: u32, last: bool) -> MicroStep {
        MicroStep { count, time: Seconds(f64::from(millis) / 1000.0), last }
    }

    #[test]
    fn a_step_is_the_sum_of_its_micro_batches() {
        let mut told = Micro::default();
        // Where reading began, the beginning of the step is missing.
        assert_eq!(told.take(micro(4, 250, true), Some(2)), None);
        assert_eq!(told.take(micro(5, 250, false), Some(2)), None);
        let step = told.take(micro(6, 500, true), Some(3));
        assert_eq!(step, Some(StepDuration { time: Seconds(0.75), kind: ReadingKind::Measured }));
    }

    #[test]
    fn where_one_of_a_step_is_told_the_others_took_as_long() {
        let mut told = Micro::default();
        assert_eq!(told.take(micro(8, 250, true), Some(1)), None);
        // 16 more in two steps: 8 each.
        let step = told.take(micro(24, 250, true), Some(3));
        assert_eq!(step, Some(StepDuration { time: Seconds(2.0), kind: ReadingKind::Estimated }));
        // A run begun anew.
        assert_eq!(told.take(micro(8, 250, true), Some(1)), None);
    }
}
