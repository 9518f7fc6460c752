"""How many boxes torchvision's detectors keep where values decide it (torchvision 0.22, models/detection and ops): as many as may be.
What is behind then has its usual size: samplers fill their rows, and levels of a pyramid get equal shares."""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
DETECTORS = tuple(os.path.join(os.sep, "torchvision", *part, "") for part in (("models", "detection"), ("ops",)))
# What is to be said of the answers that were given.
ANSWERED = []
NOTE = ("boxes are picked by their values: every stage keeps as many as it may; masks and points of bodies are made for a quarter of "
        "the samples, an upper bound: a batch with few objects takes less")


def asking():
    """The frame of a detector that asks, if one does."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((HERE, TORCH)):
        frame = frame.f_back
    return frame if frame is not None and any(part in frame.f_code.co_filename for part in DETECTORS) else None


def fraction_of(frame):
    """The share of an image's samples that lie on objects (roi_heads.py, `RoIHeads.__init__`)."""
    while frame is not None and any(part in frame.f_code.co_filename for part in DETECTORS):
        sampler = getattr(frame.f_locals.get("self"), "fg_bg_sampler", None)
        if sampler is not None:
            return sampler.positive_fraction
        frame = frame.f_back
    return 1.0


def rows_of(mask):
    """How many elements of a mask hold; none where no detector asks."""
    frame = asking()
    if frame is None:
        return None
    ANSWERED[:] = [NOTE]
    file, function = os.path.basename(frame.f_code.co_filename), frame.f_code.co_name
    if mask.dim() == 2:
        # The best anchor of each box (_utils.py, `Matcher.set_low_quality_matches_`).
        return mask.size(0)
    if file == "poolers.py":
        share, more = divmod(mask.numel(), frame.f_locals["num_levels"])
        return share + (frame.f_locals["level"] < more)
    if file == "roi_heads.py" and function in ("forward", "fastrcnn_loss"):
        return int(mask.numel() * fraction_of(frame))
    return mask.numel()


def suppressed(func, args):
    """All boxes, where an operator drops those that overlap others; none for any other operator."""
    if func._schema.name != "torchvision::nms":
        return None
    return args[0].new_empty((args[0].size(0),), dtype=torch.int64)
