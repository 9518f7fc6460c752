"""Tensors without values: which operators run for real on the host, and what stands for values that nobody has."""

import contextlib
import math
import os
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import boxes
import counts
import guesses
import held
import mismatches
import offsets
import packing
import parameters
from checkpoints import replace
from places import places_of, rows_written, tensors_in
from sources import Refused
from truths import known, truth_of

aten = torch.ops.aten
DEVICE = torch.ops.prim.device.default
# Positions in data, which code reads numbers from: which samples, in which order.
DRAWS = {aten.randperm, aten.randint}
# Small tables that code reads numbers from while a model is built; most elements that are made for real.
TABLES = {aten.linspace.default, aten.arange.default, aten.arange.start, aten.arange.start_step, aten.scalar_tensor.default}
MOST = 1 << 16
MOST_WRITTEN = 16
NUMBERS = (torch.int64, torch.int32, torch.float32, torch.float64)
# Most values that one line asks for in one call of a module: a loop that ends by values has no end without them.
MOST_ASKED = 5000
HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = os.path.dirname(os.path.abspath(torch.__file__))

# They give their first argument back.
FILLS = {aten.normal_.default, aten.uniform_.default, aten.fill_.Scalar, aten.zero_.default, aten.mul_.Scalar, aten.add_.Scalar,
         aten.div_.Scalar, aten.clamp_.default, aten.erfinv_.default}
ALL = {aten.all, aten._is_all_true}
ALIKE = {aten.equal.default, aten.allclose.default}
DECIDED = {aten._local_scalar_dense.default, aten.nonzero.default}
MASKED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index.Tensor}


def is_mask(index):
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def asked_device(func, args):
    """The answer to what autograd asks of each gradient (torch/_subclasses/fake_tensor.py, `FakeTensor.__torch_dispatch__`);
    none to all else."""
    if func is not DEVICE or type(args[0]) is not FakeTensor or args[0].fake_mode.in_kernel_invocation:
        return None
    return args[0].fake_device


def device_of(tensor):
    """A tensor's device; to ask a fake one runs an operator."""
    return tensor.fake_device if type(tensor) is FakeTensor else tensor.device


def is_real(tensor):
    return not isinstance(tensor, FakeTensor) and tensor.device.type == "cpu"


def written_of(func, args):
    """The few numbers that code writes down and copies to the device."""
    if func is not aten._to_copy.default or not is_real(args[0]) or args[0].dtype not in NUMBERS:
        return None
    if not 0 < args[0].numel() <= MOST_WRITTEN:
        return None
    with unset_fake_temporarily():
        return args[0].flatten().tolist()


class Values(TorchDispatchMode):
    """What is small, on the host and real stays real; questions for a fake tensor's values get answers that make all
    data alike: masks hide nothing, experts are chosen evenly, numbers are finite."""

    def __init__(self, fake_mode, builds=False, shortcut=None):
        super().__init__()
        self.fake_mode = fake_mode
        # A model is built, and nothing else.
        self.builds, self.shortcut = builds, shortcut
        self.made_by_all = False
        self.turn = -1
        self.experts = 1
        # What was answered, for the report: how often, of which operators.
        self.answered, self.asked = {}, {}
        self.holds, self.guesses = False, None

    # Whether any number was made up, in the trace that runs.
    made_up = False

    def keep(self):
        """Code of the user's: small values are kept on the device, and what is guessed before a model is built is noted."""
        self.holds, self.guesses = True, guesses.Guesses(self.place)
        return self.guesses

    def run(self, func, args, kwargs):
        """Runs an operator, for real where nothing fake is in it."""
        leaves = tensors_in(args, kwargs)
        if leaves and all(is_real(leaf) for leaf in leaves) and self.stays_on_host(func, kwargs):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if not leaves and func._overloadpacket in DRAWS and self.stays_on_host(func, kwargs):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if not leaves and func in TABLES and self.stays_on_host(func, kwargs) and self.is_small(func, args):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        made = held.ahead(func, args, kwargs, leaves) if self.holds else None
        if made is None:
            made = self.fake(func, args, kwargs, leaves)
            if self.holds:
                held.follow(func, args, kwargs, leaves, made)
        return made

    def fake(self, func, args, kwargs, leaves):
        written = written_of(func, args)
        if leaves and not self.stays_on_host(func, kwargs):
            # What a host tensor's values are is not known on the device.
            args, kwargs = convert((args, kwargs), self.fake_mode)
            for leaf in tensors_in(args, kwargs):
                if getattr(leaf, "constant", None) is not None:
                    leaf.constant = None
        mismatches.check(func, args)
        if func in DECIDED or func in counts.BY_VALUES:
            return self.decided(func, args)
        if func in counts.WITHOUT_RULE:
            return counts.WITHOUT_RULE[func](*args)
        kept = boxes.suppressed(func, args)
        if kept is not None:
            return kept
        if func in MASKED and any(is_mask(index) for index in args[1]):
            args = (args[0], self.positions(args[0], args[1], rows_written(args)), *args[2:])
        if func in ALIKE:
            self.note(func._overloadpacket.__name__, args[0])
            return True
        if self.builds and func in FILLS and leaves:
            # Values of parameters are nobody's business.
            return args[0]
        out = func(*args, **kwargs) if self.shortcut is None else self.shortcut.run(func, args, kwargs)
        counts.note(func, args, out)
        offsets.note(func, args, out)
        if func is aten.uniform_.default and device_of(out).type == "cpu" and out.numel() == 1:
            # Between bounds of the code's own, as an augmentation's strength.
            with unset_fake_temporarily():
                out.constant = torch.full(out.shape, sum(args[1:3] or (0, 1)) / 2, dtype=out.dtype)
        if written is not None and isinstance(out, FakeTensor):
            out._memwall_counts = counts.of_values(written)
        if isinstance(out, torch.Tensor) and (out.dtype == torch.bool or func._overloadpacket in ALL):
            self.made_by_all = func._overloadpacket in ALL
            truth = counts.truth_of(func, args)
            truth = truth_of(func, args) if truth is None else truth
            if truth is not None and isinstance(out, FakeTensor):
                out._memwall_truth = truth
        return out

    def decided(self, func, args):
        """What values decide: a number, places, or how many there are of something."""
        if func not in DECIDED:
            self.note(func._overloadpacket.__name__.strip("_"), args[0])
            out = counts.BY_VALUES[func](*args, experts=self.experts)
            counts.note(func, args, out)
            return out
        constant = getattr(args[0], "constant", None)
        if func is aten._local_scalar_dense.default and constant is not None:
            with unset_fake_temporarily():
                return constant.item()
        return self.answer(func, args[0])

    @staticmethod
    def stays_on_host(func, kwargs):
        device = kwargs.get("device")
        return device is None or torch.device(device).type == "cpu"

    @staticmethod
    def is_small(func, args):
        numbers = [arg for arg in args if isinstance(arg, (int, float))]
        return not numbers or all(math.isfinite(number) and abs(number) <= MOST for number in numbers)

    def positions(self, tensor, indices, rows=None):
        """Positions in the place of masks: all of them."""
        found = []
        for index in indices:
            # Behind a number that was made up sizes are as well.
            if is_mask(index) and not Values.made_up:
                mismatches.check_mask(tensor, index, len(found))
            places = held.ahead(aten.nonzero.default, (index,), {}, [index]) if self.holds and is_mask(index) else None
            if places is not None:
                found.extend(places.unbind(1))
            elif is_mask(index):
                self.note("mask", index)
                count = rows or counts.set_in(index) or places_of(index)
                found.extend(index.new_empty((count,), dtype=torch.int64) for _ in range(index.dim()))
            else:
                found.append(index)
        return found

    def note(self, what, tensor):
        Values.made_up = True
        name = f"{what} of {str(tensor.dtype).removeprefix('torch.')}, {tensor.dim()} dimensions"
        self.answered[name] = self.answered.get(name, 0) + 1
        if self.guesses is not None:
            self.guesses.add(name, guesses.is_size(what, tensor))

    @staticmethod
    def place():
        """The frame that asks: neither the tracer's nor PyTorch's."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith((HERE, TORCH)):
            frame = frame.f_back
        return frame

    def count_asked(self):
        """Refuses the line that asks without end."""
        if (frame := self.place()) is None:
            return
        stack = getattr(self, "stack", None)
        line = frame.f_code.co_filename, frame.f_lineno, stack[-1][0] if stack else ""
        self.asked[line] = self.asked.get(line, 0) + 1
        if self.asked[line] > MOST_ASKED:
            raise Refused(f"{os.path.basename(line[0])}:{line[1]} asks for values {MOST_ASKED} times: a loop that ends by them has no "
                          "end in a traced step; trace a part of the model without it, with file.py:function")

    def rows_of(self, mask):
        """How many elements of a mask hold."""
        known_of, picked = counts.set_in(mask), boxes.rows_of(mask)
        if known_of is not None:
            return known_of
        if picked is not None:
            return picked
        # The experts that have tokens, then the tokens of each.
        return self.experts if mask.dim() == 1 else mask.numel() // self.experts

    def answer(self, func, tensor):
        self.count_asked()
        self.note("nonzero" if func is aten.nonzero.default else "item", tensor)
        if func is aten.nonzero.default:
            return tensor.new_empty((self.rows_of(tensor), tensor.dim()), dtype=torch.int64)
        number = counts.number_of(tensor)
        if number is not None:
            return number
        if tensor.dtype == torch.bool or tensor.dtype == torch.uint8 and self.made_by_all:
            return self.made_by_all if known(tensor) is None else known(tensor)
        if tensor.is_floating_point():
            if self.guesses is not None:
                self.guesses.asked = True
            return 1.0
        number = offsets.number_of(tensor, lambda start: self.answer(func, start))
        if number is not None:
            return number
        self.turn += 1
        return offsets.say(tensor, self.turn % self.experts)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})


def inference(mode=True):
    """`torch.inference_mode` as no gradients: operators that are made of others come to a mode whole in it, without sizes of
    the work they do and without the questions for values that are in them."""
    if callable(mode):
        return torch.no_grad()(mode)
    return torch.no_grad() if mode else contextlib.nullcontext()


class Mode(FakeTensorMode):
    """Fake tensors, also of `torch.tensor(…, device="cuda")` without a driver: its values are made on the host and moved
    where modes see it (FakeTensorMode.__enter__)."""

    @property
    def avoid_device_init(self):
        return True

    @avoid_device_init.setter
    def avoid_device_init(self, _):
        pass


def install(fake_mode):
    """Makes `Module.to` and its like, copies and prints of numbers work on fake tensors."""
    torch.nn.Module._apply = parameters.move
    replace(torch.inference_mode, inference)
    torch.Tensor.__deepcopy__ = copied
    held.follow_data(fake_mode)
    packing.install()
    make = FakeTensor.__new__

    def made(cls, *args, **kwargs):
        # `type(parameter)(tensor, requires_grad=…)`: a fake parameter's type is FakeTensor.
        if args and isinstance(args[0], torch.Tensor):
            return torch.nn.Parameter(args[0], requires_grad=bool(kwargs.get("requires_grad", args[0].is_floating_point())))
        return make(cls, *args, **kwargs)

    FakeTensor.__new__ = staticmethod(made)
    torch.Tensor.split = even_split
    torch.tensor, torch.as_tensor = with_plain(torch.tensor), with_plain(torch.as_tensor)
    FakeTensor.item, FakeTensor.__int__ = guesses.item, lambda tensor: int(tensor.item())
    listed = FakeTensor.tolist
    FakeTensor.tolist = lambda tensor: listed(tensor) if held.value_of(tensor) is None else held.numbers_of(tensor)
    for name in ("__getitem__", "__setitem__"):
        setattr(FakeTensor, name, with_joined(getattr(torch.Tensor, name)))
    for name in ("view", "reshape"):
        setattr(torch.Tensor, name, with_numbers(getattr(torch.Tensor, name)))
    FakeTensor.__format__ = lambda one, how: format(one.item(), how) if how and not one.dim() else object.__format__(one, how)


SPLIT = torch.Tensor.split


def even_split(self, split_size, dim=0):
    """`Tensor.split` by counts that were read from a fake tensor (the tokens of each expert): they are no counts of this
    tensor, so each part gets its even share. Sizes that code writes down are its own fault. Arguments are called as PyTorch
    calls them (torch/_tensor.py)."""
    tensor, sizes = self, split_size
    if not isinstance(sizes, (list, tuple)) or not isinstance(tensor, FakeTensor):
        return SPLIT(tensor, sizes, dim)
    sizes = [int(size) for size in sizes]
    if sum(sizes) != tensor.size(dim) and Values.made_up:
        share, more = divmod(tensor.size(dim), len(sizes))
        sizes = [share + (part < more) for part in range(len(sizes))]
    return SPLIT(tensor, sizes, dim)


def plain(data):
    """A list in which each tensor is the number that it holds."""
    if isinstance(data, (list, tuple)):
        return [plain(one) for one in data]
    return data.item() if isinstance(data, FakeTensor) and data.numel() == 1 else data


def with_plain(maker):
    """What makes a tensor of a list: PyTorch reads the memory of the tensors in it (torch/csrc/utils/tensor_new.cpp)."""
    def made(data, *args, **kwargs):
        return maker(plain(data) if isinstance(data, (list, tuple)) else data, *args, **kwargs)

    return made


def joined(index):
    """A list of tensors that are numbers, as one tensor."""
    if isinstance(index, (list, tuple)) and index and all(type(one) is FakeTensor and not one.dim() for one in index):
        return torch.stack(list(index))
    return index


def with_joined(method):
    """A method that takes places, for which PyTorch reads the numbers in a list (torch/csrc/autograd/python_variable_indexing.cpp,
    `sequenceToVariable`)."""
    def indexed(tensor, index, *value):
        return method(tensor, tuple(map(joined, index)) if isinstance(index, tuple) else joined(index), *value)

    return indexed


def with_numbers(method):
    """A method of tensors whose sides may be tensors: the argument parser reads fake ones as 0
    (torch/csrc/utils/python_arg_parser.h, `intlist`)."""
    def shaped(tensor, *sides, **kwargs):
        for side in sides:
            if type(side) is FakeTensor:
                return method(tensor, *[int(side) for side in sides], **kwargs)
        return method(tensor, *sides, **kwargs)

    return shaped


def copied(tensor, memo):
    """`copy.deepcopy` of a tensor that is no parameter."""
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]


def convert(tree, fake_mode):
    """Real tensors as fake ones on the same device."""
    def one(leaf):
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor):
            return fake_mode.from_tensor(leaf)
        return leaf

    return tree_map(one, tree)
