//! What an operator saves for the gradients of some of its operands alone.

/// Operands that an operator saves for the gradient of another one alone, and leaves out where that needs none: the operand that is
/// saved, and the one whose gradient asks for it. Whatever else an operator saves it saves where any of its operands needs a gradient,
/// a convolution or a norm with frozen weights as well (PyTorch, tools/autograd/gen_variable_type.py, `guard_for`; what formulas read,
/// tools/autograd/derivatives.yaml). `kernel` is the name of the operator, in place or not, or of autograd's function for it.
pub(super) fn guards(kernel: &str) -> &'static [(usize, usize)] {
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
