//! Where the run's memory is going, and what it is that grows.

use crate::app::state::State;
use crate::compare::{Counts, Evidence, Forecast, GrowthKind, MemoryRise, forecast};
use crate::reading::Moment;
use crate::units::{Bytes, Seconds};

/// Time between two looks: memory that grows in less is seen with bare eyes.
const EVERY: Seconds = Seconds(5.0);

/// How long a run has to have worked: memory grows while it loads and in its first step.
const LEAST: Seconds = Seconds(60.0);

/// … and in how many steps.
const STEPS: f64 = 3.0;

/// The longest stretch that is looked at sample by sample; what grows slower shows over the whole run.
const RECENT: Seconds = Seconds(600.0);

/// What rose before anybody looked may be so much of what was held then: less than a band is wide.
const UNSEEN: f64 = 0.02;

/// And so much of it where tensors are kept from step to step, which they were from the first step on: of more, too little
/// is left that was seen.
const EXTRAPOLATED: f64 = 0.2;

/// What the memory of the watched device does over time.
#[derive(Debug, Clone, Default)]
pub struct Outlook {
    /// Flat, or growing and when it will be all used.
    pub memory: Forecast,
    /// What it is that grows, where that can be told.
    pub grows: Option<GrowthKind>,
    /// What was left of the device's memory when it held most; none before anything was seen.
    pub headroom: Option<Bytes>,
    counts: Counts,
    looked: Option<Moment>,
    /// The device that all this is of.
    device: Option<String>,
}

impl Outlook {
    /// Whether memory rises with time: then a moment's memory says nothing of a plan.
    #[must_use]
    pub const fn is_growing(&self) -> bool {
        matches!(self.memory, Forecast::Growing(_))
    }

    /// How much of what a run holds that began by `started`, and made its first step at `stepping` where that is known, has
    /// come with time; none where it may have risen far before anybody looked.
    #[must_use]
    pub fn grown(&self, started: Option<Moment>, stepping: Option<Moment>) -> Option<MemoryRise> {
        let Forecast::Growing(growth) = self.memory else { return None };
        let first = self.counts.points().next()?;
        let unseen = |since: Moment| growth.rate.0 * first.0.since(since).0;
        let risen = self.counts.risen()?;
        if unseen(stepping.or(started)?) <= UNSEEN * first.1.as_f64() {
            return Some(risen);
        }
        let before = stepping.filter(|_| self.grows == Some(GrowthKind::Leak)).map(unseen)?;
        (before <= EXTRAPOLATED * first.1.as_f64()).then(|| risen.with(Bytes(before as u64)))
    }
}

/// What was seen without what has come with time.
pub(super) fn without_growth(state: &State, evidence: Evidence) -> Evidence {
    let outlook = &state.run.outlook;
    if !outlook.is_growing() {
        return evidence;
    }
    let started = state.monitor.attached.as_ref().and_then(|attached| attached.started);
    let started = started.map(|seconds| Moment(seconds * 1000));
    match outlook.grown(started, started.and_then(|started| first_step(state, started))) {
        Some(rise) => evidence.before_growth(rise),
        None => evidence.without_memory(),
    }
}

/// When a process that `started` then made its first step, by its steps so far; none where it goes on from a checkpoint and
/// counts those of others.
fn first_step(state: &State, started: Moment) -> Option<Moment> {
    let (_, known) = state.run.telemetry.progress(&state.monitor, state.now)?;
    let seconds = *known.step.value()? as f64 * known.step_time.value()?.0;
    Some(Moment(state.now.0.saturating_sub((seconds * 1000.0) as u64))).filter(|first| *first >= started)
}

/// Takes in the newest sample, and looks from time to time.
pub fn look(state: &mut State) {
    let Some(position) = state.monitor.run_device() else {
        state.run.outlook = Outlook::default();
        return;
    };
    let Some(sample) = &state.monitor.sample else { return };
    let Some(device) = sample.devices.get(position) else { return };
    let outlook = &mut state.run.outlook;
    let name = state.monitor.gpu_name(device);
    if outlook.device.as_ref() != Some(&name) {
        *outlook = Outlook { device: Some(name), ..Outlook::default() };
    }
    let Some(memory) = device.memory.value() else { return };
    let peak = state.monitor.peaks.get(position).copied().flatten();
    outlook.headroom = peak.map(|peak| memory.total.saturating_sub(peak));
    let (phases, now) = (state.run.telemetry.phases(), state.now);
    let recent = state.monitor.history.stretch(position, RECENT, |at| phases.is_steady(at, now));
    let step = phases.step().or(state.plans.compared().prediction().map(|prediction| prediction.time.step));
    if recent.lasted().0 < LEAST.0.max(STEPS * step.unwrap_or_default().0) {
        // A pause leaves what was known before it; without work there is nothing to foresee.
        if recent.lasted() == Seconds(0.0) {
            outlook.memory = Forecast::TooShort;
        }
        return;
    }
    let progress =
        state.run.telemetry.progress(&state.monitor, state.now).map(|(_, progress)| progress).unwrap_or_default();
    outlook.counts.note(&progress, memory.used, sample.at);
    if outlook.looked.is_some_and(|looked| sample.at.since(looked).0 < EVERY.0) {
        return;
    }
    outlook.looked = Some(sample.at);
    let whole = outlook.counts.points().filter(|(at, _)| phases.is_steady(*at, now));
    // What grows slowly shows over the whole run alone.
    outlook.memory = match (forecast(recent.memory(), memory.total), forecast(whole, memory.total)) {
        (recent @ Forecast::Growing(_), _) => recent,
        (_, whole @ Forecast::Growing(_)) => whole,
        (recent, _) => recent,
    };
    outlook.grows = match outlook.memory {
        Forecast::Growing(growth) => outlook.counts.grows(growth.since),
        Forecast::TooShort | Forecast::Flat => None,
    };
}
