"""What of a trace goes into the tape beside its segments."""

import torch

import absent
import boxes
import checkpoints
import foreign_kernels
import kernels
import names
import tape


def laid_out(device, answered, subject, model, axes, points, fitter, traces, notes, varies, fixed):
    """The tape of what was traced."""
    notes.extend([*absent.NOTES, *foreign_kernels.LAUNCHES.notes(), *sorted(kernels.NOTES), *boxes.ANSWERED])
    if device.name == "cuda" and device.library is not None and any(isinstance(one, torch.nn.RNNBase) for one in model.modules()):
        notes.append("recurrent layers of torch.nn ran step by step; on a GPU cuDNN runs them, whose own reserve is not in the tape")
    if answered:
        asked = sorted(answered.items(), key=lambda pair: -pair[1])
        notes.append(f"values were asked for and answered evenly, numbers as 1: {', '.join(name for name, _ in asked[:3])}")
    sides = lambda one: [fitter.index([one.side(side, point) for point in points]) for side in one.sides]
    return {
        "memwall_tape": tape.VERSION if checkpoints.COUNTS.recomputes() else tape.WITHOUT_RECOMPUTING, "pass": "forward" if subject.answers else "step",
        "name": subject.name, "source": subject.source,
        "versions": {"torch": torch.__version__, **getattr(subject, "versions", {})},
        "device": f"{device.name} ({device.how})", "differences": device.differences, "notes": notes,
        "parameters": count(model), "output_layer": names.output_layer(model),
        "shared_layers": names.shared_layers(model), "axes": axes, "points": points,
        "terms": [[term.get(axis, 0) for axis in axes] for term in fitter.terms],
        "image": subject.side if "I" in axes else None, "image_varies": bool(varies and "I" in axes),
        "longest": subject.longest, "fixed": fixed,
        "sizes": fitter.polynomials, "unfit": fitter.unfit,
        "inputs": [[one.name.lstrip("_"), names.element_of(one.dtype)[0], int(one.dtype.is_floating_point), sides(one)]
                   for one in subject.inputs],
        "buffers": buffers_of(model),
        "traces": traces, **({"recomputes": True} if checkpoints.COUNTS.recomputes() else {}),
    }


def buffers_of(model):
    """Buffers: type, elements, how many alike."""
    found = {}
    for buffer in model.buffers():
        key = (names.element_of(buffer.dtype)[0], buffer.numel())
        found[key] = found.get(key, 0) + 1
    return [[dtype, numel, times] for (dtype, numel), times in sorted(found.items())]


def count(model):
    return {"total": sum(p.numel() for p in model.parameters()),
            "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "tensors": sum(1 for _ in model.parameters())}
