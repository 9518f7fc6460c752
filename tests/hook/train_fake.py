"""Steps of a made-up optimizer. Arguments: how many, seconds each, exit code."""

import importlib.util
import sys
import time

# Libraries ask like this before they import it.
assert importlib.util.find_spec("torch") is not None

import torch

steps, seconds, code = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])


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
sys.exit(code)
