use super::attached::{AttachedState, ProcessIdentity};
use super::*;
use crate::reading::{Absence, DeviceMemory, DeviceProcess, HookedRun, Reading};

fn device(index: u32, used_gib: f64, processes: &[(u32, f64)]) -> DeviceSample {
    let at = Moment(1_000);
    let (used, total) = (Bytes::from_gib(used_gib), Bytes::from_gib(80.0));
    let held = processes
        .iter()
        .map(|(pid, gib)| DeviceProcess::holding(*pid, Reading::measured(Bytes::from_gib(*gib), at)))
        .collect();
    DeviceSample {
        index,
        memory: Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at),
        processes: Reading::measured(held, at),
        ..DeviceSample::default()
    }
}

fn sample(devices: Vec<DeviceSample>, hosts: &[(u32, u64)]) -> Sample {
    let at = Moment(1_000);
    let processes = hosts
        .iter()
        .map(|(pid, started)| HostProcess {
            pid: *pid,
            started: Reading::measured(*started, at),
            ..HostProcess::default()
        })
        .collect();
    Sample { at, devices, processes, ..Sample::default() }
}

#[test]
fn processes_on_several_devices_are_one_row() {
    let mut monitor = Monitor::new(None);
    monitor.take(sample(vec![device(0, 30.0, &[(7, 10.0), (9, 20.0)]), device(1, 15.0, &[(7, 15.0)])], &[]));
    let rows = monitor.processes();
    assert_eq!(rows.len(), 2);
    // 10 + 15 = 25 GiB
    assert_eq!((rows[0].pid, rows[0].memory()), (7, Some(Bytes::from_gib(25.0))));
    assert_eq!(rows[0].on.iter().map(|(device, _)| device.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_attached_process_that_leaves_is_noticed_and_its_peak_kept() {
    let mut monitor = Monitor::new(Some(7));
    assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Awaited);
    monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, 100)]));
    monitor.take(sample(vec![device(0, 20.0, &[(7, 20.0)])], &[(7, 100)]));
    assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
    monitor.take(sample(vec![device(0, 0.0, &[])], &[]));
    let attached = monitor.attached.as_ref().unwrap();
    assert_eq!((attached.state, attached.peak), (AttachedState::Ended, Some(Bytes::from_gib(30.0))));
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut monitor = Monitor::new(Some(7));
    monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, 100)]));
    monitor.take(sample(vec![device(0, 60.0, &[(7, 60.0)])], &[(7, 205)]));
    let attached = monitor.attached.as_ref().unwrap();
    assert_eq!((attached.state, attached.peak), (AttachedState::Replaced, Some(Bytes::from_gib(30.0))));
}

#[test]
fn a_process_that_becomes_another_program_is_told_from_what_it_was() {
    let mut monitor = Monitor::new(Some(7));
    let named = |started: u64, command: &str| {
        let mut sample = sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, started)]);
        sample.processes[0].command = Reading::measured(command.to_owned(), sample.at);
        sample
    };
    let unknown = monitor.attached.as_ref().unwrap().identity();
    monitor.take(named(100, "sh run.sh"));
    let shell = monitor.attached.as_ref().unwrap().identity();
    assert!(!unknown.differs_from(&shell) && !shell.differs_from(&unknown), "not known yet");
    assert_eq!(unknown.with(shell.clone()), shell);
    monitor.take(named(100, "python train.py"));
    let trainer = monitor.attached.as_ref().unwrap().identity();
    assert!(shell.differs_from(&trainer) && monitor.attached.as_ref().unwrap().state == AttachedState::Present);
    // A later process of the same command.
    assert!(trainer.differs_from(&ProcessIdentity { started: Some(205), ..trainer.clone() }));
}

#[test]
fn a_hook_that_was_loaded_before_the_process_started_is_anothers() {
    let mut monitor = Monitor::new(Some(7));
    let run = |began: Option<f64>| HookedRun { began, ..HookedRun::new(7, Moment(1_000)) };
    let may = |monitor: &Monitor, began| monitor.attached.as_ref().unwrap().may_have_loaded(&run(began));
    assert!(may(&monitor, Some(40.0)), "nobody knows when it started");
    monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, 100)]));
    // The clock may have been set between.
    let expected = [(Some(40.0), false), (Some(99.0), true), (Some(260.5), true), (None, true)];
    for (began, is_its) in expected {
        assert_eq!(may(&monitor, began), is_its, "{began:?}");
    }
}

#[test]
fn an_unreadable_list_is_not_an_ended_process() {
    let mut monitor = Monitor::new(Some(7));
    monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[]));
    let lost = DeviceSample { processes: Reading::Absent(Absence::Gone), ..DeviceSample::default() };
    monitor.take(sample(vec![lost], &[]));
    assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
}

#[test]
fn letting_go_and_attaching_again_starts_anew() {
    let mut monitor = Monitor::new(None);
    monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[]));
    monitor.select_row(1);
    assert_eq!((monitor.selected, monitor.selected_row()), (SelectedRow::Process(7), 1));
    assert_eq!(monitor.selected_pid(), Some(7));
    monitor.toggle_attach(7);
    assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
    monitor.toggle_attach(7);
    assert_eq!(monitor.attached, None);
}
