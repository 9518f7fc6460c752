"""Small models that hold more of a step than autograd saves, for trace_cases.py: features by hooks, attributes of a custom function's
context, outputs that are written over. The loss is what a model returns."""

import torch
import torch.nn.functional as F
from torch import nn


class Stages(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Linear(width * 8, 10)
        sides = [(width * 2 ** at, width * 2 ** (at + 1)) for at in range(3)]
        self.stages = nn.ModuleList(nn.Sequential(nn.Conv2d(one, two, 3, 2, 1), nn.BatchNorm2d(two), nn.ReLU(), nn.Conv2d(two, two, 3, 1, 1),
                                                  nn.ReLU()) for one, two in sides)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class Hooked(nn.Module):
    """A student learns a frozen teacher's features, which hooks put into lists that the next step empties."""

    def __init__(self):
        super().__init__()
        self.teacher, self.student = Stages().requires_grad_(False), Stages()
        lists = [], []
        self.features = lambda: lists
        for net, kept in zip((self.teacher, self.student), lists):
            for stage in net.stages:
                stage.register_forward_hook(lambda module, inputs, made, kept=kept: kept.append(made))

    def forward(self, x, labels):
        for kept in self.features():
            kept.clear()
        with torch.no_grad():
            told = self.teacher(x)
        said = self.student(x)
        alike = lambda one: F.normalize(one.pow(2).mean(1).flatten(1))
        loss = F.cross_entropy(said, labels) + F.kl_div(said.log_softmax(1), told.softmax(1), reduction="batchmean")
        return loss + sum(F.mse_loss(alike(one), alike(other)) for one, other in zip(*self.features()))


class Rows(nn.Module):
    """A row of equal blocks, of which hooks look into every second."""

    def __init__(self, width=256, blocks=8):
        super().__init__()
        self.embedding, self.out, self.kept = nn.Embedding(1000, width), nn.Linear(width, 1000), []
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                    for _ in range(blocks))
        for block in list(self.blocks)[1::2]:
            block.register_forward_hook(lambda module, inputs, made: self.kept.append(made))

    def forward(self, ids):
        self.kept.clear()
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.out(x).flatten(0, 1), ids.flatten()) + sum(one.pow(2).mean() for one in self.kept)


class Multiplied(torch.autograd.Function):
    """A linear layer whose context has its operands as attributes."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.x, ctx.weight = x, weight
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ ctx.weight, gradient.flatten(0, -2).t() @ ctx.x.flatten(0, -2)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.share = x, torch.sigmoid(x)
        return x * ctx.share

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.share * (1 + ctx.x * (1 - ctx.share)))


class Checkpoint(torch.autograd.Function):
    """Computes again what it has run, and has its input as an attribute that nothing deletes."""

    @staticmethod
    def forward(ctx, run, x):
        ctx.run, ctx.x = run, x
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_(True)
        with torch.enable_grad():
            made = ctx.run(x)
        torch.autograd.backward(made, gradient)
        return None, x.grad


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Layers(nn.Module):
    def __init__(self, width=256, blocks=6):
        super().__init__()
        self.embedding, self.out = nn.Embedding(1000, width), nn.Linear(width, 1000)
        self.blocks = nn.ModuleList(Feed(width) for _ in range(blocks))

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = self.run(block, x)
        return F.cross_entropy(self.out(x).flatten(0, 1), ids.flatten())


class Attributes(Layers):
    def run(self, block, x):
        up = Swish.apply(Multiplied.apply(x, block.up.weight.to(x.dtype)))
        return x + Multiplied.apply(up, block.down.weight.to(up.dtype))


class Inputs(Layers):
    def run(self, block, x):
        return Checkpoint.apply(block, x)


class Direct(Layers):
    """Blocks whose forward function is called by itself."""

    def run(self, block, x):
        return block.forward(x)


class Encoder(nn.Module):
    def __init__(self, width, layers, vocabulary=2000):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True) for _ in range(layers))

    def forward(self, ids):
        x, states = self.embedding(ids), []
        for layer in self.layers:
            x = layer(x)
            states.append(x)
        return self.out(x), states


class Taught(nn.Module):
    """A student of a teacher's every second layer, all of which a list has."""

    def __init__(self):
        super().__init__()
        self.teacher, self.student = Encoder(384, 6).requires_grad_(False), Encoder(256, 3)
        self.wide = nn.ModuleList(nn.Linear(256, 384) for _ in range(3))

    def forward(self, ids):
        self.teacher.eval()
        with torch.no_grad():
            told, features = self.teacher(ids)
        said, states = self.student(ids)
        loss = F.kl_div(said.float().log_softmax(-1), told.float().softmax(-1), reduction="batchmean")
        return loss + sum(F.mse_loss(wide(one).float(), other.float()) for wide, one, other in zip(self.wide, states, features[1::2]))


class Over(nn.Module):
    """Blocks whose output the residual stream is added to in place, and an activation in place behind."""

    def __init__(self, width=64):
        super().__init__()
        self.stem, self.act, self.out = nn.Conv2d(3, width, 3, 1, 1), nn.CELU(inplace=True), nn.Linear(width, 10)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.Hardswish(inplace=True),
                                                  nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)) for _ in range(4))

    def forward(self, x, labels):
        x = self.stem(x)
        for block in self.blocks:
            made = block(x)
            made += x
            x = self.act(made)
        return F.cross_entropy(self.out(x.mean((2, 3))), labels)


class Modulated(nn.Module):
    """A convolution whose kernels each sample has of its own."""

    def __init__(self, before, after, style):
        super().__init__()
        self.weight, self.scale, self.bias = nn.Parameter(torch.zeros(after, before, 3, 3)), nn.Linear(style, before), nn.Parameter(torch.zeros(after))

    def forward(self, x, style):
        rows, channels, side, _ = x.shape
        kernels = self.weight[None] * (self.scale(style) + 1)[:, None, :, None, None]
        kernels = kernels * torch.rsqrt(kernels.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False).reshape(1, rows * channels, 2 * side, 2 * side)
        x = F.conv2d(x, kernels.view(-1, channels, 3, 3), padding=1, groups=rows).view(rows, -1, 2 * side, 2 * side)
        return F.leaky_relu(x + self.bias[:, None, None], 0.2)


class Styled(nn.Module):
    """A generator whose styles all convolutions read, and a penalty on the gradient of the styles."""

    def __init__(self, width=128):
        super().__init__()
        self.map = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(width, width), nn.LeakyReLU(0.2))))
        self.first, self.colours = nn.Parameter(torch.zeros(1, 128, 4, 4)), nn.Conv2d(32, 3, 1)
        self.layers = nn.ModuleList(Modulated(*sides, width) for sides in ((128, 128), (128, 64), (64, 32)))

    def forward(self, latents):
        style, x = self.map(latents), self.first.expand(len(latents), -1, -1, -1)
        for layer in self.layers:
            x = layer(x, style)
        image = self.colours(x)
        slope, = torch.autograd.grad((image * torch.randn_like(image)).sum(), style, create_graph=True)
        return F.softplus(-image.mean((1, 2, 3))).mean() + (slope.pow(2).sum(-1).sqrt() - 1).pow(2).mean()
