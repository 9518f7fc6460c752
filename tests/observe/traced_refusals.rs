//! What no tape can hold is refused, though PyTorch could run it without values.

use std::path::Path;

use crate::traced::{memwall, python, torch};

/// A block that is computed again in a backward pass of its own, whose input a custom function keeps by a name
/// (openai/guided-diffusion, guided_diffusion/nn.py, `CheckpointFunction`, has the form).
const AGAIN: &str = "
import torch
from torch import nn

class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, x, *weights):
        ctx.run, ctx.x, ctx.weights = run, x, weights
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            x = ctx.x.detach().requires_grad_(True)
            made = ctx.run(x)
        return (None, *torch.autograd.grad(made, (x, *ctx.weights), gradient))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        return Again.apply(self.second, self.first(x), *self.second.parameters())
";

#[test]
fn a_backward_pass_that_computes_again_is_refused() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.py"), AGAIN).unwrap();
    let (python, input) = (python(), "float32[B,32]");
    let out = memwall(folder.path(), &["trace", "net.py:Net", "--input", input, "--quiet", "--python", &python]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("computes blocks again") && said.lines().count() == 1, "{said}");
    assert_eq!(out.status.code(), Some(2));
}

/// The same, named and called as OpenAI's, Megatron-LM's and DeepSpeed's: what it computes again is a block of the tape.
#[test]
fn a_checkpoint_function_of_a_codes_own_recomputes_a_block() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let named = AGAIN
        .replace("Again", "CheckpointFunction")
        .replace(
            "forward(ctx, run, x, *weights):\n        ctx.run",
            "forward(ctx, run_function, length, x, *weights):\n        run = run_function\n        ctx.run",
        )
        .replace("(self.second, self.first(x), ", "(self.second, 1, self.first(x), ")
        .replace("return (None, *", "return (None, None, *");
    std::fs::write(folder.path().join("net.py"), named).unwrap();
    let (python, input) = (python(), "float32[B,32]");
    let out = memwall(folder.path(), &["trace", "net.py:Net", "--input", input, "--python", &python]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains("checkpoints 1 calls: they are the tape's blocks"), "{said}");
    // 2 x 32 x 32 operations for each sample, to the last operator.
    assert_eq!(recomputed(folder.path(), ""), 4.0 * 2048.0);
}

/// Operations that a plan of a tape recomputes for four samples in fp32.
fn recomputed(folder: &Path, rest: &str) -> f64 {
    let text =
        format!("model: {{trace: model.tape.json.gz}}\ntraining: {{precision: fp32, micro_batch_size: 4{rest}}}\n");
    std::fs::write(folder.join("plan.yaml"), text).unwrap();
    let out = memwall(folder, &["predict", "--format", "json", "plan.yaml"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    report["flops"]["recompute"].as_f64().unwrap()
}

/// Blocks of an activation and a layer of 32 x 32, which a model recomputes by itself in each way that PyTorch has.
const RECOMPUTED: &str = "
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
import torch

class Block(nn.Sequential):
    def __init__(self):
        super().__init__(nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 32))

class Net(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.first, self.blocks, self.how = nn.Linear(32, 32), nn.ModuleList(Block() for _ in range(6)), how

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, **self.how)
        return x.square()

kept = lambda: create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])
reentrant = lambda: Net(use_reentrant=True)
stopping = lambda: Net(use_reentrant=False)
selective = lambda: Net(use_reentrant=False, context_fn=kept)
";

#[test]
fn blocks_that_a_model_recomputes_are_recomputed_as_it_says() {
    if torch().is_none_or(|version| version < (2, 5)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.py"), RECOMPUTED).unwrap();
    let (python, input) = (python(), "float32[B,32]");
    // 2 x 32 x 32 operations a layer and sample, in six blocks: the reentrant kind computes both layers again, the other kind
    // stops in front of the last one, whose input is the last that is saved, and a policy may keep what a layer makes.
    for (maker, layers) in [("reentrant", 2.0), ("stopping", 1.0), ("selective", 0.0)] {
        let target = format!("net.py:{maker}");
        let out = memwall(folder.path(), &["trace", &target, "--input", input, "--python", &python]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success() && said.contains("checkpoints 6 calls: they are the tape's blocks"), "{said}");
        assert_eq!(recomputed(folder.path(), ""), 6.0 * 4.0 * 2048.0 * layers, "{maker}");
        assert_eq!(recomputed(folder.path(), ", activation_checkpointing: none"), 0.0, "{maker}");
    }
}

/// Gradients of an embedding with `sparse=True` have as many rows as the batch has different ids, which no size tells.
#[test]
fn sparse_gradients_are_refused() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let net = "from torch import nn\nNet = lambda: nn.Sequential(nn.Embedding(100, 8, sparse=True), nn.Linear(8, 1))\n";
    std::fs::write(folder.path().join("net.py"), net).unwrap();
    let (python, input) = (python(), "int64[B,S]");
    let out = memwall(folder.path(), &["trace", "net.py:Net", "--input", input, "--quiet", "--python", &python]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("trace the model with sparse=False") && said.lines().count() == 1, "{said}");
    assert_eq!(out.status.code(), Some(2));
}
