"""Small models of one's own with habits that tracers stumble over, for trace_cases.py."""

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    """Tokens in, mean cross-entropy out; what lies between is the subclass's."""

    def __init__(self, width=256, vocabulary=1000):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        logits = self.out(self.between(self.embedding(ids)))
        return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


class InPlace(Head):
    """Operators in place, on views and on slices."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def between(self, x):
        for layer in self.layers:
            y = F.relu_(layer(x)) * 2
            y[..., :64].mul_(0.5)
            y.view(-1, 256).add_(1.0)
            x = x + y
        return x


class Shared(Head):
    """A block that is called several times, weights that two layers share, and a head tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
        self.one, self.two = nn.Linear(256, 256), nn.Linear(256, 256)
        self.two.weight, self.out.weight = self.one.weight, self.embedding.weight

    def between(self, x):
        for _ in range(3):
            x = x + self.block(x)
        return self.two(self.one(x))


class Buffers(Head):
    """Buffers that a step reads and writes: running means, a mask, a counter."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(3))
        self.register_buffer("mean", torch.zeros(256))
        self.register_buffer("mask", torch.ones(512, 512).tril(), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def between(self, x):
        self.steps += 1
        length = x.size(1)
        weights = self.mask[:length, :length] / self.mask[:length, :length].sum(-1, keepdim=True)
        for layer in self.layers:
            self.mean.mul_(0.9).add_(x.detach().float().mean((0, 1)), alpha=0.1)
            x = x + torch.matmul(weights.to(x.dtype), layer(x - self.mean.to(x.dtype)))
        return x


class Squared(torch.autograd.Function):
    """A function whose backward pass computes the forward one again."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return (x @ weight).relu().square()

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        inner = (x @ weight).relu()
        gradient = 2 * gradient * inner
        return gradient @ weight.t(), x.flatten(0, -2).t() @ gradient.flatten(0, -2)


class OwnFunction(Head):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(256, 256) * 0.02) for _ in range(4))

    def between(self, x):
        for weight in self.weights:
            x = x + Squared.apply(x, weight.to(x.dtype))
        return x


@torch.library.custom_op("memwall_odd::gate", mutates_args=())
def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x) * y


@gate.register_fake
def _(x, y):
    return torch.empty_like(x)


def save_operands(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def gate_backward(ctx, gradient):
    x, y = ctx.saved_tensors
    share = torch.sigmoid(x)
    return gradient * y * share * (1 - share), gradient * share


gate.register_autograd(gate_backward, setup_context=save_operands)


@torch.library.custom_op("memwall_odd::scale", mutates_args=())
def scale(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.float().square().mean(-1, keepdim=True).rsqrt()
    return x * rows.to(x.dtype), rows


@scale.register_fake
def _(x):
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


def save_results(ctx, inputs, output):
    ctx.save_for_backward(output[0], output[1])


def scale_backward(ctx, gradient, _):
    made, rows = ctx.saved_tensors
    inner = (gradient * made).mean(-1, keepdim=True)
    return (gradient - made * inner) * rows.to(gradient.dtype)


scale.register_autograd(scale_backward, setup_context=save_results)


class Library(Head):
    """Operators of torch.library, which save what they read and what they make."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 512) for _ in range(4))

    def between(self, x):
        for layer in self.layers:
            x = x + gate(*layer(scale(x)[0]).chunk(2, dim=-1))
        return x


class Bent(torch.autograd.Function):
    """One operator, whose result alone is saved."""

    @staticmethod
    def forward(context, x):
        made = torch.tanh(x)
        context.save_for_backward(made)
        return made

    @staticmethod
    def backward(context, gradient):
        made, = context.saved_tensors
        return gradient * (1 - made * made)


class OneOperator(Head):
    """Functions of one operator each."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256, bias=False) for _ in range(4))

    def between(self, x):
        for layer in self.layers:
            x = x + Bent.apply(layer(x))
        return x


class Complex(Head):
    """A filter along the sequence in the frequencies, with complex weights kept as real pairs."""

    def __init__(self):
        super().__init__()
        self.filters = nn.ParameterList(nn.Parameter(torch.randn(256, 2) * 0.02) for _ in range(3))

    def between(self, x):
        for weight in self.filters:
            spectrum = torch.fft.rfft(x.float(), dim=1) * torch.view_as_complex(weight.float())
            x = x + torch.fft.irfft(spectrum, n=x.size(1), dim=1).to(x.dtype)
        return x


class Hooks(Head):
    """Hooks that change what modules give and what gradients are."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))
        for layer in self.layers:
            layer.register_forward_hook(lambda module, given, made: made * 0.5)
            layer.register_forward_pre_hook(lambda module, given: (given[0] + 1,))

    def between(self, x):
        for layer in self.layers:
            y = layer(x)
            if y.requires_grad:
                y.register_hook(lambda gradient: gradient * 2)
            x = x + torch.tanh(y)
        return x


class Experts(Head):
    """A soft mixture: each token's answer is a sum over stacked matrices."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(256, 4)
        self.up = nn.Parameter(torch.randn(4, 256, 512) * 0.02)
        self.down = nn.Parameter(torch.randn(4, 512, 256) * 0.02)

    def between(self, x):
        shares = self.router(x).softmax(-1)
        inner = torch.einsum("bsd,edf->ebsf", x, self.up.to(x.dtype))
        return x + torch.einsum("ebsf,efd,bse->bsd", F.silu(inner), self.down.to(x.dtype), shares.to(x.dtype))


class Recurrent(Head):
    """Two layers of an LSTM."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(256, 256, num_layers=2, batch_first=True)

    def between(self, x):
        return self.lstm(x)[0]


class Torch(Head):
    """PyTorch's own encoder layers, batch second."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def between(self, x):
        return self.encoder(x)


class Dense(Head):
    """Every layer reads what all before it made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256 + 64 * at, 64) for at in range(6))
        self.last = nn.Linear(256 + 64 * 6, 256)

    def between(self, x):
        seen = [x]
        for layer in self.layers:
            seen.append(F.gelu(layer(torch.cat(seen, -1))))
        return self.last(torch.cat(seen, -1))


class Looking(Head):
    """Two encoders, cross-attention, and a loss of the first beside the last."""

    def __init__(self):
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(256, 256) for _ in range(2))
        self.attention = nn.MultiheadAttention(256, 4, batch_first=True)
        self.weigh = nn.Parameter(torch.zeros(2))

    def between(self, x):
        other = x
        for layer in self.first:
            other = F.silu(layer(other))
        made = self.attention(x, other, other, need_weights=False)[0]
        shares = self.weigh.softmax(0).to(x.dtype)
        return shares[0] * made + shares[1] * other.flip(1)


class Gated(Head):
    """A causal convolution by channel, and a running sum with gates in the place of attention."""

    def __init__(self):
        super().__init__()
        self.mix = nn.ModuleList(nn.Conv1d(256, 256, 4, padding=3, groups=256) for _ in range(3))
        self.gates = nn.ModuleList(nn.Linear(256, 512) for _ in range(3))
        self.norms = nn.ModuleList(nn.GroupNorm(8, 256) for _ in range(3))

    def between(self, x):
        for mix, gate, norm in zip(self.mix, self.gates, self.norms):
            moved = mix(x.transpose(1, 2))[..., :x.size(1)].transpose(1, 2)
            keep, put = gate(moved).chunk(2, dim=-1)
            decay = F.logsigmoid(keep).cumsum(1)
            summed = (decay.neg().exp() * put).cumsum(1) * decay.exp()
            x = x + norm(summed.transpose(1, 2)).transpose(1, 2)
        return x


class Branch(nn.Module):
    """A convolution along the sequence, whose weights a hook makes anew in each pass and leaves with the module, and attention that
    is left there to be looked at."""

    def __init__(self, kernel):
        super().__init__()
        self.mix = nn.utils.weight_norm(nn.Conv1d(256, 256, kernel, padding=kernel // 2))
        self.query, self.shown = nn.Linear(256, 64), None

    def forward(self, x):
        mixed = self.mix(x.transpose(1, 2)).transpose(1, 2)
        query = self.query(mixed)
        self.shown = (query @ query.transpose(1, 2) / 8).softmax(-1)
        return x + self.shown.to(x.dtype) @ mixed


class Kept(Head):
    """Branches of one input, whose results are added up in place: what modules keep beyond a step."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.ModuleList(Branch(kernel) for kernel in (3, 7, 11)) for _ in range(2))

    def between(self, x):
        for branches in self.branches:
            total = None
            for branch in branches:
                if total is None:
                    total = branch(x)
                else:
                    total += branch(x)
            x = total / len(branches)
        return x


class Pair(Head):
    """Two views of a batch through one tower, compared with each other, and a mean that a buffer keeps."""

    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.LayerNorm(512), nn.Linear(512, 256, bias=False))
        self.register_buffer("mean", torch.zeros(256))

    def forward(self, ids):
        x = self.embedding(ids)
        one, other = (F.normalize(self.tower(view).mean(1), dim=-1) for view in (x, F.dropout(x, 0.2)))
        with torch.no_grad():
            self.mean.lerp_(one.mean(0).to(self.mean.dtype), 0.01)
        scores = torch.einsum("id,jd->ij", one - self.mean, other) / 0.1
        return F.cross_entropy(scores.float(), torch.arange(ids.size(0), device=ids.device)) + self.out(x).float().logsumexp(-1).mean()


MODELS = {model.__name__.lower(): model for model in (
    InPlace, Shared, Buffers, OwnFunction, Complex, Hooks, Experts, Recurrent, Torch, Dense, Looking, Gated, Pair, Library,
    OneOperator, Kept)}
