//! The stage that needs most, layer by layer: what each holds for the backward pass.

use crate::model::ModelShape;
use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::prediction::LayerGroup;
use crate::predict::step::StepTapes;
use crate::units::Bytes;

/// What stands before the layers and behind them, in the field's words for each kind of model.
#[derive(Debug, Clone, Copy)]
pub(in crate::predict) struct Ends {
    /// Before the layers.
    pub first: &'static str,
    /// Behind them, forward.
    pub last: &'static str,
    /// And backward.
    pub loss: &'static str,
}

impl Ends {
    pub fn of(job: &Job) -> Self {
        let trains = job.training.mode == Mode::Train;
        match &job.architecture.shape {
            ModelShape::Layers(_) => Self { first: "input", last: "output", loss: "output" },
            ModelShape::Traced(_) => {
                Self { first: "before the blocks", last: "behind the blocks", loss: "behind the blocks" }
            }
            _ => {
                Self { first: "embedding", last: if trains { "head and loss" } else { "head" }, loss: "loss and head" }
            }
        }
    }
}

/// Runs of layers that are alike, in the order of the forward pass; what stands before and
/// behind them where the stage has it. `ends`: the stage is the first, the last.
pub(in crate::predict) fn of_stage(job: &Job, step: &StepTapes, layers: &[u64], ends: (bool, bool)) -> Vec<LayerGroup> {
    let mut groups = Vec::new();
    let names = Ends::of(job);
    if ends.0 {
        let (parameters, saved) = (step.walk.first.parameters(), step.first.retained_bytes());
        groups.push(LayerGroup { name: names.first, first: None, count: 1, parameters, saved: Bytes(saved) });
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
        let (parameters, saved) = (step.walk.last.parameters(), step.last.retained_bytes());
        groups.push(LayerGroup { name: names.last, first: None, count: 1, parameters, saved: Bytes(saved) });
    }
    groups
}
