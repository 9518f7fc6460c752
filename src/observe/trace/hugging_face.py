"""Models of transformers, from their config.json."""

import importlib
import importlib.util
import inspect
import json
import math
from pathlib import Path

import torch

import hf_inputs
import places
from hf_inputs import kind_of
from sources import Refused, Subject, module

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
# Their positions begin behind the padding token's (transformers/models/roberta/modeling_roberta.py).
FROM_TWO = ("roberta", "xlm-roberta", "camembert", "longformer", "xlm-roberta-xl", "data2vec-text")


def hugging_face(path, class_name=None, attention=None, answers=False):
    transformers = module("transformers", "--hf")
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    try:
        values = json.loads(file.read_text())
    except FileNotFoundError:
        raise Refused(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: not a model's config.json: {error}") from None
    if not isinstance(values, dict) or "model_type" not in values:
        raise Refused(f"{path}: not a transformers config.json: it has no model_type")
    kind = values["model_type"]
    config_class = config_class_of(transformers, kind)
    if config_class is None:
        raise Refused(f"{path}: transformers {transformers.__version__} has no model_type `{kind}`")
    try:
        config = config_class.from_dict({key: value for key, value in values.items() if key != "quantization_config"})
    except Exception as error:
        text = next(iter(str(error).splitlines()), "")
        raise Refused(f"{path}: transformers {transformers.__version__} cannot read this configuration: "
                      f"{type(error).__name__}: {text}") from error
    name = class_name or next(iter(values.get("architectures") or ()), None)
    if name is None:
        model_class = default_class(transformers, config)
        if model_class is None:
            raise Refused(f"{path}: transformers {transformers.__version__} has no model of its own for `{kind}`; "
                          "--class names one")
    else:
        model_class = getattr(transformers, name, None) or getattr(module_of(config), name, None)
        if model_class is None:
            raise Refused(f"transformers {transformers.__version__} has no class `{name}`; --class names another")
    return transformers_subject(transformers, model_class, part_for(model_class, config), str(path), attention, answers)


def part_for(model_class, config):
    """A language model of a kind that also sees is built from the text's part, as the Auto classes do
    (transformers/models/auto/auto_factory.py, `from_config`)."""
    wants = getattr(model_class, "config_class", None)
    parts = getattr(config, "sub_configs", None) or {}
    is_part = wants is not None and not isinstance(config, wants) and wants is parts.get("text_config")
    return config.get_text_config() if is_part else config


def config_class_of(transformers, kind):
    """The class of configurations that say so of themselves; some do not have the name that the library lists them by."""
    try:
        return transformers.CONFIG_MAPPING[kind]
    except KeyError:
        return next((one for one in transformers.CONFIG_MAPPING.values() if one.model_type == kind), None)


def module_of(config):
    """The module of a configuration's models; none where there is none."""
    try:
        return importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None


def default_class(transformers, config):
    """The class that a configuration without `architectures` is for: what the Auto classes say, else the first of its own
    module that takes it."""
    both = getattr(config, "is_encoder_decoder", False)
    autos = ["AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForImageClassification",
             "AutoModelForImageTextToText", "AutoModel"]
    if both:
        autos[:2] = autos[1::-1]
    for name in autos:
        # The one for images and text is of version 4.45 and later.
        mapping = getattr(getattr(transformers, name, None), "_model_mapping", {})
        if type(config) in mapping.keys():
            found = mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    module = module_of(config)
    # What further Auto classes say: a whole that they name goes before its parts.
    for name in sorted(vars(transformers.models.auto.modeling_auto)):
        mapping = getattr(getattr(transformers.models.auto.modeling_auto, name), "_model_mapping", None)
        if mapping is not None and type(config) in mapping.keys():
            found = mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    takes = [one for one in vars(module or object).values() if inspect.isclass(one) and one.__module__ == module.__name__
             and getattr(one, "config_class", None) is type(config) and "forward" in vars(one)]
    best = lambda one: (not one.__name__.endswith(("ForConditionalGeneration", "ForCausalLM")), not one.__name__.endswith("Model"))
    return min(takes, key=best, default=None)


def answering(way, name, accepted):
    """A way to run a class as `generate` does: scores of the last position alone, and a target that has begun."""
    way.extra = {}
    if "logits_to_keep" in accepted and name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
        way.extra["logits_to_keep"] = 1
    for one in way.inputs:
        if one.name == "labels" and "T" in one.axes():
            one.name = "decoder_input_ids"
    return way


# Kinds whose layers run on mamba_ssm's kernels where it is.
STATE_SPACE = {"bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "mamba", "mamba2"}


def without_others(config):
    """Weights of a backbone are nobody's business, and lie elsewhere; kernels that are not installed are not asked for: what to
    say of that."""
    for part in (config, *vars(config).values()):
        if getattr(part, "use_pretrained_backbone", False) is True:
            part.use_pretrained_backbone = False
    if getattr(config, "use_mamba_kernels", False) is True and importlib.util.find_spec("mamba_ssm") is None:
        config.use_mamba_kernels = False
        return "mamba_ssm is not installed here: traced by the slow path of Python, which a run with its kernels does not take"
    kinds = {getattr(part, "model_type", None) for part in (config, *vars(config).values())}
    if kinds & STATE_SPACE and importlib.util.find_spec("mamba_ssm") is None:
        return "mamba_ssm is not installed here: state-space layers are traced in transformers' own code, which keeps many times " \
               "more than its kernels"
    if any("linear_attention" in (getattr(part, "layer_types", None) or ()) for part in (config, *vars(config).values())):
        from transformers.utils import import_utils

        known = getattr(import_utils, "is_flash_linear_attention_available", None)
        if known is not None and not known():
            return "flash-linear-attention does not run here: layers of linear attention are traced in transformers' own code, " \
                   "which keeps many times more than its kernels"
    return None


def without_packing(transformers):
    """A row is one sequence, and with the mask that collators hand over, or with a cache, nothing looks for more; some
    versions answer for a batch without either that every row may hold several, which takes a mask and slower kernels."""
    masks = getattr(transformers, "masking_utils", None)
    if hasattr(masks, "find_packed_sequence_indices"):
        masks.find_packed_sequence_indices = lambda *_: None


def filled(config, text, name, answers):
    """Fills in what a configuration leaves to whoever trains: tokens that stand for something, and that nothing is cached."""
    if name.endswith("SequenceClassification") and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    if getattr(config, "is_encoder_decoder", False):
        for key in ("pad_token_id", "decoder_start_token_id"):
            if getattr(config, key, None) is None:
                setattr(config, key, 0)
    for key in ("image_token_id", "image_token_index", "video_token_id", "video_token_index"):
        # Configurations of parts alone name no token that stands for an image.
        if hasattr(config, key) and getattr(config, key) is None:
            setattr(config, key, 0)
    for one in (config, text):
        # Trainers keep no keys and values; who answers keeps them if the model does.
        if hasattr(one, "use_cache") and not answers:
            one.use_cache = False


def builder(transformers, model_class, config, attention):
    """What makes the model, in fp32 and without weights from elsewhere."""
    def build():
        chosen = {"attn_implementation": attention} if attention else {}
        key = "dtype" if "dtype" in inspect.signature(model_class._from_config).parameters or \
            int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        chosen[key] = torch.float32
        model = model_class._from_config(config, **chosen)
        places.follow_places(model)
        if getattr(config, "languages", None) and hasattr(model, "set_default_language") and config.default_language is None:
            model.set_default_language(config.languages[0])
        return model

    return build


def found_ways(model_class, config, text, answers):
    """The ways to run a class that lack nothing; else the best one, and what it lacks."""
    signature = inspect.signature(model_class.forward).parameters
    accepted = set(signature)
    found = hf_inputs.ways(model_class, config, text, accepted)
    for way in found:
        way.lacks = [key for key, one in list(signature.items())[1:] if one.default is one.empty and one.kind not in (
            one.VAR_POSITIONAL, one.VAR_KEYWORD) and key not in {given.name for given in way.inputs} and key not in way.extra]
    lacks = next((way.lacks for way in found), [])
    found = [way for way in found if not way.lacks] or found[:1]
    return [answering(way, model_class.__name__, accepted) for way in found] if answers else found, lacks


def longest_of(config, text):
    """Most tokens; none where nothing limits them."""
    longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if kind_of(config) == "t5" or not isinstance(longest, int) or longest < 8:
        return None
    return longest - 2 if kind_of(text) in FROM_TWO else longest


def even_lengths(experts):
    """Lengths at which every expert gets as many tokens, whole ones; none where any does."""
    odd = experts // math.gcd(experts, 64)
    first = -(-128 // (8 * odd))
    return [8 * odd * (first + more) for more in (0, 1, 3, 2)] if odd > 1 else None


def towers_of(config):
    """What to say of a model with an encoder of images or sound that is given text alone."""
    towers = [key for key in ("vision_config", "audio_config") if getattr(config, key, None) is not None]
    return "traced with text alone: what reads " + " and ".join(
        {"vision_config": "images", "audio_config": "sound"}[key] for key in towers) \
        + " is counted among the parameters and does not run" if towers else None


def transformers_subject(transformers, model_class, config, source, attention=None, answers=False):
    without_packing(transformers)
    without = without_others(config)
    name = model_class.__name__
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    filled(config, text, name, answers)
    found, lacks = found_ways(model_class, config, text, answers)
    subject = Subject(f"{config.model_type} ({name})", source, builder(transformers, model_class, config, attention), [],
                      longest=longest_of(config, text), side=hf_inputs.image_side(config))
    subject.experts = next((count for key in EXPERTS if (count := getattr(text, key, None))), 1)
    if "input_ids" in inspect.signature(model_class.forward).parameters:
        subject.lengths = even_lengths(subject.experts)
    subject.versions = {"transformers": transformers.__version__}
    if model_class.forward is torch.nn.Module.forward:
        subject.cannot = "it has no step of its own: trace the parts that it puts together, or your own script"
    elif found[0].lacks:
        subject.cannot = f"it reads {', '.join(lacks)}, of a form that only your script knows: memwall trace -- python …"
    subject.ways, subject.blind = found, towers_of(config)
    for way in found:
        way.note = "; ".join(filter(None, [way.note, without])) or None
    subject.otherwise()
    return subject
