//! Scripts that stop in PyTorch at their first step: the trace stops there as well, whatever rules for fake tensors let pass. Beside
//! each stands an ordinary one that runs.

use crate::traced_scripts::hold;

/// What a script does behind the preamble, whether it is traced, and what is said of it.
const SCRIPTS: [(&str, bool, &[&str]); 16] = [
    // torch/csrc/autograd/saved_variable.cpp, `unpack`: the layer saved what is added to.
    (
        "
y = model[1](model[0](x)) * 1
z = model[2](y)
y += 1
(z.mean() + y.mean()).backward()
",
        false,
        &["modified by an inplace operation: a tensor of [8, 64]"],
    ),
    // Nobody saved what is added to, or it is the result that the function saves.
    (
        "
y = model[0](x)
y += 1
model[2](torch.relu_(y)).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // An average of weights that reads them is no part of the graph.
    (
        "
average = [one.detach().clone() for one in model.parameters()]
loss = model(x).mean()
for mean, one in zip(average, model.parameters()):
    mean.mul_(0.9).add_(one.data, alpha=0.1)
loss.backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Statistics of a normalisation that runs twice are written to without a version (torch/nn/functional.py, `batch_norm`).
    (
        "
norm = nn.BatchNorm1d(16).cuda()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.net = norm, model
    def forward(self, x):
        return self.norm(self.net(self.norm(x)))
net = Net()
net(x).mean().backward()
",
        true,
        &["2,160 parameters"],
    ),
    // aten/src/ATen/native/BinaryOps.cpp and TensorIterator.cpp: numpy's numbers are of float64.
    (
        "
import numpy
target = torch.from_numpy(numpy.zeros((8, 16))).cuda()
nn.functional.mse_loss(model(x), target).backward()
",
        false,
        &["mse_loss_backward wants tensors of one type, and was given float32 and float64"],
    ),
    ("nn.functional.mse_loss(model(x), torch.zeros(8, 16).cuda()).backward()", true, &["2,128 parameters"]),
    // cuda/Loss.cu, `nll_loss_forward`.
    (
        "nn.functional.cross_entropy(model(x), torch.zeros(8, dtype=torch.int32).cuda()).backward()",
        false,
        &["nll_loss_forward reads a tensor of type int64 or uint8, and was given int32"],
    ),
    (
        "nn.functional.cross_entropy(model(x), torch.zeros(8, dtype=torch.int64).cuda()).backward()",
        true,
        &["2,128 parameters"],
    ),
    // cuda/Blas.cpp, `addmm_out_cuda_impl`: weights of 16 bit read fp32 under autocast alone.
    (
        "model.bfloat16()(x).mean().backward()",
        false,
        &["addmm wants tensors of one type, and was given bfloat16 and float32"],
    ),
    (
        "
with torch.autocast('cuda', dtype=torch.bfloat16):
    model.bfloat16()(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Embedding.cpp, `embedding`.
    (
        "
table = nn.Embedding(10, 16).cuda()
table(x).mean().backward()
",
        false,
        &["embedding reads a tensor of type int64 or int32, and was given float32"],
    ),
    // aten/src/ATen/native/IndexingUtils.h, `expandTensors`.
    (
        "
y = model(x)
y[torch.zeros(7, dtype=torch.bool, device='cuda')].mean().backward()
",
        false,
        &["the shape of the mask [7] does not match the shape of the indexed tensor [8, 16] at dimension 0"],
    ),
    // aten/src/ATen/native/TensorShape.cpp, `split_with_sizes`.
    (
        "
one, other = model(x).split([4, 8], dim=-1)
(one.mean() + other.mean()).backward()
",
        false,
        &["split_with_sizes"],
    ),
    // torch/autograd/__init__.py, `backward`: element 0 of tensors does not require grad.
    ("model(x).detach().mean().backward()", false, &["the loss of the first backward pass needs no gradient"]),
    (
        "
model.requires_grad_(False)
model(x).mean().backward()
",
        false,
        &["the loss of the first backward pass needs no gradient"],
    ),
    // Part of a model is trained: 64 x 16 + 16 of its parameters.
    (
        "
model[0].requires_grad_(False)
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
];

#[test]
fn what_stops_in_pytorch_stops_in_a_trace() {
    hold(&SCRIPTS);
}

/// torch/nn/modules/rnn.py, activation.py: layers take the length before the batch unless they are told otherwise.
const LENGTH_FIRST: [(&str, bool, &[&str]); 4] = [
    (
        "
class Reader(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.table, self.cells, self.head = nn.Embedding(50, 16), nn.LSTM(16, 16, **how), nn.Linear(16, 50)
    def forward(self, ids):
        return self.head(self.cells(self.table(ids))[0])
reader = Reader().cuda()
reader(torch.zeros(7, 3, dtype=torch.int64, device='cuda')).mean().backward()
",
        true,
        &["traced with B 3, S 7", "has the length first and the batch behind it, as its LSTM has batch_first=False"],
    ),
    (
        "
class Reader(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.table, self.cells, self.head = nn.Embedding(50, 16), nn.LSTM(16, 16, **how), nn.Linear(16, 50)
    def forward(self, ids):
        return self.head(self.cells(self.table(ids))[0])
reader = Reader(batch_first=True).cuda()
reader(torch.zeros(7, 3, dtype=torch.int64, device='cuda')).mean().backward()
",
        true,
        &["traced with B 7, S 3"],
    ),
    // It turns its batch round before layers that take the length first.
    (
        "
class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(50, 16), nn.TransformerEncoderLayer(16, 2, 32)
    def forward(self, ids):
        return self.layer(self.table(ids).transpose(0, 1))
turned = Turned().cuda()
turned(torch.zeros(7, 3, dtype=torch.int64, device='cuda')).mean().backward()
",
        true,
        &["traced with B 7, S 3"],
    ),
    (
        "
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2).cuda()
encoder(torch.zeros(7, 3, 16, device='cuda')).mean().backward()
",
        true,
        &["traced with B 3, S 7", "as its MultiheadAttention has batch_first=False"],
    ),
];

#[test]
fn the_side_that_a_layer_takes_for_the_length_is_the_length() {
    hold(&LENGTH_FIRST);
}
