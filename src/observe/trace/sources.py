"""What is traced: a model, its inputs by batch and length, and what the loss is."""

import importlib
import importlib.util
import inspect
import math
import json
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

DTYPES = {"int64": torch.int64, "int32": torch.int32, "float32": torch.float32, "float": torch.float32,
          "bool": torch.bool, "bfloat16": torch.bfloat16, "float16": torch.float16, "uint8": torch.uint8}


ONLY_FOR_LOSSES = ("labels", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions", "_labels",
                   "_channels")


class Refused(Exception):
    """What cannot be traced, in one line."""


class Input:
    """An input: name, type and sides, each a number or an axis (`B`, `S`, `T`, `I`), or `2*S` and the like."""

    def __init__(self, name, dtype, sides):
        self.name, self.dtype, self.sides = name, dtype, [str(side) for side in sides]

    def shape(self, sizes):
        return tuple(self.side(side, sizes) for side in self.sides)

    @staticmethod
    def side(side, sizes):
        product = 1
        for factor in side.split("*"):
            factor = factor.strip()
            if factor.isdigit():
                product *= int(factor)
            elif factor in sizes:
                product *= sizes[factor]
            else:
                raise Refused(f"--input: `{side}` is neither a number nor one of B, S, T and I")
        return product

    def axes(self):
        return {factor.strip() for side in self.sides for factor in side.split("*") if not factor.strip().isdigit()}

    def make(self, sizes, device, lower):
        dtype = lower if self.dtype.is_floating_point and lower is not None else self.dtype
        return torch.zeros(self.shape(sizes), dtype=dtype, device=device)


class Subject:
    """A model to trace."""

    def __init__(self, name, source, build, inputs, loss=None, extra=None, longest=None, side=None):
        self.name, self.source, self.build, self.inputs = name, source, build, inputs
        self.loss_of, self.extra = loss, extra or {}
        # Most tokens; pixels a side, and whether other sizes may do.
        self.longest, self.side = longest, side
        # Lengths to trace at, the last one to check; the tracer's own where none are named.
        self.lengths = None
        # Whether images of other sizes may do.
        self.varies = True
        self.notes, self.versions = [], {}
        # The forward pass alone, without gradients, is traced.
        self.answers = False
        # Lengths that do not vary, by axis.
        self.held = {}

    def hold_at(self, length):
        """Traces at a length that was asked for."""
        lengths = [axis for axis in self.axes() if axis in "ST"]
        if not lengths:
            raise Refused("--length: the model reads nothing that has a length")
        self.held, self.longest = dict.fromkeys(lengths, length), length

    def hold(self, lengths):
        """Traces at these lengths alone."""
        self.held, self.longest = lengths, lengths.get("S", self.longest)
        self.notes.append(f"what runs depends on the length: traced with {' and '.join(map(str, lengths.values()))} tokens alone; "
                          "--length names another")

    def axes(self):
        used = set().union(*(one.axes() for one in self.inputs)) if self.inputs else set()
        unknown = used - set("BSTI")
        if unknown:
            raise Refused(f"--input: `{sorted(unknown)[0]}` is no axis: B is the batch, S and T are lengths, I is an image's side")
        return [axis for axis in "BSTI" if axis in used and axis not in self.held]

    def batch(self, sizes, device, lower):
        return {one.name: one.make(sizes, device, lower) for one in self.inputs}

    def run(self, model, batch):
        positional = [value for name, value in batch.items() if name.isdigit()]
        named = {name: value for name, value in batch.items() if not name.isdigit() and not name.startswith("_")}
        output = model(*positional, **named, **self.extra)
        if self.answers:
            return output
        return self.loss_of(output, batch) if self.loss_of else default_loss(output)

    def answer(self):
        """Makes it a forward pass: nothing is compared with labels."""
        self.answers = True
        self.inputs = [one for one in self.inputs if one.name not in ONLY_FOR_LOSSES]
        return self


def default_loss(output):
    """The loss that the output has; else the mean of its first tensor, which takes next to nothing."""
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    if isinstance(loss, torch.Tensor):
        return loss if loss.dim() == 0 else loss.mean()
    first = first_tensor(output)
    if first is None:
        raise Refused(f"the model returns {type(output).__name__}, in which no tensor has a gradient; name the loss: --loss output.…")
    return first if first.dim() == 0 else first.float().mean()


def first_tensor(output):
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return next((found for found in map(first_tensor, values) if found is not None), None)


def cross_entropy(output, batch):
    logits = first_tensor(getattr(output, "logits", output))
    return F.cross_entropy(logits, batch["_labels"])


# Hugging Face

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


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
    try:
        config_class = transformers.CONFIG_MAPPING[kind]
    except KeyError:
        raise Refused(f"{path}: transformers {transformers.__version__} has no model_type `{kind}`") from None
    config = config_class.from_dict({key: value for key, value in values.items() if key != "quantization_config"})
    name = class_name or next(iter(values.get("architectures") or ()), None)
    if name is None:
        model_class = default_class(transformers, config)
        if model_class is None:
            raise Refused(f"{path}: transformers {transformers.__version__} has no model of its own for `{kind}`; "
                          "--class names one")
    else:
        model_class = getattr(transformers, name, None)
        if model_class is None:
            raise Refused(f"transformers {transformers.__version__} has no class `{name}`; --class names another")
    return transformers_subject(transformers, model_class, config, str(path), attention, answers)


def default_class(transformers, config):
    """The class that a configuration without `architectures` is for: what the Auto classes say, else the first of its own
    module that takes it."""
    both = getattr(config, "is_encoder_decoder", False)
    autos = ["AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForImageClassification",
             "AutoModel"]
    if both:
        autos[:2] = autos[1::-1]
    for name in autos:
        mapping = getattr(transformers, name)._model_mapping
        if type(config) in mapping.keys():
            found = mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    try:
        module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None
    takes = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__
             and getattr(one, "config_class", None) is type(config) and "forward" in vars(one)]
    best = lambda one: (not one.__name__.endswith(("ForConditionalGeneration", "ForCausalLM")), not one.__name__.endswith("Model"))
    return min(takes, key=best, default=None)


def without_packing(transformers):
    """A row is one sequence, and with the mask that collators hand over, or with a cache, nothing looks for more; some
    versions answer for a batch without either that every row may hold several, which takes a mask and slower kernels."""
    masks = getattr(transformers, "masking_utils", None)
    if hasattr(masks, "find_packed_sequence_indices"):
        masks.find_packed_sequence_indices = lambda *_: None


def transformers_subject(transformers, model_class, config, source, attention=None, answers=False):
    without_packing(transformers)
    name = model_class.__name__
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if name.endswith("SequenceClassification") and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    if getattr(config, "is_encoder_decoder", False):
        for key in ("pad_token_id", "decoder_start_token_id"):
            if getattr(config, key, None) is None:
                setattr(config, key, 0)
    for one in (config, text):
        # Trainers keep no keys and values; who answers keeps them if the model does.
        if hasattr(one, "use_cache") and not answers:
            one.use_cache = False

    def build():
        chosen = {"attn_implementation": attention} if attention else {}
        key = "dtype" if "dtype" in inspect.signature(model_class._from_config).parameters or \
            int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        chosen[key] = torch.float32
        return model_class._from_config(config, **chosen)

    accepted = set(inspect.signature(model_class.forward).parameters)
    inputs, extra = transformers_inputs(model_class, config, text, accepted)
    if answers:
        extra = {}
        # As `generate` calls it: scores of the last position alone, and a target that has begun.
        if "logits_to_keep" in accepted and name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
            extra["logits_to_keep"] = 1
        for one in inputs:
            if one.name == "labels" and "T" in one.axes():
                one.name = "decoder_input_ids"
    longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None)
    if kind_of(config) == "t5" or not isinstance(longest, int) or longest < 8:
        longest = None
    if longest and kind_of(text) in ("roberta", "xlm-roberta", "camembert", "longformer", "xlm-roberta-xl", "data2vec-text"):
        longest -= 2
    side = image_side(config)
    subject = Subject(f"{config.model_type} ({name})", source, build, inputs, extra=extra, longest=longest, side=side)
    subject.experts = next((count for key in EXPERTS if (count := getattr(text, key, None))), 1)
    odd = subject.experts // math.gcd(subject.experts, 64)
    if odd > 1 and "input_ids" in accepted:
        # Lengths at which every expert gets as many tokens, whole ones.
        unit = 8 * odd
        first = -(-128 // unit)
        subject.lengths = [unit * (first + more) for more in (0, 1, 3, 2)]
    subject.versions = {"transformers": transformers.__version__}
    sees = any(one.name.startswith(("pixel_values", "input_features", "input_values")) for one in inputs)
    towers = [key for key in ("vision_config", "audio_config") if getattr(config, key, None) is not None]
    if towers and not sees:
        what = " and ".join({"vision_config": "images", "audio_config": "sound"}[key] for key in towers)
        subject.notes.append(f"traced with text alone: what reads {what} is counted among the parameters and does not run")
    if any(one.name == "input_values" for one in inputs):
        # Samples of sound: convolutions leave one position of 320.
        subject.lengths = [16000, 32000, 64000, 48000]
    return subject


def kind_of(config):
    return getattr(config, "model_type", "")


def image_side(config):
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, "image_size", None)
        if isinstance(size, (list, tuple)) and size:
            size = size[0]
        if isinstance(size, int):
            return size
    return 224


def image_sides(vision):
    """The axis of square images; numbers where the sides differ."""
    size = getattr(vision, "image_size", None)
    both = list(size) if isinstance(size, (list, tuple)) and len(size) == 2 else []
    return both if len(set(both)) == 2 else ["I", "I"]


def transformers_inputs(model_class, config, text, accepted):
    name, ids = model_class.__name__, torch.int64
    main = getattr(model_class, "main_input_name", "input_ids")
    inputs, extra = [], {}
    vision = getattr(config, "vision_config", config)
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3

    def add(key, dtype, *sides):
        if key in accepted:
            inputs.append(Input(key, dtype, sides))

    frames = getattr(vision, "num_frames", None)
    frames = [frames] if isinstance(frames, int) and frames > 1 else []
    if main in ("pixel_values", "pixel_values_videos"):
        inputs.append(Input(main, torch.float32, ["B", *frames, channels, *image_sides(vision)]))
        if "ImageClassification" in name:
            add("labels", ids, "B")
        elif "Segmentation" in name:
            add("labels", ids, "B", "I", "I")
        return inputs, extra
    if main == "input_values":
        inputs.append(Input(main, torch.float32, ["B", "S"]))
        if name.endswith("ForCTC"):
            add("labels", ids, "B", 32)
        elif "Classification" in name and "Frame" not in name:
            add("labels", ids, "B")
        return inputs, extra
    if main == "input_features":
        bins = getattr(config, "num_mel_bins", 80)
        frames = 2 * getattr(config, "max_source_positions", 1500)
        inputs.append(Input(main, torch.float32, ["B", bins, frames]))
        add("labels", ids, "B", "S")
        return inputs, extra
    if name.endswith("MultipleChoice"):
        inputs.append(Input(main, ids, ["B", 4, "S"]))
        add("labels", ids, "B")
        return inputs, extra
    inputs.append(Input(main, ids, ["B", "S"]))
    both = getattr(config, "is_encoder_decoder", False) and not name.endswith("ForCausalLM")
    if both and "labels" in accepted and "Classification" not in name and "Question" not in name:
        add("labels", ids, "B", "T")
    elif both and "decoder_input_ids" in accepted:
        add("decoder_input_ids", ids, "B", "T")
    elif "pixel_values" in accepted and "return_loss" in accepted:
        inputs.append(Input("pixel_values", torch.float32, ["B", *frames, channels, image_side(config), image_side(config)]))
        extra["return_loss"] = True
    elif name.endswith(("SequenceClassification", "NextSentencePrediction")):
        add("labels", ids, "B")
    elif name.endswith("QuestionAnswering"):
        add("start_positions", ids, "B")
        add("end_positions", ids, "B")
    else:
        add("labels", ids, "B", "S")
        add("next_sentence_label", ids, "B")
        add("sentence_order_label", ids, "B")
    return inputs, extra


# Other libraries

def timm_model(name):
    timm = module("timm", "--timm")
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('_')[0]}*")[:3]
        raise Refused(f"timm {timm.__version__} has no model `{name}`" + (f"; near: {', '.join(close)}" if close else ""))
    settings = timm.get_pretrained_cfg(name)
    size = (settings.input_size if settings is not None else None) or (3, 224, 224)
    build = lambda: timm.create_model(name, pretrained=False)
    inputs = [Input("0", torch.float32, ["B", size[0], "I", "I"]), Input("_labels", torch.int64, ["B"])]
    subject = Subject(name, f"timm {timm.__version__}", build, inputs, loss=cross_entropy, side=size[1])
    subject.versions = {"timm": timm.__version__}
    return subject


def torchvision_model(name):
    torchvision = module("torchvision", "--torchvision")
    models = torchvision.models
    if name not in models.list_models():
        raise Refused(f"torchvision {torchvision.__version__} has no model `{name}`")
    inputs = [Input("0", torch.float32, ["B", 3, "I", "I"])]

    def loss(output, batch):
        if isinstance(output, dict) and "out" in output:
            # Segmentation: references/segmentation/train.py.
            return sum((0.5 if key == "aux" else 1.0) * F.cross_entropy(one, batch["_labels"], ignore_index=255)
                       for key, one in output.items())
        first = output[0] if isinstance(output, tuple) else output
        return F.cross_entropy(first, batch["_labels"])

    segmentation = name in models.list_models(module=models.segmentation)
    if name in models.list_models(module=models.detection):
        raise Refused(f"{name}: torchvision's detection models pick boxes by their values; trace your own training script")
    if name in models.list_models(module=models.video):
        inputs = [Input("0", torch.float32, ["B", 3, 16, "I", "I"])]
    inputs.append(Input("_labels", torch.int64, ["B", "I", "I"] if segmentation else ["B"]))
    chosen = {"weights": None}
    if segmentation:
        chosen["weights_backbone"] = None
    side = 299 if name == "inception_v3" else 224
    def build():
        extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return models.get_model(name, **chosen, **extra)

    subject = Subject(name, f"torchvision {torchvision.__version__}", build, inputs, loss=loss, side=side)
    subject.versions = {"torchvision": torchvision.__version__}
    return subject


def diffusers_model(path):
    diffusers = module("diffusers", "--diffusers")
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    try:
        values = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Refused(f"{path}: not a diffusers config.json: {error}") from None
    name = values.get("_class_name")
    model_class = getattr(diffusers, name or "", None)
    if model_class is None:
        raise Refused(f"{path}: diffusers {diffusers.__version__} has no model class `{name}`")
    build = lambda: model_class.from_config(values)
    accepted = inspect.signature(model_class.forward).parameters
    inputs = diffusion_inputs(name, values, accepted)

    def loss(output, batch):
        made = first_tensor(output if isinstance(output, (tuple, list)) else getattr(output, "sample", output))
        target = torch.zeros_like(made[:, :batch["_channels"].shape[0]] if made.dim() > 2 else made)
        return F.mse_loss(made.float()[:, :target.shape[1]], target.float())

    extra = {"return_dict": False}
    if "added_cond_kwargs" in accepted and values.get("addition_embed_type") == "text_time":
        raise_width = values["projection_class_embeddings_input_dim"] - 6 * values["addition_time_embed_dim"]
        inputs.append(Input("_text_embeds", torch.float32, ["B", raise_width]))
        inputs.append(Input("_time_ids", torch.float32, ["B", 6]))
    subject = Diffusion(name, f"diffusers {diffusers.__version__}", build, inputs, loss=loss, extra=extra,
                        side=values.get("sample_size") or 64)
    subject.versions = {"diffusers": diffusers.__version__}
    return subject


class Diffusion(Subject):
    """A denoising model: what stands beside the latents is named by its class."""

    def run(self, model, batch):
        extra = dict(self.extra)
        if "_text_embeds" in batch:
            extra["added_cond_kwargs"] = {"text_embeds": batch["_text_embeds"], "time_ids": batch["_time_ids"]}
        named = {name: value for name, value in batch.items() if not name.startswith("_")}
        output = model(**named, **extra)
        return output if self.answers else self.loss_of(output, batch)


def diffusion_inputs(name, values, accepted):
    channels, made = values.get("in_channels", 4), values.get("in_channels", 4)
    f32 = torch.float32
    inputs = []
    if "img_ids" in accepted:
        # Flux: packed latents, a text of 512 tokens.
        inputs = [Input("hidden_states", f32, ["B", "S", channels]), Input("img_ids", f32, ["S", 3]),
                  Input("encoder_hidden_states", f32, ["B", 512, values.get("joint_attention_dim", 4096)]),
                  Input("txt_ids", f32, [512, 3]), Input("pooled_projections", f32, ["B", values.get("pooled_projection_dim", 768)]),
                  Input("timestep", f32, ["B"])]
        if values.get("guidance_embeds"):
            inputs.append(Input("guidance", f32, ["B"]))
        return [*inputs, Input("_channels", f32, [channels])]
    latents = "hidden_states" if "hidden_states" in accepted else "sample" if "sample" in accepted else next(
        key for key in accepted if key != "self")
    inputs.append(Input(latents, f32, ["B", channels, "I", "I"]))
    if "timestep" in accepted:
        inputs.append(Input("timestep", torch.int64, ["B"]))
    if "encoder_hidden_states" in accepted:
        width = values.get("caption_channels") or values.get("joint_attention_dim") or values.get("cross_attention_dim")
        width = width[-1] if isinstance(width, list) else width
        if width:
            length = {"SD3Transformer2DModel": 333, "PixArtTransformer2DModel": 120}.get(name, 77)
            inputs.append(Input("encoder_hidden_states", f32, ["B", length, width]))
    if "pooled_projections" in accepted:
        inputs.append(Input("pooled_projections", f32, ["B", values.get("pooled_projection_dim", 2048)]))
    if "class_labels" in accepted and values.get("num_embeds_ada_norm") and "encoder_hidden_states" not in {
            one.name for one in inputs}:
        inputs.append(Input("class_labels", torch.int64, ["B"]))
    made = values.get("out_channels") or made
    return [*inputs, Input("_channels", f32, [min(made, channels)])]


# The user's own

def own(target, input_texts, loss_text):
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise Refused(f"`{target}`: write file.py:make_model, where make_model returns the model")
    path = Path(file)
    if not path.is_file():
        raise Refused(f"{file}: there is no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    maker = getattr(loaded, name, None)
    if not callable(maker):
        raise Refused(f"{file} has no function or class `{name}`")
    if not input_texts:
        raise Refused("--input is needed: what the model reads, such as --input 'input_ids=int64[B,S]'")
    inputs = [parse_input(text, at) for at, text in enumerate(input_texts)]
    loss = None
    if loss_text:
        code = compile(loss_text, "--loss", "eval")

        def loss(output, batch):
            made = eval(code, {"torch": torch, "F": F, "output": output, **vars(loaded),
                               **{key.lstrip("_"): value for key, value in batch.items()}})
            if not isinstance(made, torch.Tensor) or made.dim():
                raise Refused(f"--loss {loss_text}: gives {describe(made)}, not one number")
            return made

    def build():
        made = maker()
        if not isinstance(made, torch.nn.Module):
            raise Refused(f"{target} returns {type(made).__name__}, not a torch.nn.Module")
        return made

    return Subject(name, file, build, inputs, loss=loss)


def describe(value):
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def parse_input(text, at=0):
    found = re.fullmatch(r"(?:([A-Za-z_]\w*)\s*=\s*)?([a-z]+\d*)\s*\[([^\]]*)\]", text.strip())
    if not found or found[2] not in DTYPES:
        raise Refused(f"--input `{text}`: write name=type[sides], such as input_ids=int64[B,S] or pixels=float32[B,3,224,224]")
    sides = [side.strip() for side in found[3].split(",") if side.strip()]
    return Input(found[1] or str(at), DTYPES[found[2]], sides)


def module(name, option):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Refused(f"{option} needs {name} in the Python that traces ({sys.executable}): {error}") from None
