"""Small models as research code writes them, each of whose steps showed a rule that the tape lacked, for trace_cases.py. The loss
is what a model returns."""

import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


class Translator(nn.Module):
    """A recurrent encoder, and a decoder that writes one row of its output at each position."""

    def __init__(self, width=256, vocabulary=2000, positions=12):
        super().__init__()
        self.positions = positions
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.weigh = nn.Linear(2 * width, 1)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(2 * width, vocabulary)

    def forward(self, source, target):
        states, last = self.encoder(self.embedding(source))
        state = torch.tanh(last[-1])
        logits = torch.zeros(target.size(0), self.positions, self.out.out_features, device=source.device)
        for at in range(self.positions):
            beside = state.unsqueeze(1).expand(-1, states.size(1), -1)
            shares = self.weigh(torch.cat((beside, states), -1)).softmax(1)
            context = (shares * states).sum(1).to(state.dtype)
            state = self.cell(torch.cat((self.embedding(target[:, at]), context), -1), state)
            logits[:, at] = self.out(torch.cat((state, context), -1))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class Momentum(nn.Module):
    """Two encoders, one of which follows the other, and a queue of what it said before."""

    def __init__(self, width=512):
        super().__init__()
        self.query, self.key = (nn.Sequential(nn.Linear(256, width), nn.ReLU(inplace=True), nn.Linear(width, width), nn.ReLU(inplace=True),
                                              nn.Linear(width, 128)) for _ in range(2))
        for parameter in self.key.parameters():
            parameter.requires_grad = False
        self.register_buffer("queue", torch.zeros(128, 1024))

    def forward(self, one, other):
        query = F.normalize(self.query(one), dim=1)
        with torch.no_grad():
            for trained, follows in zip(self.query.parameters(), self.key.parameters()):
                follows.data = follows.data * 0.999 + trained.data * 0.001
            key = F.normalize(self.key(other), dim=1)
        alike = (query * key).sum(1, keepdim=True)
        logits = torch.cat((alike, query @ self.queue.clone().detach().to(query.dtype)), 1) / 0.07
        self.queue = torch.cat((key.t().to(self.queue.dtype), self.queue), 1)[:, :1024].contiguous()
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))


class Drawn(nn.Module):
    """Weights that are drawn in each pass, and how far their distribution is from the prior."""

    def __init__(self, sides=(256, 512, 512, 10)):
        super().__init__()
        pairs = list(zip(sides, sides[1:]))
        self.means = nn.ParameterList(nn.Parameter(torch.zeros(after, before)) for before, after in pairs)
        self.spreads = nn.ParameterList(nn.Parameter(torch.zeros(after, before)) for before, after in pairs)

    def forward(self, x, labels):
        distance = 0.0
        for at, (mean, spread) in enumerate(zip(self.means, self.spreads)):
            deviation = F.softplus(spread)
            x = F.linear(x, mean + deviation * torch.randn_like(mean))
            x = x.relu() if at + 1 < len(self.means) else x
            distance = distance + (0.5 * (deviation ** 2 + mean ** 2) - deviation.log()).sum()
        return F.cross_entropy(x, labels) + distance / 1e4


class Critic(nn.Module):
    """A critic whose gradients at samples between two others are to be of length one."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(),
                                 nn.Linear(128 * 64, 1))

    def forward(self, real, made):
        share = torch.rand(len(real), 1, 1, 1, device=real.device)
        between = (share * real + (1 - share) * made).requires_grad_(True)
        slope, = torch.autograd.grad(self.net(between).sum(), between, create_graph=True)
        return self.net(made).mean() - self.net(real).mean() + 10 * ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


class Causal(nn.Module):
    """A block of causal convolutions that ends with an activation, which keeps its result."""

    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.mix = nn.utils.weight_norm(nn.Conv1d(width, width, 3, padding=self.pad, dilation=dilation))

    def forward(self, x):
        return (x + F.dropout(self.mix(x)[..., :-self.pad].relu(), 0.1, self.training)).relu()


class Convolutional(nn.Module):
    """A row of such blocks over embeddings that the caller has a name for."""

    def __init__(self, width=256, vocabulary=200):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.blocks = nn.Sequential(*(Causal(width, 2 ** at) for at in range(4)))

    def forward(self, ids):
        embedded = self.embedding(ids).transpose(1, 2)
        mixed = self.blocks(embedded)
        return F.cross_entropy(self.out(mixed.transpose(1, 2)).flatten(0, 1), ids.flatten())


class Slots(nn.Module):
    """Slots that compete for inputs, round by round."""

    def __init__(self, width=128, slots=7):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, slots, width))
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.cell, self.norm = nn.GRUCell(width, width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(inplace=True), nn.Linear(2 * width, width))

    def forward(self, x):
        width = x.size(-1)
        slots, key, value = self.start.expand(len(x), -1, -1), self.key(x), self.value(x)
        for _ in range(3):
            scores = torch.einsum("bid,bjd->bij", self.query(self.norm(slots)), key) / width ** 0.5
            shares = scores.softmax(1)
            read = torch.einsum("bjd,bij->bid", value, (shares / shares.sum(-1, keepdim=True)).to(value.dtype))
            slots = self.cell(read.reshape(-1, width), slots.reshape(-1, width).to(read.dtype)).reshape(len(x), -1, width)
            slots = slots + self.mlp(slots)
        return slots.float().pow(2).mean()


class Sets(nn.Module):
    """Attention in which heads are parts of the batch, as papers on sets write it: keys and values of one input."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.size, self.first = width // heads, nn.Linear(3, width)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(4)) for _ in range(3))
        self.out = nn.Linear(width, 40)

    def forward(self, x, labels):
        x = self.first(x)
        for query, key, value, last in self.layers:
            q, k, v = (torch.cat(one(x).split(self.size, 2), 0) for one in (query, key, value))
            mixed = q + (q @ k.transpose(1, 2) / self.size ** 0.5).softmax(2).to(v.dtype) @ v
            x = torch.cat(mixed.split(len(labels), 0), 2)
            x = x + last(x).relu()
        return F.cross_entropy(self.out(x.mean(1)), labels)


class Spectral(nn.Module):
    """Convolutions as long as the sequence, of complex exponentials."""

    def __init__(self, width=64, states=16):
        super().__init__()
        self.first, self.out = nn.Linear(1, width), nn.Linear(width, 10)
        self.weights = nn.Parameter(torch.zeros(width, states, 2))
        self.decay, self.speed = (nn.Parameter(torch.zeros(width, states)) for _ in range(2))

    def forward(self, x, labels):
        x, length = self.first(x).transpose(1, 2), x.size(1)
        rates = -self.decay.exp() + 1j * self.speed
        kernel = torch.exp(rates.unsqueeze(-1) * torch.arange(length, device=x.device))
        kernel = 2 * torch.einsum("hn,hnl->hl", torch.view_as_complex(self.weights), kernel).real
        mixed = torch.fft.irfft(torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(kernel, n=2 * length), n=2 * length)[..., :length]
        return F.cross_entropy(self.out(F.gelu(mixed).mean(-1)), labels)


class Relative(nn.Module):
    """Layers kept in lists by kind, so that the residual stream passes by rows of blocks; positions are shifted by a view."""

    def __init__(self, width=256, heads=4, vocabulary=1000):
        super().__init__()
        self.heads, self.embedding, self.out = heads, nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.mixes = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(3))
        self.places = nn.Parameter(torch.zeros(heads, width // heads))
        self.feeds = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(inplace=True), nn.Dropout(0.1),
                                                 nn.Linear(4 * width, width), nn.LayerNorm(width)) for _ in range(3))

    def forward(self, ids):
        x = self.embedding(ids)
        rows, length, width = x.shape
        hidden = torch.ones(length, length, device=x.device).triu(1).bool()
        for mix, feed in zip(self.mixes, self.feeds):
            q, k, v = (one.view(rows, length, self.heads, -1) for one in mix(x).chunk(3, -1))
            scores = torch.einsum("bind,bjnd->bnij", q, k) + torch.einsum("bind,nd->bni", q, self.places).unsqueeze(-1)
            shifted = F.pad(scores, (1, 0)).view(rows, self.heads, length + 1, length)[:, :, 1:].reshape_as(scores)
            scores.mul_(0.125)
            shares = F.dropout((scores + shifted).float().masked_fill(hidden, float("-inf")).softmax(-1), 0.1, self.training)
            x = x + torch.einsum("bnij,bjnd->bind", shares.to(v.dtype), v).reshape(rows, length, width)
            x = x + feed(x)
        return F.cross_entropy(self.out(x).flatten(0, 1), ids.flatten())


class Penalty(nn.Module):
    """A critic of linear layers: gradients of its weights come from two passes, and meet where a weight is transposed."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, real, made):
        share = torch.rand(len(real), 1, device=real.device)
        between = (share * real + (1 - share) * made).requires_grad_(True)
        slope, = torch.autograd.grad(self.net(between).sum(), between, create_graph=True)
        return self.net(made).mean() - self.net(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()


class Heat(nn.Module):
    """What is left of the heat equation: second derivatives by both inputs."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(one for at in range(4) for one in (nn.Linear(256 if at else 2, 256), nn.Tanh())), nn.Linear(256, 1))

    def forward(self, place, time):
        place, time = place.requires_grad_(True), time.requires_grad_(True)
        made = self.net(torch.cat((place, time), 1))
        along, change = torch.autograd.grad(made.sum(), (place, time), create_graph=True)
        curve, = torch.autograd.grad(along.sum(), place, create_graph=True)
        return (change - 0.1 * curve).pow(2).mean() + made.pow(2).mean()


class Written(nn.Module):
    """Boxes to which a part is added in place before an activation keeps what it makes; nobody asks for them here."""

    def __init__(self, width=256):
        super().__init__()
        self.first, self.boxes, self.out = nn.Linear(64, width), nn.Linear(width, 4), nn.Linear(width, 10)

    def forward(self, x, labels):
        x = self.first(x).relu()
        boxes = self.boxes(x)
        boxes[..., :2] += x[..., :2]
        boxes = boxes.sigmoid()
        return F.cross_entropy(self.out(x).mean(1), labels)


class Spoken(nn.Module):
    """Frames of sound, and a loss that is told lengths on the host."""

    def __init__(self, width=256):
        super().__init__()
        self.first, self.mix, self.out = nn.Conv1d(80, width, 5, 2, 2), nn.LSTM(width, width, bidirectional=True), nn.Linear(width, 29)

    def forward(self, x, labels):
        x = self.first(x).relu().permute(2, 0, 1)
        x = self.mix(x)[0].unflatten(-1, (2, -1)).sum(2)
        lengths = [torch.full((len(labels),), count, dtype=torch.long) for count in (len(x), labels.size(1))]
        return F.ctc_loss(self.out(x).float().log_softmax(-1), labels, *lengths)


class Mixing(nn.Module):
    """A block of attention and a feed-forward part."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def attend(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.last(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, width))

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.feed(self.between(x))


class Recomputed(nn.Module):
    """Blocks that the model recomputes by itself: the ways are subclasses."""

    def __init__(self, width=256, vocabulary=1000, blocks=6):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.blocks = nn.ModuleList(Mixing(width) for _ in range(blocks))

    def run(self, block, x, at):
        return checkpoint(block, x, use_reentrant=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for at, block in enumerate(self.blocks):
            x = self.run(block, x, at)
        return F.cross_entropy(self.out(x).flatten(0, 1), ids.flatten())


class Reentrant(Recomputed):
    def run(self, block, x, at):
        return checkpoint(block, x, use_reentrant=True)


class Half(Recomputed):
    """Every second block alone."""

    def run(self, block, x, at):
        return checkpoint(block, x, use_reentrant=False) if at % 2 else block(x)


class Pairs(Recomputed):
    """Two blocks in one call of a function that nobody named."""

    def run(self, block, x, at):
        return x if at % 2 else checkpoint(lambda y: self.blocks[at + 1](block(y)), x, use_reentrant=False)


class Parts(Recomputed):
    """Attention and the feed-forward part apart, the second with a backward pass of its own."""

    def run(self, block, x, at):
        x = x + checkpoint(block.attend, x, use_reentrant=False)
        return x + checkpoint(lambda y: block.feed(block.between(y)), x, use_reentrant=True)


class Chosen(Recomputed):
    """What linear layers make is kept."""

    def run(self, block, x, at):
        kept = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
        return checkpoint(block, x, use_reentrant=False, context_fn=kept)


class Again(torch.autograd.Function):
    """A function that computes again by itself, as guided-diffusion's `CheckpointFunction` does."""

    @staticmethod
    def forward(ctx, run_function, length, *args):
        ctx.run, ctx.inputs, ctx.weights = run_function, args[:length], args[length:]
        with torch.no_grad():
            return run_function(*ctx.inputs)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            inputs = [one.detach().requires_grad_(True) for one in ctx.inputs]
            made = ctx.run(*[one.view_as(one) for one in inputs])
        gradients = torch.autograd.grad(made, (*inputs, *ctx.weights), gradient, allow_unused=True)
        del ctx.inputs, ctx.weights, made
        return (None, None, *gradients)


Again.__name__ = "CheckpointFunction"


class Own(Recomputed):
    def run(self, block, x, at):
        return Again.apply(block, 1, x, *block.parameters())
