//! The verdict about a job over nodes: each rank against its equals and its own stage, and all of them against the plan.

use crate::fleet::{GPUS, NODES, expected, healthy, opened};
use crate::support::catalog;
use crate::support::demo::{START, happen, look, screen};
use memwall::app::{Event, Gravity, State, run_verdict};
use memwall::compare::ComparedStage;
use memwall::plan::{EXAMPLES, LoadedPlan};
use memwall::reading::{Absence, DeviceMemory, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind};
use memwall::units::{Bytes, Fraction, Megahertz, Watts};

/// GPUs of which exporters tell memory, power and clocks, for two steps of the plan and more.
fn seen(gpus: usize, change: impl Fn(&mut Vec<DeviceSample>, Moment)) -> State {
    let mut state = opened("mine");
    let fleet = state.clone();
    watch(&mut state, |at| {
        let mut devices: Vec<DeviceSample> =
            (0..gpus).map(|rank| without_counters(healthy(&fleet, rank, at))).collect();
        change(&mut devices, at);
        devices
    });
    state
}

fn watch(state: &mut State, devices: impl Fn(Moment) -> Vec<DeviceSample>) {
    for interval in 0..12 {
        let at = START.plus_millis(interval * 5000);
        happen(state, Event::Sample(Box::new(Sample { at, devices: devices(at), ..Sample::default() })));
    }
}

fn without_counters(device: DeviceSample) -> DeviceSample {
    let none = || Reading::Absent(Absence::NotExported);
    DeviceSample {
        dram_bandwidth: Reading::Absent(Absence::NotExported),
        tensor_activity: none(),
        sm_activity: none(),
        ..device
    }
}

fn hold(device: &mut DeviceSample, used: Bytes, at: Moment) {
    let total = Bytes::from_mib(81_559);
    device.memory = Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at);
}

#[test]
fn a_job_that_is_as_planned_is_said_to_be() {
    let state = seen(NODES * GPUS, |_, _| {});
    assert_eq!(run_verdict(&state).words, "MEMORY AS PLANNED");
}

#[test]
fn gpus_that_do_not_answer_are_the_verdict() {
    let state = seen(NODES * GPUS, |devices, _| {
        for device in devices.iter_mut().skip(512) {
            let location = device.location.clone();
            *device = DeviceSample { location, ..DeviceSample::absent(device.index, &Absence::Gone) };
        }
    });
    let verdict = run_verdict(&state);
    assert_eq!((verdict.words.as_str(), verdict.gravity), ("NO ANSWER: 512 GPUS", Gravity::Danger));
    assert_eq!(verdict.subject(), "NO ANSWER");
}

/// 380 W where its equals draw some 600, at 60 % of the time.
#[test]
fn a_rank_that_does_less_than_its_equals_is_the_verdict_of_a_run_that_is_as_planned_else() {
    let state = seen(NODES * GPUS, |devices, at| {
        devices[59].busy = Reading::measured(Fraction(0.6), at);
        devices[59].power = Reading::measured(Watts(380.0), at);
        devices[59].sm_clock = Reading::measured(Megahertz(1200.0), at);
    });
    let verdict = run_verdict(&state);
    assert!(verdict.words.starts_with("STRAGGLER -3"), "{}", verdict.words);
    assert_eq!((verdict.gravity, verdict.subject()), (Gravity::Warning, "STRAGGLER"));
    let mut compare = state;
    compare.views.focus = memwall::app::Pane::Compare;
    let shown = screen(&compare, &look(), (120, 40));
    assert!(shown.contains("GPU node8/3: ") && !shown.contains("nothing to explain"), "{shown}");
}

/// The last of four stages holds least by the plan: a quarter more than its own is still no more than the first one's.
#[test]
fn a_rank_is_held_against_its_own_stage() {
    let plan = opened("mine");
    let (first, last) = (expected(&plan, 0), expected(&plan, 1000));
    assert!(last < first, "{last} {first}");
    let more = Bytes::from_f64(last.as_f64() * 1.25);
    let state = seen(NODES * GPUS, |devices, at| hold(&mut devices[1000], more, at));
    let comparison = state.run.comparison.as_ref().unwrap();
    assert_eq!((comparison.of, comparison.memory.observed.value()), (ComparedStage::Stage(3), Some(&more)));
    assert!(run_verdict(&state).words.starts_with("MEMORY +"), "{}", run_verdict(&state).words);
    let second = screen(&state, &look(), (120, 40)).lines().nth(1).unwrap().to_owned();
    assert!(second.contains("memory node126/0 "), "{second}");
}

#[test]
fn another_number_of_gpus_than_the_plan_s_is_the_verdict() {
    let state = seen(128, |_, _| {});
    assert_eq!(run_verdict(&state).words, "128 OF 1024 GPUS");
    let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == "13b_long_sequence").unwrap();
    let mut state = State::new(LoadedPlan::from_text("mine", text).unwrap(), catalog().clone(), None, START);
    let kind = SourceKind::Prometheus;
    happen(&mut state, Event::SourceStarted(SourceInfo { kind, detail: String::new() }));
    let fleet = opened("mine");
    watch(&mut state, |at| (0..128).map(|rank| healthy(&fleet, rank, at)).collect());
    let verdict = run_verdict(&state);
    assert_eq!((verdict.words.as_str(), verdict.subject()), ("128 GPUS, PLAN HAS 8", "OTHER NUMBER OF GPUS"));
}

/// Hosts of one domain go by their own names, and a long one leaves room for why a GPU of it is off.
#[test]
fn long_names_of_hosts_leave_room_for_the_cause() {
    let state = seen(NODES * GPUS, |devices, at| {
        for (rank, device) in devices.iter_mut().enumerate() {
            let mut location = (**device.location.as_ref().unwrap()).clone();
            location.node = format!("very-long-node-name-rack02-{:03}.cluster.example.com", rank / GPUS);
            device.location = Some(std::sync::Arc::new(location));
        }
        devices[59].busy = Reading::measured(Fraction(0.0), at);
        devices[59].power = Reading::measured(Watts(80.0), at);
    });
    for (size, name) in [((80, 24), "-007/3: idle"), ((120, 40), "very-long-node-name-rack02-007/3: idle")] {
        let shown = screen(&state, &look(), size);
        let second = shown.lines().nth(1).unwrap();
        assert!(second.contains(name) && !shown.contains("example.com"), "{shown}");
    }
}
