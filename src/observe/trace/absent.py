"""What a script reads and that is not there, where nobody needs its values: a data set whose form its own library knows is made
up, and weights that would be downloaded are left as the model is built."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn.modules.module import _IncompatibleKeys

from checkpoints import replace
from later import Later

# What a tape says of them.
NOTES = []
# Images of each data set to train with, and others, one image's sides, and classes (torchvision's pages of MNIST, CIFAR10, SVHN and
# STL10, and what they cite; of EMNIST its paper's table II, arXiv 1702.05373).
FORMS = {
    "MNIST": (60_000, 10_000, (28, 28), 10), "CIFAR10": (50_000, 10_000, (32, 32, 3), 10), "SVHN": (73_257, 26_032, (3, 32, 32), 10),
    "STL10": (5_000, 8_000, (3, 96, 96), 10),
}
CLASSES = {"CIFAR100": 100, "byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26}
MADE_OF = {"byclass": (697_932, 116_323), "bymerge": (697_932, 116_323), "balanced": (112_800, 18_800), "letters": (124_800, 20_800),
           "digits": (240_000, 40_000), "extra": (531_131, 531_131), "unlabeled": (100_000, 100_000),
           "train+unlabeled": (105_000, 105_000)}


class Weights(dict):
    """Weights that nobody has, or a part of them."""

    def __getitem__(self, _):
        return self

    def get(self, *_):
        return self

    def pop(self, *_):
        return self


def install():
    later = Later.begun()
    for module, names in (("mnist", ["MNIST"]), ("cifar", ["CIFAR10"]), ("svhn", ["SVHN"]), ("stl10", ["STL10"])):
        later.after(f"torchvision.datasets.{module}", lambda found, names=names: [make_up(getattr(found, name)) for name in names])
    later.after("timm.models._builder", without_pretrained)
    # What draws or stores a model calls it in a way of its own, in which sizes are tensors.
    for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
        later.after(module, lambda found: setattr(found.SummaryWriter, "add_graph", lambda *_, **__: None))
    replace(torch.jit.trace, lambda func=None, *_, **__: func)
    torch.onnx.export = lambda *_, **__: None
    read, load = torch.hub.load_state_dict_from_url, nn.Module.load_state_dict

    def from_url(url, *args, **kwargs):
        try:
            return read(url, *args, **kwargs)
        except OSError:
            note(f"the weights {url.rpartition('/')[2]} are not here: the model is traced as it is built")
            return Weights()

    def loaded(self, state, *args, **kwargs):
        # What is picked from nothing is nothing.
        return _IncompatibleKeys([], []) if isinstance(state, Weights) or NOTES and not state else load(self, state, *args, **kwargs)

    replace(read, from_url)
    nn.Module.load_state_dict = loaded


def note(text):
    if text not in NOTES:
        NOTES.append(text)


def without_pretrained(builder):
    """timm's models, which ask a hub for their weights (timm/models/_builder.py, `load_pretrained`)."""
    load = builder.load_pretrained

    def loaded(model, *args, **kwargs):
        try:
            load(model, *args, **kwargs)
        except OSError:
            note(f"the weights of {type(model).__name__} are not here: the model is traced as it is built")

    builder.load_pretrained = loaded


def make_up(kind):
    """A data set of images of one form: where its files are not there, as many black ones, with every class in turn."""
    begin, (trained, tested, sides, classes) = kind.__init__, FORMS[kind.__name__]

    def begun(self, *args, **kwargs):
        try:
            begin(self, *args, **kwargs)
            return
        except (OSError, RuntimeError):
            # As it was asked for at all: `transform` and the like are set before files are read.
            if not hasattr(self, "transform"):
                raise
        split = getattr(self, "split", None)
        split = split if isinstance(split, str) else None
        trains = getattr(self, "train", split != "test")
        count = MADE_OF.get(split, (trained, tested))[0 if trains else 1]
        fill(self, count, sides, CLASSES.get(split, CLASSES.get(type(self).__name__, classes)))
        name = type(self).__name__
        note(f"the data set {name} is not here: made up as {count:,} images of {' x '.join(map(str, sides))}")

    kind.__init__ = begun


def fill(data, count, sides, classes):
    """Puts black images and their classes where a data set of torchvision keeps them."""
    import numpy

    images, labels = numpy.zeros((count, *sides), dtype=numpy.uint8), numpy.arange(count) % classes
    if len(sides) == 2:
        with unset_fake_temporarily():
            data.data, data.targets = torch.from_numpy(images), torch.from_numpy(labels)
    elif sides[-1] == 3:
        data.data, data.targets = images, labels.tolist()
        data.classes = [str(at) for at in range(classes)]
        data.class_to_idx = {name: at for at, name in enumerate(data.classes)}
    else:
        data.data, data.labels = images, labels
