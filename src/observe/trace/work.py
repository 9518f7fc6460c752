"""What an operator computes on, as its speed depends on it."""


def work_of(func, args, kwargs, out):
    """Sizes of a matrix product, a convolution or fused attention, as its speed depends on them."""
    name = func._overloadpacket.__name__
    shape = lambda tensor: tuple(tensor.shape)
    if name == "mm":
        a, b = shape(args[0]), shape(args[1])
        return ("product", 1, a[0], a[1], b[1])
    if name == "addmm":
        a, b = shape(args[1]), shape(args[2])
        return ("product", 1, a[0], a[1], b[1])
    if name in ("bmm", "baddbmm"):
        a, b = (shape(one) for one in (args[:2] if name == "bmm" else args[1:3]))
        return ("product", a[0], a[1], a[2], b[2])
    if name in ("convolution", "_convolution", "cudnn_convolution"):
        made, weight = shape(out), shape(args[1])
        transposed = bool(args[6]) if len(args) > 6 else False
        window = 1
        for side in weight[2:]:
            window *= side
        positions = made[0]
        for side in (shape(args[0]) if transposed else made)[2:]:
            positions *= side
        before = 1
        for side in shape(args[0])[2:]:
            before *= side
        after = 1
        for side in made[2:]:
            after *= side
        first, second = weight[1], weight[0]
        return ("convolution", positions, first, second, window, int(before > after))
    if "scaled_dot_product" in name and "backward" not in name:
        query, key, value = (shape(one) for one in args[:3])
        causal = kwargs.get("is_causal", False)
        for one in args[3:]:
            causal = causal or one is True
        batch = 1
        for side in query[:-2]:
            batch *= side
        sharing = max(1, query[-3] // key[-3]) if len(query) > 3 else 1
        return ("attention", batch, query[-2], sharing, (query[-1] + value[-1]) // 2, int(bool(causal)))
    if "layer_norm" in name or "group_norm" in name or "rms_norm" in name or "softmax" in name:
        return ("rows",)
    if "batch_norm" in name:
        return ("normalized",)
    return None
