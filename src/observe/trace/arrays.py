"""What tensors that have no values become: arrays of NumPy, as of images that a data set draws and measures that a script keeps, and
tensors of a library's own class."""

import held
import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from sources import Refused

# Most elements of one array.
MOST = 1 << 28
NUMPY, SUBCLASS = torch.Tensor.numpy, torch.Tensor.as_subclass


def install():
    # `numpy.asarray` asks for it as well (torch/_tensor.py, `__array__`).
    torch.Tensor.numpy = array_of
    # A fake tensor is of one class alone, whichever its owner wants (fastai/torch_core.py, `cast`).
    torch.Tensor.as_subclass = lambda tensor, kind: tensor if isinstance(tensor, FakeTensor) else SUBCLASS(tensor, kind)


def array_of(tensor, *, force=False):
    """`Tensor.numpy`, in which every element is what `item` answers for one. PyTorch has its own words for tensors that
    have no array: those of a GPU, and those that require a gradient."""
    host = tensor.detach().cpu() if force else tensor
    if not isinstance(host, FakeTensor) or host.requires_grad or host.device.type != "cpu":
        return NUMPY(tensor, force=force)
    values = held.value_of(host)
    if values is not None:
        return NUMPY(values)
    if host.numel() > MOST:
        raise Refused(f"an array of {host.numel():,} numbers is made of a tensor without values: trace a smaller batch")
    value = host[(0,) * host.dim()].item() if host.numel() else 0
    with unset_fake_temporarily():
        return NUMPY(torch.full(tuple(host.shape), value, dtype=host.dtype, device="cpu"))
