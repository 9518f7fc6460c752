"""Scripts that train several models, as both players of a GAN: which of them the first backward pass is of, and what of the others
is not in the tape."""

import gc
import os

from torch import nn

import companions
from sources import Refused

# The class of the model to trace, and that of one that is called before: from a first run of the script, which found them.
VARIABLE = "MEMWALL_TRACE_TRAINED"
CHOSEN, _, FIRST = os.environ.pop(VARIABLE, "").partition(" ")
CHOSEN = CHOSEN or None


class Again(Exception):
    """The script is to run again, from its start: another model than the first is what its first backward pass trains."""


def owner_of(module):
    """The outermost module that has this one as a part: where a function of its own calls the parts, as in Lightning's
    `training_step`, it is the model, and no call of it is seen."""
    holders = {}
    for one in gc.get_objects():
        if issubclass(type(one), nn.Module):
            for part in vars(one).get("_modules", {}).values():
                holders.setdefault(id(part), one)
    known = set()
    while id(module) in holders and id(module) not in known:
        known.add(id(module))
        module = holders[id(module)]
    return module


def is_chosen(module):
    """Whether a module may be the model to trace."""
    return CHOSEN is None or type(owner_of(module)).__name__ == CHOSEN


def leaves_of(loss):
    """What a loss asks gradients for."""
    known, todo, found = set(), [loss.grad_fn], []
    while todo:
        function = todo.pop()
        if function is None or function in known:
            continue
        known.add(function)
        if hasattr(function, "variable"):
            found.append(function.variable)
        todo.extend(following for following, _ in function.next_functions)
    return found


def name_of_owner(parameter):
    """The class of the outermost module that has a parameter."""
    for one in gc.get_objects():
        if issubclass(type(one), nn.Module) and any(own is parameter for own in vars(one).get("_parameters", {}).values()):
            return type(owner_of(one)).__name__
    return None


def trained_by(recorder, model, loss, runs_again=True):
    """Parameters that the loss trains: those that are none of the model's, as a GAN's other half, and the model's own, all of
    which may not be left out. Of a script that `runs_again` the model that is trained is found for its next run."""
    reached = {edge[1] for node in recorder.nodes.values() for edge in node.edges if edge is not None and edge[0] == "parameter"}
    own = {recorder.identify(one, kind="parameter") for one in model.parameters()}
    if not reached & own:
        first = type(model).__name__
        other = next(filter(None, map(name_of_owner, leaves_of(loss))), None) if runs_again and CHOSEN is None else None
        if other not in (None, first):
            raise Again(f"{other} {first}")
        raise Refused(f"several models: the first backward pass trains none of {first}, which is called first; trace each of them with "
                      "file.py:function")
    # What somebody asked a gradient for is no parameter: an operator's result (`enable_input_require_grads`), a batch (a penalty on
    # the gradient).
    others = sum(recorder.tensors[number].numel for number in reached - own - recorder.plain if recorder.tensors[number].maker is None)
    return others, sum(recorder.tensors[number].numel for number in reached & own)


def several(watch, model):
    """What of a script with several models is not in the tape."""
    name, elsewhere = type(model).__name__, "which are not in the tape: trace them with file.py:function"
    if watch.foreign:
        return [f"several models: the loss trains {watch.foreign:,} parameters outside {name}, {elsewhere}"]
    own = {id(one) for one in model.parameters()}
    others = {id(one): one.numel() for one in trained_in(watch) if id(one) not in own}
    notes = [f"not modelled: the script runs {FIRST} before {name} in its step: what that pass leaves there meanwhile"] if FIRST else []
    if others:
        notes.append(f"several models: the first backward pass is of {name} alone; optimizers train {sum(others.values()):,} further "
                     f"parameters, {elsewhere}")
    return notes


def trained_in(watch):
    """Parameters that the script's optimizers train."""
    return [companions.latest(one) for optimizer in watch.optimizers for group in optimizer.param_groups for one in group["params"]]


def unreached(watch, model):
    """What of the model the traced loss does not train."""
    asked = sum(one.numel() for one in model.parameters() if one.requires_grad)
    if watch.answers or watch.reached == asked:
        return []
    return [f"the first backward pass reaches {watch.reached:,} of the {asked:,} parameters of {type(model).__name__} that require "
            "gradients: the others have none in the tape"]
