"""Models of a ninth draw, and what earlier ones left, each of whose steps showed a rule that the tape lacked, for trace_cases.py. The
loss is what a model returns."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Recurrence(nn.Module):
    """A linear recurrence of complex numbers, summed along the sequence."""

    def __init__(self, d, n):
        super().__init__()
        self.nu, self.theta = nn.Parameter(torch.full((n,), -3.0)), nn.Parameter(torch.zeros(n))
        self.b = nn.Parameter(torch.randn(n, d, dtype=torch.cfloat) / d ** 0.5)
        self.c = nn.Parameter(torch.randn(d, n, dtype=torch.cfloat) / n ** 0.5)
        self.gamma, self.skip = nn.Parameter(torch.ones(n)), nn.Parameter(torch.ones(d))

    def forward(self, x):
        decay = torch.exp(torch.complex(-self.nu.exp(), self.theta.exp()))
        powers = decay ** torch.arange(x.size(1), device=x.device).unsqueeze(-1)
        inner = (x.to(torch.cfloat) @ self.b.t()) * self.gamma
        states = (inner / powers).cumsum(1) * powers
        return (states @ self.c.t()).real + self.skip * x


class RecurrentBlock(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.norm, self.norm2, self.mix = nn.LayerNorm(d), nn.LayerNorm(d), Recurrence(d, n)
        self.inp, self.up, self.down = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.mix(self.inp(self.norm(x)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Recurrent(nn.Module):
    """Linear recurrent units, whose frozen complex factors are conjugated backward where adapters stand before them."""

    def __init__(self, d=64, n=256, layers=3):
        super().__init__()
        self.emb, self.head = nn.Embedding(500, d), nn.Linear(d, 500)
        self.blocks = nn.ModuleList(RecurrentBlock(d, n) for _ in range(layers))

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Double(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b)
        self.c2, self.b2 = nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b)

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


class Nested(nn.Module):
    """U-Net++ with deep supervision, each of whose parts a checkpoint written by hand runs again."""

    def __init__(self, widths=(16, 32, 64, 128), classes=3):
        super().__init__()
        self.downs = nn.ModuleList(Double(a, b) for a, b in zip((3, *widths), widths))
        self.nests = nn.ModuleDict()
        for j in range(1, len(widths)):
            for i in range(len(widths) - j):
                self.nests[f"{i}{j}"] = Double(widths[i] * j + widths[i + 1], widths[i])
        self.heads = nn.ModuleList(nn.Conv2d(widths[0], classes, 1) for _ in widths[1:])

    def forward(self, image, labels):
        run = lambda part, *given: checkpoint(lambda *x: part(torch.cat(x, 1)), *given, use_reentrant=False)
        up = lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        rows, x = [], image
        for i, down in enumerate(self.downs):
            x = run(down, F.max_pool2d(x, 2) if i else x)
            rows.append([x])
        for j in range(1, len(rows)):
            for i in range(len(rows) - j):
                rows[i].append(run(self.nests[f"{i}{j}"], *rows[i], up(rows[i + 1][j - 1])))
        return sum(F.cross_entropy(head(x), labels.remainder(3)) for head, x in zip(self.heads, rows[0][1:])) / len(self.heads)
