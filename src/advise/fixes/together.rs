//! Changes that only together make a plan fit.

use std::collections::BTreeMap;
use std::sync::RwLock;

use rayon::prelude::*;

use super::candidates::{Candidate, FixKind};
use super::degrees::candidates_of_unfit;
use super::{Fix, Trials};
use crate::advise::walk_cache::WalkCache;
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::plan::Plan;
use crate::predict::{Job, Outline};

/// More changes at once are another plan, not a fix.
const MOST: usize = 4;
/// Of the sets that save most so many are tried with one change more.
const BEAM: usize = 12;

/// Sets of changes by which `plan` fits where no single one does: what needs neither host memory nor adapters, what
/// trains adapters instead, and what host memory makes possible; of each the fastest of the smallest sets.
pub fn together(plan: &Plan, job: &Job, before: &Outline, catalog: &Catalog) -> Vec<Fix> {
    let parts = candidates_of_unfit(plan, job);
    let trials = Trials { plan, before, catalog, walks: WalkCache::default() };
    // Which parts are allowed differs, what a set of them does not.
    let known: RwLock<BTreeMap<Vec<usize>, Option<Fix>>> = RwLock::default();
    let effect = |set: &[usize]| -> Option<Fix> {
        if let Some(fix) = known.read().ok().and_then(|known| known.get(set).cloned()) {
            return fix;
        }
        let fix = joined(&parts, set).and_then(|one| trials.fix(one));
        if let Ok(mut known) = known.write() {
            known.insert(set.to_vec(), fix.clone());
        }
        fix
    };
    let smallest = |allowed: &dyn Fn(&Candidate) -> bool| {
        let parts: Vec<usize> = (0..parts.len()).filter(|part| allowed(&parts[*part])).collect();
        smallest(&parts, effect)
    };
    let adapters = |one: &Candidate| one.change.set.iter().any(|(key, _)| key.starts_with("training.lora"));
    let alone = smallest(&|one| one.kind != FixKind::Offload && !adapters(one));
    let otherwise = smallest(&|one| one.kind != FixKind::Offload);
    let offloaded = if alone.is_none() { smallest(&|one| !adapters(one)) } else { None };
    let mut found: Vec<Fix> = Vec::new();
    for fix in [alone, otherwise, offloaded].into_iter().flatten() {
        if found.iter().all(|known| known.change != fix.change) {
            found.push(fix);
        }
    }
    found
}

/// The fastest of the smallest sets of `parts` that fit.
fn smallest(parts: &[usize], effect: impl Fn(&[usize]) -> Option<Fix> + Sync) -> Option<Fix> {
    let tried = |sets: Vec<Vec<usize>>| -> Vec<(Vec<usize>, Fix)> {
        let found = sets.into_par_iter().filter_map(|set| {
            let fix = effect(&set)?;
            fix.memory.is_negative().then_some((set, fix))
        });
        found.collect()
    };
    let mut found = tried(parts.iter().map(|part| vec![*part]).collect());
    let savers: Vec<usize> = found.iter().map(|(set, _)| set[0]).collect();
    for _ in 0..MOST {
        let enough = found.iter().map(|(_, fix)| fix).filter(|fix| fix.fits);
        if let Some(fastest) = enough.max_by(|a, b| a.speed.total_cmp(&b.speed)) {
            return Some(fastest.clone());
        }
        found.order_by_key(|(_, fix)| fix.memory);
        found.truncate(BEAM);
        let larger = found.iter().flat_map(|(set, _)| {
            let others = savers.iter().filter(|part| !set.contains(part));
            others.map(|part| [set.as_slice(), &[*part]].concat())
        });
        let mut sets: Vec<Vec<usize>> = larger.collect();
        sets.iter_mut().for_each(|set| set.sort_unstable());
        sets.sort_unstable();
        sets.dedup();
        found = tried(sets);
    }
    None
}

/// Several changes as one; none where two of them are about one key.
fn joined(parts: &[Candidate], set: &[usize]) -> Option<Candidate> {
    let mut each = set.iter().map(|part| &parts[*part]);
    let first = each.next()?.clone();
    each.try_fold(first, |one, other| {
        let change = one.change.with(&other.change)?;
        let kind = if other.kind == FixKind::Other { other.kind } else { one.kind };
        Some(Candidate { name: format!("{} + {}", one.name, other.name), kind, change })
    })
}
