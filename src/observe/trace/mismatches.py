"""What PyTorch's kernels refuse and their rules for fake tensors let pass: types that differ or that a kernel does not read, and sizes
that do not fit. A model that stops there has no step, whatever its shapes."""

import torch

aten = torch.ops.aten

# Arguments of one type (aten/src/ATen/native/LinearAlgebra.cpp, `ADDMM_META`; cuda/Blas.cpp; Convolution.cpp, `check_input_same_type`;
# TensorAdvancedIndexing.cpp; cuda/GridSampler.cu; TensorFactories.cpp, `complex`; of losses TensorIterator.cpp, `compute_types`).
ALIKE = {
    "mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1), "addmm": (0, 1, 2), "addmv": (0, 1, 2), "baddbmm": (0, 1, 2),
    "convolution": (0, 1, 2), "grid_sampler_2d": (0, 1), "grid_sampler_3d": (0, 1), "complex": (0, 1), "polar": (0, 1),
    "index_add": (0, 3), "index_add_": (0, 3), "index_copy": (0, 3), "index_copy_": (0, 3), "binary_cross_entropy": (0, 1),
    "mse_loss_backward": (1, 2), "huber_loss": (0, 1),
}
# Types of an argument that a kernel reads (Embedding.cpp; TensorAdvancedIndexing.cpp, `index_select`; cuda/NLLLoss2d.cu;
# cuda/DistanceKernel.cu; Loss.cpp, where the loss is computed in the target's memory).
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
READ = {
    "complex": (0, FLOATS[:3]), "_cdist_forward": (0, FLOATS[:2]), "binary_cross_entropy_with_logits": (1, FLOATS),
    "embedding": (1, (torch.int64, torch.int32)), "index_select": (2, (torch.int64, torch.int32)),
    "nll_loss_forward": (1, (torch.int64, torch.uint8)), "nll_loss2d_forward": (1, (torch.int64, torch.uint8)),
}
PUT = ("index_put", "index_put_")
RULES = {}
for name in (*PUT, *ALIKE, *READ):
    packet = getattr(aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        if "out" not in overload.split("_"):
            RULES[getattr(packet, overload)] = name


def named(dtype):
    return str(dtype).removeprefix("torch.")


def check(func, args):
    """Stops as the kernel does."""
    name = RULES.get(func)
    if name in PUT:
        check_put(args[0], *args[2:4])
    if name in ALIKE:
        check_alike(name, [args[at] for at in ALIKE[name] if at < len(args)])
    if name in READ:
        at, types = READ[name]
        if args[at].dtype not in types:
            raise RuntimeError(f"{name} reads a tensor of type {' or '.join(map(named, types))}, and was given {named(args[at].dtype)}")


def check_put(tensor, values, accumulates=False):
    """As `make_index_put_iterator` does (aten/src/ATen/native/TensorAdvancedIndexing.cpp)."""
    if values.dtype != tensor.dtype and not accumulates:
        raise RuntimeError("Index put requires the source and destination dtypes match, got "
                           f"{tensor.dtype} for the destination and {values.dtype} for the source.")


def check_alike(name, tensors):
    types = {one.dtype for one in tensors if isinstance(one, torch.Tensor)}
    if len(types) > 1:
        raise RuntimeError(f"{name} wants tensors of one type, and was given {' and '.join(sorted(map(named, types)))}")


def check_attention(query, key, value, mask):
    """As `validate_sdpa_input` does (aten/src/ATen/native/transformers/attention.cpp)."""
    check_alike("scaled_dot_product_attention", [query, key, value])
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(f"scaled_dot_product_attention reads a mask of type bool or {named(query.dtype)}, and was given "
                           f"{named(mask.dtype)}")


def check_mask(tensor, mask, dim):
    """A mask has the sides of what it chooses from (aten/src/ATen/native/IndexingUtils.h, `expandTensors`)."""
    sides = tuple(tensor.shape[dim:dim + mask.dim()])
    if tuple(mask.shape) != sides:
        raise IndexError(f"the shape of the mask {list(mask.shape)} does not match the shape of the indexed tensor "
                         f"{list(tensor.shape)} at dimension {dim}")
