//! Recordings, written and played.

use memwall::app::{Effect, Event, KeyPress, MonitorView, RecordingState, State, update};
use memwall::reading::playback::{Playback, PlaybackCommand};
use memwall::reading::{DeviceMemory, DeviceProcess, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind};
use memwall::units::Bytes;

use super::{PLAN, press};
use crate::support::plan::open;

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
        found: None,
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
    press(&mut state, &[KeyPress::Char('4'), KeyPress::Char('v')]);
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
    press(&mut state, &[KeyPress::Char('4'), KeyPress::Enter]);
    assert_eq!(state.monitor.attached.as_ref().map(|attached| attached.pid), Some(4711));
    assert_eq!(update(&mut state, back_to(1, 300, 301_000)), [Effect::Steer(PlaybackCommand::Afresh)]);
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
    assert_eq!(press(&mut state, &[KeyPress::Char(' '), KeyPress::Char('>')]), []);
    update(&mut state, played(0, 1_000));
    let steered =
        press(&mut state, &[KeyPress::Char(' '), KeyPress::Char('>'), KeyPress::Char(','), KeyPress::Char(']')]);
    let wanted =
        [PlaybackCommand::Pause, PlaybackCommand::Seek(60), PlaybackCommand::Step(-1), PlaybackCommand::Faster]
            .map(Effect::Steer);
    assert_eq!(steered, wanted);
    assert_eq!(press(&mut state, &[KeyPress::Char('r')]), []);
    assert!(state.notice.unwrap().text.contains("recording already"));
}

#[test]
fn arrows_seek_wherever_the_pane_has_no_use_for_them() {
    let mut state = open(PLAN);
    update(&mut state, played(0, 1_000));
    update(&mut state, holding(1_000, 10.0));
    for pane in ['2', '3', '4', '5'] {
        let steered = press(&mut state, &[KeyPress::Char(pane), KeyPress::Right, KeyPress::Left]);
        assert_eq!(
            steered,
            [Effect::Steer(PlaybackCommand::Seek(60)), Effect::Steer(PlaybackCommand::Seek(-60))],
            "{pane}"
        );
    }
    // The history has spans, and the plan its values.
    let span = state.monitor.span;
    assert_eq!(press(&mut state, &[KeyPress::Char('4'), KeyPress::Char('h'), KeyPress::Right]), []);
    assert_ne!(state.monitor.span, span);
    assert_eq!(press(&mut state, &[KeyPress::Char('1'), KeyPress::Down, KeyPress::Right]), []);
    assert!(state.plans.editor.modified());
}

#[test]
fn r_begins_and_ends_a_recording_and_what_fails_is_told() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[KeyPress::Char('r')]), []);
    assert!(state.notice.as_ref().unwrap().text.contains("nothing to record"));
    let source = SourceInfo { kind: SourceKind::Nvml, detail: String::new() };
    update(&mut state, Event::SourceStarted(source));
    assert_eq!(press(&mut state, &[KeyPress::Char('r'), KeyPress::Char('r')]), [Effect::Record]);
    update(&mut state, Event::Recording("x.ndjson".into()));
    assert_eq!(press(&mut state, &[KeyPress::Char('r'), KeyPress::Char('r')]), [Effect::StopRecording]);
    update(&mut state, Event::Recorded("recorded 5 samples".to_owned()));
    assert_eq!(press(&mut state, &[KeyPress::Char('r')]), [Effect::Record]);
    update(&mut state, Event::RecordFailed("x: no space".to_owned()));
    assert_eq!(
        (state.recordings.recording.clone(), state.notice.unwrap().text.as_str()),
        (RecordingState::Off, "x: no space")
    );
}

#[test]
fn what_was_looked_for_is_told() {
    let mut state = open(PLAN);
    update(&mut state, played(0, 1_000));
    let Event::Played(mut playback) = played(0, 61_000) else { unreachable!() };
    playback.found = Some((Moment(61_000), "process 4711 went".to_owned()));
    update(&mut state, Event::Played(playback.clone()));
    assert_eq!(state.notice.take().unwrap().text, "0:01:00: process 4711 went");
    // Once, and not with every sample that follows.
    update(&mut state, Event::Played(playback));
    assert_eq!(state.notice, None);
}
