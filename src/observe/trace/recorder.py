"""Follows one training step: operators, storages with their lives, what autograd saves, and each backward function."""

import threading
import weakref

import torch
import torch.utils.flop_counter as flop_counter

import checkpoints
import copies
import kernels
import lasting
import writes
from fake import Values, asked_device, device_of, tensors_in
from places import caches_of
from sources import Refused
from work import work_of

aten = torch.ops.aten


sequence_number = torch._C._autograd._get_sequence_nr if hasattr(torch._C._autograd, "_get_sequence_nr") \
    else torch.autograd._get_sequence_nr


def is_made_by(function, seq):
    return function is not None and not hasattr(function, "variable") and function._sequence_nr() == seq


class Tensor:
    """One version of a tensor of the forward pass."""

    __slots__ = ("shape", "dtype", "storage", "maker", "seq", "parameter", "numel")

    def __init__(self, tensor, storage, maker, seq, parameter=None):
        self.shape, self.dtype, self.numel = tuple(tensor.shape), tensor.dtype, tensor.numel()
        self.storage, self.maker, self.seq, self.parameter = storage, maker, seq, parameter


class Storage:
    """Memory: its bytes, the operator that allocated it, and how many operators had run when it was released, or when Python let go
    of it; and how often operators wrote to it."""

    __slots__ = ("bytes", "born", "died", "named", "kind", "first", "written")

    def __init__(self, size, born, kind, first):
        self.bytes, self.born, self.died, self.named, self.kind, self.first = size, born, None, None, kind, first
        self.written = 0


class Op:
    """An operator of the forward pass below autograd."""

    __slots__ = ("name", "path", "cls", "seq", "graded", "inputs", "outputs", "saved", "flops", "args", "mutates", "node", "kept",
                 "copies_turned")

    def __init__(self, name, path, cls, seq, graded):
        self.name, self.path, self.cls, self.seq, self.graded = name, path, cls, seq, graded
        self.inputs, self.outputs, self.saved, self.flops, self.args = [], [], [], 0, None
        self.mutates, self.node, self.kept, self.copies_turned = False, None, False, False


class Node:
    """A backward function: where its gradients go, and what running it took."""

    __slots__ = ("name", "edges", "ran", "came", "sent", "scratch", "flops", "kernels", "_start", "_peak")

    def __init__(self, name, edges):
        self.name, self.edges = name, edges
        self.ran, self.came, self.sent = False, (), ()
        self.scratch = self.flops = self.kernels = 0
        self._start = self._peak = 0


class Recorder(Values):
    """A dispatch mode that writes everything down."""

    def __init__(self, fake_mode, device, shortcut=None):
        super().__init__(fake_mode, shortcut=shortcut)
        self.device = device.type
        self.restart()

    def fail(self, error):
        """An operator failed: its caller is told."""

    def restart(self):
        """Forgets all that was written down, as before a pass."""
        # Whose numbers tensors have.
        self.token = object()
        self.ops, self.tensors, self.storages, self.nodes, self.plain = [], [], [], {}, set()
        self.alive = {}
        self.now = 0
        self.phase = "idle"
        self.node = None
        self.last_seq = -1
        self.stack = []
        # Calls of blocks: path, first operator, one past the last.
        self.blocks = []
        # Calls that the model recomputes, which stand for the blocks where there are any.
        self.regions = checkpoints.Regions()
        self._handles = []
        self.autocast_ended_at = None
        # Something of fp32 comes into a block.
        self.meets_fp32 = False
        # Storages of keys and values that are kept for later tokens, and those that were gone before the backward pass.
        self.cache = self.dropped = frozenset()
        # Tensors that contexts of custom functions have as attributes, by function; their storages that are there still when the
        # backward pass is over; and all that is there when nobody but the model has the step's tensors, where that is known.
        self.attributes, self.lasting, self.remaining, self.is_alone = {}, frozenset(), frozenset(), False

    # Storages

    def follow(self, tensor, kind="made", born=None):
        """The storage of a tensor on the device, known or new; none for what is on the host."""
        place = device_of(tensor).type
        if place != self.device and not (self.device == "cpu" and place == "meta"):
            return None
        if tensor.layout is not torch.strided:
            raise Refused(f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}, as gradients of layers with sparse=True "
                          "are: no tape holds how much of it there is; trace the model with sparse=False")
        storage = tensor.untyped_storage()
        key = storage._cdata
        known = self.alive.get(key)
        if known is not None:
            return known[0]
        at = len(self.storages)
        size = storage.size()
        record = Storage(size, len(self.ops) if born is None else born, kind, len(self.tensors))
        self.storages.append(record)
        self.alive[key] = (at, weakref.ref(storage, lambda _, key=key: self.release(key)))
        self.now += size
        return at

    def known(self, tensor):
        """The number of a tensor's storage, where this step made it."""
        found = self.alive.get(tensor.untyped_storage()._cdata) if tensor.layout is torch.strided else None
        return found[0] if found is not None and self.storages[found[0]].kind == "made" else None

    def release(self, key):
        found = self.alive.pop(key, None)
        if found is not None:
            record = self.storages[found[0]]
            record.died = len(self.ops) if self.phase in ("forward", "idle") else record.died
            if self.phase == "backward":
                record.died = -1
            self.now -= record.bytes

    def identify(self, tensor, maker=None, seq=None, parameter=None, kind="outside"):
        """The number of a tensor's present version."""
        number = getattr(tensor, "_memwall", None)
        if number is not None and number[0] is self.token and maker is None:
            return number[1]
        storage = self.follow(tensor, "made" if maker is not None else kind, maker)
        self.tensors.append(Tensor(tensor, storage, maker, seq, parameter))
        number = len(self.tensors) - 1
        try:
            tensor._memwall = (self.token, number)
        except AttributeError:
            pass
        return number

    # Operators

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return asked_device(func, args) or func(*args, **kwargs)
        try:
            # Another thread prepares data, or what else a step does not do.
            if self.is_forward():
                return self.forward(func, args, kwargs)
            if self.phase == "backward":
                return self.backward(func, args, kwargs)
            return self.run(func, args, kwargs)
        except Exception as error:
            self.fail(error)
            raise

    def forward(self, func, args, kwargs):
        seq = sequence_number() - 1
        inputs = tensors_in(args, kwargs)
        path, module = self.stack[-1] if self.stack else ("", None)
        op = Op(func._overloadpacket.__name__, path, type(module).__name__ if module is not None else "", seq,
                torch.is_grad_enabled())
        op.inputs = [self.identify(leaf) for leaf in inputs]
        op.copies_turned = copies.copies_turned(func, inputs)
        # A number of its own: autograd made a function for it. Inside a custom function all operators have that one's.
        if seq != self.last_seq or copies.joins_copy(self, op):
            op.node = seq
        else:
            op.node = copies.node_behind_copy(self, func, op, inputs)
        out = self.run(func, args, kwargs)
        at = len(self.ops)
        op.outputs = [self.identify(leaf, at, op.node) for leaf in tensors_in(out)]
        if func is aten._scaled_dot_product_efficient_attention.default and len(inputs) > 2:
            self.without_padding(op.outputs[1], inputs[0].size(-2))
        if func._schema.is_mutable:
            writes.count(self, func, args)
        op.mutates, op.kept = func._schema.is_mutable, self.regions.keeps(func, args, kwargs)
        op.args = work_of(func, args, kwargs, out)
        op.flops = self.count(func, args, kwargs, out)
        if op.graded:
            op.saved.extend(self.saving.pop(seq, ()))
        self.ops.append(op)
        if op.graded and seq != self.last_seq:
            self.last_seq = seq
        return out

    def without_padding(self, number, rows):
        """Sums of scores by row, which the kernel pads to 32 rows: few bytes, and a size that grows in steps
        (aten/src/ATen/native/transformers/cuda/attention.cu, `_efficient_attention_forward`)."""
        tensor = self.tensors[number]
        if tensor.storage is None or len(tensor.shape) != 3 or tensor.shape[2] <= rows:
            return
        kept = tensor.numel // tensor.shape[2] * rows
        less = (tensor.numel - kept) * tensor.dtype.itemsize
        self.storages[tensor.storage].bytes -= less
        self.now -= less
        tensor.shape, tensor.numel = (*tensor.shape[:2], rows), kept

    def backward(self, func, args, kwargs):
        out = self.run(func, args, kwargs)
        fresh = False
        for leaf in tensors_in(out):
            before = len(self.storages)
            self.follow(leaf, "backward")
            fresh |= len(self.storages) > before
        node = self.node
        if node is not None:
            node.flops += self.count(func, args, kwargs, out)
            node.kernels += 1 if fresh else 0
            node._peak = max(node._peak, self.now)
        return out

    def count(self, func, args, kwargs, out):
        rule = flop_counter.flop_registry.get(func._overloadpacket)
        if func is aten.convolution_backward.default and args[9] > 1 and args[10][1]:
            kernels.NOTES.add("backward operations of grouped convolutions are PyTorch's own count, which takes the gradient of a "
                              "group's filter for that of all channels: too many")
        return int(rule(*args, **kwargs, out_val=out)) if rule else 0

    # Autograd

    saving = {}

    def start_forward(self):
        self.saving, self.thread = {}, threading.get_ident()
        self.phase = "forward"
        self.last_seq = sequence_number() - 1
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        checkpoints.COUNTS.begin(self.hooks, self)
        self.hooks.__enter__()
        checkpoints.COUNTS.begin_on_host()

    def is_forward(self):
        """Whether the pass that is written down runs, in this thread."""
        return self.phase == "forward" and threading.get_ident() == self.thread

    def stop_saving(self):
        if self.phase == "forward":
            checkpoints.COUNTS.leave_host()
            self.hooks.__exit__(None, None, None)
            checkpoints.COUNTS.end()
            self.phase = "idle"

    def pack(self, tensor):
        number = self.identify(tensor)
        seq = sequence_number() - 1
        if self.ops and self.last_seq == seq:
            self.saved_by(seq).saved.append(number)
        else:
            # Inputs are saved before their operator runs.
            self.saving.setdefault(seq, []).append(number)
        own = is_made_by(tensor.grad_fn, seq) or self.is_last_made(tensor, number, seq)
        kept = self.detached(tensor, number) if own else tensor
        return writes.marked(self, kept)

    def unpack(self, saved):
        return writes.checked(self, saved)

    def is_last_made(self, tensor, number, seq):
        """Whether a tensor comes from the last operator, whose function saves it: a view that was written to has got a function
        since (torch/csrc/autograd/variable.cpp, `grad_fn`), so that numbers do not tell."""
        return tensor.grad_fn is not None and self.last_seq == seq and self.tensors[number].maker == len(self.ops) - 1

    def detached(self, tensor, number):
        """What a function keeps of its own output: with the graph it would hold itself for ever, as hooks get the output as it is
        (torch/csrc/autograd/saved_variable.cpp, `SavedVariable`)."""
        before, self.phase = self.phase, "idle"
        try:
            kept = tensor.detach()
        finally:
            self.phase = before
        kept._memwall = (self.token, number)
        return kept

    def saved_by(self, seq):
        for op in reversed(self.ops):
            if op.seq == seq and op.graded:
                return op
        return self.ops[-1]

    def end_answer(self, made):
        """The end of a pass without gradients, whose result is `made`."""
        self.stop_saving()
        self.forward_ops = len(self.ops)
        kept = caches_of(made)
        self.cache = frozenset(self.follow(one) for one in kept) - {None}

    def end_forward(self, loss):
        """Walks the graph from the loss; each function gets hooks of its own."""
        self.stop_saving()
        self.forward_ops = len(self.ops)
        self.dropped = frozenset(at for at, storage in enumerate(self.storages) if storage.died is not None)
        known, todo = {}, [loss.grad_fn]
        while todo:
            function = todo.pop()
            if function is None or id(function) in known:
                continue
            known[id(function)] = function
            edges = []
            for following, number in function.next_functions:
                if following is None:
                    edges.append(None)
                elif hasattr(following, "variable"):
                    edges.append(("parameter", self.identify(following.variable, kind="parameter")))
                    self.plain.update(() if isinstance(following.variable, torch.nn.Parameter) else (edges[-1][1],))
                else:
                    edges.append((following._sequence_nr(), number))
                    todo.append(following)
            if hasattr(function, "variable"):
                continue
            node = Node(function.name(), edges)
            self.nodes[function._sequence_nr()] = node
            if kept := [self.identify(one) for one in lasting.attributes_of(function) if self.known(one) is not None]:
                self.attributes[function._sequence_nr()] = kept
            self._handles.append(function.register_prehook(lambda came, node=node: self.enter(node, came)))
            self._handles.append(function.register_hook(lambda sent, came, node=node: self.leave(node, sent)))
        del known

    def key_of(self, gradient):
        if not isinstance(gradient, torch.Tensor):
            return None
        known = self.alive.get(gradient.untyped_storage()._cdata)
        return known[0] if known is not None else -1

    def enter(self, node, came):
        node.ran = True
        node.came = tuple(self.key_of(one) for one in came)
        node._start = len(self.storages)
        node._peak = self.now
        self.node = node

    def leave(self, node, sent):
        node.sent = tuple(
            None if one is None else (self.key_of(one), one._is_view(), one.numel()) for one in sent)
        made = [key for key, _, _ in filter(None, node.sent) if key is not None and key >= node._start]
        # Beyond what goes on from here, of which the tape has the elements: the real part of a complex tensor has all of its memory.
        shown = {}
        for one in filter(lambda one: one is not None, sent):
            key = self.key_of(one)
            shown[key] = shown.get(key, 0) + one.numel() * one.dtype.itemsize
        beyond = sum(max(0, self.storages[key].bytes - shown[key]) for key in set(made))
        node.scratch = max(0, node._peak - self.now + beyond)
        node.came = tuple(key for key in node.came if key is not None)
        node._start = set(made)
        self.node = None

    def run_backward(self, loss):
        self.phase, run, grad = "backward", torch.autograd.backward, torch.autograd.grad
        torch.autograd.backward = torch.autograd.grad = only_one
        try:
            run(loss)
        finally:
            torch.autograd.backward, torch.autograd.grad = run, grad
        self.phase = "idle"
        self.end_backward()

    def end_backward(self):
        """The backward pass is over, and its graph is there still."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        there = {at for at, _ in self.alive.values()}
        named = {self.tensors[number].storage for numbers in self.attributes.values() for number in numbers}
        self.lasting = frozenset(named & there)

    def let_go(self):
        """Nobody but the model has what the step made."""
        self.remaining, self.is_alone = lasting.still_there(self), True
        self.lasting -= self.remaining


def only_one(*_, **__):
    """In the place of a backward pass inside the traced one: what lives and is saved there is no part of the model's own pass."""
    raise Refused("its backward pass computes blocks again and runs backward passes of them, as reversible layers do: no tape "
                  "holds what is alive there")
