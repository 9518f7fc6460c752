"""What is traced: a model, its inputs by batch and length, and what the loss is."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

DTYPES = {"int64": torch.int64, "int32": torch.int32, "float32": torch.float32, "float": torch.float32,
          "bool": torch.bool, "bfloat16": torch.bfloat16, "float16": torch.float16, "uint8": torch.uint8}


ONLY_FOR_LOSSES = ("labels", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions", "_labels",
                   "_channels")


# What inputs of images and sound are called.
SENSES = ("pixel_values", "input_features", "input_values", "flattened", "audio")


class Refused(Exception):
    """What cannot be traced, in one line."""

    # What a traced script does with it: no `except` of its own is to catch it.
    ends = None

    def __init__(self, *args):
        super().__init__(*args)
        if Refused.ends is not None:
            Refused.ends(self)


class Input:
    """An input: name, type and sides, each a number or an axis (`B`, `S`, `T`, `I`), or `2*S` and the like."""

    def __init__(self, name, dtype, sides):
        self.name, self.dtype, self.sides = name, dtype, [str(side) for side in sides]

    def shape(self, sizes):
        return tuple(self.side(side, sizes) for side in self.sides)

    @staticmethod
    def side(side, sizes):
        product = 1
        for factor in side.split("*"):
            factor = factor.strip()
            if factor.isdigit():
                product *= int(factor)
            elif factor in sizes:
                product *= sizes[factor]
            else:
                raise Refused(f"--input: `{side}` is neither a number nor one of B, S, T and I")
        return product

    def axes(self):
        return {factor.strip() for side in self.sides for factor in side.split("*") if not factor.strip().isdigit()}

    def make(self, sizes, device, lower):
        dtype = lower if self.dtype.is_floating_point and lower is not None else self.dtype
        return torch.zeros(self.shape(sizes), dtype=dtype, device=device)


class Subject:
    """A model to trace."""

    def __init__(self, name, source, build, inputs, loss=None, extra=None, longest=None, side=None):
        self.name, self.source, self.build, self.inputs = name, source, build, inputs
        self.loss_of, self.extra = loss, extra or {}
        # Most tokens; pixels a side, and whether other sizes may do.
        self.longest, self.side = longest, side
        # Lengths to trace at, the last one to check; the tracer's own where none are named.
        self.lengths = None
        # Whether images of other sizes may do.
        self.varies = True
        self.notes, self.versions = [], {}
        # A function of the user's own builds it, which may ask for values.
        self.is_own = False
        # The forward pass alone, without gradients, is traced.
        self.answers = False
        # Lengths that do not vary, by axis.
        self.held = {}
        # Why no step of it can be traced, however it is run.
        self.cannot = None
        # Further ways to run it, should one fail (hf_inputs.py), and what to say of one that reads words alone.
        self.ways, self.blind, self.why = [], None, None

    def otherwise(self, error=None):
        """Takes the next way to run it; whether there is one."""
        self.why = self.why or error
        if not self.ways:
            return False
        way, *self.ways = self.ways
        self.inputs, self.extra, self.lengths = way.inputs, way.extra, way.lengths or self.lengths
        sees = any(one.name.startswith(SENSES) for one in self.inputs)
        self.notes = [note for note in (way.note, None if sees else self.blind) if note]
        if any(one.name == "input_values" for one in self.inputs):
            # Samples of sound: convolutions leave one position of 320.
            self.lengths = [16000, 32000, 64000, 48000]
        if self.answers:
            self.answer()
        return True

    def hold_at(self, length):
        """Traces at a length that was asked for."""
        lengths = [axis for axis in self.axes() if axis in "ST"]
        if not lengths:
            raise Refused("--length: the model reads nothing that has a length")
        self.held, self.longest = {**self.held, **dict.fromkeys(lengths, length)}, length

    def hold_batch(self, batch):
        """Traces with a batch that was asked for."""
        if "B" not in self.axes():
            raise Refused("--batch: no input has a side B")
        self.held["B"] = batch

    def hold(self, lengths):
        """Traces at these lengths alone."""
        self.held, self.longest = {**self.held, **lengths}, lengths.get("S", self.longest)
        self.notes.append(f"what runs depends on the length: traced with {' and '.join(map(str, lengths.values()))} tokens alone; "
                          "--length names another")

    def axes(self):
        used = set().union(*(one.axes() for one in self.inputs)) if self.inputs else set()
        unknown = used - set("BSTI")
        if unknown:
            raise Refused(f"--input: `{sorted(unknown)[0]}` is no axis: B is the batch, S and T are lengths, I is an image's side")
        return [axis for axis in "BSTI" if axis in used and axis not in self.held]

    def batch(self, sizes, device, lower):
        return {one.name: one.make(sizes, device, lower) for one in self.inputs}

    def run(self, model, batch):
        positional = [value for name, value in batch.items() if name.isdigit()]
        named = {name: value for name, value in batch.items() if not name.isdigit() and not name.startswith("_")}
        output = model(*positional, **named, **self.extra)
        if self.answers:
            return output
        return self.loss_of(output, batch) if self.loss_of else default_loss(output)

    def answer(self):
        """Makes it a forward pass: nothing is compared with labels."""
        self.answers = True
        self.inputs = [one for one in self.inputs if one.name not in ONLY_FOR_LOSSES]
        return self


def default_loss(output):
    """The loss that the output has; else the mean of its first tensor, which takes next to nothing."""
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    if isinstance(loss, torch.Tensor):
        return loss if loss.dim() == 0 else loss.mean()
    first = first_tensor(output)
    if first is None:
        raise Refused(f"the model returns {type(output).__name__}, in which no tensor has a gradient; name the loss: --loss output.…")
    return first if first.dim() == 0 else first.float().mean()


def first_tensor(output):
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return next((found for found in map(first_tensor, values) if found is not None), None)


def cross_entropy(output, batch):
    logits = first_tensor(getattr(output, "logits", output))
    if logits.dim() != 2:
        # An encoder without classes.
        return default_loss(output)
    return F.cross_entropy(logits, batch["_labels"])


# The user's own

def own(target, input_texts, loss_text):
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise Refused(f"`{target}`: write file.py:make_model, where make_model returns the model")
    path = Path(file)
    if not path.is_file():
        raise Refused(f"{file}: there is no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    maker = getattr(loaded, name, None)
    if not callable(maker):
        raise Refused(f"{file} has no function or class `{name}`")
    if not input_texts:
        raise Refused("--input is needed: what the model reads, such as --input 'input_ids=int64[B,S]'")
    inputs = [parse_input(text, at) for at, text in enumerate(input_texts)]
    loss = None
    if loss_text:
        code = compile(loss_text, "--loss", "eval")

        def loss(output, batch):
            made = eval(code, {"torch": torch, "F": F, "output": output, **vars(loaded),
                               **{key.lstrip("_"): value for key, value in batch.items()}})
            if not isinstance(made, torch.Tensor) or made.dim():
                raise Refused(f"--loss {loss_text}: gives {describe(made)}, not one number")
            return made

    def build():
        made = maker()
        if not isinstance(made, torch.nn.Module):
            raise Refused(f"{target} returns {type(made).__name__}, not a torch.nn.Module")
        return made

    subject = Subject(name, file, build, inputs, loss=loss)
    subject.is_own = True
    return subject


def describe(value):
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def parse_input(text, at=0):
    found = re.fullmatch(r"(?:([A-Za-z_]\w*)\s*=\s*)?([a-z]+\d*)\s*\[([^\]]*)\]", text.strip())
    if not found or found[2] not in DTYPES:
        raise Refused(f"--input `{text}`: write name=type[sides], such as input_ids=int64[B,S] or pixels=float32[B,3,224,224]")
    sides = [side.strip() for side in found[3].split(",") if side.strip()]
    return Input(found[1] or str(at), DTYPES[found[2]], sides)


def module(name, option):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Refused(f"{option} needs {name} in the Python that traces ({sys.executable}): {error}") from None
