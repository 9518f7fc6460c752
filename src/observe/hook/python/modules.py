# What the kinds of modules keep, in a step that is sampled.

# What does not fit into a message is left out and said.
_MOST_KINDS = 96
_MOST_BLOCKS = 160

# Outputs of a model of which any may be the one that goes backward.
_MOST_OUTPUTS = 16


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
        # Passes of the model in this step, each with a backward pass behind it; none where two cannot be told apart.
        self.passes = 0
        self.is_open = False
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
                    self._count_pass()
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
            self.model, self.passes, self.is_open = module, 0, False
        self.root, self.counted = id(module), False
        if module is self.model:
            self._count_pass()
        self.saving = self.torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.saving.__enter__()

    def _count_pass(self):
        """A pass begins. Where none went backward since the last one, both may be of one micro batch (pairs that are
        compared), or the loss may lie where nobody looks: nothing is told."""
        if self.is_open:
            self.passes = None
        elif self.passes is not None:
            self.passes += 1
        self.is_open = True

    def _await_backward(self, output):
        values = output.values() if isinstance(output, dict) else output if isinstance(output, (tuple, list)) else (output,)
        for value in list(values)[:_MOST_OUTPUTS]:
            if isinstance(value, self.torch.Tensor) and value.requires_grad and value.grad_fn is not None:
                value.register_hook(_Went(self))

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
            if module is self.model and _thread() == self.thread and not self._in_backward():
                self._await_backward(output)
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
        kinds, blocks, counted, length_first = {}, {}, set(), None
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
            # torch.nn's recurrent layers and attention say whether samples come first in what they take.
            if getattr(module, "batch_first", None) is False and row[4] is not None and len(row[4]) == 3:
                length_first = list(row[4][:2])
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
        if length_first is not None:
            message["length_first"] = length_first
        if self.passes and not self.is_open:
            message["passes"] = self.passes
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


class _Went:
    """Called with the gradient of an output of the model: its pass goes backward."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __call__(self, gradient):
        sampler = self.sampler
        sampler.is_open = False
        if sampler.torch.is_grad_enabled():
            # Of gradients that are part of the loss (create_graph) no pass is one of the step's alone.
            sampler.passes = None
