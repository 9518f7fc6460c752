"""What outlives the backward function that reads it: what modules and hooks have names for beyond the step, and tensors that a custom
function keeps as attributes of its context, which live as long as the graph (torch/csrc/autograd/python_function.cpp,
`THPFunction`; `save_for_backward` lets go earlier)."""

import functools
import gc

import torch

from names import element_of
from places import tensors_in

# What PyTorch keeps of a module.
OWN = ("_parameters", "_buffers", "_modules")
# How deep containers and objects are looked into.
DEEPEST = 4


def named_by(model):
    """Tensors that modules, and the functions that hook them, have names for."""
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in OWN:
                yield from tensors_in([value])
        for hook in hooks_of(module):
            yield from tensors_of(hook, DEEPEST)


def hooks_of(module):
    """Functions that run with a module's forward pass, and see what it reads and makes."""
    return [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]


def is_hooked(module):
    """Whether somebody looks into a module or a part of it: each call of it counts."""
    return any(part._forward_hooks for part in module.modules())


def tensors_of(value, deep):
    """Tensors in what a function, a method or an object of a script's own has."""
    if deep == 0:
        return
    if tensors := tensors_in([value]):
        yield from tensors
        return
    inner = []
    if isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif hasattr(value, "__closure__"):
        cells = value.__closure__ or ()
        inner = [cell.cell_contents for cell in cells if cell != type(cell)()]
        inner += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif hasattr(value, "__self__"):
        inner = [value.__self__]
    elif isinstance(value, (list, tuple, dict)):
        inner = list(value.values() if isinstance(value, dict) else value)
    elif hasattr(value, "__dict__") and not hasattr(value, "_parameters") and not isinstance(value, type):
        inner = list(vars(value).values())
    for one in inner:
        yield from tensors_of(one, deep - 1)


def attributes_of(function):
    """Tensors that a custom function's context has as attributes; none for functions of PyTorch's own."""
    return tensors_in(list(getattr(function, "__dict__", {}).values()))


def still_there(recorder):
    """Storages of the forward pass that are alive when all that a step makes is let go."""
    made = lambda: frozenset(at for at, _ in list(recorder.alive.values()) if recorder.storages[at].kind == "made")
    if made():
        # Some are in circles alone.
        gc.collect()
    return made()


def resting(recorder, model, read=True):
    """What was on the device before a step and is there behind it, beside parameters, buffers and the batch: tables that a layer
    made once, or moved when it first read them. Types, elements and how many alike; of what nobody but a function or a script has a
    name for, what the step has `read`."""
    if recorder.device == "cpu":
        # Where that stands for a GPU, what stays on the host looks the same.
        return []
    buffers = {one.untyped_storage()._cdata for one in model.buffers() if one.layout is torch.strided}
    there, found = dict(recorder.alive), {}
    for key, (at, _) in there.items() if read else ():
        if recorder.storages[at].kind == "outside" and key not in buffers:
            found[key] = recorder.tensors[recorder.storages[at].first].dtype, recorder.storages[at].bytes
    for one in named_by(model):
        known = isinstance(one, torch.nn.Parameter) or one.layout is not torch.strided or one.device.type != recorder.device
        key = None if known else one.untyped_storage()._cdata
        if not known and key not in buffers and (key not in there or recorder.storages[there[key][0]].kind == "outside"):
            found[key] = one.dtype, one.untyped_storage().nbytes()
    alike = {}
    for dtype, size in found.values():
        # A complex number is two of its parts.
        element, width = element_of(dtype)
        one = element, size // (dtype.itemsize // width)
        alike[one] = alike.get(one, 0) + (size > 0)
    return sorted([element, count, times] for (element, count), times in alike.items() if times)


class Leaks:
    """Passes that left something and did not let go of what the pass before had left, as lists that hooks fill and nobody empties.
    The first two are of one size, so that what is kept by size is made once."""

    def __init__(self):
        self.before, self.left = None, []

    def follow(self, recorder):
        before, self.before = self.before, recorder
        if before is not None:
            there = before.remaining & {at for at, _ in before.alive.values()}
            self.left.append(bool(recorder.remaining and there))

    def notes(self):
        if not self.left or not all(self.left[:2]):
            return []
        return ["not modelled: each step leaves tensors that the next one does not let go of, as lists that hooks fill and nothing "
                "empties: memory grows from step to step, and the tape has one step's"]
