"""Python's collector of circular references stays out of a traced pass: it would walk all that the pass has made again and again, and
find next to nothing, as what a pass makes goes when nobody has a name for it."""

import contextlib
import functools
import gc


@contextlib.contextmanager
def paused():
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def without(function):
    """The function, run without it."""
    @functools.wraps(function)
    def run(*args, **kwargs):
        with paused():
            return function(*args, **kwargs)

    return run
