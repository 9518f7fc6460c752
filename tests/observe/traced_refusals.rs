//! What no tape can hold is refused, though PyTorch could run it without values.

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

/// The same, named and called as OpenAI's, Megatron-LM's and DeepSpeed's: it is traced as if it did not compute again.
#[test]
fn a_checkpoint_function_of_a_codes_own_is_left_out() {
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
    assert!(out.status.success() && said.contains("checkpoints 1 calls, the tape none"), "{said}");
}
