"""Steps of a millisecond of work in Python, for `tests/bench/hook.rs`: prints the mean microseconds of processor time and
of time that a step took. The argument: how many."""

import sys
import time

import torch


def work(rounds):
    total = 0
    for number in range(rounds):
        total += number * number
    return total


optimizer = torch.optim.Optimizer([torch.Parameter(10)])
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
steps = int(sys.argv[1])
# What the first messages load is paid once.
for _ in range(500):
    work(rounds)
    optimizer.step()
processor, wall = time.process_time(), time.perf_counter()
for _ in range(steps):
    work(rounds)
    optimizer.step()
print((time.process_time() - processor) / steps * 1e6, (time.perf_counter() - wall) / steps * 1e6)
