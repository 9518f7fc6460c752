# The kernels that are measured, and their sizes.

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
