"""Models as people write them: complex weights, weights of attention that are asked for, a graph's layers, a teacher beside its student,
checkpoints in checkpoints, filters for each channel, a loss with smoothed labels, and packed rows."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class SpectralConvolution(nn.Module):
    """Low frequencies times complex weights, as a Fourier neural operator has them."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        make = lambda: nn.Parameter(torch.rand(channels, channels, modes, modes, dtype=torch.cfloat) / channels ** 2)
        self.low, self.high = make(), make()

    def forward(self, x):
        batch, channels, height, width = x.shape
        frequencies, modes = torch.fft.rfft2(x.float()), self.modes
        out = torch.zeros(batch, channels, height, width // 2 + 1, dtype=torch.cfloat, device=x.device)
        out[:, :, :modes, :modes] = torch.einsum("bixy,ioxy->boxy", frequencies[:, :, :modes, :modes], self.low)
        out[:, :, -modes:, :modes] = torch.einsum("bixy,ioxy->boxy", frequencies[:, :, -modes:, :modes], self.high)
        return torch.fft.irfft2(out, s=(height, width))


class SpectralBlock(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.spectral, self.plain = SpectralConvolution(channels, modes), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        return F.gelu(self.spectral(x) + self.plain(x))


class Fourier(nn.Module):
    def __init__(self, channels=20):
        super().__init__()
        self.lift = nn.Linear(1, channels)
        self.blocks = nn.ModuleList([SpectralBlock(channels, 6) for _ in range(4)])
        self.head = nn.Sequential(nn.Conv2d(channels, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1))

    def forward(self, x, y):
        x = self.lift(x).permute(0, 3, 1, 2)
        for block in self.blocks:
            x = block(x)
        difference = (self.head(x).squeeze(1) - y).flatten(1)
        return (torch.norm(difference, dim=1) / (torch.norm(y.flatten(1), dim=1) + 1e-6)).mean()


class WeighedBlock(nn.Module):
    """Attention that gives its weights, too."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.norm(x)
        made, weights = self.attention(h, h, h, average_attn_weights=False)
        x = x + made
        return x + self.feed(x), weights


class Weighed(nn.Module):
    """The last block's weights are part of the loss."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.blocks = nn.Linear(9, width), nn.ModuleList([WeighedBlock(width) for _ in range(5)])
        self.head = nn.Linear(width, 9)

    def forward(self, x):
        h = self.first(x)
        for block in self.blocks:
            h, weights = block(h)
        return F.smooth_l1_loss(self.head(h), x) + weights.mean()


class GraphLayer(nn.Module):
    """Attention over the edges of a graph."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.project, self.edge = heads, nn.Linear(width, width, bias=False), nn.Linear(4, heads)
        self.norm = nn.LayerNorm(width)
        self.sending, self.receiving = (nn.Parameter(torch.zeros(heads, width // heads)) for _ in range(2))

    def forward(self, x, source, target, edges):
        h = self.project(x).view(x.size(0), self.heads, -1)
        scores = (h * self.sending).sum(-1)[source] + (h * self.receiving).sum(-1)[target] + self.edge(edges)
        weights = F.leaky_relu(scores, 0.2).exp()
        total = torch.zeros(x.size(0), self.heads, device=x.device, dtype=weights.dtype).index_add_(0, target, weights)
        weights = weights / (total[target] + 1e-9)
        made = torch.zeros_like(h).index_add_(0, target, h[source] * weights.unsqueeze(-1).to(h.dtype))
        return self.norm(x + F.elu(made.flatten(1)))


class Graph(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first, self.layers = nn.Linear(16, width), nn.ModuleList([GraphLayer(width) for _ in range(5)])
        self.head = nn.Linear(width, 7)

    def forward(self, x, ends, edges):
        batch, nodes, _ = x.shape
        offset = (torch.arange(batch, device=x.device) * nodes).view(-1, 1)
        source, target = (ends[..., 0] + offset).flatten(), (ends[..., 1] + offset).flatten()
        h = self.first(x.flatten(0, 1))
        for layer in self.layers:
            h = layer(h, source, target, edges.flatten(0, 1))
        return self.head(h.view(batch, nodes, -1).mean(1))


def feed_forward(width):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Student(nn.Module):
    """A student and its moving average, which teaches without gradients."""

    def __init__(self, width=64):
        super().__init__()
        self.student = nn.ModuleDict({"first": nn.Linear(30, width), "head": nn.Linear(width, 128),
                                      "blocks": nn.ModuleList([feed_forward(width) for _ in range(4)])})
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    @staticmethod
    def run(net, x):
        h = net["first"](x)
        for block in net["blocks"]:
            h = h + block(h)
        return net["head"](h.mean(1))

    def forward(self, x):
        made = self.run(self.student, x)
        with torch.no_grad():
            wanted = self.run(self.teacher, x)
        return 2 - 2 * F.cosine_similarity(made, wanted, dim=-1).mean()


class Nested(nn.Module):
    """Each stage is checkpointed, and each of its blocks once more."""

    def __init__(self, width=64):
        super().__init__()
        self.first, self.head = nn.Linear(10, width), nn.Linear(width, 10)
        self.stages = nn.ModuleList([nn.ModuleList([feed_forward(width) for _ in range(3)]) for _ in range(3)])

    @staticmethod
    def stage(blocks, x):
        for block in blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x

    def forward(self, x):
        x = self.first(x)
        for blocks in self.stages:
            x = checkpoint(self.stage, blocks, x, use_reentrant=False)
        return self.head(x)


class ChannelBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.spread, self.norm = nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        h = self.norm(self.spread(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(h)))).permute(0, 3, 1, 2)


class Channels(nn.Module):
    """A filter for each channel, in memory channel by channel."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 24, 4, 4), nn.Linear(24, 10)
        self.blocks = nn.Sequential(*[ChannelBlock(24) for _ in range(4)])

    def forward(self, x):
        return self.head(self.blocks(self.stem(x.contiguous(memory_format=torch.channels_last))).mean((-2, -1)))


def channels():
    return Channels().to(memory_format=torch.channels_last)


class Smoothed(nn.Module):
    """Labels of which a tenth is for all classes."""

    def __init__(self, width=64):
        super().__init__()
        self.words, self.blocks = nn.Embedding(700, width), nn.ModuleList([feed_forward(width) for _ in range(3)])
        self.head = nn.Linear(width, 700)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten(), label_smoothing=0.1)


class Tagger(nn.Module):
    """Rows are packed for a layer that reads both ways."""

    def __init__(self, width=64):
        super().__init__()
        self.words, self.drop, self.head = nn.Embedding(900, width), nn.Dropout(0.3), nn.Linear(2 * width, 12)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2, bidirectional=True)

    def forward(self, ids):
        lengths = torch.full((ids.size(0),), ids.size(1), dtype=torch.int64)
        rows = nn.utils.rnn.pack_padded_sequence(self.drop(self.words(ids)), lengths, batch_first=True, enforce_sorted=False)
        made, _ = nn.utils.rnn.pad_packed_sequence(self.layers(rows)[0], batch_first=True)
        return self.head(self.drop(made))
