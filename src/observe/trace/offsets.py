"""Numbers that code counts from another one that nobody knows: where a part ends that begins there."""

import torch
from torch._subclasses.fake_tensor import FakeTensor


def note(func, args, out):
    """Writes down what an integer of one element is counted from, and how far behind that it is."""
    if func is not torch.ops.aten.add.Tensor or len(args) != 2 or type(args[1]) is not int or not isinstance(args[0], FakeTensor):
        return
    if isinstance(out, FakeTensor) and out.numel() == 1 and not out.is_floating_point():
        out._memwall_from = args[0], args[1]


def number_of(tensor, ask):
    """The number of such an integer, behind what was said of the one that it is counted from; none where it is counted from none."""
    start, distance = getattr(tensor, "_memwall_from", (None, 0))
    if start is None:
        return None
    said = getattr(start, "_memwall_said", None)
    return (ask(start) if said is None else said) + distance


def say(tensor, number):
    """Remembers what is said of an integer, for those that are counted from it."""
    tensor._memwall_said = number
    return number
