//! Scripts whose steps depend on what a traced step has not: values, data, kernels of their own, or several models. Each is
//! traced and says what is not in the tape, or is refused in one line that says what to do.

use std::process::Command;

use crate::traced::{python, torch};

const PREAMBLE: &str = "
import torch
from torch import nn
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)).cuda()
other = nn.Linear(16, 8).cuda()
first, second = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(other.parameters())
x = torch.zeros(8, 16, device='cuda')
";

/// What a script does behind the preamble, whether it is traced, and what is said of it.
const SCRIPTS: [(&str, bool, &[&str]); 40] = [
    // `torch/_tensor.py`, `def split(self, split_size, dim=0)`: its arguments may be named.
    (
        "
one, other = model(x).split(split_size=[4, 12], dim=-1)
(one.mean() + other.mean()).backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Numbers are finite and as good as 1, so that guards against others let the step go on.
    (
        "
loss = model(x).mean()
if torch.isnan(loss) or not torch.isfinite(loss) or loss > 5 or loss.item() > 3:
    raise SystemExit('diverged')
torch.distributions.Categorical(logits=model(x))
loss.backward()
",
        true,
        // 16 x 64 + 64 and 64 x 16 + 16.
        &["2,128 parameters", "answered evenly, numbers as 1: item of"],
    ),
    // Checkpoints in a checkpoint, one of each kind, imported by name; and one more in one of them.
    (
        "
from torch.utils.checkpoint import checkpoint
last = lambda y: checkpoint(model[1], y, use_reentrant=False)
inner = lambda y: checkpoint(last, checkpoint(nn.Identity(), y, use_reentrant=False), use_reentrant=True)
model[2](checkpoint(inner, model[0](x), use_reentrant=False)).mean().backward()
",
        true,
        &[
            "the script checkpoints 1 calls: they are the tape's blocks",
            "a recomputed call has one in it that has others in it: of those, what is computed once more is not modelled",
        ],
    ),
    // An average of weights, or a teacher, is no part of the model: 512 x 1024 + 1024 parameters of 4 bytes.
    (
        "
average = nn.Linear(512, 1024).cuda().requires_grad_(False)
model(x).mean().backward()
",
        true,
        &["2,128 parameters", "beside Sequential the script has Linear (525,312 parameters, 2.0 MiB) on the GPU"],
    ),
    (
        "
class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
Own(model.parameters())
model(x).mean().backward()
",
        true,
        &["not modelled: Own, which no plan has a name for by its class"],
    ),
    // PyTorch's own that no plan has a name for.
    ("torch.optim.LBFGS(model.parameters()); model(x).mean().backward()", true, &["not modelled: LBFGS, which no plan"]),
    // One that holds another and never begins as PyTorch's do (torch_optimizer/lookahead.py).
    (
        "
class Slow(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner, self.param_groups = inner, inner.param_groups
slow = Slow(first)
model(x).mean().backward()
",
        true,
        &["not modelled: Slow, which no plan"],
    ),
    // A tensor of a library's own class (fastai/torch_core.py, `cast`).
    ("class Kind(torch.Tensor): pass\nmodel(x.as_subclass(Kind)).mean().backward()", true, &["2,128 parameters"]),
    // A line that ends in a colon says of what the next one is (fastai/learner.py, `_with_events`).
    ("raise RuntimeError('in `before_batch`:\\n\\tno batch')", false, &["in `before_batch`: no batch"]),
    // What stands for a tensor while a library finds out shapes is no batch: 16 x 4 + 4 and 4 x 2 + 2.
    (
        "
class Sketch:
    shape, dtype = property(lambda self: (8, 16)), property(lambda self: 'float32')
class Layer(nn.Linear):
    def forward(self, x):
        return x if isinstance(x, Sketch) else super().forward(x)
one = Layer(16, 4).cuda()
one(Sketch())
nn.Sequential(one, nn.Linear(4, 2).cuda())(x).mean().backward()
",
        true,
        &["Sequential, 78 parameters"],
    ),
    // A number that is drawn lies within its bounds, and a GPU's generator is one.
    (
        "
if not -0.5 <= float(torch.empty(1).uniform_(-0.5, -0.1)) <= -0.1:
    raise SystemExit('out of bounds')
drawn = torch.rand(16, device='cuda', generator=torch.Generator('cuda').manual_seed(1))
model(x + drawn).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    (
        "
with torch.autograd.graph.save_on_cpu():
    loss = model(x).mean()
loss.backward()
",
        true,
        &["2,128 parameters", "traced with B 8 alone", "what save_on_cpu moves to the host"],
    ),
    // A sparse buffer stays where it is (openai-whisper's `alignment_heads`).
    (
        "model.register_buffer('axes', torch.eye(4).to_sparse()); model.cuda()(x).mean().backward()",
        true,
        &["2,128 parameters"],
    ),
    ("torch.compile(model, fullgraph=True)(x).mean().backward()", true, &["the script compiles 1 functions"]),
    // A loop that ends by values has no end without them.
    (
        "
y = model(x)
while y.norm() > 1e-3:
    y = y / 2
y.mean().backward()
",
        false,
        &["train.py:10 asks for values 5000 times"],
    ),
    // One row of choices in eight shares: each expert's tokens are known, and so is where its share ends.
    (
        "
counts = torch.zeros(8, 4, dtype=torch.int64, device='cuda').scatter_(1, model(x)[:, :4].argmax(-1, keepdim=True), 1)
start, made = 0, []
for count in counts.sum(0):
    if count == 0:
        raise SystemExit('no tokens')
    made.append(model(x[start:start + count]))
    start = start + count
assert torch.cat(made).shape == (8, 16)
torch.cat(made).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // A GAN: its first backward pass is of one model, its optimizers train two.
    ("model(x).mean().backward()", true, &["the first backward pass is of Sequential alone", "136 further parameters"]),
    // Actor and critic in one loss.
    ("(model(x).mean() + other(x).mean()).backward()", true, &["the loss trains 136 parameters outside Sequential"]),
    ("model(x).mean()", false, &["ran to its end without a backward pass"]),
    ("open('train.bin')", false, &["train.bin", "the script needs it to reach its first step"]),
    (
        "
import socket
socket.getaddrinfo('example.org', 80)
",
        false,
        &["the script asks example.org (train.py:10): nothing is downloaded while a script is traced"],
    ),
    ("raise SystemExit", false, &["ended before its first backward pass, with exit status 0"]),
    // Images of a data set that draws them, and a measure that is kept: arrays of what has no values.
    (
        "
import importlib.util
if importlib.util.find_spec('numpy'):
    for made in (torch.randn(3, 4).numpy(), model(x)[:3, :4].detach().cpu().numpy()):
        assert made.shape == (3, 4) and (made == made.flat[0]).all()
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Probabilities are not checked, as nobody has them.
    (
        "
torch.distributions.Categorical(model(x).softmax(-1)).sample()
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    ("nn.DataParallel(model)(x).mean().backward()", true, &["Sequential, 2,128 parameters"]),
    // The first of the processes that a script spawns, which talks to none of the others.
    (
        "
import torch.distributed
def work(rank, size):
    torch.distributed.init_process_group('nccl', rank=rank, world_size=size)
    assert torch.distributed.get_world_size() == 4
    loss = nn.parallel.DistributedDataParallel(model, device_ids=[rank])(torch.zeros(8, 16)).mean()
    torch.distributed.all_reduce(loss.detach())
    loss.backward()
torch.multiprocessing.spawn(work, args=(4,), nprocs=4)
",
        true,
        &["Sequential, 2,128 parameters", "torch.distributed (4 processes)"],
    ),
    (
        "
import torch.distributed.fsdp
torch.distributed.init_process_group('nccl', world_size=2)
torch.distributed.fsdp.FullyShardedDataParallel(model)
",
        false,
        &["shards its model with FSDP"],
    ),
    // Nothing of the tracer is in a fresh Python: it would train, and write.
    (
        "
import multiprocessing
multiprocessing.get_context('spawn').Process(target=print).start()
",
        false,
        &["starts Python processes of its own"],
    ),
    // An operator without a shape rule.
    (
        "
library = torch.library.Library('mine', 'DEF')
library.define('twice(Tensor x) -> Tensor')
library.impl('twice', lambda x: x * 2, 'CPU')
torch.ops.mine.twice(model(x)).mean().backward()
",
        false,
        &["@torch.library.register_fake(\"lib::op\"), then return torch.empty_like(x)"],
    ),
    // Labels that were written down keep their values on the device: seven classes, five of which occur. A layer of 3 x 7 + 7, and
    // each way to count them.
    (
        "
labels = torch.tensor([0, 3, 6, 2, 1] * 40).to('cuda')
counts = [labels.max().item() + 1, int(labels.max()) + 1, (labels + 1).max().item(), len(torch.bincount(labels)),
          max(labels.tolist()) + 1, nn.functional.one_hot(labels).shape[1], max(int(y) for y in labels[:5]) + 1]
occur = [torch.unique(labels).numel(), len(set(labels.tolist())), int((torch.bincount(labels) > 0).sum()), len(labels.unique(return_counts=True)[1])]
assert set(counts) == {7} and set(occur) == {5}, (counts, occur)
assert bool((labels == 6).any()) and not bool((labels == 4).any())
assert labels[labels == 6].numel() == 40 and len((labels > 2).nonzero()) == 80
seen = torch.zeros(7, dtype=torch.int64, device='cuda')
for y in labels[:5]:
    seen[y] += 1
assert seen.tolist() == [1, 1, 1, 1, 0, 0, 1]
model = nn.Linear(3, counts[0]).cuda()
nn.functional.cross_entropy(model(torch.zeros(200, 3, device='cuda')), labels).backward()
",
        true,
        &["Linear, 28 parameters"],
    ),
    // A view of it was multiplied: 1 + 4 + 6 + 8; then something unknown was written into it.
    (
        "
table = torch.empty(4, dtype=torch.int64, device='cuda')
view = table[1:]
table.copy_(torch.tensor([1, 2, 3, 4]))
view.mul_(2)
assert int(table.sum()) == 19
view.copy_(torch.randn_like(x).argsort()[0, :3])
width = int(table.sum())
nn.Linear(16, width + 3).cuda()(x).mean().backward()
",
        false,
        &["train.py:15 asks for a value that nobody knows (item of int64, 0 dimensions), and Linear is built after it"],
    ),
    (
        "nn.Linear(16, int(torch.randn(9, device='cuda').max()) + 3).cuda()(x).mean().backward()",
        false,
        &["train.py:8 asks for a value that nobody knows (a whole number made of item of a float)"],
    ),
    (
        "nn.Linear(16, torch.randn_like(x).argsort().unique().numel()).cuda()(x).mean().backward()",
        false,
        &["train.py:8 asks for a value that nobody knows (unique2 of int64"],
    ),
    // What is printed shapes nothing, as far as anyone can tell; the model of the preamble was there before.
    (
        "
print(torch.randn_like(x).std().item())
nn.Linear(16, 4).cuda()(x).mean().backward()
",
        true,
        &["train.py:9 asks for a value that nobody knows (item of float32, 0 dimensions) before Linear is built"],
    ),
    ("print(torch.randn_like(x).argsort().max().item()); model(x).mean().backward()", true, &["2,128 parameters", "item of int64"]),
    // Programs that tell something run, as those that PyTorch and Python ask; no other does.
    (
        "
import ctypes.util, os, platform, subprocess
for command in ('uname -a', 'which git || echo none', 'git rev-parse HEAD 2>/dev/null | head -1; true'):
    subprocess.run(command, shell=True)
os.popen('nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null').read()
platform.processor()
ctypes.util.find_library('c')
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    (
        "import subprocess; subprocess.run('git status; wget -q example.org/data.zip', shell=True)",
        false,
        &["the script starts `git status; wget -q example.org/data.zip` (train.py:8)", "--allow wget"],
    ),
    ("import os; os.system('rm -rf runs')", false, &["the script starts `rm -rf runs` (train.py:8)", "--allow rm"]),
    // One of the project's own has the name of a command that only tells.
    ("import os; os.system('./test data')", false, &["the script starts `./test data` (train.py:8)", "--allow test"]),
    ("import os; os.execvp('sh', ['sh', 'train.sh'])", false, &["the script becomes `sh train.sh` (train.py:8)"]),
];

#[test]
fn what_a_script_asks_of_values_and_others_is_answered_or_refused_in_a_line() {
    hold(&SCRIPTS);
}

/// Traces each script and reads what is said of it; nothing is written beside it.
pub fn hold(scripts: &[(&str, bool, &[&str])]) {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (script, traced, words) in scripts {
        std::fs::write(folder.path().join("train.py"), format!("{PREAMBLE}{script}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        let out = command
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .args(["trace", "-o", "t.tape.json.gz", "--", &python(), "train.py"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if said.contains("on the host's processor") {
            // No compiler for the stand-in, and no GPU.
            continue;
        }
        assert_eq!(out.status.success(), *traced, "{script}: {said}");
        for word in *words {
            assert!(said.contains(word), "{script}: `{word}` is not in: {said}");
        }
        let complaints = said.lines().filter(|line| line.starts_with("memwall trace:")).count();
        assert_eq!(complaints, usize::from(!traced), "{script}: {said}");
        assert!(!folder.path().join("runs").exists(), "{script}: {said}");
    }
}

/// Files with a function `make`, what `memwall trace file.py:make` is called with besides, and what it says.
const FUNCTIONS: [(&str, &[&str], bool, &[&str]); 4] = [
    (
        "subprocess.run(['touch', 'mark'])",
        &[],
        false,
        &["the script starts `touch mark` (model.py:4)", "--allow touch"],
    ),
    ("subprocess.run(['touch', 'mark'])", &["--allow", "touch"], true, &["68 parameters"]),
    // What only tells something runs; what is written lies in a folder that goes away.
    ("subprocess.run(['uname', '-a'])", &[], true, &["68 parameters"]),
    ("open('mark', 'w').write('made')", &[], true, &["68 parameters"]),
];

#[test]
fn a_function_that_makes_a_model_starts_and_writes_nothing() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    for (line, options, traced, words) in FUNCTIONS {
        let folder = tempfile::tempdir().unwrap();
        let made =
            format!("import subprocess\nfrom torch import nn\ndef make():\n    {line}\n    return nn.Linear(16, 4)\n");
        std::fs::write(folder.path().join("model.py"), made).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_memwall"))
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .args(["trace", "model.py:make", "--input", "float32[B,16]", "-o", "t.tape.json.gz", "--python", &python()])
            .args(options)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.success(), traced, "{line}: {said}");
        for word in words {
            assert!(said.contains(word), "{line}: `{word}` is not in: {said}");
        }
        assert_eq!(folder.path().join("mark").exists(), !options.is_empty(), "{line}: {said}");
    }
}
