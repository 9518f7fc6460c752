"""What a script hands its model to, which then runs it in a way of its own: TorchScript and CUDA graphs, of which a tape has the step
as Python runs it, and transforms of functions, which are refused."""

import inspect
import os

import torch
from torch import nn

from absent import note
from checkpoints import replace
from sources import Refused

INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Graph:
    """`torch.cuda.CUDAGraph`: what it captures runs once, as it does without."""

    def __init__(self, *_, **__):
        note("the script captures CUDA graphs: the tape has the step as it runs without, and not the memory that a graph's own pool keeps")

    def capture_begin(self, *_, **__):
        pass

    capture_end = replay = reset = enable_debug_mode = debug_dump = capture_begin

    def pool(self):
        return (0, 0)


class Capture:
    """`torch.cuda.graph` as a context."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def graphed(callables, *_, **__):
    """`torch.cuda.make_graphed_callables`."""
    Graph()
    return callables


def scripted(obj=None, *_, **__):
    """`torch.jit.script`: the module or function as it is."""
    if isinstance(obj, nn.Module) or inspect.isfunction(obj) and not any(part in obj.__code__.co_filename for part in INSTALLED):
        note("the script compiles code with torch.jit.script: the tape has it as Python runs it, without what TorchScript fuses")
    return obj


def loaded(path, *_, **__):
    raise Refused(f"torch.jit.load({str(path)!r}): a stored program has no modules to follow: trace the model that it was made of")


def check(module):
    """Refuses a module that runs on the parameters of a transform."""
    level = torch._C._functorch.maybe_current_level() if hasattr(torch._C._functorch, "maybe_current_level") else None
    if level is None:
        return
    wrapped = (torch._C._functorch.is_batchedtensor, torch._C._functorch.is_gradtrackingtensor)
    if any(is_wrapped(one) for one in module.parameters() for is_wrapped in wrapped):
        raise Refused(f"{type(module).__name__} runs inside of a transform of torch.func (vmap over stacked models, or grad), where a "
                      "trace sees neither parameters nor gradients: trace one model's step without it, with loss.backward()")


def install():
    replace(torch.jit.script, scripted)
    replace(torch.jit.load, loaded)
    cuda = torch.cuda
    for name, made in (("CUDAGraph", Graph), ("graph", Capture), ("make_graphed_callables", graphed),
                       ("graph_pool_handle", lambda *_: (0, 0))):
        if hasattr(cuda, name):
            replace(getattr(cuda, name), made)
