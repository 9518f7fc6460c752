"""What segments and their parts are called, and the numbers in them."""

import collections

import torch

COPIES = {"clone", "cat", "stack", "index_select", "embedding", "copy_", "constant_pad_nd", "roll", "repeat", "gather"}
FLOATS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
SIZES = {1: ("u8", 1), 2: ("f16", 1), 4: ("f32", 1), 8: ("i64", 1), 16: ("i64", 2)}


def element_of(dtype):
    """The tape's name for a type, and how many such elements one of it takes."""
    return (FLOATS[dtype], 1) if dtype in FLOATS else SIZES[dtype.itemsize]


PARTS = (
    ("router", ("router", "gate.weight")),
    ("expert", ("experts",)),
    ("norm", ("norm", "ln_", "layer_norm", "ln1", "ln2")),
    ("head", ("lm_head", "embed_out", "classifier", "score", "proj_out", "qa_outputs", "cls.", "head.")),
    ("embedding", ("wte", "wpe", "embed", "shared.")),
    ("attention", ("attn", "attention")),
)


class Number:
    """A number that may depend on batch and length."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = int(value)


def within(name, paths):
    """The one of these paths in which a parameter lies."""
    path = name.rpartition(".")[0]
    while path and path not in paths:
        path = path.rpartition(".")[0]
    return path or None


def part_of(name, shape, module):
    kind = type(module).__name__.lower() if module is not None else ""
    if "embedding" in kind:
        return "embedding"
    if "norm" in kind:
        return "norm"
    if "conv" in kind and len(shape) > 2:
        return "convolution"
    lower = name.lower()
    return next((part for part, words in PARTS if any(word in lower for word in words)), "mlp")


def group_of(path, cls, last):
    lower = f"{path}.{cls}".lower()
    if "norm" in lower.rsplit(".", 2)[-1] or "norm" in lower.rsplit(".", 2)[-2]:
        return "norm"
    for word, group in (("expert", "experts"), ("moe", "experts"), ("attn", "attention"), ("attention", "attention"),
                        ("mlp", "mlp"), ("feed_forward", "mlp"), ("feedforward", "mlp"), ("ffn", "mlp"),
                        ("intermediate", "mlp"), ("densereludense", "mlp"), ("embed", "embedding"), ("conv", "convolution")):
        if word in lower:
            return group
    return "logits" if last else "residual"


def output_layer(model):
    """The path of the output matrix of a model of transformers, which peft's `all-linear` leaves out; none for other models
    (peft/tuners/tuners_utils.py, `_maybe_include_all_linear_layers`)."""
    if not any(one.__module__.startswith("transformers.") for one in type(model).__mro__):
        return ""
    try:
        found = model.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return ""
    return next((path for path, module in model.named_modules() if module is found), "")


def shared_layers(model):
    """Paths of layers that several modules have, or one by several names: peft puts an adapter in the first place alone
    (peft/tuners/tuners_utils.py, `inject_adapter`, which goes over `named_modules`)."""
    places = collections.Counter(id(child) for module in model.modules() for child in module._modules.values())
    return [path for path, module in model.named_modules() if module._parameters and places[id(module)] > 1]


def reason(error):
    """An error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no reason given'}"
