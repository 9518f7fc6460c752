"""What PyTorch's kernels reach on this machine, for MemWall to fit its curves to.

`memwall bench` starts it. Several ranks, on one node or many, measure collectives as well:

    torchrun --nnodes 2 --nproc-per-node 8 memwall_bench.py --output rows.jsonl

Each line of the output is one measurement. Nothing is written anywhere else. PyTorch 1.13 or later.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

# What one element takes.
BYTES = {"fp8": 1, "bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4}


class Bench:
    """The device, and where the rows go."""

    def __init__(self, device, seconds, write):
        self.device = device
        self.on_gpu = device.type == "cuda"
        self.write = write
        # About as many measurements as there are.
        self.each = seconds / (120.0 if self.on_gpu else 145.0)
        self.spreads = []
        self.clocks = []
        self.asked = float("-inf")
        # Written between matmuls, as other kernels of a step are.
        self.other = torch.ones((1 << 26) if self.on_gpu else (1 << 20), device=device)
        # One thread's processor time leaves out what other programs take; several threads wait for each other.
        alone = not self.on_gpu and torch.get_num_threads() == 1
        self.clock = time.thread_time if alone else time.perf_counter
        # Larger than a CPU's caches: in a step, what a kernel reads was written many kernels ago.
        self.caches = None if self.on_gpu else torch.ones(1 << 24)

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def times(self, run, launches=1, cold=False):
        """Seconds of one run, several times over; `cold`: a CPU's caches hold nothing of it."""
        cold = cold and not self.on_gpu
        run()
        self.wait()
        begun = time.perf_counter()
        run()
        self.wait()
        took = max(time.perf_counter() - begun, 1e-7)
        # A sample of at least 2 ms on a GPU, so that waiting for the host is no part of it.
        inner = max(1, min(2000, int(2e-3 / took))) if self.on_gpu else 1 if cold else max(1, int(5e-4 / took))
        until = time.perf_counter() + self.each
        samples = []
        while len(samples) < 3 or (time.perf_counter() < until and len(samples) < 200):
            if self.on_gpu:
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                for _ in range(inner):
                    run()
                last.record()
                last.synchronize()
                samples.append(first.elapsed_time(last) * 1e-3 / inner)
            else:
                if cold:
                    self.caches.mul_(1.0)
                begun = self.clock()
                for _ in range(inner):
                    run()
                samples.append((self.clock() - begun) / inner)
        self.look_at_clock()
        return sorted(sample / launches for sample in samples)

    def measured(self, run, launches=1, cold=False):
        """The median of a GPU. Of a CPU the quickest tenth's: what other programs take is no property of it."""
        samples = self.times(run, launches, cold)
        middle = samples[len(samples) // 2]
        high = samples[(len(samples) * 9) // 10]
        low = samples[len(samples) // 10]
        self.spreads.append((high - low) / middle)
        return middle if self.on_gpu else low

    def row(self, kernel, **figures):
        self.write({"kernel": kernel, **figures})

    def look_at_clock(self):
        """SM clock and power now and then, where the driver's tool is there to ask."""
        if self.on_gpu and time.perf_counter() - self.asked > 5.0:
            self.asked = time.perf_counter()
            self.clocks.extend(smi("clocks.sm"))


def smi(what):
    """Numbers of nvidia-smi; none without it."""
    index = str(torch.cuda.current_device())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        index = visible.split(",")[int(index)]
    command = ["nvidia-smi", "-i", index, "--query-gpu=" + what, "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
        return [float(part) for part in told.replace(",", " ").split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
