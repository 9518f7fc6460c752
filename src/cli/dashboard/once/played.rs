//! `memwall --once` of a recording: what it shows at its end, as the dashboard that plays it would.

use std::path::Path;

use super::happen;
use crate::app::{Event, State};
use crate::cli::Failure;
use crate::observe::{Recording, Replay, Samples, Source as _};
use crate::reading::Moment;
use crate::reading::playback::Playback;

/// Samples at the end of a recording that are played: half an hour of them at one a second. Growth, phases and rates are
/// looked at over less.
const MOST: usize = 1800;

/// The dashboard's state at the recording's end; `begin` makes that of its first moment.
pub fn at_end(path: &Path, begin: impl FnOnce(Moment) -> State) -> Result<State, Failure> {
    let recording = Recording::open(path)?;
    let info = Replay::of(recording, 1.0).info();
    let recording = Recording::open(path)?;
    let count = recording.len();
    let first = count.saturating_sub(MOST);
    let (start, end) = (recording.time(first), recording.time(count));
    let mut state = begin(start);
    let playback = Playback {
        start,
        end,
        at: end,
        speed: 1.0,
        paused: false,
        rewound: 0,
        from: 0,
        going_to: None,
        found: None,
        damage: recording.damage().map(ToString::to_string),
    };
    happen(&mut state, Event::SourceStarted(info));
    happen(&mut state, Event::Played(playback));
    let mut samples = Samples::of(recording);
    for index in first..count {
        let Some(sample) = samples.get(index, usize::MAX) else { break };
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    Ok(state)
}
