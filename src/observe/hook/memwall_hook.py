"""What a PyTorch training process tells MemWall: time and memory of each step, and on a few
steps the memory of each kind of module.

`memwall run -- COMMAND` puts it in place without a change to the script. Two lines do the same:

    import memwall_hook
    memwall_hook.install()

It never raises into the script, never prints, never waits, resets no statistics and
synchronises no device. Where nobody listens it counts steps, looks every two seconds for somebody
who does, and does nothing else. MEMWALL_HOOK=0 turns it off, MEMWALL_HOOK_SAMPLER=0 the thread that
reads the training thread's Python stack.
"""

import atexit
import os
import sys
import time

VERSION = 1

# Tells this program from one that has, or had, the same pid.
_BEGAN = time.time()

# Messages are small: a datagram is one message, and what does not fit is left out and said.
_LARGEST = 60_000
_MOST_KINDS = 96
_MOST_BLOCKS = 160

# Seconds between two messages on steps, and between two looks for somebody who listens. Between two
# messages lies at least what the last one cost, divided by this share: whatever the machine and however
# short the steps, telling takes no more of the time than that.
_EVERY = 0.5
_LONGEST_EVERY = 5.0
_LOOK_EVERY = 2.0
_TELLING = 0.001

# Sampled steps may cost this share of the time that has passed. The first two steps are none
# to sample: they build caches and optimizer states. What the first sample will cost nobody knows:
# so many seconds, and so many for each parameter, are reckoned with.
_BUDGET = 0.001
_FIRST_SAMPLE = 3
_FIRST_COST = 2.5e-4
_FIRST_COST_EACH = 2.5e-5
_REST = 10.0
_LONGEST_REST = 600.0
_MOST_FAULTS = 3

# What shares a model among ranks or compiles it, by class, and where the model lies in it.
_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module",
    "PipelineEngine": "module",
    "OptimizedModule": "_orig_mod",
    "_FabricModule": "_forward_module",
}
_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module", "_checkpoint_wrapped_module")

# `memwall run --trace` follows the step after this one: caches and optimizer states are built by then.
_TRACE_AFTER = 2


def _directories():
    """Where listeners may have their sockets; as MemWall computes it."""
    named = os.environ.get("MEMWALL_HOOK_DIR")
    if named:
        return [named]
    user = os.getuid()
    temporary = "/tmp/memwall-%d" % user
    # Root's is never below another user's directory, which `sudo -E` leaves in XDG_RUNTIME_DIR.
    if user == 0:
        return ["/run/memwall", temporary]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [os.path.join(runtime, "memwall") if runtime else temporary]


def _sockets(directory):
    """The sockets in a private directory; none in any other."""
    import stat

    try:
        whose = os.lstat(directory)
        if not stat.S_ISDIR(whose.st_mode) or whose.st_uid != os.getuid() or whose.st_mode & 0o077:
            return []
        return sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".sock"))
    except OSError:
        return []


def _namespace():
    """This process's PID namespace, by its inode; none where the system does not tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None


class _Wire:
    """Sends messages to every socket in the directory; whoever is gone or slow misses them."""

    def __init__(self):
        self.socket = None
        self.pid = None
        # Whoever listens may be in another PID namespace, where this process has another number.
        self.namespace = _namespace()
        self.listeners = []
        self.looked = float("-inf")
        self.lost = 0

    def new_listeners(self, now):
        """Looks for listeners now and then; those that were not there at the last look."""
        if now - self.looked < _LOOK_EVERY:
            return []
        self.looked = now
        found = [path for directory in _directories() for path in _sockets(directory)][:16]
        new = [path for path in found if path not in self.listeners]
        self.listeners = found
        return new

    def send(self, message, to=None):
        import json
        import socket

        message["began"] = _BEGAN
        if self.namespace is not None:
            message["namespace"] = self.namespace
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(text) > _LARGEST:
            self.lost += 1
            return
        if self.socket is None or self.pid != os.getpid():
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.pid = os.getpid()
        for path in self.listeners if to is None else to:
            try:
                self.socket.sendto(text, path)
            except OSError:
                # Nobody there any more, or its queue is full: this message is lost, training goes on.
                self.lost += 1


class _Hook:
    """The state of one process: steps, the optimizer that makes them, and what was seen."""

    def __init__(self, torch):
        self.torch = torch
        self.wire = _Wire()
        self.pid = os.getpid()
        self.faults = 0
        self.steps = 0
        self.leader = None
        self.started = None
        self.due = float("-inf")
        self.told_at = None
        self.told_steps = 0
        self.tell_after = float("-inf")
        self.step_s = None
        self.last_step = float("nan")
        self.times = None
        # Steps that take longer are late: the thread that watches this one knows from when on.
        self.late_s = float("inf")
        self.watch = None
        self.looks = 0
        self.over = False
        self.sampler = None
        self.sampler_began = 0.0
        self.sample_after = None
        self.sample_cost = 0.0
        self.samples = 0
        self.model = None
        self.about = None
        self.modules = None
        self.tokens = None
        # A module was seen that runs again for the backward pass.
        self.recomputes = False
        # Optimizer steps from the first to the last, where a trainer knows them.
        self.total = None
        # Looks into the first pass, where `memwall run --modules` asks for it: also of a script without an optimizer.
        self.first = None
        tracer = os.environ.get("MEMWALL_TRACER")
        self.tracer = tracer if os.environ.get("RANK", "0") == "0" else None

    def after_step(self, optimizer):
        """Called behind every optimizer step. Nearly all of them are counted and no more."""
        # Several optimizers may make one step: the first one counts.
        if self.leader != id(optimizer) and not self._leads(optimizer):
            return
        self.steps += 1
        now = time.perf_counter()
        took = now - self.last_step
        self.last_step = now
        # A sampled step is late by what looking at it takes.
        if self.times is not None and self.sampler is None:
            self.times.append((took, self.steps, now))
            if took > self.late_s:
                self.watch.note_late(self.steps, took, now)
        if self.tracer is not None and self.steps == _TRACE_AFTER and os.getpid() == self.pid:
            _arm_trace(self.torch, self.tracer, took)
        if now < self.due or self.faults >= _MOST_FAULTS:
            return
        try:
            self.due = self._look_and_tell(optimizer, now)
        except Exception:
            self.faults += 1
            self._drop_sampler()

    def _leads(self, optimizer):
        if self.leader is not None:
            return False
        # A forked child that makes the first step is a trainer of its own (accelerate's notebook_launcher,
        # Lightning's ddp_fork); others tell nothing.
        self.pid = os.getpid()
        self.leader = id(optimizer)
        return True

    def _look_and_tell(self, optimizer, now):
        """What is due at this step; when something is due again."""
        if os.getpid() != self.pid:
            return float("inf")
        if self.started is None:
            self.started = self.told_at = now
            self.watch = _watch(self)
        if self.watch is not None and self.looks < 8:
            self.looks += 1
            self.watch.learn_loop(sys._getframe(2))
        if self.about is None:
            self.total = _total(sys._getframe(2), self.steps)
        if self.first is not None:
            self._finish_first(optimizer)
        if self.sampler is not None:
            self._finish_sample(optimizer, now - self.sampler_began)
        new = self.wire.new_listeners(now)
        if not self.wire.listeners:
            return now + _LOOK_EVERY
        if self.about is None:
            self.about = self._about(optimizer)
        if new:
            self.wire.send(self.about, new)
            if self.modules is not None:
                self.wire.send(self.modules, new)
        if now >= self.tell_after or new:
            first = self.told_steps == 0
            begun = time.perf_counter()
            self._tell(now)
            # The first one loads what it needs: that is paid once.
            cost = 0.0 if first else time.perf_counter() - begun
            self.tell_after = now + min(max(_EVERY, cost / _TELLING), _LONGEST_EVERY)
        if self._may_sample(optimizer, now):
            self.sampler = _Sampler(self.torch, (one for group in optimizer.param_groups for one in group["params"]))
            self.sampler_began = time.perf_counter()
            return now
        return min(self.tell_after, self.wire.looked + _LOOK_EVERY, self._sampled_next(now))

    def at_exit(self):
        """The steps since the last message, and how the process ends. Forked children tell nothing."""
        try:
            if os.getpid() != self.pid:
                return
            if self.watch is not None:
                self.watch.wait_until_begun()
            if self.leader is None and self.first is not None:
                self._finish_first(None)
            if self.leader is None and self.modules is None:
                return
            self.over = True
            self.wire.looked = float("-inf")
            new = self.wire.new_listeners(time.perf_counter())
            if not self.wire.listeners:
                return
            if self.about is not None and new:
                self.wire.send(self.about, new)
            if self.leader is not None:
                self._tell(self.last_step)
                self._tell_places()
            else:
                self.wire.send(self.modules)
            self.wire.send(_end(self.pid))
        except Exception:
            pass

    def _tell_places(self):
        try:
            if self.watch is not None:
                self.watch.tell_end(self.wire, self.last_step)
        except Exception:
            pass

    def _tell(self, now):
        """Memory now, and the steps up to `now`, the time of the newest one."""
        steps = self.steps - self.told_steps
        message = {"v": VERSION, "kind": "step", "pid": self.pid, "step": self.steps, "at": time.time(), "steps": steps}
        if self.told_steps and now > self.told_at:
            self.step_s = (now - self.told_at) / steps
        if self.step_s is not None:
            message["step_s"] = self.step_s
        message.update(_memory(self.torch))
        if self.tokens:
            message["tokens"] = self.tokens
        if self.wire.lost:
            message["lost"] = self.wire.lost
        self.told_at, self.told_steps = now, self.steps
        self.wire.send(message)

    def _may_sample(self, optimizer, now):
        if self.sample_after is None:
            tensors = sum(len(group["params"]) for group in optimizer.param_groups)
            self.sample_after = self.started + (_FIRST_COST + _FIRST_COST_EACH * tensors) / _BUDGET
        return self.steps >= _FIRST_SAMPLE and now >= self.sample_after and not _compiles()

    def _sampled_next(self, now):
        """When the next sample may be taken; a step later where only the number of steps is missing."""
        if self.modules is None and self.samples >= _MOST_FAULTS:
            return float("inf")
        return self.sample_after if self.sample_after > now else now + (_EVERY if _compiles() else 0.0)

    def _finish_sample(self, optimizer, took):
        sampler, self.sampler = self.sampler, None
        sampler.stop()
        begun = time.perf_counter()
        self.samples += 1
        if sampler.model is None:
            self.sample_after = float("inf") if self.samples >= _MOST_FAULTS else begun
            return
        self.model = sampler.model
        self.recomputes |= sampler.recomputed
        self.tokens = sampler.tokens or self.tokens
        self.modules = sampler.report(self.pid, self.steps)
        self.about = self._about(optimizer)
        self.wire.send(self.about)
        self.wire.send(self.modules)
        # What a sampled step costs is its excess over the usual one, and the report.
        usual = (self.last_step - self.started) / max(self.steps - 1, 1)
        ended = time.perf_counter()
        self.sample_cost += max(took - usual, 0.0) + ended - begun
        rest = min(_REST * 2 ** min(self.samples, 10), _LONGEST_REST)
        self.sample_after = max(ended + rest, self.started + self.sample_cost / _BUDGET)

    def look_at_first_pass(self):
        self.first = _Sampler(self.torch, ())

    def _finish_first(self, optimizer):
        sampler, self.first = self.first, None
        sampler.stop()
        if sampler.model is not None:
            self.model, self.tokens, self.recomputes = sampler.model, sampler.tokens, sampler.recomputed
            self.modules = sampler.report(self.pid, self.steps)
            self.about = self._about(optimizer)

    def _drop_sampler(self):
        sampler, self.sampler = self.sampler, None
        if sampler is not None:
            try:
                sampler.stop()
            except Exception:
                pass

    def _about(self, optimizer):
        torch = self.torch
        groups = [one for group in optimizer.param_groups for one in group["params"]] if optimizer is not None else []
        if self.model is None and _compiles():
            self.model = _holder(torch.nn.Module, groups)
        parameters = list(self.model.parameters()) if self.model is not None else groups
        about = {"v": VERSION, "kind": "run", "pid": self.pid, "torch": str(torch.__version__)[:40], "at": time.time()}
        numbers = (("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world", "WORLD_SIZE"), ("launcher", "MEMWALL_RUN"))
        for name, variable in numbers:
            if os.environ.get(variable, "").isdigit():
                about[name] = int(os.environ[variable])
        about.update(_place(torch))
        about["params"] = sum(_count(parameter) for parameter in parameters)
        about["trainable"] = sum(_count(parameter) for parameter in parameters if parameter.requires_grad)
        about["params_are_all"] = self.model is not None
        about["counts_packed"] = any(_packed(parameter) is not None for parameter in parameters)
        about["param_bytes"] = _bytes(parameters)
        about["gradient_bytes"] = _bytes(parameter.grad for parameter in parameters if parameter.grad is not None)
        states = (state for state in getattr(optimizer, "state", {}).values() if isinstance(state, dict))
        held = [value for state in states for value in state.values()]
        about["optimizer_state_bytes"] = _bytes([*held, *_masters(parameters, groups)])
        dtypes = {}
        for parameter in parameters:
            name = str(parameter.dtype).replace("torch.", "")
            dtypes[name] = dtypes.get(name, 0) + _count(parameter)
        about["dtypes"] = dtypes
        about["optimizer"] = type(optimizer).__name__[:80] if optimizer is not None else ""
        options = ("lr", "betas", "eps", "weight_decay", "momentum", "foreach", "fused", "capturable", "amsgrad")
        first = optimizer.param_groups[0] if optimizer is not None else {}
        kept = {name: value for name, value in first.items() if name in options and _plain(value)}
        about["optimizer_options"] = kept
        device = next((parameter.device for parameter in parameters), None)
        about["device"] = str(device)
        if device is not None and device.type == "cuda":
            about["device_name"] = torch.cuda.get_device_name(device)[:80]
        if self.model is not None:
            # What shares it among ranks is no name of a model.
            about["model"] = type(_unwrapped(self.model)).__name__[:80]
            about["checkpointed"] = self.recomputes or _checkpointed(self.model)
        if self.total is not None:
            about["total_steps"] = self.total
        if _compiles():
            about["no_modules"] = "compiled: looking into modules would compile them again"
        return about


class _Sampler:
    """Watches the modules for one step: what each keeps for the backward pass, and allocated
    bytes as the backward pass reaches it."""

    def __init__(self, torch, parameters):
        self.torch = torch
        self.thread = _thread()
        self.rows = {}
        self.stack = []
        self.model = None
        # Ids that were taken below each module that the script called, the modules that took them with whom they were
        # called by, and whether those of this pass are counted.
        self.ids = {}
        self.takers = {}
        self.root = None
        self.counted = False
        self.saved = 0
        self.alive = 0
        self.live = {}
        self.backward = False
        self.recomputed = False
        self.saving = None
        self.own = {_storage(parameter) for parameter in parameters}
        self.cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        module = torch.nn.modules.module
        self.handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after),
        ]

    def stop(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self._stop_saving()

    def _stop_saving(self):
        saving, self.saving = self.saving, None
        if saving is not None:
            saving.__exit__(None, None, None)

    def _in_backward(self):
        """Whether autograd is at work in this thread: a module that runs then is computed again, as checkpointing has
        it. Older versions do not tell."""
        task = getattr(getattr(self.torch, "_C", None), "_current_graph_task_id", None)
        return task is not None and task() != -1

    def _allocated(self):
        return self.torch.cuda.memory_allocated() if self.cuda else self.alive

    def _before(self, module, inputs):
        try:
            if not self.torch.is_grad_enabled():
                return
            if self._in_backward():
                self.recomputed = True
                return
            if _thread() != self.thread:
                return
            if self.backward:
                # Later micro batches of the step count for their tokens alone.
                if module is self.model:
                    self.root, self.counted = id(module), False
                if module is self.model or id(module) in self.takers:
                    self._count_tokens(module, inputs)
                return
            if not self.stack:
                self._root(module)
            self._count_tokens(module, inputs)
            shape = next((tuple(value.shape) for value in inputs if hasattr(value, "shape")), None)
            self.stack.append((id(module), self.saved, self._allocated(), shape))
        except Exception:
            self.stop()

    def _root(self, module):
        # A forward pass that raised has left its modules behind.
        self._stop_saving()
        if not self.own:
            self.own = {_storage(parameter) for parameter in module.parameters()}
        if self.model is None or _weight(module) > _weight(self.model):
            self.model = module
        self.root, self.counted = id(module), False
        self.saving = self.torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.saving.__enter__()

    def _count_tokens(self, module, inputs):
        """The ids that a pass takes, where they come first: a model that is called by keywords hands them to its
        embedding by place, and an encoder's come before its decoder's."""
        if self.counted:
            return
        for value in inputs:
            if hasattr(value, "dtype") and not value.dtype.is_floating_point and value.dim() == 2:
                root = self.takers.setdefault(id(module), self.root)
                self.ids[root] = self.ids.get(root, 0) + value.numel()
                self.counted = True
                break

    @property
    def tokens(self):
        """Those of the model. A loss takes as many labels, which are no tokens of their own; only a script that calls
        a model's parts itself has them elsewhere."""
        return self.ids.get(id(self.model)) or max(self.ids.values(), default=0)

    def _pack(self, tensor):
        try:
            storage = _storage(tensor)
            if storage not in self.own and storage not in self.live:
                size = self.live[storage] = _size(tensor)
                self.saved += size
                self.alive += size
        except Exception:
            pass
        return tensor

    def _unpack(self, tensor):
        try:
            storage = _storage(tensor)
            self.alive -= self.live.get(storage, 0)
            self.live[storage] = 0
        except Exception:
            pass
        return tensor

    def _after(self, module, inputs, output):
        try:
            if not self.stack or self.stack[-1][0] != id(module) or _thread() != self.thread:
                return
            _, saved, allocated, shape = self.stack.pop()
            row = self.rows.setdefault(id(module), [0, 0, 0, 0, None, None])
            row[0] += 1
            row[1] += self.saved - saved
            row[2] += self._allocated() - allocated
            row[4] = shape
            first = _first_tensor(self.torch, output)
            if first is not None:
                row[5] = str(first.dtype).replace("torch.", "")
                if first.requires_grad and first.grad_fn is not None:
                    first.register_hook(_Reached(self, row))
            if not self.stack:
                self._stop_saving()
        except Exception:
            self.stop()

    def reached(self, row):
        self.backward = True
        row[3] = max(row[3], self._allocated())

    def report(self, pid, step):
        """Rows by the kind of module, layers of a list counted together, and by block."""
        kinds, blocks, counted = {}, {}, set()
        named = list(self.model.named_modules()) if self.model is not None else []
        for name, module in named:
            parts = [part for part in name.split(".") if part not in _WRAPPED]
            kind = ".".join("*" if part.isdigit() else part for part in parts)
            # Tied ones are the first module's.
            own = [one for one in module.parameters(recurse=False) if id(one) not in counted]
            counted.update(id(one) for one in own)
            row = self.rows.get(id(module))
            if row is None:
                # It keeps nothing: it did not run, or is checkpointed and runs without gradients first.
                if not own:
                    continue
                row = [0, 0, 0, 0, None, None]
            leaf = not any(True for _ in module.children())
            into = kinds.setdefault((kind, type(module).__name__), [0, 0, 0, 0, 0, 0, row[4], row[5], leaf])
            into[0] += 1
            into[1] += row[1]
            into[2] += row[2]
            into[3] = max(into[3], row[3])
            into[4] += sum(_count(parameter) for parameter in own)
            into[5] += _bytes(own)
            into[6], into[7] = into[6] or row[4], into[7] or row[5]
            if parts and parts[-1].isdigit() and not any(part.isdigit() for part in parts[:-1]):
                blocks[".".join(parts)] = (row[1], row[2], row[3])
        rows = [
            {
                "name": kind[0][:120],
                "class": kind[1][:80],
                "count": row[0],
                "saved": row[1],
                "forward": row[2],
                "backward": row[3],
                "params": row[4],
                "param_bytes": row[5],
                "shape": list(row[6])[:8] if row[6] is not None else None,
                "dtype": row[7],
                "leaf": row[8],
            }
            for kind, row in kinds.items()
        ]
        rows.sort(key=lambda row: -max(row["saved"], row["param_bytes"]))
        message = {"v": VERSION, "kind": "modules", "pid": pid, "step": step, "at": time.time()}
        message["measured"] = "allocated" if self.cuda else "saved"
        message["saved"] = self.saved
        message["left_out"] = max(len(rows) - _MOST_KINDS, 0) + max(len(blocks) - _MOST_BLOCKS, 0)
        message["modules"] = rows[:_MOST_KINDS]
        message["blocks"] = [[name[:120], *row] for name, row in list(blocks.items())[:_MOST_BLOCKS]]
        return message


class _Reached:
    """Called with the gradient of a module's output: its backward pass begins."""

    def __init__(self, sampler, row):
        self.sampler = sampler
        self.row = row

    def __call__(self, gradient):
        try:
            self.sampler.reached(self.row)
        except Exception:
            pass


def _thread():
    import threading

    return threading.get_ident()


def _first_tensor(torch, output):
    if isinstance(output, torch.Tensor):
        return output
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (tuple, list)) else ()
    return next((value for value in values if isinstance(value, torch.Tensor)), None)


def _local(tensor):
    """The part of a sharded tensor that lies on this device."""
    return getattr(tensor, "_local_tensor", tensor)


def _size(tensor):
    """Bytes of what the tensor is a view of."""
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.nbytes()


def _storage(tensor):
    tensor = _local(tensor)
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def _begin(tensor):
    """Where its own elements begin; 0 where they are nowhere."""
    return tensor.data_ptr() if hasattr(tensor, "data_ptr") else _storage(tensor)


def _masters(parameters, groups):
    """What an optimizer trains in fp32 in place of a model's parameters of 16 bits, as DeepSpeed's does."""
    own = {id(parameter) for parameter in parameters}
    half = parameters and all(parameter.element_size() == 2 for parameter in parameters)
    return [one for one in groups if half and id(one) not in own and one.element_size() == 4]


def _bytes(tensors):
    """Bytes of tensors on this device, what is shared counted once."""
    sizes = {}
    for tensor in tensors:
        if hasattr(tensor, "element_size"):
            tensor = _local(tensor)
            # Views of one buffer are several, as DeepSpeed lays parameters out; tied ones begin at the same place.
            sizes[_begin(tensor) or id(tensor)] = tensor.numel() * tensor.element_size()
    return sum(sizes.values())


def _count(parameter):
    """Elements of the whole parameter, however it is sharded: DeepSpeed's ZeRO 3, FSDP's flat
    parameters; of DTensors `numel` is the whole already. Of a quantised one what it stands for."""
    packed = _packed(parameter)
    if packed is not None:
        return packed
    whole = getattr(parameter, "ds_numel", None)
    if whole is None:
        flat = getattr(parameter, "_unpadded_unsharded_size", None)
        whole = flat.numel() if flat is not None else parameter.numel()
    return int(whole)


def _packed(parameter):
    """Weights behind a parameter of bitsandbytes in 4 bits: two lie in a byte, and its state has the shape that they
    had (nn/modules.py, Params4bit.quant_state; functional.py, QuantState.shape). None of others."""
    shape = getattr(getattr(parameter, "quant_state", None), "shape", None)
    if shape is None:
        return None
    count = 1
    for length in shape:
        count *= int(length)
    return count


def _checkpointed(model):
    """Whether blocks are computed again for the backward pass; none where the modules do not say."""
    flags = []
    for _, module in model.named_modules():
        if type(module).__name__ == "CheckpointWrapper":
            return True
        flag = module.__dict__.get("gradient_checkpointing")
        if isinstance(flag, bool):
            flags.append(flag)
    return any(flags) if flags else None


def _total(frame, steps):
    """Optimizer steps of this process, of which `steps` are made, by the trainer that makes them: Lightning's
    (pytorch/loops/fit_loop.py, FitLoop.run; trainer.estimated_stepping_batches) and transformers' (trainer.py,
    Trainer.train; TrainerState.max_steps). Both count the step that ends now behind its hooks. None of others."""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        try:
            if name == "run" and path.endswith("/pytorch/loops/fit_loop.py"):
                left = _left_by_lightning(frame.f_locals["self"].trainer)
                return steps - 1 + left if left else None
            if name == "train" and path.endswith("/transformers/trainer.py"):
                state = frame.f_locals["self"].state
                left = int(state.max_steps) - int(state.global_step)
                return steps - 1 + left if left > 0 else None
        except Exception:
            return None
        frame = frame.f_back
    return None


def _left_by_lightning(trainer):
    """Steps that it has to make, as its `estimated_stepping_batches` counts them; none where it does not know, or counts
    those of several optimizers."""
    if len(trainer.optimizers) != 1:
        return None
    limits = [int(trainer.max_steps)] if trainer.max_steps > 0 else []
    batches = trainer.num_training_batches
    if trainer.max_epochs and trainer.max_epochs > 0 and batches != float("inf"):
        limits.append(-(-int(batches) // int(trainer.accumulate_grad_batches)) * int(trainer.max_epochs))
    left = min(limits) - int(trainer.global_step) if limits else 0
    return left if left > 0 else None


def _place(torch):
    """The rank and how many there are, where PyTorch's processes have met: not all launchers tell it in the environment."""
    met = getattr(torch, "distributed", None)
    try:
        if met is not None and met.is_available() and met.is_initialized():
            return {"rank": int(met.get_rank()), "world": int(met.get_world_size())}
    except Exception:
        pass
    return {}


def _unwrapped(model):
    """The model in what shares it among ranks or compiles it."""
    while True:
        inner = getattr(model, _WRAPPERS.get(type(model).__name__, ""), None)
        if inner is None:
            return model
        model = inner


def _holder(module, trained):
    """The model that holds what an optimizer trains, where setting hooks on modules would compile them again: among
    all objects, the largest module that lies in no other. None where there is no such module."""
    import gc

    every = [one for one in gc.get_objects() if issubclass(type(one), module) and "_modules" in one.__dict__]
    inner = {id(child) for one in every for child in one._modules.values()}
    trained = {id(parameter) for parameter in trained}
    outer = (one for one in every if id(one) not in inner)
    holders = [one for one in outer if any(id(parameter) in trained for parameter in one.parameters())]
    return max(holders, key=_weight, default=None)


def _weight(module):
    return sum(_count(parameter) for parameter in module.parameters())


def _plain(value):
    if isinstance(value, (tuple, list)):
        return len(value) <= 4 and all(_plain(part) for part in value)
    # A learning rate may be a tensor: reading it would wait for the device.
    return value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and value == value and abs(value) < 1e30)


def _memory(torch):
    """Memory now. On CUDA the caching allocator's own counts, without waiting for the device;
    elsewhere the resident set of the process, which is more than its tensors."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        stats = torch.cuda.memory_stats()
        return {
            "memory": "cuda",
            "allocated": stats["allocated_bytes.all.current"],
            "reserved": stats["reserved_bytes.all.current"],
            "peak_allocated": stats["allocated_bytes.all.peak"],
            "peak_reserved": stats["reserved_bytes.all.peak"],
            "retries": stats.get("num_alloc_retries", 0),
            "ooms": stats.get("num_ooms", 0),
        }
    import resource

    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * page
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"memory": "resident", "allocated": resident, "peak_allocated": max(peak, resident)}


def _end(pid):
    """How a process ends: with the exception that nobody caught, if there was one."""
    message = {"v": VERSION, "kind": "end", "pid": pid, "at": time.time()}
    kind = getattr(sys, "last_type", None)
    if kind is not None:
        message["error"] = kind.__name__[:80]
        message["message"] = str(getattr(sys, "last_value", ""))[:4000]
    return message


def _compiles():
    """Whether torch.compile has compiled anything: it guards on module hooks, so that setting one
    would compile everything again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return bool(counters and counters.get("frames"))


def _patch(torch):
    """Has every optimizer's step call the hook. Public since PyTorch 2.1; before, each class's step
    is wrapped the way its profiler does it."""
    hook = _Hook(torch)
    atexit.register(hook.at_exit)
    if os.environ.get("MEMWALL_MODULES") == "1":
        hook.look_at_first_pass()
    optimizer = sys.modules.get("torch.optim.optimizer")
    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is not None:

        def after(optimizer, *_):
            hook.after_step(optimizer)

        # A compiled step leaves it out of its graph.
        after._torchdynamo_disable = True
        register(after)
        return
    import functools

    profiled = torch.optim.Optimizer._hook_for_profile

    def hook_for_profile(self):
        profiled(self)
        kind = type(self)
        step = kind.step
        if getattr(step, "_memwall", False):
            return

        @functools.wraps(step)
        def wrapped(self, *args, **options):
            result = step(self, *args, **options)
            hook.after_step(self)
            return result

        wrapped.hooked = True
        wrapped._memwall = True
        kind.step = wrapped

    torch.optim.Optimizer._hook_for_profile = hook_for_profile


def _arm_trace(torch, folder, usual):
    """Has the tracer follow the next step. The first process that comes here does it."""

    def report(text):
        with open(os.path.join(folder, "report"), "w") as file:
            file.write(text)

    try:
        os.close(os.open(os.path.join(folder, "taken"), os.O_CREAT | os.O_EXCL))
    except OSError:
        return
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 1):
        return report("no tape: PyTorch 2.1 or later is needed")
    # What stands if no such step follows.
    report("no tape: after the optimizer's second step no module was trained by loss.backward()")
    try:
        _tracer(folder).arm(os.environ["MEMWALL_TRACE"], usual, report)
    except Exception as error:
        report("no tape: %s: %s" % (type(error).__name__, error))


def _tracer(folder):
    """The tracer, by names of its own: what it calls `modules` or `step` may be the script's as well."""
    import importlib

    names = [name[:-3] for name in os.listdir(folder) if name.endswith(".py")]
    theirs = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("live")
    finally:
        sys.path.remove(folder)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(theirs)


class _Finder:
    """Waits for `import torch`: finds it as everybody else does, and patches it once it is loaded."""

    def __init__(self):
        self.looking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.looking:
            return None
        import importlib.util

        # Looking does not mean importing: many libraries ask whether there is a torch.
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            load = spec.loader.exec_module

            def exec_module(module):
                # The loader is an object of this import alone: it is as it was before torch runs.
                del spec.loader.exec_module
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                load(module)
                _try_patch(module)

            spec.loader.exec_module = exec_module
        return spec


def _try_patch(torch):
    try:
        _patch(torch)
    except Exception:
        pass


_installed = False


def install():
    """Puts the hook in place, now or as soon as torch is imported. Twice is once."""
    global _installed
    if _installed or os.environ.get("MEMWALL_HOOK") == "0":
        return
    _installed = True
    torch = sys.modules.get("torch")
    if torch is not None:
        _try_patch(torch)
    else:
        sys.meta_path.insert(0, _Finder())
