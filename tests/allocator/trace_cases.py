"""Steps of real PyTorch models, followed tensor by tensor as measure.py does, beside tapes of the same models: cases for
`memwall validate` whose plans name the tapes.

    python trace_cases.py FOLDER [--forward] [--cases=FILE] [WORD…]

writes FOLDER/NAME.tape.json.gz for each model of traced.json (or FILE) that is named by a word (all without one), and one case a
line to standard output. The step that is measured has sizes at which nothing was traced. With --forward it is a pass without
gradients, and the tape is FOLDER/NAME.forward.tape.json.gz.
"""

import functools
import gc
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

TRACER = Path(__file__).resolve().parents[2] / "src/observe/trace"
sys.path[:0] = [str(TRACER), str(Path(__file__).parent)]

import device as devices

# `cpu` where PyTorch's C++ asks the driver itself (DistributedDataParallel's timer).
DEVICE = devices.prepare(os.environ.get("MEMWALL_CASES_DEVICE"))
import torch

devices.stand_in(DEVICE)
import kernels

kernels.install(DEVICE)
import checkpoints
import fake
import measure
import odd_models
import hugging_face
import lasting
import lengths
import libraries
import modules
import sources
import step
import tape
import transforms

transforms.install()

# Seconds after which a case is given up.
PATIENCE = 900
# What the tracer takes out of PyTorch while it traces.
RECOMPUTES = {name: function for name, function in vars(torch.utils.checkpoint).items()
              if name.startswith("_checkpoint_without_reentrant_generator") or name == "CheckpointFunction"}
TYPES = {"fp32": torch.float32, "bf16-mixed": torch.float32, "bf16": torch.bfloat16}


class Ledger(measure.Ledger):
    """measure.py's, with the tracer's way of keeping what is small and on the host real."""

    def __init__(self, mode, experts):
        super().__init__(experts)
        self.values = fake.Values(mode)
        self.values.experts = experts

    def run(self, func, args, kwargs):
        return self.values.run(func, args, kwargs)

    def holds(self, tensor):
        return tensor.device.type == DEVICE.name

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "prim":
            return func(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def subject_of(case, answers=False):
    made = made_of(case, answers)
    return made.answer() if answers else made


def made_of(case, answers):
    if "hf" in case:
        import transformers

        values = dict(case["hf"])
        config = transformers.CONFIG_MAPPING[values.pop("model_type")](**values)
        return hugging_face.transformers_subject(transformers, getattr(transformers, case["class"]), config, case["class"],
                                            case.get("attention"), answers)
    if "own" in case:
        file, _, name = case["own"].rpartition(":")
        # Beside this file where no folder is named.
        file = Path(__file__).parent / (file or "research_models.py")
        return sources.own(f"{file}:{name}", case["inputs"], case.get("loss"))
    if "odd" in case:
        ids = sources.Input("ids", torch.int64, ["B", "S"])
        return sources.Subject(case["name"], "odd_models.py", odd_models.MODELS[case["odd"]], [ids])
    if "diffusers" in case:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.json"
            path.write_text(json.dumps({"_class_name": case["diffusers"], **case["config"]}))
            return libraries.diffusers_model(path)
    return libraries.timm_model(case["timm"]) if "timm" in case else libraries.torchvision_model(case["torchvision"])


def again(case, traced, answers=False):
    """The subject, run in the way in which it could be traced."""
    subject = subject_of(case, answers)
    subject.inputs, subject.extra = traced.inputs, traced.extra
    return subject


def recompute_blocks(model):
    """Recomputes each block in the backward pass: as the Trainer asks for it, behind the adapters, which else would ask for
    gradients of what the blocks read; blocks of other code as its authors wrap them."""
    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return
    if getattr(model, "_supports_gradient_checkpointing", False):
        # Diffusers' own, of the non-reentrant kind (diffusers/models/modeling_utils.py).
        model.enable_gradient_checkpointing()
        return
    for block in modules.find_blocks(model).values():
        block.forward = functools.partial(torch.utils.checkpoint.checkpoint, block.forward, use_reentrant=False)


def in_type(model, precision):
    """A model's weights of floating point in their type; `to` would make real ones of complex ones, which nobody asks for in fp32."""
    return model.float() if TYPES[precision] == torch.float32 else model.to(TYPES[precision])


def followed(case, traced, sizes, training):
    """The second step of AdamW, as measure.py follows one."""
    torch.compiler.reset() if hasattr(torch, "compiler") else None
    precision = training["precision"]
    mode = fake.Mode(allow_non_fake_inputs=True)
    subject = again(case, traced)
    lower = torch.bfloat16 if precision == "bf16" else None
    experts = getattr(subject, "experts", 1)
    ledger = Ledger(mode, experts)
    ledger.values.holds = subject.is_own
    with mode:
        with fake.Values(mode):
            model = in_type(subject.build().to(DEVICE.torch_device()), precision)
        model.train()
        if lora := training.get("lora"):
            with fake.Values(mode):
                model = measure.peft.get_peft_model(model, measure.peft.LoraConfig(
                    r=lora["rank"], target_modules=lora["targets"], lora_dropout=lora.get("dropout", 0.0)))
        if training.get("activation_checkpointing") == "full":
            recompute_blocks(model)
        parameters = list(model.parameters())
        trained = [one for one in parameters if one.requires_grad]
        optimizer = measure.optimizer_of({"optimizer": "adamw", **training}, trained)
        with fake.Values(mode):
            batch = subject.batch(sizes, DEVICE.torch_device(), lower)
        with ledger:
            for tensor in [*parameters, *model.buffers(), *batch.values(), *filter(ledger.holds, lasting.named_by(model))]:
                if tensor.layout is torch.strided:
                    ledger.follow(tensor.data)
            def loss_of():
                with torch.autocast(DEVICE.name, dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
                    return subject.run(model, batch)

            activations, flops = measure.second_step(ledger, training, loss_of, optimizer.step, parameters)
    print(case["name"], precision, sizes, ledger.at, file=sys.stderr, flush=True)
    return {"params": sum(one.numel() for one in parameters), "trainable_params": sum(one.numel() for one in trained),
            "peak_allocated_bytes": ledger.peak, "activation_bytes": activations, "flops_forward": flops["forward"],
            "flops_backward": flops["backward"]}


def answered(case, traced, sizes, precision):
    """The second pass without gradients, its result held as who asked for it does."""
    mode = fake.Mode(allow_non_fake_inputs=True)
    subject = again(case, traced, answers=True)
    lower = torch.bfloat16 if precision == "bf16" else None
    ledger = Ledger(mode, getattr(subject, "experts", 1))
    with mode, torch.no_grad():
        with fake.Values(mode):
            model = in_type(subject.build().to(DEVICE.torch_device()), precision).eval()
        parameters = list(model.parameters())
        with fake.Values(mode):
            batch = subject.batch(sizes, DEVICE.torch_device(), lower)
        with ledger:
            for tensor in [*parameters, *model.buffers(), *batch.values()]:
                ledger.follow(tensor.data)
            for _ in range(2):
                gc.collect()
                ledger.peak, ledger.flops, ledger.phase = ledger.now, 0, "forward"
                with torch.autocast(DEVICE.name, dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
                    made = subject.run(model, batch)
                del made
    print(case["name"], precision, sizes, ledger.at, file=sys.stderr, flush=True)
    return {"params": sum(one.numel() for one in parameters), "peak_allocated_bytes": ledger.peak,
            "flops_forward": ledger.flops}


def plan_of(path, sizes, training):
    model = {"trace": path}
    for axis, key in (("S", "sequence_length"), ("T", "decoder_sequence_length"), ("I", "image_size")):
        if axis in sizes:
            model[key] = sizes[axis]
    return {"model": model, "training": {"optimizer": "adamw", **training, "micro_batch_size": sizes.get("B", 1)},
            "hardware": {"gpu_type": "NVIDIA H100", "library_workspaces": False}}


def cases(case, folder, answers):
    subject = subject_of(case, answers)
    path = folder / f"{case['name']}{'.forward' if answers else ''}.tape.json.gz"
    say = lambda text: print(text, file=sys.stderr, flush=True)
    made = lengths.traced(step.Tracer(DEVICE, lambda _: None), subject)
    tape.write(made, path)
    vars(torch.utils.checkpoint).update(RECOMPUTES)
    for note in made["notes"]:
        say(f"{case['name']}: {note}")
    first = made["points"][0]
    # Four times the batch and twice the length of the first point traced, where lengths vary; it lies within the further ones.
    times = lambda axis: 4 if axis == "B" else 2 if axis in "ST" and axis in made["axes"] else 1
    # One that holds for one size alone is held against a step of that size.
    sizes = made["points"][-1] if made["fixed"] else {axis: size * times(axis) for axis, size in first.items()}
    longest = subject.longest
    if longest and sizes.get("S", 0) > longest:
        sizes["S"] = longest
    for training in case.get("training", [{"precision": "bf16-mixed"}, {"precision": "bf16"}, {"precision": "fp32"}]):
        further = [key if isinstance(value, (dict, int)) else str(value) for key, value in training.items() if key != "precision"]
        name = "-".join([case["name"], training["precision"], *further])
        if answers:
            plan = plan_of(path.name, sizes, {**training, "mode": "inference"})
            plan["training"].pop("optimizer")
            yield {"id": f"forward-{name}", "group": "traced", "source": measure.SOURCE, "plan": plan,
                   "measured": answered(case, subject, sizes, training["precision"])}
            continue
        try:
            measured = followed(case, subject, sizes, training)
        except Exception as error:
            # As a model whose own code makes fp32 tensors has no step in 16 bit.
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        yield {"id": f"traced-{name}", "group": "traced", "source": measure.SOURCE, "plan": plan_of(path.name, sizes, training),
               "measured": measured}


if __name__ == "__main__":
    measure.transformers.logging.set_verbosity_error()
    folder, words = Path(sys.argv[1]), [word for word in sys.argv[2:] if not word.startswith("--")]
    options = set(sys.argv[2:]) - set(words)
    listed = next((word.partition("=")[2] for word in options if word.startswith("--cases=")), Path(__file__).with_name("traced.json"))
    for case in json.load(open(listed)):
        if words and case["name"] not in words:
            continue
        # A process each: the tracer forks before its first backward pass, and can not after one.
        child = os.fork()
        if not child:
            signal.alarm(case.get("patience", PATIENCE))
            try:
                for one in cases(case, folder, "--forward" in options):
                    print(json.dumps(one), flush=True)
            except Exception as error:
                print(f"{case['name']}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                if "--debug" in options:
                    raise
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(f"{case['name']}: ended by signal {os.WTERMSIG(status)}", file=sys.stderr, flush=True)
