"""Who writes to what autograd has saved. It tells by a version of each tensor (torch/csrc/autograd/saved_variable.cpp, `unpack`), which
no hook is asked for; rules for fake tensors raise it in the place of kernels that do not write."""

import torch

from places import tensors_in


def key_of(tensor):
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None


def of(recorder, tensor):
    """How often operators wrote to a tensor's memory."""
    found = recorder.alive.get(key_of(tensor))
    return recorder.storages[found[0]].written if found is not None else 0


def count(recorder, func, args):
    for given, value in zip(func._schema.arguments, args):
        if given.alias_info is None or not given.alias_info.is_write:
            continue
        for one in tensors_in([value]):
            found = recorder.alive.get(key_of(one))
            if found is not None:
                recorder.storages[found[0]].written += 1


def marked(recorder, tensor):
    """What is saved, with the state it is in."""
    return tensor, tensor._version, of(recorder, tensor)


def checked(recorder, saved):
    """What was saved, if nobody wrote to it since."""
    tensor, version, written = saved
    if tensor._version != version and of(recorder, tensor) != written:
        reader = recorder.node.name if recorder.node else "a backward function"
        raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation: "
                           f"a tensor of {list(tensor.shape)}, which {reader} reads")
    return tensor
