"""Recomputation and whatever else a model does with what autograd saves is left out while a step is traced: the plan says what
is recomputed and what goes to the host, and the tape holds the model without it."""

import inspect
import sys

import torch
import torch.utils.checkpoint as checkpoint
from torch.autograd.graph import saved_tensors_hooks


def replace(original, made):
    """Puts `made` in the place of a function of PyTorch, also where it was imported by name."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None) or {}
        for name in [name for name, value in list(names.items()) if value is original]:
            names[name] = made


class Counts:
    """How often a model asked for it in the pass that is traced."""

    def __init__(self):
        self.active, self.checkpointed, self.hooked, self.compiled, self.own = False, 0, 0, 0, None
        # The most that any pass asked: in some of them blocks are passed over.
        self.most = (0, 0)

    def begin(self, own):
        """A traced pass begins, in which autograd's hooks `own` are the tracer's."""
        self.active, self.checkpointed, self.hooked, self.own = True, 0, 0, own

    def end(self):
        self.active, self.own = False, None
        self.most = max(self.most[0], self.checkpointed), max(self.most[1], self.hooked)

    def notes(self, who):
        notes, (checkpointed, hooked) = [], self.most
        if checkpointed:
            notes.append(f"the {who} checkpoints {checkpointed} calls, the tape none: training.activation_checkpointing says "
                         "what is recomputed")
        if hooked:
            notes.append(f"the {who} moves or packs what is saved for its backward pass {hooked} times, the tape leaves it "
                         "where it is: training.offload_modules says what goes to the host")
        if self.compiled:
            notes.append(f"the {who} compiles {self.compiled} functions, the tape has them as they are without: training.compile "
                         "says that chains are fused")
        return notes


COUNTS = Counts()


def without_reentrant(*_, **__):
    """Of the non-reentrant kind, also under other names (torch/utils/checkpoint.py): what surrounds the call does nothing."""
    COUNTS.checkpointed += COUNTS.active
    yield


class Function:
    """Of the reentrant kind: the function that is to be recomputed runs as any other."""

    @staticmethod
    def apply(function, _preserve, *args):
        COUNTS.checkpointed += COUNTS.active
        return function(*args)


def recomputed(function):
    """What runs in the place of a code's own `CheckpointFunction`: the function that it would recompute. OpenAI's counts the arguments
    that are no parameters (guided-diffusion, nn.py), DeepSpeed's fills a list (runtime/activation_checkpointing/checkpointing.py),
    Megatron-LM's is as PyTorch's."""
    if function in OWN:
        return OWN[function]
    named = list(inspect.signature(function.forward).parameters) if function.__name__.endswith("CheckpointFunction") else []
    counted = named[2:3] == ["length"]

    def plainly(run, about, *args):
        made = run(*(args[:about] if counted else args))
        if isinstance(about, list):
            about.extend(made if isinstance(made, (list, tuple)) else [made])
        return made

    return OWN.setdefault(function, plainly if named[1:2] == ["run_function"] else None)


# Autograd functions that were looked at.
OWN = {}


def applied(function, *args, **kwargs):
    run = recomputed(function) if COUNTS.active else None
    if run is None:
        return apply(function, *args, **kwargs)
    COUNTS.checkpointed += 1
    return run(*args, **kwargs)


apply = torch.autograd.Function.apply.__func__


def compiled(model=None, **_):
    COUNTS.compiled += 1
    return model if model is not None else (lambda one: compiled(one))


def install():
    if checkpoint.CheckpointFunction is Function:
        return
    for name in ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl"):
        # Newer versions of PyTorch go by the second.
        if hasattr(checkpoint, name):
            replace(getattr(checkpoint, name), without_reentrant)
    replace(checkpoint.CheckpointFunction, Function)
    torch.autograd.Function.apply = classmethod(applied)
    replace(torch.compile, compiled)
    torch.compile = compiled
    enter, leave = saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__

    def entered(hooks):
        if COUNTS.own is None or hooks is COUNTS.own:
            return enter(hooks)
        COUNTS.hooked += COUNTS.active
        return None

    def left(hooks, *error):
        return leave(hooks, *error) if COUNTS.own is None or hooks is COUNTS.own else None

    saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__ = entered, left
