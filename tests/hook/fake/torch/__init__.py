"""As much of PyTorch as the hook touches: for machines without it."""

__version__ = "0.0.fake"


class _Device:
    type = "cpu"

    def __str__(self):
        return "cpu"


class _Float:
    is_floating_point = True

    def __str__(self):
        return "torch.float32"


class _Storage:
    def __init__(self, size):
        self.size = size

    def nbytes(self):
        return self.size

    def data_ptr(self):
        return id(self)


class Tensor:
    dtype = _Float()
    device = _Device()
    grad = None
    grad_fn = None
    requires_grad = False

    def __init__(self, count):
        self.count = count
        self.shape = (count,)
        self.storage = _Storage(4 * count)

    def numel(self):
        return self.count

    def element_size(self):
        return 4

    def untyped_storage(self):
        return self.storage

    def dim(self):
        return 1


class Parameter(Tensor):
    requires_grad = True


class cuda:
    @staticmethod
    def is_available():
        return False

    @staticmethod
    def is_initialized():
        return False


def is_grad_enabled():
    return True


class autograd:
    class graph:
        class saved_tensors_hooks:
            current = None

            def __init__(self, pack, unpack):
                self.pack = pack

            def __enter__(self):
                type(self).current = self

            def __exit__(self, *_):
                type(self).current = None


from . import nn, optim  # noqa: E402
