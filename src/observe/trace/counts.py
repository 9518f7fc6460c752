"""Counts that routing makes of its choices: how many tokens each expert gets, and where its share begins. Where shares are even they
follow from shapes: a row of choices is as many ones among zeros, and sums and parts of those are known."""

import math
import operator

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

import held
import packing

aten = torch.ops.aten
# Most elements of which each has a number of its own.
MOST = 4096
# Most elements of a tensor on the host, or of ones, that code computes with beside what is on the device.
MOST_ON_HOST = 16
COMPARED = {aten.eq: operator.eq, aten.ne: operator.ne, aten.lt: operator.lt, aten.le: operator.le, aten.gt: operator.gt,
            aten.ge: operator.ge}
SAME = {aten.view, aten._unsafe_view, aten.reshape, aten.unsqueeze, aten.squeeze, aten._to_copy, aten.detach, aten.clone, aten.alias}
# They give parts of a tensor, or put its elements in another order.
COMPUTED = {aten.prod, aten.cumsum}
MOVED = {aten.select, aten.slice, aten.unbind, aten.permute, aten.transpose, aten.t}
# They give places along one side, the second or only thing of what they return.
PLACED = {aten.argmax, aten.argmin, aten.max, aten.min, aten.topk, aten.sort}
# Types of what is set or not.
MASKS = (torch.bool, torch.uint8)
INVERTED = {aten.bitwise_not, aten.logical_not}
ZEROS = {aten.zeros, aten.new_zeros, aten.zeros_like}
ONES = {aten.ones, aten.new_ones, aten.ones_like}


class Counts:
    """What all elements are together; or each of them, where they are few."""

    __slots__ = ("total", "values")

    def __init__(self, total, values=None):
        self.total, self.values = total, values

    def each(self, numel):
        if self.values is None:
            share, more = divmod(self.total, numel)
            self.values = [share + (at < more) for at in range(numel)]
        return self.values


def counts_of(value):
    return getattr(value, "_memwall_counts", None)


def set_in(mask):
    """How many elements of a mask are set; none where nobody knows."""
    counts = counts_of(mask)
    return counts.total if counts is not None and counts.total and mask.dtype in MASKS else None


def of_values(values):
    return Counts(sum(values), values)


def each_of(tensor):
    """The elements of a tensor whose counts are known, or of a plain number; none where they are not, or too many."""
    if isinstance(tensor, (int, float)) and not isinstance(tensor, bool):
        return [tensor]
    if not isinstance(tensor, torch.Tensor):
        return None
    counts = counts_of(tensor)
    if counts is None and not isinstance(tensor, FakeTensor) and tensor.device.type == "cpu" and 0 < tensor.numel() <= MOST_ON_HOST:
        with unset_fake_temporarily():
            return tensor.flatten().tolist()
    # Of zeros nothing is known: code writes into them by views.
    if counts is None or not 0 < tensor.numel() <= MOST or not (counts.total or counts.values):
        return None
    return counts.each(tensor.numel())


def number_of(tensor):
    """The number that a tensor of one element has; none where nobody knows."""
    values = each_of(tensor) if tensor.numel() == 1 else None
    return None if values is None else type_of(tensor.dtype)(values[0])


def type_of(dtype):
    return bool if dtype is torch.bool else float if dtype.is_floating_point else int


def chosen(args, out):
    """Ones among zeros, one for each choice: `scatter_(dim, index, 1)`."""
    before = counts_of(args[0])
    if before is None or before.total or len(args) < 4 or not isinstance(args[3], (int, float)):
        return None
    return Counts(int(args[3] * args[2].numel()))


def matched(args, out):
    """`one_hot` of fake tensors: a choice beside all choices there are (aten/src/ATen/native/Onehot.cpp)."""
    one, other = args[:2]
    listed = getattr(other, "_memwall_listed", False)
    return Counts(out.numel() // other.numel()) if listed and other.numel() and one.dim() and one.size(-1) == 1 else None


def moved(func, args, out):
    """Writes down which elements these are: the operator runs on their places."""
    counts, values = counts_of(args[0]), each_of(args[0])
    if values is None:
        if counts is not None and isinstance(out, torch.Tensor) and out.numel() == args[0].numel():
            out._memwall_counts = counts
        return
    with unset_fake_temporarily():
        places = torch.arange(len(values), device="cpu").view(args[0].shape)
        made = func(places, *args[1:])
        for one, chosen in zip(out, made) if isinstance(out, (list, tuple)) else [(out, made)]:
            one._memwall_counts = of_values([values[place] for place in chosen.flatten().tolist()])


def combined(how):
    def rule(args, out):
        one, other = each_of(args[0]), each_of(args[1])
        if one is None or other is None or not isinstance(args[0], torch.Tensor) and not isinstance(args[1], torch.Tensor):
            return None
        if len(one) != len(other):
            one, other = (values * out.numel() if len(values) == 1 else values for values in (one, other))
        return of_values([how(a, b) for a, b in zip(one, other)]) if len(one) == len(other) == out.numel() else None

    return rule


def computed(func, args, out):
    """Writes down what an operator makes of numbers that are known: it runs for real."""
    values = each_of(args[0])
    if values is not None:
        with unset_fake_temporarily():
            made = func(torch.tensor(values, device="cpu").view(args[0].shape), *args[1:])
            out._memwall_counts = of_values(made.flatten().tolist())


def joined(args, out):
    zeros = lambda one: [0] * one.numel() if one.numel() == 1 and counts_of(one) and not counts_of(one).total else None
    parts = [each_of(one) or zeros(one) if one.numel() else [] for one in args[0]]
    return None if None in parts else of_values([value for values in parts for value in values])


def joined_or_total(args, out):
    """As `joined`; of what is long, how many are set altogether. A mask and what it leaves out are all there is."""
    if len(args[0]) == 2 and getattr(args[0][1], "_memwall_inverse", None) is args[0][0]:
        return Counts(args[0][0].numel())
    found = joined(args, out)
    totals = [counts_of(one) for one in args[0]]
    return found if found is not None or None in totals else Counts(sum(one.total for one in totals))


def marked(args, out):
    """Places that are set in a mask of zeros."""
    before, places = counts_of(args[0]), args[1]
    if before is None or before.total or out.dtype not in MASKS or len(places) != 1 or places[0].dtype in MASKS:
        return None
    return Counts(min(places[0].numel(), out.numel()))


def either(args, out):
    """Masks of places that differ, as those of positives and negatives."""
    totals = [counts_of(one) for one in args[:2]]
    return None if None in totals or out.dtype not in MASKS else Counts(min(sum(one.total for one in totals), out.numel()))


def drawn(args, out):
    """A few numbers between two others: the middle."""
    low, high = (*args[1:3], 0.0, 1.0)[:2] if len(args) == 3 else (0.0, 1.0)
    return of_values([(low + high) / 2] * out.numel()) if 0 < out.numel() <= MOST_ON_HOST else None


def extreme(how):
    def rule(args, out):
        values = each_of(args[0]) if len(args) == 1 else None
        return None if values is None else of_values([how(values)])

    return rule


def kept(args, out):
    counts = counts_of(args[0])
    return counts if counts is not None and out.numel() == args[0].numel() else None


def gathered(args, out):
    truth = getattr(args[0], "_memwall_truth", None)
    if truth is not None and 0 < out.numel() <= MOST:
        return of_values([args[0].numel() // out.numel() if truth else 0] * out.numel())
    counts = counts_of(args[0])
    return counts and Counts(counts.total)


def ones(_, out):
    """A few ones, which code puts in a shape; into many it writes by views."""
    return of_values([1] * out.numel()) if out.numel() <= MOST_ON_HOST else None


RULES = {
    **dict.fromkeys(ONES, ones),
    **dict.fromkeys(ZEROS, lambda args, out: Counts(0)), **dict.fromkeys(SAME, kept), aten.scatter: chosen, aten.scatter_: chosen,
    aten.eq: matched, aten.sum: gathered, aten.cat: joined_or_total, aten.rand: drawn, aten.uniform_: drawn,
    aten.index_put_: marked, aten.bitwise_or: either, aten.logical_or: either, aten.__or__: either,
    aten.add: combined(operator.add), aten.sub: combined(operator.sub), aten.mul: combined(operator.mul),
    aten.add_: combined(operator.add), aten.sub_: combined(operator.sub), aten.mul_: combined(operator.mul),
    aten.rsub: combined(lambda one, other: other - one), aten.max: extreme(max), aten.min: extreme(min),
    aten.amax: extreme(max), aten.amin: extreme(min), aten.histc: lambda args, out: Counts(args[0].numel()),
    aten.bincount: lambda args, out: Counts(args[0].numel()),
}


# What has a size that values decide, answered with the most it can have, or with even shares.


def all_differ(tensor, *_, **__):
    none, numbers = tensor.new_empty((0,), dtype=torch.int64), tensor.flatten()
    return numbers[:getattr(tensor, "_memwall_kinds", numbers.numel())].clone(), none, none


def runs(tensor, _inverse=False, counts=False, *_, **__):
    """`unique_consecutive`: each element is a run of one; how many of each sample hold is one number, as all samples are alike
    (transformers' classifiers over end tokens ask for it)."""
    made, none, _ = all_differ(tensor)
    if getattr(tensor, "_memwall_alike", False):
        made = made[:1].clone()
    if not counts:
        return made, none, none
    each = tensor.new_empty((made.numel(),), dtype=torch.int64)
    each._memwall_counts = Counts(tensor.numel())
    return made, none, each


def all_chosen(tensor, mask, **_):
    """All elements; as many as the mask has, where its values are known, as those of an identity matrix."""
    whole = math.prod(torch.broadcast_shapes(tensor.shape, mask.shape))
    value = held.value_of(mask)
    with unset_fake_temporarily():
        share = 1 if value is None else int(value.sum()), value.numel()
    return tensor.new_empty((whole,) if value is None else (whole // share[1] * share[0],))


def each_counted(tensor, _weights=None, least=0, experts=1):
    return tensor.new_empty((max(experts, least),), dtype=torch.int64)


def ctc_loss(scores, targets, *_, **__):
    """Its loss, and its table by sample, position and places of the longest target, twice and one
    (aten/src/ATen/native/cuda/LossCTC.cu)."""
    positions, samples = scores.shape[:2]
    length = targets.size(1) if targets.dim() == 2 else targets.numel() // samples
    return scores.new_empty((samples,)), scores.new_empty((samples, positions, 2 * length + 1))


BY_VALUES = {
    aten._pack_padded_sequence.default: packing.packed,
    aten.unique_consecutive.default: runs, aten._unique2.default: all_differ, aten.masked_select.default: all_chosen,
    aten.bincount.default: each_counted, aten._ctc_loss.Tensor: ctc_loss, aten._ctc_loss.default: ctc_loss,
}
if hasattr(aten._ctc_loss_backward, "Tensor"):
    BY_VALUES[aten._ctc_loss_backward.Tensor] = lambda _, scores, *__, **___: torch.empty_like(scores)


def gru_cell(_, __, hidden, *___):
    """The hidden state, and five numbers for each of its elements (aten/src/ATen/native/cuda/RNN.cu, `GRU_WORKSPACE_MULTIPLIER`)."""
    return torch.empty_like(hidden), hidden.new_empty((hidden.size(0), 5 * hidden.size(1)))


def gru_cell_backward(gradient, workspace, has_bias):
    gates = [workspace.new_empty((workspace.size(0), workspace.size(1) // 5 * 3)) for _ in range(2)]
    biases = [one.sum(0) for one in gates] if has_bias else [None, None]
    return *gates, torch.empty_like(gradient), *biases


def least_squares(a, b, *_):
    """The solution, and of how well it fits nothing (`torch.linalg.lstsq` of matrices of full rank)."""
    columns = (b.size(-1),) if b.dim() == a.dim() else ()
    solution = b.new_empty((*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2] if columns else b.shape[:-1]), a.size(-1), *columns))
    return solution, a.new_empty(0), a.new_empty(0, dtype=torch.int64), a.new_empty(0)


# Operators of a GPU that PyTorch has no shape rule for.
WITHOUT_RULE = {
    aten._thnn_fused_gru_cell.default: gru_cell,
    aten._thnn_fused_gru_cell_backward.default: gru_cell_backward,
    aten.linalg_lstsq.default: least_squares,
    aten._weight_norm_interface_backward.default: lambda _, v, g, *__: (torch.empty_like(v), torch.empty_like(g)),
    # Whether targets are on the host and short (aten/src/ATen/native/cudnn/LossCTC.cpp).
    aten._use_cudnn_ctc_loss.default: lambda *_: False,
}
if hasattr(aten._use_cudnn_ctc_loss, "Tensor"):
    WITHOUT_RULE[aten._use_cudnn_ctc_loss.Tensor] = lambda *_: False


def listed(args, out):
    """Numbers in a row, which code takes the first and the last of."""
    out._memwall_listed = True
    if out.numel() <= MOST and not out.dtype.is_floating_point and all(isinstance(one, int) for one in args):
        out._memwall_counts = of_values(list(range(*args)))


def bound(packet, args, out):
    """Writes down how many different numbers there may be: classes that scores choose, at most as many as have a score."""
    if packet in PLACED and len(args) > 1 and isinstance(args[0], torch.Tensor) and args[0].dim():
        places = out if isinstance(out, torch.Tensor) else out[-1]
        side = -1 if packet is aten.topk else args[1]
        if isinstance(side, int) and not isinstance(side, bool):
            places._memwall_kinds = args[0].size(side)
    elif packet in SAME or packet in MOVED:
        kinds = getattr(args[0], "_memwall_kinds", None)
        for one in out if isinstance(out, (list, tuple)) else [out]:
            if kinds is not None:
                one._memwall_kinds = kinds


def note(func, args, out):
    """Writes down what is known of an operator's result."""
    packet = func._overloadpacket
    bound(packet, args, out)
    if packet in INVERTED and args[0].dtype in MASKS:
        out._memwall_inverse = args[0]
    if packet is aten.sum and len(args) > 1 and args[0].dtype == torch.bool:
        out._memwall_alike = True
    if packet is aten.arange:
        listed(args, out)
        return
    if packet in MOVED or packet in COMPUTED:
        (moved if packet in MOVED else computed)(func, args, out)
        return
    rule = RULES.get(packet)
    if rule is not None and isinstance(out, torch.Tensor) and args:
        counts = rule(args, out)
        if counts is not None:
            out._memwall_counts = counts
            return
    if args and counts_of(args[0]) is not None and func._schema.is_mutable:
        del args[0]._memwall_counts


def truth_of(func, args):
    """Whether a count compares so; none where it is not known."""
    how = COMPARED.get(func._overloadpacket)
    if how is None or not isinstance(args[0], torch.Tensor) or args[0].numel() != 1:
        return None
    one, other = each_of(args[0]), each_of(args[1])
    return how(one[0], other[0]) if one is not None and other is not None and len(other) == 1 else None
