"""Models of a sixth draw, each of whose steps showed a rule that the tape lacked, for trace_cases.py. The loss is what a model
returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Messages along edges, of which the largest are written over zeros, that need no gradient, in place; what comes in is saved by
    an operator in the middle."""

    def __init__(self, width):
        super().__init__()
        self.share = nn.Parameter(torch.zeros(1))
        self.kind = nn.Embedding(8, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(inplace=True), nn.Linear(2 * width, width))

    def forward(self, nodes, source, target, kind):
        message = F.relu(nodes[source] + self.kind(kind)).to(nodes.dtype)
        summed = torch.zeros_like(nodes).index_add_(0, target, message)
        rows = target[:, None].expand(-1, nodes.shape[1])
        largest = torch.zeros_like(nodes).scatter_reduce_(0, rows, message, "amax", include_self=False)
        return F.dropout(F.relu(self.feed((1 + self.share) * nodes + summed + largest)), 0.1, self.training)


class Molecules(nn.Module):
    """Graphs of which each has twice as many edges as nodes."""

    def __init__(self, width=64, layers=3):
        super().__init__()
        self.atoms = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, atoms, edges):
        samples, count = atoms.shape
        first = torch.arange(samples, device=atoms.device)[:, None] * count
        source, target = ((edges[..., end] % count + first).flatten() for end in (0, 1))
        kind = (edges[..., 2] % 8).flatten()
        nodes = self.atoms(atoms % 50).flatten(0, 1)
        for layer in self.layers:
            nodes = layer(nodes, source, target, kind)
        return self.out(nodes).float().abs().mean()


class Gated(nn.Module):
    """A gated residual layer of one variable."""

    def __init__(self, width):
        super().__init__()
        self.one, self.other, self.gate = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + F.glu(self.gate(self.other(F.elu(self.one(x))))))


class Variables(nn.Module):
    """Layers that stand beside each other: each reads a variable of its own, and all that they give is put together."""

    def __init__(self, variables=8, width=48):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.layers = nn.ModuleList(Gated(width) for _ in range(variables))
        self.pick, self.out = nn.Linear(variables * width, variables), nn.Linear(width, 1)

    def forward(self, x, y):
        seen = [embedding(x[..., at:at + 1]) for at, embedding in enumerate(self.embeddings)]
        shares = self.pick(torch.cat(seen, -1)).softmax(-1)
        layers = torch.stack([layer(one) for layer, one in zip(self.layers, seen)], -1)
        return F.mse_loss(self.out((layers * shares.unsqueeze(-2)).sum(-1)).squeeze(-1).float(), y)


class Branch(nn.Module):
    """A layer with a feed-forward part that others have as well."""

    def __init__(self, width, shared):
        super().__init__()
        self.own, self.shared, self.norm = nn.Linear(width, width), shared, nn.LayerNorm(width)

    def forward(self, x):
        return x + self.shared(F.gelu(self.own(self.norm(x))))


class Branches(nn.Module):
    """Two rows of blocks that have one feed-forward part: what a block of one row gives, the block after the next saves."""

    def __init__(self, vocabulary=1000, width=96, layers=3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        shared = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.one, self.other = (nn.ModuleList(Branch(width, shared) for _ in range(layers)) for _ in range(2))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = y = self.embedding(ids)
        for one, other in zip(self.one, self.other):
            x, y = one(x) + y, other(y)
        return F.cross_entropy(self.out(x * y).flatten(0, 1), ids.flatten())


class Curved(nn.Module):
    """A block whose activation mixes types under autocast: `pow` runs in fp32, and what it gives is multiplied with 16 bit."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.wide(self.norm(x))
        return x + self.narrow(0.5 * h * (1 + torch.tanh(0.8 * (h + 0.04 * torch.pow(h, 3)))))


class Measured(nn.Module):
    """Tokens of two kinds, joined and normed: with frozen weights a name of the caller's alone holds what was joined."""

    def __init__(self, width=96, layers=3):
        super().__init__()
        self.state, self.action, self.norm = nn.Linear(12, width), nn.Linear(4, width), nn.LayerNorm(width)
        self.blocks, self.out = nn.ModuleList(Curved(width) for _ in range(layers)), nn.Linear(width, 4)

    def forward(self, states, actions):
        joined = torch.stack((self.state(states), self.action(actions)), 2).flatten(1, 2)
        x = F.dropout(self.norm(joined), 0.1, self.training)
        for block in self.blocks:
            x = block(x)
        return F.mse_loss(self.out(x.unflatten(1, (-1, 2))[:, :, 0]), actions)
