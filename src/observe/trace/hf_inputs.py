"""What models of transformers read in training: names, types and sides, by the class's signature and its configuration. A model may
be tried in several ways, the best first: with images beside its text, with text alone, without labels."""

import sys

import torch

import counts
from sources import ONLY_FOR_LOSSES, Input

F32, IDS = torch.float32, torch.int64
# Encoders of sound that read bins before frames; others read frames of bins.
BINS_FIRST = ("whisper", "qwen2_audio", "qwen2_audio_encoder", "voxtral", "voxtral_encoder")
# One channel of sound before its samples.
MONO = ("xcodec", "encodec", "mimi", "dac")
# Two images that are matched.
PAIRS = ("efficientloftr", "superglue", "lightglue")
# Several images of a sample, each of its own.
SEVERAL = ("idefics", "idefics2", "idefics3", "smolvlm")
# Frames of a video (transformers/models/instructblipvideo/video_processing_instructblipvideo.py, `num_frames`).
FRAMES = 4
WITHOUT_LABELS = "its loss wants labels of a form that only your script knows: traced up to its output, whose mean is the loss"


def kind_of(config):
    return getattr(config, "model_type", "")


class Fixed(Input):
    """Numbers that a model reads while it runs, the same for each sample."""

    def __init__(self, name, row):
        super().__init__(name, IDS, ["B", len(row)])
        self.row = row

    def make(self, sizes, device, lower):
        return torch.tensor([self.row] * self.shape(sizes)[0], device="cpu")


class Chosen(Input):
    """Which part of the model each sample goes through: the first."""

    def make(self, sizes, device, lower):
        return torch.tensor([0] * self.shape(sizes)[0], device="cpu")


class Whole(Input):
    """A mask that hides nothing."""

    def make(self, sizes, device, lower):
        made = super().make(sizes, device, lower)
        made._memwall_counts = counts.Counts(made.numel())
        return made


class Frames(Input):
    """Frames that convolutions make of `S` samples of sound, and what follows (modeling_wav2vec2.py,
    `_get_feat_extract_output_lengths`)."""

    def __init__(self, name, dtype, config, *more):
        super().__init__(name, dtype, ["B", "frames", *more])
        self.layers = list(zip(config.conv_kernel, config.conv_stride))

    def axes(self):
        return {"B", "S"}

    def side(self, side, sizes):
        if side != "frames":
            return super().side(side, sizes)
        length = sizes["S"]
        for kernel, stride in self.layers:
            length = (length - kernel) // stride + 1
        return length


class Way:
    """Inputs, further arguments, what to say of them, and lengths at which they go together."""

    def __init__(self, inputs, extra=None, note=None, lengths=None):
        self.inputs, self.extra, self.note, self.lengths = inputs, extra or {}, note, lengths

    def with_mask(self):
        """The same with a mask that hides nothing, as collators hand one over: models whose positions have several axes fail
        without (transformers/masking_utils.py, `_preprocess_mask_arguments`)."""
        names = {one.name for one in self.inputs}
        if "attention_mask" in names or not {"input_ids", "position_ids"} & names:
            return None
        return Way([*self.inputs, Input("attention_mask", IDS, ["B", "S"])], self.extra, self.note, self.lengths)

    def without_labels(self):
        left = [one for one in self.inputs if one.name not in ONLY_FOR_LOSSES]
        # Not given, some ask their configuration for a loss.
        asked = {key: value and key != "return_loss" for key, value in self.extra.items()}
        note = "; ".join(filter(None, [self.note, WITHOUT_LABELS]))
        return Way(left, asked, note, self.lengths) if len(left) < len(self.inputs) or asked != self.extra else None


def image_side(config):
    scales = getattr(config, "scaled_images_ratios", None)
    if scales and isinstance(getattr(config, "patch_size", None), int):
        # The smallest copy of an image is one patch.
        return int(config.patch_size / min(scales))
    vision = getattr(config, "vision_config", None)
    for part in (config, vision, getattr(vision, "backbone_config", None), getattr(config, "image_config", None)):
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


def channels_of(vision):
    return getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3


def number(config, *keys, default=None):
    return next((value for key in keys if isinstance(value := getattr(config, key, None), int) and value), default)


def is_dual(config, accepted):
    """Whether text and images are compared, and no image stands in a text."""
    return "return_loss" in accepted or hasattr(config, "logit_scale_init_value")


def ways(model_class, config, text, accepted):
    """The ways to run a class, the best first."""
    main = getattr(model_class, "main_input_name", "input_ids")
    main = main[0] if isinstance(main, list) else main
    if main not in accepted:
        # Towers whose class names what the whole model reads.
        main = next((key for key in ("pixel_values", "input_features", "input_values") if key in accepted), main)
    found = []
    if "input_ids" in accepted and not is_dual(config, accepted) and (shown := images_of(model_class, config, accepted)):
        found.append(with_images(config, shown, accepted))
    if "qformer_input_ids" in accepted and found:
        found[0].inputs.append(Input("qformer_input_ids", IDS, ["B", 32]))
    special = odd(model_class, config, main, accepted)
    if special:
        found.append(Way(special))
    elif main in ("pixel_values", "pixel_values_videos") and main in accepted:
        found.append(Way(pixels(model_class, config, main, accepted)))
    elif main == "input_values":
        found.append(Way(samples(model_class, config, main, accepted)))
    elif main == "input_features":
        found.append(Way(spectra(config, main, accepted)))
    else:
        found.append(words(model_class, config, main, accepted))
    if "attention_mask" in accepted:
        found.extend([way for one in list(found) if (way := one.with_mask()) is not None])
    found.extend([way for one in list(found) if (way := one.without_labels()) is not None])
    return found


def odd(model_class, config, main, accepted):
    """Inputs of few families."""
    vision = getattr(config, "vision_config", config)
    if kind_of(vision) in ("siglip2", "siglip2_vision_model") and "spatial_shapes" in accepted:
        count, width = vision.num_patches, vision.num_channels * vision.patch_size ** 2
        root = int(count ** 0.5)
        made = [Input("pixel_values", F32, ["B", count, width]), Whole("pixel_attention_mask", IDS, ["B", count]),
                Fixed("spatial_shapes", [root, root])]
        return [Input("input_ids", IDS, ["B", "S"]), *made] if "input_ids" in accepted else made
    if kind_of(config) == "kyutai_speech_to_text":
        # A token of text and one of each book of codes at a time.
        return [Input("input_ids", IDS, ["B", "S", config.num_codebooks + 1])]
    if kind_of(config) == "speecht5" and model_class.__name__ == "SpeechT5Model":
        # Neither reads text or sound: what their nets made of it.
        return [Input("input_values", F32, ["B", "S", config.hidden_size]),
                Input("decoder_input_values", F32, ["B", "T", config.hidden_size])]
    if model_class.__name__ == "BlipForQuestionAnswering":
        # A question beside a picture, and the answer that is written.
        shape = ["B", channels_of(vision), image_side(config), image_side(config)]
        return [Input("input_ids", IDS, ["B", "S"]), Input("pixel_values", F32, shape), Input("labels", IDS, ["B", "T"])]
    if kind_of(config) in PAIRS:
        return [Input("pixel_values", F32, ["B", 2, channels_of(config), 480, 640])]
    if main == "flattened_patches":
        width = vision.patch_embed_hidden_size if hasattr(vision, "patch_embed_hidden_size") else 768
        return [Input(main, F32, ["B", 512, 2 + width]), Input("labels", IDS, ["B", "T"])]
    if main == "past_values" and hasattr(config, "num_input_channels") and not hasattr(config, "lags_sequence"):
        return [Input(main, F32, ["B", config.context_length, config.num_input_channels])]
    if kind_of(config) == "dia" and "labels" not in accepted:
        # A token of each book of codes at a time.
        return [Input("input_ids", IDS, ["B", "S"]), Input("decoder_input_ids", IDS, ["B", "T", config.decoder_config.num_channels])]
    if "TextToUnit" in model_class.__name__:
        # It reads what a decoder of text made (transformers/models/seamless_m4t/modeling_seamless_m4t.py).
        return [Input("inputs_embeds", F32, ["B", "S", config.hidden_size]),
                Input("labels" if "labels" in accepted else "decoder_input_ids", IDS, ["B", "T"])]
    if {"past_values", "past_values_padding", "freq"} <= accepted:
        return [Input("past_values", F32, ["B", config.context_length]), Input("past_values_padding", IDS, ["B", config.context_length]),
                Input("freq", IDS, ["B", 1])]
    if "visual_feats" in accepted and "visual_pos" in accepted:
        return [Input("input_ids", IDS, ["B", "S"]), Input("visual_feats", F32, ["B", 36, config.visual_feat_dim]),
                Input("visual_pos", F32, ["B", 36, config.visual_pos_dim])]
    if "task_inputs" in accepted:
        return [Input("pixel_values", F32, ["B", 3, "I", "I"]), Input("task_inputs", IDS, ["B", config.task_seq_len])]
    if {"states", "returns_to_go"} <= accepted:
        # Steps of an episode.
        return [Input("states", F32, ["B", "S", config.state_dim]), Input("actions", F32, ["B", "S", config.act_dim]),
                Input("rewards", F32, ["B", "S", 1]), Input("returns_to_go", F32, ["B", "S", 1]),
                Input("timesteps", IDS, ["B", "S"]), Whole("attention_mask", IDS, ["B", "S"])]
    if "prompt_masks" in accepted:
        # An example beside the image, which stands above it.
        side = min(config.image_size) if isinstance(config.image_size, (list, tuple)) else config.image_size
        shown = ("pixel_values", "prompt_pixel_values", "prompt_masks")
        return [Input(key, F32, ["B", channels_of(config), side, side]) for key in shown]
    if "query_embeds" in accepted and "encoder_hidden_states" in accepted and hasattr(config, "encoder_hidden_size"):
        return [Input("query_embeds", F32, ["B", 32, config.hidden_size]),
                Input("encoder_hidden_states", F32, ["B", 257, config.encoder_hidden_size])]
    if "input_features" in accepted and "is_longer" in accepted:
        # Ten seconds of sound (transformers/models/clap/feature_extraction_clap.py).
        heard = Input("input_features", F32, ["B", 1, 1001, getattr(config, "audio_config", config).num_mel_bins])
        return [Input("input_ids", IDS, ["B", "S"]), heard] if "input_ids" in accepted else [heard]
    if "audio_mel_mask" in accepted:
        return [Input("audio_mel", F32, ["B", "S", config.input_feat_size]), Input("audio_mel_mask", torch.bool, ["B", "S"])]
    return None


# Images and text

def images_of(model_class, config, accepted):
    """An image for each sample: inputs and how many places of the text it takes; none where the class shows none."""
    vision = getattr(config, "vision_config", None)
    if "pixel_values" not in accepted or vision is None:
        return None
    channels, side = channels_of(vision), image_side(vision)
    patch = number(vision, "patch_size", "spatial_patch_size", default=14)
    tokens = (side // patch) ** 2
    if "image_grid_thw" in accepted:
        # Patches in a row, and how they lie; 448 pixels a side.
        merge, frames = number(vision, "spatial_merge_size", default=2), number(vision, "temporal_patch_size", default=2)
        across = 448 // patch // merge * merge
        width = channels * frames * patch ** 2
        made = [Input("pixel_values", F32, [f"B*{across ** 2}", width]), Fixed("image_grid_thw", [1, across, across])]
        if "rope_deltas" in accepted or "position_ids" in accepted and finds_positions(model_class):
            made.append(Input("position_ids", IDS, [3, "B", "S"]))
        return made, (across // merge) ** 2
    module = sys.modules.get(model_class.__module__)
    if {"aspect_ratio_ids", "aspect_ratio_mask"} <= accepted:
        # Tiles of an image, as many as there may be; text sees them through layers of its own, and they take one place in it
        # (transformers/models/mllama/processing_mllama.py).
        tiles = vision.max_num_tiles
        return [Input("pixel_values", F32, ["B", 1, tiles, channels, side, side]), Input("aspect_ratio_ids", IDS, ["B", 1]),
                Input("aspect_ratio_mask", IDS, ["B", 1, tiles]), Input("cross_attention_mask", IDS, ["B", "S", 1, tiles])], 1
    if "image_sizes" in accepted and hasattr(module, "image_size_to_num_patches") and getattr(config, "image_grid_pinpoints", None):
        parts = module.image_size_to_num_patches([side, side], config.image_grid_pinpoints, side)
        made = [Input("pixel_values", F32, ["B", parts, channels, side, side]), Fixed("image_sizes", [side, side])]
        return made, (parts + 1) * tokens
    several = [1] if kind_of(config) in SEVERAL else [FRAMES] if kind_of(config) == "instructblipvideo" else []
    made = [Input("pixel_values", F32, ["B", *several, channels, side, side])]
    if "image_embeds_position_mask" in accepted:
        made.append(Input("image_embeds_position_mask", IDS, ["B", "S"]))
    if "image_sizes" in accepted and kind_of(vision) == "pixtral":
        made.append(Fixed("image_sizes", [side, side]))
    # Images of any size have as many tokens as patches, whatever number a configuration has by default.
    names = () if kind_of(vision) == "pixtral" else ("image_seq_length", "mm_tokens_per_image", "latent_query_num")
    each = number(config, *names, default=tokens)
    return made, each * (several[0] if several else 1)


def finds_positions(model_class):
    """Whether a model, or one that it holds, reads where images stand out of the values of a text, where no positions of three
    axes are given."""
    module = sys.modules.get(model_class.__module__)
    return any(isinstance(one, type) and hasattr(one, "get_rope_index") for one in vars(module).values())


def with_images(config, shown, accepted):
    """Text in which an image stands: long enough for it."""
    made, tokens = shown
    inputs = [Input("input_ids", IDS, ["B", "S"]), *made]
    if "image_attention_mask" in accepted:
        inputs.append(Input("image_attention_mask", IDS, ["B", "S", 1]))
    if "labels" in accepted:
        inputs.append(Input("labels", IDS, ["B", "T" if getattr(config, "is_encoder_decoder", False) else "S"]))
    first = -(-tokens // 64) * 64 + 64
    side = image_side(getattr(config, "vision_config", config))
    side = 448 if any(one.name == "image_grid_thw" for one in made) else side
    note = f"traced with one image of {side} pixels a side for each sample"
    lengths = None if getattr(config, "is_encoder_decoder", False) else [first, first + 64, first + 192, first + 128]
    return Way(inputs, {}, note, lengths)


# One kind alone

def pixels(model_class, config, main, accepted):
    vision = getattr(config, "vision_config", None) or config
    if not hasattr(vision, "image_size"):
        vision = getattr(config, "backbone_config", None) or vision
    frames = number(vision, "num_frames", "frames_per_clip", default=1)
    name = model_class.__name__
    inputs = [Input(main, F32, ["B", *([frames] if frames > 1 else []), channels_of(vision), *image_sides(vision)])]
    if "labels" in accepted and "ImageClassification" in name:
        inputs.append(Input("labels", IDS, ["B"]))
    elif "labels" in accepted and "Segmentation" in name:
        inputs.append(Input("labels", IDS, ["B", "I", "I"]))
    return inputs


def samples(model_class, config, main, accepted):
    """Samples of sound."""
    name = model_class.__name__
    if isinstance(getattr(config, "max_length", None), int) and getattr(config, "num_mel_bins", None):
        # A picture of sound, cut into patches (transformers/models/audio_spectrogram_transformer).
        return [Input(main, F32, ["B", config.max_length, config.num_mel_bins]),
                *([Input("labels", IDS, ["B"])] if "labels" in accepted else [])]
    inputs = [Input(main, F32, ["B", 1, "S"] if kind_of(config) in MONO else ["B", "S"])]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        inputs.append(Input("labels" if "labels" in accepted else "decoder_input_ids", IDS, ["B", 64]))
    elif "labels" in accepted and name.endswith("ForCTC"):
        inputs.append(Input("labels", IDS, ["B", 32]))
    elif "labels" in accepted and "Classification" in name and "Frame" not in name:
        inputs.append(Input("labels", IDS, ["B"]))
    elif "sampled_negative_indices" in accepted:
        inputs.append(Frames("mask_time_indices", torch.bool, config))
        inputs.append(Frames("sampled_negative_indices", IDS, config, config.num_negatives))
    return inputs


def spectra(config, main, accepted):
    """Bins of sound by frame."""
    part = getattr(config, "encoder_config", config)
    bins = number(part, "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", default=80)
    if kind_of(config) in BINS_FIRST:
        sides = ["B", bins, 2 * number(config, "max_source_positions", default=1500)]
    elif getattr(config, "is_encoder_decoder", False) and {"labels", "decoder_input_ids"} & accepted:
        sides = ["B", 1024, bins]
    else:
        sides = ["B", "S", bins]
    inputs = [Input(main, F32, sides)]
    if getattr(config, "is_encoder_decoder", False) and {"labels", "decoder_input_ids"} & accepted:
        inputs.append(Input("labels" if "labels" in accepted else "decoder_input_ids", IDS, ["B", "S"]))
    elif "labels" in accepted:
        inputs.append(Input("labels", IDS, ["B", "S"] if kind_of(config) in BINS_FIRST else ["B", 32]))
    return inputs


def words(model_class, config, main, accepted):
    """Token ids, and what they are compared with."""
    name, inputs, extra = model_class.__name__, [], {}

    def add(key, *sides):
        if key in accepted:
            inputs.append(Input(key, IDS, sides))

    if name.endswith("MultipleChoice"):
        inputs.append(Input(main, IDS, ["B", 4, "S"]))
        add("labels", "B")
        return Way(inputs)
    inputs.append(Input(main, IDS, ["B", "S"]))
    if getattr(config, "languages", None) and "lang_ids" in accepted:
        inputs.append(Chosen("lang_ids", IDS, ["B"]))
    # Where a page has its words.
    add("bbox", "B", "S", getattr(config, "dim_bbox", None) or 4)
    if "pixel_values" in accepted and not is_dual(config, accepted) and isinstance(getattr(config, "image_size", None), int):
        # One encoder for words and patches: nothing of it runs without an image.
        inputs.append(Input("pixel_values", F32, ["B", channels_of(config), config.image_size, config.image_size]))
    both = getattr(config, "is_encoder_decoder", False) and not name.endswith("ForCausalLM")
    vision = getattr(config, "vision_config", config)
    frames = number(vision, "num_frames", default=1)
    if both and "labels" in accepted and "Classification" not in name and "Question" not in name:
        add("labels", "B", "T")
    elif both and "decoder_input_ids" in accepted:
        add("decoder_input_ids", "B", "T")
    elif "pixel_values" in accepted and is_dual(config, accepted):
        sides = ["B", *([frames] if frames > 1 else []), channels_of(vision), image_side(config), image_side(config)]
        inputs.append(Input("pixel_values", F32, sides))
        if "return_loss" in accepted:
            extra["return_loss"] = True
    elif name.endswith(("SequenceClassification", "NextSentencePrediction")):
        add("labels", "B")
    elif name.endswith("QuestionAnswering"):
        add("start_positions", "B")
        add("end_positions", "B")
    else:
        add("labels", "B", "S")
        add("next_sentence_label", "B")
        add("sentence_order_label", "B")
    return Way(inputs, extra)
