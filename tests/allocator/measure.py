"""Follows a training step of a real PyTorch model storage by storage, without a GPU.

Fake tensors on device `cuda` run the real modules, the real autograd engine, autocast's CUDA
lists with its weight cache, and the real optimizers; only the kernels do not run. Each storage
is followed from its allocation to its release and rounded up to 512 bytes, as PyTorch's CUDA
caching allocator rounds; replay.py plays both steps through that allocator for what it reserves. The loop is that of transformers' Trainer: only the loss is kept, and
gradients are set to None. The second step is measured, so that the optimizer's states exist.

    pip install torch==2.9.1 transformers==4.57.6 peft torchvision
    python measure.py | jq -s . > ../truth/ours.json

The plans are in plans.json; arguments choose those whose id holds one of them. Where there is no
GPU, build no_gpu.so first (src/observe/trace/no_gpu.cpp says how). What differs from a GPU: no library workspaces,
no CUDA context, no scratch inside kernels; experts are chosen evenly.
"""

import ctypes
import gc
import json
import os
import sys
import weakref
from pathlib import Path

# DeBERTa's scripted functions run as they are written: TorchScript's interpreter takes no fake tensors.
os.environ.setdefault("PYTORCH_JIT", "0")

if (no_gpu := Path(__file__).with_name("no_gpu.so")).exists():
    # Before PyTorch registers hooks of its own.
    stand_in = ctypes.CDLL(str(no_gpu), mode=ctypes.RTLD_GLOBAL)
else:
    stand_in = None

import peft
import torch
import torch.nn.functional as F
import torch.utils.flop_counter as flop_counter
import transformers
import transformers.masking_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers.modeling_layers import GradientCheckpointingLayer

from replay import reserved

GRANULE = 512
aten = torch.ops.aten
ANSWERED = (aten._local_scalar_dense.default, aten.nonzero.default)


# How often a storage is held that one tensor alone has, where Python has seen it: newer versions count Python as well.
ALONE = (lambda one: torch._C._storage_Use_Count(one.untyped_storage()._cdata))(torch.empty(1, device="cpu"))


class Ledger(TorchDispatchMode):
    """Bytes alive, the most there were, and the operations that ran."""

    def __init__(self, experts=1, padded=False):
        super().__init__()
        self.experts, self.padded, self.turn = experts, padded, -1
        self.made_by_all = False
        self.alive = {}
        # Sizes as they are taken, 0 as they are given back, by storage.
        self.events = []
        # DeepSeek V2 counts each expert's tokens, and slices by those counts.
        self.each = self.slices = 0
        self.now = self.peak = self.flops = 0
        self.at = self.phase = ""

    def follow(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.alive:
            return
        size = -(-storage.size() // GRANULE) * GRANULE
        self.events.append((key, size))
        self.alive[key] = (size, weakref.ref(storage, lambda _, key=key: self.release(key)))
        self.now += size

    def release(self, key):
        size, _ = self.alive.pop(key, (0, None))
        self.events.append((key, 0))
        self.now -= size

    def in_place(self, args):
        """Whether the engine, which does not under a dispatch mode, would add to the gradient that it has
        (torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace)."""
        one, other = args[:2]
        if torch.is_grad_enabled() or not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            return False
        alike = one.shape == other.shape and one.dtype == other.dtype and aten.is_non_overlapping_and_dense(one)
        # Beside the engine's buffer this call holds it three times; a view's base holds its memory as well.
        alone = one._use_count() == 4 and torch._C._storage_Use_Count(one.untyped_storage()._cdata) == ALONE
        return alike and alone

    def answer(self, func, args):
        """What the values of a tensor decide: masks that hide nothing, and even routing."""
        of = args[0]
        if func is aten.nonzero.default:
            # The experts that have tokens, then the tokens of each.
            rows = self.experts if of.dim() == 1 else of.numel() // self.experts
            return of.new_empty((rows, of.dim()), dtype=torch.int64)
        if of.dtype == torch.bool:
            # Whether a mask hides nothing; whether an expert is the one that stands for nothing.
            return self.made_by_all and not self.padded
        if of.is_floating_point():
            return 1.0
        self.turn += 1
        if self.each:
            # The end of the first slice, then start and end of each other.
            at = self.turn % (2 * self.experts - 1)
            return self.each * (1 + at // 2 if at % 2 == 0 else (at + 1) // 2)
        return self.turn % self.experts

    def run(self, func, args, kwargs):
        """An operator's result, or what stands for it."""
        # On the host a fake step knows its own numbers (an optimizer's count), except those that chance makes (layer drop).
        known = func is aten._local_scalar_dense.default and getattr(args[0], "constant", None) is not None
        out = self.answer(func, args) if func in ANSWERED and not known else func(*args, **kwargs)
        if isinstance(out, torch.Tensor) and out.dtype == torch.bool:
            self.made_by_all = func._overloadpacket is aten.all
        return out

    def holds(self, tensor):
        """Whether it lies where memory is counted."""
        return tensor.device.type == "cuda"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.add.Tensor and self.phase == "backward" and self.in_place(args):
            func = aten.add_.Tensor
        out = self.run(func, args, kwargs)
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and self.holds(leaf):
                self.follow(leaf)
        count = flop_counter.flop_registry.get(func._overloadpacket)
        if count:
            self.flops += count(*args, **kwargs, out_val=out)
        if self.now > self.peak:
            self.peak, self.at = self.now, f"{self.phase}: {func}"
        return out


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's choice of kernel on Hopper (sdp_utils.cpp), which it makes from the device."""
    if torch.is_autocast_enabled("cuda"):
        lower = torch.get_autocast_dtype("cuda")
        query, key, value = (x.to(lower) for x in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(lower)
    half = query.dtype in (torch.float16, torch.bfloat16)
    dim = query.size(-1)
    same = key.size(-3) == query.size(-3)
    if half and (same or enable_gqa) and attn_mask is None and dim <= 256 and value.size(-1) == dim:
        pad = -dim % 8
        if pad:
            scale = scale or dim ** -0.5
            query, key, value = (F.pad(x, (0, pad)) for x in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :dim] if pad else out
    if same:
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            bias = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = bias.masked_fill_(attn_mask.logical_not(), float("-inf"))
        if attn_mask is not None and (attn_mask.stride(-1) != 1 or any(stride % 8 for stride in attn_mask.stride()[:-1])):
            # `preprocess_mask` of aten/src/ATen/native/transformers/attention.cpp.
            keys = attn_mask.size(-1)
            attn_mask = F.pad(attn_mask, (0, 8 - keys % 8))[..., :keys]
        if attn_mask is not None:
            attn_mask = attn_mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
        needs = any(x.requires_grad for x in (query, key, value))
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, needs, dropout_p, is_causal, scale=scale)[0]
    # Autocast has cast what comes in, and is off within (aten/src/ATen/autocast_mode.h, `WrapFunction_`).
    with torch.autocast("cuda", enabled=False):
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def stand_in_for_cuda():
    """What asks for a GPU before it would run."""
    if stand_in:
        stand_in.install()
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.amp.autocast_mode.torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *_: True
    torch.cuda.is_current_stream_capturing = lambda: False
    F.scaled_dot_product_attention = attention
    torch.nn.functional.scaled_dot_product_attention = attention
    # Grouped queries: each key head counts as often as it is used.
    forward, backward = flop_counter.sdpa_flop_count, flop_counter.sdpa_backward_flop_count
    grouped = lambda query, key: (*key[:1], query[1], *key[2:])
    flop_counter.sdpa_flop_count = lambda q, k, v: forward(q, grouped(q, k), grouped(q, v))
    flop_counter.sdpa_backward_flop_count = lambda g, q, k, v: backward(g, q, grouped(q, k), grouped(q, v))
    # Positions that are not packed: the values say so on a GPU.
    transformers.masking_utils.find_packed_sequence_indices = lambda *_: None
    torch.autograd.set_multithreading_enabled(False)


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
SOURCE = f"tests/allocator/measure.py with PyTorch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


# Parts of the contract's `frozen`, by what their parameters are called; Muon leaves matrices of the ends to AdamW.
PARTS = {
    "norms": ("norm", "ln_"),
    "head": ("lm_head", "embed_out", "classifier", "score", "proj_out"),
    "embeddings": ("wte", "wpe", "embed", "shared."),
    "mlp": (".mlp.", ".fc", "intermediate.dense", "densereludense", "block_sparse_moe"),
    "attention": ("attn", "attention"),
}


def part_of(name):
    return next((part for part, words in PARTS.items() if any(word in name.lower() for word in words)), None)


class Both:
    """One optimizer for matrices, one for the rest."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()


class EightBit(torch.optim.Optimizer):
    """bitsandbytes' states (optim/optimizer.py, Optimizer2State): tensors below 4096 elements in fp32, others one byte an
    element and a scale for 256 of them. Its kernels need nothing else."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state, count = self.state[parameter], parameter.numel()
            if parameter.grad is None or state:
                continue
            for name in ("state1", "state2"):
                state[name] = torch.zeros(count, dtype=torch.uint8 if count >= 4096 else torch.float32, device="cuda")
                if count >= 4096:
                    state[name + "_absmax"] = torch.zeros(-(-count // 256), device="cuda")


def optimizer_of(training, parameters):
    name, decay = training["optimizer"], training.get("weight_decay", 0.0)
    if name == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)
    if name == "muon":
        matrices = [parameter for parameter in parameters if parameter.dim() == 2 and not parameter.outer]
        others = [parameter for parameter in parameters if parameter.dim() != 2 or parameter.outer]
        return Both(torch.optim.Muon(matrices), torch.optim.AdamW(others, foreach=True))
    if name == "adamw-8bit":
        return EightBit(parameters)
    if name.startswith("sgd"):
        return torch.optim.SGD(parameters, lr=1e-3, weight_decay=decay, momentum=0.9 if name == "sgd-momentum" else 0.0, foreach=True)
    kernel = {"adamw": {"foreach": True}, "adamw-fused": {"fused": True}, "adamw-loop": {"foreach": False}}[name]
    return torch.optim.AdamW(parameters, lr=1e-3, **kernel)


def checkpoint(model, training):
    """Each k-th block is recomputed."""
    checkpointing, reentrant = training.get("activation_checkpointing", "none"), training.get("use_reentrant", False)
    if checkpointing == "none":
        return
    every = 1 if checkpointing == "full" else checkpointing["every"]
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant and "lora" in training:
        # As peft does (peft_model.py, `_prepare_model_for_gradient_checkpointing`): else no block has an input to differentiate by.
        model.enable_input_require_grads()
    blocks = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for at, block in enumerate(blocks):
        block.gradient_checkpointing = at % every == 0


def stepper(training, trained):
    """What steps all parameters; or, with the optimizer in the backward pass, hooks that step each."""
    if not training.get("optimizer_in_backward"):
        return optimizer_of(training, trained).step
    for parameter in trained:
        optimizer = optimizer_of(training, [parameter])

        def hook(_, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(hook)
    return lambda: None


def model_of(config, name, training, dtype):
    """The model of a plan on the device, in its precision, with its adapters, frozen parts and recomputed blocks."""
    model_class = getattr(transformers, name)
    # Where a class has written its scores out, that is what runs.
    attention = training["attention"] if model_class._supports_sdpa else "eager"
    model = model_class._from_config(config, attn_implementation=attention).to("cuda")
    if not training["precision"].endswith("-mixed"):
        model = model.to(dtype)
    model.train()
    model.config.use_cache = False
    if lora := training.get("lora"):
        # An embedding's adapter is made where it stays: fake parameters of a dictionary cannot be moved.
        torch.nn.ParameterDict._apply = lambda self, *_, **__: self
        with torch.device("cuda"):
            model = peft.get_peft_model(model, peft.LoraConfig(
                r=lora["rank"], target_modules=lora["targets"], lora_dropout=lora.get("dropout", 0.0),
                modules_to_save=lora.get("modules_to_save")))
    for called, parameter in model.named_parameters():
        parameter.outer = part_of(called) in ("embeddings", "head")
        if part_of(called) in training.get("frozen", []):
            parameter.requires_grad_(False)
    checkpoint(model, training)
    return model


def ledger_of(plan, config):
    """What follows a plan's step: how many experts it answers for, and how many tokens each gets."""
    training = plan["training"]
    experts = next((count for key in EXPERTS if (count := getattr(config, key, None))), 1)
    ledger = Ledger(experts, training.get("padded_batch", False))
    if config.model_type == "deepseek_v2":
        tokens = training["micro_batch_size"] * plan["model"]["sequence_length"]
        ledger.each = tokens * config.num_experts_per_tok // experts
    return ledger


def second_step(ledger, training, loss_of, step, parameters):
    """Runs two steps; what the forward pass of the second holds at its end, and the flops of its passes."""
    for _ in range(2):
        gc.collect()
        ledger.peak = ledger.now
        flops = {"forward": 0, "backward": 0}
        for _ in range(training.get("gradient_accumulation_steps", 1)):
            before, ledger.flops, ledger.phase = ledger.now, 0, "forward"
            loss = loss_of()
            activations = ledger.now - before
            flops["forward"] += ledger.flops
            ledger.flops, ledger.phase = 0, "backward"
            loss.backward()
            del loss
            flops["backward"] += ledger.flops
        ledger.phase = "optimizer"
        if training.get("gradient_clipping"):
            torch.nn.utils.clip_grad_norm_([one for one in parameters if one.requires_grad], 1.0)
        step()
        for parameter in parameters:
            parameter.grad = None
    return activations, flops


def measure(plan):
    """The second step of a plan: its measured quantities, and the operation at the peak."""
    config, training = dict(plan["model"]["hf_config"]), plan["training"]
    kind, (name,) = config.pop("model_type"), config.pop("architectures")
    config = transformers.CONFIG_MAPPING[kind](**config)
    if name.endswith("SequenceClassification") and config.pad_token_id is None:
        config.pad_token_id = 0
    mixed = training["precision"].endswith("-mixed")
    dtype = DTYPES[training["precision"].removesuffix("-mixed")]
    ledger = ledger_of(plan, config)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = model_of(config, name, training, dtype)
        parameters = list(model.parameters())
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        step = stepper(training, trained)
        batch = inputs_of(plan, config, dtype if not mixed else torch.float32)
        held = [*model.buffers(), *batch.values()]
        # A copied fake parameter's storage is seen by Python only while somebody has a name for it.
        storages = [tensor.data.untyped_storage() for tensor in parameters]
        kept = None

        def loss_of():
            nonlocal kept
            with torch.autocast("cuda", dtype=dtype, enabled=mixed):
                outputs = model(**batch)
            if training.get("keep_outputs"):
                kept = outputs
            return outputs["loss"]

        with ledger:
            for tensor in [*parameters, *held]:
                ledger.follow(tensor.data)
            activations, flops = second_step(ledger, training, loss_of, step, parameters)
        del storages
    return {
        "params": sum(parameter.numel() for parameter in parameters),
        "trainable_params": sum(parameter.numel() for parameter in trained),
        "peak_allocated_bytes": ledger.peak,
        "activation_bytes": activations,
        "flops_forward": flops["forward"],
        "flops_backward": flops["backward"],
        "peak_reserved_bytes": reserved(ledger.events),
    }, ledger.at


def inputs_of(plan, config, dtype):
    """What a collator hands over: ids and labels; a mask where the batch is padded; pixels; spectra."""
    samples, model = plan["training"]["micro_batch_size"], plan["model"]

    def ids(*shape):
        return torch.zeros(*shape, dtype=torch.int64, device="cuda")

    if "image_size" in model:
        size = (samples, getattr(config, "num_channels", 3), model["image_size"], model["image_size"])
        return {"pixel_values": torch.zeros(size, dtype=dtype, device="cuda"), "labels": ids(samples)}
    length = model["sequence_length"]
    target = model.get("decoder_sequence_length", length)
    if config.model_type == "whisper":
        size = (samples, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.zeros(size, dtype=dtype, device="cuda"), "labels": ids(samples, target)}
    name = plan["model"]["hf_config"]["architectures"][0]
    if name.endswith("QuestionAnswering"):
        batch = {"input_ids": ids(samples, length), "start_positions": ids(samples), "end_positions": ids(samples)}
    elif name.endswith("MultipleChoice"):
        # Two choices each.
        batch = {"input_ids": ids(samples // 2, 2, length), "labels": ids(samples // 2)}
    else:
        one_each = name.endswith("SequenceClassification")
        batch = {"input_ids": ids(samples, length), "labels": ids(samples) if one_each else ids(samples, target)}
    if plan["training"].get("padded_batch"):
        batch["attention_mask"] = ids(*batch["input_ids"].shape)
    return batch


if __name__ == "__main__":
    stand_in_for_cuda()
    transformers.logging.set_verbosity_error()
    wanted = sys.argv[1:]
    for case in json.load(open(Path(__file__).with_name("plans.json"))):
        if wanted and not any(text in case["id"] for text in wanted):
            continue
        measured, at = measure(case["plan"])
        print(case["id"], at, file=sys.stderr)
        print(json.dumps({**case, "group": "followed", "source": SOURCE, "measured": measured}))
