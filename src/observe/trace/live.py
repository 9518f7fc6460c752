"""One step of a training that runs: it is followed as it happens, and the training goes on unchanged.

Loaded by the hook after the second step. Nothing of the process is replaced but for that one step, and what fails here ends
the trace and not the training. The report goes to a file, as the process's output is its own."""

import os
import threading
import time
from types import SimpleNamespace

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode

import companions
import kernels
import modules
import passes
import script
import segments
import several
import sides
import tape
from recorder import Recorder
from sources import Refused

# A followed step may take so many times what a step takes; less than so many seconds nobody minds.
MOST_TIMES = 20
LEAST = 2.0


# They call the model that they hold.
WRAPPERS = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine")


class NoTape(Exception):
    """Why there is none."""


class LiveRecorder(Recorder):
    """Follows real tensors, and leaves no mark on them."""

    def __init__(self, device, until):
        super().__init__(None, device)
        self.autocast, self.until = False, until
        self.marked, self.frozen = [], False
        # Others' hooks on what is saved: this recorder does not see what they keep.
        self.hooked, self.enter_hooks = False, saved_tensors_hooks.__enter__

    def run(self, func, args, kwargs):
        return func(*args, **kwargs)

    def unpack(self, saved):
        # What a training does with its tensors is its own business.
        return saved[0]

    def start_forward(self):
        super().start_forward()
        outer, enter = self, self.enter_hooks

        def seen(hooks):
            outer.hooked = True
            return enter(hooks)

        saved_tensors_hooks.__enter__ = seen

    def stop_saving(self):
        saved_tensors_hooks.__enter__ = self.enter_hooks
        super().stop_saving()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.frozen or self.phase not in ("forward", "backward"):
            return func(*args, **(kwargs or {}))
        if time.perf_counter() > self.until:
            self.frozen = True
        return super().__torch_dispatch__(func, types, args, kwargs)

    def identify(self, tensor, maker=None, seq=None, parameter=None, kind="outside"):
        number = super().identify(tensor, maker, seq, parameter, kind)
        self.marked.append(tensor)
        return number

    def release(self, key):
        if not self.frozen:
            super().release(key)

    def forget(self):
        """Takes the marks away: a checkpoint would hold them."""
        self.frozen = True
        for tensor in self.marked:
            tensor.__dict__.pop("_memwall", None)
        self.marked = []
        self.alive = {}


class Live:
    """Waits for the first pass that is to be trained, follows it and its backward pass, and writes the tape."""

    def __init__(self, path, usual, report):
        self.path, self.usual, self.report = path, usual, report
        self.thread = threading.get_ident()
        self.recorder = self.calls = self.model = self.assembly = None
        self.batch, self.foreign, self.reached, self.answers, self.optimizers = {}, 0, 0, False, []
        # The one pass that is followed is the step's.
        self.passes = passes.Passes()
        self.sides = sides.Sides()
        # Real tensors: nothing is guessed, and what is beside the model is seen by its process.
        self.on_host, self.guesses, self.companions = False, None, None
        self.call = nn.Module.__call__
        self.backward, self.run_backward = torch.Tensor.backward, torch.autograd.backward

    def arm(self):
        live = self

        def call(module, *args, **kwargs):
            return live.called(module, args, kwargs)

        def backward(loss, *args, **kwargs):
            return live.differentiated(loss, live.backward, (loss, *args), kwargs)

        def run_backward(tensors, *args, **kwargs):
            loss = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors))
            return live.differentiated(loss, live.run_backward, (tensors, *args), kwargs)

        nn.Module.__call__ = call
        torch.Tensor.backward, torch.autograd.backward = backward, run_backward

    def disarm(self):
        nn.Module.__call__ = self.call
        torch.Tensor.backward, torch.autograd.backward = self.backward, self.run_backward

    def called(self, module, args, kwargs):
        if threading.get_ident() != self.thread:
            return self.call(module, *args, **kwargs)
        if self.recorder is None and type(module).__name__ not in WRAPPERS and script.is_trained(module, args):
            try:
                self.begin(module, args, kwargs)
            except Exception as error:
                self.give_up(error)
                return self.call(module, *args, **kwargs)
        if self.calls is None or self.recorder.frozen:
            return self.call(module, *args, **kwargs)
        self.sides.see(module, args)
        return self.calls.call(module, args, kwargs)

    def begin(self, module, args, kwargs):
        why = refused(module)
        if why is not None:
            raise NoTape(why)
        self.began = time.perf_counter()
        parameters = list(module.parameters())
        self.recorder = recorder = LiveRecorder(parameters[0].device, self.began + max(MOST_TIMES * self.usual, LEAST))
        recorder.autocast = kernels.runs_in_mixed(recorder.device)
        self.model = module
        self.batch = script.tensors_of(args, kwargs)
        calls = modules.Calls(module, modules.find_blocks(module))
        calls.recorder, calls.original = recorder, self.call
        for parameter in parameters:
            recorder.identify(parameter, kind="parameter")
        recorder.__enter__()
        recorder.start_forward()
        self.calls = calls

    def differentiated(self, loss, original, args, kwargs):
        recorder = self.recorder
        if recorder is None or recorder.phase != "forward":
            return original(*args, **kwargs)
        self.disarm()
        try:
            recorder.end_forward(loss)
            if recorder.hooked or script.recomputing(recorder):
                raise NoTape("it recomputes or moves activations: memwall trace -- python … follows the script without that")
            self.foreign, self.reached = several.trained_by(recorder, self.model, loss, runs_again=False)
            recorder.phase = "backward"
        except Exception as error:
            self.give_up(error)
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            self.finish(loss)

    def finish(self, loss):
        recorder = self.recorder
        try:
            recorder.phase = "idle"
            recorder.end_backward()
            leave(recorder)
            if recorder.frozen:
                raise NoTape(f"it would take more than {MOST_TIMES} times a step's {self.usual:.3g} s")
            self.took = time.perf_counter() - self.began
            self.assembly = segments.Assembly(recorder, self.model, recorder.identify(loss))
            self.assembly.plan_leaving()
            recorder.forget()
            threading.Thread(target=self.write, name="memwall-trace").start()
        except Exception as error:
            self.give_up(error)

    def write(self):
        try:
            device = self.recorder.device
            differences = [] if device == "cuda" else ["kernels, their choice and autocast's lists are those of the CPU"]
            # They were made before anybody asked.
            self.optimizers = companions.instances_of(torch.optim.Optimizer)
            made = script.finished(self, SimpleNamespace(name=device, how="a step of a run", differences=differences),
                                   "a run", lambda text: None)
            tape.write(made, self.path)
            self.report(f"{self.path}: {made['name']}, {made['parameters']['total']:,} parameters, "
                        f"{os.path.getsize(self.path):,} bytes; one step took {self.took:.3g} s, usually {self.usual:.3g} s")
        except Exception as error:
            self.report(f"no tape: {told(error)}")
        finally:
            self.assembly = self.model = self.recorder = None
            self.optimizers = []

    def give_up(self, error):
        """The training goes on as if nobody had asked."""
        self.disarm()
        recorder, self.calls = self.recorder, None
        if recorder is not None:
            for handle in recorder._handles:
                handle.remove()
            try:
                recorder.stop_saving()
                leave(recorder)
            except Exception:
                pass
            recorder.forget()
        self.report(f"no tape: {told(error)}")


def leave(recorder):
    """Leaves the mode, where nothing that was entered later still stands above it; there it stays and does nothing."""
    if _get_current_dispatch_mode() is recorder:
        recorder.__exit__(None, None, None)


def refused(module):
    """Why a model's step would not be the whole model's."""
    for part in module.modules():
        if type(part).__name__ in ("FullyShardedDataParallel", "FSDPModule", "OptimizedModule"):
            return f"{type(part).__name__}: its operators are not those of the model: memwall trace -- python … follows the script"
    for parameter in module.parameters():
        if type(parameter).__name__ == "DTensor" or hasattr(parameter, "ds_id"):
            return "its parameters are sharded: memwall trace -- python … follows the script in one process"
    return None


def told(error):
    text = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
    return text if isinstance(error, (NoTape, Refused)) else f"{type(error).__name__}: {text}"


def arm(path, usual, report):
    Live(path, usual, report).arm()
