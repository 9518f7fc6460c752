//! The monitor: processes attached to, lost, ended.

use memwall::app::{AttachedState, Effect, Event, KeyPress, State, TargetProcess, update};
use memwall::compare::MemoryOwner;
use memwall::reading::{Absence, HostProcess, Reading, SourceInfo, SourceKind};
use memwall::units::Bytes;

use super::{PLAN, press, sample};
use crate::support::plan::open;

#[test]
fn attaching_compares_with_that_process_alone() {
    let mut state = open(PLAN);
    update(&mut state, sample(1, &[(100, 10), (200, 30)]));
    // Nobody attached: everything on the fullest GPU, 40 GiB.
    let whole = state.run.comparison.clone().unwrap();
    assert_eq!(whole.memory.observed.value(), Some(&Bytes::from_mib(40 * 1024)));
    // The rows: GPU 0, process 100, process 200.
    press(&mut state, &[KeyPress::Char('4'), KeyPress::End, KeyPress::Enter]);
    let process = state.run.comparison.clone().unwrap();
    assert_eq!(process.memory.observed.value(), Some(&Bytes::from_mib(30 * 1024)));
    // A process before it goes: the attached one stays selected and attached.
    update(&mut state, sample(2, &[(200, 20)]));
    assert_eq!(state.monitor.selected_pid(), Some(200));
    let later = state.run.comparison.clone().unwrap();
    assert_eq!(later.memory_now.value(), Some(&Bytes::from_mib(20 * 1024)));
    assert_eq!(later.memory.observed.value(), Some(&Bytes::from_mib(30 * 1024)));
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.monitor.attached, None);
}

#[test]
fn a_run_that_died_keeps_its_peak_and_has_no_rates() {
    let mut state = open(PLAN);
    update(&mut state, sample(1, &[(200, 30)]));
    press(&mut state, &[KeyPress::Char('4'), KeyPress::Enter]);
    update(&mut state, sample(2, &[(200, 75)]));
    update(&mut state, sample(3, &[]));
    let comparison = state.run.comparison.clone().unwrap();
    assert_eq!(comparison.memory.observed.value(), Some(&Bytes::from_mib(75 * 1024)));
    assert_eq!(comparison.memory_now.absence(), Some(&Absence::Gone));
    assert_eq!(comparison.bandwidth.observed.absence(), Some(&Absence::Gone));
    assert_eq!(comparison.compute.observed.absence(), Some(&Absence::Gone));
}

#[test]
fn a_process_that_is_awaited_has_no_figures_of_others() {
    let mut state = open(PLAN);
    state.monitor = memwall::app::Monitor::new(Some(999));
    update(&mut state, sample(1, &[(200, 30)]));
    let comparison = state.run.comparison.clone().unwrap();
    assert_eq!(comparison.whose, MemoryOwner::Process { pid: 999, device: None });
    for absence in [comparison.memory.observed.absence(), comparison.bandwidth.observed.absence()] {
        assert_eq!(absence, Some(&Absence::NotThere));
    }
}

#[test]
fn another_card_than_the_plans_is_noticed() {
    let mut state = open(PLAN);
    let Event::Sample(mut seen) = sample(1, &[]) else { panic!("a sample") };
    for (name, other) in
        [("NVIDIA H100 80GB HBM3", false), ("NVIDIA A100-SXM4-40GB", true), ("a card of one's own", true)]
    {
        seen.devices[0].name = Reading::measured(name.to_owned(), seen.at);
        update(&mut state, Event::Sample(seen.clone()));
        assert_eq!(state.other_card().is_some(), other, "{name}");
    }
}

/// A process on a GPU that the host knows, under a live source.
fn live(state: &mut State, started: u64) {
    let info = SourceInfo { kind: SourceKind::Nvml, detail: String::new() };
    update(state, Event::SourceStarted(info));
    let Event::Sample(mut seen) = sample(1, &[(200, 30)]) else { panic!("a sample") };
    let started = Reading::measured(started, seen.at);
    seen.processes = vec![HostProcess { pid: 200, started, ..HostProcess::default() }];
    update(state, Event::Sample(seen));
    press(state, &[KeyPress::Char('4'), KeyPress::End]);
}

fn typed(text: &str) -> Vec<KeyPress> {
    text.chars().map(KeyPress::Char).chain([KeyPress::Enter]).collect()
}

#[test]
fn a_process_is_ended_only_when_its_pid_is_typed_and_asked_before_it_is_forced() {
    let mut state = open(PLAN);
    live(&mut state, 77);
    let meant = TargetProcess { pid: 200, started: 77 };
    for wrong in ["", "20", "2000", "y"] {
        press(&mut state, &[KeyPress::Char('x')]);
        assert_eq!(press(&mut state, &typed(wrong)), [], "{wrong}");
    }
    press(&mut state, &[KeyPress::Char('x')]);
    assert_eq!(press(&mut state, &[KeyPress::Char('2'), KeyPress::Esc]), []);
    press(&mut state, &[KeyPress::Char('x')]);
    assert_eq!(press(&mut state, &typed("200")), [Effect::End { meant, forced: false }]);
    update(&mut state, Event::EndSent { meant, forced: false });
    // It stays: the next time it is not asked, and the pid alone will not do.
    press(&mut state, &[KeyPress::Char('x')]);
    assert_eq!(press(&mut state, &typed("200")), []);
    press(&mut state, &[KeyPress::Char('x')]);
    assert_eq!(press(&mut state, &typed("kill 200")), [Effect::End { meant, forced: true }]);
    // Another process under the same pid is asked first.
    live(&mut state, 99);
    press(&mut state, &[KeyPress::Char('x')]);
    let another = TargetProcess { pid: 200, started: 99 };
    assert_eq!(press(&mut state, &typed("200")), [Effect::End { meant: another, forced: false }]);
}

#[test]
fn made_up_processes_are_not_ended() {
    let mut state = open(PLAN);
    live(&mut state, 77);
    update(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Demo, detail: String::new() }));
    press(&mut state, &[KeyPress::Char('x')]);
    assert!(state.monitor.ending.is_none() && state.notice.is_some());
}

#[test]
fn an_attached_process_that_is_none_or_cannot_be_matched_is_said() {
    let mut state = open(PLAN);
    for (why, expected) in [(Absence::Gone, AttachedState::Missing), (Absence::NotRead, AttachedState::Unmatched)] {
        state.monitor = memwall::app::Monitor::new(Some(999));
        let Event::Sample(mut seen) = sample(1, &[(200, 30)]) else { panic!("a sample") };
        let host = |pid, why| HostProcess { pid, started: Reading::Absent(why), ..HostProcess::default() };
        seen.processes = vec![host(200, Absence::Elsewhere), host(999, why)];
        update(&mut state, Event::Sample(seen));
        assert_eq!(state.monitor.attached.as_ref().unwrap().state, expected);
    }
    // Which process it is cannot be told: the GPU's total, 30 GiB, is what there is.
    let comparison = state.run.comparison.clone().unwrap();
    assert_eq!(comparison.whose, MemoryOwner::Device { device: 0 });
    assert_eq!(comparison.memory_now.value(), Some(&Bytes::from_mib(30 * 1024)));
}
