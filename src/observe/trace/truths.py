"""What is true of numbers that nobody has: they are finite, equal to themselves, and 1 where one of them decides a branch."""

import math
import operator

import torch

aten = torch.ops.aten
COMPARED = {aten.eq: operator.eq, aten.ne: operator.ne, aten.lt: operator.lt, aten.le: operator.le, aten.gt: operator.gt,
            aten.ge: operator.ge}
NEVER = {aten.isnan, aten.isinf, aten.isposinf, aten.isneginf}
NOT = {aten.logical_not, aten.bitwise_not}
AND = {aten.mul, aten.logical_and, aten.bitwise_and, aten.__and__}
OR = {aten.logical_or, aten.bitwise_or, aten.__or__}
# The one element that stands for all.
ONE = 1.0


def known(value):
    """What is known of a tensor of truth values, or of a plain one."""
    return value if isinstance(value, bool) else getattr(value, "_memwall_truth", None)


def both(one, other):
    if one is False or other is False:
        return False
    return True if one and other else None


def compared(packet, one, other):
    if one is other:
        return COMPARED[packet](0, 0)
    number = isinstance(other, (int, float)) and isinstance(one, torch.Tensor) and one.is_floating_point()
    # `torch.isfinite` asks of every element whether it is infinite (aten/src/ATen/native/TensorCompare.cpp).
    if number and (one.numel() == 1 or math.isinf(other)):
        return COMPARED[packet](ONE, other)
    return None


def truth_of(func, args):
    """What is known of an operator's truth values; none where that is nothing."""
    packet = func._overloadpacket
    if packet in NEVER:
        return False
    if packet in COMPARED and len(args) > 1:
        return compared(packet, *args[:2])
    if not args or getattr(args[0], "dtype", None) is not torch.bool:
        return None
    if packet in AND or packet in OR:
        one, other = (known(arg) for arg in args[:2])
        if packet in AND:
            return both(one, other)
        opposite = both(None if one is None else not one, None if other is None else not other)
        return None if opposite is None else not opposite
    found = known(args[0])
    # Reductions, views and copies of one tensor.
    alone = not any(isinstance(arg, torch.Tensor) for arg in args[1:])
    if found is None or not alone:
        return None
    return not found if packet in NOT else found
