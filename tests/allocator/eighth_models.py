"""Models of an eighth draw, each of whose steps showed a rule that the tape lacked, for trace_cases.py. The loss is what a model
returns."""

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, d, h=4):
        super().__init__()
        self.n1, self.n2, self.h = nn.LayerNorm(d), nn.LayerNorm(d), h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class Heads(nn.Module):
    """Several next tokens: heads that are blocks as those before them, and all read what the last of those gives."""

    def __init__(self, vocab=600, d=64, layers=3, heads=3):
        super().__init__()
        self.emb, self.trunk = nn.Embedding(vocab, d), nn.ModuleList(Block(d) for _ in range(layers))
        self.heads, self.norm = nn.ModuleList(Block(d) for _ in range(heads)), nn.LayerNorm(d)
        self.out = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.trunk:
            x = block(x)
        loss = 0
        for ahead, head in enumerate(self.heads, 1):
            logits = self.out(self.norm(head(x))[:, :-ahead])
            loss = loss + F.cross_entropy(logits.flatten(0, 1), ids[:, ahead:].flatten())
        return loss / len(self.heads)


class Scaling(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x, size):
        x = x * size
        size = x.detach().abs().mean(-1, keepdim=True).clamp(min=1e-3)
        x = x / size
        return x + self.down(F.gelu(self.up(self.norm(x)))), size


class Scaled(nn.Module):
    """Blocks that give how large something was beside it, which needs no gradient: they save that, and the next one does too."""

    def __init__(self, d=64, layers=4):
        super().__init__()
        self.inp, self.out = nn.Linear(5, d), nn.Linear(d, 5)
        self.blocks = nn.ModuleList(Scaling(d) for _ in range(layers))

    def forward(self, series):
        x = self.inp(series)
        size = x.detach().abs().mean(-1, keepdim=True)
        for block in self.blocks:
            x, size = block(x, size)
        return F.mse_loss(self.out(x), series)
