"""How the trace of a script ends: where its step is traced or refused, in whichever thread, and whatever the script catches.
What would go on behind a bare `except:` is no training."""

import multiprocessing
import os
import sys
import threading
import traceback

import torch
from torch.utils._python_dispatch import _disable_current_modes, _push_mode

from sources import Refused

# Most operators that may fail while a script catches the errors.
MOST_FAILED = 50


class Ending:
    """Ends the process, with the tape or with the reason why there is none."""

    def __init__(self, sandbox, conclude):
        self.sandbox, self.conclude, self.out = sandbox, conclude, sys.stdout
        # The first error that ended a thread, or that an operator gave and the script may have caught.
        self.error, self.failed = None, 0
        self.threads = []

    def __enter__(self):
        # What is refused is refused: a script that catches the error trains nothing.
        Refused.ends = self.refuse
        return self

    def __exit__(self, *_):
        Refused.ends = None
        return False

    def leave(self, make):
        """Concludes with what `make` gives or raises. It does not return."""
        code = 1
        try:
            Refused.ends, sys.stdout = None, self.out
            with _disable_current_modes():
                self.sandbox.__exit__()
                code = self.conclude(make)
        except BaseException:
            traceback.print_exc()
        finally:
            for child in multiprocessing.active_children():
                child.terminate()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def refuse(self, error):
        def make():
            raise error

        self.leave(make)

    def fail(self, error):
        """An operator failed."""
        self.failed += 1
        self.error = self.error or error
        if self.failed >= MOST_FAILED:
            self.refuse(error)

    # Threads

    def follow_threads(self, modes):
        """Starts each thread of the script in `modes`, which else are this thread's alone."""
        start, ending = threading.Thread.start, self

        def started(thread):
            run = thread.run
            thread.run = lambda: ending.run_in(modes, run)
            ending.threads.append(thread)
            start(thread)

        threading.Thread.start = started

    def run_in(self, modes, run):
        # They stay until the thread ends: entered and left beside others, a mode would not know which of them it is.
        for mode in modes:
            _push_mode(mode)
        if hasattr(torch._C, "_set_only_lift_cpu_tensors"):
            torch._C._set_only_lift_cpu_tensors(True)
        torch.autograd.set_multithreading_enabled(False)
        try:
            run()
        except Exception as error:
            self.error = self.error or error

    def join(self):
        """Waits for what the script left running."""
        for thread in self.threads:
            if not thread.daemon:
                thread.join()
