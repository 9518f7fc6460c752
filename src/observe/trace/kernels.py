"""Kernels that PyTorch chooses by the device it runs on, chosen as on a recent GPU."""

import contextlib
import importlib.util

import torch
import torch.nn.functional as F
import torch.utils.flop_counter as flop_counter

import mismatches

aten = torch.ops.aten
# What was chosen and should be known.
NOTES = set()


def is_autocast(device):
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:
        return torch.is_autocast_enabled() if device == "cuda" else torch.is_autocast_cpu_enabled()


def runs_in_mixed(device):
    """Whether autocast is on: for a GPU, of which a script on another device may ask too, or for the host where the model is there."""
    return is_autocast("cuda") or (device == "cpu" and is_autocast("cpu"))


def autocast_type(device):
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_gpu_dtype() if device == "cuda" else torch.get_autocast_cpu_dtype()


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's choice of kernel (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""
    device = query.device.type
    if is_autocast(device):
        lower = autocast_type(device)
        query, key, value = (x.to(lower) for x in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(lower)
    if query.dim() == 3:
        out = attention(*(x.unsqueeze(0) for x in (query, key, value)),
                        attn_mask if attn_mask is None or attn_mask.dim() != 3 else attn_mask.unsqueeze(0),
                        dropout_p, is_causal, scale, enable_gqa)
        return out.squeeze(0)
    mismatches.check_attention(query, key, value, attn_mask)
    half = query.dtype in (torch.float16, torch.bfloat16)
    dim = query.size(-1)
    same = key.size(-3) == query.size(-3)
    shaped = query.dim() == 4 and key.size(-3) == value.size(-3) and query.size(0) == key.size(0)
    if shaped and half and (same or enable_gqa) and attn_mask is None and dim <= 256 and value.size(-1) == dim:
        pad = -dim % 8
        if pad:
            scale = scale or dim ** -0.5
            query, key, value = (F.pad(x, (0, pad)) for x in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :dim] if pad else out
    aligned = dim % (8 if half else 4) == 0 and value.size(-1) % (8 if half else 4) == 0
    if shaped and same and aligned and query.dtype != torch.float64:
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            bias = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = bias.masked_fill_(attn_mask.logical_not(), float("-inf"))
        if attn_mask is not None and (attn_mask.stride(-1) != 1 or any(stride % 8 for stride in attn_mask.stride()[:-1])):
            # Filled up to whole groups of 8 keys (aten/src/ATen/native/transformers/attention.cpp, `preprocess_mask`).
            keys = attn_mask.size(-1)
            attn_mask = F.pad(attn_mask, (0, 8 - keys % 8))[..., :keys]
        if attn_mask is not None:
            attn_mask = attn_mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
        needs = any(x.requires_grad for x in (query, key, value)) and torch.is_grad_enabled()
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, needs, dropout_p, is_causal, scale=scale)[0]
    grouped = {"enable_gqa": enable_gqa} if enable_gqa else {}
    # Autocast has cast what comes in, and is off within (aten/src/ATen/autocast_mode.h, `WrapFunction_`).
    with torch.autocast(device, enabled=False) if is_autocast(device) else contextlib.nullcontext():
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, **grouped)[0]


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, **_):
    """One fused kernel, whose scores never are in memory: it saves what flash attention does
    (torch/_higher_order_ops/flex_attention.py)."""
    NOTES.add("flex_attention runs as one fused kernel over all pairs: what its mask leaves out is counted")
    if is_autocast(query.device.type):
        query, key, value = (x.to(autocast_type(query.device.type)) for x in (query, key, value))
    made = aten._scaled_dot_product_flash_attention(query, key, value, 0.0, False, False, scale=scale)
    return made[:2] if return_lse else made[0]


def dropout(input, p=0.5, training=True, inplace=False):
    """`native_dropout`, as on a GPU: its mask has a byte for each element."""
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.mul_(0.0) if inplace else input * 0.0
    made = torch.native_dropout(input, p, True)[0]
    return input.copy_(made) if inplace else made


def ctc_loss(log_probs, targets, input_lengths, target_lengths, *args, **kwargs):
    """Lengths on the host, which the loss copies where it needs them (aten/src/ATen/native/LossCTC.cpp, `ctc_loss`): of fake tensors
    it would divide as they are."""
    beside = lambda one: one.to(log_probs.device) if isinstance(one, torch.Tensor) else one
    return CTC(log_probs, beside(targets), beside(input_lengths), beside(target_lengths), *args, **kwargs)


CTC = torch.ctc_loss

# Fake quantization, of which PyTorch has no shape rules: its result, and a mask of a byte an element that its function saves
# (aten/src/ATen/native/quantized/cuda/FakeQuantizeCore.cu).
FAKE_QUANTIZATION = ("fake_quantize_per_tensor_affine_cachemask", "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                     "fake_quantize_per_channel_affine_cachemask")
RULES = torch.library.Library("aten", "IMPL")


def fake_quantized(x, *_):
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def add_rules():
    for name in FAKE_QUANTIZATION:
        if hasattr(aten, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            RULES.impl(name, fake_quantized, "Meta")


def install(device):
    add_rules()
    torch.ctc_loss = ctc_loss
    if hasattr(torch.backends, "mha"):
        # One kernel for a layer of an encoder without gradients, which fake tensors cannot run (torch/nn/modules/transformer.py).
        torch.backends.mha.set_fastpath_enabled(False)
    F.scaled_dot_product_attention = torch.nn.functional.scaled_dot_product_attention = attention
    if importlib.util.find_spec("torch.nn.attention.flex_attention") is not None:
        import torch.nn.attention.flex_attention as flex

        flex.flex_attention = flex_attention
    if device.name != "cuda":
        F.dropout = torch.nn.functional.dropout = torch.dropout = dropout
    # Grouped queries: each key head counts as often as it is used.
    forward, backward = flop_counter.sdpa_flop_count, flop_counter.sdpa_backward_flop_count
    grouped = lambda query, key: (*key[:1], query[1], *key[2:])
    flop_counter.sdpa_flop_count = lambda q, k, v: forward(q, grouped(q, k), grouped(q, v))
    flop_counter.sdpa_backward_flop_count = lambda g, q, k, v: backward(g, q, grouped(q, k), grouped(q, v))
    torch.autograd.set_multithreading_enabled(False)
