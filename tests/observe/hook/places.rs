//! Steps of a real training that are made late on purpose: the line that does it is named, and none while all is well.

use std::ffi::OsString;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use memwall::compare::{StalledRank, late_steps, stalled};
use memwall::observe::hook::{HOOK, Listener};
use memwall::reading::{HookedRun, Moment, StepCause};
use memwall::units::Seconds;

use super::{DEADLINE, Meeting, folder, python};

/// Every fifth step is late in it.
const SCRIPT: &str = "train_late.py";

/// The same where the loop is a library's.
const OF_A_LIBRARY: &str = "train_library.py";

/// The last late step by which a place is named while many tests share the processors; alone it takes ten.
const NAMED_BY: u64 = 20;

fn script(mark: &str) -> &'static str {
    if mark == "library" { OF_A_LIBRARY } else { SCRIPT }
}

/// The line of the script with that mark.
fn line(mark: &str) -> String {
    let script = script(mark);
    let text = std::fs::read_to_string(folder().join(script)).unwrap();
    let number = text.lines().position(|line| line.ends_with(&format!("# mark: {mark}"))).unwrap() + 1;
    format!("{script}:{number}")
}

/// Ends with the test.
struct Training(Child);

impl Training {
    fn start(meeting: &Meeting, python: &OsString, arguments: &[&str]) -> Self {
        let mut command = meeting.run(python, script(arguments[0]), arguments);
        // PyTorch itself, not its stand-in.
        Self(command.env_remove("PYTHONPATH").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        if !self.is_over() {
            // Passed on by `memwall run`.
            drop(Command::new("kill").arg(self.0.id().to_string()).status());
        }
        drop(self.0.wait());
    }
}

/// What was named first, and how many steps had been late by then.
fn first_named(python: &OsString, what: &str, steps: &str) -> Option<(StepCause, u64)> {
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let mut training = Training::start(&meeting, python, &[what, steps]);
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        let over = training.is_over();
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
        let places = listener.runs().iter().find_map(|run| run.places.as_ref());
        if let Some((cause, places)) = places.and_then(|places| Some((late_steps(places, Seconds(0.0))?, places))) {
            return Some((cause, places.late_steps));
        }
        if over {
            return None;
        }
    }
    panic!("{what}: no end in {DEADLINE:?}");
}

/// One at a time: each makes steps late for the others.
static ALONE: Mutex<()> = Mutex::new(());

/// No wrong line in any training, and the right one soon in one of four: the machine's other work makes steps late as well.
fn is_named(what: &str) {
    let Some(python) = python("import torch") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut others = Vec::new();
    for _ in 0..4 {
        let named = first_named(&python, what, "400");
        if let Some((cause, late)) = &named {
            // A larger batch takes its time in both passes: which takes more is the processor's.
            let backward = what == "batch" && cause.words.starts_with("loss.backward");
            assert!(backward || cause.words.contains(&line(what)), "{what}: {cause:?}");
            // 0.15 s and more in each five steps of some 0.02 s, without the seconds until the message.
            if *late <= NAMED_BY && cause.lost.is_some_and(|lost| lost.0 > 0.1) {
                return;
            }
        }
        others.push(named);
    }
    panic!("{what}: in no training within {NAMED_BY} late steps: {others:?}");
}

#[test]
fn a_slow_loader_is_named() {
    is_named("data");
}

#[test]
fn a_slow_data_set_in_a_librarys_loop_is_named() {
    is_named("library");
}

#[test]
fn a_loop_that_waits_for_single_values_is_named() {
    is_named("synchronization");
}

#[test]
fn a_checkpoint_is_named() {
    is_named("checkpoint");
}

#[test]
fn an_evaluation_is_named() {
    is_named("evaluation");
}

#[test]
fn a_collection_of_garbage_is_named() {
    is_named("gc");
}

#[test]
fn a_slow_function_of_the_script_is_named() {
    is_named("code");
}

#[test]
fn a_larger_batch_is_named() {
    is_named("batch");
}

#[test]
fn nothing_is_named_while_all_is_well() {
    let Some(python) = python("import torch") else { return };
    assert_eq!(first_named(&python, "healthy", "1000"), None);
}

/// What is said of a rank, once two of them are stalled.
fn said(listener: &mut Listener, rank: u32) -> String {
    let start = Instant::now();
    let is_stalled = |run: &&HookedRun| run.places.as_ref().is_some_and(|places| places.stall.is_some());
    while listener.runs().iter().filter(is_stalled).count() < 2 {
        assert!(start.elapsed() < DEADLINE, "no stall: {:?}", listener.runs());
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    }
    let ranks: Vec<StalledRank<'_>> = listener
        .runs()
        .iter()
        .filter_map(|run| run.places.as_ref())
        .map(|places| StalledRank { rank: places.rank, places, has_ended: false, age: Seconds(0.0) })
        .collect();
    let own = ranks.iter().find(|known| known.rank == Some(rank)).unwrap();
    stalled(own, &ranks).unwrap().words
}

#[test]
fn a_hung_collective_names_who_has_not_come_and_where() {
    let Some(python) = python("import torch.distributed; assert torch.distributed.is_gloo_available()")
        .or_else(|| python("import torch; assert torch.distributed.is_available()"))
    else {
        return;
    };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let script = "for rank in 0 1; do RANK=$rank \"$0\" \"$1\" collective 1000 & done; wait";
    let mut command = meeting.command(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--", "sh", "-c", script]).arg(&python).arg(folder().join(SCRIPT));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port).env("WORLD_SIZE", "2");
    command.env_remove("PYTHONPATH").stdout(Stdio::null()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().unwrap();
    let words = [0, 1].map(|rank| said(&mut listener, rank));
    // The shell and both ranks.
    drop(Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status());
    drop(child.wait());
    for words in words {
        assert!(words.starts_with("all_reduce: rank 1 has not come: "), "{words}");
        assert!(words.contains(&line("absent")) && words.contains(&line("collective")), "{words}");
    }
}

#[test]
fn the_sampler_can_be_turned_off() {
    let Some(python) = python("import torch") else { return };
    let meeting = Meeting::new();
    let mut listener = meeting.listen();
    let mut command = meeting.run(&python, SCRIPT, &["data", "60"]);
    command.env_remove("PYTHONPATH").env("MEMWALL_HOOK_SAMPLER", "0").stdout(Stdio::null()).stderr(Stdio::null());
    let mut training = Training(command.spawn().unwrap());
    while !training.is_over() {
        listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    }
    listener.listen(Duration::from_millis(50), || Moment(1)).unwrap();
    let run = &listener.runs()[0];
    assert!(run.step.as_ref().is_some_and(|step| step.step == 60) && run.places.is_none(), "{run:?}");
}

/// How often what is late is named rightly, and after how many late steps: `cargo test … -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes: for the figures in the documentation"]
fn how_often_the_right_line_is_named() {
    let Some(python) = python("import torch") else { return };
    let mut soon = 0;
    for what in ["data", "synchronization", "checkpoint", "evaluation", "gc", "code"] {
        let mut after = Vec::new();
        let mut wrong = Vec::new();
        for _ in 0..10 {
            match first_named(&python, what, "200") {
                Some((cause, late)) if cause.words.contains(&line(what)) => after.push(late),
                other => wrong.push(other.map(|(cause, _)| cause.words)),
            }
        }
        eprintln!("{what}: named right after {after:?} late steps; else {wrong:?}");
        soon += after.iter().filter(|late| **late <= 10).count();
    }
    assert!(soon >= 57, "{soon} of 60 within ten late steps, fewer than 95 %");
}

/// A dump as FlightRecorder.hpp writes it (version 2.9): this rank is in the groups 0 and 3 of the run, which its own count
/// calls 0 and 1. Its neighbour's group 4 has that number there, too.
const DUMP: &str = r#"{"version": "2.9",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
    "pg_status": {"0": {"last_enqueued_collective": 5, "last_started_collective": -1, "last_completed_collective": 5},
        "1": {"last_enqueued_collective": 17, "last_started_collective": -1, "last_completed_collective": 16}},
    "entries": [
        {"record_id": 20, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 5, "p2p_seq_id": 0,
         "profiling_name": "nccl:broadcast", "state": "completed", "is_p2p": False, "retired": True},
        {"record_id": 21, "pg_id": 1, "process_group": ("3", "undefined"), "collective_seq_id": 16, "p2p_seq_id": 2,
         "profiling_name": "nccl:recv 0<-1", "state": "scheduled", "is_p2p": True, "retired": False},
        {"record_id": 22, "pg_id": 1, "process_group": ("3", "undefined"), "collective_seq_id": 17, "p2p_seq_id": 2,
         "profiling_name": "nccl:all_reduce", "state": "scheduled", "is_p2p": False, "retired": False}]}"#;

#[test]
fn the_flight_recorder_names_groups_as_all_ranks_do() {
    let Some(python) = python("import json, pickle") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("memwall_hook.py"), HOOK).unwrap();
    let script = format!(
        "import json, pickle, sys, types\n\
         import memwall_hook as hook\n\
         dump = {DUMP}\n\
         asked = []\n\
         def dumped(*told):\n    asked.append(told)\n    return pickle.dumps(dump)\n\
         sys.modules['torch._C._distributed_c10d'] = types.SimpleNamespace(_dump_nccl_trace=dumped)\n\
         hook._backends = lambda: 'cuda:nccl'\n\
         watch = hook._Watch.__new__(hook._Watch)\n\
         watch.recorder_at, watch.collective = float('-inf'), None\n\
         print(json.dumps(watch.recorded(0.0), sort_keys=True), asked)\n"
    );
    let output = Command::new(python).args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = concat!(
        r#"{"call": "nccl:all_reduce", "enqueued": {"0": 5, "3": 17}, "group": "3", "sequence": 17, "#,
        r#""state": "scheduled"} [(True, False, False)]"#
    );
    assert_eq!(said.trim_end(), expected, "{}", String::from_utf8_lossy(&output.stderr));
}
