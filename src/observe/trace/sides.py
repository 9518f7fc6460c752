"""Which sides of what a script gives its model are the batch and the length."""

from torch import nn

# Layers of PyTorch that take the length before the batch unless `batch_first` is given (torch/nn/modules/rnn.py, activation.py).
EITHER = (nn.RNNBase, nn.MultiheadAttention)


class Sides:
    """The first two sides of what layers read that take the length first: (length, samples), and a class of such layers."""

    def __init__(self):
        self.length_first = {}

    def see(self, module, args):
        if isinstance(module, EITHER) and not module.batch_first and args and getattr(args[0], "dim", int)() == 3:
            self.length_first.setdefault(tuple(args[0].shape[:2]), type(module).__name__)

    def layer_of(self, value):
        """The class of layers that take a tensor's first side for its length; none where no such layer reads its sides."""
        sides = tuple(value.shape[:2])
        return None if sides[::-1] in self.length_first else self.length_first.get(sides)

    def of(self, batch):
        """Samples and, of token ids, their length, by axis; a list of images has as many samples as images."""
        first, listed = next(iter(batch), "").partition(".")[:2]
        images = [value for name, value in batch.items() if name.startswith(f"{first}.")] if listed else []
        if images and all(value.dim() == 3 and value.is_floating_point() for value in images):
            return {"B": len(images)}
        for value in batch.values():
            if value.dim() > 1 and self.layer_of(value):
                return {"B": value.shape[1], "S": value.shape[0]}
        for value in batch.values():
            if value.dim() == 2 and not value.is_floating_point():
                return {"B": value.shape[0], "S": value.shape[1]}
        first = next((value for value in batch.values() if value.dim()), None)
        return {"B": first.shape[0]} if first is not None else {}

    def notes(self, batch):
        found = next((name for value in batch.values() if value.dim() > 1 and (name := self.layer_of(value))), None)
        return [f"what the model reads has the length first and the batch behind it, as its {found} has batch_first=False"] if found else []
