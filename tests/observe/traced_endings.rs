//! A traced script ends where its step is traced or refused, whatever it catches and in whichever thread it trains; and what runs a
//! model in a way of its own is traced as Python runs it, with a note, or refused in words that say what to do.

use crate::traced_scripts::hold;

/// What a script does behind the preamble of [`hold`], whether it is traced, and what is said of it. Those with an endless loop hang
/// where the end is caught.
const SCRIPTS: [(&str, bool, &[&str]); 20] = [
    (
        "
while True:
    try:
        model(x).mean().backward()
    except:
        continue
",
        true,
        // 16 x 64 + 64 and 64 x 16 + 16.
        &["Sequential, 2,128 parameters"],
    ),
    // What is refused stays so.
    (
        "
import torch.distributed.fsdp
torch.distributed.init_process_group('nccl', world_size=2)
while True:
    try:
        torch.distributed.fsdp.FullyShardedDataParallel(model)(x).mean().backward()
    except BaseException:
        continue
",
        false,
        &["shards its model with FSDP"],
    ),
    // An operator that fails in every pass.
    (
        "
while True:
    try:
        model(x).view(3, 5, 7).mean().backward()
    except Exception as error:
        continue
",
        false,
        &["shape '[3, 5, 7]' is invalid for input of size 128"],
    ),
    // A pass that fails is no part of the step behind it.
    (
        "
class Fails(nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.inner = model

    def forward(self, x):
        Fails.calls += 1
        made = self.inner(x)
        if Fails.calls == 1:
            raise RuntimeError('CUDA out of memory')
        return made

outer = Fails()
for _ in range(2):
    try:
        outer(x).mean().backward()
    except RuntimeError:
        pass
",
        true,
        &["Fails, 2,128 parameters", "an error of a pass, which is left out: RuntimeError: CUDA out of memory"],
    ),
    (
        "
import threading
def train():
    while True:
        model(torch.zeros(8, 16, device='cuda')).mean().backward()
thread = threading.Thread(target=train)
thread.start()
thread.join()
",
        true,
        &["Sequential, 2,128 parameters"],
    ),
    // Nobody waits for it.
    (
        "
import threading
threading.Thread(target=lambda: model(torch.zeros(8, 16, device='cuda')).mean().backward()).start()
",
        true,
        &["Sequential, 2,128 parameters"],
    ),
    (
        "
import threading
def train():
    raise ValueError('no such optimizer')
thread = threading.Thread(target=train)
thread.start()
thread.join()
",
        false,
        &["ValueError: no such optimizer (train.py:11)"],
    ),
    (
        "torch.autograd.grad(model(x).mean(), list(model.parameters()))",
        false,
        &["without a backward pass: it asks torch.autograd.grad for gradients of parameters", "file.py:function"],
    ),
    (
        "
weights = dict(model.named_parameters())
torch.func.grad(lambda weights: torch.func.functional_call(model, weights, (x,)).mean())(weights)
",
        false,
        &["Sequential runs inside of a transform of torch.func", "trace one model's step without it"],
    ),
    (
        "
several, buffers = torch.func.stack_module_state([model, nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)).cuda()])
torch.func.vmap(lambda *one: torch.func.functional_call(model, one, (x,)))(several, buffers).mean().backward()
",
        false,
        &["Sequential runs inside of a transform of torch.func"],
    ),
    (
        "
weights = {name: one.detach().requires_grad_() for name, one in model.named_parameters()}
torch.func.functional_call(model, weights, (x,)).mean().backward()
",
        false,
        &["Sequential runs on parameters that are not its own"],
    ),
    (
        "torch.jit.script(model)(x).mean().backward()",
        true,
        &["Sequential, 2,128 parameters", "compiles code with torch.jit.script"],
    ),
    (
        "
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).mean().backward()
",
        true,
        &["Sequential, 2,128 parameters", "captures CUDA graphs"],
    ),
    (
        "torch.cuda.make_graphed_callables(model, (x,))(x).mean().backward()",
        true,
        &["Sequential, 2,128 parameters", "captures CUDA graphs"],
    ),
    // A script's own `sys.stderr` is a file that goes away: what became of the trace is said all the same.
    (
        "import sys; sys.stderr = open('train.log', 'w'); raise ValueError('no such optimizer')",
        false,
        &["ValueError: no such optimizer"],
    ),
    // Where a script lies is a path from the root since Python 3.9.
    (
        "
import pathlib, sys
assert pathlib.Path(__file__).is_absolute() and sys.argv == ['train.py']
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // A library that imports late hides what is missing behind a message of its own (transformers/utils/import_utils.py).
    (
        "
try:
    import not_installed_anywhere
except ImportError as error:
    raise ModuleNotFoundError(\"Could not import module 'Model'. Are this object's requirements defined correctly?\") from error
",
        false,
        &["No module named 'not_installed_anywhere'"],
    ),
    // Arrow's files are opened below Python, also those that the script itself wrote into a cache (datasets/table.py).
    (
        "
import ctypes, os, sys, types
arrow = sys.modules['pyarrow'] = types.ModuleType('pyarrow')
arrow.memory_map = lambda path, mode='r': os.read(ctypes.CDLL(None).open(os.fsencode(path), os.O_RDONLY), 4)
with open('cache.arrow', 'wb') as file:
    file.write(b'rows')
assert arrow.memory_map('cache.arrow') == b'rows'
model(x).mean().backward()
",
        true,
        &["2,128 parameters"],
    ),
    // Targets of another model are computed before the step: no gradient leads there.
    (
        "
for _ in range(2):
    with torch.no_grad():
        target = other(x)
nn.functional.mse_loss(model(x)[:, :8], target).backward()
",
        true,
        &["Sequential, 2,128 parameters", "before its step the script ran 2 passes of Linear without gradients"],
    ),
    // Plans have no weights of 8 bytes.
    (
        "model.double()(x.double()).mean().backward()",
        false,
        &["Sequential has weights of float64, and no plan has such a precision: trace it in float32"],
    ),
];

#[test]
fn a_script_ends_with_its_step_whatever_it_catches() {
    hold(&SCRIPTS);
}
