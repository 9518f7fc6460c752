"""A model of a tenth draw whose recomputed steps showed a rule that the tape lacked, for trace_cases.py. The loss is what it returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Hands the first block's values on to all others (value residual learning)."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.norm, self.norm2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, first):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).unbind(2)
        first = v if first is None else first
        v = self.share * v + (1 - self.share) * first
        y = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)), is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(self.norm2(x))) ** 2), first


class Values(nn.Module):
    """Each block reads a mean of what all before it gave (DenseFormer), and the first one's values."""

    def __init__(self, d=64, layers=5):
        super().__init__()
        self.emb, self.blocks, self.norm = nn.Embedding(500, d), nn.ModuleList(Block(d, 4) for _ in range(layers)), nn.LayerNorm(d)
        self.shares = nn.ParameterList(nn.Parameter(torch.eye(at + 2)[-1]) for at in range(layers))

    def forward(self, ids):
        x, first = self.emb(ids), None
        past = [x]
        for block, share in zip(self.blocks, self.shares):
            made, first = block(x, first)
            past.append(made)
            x = torch.stack(past, -1) @ share
        return F.cross_entropy(F.linear(self.norm(x), self.emb.weight).flatten(0, 1), ids.flatten())
