"""What a script has on the GPU beside the model that is traced: averages of its weights, teachers, data that was put there whole."""

import gc

import torch
from torch import nn

import lasting

# Optimizers that plans have names for.
KNOWN = ("torch.optim.", "transformers.", "bitsandbytes.", "lion_pytorch.")
# Whose optimizers hold another one and nothing beside.
WRAPPERS = ("accelerate.", "lightning.", "lightning_fabric.", "pytorch_lightning.")
# PyTorch's own that plans have a name for.
NAMED = ("Adam", "AdamW", "SGD", "Adafactor", "Muon")
# Bytes from which on it is worth a word.
LEAST = 1 << 20


def bytes_of(tensors, device, known):
    """Bytes of memory on the device that nobody has counted before."""
    total = 0
    for one in tensors:
        try:
            if one.device.type != device or one.layout is not torch.strided:
                continue
            storage = one.untyped_storage()
            size = storage.nbytes()
        except Exception:
            # A lazy module's parameter has no size yet, and other subclasses no storage.
            continue
        if storage._cdata not in known:
            known.add(storage._cdata)
            total += size
    return total


def outermost(modules):
    """Modules that are no parts of others."""
    parts = {id(part) for one in modules for part in vars(one).get("_modules", {}).values()}
    return [one for one in modules if id(one) not in parts]


def tensors_of(module):
    return [*module.parameters(), *module.buffers()]


def latest(parameter):
    """What a parameter became when its module was moved."""
    while hasattr(parameter, "_memwall_moved"):
        parameter = parameter._memwall_moved
    return parameter


class Companions:
    """Found when the first pass of the model begins: modules with their parameters and bytes, and bytes of other tensors."""

    def __init__(self, model, device, batch):
        self.modules, self.rest = [], 0
        if device == "cpu":
            # Where that stands for a GPU, what a script has on its host looks the same.
            return
        there = gc.get_objects()
        known = set()
        bytes_of([*tensors_of(model), *lasting.named_by(model), *batch.values()], device, known)
        own = set(map(id, model.modules()))
        found = [one for one in there if issubclass(type(one), nn.Module) and id(one) not in own and "_parameters" in vars(one)]
        for one in outermost(found):
            size = bytes_of(tensors_of(one), device, known)
            if size >= LEAST:
                self.modules.append((one, size))
        self.rest = bytes_of((one for one in there if issubclass(type(one), torch.Tensor)), device, known)

    def notes(self, model, trained):
        """What a tape lacks; those of which parameters are `trained`, by their ids, are said elsewhere."""
        notes, name = [], type(model).__name__
        others = [(one, size) for one, size in self.modules if not any(id(parameter) in trained for parameter in one.parameters())]
        if others:
            named = ", ".join(f"{type(one).__name__} ({sum(p.numel() for p in one.parameters()):,} parameters, {size / 2**20:,.1f} MiB)"
                              for one, size in others[:3])
            notes.append(f"not modelled: beside {name} the script has {named} on the GPU: training.frozen_models_billions counts the "
                         "weights of such models, and nothing what their passes take")
        if self.rest >= LEAST:
            notes.append(f"not modelled: the script has {self.rest / 2**20:,.1f} MiB of tensors beside {name} and what it reads on the "
                         "GPU, as targets, a data set or averages of weights")
        return notes


def is_known(kind):
    module = f"{kind.__module__}."
    return module.startswith(WRAPPERS) or module.startswith(KNOWN) and (kind.__name__ in NAMED or not module.startswith("torch.optim."))


def instances_of(base):
    """Objects of a class and of those made from it, without a reference to any other object of the process."""
    found, classes = [], [base]
    while classes:
        one = classes.pop()
        classes.extend(one.__subclasses__())
        found.extend(made for made in gc.get_referrers(one) if type(made) is one)
    return found


def of_own(optimizers):
    """What is said of optimizers that no plan has a name for: a trace ends before they step. Some that hold another one never begin
    as PyTorch's do (torch_optimizer/lookahead.py)."""
    kinds = map(type, [*optimizers, *instances_of(torch.optim.Optimizer)])
    names = sorted({kind.__name__ for kind in kinds if not is_known(kind)})
    if not names:
        return []
    return [f"not modelled: {' and '.join(names[:3])}, which no plan has a name for by its class: states and temporaries are those of "
            "training.optimizer"]
