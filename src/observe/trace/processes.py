"""Processes: of a script that trains in several, one is traced, as it runs alone; what a fresh Python does is not seen, and
would be training."""

import builtins
import contextlib
import multiprocessing.popen_forkserver
import multiprocessing.popen_spawn_posix
import os
import sys
import types

import torch
import torch.distributed as distributed
import torch.multiprocessing
import torch.utils.data.dataloader as loading
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from checkpoints import replace
from sources import Refused

SHARE = torch.Tensor.share_memory_
# What processes tell each other, in tensors that are there already.
TALK = ("all_reduce", "reduce", "broadcast", "barrier", "all_gather")
# How many processes train, where the script says so.
SIZES = []


def install():
    replace(torch.multiprocessing.spawn, first_of)
    torch.Tensor.share_memory_ = shared
    for module in (multiprocessing.popen_spawn_posix, multiprocessing.popen_forkserver):
        module.Popen._launch = refuse
    loading._MultiProcessingDataLoaderIter = loaded_here
    if distributed.is_available():
        begin = distributed.init_process_group
        replace(begin, lambda *args, **kwargs: group(begin, *args, **kwargs))
        DistributedDataParallel.__init__, DistributedDataParallel.forward = wrapped, forward
        DistributedDataParallel.no_sync = lambda _: contextlib.nullcontext()


def loaded_here(loader):
    """Batches of a loader that other code made of PyTorch's parts, as fastai's is: workers would hand fake tensors on in shared memory."""
    loader.num_workers = loader.timeout = 0
    return loading._SingleProcessDataLoaderIter(loader)


def first_of(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`torch.multiprocessing.spawn`: the first process's work, done here."""
    fn(0, *args)


def refuse(*_):
    raise Refused("the script starts Python processes of its own, in which a trace sees nothing: trace what trains there with "
                  "file.py:function")


def shared(tensor):
    """Shared memory holds values."""
    return tensor if isinstance(tensor, FakeTensor) else SHARE(tensor)


def group(begin, backend=None, init_method=None, timeout=None, world_size=-1, *_, **__):
    """A process group that talks to nobody (torch/testing/_internal/distributed/fake_pg.py)."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1))
    SIZES.append(size)
    sharded = sys.modules.get("torch.distributed.fsdp")
    if sharded is not None:
        sharded.FullyShardedDataParallel.__init__ = shards
        if hasattr(sharded, "fully_shard"):
            replace(sharded.fully_shard, shards)
    for name in TALK:
        replace(getattr(distributed, name), silent)
    begin(backend="fake", store=FakeStore(), rank=0, world_size=size)


def silent(*_, **given):
    """What processes tell each other are values."""
    return type("Work", (), {"wait": lambda *_: True, "is_completed": lambda _: True})() if given.get("async_op") else None


def shards(*_, **__):
    raise Refused("the script shards its model with FSDP: trace it without, and name what FSDP does in the plan")


def wrapped(self, module, device_ids=None, *_, **__):
    """`DistributedDataParallel` of one process: gradients and buckets of many are the plan's."""
    torch.nn.Module.__init__(self)
    self.module, self.device_ids = module, device_ids


def forward(self, *args, **kwargs):
    if self.device_ids:
        to = next(self.module.parameters()).device
        args, kwargs = tree_map(lambda one: one.to(to) if isinstance(one, torch.Tensor) else one, (args, kwargs))
    return self.module(*args, **kwargs)


def notes():
    if max(SIZES, default=1) == 1:
        return []
    return [f"the script trains with torch.distributed ({max(SIZES)} processes): the tape is of one of them alone, and the plan "
            "names the others"]


def run_script(path):
    """Runs a script as Python does: it lies at a path from the root (as of Python 3.9), and its first argument is what was written,
    which `runpy.run_path` would change."""
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins, __cached__=None)
    exec(code, vars(main))
