"""Models of timm, torchvision and diffusers, by name or configuration."""

import inspect
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

import detectors
import hf_inputs
from places import tensors_in
from sources import Input, Refused, Subject, cross_entropy, first_tensor, module


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

    if name in models.list_models(module=models.optical_flow):
        return flow_model(name, torchvision)
    segmentation = name in models.list_models(module=models.segmentation)
    if name in models.list_models(module=models.detection):
        made = detectors.Detector(name, f"torchvision {torchvision.__version__}",
                                  lambda: models.get_model(name, weights=None, weights_backbone=None))
        made.versions = {"torchvision": torchvision.__version__}
        return made
    if name in models.list_models(module=models.video):
        inputs = [Input("0", torch.float32, ["B", 3, 16, "I", "I"])]
    inputs.append(Input("_labels", torch.int64, ["B", "I", "I"] if segmentation else ["B"]))
    chosen = {"weights": None}
    if segmentation:
        chosen["weights_backbone"] = None
    side = 299 if name.endswith("inception_v3") else 224

    def build():
        extra = {"init_weights": False} if name.endswith(("googlenet", "inception_v3")) else {}
        return models.get_model(name, **chosen, **extra)

    subject = Subject(name, f"torchvision {torchvision.__version__}", build, inputs, loss=loss, side=side)
    subject.versions = {"torchvision": torchvision.__version__}
    return subject


def flow_model(name, torchvision):
    """Two pictures, and how far each point moves between them; every refinement counts (references/optical_flow/utils.py,
    `sequence_loss`)."""
    inputs = [Input(at, torch.float32, ["B", 3, "I", "I"]) for at in ("0", "1")]
    inputs.append(Input("_labels", torch.float32, ["B", 2, "I", "I"]))

    def loss(output, batch):
        last = len(output) - 1
        return sum(0.8 ** (last - at) * (one - batch["_labels"]).abs().mean() for at, one in enumerate(output))

    build = lambda: torchvision.models.get_model(name, weights=None)
    subject = Subject(name, f"torchvision {torchvision.__version__}", build, inputs, loss=loss, side=224)
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
        if "controlnet_cond" in batch:
            # What it adds to each block of the model that it steers.
            return sum(one.float().mean() for one in tensors_in(output))
        made = first_tensor(output if isinstance(output, (tuple, list)) else getattr(output, "sample", output))
        target = torch.zeros_like(made[:, :batch["_channels"].shape[0]] if made.dim() > 2 else made)
        return F.mse_loss(made.float()[:, :target.shape[1]], target.float())

    extra = {**({"return_dict": False} if "return_dict" in accepted else {}), **(PACKED if is_packed(accepted) else {})}
    if "added_cond_kwargs" in accepted and values.get("addition_embed_type") == "text_time":
        raise_width = values["projection_class_embeddings_input_dim"] - 6 * values["addition_time_embed_dim"]
        inputs.append(Input("_text_embeds", torch.float32, ["B", raise_width]))
        inputs.append(Input("_time_ids", torch.float32, ["B", 6]))
    if "added_cond_kwargs" in accepted and sees_shape(name, values):
        inputs.extend([Input("_resolution", torch.float32, ["B", 2]), Input("_aspect_ratio", torch.float32, ["B", 1])])
    subject = Diffusion(name, f"diffusers {diffusers.__version__}", build, inputs, loss=loss, extra=extra,
                        side=values.get("sample_size") or 64)
    subject.versions = {"diffusers": diffusers.__version__}
    subject.ways = films(name, inputs, extra)
    if is_packed(accepted):
        subject.notes.append("traced with films of {num_frames} frames of {height} by {width} latents".format(**PACKED))
    return subject


def films(name, inputs, extra):
    """Ways for a model that wants frames: channels before them, or behind. Autoencoders read pictures, one and four for each of
    further latents; denoising models read latents."""
    at = next((at for at, one in enumerate(inputs) if one.sides[2:] == ["I", "I"]), None)
    if at is None:
        return []
    frames, (batch, channels, *sides) = 17 if name.startswith("Autoencoder") else 8, inputs[at].sides
    orders = [[batch, channels, frames, *sides], [batch, frames, channels, *sides]]
    made = [Input(inputs[at].name, inputs[at].dtype, order) for order in orders]
    return [hf_inputs.Way([*inputs[:at], one, *inputs[at + 1:]], extra, f"traced with films of {frames} frames") for one in made]


class Diffusion(Subject):
    """A denoising model: what stands beside the latents is named by its class."""

    def run(self, model, batch):
        extra = dict(self.extra)
        if "_text_embeds" in batch:
            extra["added_cond_kwargs"] = {"text_embeds": batch["_text_embeds"], "time_ids": batch["_time_ids"]}
        if "_resolution" in batch:
            extra["added_cond_kwargs"] = {"resolution": batch["_resolution"], "aspect_ratio": batch["_aspect_ratio"]}
        named = {name: value for name, value in batch.items() if not name.startswith("_")}
        output = model(**named, **extra)
        return output if self.answers else self.loss_of(output, batch)


# Tokens of a text, as their pipelines have them (`max_sequence_length`); 77 elsewhere, as CLIP's.
TEXTS = {"SD3Transformer2DModel": 333, "PixArtTransformer2DModel": 120, "CogVideoXTransformer3DModel": 226, "WanTransformer3DModel": 512}

# Those that do not run without a mask of their text.
MASKED = ("Lumina2Transformer2DModel", "MochiTransformer3DModel", "HunyuanVideoTransformer3DModel")


def condition(values, channels):
    """What a control net is steered by: a picture, of which it makes latents; or latents, and channels beside them
    (diffusers/models/controlnets/controlnet_sd3.py, `pos_embed_input`)."""
    if "conditioning_channels" in values and "conditioning_embedding_out_channels" in values:
        return Input("controlnet_cond", torch.float32, ["B", values["conditioning_channels"], "8*I", "8*I"])
    return Input("controlnet_cond", torch.float32, ["B", channels + values.get("extra_conditioning_channels", 0), "I", "I"])


def sees_shape(name, values):
    """Whether a model is told the picture's shape (diffusers/models/transformers/pixart_transformer_2d.py,
    `use_additional_conditions`)."""
    told = values.get("use_additional_conditions")
    return name == "PixArtTransformer2DModel" and (values.get("sample_size", 128) == 128 if told is None else told)


# Frames, height and width of a film whose latents stand in a row (diffusers/models/transformers/transformer_ltx.py).
PACKED = {"num_frames": 8, "height": 16, "width": 24}


def is_packed(accepted):
    return {"hidden_states", "encoder_hidden_states", *PACKED} <= set(accepted)


def packed_film(values, channels):
    f32, length = torch.float32, 128
    return [Input("hidden_states", f32, ["B", math.prod(PACKED.values()), channels]),
            Input("encoder_hidden_states", f32, ["B", length, values.get("caption_channels", 4096)]),
            Input("timestep", torch.int64, ["B"]), hf_inputs.Whole("encoder_attention_mask", hf_inputs.IDS, ["B", length]),
            Input("_channels", f32, [channels])]


def diffusion_inputs(name, values, accepted):
    # Autoencoders read pictures, unless they say otherwise; denoising models read latents.
    channels = made = values.get("in_channels") or (3 if name.startswith("Autoencoder") else 4)
    f32 = torch.float32
    inputs = []
    if name == "AutoencoderKLMochi":
        # It makes waves of two lengths beside each channel that it reads (autoencoder_kl_mochi.py, FourierFeatures).
        channels = made = channels // 5
    if is_packed(accepted):
        return packed_film(values, channels)
    if "img_ids" in accepted:
        # Flux: packed latents, a text of 512 tokens.
        inputs = [Input("hidden_states", f32, ["B", "S", channels]), Input("img_ids", f32, ["S", 3]),
                  Input("encoder_hidden_states", f32, ["B", 512, values.get("joint_attention_dim", 4096)]),
                  Input("txt_ids", f32, [512, 3]), Input("timestep", f32, ["B"])]
        if "pooled_projections" in accepted and (width := values.get("pooled_projection_dim", 768)):
            inputs.append(Input("pooled_projections", f32, ["B", width]))
        if values.get("guidance_embeds"):
            inputs.append(Input("guidance", f32, ["B"]))
        if "controlnet_cond" in accepted:
            # Latents of the picture, packed as those that it steers (diffusers/models/controlnets/controlnet_flux.py).
            inputs.append(Input("controlnet_cond", f32, ["B", "S", channels]))
        return [*inputs, Input("_channels", f32, [channels])]
    latents = "hidden_states" if "hidden_states" in accepted else "sample" if "sample" in accepted else next(
        key for key in accepted if key != "self")
    inputs.append(Input(latents, f32, ["B", channels, "I", "I"]))
    if "timestep" in accepted:
        inputs.append(Input("timestep", torch.int64, ["B"]))
    if "encoder_hidden_states" in accepted:
        width = values.get("caption_channels") or values.get("joint_attention_dim") or values.get("cross_attention_dim") \
            or values.get("text_embed_dim") or values.get("text_dim") or values.get("cap_feat_dim")
        width = width[-1] if isinstance(width, list) else width
        if width:
            length = TEXTS.get(name, 77)
            inputs.append(Input("encoder_hidden_states", f32, ["B", length, width]))
            if "encoder_attention_mask" in accepted and name in MASKED:
                inputs.append(hf_inputs.Whole("encoder_attention_mask", hf_inputs.IDS, ["B", length]))
    # Sizes of the picture, as SDXL was taught them (CogView 3 and 4).
    inputs.extend(Input(size, f32, ["B", 2]) for size in ("original_size", "target_size", "crop_coords") if size in accepted)
    if "pooled_projections" in accepted:
        inputs.append(Input("pooled_projections", f32, ["B", values.get("pooled_projection_dim", 2048)]))
    if "guidance" in accepted and values.get("guidance_embeds"):
        inputs.append(Input("guidance", f32, ["B"]))
    if "class_labels" in accepted and values.get("num_embeds_ada_norm") and "encoder_hidden_states" not in {
            one.name for one in inputs}:
        inputs.append(Input("class_labels", torch.int64, ["B"]))
    if "padding_mask" in accepted:
        # Of pixels, one for all samples (diffusers/pipelines/cosmos/pipeline_cosmos_text2world.py).
        inputs.append(Input("padding_mask", f32, [1, 1, "8*I", "8*I"]))
    if "controlnet_cond" in accepted:
        inputs.append(condition(values, channels))
    made = values.get("out_channels") or made
    return [*inputs, Input("_channels", f32, [min(made, channels)])]
