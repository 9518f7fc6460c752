"""What PyTorch's kernels reach on this machine, for MemWall to fit its curves to.

`memwall bench` starts it. Several ranks, on one node or many, measure collectives as well:

    torchrun --nnodes 2 --nproc-per-node 8 memwall_bench.py --output rows.jsonl

Each line of the output is one measurement. Nothing is written anywhere else. PyTorch 1.13 or later.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

# What one element takes.
BYTES = {"fp8": 1, "bf16": 2, "fp16": 2, "tf32": 4, "fp32": 4}

# Rows, inner size, columns: large ones for the rate, short inner sizes for what a tile's start costs, few tiles
# for waves that are not full. All sizes are multiples of 64 elements.
ON_GPU = (
    (8192, 8192, 8192),
    (4096, 4096, 12288),
    (8192, 4096, 4096),
    (4096, 11008, 4096),
    (4096, 4096, 4096),
    (2048, 4096, 4096),
    (1024, 4096, 4096),
    (512, 4096, 4096),
    (16384, 1024, 4096),
    (16384, 1024, 1024),
    (4096, 1024, 1024),
    (2048, 768, 3072),
    (8192, 256, 8192),
    (8192, 64, 8192),
    (512, 2048, 512),
)
# Short ones on a CPU, so that some of them run undisturbed by other programs.
ON_CPU = (
    (512, 768, 1536),
    (512, 512, 512),
    (512, 256, 1024),
    (512, 256, 256),
    (256, 256, 4096),
    (256, 256, 256),
    (128, 512, 512),
    (128, 128, 128),
    (512, 64, 512),
)

# Heads of the batch, queries, size of a head, causal.
ATTENTION_ON_GPU = (
    (16, 16384, 64, True),
    (64, 4096, 64, True),
    (64, 1024, 64, True),
    (64, 512, 64, False),
    (16, 16384, 128, True),
    (64, 4096, 128, True),
    (64, 1024, 128, True),
    (8, 2048, 128, True),
)
ATTENTION_ON_CPU = ((16, 256, 64, True), (16, 128, 64, False), (16, 128, 64, True), (8, 256, 32, True), (16, 128, 32, False))

# Images, channels in and out, side of the output, side of the window, stride.
CONVOLUTIONS_ON_GPU = (
    (64, 64, 64, 56, 3, 1),
    (64, 128, 128, 28, 3, 1),
    (64, 256, 256, 14, 3, 1),
    (64, 256, 256, 14, 3, 2),
    (64, 64, 256, 56, 1, 1),
    (64, 512, 128, 28, 1, 1),
    (64, 1024, 256, 14, 1, 1),
)
CONVOLUTIONS_ON_CPU = (
    (4, 64, 64, 28, 3, 1),
    (4, 128, 128, 14, 3, 1),
    (4, 64, 128, 14, 3, 2),
    (4, 64, 256, 28, 1, 1),
    (4, 256, 64, 28, 1, 1),
)


class Bench:
    """The device, and where the rows go."""

    def __init__(self, device, seconds, write):
        self.device = device
        self.on_gpu = device.type == "cuda"
        self.write = write
        # About as many measurements as there are.
        self.each = seconds / (120.0 if self.on_gpu else 145.0)
        self.spreads = []
        self.clocks = []
        self.asked = float("-inf")
        # Written between matmuls, as other kernels of a step are.
        self.other = torch.ones((1 << 26) if self.on_gpu else (1 << 20), device=device)
        # One thread's processor time leaves out what other programs take; several threads wait for each other.
        alone = not self.on_gpu and torch.get_num_threads() == 1
        self.clock = time.thread_time if alone else time.perf_counter
        # Larger than a CPU's caches: in a step, what a kernel reads was written many kernels ago.
        self.caches = None if self.on_gpu else torch.ones(1 << 24)

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def times(self, run, launches=1, cold=False):
        """Seconds of one run, several times over; `cold`: a CPU's caches hold nothing of it."""
        cold = cold and not self.on_gpu
        run()
        self.wait()
        begun = time.perf_counter()
        run()
        self.wait()
        took = max(time.perf_counter() - begun, 1e-7)
        # A sample of at least 2 ms on a GPU, so that waiting for the host is no part of it.
        inner = max(1, min(2000, int(2e-3 / took))) if self.on_gpu else 1 if cold else max(1, int(5e-4 / took))
        until = time.perf_counter() + self.each
        samples = []
        while len(samples) < 3 or (time.perf_counter() < until and len(samples) < 200):
            if self.on_gpu:
                first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                first.record()
                for _ in range(inner):
                    run()
                last.record()
                last.synchronize()
                samples.append(first.elapsed_time(last) * 1e-3 / inner)
            else:
                if cold:
                    self.caches.mul_(1.0)
                begun = self.clock()
                for _ in range(inner):
                    run()
                samples.append((self.clock() - begun) / inner)
        self.look_at_clock()
        return sorted(sample / launches for sample in samples)

    def measured(self, run, launches=1, cold=False):
        """The median of a GPU. Of a CPU the quickest tenth's: what other programs take is no property of it."""
        samples = self.times(run, launches, cold)
        middle = samples[len(samples) // 2]
        high = samples[(len(samples) * 9) // 10]
        low = samples[len(samples) // 10]
        self.spreads.append((high - low) / middle)
        return middle if self.on_gpu else low

    def row(self, kernel, **figures):
        self.write({"kernel": kernel, **figures})

    def look_at_clock(self):
        """SM clock and power now and then, where the driver's tool is there to ask."""
        if self.on_gpu and time.perf_counter() - self.asked > 5.0:
            self.asked = time.perf_counter()
            self.clocks.extend(smi("clocks.sm"))


def smi(what):
    """Numbers of nvidia-smi; none without it."""
    index = str(torch.cuda.current_device())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        index = visible.split(",")[int(index)]
    command = ["nvidia-smi", "-i", index, "--query-gpu=" + what, "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
        return [float(part) for part in told.replace(",", " ").split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def dtype_of(element):
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(element, torch.float32)


def elements_of(bench):
    """The types that matrix units of this device multiply."""
    if not bench.on_gpu:
        return ["fp32", "bf16"]
    major, minor = torch.cuda.get_device_capability(bench.device)
    found = ["fp32", "fp16"]
    if torch.cuda.is_bf16_supported():
        found.append("bf16")
    if torch.version.hip is None and major >= 8:
        found.append("tf32")
    if (major, minor) >= (8, 9) and hasattr(torch, "_scaled_mm"):
        found.append("fp8")
    return found


@contextlib.contextmanager
def tensor_cores(element):
    allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = element == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed


def operand(bench, element, *sides):
    return torch.randn(*sides, device=bench.device).to(dtype_of(element))


def product(bench, element, rows, inner, columns):
    """A call that multiplies as a linear layer does: weights lie by columns."""
    left, right = operand(bench, element, rows, inner), operand(bench, element, columns, inner)
    if element == "fp8":
        left, right = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn)
        one = torch.ones((), device=bench.device)
        return lambda: torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return lambda: F.linear(left, right)


def gradients(bench, element, rows, inner, columns):
    """The matmuls of a linear layer's backward pass, with their shapes: operands lie otherwise than forward."""
    ahead, weight = operand(bench, element, rows, columns), operand(bench, element, columns, inner)
    before = operand(bench, element, rows, inner)
    yield "of_input", lambda: ahead.mm(weight), (rows, columns, inner)
    yield "of_weight", lambda: ahead.t().mm(before), (columns, rows, inner)


def matmuls(bench):
    for element in elements_of(bench):
        for rows, inner, columns in ON_GPU if bench.on_gpu else ON_CPU:
            # Vector units take long: a few sizes say all.
            if bench.on_gpu and element == "fp32" and rows * inner * columns > 1 << 36:
                continue
            try:
                with tensor_cores(element):
                    run = product(bench, element, rows, inner, columns)
                    seconds = bench.measured(run)
            except RuntimeError as error:
                tell("%s: %s" % (element, str(error).splitlines()[0]))
                break
            shape = {"element": element, "rows": rows, "inner": inner, "columns": columns}
            bench.row("matmul", batch=1, seconds=seconds, **shape)
            # Of a GPU either way is as fast; a CPU copies what lies across.
            for which, run, sides in () if bench.on_gpu else gradients(bench, element, rows, inner, columns):
                shape = dict(zip(("rows", "inner", "columns"), sides), element=element)
                bench.row("gradient", of=which, batch=1, seconds=bench.measured(run), **shape)
        del run
    grouped(bench)
    between(bench)


def grouped(bench):
    """Matmuls of eight experts as one launch."""
    element = "bf16" if bench.on_gpu and torch.cuda.is_bf16_supported() else ("fp16" if bench.on_gpu else "fp32")
    for rows, inner, columns in ((1024, 2048, 4096), (512, 4096, 2048)) if bench.on_gpu else ((128, 256, 512),):
        left, right = operand(bench, element, 8, rows, inner), operand(bench, element, 8, inner, columns)
        seconds = bench.measured(lambda: torch.bmm(left, right))
        shape = {"element": element, "rows": rows, "inner": inner, "columns": columns}
        bench.row("grouped", batch=8, seconds=seconds, **shape)


def between(bench):
    """A matmul among kernels that write much, as in a step, beside the same one again and again."""
    element = "fp32"
    if bench.on_gpu:
        element = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    for rows, inner, columns in ((8192, 4096, 4096), (4096, 4096, 12288)) if bench.on_gpu else ((512, 512, 512),):
        run = product(bench, element, rows, inner, columns)

        def both():
            bench.other.mul_(1.0)
            run()

        # In turn, so that a change of the clock touches all alike.
        alone = min(bench.measured(run) for _ in range(2))
        others = min(bench.measured(lambda: bench.other.mul_(1.0)) for _ in range(2))
        mixed = min(bench.measured(both) for _ in range(2))
        bench.row("between", element=element, alone=alone, seconds=max(mixed - others, 1e-9))


def moves(bench):
    """Kernels that DRAM bandwidth bounds: elements, and rows that are normalised."""
    sizes = (1 << 27, 1 << 26, 1 << 25) if bench.on_gpu else (1 << 22, 1 << 21, 1 << 20, 1 << 19, 1 << 18)
    for count in sizes:
        one, two = (torch.randn(count, device=bench.device) for _ in range(2))
        calls = {"copy": (lambda: one.clone(), 2), "add": (lambda: one + two, 3), "gelu": (lambda: F.gelu(one), 2)}
        for name, (run, times) in calls.items():
            bench.row("elements", name=name, bytes=4 * count * times, seconds=bench.measured(run, cold=True))
        for columns in (1024, 4096) if bench.on_gpu else (768,):
            table = one[: count // columns * columns].view(-1, columns)
            weight, bias = torch.ones(columns, device=bench.device), torch.zeros(columns, device=bench.device)
            moved = 4 * 2 * table.numel()
            run = bench.measured(lambda: F.layer_norm(table, (columns,), weight, bias), cold=True)
            bench.row("rows", name="layer_norm", bytes=moved, seconds=run)
            run = bench.measured(lambda: F.softmax(table, -1), cold=True)
            bench.row("rows", name="softmax", bytes=moved, seconds=run)


def fresh(bench):
    """What the kernel takes to hand out the pages of tensors so large that malloc maps and unmaps each (mallopt(3))."""
    for count in () if bench.on_gpu else (10 << 20, 20 << 20):
        there = torch.empty(count)
        again = bench.measured(lambda: there.fill_(1.0))
        first = bench.measured(lambda: torch.empty(count).fill_(1.0))
        bench.row("fresh", bytes=4 * count, seconds=max(first - again, 1e-9))


def attention(bench):
    fused = getattr(F, "scaled_dot_product_attention", None)
    if fused is None:
        return
    elements = ["fp32", "bf16"]
    if bench.on_gpu:
        elements = ["bf16" if torch.cuda.is_bf16_supported() else "fp16"]
    shapes = ATTENTION_ON_GPU if bench.on_gpu else ATTENTION_ON_CPU
    for element, (heads, queries, dim, causal) in ((one, shape) for one in elements for shape in shapes):
        parts = [operand(bench, element, 1, heads, queries, dim).requires_grad_() for _ in range(3)]
        try:
            with torch.no_grad():
                forward = bench.measured(lambda: fused(*parts, is_causal=causal))
            made = fused(*parts, is_causal=causal)
            ahead = torch.randn_like(made)
            backward = bench.measured(lambda: torch.autograd.grad(made, parts, ahead, retain_graph=True))
        except RuntimeError as error:
            tell("attention: %s" % str(error).splitlines()[0])
            return
        shape = {"element": element, "heads": heads, "queries": queries, "dim": dim, "causal": causal}
        bench.row("attention", forward=forward, backward=backward, **shape)


def convolutions(bench):
    element = "fp32"
    if bench.on_gpu:
        element = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    for images, wide, made, side, window, stride in CONVOLUTIONS_ON_GPU if bench.on_gpu else CONVOLUTIONS_ON_CPU:
        image = operand(bench, element, images, wide, side * stride, side * stride)
        weight = operand(bench, element, made, wide, window, window)
        if bench.on_gpu:
            image, weight = (part.to(memory_format=torch.channels_last) for part in (image, weight))
        call = lambda a, b: F.conv2d(a, b, stride=stride, padding=window // 2)
        seconds = {}
        with torch.no_grad():
            seconds["forward"] = bench.measured(lambda: call(image, weight))
        for name, leaf in (("of_input", 0), ("of_weight", 1)):
            parts = [image.detach(), weight.detach()]
            parts[leaf].requires_grad_()
            result = call(*parts)
            ahead = torch.randn_like(result)
            run = lambda: torch.autograd.grad(result, parts[leaf], ahead, retain_graph=True)
            seconds[name] = bench.measured(run)
            parts[leaf].requires_grad_(False)
        shape = {"element": element, "from": wide, "to": made, "window": window * window}
        bench.row("convolution", positions=images * side * side, strided=stride > 1, **shape, **seconds)


def launches(bench):
    """What a kernel costs that does next to nothing: the device's part, and the host's."""
    small = torch.ones(64, 64, device=bench.device, requires_grad=True)
    many = 100
    if not bench.on_gpu:

        def there_and_back():
            made = small
            for _ in range(many):
                made = made * 1.5
            made.sum().backward()
            small.grad = None

        bench.row("launch", device_us=1e6 * bench.measured(there_and_back, 2 * many))
        return
    layer = torch.nn.Linear(64, 64, device=bench.device)
    with torch.no_grad():
        samples = []
        for _ in range(20):
            bench.wait()
            begun = time.perf_counter()
            for _ in range(many):
                layer(small)
            samples.append((time.perf_counter() - begun) / many)
        bench.wait()
        bench.row("host", host_us=1e6 * sorted(samples)[len(samples) // 2])
        still = small.detach()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            still.mul_(1.0)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(many):
                still.mul_(1.0)
        bench.row("launch", device_us=1e6 * bench.measured(graph.replay, many))


def optimizer(bench):
    """An AdamW step over few large tensors, and over many small ones."""
    for count, side in ((8, 4096), (200, 256)) if bench.on_gpu else ((8, 1024), (100, 128)):
        weights = [torch.nn.Parameter(torch.randn(side, side, device=bench.device)) for _ in range(count)]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        adamw = torch.optim.AdamW(weights, lr=1e-3)
        bench.row("optimizer", tensors=count, elements=count * side * side, seconds=bench.measured(adamw.step, cold=True))


# What a training process holds at most without a model of its own: after three steps of a tiny one, which has loaded what
# those of any size load (modules, kernels, the autograd engine, the optimizer).
PROCESS = """
import torch
%s
adamw = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss().backward()
    adamw.step()
    adamw.zero_grad()
print([1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
LAYERS = """
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 64))
loss = lambda: torch.nn.functional.cross_entropy(model(torch.randn(64, 64)), torch.zeros(64, dtype=torch.long))
"""
LANGUAGE_MODEL = """
from transformers import BertForMaskedLM, GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(vocab_size=512, n_embd=64, n_layer=2, n_head=2, n_positions=128))
ids = torch.randint(0, 512, (2, 64))
loss = lambda: model(input_ids=ids, labels=ids).loss
"""


def process(bench):
    if bench.on_gpu:
        return
    for name, text in (("torch", LAYERS), ("transformers", LANGUAGE_MODEL)):
        told = subprocess.run([sys.executable, "-c", PROCESS % text], capture_output=True, text=True)
        if told.returncode == 0:
            bench.row("process", name=name, bytes=int(told.stdout.split()[-1]))


def machine(bench):
    about = {"torch": str(torch.__version__), "python": sys.version.split()[0], "date": time.strftime("%Y-%m-%d")}
    if bench.on_gpu:
        card = torch.cuda.get_device_properties(bench.device)
        about["device"] = "gpu"
        about["name"] = card.name
        about["vendor"] = "amd" if torch.version.hip else "nvidia"
        about["multiprocessors"] = card.multi_processor_count
        about["memory_bytes"] = card.total_memory
        about["toolkit"] = "HIP %s" % torch.version.hip if torch.version.hip else "CUDA %s" % torch.version.cuda
        driver = driver_version()
        if driver:
            about["driver"] = driver
        power = smi("power.limit")
        if power:
            about["power_limit_w"] = power[0]
        return about
    about["device"] = "cpu"
    about["name"] = cpu_name()
    about["multiprocessors"] = torch.get_num_threads()
    about["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return about


def driver_version():
    try:
        with open("/sys/module/nvidia/version") as version:
            return version.read().strip()
    except OSError:
        return None


def cpu_name():
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "CPU"


def groups(world, local):
    """Groups to measure: the first ranks of a node, two, four … all of them; and one rank of every node."""
    found = []
    size = 2
    while size <= local:
        found.append(("node", list(range(size))))
        size *= 2
    if local > 1 and ("node", list(range(local))) not in found:
        found.append(("node", list(range(local))))
    nodes = world // local
    size = 2
    while size <= nodes:
        found.append(("network", [node * local for node in range(size)]))
        size *= 2
    return found


def collectives(bench):
    import torch.distributed as dist

    dist.init_process_group("nccl" if bench.on_gpu else "gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    sizes = (1 << 16, 1 << 20, 1 << 24, 1 << 28) if bench.on_gpu else (1 << 12, 1 << 18, 1 << 22)
    for scope, ranks in groups(world, local):
        group = dist.new_group(ranks)
        for count in sizes if rank in ranks else ():
            for kind, run in calls(bench, dist, group, ranks, count // 4):
                try:
                    seconds = together(bench, dist, group, run)
                except RuntimeError as error:
                    tell("%s: %s" % (kind, str(error).splitlines()[0]))
                    continue
                if rank == ranks[0]:
                    bench.row("collective", scope=scope, kind=kind, ranks=len(ranks), bytes=count, seconds=seconds)
        dist.barrier()
    dist.destroy_process_group()


def calls(bench, dist, group, ranks, elements):
    """Each kind of collective over a tensor of so many elements: the whole one."""
    several = len(ranks)
    part = elements // several
    whole = torch.ones(part * several, device=bench.device)
    other = torch.ones(part * several, device=bench.device)
    mine = torch.ones(part, device=bench.device)
    yield "all_reduce", lambda: dist.all_reduce(whole, group=group)
    if bench.on_gpu:
        gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        yield "all_gather", lambda: gather(whole, mine, group=group)
        yield "reduce_scatter", lambda: scatter(mine, whole, group=group)
        yield "all_to_all", lambda: dist.all_to_all_single(other, whole, group=group)
    else:
        yield "all_gather", lambda: dist.all_gather(list(other.chunk(several)), mine, group=group)
    if several == 2:
        first = dist.get_rank() == ranks[0]
        if first:
            yield "send", lambda: dist.send(whole, ranks[1], group=group)
        else:
            yield "send", lambda: dist.recv(whole, ranks[0], group=group)


def together(bench, dist, group, run):
    """The median over a fixed number of runs: ranks must agree on it."""
    for _ in range(3):
        run()
    samples = []
    for _ in range(10):
        bench.wait()
        dist.barrier(group=group)
        begun = time.perf_counter()
        for _ in range(5):
            run()
        bench.wait()
        samples.append((time.perf_counter() - begun) / 5)
    return sorted(samples)[len(samples) // 2]


def tell(text):
    print("memwall bench: " + text, file=sys.stderr, flush=True)


PARTS = (
    ("matmuls", matmuls),
    ("memory", moves),
    ("pages", fresh),
    ("attention", attention),
    ("convolutions", convolutions),
    ("launches", launches),
    ("optimizer", optimizer),
    ("process", process),
)


def main():
    parser = argparse.ArgumentParser(description="Measures what PyTorch's kernels reach on this machine.")
    parser.add_argument("--output", required=True, metavar="FILE", help="where the rows go, one JSON object a line")
    parser.add_argument("--cpu", action="store_true", help="measure the CPU")
    parser.add_argument("--device", type=int, default=0, metavar="INDEX", help="which GPU")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="about how long")
    parser.add_argument("--only", choices=[name for name, _ in PARTS], action="append", help="this part alone")
    asked = parser.parse_args()
    if not asked.cpu and not torch.cuda.is_available():
        tell("PyTorch sees no GPU here: --cpu measures the CPU")
        return 1
    rank = int(os.environ.get("RANK", "0"))
    local = int(os.environ.get("LOCAL_RANK", str(asked.device)))
    device = torch.device("cpu") if asked.cpu else torch.device("cuda", local)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    with open(asked.output if rank == 0 else os.devnull, "w") as file:

        def write(row):
            file.write(json.dumps(row) + "\n")
            file.flush()

        bench = Bench(device, asked.seconds, write)
        about = machine(bench)
        write({"kernel": "machine", **about})
        tell("measures %s: about %d s" % (about["name"], asked.seconds))
        if rank == 0:
            for name, part in PARTS:
                if not asked.only or name in asked.only:
                    tell(name)
                    part(bench)
        if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1:
            if rank == 0:
                tell("collectives")
            collectives(bench)
        spreads = sorted(bench.spreads)
        done = {"spread": spreads[len(spreads) // 2]} if spreads else {}
        if bench.clocks:
            done["clock_mhz"] = sorted(bench.clocks)[len(bench.clocks) // 2]
        write({"kernel": "done", **done})
    return 0


if __name__ == "__main__":
    sys.exit(main())
