//! What an operator saves for the gradients of some of its operands alone.

use super::super::tape::{Flow, Tape, TensorId};
use super::super::work::Work;

/// Leaves out of `kept` what an operator of a model, some of which is frozen, need not save. Returns the share of its backward
/// operations that are left; none where no gradient flows to any of its inputs. `flops`: its operations forward and backward.
pub(super) fn of_frozen(
    tape: &Tape,
    kernel: &str,
    (work, flops): (&Work, (f64, f64)),
    inputs: &[(TensorId, Flow)],
    kept: &mut Vec<TensorId>,
) -> Option<f64> {
    let asked = |at: usize| inputs.get(at).is_some_and(|(_, flow)| *flow != Flow::Stop);
    let flows = |at: usize| asked(at) && inputs.get(at).is_some_and(|(id, _)| tape.get(*id).grad);
    if !(0..inputs.len()).any(flows) {
        kept.clear();
        return None;
    }
    for (saved, asks) in guards(kernel) {
        // A tensor times itself is one operand.
        let needed = flows(if inputs.len() > *asks { *asks } else { *saved });
        if let Some((operand, _)) = inputs.get(*saved).filter(|_| !needed) {
            kept.retain(|id| id != operand);
        }
    }
    if !matches!(work, Work::Product(_) | Work::Convolution(_)) {
        return Some(1.0);
    }
    // The gradient of what comes in takes as many operations as the pass forward, that of a filter what is left: of a grouped one
    // PyTorch counts more (torch/utils/flop_counter.py, `conv_backward_flop`).
    let first = if flops.1 > 0.0 { (flops.0 / flops.1).min(1.0) } else { 0.5 };
    match (asked(0) && asked(1), flows(0), flows(1)) {
        (true, true, false) => Some(first),
        (true, false, true) => Some(1.0 - first),
        (_, false, false) => Some(0.0),
        _ => Some(1.0),
    }
}

/// What is left of an operator's memory beside what its backward function makes, where one of its two factors is frozen: the other's
/// gradient reads the conjugate of the frozen one alone, a copy where that is complex, and is summed where it is the smaller one (PyTorch,
/// torch/csrc/autograd/FunctionsManual.cpp, `mul_tensor_backward`, `div_tensor_self_backward`, `handle_r_to_c`).
pub(super) fn scratch_of_frozen(
    tape: &Tape,
    kernel: &str,
    (inputs, outputs): (&[(TensorId, Flow)], &[TensorId]),
    scratch: u64,
) -> u64 {
    let ([(left, way), (right, other_way)], [made]) = (inputs, outputs) else { return scratch };
    let flows = |id: TensorId, flow: Flow| flow != Flow::Stop && tape.get(id).grad;
    let name = plain_name(kernel);
    let (product, quotient) = (name.eq_ignore_ascii_case("mul"), name.eq_ignore_ascii_case("div"));
    let (trained, read) = match (flows(*left, *way), flows(*right, *other_way)) {
        (true, false) if product || quotient => (*left, *right),
        (false, true) if product => (*right, *left),
        _ => return scratch,
    };
    let [trained, read, whole] = [trained, read, *made].map(|id| tape.get(id));
    let summed = if trained.numel < whole.numel { whole.allocated() } else { 0 };
    scratch.min(read.allocated().saturating_add(summed))
}

/// Whether an operator gives each operand a gradient of the whole result's size, which the engine sums where the operand is smaller, when
/// the function has returned (torch/csrc/autograd/engine.cpp, `validate_outputs`).
pub(super) fn broadcasts(kernel: &str) -> bool {
    matches!(kernel.trim_end_matches('_'), "mul" | "div" | "pow" | "where" | "maximum" | "minimum" | "lerp" | "atan2")
}

/// The name of an operator, in place or not, or of autograd's function for it.
fn plain_name(kernel: &str) -> &str {
    let name = kernel.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix("Backward").unwrap_or(name).trim_end_matches('_')
}

/// Operands that an operator saves for the gradient of another one alone, and leaves out where that needs none: the operand that is
/// saved, and the one whose gradient asks for it. Whatever else an operator saves it saves where any of its operands needs a gradient,
/// a convolution or a norm with frozen weights as well (PyTorch, tools/autograd/gen_variable_type.py, `guard_for`; what formulas read,
/// tools/autograd/derivatives.yaml).
fn guards(kernel: &str) -> &'static [(usize, usize)] {
    let name = plain_name(kernel);
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    // Of the two factors of a sum, what is added comes last on a tape.
    const FACTORS: &[(usize, usize)] = &[(0, 1), (1, 0)];
    match () {
        () if ["mul", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "vdot", "_grouped_mm"].into_iter().any(is) => {
            FACTORS
        }
        () if ["addbmm", "addmv", "addr", "addcmul"].into_iter().any(is) => &[(1, 2), (2, 1)],
        () if is("div") => &[(0, 1)],
        () if is("addcdiv") => &[(1, 2)],
        () if is("lerp") => &[(0, 2), (1, 2)],
        () if is("index_add") || is("scatter_add") => &[(1, 2)],
        () => &[],
    }
}
