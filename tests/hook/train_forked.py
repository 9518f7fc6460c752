"""A rank that was forked by a process which makes no step itself, as accelerate's notebook_launcher does; after its
first step it forks a child of its own, as data loaders are."""

import os
import time

import torch

rank = os.fork()
if rank == 0:
    optimizer = torch.optim.Optimizer([torch.Parameter(10)])
    optimizer.step()
    if os.fork() == 0:
        optimizer.step()
        time.sleep(3)
        os._exit(0)
    for _ in range(250):
        optimizer.step()
        time.sleep(0.02)
    os._exit(0)
print("rank", rank, flush=True)
os.waitpid(rank, 0)
