//! The plan of a run and the plan that is edited are two: what is shown of the run comes from the run and its own plan.

use crate::support::demo::{START, happen, look, open, press, run, screen, watch};
use memwall::app::{AttachedProcess, Effect, Event, FIELDS, KeyPress, Pane, State, follow_last, run_verdict, update};
use memwall::compare::{Residual, Tolerance};
use memwall::observe::{Demo, Source};
use memwall::plan::Change;
use memwall::reading::{
    HookAbout, HookStep, HookedRun, Progress, ProgressSource, Reading, RunNews, Sample, SourceInfo, SourceKind,
    TokensSeen,
};
use memwall::units::{Bytes, Seconds};

/// A run that departs from its plan, so that all of verdict, comparison and explanation have something to say.
pub fn departing() -> (State, Demo) {
    let state = open("13b_long_sequence");
    let mut run = state.plans.editor.clone();
    run.apply(run.with(&Change::to("distribution.sequence_parallel", "false")).unwrap(), &state.catalog);
    let demo = Demo::new(run.prediction().unwrap(), &run.job().unwrap().hardware.gpu);
    (state, demo)
}

/// The header and the compare pane, without the mark that there is a draft.
fn of_run(state: &State) -> (String, String) {
    let mut state = state.clone();
    (state.views.focus, state.views.zoomed, state.notice) = (Pane::Compare, true, None);
    state.dialogs.overlay = None;
    let shown = screen(&state, &look(), (190, 50));
    let mut lines = shown.lines();
    let header = [lines.next().unwrap(), lines.next().unwrap()].join("\n");
    let marks = ["draft fits", "draft tight", "draft too big", "draft invalid"];
    let header = marks.iter().fold(header, |header, mark| header.replace(mark, ""));
    // The mark has no place of its own while there is none.
    let header = header.split_whitespace().collect::<Vec<_>>().join(" ");
    // Without the tabs, whose first names the plan in front, and the keys.
    let body: Vec<&str> = lines.skip(1).take(46).collect();
    (header, body.join("\n"))
}

/// A generator with a fixed seed: the same edits each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }
}

#[test]
fn a_thousand_edits_of_a_draft_change_nothing_of_the_run() {
    let (mut state, mut run) = departing();
    watch(&mut state, &mut run, 0..120);
    let before = of_run(&state);
    assert!(before.0.contains("13b_long_sequence") && before.0.contains("why: off: sequence parallel"), "{}", before.0);
    let mut dice = Dice(19);
    press(&mut state, &[KeyPress::Char('1')]);
    let mut drafts = 0;
    for edit in 0..1_000 {
        match dice.below(12) {
            0 => press(&mut state, &[KeyPress::Char('u')]),
            1 => press(&mut state, &[KeyPress::Delete]),
            2 => {
                // Whatever stands there, valid or not.
                let field = FIELDS[dice.below(FIELDS.len())];
                state.plans.form.select(field.key(), &state.plans.editor);
                press(&mut state, &[KeyPress::Enter, KeyPress::Char('7'), KeyPress::Enter, KeyPress::Esc]);
            }
            3 => press(&mut state, &[KeyPress::Char('d')]),
            4 => press(&mut state, &[KeyPress::Char(']')]),
            _ => {
                let rows = state.plans.form.fields(&state.plans.editor).len();
                state.plans.form.selected = dice.below(rows);
                let way = if dice.below(2) == 0 { KeyPress::Left } else { KeyPress::Right };
                press(&mut state, &[way]);
            }
        }
        drafts += usize::from(state.plans.drafted_beside().is_some());
        if state.plans.tabs.place().1 > 4 {
            // Copies are closed again, without being asked for a file.
            state.plans.tabs.close(&mut state.plans.editor);
        }
        if edit % 10 == 0 {
            assert_eq!(of_run(&state), before, "after {edit} edits");
        }
    }
    assert!(drafts > 500, "{drafts} drafts");
}

#[test]
fn a_draft_is_marked_in_form_header_and_tabs_and_stands_beside_the_runs_plan() {
    let (mut state, mut run) = departing();
    watch(&mut state, &mut run, 0..120);
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        assert!(!screen(&state, &look(), size).contains("draft"), "nothing is edited");
    }
    press(
        &mut state,
        &[
            KeyPress::Char('1'),
            KeyPress::Home,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Right,
        ],
    );
    for size in [(60, 20), (80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        let first = shown.lines().next().unwrap();
        assert!(first.contains(if size.0 < 80 { "  draft " } else { "  draft fits " }), "{shown}");
        // Whose figures they are stays.
        assert!(first.contains("demo"), "{shown}");
        assert!(shown.contains("draft beside 13b_long"), "{shown}");
        assert!(shown.contains("was 16"), "{shown}");
        assert!(size.0 >= 100 || shown.lines().nth(2).unwrap().contains("1 Draft"), "{shown}");
    }
    // The run follows it from now on.
    press(&mut state, &[KeyPress::Char('R')]);
    let shown = screen(&state, &look(), (120, 40));
    assert!(!shown.contains("draft") && shown.contains("the run is compared with 13b_long_sequence"), "{shown}");
}

#[test]
fn what_is_not_of_the_runs_model_or_gpus_is_said_and_not_explained() {
    for (key, value, short, words) in [
        ("model.preset", "llama-2-7b", "OTHER MODEL", "another model: llama-2-13b"),
        ("hardware.gpu_type", "NVIDIA A100", "OTHER GPU", "another GPU than the plan's: NVIDIA H100"),
        ("cluster.num_gpus", "64", "8 OF 64 GPUS", "the plan is for 64 GPUs, the run is on 8"),
    ] {
        let (mut state, mut run) = departing();
        watch(&mut state, &mut run, 0..120);
        assert!(!state.run.explaining.found.is_empty());
        let mut change = Change::to(key, value);
        if key == "cluster.num_gpus" {
            change = change.with(&Change::to("distribution.data_parallel", "8")).unwrap();
            change = change.with(&Change::to("cluster.nodes", "8")).unwrap();
            change = change.with(&Change::to("model.batch_size", "128")).unwrap();
        }
        let changed = state.plans.editor.with(&change).unwrap();
        state.plans.editor.apply(changed, &state.catalog.clone());
        assert!(state.plans.editor.faults().is_empty(), "{key}");
        press(&mut state, &[KeyPress::Char('R')]);
        watch(&mut state, &mut run, 120..140);
        assert!(state.run.explaining.found.is_empty(), "{key}");
        let shown = screen(&state, &look(), (190, 50));
        assert!(shown.lines().next().unwrap().contains(short), "{shown}");
        assert!(shown.lines().nth(1).unwrap().contains(&format!("why: {words}")), "{shown}");
        press(&mut state, &[KeyPress::Char('5'), KeyPress::Char('e')]);
        assert!(state.notice.as_ref().unwrap().text.contains(words), "{:?}", state.notice);
        assert!(state.run.explaining.found.is_empty(), "{key}");
    }
}

/// A real process on the demo's GPUs: none of what the demo invents is told of it.
#[test]
fn a_real_process_has_nothing_of_the_demo() {
    let mut sleep = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleep.id();
    let (mut state, mut run) = departing();
    state.monitor.attached = Some(AttachedProcess::to(pid));
    watch(&mut state, &mut run, 0..120);
    let hooked = |state: &State| screen(state, &look(), (160, 50));
    let shown = hooked(&state);
    for invented in
        ["step 1", "grad norm", "of 12 000", "AS PLANNED", "by its log", "ETA", "why:", "the hook in the process"]
    {
        assert!(!shown.contains(invented), "{invented:?} in\n{shown}");
    }
    assert!(state.run.telemetry.progress(&state.monitor, state.now).is_none());
    assert!(shown.lines().next().unwrap().contains(&format!("▶ {pid}")), "{shown}");
    assert!(shown.lines().next().unwrap().contains("NOT ON A GPU"), "{shown}");
    assert_eq!(state.run.outlook.headroom, None);
    // What its own hook tells is its own.
    let told = RunNews { hooks: vec![hook(pid, &state)], ..RunNews::default() };
    happen(&mut state, Event::Run(Box::new(told)));
    let (of, progress) = state.run.telemetry.progress(&state.monitor, state.now).unwrap();
    assert_eq!((of, progress.told_by, progress.step.value()), (Some(pid), ProgressSource::Hook, Some(&40)));
    assert!(!hooked(&state).contains("grad norm"));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
}

fn hook(pid: u32, state: &State) -> HookedRun {
    let heard = state.now;
    let step = HookStep { step: 40, step_time: Reading::measured(Seconds(0.5), heard), ..HookStep::default() };
    let about =
        HookAbout { rank: Some(0), world: Some(1), model: Some("TinyModel".to_owned()), ..HookAbout::default() };
    HookedRun { about: Some(about), step: Some(step), tokens: TokensSeen::Alike, ..HookedRun::new(pid, heard) }
}

#[test]
fn a_hooked_run_is_offered_in_a_line_and_taken_by_a_key() {
    let mut state = open("13b_long_sequence");
    let kind = |kind| Event::SourceStarted(SourceInfo { kind, detail: String::new() });
    happen(&mut state, kind(SourceKind::Nvml));
    let news = |state: &State| Event::Run(Box::new(RunNews { hooks: vec![hook(77, state)], ..RunNews::default() }));
    let told = news(&state);
    happen(&mut state, told);
    assert_eq!(state.monitor.attached, None);
    for size in [(60, 20), (80, 24), (120, 40)] {
        let shown = screen(&state, &look(), size);
        let footer = shown.lines().last().unwrap();
        assert!(footer.contains(" F new run 77 ") && footer.contains("q quit"), "{shown}");
    }
    // Nobody has asked for a simulated run here; who has is not bothered.
    let mut asked = open("13b_long_sequence");
    asked.run.telemetry.is_simulation_asked_for = true;
    happen(&mut asked, kind(SourceKind::Demo));
    let told = news(&asked);
    happen(&mut asked, told);
    assert!(!screen(&asked, &look(), (80, 24)).contains("new run"));
    press(&mut asked, &[KeyPress::Char('F')]);
    assert_eq!(asked.monitor.attached.as_ref().map(|attached| attached.pid), Some(77));
    // After a minute it is no news, and is followed by its key all the same.
    let mut later = state.clone();
    for seconds in [59, 61] {
        happen(&mut later, Event::Tick(START.plus_millis(seconds * 1000)));
        let told = news(&later);
        happen(&mut later, told);
        assert_eq!(screen(&later, &look(), (80, 24)).contains("F new run 77"), seconds == 59);
    }
    press(&mut later, &[KeyPress::Char('F')]);
    assert_eq!(later.monitor.attached.as_ref().map(|attached| attached.pid), Some(77));
    let mut taken = state.clone();
    press(&mut taken, &[KeyPress::Char('F')]);
    assert_eq!(taken.monitor.attached.as_ref().map(|attached| attached.pid), Some(77));
    press(&mut state, &[KeyPress::Esc]);
    let again = news(&state);
    happen(&mut state, again);
    assert!(!screen(&state, &look(), (80, 24)).contains("new run"));
    // What is looked at through a page of another machine has nothing to do with the processes here.
    let mut remote = open("13b_long_sequence");
    happen(&mut remote, kind(SourceKind::Prometheus));
    let told = news(&remote);
    happen(&mut remote, told);
    assert!(!screen(&remote, &look(), (80, 24)).contains("new run"));
}

/// Of two runs each speaks with each of its steps: the one that started last is offered, whoever spoke last, and stays as
/// long as it is shown.
#[test]
fn the_run_that_is_offered_is_the_one_that_its_key_follows() {
    let mut state = open("13b_long_sequence");
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() }));
    let begun = |pid: u32, before: f64, heard: u64| HookedRun {
        began: Some(START.0 as f64 / 1000.0 - before),
        heard: START.plus_millis(heard),
        ..hook(pid, &open("13b_long_sequence"))
    };
    let tell = |state: &mut State, hooks: Vec<HookedRun>| {
        happen(state, Event::Run(Box::new(RunNews { hooks, ..RunNews::default() })));
        screen(state, &look(), (80, 24)).lines().last().unwrap().to_owned()
    };
    // 77 began two seconds ago, 78 ten minutes ago.
    let footer = tell(&mut state, vec![begun(77, 2.0, 0), begun(78, 600.0, 500)]);
    assert!(footer.contains(" F new run 77 of 2 "), "{footer}");
    // A third starts as the key is pressed.
    let footer = tell(&mut state, vec![begun(77, 2.0, 0), begun(78, 600.0, 900), begun(79, -1.0, 950)]);
    assert!(footer.contains(" F new run 77 of 3 "), "{footer}");
    let mut taken = state.clone();
    press(&mut taken, &[KeyPress::Char('F')]);
    assert_eq!(taken.monitor.attached.as_ref().map(|attached| attached.pid), Some(77));
    // One that is declined makes room for the next: the newest first, and what has run for long is not called new.
    press(&mut state, &[KeyPress::Esc]);
    assert!(state.notice.take().unwrap().text.contains("the next run is 79"));
    let footer = tell(&mut state, vec![begun(78, 600.0, 970), begun(79, -1.0, 960)]);
    assert!(footer.contains(" F new run 79 of 2 "), "{footer}");
    press(&mut state, &[KeyPress::Esc]);
    state.notice = None;
    let footer = tell(&mut state, vec![begun(78, 600.0, 1_000), begun(79, -1.0, 990)]);
    assert!(footer.contains(" F run 78 "), "{footer}");
}

/// Who follows runs by itself follows the one that started last, also where it heard another one first.
#[test]
fn the_run_that_started_last_is_followed_where_nobody_has_chosen() {
    let mut state = open("13b_long_sequence");
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() }));
    let begun = |pid: u32, began: f64| HookedRun { began: Some(began), ..hook(pid, &open("13b_long_sequence")) };
    let followed = |state: &mut State, hooks: Vec<HookedRun>| {
        update(state, Event::Run(Box::new(RunNews { hooks, ..RunNews::default() })));
        follow_last(state);
        state.monitor.attached.as_ref().map(|attached| attached.pid)
    };
    assert_eq!(followed(&mut state, vec![begun(77, 1_000.0)]), Some(77));
    assert_eq!(followed(&mut state, vec![begun(78, 1_030.0), begun(77, 1_000.0)]), Some(78));
    assert_eq!(followed(&mut state, vec![begun(77, 1_000.0), begun(78, 1_030.0)]), Some(78));
}

/// Nothing of the simulated run is a real one's: neither its GPUs, nor the example's plan, nor that it fits.
#[test]
fn a_run_that_is_taken_in_a_demo_takes_the_place_of_the_simulated_one() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 60);
    assert!(state.plans.run.is_some() && !state.monitor.devices().is_empty());
    let news = RunNews { hooks: vec![hook(77, &state)], ..RunNews::default() };
    happen(&mut state, Event::Run(Box::new(news)));
    let effects = update(&mut state, Event::Key(KeyPress::Char('F')));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::WatchProcess(77))), "{effects:?}");
    let info = SourceInfo { kind: SourceKind::Host, detail: "no GPU is watched".to_owned() };
    happen(&mut state, Event::SourceStarted(info));
    let sample = Sample { at: state.now.plus_millis(1_000), ..Sample::default() };
    happen(&mut state, Event::Sample(Box::new(sample)));
    assert_eq!(state.monitor.attached.as_ref().map(|attached| attached.pid), Some(77));
    assert!(state.plans.run.is_none() && state.monitor.devices().is_empty());
    let shown = screen(&state, &look(), (120, 40));
    let first = shown.lines().next().unwrap();
    assert!(!first.contains("demo") && !first.contains("FITS") && first.contains("77"), "{shown}");
    assert!(!shown.lines().nth(1).unwrap().contains("predicted"), "{shown}");
}

/// What is derived from a measurement that is as planned comes after a step that takes four times as long.
#[test]
fn what_is_measured_is_the_verdict_before_what_is_derived() {
    let mut state = open("13b_long_sequence");
    run(&mut state, 120);
    assert_eq!(run_verdict(&state).words, "AS PLANNED");
    let tolerance = Tolerance { below: 0.18, above: 0.22 };
    // 90 MiB, and 36 more.
    let memory = |seen| Residual::new(Bytes(90 << 20), seen, Bytes::as_f64, tolerance, true);
    let comparison = state.run.comparison.as_mut().unwrap();
    comparison.reserved = memory(Reading::estimated(Bytes(126 << 20), START));
    assert_eq!(run_verdict(&state).words, "MEMORY +36 MiB");
    let comparison = state.run.comparison.as_mut().unwrap();
    let slow = Reading::measured(Seconds(0.4), START);
    comparison.step = Residual::new(Seconds(0.1), slow, |step| step.0, tolerance, true);
    assert_eq!(run_verdict(&state).words, "SLOWER 4x");
    // Memory that is there costs less than a step four times as long, and more than one a quarter longer.
    let comparison = state.run.comparison.as_mut().unwrap();
    comparison.reserved = memory(Reading::measured(Bytes(126 << 20), START));
    assert_eq!(run_verdict(&state).words, "SLOWER 4x");
    let comparison = state.run.comparison.as_mut().unwrap();
    comparison.step =
        Residual::new(Seconds(0.1), Reading::measured(Seconds(0.125), START), |step| step.0, tolerance, true);
    assert_eq!(run_verdict(&state).words, "MEMORY +36 MiB");
    assert!(screen(&state, &look(), (120, 40)).contains("reserved 90.0→126 MiB"), "no reserved");
}

#[test]
fn idle_gpus_differ_from_no_plan() {
    let (mut state, mut run) = departing();
    happen(&mut state, Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() }));
    let mut sample = run.sample(START.plus_millis(100_000));
    for device in &mut sample.devices {
        device.processes = Reading::measured(Vec::new(), sample.at);
    }
    sample.processes.clear();
    sample.progress = None::<Box<Progress>>;
    happen(&mut state, Event::Sample(Box::new(sample)));
    assert_eq!((&state.run.comparison, state.plans.run.is_none()), (&None, true));
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.lines().next().unwrap().ends_with(" IDLE"), "{shown}");
    assert!(!shown.lines().nth(1).unwrap().contains('→'), "{shown}");
}
