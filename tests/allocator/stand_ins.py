"""What training scripts want to read before their first step, made up: token files, texts, images, tokenizers and weights of
small models. Nothing of it has a meaning; forms and names are those that the scripts ask for."""

import json
import random
import struct
from pathlib import Path

WORDS = [f"word{at}" for at in range(200)]


def sentence(rng, words=12):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def token_file(folder):
    """What nanoGPT's data/*/prepare.py writes: 16-bit token numbers."""
    import numpy

    folder.mkdir(parents=True)
    for name in ("train.bin", "val.bin"):
        numpy.random.default_rng(0).integers(0, 65, 100_000, dtype=numpy.uint16).tofile(folder / name)


def text_file(path):
    rng = random.Random(0)
    path.write_text("\n".join(sentence(rng) for _ in range(2000)))


def pairs(path):
    rng = random.Random(0)
    rows = [{"sentence1": sentence(rng), "sentence2": sentence(rng), "label": at % 2} for at in range(64)]
    path.write_text("\n".join(map(json.dumps, rows)))


def instructions(path):
    rng = random.Random(0)
    rows = [{"instruction": sentence(rng), "input": "", "output": sentence(rng, 40)} for _ in range(64)]
    path.write_text(json.dumps(rows))


def tokenizer(folder):
    """A tokenizer of whole words, as transformers saves one."""
    import tokenizers
    import transformers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    model = tokenizers.models.WordLevel({word: at for at, word in enumerate([*special, *WORDS])}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        model_max_length=512).save_pretrained(folder)


def vocabulary(folder):
    """Files of a byte-pair tokenizer that knows single letters alone."""
    letters = [chr(at) for at in range(33, 127)] + ["Ġ", "Ċ"]
    (folder / "vocab.json").write_text(json.dumps({letter: at for at, letter in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def classifier(folder):
    import transformers

    config = transformers.BertConfig(vocab_size=512, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                     intermediate_size=1024)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)


def metric(folder):
    """A metric's script, as `evaluate.load` finds one in a folder of its name."""
    folder.mkdir()
    (folder / f"{folder.name}.py").write_text('''
import datasets
import evaluate


class Accuracy(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int32"), "references": datasets.Value("int32")})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references)}
''')


def images(folder, classes=2, each=8, side=64):
    from PIL import Image

    for name in range(classes):
        (folder / f"class{name}").mkdir(parents=True)
        for at in range(each):
            Image.new("RGB", (side, side), (at, name, 0)).save(folder / f"class{name}/{at}.png")


def captioned(folder, count=8):
    """Images with captions, as `datasets` reads a folder of them."""
    from PIL import Image

    folder.mkdir()
    rng, rows = random.Random(0), []
    for at in range(count):
        Image.new("RGB", (300, 300), (at, 0, 0)).save(folder / f"{at}.png")
        rows.append({"file_name": f"{at}.png", "text": sentence(rng)})
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))


def digits(folder):
    """The four files of MNIST, in the format of its page."""
    folder.mkdir(parents=True)
    for name, count in (("train", 60_000), ("t10k", 10_000)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + bytes(count * 784))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + bytes(count))


def pipeline(folder):
    """A small Stable Diffusion: the five parts in folders of their own."""
    import diffusers
    import transformers

    blocks = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
    unet = diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64), layers_per_block=2, sample_size=32, down_block_types=blocks[0], up_block_types=blocks[1],
        cross_attention_dim=32)
    vae = diffusers.AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2,
                                  up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4)
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(
        vocab_size=200, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, bos_token_id=0,
        eos_token_id=2, pad_token_id=1))
    (folder / "tokenizer").mkdir(parents=True)
    vocabulary(folder / "tokenizer")
    known = json.loads((folder / "tokenizer/vocab.json").read_text())
    for extra in ("<|startoftext|>", "<|endoftext|>"):
        known[extra] = len(known)
    known.update({f"{letter}</w>": len(known) + at for at, letter in enumerate(list(known))})
    (folder / "tokenizer/vocab.json").write_text(json.dumps(known))
    transformers.CLIPTokenizer(str(folder / "tokenizer/vocab.json"), str(folder / "tokenizer/merges.txt"),
                               model_max_length=77).save_pretrained(folder / "tokenizer")
    for name, part in (("unet", unet), ("vae", vae), ("text_encoder", text), ("scheduler", diffusers.DDPMScheduler())):
        part.save_pretrained(folder / name)


QWEN = {"vocab_size": 128, "num_layers": 4, "num_heads": 4, "num_kv_heads": 2, "embed_dim": 128, "intermediate_dim": 256,
        "max_seq_len": 1024}


def qwen(folder):
    """Weights of a small Qwen2 and its config.json, as Hugging Face has them."""
    import transformers

    config = transformers.Qwen2Config(
        vocab_size=QWEN["vocab_size"], hidden_size=QWEN["embed_dim"], num_hidden_layers=QWEN["num_layers"],
        num_attention_heads=QWEN["num_heads"], num_key_value_heads=QWEN["num_kv_heads"],
        intermediate_size=QWEN["intermediate_dim"], tie_word_embeddings=True)
    transformers.Qwen2ForCausalLM(config).save_pretrained(folder)


def recipe(path, folder):
    """torchtune's recipes/configs/qwen2/0.5B_full_single_device.yaml, with the small model and the local data; later
    than 0.6 its loss has the head in it."""
    from torchtune.modules import loss

    losses = "LinearCrossEntropyLoss" if hasattr(loss, "LinearCrossEntropyLoss") else "CEWithChunkedOutputLoss"
    sizes = "\n".join(f"  {name}: {size}" for name, size in QWEN.items())
    path.write_text(f"""
output_dir: {folder}-out
tokenizer:
  _component_: torchtune.models.qwen2.qwen2_tokenizer
  path: {folder}/vocab.json
  merges_file: {folder}/merges.txt
  max_seq_len: null
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  source: json
  data_files: {folder}/instructions.json
  split: train
  packed: False
seed: null
shuffle: True
model:
  _component_: torchtune.models.qwen2.qwen2
{sizes}
  tie_word_embeddings: True
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_dir: {folder}
  checkpoint_files: [model.safetensors]
  recipe_checkpoint: null
  output_dir: {folder}-out
  model_type: QWEN2
resume_from_checkpoint: False
batch_size: 2
epochs: 1
optimizer:
  _component_: torch.optim.AdamW
  fused: True
  lr: 2e-5
loss:
  _component_: torchtune.modules.loss.{losses}
optimizer_in_bwd: False
max_steps_per_epoch: null
gradient_accumulation_steps: 8
clip_grad_norm: null
compile: False
device: cuda
enable_activation_checkpointing: True
enable_activation_offloading: False
dtype: bf16
metric_logger:
  _component_: torchtune.training.metric_logging.DiskLogger
  log_dir: {folder}-out/logs
log_every_n_steps: 1
log_peak_memory_stats: True
log_level: INFO
profiler:
  _component_: torchtune.training.setup_torch_profiler
  enabled: False
""")
