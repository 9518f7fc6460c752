//! `memwall bench --cpu` in a real Python: the machine is measured, a plan for it predicted, the plan's run observed and
//! compared; a plan that is wrong on purpose gets its cause named (`MEMWALL_TEST_PYTHON` names another Python than `python3`).

use std::path::Path;
use std::process::{Command, Output};

fn python() -> String {
    std::env::var("MEMWALL_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

fn has_torch() -> bool {
    let found = Command::new(python()).args(["-c", "import torch"]).output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("not run: {} has no torch", python());
    }
    found
}

fn memwall(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.join("config")).env("NO_COLOR", "1");
    command.env("OMP_NUM_THREADS", "1").env("MEMWALL_HOOK_DIR", folder.join("hook")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PLAN: &str = "
model: {preset: gpt2, batch_size: 1, sequence_length: 64}
training: {precision: fp32, attention: eager, dropout: 0.0}
hardware: {gpu_type: cpu}
";

#[test]
fn a_cpu_that_was_measured_can_be_planned_for() {
    if !has_torch() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.yaml"), PLAN).unwrap();
    let before = memwall(folder.path(), &["predict", "plan.yaml"]);
    assert_eq!(before.status.code(), Some(2));
    assert!(text(&before.stderr).contains("memwall bench --cpu"), "{}", text(&before.stderr));

    let bench = memwall(folder.path(), &["bench", "--cpu", "--time", "3s", "--python", &python()]);
    assert!(bench.status.success(), "{}{}", text(&bench.stdout), text(&bench.stderr));
    assert!(text(&bench.stdout).contains("CPU: measured on this machine"), "{}", text(&bench.stdout));
    let file = std::fs::read_to_string(folder.path().join("config/memwall/efficiency.yaml")).unwrap();
    assert!(file.starts_with("# Measured by `memwall bench`"), "{file}");

    let after = memwall(folder.path(), &["predict", "plan.yaml", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&after.stdout).unwrap();
    let assumptions = report["assumptions"].to_string();
    assert!(assumptions.contains("measured on this machine"), "{assumptions}");
    assert!(!report.to_string().contains("CUDA context"), "a CPU has none");
    assert!(report.to_string().contains("Python and its libraries"));

    let wrong = PLAN.replace("precision: fp32", "precision: fp16");
    std::fs::write(folder.path().join("wrong.yaml"), wrong).unwrap();
    let refused = memwall(folder.path(), &["predict", "wrong.yaml"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("training.precision"), "{}", text(&refused.stderr));
}

#[test]
fn a_gpu_is_never_measured_unasked_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    // No driver here tells who is on the GPU, so that nothing is started.
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let nowhere = folder.path().join("no-library.so");
    command.env("MEMWALL_NVML_LIB", &nowhere).env("MEMWALL_SYS_ROOT", folder.path());
    let out = command.args(["bench", "--python", "/nowhere/python"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let told = text(&out.stderr);
    assert!(told.contains("--shared") && !told.contains("/nowhere/python"), "{told}");
}

/// A program named `python3` that finds no module.
#[test]
fn a_python_without_pytorch_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("python3");
    // None that is written here: another test's process that is just started may have it open, and nobody could run it.
    std::os::unix::fs::symlink("/bin/false", &program).unwrap();
    let bench = memwall(folder.path(), &["bench", "--cpu", "--python", program.to_str().unwrap()]);
    let said = text(&bench.stderr);
    assert_eq!((bench.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("it has no PyTorch") && said.contains("--python"), "{said}");
}
