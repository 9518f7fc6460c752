//! What a run's end leaves on the screen, and its restart.

use super::{Live, SIZE, demo_of, progress, second_line};
use crate::support::catalog;
use crate::support::demo::{START, happen, look, open, press, screen};
use memwall::app::{Alert, Event, KeyPress, RaisedAlert, State, run_verdict};
use memwall::observe::Source;
use memwall::plan::LoadedPlan;
use memwall::reading::{
    DeviceSample, HookEnd, HookStep, HookedRun, Moment, OutOfMemory, ProcessExit, Progress, Reading, RunNews,
};
use memwall::units::{Bytes, Seconds};

/// 70 GiB in tensors, 6.5 GiB in pieces, 1 GiB free, 2 GiB asked for.
fn message() -> OutOfMemory {
    OutOfMemory {
        backend: "CUDA".to_owned(),
        device: Some(0),
        asked: Some(Bytes::from_gib(2.0)),
        capacity: Some(Bytes::from_gib(79.1)),
        free: Some(Bytes::from_gib(1.0)),
        allocated: Some(Bytes::from_gib(70.0)),
        unallocated: Some(Bytes::from_gib(6.5)),
        in_process: Some(Bytes::from_gib(78.1)),
        // Told since 2.1 alone.
        has_expandable_segments: true,
        names_alloc_conf: false,
        ..OutOfMemory::default()
    }
}

/// A step of a second that a hook tells of, without its memory.
fn hook_step(step: u64, at: Moment) -> HookStep {
    HookStep { step, step_time: Reading::measured(Seconds(1.0), at), ..HookStep::default() }
}

#[test]
fn memory_that_ran_out_is_explained_at_once() {
    let mut live = Live::start("");
    live.train(5);
    let news = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news.clone())));
    let shown = screen(&live.state, &look(), SIZE);
    // 2 GiB asked and 1 GiB free: 1 GiB short, which the 6.5 GiB in pieces would have been enough for.
    for said in [
        "CUDA out of memory on GPU 0: 1.00 GiB short (2.00 GiB asked, 1.00 GiB free)",
        "expandable_segments:True, up to 6.50 GiB less held in pieces: enough for this request",
        "training.activation_checkpointing: full",
        "less by prediction",
        "the plan foresees",
    ] {
        assert!(shown.contains(said), "no {said:?} in\n{shown}");
    }
    assert!(second_line(&live.state).contains("why: CUDA out of memory"), "{}", second_line(&live.state));
    // Dismissed it stays so while the same is told again, and comes back by its key.
    press(&mut live.state, &[KeyPress::Esc]);
    happen(&mut live.state, Event::Run(Box::new(news)));
    assert_eq!(live.state.dialogs.overlay, None);
    press(&mut live.state, &[KeyPress::Char('O')]);
    assert!(screen(&live.state, &look(), SIZE).contains("what helps"));
    // Another run has taken its place.
    press(&mut live.state, &[KeyPress::Esc]);
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    press(&mut live.state, &[KeyPress::Char('O')]);
    assert_eq!(live.state.dialogs.overlay, None);
}

/// The plan of a hybrid example whose micro batch of 8 does not fit, on GPUs that nobody is attached on: the simulated
/// run loads, runs out of memory in its first step and is started again.
#[test]
fn figures_of_a_run_that_ran_out_stay_until_another_works_and_mix_with_none() {
    let mut state = open("hybrid_example");
    let text = state.plans.editor.text().replace("micro_batch_size: 4", "micro_batch_size: 8");
    let text = text.replace("accumulation_steps: 4", "accumulation_steps: 2");
    let runs = State::new(LoadedPlan::from_text("runs", &text).unwrap(), catalog().clone(), None, START);
    let mut demo = demo_of(&runs);
    happen(&mut state, Event::SourceStarted(demo.info()));
    let mut second = 0;
    let mut until = |state: &mut State, what: &str, is_so: &dyn Fn(&State) -> bool| {
        for _ in 0..120 {
            happen(state, Event::Sample(Box::new(demo.sample(START.plus_millis(second * 1000)))));
            second += 1;
            if is_so(state) {
                return;
            }
        }
        panic!("never came: {what}\n{}", screen(state, &look(), SIZE));
    };
    let is_idle = |state: &State| state.monitor.devices().iter().all(DeviceSample::is_idle);
    let peak = |state: &State| *state.run.comparison.as_ref().unwrap().memory.observed.value().unwrap();
    let has_ran_out = |state: &State| state.run.ran_out.is_some() && is_idle(state);
    until(&mut state, "memory runs out", &has_ran_out);
    let first = peak(&state);
    // PyTorch says what it held then: more than any sample has seen.
    assert_eq!(first, state.run.ran_out.as_ref().unwrap().message.in_process.unwrap());
    for pane in ['1', '2', '3', '4', '5'] {
        press(&mut state, &[KeyPress::Char(pane)]);
        let shown = screen(&state, &look(), SIZE);
        let footer = shown.lines().last().unwrap();
        assert!(footer.starts_with(" O explain "), "in pane {pane}: {footer}");
    }
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("5 Compare · the run that ended · all of GPU "), "{shown}");
    assert!(shown.contains("O explains it") && !shown.contains("the GPUs are idle"), "{shown}");
    press(&mut state, &[KeyPress::Char('2')]);
    let shown = screen(&state, &look(), SIZE);
    assert!(shown.contains("ended▕") && shown.contains(&format!("▏{:>6}  at most", first.in_gib())), "{shown}");
    // The next one loads: there is nothing of it to compare yet.
    until(&mut state, "another process", &|state| !is_idle(state));
    assert_eq!(peak(&state), first);
    let held = |state: &State| state.monitor.devices()[0].memory.value().unwrap().used;
    until(&mut state, "it works", &|state| state.monitor.devices()[0].busy.value().unwrap().0 > 0.0);
    let own = state.monitor.peaks[0].unwrap();
    assert_eq!((own, state.run.last_attempt.is_shown()), (held(&state), false));
    until(&mut state, "it runs out, too", &has_ran_out);
    assert!(state.run.last_attempt.is_shown() && peak(&state) >= own);
}

/// Who comes back after a night sees that the run that goes well now is not the one that was left.
#[test]
fn how_a_run_ended_outlives_its_restart_until_somebody_has_seen_it() {
    let mut live = Live::start("");
    live.train(5);
    let news = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news)));
    press(&mut live.state, &[KeyPress::Esc]);
    live.second(55.0, 60.0, None);
    // The verdict and its reason say it: it does not stand there twice.
    assert_eq!(second_line(&live.state).matches("CUDA out of memory").count(), 1, "{}", second_line(&live.state));
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    live.second(55.0, 60.0, None);
    let said = second_line(&live.state);
    assert!(said.contains("! restarted after CUDA out of memory"), "{said}");
    // The next process ends so, too: that is told anew.
    let again = RunNews { pid: Some(7), out_of_memory: Some(message()), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(again)));
    press(&mut live.state, &[KeyPress::Esc]);
    live.second(55.0, 60.0, None);
    let alerts = &live.state.run.alerts;
    let of = |raised: &RaisedAlert| raised.alert == Alert::OutOfMemory;
    assert_eq!(
        (alerts.raised.iter().filter(|one| of(one)).count(), alerts.past.iter().filter(|one| of(one)).count()),
        (1, 1)
    );
    happen(&mut live.state, Event::Run(Box::new(RunNews { pid: Some(7), ..RunNews::default() })));
    live.second(55.0, 60.0, None);
    press(&mut live.state, &[KeyPress::Char('A')]);
    live.second(55.0, 60.0, None);
    assert!(!second_line(&live.state).contains("restarted"), "{}", second_line(&live.state));
}

#[test]
fn the_end_says_after_how_many_steps_and_how() {
    let mut live = Live::start("");
    let at = live.now;
    let step = hook_step(1_840, at);
    let end = HookEnd { error: Some("OutOfMemoryError".into()), out_of_memory: Some(message()), code: Some(1) };
    let hook = HookedRun { step: Some(step), end: Some(end), ..HookedRun::new(7, at) };
    live.second(55.0, 60.0, None);
    happen(&mut live.state, Event::Run(Box::new(RunNews { hooks: vec![hook], ..RunNews::default() })));
    let first = screen(&live.state, &look(), SIZE).lines().next().unwrap().to_owned();
    assert!(first.contains("▶ 7 ended") && first.ends_with(" OUT OF MEMORY"), "{first}");
    // What the hook said of it is explained, too, and hours later it still stands there.
    assert!(screen(&live.state, &look(), SIZE).contains("1.00 GiB short"));
    press(&mut live.state, &[KeyPress::Esc]);
    live.now = live.now.plus_millis(3_600_000);
    live.second(0.0, 40.0, None);
    let first = screen(&live.state, &look(), SIZE).lines().next().unwrap().to_owned();
    assert!(first.contains("▶ 7 ended") && first.ends_with(" OUT OF MEMORY"), "{first}");
}

/// Its log counts from 0, and shows what the exception itself says; its process knows the class alone and every step.
#[test]
fn an_exception_is_told_in_its_own_words_and_steps_are_counted_once() {
    let mut live = Live::start("");
    let at = live.now;
    let step = hook_step(200, at);
    let end = HookEnd { error: Some("RuntimeError".into()), out_of_memory: None, code: Some(1) };
    let hook = HookedRun { step: Some(step), end: Some(end), ..HookedRun::new(7, at) };
    live.second(55.0, 60.0, None);
    let news = RunNews {
        pid: Some(7),
        hooks: vec![hook],
        progress: Progress { total_steps: Reading::measured(200, at), ..progress(199, 1.0, 2.0, at) },
        exception: Some("RuntimeError: boom: shape mismatch at layer 3".into()),
        ..RunNews::default()
    };
    happen(&mut live.state, Event::Run(Box::new(news)));
    press(&mut live.state, &[KeyPress::Char('5'), KeyPress::Char('z')]);
    let shown = screen(&live.state, &look(), SIZE);
    let said = "ended after 200 steps, RuntimeError: boom: shape mismatch at layer 3, exit 1";
    assert!(shown.contains(said), "{shown}");
    press(&mut live.state, &[KeyPress::Char('z'), KeyPress::Char('4'), KeyPress::Char('z')]);
    let shown = screen(&live.state, &look(), SIZE);
    assert!(shown.contains("step 200 of 200") && !shown.contains("step 199"), "{shown}");
}

/// SIGTERM is caught, and told by the code 128 + 15: steps that were made after the hook's last count stand in the log.
#[test]
fn a_run_that_was_ended_by_a_signal_has_made_at_least_the_steps_that_were_told() {
    for (log, said) in [(192, "ended at step 192 or later"), (150, "ended after at least 189 steps")] {
        let mut live = Live::start("");
        let at = live.now;
        let end = HookEnd { error: None, out_of_memory: None, code: Some(143) };
        let hook = HookedRun { step: Some(hook_step(189, at)), end: Some(end), ..HookedRun::new(7, at) };
        live.second(55.0, 60.0, None);
        let exits = vec![ProcessExit { pid: 7, code: Some(143), signal: None }];
        let progress = progress(log, 1.0, 2.0, at);
        let news = RunNews { pid: Some(7), hooks: vec![hook], progress, exits, ..RunNews::default() };
        happen(&mut live.state, Event::Run(Box::new(news)));
        assert_eq!(run_verdict(&live.state).words, "KILLED");
        press(&mut live.state, &[KeyPress::Char('5'), KeyPress::Char('z')]);
        let shown = screen(&live.state, &look(), SIZE);
        assert!(shown.contains(said), "{shown}");
    }
}

/// A parent that asked for the code first leaves nobody to tell it: what the log shows last ended the run. One that went on,
/// or ended as it should, has caught it.
#[test]
fn an_exception_in_the_log_ended_a_run_whose_code_nobody_tells() {
    let exit = |code| ProcessExit { pid: 7, code, signal: None };
    let cases = [
        (vec![exit(None)], "FAILED", true),
        (vec![exit(Some(1))], "FAILED", true),
        (vec![exit(Some(0))], "FINISHED", false),
    ];
    for (exits, words, told) in cases {
        let mut live = Live::start("");
        live.train(5);
        let raised = Some("RuntimeError: boom".into());
        let progress = progress(59, 1.0, 2.0, live.now);
        let news = RunNews { pid: Some(7), progress, exits, exception: raised, ..RunNews::default() };
        happen(&mut live.state, Event::Run(Box::new(news)));
        assert_eq!(run_verdict(&live.state).words, words);
        assert_eq!(second_line(&live.state).contains("RuntimeError: boom"), told, "{}", second_line(&live.state));
    }
    let mut live = Live::start("");
    live.train(5);
    let raised = Some("RuntimeError: boom".into());
    let news = RunNews { pid: Some(7), exception: raised, ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news)));
    assert_eq!(live.state.run.telemetry.outcome(&live.state.monitor, live.state.now), None, "it goes on");
}

/// The step stands in the log; the last number before it was seen on the screen.
#[test]
fn a_loss_that_is_no_number_is_dated() {
    let mut live = Live::start("");
    live.train(30);
    let progress = progress(live.step + 1, 1.0, f64::NAN, live.now);
    let news = RunNews { pid: Some(7), progress, loss_since: Some(40), ..RunNews::default() };
    happen(&mut live.state, Event::Run(Box::new(news)));
    assert_eq!(run_verdict(&live.state).words, "LOSS NaN");
    assert!(second_line(&live.state).contains("why: loss NaN since step 40, last finite 2.00"));
    // One that is attached behind it has seen no number.
    let mut late = Live::start("");
    late.second(55.0, 60.0, None);
    let progress = super::progress(90, 1.0, f64::NAN, late.now);
    let news = RunNews { pid: Some(7), progress, loss_since: Some(40), ..RunNews::default() };
    happen(&mut late.state, Event::Run(Box::new(news)));
    press(&mut late.state, &[KeyPress::Char('5'), KeyPress::Char('v'), KeyPress::Char('z')]);
    let shown = screen(&late.state, &look(), SIZE);
    assert!(shown.contains(" NaN since step 40") && !shown.contains("the run tells none"), "{shown}");
}
