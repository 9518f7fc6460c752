//! What a replay showed at milestones: going elsewhere begins at the nearest before it, not at the beginning.

use super::Monitor;
use super::trail::Trail;
use crate::app::alerts::AlertState;
use crate::app::event::Effect;
use crate::app::run::Telemetry;
use crate::app::run::last_attempt::LastAttempt;
use crate::app::run::outlook::Outlook;
use crate::app::state::State;
use crate::reading::playback::{Milestones, PlaybackCommand};

/// Everything that samples have brought about.
#[derive(Debug, Clone)]
struct DisplayedState {
    monitor: Monitor,
    run: Telemetry,
    outlook: Outlook,
    alerts: AlertState,
    trail: Trail,
}

/// How far a recording has been played, and what was shown on the way.
#[derive(Debug, Clone, Default)]
pub struct PlaybackHistory {
    samples: usize,
    milestones: Milestones<Box<DisplayedState>>,
}

/// A sample of the recording has been shown.
pub fn pass(state: &mut State) {
    state.recordings.played.samples += 1;
    let shown = || {
        Box::new(DisplayedState {
            monitor: state.monitor.clone(),
            run: state.run.telemetry.clone(),
            outlook: state.run.outlook.clone(),
            alerts: state.run.alerts.clone(),
            trail: state.views.roofline.trail.clone(),
        })
    };
    state.recordings.played.milestones.pass(state.recordings.played.samples, shown);
}

/// All is as it was after so many samples, earlier or later than what is shown now.
pub fn go_to(state: &mut State, samples: usize) -> Vec<Effect> {
    state.recordings.played.samples = samples;
    let attached = |monitor: &Monitor| monitor.attached.as_ref().map(|attached| attached.pid);
    let at = state
        .recordings
        .played
        .milestones
        .before(samples)
        .filter(|(at, _)| *at == samples)
        .map(|(_, shown)| shown.clone());
    let kept = at.filter(|shown| attached(&shown.monitor) == attached(&state.monitor));
    // Another process was followed when that was shown: only the whole way tells of this one.
    let afresh = kept.is_none() && samples > 0;
    state.run.comparison = None;
    state.run.last_attempt = LastAttempt::default();
    state.run.explaining.restart();
    match kept {
        Some(shown) => {
            state.monitor.restart(Some(shown.monitor));
            let rules = std::mem::take(&mut state.run.alerts.rules);
            state.run.alerts = AlertState { rules, ..shown.alerts };
            (state.run.telemetry, state.run.outlook, state.views.roofline.trail) =
                (shown.run, shown.outlook, shown.trail);
        }
        None => {
            state.monitor.restart(None);
            state.run.alerts.restart();
            state.run.telemetry.rewind();
            (state.run.outlook, state.views.roofline.trail) = (Outlook::default(), Trail::default());
        }
    }
    if afresh { vec![Effect::Steer(PlaybackCommand::Afresh)] } else { Vec::new() }
}
