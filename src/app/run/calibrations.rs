//! What runs on this machine show over what is predicted for them: kept by key, used the next time, and dropped by
//! key. It is the machine's: what is played or simulated neither teaches nor uses it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

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
            state.notice = Some(problem(why.to_string()));
            Vec::new()
        }
    }
}

/// Why a run teaches nothing of its machine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum NothingLearnt {
    #[error("only a run on a GPU of this machine can calibrate")]
    NotHere,
    #[error("attach to the run to calibrate from")]
    NotAttached,
    #[error("waiting for complete steps")]
    TooEarly,
    #[error("{0}")]
    Mismatch(String),
    #[error("the run differs from the plan: a factor would hide it; ⏎ takes an explanation")]
    Explained,
    #[error("this run has been learnt from")]
    Known,
    #[error("nothing that is observed says anything for sure, or it is too far off to be a matter of the machine")]
    Unsure,
}

fn learnt(state: &State) -> Result<(SavedCalibration, (u32, Option<u64>)), NothingLearnt> {
    let here = here(state).ok_or(NothingLearnt::NotHere)?;
    let attached = state.monitor.attached.as_ref().ok_or(NothingLearnt::NotAttached)?;
    let comparison = state.run.comparison.as_ref().filter(|comparison| comparison.evidence.settled);
    let comparison = comparison.ok_or(NothingLearnt::TooEarly)?;
    if let Some(mismatch) = mismatch::of(state) {
        return Err(NothingLearnt::Mismatch(mismatch.words()));
    }
    if state.run.explaining.found.iter().any(|found| found.fits) {
        return Err(NothingLearnt::Explained);
    }
    let run = (attached.pid, attached.started);
    if state.run.calibrations.taught == Some(run) {
        return Err(NothingLearnt::Known);
    }
    let factors = here.factors.learnt(comparison);
    if factors == here.factors {
        return Err(NothingLearnt::Unsure);
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

/// Why the file of calibrations could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CalibrationError {
    /// There is no place for it.
    #[error("no calibration is kept: there is no home to keep it in")]
    NoHome,
    /// What is there is none, or cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// In words of the system, or of the decoder.
        why: String,
    },
    /// The system refused.
    #[error("the calibration is not kept: {path}: {why}")]
    NotKept {
        /// The file.
        path: String,
        /// In words of the system.
        why: String,
    },
}

/// The file has been written, or could not be.
pub fn written(state: &mut State, outcome: Result<Calibrations, CalibrationError>) {
    match outcome {
        Ok(all) => {
            state.run.calibrations.kept = all.kept;
            crate::app::editor::editing::set_against(state);
            state.notice = Some(info(match holds(state) {
                Some(kept) => format!("predictions are calibrated from now on: {}; C drops it", kept.factors.words()),
                None => "predictions are as they were calculated".to_owned(),
            }));
        }
        Err(why) => state.notice = Some(problem(why.to_string())),
    }
}
