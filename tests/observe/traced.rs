//! `memwall trace` in a real Python: a small model of one's own is traced and predicted, or one line says what is missing
//! (`MEMWALL_TEST_PYTHON` names another Python than `python3`).

use std::path::Path;
use std::process::{Command, Output};

/// Two blocks between an embedding and a head.
const MODEL: &str = "
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

def make_model():
    return nn.Sequential(nn.Embedding(100, 32), nn.Sequential(*(Block() for _ in range(6))), nn.Linear(32, 100))
";

fn memwall(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder).env("NO_COLOR", "1").args(arguments).output().unwrap()
}

fn python() -> String {
    std::env::var("MEMWALL_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// PyTorch's version there.
fn torch() -> Option<(u32, u32)> {
    let program = "import torch; print(torch.__version__)";
    let out = Command::new(python()).args(["-c", program]).output().ok().filter(|out| out.status.success())?;
    let version = String::from_utf8(out.stdout).ok()?;
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn trace(folder: &Path, rest: &[&str]) -> Output {
    std::fs::write(folder.join("net.py"), MODEL).unwrap();
    let loss = "F.cross_entropy(output.flatten(0, 1), ids.flatten())";
    let own = ["trace", "net.py:make_model", "--input", "_ids=int64[B,S]", "--input", "int64[B,S]", "--loss", loss];
    let python = python();
    let how = ["--quiet", "--python", &python];
    memwall(folder, &own.iter().chain(rest).chain(&how).copied().collect::<Vec<_>>())
}

#[test]
fn a_model_of_ones_own_is_traced_and_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let said = |out: &Output| String::from_utf8_lossy(&out.stderr).into_owned();
    let out = trace(folder.path(), &[]);
    match torch() {
        None => {
            assert!(!out.status.success());
            assert!(said(&out).contains("--python names"), "{}", said(&out));
            return;
        }
        Some(version) if version < (2, 1) => {
            assert!(said(&out).contains("PyTorch 2.1 or later is needed"), "{}", said(&out));
            return;
        }
        Some(_) => assert!(out.status.success(), "{}", said(&out)),
    }
    let plan =
        "model: {trace: model.tape.json.gz, sequence_length: 48}\ntraining: {precision: fp32, micro_batch_size: 5}\n";
    std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
    assert!(out.status.success(), "{}", said(&out));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // Embedding 100 x 32; six blocks of a norm of 2 x 32, 32 x 64 + 64 and 64 x 32 + 32; a head of 32 x 100 + 100.
    assert_eq!(report["params"]["total"], 3200 + 6 * (64 + 2048 + 64 + 2048 + 32) + 3300);
    // Two operations a multiplication and addition: 240 tokens through the matrices.
    assert_eq!(report["flops"]["forward"], 2.0 * 240.0 * (6.0 * 4096.0 + 3200.0));
}

#[test]
fn what_cannot_be_traced_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let gone = memwall(folder.path(), &["trace", "--timm", "x", "--python", "/no/such/python"]);
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(said.contains("--python names the Python") && said.lines().count() == 1, "{said}");
    assert_eq!(memwall(folder.path(), &["trace"]).status.code(), Some(2));
    if torch().is_some_and(|version| version >= (2, 1)) {
        let out = trace(folder.path(), &["--input", "x=int64[B,Q]"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("`Q` is no axis") && said.lines().count() == 1, "{said}");
        assert_eq!(out.status.code(), Some(2));
    }
}
