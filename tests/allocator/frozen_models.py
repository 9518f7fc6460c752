"""Small models with adapters, each of whose steps showed a rule that tapes lacked where weights are frozen, for trace_cases.py. The
loss is what a model returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Attention and a feed-forward part, as research code writes them; with keys and values of another tensor where there is one."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, context=None):
        normed = self.norm(x)
        context = normed if context is None else context
        q, k, v = (one.unflatten(-1, (8, -1)).transpose(1, 2) for one in (self.q(normed), self.k(context), self.v(context)))
        mixed = (q @ k.transpose(-1, -2) / 8).softmax(-1) @ v
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Crossed(nn.Module):
    """A decoder with adapters, which saves what a frozen encoder made."""

    def __init__(self, width=256):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.encoder, self.decoder = (nn.ModuleList(Block(width) for _ in range(3)) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, ids):
        context = self.embed(ids)
        for block in self.encoder:
            context = block(context)
        context, x = self.norm(context), self.embed(ids)
        for block in self.decoder:
            x = block(x, context)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Conditioned(nn.Module):
    """Blocks scaled by what a frozen part says of a condition, as diffusion transformers are."""

    def __init__(self, width=256):
        super().__init__()
        self.into, self.out = nn.Linear(32, width), nn.Linear(width, 32)
        self.condition = nn.Sequential(nn.Linear(16, width), nn.SiLU())
        self.scales = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(3))
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))

    def forward(self, x, c):
        c, x = self.condition(c).unsqueeze(1), self.into(x)
        for block, scales in zip(self.blocks, self.scales):
            scale, shift = scales(c).chunk(2, -1)
            x = block(torch.addcmul(shift.expand_as(x), x, scale.expand_as(x))) / (1 + scale.exp())
        return self.out(x).square().mean()


class Repeated(nn.Module):
    """One block that runs four times, and a layer that runs twice: their adapters are there once."""

    def __init__(self, width=256):
        super().__init__()
        self.embed, self.head = nn.Embedding(1000, width), nn.Linear(width, 1000)
        self.block, self.mix = Block(width), nn.Linear(width, width)

    def forward(self, ids):
        x = self.embed(ids)
        for _ in range(4):
            x = self.block(x)
        x = x + self.mix(x).relu()
        x = x + self.mix(x * x).tanh()
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Paired(nn.Module):
    """Two batches through the same blocks."""

    def __init__(self, width=256):
        super().__init__()
        self.embed, self.project = nn.Embedding(1000, width), nn.Linear(width, 128)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(2)])

    def forward(self, one, other):
        a, b = (F.normalize(self.project(self.blocks(self.embed(x)).mean(1)), dim=-1) for x in (one, other))
        return F.cross_entropy(a @ b.t() / 0.07, torch.arange(len(a), device=a.device))


class Encoded(nn.Module):
    """PyTorch's own attention, past whose output layer it reads the weights, and layers that are called as routers and heads are."""

    def __init__(self, width=256):
        super().__init__()
        self.patch_embed = nn.Linear(48, width)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 1024, 0.1, batch_first=True), 3)
        self.score, self.gate = nn.Linear(width, 1), nn.Linear(width, 4)

    def forward(self, x):
        x = self.encoder(self.patch_embed(x))
        return (self.score(x).squeeze(-1) * self.gate(x).softmax(-1).amax(-1)).square().mean()


class Pooled(nn.Module):
    """A frozen part whose function has names for tensors that nothing saves, and convolutions behind an adapter."""

    def __init__(self, width=64):
        super().__init__()
        self.embed, self.proj = nn.Embedding(257, width), nn.Linear(width, width)
        self.convolutions = nn.ModuleList(nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv1d(width, width, 3, padding=1))
                                          for _ in range(3))
        self.out = nn.Linear(width, 257)

    def scored(self, x):
        pooled = [x.unflatten(1, (-1, size)).mean(2).repeat_interleave(size, 1) for size in (1, 2, 4)]
        stacked = torch.stack(pooled, 2)
        weights = (stacked * stacked).sum(-1).softmax(-1)
        alike = (weights @ weights.transpose(1, 2)).softmax(-1)
        return ((alike @ weights).unsqueeze(-1) * stacked).sum(2)

    def forward(self, ids):
        x = self.proj(self.scored(self.embed(ids))).transpose(1, 2)
        for one in self.convolutions:
            x = x + one(x)
        return F.cross_entropy(self.out(x.transpose(1, 2)).flatten(0, 1), ids.flatten())
