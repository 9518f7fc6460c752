//! A training in a PID namespace of its own, as in a container: seen from outside it has another number.

use std::process::Stdio;

use memwall::reading::HookedRun;

use super::{Meeting, folder, hear, output, python, text};

/// The numbers that a process here has in each namespace, its own last.
fn numbers(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default().to_owned();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn a_training_in_a_namespace_of_its_own_is_known_by_its_number_here() {
    const APART: [&str; 7] =
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    if !meeting.command(APART[0]).args(&APART[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("no PID namespace is to be had here");
        return;
    }
    let mut listener = meeting.listen();
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    command
        .args(["run", "--"])
        .args(APART)
        .arg(python)
        .arg(folder().join("train_fake.py"))
        .args(["100000", "0.01", "0"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let run = hear(&mut listener, "its steps", |run| run.about.is_some() && run.step.is_some());
    // It calls itself 1.
    assert_eq!((numbers(run.pid).first(), numbers(run.pid).last()), (Some(&run.pid), Some(&1)), "{run:?}");
    let mut attached = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    let said = text(&output(attached.args(["--once", "--attach", &run.pid.to_string()])).stdout);
    assert!(said.contains("15 parameters") && said.contains(&format!("PID {}", run.pid)), "{said}");
    // What came meanwhile is taken: a full queue takes no end.
    let later = run.step.as_ref().map_or(0, |step| step.step) + 100;
    hear(&mut listener, "later steps", |run| run.step.as_ref().is_some_and(|step| step.step > later));
    let ended = std::process::Command::new("kill").args(["-KILL", &run.pid.to_string()]).status();
    assert!(ended.unwrap().success());
    let is_told = |other: &HookedRun| other.pid == run.pid && other.end.as_ref().is_some_and(|end| end.code.is_some());
    hear(&mut listener, "its end", is_told);
    let done = child.wait_with_output().unwrap();
    assert!(text(&done.stderr).contains("15 parameters"), "{}", text(&done.stderr));
    assert_eq!(listener.runs().len(), 1, "{:?}", listener.runs());
}
