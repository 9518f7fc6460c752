"""Trains the model of a plan on the CPU for some steps, as transformers' Trainer does, and tells each step's time.

    python train.py PLAN.json STEPS REPORT.json
"""

import json
import resource
import sys
import time

import torch
import transformers

def main(plan, steps, report):
    model_keys, training = plan["model"], plan["training"]
    keys = dict(model_keys["hf_config"])
    kind, (name,) = keys.pop("model_type"), keys.pop("architectures")
    config = transformers.AutoConfig.for_model(kind, **keys)
    if kind != "resnet":
        config._attn_implementation = training.get("attention", "sdpa")
    config.use_cache = False
    torch.manual_seed(0)
    model = getattr(transformers, name)(config)
    precision = training["precision"]
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    if lora := training.get("lora"):
        import peft
        import peft.tuners.lora.torchao as quantised

        # Another library beside it may be older than peft wants.
        quantised.is_torchao_available = lambda: False

        model = peft.get_peft_model(
            model, peft.LoraConfig(r=lora["rank"], target_modules=lora["targets"], lora_dropout=lora.get("dropout", 0.0))
        )
        if precision == "bf16":
            model = model.to(torch.bfloat16)
    model.train()
    if training.get("activation_checkpointing", "none") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if lora:
            model.enable_input_require_grads()
    micro, many = training["micro_batch_size"], training.get("gradient_accumulation_steps", 1)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[training.get("optimizer", "adamw")](trained, lr=1e-4)
    if kind in ("vit", "resnet"):
        side = model_keys["image_size"]
        batch = {"pixel_values": torch.randn(micro, 3, side, side), "labels": torch.randint(0, 2, (micro,))}
        if precision == "bf16":
            batch["pixel_values"] = batch["pixel_values"].to(torch.bfloat16)
    else:
        ids = torch.randint(10, keys["vocab_size"], (micro, model_keys["sequence_length"]))
        batch = {"input_ids": ids, "labels": ids.clone()}
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed")
    told = []
    for _ in range(steps):
        wall, own = time.perf_counter(), time.process_time()
        for _ in range(many):
            with mixed:
                loss = model(**batch).loss / many
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told.append((time.perf_counter() - wall, time.process_time() - own))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open(report, "w") as file:
        json.dump({"wall": [a for a, _ in told], "cpu": [b for _, b in told], "peak": peak,
                   "params": sum(w.numel() for w in model.parameters())}, file)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file), int(sys.argv[2]), sys.argv[3])
