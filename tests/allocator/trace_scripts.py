"""Traces public training scripts as they are: which of them the tracer follows without a change.

    python trace_scripts.py FOLDER [NAME…]

FOLDER holds the scripts as their repositories have them, each with the files beside it that it imports:

    nanogpt/train.py        karpathy/nanoGPT: train.py, model.py, configurator.py, config/
    hf/run_clm.py           huggingface/transformers: examples/pytorch/language-modeling
    hf/run_glue.py          huggingface/transformers: examples/pytorch/text-classification
    tv/train.py             pytorch/vision: references/classification
    timm/train.py           huggingface/pytorch-image-models
    diffusers/train_text_to_image.py    huggingface/diffusers: examples/text_to_image
    torchtune/full_finetune_single_device.py    pytorch/torchtune: recipes
    lightning/main.py       Lightning-AI/pytorch-lightning: the example of README.md

Data, tokenizers and weights that a script wants to read are made up by stand_ins.py in a folder that goes away. A line for each
script: its name, `traced` or what the tracer said, seconds, parameters and what the tape notes.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stand_ins

TRACER = Path(__file__).resolve().parents[2] / "src/observe/trace/memwall_trace.py"
# Seconds after which a script is given up.
PATIENCE = 900


def nanogpt(data):
    stand_ins.token_file(data / "data/shakespeare_char")
    return ["nanogpt/train.py", "config/train_shakespeare_char.py"], ["data"]


def run_clm(data):
    stand_ins.tokenizer(data / "tokenizer")
    stand_ins.text_file(data / "text.txt")
    return ["hf/run_clm.py", "--model_type", "gpt2", "--tokenizer_name", data / "tokenizer", "--train_file", data / "text.txt",
            "--do_train", "--block_size", "256", "--per_device_train_batch_size", "4", "--bf16", "--output_dir", data / "out"], []


def run_glue(data):
    stand_ins.tokenizer(data / "bert")
    stand_ins.classifier(data / "bert")
    stand_ins.pairs(data / "train.json")
    stand_ins.metric(data / "accuracy")
    return ["hf/run_glue.py", "--model_name_or_path", data / "bert", "--train_file", data / "train.json", "--validation_file",
            data / "train.json", "--do_train", "--do_eval", "--max_seq_length", "128", "--per_device_train_batch_size", "8",
            "--output_dir", data / "out"], ["accuracy"]


def torchvision(data):
    for split in ("train", "val"):
        stand_ins.images(data / split, classes=10)
    return ["tv/train.py", "--data-path", data, "--model", "resnet50", "--batch-size", "16", "--amp", "--mixup-alpha", "0.2",
            "--auto-augment", "ta_wide", "--model-ema", "--output-dir", data / "out"], []


def timm(data):
    for split in ("train", "validation"):
        stand_ins.images(data / split, classes=10)
    return ["timm/train.py", "--data-dir", data, "--model", "resnet50", "--num-classes", "10", "-b", "16", "--amp", "--output",
            data / "out"], []


def diffusers(data):
    stand_ins.pipeline(data / "pipeline")
    stand_ins.captioned(data / "images")
    return ["diffusers/train_text_to_image.py", "--pretrained_model_name_or_path", data / "pipeline", "--train_data_dir",
            data / "images", "--resolution", "256", "--train_batch_size", "2", "--mixed_precision", "bf16", "--use_ema",
            "--gradient_checkpointing", "--max_train_steps", "2", "--output_dir", data / "out"], []


def torchtune(data):
    stand_ins.vocabulary(data)
    stand_ins.qwen(data)
    stand_ins.instructions(data / "instructions.json")
    stand_ins.recipe(data / "recipe.yaml", data)
    return ["torchtune/full_finetune_single_device.py", "--config", data / "recipe.yaml"], []


def lightning(data):
    stand_ins.digits(data / "MNIST/raw")
    return ["lightning/main.py"], ["MNIST"]


SCRIPTS = {make.__name__: make for make in (nanogpt, run_clm, run_glue, torchvision, timm, diffusers, torchtune, lightning)}


def traced(name, folder):
    """One script: what became of it, in words, and how long it took."""
    with tempfile.TemporaryDirectory() as made:
        data = Path(made)
        command, beside = SCRIPTS[name](data)
        script = folder / command[0]
        if not script.is_file():
            return f"not there: {script}", 0.0
        # Run where a user would: beside the script, with what it looks for there.
        where = data / "here"
        where.mkdir()
        for entry in script.parent.iterdir():
            (where / entry.name).symlink_to(entry)
        for entry in beside:
            (where / entry).unlink(missing_ok=True)
            (where / entry).symlink_to(data / entry)
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*") if path.is_file()}
        tape = data / "made.tape.json.gz"
        started = time.time()
        done = subprocess.run(
            [sys.executable, TRACER, "-o", tape, "--quiet", "--", script.name, *command[1:]], cwd=where, capture_output=True,
            text=True, timeout=PATIENCE, env={**os.environ, "HF_HOME": str(data / "home")})
        took = time.time() - started
        if done.returncode or not tape.is_file():
            said = [line for line in done.stderr.splitlines() if "memwall trace:" in line] or done.stderr.splitlines()[-1:]
            return " ".join(said), took
        written = {path for path in data.rglob("*") if path.is_file()} - set(before) - {tape}
        if written:
            return f"traced, and wrote {sorted(str(path.relative_to(data)) for path in written)[:3]}", took
        tape = json.load(gzip.open(tape))
        return f"traced: {tape['name']}, {tape['parameters']['total']:,} parameters; {'; '.join(tape['notes'])}", took


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names or SCRIPTS:
        said, took = traced(name, Path(folder).resolve())
        print(f"{name}\t{took:.0f} s\t{said}", flush=True)
