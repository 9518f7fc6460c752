"""Values that are kept: integers, and short rows of other numbers, that a script wrote down, read or drew. An operator on them
runs for real beside the fake one as long as it is cheap, so that a number of classes, a mask or a table of labels says on the
device what it says on the host."""

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
# Most elements: of integers and truth values, and of all else.
MOST, MOST_FLOATS = 1 << 22, 1 << 12
# They make tensors whose values are known, and some whose values come later. Numbers drawn between 0 and 1 decide branches, which are
# taken the same way each time.
MADE = {aten.zeros, aten.ones, aten.full, aten.arange, aten.linspace, aten.eye, aten.scalar_tensor, aten.randint, aten.randperm,
        aten.tril_indices, aten.triu_indices}
EMPTY = {aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided}
# They write every element of their first argument.
WRITTEN = {aten.fill_, aten.zero_, aten.copy_, aten.random_}
# Random numbers: what stands for them stands in `fake`.
DRAWN = {aten.bernoulli, aten.bernoulli_, aten.rand_like, aten.randn_like, aten.multinomial, aten.native_dropout, aten.uniform_,
         aten.normal_, aten.exponential_, aten.geometric_, aten.cauchy_, aten.log_normal_}
ATTRIBUTE = "_memwall_held"


class Shared:
    """What all views of one memory have in common: whether something unknown was written into it."""

    __slots__ = ("lost",)

    def __init__(self, lost=False):
        self.lost = lost


class Held:
    """The values of a fake tensor, on the host."""

    __slots__ = ("tensor", "shared", "memory")

    def __init__(self, tensor, shared, memory):
        self.tensor, self.shared, self.memory = tensor, shared, memory

    def is_whole(self):
        return self.tensor.numel() * self.tensor.element_size() == self.tensor.untyped_storage().nbytes()


class Kind:
    """What an operator does with memory, from its schema."""

    __slots__ = ("views", "writes", "depends")

    def __init__(self, func):
        schema = func._schema
        aliased = [one.alias_info for one in schema.returns]
        self.views = func._overloadpacket is aten._unsafe_view or any(one is not None and not one.is_write for one in aliased)
        self.writes = [at if not argument.kwarg_only else argument.name for at, argument in enumerate(schema.arguments)
                       if argument.alias_info is not None and argument.alias_info.is_write]
        self.depends = torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


KINDS = {}


def kind_of(func):
    kind = KINDS.get(func)
    if kind is None:
        kind = KINDS[func] = Kind(func)
    return kind


def fits(tensor):
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    return tensor.numel() <= (MOST_FLOATS if tensor.is_floating_point() or tensor.is_complex() else MOST)


def held_of(tensor):
    """What is held of a fake tensor, also where it was lost."""
    held = tensor.__dict__.get(ATTRIBUTE)
    # `x.data = y` puts other memory behind the same name.
    return held if held is not None and held.memory == tensor.untyped_storage()._cdata else None


def value_of(tensor):
    """The values of a tensor; none where nobody knows them."""
    if isinstance(tensor, FakeTensor):
        held = held_of(tensor)
        return None if held is None or held.shared.lost else held.tensor
    return tensor if type(tensor) is torch.Tensor and tensor.device.type == "cpu" and fits(tensor) else None


def numbers_of(tensor):
    with unset_fake_temporarily():
        return value_of(tensor).tolist()


def follow_data(fake_mode):
    """`x.data = y` of a fake `x` takes a fake `y`, though small ones of the host are real."""
    data = torch.Tensor.data

    def put(tensor, value):
        data.__set__(tensor, value if isinstance(value, FakeTensor) else fake_mode.from_tensor(value))

    FakeTensor.data = property(data.__get__, put)


def hold(fake, value, shared):
    if isinstance(fake, FakeTensor) and isinstance(value, torch.Tensor) and fake.shape == value.shape and fake.dtype == value.dtype:
        setattr(fake, ATTRIBUTE, Held(value, shared, fake.untyped_storage()._cdata))


def lose(tensor):
    held = tensor.__dict__.get(ATTRIBUTE) if isinstance(tensor, torch.Tensor) else None
    if held is not None:
        held.shared.lost = True


def forget(tree):
    """What was held of these tensors is not."""
    for leaf in tree_flatten(tree)[0]:
        if isinstance(leaf, torch.Tensor):
            leaf.__dict__.pop(ATTRIBUTE, None)


def run(func, args, kwargs, values):
    """The operator on the host, on the values in the place of fake tensors; none where it cannot."""
    def one(leaf):
        return values[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = tree_map(one, (list(args), dict(kwargs)))
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    try:
        with unset_fake_temporarily():
            return func(*args, **kwargs)
    except Exception:
        return None


def known(leaves):
    """The values of all these tensors by their ids; none where one of them is not known."""
    values = {}
    for leaf in leaves:
        value = value_of(leaf)
        if value is None:
            return None
        values[id(leaf)] = value
    return values


def ahead(func, args, kwargs, leaves):
    """What an operator gives whose result or size depends on values; none where they are not known."""
    if not leaves or not kind_of(func).depends or func._overloadpacket in DRAWN:
        return None
    values = known(leaves)
    made = None if values is None else run(func, args, kwargs, values)
    device = leaves[0].device

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        out = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
        if fits(value):
            hold(out, value, Shared())
        return out

    return None if made is None else tree_map(fake, made)


def follow(func, args, kwargs, leaves, out):
    """Writes down what an operator makes of values that are known."""
    packet, kind = func._overloadpacket, kind_of(func)
    if kind.writes:
        written(func, args, kwargs, leaves, kind)
    elif packet in EMPTY or packet in MADE and not leaves:
        if isinstance(out, FakeTensor) and fits(out):
            value = run(torch.ops.aten.empty_strided.default, (out.shape, out.stride()), {"dtype": out.dtype}, {}) \
                if packet in EMPTY else run(func, args, kwargs, {})
            hold(out, value, Shared(packet in EMPTY))
    elif not leaves:
        return
    elif kind.views:
        viewed(func, args, kwargs, out)
    elif any(ATTRIBUTE in leaf.__dict__ or not isinstance(leaf, FakeTensor) for leaf in leaves):
        made = [one for one in tree_flatten(out)[0] if isinstance(one, FakeTensor)]
        if packet in DRAWN or not any(map(fits, made)) or max(one.numel() for one in made) > MOST:
            return
        values = known(leaves)
        result = None if values is None else run(func, args, kwargs, values)
        for one, value in zip(made, [one for one in tree_flatten(result)[0] if isinstance(one, torch.Tensor)]):
            if fits(one):
                hold(one, value, Shared())


def viewed(func, args, kwargs, out):
    """A view shares its memory, also where nobody knows what is in it now."""
    held = held_of(args[0]) if isinstance(args[0], FakeTensor) else None
    if held is None:
        return
    made = run(func, args, kwargs, {id(args[0]): held.tensor})
    if made is None:
        held.shared.lost = True
        return
    for one, value in zip(tree_flatten(out)[0], tree_flatten(made)[0]):
        hold(one, value, held.shared)


def written(func, args, kwargs, leaves, kind):
    """Writes the same into what is held, or loses it."""
    targets = [kwargs.get(at) if isinstance(at, str) else args[at] if at < len(args) else None for at in kind.writes]
    targets = [leaf for one in targets for leaf in tree_flatten(one)[0] if isinstance(leaf, torch.Tensor)]
    if not any(ATTRIBUTE in one.__dict__ for one in targets):
        return
    first = held_of(targets[0]) if isinstance(targets[0], FakeTensor) else None
    packet = func._overloadpacket
    values = None
    if packet in WRITTEN and first is not None and (first.is_whole() or not first.shared.lost):
        values = known(leaf for leaf in leaves if leaf is not targets[0])
        values = None if values is None else {**values, id(targets[0]): first.tensor}
    elif packet not in DRAWN:
        values = known(leaves)
    if values is None or run(func, args, kwargs, values) is None:
        for one in targets:
            lose(one)
    elif first is not None:
        first.shared.lost = False
