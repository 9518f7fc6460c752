"""The device that a step is traced on: `cuda` where a driver is or can be stood in for, else `cpu` by name only.

Everything here but `prepare` and `Device` runs after `import torch`; the stand-in has to be loaded before it, as PyTorch
registers CUDA hooks of its own.
"""

import ctypes
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("no_gpu.cpp")


class Device:
    """What was found: the device's name, how it came about, and what differs from a GPU there."""

    def __init__(self, name, how, differences=(), library=None):
        self.name, self.how, self.differences, self.library = name, how, list(differences), library

    def torch_device(self):
        import torch

        return torch.device(self.name, 0) if self.name == "cuda" else torch.device(self.name)


def prepare(wanted=None):
    """Finds the device; before `import torch`."""
    if wanted == "cpu":
        return fallback("asked for")
    if has_driver():
        return Device("cuda", "this machine's driver")
    if "torch" in sys.modules:
        return fallback("PyTorch was imported before the stand-in for a GPU could be loaded")
    folder = torch_folder()
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    if not compiler:
        return fallback("no C++ compiler builds the stand-in for a GPU")
    try:
        library = ctypes.CDLL(str(build(compiler, folder)), mode=ctypes.RTLD_GLOBAL)
    except (OSError, subprocess.SubprocessError) as error:
        return fallback(f"the stand-in for a GPU cannot be built: {str(error).splitlines()[0]}")
    return Device("cuda", "a stand-in, as there is no driver", library=library)


def fallback(why):
    return Device("cpu", why, [
        "kernels are chosen as for a GPU by rules of the tracer: attention, dropout and batch norm",
        "autocast uses the lists of the CPU: layer norms, losses and sums may run in other types than on a GPU",
    ])


def has_driver():
    for name in ("libcuda.so.1", "libamdhip64.so"):
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if name.startswith("libcuda"):
            return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
        return driver.hipGetDeviceCount(ctypes.byref(count)) == 0 and count.value > 0
    return False


def torch_folder():
    found = importlib.util.find_spec("torch")
    return Path(next(iter(found.submodule_search_locations)))


def is_private(folder):
    """Whether nobody else can put a library there, nor another folder in its place: with `sudo -E` the cache is below
    another user's. Whoever owns `/` may, as in a container: Python itself is theirs to replace."""
    own, others = os.getuid(), stat.S_IWGRP | stat.S_IWOTH
    trusted = {0} if own == 0 else {0, own, Path("/").stat().st_uid}
    here, above = folder.stat(), [parent.stat() for parent in folder.resolve().parents]
    if here.st_uid != own or here.st_mode & others:
        return False
    # In a sticky one, as /tmp, only the owner of an entry may rename it.
    return all(it.st_uid in trusted and (not it.st_mode & others or it.st_mode & stat.S_ISVTX) for it in above)


def build(compiler, folder):
    """The stand-in, compiled against the user's PyTorch once and kept in a private folder of the cache."""
    text = SOURCE.read_bytes()
    version = (folder / "version.py").read_bytes() if (folder / "version.py").exists() else b""
    key = hashlib.sha256(text + version + str(folder).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memwall"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = is_private(cache)
    except OSError:
        private = False
    if not private:
        cache = Path(tempfile.mkdtemp(prefix="memwall-trace-"))
    library = cache / f"no_gpu-{key}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}.tmp")
        libraries = folder / "lib"
        command = [compiler, "-shared", "-fPIC", "-std=c++20", "-O0", "-w", f"-I{folder / 'include'}", str(SOURCE),
                   "-o", str(made), f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line] or [f"{compiler} failed"]
            raise OSError(said[0])
        made.replace(library)
    return library


def stand_in(device):
    """Answers what libraries ask of a GPU before they use it: one H100-like device with nothing on it."""
    import torch
    import torch._subclasses.fake_tensor as fake

    for name in ("init_cuda_context", "init_gpu_context"):
        if hasattr(fake, name):
            setattr(fake, name, lambda *_: None)
    if device.library is None:
        return
    device.library.install()
    # Kernels that TorchScript makes for a GPU are compiled by a driver's library.
    torch._C._jit_set_texpr_fuser_enabled(False)
    cuda = torch.cuda
    properties = type("Properties", (), {
        "name": "stand-in", "major": 9, "minor": 0, "total_memory": 80 << 30, "multi_processor_count": 132,
        "warp_size": 32, "max_threads_per_multi_processor": 2048, "is_integrated": 0, "regs_per_multiprocessor": 65536,
        "shared_memory_per_block_optin": 232448, "gcnArchName": ""})()
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True, "is_bf16_supported": True,
        "get_device_capability": (9, 0), "get_device_name": "stand-in", "get_device_properties": properties,
        "is_current_stream_capturing": False, "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
        "max_memory_reserved": 0, "mem_get_info": (80 << 30, 80 << 30), "_lazy_init": None, "init": None,
        "set_device": None, "synchronize": None, "empty_cache": None, "ipc_collect": None, "manual_seed": None,
        "manual_seed_all": None, "seed": None, "seed_all": None, "initial_seed": 0, "reset_peak_memory_stats": None,
        "reset_max_memory_allocated": None, "memory_stats": {}, "set_rng_state": None, "set_rng_state_all": None,
        "get_rng_state_all": [], "memory_summary": "", "is_tf32_supported": True, "get_arch_list": ["sm_90"],
        "_is_in_bad_fork": False, "set_per_process_memory_fraction": None,
    }
    for name, value in answers.items():
        if hasattr(cuda, name):
            setattr(cuda, name, lambda *_, value=value, **__: value)
    # The stand-in has none of CUDA's libraries to tell of (torch/csrc/Module.cpp, `_show_config`; torch/backends/cudnn,
    # `_init`, which recurrent layers come by).
    torch.__config__.show = lambda: f"PyTorch {torch.__version__}"
    cudnn = torch.backends.cudnn
    cudnn.version, cudnn.is_acceptable = lambda: 91002, lambda _: False
    # Memory of the host is pinned by the driver.
    torch.Tensor.pin_memory = lambda tensor, *_, **__: tensor
    torch.Tensor.is_pinned = lambda *_, **__: False
    torch.Generator = generators(torch.Generator)
    cuda.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8, device="cpu")
    cuda.Event, cuda.Stream = Event, Stream
    cuda.stream, cuda.device = Context, Context
    cuda.current_stream = cuda.default_stream = lambda *_, **__: Stream()
    common = torch.cuda.amp.common
    common.amp_definitely_not_available = lambda: False
    torch.amp.autocast_mode.torch.cuda.amp.common.amp_definitely_not_available = lambda: False


def generators(plain):
    """What stands for `torch.Generator`: a GPU's is made by CUDA's library, and no fake tensor draws from it."""
    class Kind(type):
        def __instancecheck__(cls, one):
            return isinstance(one, plain)

    class Generator(metaclass=Kind):
        def __new__(cls, device="cpu"):
            return plain()

    return Generator


class Context:
    """A device or a stream as a context, which changes nothing here."""

    def __init__(self, *_, **__):
        self.idx = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Stream(Context):
    cuda_stream = 0
    device_index = 0

    def wait_stream(self, *_):
        pass

    wait_event = record_event = synchronize = wait_stream

    def query(self):
        return True


class Event(Context):
    def record(self, *_):
        pass

    wait = synchronize = record

    def query(self):
        return True

    def elapsed_time(self, _):
        return 1.0
