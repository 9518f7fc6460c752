"""Steps of a made-up optimizer. Arguments: how many, seconds each, exit code or `out-of-memory`."""

import importlib.util
import sys
import time

# Libraries ask like this before they import it.
assert importlib.util.find_spec("torch") is not None

import torch

steps, seconds, code = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]


class Layer(torch.nn.Module):
    def __init__(self):
        self.weight = torch.Parameter(10)

    def forward(self, x):
        saving = torch.autograd.graph.saved_tensors_hooks.current
        if saving is not None:
            saving.pack(torch.Tensor(6))
        return x


class Model(torch.nn.Module):
    def __init__(self):
        self.layer = Layer()
        self.head = torch.Parameter(5)

    def forward(self, x):
        return self.layer(x)


model = Model()
optimizer = torch.optim.Optimizer(model.parameters())
for step in range(steps):
    model(torch.Tensor(3))
    optimizer.step()
    time.sleep(seconds)
print("trained", steps, getattr(sys, "marked", "unmarked"))


class OutOfMemoryError(RuntimeError):
    pass


if code == "out-of-memory":
    # As CUDACachingAllocator.cpp words it.
    raise OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. "
        "Including non-PyTorch memory, this process has 78.10 GiB memory in use. Of the allocated memory 70.00 GiB is "
        "allocated by PyTorch, and 6.50 GiB is reserved by PyTorch but unallocated."
    )
sys.exit(int(code))
