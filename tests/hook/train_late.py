"""A small training whose every fifth step is made late. Arguments: by what, and how many steps. The line to be
named has a mark at its end: `tests/observe/hook/places.rs` looks for it."""

import gc
import os
import sys
import tempfile
import time

import torch

WHAT, STEPS = sys.argv[1], int(sys.argv[2])
LATE_S = 0.15
torch.manual_seed(0)
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if WHAT == "data" and index % 5 == 4:
            time.sleep(LATE_S)  # mark: data
        return torch.randn(64)


def evaluate(model):
    model.eval()
    end = time.perf_counter() + LATE_S
    with torch.no_grad():
        while time.perf_counter() < end:
            model(torch.randn(32, 64))
    model.train()


def save(model, folder):
    end = time.perf_counter() + LATE_S
    while time.perf_counter() < end:
        torch.save({"model": model.state_dict(), "more": ballast}, os.path.join(folder, "checkpoint.pt"))


def tokenize(text):
    end = time.perf_counter() + LATE_S
    words = 0
    while time.perf_counter() < end:
        words += len(text.split())  # mark: code
    return words


if WHAT == "collective":
    torch.distributed.init_process_group("gloo")
rank = int(os.environ.get("RANK", "0"))
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(Samples(), batch_size=1)
ballast = torch.zeros(1 << 22)
value = torch.zeros(1)
kept = [[number] for number in range(1500000)] if WHAT == "gc" else []
folder = tempfile.mkdtemp()
for step, batch in enumerate(loader):
    late = step % 5 == 4
    rows = 8192 if WHAT == "batch" and late else 16
    loss = (model(batch.expand(rows, 64)) ** 2).mean()  # mark: batch
    loss.backward()
    if WHAT == "collective" and step == 60 and rank == 1:
        time.sleep(1000)  # mark: absent
    if WHAT == "collective":
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)  # mark: collective
    optimizer.step()
    optimizer.zero_grad()
    if WHAT == "synchronization" and late:
        end = time.perf_counter() + LATE_S
        while time.perf_counter() < end:
            total = sum(value.item() for _ in range(10000))  # mark: synchronization
    if WHAT == "checkpoint" and late:
        save(model, folder)  # mark: checkpoint
    if WHAT == "evaluation" and late:
        evaluate(model)  # mark: evaluation
    if WHAT == "gc" and late:
        gc.collect()  # mark: gc
    if WHAT == "code" and late:
        tokenize("a few words " * 1000)
    time.sleep(0.002 if WHAT == "healthy" else 0.01)
    loss.item()
print("trained", STEPS)
