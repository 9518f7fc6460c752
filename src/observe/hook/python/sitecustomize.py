"""Loaded by every Python that `memwall run` starts: puts the hook in place, then lets the
`sitecustomize` that would have been loaded have its turn."""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

try:
    import memwall_hook

    memwall_hook.install()
except Exception:
    pass


def _chain():
    import importlib.machinery
    import importlib.util

    rest = [path for path in sys.path if os.path.abspath(path or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_chain()
