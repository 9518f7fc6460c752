"""Where images and sound stand in a text: as many places are set in its mask as numbers were made of them."""

import torch
from torch._subclasses.fake_tensor import FakeTensor

# How many numbers were made of the images that stand in a text, and how wide each is: as many places the text's mask has.
PLACES = []
# Models that have one of these put images in the places of their text.
PLACED = {"get_placeholder_mask", "image_to_text_projection", "inputs_merger"}

# Where a model's output has keys and values, or states (transformers/modeling_outputs.py).
CACHES = ("past_key_values", "cache_params", "mems", "state")


def follow_places(model):
    """Notes what a model makes of images and sound before it puts that in the places of its text."""
    for part in model.modules():
        for name in ("get_image_features", "get_video_features", "get_audio_features"):
            if callable(getattr(part, name, None)) and (PLACED & set(dir(part))):
                setattr(part, name, noting_places(getattr(part, name)))
                # Some widen it behind that (transformers/models/llama4/modeling_llama4.py).
                projector = getattr(part, "multi_modal_projector", None)
                if isinstance(projector, torch.nn.Module):
                    projector.forward = noting_places(projector.forward)


ROWS = torch.Tensor.__iter__


def all_rows(tensor):
    """A list of what each image gives, which is put together again at once, as one: else every batch ran other operators."""
    return iter([tensor.flatten(0, 1)]) if tensor.dim() == 3 and isinstance(tensor, FakeTensor) else ROWS(tensor)


def noting_places(features):
    def noted(*args, **kwargs):
        torch.Tensor.__iter__ = all_rows
        try:
            made = features(*args, **kwargs)
        finally:
            torch.Tensor.__iter__ = ROWS
        first = made[0] if isinstance(made, (tuple, list)) and made and isinstance(made[0], (tuple, list)) else made
        tensors = [one for one in tensors_in(first) if one.is_floating_point()]
        if tensors:
            PLACES[:] = sum(one.numel() for one in tensors), tensors[0].size(-1)
        return made

    return noted


def places_of(mask):
    """How many elements of a mask are set: all, or as many as an image has in a text."""
    if PLACES and mask.dim() == 3 and mask.size(-1) == PLACES[1]:
        return min(PLACES[0], mask.numel())
    if PLACES and mask.dim() == 2:
        return min(PLACES[0] // PLACES[1], mask.numel())
    return mask.numel()


def rows_written(args):
    """How many rows are put into the places of a mask: as many as it has, also when their gradients are read there. None where one
    row is for all."""
    values, masks = args[2] if len(args) > 2 else None, [one for one in args[1] if one is not None]
    if len(masks) != 1:
        return None
    if isinstance(values, torch.Tensor) and values.dim() == args[0].dim() - masks[0].dim() + 1 and values.size(0) > 1:
        masks[0]._memwall_rows = values.size(0)
    return getattr(masks[0], "_memwall_rows", None)


def tensors_in(*trees):
    """Tensors in nested arguments, in the order of torch.utils._pytree, which takes most of a dispatch's time."""
    found = []
    for tree in trees:
        if isinstance(tree, torch.Tensor):
            found.append(tree)
        elif isinstance(tree, (list, tuple)):
            for one in tree:
                if isinstance(one, torch.Tensor):
                    found.append(one)
                elif isinstance(one, (list, tuple, dict)):
                    found.extend(tensors_in(one))
        elif isinstance(tree, dict):
            found.extend(tensors_in(*tree.values()))
    return found


def caches_of(made):
    """Tensors of keys and values, or of states, that a model hands out for later tokens."""
    named = made if isinstance(made, dict) else getattr(made, "__dict__", {})
    tensors, todo, known = [], [named.get(key) for key in CACHES], set()
    while todo:
        one = todo.pop()
        if id(one) in known or len(known) > 100_000:
            continue
        known.add(id(one))
        if isinstance(one, torch.Tensor):
            tensors.append(one)
        elif isinstance(one, dict):
            todo.extend(one.values())
        elif isinstance(one, (list, tuple)):
            todo.extend(one)
        elif "cache" in type(one).__module__ or "cache" in type(one).__name__.lower():
            todo.extend(vars(one).values())
    return tensors


def is_symbolic(value):
    """Whether it stands for a tensor while a library finds out shapes: nothing that it lies on has a name (Keras's `KerasTensor`)."""
    kind = type(value)
    return hasattr(kind, "shape") and hasattr(kind, "dtype") and not hasattr(kind, "device") and not hasattr(kind, "__array_interface__")
