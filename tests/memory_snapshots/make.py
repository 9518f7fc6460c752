"""Writes the snapshots beside it, as torch.cuda.memory._dump_snapshot does: the structure is that of
torch/csrc/cuda/memory_snapshot.cpp (2.x) and of torch/cuda/memory.py in 1.13, the sizes are made up.

    python3 tests/memory_snapshots/make.py
"""

import pickle
from pathlib import Path

MIB = 1 << 20
HERE = Path(__file__).parent


def frames(*stack):
    return [{"filename": file, "name": name, "line": line} for file, name, line in stack]


TRAIN = ("/home/user/train.py", "<module>", 40)
LIB = "/usr/lib/python3/site-packages/torch/"
INIT = frames((LIB + "nn/modules/linear.py", "__init__", 106), ("/home/user/model.py", "__init__", 12), TRAIN)
BACKWARD = frames((LIB + "autograd/graph.py", "_engine_run_backward", 823), (LIB + "_tensor.py", "backward", 581), TRAIN)
STATES = frames((LIB + "optim/adamw.py", "_init_group", 155), (LIB + "optim/adamw.py", "step", 205), TRAIN)
MLP = frames(
    (LIB + "nn/modules/linear.py", "forward", 125),
    (LIB + "nn/modules/module.py", "_call_impl", 1762),
    ("/home/user/model.py", "MLP.forward", 20),
    (LIB + "nn/modules/module.py", "_call_impl", 1762),
    TRAIN,
)
LOSS = frames((LIB + "nn/functional.py", "cross_entropy", 3494), ("/home/user/model.py", "forward", 31), TRAIN)


def block(address, size, state, stack=(), requested=None):
    return {
        "address": address,
        "size": size,
        "requested_size": size if requested is None else requested,
        "state": state,
        "frames": stack,
    }


def segment(address, kind, blocks):
    held = [entry for entry in blocks if entry["state"] == "active_allocated"]
    return {
        "device": 0,
        "address": address,
        "total_size": sum(entry["size"] for entry in blocks),
        "allocated_size": sum(entry["size"] for entry in held),
        "active_size": sum(entry["size"] for entry in blocks if entry["state"] != "inactive"),
        "requested_size": sum(entry["requested_size"] for entry in held),
        "stream": 0,
        "segment_type": kind,
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


BASE = 0x7F0000000000
SEGMENTS = [
    segment(
        BASE,
        "large",
        [
            block(BASE, 16 * MIB, "active_allocated", INIT, 16 * MIB - 100),
            block(BASE + 16 * MIB, 16 * MIB, "active_allocated", BACKWARD),
            block(BASE + 32 * MIB, 8 * MIB, "inactive"),
        ],
    ),
    segment(
        BASE + 64 * MIB,
        "large",
        [
            block(BASE + 64 * MIB, 8 * MIB, "active_allocated", STATES),
            block(BASE + 72 * MIB, 8 * MIB, "active_allocated", STATES),
            block(BASE + 80 * MIB, 4 * MIB, "inactive"),
        ],
    ),
    segment(
        BASE + 96 * MIB,
        "small",
        [
            block(BASE + 96 * MIB, MIB, "active_allocated", MLP),
            block(BASE + 97 * MIB, MIB // 2, "active_allocated", LOSS),
            block(BASE + 97 * MIB + MIB // 2, MIB // 4, "active_awaiting_free", MLP),
            block(BASE + 97 * MIB + 3 * MIB // 4, MIB // 4, "inactive"),
        ],
    ),
    segment(BASE + 128 * MIB, "large", [block(BASE + 128 * MIB, 20 * MIB, "inactive")]),
]

TRACE = [
    {"action": "segment_alloc", "addr": BASE, "size": 40 * MIB, "stream": 0, "time_us": 1, "frames": INIT},
    {"action": "alloc", "addr": BASE, "size": 16 * MIB, "stream": 0, "time_us": 2, "frames": INIT},
    {"action": "oom", "device_free": MIB, "size": 32 * MIB, "stream": 0, "time_us": 3, "frames": MLP},
]

SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0}

snapshot = {
    "segments": SEGMENTS,
    "device_traces": [TRACE],
    "allocator_settings": SETTINGS,
    "external_annotations": [],
}
(HERE / "training.pickle").write_bytes(pickle.dumps(snapshot))

# 1.13: the list of segments alone, frames in a block's history.
old = [
    {
        "device": 0,
        "address": BASE,
        "total_size": 20 * MIB,
        "allocated_size": 12 * MIB,
        "active_size": 12 * MIB,
        "stream": 0,
        "segment_type": "large",
        "blocks": [
            {"size": 12 * MIB, "state": "active_allocated", "history": [{"addr": BASE, "real_size": 12 * MIB, "frames": INIT}]},
            {"size": 8 * MIB, "state": "inactive"},
        ],
    }
]
(HERE / "release_1_13.pickle").write_bytes(pickle.dumps(old, protocol=2))


class Hostile:
    def __reduce__(self):
        return (open, ("/tmp/memwall-was-here", "w"))


(HERE / "hostile.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": Hostile()}))
