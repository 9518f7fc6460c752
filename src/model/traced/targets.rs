//! Which layers of a traced model the targets of a plan mean.

use std::collections::HashSet;

use super::super::builder::Adapters;
use super::super::modules::is_meant;
use super::super::weight::Part;
use super::adapted::AdaptedLayer;
use super::trained::part_of;
use crate::framework::Module;
use crate::plan::traced::{Segment, Trace, TracedModel, TracedOp, TracedWeight, TracedWork, intern};

/// Every linear layer but the output matrix, however peft and the tools around it write that.
pub const MEANT_BY_ALL: [&str; 3] = ["all-linear", "all_linear", "all"];

/// Layers that an adapter can stand on, by name and path: of each kind of block those of the first.
pub fn traced_linear_layers(model: &TracedModel) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    for segment in model.traces.all().flat_map(|trace: &Trace| &trace.kinds) {
        for op in segment.ops.iter().filter(|op| is_linear(op)) {
            let module = (intern(&op.0), intern(&path_of(&segment.path, op)));
            if !found.contains(&module) {
                found.push(module);
            }
        }
    }
    found
}

/// Whether a name is that of a linear layer of the model, wherever that stands.
pub fn is_traced_target(model: &TracedModel, name: &str) -> bool {
    let idle = |segment: &Segment, path: &str| {
        let mut attention = segment.ops.iter().filter(|op| op.1 == "MultiheadAttention");
        attention.any(|op| is_meant(&format!("{}.out_proj", path_of(path, op)), name))
    };
    let mut places = model.traces.all().flat_map(Trace::places);
    places.any(|(path, segment)| {
        segment.ops.iter().any(|op| is_linear(op) && is_target(path, &op.0, name)) || idle(segment, path)
    })
}

/// The path of a layer among those that `names` mean that nothing trained where the model was traced: neither its weight nor anything
/// before it, so that the trace has no backward pass of it.
pub fn untraced_backward(model: &TracedModel, names: &[&'static str]) -> Option<String> {
    model.traces.all().flat_map(Trace::places).find_map(|(path, segment)| {
        let has_gradient = |id: &u32| segment.tensors.get(*id as usize).is_some_and(|tensor| tensor.4 != 0);
        let is_frozen = |op: &TracedOp| segment.weights.iter().any(|w| w.4 == 0 && is_weight_of(op, &w.0));
        let meant = |op: &&TracedOp| is_linear(op) && is_adapted(model, (path, segment), op, names);
        let op = segment.ops.iter().filter(meant).find(|op| is_frozen(op) && !op.6.iter().any(has_gradient))?;
        Some(path_of(path, op))
    })
}

/// Paths of the convolutions and embeddings of a traced model: peft has adapters for them too (tuners/lora/layer.py,
/// `dispatch_default`), which no tape has.
pub fn traced_other_layers(model: &TracedModel) -> Vec<String> {
    let others = ["Conv1d", "Conv2d", "Conv3d", "Embedding"];
    let has_weight = |segment: &Segment, op: &TracedOp| segment.weights.iter().any(|w| is_weight_of(op, &w.0));
    let places = model.traces.all().flat_map(Trace::places);
    places
        .flat_map(|(path, segment)| segment.ops.iter().map(move |op| (path, segment, op)))
        .filter(|(_, segment, op)| others.contains(&op.1.as_str()) && has_weight(segment, op))
        .map(|(path, _, op)| path_of(path, op))
        .collect()
}

fn path_of(path: &str, op: &TracedOp) -> String {
    let parts = [path, op.0.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

fn is_weight_of(op: &TracedOp, name: &str) -> bool {
    name.strip_suffix(".weight") == Some(op.0.as_str())
}

/// peft has adapters for `nn.Linear` and for GPT-2's `Conv1D`, which is one (tuners/lora/layer.py, `dispatch_default`).
pub(super) fn is_linear(op: &TracedOp) -> bool {
    (op.1.ends_with("Linear") || op.1 == "Conv1D") && matches!(op.4, Some((TracedWork::Product, _)))
}

/// Whether the layer `name` of a segment that stands at `path` is meant by a target.
fn is_target(path: &str, name: &str, target: &str) -> bool {
    match target.strip_suffix(name) {
        Some("") => true,
        // A target that is longer than the layer's name within its block.
        Some(before) => before.strip_suffix('.').is_some_and(|before| is_meant(path, before)),
        None => is_meant(name, target),
    }
}

/// Whether an adapter stands on a linear layer.
fn is_adapted(model: &TracedModel, (path, segment): (&str, &Segment), op: &TracedOp, targets: &[&'static str]) -> bool {
    targets.iter().any(|target| match MEANT_BY_ALL.contains(target) {
        true => !is_output(model, (path, segment), op),
        false => is_target(path, &op.0, target),
    })
}

/// Whether it is what `all-linear` leaves out: the output matrix of a model of transformers, or its head of classes, which peft leaves
/// out where it is told the task.
fn is_output(model: &TracedModel, (path, segment): (&str, &Segment), op: &TracedOp) -> bool {
    let is_head = || {
        let weight = segment.weights.iter().find(|weight| is_weight_of(op, &weight.0));
        weight.is_some_and(|weight| matches!(part_of(weight.3), Part::Head | Part::Embedding))
    };
    match model.output_layer.as_deref() {
        Some("") => model.versions.contains_key("transformers") && is_head() && path.is_empty() && !op.0.contains('.'),
        Some(own) => is_target(path, &op.0, own),
        None => is_head(),
    }
}

/// The adapters of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AdaptedLayers {
    pub ran: Vec<AdaptedLayer>,
    /// Rows and columns of layers with adapters that no gradient reaches.
    pub idle: Vec<(u64, u64)>,
}

/// Adapters of the segments, place by place.
pub(super) struct Placing<'a> {
    model: &'a TracedModel,
    adapters: &'a Adapters,
    /// Of kinds whose adapters do not depend on the place.
    known: Vec<Option<AdaptedLayers>>,
    /// Places that some segment stands at more than once.
    repeated: HashSet<&'a str>,
    /// Layers that ran, of such places and of segments that are no blocks.
    ran: HashSet<String>,
}

impl<'a> Placing<'a> {
    pub(super) fn new(model: &'a TracedModel, trace: &'a Trace, adapters: &'a Adapters) -> Self {
        let mut seen = HashSet::new();
        let paths = trace.places().map(|(path, _)| path);
        let repeated = paths.filter(|path| path.is_empty() || !seen.insert(*path)).collect();
        Self { model, adapters, known: vec![None; trace.kinds.len()], repeated, ran: HashSet::new() }
    }

    /// The layers with adapters of a segment of that kind at that path.
    pub(super) fn at(&mut self, path: &str, kind: u32, segment: &Segment) -> AdaptedLayers {
        let targets = &self.adapters.targets;
        // In an older tape blocks alike have one path.
        let repeats = self.repeated.contains(path) && (path.is_empty() || self.has_paths());
        if let Some(known) = self.known[kind as usize].as_ref().filter(|_| !repeats) {
            return known.clone();
        }
        let mut found = AdaptedLayers { idle: self.idle(path, segment), ..AdaptedLayers::default() };
        let mut names = Vec::new();
        for (at, op) in (0_u32..).zip(&segment.ops).filter(|(_, op)| is_linear(op)) {
            // A layer of another block that runs here as well.
            let borrowed = !path.is_empty() && op.0.contains('.') && self.stands_in_a_block(&op.0);
            let whole = || if borrowed { op.0.clone() } else { path_of(path, op) };
            if (borrowed && self.is_shared(&op.0)) || !is_adapted(self.model, (path, segment), op, targets) {
                continue;
            }
            match segment.weights.iter().find(|weight| is_weight_of(op, &weight.0)) {
                // What it makes leads to no loss.
                Some(weight) if weight.4 == 2 => found.idle.extend(sides(weight)),
                _ => found
                    .ran
                    .push(AdaptedLayer { op: at, ran_before: borrowed || (repeats && self.ran.contains(&whole())) }),
            }
            names.extend(repeats.then(whole));
        }
        self.ran.extend(names);
        let longer = |op: &TracedOp, target: &str| target.len() > op.0.len() && target.ends_with(&op.0);
        let depends = |target: &&str| segment.ops.iter().any(|op| is_linear(op) && longer(op, target));
        if !repeats && !targets.iter().any(|target| depends(target) || target.contains("out_proj")) {
            self.known[kind as usize] = Some(found.clone());
        }
        found
    }

    fn has_paths(&self) -> bool {
        self.model.traces.all().any(|trace| !trace.paths.is_empty())
    }

    /// Whether a layer stands in several modules, of which all but the first reach it past its adapter. Older tapes do not say whether
    /// the modules share it or one that has it.
    fn is_shared(&self, name: &str) -> bool {
        self.model.shared_layers.as_ref().is_none_or(|shared| shared.iter().any(|layer| layer == name))
    }

    /// Whether a name is the whole path of a layer in some block.
    fn stands_in_a_block(&self, name: &str) -> bool {
        let inside = |path: &str| !path.is_empty() && name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        self.model.traces.all().flat_map(Trace::places).any(|(path, _)| inside(path))
    }

    /// Adapters that a model has and never runs: PyTorch's attention reads the weights of its output layer past the layer
    /// (torch/nn/modules/activation.py, `MultiheadAttention.forward`).
    fn idle(&self, path: &str, segment: &Segment) -> Vec<(u64, u64)> {
        let targets = &self.adapters.targets;
        let mut layers: Vec<String> = Vec::new();
        for op in segment.ops.iter().filter(|op| op.1 == "MultiheadAttention") {
            let layer = format!("{}.out_proj", op.0);
            let whole = if path.is_empty() { layer.clone() } else { format!("{path}.{layer}") };
            let wanted = targets.iter().any(|target| MEANT_BY_ALL.contains(target) || is_meant(&whole, target));
            if wanted && !layers.contains(&layer) {
                layers.push(layer);
            }
        }
        let own = |weight: &&TracedWeight| {
            weight.5 == 0 && layers.iter().any(|layer| weight.0.strip_suffix(".weight") == Some(layer))
        };
        segment.weights.iter().filter(own).filter_map(sides).collect()
    }
}

/// Rows and columns of a matrix.
fn sides(weight: &TracedWeight) -> Option<(u64, u64)> {
    match weight.1[..] {
        [rows, columns] => Some((rows, columns)),
        _ => None,
    }
}
