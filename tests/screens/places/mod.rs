//! What a process says of its code and its training: late steps, a stall, another model, other settings, no GPU.

mod early;
mod pauses;
use memwall::app::{Event, Gravity, KeyPress, MemoryView, Pane, State, run_verdict};
use memwall::compare::{late_steps, resident_evidence};
use memwall::observe::{Demo, Source};
use memwall::reading::{
    Absence, Activity, CodePlace, HookAbout, HookMemory, HookModules, HookPlaces, HookStall, HookStep, HookedRun,
    HostProcess, LateStep, LogFormat, ModuleBlock, Moment, ProcessExit, ProcessWait, Progress, ProgressSource,
    RankProcess, Reading, RunNews, Sample, SourceInfo, SourceKind, WaitKind,
};
use memwall::units::{Bytes, Fraction, Seconds, SignedBytes};

use crate::snapshots::assert_drawn;
use crate::support::demo::{START, happen, look, open, press, screen};

/// The attached process.
const PID: u32 = 7;

/// 13 billion parameters in bf16 by AdamW, as the example's plan has it.
fn about(rank: u32) -> HookAbout {
    HookAbout {
        rank: Some(rank),
        world: Some(8),
        launcher: Some(5),
        optimizer: "AdamW".to_owned(),
        device: "cuda:0".to_owned(),
        ..HookAbout::default()
    }
}

fn hooked(pid: u32, heard: Moment, about: HookAbout, places: Option<HookPlaces>) -> HookedRun {
    let step = HookStep { step: 400, step_time: Reading::measured(Seconds(7.3), heard), ..HookStep::default() };
    HookedRun { about: Some(about), step: Some(step), places, ..HookedRun::new(pid, heard) }
}

fn place(activity: Activity, call: &str, line: u32, share: f64) -> CodePlace {
    CodePlace { activity, call: call.to_owned(), file: "/w/train.py".to_owned(), line, share: Fraction(share) }
}

/// A run of the example's plan that is attached by the driver's pid, told by news of that many seconds.
fn attached(news: impl FnOnce(Moment) -> RunNews) -> State {
    let mut state = open("13b_long_sequence");
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() }));
    let editor = &state.plans.editor;
    let mut demo = Demo::new(editor.prediction().unwrap(), &editor.job().unwrap().hardware.gpu);
    let mut sample = Sample::default();
    for second in 0..120 {
        sample = demo.sample(START.plus_millis(second * 1000));
        sample.progress = None;
        for process in sample.devices.iter_mut().filter_map(|device| match &mut device.processes {
            Reading::Known { value, .. } => value.first_mut(),
            Reading::Absent(_) => None,
        }) {
            process.pid = PID;
        }
        sample.processes = vec![host(PID, sample.at)];
        happen(&mut state, Event::Sample(Box::new(sample.clone())));
        if second == 0 {
            state.monitor.toggle_attach(PID);
        }
    }
    press(&mut state, &[KeyPress::Char('R')]);
    let told = news(sample.at);
    happen(&mut state, Event::Run(Box::new(told)));
    state
}

fn host(pid: u32, at: Moment) -> HostProcess {
    HostProcess {
        pid,
        started: Reading::measured(1_790_000_000, at),
        name: Reading::measured("python".to_owned(), at),
        command: Reading::measured("python train.py".to_owned(), at),
        resident: Reading::measured(Bytes(3 << 30), at),
        ..HostProcess::default()
    }
}

fn drawn(name: &str, state: &State) {
    let mut state = state.clone();
    (state.views.focus, state.views.zoomed, state.notice, state.dialogs.overlay) = (Pane::Compare, true, None, None);
    for (columns, rows) in [(60, 20), (80, 24), (120, 40)] {
        assert_drawn(&format!("{name}_{columns}x{rows}"), &screen(&state, &look(), (columns, rows)));
    }
}

fn line(state: &State, number: usize) -> String {
    screen(state, &look(), (160, 50)).lines().nth(number).unwrap().to_owned()
}

/// What the hook saw saved stands beside what the plan says of the same layers, until the plan shown is a draft.
#[test]
fn layers_of_the_run_stand_beside_those_of_its_plan() {
    let gibibytes = |gibibytes: f64| Bytes((gibibytes * (1_u64 << 30) as f64) as u64);
    let block = |number: u32| ModuleBlock {
        name: format!("model.layers.{number}"),
        saved: gibibytes(0.25),
        forward: SignedBytes(0),
        backward: Bytes(0),
    };
    let modules = HookModules {
        step: 12,
        by_allocator: true,
        passes: Some(1),
        length_first: None,
        saved: gibibytes(10.5),
        kinds: Vec::new(),
        blocks: (0..40).map(block).collect(),
        left_out: 0,
    };
    let mut state = attached(|at| RunNews {
        hooks: vec![HookedRun { modules: Some(modules), ..hooked(PID, at, about(0), None) }],
        ..RunNews::default()
    });
    (state.views.focus, state.views.zoomed, state.notice) = (Pane::Vram, true, None);
    state.views.memory.view = MemoryView::Layers;
    assert_drawn("run_layers_80x24", &screen(&state, &look(), (80, 24)));
    assert!(screen(&state, &look(), (80, 24)).contains("run each"));
    // An edit makes what is shown a draft, which nothing runs.
    press(&mut state, &[KeyPress::Char('1'), KeyPress::Right, KeyPress::Char('2')]);
    assert!(state.plans.drafted_beside().is_some());
    assert!(!screen(&state, &look(), (80, 24)).contains("run each"));
}

/// Nine late steps at a place, each of twice the usual time.
fn late_at(place: CodePlace) -> HookPlaces {
    HookPlaces {
        usual: Some(Seconds(7.3)),
        samples: 400,
        places: vec![place],
        late_steps: 9,
        late: (0..9_u32)
            .map(|at| LateStep {
                step: 300 + 10 * u64::from(at),
                took: Seconds(14.6),
                place: 0,
                ago: Seconds(f64::from(80 - 10 * at)),
            })
            .collect(),
        ..HookPlaces::default()
    }
}

#[test]
fn late_steps_are_said_with_their_line() {
    let places = late_at(place(Activity::Data, "DataLoader.__next__", 88, 0.02));
    let state = attached(|at| RunNews { hooks: vec![hooked(PID, at, about(0), Some(places))], ..RunNews::default() });
    assert!(line(&state, 1).contains("DataLoader.__next__, train.py:88: in 9 of 9 late steps"), "{}", line(&state, 1));
    drawn("late_steps", &state);
}

/// Of sequences that differ in length nothing is wrong: their steps are explained, and no warning.
#[test]
fn larger_batches_are_said_and_no_warning() {
    let wasted = |place: CodePlace| late_steps(&late_at(place), Seconds(0.0)).unwrap().wasted();
    // Nine times 7.3 s in the 80 s until the newest of them and the 14.6 s of the oldest: 65.7 of 94.6.
    let share = wasted(place(Activity::Data, "DataLoader.__next__", 88, 0.02)).unwrap();
    assert!((share.0 - 65.7 / 94.6).abs() < 1e-9, "{share:?}");
    let batch = || place(Activity::Batch, "a batch 3 times as large", 90, 0.0);
    assert_eq!(wasted(batch()), None);
    let places = late_at(batch());
    let state = attached(|at| RunNews { hooks: vec![hooked(PID, at, about(0), Some(places))], ..RunNews::default() });
    assert!(line(&state, 1).contains("a batch 3 times as large, train.py:90: in 9 of 9 late steps"));
}

#[test]
fn a_stall_names_the_rank_that_has_not_come() {
    let stall = |place: CodePlace| HookPlaces {
        places: vec![place],
        stall: Some(HookStall { lasting: Seconds(41.0), place: 0, here: Seconds(41.0), collective: None }),
        ..HookPlaces::default()
    };
    let waits = stall(place(Activity::Collective, "all_reduce", 50, 0.1));
    let sleeps = stall(place(Activity::Code, "time.sleep", 47, 0.0));
    let state = attached(|at| {
        let hooks = vec![hooked(PID, at, about(0), Some(waits)), hooked(8, at, about(1), Some(sleeps))];
        RunNews { hooks, ..RunNews::default() }
    });
    assert!(line(&state, 1).contains("rank 1 has not come: 41 s in time.sleep, train.py:47"), "{}", line(&state, 1));
    drawn("stalled", &state);
}

#[test]
fn another_model_comes_before_all_other_causes() {
    let small = HookAbout {
        params: 328_936,
        params_are_all: true,
        model: Some("TinyModel".to_owned()),
        optimizer: "SGD".to_owned(),
        ..about(0)
    };
    let state = attached(|at| RunNews { hooks: vec![hooked(PID, at, small, None)], ..RunNews::default() });
    assert_eq!(run_verdict(&state).words, "OTHER MODEL");
    let said = line(&state, 1);
    assert!(said.contains("TinyModel of 328 936 parameters, the plan has 13."), "{said}");
}

#[test]
fn what_the_process_says_of_its_training_comes_before_what_its_figures_suggest() {
    for (other, said) in [
        (HookAbout { optimizer: "SGD".to_owned(), ..about(0) }, "optimizer SGD, the plan's is adamw"),
        (HookAbout { checkpointed: Some(true), ..about(0) }, "activation checkpointing, the plan has none"),
    ] {
        let state = attached(|at| RunNews { hooks: vec![hooked(PID, at, other, None)], ..RunNews::default() });
        assert_eq!(run_verdict(&state).words, "OTHER SETTINGS");
        assert!(line(&state, 1).contains(said), "{}", line(&state, 1));
    }
    let same = attached(|at| RunNews { hooks: vec![hooked(PID, at, about(0), None)], ..RunNews::default() });
    assert_ne!(run_verdict(&same).words, "OTHER SETTINGS");
}

/// A process on a machine without a driver.
fn alone() -> State {
    let mut state = open("13b_long_sequence");
    state.monitor.toggle_attach(PID);
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Host, detail: "no driver".to_owned() }));
    for second in 0..3 {
        let at = START.plus_millis(second * 1000);
        let sample = Sample { at, processes: vec![host(PID, at)], ..Sample::default() };
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    press(&mut state, &[KeyPress::Char('R')]);
    state
}

#[test]
fn a_run_on_a_cpu_has_no_figures_of_a_gpu() {
    let mut state = alone();
    let at = state.now;
    let hook = hooked(PID, at, HookAbout { device: "cpu".to_owned(), ..about(0) }, None);
    happen(&mut state, Event::Run(Box::new(RunNews { pid: Some(PID), hooks: vec![hook], ..RunNews::default() })));
    assert_eq!(run_verdict(&state).words, "NO GPU IS USED");
    let comparison = state.run.comparison.as_ref().unwrap();
    assert!(comparison.memory.relative.is_none() && comparison.step.relative.is_none());
    drawn("on_a_cpu", &state);
}

/// The verdicts on a run that goes on no more.
const OVER: [&str; 4] = ["ENDED", "FAILED", "FINISHED", "KILLED"];

#[test]
fn the_end_of_a_rank_is_said_with_its_signal() {
    let mut state = alone();
    let ranks = vec![RankProcess { pid: 11, started: None, rank: 0 }, RankProcess { pid: 12, started: None, rank: 1 }];
    let news = RunNews { pid: Some(PID), ranks: ranks.clone(), ..RunNews::default() };
    happen(&mut state, Event::Run(Box::new(news.clone())));
    // The launcher is attached, its first rank followed.
    assert_eq!(state.monitor.attached_here(), Some(11));
    assert_eq!(state.monitor.attached_by_user(), Some(PID));
    assert!(!OVER.contains(&run_verdict(&state).words.as_str()));
    let exit = |pid, code, signal| ProcessExit { pid, code, signal };
    let killed = exit(12, None, Some(9));
    happen(&mut state, Event::Run(Box::new(RunNews { exits: vec![killed], ..news.clone() })));
    assert_eq!(run_verdict(&state).words, "KILLED");
    assert!(line(&state, 1).contains("ended, rank 1: SIGKILL, exit 137"), "{}", line(&state, 1));
    // The launcher ends the others by SIGTERM: that is not why.
    let ended = exit(11, None, Some(15));
    for (why, said) in [(killed, "SIGKILL, exit 137"), (exit(12, Some(1), None), "exit 1")] {
        let exits = vec![ended, why];
        happen(&mut state, Event::Run(Box::new(RunNews { exits, ..news.clone() })));
        assert!(line(&state, 1).contains(&format!("ended, rank 1: {said}")), "{}", line(&state, 1));
    }
    // The launcher alone: its ranks go on.
    let launcher = exit(PID, None, Some(9));
    happen(&mut state, Event::Run(Box::new(RunNews { exits: vec![launcher], ..news.clone() })));
    assert!(!OVER.contains(&run_verdict(&state).words.as_str()));
    happen(
        &mut state,
        Event::Run(Box::new(RunNews { exits: vec![launcher, exit(11, Some(0), None)], ..news.clone() })),
    );
    assert!(line(&state, 1).contains("ended, SIGKILL, exit 137"), "{}", line(&state, 1));
    happen(&mut state, Event::Run(Box::new(RunNews { exits: vec![ended], ..news })));
    assert!(line(&state, 1).contains("ended, rank 0: SIGTERM, exit 143"), "{}", line(&state, 1));
}

/// A resident set tells what malloc holds. That was compared with the tensors alone, too, and lay above the plan of a run
/// that did all as planned.
#[test]
fn a_resident_set_tells_nothing_of_tensors() {
    let state = open("13b_long_sequence");
    let prediction = state.plans.editor.prediction().unwrap();
    let stage = prediction.largest();
    let hook = hooked(PID, START, about(0), None);
    let step = HookStep {
        memory: HookMemory::Resident,
        peak_allocated: Reading::measured(stage.device_used, START),
        ..hook.step.unwrap()
    };
    let evidence = resident_evidence(&step, prediction);
    assert_eq!(evidence.device_used.value(), Some(&stage.device_used));
    assert_eq!(evidence.reserved.value(), Some(&stage.peak_reserved));
    assert!(stage.peak_allocated < stage.peak_reserved && evidence.allocated.value().is_none());
}

/// A process has ended, and another got its pid: that one's name is not the run's.
#[test]
fn a_process_with_the_pid_of_one_that_ended_lends_it_no_name() {
    let mut state = alone();
    assert!(line(&state, 0).contains("7 python"), "{}", line(&state, 0));
    let mut seen = |host: HostProcess| {
        let at = state.now.plus_millis(1_000);
        happen(&mut state, Event::Sample(Box::new(Sample { at, processes: vec![host], ..Sample::default() })));
        line(&state, 0)
    };
    let gone = HostProcess { started: Reading::Absent(Absence::Gone), pid: PID, ..HostProcess::default() };
    assert!(seen(gone).contains("7 ended"));
    let other = HostProcess {
        started: Reading::measured(1_790_000_900, START),
        name: Reading::measured("sleep".to_owned(), START),
        ..host(PID, START)
    };
    let first = seen(other);
    assert!(first.contains("7 ended") && !first.contains("sleep"), "{first}");
}

#[test]
fn an_end_is_a_danger_unless_the_run_has_done_all_it_should() {
    let exit = |code, signal| ProcessExit { pid: PID, code, signal };
    let log = |step| Progress {
        told_by: ProgressSource::Log(LogFormat::Text),
        step: Reading::measured(step, START),
        total_steps: Reading::measured(100, START),
        ..Progress::default()
    };
    for (exit, step, said) in [
        (exit(Some(0), None), 100, ("FINISHED", Gravity::Quiet)),
        // Training may stop before its last step because it has learned enough.
        (exit(Some(0), None), 60, ("FINISHED", Gravity::Quiet)),
        (exit(Some(1), None), 100, ("FAILED", Gravity::Danger)),
        (exit(None, Some(9)), 100, ("KILLED", Gravity::Danger)),
        // One that passes SIGTERM on, or catches it.
        (exit(Some(143), None), 60, ("KILLED", Gravity::Danger)),
        (exit(None, Some(11)), 100, ("FAILED", Gravity::Danger)),
        // Nobody knows the code: the last step was made, or it was not.
        (exit(None, None), 100, ("FINISHED", Gravity::Quiet)),
        (exit(None, None), 60, ("ENDED", Gravity::Danger)),
    ] {
        let mut state = alone();
        let news = RunNews { pid: Some(PID), progress: log(step), exits: vec![exit], ..RunNews::default() };
        happen(&mut state, Event::Run(Box::new(news)));
        let verdict = run_verdict(&state);
        assert_eq!((verdict.words.as_str(), verdict.gravity), said, "{exit:?} {step}");
    }
}

/// A second of a run whose log tells that step, and whose process has waited for its disk since then.
fn second_by_log(state: &mut State, step: u64, waits_since: Moment) {
    let now = state.now.plus_millis(1000);
    let mut sample = state.monitor.sample.clone().unwrap();
    sample.at = now;
    happen(state, Event::Sample(Box::new(sample)));
    let progress = Progress {
        told_by: ProgressSource::Log(LogFormat::NanoGpt),
        step: Reading::measured(step, now),
        step_time: Reading::measured(Seconds(1.0), now),
        ..Progress::default()
    };
    let target = Some("/data/shard-3.bin".to_owned());
    let wait = ProcessWait { target, ..ProcessWait::new(PID, WaitKind::Disk, waits_since) };
    let news = RunNews { pid: Some(PID), progress, waits: vec![wait], ..RunNews::default() };
    happen(state, Event::Run(Box::new(news)));
}

/// Without the hook: what `/proc` says while steps are made is no cause of anything, and is one once they are not.
#[test]
fn a_run_that_makes_no_step_says_what_it_waits_for() {
    let mut state = attached(|_| RunNews::default());
    let begun = state.now;
    for step in 0..60 {
        second_by_log(&mut state, step, begun);
        assert!(!line(&state, 1).contains("waits"), "{step}: {}", line(&state, 1));
    }
    let stopped = state.now;
    // Steps take a second: five seconds more are a stall, as the hook has it.
    for _ in 0..5 {
        second_by_log(&mut state, 59, stopped);
        assert!(!line(&state, 1).contains("waits"), "{}", line(&state, 1));
    }
    for _ in 5..41 {
        second_by_log(&mut state, 59, stopped);
    }
    assert_eq!(run_verdict(&state).words, "NO STEP FOR 41 s");
    assert!(line(&state, 1).contains("why: waits 41 s for the disk: /data/shard-3.bin"), "{}", line(&state, 1));
    drawn("process_wait", &state);
    let told = state.run.telemetry.told_in(&Sample::default(), &state.monitor, state.now).step_cause.unwrap();
    assert!(told.stalls && told.activity == Activity::System, "{told:?}");
}

#[test]
fn an_example_tells_nothing_of_a_process_that_has_no_plan() {
    let mut state = attached(|_| RunNews::default());
    (state.plans.run, state.run.comparison) = (None, None);
    assert!(line(&state, 1).starts_with(" step –"), "{}", line(&state, 1));
    assert!(line(&state, 1).contains("no plan to compare it with"), "{}", line(&state, 1));
    assert!(!line(&state, 1).contains("predicted"), "{}", line(&state, 1));
}
