//! `memwall trace` in a real Python: a small model of one's own is traced and predicted, or one line says what is missing
//! (`MEMWALL_TEST_PYTHON` names another Python than `python3`).

use std::path::Path;
use std::process::{Command, Output};

/// Two blocks between an embedding and a head.
pub const MODEL: &str = "
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

pub fn memwall(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder).env("NO_COLOR", "1").args(arguments).output().unwrap()
}

pub fn python() -> String {
    std::env::var("MEMWALL_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// PyTorch's version there.
pub fn torch() -> Option<(u32, u32)> {
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

/// A table of 100 positions: the lengths at which others are traced are too long for it, and 100 is the most that is found. And a
/// loop over samples: `--batch` names the batch.
#[test]
fn a_model_is_traced_at_sizes_that_it_takes() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "
import torch
from torch import nn

class Short(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(50, 16), nn.Parameter(torch.zeros(100, 16)), nn.Linear(16, 50)

    def forward(self, ids):
        x = self.words(ids)
        return self.head(x + self.places[:ids.size(1)])

class Each(Short):
    def forward(self, ids):
        return torch.stack([super(Each, self).forward(one[None])[0] for one in ids])
";
    std::fs::write(folder.path().join("short.py"), text).unwrap();
    let python = python();
    let traced = |class: &str, batch: &[&str]| {
        let target = format!("short.py:{class}");
        let own = ["trace", &target, "--input", "int64[B,S]", "--python", &python];
        let out = memwall(folder.path(), &[&own, batch].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        said
    };
    assert!(traced("Short", &[]).contains("traced with 100 tokens at most"));
    traced("Each", &["--batch", "5"]);
    let predicted = |batch: u32| {
        let plan = format!(
            "model: {{trace: model.tape.json.gz, sequence_length: 48}}\ntraining: {{micro_batch_size: {batch}}}\n"
        );
        std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
        memwall(folder.path(), &["predict", "plan.yaml"])
    };
    assert!(predicted(5).status.success());
    let refused = predicted(4);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the trace holds for 5 alone"), "{said}");
}

/// A script that answers: the first call without gradients of the class that is named, though another model is called
/// before.
#[test]
fn the_forward_pass_of_a_script_is_traced() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("net.py"), MODEL).unwrap();
    let script = "
import torch
from torch import nn
from net import make_model

class Answering(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = make_model()

    def forward(self, ids):
        return self.net(ids)[:, -1:]

other, model = nn.Linear(8, 8).eval(), Answering().eval()
with torch.no_grad():
    other(torch.zeros(2, 8))
    model(torch.zeros(5, 48, dtype=torch.int64))
";
    std::fs::write(folder.path().join("answer.py"), script).unwrap();
    let python = python();
    let traced = |named: &[&str]| {
        let how = [&["trace", "--forward", "--cpu", "--quiet"], named, &["--", &python, "answer.py"]].concat();
        memwall(folder.path(), &how)
    };
    let said = |out: &Output| String::from_utf8_lossy(&out.stderr).into_owned();
    let predicted = || {
        let plan = "model: {trace: model.tape.json.gz}\ntraining: {precision: fp32}";
        std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
        let out = memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"]);
        assert!(out.status.success(), "{}", said(&out));
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()
    };
    let out = traced(&[]);
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(predicted()["params"]["total"], 8 * 8 + 8);
    let out = traced(&["--class", "Answering"]);
    assert!(out.status.success(), "{}", said(&out));
    // As above: the whole model, and 240 tokens through its matrices once.
    let report = predicted();
    assert_eq!(report["params"]["total"], 3200 + 6 * (64 + 2048 + 64 + 2048 + 32) + 3300);
    assert_eq!(report["flops"]["forward"], 2.0 * 240.0 * (6.0 * 4096.0 + 3200.0));
    assert_eq!(report["flops"]["backward"], 0);
    let out = traced(&["--class", "Missing"]);
    assert!(said(&out).contains("without a pass without gradients of `Missing`"), "{}", said(&out));
    // What a GPU would do is not seen where the script asks for none.
    let out = memwall(folder.path(), &["trace", "--forward", "--quiet", "--", &python, "answer.py"]);
    assert!(out.status.success() || said(&out).contains("on the host's processor"), "{}", said(&out));
}

/// Lengths are padded to whole windows of 100: 128, 192, 256 and 320 tokens take 200, 200, 300 and 400. No polynomial goes
/// through that, though one with a term more than there are lengths would.
#[test]
fn sizes_that_grow_in_steps_hold_at_one_length() {
    if torch().is_none_or(|version| version < (2, 1)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // It is made twice: of the second one Python's collector sees all that the first one has left.
    let model = "
import gc
from torch import nn
from torch.nn.functional import pad

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        assert gc.get_freeze_count() == 0, 'frozen'
        self.words, self.mix = nn.Embedding(100, 32), nn.Linear(32, 32)

    def forward(self, ids):
        return self.mix(pad(self.words(ids), (0, 0, 0, -ids.shape[1] % 100)))
";
    std::fs::write(folder.path().join("net.py"), model).unwrap();
    let python = python();
    let how = ["trace", "net.py:Net", "--input", "int64[B,S]", "--python", &python];
    let out = memwall(folder.path(), &how);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains("traced with 256 tokens alone; --length names another"), "{said}");
    let predicted = |length: u32| {
        let plan = format!(
            "model: {{trace: model.tape.json.gz, sequence_length: {length}}}\ntraining: {{precision: fp32, micro_batch_size: 7}}\n"
        );
        std::fs::write(folder.path().join("plan.yaml"), plan).unwrap();
        memwall(folder.path(), &["predict", "--format", "json", "plan.yaml"])
    };
    let report: serde_json::Value = serde_json::from_slice(&predicted(256).stdout).unwrap();
    // 7 rows of 300 padded tokens through a matrix of 32 x 32, two operations each.
    assert_eq!(report["flops"]["forward"], 2.0 * 7.0 * 300.0 * 32.0 * 32.0);
    assert!(!predicted(512).status.success());
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

/// All families of the catalogue, where transformers is installed: `cargo test … -- --ignored` takes half an hour for what
/// `truth/traced/known.jsonl` holds.
fn families(take: impl Fn(&str) -> bool) {
    let transformers =
        Command::new(python()).args(["-c", "import transformers"]).stderr(std::process::Stdio::null()).status();
    if torch().is_none_or(|version| version < (2, 1)) || !transformers.is_ok_and(|status| status.success()) {
        eprintln!("not run: {} has no PyTorch 2.1 with transformers", python());
        return;
    }
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth/traced/known.jsonl");
    for case in std::fs::read_to_string(cases).unwrap().lines().filter(|case| case.contains("-fp32\"")) {
        let case: serde_json::Value = serde_json::from_str(case).unwrap();
        let config = &case["plan"]["model"]["hf_config"];
        if !take(config["model_type"].as_str().unwrap()) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let out =
            memwall(folder.path(), &["validate", "--traced", "config.json", "--format", "json", "--python", &python()]);
        assert!(out.status.success(), "{}: {}", case["id"], String::from_utf8_lossy(&out.stderr));
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        for row in report["rows"].as_array().unwrap() {
            let most = match row["quantity"].as_str().unwrap() {
                "params" | "trainable_params" => 0.0,
                "flops_forward" | "flops_backward" => 0.5,
                _ => 5.0,
            };
            assert!(row["error_pct"].as_f64().unwrap().abs() <= most, "{row}");
        }
    }
}

#[test]
fn the_catalogue_is_checked_by_pytorch() {
    families(|kind| ["llama", "bert", "gpt2"].contains(&kind));
}

#[test]
#[ignore = "takes half an hour: every family"]
fn every_family_of_the_catalogue_is_checked_by_pytorch() {
    families(|_| true);
}

#[test]
fn what_cannot_be_checked_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let out = memwall(folder.path(), &["validate", "--traced", "config.json", "--python", "/no/such/python"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("/no/such/python: there is no such program: --python names the Python that has PyTorch"),
        "{said}"
    );
}
