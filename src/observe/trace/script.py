"""The first step of a training script: it runs under fake tensors up to the end of its first backward pass; or, of any script,
the first pass of a model without gradients. What it would write goes to a folder that is removed, and it reaches no network."""

import os
import runpy
import sys

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

import arrays
import checkpoints
import companions
import fake
import held
import kernels
import lasting
import layout
import modules
import names
import passes
import polynomials
import processes
import segments
import several
import sides
import step
import tape
import transforms
import weights
from ending import Ending
from places import is_symbolic, tensors_in
from recorder import Recorder
from sandbox import Sandbox
from sources import Refused

# What is the same wherever it is equal.
PLAIN = (bool, int, float, str, type(None))
# What gives each GPU its part of a batch: the model is what it holds.
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def is_trained(module, args):
    trains = module.training and torch.is_grad_enabled() and not any(map(is_symbolic, args))
    return trains and any(one.requires_grad for one in module.parameters())


def tensors_of(args, kwargs):
    """What a model is called with, by position and name; what lists and dictionaries hold by its place there too."""
    found = {}
    for name, value in [*((str(at), value) for at, value in enumerate(args)), *kwargs.items()]:
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, (list, tuple, dict)):
            found.update((f"{name}.{at}", one) for at, one in enumerate(tensors_in(value)))
    return found


def shapes_of(args, kwargs):
    return {name: tuple(value.shape) for name, value in tensors_of(args, kwargs).items()}


def recomputing(recorder):
    """A backward function that computes a part of the model again, by its name: what it saves is not what the model saves."""
    return next((node.name for node in recorder.nodes.values() if "Checkpoint" in node.name), None)


class Watch:
    """Finds the model and the loss: the first module that is called to be trained, and the first backward pass. Where a forward
    pass is wanted, the first module (of `wanted` class, if any is named) that is called without gradients."""

    def __init__(self, device, fake_mode, ending, answers=False, wanted=None):
        self.device, self.fake_mode, self.ending = device, fake_mode, ending
        self.answers, self.wanted = answers, wanted
        self.recorder = Recorder(fake_mode, device.torch_device())
        self.recorder.autocast, self.recorder.fail = False, ending.fail
        self.guesses = self.recorder.keep()
        self.model = self.calls = self.assembly = None
        self.batch = {}
        # Parameters of other models that the traced loss trains too, and all optimizers.
        self.foreign, self.reached, self.optimizers = 0, 0, []
        # The model is on the host's processor, where a GPU was to run it; and what is on the GPU beside it.
        self.on_host, self.companions = False, None
        # Passes from which the loss may come.
        self.passes = passes.Passes()
        self.sides = sides.Sides()
        # torch.autograd.grad was asked for gradients of parameters.
        self.asks = False
        # Passes without gradients: what came out, by module and shapes.
        self.evaluated, self.evaluating = {}, False

    def __enter__(self):
        self.call = self.module_call = nn.Module.__call__
        self.backward = torch.Tensor.backward
        self.run_backward, self.gradients = torch.autograd.backward, torch.autograd.grad
        watch = self

        def call(module, *args, **kwargs):
            if watch.answers and watch.model is None and watch.is_wanted(module):
                watch.begin(module, args, kwargs)
                watch.end(watch.answer, watch.call(module, *args, **kwargs))
            transforms.check(module)
            if not watch.answers and (watch.model is None or watch.is_over()) and is_trained(module, args) \
                    and several.is_chosen(module):
                watch.begin(module, args, kwargs)
            if watch.model is None and not torch.is_grad_enabled():
                with watch.passes.without_gradients(module):
                    return watch.evaluate(module, args, kwargs)
            try:
                made = watch.call(module, *args, **kwargs)
            except Exception as error:
                if watch.model is not None and not watch.recorder.stack:
                    watch.passes.fail(error)
                raise
            if watch.model is not None and not watch.recorder.stack and watch.recorder.phase == "forward":
                watch.passes.add(module, shapes_of(args, kwargs), made)
            return made

        def backward(loss, *args, **kwargs):
            watch.end(watch.finish, loss)

        def run_backward(tensors, *args, **kwargs):
            watch.end(watch.finish, tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors)))

        def gradients(outputs, inputs, *args, **kwargs):
            watch.asks |= any(isinstance(one, nn.Parameter) for one in tensors_in([inputs]))
            return watch.gradients(outputs, inputs, *args, **kwargs)

        make = torch.optim.Optimizer.__init__

        def made(optimizer, *args, **kwargs):
            make(optimizer, *args, **kwargs)
            watch.optimizers.append(optimizer)

        torch.optim.Optimizer.__init__ = made
        torch.save = lambda *_, **__: None
        nn.Module.__call__ = call
        torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad = backward, run_backward, gradients
        loader = torch.utils.data.DataLoader.__init__

        def plain(self, *args, **kwargs):
            kwargs.update(num_workers=0, pin_memory=False, persistent_workers=False)
            kwargs.pop("prefetch_factor", None)
            kwargs.pop("multiprocessing_context", None)
            loader(self, *args[:5], **kwargs)

        torch.utils.data.DataLoader.__init__ = plain
        return self

    def __exit__(self, *_):
        nn.Module.__call__ = self.module_call
        torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad = self.backward, self.run_backward, self.gradients
        return False

    def instead(self):
        """What it did in the place of a backward pass, and what to do."""
        if not self.asks:
            return ""
        return ": it asks torch.autograd.grad for gradients of parameters: trace what computes the loss with file.py:function"

    def evaluate(self, module, args, kwargs):
        """A pass without gradients, before anything is trained: the same inputs give what they gave before."""
        leaves, tree = tree_flatten((args, kwargs))
        if self.evaluating or any(not isinstance(leaf, (torch.Tensor, *PLAIN)) for leaf in leaves):
            return self.call(module, *args, **kwargs)
        key = (module, str(tree), module.training, tuple(
            (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves))
        if key not in self.evaluated:
            self.evaluating = True
            try:
                self.evaluated[key] = self.call(module, *args, **kwargs)
                held.forget(self.evaluated[key])
            finally:
                self.evaluating = False
        return self.evaluated[key]

    def is_over(self):
        """Whether what was recorded is of passes that no loss can come of."""
        return self.recorder.phase == "forward" and not self.recorder.stack and self.passes.are_over()

    def begin(self, module, args, kwargs):
        if self.model is not None:
            self.recorder.stop_saving()
            self.recorder.restart()
            self.passes.leave_out()
            self.call = self.module_call
        module = module if self.answers else several.owner_of(module)
        while isinstance(module, WRAPPERS):
            module = module.module
        self.model, recorder = module, self.recorder
        self.guesses.end()
        recorder.guesses = None
        recorder.autocast = kernels.runs_in_mixed(recorder.device)
        self.batch = tensors_of(args, kwargs)
        # Asked now: trainers move their model back to the host when its step is cut short.
        self.on_host = recorder.device != "cpu" and all(one.device.type == "cpu" for one in module.parameters())
        self.calls = modules.Calls(module, modules.find_blocks(module))
        self.calls.recorder = recorder
        self.calls.original = self.call
        calls = self.calls

        def call(module, *args, **kwargs):
            self.sides.see(module, args)
            return calls.call(module, args, kwargs)

        self.call = call
        self.parameters = [id(one) for one in module.parameters()]
        # What is kept of passes without gradients the script has let go.
        self.evaluated.clear()
        self.companions = companions.Companions(module, recorder.device, self.batch)
        for parameter in module.parameters():
            recorder.identify(parameter, kind="parameter")
        recorder.start_forward()

    def is_wanted(self, module):
        """Whether this call is the forward pass to trace."""
        named = self.wanted is None or type(module).__name__ == self.wanted
        return named and not torch.is_grad_enabled() and any(True for _ in module.parameters())

    def answer(self, made):
        result = step.answer_of(made)
        self.recorder.end_answer(made)
        self.assembly = segments.Assembly(self.recorder, self.model, self.recorder.identify(result))
        self.assembly.plan_leaving()

    def end(self, record, *args):
        """Ends the script with what is recorded: among its modes, and laid out without."""
        try:
            record(*args)
        except Exception as error:
            self.ending.refuse(error)
        self.ending.leave(lambda: finished(self, self.device, self.source, self.say))

    def finish(self, loss):
        if self.answers:
            raise Refused("a backward pass comes before any pass without gradients: trace the step, without --forward")
        recorder = self.recorder
        if not loss.requires_grad:
            raise Refused("the loss of the first backward pass needs no gradient, and PyTorch stops there: what it is made of was "
                          "detached, comes of torch.no_grad(), or has no parameter that requires one")
        if self.model is None:
            raise Refused("the first backward pass comes before any module is called to be trained: trace what computes the loss with "
                          "file.py:function")
        recorder.end_forward(loss)
        self.passes.check(recorder.nodes.keys())
        if [id(one) for one in self.model.parameters()] != self.parameters:
            raise Refused(f"{type(self.model).__name__} runs on parameters that are not its own (torch.func.functional_call): trace its "
                          "step with its own")
        self.foreign, self.reached = several.trained_by(recorder, self.model, loss)
        how = recomputing(recorder)
        if how is not None:
            raise Refused(f"{how}: the script recomputes activations in a way of its own: trace it without, and name the "
                          "recomputation in the plan (training.activation_checkpointing)")
        torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad = self.backward, self.run_backward, self.gradients
        recorder.run_backward(loss)
        self.assembly = segments.Assembly(recorder, self.model, recorder.identify(loss))
        self.assembly.plan_leaving()


def trace(command, device, say, conclude, answers=False, wanted=None, allowed=()):
    """Runs a training command to its first step, or to the first pass without gradients, and concludes with its tape there."""
    awaited = "pass without gradients" if answers else "backward pass"
    awaited = f"{awaited} of `{wanted}`" if wanted else awaited
    script, *arguments = command
    if script == "-m":
        if not arguments:
            raise Refused("-m needs a module's name")
        sys.path.insert(0, os.getcwd())
        run = lambda: runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        sys.argv = arguments
    else:
        if not os.path.isfile(script):
            raise Refused(f"{script}: there is no such script")
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        run = lambda: processes.run_script(os.path.abspath(script))
        sys.argv = command
    os.environ["WANDB_MODE"] = "disabled"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    fake_mode = fake.Mode(allow_non_fake_inputs=True)
    fake.install(fake_mode)
    arrays.install()
    checkpoints.install()
    processes.install()
    weights.install()
    # Whether probabilities are ones is asked of their values.
    torch.distributions.Distribution.set_default_validate_args(False)
    sandbox = Sandbox(allowed)
    ending = Ending(sandbox, conclude)
    watch = Watch(device, fake_mode, ending, answers, wanted)
    watch.source, watch.say = script, say
    out, sys.stdout = sys.stdout, sys.stderr
    ended = f"ran to its end without a {awaited}"
    try:
        with sandbox, ending, fake_mode, watch, watch.recorder:
            ending.follow_threads((fake_mode, watch.recorder))
            try:
                run()
            except SystemExit as asked:
                ended = f"ended before its first {awaited}, with exit status {asked.code or 0}"
            ending.join()
    finally:
        sys.stdout = out
    if ending.error is not None:
        # What it caught, or a thread of its own did not.
        raise ending.error
    raise Refused(f"{script} {ended}{watch.instead()}")


def finished(watch, device, script, say):
    model = watch.model
    if watch.on_host:
        raise Refused(f"{script} runs {type(model).__name__} on the host's processor: move it with .to(\"cuda\"), or trace it with "
                      "--cpu")
    types = {one.dtype for one in model.parameters() if one.dtype.is_floating_point}
    if torch.float64 in types:
        raise Refused(f"{type(model).__name__} has weights of float64, and no plan has such a precision: trace it in float32")
    precision = "mixed" if watch.recorder.autocast else "fp32" if types == {torch.float32} else "half"
    point = watch.sides.of(watch.batch)
    empty = next((name for name, value in watch.batch.items() if not value.numel()), None)
    if empty is not None:
        raise Refused(f"the first batch's `{empty}` has no elements: its sizes depend on values, which a traced step has not")
    fitter = polynomials.Fitter([], [{}])
    made = tape.Trace(fitter)
    made.add(0, lasting.resting(watch.recorder, model, read=False), *step.written(watch.assembly))
    subject = type("Script", (), {"name": type(model).__name__, "source": script, "inputs": [], "side": None,
                                  "longest": point.get("S"), "versions": {}, "answers": watch.answers})()
    sizes = ", ".join(f"{axis} {size}" for axis, size in point.items()) or "its own batch"
    notes = [f"traced with {sizes} alone, in {precision} precision"]
    notes.extend([*watch.sides.notes(watch.batch), *checkpoints.COUNTS.notes("script"), *processes.notes(), *(watch.guesses.notes(model) if watch.guesses else [])])
    notes.extend([*watch.passes.notes(), *several.several(watch, model), *beside(watch, model), *several.unreached(watch, model)])
    answered = watch.recorder.answered
    tape_made = layout.laid_out(device, answered, subject, model, [], [point], fitter, {precision: made.finish()}, notes, False, True)
    fake_inputs = [[name, names.element_of(value.dtype)[0], int(value.is_floating_point()),
                    [fitter.index([side]) for side in value.shape]] for name, value in watch.batch.items()]
    tape_made["inputs"], tape_made["sizes"] = fake_inputs, fitter.polynomials
    say(f"{precision}: {len(tape_made['traces'][precision]['order'])} segments")
    return tape_made


def beside(watch, model):
    """What the script has beside the model, on the GPU and to step it."""
    found = watch.companions.notes(model, set(map(id, several.trained_in(watch)))) if watch.companions else []
    return [*found, *companions.of_own(watch.optimizers)]
