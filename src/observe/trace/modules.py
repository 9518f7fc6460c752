"""The modules of a model: which stand in rows of blocks, and the calls of them while a step runs."""

import functools

import torch
from torch import nn
from torch.utils._pytree import tree_map

import kernels
from fake import tensors_in

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def signature(module):
    """What two equal blocks have in common: classes, and shapes, types and gradients of parameters."""
    parts = [type(module).__qualname__]
    for name, child in module.named_modules():
        parts.append((name, type(child).__qualname__))
    for name, parameter in module.named_parameters(remove_duplicate=False):
        parts.append((name, tuple(parameter.shape), str(parameter.dtype), parameter.requires_grad))
    return hash(tuple(parts))


def is_block(module):
    """Whether a module is more than one layer of torch.nn."""
    children = any(True for _ in module.children())
    own = not type(module).__module__.startswith("torch.nn")
    return not isinstance(module, nn.ModuleList) and any(True for _ in module.parameters()) and (children or own)


def find_blocks(model):
    """Modules that are blocks of a row, by path: the outermost rows with equal members, else rows of one class."""
    found = {}

    def rows(path, module):
        members = [(name, child) for name, child in module.named_children() if is_block(child)]
        if not isinstance(module, CONTAINERS) or len(members) < 2:
            return None
        return [(f"{path}.{name}" if path else name, child) for name, child in members]

    def descend(path, module):
        members = rows(path, module)
        if members:
            signs = [signature(child) for _, child in members]
            if len(set(signs)) < len(signs):
                found.update(members)
                return
        before = len(found)
        for name, child in module.named_children():
            descend(f"{path}.{name}" if path else name, child)
        if members and len(found) == before and len({type(child) for _, child in members}) < len(members):
            found.update(members)

    descend("", model)
    return found


def lowered(tree, dtype):
    """Tensors of floating point in another type."""
    def one(leaf):
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return tree_map(one, tree)


class Calls:
    """Follows calls of modules: the path of the one that runs, calls of blocks, and blocks that are passed over."""

    def __init__(self, model, blocks=None, lower=None):
        self.paths = {}
        for path, module in model.named_modules():
            self.paths.setdefault(module, path)
        self.blocks = {module: path for path, module in (blocks or {}).items()}
        self.recorder = None
        # What comes into blocks is cast to this type.
        self.lower = lower
        # Numbers of block calls that are not run: they return what the call before returned.
        self.skipped = frozenset()
        self.calls = 0
        self.depth = 0
        self.last = None

    def pass_over(self, skipped):
        """Passes over these calls: of blocks by their numbers, of what the model recomputes with its paths."""
        if isinstance(skipped, dict):
            self.recorder.regions.passed = skipped
        else:
            self.skipped = skipped

    def __enter__(self):
        self.original = nn.Module.__call__
        outer = self

        def call(module, *args, **kwargs):
            return outer.call(module, args, kwargs)

        nn.Module.__call__ = call
        self.forwards = [(module, vars(module).get("forward")) for module in self.blocks]
        for module in self.blocks:
            vars(module)["forward"] = self.forward_of(module, module.forward)
        return self

    def __exit__(self, *_):
        nn.Module.__call__ = self.original
        for module, own in self.forwards:
            vars(module).pop("forward", None)
            if own is not None:
                vars(module)["forward"] = own
        return False

    def forward_of(self, module, run):
        """A block's forward function, which other code may call by itself: a call of the block all the same."""
        @functools.wraps(run)
        def forward(*args, **kwargs):
            recorder = self.recorder
            running = recorder is None or recorder.phase != "forward" or (recorder.stack and recorder.stack[-1][1] is module)
            return run(*args, **kwargs) if running else self.call(module, args, kwargs)

        return forward

    def call(self, module, args, kwargs):
        recorder = self.recorder
        if recorder is None or recorder.phase != "forward":
            return self.original(module, *args, **kwargs)
        path = self.paths.get(module)
        if path is None:
            path = recorder.stack[-1][0] if recorder.stack else ""
        # A script may enter autocast around the model's own forward function.
        recorder.autocast = recorder.autocast or kernels.runs_in_mixed(recorder.device)
        block = module in self.blocks and self.depth == 0
        if block:
            number, self.calls = self.calls, self.calls + 1
            if number in self.skipped:
                recorder.blocks.append((path, type(module).__name__, None, None))
                out = self.last
                if number + 1 not in self.skipped:
                    self.last = None
                return out
            start, self.depth = len(recorder.ops), 1
        recorder.stack.append((path, module))
        try:
            if block and self.lower is not None:
                args, kwargs = lowered((args, kwargs), self.lower)
            elif block:
                recorder.meets_fp32 |= any(one.dtype == torch.float32 for one in tensors_in(args, kwargs))
            out = self.original(module, *args, **kwargs)
        finally:
            recorder.stack.pop()
            if block:
                self.depth = 0
        if block:
            recorder.blocks.append((path, type(module).__name__, start, len(recorder.ops)))
            if number + 1 in self.skipped:
                self.last = out
        return out


def read_beyond(ops, blocks):
    """How many tensors of each call are read behind the call after it."""
    makers = {number: call for call, (_, _, start, end) in enumerate(blocks) for op in ops[start:end] for number in op.outputs}
    ends = [end for *_, end in blocks[1:]] + [len(ops)]
    found = {}
    for at, op in enumerate(ops):
        for number in op.inputs:
            call = makers.get(number)
            if call is not None and at >= ends[call]:
                found.setdefault(call, set()).add(number)
    return {call: len(numbers) for call, numbers in found.items()}


def stand_apart(recorder, blocks):
    """Calls that read nothing of the call before, or what outside of the blocks was made for them alone: what the call before
    returned cannot stand for what they return."""
    made = recorder.tensors
    makers, readers, reads = {}, {}, []
    for call, (_, _, start, end) in enumerate(blocks):
        ops = list(enumerate(recorder.ops[start:end], start))
        reads.append({made[number].storage for _, op in ops for number in op.inputs} - {None})
        for storage in reads[-1]:
            readers.setdefault(storage, set()).add(call)
        makers.update((made[number].storage, call) for at, op in ops for number in op.outputs if made[number].maker == at)
    inner = {storage for storage, found in enumerate(recorder.storages) if found.kind != "made"} | set(makers)
    alone = {storage for storage, calls in readers.items() if len(calls) == 1 and storage not in inner}
    return {call for call, storages in enumerate(reads)
            if storages & alone or all(makers.get(storage) != call - 1 for storage in storages)}


# Equal blocks in a row beyond these are passed over.
KEPT = 3


def passed_over(recorder, hooked=frozenset()):
    """Calls of blocks that run what those about them run; of what the model recomputes, where it does, with the path of each. Those
    at paths that hooks look into all run."""
    regions = recorder.regions.calls
    blocks = [(path, "", start, end) for path, start, end, _ in regions] or recorder.blocks
    keys, beyond, apart = [], read_beyond(recorder.ops, blocks), stand_apart(recorder, blocks)
    for path, cls, start, end in blocks:
        # Features that somebody picks of some blocks alone.
        key = [cls, beyond.get(len(keys), 0)]
        for op in recorder.ops[start:end]:
            # Depthwise kernels of other sizes give as much.
            shapes = tuple((recorder.tensors[one].shape, str(recorder.tensors[one].dtype)) for one in (*op.inputs, *op.outputs))
            key.append((op.name, op.path[len(path):], op.graded, len(op.saved), len(op.inputs), shapes))
        if path in hooked:
            key.append(len(keys))
        keys.append((hash(tuple(key)), end))
    skipped, row = set(), []

    def close():
        # The first ones and the last may differ from the others in another precision.
        if len(row) > KEPT:
            skipped.update(row[KEPT - 1:-1])

    last = None
    for call, (key, end) in enumerate(keys):
        if key != last or call in apart:
            close()
            row, last = [], key
        row.append(call)
        if call + 1 < len(keys) and blocks[call + 1][2] != end:
            # Something runs between this block and the next.
            close()
            row, last = [], None
    close()
    return {call: blocks[call][0] for call in skipped} if regions else frozenset(skipped)
