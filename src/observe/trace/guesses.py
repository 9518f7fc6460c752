"""Values that nobody knows and that are asked for before a model is built: they may be its sizes."""

import math
import os

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from sources import Refused

ADVICE = "give it as a number, or trace with file.py:function"


class Number(float):
    """A number that nobody knows. Made an integer, it may be a size."""

    guesses = None

    def whole(self, how, *rest):
        self.guesses.add("a whole number made of item of a float", True)
        return how(float(self), *rest)


def keeps(name):
    method = getattr(float, name)

    def combined(self, *others):
        made = method(self, *others)
        return self.guesses.number(made) if isinstance(made, float) else made

    return combined


for name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__neg__", "__abs__"):
    setattr(Number, name, keeps(name))
for name, how in (("__int__", int), ("__trunc__", int), ("__round__", round), ("__ceil__", math.ceil), ("__floor__", math.floor)):
    setattr(Number, name, lambda self, *rest, how=how: self.whole(how, *rest))


ITEM = torch.Tensor.item


def item(tensor):
    """`Tensor.item`, whose number PyTorch makes a plain one."""
    made, now = ITEM(tensor), Guesses.current
    if now is None or not now.asked:
        return made
    now.asked = False
    return now.number(made)


class Guesses:
    """What was guessed, and what was built after it."""

    # Those of the code that runs now.
    current = None

    def __init__(self, place):
        # Where code asks now.
        self.place = place
        self.made, self.before = [], WeakIdKeyDictionary()
        self.handle = nn.modules.module.register_module_parameter_registration_hook(self.registered)
        # A number was asked for and guessed.
        self.asked, Guesses.current = False, self
        self.kind = type("Number", (Number,), {"guesses": self})

    def registered(self, module, name, parameter):
        self.before[module] = len(self.made)

    def number(self, value):
        return self.kind(value)

    def end(self):
        Guesses.current = None
        self.handle.remove()

    def add(self, what, is_size):
        frame = self.place()
        where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else "a library"
        if (where, what, is_size) not in self.made:
            self.made.append((where, what, is_size))

    def notes(self, model):
        """What was guessed before the model was built, in words; a size is refused."""
        self.end()
        guesses = self.made[:max((self.before.get(part, 0) for part in model.modules()), default=0)]
        for where, what, is_size in guesses:
            if is_size:
                raise Refused(f"{where} asks for a value that nobody knows ({what}), and {type(model).__name__} is built after it: "
                              f"{ADVICE}")
        return [f"{where} asks for a value that nobody knows ({what}) before {type(model).__name__} is built: taken as 1; if it "
                f"shapes the model, {ADVICE}" for where, what, _ in guesses[:3]]


def is_size(what, tensor):
    return what != "equal" and not (what == "item" and (tensor.is_floating_point() or tensor.dtype == torch.bool))
