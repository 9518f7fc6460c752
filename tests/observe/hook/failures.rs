//! Ranks that end before the others do, and ranks that stand still: which is named at the end of the run, and what it did.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memwall::compare::late_steps;
use memwall::reading::{HookedRun, Moment};
use memwall::units::Seconds;

use super::{DEADLINE, Meeting, folder, output, python, signal, text};

/// A training of two ranks over gloo.
const RANKS: &str = "train_ranks.py";

fn gloo() -> Option<OsString> {
    python("import torch.distributed; assert torch.distributed.is_gloo_available()")
}

/// The line of the script with that mark.
fn line(mark: &str) -> String {
    let text = std::fs::read_to_string(folder().join(RANKS)).unwrap();
    let number = text.lines().position(|line| line.ends_with(&format!("# mark: {mark}"))).unwrap() + 1;
    format!("{RANKS}:{number}")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// `memwall run -- torchrun …` of that training.
fn torchrun(meeting: &Meeting, python: &OsString, options: &[&str], arguments: &[&str]) -> Command {
    let mut command = meeting.interruptible();
    command.args(["run", "--"]).arg(python).args([
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "2",
        // A port of its own: with --standalone all runs of PyTorch 1.13 meet at the same one.
        "--rdzv_backend",
        "c10d",
        "--rdzv_endpoint",
        &format!("127.0.0.1:{}", free_port()),
        // PyTorch 1.13 under Python 3.11 takes nothing to redirect for no answer at all.
        "--redirects",
        "1",
        "--tee",
        "1",
        "--log_dir",
    ]);
    command.arg(meeting.folder.path().join("logs"));
    command.args(options).arg(folder().join(RANKS)).args(arguments).env_remove("PYTHONPATH");
    command
}

/// What MemWall says of it.
fn said(stderr: &[u8]) -> Vec<String> {
    text(stderr).lines().filter_map(|line| line.strip_prefix("memwall: ")).map(str::to_owned).collect()
}

/// The line of a rank.
fn rank(said: &[String], rank: u32) -> &str {
    said.iter().find(|line| line.trim_start().starts_with(&format!("rank {rank}, process "))).unwrap()
}

/// Starts two ranks, and asks how they ended long after both have: a shell asks at once, and then nobody else can see it.
const LAUNCHER: &str = "\
import os, subprocess, sys, time
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, 'RANK': rank, 'WORLD_SIZE': '2'}) for rank in '01']
for rank in ranks:
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
time.sleep(1)
sys.exit(max(rank.wait() != 0 for rank in ranks))
";

#[test]
fn children_that_succeed_are_not_said_to_have_failed() {
    let Some(python) = python("import multiprocessing; multiprocessing.get_context('fork')") else { return };
    // Whether the children leave as they do by themselves or at once, and whether what comes behind them fails.
    for (leave, code) in [("return", 0), ("os._exit(0)", 0), ("return", 3), ("os._exit(0)", 3)] {
        let meeting = Meeting::new();
        let script = meeting.folder.path().join("script.py");
        let text = format!(
            "import multiprocessing, os, sys, time, torch\n\
             def train(rank):\n    os.environ['RANK'] = str(rank)\n    \
             optimizer = torch.optim.Optimizer([torch.Parameter(10)])\n    \
             for _ in range(20):\n        optimizer.step()\n        time.sleep(0.05)\n    {leave}\n\
             context = multiprocessing.get_context('fork')\n\
             ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]\n\
             [rank.start() for rank in ranks]\n[rank.join() for rank in ranks]\n\
             sys.exit({code})\n"
        );
        std::fs::write(&script, text).unwrap();
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        let done = output(command.args(["run", "--"]).arg(&python).arg(&script));
        let said = said(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{said:#?}");
        // One that leaves at once has no time to tell its last steps.
        let steps = if leave == "return" { ": 20 steps" } else { ": at least " };
        assert!([0, 1].iter().all(|one| rank(&said, *one).contains(steps)), "{leave} {code}: {said:#?}");
        for word in ["first", "failed", "without a word", "stood still"] {
            assert!(!said.iter().any(|line| line.contains(word)), "{leave} {code}: {said:#?}");
        }
    }
}

/// What stands behind each word of the process, and before any word of ours: its own last line has no end.
#[test]
fn how_one_process_ended_stands_on_a_line_of_its_own() {
    let Some(python) = python("import sys") else { return };
    let by_python = |end: &str| format!("the command ended with {end}");
    let silent = by_python("exit 3, without a word of Python's: os._exit, or a library that ended the process");
    for (end, traced, words) in [
        ("os._exit(3)", true, Some(silent)),
        ("sys.exit(4)", false, Some(by_python("exit 4"))),
        ("raise ValueError('a bad batch')", false, Some(by_python("ValueError, exit 1"))),
        ("sys.exit(0)", true, None),
    ] {
        let meeting = Meeting::new();
        let script = meeting.folder.path().join("script.py");
        let text = format!(
            "import os, sys, time, torch\noptimizer = torch.optim.Optimizer([torch.Parameter(10)])\n\
             for _ in range(30):\n    optimizer.step()\n    time.sleep(0.05)\n\
             print('why it ended', end='', flush=True)\n{end}\n"
        );
        std::fs::write(&script, text).unwrap();
        let both = meeting.folder.path().join("both");
        let file = std::fs::File::create(&both).unwrap();
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        let tape = meeting.folder.path().join("tape.json.gz");
        command.arg("run").args(traced.then(|| [OsString::from("--trace"), tape.into()]).into_iter().flatten());
        command.arg("--").arg(&python).arg(&script).stdout(file.try_clone().unwrap()).stderr(file);
        command.status().unwrap();
        let all = std::fs::read_to_string(&both).unwrap();
        assert!(all.contains("why it ended") && !all.contains("endedmemwall"), "{end}: {all}");
        let said = said(all.as_bytes());
        let told: Vec<&String> = said.iter().filter(|line| line.starts_with("the command ended")).collect();
        assert_eq!(told, words.iter().collect::<Vec<_>>(), "{end}: {all}");
    }
}

#[test]
fn a_forked_child_tells_the_exception_that_nobody_caught() {
    let Some(python) = python("import multiprocessing; multiprocessing.get_context('fork')") else { return };
    let meeting = Meeting::new();
    let script = meeting.folder.path().join("script.py");
    let text = "import multiprocessing, os, sys, time, torch\n\
                def train(rank):\n    os.environ['RANK'] = str(rank)\n    \
                optimizer = torch.optim.Optimizer([torch.Parameter(10)])\n    \
                for _ in range(10):\n        optimizer.step()\n        time.sleep(0.05)\n    \
                if rank == 1:\n        raise ValueError('a bad batch')\n    time.sleep(0.5)\n\
                context = multiprocessing.get_context('fork')\n\
                ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]\n\
                [rank.start() for rank in ranks]\n[rank.join() for rank in ranks]\nsys.exit(ranks[1].exitcode)\n";
    std::fs::write(&script, text).unwrap();
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    let said = said(&output(command.args(["run", "--"]).arg(&python).arg(&script)).stderr);
    assert!(rank(&said, 1).ends_with("; ended with ValueError"), "{said:#?}");
    assert!(!rank(&said, 0).contains("ended") && !said[0].contains("first"), "{said:#?}");
}

#[test]
fn the_rank_that_ended_first_is_named_before_its_victim() {
    let Some(python) = python("import sys") else { return };
    for (what, how) in [
        ("kill", "SIGKILL, exit 137 (by you, a scheduler, or for lack of memory: dmesg tells of the last)"),
        ("exit", "exit 7"),
        ("raise", "ValueError"),
    ] {
        let meeting = Meeting::new();
        let pipe = meeting.folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
        command.args(["run", "--"]).arg(&python).args(["-c", LAUNCHER]).arg(folder().join("train_peers.py"));
        let said = said(&output(command.arg(&pipe).arg(what)).stderr);
        assert_eq!(said[0], format!("rank 1 ended first: {how}; rank 0 failed after it: RuntimeError"), "{said:#?}");
        assert!(rank(&said, 0).ends_with("; ended with RuntimeError"), "{said:#?}");
        assert!(rank(&said, 1).ends_with(", the first to end"), "{said:#?}");
    }
}

#[test]
fn under_torchrun_the_rank_is_named_that_torchrun_calls_the_root_cause() {
    let Some(python) = gloo() else { return };
    for (what, how) in [("kill", "SIGKILL, exit 137"), ("exit", "exit 7"), ("raise", "ValueError"), ("early", "exit 5")]
    {
        let meeting = Meeting::new();
        let done = output(&mut torchrun(&meeting, &python, &[], &[what, "60"]));
        let said = said(&done.stderr);
        assert!(said[0].starts_with(&format!("rank 1 ended first: {how}")), "{what}: {}", text(&done.stderr));
    }
}

/// Ends with the test.
struct Group(std::process::Child);

impl Drop for Group {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            drop(Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status());
            drop(self.0.wait());
        }
    }
}

/// What is said of the end of a training that stands still, once that many processes have told so and it is asked to end.
fn stopped(command: &mut Command, meeting: &Meeting, ranks: usize, name: &str) -> Vec<String> {
    let mut listener = meeting.listen();
    std::os::unix::process::CommandExt::process_group(command, 0);
    let errors = meeting.folder.path().join("errors");
    let file = std::fs::File::create(&errors).unwrap();
    let mut group = Group(command.stdout(Stdio::null()).stderr(file).spawn().unwrap());
    let start = Instant::now();
    let stands = |run: &&HookedRun| run.places.as_ref().is_some_and(|places| places.stall.is_some());
    while listener.runs().iter().filter(stands).count() < ranks {
        assert!(start.elapsed() < DEADLINE, "nobody stands still: {:?}", listener.runs());
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    }
    signal(&group.0, name);
    drop(group.0.wait());
    said(&std::fs::read(Path::new(&errors)).unwrap())
}

#[test]
fn a_run_that_stood_still_says_where() {
    let Some(python) = gloo() else { return };
    for name in ["TERM", "INT"] {
        let meeting = Meeting::new();
        let said = stopped(&mut torchrun(&meeting, &python, &[], &["stand", "60"]), &meeting, 2, name);
        assert!(said[0].starts_with("stood still for the last "), "{name}: {said:#?}");
        assert!(said[0].contains("rank 1 has not come: ") && said[0].contains(&line("stand")), "{said:#?}");
        assert!(said[0].ends_with(&format!("; rank 0 waits, {}", line("waits"))), "{said:#?}");
        assert!(!said.iter().any(|line| line.contains("ended first")), "{said:#?}");
    }
}

#[test]
fn a_rank_that_is_late_in_every_second_step_is_named_with_its_line() {
    let Some(python) = gloo() else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let mut command = torchrun(&meeting, &python, &[], &["late", "120"]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let errors = meeting.folder.path().join("errors");
    let mut group =
        Group(command.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap());
    let mut named = None;
    while group.0.try_wait().unwrap().is_none() {
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
        // The other rank waits for it, and tells where it waits.
        let late = |run: &&HookedRun| run.about.as_ref().is_some_and(|about| about.rank == Some(1));
        let places = listener.runs().iter().filter(late).filter_map(|run| run.places.as_ref());
        let mut causes = places.filter_map(|places| Some((late_steps(places, Seconds(0.0))?.words, places.late_steps)));
        named = named.or_else(|| causes.next());
    }
    let (words, late) = named.unwrap();
    assert!(words.contains(&line("late")) && late <= 20, "{words} after {late}");
    let said = said(&std::fs::read(errors).unwrap());
    let last = said.last().unwrap();
    assert!(last.starts_with("rank 1: late steps: ") && last.contains(&line("late")), "{said:#?}");
}
