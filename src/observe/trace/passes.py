"""Passes of a model before the one that its loss comes of: code that prints a shape or a summary calls the model, too."""

import contextlib
import weakref

import torch

from places import tensors_in
from sources import Refused


class Mark:
    """What lives as long as the function of a graph that has it."""


class Passes:
    """Calls of models from outside of any, and whether what they gave may still come into a loss."""

    def __init__(self):
        self.made, self.left_out, self.failure = [], None, None
        self.has_failed = False
        # Calls without gradients from outside of any, by the module's class, and whether one runs.
        self.without, self.is_within = {}, False

    @contextlib.contextmanager
    def without_gradients(self, module):
        """A call without gradients, before the step."""
        within, self.is_within = self.is_within, True
        if not within and any(True for _ in module.parameters()):
            name = type(module).__name__
            self.without[name] = self.without.get(name, 0) + 1
        try:
            yield
        finally:
            self.is_within = within

    def add(self, module, shapes, out):
        """A call has ended."""
        tensors = tensors_in(out if isinstance(out, (list, tuple, dict, torch.Tensor)) else vars(out) if hasattr(out, "__dict__") else [])
        functions = [one.grad_fn for one in tensors if one.grad_fn is not None]
        marks = []
        for function in functions:
            mark = function.metadata.setdefault("memwall", Mark())
            marks.append(weakref.ref(mark))
        if functions:
            self.made.append((module, shapes, {function._sequence_nr() for function in functions}, marks))

    def fail(self, error):
        """A call has ended in an error, which the script may catch."""
        text = str(error).strip().splitlines()
        self.has_failed, self.failure = True, f"{type(error).__name__}: {text[0] if text else 'no reason given'}"

    def are_over(self):
        """Whether no loss can come of any of them: one failed, or their graphs are gone."""
        return self.has_failed or bool(self.made) and all(mark() is None for *_, marks in self.made for mark in marks)

    def leave_out(self):
        if self.made:
            self.left_out = type(self.made[0][0]).__name__
        self.made, self.has_failed = [], False

    def check(self, reached):
        """Refuses a first pass of other sizes whose result is kept and comes into no loss; `reached` are its functions."""
        first = next((one for one in self.made if one[2] & reached), None)
        if first is None:
            return
        for module, shapes, _, _ in self.made[:self.made.index(first)]:
            if module is first[0] and shapes != first[1]:
                raise Refused(f"{type(module).__name__} is called with other sizes before its first step, and what it gives is kept: "
                              "leave that call out, or put it under torch.no_grad()")

    def notes(self):
        notes = [f"a pass of {self.left_out} of which no loss comes is left out"] if self.left_out else []
        if self.failure:
            notes.append(f"the script caught an error of a pass, which is left out: {self.failure}")
        if self.without:
            named = " and ".join(f"{count:,} pass{'es' if count > 1 else ''} of {name}" for name, count in list(self.without.items())[:3])
            notes.append(f"not modelled: before its step the script ran {named} without gradients, as for targets or an evaluation: what "
                         "such passes of each step take is not in the tape")
        return notes
