"""The first step of a training script: it runs under fake tensors up to the end of its first backward pass. What it would
write goes to a folder that is removed, and it reaches no network."""

import builtins
import io
import os
import runpy
import shutil
import sys
import tempfile

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fake
import modules
import segments
import step
import tape
from recorder import Recorder
from sources import Refused

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Finished(BaseException):
    """The step is traced."""


class Sandbox:
    """Files that are written lie in a folder of their own; names of hosts are not looked up."""

    def __init__(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="memwall-trace-"))
        self.temporary, tempfile.tempdir = tempfile.tempdir, self.folder
        self.active = True
        self.guarding = False

    def is_ours(self, path):
        path = os.path.realpath(path)
        return path.startswith((self.folder, "/dev/", "/proc/self/"))

    def moved(self, path):
        return self.folder + os.path.abspath(os.fspath(path))

    def __enter__(self):
        opened, made = builtins.open, os.mkdir

        def open_moved(file, mode="r", *args, **kwargs):
            if self.active and isinstance(file, (str, os.PathLike)) and not self.is_ours(file):
                moved = self.moved(file)
                if any(letter in mode for letter in "wax+"):
                    os.makedirs(os.path.dirname(moved), exist_ok=True)
                    if "a" in mode or "+" in mode:
                        if os.path.exists(file) and not os.path.exists(moved):
                            shutil.copyfile(file, moved)
                    file = moved
                elif os.path.exists(moved):
                    file = moved
            return opened(file, mode, *args, **kwargs)

        def mkdir_moved(path, *args, **kwargs):
            if self.active and isinstance(path, (str, os.PathLike)) and not self.is_ours(path):
                os.makedirs(self.moved(path), exist_ok=True)
                return None
            return made(path, *args, **kwargs)

        builtins.open = io.open = open_moved
        os.mkdir = mkdir_moved
        os.makedirs, self.makedirs = self.make_folders(os.makedirs), os.makedirs
        torch.save = lambda *_, **__: None
        sys.addaudithook(self.audit)
        self.guarding = True
        return self

    def make_folders(self, original):
        def makedirs(name, *args, **kwargs):
            if self.active and not self.is_ours(name):
                name, kwargs["exist_ok"] = self.moved(name), True
                args = args[:1]
            return original(name, *args, **kwargs)

        return makedirs

    def audit(self, event, args):
        if not (self.active and self.guarding):
            return
        if event == "open" and isinstance(args[0], str) and isinstance(args[2], int) and args[2] & WRITES:
            if not self.is_ours(args[0]):
                raise PermissionError(f"a traced script writes nothing: {args[0]}")
        elif event in ("os.remove", "os.rmdir", "os.rename", "os.truncate", "shutil.rmtree") and isinstance(args[0], str):
            if not self.is_ours(args[0]):
                raise PermissionError(f"a traced script writes nothing: {args[0]}")
        elif event in ("socket.connect", "socket.getaddrinfo"):
            host = args[0] if event == "socket.getaddrinfo" else args[1]
            if isinstance(host, tuple):
                host = host[0]
            if host not in ("localhost", "127.0.0.1", "::1", "") and not str(host).startswith("/"):
                raise OSError(f"a traced script asks no network: {host}")

    def __exit__(self, *_):
        self.active, tempfile.tempdir = False, self.temporary
        shutil.rmtree(self.folder, ignore_errors=True)
        return False


class Watch:
    """Finds the model and the loss: the first module that is called to be trained, and the first backward pass."""

    def __init__(self, device, fake_mode):
        self.device, self.fake_mode = device, fake_mode
        self.recorder = Recorder(fake_mode, device.torch_device(), {})
        self.recorder.autocast = False
        self.model = self.calls = self.assembly = None
        self.batch = {}
        self.optimizers = []

    def __enter__(self):
        self.call, self.backward = nn.Module.__call__, torch.Tensor.backward
        self.run_backward = torch.autograd.backward
        watch = self

        def call(module, *args, **kwargs):
            if watch.model is None and watch.is_trained(module):
                watch.begin(module, args, kwargs)
            return watch.call(module, *args, **kwargs)

        def backward(loss, *args, **kwargs):
            watch.finish(loss)

        def run_backward(tensors, *args, **kwargs):
            watch.finish(tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors)))

        nn.Module.__call__ = call
        torch.Tensor.backward, torch.autograd.backward = backward, run_backward
        loader = torch.utils.data.DataLoader.__init__

        def plain(self, *args, **kwargs):
            kwargs.update(num_workers=0, pin_memory=False, persistent_workers=False)
            kwargs.pop("prefetch_factor", None)
            kwargs.pop("multiprocessing_context", None)
            loader(self, *args[:5], **kwargs)

        torch.utils.data.DataLoader.__init__ = plain
        torch.compile = lambda model=None, **_: model if model is not None else (lambda one: one)
        return self

    def __exit__(self, *_):
        nn.Module.__call__ = self.call
        torch.Tensor.backward, torch.autograd.backward = self.backward, self.run_backward
        return False

    def is_trained(self, module):
        return module.training and torch.is_grad_enabled() and any(one.requires_grad for one in module.parameters())

    def begin(self, module, args, kwargs):
        self.model = module
        recorder = self.recorder
        recorder.autocast = bool(torch.is_autocast_enabled())
        for at, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                self.batch[str(at)] = value
        self.batch.update((name, value) for name, value in kwargs.items() if isinstance(value, torch.Tensor))
        self.calls = modules.Calls(module, modules.find_blocks(module))
        self.calls.recorder = recorder
        self.calls.original = self.call
        calls = self.calls
        self.call = lambda module, *args, **kwargs: calls.call(module, args, kwargs)
        for parameter in module.parameters():
            recorder.identify(parameter, kind="parameter")
        recorder.start_forward()

    def finish(self, loss):
        recorder = self.recorder
        if self.model is None:
            raise Refused("the first backward pass comes before any module is called to be trained")
        recorder.end_forward(loss)
        recorder.phase = "backward"
        torch.Tensor.backward, torch.autograd.backward = self.backward, self.run_backward
        self.run_backward(loss)
        recorder.phase = "idle"
        for handle in recorder._handles:
            handle.remove()
        self.assembly = segments.Assembly(recorder, self.model, loss)
        self.assembly.plan_leaving()
        raise Finished


def trace(command, device, say):
    """The tape of a training command's first step."""
    script, *arguments = command
    if script == "-m":
        if not arguments:
            raise Refused("-m needs a module's name")
        run = lambda: runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        sys.argv = arguments
    else:
        if not os.path.isfile(script):
            raise Refused(f"{script}: there is no such script")
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        run = lambda: runpy.run_path(script, run_name="__main__")
        sys.argv = command
    os.environ.setdefault("WANDB_MODE", "disabled")
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake.install(fake_mode)
    watch = Watch(device, fake_mode)
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        with Sandbox(), fake_mode, watch, watch.recorder:
            try:
                run()
            except Finished:
                pass
            except SystemExit as ended:
                if watch.assembly is None:
                    raise Refused(f"{script} ended before its first backward pass, with exit status {ended.code}") from None
    finally:
        sys.stdout = out
    if watch.assembly is None:
        raise Refused(f"{script} ran to its end without a backward pass")
    return finished(watch, device, script, say)


def finished(watch, device, script, say):
    model = watch.model
    weights = {one.dtype for one in model.parameters()}
    precision = "mixed" if watch.recorder.autocast else "fp32" if weights == {torch.float32} else "half"
    point = sizes_of(watch.batch)
    fitter = tape.Fitter([], [{}])
    made = tape.Trace(fitter)
    made.add(*step.written(watch.assembly))
    tracer = step.Tracer(device, say)
    tracer.answered = watch.recorder.answered
    subject = type("Script", (), {"name": type(model).__name__, "source": script, "inputs": [], "side": None,
                                  "longest": point.get("S"), "versions": {}})()
    notes = [f"traced with {', '.join(f'{axis} {size}' for axis, size in point.items())} alone, in {precision} precision"]
    tape_made = tracer.finish(subject, model, [], [point], fitter, {precision: made.finish()}, notes, False, True)
    fake_inputs = [[name, segments.element_of(value.dtype)[0], int(value.is_floating_point()),
                    [fitter.index([side]) for side in value.shape]] for name, value in watch.batch.items()]
    tape_made["inputs"], tape_made["sizes"] = fake_inputs, fitter.polynomials
    say(f"{precision}: {len(tape_made['traces'][precision]['order'])} segments")
    return tape_made


def sizes_of(batch):
    """Samples and, of token ids, their length."""
    for value in batch.values():
        if value.dim() == 2 and not value.is_floating_point():
            return {"B": value.shape[0], "S": value.shape[1]}
    first = next((value for value in batch.values() if value.dim()), None)
    return {"B": first.shape[0]} if first is not None else {}
