"""Two ranks with the stand-in for PyTorch, joined by a pipe as by a connection. Arguments: the pipe's path, what rank 1 does
after its steps (`kill`, `exit`, `raise`). Rank 0 notices that rank 1 is gone, and fails for that."""

import os
import signal
import sys
import time

import torch

pipe, what = sys.argv[1], sys.argv[2]
is_first = os.environ["RANK"] == "0"
connection = open(pipe, "rb" if is_first else "wb")
optimizer = torch.optim.Optimizer([torch.Parameter(10)])
for _ in range(12):
    optimizer.step()
    time.sleep(0.05)
if is_first:
    connection.read()
    # Two that end within a moment nobody can tell apart.
    time.sleep(0.3)
    raise RuntimeError("Connection closed by peer")
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "exit":
    os._exit(7)
raise ValueError("a bad batch")
