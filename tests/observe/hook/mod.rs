//! The PyTorch hook in real Python processes: with a stand-in for PyTorch wherever there is a
//! Python, and with PyTorch itself where that is installed (`MEMWALL_TEST_PYTHON` names another
//! Python than `python3`).

mod failures;
mod hostile;
mod listeners;
mod namespaces;
mod passes;
mod places;
mod rules;
mod running;
mod trainers;

use crate::support::memwall_with_all_signals;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use memwall::observe::hook::{Directory, HOOK, Listener};
use memwall::reading::{HookMemory, HookedRun, Moment};
use memwall::units::Bytes;

/// Nothing here takes as long.
const DEADLINE: Duration = Duration::from_secs(90);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hook")
}

/// The Python to test with; none, with a word about it, where there is none.
fn python(modules: &str) -> Option<OsString> {
    let python = std::env::var_os("MEMWALL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let works = Command::new(&python).args(["-c", modules]).stderr(Stdio::null()).status();
    if works.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    eprintln!("not run: {} cannot `{modules}`", python.to_string_lossy());
    None
}

/// A place where hooks and listeners meet, of this test alone.
struct Meeting {
    folder: tempfile::TempDir,
}

impl Meeting {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("memwall")
    }

    fn listen(&self) -> Listener {
        let path = self.path().into_os_string();
        let directory = Directory::open(|name| (name == "MEMWALL_HOOK_DIR").then(|| path.clone())).unwrap();
        Listener::bind(&directory).unwrap()
    }

    /// A command that meets others here.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        self.meet(Command::new(program))
    }

    /// The program with no signal ignored.
    fn interruptible(&self) -> Command {
        self.meet(memwall_with_all_signals())
    }

    fn meet(&self, mut command: Command) -> Command {
        command.env("MEMWALL_HOOK_DIR", self.path()).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("MEMWALL_HOOK");
        command.env("PYTHONPATH", folder().join("fake")).stdin(Stdio::null());
        command
    }

    /// `memwall run … -- python SCRIPT ARGUMENTS`.
    fn run(&self, python: &OsString, script: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_memwall"));
        command.args(["run", "--"]).arg(python).arg(folder().join(script)).args(arguments);
        command
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Listens until a run is as wanted.
fn hear(listener: &mut Listener, what: &str, wanted: impl Fn(&HookedRun) -> bool) -> HookedRun {
    let start = Instant::now();
    loop {
        if let Some(run) = listener.runs().iter().find(|run| wanted(run)) {
            return run.clone();
        }
        assert!(start.elapsed() < DEADLINE, "waited for {what}; heard {:?}", listener.runs());
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    }
}

#[test]
fn output_and_exit_status_are_the_commands_own() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let done = output(&mut meeting.run(&python, "train_fake.py", &["12", "0.01", "7"]));
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(text(&done.stdout), "trained 12 unmarked\n");
    let said = text(&done.stderr);
    // All of them, though messages come half a second apart.
    // Of a pipe nobody knows whether its last line was ended.
    assert!(said.starts_with("\nmemwall: the command ended with exit 7\nmemwall: 12 steps, "), "{said}");
    assert!(said.contains("15 parameters"), "{said}");
    let none = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--", "true"]));
    assert_eq!((none.status.code(), none.stdout.len()), (Some(0), 0));
    assert!(text(&none.stderr).contains("no optimizer step was observed"));
    let quiet = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--quiet", "--", "false"]));
    assert_eq!((quiet.status.code(), quiet.stderr.len()), (Some(1), 0));
    let program = meeting.folder.path().join("no-program").display().to_string();
    let missing = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).args(["run", "--", &program]));
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).starts_with(&format!("memwall: {program}: No such file")));
}

#[test]
fn a_dashboard_beside_it_hears_the_steps_and_the_modules() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let mut child = meeting.run(&python, "train_fake.py", &["400", "0.02", "0"]).stdout(Stdio::null()).spawn().unwrap();
    let run = hear(&mut listener, "a second message", |run| run.step.as_ref().is_some_and(|step| step.step > 1));
    let about = run.about.unwrap();
    assert_eq!((about.params, about.trainable, about.params_are_all), (15, 15, true));
    assert_eq!((about.param_bytes, about.optimizer.as_str()), (Bytes(60), "Optimizer"));
    let step = run.step.unwrap();
    assert_eq!(step.memory, HookMemory::Resident);
    assert!(step.step_time.value().unwrap().0 >= 0.02, "{:?}", step.step_time);
    let modules = run.modules.unwrap();
    // Six numbers of four bytes in the layer.
    assert_eq!((modules.saved, modules.by_allocator), (Bytes(24), false));
    let layer = modules.kinds.iter().find(|kind| kind.name == "layer").unwrap();
    assert_eq!((layer.class.as_str(), layer.saved, layer.params, layer.leaf), ("Layer", Bytes(24), 10, true));
    // Its end is none of the trainer's.
    drop(listener);
    let mut second = meeting.listen();
    hear(&mut second, "the run again", |run| run.step.is_some() && run.about.is_some() && run.modules.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn listeners_are_told_how_it_ended() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let done = output(&mut meeting.run(&python, "train_fake.py", &["9", "0", "3"]));
    assert_eq!(done.status.code(), Some(3));
    let run = hear(&mut listener, "its end", |run| run.end.as_ref().is_some_and(|end| end.code.is_some()));
    assert_eq!((run.step.unwrap().step, run.end.unwrap().words().as_deref()), (9, Some("exit 3")));
    // The exception that nobody caught, and what it says where memory ran out.
    let done = output(&mut meeting.run(&python, "train_fake.py", &["5", "0", "out-of-memory"]));
    assert_eq!(done.status.code(), Some(1));
    let failed = |run: &HookedRun| run.end.as_ref().is_some_and(|end| end.code == Some(1));
    let run = hear(&mut listener, "its failure", failed);
    let end = run.end.unwrap();
    assert_eq!((run.step.unwrap().step, end.words().as_deref()), (5, Some("OutOfMemoryError, exit 1")));
    assert_eq!(end.out_of_memory.unwrap().asked, Some(Bytes(2 << 30)));
    // Killed: it can say nothing itself.
    let child = meeting.run(&python, "train_fake.py", &["100000", "0.01", "0"]).spawn().unwrap();
    let run = hear(&mut listener, "a step of a third", |run| run.end.is_none() && run.step.is_some());
    assert!(Command::new("kill").args(["-KILL", &run.pid.to_string()]).status().unwrap().success());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(137));
    let killed = hear(&mut listener, "its end", |other| other.pid == run.pid && other.end.is_some());
    assert_eq!(killed.end.unwrap().words().as_deref(), Some("SIGKILL, exit 137"));
}

#[test]
fn training_goes_on_when_who_listened_has_gone() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let child = meeting.run(&python, "train_fake.py", &["150", "0.01", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    hear(&mut listener, "a step", |run| run.step.is_some());
    // A socket that nobody reads any more: its queue fills, then it is refused.
    let path = listener.path().to_owned();
    std::fs::rename(&path, path.with_file_name("kept.sock")).unwrap();
    drop(listener);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    assert_eq!(text(&done.stdout), "trained 150 unmarked\n");
}

#[test]
fn a_forked_rank_tells_its_steps_and_its_own_children_tell_none() {
    let Some(python) = python("import os; os.fork") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let child = meeting.run(&python, "train_forked.py", &[]).stdout(Stdio::piped()).spawn().unwrap();
    let steps = |run: &HookedRun| run.step.as_ref().is_some_and(|step| step.step > 40);
    let rank = hear(&mut listener, "steps of the forked rank", steps).pid;
    let done = child.wait_with_output().unwrap();
    assert_eq!(text(&done.stdout), format!("rank {rank}\n"));
    assert_eq!(listener.runs().iter().filter(|run| run.step.is_some()).count(), 1);
}

/// A thread that Python starts up while it takes itself down crashes the process: a short script's end waits for the hook's.
#[test]
fn a_script_ends_no_sooner_than_the_hooks_thread_has_begun() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let script = meeting.folder.path().join("script.py");
    let late = "import _thread, time\n\
                start = _thread.start_new_thread\n\
                def slow(run, rest):\n    time.sleep(0.3)\n    print('begun', flush=True)\n    run(*rest)\n\
                _thread.start_new_thread = lambda run, rest: start(slow, (run, rest))\n\
                exec(open(__import__('sys').argv.pop(1)).read())\n";
    std::fs::write(&script, late).unwrap();
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--"]).arg(&python).arg(&script).arg(folder().join("train_fake.py"));
    let done = output(command.args(["3", "0", "4"]));
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(4), "trained 3 unmarked\nbegun\n"));
}

#[test]
fn two_lines_in_the_script_do_the_same() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    let written = output(meeting.command(env!("CARGO_BIN_EXE_memwall")).arg("hook"));
    assert_eq!(text(&written.stdout), HOOK);
    let script = meeting.folder.path().join("script.py");
    let lines = "import memwall_hook\nmemwall_hook.install()\nexec(open(__import__('sys').argv.pop(1)).read())\n";
    std::fs::write(&script, lines).unwrap();
    std::fs::write(meeting.folder.path().join("memwall_hook.py"), HOOK).unwrap();
    let start = || {
        let mut command = meeting.command(&python);
        command.arg(&script).arg(folder().join("train_fake.py")).stdout(Stdio::piped());
        command
    };
    // Nobody listens, and there is no directory.
    let alone = output(start().args(["3", "0", "4"]));
    assert_eq!((alone.status.code(), text(&alone.stdout).as_str()), (Some(4), "trained 3 unmarked\n"));
    let mut listener = meeting.listen();
    let child = start().args(["60", "0.02", "0"]).spawn().unwrap();
    hear(&mut listener, "a step", |run| run.pid == child.id() && run.step.is_some());
    assert!(child.wait_with_output().unwrap().status.success());
    // A directory that others can enter is not spoken into.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(meeting.path(), open).unwrap();
    let heard = listener.runs().len();
    assert!(output(start().args(["3", "0", "0"])).status.success());
    listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    assert_eq!(listener.runs().len(), heard);
}

#[test]
fn a_sitecustomize_of_ones_own_still_has_its_turn() {
    let Some(python) = python("import sys") else { return };
    let meeting = Meeting::new();
    std::fs::write(meeting.folder.path().join("sitecustomize.py"), "import sys\nsys.marked = 'marked'\n").unwrap();
    let paths = std::env::join_paths([meeting.folder.path(), &folder().join("fake")]).unwrap();
    let done = output(meeting.run(&python, "train_fake.py", &["2", "0", "0"]).env("PYTHONPATH", paths));
    assert_eq!(text(&done.stdout), "trained 2 marked\n");
    assert!(text(&done.stderr).contains("15 parameters"), "{}", text(&done.stderr));
}

#[test]
fn signals_reach_the_command() {
    let meeting = Meeting::new();
    let script = "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = meeting.interruptible();
    let mut child = command.args(["run", "--quiet", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    signal(&child, "TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "caught");
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let mut command = meeting.interruptible();
    let script = "echo ready; exec sleep 1000";
    let mut child = command.args(["run", "--quiet", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    signal(&child, "INT");
    // 128 and SIGINT's 2, as a shell says it.
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn without_a_place_for_the_hook_the_command_runs_all_the_same() {
    let meeting = Meeting::new();
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    let file = meeting.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("a");
    let done = output(command.env("MEMWALL_HOOK_DIR", &below).args(["run", "--", "echo", "hello"]));
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), "hello\n"));
    assert!(text(&done.stderr).starts_with(&format!("memwall: runs without the hook: {}: ", below.display())));
}

#[test]
fn the_directory_is_private() {
    let meeting = Meeting::new();
    let listener = meeting.listen();
    assert_eq!(std::fs::metadata(meeting.path()).unwrap().mode() & 0o777, 0o700);
    assert!(listener.path().starts_with(meeting.path()));
}

#[test]
fn a_real_training_on_a_cpu() {
    let Some(python) = python("import torch") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let run = |hook: &str| {
        let mut command = meeting.run(&python, "train.py", &["60"]);
        // PyTorch itself, not its stand-in.
        command.env_remove("PYTHONPATH").env("MEMWALL_HOOK", hook).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let child = run("1").spawn().unwrap();
    let heard = hear(&mut listener, "a sampled step", |run| {
        run.modules.is_some() && run.step.as_ref().is_some_and(|step| step.step > 5)
    });
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let about = heard.about.unwrap();
    // 8 x 16 + 16 + 16 x 4 + 4 parameters of four bytes.
    assert_eq!((about.params, about.params_are_all, about.param_bytes), (212, true, Bytes(848)));
    assert_eq!((about.gradient_bytes, about.dtypes.as_slice()), (Bytes(848), &[("float32".to_owned(), 212)][..]));
    // Two moments of each, and a step count of four bytes for each of four tensors.
    assert_eq!(about.optimizer_state_bytes, Bytes(2 * 848 + 16));
    assert_eq!((about.optimizer.as_str(), about.model.as_deref()), ("AdamW", Some("Sequential")));
    let modules = heard.modules.unwrap();
    let saved = |name: &str| modules.kinds.iter().find(|kind| kind.name == name).map(|kind| kind.saved);
    // Sequential numbers its modules: the two linear layers are one kind apart from ReLU by class.
    let linear = modules.kinds.iter().find(|kind| kind.class == "Linear").unwrap();
    let relu = modules.kinds.iter().find(|kind| kind.class == "ReLU").unwrap();
    // The first layer keeps its input, 32 x 8 numbers; ReLU its output, 32 x 16, which the second layer shares.
    assert_eq!((linear.saved, relu.saved), (Bytes(1024), Bytes(2048)));
    assert_eq!((saved(""), modules.saved), (Some(Bytes(3072)), Bytes(3072)));
    assert_eq!((linear.count, linear.params, linear.shape.as_slice()), (2, 212, &[32, 8][..]));
    assert_eq!(relu.dtype.as_deref(), Some("float32"));
    // The hook changes nothing of what is computed.
    let without = output(&mut run("0"));
    assert_eq!(text(&done.stdout), text(&without.stdout));
    let said = text(&done.stderr);
    assert!(said.contains("212 parameters, AdamW on cpu"), "{said}");
    assert!(
        said.contains("one forward pass kept 3.00 KiB for its backward pass; modules, with what is in them:"),
        "{said}"
    );
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |words: [&str; 8]| rows.iter().any(|row| row[..] == words);
    assert!(row(["memwall:", "2.00", "KiB", "66.7", "%", "1", "ReLU", "*"]), "{said}");
    assert!(row(["memwall:", "1.00", "KiB", "33.3", "%", "2", "Linear", "*"]), "{said}");
}

/// DeepSpeed lays a model's parameters into one buffer: 60 + 40 elements of bf16 are 200 bytes. What its optimizer trains
/// in their place is in fp32: 100 x 4 bytes.
#[test]
fn parameters_in_one_buffer_are_counted_each() {
    const CHECK: &str = "
import sys, torch
hook = {'__name__': 'hook', '__file__': 'hook'}
exec(sys.stdin.read(), hook)
flat = torch.zeros(100, dtype=torch.bfloat16)
model = [torch.nn.Parameter(flat[:60]), torch.nn.Parameter(flat[60:])]
for parameter, part in zip(model, (flat[:60], flat[60:])):
    parameter.data = part
masters = [torch.nn.Parameter(torch.zeros(100))]
print(hook['_bytes'](model), hook['_bytes'](model + model), hook['_bytes'](hook['_masters'](model, masters)))
print(len(hook['_masters'](model, model)), len(hook['_masters'](masters, model)))
";
    let Some(python) = python("import torch") else { return };
    let mut command = Command::new(python);
    let mut child = command.args(["-c", CHECK]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), HOOK.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(text(&done.stdout), "200 200 400\n0 0\n");
}
