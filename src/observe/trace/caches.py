"""What a model keeps for later steps beside its buffers: masks and positions that the first forward pass makes."""

import functools
import gc

import torch

# What PyTorch keeps of a module.
OWN = ("_parameters", "_buffers", "_modules")


def is_kept(value):
    """Whether an attribute may hold tensors of a step."""
    return value is None or isinstance(value, (torch.Tensor, dict, list, tuple))


def copied(value):
    """The value as it is now: containers may be filled later."""
    return type(value)(value) if type(value) in (dict, list) else value


class Attributes:
    """The attributes of a model before its first step. What a step in fp32 keeps would meet the weights of a later one in 16
    bits, where a run would have made it in their type."""

    def __init__(self, model):
        self.before = [(module, {name: copied(value) for name, value in vars(module).items() if is_kept(value)},
                        dict(module._buffers)) for module in model.modules()]

    def restore(self):
        """Puts them back; the modules of which any had changed."""
        changed = set()
        for module, attributes, buffers in self.before:
            for name, value in list(vars(module).items()):
                if name not in OWN and holds_tensors(value) and put_back(vars(module), name, attributes):
                    changed.add(module)
            for name in list(module._buffers):
                if buffers.get(name) is None and put_back(module._buffers, name, buffers):
                    changed.add(module)
        return changed


def forget_results(model):
    """Empties what functions of the model's own code keep of their results by their arguments (`functools.lru_cache`): tables made
    under autocast have other types than those of a step without. Whether there was anything."""
    own = {type(module).__module__ for module in model.modules()}
    # What is frozen is in no list.
    gc.unfreeze()
    kept = [one for one in gc.get_objects() if type(one) is functools._lru_cache_wrapper
            and getattr(one, "__module__", None) in own and one.cache_info().currsize]
    for one in kept:
        one.cache_clear()
    return bool(kept)


def put_back(values, name, before):
    value = values[name]
    if name not in before:
        del values[name]
        return True
    values[name] = copied(before[name])
    return not is_same(value, before[name])


def is_same(one, other):
    """Whether two values are one object, or containers of the same objects."""
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one is other


def holds_tensors(value):
    if isinstance(value, dict):
        return any(map(holds_tensors, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(holds_tensors, value))
    return isinstance(value, torch.Tensor)
