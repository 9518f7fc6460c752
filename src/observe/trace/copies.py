"""Copies that autograd makes of what an operator in place overwrites, as its function saves them
(torch/csrc/autograd/generated/VariableType.cpp, `original_self`)."""


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
