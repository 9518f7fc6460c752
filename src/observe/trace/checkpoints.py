"""Recomputation and whatever else a model does with what autograd saves is left out while a step is traced: the tape holds the model
without it, and calls that the model itself recomputes as blocks, which are recomputed unless the plan says otherwise."""

import dis
import inspect
import sys

import torch
import torch.utils.checkpoint as checkpoint
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks


def replace(original, made):
    """Puts `made` in the place of a function of PyTorch, also where it was imported by name."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None) or {}
        for name in [name for name, value in list(names.items()) if value is original]:
            names[name] = made


class Regions:
    """Calls that a model recomputes in its backward pass, the outermost ones: path of what they run, first operator, one past the
    last, and whether a backward pass of its own recomputes all of it (the reentrant kind), and how long its inputs stay."""

    def __init__(self):
        self.calls, self.is_inside, self.last = [], False, None
        # What the call that runs keeps of its operators all the same, a function of operator and arguments.
        self.policy = None
        # Numbers of calls that are not run, each with its path: they return what the call before returned.
        self.passed = {}
        # Calls in the one that runs; those of each call that was run, by its first operator.
        self.inner, self.within = None, {}
        # How often one was in a call that is in another.
        self.deepest = 0

    def keeps(self, func, args, kwargs):
        """Whether what an operator makes is kept, not computed again (torch/utils/checkpoint.py, `_CachingTorchDispatchMode`)."""
        if self.policy is None or func in getattr(checkpoint, "SAC_IGNORED_OPS", ()):
            return False
        answer = self.policy(checkpoint.SelectiveCheckpointContext(is_recompute=False), func, *args, **kwargs)
        return answer is True or getattr(answer, "name", "") in ("MUST_SAVE", "PREFER_SAVE")

    def run(self, ops, function, reentrant, policy=None):
        number = len(self.calls)
        if self.is_inside:
            return self.run_inside(ops, function, reentrant)
        if number in self.passed:
            self.calls.append((self.passed[number], None, None, reentrant))
            made = self.last
        else:
            start, self.is_inside, self.policy, self.inner = len(ops), True, policy, []
            try:
                made = function()
            finally:
                self.is_inside, self.policy = False, None
            if len(ops) > start:
                self.calls.append((common_path(ops[start:]), start, len(ops), reentrant))
                self.within[start] = self.inner
        self.last = made if number + 1 in self.passed else None
        return made

    def run_inside(self, ops, function, reentrant):
        """A call in a call that is recomputed; what that one has in it runs again with it."""
        inner, start = self.inner, len(ops)
        self.deepest += inner is None
        self.inner = None
        try:
            return function()
        finally:
            self.inner = inner
            if inner is not None and len(ops) > start:
                inner.append((start, len(ops), int(bool(reentrant))))


def common_path(ops):
    """The path of the innermost module that runs all of these operators."""
    paths = [op.path.split(".") if op.path else [] for op in ops]
    first, last = min(paths, default=[]), max(paths, default=[])
    alike = next((at for at, (one, other) in enumerate(zip(first, last)) if one != other), min(len(first), len(last)))
    return ".".join(first[:alike])


class Counts:
    """How often a model asked for it in the pass that is traced."""

    def __init__(self):
        self.active, self.checkpointed, self.hooked, self.compiled, self.own = False, 0, 0, 0, None
        # What follows the pass.
        self.recorder = None
        # Calls with contexts of their own, of which nobody knows what they keep; and whether any computes again without autocast.
        self.unknown, self.plain = 0, False
        # Hooks that stand for `save_on_cpu` where the pass is in it, and whether it ever was.
        self.host, self.on_host = [], False
        # Those of the code's own that it was in before the pass began.
        self.around = []
        # The most that any pass asked: in some of them blocks are passed over.
        self.most = (0, 0, 0, 0)

    def begin(self, own, recorder):
        """A traced pass begins, in which autograd's hooks `own` are the tracer's."""
        self.active, self.checkpointed, self.hooked, self.own, self.recorder = True, 0, 0, own, recorder

    def begin_on_host(self):
        """Takes over where the code was in `save_on_cpu` before the pass began."""
        if self.around:
            self.enter_host(self.around[-1])

    def enter_host(self, hooks):
        self.on_host = True
        self.host.append((hooks, saved_tensors_hooks(to_host, from_host)))
        REAL["enter"](self.host[-1][1])

    def leave_host(self):
        """The pass is over, and the code still in it."""
        while self.host:
            REAL["leave"](self.host.pop()[1], None, None, None)

    def end(self):
        regions = self.recorder.regions
        found = self.checkpointed, self.hooked, len(regions.calls), regions.deepest
        self.active, self.own, self.recorder = False, None, None
        self.most = tuple(map(max, self.most, found))

    def region(self, function, reentrant=True, policy=None):
        """Runs what the model recomputes."""
        if self.recorder is None or not torch.is_grad_enabled() or not self.recorder.is_forward():
            return function()
        return self.recorder.regions.run(self.recorder.ops, function, reentrant, policy)

    def recomputes(self):
        return self.most[2] > 0

    def notes(self, who):
        notes, (checkpointed, hooked, regions, nested) = [], self.most
        if regions:
            notes.append(f"the {who} checkpoints {regions} calls: they are the tape's blocks, and recomputed unless "
                         "training.activation_checkpointing says what is")
        if nested:
            notes.append("a recomputed call has one in it that has others in it: of those, what is computed once more is not modelled")
        if self.unknown:
            notes.append("recomputed calls run in contexts of the code's own (context_fn): what those keep is not in the tape")
        if self.on_host:
            notes.append("what save_on_cpu moves to the host is not in the tape between the passes; its copies take no time there")
        if self.plain:
            notes.append("not modelled: its own checkpoint functions compute again without autocast, in the type of the weights "
                         "(torch.amp.custom_bwd would enter it): under mixed precision that takes more memory than in the tape")
        if checkpointed and not regions:
            notes.append(f"the {who} checkpoints {checkpointed} calls, the tape none: training.activation_checkpointing says "
                         "what is recomputed")
        if hooked:
            notes.append(f"the {who} moves or packs what is saved for its backward pass {hooked} times, the tape leaves it "
                         "where it is: training.offload_modules says what goes to the host")
        if self.compiled:
            notes.append(f"the {who} compiles {self.compiled} functions, the tape has them as they are without: training.compile "
                         "says that chains are fused")
        return notes


COUNTS = Counts()


def without_reentrant(*_, **__):
    """Of the non-reentrant kind, also under other names (torch/utils/checkpoint.py): what surrounds the call does nothing."""
    COUNTS.checkpointed += COUNTS.active
    yield


class Function:
    """Of the reentrant kind: the function that is to be recomputed runs as any other."""

    @staticmethod
    def apply(function, _preserve, *args):
        COUNTS.checkpointed += COUNTS.active
        return function(*args)


def recomputed(function):
    """What runs in the place of a code's own checkpoint function: the function that it would recompute. OpenAI's counts the arguments
    that are no parameters (guided-diffusion, nn.py), DeepSpeed's fills a list (runtime/activation_checkpointing/checkpointing.py),
    Megatron-LM's is as PyTorch's; others have nothing before the inputs."""
    if function in OWN:
        return OWN[function]
    named = list(inspect.signature(function.forward).parameters.values()) if "checkpoint" in function.__name__.lower() else []
    counted = [one.name for one in named[2:3]] == ["length"]
    several = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in named[3:])

    def plainly(run, *args):
        about = args[:1] if several and args and not isinstance(args[0], torch.Tensor) else ()
        args = args[len(about):]
        while several and not counted and args and isinstance(args[-1], torch.nn.Parameter):
            # Named so that a gradient comes to them.
            args = args[:-1]
        made = run(*(args[:about[0]] if counted else args))
        if about and isinstance(about[0], list):
            about[0].extend(made if isinstance(made, (list, tuple)) else [made])
        return made

    return OWN.setdefault(function, plainly if named[1:] else None)


# Autograd functions that were looked at.
OWN = {}


def applied(function, *args, **kwargs):
    run = recomputed(function) if COUNTS.active and args and callable(args[0]) else None
    if run is None:
        return apply(function, *args, **kwargs)
    COUNTS.checkpointed += 1
    COUNTS.plain |= leaves_autocast(function)
    return COUNTS.region(lambda: run(*args, **kwargs), INPUTS_LAST if keeps_inputs(function) else True)


# Of the reentrant kind, and inputs are there up to the end of the backward pass.
INPUTS_LAST = 2


def leaves_autocast(function):
    """Whether a code's own checkpoint computes again without autocast, which is left when the backward pass runs: PyTorch's and those
    with `custom_bwd` enter it again."""
    code = getattr(function.backward, "__code__", None)
    return code is not None and code.co_name != "decorate_bwd" and not any(
        "autocast" in name for name in code.co_names)


def keeps_inputs(function):
    """Whether a code's own checkpoint has its inputs as attributes of its context, and does not delete them: they go with the graph,
    when the backward pass is over."""
    codes = [getattr(inspect.unwrap(one), "__code__", None) for one in (function.forward, function.backward)]
    if None in codes or "save_for_backward" in codes[0].co_names:
        return False
    return not any(one.opname == "DELETE_ATTR" for one in dis.get_instructions(codes[1]))


apply = torch.autograd.Function.apply.__func__


def checkpointed(function, *args, **kwargs):
    """`torch.utils.checkpoint.checkpoint`."""
    reentrant, contexts = kwargs.get("use_reentrant") is not False, kwargs.get("context_fn")
    policy = None
    if contexts is not None and COUNTS.active and not reentrant:
        policy = getattr(contexts()[0], "policy_fn", None) if hasattr(checkpoint, "SelectiveCheckpointContext") else None
        COUNTS.unknown += policy is None
    return COUNTS.region(lambda: REAL["checkpoint"](function, *args, **kwargs), reentrant, policy)


# By a name that `replace` does not find.
REAL = {"checkpoint": checkpoint.checkpoint}


def compiled(model=None, **_):
    COUNTS.compiled += 1
    return model if model is not None else (lambda one: compiled(one))


def to_host(tensor):
    """What `save_on_cpu` keeps of a tensor on the device: nothing there, and its form (torch/autograd/graph.py)."""
    if COUNTS.recorder is None or COUNTS.recorder.follow(tensor) is None:
        return tensor
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor)
    return tuple(tensor.shape), tuple(tensor.stride()) if dense else None, tensor.dtype, tensor.device


def from_host(kept):
    """It is there again while the function runs that saved it."""
    if isinstance(kept, torch.Tensor):
        return kept
    shape, stride, dtype, device = kept
    if stride is None:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.empty_strided(shape, stride, dtype=dtype, device=device)


def install():
    if checkpoint.CheckpointFunction is Function:
        return
    for name in ("_checkpoint_without_reentrant_generator", "_checkpoint_without_reentrant_generator_impl"):
        # Newer versions of PyTorch go by the second.
        if hasattr(checkpoint, name):
            replace(getattr(checkpoint, name), without_reentrant)
    replace(checkpoint.CheckpointFunction, Function)
    replace(REAL["checkpoint"], checkpointed)
    torch.autograd.Function.apply = classmethod(applied)
    replace(torch.compile, compiled)
    torch.compile = compiled
    REAL["enter"], REAL["leave"] = enter, leave = saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__

    def entered(hooks):
        if COUNTS.own is None or hooks is COUNTS.own:
            COUNTS.around.extend([hooks] if isinstance(hooks, save_on_cpu) else [])
            return enter(hooks)
        if isinstance(hooks, save_on_cpu) and COUNTS.active:
            return COUNTS.enter_host(hooks)
        COUNTS.hooked += COUNTS.active
        return None

    def left(hooks, *error):
        if COUNTS.host and COUNTS.host[-1][0] is hooks:
            return leave(COUNTS.host.pop()[1], *error)
        if COUNTS.own is None and hooks in COUNTS.around:
            COUNTS.around.remove(hooks)
        return leave(hooks, *error) if COUNTS.own is None or hooks is COUNTS.own else None

    saved_tensors_hooks.__enter__, saved_tensors_hooks.__exit__ = entered, left
