"""Small models that put what they save elsewhere, recompute what begins late, choose places by a mask that they write down
themselves, or read tables and weights in ways of their own, for trace_cases.py. The loss is what a model returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Residual(nn.Module):
    """Blocks that end in a sum, which saves nothing: recomputed with adapters, they run a part of their backward pass before they run
    again."""

    def __init__(self, width=256, depth=6):
        super().__init__()
        self.embedding, self.out = nn.Embedding(1000, width), nn.Linear(width, 1000)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def run(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids, labels):
        return F.cross_entropy(self.out(self.run(self.embedding(ids))).flatten(0, 1), labels.flatten())


class OnHost(Residual):
    """Every second block saves on the host."""

    def run(self, x):
        for at, block in enumerate(self.blocks):
            if at % 2:
                with torch.autograd.graph.save_on_cpu():
                    x = block(x)
            else:
                x = block(x)
        return x


class Apart(nn.Module):
    """What lies between each point and all others but itself (equiformer-pytorch 0.5, `Equiformer.forward`)."""

    def __init__(self, width=32):
        super().__init__()
        # Nothing reads it, and it stays where it is (openai-whisper, `alignment_heads`).
        self.register_buffer("axes", torch.eye(3).to_sparse(), persistent=False)
        self.message = nn.Sequential(nn.Linear(4, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, points):
        rows, count, _ = points.shape
        others = ~torch.eye(count, dtype=torch.bool, device=points.device)[None, ..., None]
        between = (points[:, :, None] - points[:, None]).masked_select(others).reshape(rows, count, count - 1, 3)
        return self.message(torch.cat((between, between.norm(dim=-1, keepdim=True)), -1)).sum(2).pow(2).mean()


class HalfFrozen(Residual):
    """The embedding and the first half of the blocks are left as they are, so that no backward pass of those runs."""

    def __init__(self):
        super().__init__()
        for one in (self.embedding, *self.blocks[:3]):
            one.requires_grad_(False)


class Tabled(nn.Module):
    """Positions that each layer keeps on the host until it first reads them, and then where it reads them: neither buffers nor made
    in a step (squeezeformer's `RelPositionalEncoding`)."""

    def __init__(self, width=64, longest=4096):
        super().__init__()
        self.table = torch.zeros(longest, width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        if self.table.device != x.device or self.table.dtype != x.dtype:
            self.table = self.table.to(device=x.device, dtype=x.dtype)
        return x + torch.relu(self.mix(x + self.table[:x.size(1)]))


class Positions(nn.Module):
    def __init__(self, layers=3, width=64):
        super().__init__()
        self.embedding = nn.Embedding(200, width)
        self.layers = nn.Sequential(*(Tabled(width) for _ in range(layers)))
        self.out = nn.Linear(width, 200)

    def forward(self, ids):
        return F.cross_entropy(self.out(self.layers(self.embedding(ids))).flatten(0, 1), ids.flatten())


class Turned(nn.Module):
    """Weights that are read turned round, step by step: autocast copies each view anew, and keeps none of the copies
    (torch/_refs and LSTM cells below cuDNN, as torch-dimensions 0.3.1 runs them)."""

    def __init__(self, width=128, steps=12):
        super().__init__()
        self.steps, self.again = steps, nn.Parameter(torch.zeros(width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = x
        for _ in range(self.steps):
            h = torch.tanh(h @ self.again.t())
        return x + self.norm(h.float())


class Loops(nn.Module):
    def __init__(self, layers=3, width=128):
        super().__init__()
        self.layers = nn.Sequential(*(Turned(width) for _ in range(layers)))
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.layers(x)).float().square().mean()
