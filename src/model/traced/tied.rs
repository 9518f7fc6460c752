//! Parts of one parameter's gradient that several segments of a traced model make.

use std::collections::HashMap;

use super::super::tape::{Flow, Home, Tape};
use super::super::weight::TiedGrad;
use super::segment::PlacedTape;
use crate::plan::traced::{Segment, Trace, TracedWeight};

/// Says of each part that meets one that waits whether that is a view, whose memory their sum does not take over: an output
/// matrix's gradient is a transposed view of the product that made it (torch/csrc/autograd/input_buffer.cpp,
/// `can_accumulate_inplace`). A sum is none.
pub(super) fn meet(trace: &Trace, made: &mut [PlacedTape], places: &[usize]) {
    let mut waiting: HashMap<String, bool> = HashMap::new();
    for at in places.iter().rev() {
        let Some(PlacedTape { kind, tape, .. }) = made.get_mut(*at) else { continue };
        let Some(segment) = trace.kinds.get(*kind as usize).filter(|segment| !segment.block) else { continue };
        for (index, weight) in (0_u32..).zip(&segment.weights) {
            match weight.6 {
                1 => {
                    waiting.insert(full_name(segment, weight), is_view(tape, index));
                }
                2 if waiting.insert(full_name(segment, weight), false) == Some(true) => {
                    tape.weights[index as usize].meets = TiedGrad::Waiting { view: true };
                }
                _ => {}
            }
        }
    }
}

fn full_name(segment: &Segment, weight: &TracedWeight) -> String {
    if segment.path.is_empty() { weight.0.clone() } else { format!("{}.{}", segment.path, weight.0) }
}

/// Whether a weight's gradient is handed on as a view.
fn is_view(tape: &Tape, weight: u32) -> bool {
    tape.ops.iter().any(|op| {
        let inputs = tape.ids(op.inputs).iter().zip(tape.flows(op.inputs));
        inputs.into_iter().any(|(id, flow)| tape.get(*id).home == Home::Weight(weight) && *flow == Flow::View)
    })
}
