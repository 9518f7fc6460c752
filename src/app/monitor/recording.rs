//! Recordings, from the dashboard's side: one that is written, and one that is played.

use std::path::PathBuf;

use super::SourceState;
use super::milestones;
use crate::app::event::Effect;
use crate::app::notice::{Notice, info, problem};
use crate::app::state::State;
use crate::printable::printable;
use crate::reading::playback::Playback;

/// How writing what is observed to a file stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RecordingState {
    /// Nothing is written.
    #[default]
    Off,
    /// The file is being made.
    Starting,
    /// To this file.
    On(PathBuf),
    /// The last samples are being written.
    Ending,
}

/// The recording that is played stands there now.
pub fn played(state: &mut State, playback: Playback) -> Vec<Effect> {
    let before = state.recordings.playback.take();
    let mut effects = Vec::new();
    if before.as_ref().is_none_or(|before| before.rewound != playback.rewound) {
        effects = milestones::go_to(state, playback.from);
        state.now = playback.start;
    }
    let found = playback.found.as_ref().filter(|_| before.as_ref().is_none_or(|before| before.found != playback.found));
    if let Some((at, words)) = found {
        state.notice = Some(info(format!("{}: {}", playback.clock(*at), printable(words))));
    }
    let damage = playback.damage.clone().filter(|_| before.is_none_or(|before| before.damage.is_none()));
    if let Some(damage) = damage {
        state.notice = Some(problem(format!("plays up to the damage: {damage}")));
    }
    state.recordings.playback = Some(playback);
    effects
}

/// What is observed goes to that file from now on.
pub fn began(state: &mut State, path: PathBuf) {
    state.notice = Some(info(format!("recording: r ends it; memwall replay {} plays it", path.display())));
    state.recordings.recording = RecordingState::On(path);
}

/// Nothing is written any more, and why.
pub fn ended(state: &mut State, notice: Notice) {
    state.recordings.recording = RecordingState::Off;
    state.notice = Some(notice);
}

/// Begins to record, or ends it.
pub fn toggle(state: &mut State) -> Vec<Effect> {
    match (&state.recordings.recording, &state.monitor.source) {
        (RecordingState::On(_), _) => {
            state.recordings.recording = RecordingState::Ending;
            vec![Effect::StopRecording]
        }
        (RecordingState::Starting | RecordingState::Ending, _) => Vec::new(),
        (RecordingState::Off, _) if state.recordings.playback.is_some() => {
            state.notice = Some(problem("this is a recording already"));
            Vec::new()
        }
        (RecordingState::Off, SourceState::Running(_)) => {
            state.recordings.recording = RecordingState::Starting;
            vec![Effect::Record]
        }
        (RecordingState::Off, SourceState::Starting | SourceState::Failed(_) | SourceState::Unwatched) => {
            state.notice = Some(problem("no source: there is nothing to record"));
            Vec::new()
        }
    }
}
