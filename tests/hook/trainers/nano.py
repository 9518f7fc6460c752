"""A GPT of one's own in one file, in the manner of nanoGPT: settings as globals, an `iter N: loss` line, evaluation between."""

import math
import time

import torch
from torch import nn
from torch.nn import functional as F

batch_size = 5
block_size = 56
n_layer = 2
n_head = 4
n_embd = 64
vocab_size = 128
max_iters = 30000
eval_interval = 100
eval_iters = 4
log_interval = 5
learning_rate = 1e-3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, n_head, width // n_head).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(n_embd, dim=2)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        hidden = torch.ones(length, length).tril() == 0
        y = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1) @ v
        x = x + self.c_proj(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.reshape(-1))


def get_batch():
    data = torch.randint(0, vocab_size, (batch_size, block_size + 1))
    return data[:, :-1], data[:, 1:]


@torch.no_grad()
def estimate_loss(model):
    model.eval()
    loss = sum(model(*get_batch())[1].item() for _ in range(eval_iters)) / eval_iters
    model.train()
    return loss


torch.set_num_threads(1)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
t0 = time.time()
for iter_num in range(max_iters):
    if iter_num % eval_interval == 0:
        print(f"step {iter_num}: val loss {estimate_loss(model):.4f}", flush=True)
    X, Y = get_batch()
    logits, loss = model(X, Y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    dt, t0 = t1 - t0, t1
    if iter_num % log_interval == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {dt * 1000:.2f}ms", flush=True)
