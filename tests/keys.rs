//! The dashboard's loop without a terminal: a plan, keys, and what has become of both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "support/plan.rs"]
mod plan;

use std::path::PathBuf;

use memwall::app::{
    AttachedState, Conflict, Effect, Event, Expected, InTheWay, Key, Meant, MonitorView, Overlay, Pane, Recording,
    State, update,
};
use memwall::compare::Whose;
use memwall::reading::playback::{Playback, Steer};
use memwall::reading::{
    Absence, DeviceMemory, DeviceProcess, DeviceSample, HostProcess, Moment, Reading, Sample, SourceInfo, SourceKind,
};
use memwall::units::Bytes;
use plan::open;

/// Eight GPUs as 2 data x 2 tensor x 2 pipeline; 32 samples = 2 replicas x 4 micro batches x 4.
const PLAN: &str = "\
model:
  preset: llama-2-7b   # the base
  batch_size: 32
  sequence_length: 2048

training:
  precision: bf16-mixed
  micro_batch_size: 4
  gradient_accumulation_steps: 4

hardware:
  gpu_type: NVIDIA H100

cluster:
  num_gpus: 8

distribution:
  data_parallel: 2
  tensor_parallel: 2
  pipeline_parallel: 2
";

fn press(state: &mut State, keys: &[Key]) -> Vec<Effect> {
    let effects = keys.iter().flat_map(|key| update(state, Event::Key(*key)));
    // That unsaved text is kept is another test's.
    effects.filter(|effect| !matches!(effect, Effect::Keep(_) | Effect::Forget { .. })).collect()
}

fn type_text(state: &mut State, text: &str) {
    let keys: Vec<Key> = std::iter::once(Key::Enter).chain(text.chars().map(Key::Char)).chain([Key::Enter]).collect();
    press(state, &keys);
}

/// Moves to the field of that key of the plan.
fn go_to(state: &mut State, key: &str) {
    press(state, &[Key::Char('1'), Key::Home]);
    for _ in 0..30 {
        if state.form.field(&state.editor).unwrap().key() == key {
            return;
        }
        press(state, &[Key::Down]);
    }
    panic!("no field for {key}");
}

/// The lines in which the text differs from what was opened.
fn changed_lines(state: &State) -> Vec<&str> {
    state.editor.text().lines().zip(PLAN.lines()).filter(|(now, before)| now != before).map(|(now, _)| now).collect()
}

#[test]
fn a_step_of_the_sequence_changes_that_value_alone() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    assert_eq!(changed_lines(&state), ["  sequence_length: 4096"]);
    press(&mut state, &[Key::Left, Key::Left]);
    assert_eq!(changed_lines(&state), ["  sequence_length: 1024"]);
}

#[test]
fn more_tokens_need_more_memory_in_the_same_turn() {
    let mut state = open(PLAN);
    let before = state.editor.prediction().unwrap().capacity.needed;
    go_to(&mut state, "model.sequence_length");
    let announced = state.form.upper.as_ref().unwrap().outcome.memory;
    press(&mut state, &[Key::Right]);
    let after = state.editor.prediction().unwrap().capacity.needed;
    assert!(after > before);
    assert_eq!(after - before, announced);
}

#[test]
fn a_batch_doubles_and_accumulation_follows() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[Key::Right]);
    // 64 = 2 replicas x 4 x 8
    assert_eq!(changed_lines(&state), ["  batch_size: 64", "  gradient_accumulation_steps: 8"]);
}

#[test]
fn tensor_parallel_shares_out_the_gpus_that_there_are() {
    let mut state = open(PLAN);
    go_to(&mut state, "distribution.tensor_parallel");
    press(&mut state, &[Key::Right]);
    // 8 GPUs = 1 data x 4 tensor x 2 pipeline; 32 = 1 replica x 4 x 8
    assert_eq!(
        changed_lines(&state),
        ["  gradient_accumulation_steps: 8", "  data_parallel: 1", "  tensor_parallel: 4"]
    );
}

#[test]
fn data_parallel_brings_its_gpus() {
    let mut state = open(PLAN);
    go_to(&mut state, "distribution.data_parallel");
    press(&mut state, &[Key::Right]);
    // 4 data x 2 x 2 = 16 GPUs; 32 = 4 replicas x 4 x 2
    assert_eq!(changed_lines(&state), ["  gradient_accumulation_steps: 2", "  num_gpus: 16", "  data_parallel: 4"]);
}

#[test]
fn micro_batches_step_through_what_divides_the_batch() {
    let mut state = open(PLAN);
    go_to(&mut state, "training.micro_batch_size");
    press(&mut state, &[Key::Right]);
    // 32 / 2 replicas = 16 samples each: after 4 comes 8, twice.
    assert_eq!(changed_lines(&state), ["  micro_batch_size: 8", "  gradient_accumulation_steps: 2"]);
}

#[test]
fn a_preset_wins_over_an_explicit_architecture_which_stays() {
    let text = "model:\n  architecture:\n    hidden_size: 1024\n    num_layers: 2\n    num_attention_heads: 8\n    vocab_size: 1000\n  batch_size: 1\n";
    let mut state = open(text);
    assert_eq!(state.editor.faults(), []);
    type_text(&mut state, "llama-3-8b");
    assert_eq!(state.editor.faults(), []);
    assert_eq!(state.editor.prediction().unwrap().params.total, 8_030_261_248);
    assert!(state.editor.text().contains("    num_layers: 2\n"));
}

#[test]
fn names_are_completed_from_their_beginning() {
    let mut state = open(PLAN);
    go_to(&mut state, "hardware.gpu_type");
    type_text(&mut state, "h200");
    assert_eq!(state.editor.prediction().unwrap().gpu, "NVIDIA H200 SXM 141GB");
}

#[test]
fn a_broken_value_leaves_the_last_good_prediction_and_says_where() {
    let mut state = open(PLAN);
    let good = state.editor.prediction().unwrap().clone();
    go_to(&mut state, "distribution.tensor_parallel");
    type_text(&mut state, "3");
    let fault = &state.editor.faults()[0];
    assert!(fault.at.is_some(), "{fault}");
    assert_eq!(state.editor.prediction(), Some(&good));
    press(&mut state, &[Key::Char('u')]);
    assert_eq!((state.editor.faults(), state.editor.text()), ([].as_slice(), PLAN));
}

#[test]
fn undo_and_redo_walk_the_same_path() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right, Key::Right]);
    let changed = state.editor.text().to_owned();
    press(&mut state, &[Key::Char('u'), Key::Char('u')]);
    assert_eq!(state.editor.text(), PLAN);
    assert!(!state.editor.modified());
    press(&mut state, &[Key::Char('U'), Key::Ctrl('r')]);
    assert_eq!(state.editor.text(), changed);
    press(&mut state, &[Key::Char('U')]);
    assert!(state.notice.is_some());
}

#[test]
fn leaving_with_unsaved_changes_asks() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[Key::Char('q')]), [Effect::Quit]);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(press(&mut state, &[Key::Right, Key::Char('q')]), []);
    assert_eq!(state.overlay, Some(Overlay::ConfirmQuit));
    assert_eq!(press(&mut state, &[Key::Esc]), []);
    assert_eq!(state.overlay, None);
    assert_eq!(press(&mut state, &[Key::Char('q'), Key::Char('q')]), [Effect::Quit]);
}

#[test]
fn saving_on_the_way_out_leaves_only_when_saved() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    let effects = press(&mut state, &[Key::Char('q'), Key::Char('s')]);
    let [Effect::Save { path: None, text, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let text = text.clone();
    update(&mut state, Event::SaveFailed("disk full".to_owned()));
    assert!(state.editor.modified());
    press(&mut state, &[Key::Char('q'), Key::Char('s')]);
    let path = PathBuf::from("test.yaml");
    assert_eq!(update(&mut state, Event::Saved { path, text }).last(), Some(&Effect::Quit));
    assert!(!state.editor.modified());
}

#[test]
fn the_focus_goes_round_and_the_digits_jump() {
    let mut state = open(PLAN);
    let mut seen = vec![state.focus];
    for _ in 0..5 {
        press(&mut state, &[Key::Tab]);
        seen.push(state.focus);
    }
    assert_eq!(seen, [Pane::Plan, Pane::Vram, Pane::Roofline, Pane::Monitor, Pane::Compare, Pane::Plan]);
    press(&mut state, &[Key::BackTab]);
    assert_eq!(state.focus, Pane::Compare);
    press(&mut state, &[Key::Char('3')]);
    assert_eq!(state.focus, Pane::Roofline);
}

fn sample(second: u64, processes: &[(u32, u64)]) -> Event {
    let at = Moment(second * 1000);
    let held: Vec<DeviceProcess> = processes
        .iter()
        .map(|(pid, gib)| DeviceProcess::holding(*pid, Reading::measured(Bytes::from_mib(gib * 1024), at)))
        .collect();
    let used: Bytes = held.iter().filter_map(|process| process.memory.value().copied()).sum();
    let total = Bytes::from_mib(81_559);
    let memory = DeviceMemory { total, used, free: total.saturating_sub(used) };
    let device = DeviceSample {
        memory: Reading::measured(memory, at),
        processes: Reading::measured(held, at),
        ..DeviceSample::default()
    };
    Event::Sample(Box::new(Sample { at, devices: vec![device], ..Sample::default() }))
}

#[test]
fn attaching_compares_with_that_process_alone() {
    let mut state = open(PLAN);
    update(&mut state, sample(1, &[(100, 10), (200, 30)]));
    // Nobody attached: everything on the fullest GPU, 40 GiB.
    let whole = state.comparison.clone().unwrap();
    assert_eq!(whole.memory.observed.value(), Some(&Bytes::from_mib(40 * 1024)));
    // The rows: GPU 0, process 100, process 200.
    press(&mut state, &[Key::Char('4'), Key::End, Key::Enter]);
    let process = state.comparison.clone().unwrap();
    assert_eq!(process.memory.observed.value(), Some(&Bytes::from_mib(30 * 1024)));
    // A process before it goes: the attached one stays selected and attached.
    update(&mut state, sample(2, &[(200, 20)]));
    assert_eq!(state.monitor.selected_pid(), Some(200));
    let later = state.comparison.clone().unwrap();
    assert_eq!(later.memory_now.value(), Some(&Bytes::from_mib(20 * 1024)));
    assert_eq!(later.memory.observed.value(), Some(&Bytes::from_mib(30 * 1024)));
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.monitor.attached, None);
}

#[test]
fn digits_are_text_while_a_value_is_typed() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[Key::Enter, Key::Char('4'), Key::Char('q'), Key::Backspace, Key::Char('8')]);
    assert_eq!((state.focus, state.form.typing.as_deref()), (Pane::Plan, Some("48")));
    press(&mut state, &[Key::Enter]);
    // 48 = 2 replicas x 4 x 6
    assert_eq!(changed_lines(&state), ["  batch_size: 48", "  gradient_accumulation_steps: 6"]);
}

#[test]
fn pasted_text_is_typed_without_its_line_ends() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[Key::Enter]);
    update(&mut state, Event::Paste("6\u{1b}4\n".to_owned()));
    assert_eq!(state.form.typing.as_deref(), Some("64"));
    press(&mut state, &[Key::Esc]);
    assert_eq!(changed_lines(&state), Vec::<&str>::new());
}

#[test]
fn a_batch_that_the_plan_leaves_open_can_be_set() {
    let plan = PLAN.replace("  batch_size: 32\n", "");
    let mut state = open(&plan);
    go_to(&mut state, "model.batch_size");
    type_text(&mut state, "64");
    assert_eq!(state.editor.faults(), []);
    // 64 = 2 replicas x 4 x 8
    assert!(state.editor.text().contains("gradient_accumulation_steps: 8"), "{}", state.editor.text());
}

#[test]
fn a_plan_is_saved_when_its_changes_have_been_shown() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(press(&mut state, &[Key::Right, Key::Char('s')]), []);
    assert_eq!(state.overlay, Some(Overlay::Diff(0)));
    // Another key goes back.
    assert_eq!(press(&mut state, &[Key::Esc]), []);
    assert_eq!(state.overlay, None);
    assert!(matches!(
        press(&mut state, &[Key::Char('s'), Key::Char('s')]).as_slice(),
        [Effect::Save { expected: Expected::Nothing, .. }]
    ));
    // One save at a time.
    assert_eq!(press(&mut state, &[Key::Char('s'), Key::Char('s')]), []);
}

#[test]
fn somebody_elses_changes_are_written_over_only_when_asked_for() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right, Key::Char('s'), Key::Char('s')]);
    let theirs = PLAN.replace("the base", "our base");
    let found = InTheWay::Newer(Some(theirs));
    update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
    assert_eq!(state.overlay, Some(Overlay::Conflict(0)));
    let effects = press(&mut state, &[Key::Char('o')]);
    assert!(matches!(effects.as_slice(), [Effect::Save { expected: Expected::Anything, .. }]), "{effects:?}");
}

#[test]
fn a_run_that_died_keeps_its_peak_and_has_no_rates() {
    let mut state = open(PLAN);
    update(&mut state, sample(1, &[(200, 30)]));
    press(&mut state, &[Key::Char('4'), Key::Enter]);
    update(&mut state, sample(2, &[(200, 75)]));
    update(&mut state, sample(3, &[]));
    let comparison = state.comparison.clone().unwrap();
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
    let comparison = state.comparison.clone().unwrap();
    assert_eq!(comparison.whose, Whose::Process { pid: 999, device: None });
    for absence in [comparison.memory.observed.absence(), comparison.bandwidth.observed.absence()] {
        assert_eq!(absence, Some(&Absence::NotThere));
    }
}

#[test]
fn another_card_than_the_plans_is_noticed() {
    let mut state = open(PLAN);
    let Event::Sample(mut seen) = sample(1, &[]) else { panic!("a sample") };
    for (name, other) in
        [("NVIDIA H100 80GB HBM3", false), ("NVIDIA A100-SXM4-40GB", true), ("a card of one's own", false)]
    {
        seen.devices[0].name = Reading::measured(name.to_owned(), seen.at);
        update(&mut state, Event::Sample(seen.clone()));
        assert_eq!(state.other_card().is_some(), other, "{name}");
    }
}

#[test]
fn leaving_while_an_older_text_is_being_written_loses_nothing() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    let effects = press(&mut state, &[Key::Right, Key::Char('s'), Key::Char('s')]);
    let [Effect::Save { text: older, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    // Edited again and told to save and leave, before the first save has ended.
    assert_eq!(press(&mut state, &[Key::Right, Key::Char('q'), Key::Char('s')]), []);
    let newer = state.editor.text().to_owned();
    let path = PathBuf::from("test.yaml");
    let effects = update(&mut state, Event::Saved { path: path.clone(), text: older.clone() });
    let [Effect::Save { text, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*text, newer);
    assert_eq!(update(&mut state, Event::Saved { path, text: newer }).last(), Some(&Effect::Quit));
}

fn played(rewound: u64, at: u64) -> Event {
    back_to(rewound, 0, at)
}

fn back_to(rewound: u64, from: usize, at: u64) -> Event {
    let (start, end) = (Moment(1_000), Moment(100_000));
    Event::Played(Playback {
        start,
        end,
        at: Moment(at),
        speed: 1.0,
        paused: false,
        rewound,
        from,
        going_to: None,
        damage: None,
    })
}

/// A sample in which one GPU holds so much, and a process on it all of that.
fn holding(at: u64, gib: f64) -> Event {
    let (total, used) = (Bytes::from_gib(80.0), Bytes::from_gib(gib));
    let memory = DeviceMemory { total, used, free: total.saturating_sub(used) };
    let process = DeviceProcess::holding(4711, Reading::measured(used, Moment(at)));
    let device = DeviceSample {
        memory: Reading::measured(memory, Moment(at)),
        processes: Reading::measured(vec![process], Moment(at)),
        ..DeviceSample::default()
    };
    Event::Sample(Box::new(Sample { at: Moment(at), devices: vec![device], ..Sample::default() }))
}

#[test]
fn a_recording_that_goes_back_a_little_is_as_it_was_then() {
    let play = |state: &mut State, samples: std::ops::Range<u64>| {
        // The most is held early, and more than that late.
        for second in samples {
            let gib = if second == 10 || second > 1000 { 70.0 + second as f64 / 1000.0 } else { 20.0 };
            update(state, holding(1_000 * (second + 1), gib));
        }
    };
    let mut state = open(PLAN);
    update(&mut state, played(0, 1_000));
    play(&mut state, 0..1100);
    press(&mut state, &[Key::Char('4'), Key::Char('v')]);
    // Back to the 901st sample: the first 900 are as they were, and so is how it is looked at.
    assert_eq!(update(&mut state, back_to(1, 900, 901_000)), []);
    let mut once = open(PLAN);
    update(&mut once, played(0, 1_000));
    play(&mut once, 0..900);
    assert_eq!(state.monitor.peaks, [Some(Bytes::from_gib(70.01))]);
    assert_eq!(state.monitor.peaks, once.monitor.peaks);
    let points = |state: &State| state.monitor.history.points(0).cloned().collect::<Vec<_>>();
    assert_eq!(points(&state), points(&once));
    assert_eq!(state.monitor.view, MonitorView::Device);
    play(&mut state, 900..901);
    assert_eq!(state.now, Moment(901_000));
    // Further back than what is kept: from the beginning.
    assert_eq!(update(&mut state, back_to(2, 0, 1_000)), []);
    assert_eq!((state.monitor.sample.as_ref(), state.monitor.peaks.len()), (None, 0));
}

#[test]
fn what_was_shown_while_another_process_was_followed_is_played_again() {
    let mut state = open(PLAN);
    update(&mut state, played(0, 1_000));
    for second in 0..350 {
        update(&mut state, holding(1_000 * (second + 1), 20.0));
    }
    press(&mut state, &[Key::Char('4'), Key::Enter]);
    assert_eq!(state.monitor.attached.as_ref().map(|attached| attached.pid), Some(4711));
    assert_eq!(update(&mut state, back_to(1, 300, 301_000)), [Effect::Steer(Steer::Afresh)]);
}

#[test]
fn a_recording_that_goes_back_is_seen_as_if_played_for_the_first_time() {
    let mut state = open(PLAN);
    update(&mut state, played(0, 1_000));
    for (at, gib) in [(1_000, 10.0), (2_000, 70.0), (3_000, 20.0)] {
        update(&mut state, holding(at, gib));
    }
    assert_eq!(state.monitor.peaks[0], Some(Bytes::from_gib(70.0)));
    update(&mut state, played(1, 1_000));
    assert_eq!(state.monitor.sample, None);
    update(&mut state, holding(1_000, 10.0));
    assert_eq!((state.monitor.peaks[0], state.now), (Some(Bytes::from_gib(10.0)), Moment(1_000)));
    // The clock on the wall is not the recording's.
    update(&mut state, Event::Tick(Moment(9_000_000)));
    assert_eq!(state.now, Moment(1_000));
}

#[test]
fn a_recording_is_steered_and_not_recorded() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[Key::Char(' '), Key::Char('>')]), []);
    update(&mut state, played(0, 1_000));
    let steered = press(&mut state, &[Key::Char(' '), Key::Char('>'), Key::Char(','), Key::Char(']')]);
    let wanted = [Steer::Pause, Steer::Seek(60), Steer::Step(-1), Steer::Faster].map(Effect::Steer);
    assert_eq!(steered, wanted);
    assert_eq!(press(&mut state, &[Key::Char('r')]), []);
    assert!(state.notice.unwrap().text.contains("recording already"));
}

#[test]
fn r_begins_and_ends_a_recording_and_what_fails_is_told() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[Key::Char('r')]), []);
    assert!(state.notice.as_ref().unwrap().text.contains("nothing to record"));
    let source = SourceInfo { kind: SourceKind::Nvml, detail: String::new() };
    update(&mut state, Event::SourceStarted(source));
    assert_eq!(press(&mut state, &[Key::Char('r'), Key::Char('r')]), [Effect::Record]);
    update(&mut state, Event::Recording("x.ndjson".into()));
    assert_eq!(press(&mut state, &[Key::Char('r'), Key::Char('r')]), [Effect::StopRecording]);
    update(&mut state, Event::Recorded("recorded 5 samples".to_owned()));
    assert_eq!(press(&mut state, &[Key::Char('r')]), [Effect::Record]);
    update(&mut state, Event::RecordFailed("x: no space".to_owned()));
    assert_eq!((state.recording.clone(), state.notice.unwrap().text.as_str()), (Recording::Off, "x: no space"));
}

/// A process on a GPU that the host knows, under a live source.
fn live(state: &mut State, started: u64) {
    let info = SourceInfo { kind: SourceKind::Nvml, detail: String::new() };
    update(state, Event::SourceStarted(info));
    let Event::Sample(mut seen) = sample(1, &[(200, 30)]) else { panic!("a sample") };
    let started = Reading::measured(started, seen.at);
    seen.processes = vec![HostProcess { pid: 200, started, ..HostProcess::default() }];
    update(state, Event::Sample(seen));
    press(state, &[Key::Char('4'), Key::End]);
}

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).chain([Key::Enter]).collect()
}

#[test]
fn a_process_is_ended_only_when_its_pid_is_typed_and_asked_before_it_is_forced() {
    let mut state = open(PLAN);
    live(&mut state, 77);
    let meant = Meant { pid: 200, started: 77 };
    for wrong in ["", "20", "2000", "y"] {
        press(&mut state, &[Key::Char('x')]);
        assert_eq!(press(&mut state, &typed(wrong)), [], "{wrong}");
    }
    press(&mut state, &[Key::Char('x')]);
    assert_eq!(press(&mut state, &[Key::Char('2'), Key::Esc]), []);
    press(&mut state, &[Key::Char('x')]);
    assert_eq!(press(&mut state, &typed("200")), [Effect::End { meant, forced: false }]);
    update(&mut state, Event::EndSent { meant, forced: false });
    // It stays: the next time it is not asked, and the pid alone will not do.
    press(&mut state, &[Key::Char('x')]);
    assert_eq!(press(&mut state, &typed("200")), []);
    press(&mut state, &[Key::Char('x')]);
    assert_eq!(press(&mut state, &typed("kill 200")), [Effect::End { meant, forced: true }]);
    // Another process under the same pid is asked first.
    live(&mut state, 99);
    press(&mut state, &[Key::Char('x')]);
    let another = Meant { pid: 200, started: 99 };
    assert_eq!(press(&mut state, &typed("200")), [Effect::End { meant: another, forced: false }]);
}

#[test]
fn made_up_processes_are_not_ended() {
    let mut state = open(PLAN);
    live(&mut state, 77);
    update(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Demo, detail: String::new() }));
    press(&mut state, &[Key::Char('x')]);
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
    let comparison = state.comparison.clone().unwrap();
    assert_eq!(comparison.whose, Whose::Device { device: 0 });
    assert_eq!(comparison.memory_now.value(), Some(&Bytes::from_mib(30 * 1024)));
}
