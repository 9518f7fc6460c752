//! The stage that needs most, layer by layer: what each holds for the backward pass.

use crate::predict::job::Job;
use crate::predict::prediction::LayerGroup;
use crate::predict::step::StepTapes;
use crate::units::Bytes;

/// Runs of layers that are alike, in the order of the forward pass; what stands before and
/// behind them where the stage has it. `ends`: the stage is the first, the last.
pub(in crate::predict) fn of_stage(job: &Job, step: &StepTapes, layers: &[u64], ends: (bool, bool)) -> Vec<LayerGroup> {
    let mut groups = Vec::new();
    if ends.0 {
        let (parameters, saved) = (step.walk.first.parameters(), step.first.retained_bytes());
        groups.push(LayerGroup { name: "embedding", first: None, count: 1, parameters, saved: Bytes(saved) });
    }
    let alike = |one: u64, other: u64| {
        let kind = |layer: u64| usize::try_from(layer).ok().and_then(|at| step.walk.order.get(at));
        kind(one) == kind(other) && step.is_checkpointed(one) == step.is_checkpointed(other)
    };
    for run in layers.chunk_by(|one, other| other - one == 1 && alike(*one, *other)) {
        let Some(first) = run.first().copied() else { continue };
        let kind = usize::try_from(first).ok().and_then(|at| step.walk.order.get(at)).copied().unwrap_or_default();
        let name = step.walk.kinds.get(kind).map_or("layer", |(name, _)| name);
        let (parameters, saved) = (step.tape(first).parameters(), step.layer(first).retained_bytes());
        groups.push(LayerGroup { name, first: Some(first), count: run.len() as u64, parameters, saved: Bytes(saved) });
    }
    if ends.1 {
        let name = if job.training.mode == crate::plan::keywords::Mode::Train { "head and loss" } else { "head" };
        let (parameters, saved) = (step.walk.last.parameters(), step.last.retained_bytes());
        groups.push(LayerGroup { name, first: None, count: 1, parameters, saved: Bytes(saved) });
    }
    groups
}
