"""Files that libraries open below Python, by their paths: they lie where the sandbox has them."""

import functools

from later import Later

READS, WRITES = "r", "w"
# Module, what opens a file in it, place and name of the path among its arguments, and the mode, or where and how a mode is named.
OPENERS = (
    ("cv2", "imread", (0, "filename"), READS),
    ("cv2", "imwrite", (0, "filename"), WRITES),
    ("cv2", "VideoWriter", (0, "filename"), WRITES),
    ("h5py._hl.files", "File.__init__", (1, "name"), (2, "mode")),
    ("pyarrow.parquet.core", "ParquetFile.__init__", (1, "source"), READS),
    ("pyarrow.parquet.core", "ParquetWriter.__init__", (1, "where"), WRITES),
    ("pyarrow.parquet.core", "read_table", (0, "source"), READS),
    ("pyarrow.feather", "read_table", (0, "source"), READS),
    ("pyarrow.feather", "write_feather", (1, "dest"), WRITES),
    ("soundfile", "SoundFile.__init__", (1, "file"), (2, "mode")),
)
# What stores weights: a trace has none.
STORERS = (("safetensors.torch", "save_file"), ("safetensors.torch", "save_model"))


def move(sandbox):
    """Opens them there once their libraries are imported."""
    later, actions = Later.begun(), {}
    for module, name, path, mode in OPENERS:
        actions.setdefault(module, []).append(lambda found, name=name, path=path, mode=mode: opens(found, name, sandbox, path, mode))
    for module, name in STORERS:
        actions.setdefault(module, []).append(lambda found, name=name: setattr(found, name, lambda *_, **__: None))
    for module, changes in actions.items():
        later.after(module, lambda found, changes=changes: [change(found) for change in changes])


def opens(module, name, sandbox, path, mode):
    """Has a function of a module open what the sandbox says."""
    *owners, last = name.split(".")
    owner = functools.reduce(getattr, owners, module)
    opener = getattr(owner, last, None)
    if opener is None:
        return

    def opened(*args, **kwargs):
        asked = mode if isinstance(mode, str) else given(args, kwargs, mode, READS) or READS
        at, keyword = path
        named = given(args, kwargs, path, None)
        moved = sandbox.reading(named) if asked == READS else sandbox.writing(named, asked != WRITES)
        if at < len(args):
            args = (*args[:at], moved, *args[at + 1:])
        elif keyword in kwargs:
            kwargs[keyword] = moved
        return opener(*args, **kwargs)

    setattr(owner, last, functools.wraps(opener)(opened) if hasattr(opener, "__name__") else opened)


def given(args, kwargs, place, default):
    """An argument by its place or its name."""
    at, name = place
    return args[at] if at < len(args) else kwargs.get(name, default)
