"""A language model on a CPU of whose step `tests/observe/hook/passes.rs` knows everything: two passes of 3 samples of 5
ids, tied ends, a checkpointed block behind frozen embeddings, and a loss that is a module and takes as many labels.
Arguments: how many steps, and `plain`, `compiled`, `parts` or `rivals`: with a part of 8 x 20 beside it, which the same
optimizer trains as its block, or one of its own."""

import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)


class Language(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.block = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight
        self.embed.weight.requires_grad = False
        # It never runs.
        self.spare = torch.nn.Linear(8, 2, bias=False)

    def forward(self, ids):
        # The ids' embeddings are computed again as well.
        hidden = checkpoint(lambda ids: self.block(self.embed(ids)), ids, use_reentrant=False)
        return self.head(hidden)


class Loss(torch.nn.Module):
    def forward(self, labels, scores):
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


model, loss = Language(), Loss()
called = torch.compile(model, backend="eager") if sys.argv[2] == "compiled" else model
critic = torch.nn.Linear(8, 20, bias=False) if sys.argv[2] in ("parts", "rivals") else None
rival = torch.optim.AdamW(critic.parameters(), lr=1e-3) if sys.argv[2] == "rivals" else None
beside = [] if critic is None or rival else list(critic.parameters())
optimizer = torch.optim.AdamW([*model.block.parameters(), *beside], lr=1e-3)
for step in range(int(sys.argv[1])):
    for _ in range(2):
        ids = torch.randint(0, 20, (3, 5))
        loss(ids, called(ids=ids)).backward()
        if critic is not None:
            critic(torch.randn(3, 8)).sum().backward()
    optimizer.step()
    if rival:
        rival.step()
    optimizer.zero_grad()
    time.sleep(0.02)
