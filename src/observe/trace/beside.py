"""Work in a second process, where this machine has a second core and a process can be forked."""

import ctypes
import os
import pickle
import select
import signal
import sys
import time
import warnings

# A child that takes so many times as long as this process took is given up; less than so many seconds nobody minds.
MOST_TIMES = 4
LEAST = 60.0
DIES_WITH_PARENT = 1  # linux/prctl.h, PR_SET_PDEATHSIG


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Beside:
    """`work` in a forked process. It must start before the first backward pass of this one: PyTorch's engine lives in one
    process (torch/csrc/autograd/engine.cpp, `track_bad_autograd_forks`)."""

    def __init__(self, work, wanted=True):
        self.child, self.started = None, time.time()
        if not wanted or not sys.platform.startswith("linux") or cores() < 2:
            return
        self.end, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.child = os.fork()
        if self.child:
            os.close(write)
            return
        status = 1
        try:
            os.close(self.end)
            ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
            import torch

            # Threads of OpenMP do not live through a fork.
            torch.set_num_threads(1)
            with open(write, "wb") as out:
                pickle.dump(work(), out)
            status = 0
        finally:
            os._exit(status)

    def result(self):
        """What the work gave; none where there is none, and it is to be done here."""
        if self.child is None:
            return None
        patience = max(LEAST, MOST_TIMES * (time.time() - self.started))
        try:
            if not select.select([self.end], [], [], patience)[0]:
                return None
            with open(self.end, "rb", closefd=False) as read:
                return pickle.load(read)
        except (EOFError, OSError, pickle.UnpicklingError):
            return None
        finally:
            self.stop()

    def stop(self):
        if self.child is not None:
            os.close(self.end)
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        return False
