//! A source that tells of more GPUs than the job has: whose each figure is.

use crate::fleet::{healthy, opened};
use crate::support::demo::{START, happen, look, screen};
use memwall::app::{Event, Pane, State};
use memwall::reading::{DeviceLocation, DeviceMemory, DeviceSample, Reading, Sample};
use memwall::units::Bytes;

/// The job's 1 024 GPUs, and before them a node of somebody else's, which hold most of their memory.
fn beside_others(state: &State, interval: u64) -> Sample {
    let at = START.plus_millis(interval * 5000);
    let foreign = |gpu: u32| {
        let device = healthy(state, 0, at);
        let total = Bytes::from_mib(81_559);
        let used = Bytes::from_mib(80_000);
        let location = DeviceLocation {
            node: "a-node".to_owned(),
            gpu,
            pod: Some(format!("other-{gpu}")),
            namespace: Some("theirs".to_owned()),
            ..DeviceLocation::default()
        };
        DeviceSample {
            index: 2000 + gpu,
            location: Some(location.into()),
            memory: Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at),
            uuid: Reading::measured(format!("{}{gpu}", DeviceSample::SIMULATED), at),
            ..device
        }
    };
    let own = (0..1024).map(|rank| healthy(state, rank, at));
    Sample { at, devices: (0..8).map(foreign).chain(own).collect(), ..Sample::default() }
}

#[test]
fn what_others_hold_is_not_the_runs() {
    let mut state = opened("mine");
    for interval in 0..4 {
        let sample = beside_others(&state, interval);
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    // The one job of as many GPUs as the plan was found.
    assert_eq!(state.monitor.cluster.selector.as_ref().unwrap().to_string(), "namespace=ml,pod=llama-*");
    let observed = state.run.comparison.as_ref().unwrap();
    let most = state.plans.editor.prediction().unwrap().largest().device_used;
    assert_eq!(observed.memory_now.value(), Some(&most));
    state.views.focus = Pane::Compare;
    let shown = screen(&state, &look(), (160, 50));
    assert!(shown.contains("all of GPU node1/0") && shown.contains("prometheus live"), "{shown}");
}

#[test]
fn a_job_that_no_gpu_is_of_is_said() {
    let mut state = opened("mine");
    state.monitor.cluster.choose(Some("namespace=nosuch".parse().unwrap()));
    let sample = beside_others(&state, 0);
    happen(&mut state, Event::Sample(Box::new(sample)));
    assert!(state.run.comparison.is_none());
    assert!(screen(&state, &look(), (120, 40)).contains("no GPU is of namespace=nosuch"));
}

/// The job that was picked ends, and is submitted again under another number.
#[test]
fn a_job_that_was_picked_is_picked_anew() {
    let mut state = opened("mine");
    let of = |state: &State, interval: u64, job: &str| {
        let mut sample = beside_others(state, interval);
        for device in &mut sample.devices {
            let own =
                device.location.as_deref().cloned().filter(|location| location.namespace.as_deref() == Some("ml"));
            if let Some(location) = own {
                device.location = Some(DeviceLocation { job: Some(job.to_owned()), ..location }.into());
            }
        }
        sample
    };
    for (interval, job) in [(0, "4711"), (1, "4711"), (2, "4712"), (3, "4712")] {
        let sample = of(&state, interval, job);
        happen(&mut state, Event::Sample(Box::new(sample)));
        assert_eq!(state.monitor.cluster.selector.as_ref().unwrap().to_string(), format!("job={job}"));
        assert!(state.run.comparison.is_some());
    }
}
