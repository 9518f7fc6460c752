# What a training thread does, by the functions on its stack: loading data, saving a checkpoint, evaluating, waiting.

# Calls of PyTorch that many ranks make together.
_COLLECTIVES = frozenset(
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor _all_gather_base all_gather_coalesced "
    "all_gather_object reduce_scatter reduce_scatter_tensor _reduce_scatter_base broadcast broadcast_object_list "
    "reduce gather gather_object scatter scatter_object_list all_to_all all_to_all_single barrier monitored_barrier "
    "send recv batch_isend_irecv".split()
)

# Methods that wait until the device has come so far.
_WAITING = ("item", "cpu", "tolist", "numpy", "synchronize", "wait")

# What is said where nothing better is known, and not taken for the cause of anything.
_WORK = ("forward", "backward", "optimizer")

# Files of PyTorch's folder of optimizers that hold none.
_BESIDE_OPTIMIZERS = ("optim/lr_scheduler.py", "optim/swa_utils.py")

_SAVES = ("checkpoint", "ckpt", "pretrained", "state", "model", "weights", "snapshot")
_MAY_SAVE = ("save", "checkpoint", "ckpt", "snapshot")
_EVALUATES = ("eval", "evaluate", "evaluation", "evaluator", "validate", "validation", "val", "estimate_loss")


def _words(name):
    return name.lower().strip("_").split("_")


def _activity(path, name):
    """What a function does, by its file and name: an activity and the name of the call; none of most."""
    if path.startswith(_torch_root[0]):
        return _torch_activity(path[len(_torch_root[0]) :], name)
    words = _words(name)
    if words[0] in ("save", "dump", "write") and any(word in _SAVES for word in words[1:]):
        return ("checkpoint", name)
    if path.endswith("/safetensors/torch.py") and words[0] in ("save", "load"):
        return ("checkpoint", "safetensors." + name)
    if "evaluation_loop" in path or name.strip("_") == "estimate_loss":
        return ("evaluation", name)
    if words[0] in _EVALUATES or (words[0] in ("run", "do") and words[1:2] and words[1] in _EVALUATES):
        return ("evaluation", name)
    # Figures and logs are saved as well, and activations are checkpointed: it is what it calls.
    if words[0] in _MAY_SAVE or words[-1] in _MAY_SAVE:
        return ("save", name)
    return None


def _torch_activity(path, name):
    if path == "utils/data/dataloader.py":
        return ("data", "DataLoader." + name) if name in ("__next__", "__iter__") else None
    if path == "serialization.py" and name in ("save", "load"):
        return ("checkpoint", "torch." + name)
    if path.startswith("distributed/checkpoint/") and name in ("save", "save_state_dict", "load", "async_save"):
        return ("checkpoint", "torch.distributed.checkpoint." + name)
    if path == "distributed/distributed_c10d.py" and name in _COLLECTIVES:
        return ("collective", name)
    # A scheduler's step is none of the optimizer's: it may call the script's own functions.
    if path.startswith("optim/") and name in ("step", "wrapper") and path not in _BESIDE_OPTIMIZERS:
        return ("optimizer", "optimizer.step")
    if path in ("_tensor.py", "autograd/__init__.py") and name == "backward":
        return ("backward", "backward")
    if path == "nn/modules/module.py" and name in ("_call_impl", "_wrapped_call_impl"):
        return ("forward", "forward")
    return None


# The folder of PyTorch and that of Python's own library.
_torch_root = ["?"]
_STANDARD = os.path.dirname(os.__file__) + "/"


def _is_library(path):
    return (
        "/site-packages/" in path
        or "/dist-packages/" in path
        or path.startswith((_STANDARD, _torch_root[0], "<frozen"))
        or path == __file__
    )


class _Codes:
    """What is known of functions, by their code: looked at once."""

    def __init__(self):
        self.known = {}

    def of(self, code):
        known = self.known.get(id(code))
        if known is None:
            if len(self.known) > 20000:
                self.known.clear()
            # The code itself is kept: another one will not have its id.
            known = (_activity(code.co_filename, code.co_name), _is_library(code.co_filename), code)
            self.known[id(code)] = known
        return known

def _is_work(place):
    return place[0] == "evaluating" or place[0] in _WORK


def _evaluates(frame):
    """Whether the module whose call that frame is, PyTorch's own, is in evaluation mode. Of the frame's values none is
    kept that it does not keep itself."""
    try:
        return frame.f_locals["self"].training is False
    except Exception:
        return False


def _called(code, line, instruction, direct):
    """The call that an instruction makes, as the source has it: `.item()` where it waits for the device, else
    the name; empty where the source cannot be read. What is written in Python does not wait for the device."""
    import linecache
    import re

    text = linecache.getline(code.co_filename, line)
    if hasattr(code, "co_positions"):
        positions = list(code.co_positions())[instruction // 2 : instruction // 2 + 1]
        first, last, begin, end = positions[0] if positions else (None,) * 4
        if first is None or first != last or begin is None:
            return ""
        text = linecache.getline(code.co_filename, first).encode()[begin:end].decode(errors="replace")
        waits = direct and re.search(r"\.(%s)\([^()]*\)$" % "|".join(_WAITING), text)
        named = re.match(r"([\w.]+)\(", text)
        if waits or named:
            return "." + waits.group(1) + "()" if waits else named.group(1)
        # Between two calls: what the line calls is meant.
        text = linecache.getline(code.co_filename, line)
    waits = direct and re.search(r"\.(%s)\(" % "|".join(_WAITING), text)
    return "." + waits.group(1) + "()" if waits else ""
