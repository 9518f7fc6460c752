//! Alerts: something that wants a hand has come over its threshold. Each is told once a crossing, and anew only
//! after it has gone well back.

mod conditions;
mod rules;

use std::collections::{BTreeMap, VecDeque};

pub use rules::{Alert, AlertChannels, AlertRules};

use crate::app::event::Effect;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::notice::info;
use crate::app::state::State;
use crate::order::StableOrder;
use crate::reading::{DeviceSample, Moment, SourceKind};
use conditions::Condition;

/// Alerts of the past that are listed.
const LISTED: usize = 8;

/// An alert that was raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaisedAlert {
    /// About what.
    pub alert: Alert,
    /// On which device, by its name for people.
    pub gpu: Option<String>,
    /// In words, as it stands now, or stood last.
    pub text: String,
    /// When it came over its threshold.
    pub at: Moment,
    /// Somebody has seen it: it leaves the top of the screen.
    pub seen: bool,
    /// The run went on with another process, by its launcher: how the one before ended stays until somebody has seen it.
    pub outlived: bool,
    /// Whose it is: the process that the user attached to.
    whose: Option<u32>,
}

/// What is alerted about.
#[derive(Debug, Clone, Default)]
pub struct AlertState {
    /// Thresholds and ways.
    pub rules: AlertRules,
    /// Those that hold now, the gravest first.
    pub raised: Vec<RaisedAlert>,
    /// Those that do no more, the newest first.
    pub past: VecDeque<RaisedAlert>,
    /// How often the NVLinks of each device had recovered when it was first seen: what was before is nobody's to mend.
    pub recoveries: BTreeMap<String, u64>,
}

/// What an alert tells the world outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertMessage {
    /// The alert's name.
    pub name: &'static str,
    /// In words.
    pub text: String,
    /// The figure that came over the threshold, in its unit; empty where there is none.
    pub value: String,
    /// The threshold; empty where there is none.
    pub threshold: String,
    /// The device, by its name for people: `3`, or `node17/3` of several hosts.
    pub gpu: Option<String>,
    /// The attached process.
    pub pid: Option<u32>,
    /// The plan's name.
    pub plan: String,
    /// How it is told.
    pub channels: AlertChannels,
}

impl AlertState {
    /// Since a device is watched, how often its NVLinks were set up again after an error.
    fn recovered(&self, gpu: &str, device: &DeviceSample) -> u64 {
        let now = device.health.nvlink_recoveries.value().copied().unwrap_or(0);
        now.saturating_sub(self.recoveries.get(gpu).copied().unwrap_or(now))
    }

    /// Notes devices that are new, and counters that were set back.
    fn note_recoveries(&mut self, monitor: &Monitor) {
        for device in monitor.devices() {
            if let Some(now) = device.health.nvlink_recoveries.value() {
                let first = self.recoveries.entry(monitor.gpu_name(device)).or_insert(*now);
                *first = (*first).min(*now);
            }
        }
    }

    /// Lets go of what was raised about GPUs that are another job's by now.
    fn leave_others(&mut self, monitor: &Monitor) {
        let is_another = |gpu: &String| {
            let mut places = monitor.devices().iter().enumerate().filter(|(place, _)| !monitor.is_of_run(*place));
            places.any(|(_, device)| monitor.gpu_name(device) == *gpu)
        };
        let others = self.raised.extract_if(.., |raised| raised.gpu.as_ref().is_some_and(is_another));
        for gone in others.collect::<Vec<_>>() {
            self.past.push_front(gone);
        }
        self.past.truncate(LISTED);
    }

    /// What was played has not happened yet.
    pub fn restart(&mut self) {
        *self = Self { rules: std::mem::take(&mut self.rules), ..Self::default() };
    }
}

/// Looks what has come over its threshold, and what has gone back.
pub fn on_sample(state: &mut State) -> Vec<Effect> {
    state.run.alerts.note_recoveries(&state.monitor);
    let conditions = conditions::of(state);
    let (now, whose) = (state.now, state.monitor.attached_by_user());
    let mut new: Vec<Condition> = Vec::new();
    let (alerts, monitor) = (&mut state.run.alerts, &state.monitor);
    alerts.leave_others(monitor);
    for condition in conditions {
        let same = |raised: &RaisedAlert| raised.alert == condition.alert && raised.gpu == condition.gpu;
        match (alerts.raised.iter().position(same), condition.state) {
            (Some(at), conditions::Crossing::Back) if goes_on(&alerts.raised[at], whose) => {
                alerts.raised[at].outlived = true;
            }
            (Some(at), conditions::Crossing::Back) => {
                let gone = alerts.raised.remove(at);
                alerts.past.push_front(gone);
                alerts.past.truncate(LISTED);
            }
            // The next process has ended so, too.
            (Some(at), conditions::Crossing::Over) if alerts.raised[at].outlived => {
                let before = alerts.raised.remove(at);
                alerts.past.push_front(before);
                alerts.past.truncate(LISTED);
                new.push(condition);
            }
            (Some(at), _) => alerts.raised[at].text.clone_from(&condition.text),
            (None, conditions::Crossing::Over) => new.push(condition),
            (None, _) => {}
        }
    }
    let order = |alert: Alert| Alert::ALL.iter().position(|known| *known == alert);
    let raised = |condition: &Condition| RaisedAlert {
        alert: condition.alert,
        gpu: condition.gpu.clone(),
        text: condition.text.clone(),
        at: now,
        seen: false,
        outlived: false,
        whose,
    };
    alerts.raised.extend(new.iter().map(raised));
    alerts.raised.order_by_key(|raised| order(raised.alert));
    // What is played or simulated wakes nobody.
    let real = matches!(&state.monitor.source, SourceState::Running(info)
        if !matches!(info.kind, SourceKind::Demo | SourceKind::Replay));
    let channels = state.run.alerts.rules.channels.clone();
    if !real || channels == AlertChannels::default() {
        return Vec::new();
    }
    let pid = state.monitor.attached.as_ref().map(|attached| attached.pid);
    let plan = state.plans.compared().name().to_owned();
    let alarm = |condition: Condition| AlertMessage {
        name: condition.alert.name(),
        text: condition.text,
        value: condition.value,
        threshold: condition.threshold,
        gpu: condition.gpu,
        pid,
        plan: plan.clone(),
        channels: channels.clone(),
    };
    new.into_iter().map(|condition| Effect::Alert(Box::new(alarm(condition)))).collect()
}

/// Whether what ended a process is of the run that its launcher goes on with, and nobody has seen it yet.
fn goes_on(raised: &RaisedAlert, whose: Option<u32>) -> bool {
    let ends = matches!(raised.alert, Alert::OutOfMemory | Alert::Ended);
    ends && !raised.seen && whose.is_some() && raised.whose == whose
}

/// Somebody has seen them all.
pub fn acknowledge(state: &mut State) {
    let count = state.run.alerts.raised.iter().filter(|raised| !raised.seen).count();
    state.run.alerts.raised.iter_mut().for_each(|raised| raised.seen = true);
    state.notice = Some(info(match count {
        0 => "no alert is active".to_owned(),
        _ => "dismissed until they fire again; the Compare pane lists them".to_owned(),
    }));
}
