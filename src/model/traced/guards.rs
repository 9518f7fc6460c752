//! What an operator saves for the gradients of some of its operands alone.

use super::super::tape::{Flow, Tape, TensorId};
use super::super::work::Work;

/// Leaves out of `kept` what an operator of a model, some of which is frozen, need not save. Returns the share of its backward
/// operations that are left; none where no gradient flows to any of its inputs.
pub(super) fn of_frozen(
    tape: &Tape,
    kernel: &str,
    work: &Work,
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
    let (before, now) = (u8::from(asked(0)) + u8::from(asked(1)), u8::from(flows(0)) + u8::from(flows(1)));
    Some(f64::from(now) / f64::from(before.max(1)))
}

/// Operands that an operator saves for the gradient of another one alone, and leaves out where that needs none: the operand that is
/// saved, and the one whose gradient asks for it. Whatever else an operator saves it saves where any of its operands needs a gradient,
/// a convolution or a norm with frozen weights as well (PyTorch, tools/autograd/gen_variable_type.py, `guard_for`; what formulas read,
/// tools/autograd/derivatives.yaml). `kernel` is the name of the operator, in place or not, or of autograd's function for it.
fn guards(kernel: &str) -> &'static [(usize, usize)] {
    let name = kernel.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = name.strip_suffix("Backward").unwrap_or(name).trim_end_matches('_');
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
