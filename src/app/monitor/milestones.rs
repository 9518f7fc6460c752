//! What a replay showed at its last milestones: going back a little begins there, not at the beginning.

use super::Monitor;
use super::trail::Trail;
use crate::app::alerts::Alerts;
use crate::app::event::Effect;
use crate::app::run::Run;
use crate::app::run::outlook::Outlook;
use crate::app::state::State;
use crate::reading::playback::{Milestones, Steer};

/// Everything that samples have brought about.
#[derive(Debug, Clone)]
struct Shown {
    monitor: Monitor,
    run: Run,
    outlook: Outlook,
    alerts: Alerts,
    trail: Trail,
}

/// How far a recording has been played, and what was shown on the way.
#[derive(Debug, Clone, Default)]
pub struct Played {
    samples: usize,
    milestones: Milestones<Box<Shown>>,
}

/// A sample of the recording has been shown.
pub fn pass(state: &mut State) {
    state.played.samples += 1;
    let shown = || {
        Box::new(Shown {
            monitor: state.monitor.clone(),
            run: state.run.clone(),
            outlook: state.outlook.clone(),
            alerts: state.alerts.clone(),
            trail: state.roofline.trail.clone(),
        })
    };
    state.played.milestones.pass(state.played.samples, shown);
}

/// All is as it was after so many samples; what was played since has not happened yet.
pub fn go_back(state: &mut State, samples: usize) -> Vec<Effect> {
    state.played.samples = samples;
    let attached = |monitor: &Monitor| monitor.attached.as_ref().map(|attached| attached.pid);
    let at = state.played.milestones.back_to(samples).filter(|(at, _)| *at == samples).map(|(_, shown)| shown.clone());
    let kept = at.filter(|shown| attached(&shown.monitor) == attached(&state.monitor));
    // Another process was followed when that was shown: only the whole way tells of this one.
    let afresh = kept.is_none() && samples > 0;
    state.comparison = None;
    state.explaining.restart();
    match kept {
        Some(shown) => {
            state.monitor.restart(Some(shown.monitor));
            let rules = std::mem::take(&mut state.alerts.rules);
            state.alerts = Alerts { rules, ..shown.alerts };
            (state.run, state.outlook, state.roofline.trail) = (shown.run, shown.outlook, shown.trail);
        }
        None => {
            state.monitor.restart(None);
            state.alerts.restart();
            state.run.rewind();
            (state.outlook, state.roofline.trail) = (Outlook::default(), Trail::default());
        }
    }
    if afresh { vec![Effect::Steer(Steer::Afresh)] } else { Vec::new() }
}
