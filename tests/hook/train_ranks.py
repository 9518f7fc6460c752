"""A small training of two ranks over gloo. Arguments: what rank 1 does, and how many steps.

`kill` and `exit` end it in the middle, `raise` does by an exception, `stand` has it stand still, `done` has it end as it
should, `late` computes in every second step, `early` ends it before its first step. The lines have marks."""

import os
import signal
import sys
import time

import torch

WHAT, STEPS = sys.argv[1], int(sys.argv[2])
LATE_S = 0.15
TEXT = "a few words " * 1000
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters())


def tokenize():
    end = time.perf_counter() + LATE_S
    words = 0
    while time.perf_counter() < end:
        words += len(TEXT.split())  # mark: late
    return words


if WHAT == "early" and rank == 1:
    os._exit(5)
for step in range(STEPS):
    if WHAT == "late" and rank == 1 and step % 2 == 1:
        tokenize()
    if rank == 1 and step == STEPS // 2:
        if WHAT == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if WHAT == "exit":
            os._exit(7)
        if WHAT == "raise":
            raise ValueError("a bad batch")
        if WHAT == "done":
            break
        while WHAT == "stand":
            time.sleep(1)  # mark: stand
    model(torch.randn(16, 64)).pow(2).mean().backward()
    for parameter in model.parameters():
        torch.distributed.all_reduce(parameter.grad)  # mark: waits
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
