"""Gradients that wait for segments far from those that made them."""

from names import Number


def shares_gradient(a, order, v, flows):
    """Whether the gradient that waits for `v`, which the next segment reads, is the one that comes to that segment's output: a sum of both
    hands it to both. Parts of a concatenation lie in one memory."""
    beside = a.main.get(order + 1)
    for at in (one for one in flows if one > order + 1):
        for group in a.pieces[a.run[at]][2]:
            passed = {a.resolve(number) for number, flow in group.flows.items() if flow == "pass"}
            if beside is not None and {v, beside} <= passed:
                a.shared_gradients.add(order + 1)
                tensors = a.r.tensors
                return any(tensors[number].numel == tensors[v].numel for number in group.outputs)
    return False


def hold_wholes(a):
    """Gradients of parts of a concatenation are views of its own gradient, which is there as long as one of them waits
    (torch/csrc/autograd/FunctionsManual.cpp, `cat_tensors_backward`)."""
    for order, index in enumerate(a.run):
        for group in a.pieces[index][2]:
            if len(group.outputs) == 1 and order:
                hold_whole(a, order, group)


def hold_whole(a, order, group):
    tensors = a.r.tensors
    whole = tensors[group.outputs[0]]
    passed = [a.resolve(number) for number, flow in group.flows.items() if flow == "pass" and tensors[number].numel < whole.numel]
    parts = [v for v in passed if v not in a.parameters and tensors[v].dtype == whole.dtype]
    ends = {v: taken_in(a, order, v) for v in parts}
    last = min(ends, key=lambda v: ends[v][1], default=None)
    if last is None or ends[last][1] >= order:
        return
    until = ends[last][1]
    size = lambda numel: [[Number(numel * whole.dtype.itemsize)], "u8"]
    left = whole.numel - sum(tensors[v].numel for v in parts)
    held = [(order, left)] + [(ends[v][0], tensors[v].numel) for v in parts]
    for start, numel in held:
        if start > until and numel > 0:
            a.pending.append([start, until, *size(numel)])
            a.pending_of.append((a.made_in[last], last))


def taken_in(a, order, v):
    """The segment in which the part of a gradient that segment `order` made for `v` is last used, and the one behind which nobody has
    it: a sum with another gradient is a new tensor, and what made `v` takes it first thing."""
    flows = [one for one in a.flows.get(v, ()) if one != order]
    made = a.made_in.get(v)
    if made is None or made == order or any(one > order for one in flows):
        return order, order
    return (max(flows), max(flows)) if flows else (made, made + 1)
