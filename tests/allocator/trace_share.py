"""What share of transformers' kinds of models traces: each kind's default class in its default configuration.

    python trace_share.py [--seed=21] [--count=120] [--out=FOLDER] [--quick=1] [--layers=2] [KIND…]

draws COUNT of all kinds with the seed (or takes the kinds that are named) and prints a line for each: kind, class, `traced`,
`refused` or `failed`, seconds, parameters of the class and of the tape, and what was said. `refused` is an answer in one line that
the tracer means; `failed` is any other error. With --out the tapes stay there. With --quick one step of each is traced, in fp32
and at one size, and no tape is written. With --layers configurations of more than a thousand million parameters are cut to as
many layers, where the class can still be built so. Parameters of the class are those of the configuration that is traced.
"""

import copy
import json
import os
import random
import sys
import time
from pathlib import Path

TRACER = Path(os.environ.get("MEMWALL_TRACER_FOLDER") or Path(__file__).resolve().parents[2] / "src/observe/trace")
sys.path[:0] = [str(TRACER)]
os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"

import device as devices

DEVICE = devices.prepare()
import torch

devices.stand_in(DEVICE)
import kernels

kernels.install(DEVICE)
import draw
import hugging_face
import layout
import sources
import step
import tape
import transformers

# Seconds after which a kind is given up.
PATIENCE = 420
# Parameters from which on a configuration is cut.
LARGE = 1_000_000_000


def kinds():
    """Kinds that have a model class of their own and a default configuration."""
    found = {}
    for kind in transformers.CONFIG_MAPPING:
        try:
            config = transformers.CONFIG_MAPPING[kind]()
            model_class = hugging_face.default_class(transformers, config)
        except Exception as error:
            print(f"{kind}: no default configuration: {type(error).__name__}", file=sys.stderr)
            continue
        if model_class is not None and model_class.__name__ not in {one.__name__ for one in found.values()}:
            found[kind] = model_class
    return found


def cut(values, deepest):
    """A configuration of few layers: their number, and lists that have one entry for each."""
    made, deep = dict(values), set()
    for key, value in values.items():
        if key in draw.LAYERS and isinstance(value, int) and value > deepest:
            made[key] = deepest
            deep.add(value)
        elif isinstance(value, dict):
            made[key] = cut(value, deepest)
    return {key: value[:deepest] if isinstance(value, list) and len(value) in deep else value for key, value in made.items()}


def counted(kind, model_class, values):
    """Parameters of the class itself, without the tracer; the reason where it can not be built."""
    try:
        # Some take their own parts out of what they are given.
        config = transformers.CONFIG_MAPPING[kind].from_dict(copy.deepcopy(values))
        with torch.device("meta"):
            model = model_class._from_config(hugging_face.part_for(model_class, config))
    except Exception as error:
        return f"none ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
    return sum(one.numel() for one in model.parameters())


def configured(kind, model_class):
    """The configuration to trace and its class's parameters."""
    values = json.loads(json.dumps(transformers.CONFIG_MAPPING[kind]().to_dict(), default=str))
    exact = counted(kind, model_class, values)
    if LAYERS and isinstance(exact, int) and exact > LARGE:
        less = cut(values, LAYERS)
        fewer = counted(kind, model_class, less)
        if isinstance(fewer, int):
            return less, fewer
    return values, exact


def quick(tracer, subject):
    """One step at the smallest size; parameters."""
    model = tracer.build(subject)
    while True:
        steps = step.Steps(tracer, subject, model)
        try:
            steps.record("fp32", tape.points_of(subject.axes(), subject.longest, subject.side, lengths=subject.lengths)[0])
            return layout.count(model)["total"]
        except Exception as error:
            if not subject.otherwise(error):
                raise subject.why from None


def one(kind, model_class, folder):
    started = time.time()
    path = folder / f"{kind}.config.json"
    values, exact = configured(kind, model_class)
    path.write_text(json.dumps(values))
    said, how, total = "", "traced", 0
    try:
        subject = hugging_face.hugging_face(str(path), model_class.__name__)
        tracer = step.Tracer(DEVICE, lambda _: None)
        if QUICK:
            total = quick(tracer, subject)
            said = "; ".join(subject.notes)
        else:
            made = tracer.trace(subject)
            tape.write(made, folder / f"{kind}.tape.json.gz")
            total, said = made["parameters"]["total"], "; ".join(made["notes"])
    except sources.Refused as refused:
        how, said = "refused", str(refused)
    except Exception as error:
        how, said = "failed", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if os.environ.get("MEMWALL_TRACE_DEBUG"):
            raise
    took = time.time() - started
    print("\t".join(map(str, (kind, model_class.__name__, how, f"{took:.0f} s", exact, total, said))), flush=True)


def forked(kind, model_class, folder):
    """A process each: the tracer forks before its first backward pass, and can not after one."""
    child = os.fork()
    if not child:
        try:
            one(kind, model_class, folder)
        finally:
            sys.stdout.flush()
            os._exit(0)
    until = time.time() + PATIENCE
    while time.time() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.2)
    os.kill(child, 9)
    os.waitpid(child, 0)
    print(f"{kind}\t{model_class.__name__}\tfailed\t{PATIENCE} s\t0\t0\tgiven up", flush=True)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
    named = [word for word in sys.argv[1:] if not word.startswith("--")]
    found = kinds()
    QUICK, LAYERS = "quick" in options, int(options.get("layers", 0))
    print(f"{len(found)} kinds", file=sys.stderr)
    chosen = named or random.Random(int(options.get("seed", 21))).sample(sorted(found), min(int(options.get("count", 120)), len(found)))
    folder = Path(options.get("out", "/tmp"))
    folder.mkdir(exist_ok=True)
    chosen = [kind for kind in chosen if kind in found][int(options.get("part", 0))::int(options.get("parts", 1))]
    for kind in chosen:
        forked(kind, found[kind], folder)
