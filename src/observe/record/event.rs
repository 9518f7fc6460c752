//! What somebody may look for in a recording.

use std::collections::BTreeSet;

use crate::reading::Sample;

/// Whether something happens from one sample to the next that somebody may look for.
pub fn is_event(before: &Sample, now: &Sample) -> bool {
    let pids = |sample: &Sample| -> BTreeSet<u32> {
        let listed = sample.devices.iter().filter_map(|device| device.processes.value());
        listed.flatten().map(|process| process.pid).collect()
    };
    let works = |sample: &Sample| {
        let busy: Vec<bool> =
            sample.devices.iter().filter_map(|device| device.busy.value().map(|busy| busy.0 > 0.0)).collect();
        (!busy.is_empty()).then(|| busy.contains(&true))
    };
    let there =
        |sample: &Sample| sample.devices.iter().map(|device| device.memory.value().is_some()).collect::<Vec<_>>();
    let no_number = |sample: &Sample| {
        sample.progress.as_ref().is_some_and(|progress| progress.loss.value().is_some_and(|loss| !loss.is_finite()))
    };
    pids(before) != pids(now)
        || works(before) != works(now)
        || there(before) != there(now)
        || no_number(before) != no_number(now)
        || before.out_of_memory.is_none() && now.out_of_memory.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{DeviceSample, Moment, Reading};
    use crate::units::Fraction;

    #[test]
    fn work_that_begins_and_ends_is_an_event() {
        let sample = |busy: f64| {
            let busy = Reading::measured(Fraction(busy), Moment(0));
            Sample { devices: vec![DeviceSample { busy, ..DeviceSample::default() }], ..Sample::default() }
        };
        assert!(is_event(&sample(0.0), &sample(0.9)) && is_event(&sample(0.9), &sample(0.0)));
        assert!(!is_event(&sample(0.7), &sample(0.9)));
        assert!(is_event(&sample(0.7), &Sample::default()), "a GPU is lost");
    }
}
