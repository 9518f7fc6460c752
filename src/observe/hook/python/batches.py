# How large the batches are that the model takes.
#
# Steps take longer with longer sequences, larger images, more boxes. Nothing of the code is slow then, and no line of it
# would help: the batch is named.

# A batch is larger that has this many times the numbers of the usual one, and more than this share of those that healthy
# steps took.
_LARGER = 1.5
_RARELY = 0.95

# Batches of healthy steps that are kept of a module, and how many it takes to know them.
_KEPT_BATCHES = 256
_LEAST_BATCHES = 20
_MOST_MODULES = 32

# A batch is looked into so deep, and no further than so many values.
_BATCH_DEPTH = 5
_MOST_VALUES = 64


def _batch_of(frame, tensor_class):
    """What a module was called with, by the frame of that call, PyTorch's own: the module's id and the numbers in its
    tensors; none where it holds none. No value is looked at, and none is kept."""
    try:
        values = frame.f_locals
        numbers = _numbers([values["args"], values["kwargs"]], tensor_class)
        return (id(values["self"]), numbers) if numbers else None
    except Exception:
        return None


def _numbers(batch, tensor_class):
    from itertools import islice

    level, numbers = [batch], 0
    for _ in range(_BATCH_DEPTH):
        inner = []
        for values in level:
            # A long list is not copied: the thread that trains would wait for it.
            for value in islice(values.values() if isinstance(values, dict) else values, _MOST_VALUES):
                # A tensor of another class may run code of its own.
                if type(value) is tensor_class:
                    numbers += value.numel()
                elif isinstance(value, (dict, list, tuple)):
                    inner.append(value)
        level = inner[:_MOST_VALUES]
    return numbers


class _Batches:
    """The sizes of the batches that the script's modules took in healthy steps."""

    def __init__(self):
        self.sizes = {}

    def healthy(self, batch):
        module, numbers = batch
        if module not in self.sizes and len(self.sizes) >= _MOST_MODULES:
            return
        sizes = self.sizes.setdefault(module, [])
        sizes.append(numbers)
        del sizes[:-_KEPT_BATCHES]

    def times_larger(self, batch):
        """How many times as large as the usual one of its module; none where it is not larger, or nobody knows."""
        module, numbers = batch
        sizes = sorted(self.sizes.get(module, ()))
        if len(sizes) < _LEAST_BATCHES:
            return None
        usual = sizes[len(sizes) // 2]
        if numbers < _LARGER * usual or numbers <= sizes[int(_RARELY * (len(sizes) - 1))]:
            return None
        return numbers / usual
