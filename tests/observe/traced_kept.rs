//! What a model keeps for later steps, and what it writes over, is traced as a run in the plan's types would have it.

use crate::traced::{memwall, python, torch};

/// A table that the first forward pass makes in the type of the weights, and an activation in place, which saves a copy.
const KEEPS: &str = "
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last, self.table = nn.Linear(512, 512), nn.SiLU(inplace=True), nn.Linear(512, 512), None

    def forward(self, x):
        if self.table is None:
            self.table = torch.ones(512, dtype=self.first.weight.dtype, device=x.device)
        return self.last(self.act(self.first(x)) * self.table)
";

#[test]
fn what_a_model_keeps_and_writes_over_is_followed() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.py"), KEEPS).unwrap();
    let python = python();
    let loss = "output.float().pow(2).mean()";
    let own = ["trace", "net.py:Net", "--input", "float32[B,512]", "--loss", loss, "--quiet", "--python", &python];
    let out = memwall(folder.path(), &own);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report = |precision: &str, batch: u64| -> serde_json::Value {
        let plan = format!(
            "model: {{trace: model.tape.json.gz}}\ntraining: {{precision: {precision}, micro_batch_size: {batch}}}\n\
             hardware: {{gpu_type: NVIDIA H100, library_workspaces: false}}\n"
        );
        std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
        let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
        assert!(out.status.success(), "{precision}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    };
    // 64 rows of 512: what the activation writes over and the product with the table, of 2 bytes each, as the table has the
    // weights' type; the output made fp32, which the loss keeps; and the loss.
    let saved = 64 * 512 * (2 + 2 + 4) + 512;
    assert_eq!(report("bf16", 64)["memory"]["activations_end_of_forward"], saved);
    let report = report("fp32", 1);
    let weights = 2 * (512 * 512 + 512) * 4;
    assert_eq!(report["params"]["total"], weights / 4);
    // Weights, AdamW's two states, and the gradients of both layers: the first is behind the activation.
    let steps = report["timeline"].as_array().unwrap();
    let backward = steps.iter().rfind(|step| step["phase"] == "backward").unwrap();
    assert!(backward["allocated"].as_u64().unwrap() >= 4 * weights, "{backward}");
}

/// Rows of an output that a recurrent cell writes one by one: its gradients come through what was written.
const WRITES: &str = "
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = nn.GRUCell(256, 256), nn.Linear(256, 256)

    def forward(self, x):
        out, state = torch.zeros(2, x.size(0), 256, device=x.device), x
        for at in range(2):
            state = self.cell(x, state)
            out[at] = self.last(state)
        return out
";

#[test]
fn gradients_come_through_what_is_written_row_by_row() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.py"), WRITES).unwrap();
    let python = python();
    let own =
        ["trace", "net.py:Net", "--input", "float32[B,256]", "--loss", "output.mean()", "--quiet", "--python", &python];
    let out = memwall(folder.path(), &own);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let plan = "model: {trace: model.tape.json.gz}\ntraining: {precision: fp32, micro_batch_size: 1}\n\
                hardware: {gpu_type: NVIDIA H100, library_workspaces: false}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // The cell's two matrices of three gates and their biases, the linear layer's matrix and bias.
    let weights = (2 * 3 * (256 * 256 + 256) + 256 * 256 + 256) * 4;
    assert_eq!(report["params"]["total"], weights / 4);
    // Weights, AdamW's two states, and all gradients when the first row's pass is over.
    let steps = report["timeline"].as_array().unwrap();
    let backward = steps.iter().rfind(|step| step["phase"] == "backward").unwrap();
    assert!(backward["allocated"].as_u64().unwrap() >= 4 * weights, "{backward}");
}

/// Features that a hook puts into a list: the step empties it, or nobody does.
const HOOKED: &str = "
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, empties=True):
        super().__init__()
        self.first, self.last, self.kept, self.empties = nn.Linear(512, 512), nn.Linear(512, 512), [], empties
        self.first.register_forward_hook(lambda module, inputs, made: self.kept.append(made))

    def forward(self, x):
        if self.empties:
            self.kept.clear()
        return self.last(self.first(x))

class Growing(Net):
    def __init__(self):
        super().__init__(False)
";

#[test]
fn what_hooks_put_into_lists_is_there_from_step_to_step() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hooked.py"), HOOKED).unwrap();
    let (python, loss) = (python(), "output.pow(2).mean()");
    let traced = |class: &str| {
        let own = ["trace", class, "--input", "float32[B,512]", "--loss", loss, "--python", &python];
        let out = memwall(folder.path(), &own);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let said = traced("hooked.py:Growing");
    assert!(said.contains("not modelled: each step leaves tensors that the next one does not let go of"), "{said}");
    let said = traced("hooked.py:Net");
    assert!(!said.contains("not modelled"), "{said}");
    let plan = "model: {trace: model.tape.json.gz}\ntraining: {precision: fp32, micro_batch_size: 64}\n\
                hardware: {gpu_type: NVIDIA H100, library_workspaces: false}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // A step lets go of 64 rows of 512 numbers and keeps as many: what is new is the output that the loss keeps, and the loss.
    assert_eq!(report["memory"]["activations_end_of_forward"], 64 * 512 * 4 + 512);
}
