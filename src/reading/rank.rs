//! What the process on a device tells of its own rank, through an exporter on its node.

use serde::{Deserialize, Serialize};

use super::Activity;
use crate::units::{Fraction, Seconds};

/// What the rank on a device tells of itself: `memwall exporter` has it from the hook in the rank's process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RankReport {
    /// The run that it belongs to: the Slurm job's number, or what `--run` says; empty where nobody said it.
    pub run: String,
    /// Its number among all ranks of the run.
    pub rank: u32,
    /// Optimizer steps since its process began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Time of an optimizer step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_time: Option<Seconds>,
    /// What its training thread does, as shares of the time of steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<ActivityShare>,
    /// Its step that does not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<RankStall>,
}

/// How much of the time of steps a training thread spends on something.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActivityShare {
    /// What it does.
    pub activity: Activity,
    /// How much of the time.
    pub share: Fraction,
}

/// A rank's step that does not end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankStall {
    /// How long it lasts by now.
    pub lasting: Seconds,
    /// What its thread does meanwhile; none where the exporter does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
}

impl RankReport {
    /// Share of the time of steps that goes to an activity; none where no activity is told.
    #[must_use]
    pub fn share_of(&self, activity: Activity) -> Option<Fraction> {
        let told = self.activities.iter().find(|told| told.activity == activity);
        (!self.activities.is_empty()).then(|| told.map_or(Fraction(0.0), |told| told.share))
    }

    /// Share of the time of steps that is no training: waiting for data, checkpoints, evaluation, collecting garbage.
    #[must_use]
    pub fn aside(&self) -> Option<Fraction> {
        let shares = Activity::ASIDE.map(|activity| self.share_of(activity));
        shares.into_iter().flatten().map(|share| share.0).reduce(|sum, share| sum + share).map(Fraction)
    }

    /// Whether its step does not end for a reason of its own: what waits for other ranks or for the device is held up by
    /// somebody else.
    #[must_use]
    pub fn stalls_by_itself(&self) -> bool {
        let stalled = self.stall.and_then(|stall| stall.activity);
        stalled.is_some_and(|activity| !matches!(activity, Activity::Collective | Activity::Synchronization))
    }
}
