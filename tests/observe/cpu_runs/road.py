"""Sixteen small trainings on this machine's CPU, each predicted after `memwall bench --cpu`, run under the hook, and compared.

    memwall bench --cpu --python PYTHON
    python3 road.py MEMWALL PYTHON FOLDER [NAME ...]
    python3 road.py MEMWALL PYTHON FOLDER --wrong [NAME ...]

With --wrong each training runs beside plans that are wrong in one thing, and a line for each says what is named as the cause:
the right one, another, or none. PYTHON has torch, transformers and peft. A line for each run: the predicted step beside the quickest, the median and the
processor time of the measured ones, which other programs lengthen least, and the peak resident set. Threads are
OMP_NUM_THREADS, alike for both (1 where it is not set).
"""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = 8
# Warm-up: states are made, heaps grow.
FIRST = 2

def model(kind, name, **keys):
    return {"model_type": kind, "architectures": [name], **keys}


GPT2 = model(
    "gpt2", "GPT2LMHeadModel", vocab_size=50257, n_embd=512, n_layer=4, n_head=8, n_positions=1024,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)
LLAMA = model(
    "llama", "LlamaForCausalLM", vocab_size=32000, hidden_size=512, intermediate_size=1408, num_hidden_layers=6,
    num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=2048, tie_word_embeddings=False,
)
BERT = model(
    "bert", "BertForMaskedLM", vocab_size=30522, hidden_size=512, intermediate_size=2048, num_hidden_layers=6,
    num_attention_heads=8, max_position_embeddings=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
T5 = model(
    "t5", "T5ForConditionalGeneration", vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=4,
    num_decoder_layers=4, num_heads=8, dropout_rate=0.0, feed_forward_proj="relu", decoder_start_token_id=0, pad_token_id=0,
)
VIT = model(
    "vit", "ViTForImageClassification", hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=6,
    image_size=224, patch_size=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
RESNET = model(
    "resnet", "ResNetForImageClassification", embedding_size=64, hidden_sizes=[256, 512, 1024, 2048], depths=[3, 4, 6, 3],
    layer_type="bottleneck",
)
MIXTRAL = model(
    "mixtral", "MixtralForCausalLM", vocab_size=32000, hidden_size=512, intermediate_size=1024, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=4, num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=2048,
    sliding_window=None,
)


def plan(config, micro, sequence=None, precision="fp32", steps=1, **training):
    inputs = {"image_size": 224} if sequence is None else {"sequence_length": sequence}
    if config["model_type"] == "t5":
        inputs["decoder_sequence_length"] = sequence
    return {
        "model": {"hf_config": config, "framework": "pytorch", "batch_size": micro * steps, **inputs},
        "training": {
            "precision": precision, "optimizer": "adamw", "micro_batch_size": micro,
            "gradient_accumulation_steps": steps, "attention": "sdpa", "activation_checkpointing": "none", **training,
        },
        "hardware": {"gpu_type": "cpu"},
    }


LORA = {"rank": 8, "targets": ["q_proj", "v_proj"], "dropout": 0.0}
PLANS = {
    "gpt2-b4-s128": plan(GPT2, 4, 128),
    "gpt2-b2-s512-ckpt": plan(GPT2, 2, 512, activation_checkpointing="full"),
    "gpt2-b4-s128-amp": plan(GPT2, 4, 128, "bf16-mixed"),
    "gpt2-b2-s256-accum4": plan(GPT2, 2, 256, steps=4),
    "llama-b4-s128": plan(LLAMA, 4, 128),
    "llama-b4-s256-bf16": plan(LLAMA, 4, 256, "bf16"),
    "llama-b1-s1024": plan(LLAMA, 1, 1024),
    "llama-b4-s256-lora": plan(LLAMA, 4, 256, lora=LORA),
    "bert-b8-s128": plan(BERT, 8, 128),
    "bert-b4-s512-amp": plan(BERT, 4, 512, "bf16-mixed"),
    "t5-b4-s128": plan(T5, 4, 128, attention="eager"),
    "t5-b4-s256-ckpt": plan(T5, 4, 256, attention="eager", activation_checkpointing="full"),
    "vit-b8": plan(VIT, 8),
    "vit-b8-bf16": plan(VIT, 8, precision="bf16"),
    "resnet50-b4": plan(RESNET, 4),
    "mixtral-b4-s128": plan(MIXTRAL, 4, 128),
}


def wrong_plans(right):
    """Plans that are wrong in one thing: what it is, the plan, and what the words of the right cause are."""
    model, training = right["model"], right["training"]

    def changed(**keys):
        one = json.loads(json.dumps(right))
        for key, value in keys.items():
            one["training" if key in training else "model"][key] = value
        return one

    precision, micro = training["precision"], training["micro_batch_size"]
    many = training["gradient_accumulation_steps"]
    mixed = {"fp32": "bf16", "bf16": "fp32", "bf16-mixed": "fp32"}[precision]
    words = {"fp32": "fp32", "bf16": "bf16", "bf16-mixed": "autocast|mixed|matrices in bf16"}[precision]
    yield "precision", changed(precision=mixed), words
    yield "batch", changed(micro_batch_size=2 * micro, batch_size=2 * model["batch_size"]), r"micro batch %d\b" % micro
    if sequence := model.get("sequence_length"):
        other = 2 * sequence if sequence <= 256 else sequence // 2
        lengths = {key: other for key in ("sequence_length", "decoder_sequence_length") if key in model}
        yield "length", changed(**lengths), r"\b%d\b" % sequence
    else:
        other = changed(image_size=2 * model["image_size"])
        if "image_size" in other["model"]["hf_config"]:
            other["model"]["hf_config"]["image_size"] *= 2
        yield "length", other, r"\b%d\b" % model["image_size"]
    if model["hf_config"]["model_type"] != "resnet":
        again = training["activation_checkpointing"]
        wrong = "none" if again == "full" else "full"
        yield "checkpointing", changed(activation_checkpointing=wrong), "recomput|checkpoint"
    config = json.loads(json.dumps(model["hf_config"]))
    depths = [key for key in ("n_layer", "num_layers", "num_decoder_layers", "num_hidden_layers") if key in config]
    config.update({key: 2 * config[key] for key in depths})
    if "depths" in config:
        config["depths"] = [2 * depth for depth in config["depths"]]
    yield "model", changed(hf_config=config), "layer|model|parameters"
    yield "optimizer", changed(optimizer="sgd"), "AdamW"
    if model["hf_config"]["model_type"] == "llama":
        one = json.loads(json.dumps(right))
        if one["training"].pop("lora", None) is None:
            one["training"]["lora"] = LORA
            yield "lora", one, "parameters trained"
        else:
            yield "lora", one, "adapters|LoRA"
    if many > 1:
        yield "accumulation", changed(gradient_accumulation_steps=1, batch_size=micro), r"\b%d passes" % many


def name_causes(memwall, command, folder, names, environment):
    """Runs each training beside each wrong plan, and tells what is named first."""
    counts = {"right": 0, "other": 0, "none": 0}
    for name, right in PLANS.items():
        if names and name not in names:
            continue
        (folder / (name + ".json")).write_text(json.dumps(right))
        for what, plan_of_it, words in wrong_plans(right):
            file = folder / (name + "." + what + ".json")
            file.write_text(json.dumps(plan_of_it))
            run = [memwall, "run", "--plan", str(file), "--", *command, str(folder / (name + ".json")), "5", os.devnull]
            done = subprocess.run(run, env=environment, capture_output=True, text=True)
            named = re.findall(r"not as planned: (.*)", done.stderr + done.stdout)
            verdict = "none" if not named else "right" if re.search(words, named[0]) else "other"
            counts[verdict] += 1
            print("%-20s %-14s %-6s %s" % (name, what, verdict, named[0] if named else ""), flush=True)
    print(counts)


def told(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return done.stdout


def main(memwall, python, folder, names):
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    trainer = str(Path(__file__).with_name("train.py"))
    folder = Path(folder)
    if names[:1] == ["--wrong"]:
        name_causes(memwall, [python, trainer], folder, names[1:], environment)
        return
    errors = {"quickest": [], "median": [], "processor": [], "resident": []}
    for name, one in PLANS.items():
        if names and name not in names:
            continue
        file, report = folder / (name + ".json"), folder / (name + ".report")
        file.write_text(json.dumps(one))
        predicted = json.loads(told([memwall, "predict", str(file), "--format", "json"], environment))
        told([memwall, "run", "--plan", str(file), "--", python, trainer, str(file), str(STEPS), str(report)], environment)
        measured = json.loads(report.read_text())
        step, resident = predicted["time"]["step_s"], predicted["memory"]["device_used"]
        wall, own = measured["wall"][FIRST:], measured["cpu"][FIRST:]
        pairs = {
            "quickest": (step, min(wall)),
            "median": (step, statistics.median(wall)),
            "processor": (step, statistics.median(own)),
            "resident": (resident, measured["peak"]),
        }
        line = ["%-20s %7.0f ms %5.0f MiB" % (name, 1e3 * step, resident / 2**20)]
        for what, (ours, real) in pairs.items():
            errors[what].append(100 * (ours / real - 1))
            line.append("%s %+6.1f %%" % (what, errors[what][-1]))
        print("  ".join(line), flush=True)
    for what, all_of in errors.items():
        if all_of:
            print("%s: mean absolute error %.1f %% of %d" % (what, statistics.mean(map(abs, all_of)), len(all_of)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
