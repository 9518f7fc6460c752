//! What somebody may look for in a recording.

use std::collections::BTreeSet;

use crate::reading::{DeviceSample, Sample};

/// What was looked for in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEvent {
    /// The number of its sample.
    pub index: usize,
    /// What happens there.
    pub words: String,
}

impl FoundEvent {
    /// The first event of samples of which the first has that number, or the last where one looks back.
    pub fn among(samples: &[Sample], first: usize, forward: bool) -> Option<Self> {
        let mut found = samples.windows(2).enumerate().filter_map(|(place, pair)| {
            let words = event_between(&pair[0], &pair[1])?;
            Some(Self { index: first + place + 1, words })
        });
        if forward { found.next() } else { found.next_back() }
    }
}

/// What happens from one sample to the next that somebody may look for, in words; none where nothing does.
fn event_between(before: &Sample, now: &Sample) -> Option<String> {
    let found = [
        (before.out_of_memory.is_none() && now.out_of_memory.is_some()).then(|| "memory ran out".to_owned()),
        loss(before, now).map(str::to_owned),
        devices(before, now),
        processes(before, now),
        work(before, now).map(str::to_owned),
    ];
    let words: Vec<String> = found.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// A loss that is no number any more, or one again.
fn loss(before: &Sample, now: &Sample) -> Option<&'static str> {
    let no_number = |sample: &Sample| {
        sample.progress.as_ref().is_some_and(|progress| progress.loss.value().is_some_and(|loss| !loss.is_finite()))
    };
    match (no_number(before), no_number(now)) {
        (false, true) => Some("the loss is no number"),
        (true, false) => Some("the loss is a number again"),
        _ => None,
    }
}

/// GPUs that are lost or back.
fn devices(before: &Sample, now: &Sample) -> Option<String> {
    let there = |sample: &Sample| -> BTreeSet<String> {
        let known = sample.devices.iter().filter(|device| device.memory.value().is_some());
        known.map(DeviceSample::label).collect()
    };
    changed("GPU", &there(before), &there(now), ("back", "lost"))
}

/// Processes that come and go.
fn processes(before: &Sample, now: &Sample) -> Option<String> {
    let pids = |sample: &Sample| -> BTreeSet<u32> {
        let listed = sample.devices.iter().filter_map(|device| device.processes.value());
        listed.flatten().map(|process| process.pid).collect()
    };
    changed("process", &pids(before), &pids(now), ("came", "went"))
}

/// `GPU 3 lost`; of several: `3 processes came, process 4711 went`.
fn changed<T: Ord + ToString>(
    what: &str,
    before: &BTreeSet<T>,
    now: &BTreeSet<T>,
    (came, went): (&str, &str),
) -> Option<String> {
    let several = if what.ends_with('s') { format!("{what}es") } else { format!("{what}s") };
    let told = |changed: Vec<&T>, how: &str| match changed.as_slice() {
        [] => None,
        [one] => Some(format!("{what} {} {how}", one.to_string())),
        more => Some(format!("{} {several} {how}", more.len())),
    };
    let parts = [told(now.difference(before).collect(), came), told(before.difference(now).collect(), went)];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Work on any GPU that begins or ends.
fn work(before: &Sample, now: &Sample) -> Option<&'static str> {
    let works = |sample: &Sample| {
        let busy: Vec<bool> =
            sample.devices.iter().filter_map(|device| device.busy.value().map(|busy| busy.0 > 0.0)).collect();
        (!busy.is_empty()).then(|| busy.contains(&true))
    };
    match (works(before), works(now)) {
        (before, Some(true)) if before != Some(true) => Some("work begins"),
        (Some(true), Some(false)) => Some("work ends"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{DeviceMemory, DeviceProcess, Moment, Reading};
    use crate::units::{Bytes, Fraction};

    fn words(before: &Sample, now: &Sample) -> String {
        event_between(before, now).unwrap_or_default()
    }

    fn of(devices: Vec<DeviceSample>) -> Sample {
        Sample { devices, ..Sample::default() }
    }

    #[test]
    fn work_that_begins_and_ends_is_an_event() {
        let sample = |busy: f64| {
            let busy = Reading::measured(Fraction(busy), Moment(0));
            of(vec![DeviceSample { busy, ..DeviceSample::default() }])
        };
        assert_eq!(words(&sample(0.0), &sample(0.9)), "work begins");
        assert_eq!(words(&sample(0.9), &sample(0.0)), "work ends");
        assert_eq!(words(&sample(0.7), &sample(0.9)), "");
    }

    #[test]
    fn gpus_and_processes_that_come_and_go_are_named() {
        let gpu = |index, there: bool, pids: &[u32]| {
            let (total, free) = (Bytes(2), Bytes(1));
            let memory = DeviceMemory { total, used: Bytes(1), free };
            let held = |pid: &u32| DeviceProcess::holding(*pid, Reading::measured(Bytes(1), Moment(0)));
            DeviceSample {
                index,
                memory: if there { Reading::measured(memory, Moment(0)) } else { Reading::default() },
                processes: Reading::measured(pids.iter().map(held).collect(), Moment(0)),
                ..DeviceSample::default()
            }
        };
        let both = of(vec![gpu(0, true, &[7]), gpu(1, true, &[7])]);
        assert_eq!(words(&both, &of(vec![gpu(0, true, &[7]), gpu(1, false, &[7])])), "GPU 1 lost");
        assert_eq!(words(&of(vec![gpu(0, true, &[7])]), &both), "GPU 1 back");
        let others = of(vec![gpu(0, true, &[8, 9]), gpu(1, true, &[])]);
        assert_eq!(words(&both, &others), "2 processes came, process 7 went");
        assert_eq!(words(&both, &of(Vec::new())), "2 GPUs lost; process 7 went");
    }
}
