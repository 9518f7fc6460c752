"""Copies within operators: those that autograd makes of what an operator in place overwrites, as its function saves them
(torch/csrc/autograd/generated/VariableType.cpp, `original_self`), and those of conjugated or negated views."""

import torch


def follows_copy(ops, func, op):
    """Whether an operator in place is behind the copy that its function saves of what it overwrites."""
    last = ops[-1] if ops else None
    return (last is not None and func._schema.is_mutable and op.graded and last.name == "clone" and last.node == op.seq
            and last.inputs == op.inputs[:1])


def node_behind_copy(recorder, func, op, inputs):
    """The function of an operator in place that is behind such a copy; none of another. The copy has a function of its own, which
    autograd made later. That of what wants no gradient has none: the newest is the operator's own, which saves what was saved
    beside the copy."""
    if not follows_copy(recorder.ops, func, op):
        return None
    if inputs[0].requires_grad:
        return op.seq - 1
    copy = recorder.ops[-1]
    copy.node = None
    for number in copy.outputs:
        recorder.tensors[number].seq = None
    recorder.saving.setdefault(op.seq, []).extend(copy.saved)
    copy.saved = []
    return op.seq


def copies_turned(func, inputs):
    """Whether an operator writes out such a view."""
    return func is torch.ops.aten.clone.default and (inputs[0].is_conj() or inputs[0].is_neg())


def joins_copy(recorder, op):
    """Whether an operator reads a conjugated view as a copy of it that was made in its name: both are what its function is of. For
    most operators such a view's numbers are written out first (aten/src/ATen/native/MathBitsFallback.h)."""
    last = recorder.ops[-1] if recorder.ops else None
    if last is None or last.node != op.seq or not last.copies_turned:
        return False
    if not op.copies_turned and not set(last.outputs) & set(op.inputs):
        return False
    last.graded = op.graded = False
    return True
