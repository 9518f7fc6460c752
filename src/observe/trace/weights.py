"""Weights that a script loads from safetensors: shapes and types from the file's header, no values."""

import importlib.util
import json

import torch

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
         **{name: getattr(torch, kind) for name, kind in (("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"))
            if hasattr(torch, kind)}}
# Longest header that is read: safetensors' own limit (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
LONGEST = 100_000_000


def header_of(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > LONGEST:
            raise ValueError(f"{path}: no safetensors file: its header would have {length:,} bytes")
        return json.loads(file.read(length))


class Slice:
    """A tensor of the file that is read in part."""

    def __init__(self, entry, device):
        self.entry, self.device = entry, device

    def get_shape(self):
        return list(self.entry["shape"])

    def get_dtype(self):
        return self.entry["dtype"]

    def __getitem__(self, index):
        return torch.empty(self.entry["shape"], dtype=TYPES[self.entry["dtype"]], device=self.device)[index]


class File:
    """`safetensors.safe_open`."""

    def __init__(self, filename, framework="pt", device="cpu", **_):
        if framework not in ("pt", "torch", "pytorch"):
            raise ValueError(f"{filename}: tensors of `{framework}` are not traced")
        self.entries, self.device = header_of(filename), device
        self.about = self.entries.pop("__metadata__", None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def keys(self):
        return sorted(self.entries)

    def offset_keys(self):
        return sorted(self.entries, key=lambda name: self.entries[name]["data_offsets"][0])

    def metadata(self):
        return self.about

    def get_slice(self, name):
        return Slice(self.entries[name], self.device)

    def get_tensor(self, name):
        return Slice(self.entries[name], self.device)[...]


def install():
    """Puts these in the place of the library's, where it is installed."""
    if importlib.util.find_spec("safetensors") is None:
        return
    import safetensors
    import safetensors.torch

    def load_file(filename, device="cpu", **_):
        file = File(filename, device=device)
        return {name: file.get_tensor(name) for name in file.offset_keys()}

    safetensors.safe_open = safetensors.torch.safe_open = File
    safetensors.torch.load_file = load_file
    # As `torch.save`: there are no values to write.
    safetensors.torch.save_file = safetensors.torch.save_model = lambda *_, **__: None
