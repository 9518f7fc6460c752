"""Models whose blocks join what others made, or read it expanded: a U-Net, whose skipped tensors come back in concatenations, and
residual streams, which are one tensor in the beginning."""

import torch
import torch.nn.functional as F
from torch import nn


class Step(nn.Module):
    def __init__(self, before, width, inner):
        super().__init__()
        self.norm, self.convolution = nn.GroupNorm(8, before), nn.Conv2d(before, inner, 3, padding=1)
        self.other = nn.Conv2d(inner, width, 3, padding=1)
        self.beside = nn.Conv2d(before, width, 1) if before != width else nn.Identity()

    def forward(self, x):
        return self.beside(x) + self.other(F.silu(self.convolution(F.silu(self.norm(x)))))


class UNet(nn.Module):
    """Skipped tensors are joined outside of the blocks, as diffusion models do it; the second block takes the most memory."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down = nn.ModuleList([Step(width, width, 8), Step(width, 2 * width, 16 * width), Step(2 * width, 2 * width, 8)])
        self.up = nn.ModuleList([Step(4 * width, 2 * width, 8), Step(4 * width, width, 8), Step(2 * width, width, 8)])

    def forward(self, x):
        h, kept = self.first(x), []
        for step in self.down:
            h = step(h)
            kept.append(h)
            h = F.avg_pool2d(h, 2)
        for step in self.up:
            h = F.interpolate(h, scale_factor=2.0)
            h = step(torch.cat([h, kept.pop()], dim=1))
        return F.mse_loss(self.last(h), x)


class Mixed(nn.Module):
    """A layer reads a weighted sum of streams, and adds to each of them."""

    def __init__(self, width, streams):
        super().__init__()
        self.read, self.write = nn.Parameter(torch.ones(streams)), nn.Parameter(torch.ones(streams))
        self.layer = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        made = self.layer((x * self.read[:, None]).sum(-2))
        return x + made.unsqueeze(-2) * self.write[:, None]


class Streams(nn.Module):
    def __init__(self, width=64, streams=4):
        super().__init__()
        self.streams, self.words = streams, nn.Embedding(500, width)
        self.blocks, self.head = nn.ModuleList([Mixed(width, streams) for _ in range(6)]), nn.Linear(width, 500)

    def forward(self, ids):
        x = self.words(ids).unsqueeze(-2).expand(-1, -1, self.streams, -1)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.sum(-2)).flatten(0, 1), ids.flatten())
