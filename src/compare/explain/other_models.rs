//! Another model than the plan's as the cause: the presets of the catalogue stand for whatever else may run.

use super::{Cause, CauseTrial, Subject};
use crate::catalog::ModelPreset;
use crate::compare::evidence::{Evidence, Misfit};
use crate::compare::expected::Expectation;
use crate::plan::Change;
use crate::plan::keys;
use crate::predict::Job;
use crate::units::{Seconds, parameter_count};

/// Where a plan says which model it is for.
const PRESET: &str = keys::model::preset;
const OTHERS: [&str; 4] =
    [keys::model::hf_config, keys::model::architecture, keys::model::size_billions, keys::model::trace];

/// A model is not predicted if its parameters alone make the step so many times longer or shorter than it is: time goes
/// with parameters, but less than that where something else takes most of it.
const FARTHEST: f64 = 6.0;

/// Presets whose sizes differ by less show the same.
const SAME_SIZE: f64 = 0.002;

/// The preset that meets the evidence best, for all of them. Another model is one cause, as likely beforehand as any
/// other; each preset has its part of that. None where the run was told its model.
pub fn likeliest(
    subject: &Subject<'_>,
    job: &Job,
    evidence: &Evidence,
    planned: Seconds,
    misfit: impl Fn(&Change) -> Option<(Misfit, Expectation)>,
) -> Option<CauseTrial> {
    if is_told(subject.stated) {
        return None;
    }
    let mut tried: Vec<(&ModelPreset, Misfit, Expectation)> = Vec::new();
    for preset in others(subject, job) {
        let times = preset.params as f64 / job.params.total as f64;
        let takes = evidence.step.value().map_or(1.0, |step| step.0 / planned.0);
        if !(1.0 / FARTHEST..FARTHEST).contains(&(times / takes)) {
            continue;
        }
        tried.extend(misfit(&change(preset)).map(|(misfit, expected)| (preset, misfit, expected)));
    }
    let (best, misfit, expected) = tried.iter().min_by(|one, other| one.1.sum.total_cmp(&other.1.sum))?;
    let together: f64 = tried.iter().map(|(_, other, _)| (misfit.sum - other.sum).exp()).sum();
    let words = format!("another model, of about {} like {}", parameter_count(best.params), best.name);
    let causes = vec![Cause::of_plan(words, change(best))];
    let assumed = (tried.len() as f64 / together).ln();
    Some(CauseTrial { causes, expected: *expected, assumed, misfit: *misfit })
}

/// Whether the run was told its model.
pub fn is_told(stated: &[(&'static str, String)]) -> bool {
    stated.iter().any(|(key, _)| *key == PRESET || OTHERS.contains(key))
}

/// One preset of each size but the plan's own, of the same kind.
fn others<'c>(subject: &Subject<'c>, job: &Job) -> Vec<&'c ModelPreset> {
    let is_same = |one: u64, other: u64| (one as f64 / other as f64).ln().abs() < SAME_SIZE;
    let mut kept: Vec<&ModelPreset> = Vec::new();
    for preset in subject.catalog.models.iter() {
        let known = || kept.iter().any(|other| is_same(preset.params, other.params));
        if !is_same(preset.params, job.params.total) && !known() {
            kept.push(preset);
        }
    }
    kept
}

fn change(preset: &ModelPreset) -> Change {
    Change { set: vec![(PRESET, preset.name.clone())], remove: OTHERS.to_vec() }
}
