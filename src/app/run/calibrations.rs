//! What runs on this machine show over what is predicted for them: kept by key, used the next time, and dropped by
//! key. It is the machine's: what is played or simulated neither teaches nor uses it.

use serde::{Deserialize, Serialize};

use super::mismatch;
use crate::app::event::Effect;
use crate::app::monitor::SourceState;
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::compare::Calibration;
use crate::reading::{Moment, SourceKind};

/// The factors of one machine, GPU and framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedCalibration {
    /// The host's name.
    pub machine: String,
    /// The GPU, as the driver names it.
    pub gpu: String,
    /// The framework, as the plan file names it.
    pub framework: String,
    /// What predictions are multiplied by.
    pub factors: Calibration,
    /// When it was kept last.
    pub at: Moment,
}

impl SavedCalibration {
    /// Whether both are of the same machine, GPU and framework.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        (&self.machine, &self.gpu, &self.framework) == (&other.machine, &other.gpu, &other.framework)
    }
}

/// Everything that was kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibrations {
    /// One a machine, GPU and framework.
    pub kept: Vec<SavedCalibration>,
    /// The name of this machine; empty where it has none.
    #[serde(skip)]
    pub machine: String,
    /// The run that was learnt from last: it teaches once.
    #[serde(skip)]
    taught: Option<(u32, Option<u64>)>,
}

impl Calibrations {
    /// The same with this in place of what was known of its machine, GPU and framework.
    #[must_use]
    pub fn with(mut self, kept: SavedCalibration) -> Self {
        self.kept.retain(|known| !known.is_of(&kept));
        self.kept.push(kept);
        self
    }

    /// The same without what is known of that machine, GPU and framework.
    #[must_use]
    pub fn without(mut self, gone: &SavedCalibration) -> Self {
        self.kept.retain(|known| !known.is_of(gone));
        self
    }
}

/// What is known of the plan's framework on the watched GPU, or nothing so far.
fn here(state: &State) -> Option<SavedCalibration> {
    let live = matches!(&state.monitor.source, SourceState::Running(info)
        if !matches!(info.kind, SourceKind::Demo | SourceKind::Replay | SourceKind::Prometheus));
    let device = state.monitor.devices().get(state.monitor.run_device()?).filter(|_| live)?;
    let empty = SavedCalibration {
        machine: state.run.calibrations.machine.clone(),
        gpu: device.name.value()?.clone(),
        framework: state.plans.compared().job()?.profile.name().to_owned(),
        factors: Calibration::default(),
        at: state.now,
    };
    Some(state.run.calibrations.kept.iter().find(|kept| kept.is_of(&empty)).cloned().unwrap_or(empty))
}

/// The calibration that predictions are held with here; none where there is none.
#[must_use]
pub fn holds(state: &State) -> Option<SavedCalibration> {
    here(state).filter(|kept| !kept.factors.is_empty())
}

/// Learns from the run that is compared.
pub fn keep(state: &mut State) -> Vec<Effect> {
    match learnt(state) {
        Ok((kept, run)) => {
            state.run.calibrations.taught = Some(run);
            vec![Effect::Calibrate(Box::new(kept), true)]
        }
        Err(why) => {
            state.notice = Some(problem(why));
            Vec::new()
        }
    }
}

fn learnt(state: &State) -> Result<(SavedCalibration, (u32, Option<u64>)), String> {
    let here = here(state).ok_or("only a run on a GPU of this machine can calibrate")?;
    let attached = state.monitor.attached.as_ref().ok_or("attach to the run to calibrate from")?;
    let comparison = state.run.comparison.as_ref().filter(|comparison| comparison.evidence.settled);
    let comparison = comparison.ok_or("waiting for complete steps")?;
    if let Some(mismatch) = mismatch::of(state) {
        return Err(mismatch.words());
    }
    if state.run.explaining.found.iter().any(|found| found.fits) {
        return Err("the run differs from the plan: a factor would hide it; ⏎ takes an explanation".to_owned());
    }
    let run = (attached.pid, attached.started);
    if state.run.calibrations.taught == Some(run) {
        return Err("this run has been learnt from".to_owned());
    }
    let factors = here.factors.learnt(comparison);
    if factors == here.factors {
        return Err(
            "nothing that is observed says anything for sure, or it is too far off to be a matter of the machine"
                .to_owned(),
        );
    }
    Ok((SavedCalibration { factors, at: state.now, ..here }, run))
}

/// Forgets what was learnt of this machine, GPU and framework.
pub fn drop_it(state: &mut State) -> Vec<Effect> {
    let Some(kept) = holds(state) else {
        state.notice = Some(problem("no calibration is in use here"));
        return Vec::new();
    };
    state.run.calibrations.taught = None;
    vec![Effect::Calibrate(Box::new(kept), false)]
}

/// The file has been written, or could not be.
pub fn written(state: &mut State, outcome: Result<Calibrations, String>) {
    match outcome {
        Ok(all) => {
            state.run.calibrations.kept = all.kept;
            crate::app::editor::editing::set_against(state);
            state.notice = Some(info(match holds(state) {
                Some(kept) => format!("predictions are calibrated from now on: {}; C drops it", kept.factors.words()),
                None => "predictions are as they were calculated".to_owned(),
            }));
        }
        Err(why) => state.notice = Some(problem(why)),
    }
}
