"""What outlives the backward function that reads it: what modules and hooks have names for beyond the step, and tensors that a custom
function keeps as attributes of its context, which live as long as the graph (torch/csrc/autograd/python_function.cpp,
`THPFunction`; `save_for_backward` lets go earlier)."""

import functools
import gc

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
