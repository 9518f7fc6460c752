//! The training comes first: its signals, its exit status, and what of ours may be broken.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::standin::wait_for;

use super::{Meeting, hear, output, python, signal, text};

/// Signals by number, as `/proc/PID/status` counts them: HUP 1, USR1 10.
const HUP_AND_USR1: u64 = 0x201;

/// What a `memwall run` of a script says on its standard output, line by line.
fn started(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    lines.next().unwrap().unwrap()
}

/// The hexadecimal mask of that name in a `/proc/PID/status`.
fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let meeting = Meeting::new();
    // What nohup does, and a script's trap.
    let script = "trap '' HUP USR1; exec \"$0\" run --quiet -- cat /proc/self/status";
    let done = output(meeting.command("sh").args(["-c", script, env!("CARGO_BIN_EXE_memwall")]));
    assert_eq!(mask(&text(&done.stdout), "SigIgn") & HUP_AND_USR1, HUP_AND_USR1);
    // Nothing is ignored that was not: of these tests themselves, where they run under nohup.
    let own = mask(&std::fs::read_to_string("/proc/self/status").unwrap(), "SigIgn");
    let done = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args([
        "run",
        "--quiet",
        "--",
        "cat",
        "/proc/self/status",
    ]));
    assert_eq!(mask(&text(&done.stdout), "SigIgn") & HUP_AND_USR1, own & HUP_AND_USR1);
}

#[test]
fn a_recording_under_nohup_survives_the_logout() {
    let meeting = Meeting::new();
    let file = meeting.folder.path().join("run.ndjson");
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/plans/13b_long_sequence.yaml");
    let script = "trap '' HUP; exec \"$0\" record \"$2\" --source demo --interval 100ms --output \"$1\"";
    let mut command = meeting.command("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_memwall")]).args([&file, &plan]).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let samples = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    wait_for("two lines", || samples() >= 2);
    signal(&child, "HUP");
    let before = samples();
    wait_for("more lines after the hangup", || samples() > before + 3);
    signal(&child, "TERM");
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && text(&done.stdout).starts_with("recorded "), "{done:?}");
}

#[test]
fn a_signal_to_the_group_reaches_the_command_once() {
    let meeting = Meeting::new();
    for name in ["TERM", "USR1", "HUP", "INT"] {
        let script =
            format!("trap 'echo got' {name}; trap 'echo end; exit 3' USR2; echo ready; while :; do sleep 0.05; done");
        let mut command = meeting.interruptible();
        command.args(["run", "--quiet", "--", "sh", "-c", &script]).process_group(0);
        let (mut child, mut lines) = started(&mut command);
        assert_eq!(line(&mut lines), "ready");
        let group = format!("-{}", child.id());
        assert!(Command::new("kill").args([&format!("-{name}"), "--", &group]).status().unwrap().success());
        assert_eq!(line(&mut lines), "got", "{name}");
        // One that is sent to the program alone is passed on, after whatever else it had to pass on.
        signal(&child, "USR2");
        assert_eq!(line(&mut lines), "end", "{name} a second time");
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn what_cannot_be_run_exits_as_a_shell_has_it() {
    let meeting = Meeting::new();
    let script = meeting.folder.path().join("script");
    let run = || output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--"]).arg(&script));
    let code = || run().status.code();
    assert_eq!(code(), Some(127));
    assert!(text(&run().stderr).starts_with(&format!("memwall: {}: No such file", script.display())));
    std::fs::write(&script, "echo $0 by a shell; exit 5\n").unwrap();
    assert_eq!(code(), Some(126), "not executable");
    assert_eq!(
        output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--", "/"])).status.code(),
        Some(126)
    );
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    // Without `#!` it is the shell's: execvp(3).
    assert_eq!(code(), Some(5));
}

#[test]
fn the_summary_names_every_process() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let train = super::folder().join("train_fake.py");
    let script =
        "RANK=0 WORLD_SIZE=2 \"$0\" \"$1\" 12 0.1 0 & RANK=1 WORLD_SIZE=2 \"$0\" \"$1\" 5 0.3 out-of-memory; wait";
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    let plan = meeting.folder.path().join("plan.yaml");
    std::fs::write(&plan, "model: {preset: gpt2, batch_size: 8}\ncluster: {num_gpus: 1}\n").unwrap();
    command.arg("run").arg("--plan").arg(&plan).args(["--", "sh", "-c", script]).arg(python).arg(train);
    let said = text(&output(&mut command).stderr);
    // Another model is no reason to leave out what else differs.
    let other =
        "not as planned: another model: Model of 15 parameters, the plan has 124 M; the run has 2 ranks, the plan 1";
    assert!(said.contains(other), "{said}");
    // As CUDACachingAllocator words it: 2 GiB asked, 1 GiB free.
    assert!(
        said.contains("memwall: CUDA out of memory on GPU 0: 1.00 GiB short (2.00 GiB asked, 1.00 GiB free)"),
        "{said}"
    );
    let helps = format!("memwall: memwall explain LOG --plan {} says what helps", plan.display());
    assert!(said.contains(&helps), "{said}");
    let process = |rank: u32| {
        said.lines().find(|line| line.starts_with(&format!("memwall:   rank {rank}, process "))).map(str::to_owned)
    };
    let (first, second) = (process(0).expect(&said), process(1).expect(&said));
    assert!(first.contains(": 12 steps") && first.contains("resident at most") && !first.contains("ended"), "{first}");
    assert!(second.contains(": 5 steps") && second.ends_with("; ended with OutOfMemoryError"), "{second}");
}

/// Six numbers to a layer and five beside it: 15 parameters, of a plan of 124 439 808.
#[test]
fn a_recording_of_a_run_on_the_cpu_tells_its_steps_and_says_what_the_live_look_says() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let place = meeting.folder.path();
    let (plan, file) = (place.join("plan.yaml"), place.join("run.ndjson"));
    std::fs::write(&plan, "model: {preset: gpt2, batch_size: 8}\n").unwrap();
    let mut child = meeting
        .run(&python, "train_fake.py", &["4000", "0.02", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let run = hear(&mut listener, "its modules", |run| run.modules.is_some() && run.step.is_some());
    let memwall = |arguments: &[&str]| {
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        command.env("MEMWALL_NVML_LIB", "/nowhere/libnvidia-ml.so").env("MEMWALL_SYS_ROOT", "/nowhere");
        let done = output(command.args(arguments).current_dir(place));
        assert!(done.status.success(), "{done:?}");
        text(&done.stdout)
    };
    let pid = run.pid.to_string();
    let record =
        ["record", "plan.yaml", "-o", "run.ndjson", "--attach", &pid, "--duration", "10s", "--interval", "200ms"];
    memwall(&record);
    let live = memwall(&["plan.yaml", "--once", "--attach", &pid]);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(Command::new("kill").args(["-KILL", &pid]).status());
    let summary = memwall(&["replay", "run.ndjson"]);
    let told = |name: &str| summary.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(told("run ").contains(&format!("PID {pid}")), "{summary}");
    assert!(told("steps ").contains(" to ") && told("steps ").contains(" each (mean, "), "{summary}");
    assert!(told("resident ").contains(" MiB mean, "), "{summary}");
    let replayed = memwall(&["--once", "--source", &format!("replay:{}", file.display())]);
    let words =
        "why      another model: Model of 15 parameters, the plan has 124 M; the run is on the CPU, the plan for";
    for said in [&live, &replayed] {
        assert!(
            said.contains("verdict  OTHER MODEL") && said.contains(words) && said.contains("steps    step "),
            "{said}"
        );
    }
}

#[test]
fn a_broken_file_of_ours_is_a_line_and_the_command_runs() {
    let meeting = Meeting::new();
    let config = meeting.folder.path().join("config");
    let ours = config.join("memwall");
    std::fs::create_dir_all(&ours).unwrap();
    let run = || {
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        output(command.env("XDG_CONFIG_HOME", &config).args(["run", "--quiet", "--", "echo", "trained"]))
    };
    type Break<'a> = (&'a str, &'a dyn Fn(&Path));
    let breaks: [Break<'_>; 4] = [
        ("not YAML", &|file| std::fs::write(file, "gpus: [").unwrap()),
        ("a wrong key", &|file| std::fs::write(file, "models: 3").unwrap()),
        ("no end", &|file| std::os::unix::fs::symlink("/dev/zero", file).unwrap()),
        ("nobody writes", &|file| assert!(Command::new("mkfifo").arg(file).status().unwrap().success())),
    ];
    for name in ["gpus.yaml", "models.yaml", "efficiency.yaml", "keys.yaml"] {
        for (what, break_it) in &breaks {
            break_it(&ours.join(name));
            let done = run();
            let said = text(&done.stderr);
            assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), "trained\n"), "{name}: {what}");
            // Keys are the dashboard's.
            let lines = if name == "keys.yaml" { 0 } else { 1 };
            assert_eq!((said.lines().count(), said.contains(name)), (lines, lines == 1), "{name}: {what}: {said}");
            std::fs::remove_file(ours.join(name)).unwrap();
        }
    }
    // A plan that is none.
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    let done = output(command.args(["run", "--quiet", "--plan", "/nonexistent/plan.yaml", "--", "echo", "trained"]));
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), "trained\n"));
    assert!(text(&done.stderr).contains("memwall: runs without the plan"), "{}", text(&done.stderr));
}

#[test]
fn another_users_runtime_directory_is_none_for_root() {
    let meeting = Meeting::new();
    let runtime = meeting.folder.path().join("1000");
    std::fs::create_dir(&runtime).unwrap();
    // Only root can give a directory away, as `sudo -E` finds it.
    if std::os::unix::fs::chown(&runtime, Some(1000), Some(1000)).is_err() {
        eprintln!("not run: this user is not root");
        return;
    }
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    command.env_remove("MEMWALL_HOOK_DIR").env("XDG_RUNTIME_DIR", &runtime);
    let done = output(command.args(["run", "--quiet", "--", "sh", "-c", "echo $PYTHONPATH"]));
    assert!(!text(&done.stdout).contains("/1000/"), "{}", text(&done.stdout));
    assert!(std::fs::read_dir(&runtime).unwrap().next().is_none());
}

/// What a run prints of its loss into a pipe, where nobody else reads it: in one piece or in several, behind a bar, and on
/// both outputs. What it prints arrives as it is.
#[test]
fn a_loss_that_turns_nan_is_told_where_it_is_only_printed() {
    let Some(python) = python("import sys") else { return };
    let by_step = "the loss turned NaN at step 1 006";
    for (says, lost, told) in [
        ("print(f'step {1000 + step} loss {loss}')", "step >= 6", Some(by_step)),
        ("print('step', 1000 + step, 'loss', loss)", "step >= 6", Some(by_step)),
        (
            "print({'loss': loss, 'epoch': 0.5}, file=sys.stderr)",
            "step >= 6",
            Some("the loss turned NaN after 6 optimizer steps"),
        ),
        (
            "sys.stderr.write(f'\\rEpoch 1, loss={loss}')",
            "step >= 6",
            Some("the loss turned NaN after 6 optimizer steps"),
        ),
        (
            "print(f'[1/5][{step}/12] Loss_D: {loss} Loss_G: 0.5')",
            "step >= 6",
            Some("the loss turned NaN after 6 optimizer steps"),
        ),
        // A batch that was skipped, and what is no loss.
        ("print(f'step {1000 + step} loss {loss}')", "step == 6", None),
        ("print(f'step {1000 + step} accuracy {loss}, loss scale nan')", "step >= 6", None),
    ] {
        let meeting = Meeting::new();
        let script = meeting.folder.path().join("script.py");
        let text_of_it = format!(
            "import sys, torch\noptimizer = torch.optim.Optimizer([torch.Parameter(10)])\n\
             for step in range(1, 13):\n    optimizer.step()\n    loss = float('nan') if {lost} else 2.5\n    {says}\n\
             print('done')\n"
        );
        std::fs::write(&script, text_of_it).unwrap();
        let done = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--"]).arg(&python).arg(&script));
        let said = text(&done.stderr);
        let found = said.lines().find(|line| line.starts_with("memwall: the loss"));
        assert_eq!(found, told.map(|told| format!("memwall: {told}")).as_deref(), "{says}: {said}");
        assert!(text(&done.stdout).ends_with("done\n"), "{says}");
        let lines = format!("{}{said}", text(&done.stdout)).matches(['\n', '\r']).count();
        assert!(lines >= 13, "{says}: {lines} lines");
    }
}
