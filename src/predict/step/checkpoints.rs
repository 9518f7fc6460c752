//! Checkpointed blocks of a walk: how far each runs again, and which block holds the input of the one behind it.

use crate::model::Walk;
use crate::predict::job::Job;

/// Recomputed blocks of a traced model run until the last tensor that they save is there again, unless whoever recomputes
/// them runs all (torch/utils/checkpoint.py, `_StopRecomputationError`).
pub(super) fn stop_early(walk: &mut Walk, job: &Job) {
    for (_, tape) in &mut walk.kinds {
        tape.stops_early = tape.traced && !(tape.reruns_all || job.modules.reruns_all.is);
    }
}

/// A recomputed block saves nothing, its output neither: the tape behind it holds what comes in, where it would else have
/// borrowed it from the block that saved it.
pub(super) fn own_inputs(walk: &mut Walk, checkpointed: &[bool]) {
    let leaves = |walk: &Walk, layer: usize| {
        checkpointed.get(layer) == Some(&true) && walk.kinds[walk.order[layer]].1.leaves_output
    };
    let behind: Vec<usize> = (1..walk.order.len()).filter(|layer| leaves(walk, layer - 1)).collect();
    let mut owners = vec![None; walk.kinds.len()];
    for layer in behind {
        let kind = walk.order[layer];
        let Some((name, tape)) = walk.kinds.get(kind).filter(|(_, tape)| tape.borrows).cloned() else { continue };
        walk.order[layer] = *owners[kind].get_or_insert_with(|| {
            let mut owner = tape;
            owner.borrows = false;
            walk.kinds.push((name, owner));
            walk.kinds.len() - 1
        });
    }
    if walk.order.len().checked_sub(1).is_some_and(|layer| leaves(walk, layer)) {
        walk.last.borrows = false;
    }
}
