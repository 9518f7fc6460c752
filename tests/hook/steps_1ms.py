"""Steps of a millisecond of work in Python, for `tests/bench/hook.rs`. Prints what share of the time went to the
optimizer's step, which does nothing but call the hook, and what share of a processor to all threads but this one. The
argument: how many steps."""

import sys
import time

import torch

optimizer = torch.optim.Optimizer([torch.Parameter(10)])


def steps(count):
    inside = 0.0
    for _ in range(count):
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass
        began = time.perf_counter()
        optimizer.step()
        inside += time.perf_counter() - began
    return inside


# What the first messages load is paid once.
steps(1000)
wall, others = time.perf_counter(), time.process_time() - time.thread_time()
inside = steps(int(sys.argv[1]))
others = time.process_time() - time.thread_time() - others
wall = time.perf_counter() - wall
print(inside / wall, others / wall)
