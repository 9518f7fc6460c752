"""Real steps of rank 0 of eight under FSDP, followed tensor by tensor as measure.py does, against
tapes of the same models that know nothing of ranks: cases for `memwall validate` whose plans shard what trace_cases.py traced.

    python shard_cases.py [--cases=FILE] [--sharded=FILE] [WORD…]
    MEMWALL_CASES_DEVICE=cpu python shard_cases.py ddp

The process group is PyTorch's `fake` one: collectives move nothing and are done at once. Blocks are sharded by the module
classes that the tape has as its blocks, the rest is the root's, as `TRANSFORMER_BASED_WRAP` does (accelerate). DDP's timer asks
CUDA's driver, so its steps are fp32 ones on the host's device, and so are the tapes beside them.
"""

import gc
import json
import sys
from pathlib import Path

import trace_cases
from trace_cases import DEVICE, TYPES, Ledger, plan_of, subject_of

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import fake
import measure
import modules

RANKS = 8
FOLDER = Path(__file__).resolve().parents[1] / "truth/traced"


class Done:
    """A collective that is over."""

    def wait(self, *_):
        return True

    def is_completed(self):
        return True


def fake_ranks():
    """Eight ranks of which this is the first; collectives leave what they were given as it is."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "broadcast", "barrier"):
        setattr(dist, name, lambda *_, async_op=False, **__: Done() if async_op else None)
    for name in ("_broadcast_coalesced", "_verify_params_across_processes", "_sync_module_states"):
        for module in (dist, torch.distributed.utils, torch.distributed.fsdp._init_utils):
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: None)
    # Memory that a stream still reads counts as freed (c10/cuda/CUDACachingAllocator.cpp, `free`: allocated_bytes).
    torch.Tensor.record_stream = lambda *_: None


class ShardLedger(Ledger):
    """What FSDP frees by resizing a storage to nothing, and allocates by resizing it back, is followed too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(one, DTensor) for one in types):
            # Its own rules run the operator on this rank's part, which comes by here again.
            return NotImplemented
        return super().__torch_dispatch__(func, types, args, kwargs)

    def resized(self, storage, size):
        key = storage._cdata
        if key not in self.alive:
            return
        old, reference = self.alive[key]
        new = -(-size // measure.GRANULE) * measure.GRANULE
        self.alive[key] = (new, reference)
        self.events.append((key, new))
        self.now += new - old
        if self.now > self.peak:
            self.peak, self.at = self.now, f"{self.phase}: resize_"


def follow_resizes(ledger):
    original = torch.UntypedStorage.resize_

    def resize(storage, size):
        original(storage, size)
        ledger.resized(storage, size)

    torch.UntypedStorage.resize_ = resize
    return original


def exchanged(_, bucket):
    """DDP's own sum over ranks, which works in the bucket's memory (torch/csrc/distributed/c10d/reducer.cpp)."""
    done = torch.futures.Future()
    done.set_result(bucket.buffer().div_(RANKS))
    return done


class Reducer:
    """DDP's reducer with the buckets of its first step: it makes them again behind that one in the order in which gradients came,
    as many and as large, and reads numbers for it that nobody has."""

    def __init__(self, reducer):
        self.reducer = reducer

    def __getattr__(self, name):
        return getattr(self.reducer, name)

    def _rebuild_buckets(self):
        return False


def sharded(model, engine, mixed):
    """The model as the engine wraps it, its blocks each a unit."""
    if engine == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, exchanged)
        model.reducer = Reducer(model.reducer)
        return model
    blocks = modules.find_blocks(model)
    low = torch.bfloat16
    if engine == "fsdp2":
        mesh = dist.device_mesh.init_device_mesh(DEVICE.name, (RANKS,))
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=low) if mixed else MixedPrecisionPolicy()
        for block in blocks.values():
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)
    policy = MixedPrecision(param_dtype=low, reduce_dtype=low, buffer_dtype=low) if mixed else None
    classes = {type(block) for block in blocks.values()}
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy(classes), mixed_precision=policy,
                                    device_id=DEVICE.torch_device(), use_orig_params=True)


def followed(case, sizes, precision, engine):
    """The second step of AdamW of rank 0."""
    mode = fake.Mode(allow_non_fake_inputs=True)
    subject = subject_of(case)
    mixed = precision == "bf16-mixed"
    ledger = ShardLedger(mode, getattr(subject, "experts", 1))
    original = follow_resizes(ledger)
    try:
        with mode:
            with fake.Values(mode):
                model = subject.build().to(DEVICE.torch_device()).to(TYPES[precision])
                model.train()
                whole = list(model.parameters())
                params = sum(one.numel() for one in whole)
                del whole
                with ledger:
                    model = sharded(model, engine, mixed)
            parameters = list(model.parameters())
            optimizer = torch.optim.AdamW([one for one in parameters if one.requires_grad], lr=1e-3, foreach=True)
            batch = subject.batch(sizes, DEVICE.torch_device(), None)
            with ledger:
                for tensor in [*parameters, *model.buffers(), *batch.values()]:
                    ledger.follow(getattr(tensor, "_local_tensor", tensor).data)
                for _ in range(2):
                    gc.collect()
                    ledger.peak, ledger.phase = ledger.now, "forward"
                    with torch.autocast(DEVICE.name, dtype=torch.bfloat16, enabled=mixed):
                        loss = subject.run(model, batch)
                    ledger.phase = "backward"
                    loss.backward()
                    del loss
                    ledger.phase = "optimizer"
                    optimizer.step()
                    optimizer.zero_grad()
    finally:
        torch.UntypedStorage.resize_ = original
    print(case["name"], precision, engine, sizes, ledger.at, file=sys.stderr, flush=True)
    return {"params": params, "peak_allocated_bytes": ledger.peak}


if __name__ == "__main__":
    measure.transformers.logging.set_verbosity_error()
    fake_ranks()
    fake.install(None)
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
    beside = lambda option, name: json.load(open(options.get(option) or Path(__file__).with_name(name)))
    named = {case["name"]: case for case in beside("cases", "traced.json")}
    for name, sizes, precision, engine in beside("sharded", "sharded.json"):
        if words and not set(words) & {name, engine, precision, f"{name}-{precision}-{engine}"}:
            continue
        try:
            measured = followed(named[name], sizes, precision, engine)
        except Exception as error:
            print(f"{name} {engine}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if "debug" in options:
                raise
            continue
        # A tape beside that of trace_cases.py's cases where those are of another version of transformers.
        gathered = FOLDER / f"{name}.gathered.tape.json.gz"
        path = gathered.name if gathered.exists() else f"{name}.tape.json.gz"
        plan = plan_of(path, sizes, {"precision": precision})
        plan["cluster"] = {"num_gpus": RANKS}
        plan["distribution"] = {"engine": "ddp"} if engine == "ddp" else {"engine": engine, "sharding": "zero3"}
        print(json.dumps({"id": f"sharded-{name}-{precision}-{engine}", "group": "traced", "source": measure.SOURCE,
                          "plan": plan, "measured": measured}), flush=True)
