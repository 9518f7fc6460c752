"""What a model of transformers or diffusers recomputes where it is asked to: those are the blocks of its tape, whichever of its parts
stand in rows (transformers/modeling_utils.py, `gradient_checkpointing_enable`; diffusers/models/modeling_utils.py,
`enable_gradient_checkpointing`)."""

import functools

import torch.utils.checkpoint as checkpoint

import modules
from places import tensors_in

# What the libraries' classes say of themselves.
SUPPORTS = ("supports_gradient_checkpointing", "_supports_gradient_checkpointing")


def layers_of(model):
    """Modules that say of themselves that they are recomputed."""
    return {one for one in model.modules() if any(base.__name__ == "GradientCheckpointingLayer" for base in type(one).__mro__)}


def owner_of(function):
    """The module whose call is recomputed."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__self__", function)


def blocks_of(model, blocks, run, notes):
    """The modules that a step recomputes, by path; those that stand in rows, where it says nothing else. `run` runs its forward
    pass; `notes` hears of a model that says it recomputes, and asks for nothing."""
    supports = any(getattr(model, name, False) is True for name in SUPPORTS)
    if not supports or layers_of(model) == set(blocks.values()):
        return blocks
    asked, paths, last = [], {module: path for path, module in model.named_modules()}, [None, None]

    def noted(function, *args, **kwargs):
        owner = owner_of(function)
        asked.append(owner)
        # Who is asked, and not what comes out: an equal one behind another gives as much.
        key = owner in paths and (modules.signature(owner), *[(one.shape, one.dtype) for one in tensors_in(args, kwargs)])
        if not key or key != last[0]:
            last[:] = key, function(*args, **kwargs)
        return last[1]

    enabled = any(getattr(one, "gradient_checkpointing", False) for one in model.modules())
    try:
        model._set_gradient_checkpointing(enable=True, gradient_checkpointing_func=noted)
    except Exception:
        # Older versions have another way, and some models none.
        return blocks
    try:
        run()
    finally:
        model._set_gradient_checkpointing(enable=enabled, gradient_checkpointing_func=checkpoint.checkpoint)
    if not asked and blocks:
        notes.append(f"{type(model).__name__} takes gradient_checkpointing_enable() and recomputes nothing: "
                     "training.activation_checkpointing stands for code that wraps its blocks")
    if not asked or any(one not in paths for one in asked):
        return blocks
    return {paths[one]: one for one in asked}
