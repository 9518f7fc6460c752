"""Models of a seventh draw, each of whose steps showed a rule that the tape lacked, for trace_cases.py. The loss is what a model
returns."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Triangle(nn.Module):
    """Pairs of places that meet in a third: a cube of the length."""

    def __init__(self, c, outgoing=True):
        super().__init__()
        self.n, self.no = nn.LayerNorm(c), nn.LayerNorm(c)
        self.a, self.b, self.ga, self.gb, self.g, self.o = (nn.Linear(c, c) for _ in range(6))
        self.outgoing = outgoing

    def forward(self, z):
        h = self.n(z)
        a = torch.sigmoid(self.ga(h)) * self.a(h)
        b = torch.sigmoid(self.gb(h)) * self.b(h)
        x = torch.einsum("bikc,bjkc->bijc", a, b) if self.outgoing else torch.einsum("bkic,bkjc->bijc", a, b)
        return torch.sigmoid(self.g(h)) * self.o(self.no(x))


class PairBlock(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.t1, self.t2 = Triangle(c), Triangle(c, False)
        self.n, self.qkv, self.bias = nn.LayerNorm(c), nn.Linear(c, 3 * c, bias=False), nn.Linear(c, heads, bias=False)
        self.o, self.h = nn.Linear(c, c), heads
        self.tr = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.ReLU(), nn.Linear(4 * c, c))

    def forward(self, z):
        z = z + self.t1(z)
        z = z + self.t2(z)
        h = self.n(z)
        b, i, j, c = h.shape
        q, k, v = (x.view(b, i, j, self.h, c // self.h).transpose(2, 3) for x in self.qkv(h).chunk(3, -1))
        bias = self.bias(h).permute(0, 3, 1, 2).unsqueeze(1)
        a = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(c // self.h) + bias, -1)
        z = z + self.o((a @ v).transpose(2, 3).reshape(b, i, j, c))
        return z + self.tr(z)


class Folded(nn.Module):
    """Distances of a folded chain, by triangles."""

    def __init__(self, c=32, layers=3):
        super().__init__()
        self.aa, self.rel = nn.Embedding(22, c), nn.Embedding(65, c)
        self.left, self.right = nn.Linear(c, c), nn.Linear(c, c)
        self.blocks = nn.ModuleList(PairBlock(c) for _ in range(layers))
        self.dist = nn.Linear(c, 16)

    def forward(self, seq):
        s = self.aa(seq.remainder(22))
        t = torch.arange(seq.size(1), device=seq.device)
        z = self.left(s)[:, :, None] + self.right(s)[:, None] + self.rel((t[:, None] - t[None]).clamp(-32, 32) + 32)
        for b in self.blocks:
            z = b(z)
        logits = self.dist(z + z.transpose(1, 2))
        return F.cross_entropy(logits.flatten(0, 2), torch.zeros(logits.shape[:3], dtype=torch.long, device=z.device).flatten())


class Windowed(nn.Module):
    """Attention with fewer keys, full and within a window by turns."""

    def __init__(self, d, h, kv, window):
        super().__init__()
        self.h, self.kv, self.hd, self.window = h, kv, d // h, window
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q, self.k, self.v = nn.Linear(d, d, bias=False), nn.Linear(d, kv * self.hd, bias=False), nn.Linear(d, kv * self.hd, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.qn, self.kn = nn.RMSNorm(self.hd), nn.RMSNorm(self.hd)
        self.gate, self.up, self.down = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False), nn.Linear(3 * d, d, bias=False)

    def rope(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return (x * cos + torch.cat([-b, a], -1) * sin).to(x.dtype)

    def forward(self, x, cos, sin, mask):
        b, s, d = x.shape
        h = self.n1(x)
        q = self.qn(self.q(h).view(b, s, self.h, self.hd)).transpose(1, 2)
        k = self.kn(self.k(h).view(b, s, self.kv, self.hd)).transpose(1, 2)
        v = self.v(h).view(b, s, self.kv, self.hd).transpose(1, 2)
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        q, k = q.to(v.dtype), k.to(v.dtype)
        if self.window:
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        else:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class SharedOut(nn.Module):
    """A loss over shares of the rows, which grow in steps."""

    def __init__(self, vocab=1000, d=64, layers=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Windowed(d, 4, 2, window=i % 2 == 0) for i in range(layers))
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.emb.weight
        inv = 1.0 / (10000 ** (torch.arange(0, 16, 2).float() / 16))
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, ids):
        s = ids.size(1)
        t = torch.arange(s, device=ids.device)
        f = torch.outer(t.float(), self.inv.float())
        cos, sin = torch.cat([f, f], -1).cos(), torch.cat([f, f], -1).sin()
        i, j = t[:, None], t[None]
        mask = (j <= i) & (j > i - 32)
        x = self.emb(ids) * 8.0
        for b in self.blocks:
            x = b(x, cos, sin, mask)
        x = self.norm(x)[:, :-1]
        loss = 0.0
        for h, t in zip(x.flatten(0, 1).chunk(4), ids[:, 1:].flatten().chunk(4)):
            logits = self.head(h).float()
            logits = 30.0 * torch.tanh(logits / 30.0)
            loss = loss + F.cross_entropy(logits, t, reduction="sum")
        return loss / ids[:, 1:].numel()


class Correlation(nn.Module):
    """Correlations by Fourier transforms, one of them conjugated; rows that lie apart."""

    def __init__(self, d, k=3):
        super().__init__()
        self.q, self.k_, self.v, self.o, self.k = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), k
        self.f1, self.f2 = nn.Conv1d(d, 4 * d, 1, bias=False), nn.Conv1d(4 * d, d, 1, bias=False)
        self.avg = nn.AvgPool1d(5, 1)

    def decomp(self, x):
        p = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
        t = self.avg(p.permute(0, 2, 1)).permute(0, 2, 1)
        return x - t, t

    def forward(self, x):
        q, k, v = self.q(x), self.k_(x), self.v(x)
        s = x.size(1)
        r = torch.fft.irfft(torch.fft.rfft(q.float(), dim=1) * torch.fft.rfft(k.float(), dim=1).conj(), n=s, dim=1)
        w, i = r.mean(-1).topk(self.k, dim=1)
        w = w.softmax(-1)
        t = torch.arange(s, device=x.device)
        vv = torch.cat([v, v], 1)
        out = 0
        for j in range(self.k):
            ix = (t[None] + i[:, j:j + 1]).unsqueeze(-1).expand(-1, -1, v.size(-1))
            out = out + torch.gather(vv, 1, ix) * w[:, j:j + 1, None]
        x, _ = self.decomp(x + self.o(out.to(x.dtype)))
        y = self.f2(F.gelu(self.f1(x.transpose(1, 2)))).transpose(1, 2)
        return self.decomp(x + y)[0]


class Series(nn.Module):
    """Series without their trend."""

    def __init__(self, d=64, layers=3):
        super().__init__()
        self.inp = nn.Conv1d(7, d, 3, padding=1, padding_mode="circular", bias=False)
        self.layers = nn.ModuleList(Correlation(d) for _ in range(layers))
        self.out = nn.Linear(d, 7)

    def forward(self, x):
        h = self.inp(x.transpose(1, 2)).transpose(1, 2)
        for l in self.layers:
            h = l(h)
        return F.huber_loss(self.out(h), x)


class Seen(nn.Module):
    def __init__(self, d, h=4, drop=0.1):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.h, self.drop = nn.Linear(d, 3 * d), nn.Linear(d, d), h, drop
        self.w12, self.w3 = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)
        self.g1, self.g2 = nn.Parameter(1e-5 * torch.ones(d)), nn.Parameter(1e-5 * torch.ones(d))

    def path(self, x):
        if not self.training:
            return x
        keep = 1 - self.drop
        return x * x.new_empty(x.size(0), 1, 1).bernoulli_(keep).div_(keep)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, s, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, d)
        x = x + self.path(self.g1 * self.o(a))
        u, g = self.w12(self.n2(x)).chunk(2, -1)
        return x + self.path(self.g2 * self.w3(F.silu(u) * g))


class LeftOut(nn.Module):
    """Patches that are left out, as a frozen copy sees them: a part of what a row of blocks returns."""

    def __init__(self, d=64, layers=4, patch=8):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.pos, self.reg = nn.Parameter(torch.randn(1, 64, d) * 0.02), nn.Parameter(torch.zeros(1, 4, d))
        self.mask = nn.Parameter(torch.zeros(d))
        self.blocks = nn.Sequential(*[Seen(d) for _ in range(layers)])
        self.predictor = nn.Sequential(*[Seen(d) for _ in range(2)])
        self.target = nn.Sequential(*[Seen(d) for _ in range(layers)]).requires_grad_(False)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        b, n, d = x.shape
        perm = torch.rand(b, n, device=x.device).argsort(1)
        keep, away = perm[:, :n // 4], perm[:, n // 4:]
        take = lambda t, i: t.gather(1, i.unsqueeze(-1).expand(-1, -1, t.size(-1)))
        h = self.blocks(torch.cat([self.reg.expand(b, -1, -1), take(x, keep)], 1))
        q = self.mask + take(self.pos.expand(b, -1, -1), away)
        p = self.predictor(torch.cat([h, q], 1))[:, -away.size(1):]
        with torch.no_grad():
            t = F.layer_norm(take(self.target(x), away), (d,))
        return F.smooth_l1_loss(p, t)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


class Steps(nn.Module):
    def __init__(self, bits=8):
        super().__init__()
        self.step = nn.Parameter(torch.tensor(0.1))
        self.lo, self.hi = -2 ** (bits - 1), 2 ** (bits - 1) - 1

    def forward(self, x):
        g = 1.0 / math.sqrt(x.numel() * self.hi)
        s = (self.step - self.step * g).detach() + self.step * g
        return Rounded.apply((x / s).clamp(self.lo, self.hi)) * s


class FewBits(nn.Conv2d):
    """Weights and activations in few bits, by learned steps and by PyTorch's own rounding."""

    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.qw, self.qa = Steps(4), Steps(8)
        self.register_buffer("scale", torch.ones(self.out_channels) * 0.01)
        self.register_buffer("zero", torch.zeros(self.out_channels, dtype=torch.int32))

    def forward(self, x):
        w = torch.fake_quantize_per_channel_affine(self.weight.float(), self.scale, self.zero, 0, -128, 127)
        return F.conv2d(self.qa(x), self.qw(w), self.bias, self.stride, self.padding)


class Quantised(nn.Module):
    """Residual layers of those."""

    def __init__(self, w=32):
        super().__init__()
        self.stem = nn.Conv2d(3, w, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(FewBits(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU6()) for _ in range(4))
        self.fc = nn.Linear(w, 10)

    def forward(self, x, y):
        h = self.stem(x)
        for b in self.blocks:
            h = h + b(h)
        return F.cross_entropy(self.fc(h.mean((2, 3))), y.remainder(10))
