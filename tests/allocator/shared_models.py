"""Small models in which one memory has several names: blocks write over what others read, views of complex numbers, blocks that run
twice; for trace_cases.py. Each has the form of a package's model whose step showed a rule that the tape lacked. The loss is what a
model returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Decoded(nn.Module):
    """Blocks that end in an activation in place of a normalized view, with a layer between them (dynamic-network-architectures 0.4,
    `ResidualEncoderUNet`)."""

    def __init__(self, width=32):
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 5, 1)
        self.blocks = nn.ModuleList(nn.Sequential(*(layer for _ in range(2) for layer in (
            nn.Conv2d(width, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.LeakyReLU(inplace=True)))) for _ in range(3))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(width, width, 2, 2) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for block, up in zip(self.blocks, self.ups):
            x = up(block(x))
        return self.out(x).pow(2).mean()


class Low(nn.Module):
    """A linear layer that is left as it is, and an adapter whose result is added in place (loralib 0.1, `Linear`)."""

    def __init__(self, before, after, rank=4):
        super().__init__()
        self.layer = nn.Linear(before, after).requires_grad_(False)
        self.down, self.up = (nn.Parameter(torch.zeros(*sides)) for sides in ((rank, before), (after, rank)))

    def forward(self, x):
        made = self.layer(x)
        made += (x @ self.down.t() @ self.up.t()) * 0.5
        return made


class Adapted(nn.Module):
    def __init__(self, width=128, blocks=4):
        super().__init__()
        self.embedding, self.out = nn.Embedding(1000, width).requires_grad_(False), nn.Linear(width, 1000).requires_grad_(False)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), Low(width, 3 * width), nn.GELU(), Low(3 * width, width))
                                    for _ in range(blocks))
        for block in self.blocks:
            block[0].requires_grad_(False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.out(x).flatten(0, 1), ids.flatten())


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


class Pooled(nn.Module):
    """Positions are added to the batch in place, and what is pooled of all layers to the last one's result (omninet-pytorch 0.0,
    `OmninetCausal`)."""

    def __init__(self, width=64, depth=3):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(depth + 1, width))
        self.layers = nn.ModuleList(nn.ModuleList([Feed(width), Feed(width)]) for _ in range(depth))

    def forward(self, x):
        x += self.places[None, :1]
        states = [x]
        for at, (one, other) in enumerate(self.layers):
            x = one(x) + x
            x = x + x.mean(1, keepdim=True)
            x += self.places[None, at + 1:at + 2]
            states.append(x)
            x += other(torch.stack(states[-2:], 2).flatten(0, 1)).view(*x.shape[:2], 2, -1).max(2).values
        return x.float().pow(2).mean()


class Complex(nn.Module):
    """Convolutions of complex numbers, each of which reads both parts twice (asteroid 0.7, `DCUNet`)."""

    def __init__(self, width=32, depth=3):
        super().__init__()
        sides = [1] + [width] * depth
        self.parts = nn.ModuleList(nn.ModuleList(nn.Conv2d(one, two, 3, padding=1) for _ in range(2)) for one, two in zip(sides, sides[1:]))

    def forward(self, x):
        x = torch.view_as_complex(x)
        for real, imaginary in self.parts:
            part = lambda at: torch.view_as_real(x)[..., at]
            x = torch.view_as_complex(torch.stack((real(part(0)) - imaginary(part(1)), real(part(1)) + imaginary(part(0))), -1))
        return torch.view_as_real(x).pow(2).mean()


class Twice(nn.Module):
    """Blocks that two batches go through (cross-transformers-pytorch 0.0, whose network is a ResNet)."""

    def __init__(self, width=64, blocks=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, 2, 3)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                                  nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)) for _ in range(blocks))

    def said(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return x.mean((2, 3))

    def forward(self, one, other):
        return F.cosine_similarity(self.said(one), self.said(other)).mean()
