"""Draws further cases for trace_cases.py: classes of transformers, models of timm, of torchvision and of diffusers, in the order
of the SHA-256 of their names, one of each family, without families that traced.json has and those that the catalogue answers for.

    python draw.py target/debug/memwall COUNT TIMM TORCHVISION DIFFUSERS [SEED [WITHOUT]] > drawn.json

SEED is a word put before each name, for another order. WITHOUT is a file whose lines begin with kinds of transformers that were
looked at before, such as trace_share.py prints.

Configurations are the classes' own defaults with four layers at most, as steps of equal layers tell nothing new.
"""

import contextlib
import hashlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import diffusers
import diffusers.models
import timm
import torchvision
import transformers

DEEPEST = 4
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers",
          "num_encoder_layers", "num_single_layers", "num_refiner_layers")


SEED = ""


def order(name):
    return hashlib.sha256((SEED + name).encode()).hexdigest()


def shallow(values):
    """A configuration's numbers of layers, cut, and those of its parts."""
    cut = {}
    for key, value in values.items():
        if key in LAYERS and isinstance(value, int) and value > DEEPEST:
            cut[key] = DEEPEST
        elif isinstance(value, dict) and key.endswith("_config") and (inner := shallow(value)):
            # A part of one of several kinds says which.
            cut[key] = {**inner, **({"model_type": value["model_type"]} if value.get("model_type") else {})}
    return cut


def classes():
    kinds = {}
    for kind, config in transformers.CONFIG_MAPPING.items():
        kinds.setdefault(config, kind)
    with contextlib.redirect_stdout(sys.stderr):
        names = [name for name in dir(transformers) if not name.startswith("Auto") and hasattr(transformers, name)]
    for name in names:
        found = getattr(transformers, name)
        if inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel) and "PreTrained" not in name \
                and found.__module__.startswith("transformers.models.") and found.config_class in kinds:
            yield name, kinds[found.config_class]


def is_answered(memwall, name, values):
    plan = {"model": {"hf_config": {**values, "architectures": [name]}, "sequence_length": 128}}
    said = subprocess.run([memwall, "predict", "-"], input=json.dumps(plan, default=str), capture_output=True, text=True)
    return said.returncode != 2


def of_transformers(memwall, count, known):
    for name, kind in sorted(classes(), key=lambda pair: order(pair[0])):
        if kind in known or not count:
            continue
        try:
            values = transformers.CONFIG_MAPPING[kind]().to_dict()
        except Exception as error:
            print(f"{name}: no default configuration: {error}", file=sys.stderr)
            continue
        if is_answered(memwall, name, values):
            continue
        known.add(kind)
        count -= 1
        yield {"name": f"{kind}-{name}".lower(), "class": name, "hf": {"model_type": kind, **shallow(values)}}


def one_a_file(library, names, file_of, count, known):
    for name in sorted(names, key=order):
        if count and file_of(name) not in known:
            known.add(file_of(name))
            count -= 1
            yield {"name": f"{library}-{name}", library: name}


def file_of_diffusers(name):
    """Its file; none where this version has no such model."""
    return getattr(getattr(diffusers.models, name, None), "__module__", None)


def of_diffusers(memwall, count, known):
    """Models whose own defaults are a configuration."""
    names = [name for name in dir(diffusers.models) if inspect.isclass(found := getattr(diffusers.models, name))
             and issubclass(found, diffusers.ModelMixin) and not name.startswith(("Auto", "Flax", "Multi"))
             or name.startswith("AutoencoderKL")]
    for name in sorted(names, key=order):
        given = list(inspect.signature(getattr(diffusers.models, name).__init__).parameters.values())[1:]
        defaults = {one.name: one.default for one in given if one.kind is not one.VAR_KEYWORD}
        if not count or file_of_diffusers(name) in known or any(value is inspect.Parameter.empty for value in defaults.values()):
            continue
        config = {**defaults, **shallow(defaults)}
        if is_answered(memwall, name, {"_class_name": name, **config}):
            continue
        known.add(file_of_diffusers(name))
        count -= 1
        yield {"name": f"diffusers-{name}".lower(), "diffusers": name, "config": config}


if __name__ == "__main__":
    memwall, *counts = sys.argv[1:]
    here = json.load(open(Path(__file__).with_name("traced.json")))
    first, second, third, fourth = map(int, counts[:4])
    SEED = "".join(counts[4:5])
    seen = {line.split("\t")[0] for file in counts[5:6] for line in open(file)}
    file_of = timm.models._registry._model_to_module.get
    models = torchvision.models
    builder = lambda name: models.get_model_builder(name).__module__
    had = lambda library, of: {of(case[library]) for case in here if library in case}
    drawn = [
        *of_transformers(memwall, first, {case["hf"]["model_type"] for case in here if "hf" in case} | seen),
        *one_a_file("timm", timm.list_models(), file_of, second, had("timm", file_of)),
        *one_a_file("torchvision", models.list_models(), builder, third, had("torchvision", builder)),
        *of_diffusers(memwall, fourth, had("diffusers", file_of_diffusers)),
    ]
    print("[\n" + ",\n".join(json.dumps(case, default=str) for case in drawn) + "\n]")
