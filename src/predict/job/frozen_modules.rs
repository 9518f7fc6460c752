//! Modules of a traced model that a plan leaves as they are: a vision tower, all but a projector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Notes;
use crate::model::{Architecture, FrozenParts, ModelShape};
use crate::plan::keys;
use crate::plan::traced::{Segment, Trace, TracedModel};
use crate::printable::printable;

/// Names that a fault lists.
const MOST_NAMES: usize = 12;

/// Freezes the modules that `names` holds beside parts, in every trace of the model.
pub(super) fn freeze(names: &[String], architecture: &mut Architecture, notes: &mut Notes) {
    let ModelShape::Traced(model) = &mut architecture.shape else { return };
    for name in names.iter().filter(|name| FrozenParts::default().and(name).is_none()) {
        let traces = Arc::make_mut(model).traces.each_mut();
        if traces.into_iter().flatten().map(|trace| freeze_in(trace, name)).sum::<usize>() == 0 {
            let there: Vec<String> = modules(model).into_iter().take(MOST_NAMES).collect();
            let there = there.join(", ");
            let why = format!("{}: no module of the traced model; there are {there}", printable(name));
            notes.fault(keys::training::frozen, why);
        }
    }
}

/// Leaves the weights of a module as they are. Gives how many there are. Segments alike of which some lie in the module and some do
/// not become two kinds.
fn freeze_in(trace: &mut Trace, module: &str) -> usize {
    let inside = |(path, segment): (&str, &Segment)| -> Vec<usize> {
        let weights = segment.weights.iter().enumerate();
        weights.filter(|(_, weight)| is_in(&whole_name(path, &weight.0), module)).map(|(at, _)| at).collect()
    };
    let weights: Vec<Vec<usize>> = trace.places().map(inside).collect();
    let mut kinds: BTreeMap<(u32, &[usize]), u32> = BTreeMap::new();
    for (kind, own) in trace.order.iter_mut().zip(&weights) {
        let of = *kind;
        *kind = *kinds.entry((of, own)).or_insert_with(|| {
            let frozen = trace.kinds.get(of as usize).cloned().map(|mut segment| {
                own.iter().for_each(|at| segment.weights[*at].4 = 0);
                segment
            });
            trace.kinds.extend(frozen);
            u32::try_from(trace.kinds.len()).unwrap_or(u32::MAX).saturating_sub(1)
        });
    }
    drop_unused(trace);
    weights.iter().map(Vec::len).sum()
}

/// Leaves out kinds that stand nowhere.
fn drop_unused(trace: &mut Trace) {
    let mut at = vec![None; trace.kinds.len()];
    let mut kinds = Vec::new();
    for kind in &mut trace.order {
        let place = at[*kind as usize].get_or_insert_with(|| {
            kinds.push(trace.kinds[*kind as usize].clone());
            u32::try_from(kinds.len() - 1).unwrap_or(u32::MAX)
        });
        *kind = *place;
    }
    trace.kinds = kinds;
}

/// A weight's name in the model, from its segment's path and its name there.
fn whole_name(path: &str, weight: &str) -> String {
    if path.is_empty() { weight.to_owned() } else { format!("{path}.{weight}") }
}

/// Whether a weight of that name lies in `module`, which is any run of whole words of a path.
fn is_in(weight: &str, module: &str) -> bool {
    format!(".{weight}").contains(&format!(".{module}."))
}

/// Modules that hold weights, down to the second name of each path.
fn modules(model: &TracedModel) -> BTreeSet<String> {
    let mut there = BTreeSet::new();
    for segment in model.traces.all().flat_map(|trace| &trace.kinds) {
        for weight in &segment.weights {
            let whole = whole_name(&segment.path, &weight.0);
            let Some((module, _)) = whole.rsplit_once('.') else { continue };
            there.insert(module.split('.').take(2).collect::<Vec<_>>().join("."));
        }
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_by_any_run_of_its_path() {
        let weight = whole_name("model.vision_tower.vision_model.encoder.layers.0", "self_attn.k_proj.weight");
        for module in
            ["vision_tower", "model.vision_tower", "vision_tower.vision_model", "layers.0", "self_attn.k_proj"]
        {
            assert!(is_in(&weight, module), "{module}");
        }
        for module in ["vision", "tower", "layers.00", "weight", "k_proj.weight"] {
            assert!(!is_in(&weight, module), "{module}");
        }
        assert!(is_in(&whole_name("", "multi_modal_projector.linear_1.weight"), "multi_modal_projector"));
    }
}
