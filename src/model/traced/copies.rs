//! Copies that autocast makes of frozen weights: one for each use, as its cache has copies of trained leaves alone (PyTorch,
//! aten/src/ATen/autocast_mode.cpp, `cached_cast`).

use super::super::element::Group;
use super::super::tape::{Flow, Home, Spec, Tape, Tensor, TensorId};
use super::trained::Arrival;
use crate::plan::traced::{Segment, TracedGroup, TracedTensor, intern};

/// Copies of a segment that a use has had.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<u32>);

impl Copies {
    /// The copies that an operator of a segment makes for itself: those that it would find in the cache if all were trained.
    pub(super) fn made_again(
        &mut self,
        tape: &mut Tape,
        (segment, at): (&Segment, usize),
        arrival: &Arrival,
    ) -> Vec<(u32, TensorId)> {
        let Some(op) = segment.ops.get(at).filter(|op| op.2 != "hold") else { return Vec::new() };
        let mut made = Vec::new();
        for (id, _) in &op.5 {
            let Some(tensor) = tape.tensors.get(*id as usize).copied() else { continue };
            let is_here = segment.tensors.get(*id as usize).is_some_and(is_copy) && !tensor.grad;
            let is_used = arrival.copies.contains(id) || (is_here && self.0.contains(id));
            if is_here {
                self.0.push(*id);
            }
            if is_used && !made.iter().any(|(known, _)| known == id) {
                made.push((*id, copied(tape, &op.0, tensor)));
            }
        }
        made
    }
}

fn copied(tape: &mut Tape, name: &str, tensor: Tensor) -> TensorId {
    let (group, home) = (Group::WeightCopy, Home::Local);
    let copy = tape.tensor(Tensor { group, home, grad: false, cached: false, view_of: None, ..tensor });
    let inputs: &[(TensorId, Flow)] = &[];
    tape.push(&Spec { name: intern(&format!("{name}.cast")), inputs, outputs: &[copy], ..Spec::default() });
    copy
}

/// Whether a tensor is such a copy where the weight is trained.
pub(super) fn is_copy(tensor: &TracedTensor) -> bool {
    tensor.5 == 1 && tensor.2 == TracedGroup::WeightCopy
}
