"""Moving the parameters of a module that has no values."""

import torch
import torch._subclasses.fake_tensor as fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

IN_KERNEL = getattr(fake_tensor, "in_kernel_invocation_manager", None)
# What was moved, while a module and its parts are.
MOVED = []


def move(self, fn, recurse=True):
    """`Module._apply` for fake parameters, which PyTorch cannot swap from 2.10 on: tied ones stay tied."""
    MOVED.append(MOVED[-1] if MOVED else {})
    try:
        return move_parameters(self, fn, recurse, MOVED[-1])
    finally:
        MOVED.pop()


def move_parameters(self, fn, recurse, memo):
    def moved(tensor, parameter):
        made = memo.get(id(tensor))
        if made is None:
            with torch.no_grad():
                made = again(fn, tensor, memo) if parameter else fn(tensor)
            if parameter and made is not tensor:
                made = as_parameter(made, tensor)
                made.__dict__.update({key: value for key, value in tensor.__dict__.items() if key not in FAKES})
            # The original is kept, so that its id is not given to another.
            memo[id(tensor)], memo[("kept", id(tensor))] = made, tensor
            if parameter and made is not tensor:
                # An optimizer that has the original trains what was made of it.
                tensor._memwall_moved = made
        return made

    if recurse:
        for child in self.children():
            # Some keep more than parameters and buffers (torch/nn/modules/rnn.py; torchmetrics, metric.py).
            child._apply(fn)
    for key, parameter in self._parameters.items():
        if parameter is not None:
            self._parameters[key] = moved(parameter, True)
    for key, buffer in self._buffers.items():
        # A sparse one stays where it is, and an operator that reads it is refused (openai-whisper's `alignment_heads`).
        if buffer is not None and buffer.layout is torch.strided:
            self._buffers[key] = moved(buffer, False)
    return self


def again(fn, tensor, memo):
    """What `Module.to` makes of a parameter: of one like another it makes the same, which is not asked for again."""
    if getattr(fn, "__qualname__", "") != "Module.to.<locals>.convert" or type(tensor) is not FakeTensor or IN_KERNEL is None:
        return fn(tensor)
    key = tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device
    form = memo.get(key)
    if form is None:
        made = fn(tensor)
        if type(made) is FakeTensor and made is not tensor and made.untyped_storage().nbytes() == made.numel() * made.itemsize:
            memo[key] = made.shape, made.stride(), made.dtype, made.fake_device
        return made
    shape, stride, dtype, device = form
    with IN_KERNEL(tensor.fake_mode):
        meta = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return FakeTensor(tensor.fake_mode, meta, device)


def as_parameter(made, tensor):
    """A parameter out of what stands nowhere else (torch/nn/parameter.py, `Parameter.__new__`)."""
    if type(made) is not FakeTensor or made._base is not None or made.requires_grad:
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    made.requires_grad_(tensor.requires_grad)
    made._is_param = True
    return made


# What a fake tensor keeps in its own attributes.
FAKES = {"fake_device", "fake_mode", "constant", "real_tensor", "pytype", "dispatch_keys", "_real_tensor", "item_memo",
         "nonzero_memo", "unique_memo", "unique_consecutive_memo", "nested_int_memo", "memwall_held"}
FAKES |= {f"_{name}" for name in FAKES}
