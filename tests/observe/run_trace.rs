//! `memwall run --trace`: one step of a training becomes a tape, and the training is as it would have been.

use std::path::Path;
use std::process::{Command, Output};

use crate::traced::{MODEL, python, torch};

/// Six steps on the CPU; the weights go to a file at the end.
const TRAINING: &str = "
import os, sys, torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from net import make_model
import modules

assert modules.whose == 'mine'
torch.manual_seed(0)
torch.set_num_threads(1)
model = make_model().train()
if sys.argv[1:] == ['checkpointed']:
    for block in model[1]:
        inner = block.forward
        block.forward = lambda x, inner=inner: checkpoint(inner, x, use_reentrant=False)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    ids = torch.randint(100, (5, 48))
    with torch.autocast('cpu', dtype=torch.bfloat16, enabled='autocast' in sys.argv):
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
if len(sys.argv) == 1:
    torch.save(model, 'model.pt')
import modules
assert modules.whose == 'mine'
";

fn memwall(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.current_dir(folder).env("MEMWALL_HOOK_DIR", folder.join("hook")).env("NO_COLOR", "1");
    command.env("XDG_CACHE_HOME", folder).args(arguments).output().unwrap()
}

/// A folder with the training in it; a module of the script's has the name of one of the tracer's.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("net.py", MODEL), ("train.py", TRAINING), ("modules.py", "whose = 'mine'\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every name that one module of the tracer takes from another is there. Most of it runs only with a newer PyTorch than
/// the tests may have.
#[test]
fn names_that_the_tracers_modules_take_from_each_other_exist() {
    const CHECK: &str = "
import ast, pathlib, sys
trees = {path.stem: ast.parse(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob('*.py')}
def defined(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split('.')[0] for alias in node.names)
names = {module: set(defined(tree)) for module, tree in trees.items()}
for module, tree in trees.items():
    taken = {alias.asname or alias.name: alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            other = taken.get(node.value.id)
            if other in names and node.attr not in names[other] and not node.attr.startswith('__'):
                print(module, node.value.id + '.' + node.attr)
# What writes the tape reads the same of a script's watch and of a run's.
def of(tree, kind):
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind)
held = {node.attr for node in ast.walk(of(trees['live'], 'Live')) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
for function in trees['script'].body:
    if isinstance(function, ast.FunctionDef) and function.name in ('finished', 'several', 'unreached'):
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == 'watch' and node.attr not in held:
                print('live', 'watch.' + node.attr)
";
    let tracer = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/observe/trace");
    let python = std::env::var_os("MEMWALL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let Ok(done) = Command::new(python).args(["-c", CHECK]).arg(tracer).output() else { return };
    assert_eq!((text(&done.stdout), text(&done.stderr)), (String::new(), String::new()));
}

#[test]
fn a_step_of_a_run_becomes_a_tape_and_the_run_stays_what_it_is() {
    let Some(version) = torch() else { return };
    let folder = folder();
    let python = python();
    let plain = Command::new(&python).current_dir(folder.path()).arg("train.py").output().unwrap();
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let weights = std::fs::read(folder.path().join("model.pt")).unwrap();
    let out = memwall(folder.path(), &["run", "--quiet", "--trace", "run.tape.json.gz", "--", &python, "train.py"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_eq!(text(&out.stdout), text(&plain.stdout));
    assert_eq!(
        std::fs::read(folder.path().join("model.pt")).unwrap(),
        weights,
        "the same weights, and no mark on them"
    );
    if version < (2, 1) {
        assert!(text(&out.stderr).contains("no tape: PyTorch 2.1 or later is needed"), "{}", text(&out.stderr));
        return;
    }
    assert!(text(&out.stderr).contains("run.tape.json.gz: Sequential, "), "{}", text(&out.stderr));
    std::fs::write(folder.path().join("plan.yaml"), "model: {trace: run.tape.json.gz}\ntraining: {precision: fp32}\n")
        .unwrap();
    let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // As in `traced`: the model's parameters, and 5 x 48 tokens through its matrices.
    assert_eq!(report["params"]["total"], 3200 + 6 * (64 + 2048 + 64 + 2048 + 32) + 3300);
    assert_eq!(report["flops"]["forward"], 2.0 * 240.0 * (6.0 * 4096.0 + 3200.0));
}

/// On a CPU, too, a step in autocast is one of mixed precision and none of fp32.
#[test]
fn a_step_under_autocast_becomes_a_tape_of_mixed_precision() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = folder();
    let run = ["run", "--quiet", "--trace", "run.tape.json.gz", "--", &python(), "train.py", "autocast"];
    let out = memwall(folder.path(), &run);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let predicts = |precision: &str| {
        let plan = format!("model: {{trace: run.tape.json.gz}}\ntraining: {{precision: {precision}}}\n");
        std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
        memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]).status.success()
    };
    assert_eq!(["bf16-mixed", "fp32"].map(predicts), [true, false], "{}", text(&out.stderr));
}

/// 256 samples of 1024 in fp32 are 1 MiB; the first layer keeps them. 4096 of each are 4 MiB: what the activation made, which
/// it keeps itself and the second layer too.
#[test]
fn modules_of_a_script_without_an_optimizer_are_shown() {
    if torch().is_none() {
        return;
    }
    let folder = folder();
    let script = "
import torch
from torch import nn

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))

Mlp()(torch.randn(256, 1024)).sum().backward()
";
    std::fs::write(folder.path().join("mlp.py"), script).unwrap();
    let out = memwall(folder.path(), &["run", "--modules", "--", &python(), "mlp.py"]);
    let said = text(&out.stderr);
    // 1024 x 4096 + 4096 and 4096 x 1024 + 1024.
    assert!(said.contains("no optimizer step; 8 393 728 parameters on cpu"), "{said}");
    assert!(said.contains("kept 5.00 MiB"), "{said}");
    assert!(said.contains("4.00 MiB  80.0 %      1  ReLU    relu"), "{said}");
    assert!(said.contains("1.00 MiB  20.0 %      1  Linear  fc1"), "{said}");
    let plain = memwall(folder.path(), &["run", "--", &python(), "mlp.py"]);
    assert!(text(&plain.stderr).contains("--modules looks into a pass without one"), "{}", text(&plain.stderr));
}

#[test]
fn a_run_that_checkpoints_gives_no_tape_and_a_traced_script_recomputes_its_blocks() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = folder();
    let python = python();
    let command = [python.as_str(), "train.py", "checkpointed"];
    let run = [&["run", "--quiet", "--trace", "run.tape.json.gz", "--"], &command[..]].concat();
    let out = memwall(folder.path(), &run);
    assert!(out.status.success() && text(&out.stdout).lines().count() == 6, "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("no tape: it recomputes"), "{}", text(&out.stderr));
    assert!(!folder.path().join("run.tape.json.gz").exists());
    let tapes = [&command[..], &command[..2]].map(|command| {
        let out = memwall(folder.path(), &[&["trace", "--cpu", "-o", "script.tape.json.gz", "--"], command].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(text(&out.stderr).contains("the script checkpoints 6 calls"), command.len() == 3);
        ["", ", activation_checkpointing: none", ", activation_checkpointing: full"].map(|rest| {
            let plan = format!("model: {{trace: script.tape.json.gz}}\ntraining: {{precision: fp32{rest}}}\n");
            std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
            let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
            let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
            (report["flops"].clone(), report["memory"].clone())
        })
    });
    let [[own, without, full], [plain, again, asked]] = tapes;
    assert_eq!((&without, &plain), (&plain, &again), "with and without");
    assert_eq!((&own, &full), (&asked, &asked), "by itself and as the plan asks");
}

/// The host has an autocast of its own, which a script asks for in the loop around the model.
#[test]
fn a_step_under_the_autocast_of_the_host_is_of_mixed_precision() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = folder();
    let (loss, within) = ("    loss = F", "    with torch.autocast('cpu', dtype=torch.bfloat16):\n        loss = F");
    std::fs::write(folder.path().join("train.py"), TRAINING.replace(loss, within)).unwrap();
    let python = python();
    let asked: [&[&str]; 2] = [&["trace", "--cpu", "-o"], &["run", "--quiet", "--trace"]];
    for asked in asked {
        let out = memwall(folder.path(), &[asked, &["made.tape.json.gz", "--", python.as_str(), "train.py"]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let answered = ["bf16-mixed", "fp32"].map(|precision| {
            let plan = format!("model: {{trace: made.tape.json.gz}}\ntraining: {{precision: {precision}}}\n");
            std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
            memwall(folder.path(), &["predict", "plan.yaml"])
        });
        let [mixed, whole] = answered.map(|out| (out.status.success(), text(&out.stderr)));
        assert!(mixed.0, "{asked:?}: {}", mixed.1);
        assert!(!whole.0 && whole.1.contains("training.precision"), "{asked:?}: {}", whole.1);
    }
}

/// Gradients by `torch.autograd.grad`, then steps: the tracer waits for a backward pass that does not come. And a script that
/// takes one step alone.
#[test]
fn a_run_that_cannot_be_followed_says_why() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = folder();
    let script = "
import sys, torch
from net import make_model

model = make_model().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    parameters = list(model.parameters())
    made = torch.autograd.grad(model(torch.randint(100, (2, 8))).sum(), parameters)
    for parameter, gradient in zip(parameters, made):
        parameter.grad = gradient
    optimizer.step()
";
    std::fs::write(folder.path().join("asked.py"), script).unwrap();
    let python = python();
    for (steps, said) in [("6", "no module was trained by loss.backward()"), ("1", "took two steps")] {
        let out = memwall(
            folder.path(),
            &["run", "--quiet", "--trace", "run.tape.json.gz", "--", &python, "asked.py", steps],
        );
        let told = text(&out.stderr);
        assert!(out.status.success() && told.contains("no tape: ") && told.contains(said), "{told}");
        assert!(!folder.path().join("run.tape.json.gz").exists());
    }
}
