//! The first steps of a run: minutes long where all is well, and held up where its stack or `/proc` says so.

use memwall::app::{AlertRules, CommandPlan, CommandSetting};

use super::*;

/// A run whose log has told its twelfth step that many seconds ago, and of whose processes that is known. Its GPU is
/// idle.
fn early(quiet: u64, waits: Vec<ProcessWait>, hooks: Vec<HookedRun>) -> State {
    let mut state = attached(|_| RunNews::default());
    state.run.alerts.rules = AlertRules::parse("stalled: 10\n").unwrap();
    let progress = Progress {
        told_by: ProgressSource::Log(LogFormat::Text),
        step: Reading::measured(12, state.now),
        total_steps: Reading::measured(500, state.now),
        step_time: Reading::measured(Seconds(2.0), state.now),
        ..Progress::default()
    };
    let told =
        |waits, hooks| RunNews { pid: Some(PID), progress: progress.clone(), waits, hooks, ..RunNews::default() };
    happen(&mut state, Event::Run(Box::new(told(Vec::new(), Vec::new()))));
    let mut sample = state.monitor.sample.clone().unwrap();
    sample.at = state.now.plus_millis(quiet * 1000);
    for device in &mut sample.devices {
        device.busy = Reading::measured(Fraction(0.0), sample.at);
    }
    let at = sample.at;
    happen(&mut state, Event::Sample(Box::new(sample.clone())));
    let hooks = hooks.into_iter().map(|run| HookedRun { heard: at, placed: at, ..run }).collect();
    happen(&mut state, Event::Run(Box::new(told(waits, hooks))));
    sample.at = at.plus_millis(1);
    happen(&mut state, Event::Sample(Box::new(sample)));
    state
}

fn is_alerted(state: &State) -> bool {
    state.run.alerts.raised.iter().any(|raised| raised.alert == memwall::app::Alert::Stalled)
}

/// A hook's process that has stood at one place for that long.
fn standing(activity: Activity, call: &str, seconds: f64) -> HookedRun {
    let places = HookPlaces {
        places: vec![place(activity, call, 8, 0.0)],
        stall: Some(HookStall { lasting: Seconds(seconds), place: 0, here: Seconds(seconds), collective: None }),
        ..HookPlaces::default()
    };
    HookedRun { step: None, ..hooked(PID, START, about(0), Some(places)) }
}

#[test]
fn a_place_that_is_no_work_of_a_step_holds_the_first_ones_up() {
    let state = early(22, Vec::new(), vec![standing(Activity::Code, "time.sleep", 22.0)]);
    let verdict = run_verdict(&state);
    assert_eq!((verdict.words.as_str(), verdict.gravity), ("NO STEP FOR 22 s", Gravity::Quiet));
    assert!(line(&state, 1).contains("22 s in time.sleep, train.py:8"), "{}", line(&state, 1));
    assert!(!is_alerted(&state) && !line(&state, 1).contains("ETA"), "{}", line(&state, 1));
    // A forward pass of minutes is one that compiles.
    let state = early(700, Vec::new(), vec![standing(Activity::Forward, "forward", 700.0)]);
    assert_eq!(run_verdict(&state).words, "WARMING UP");
    assert!(!is_alerted(&state));
    // Ten minutes are the threshold that the user has.
    let state = early(660, Vec::new(), vec![standing(Activity::Code, "time.sleep", 660.0)]);
    assert_eq!(run_verdict(&state).gravity, Gravity::Warning);
    assert!(is_alerted(&state));
}

#[test]
fn a_wait_that_nothing_works_for_holds_the_first_ones_up() {
    let wait = |kind| ProcessWait::new(PID, kind, START.plus_millis(120_000));
    let hangs = early(700, vec![wait(WaitKind::Sleep)], Vec::new());
    assert_eq!(run_verdict(&hangs).words, "NO STEP FOR 12 min");
    assert!(is_alerted(&hangs));
    // What a compiler that it has started does, another host, or a device is not seen in it.
    let compiles = ProcessWait { works_below: true, ..wait(WaitKind::Pipe) };
    for healthy in [compiles, wait(WaitKind::Socket), wait(WaitKind::Device)] {
        let state = early(700, vec![healthy.clone()], Vec::new());
        assert_eq!(run_verdict(&state).words, "WARMING UP", "{healthy:?}");
        assert!(!is_alerted(&state), "{healthy:?}");
    }
    // Slow data in the first minute.
    let state = early(40, vec![wait(WaitKind::Disk)], Vec::new());
    assert_eq!(run_verdict(&state).words, "WARMING UP");
    // One that is stopped is seen at once.
    let since = START.plus_millis(140_000);
    let stopped = ProcessWait { is_from_first_look: true, ..ProcessWait::new(PID, WaitKind::Stopped, since) };
    let state = early(25, vec![stopped], Vec::new());
    let verdict = run_verdict(&state);
    assert_eq!((verdict.words.as_str(), verdict.gravity), ("NO STEP FOR 25 s", Gravity::Warning));
    assert!(line(&state, 1).contains("SIGCONT"), "{}", line(&state, 1));
}

/// A script that trains by its own words, and waits before it has told of any step.
#[test]
fn a_run_that_hangs_before_its_first_step_says_for_what_it_waits() {
    let said = |seconds: u64, is_training: bool| {
        let mut state = alone();
        let key = if is_training { "training.precision" } else { "model.batch_size" };
        let (value, origin) = ("fp32".to_owned(), "train.py: no other type in it".to_owned());
        let settings = vec![CommandSetting { key, value, origin, is_default: false }];
        let read = CommandPlan { pid: PID, settings, ..CommandPlan::default() };
        let now = state.now.plus_millis(seconds * 1000);
        let waits = vec![ProcessWait::new(PID, WaitKind::Sleep, state.now)];
        let mut sample = state.monitor.sample.clone().unwrap();
        sample.at = now;
        happen(&mut state, Event::Sample(Box::new(sample)));
        happen(&mut state, Event::CommandRead(Box::new(read)));
        happen(&mut state, Event::Run(Box::new(RunNews { pid: Some(PID), waits, ..RunNews::default() })));
        (run_verdict(&state).words, line(&state, 1))
    };
    let (verdict, second) = said(75, true);
    assert_eq!(verdict, "NO STEP FOR 75 s");
    assert!(second.contains("for a timer"), "{second}");
    assert!(!said(20, true).0.contains("NO STEP FOR"));
    // A shell waits for as long as it likes.
    assert!(!said(600, false).0.contains("NO STEP FOR"));
}

/// 105 ms is usual, and the hook's mean over the last steps is 5.1 s: an evaluation of 20 s lay between two of them.
#[test]
fn an_evaluation_is_no_slow_step() {
    let slow = |activity| {
        let mut state = attached(|_| RunNews::default());
        let step = |number, seconds, at| HookStep {
            step: number,
            step_time: Reading::measured(Seconds(seconds), at),
            ..HookStep::default()
        };
        for number in 0..40_u64 {
            let at = state.now.plus_millis(1000);
            let mut sample = state.monitor.sample.clone().unwrap();
            sample.at = at;
            let seconds = if number == 39 { 5.1 } else { 0.105 };
            let took = Seconds(20.1);
            let late = (number == 39).then_some(LateStep { step: 790, took, place: 0, ago: Seconds(0.2) });
            let places = HookPlaces {
                usual: Some(Seconds(0.105)),
                samples: 2_000,
                places: vec![place(activity, "ev", 12, 0.0)],
                late: late.into_iter().collect(),
                ..HookPlaces::default()
            };
            let run = hooked(PID, at, about(0), Some(places));
            let run = HookedRun { step: Some(step(400 + 10 * number, seconds, at)), placed: at, ..run };
            happen(&mut state, Event::Sample(Box::new(sample.clone())));
            happen(&mut state, Event::Run(Box::new(RunNews { hooks: vec![run], ..RunNews::default() })));
            sample.at = at.plus_millis(1);
            happen(&mut state, Event::Sample(Box::new(sample)));
        }
        let raised = &state.run.alerts.raised;
        raised.iter().find(|raised| raised.alert == memwall::app::Alert::SlowStep).map(|raised| raised.text.clone())
    };
    assert_eq!(slow(Activity::Evaluation), None);
    assert_eq!(slow(Activity::Checkpoint), None);
    // 20.1 s are 191 times 105 ms.
    let said = slow(Activity::Data).unwrap();
    assert!(said.starts_with("a step took 191 times the usual 105 ms"), "{said}");
}
