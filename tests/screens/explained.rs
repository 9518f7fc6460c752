//! Runs that do something else than their plan, as a user meets them: the reason stands in the header, the
//! Compare pane lists what could be the matter, a key takes it into the plan, and undo takes it back.

use crate::support::demo::{START, happen, look, open, press, screen, watch};
use memwall::app::{Account, Effect, Event, HookKnowledge, KeyPress, Pane, Proposal, State, update};
use memwall::compare::Explanation;
use memwall::observe::{Demo, Source};
use memwall::plan::{Change, EXAMPLES, LoadedPlan};
use memwall::reading::Moment;
use memwall::units::Seconds;

const SIZE: (u16, u16) = (120, 40);

/// A dashboard on an example, and a run of that plan with other values.
fn departing(example: &str, change: &Change) -> (State, Demo) {
    let state = open(example);
    let mut run = state.plans.editor.clone();
    run.apply(run.with(change).unwrap(), &state.catalog);
    assert_eq!(run.faults(), []);
    let demo = Demo::new(run.prediction().unwrap(), &run.job().unwrap().hardware.gpu);
    (state, demo)
}

fn words(state: &State) -> Vec<String> {
    state.run.explaining.found.iter().map(Explanation::words).collect()
}

/// Memory that rises does not hide what was off before it did: without what has come, 24 GiB in 1500 s from the first step
/// on, the run holds what its own plan predicts.
#[test]
fn a_leak_hides_no_other_cause() {
    let change = Change::to("distribution.sequence_parallel", "false");
    let (mut state, demo) = departing("13b_long_sequence", &change);
    let mut run = demo.leaking(Seconds(1500.0));
    watch(&mut state, &mut run, 0..400);
    assert!(state.run.outlook.is_growing());
    assert_eq!(words(&state)[0], "off: sequence parallel");
    let shown = screen(&state, &look(), SIZE);
    assert!(shown.lines().next().unwrap().contains("GROWING: full in "), "{shown}");
    assert!(shown.lines().nth(1).unwrap().contains("why: off: sequence parallel ("), "{shown}");
    // Met when it has leaked for 200 s, 3.2 GiB of that: a step leaks like another, from the first on.
    let (mut state, demo) = departing("13b_long_sequence", &change);
    watch(&mut state, &mut demo.leaking(Seconds(1500.0)).after(Seconds(200.0)), 0..400);
    assert_eq!(words(&state)[0], "off: sequence parallel");
    // A leak alone has no other.
    let mut state = open("13b_long_sequence");
    let plan = &state.plans.editor;
    let demo = Demo::new(plan.prediction().unwrap(), &plan.job().unwrap().hardware.gpu);
    watch(&mut state, &mut demo.leaking(Seconds(1500.0)), 0..400);
    assert_eq!(words(&state), Vec::<String>::new());
}

/// What an H100 does of a plan for an A100 needs no other cause, and none was looked for.
#[test]
fn another_card_is_reason_enough() {
    let (mut state, mut run) = departing("13b_long_sequence", &Change::to("distribution.sequence_parallel", "false"));
    let planned = state.plans.editor.with(&Change::to("hardware.gpu_type", "NVIDIA A100 80GB")).unwrap();
    state.plans.editor.apply(planned, &state.catalog.clone());
    watch(&mut state, &mut run, 0..120);
    assert!(state.run.comparison.as_ref().unwrap().is_notable());
    assert_eq!(words(&state), Vec::<String>::new());
    press(&mut state, &[KeyPress::Char('5'), KeyPress::Char('z')]);
    let shown = screen(&state, &look(), SIZE);
    assert!(shown.contains("nothing to search for: another GPU than the plan's: NVIDIA H100 SXM 80GB"), "{shown}");
    assert!(shown.lines().next().unwrap().ends_with(" OTHER GPU"), "{shown}");
}

#[test]
fn the_right_cause_is_shown_taken_and_taken_back() {
    let change = Change::to("distribution.sequence_parallel", "false");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    let planned = state.plans.editor.text().to_owned();
    watch(&mut state, &mut run, 0..120);
    assert_eq!(words(&state)[0], "off: sequence parallel", "{:?}", words(&state));
    let shown = screen(&state, &look(), SIZE);
    assert!(shown.lines().nth(1).unwrap().contains("why: off: sequence parallel ("), "{shown}");

    press(&mut state, &[KeyPress::Char('5'), KeyPress::Home, KeyPress::Enter]);
    assert!(state.plans.editor.text().contains("sequence_parallel: false"));
    assert!(state.plans.editor.modified());
    // What is seen is what the plan says now: nothing is left to explain.
    assert_eq!(words(&state), Vec::<String>::new());
    let shown = screen(&state, &look(), SIZE);
    assert!(!shown.contains("why: sequence"), "{shown}");

    // Taken back the run has the plan that it had.
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), planned);
    assert!(state.plans.drafted_beside().is_none());
    assert_eq!(words(&state)[0], "off: sequence parallel");
}

#[test]
fn nothing_is_explained_while_the_run_does_what_its_plan_says() {
    for (example, _) in EXAMPLES {
        let (mut state, mut run) = departing(example, &Change::default());
        watch(&mut state, &mut run, 0..240);
        assert_eq!(words(&state), Vec::<String>::new(), "{example}");
    }
}

#[test]
fn a_search_begins_when_what_is_seen_has_changed_and_not_with_every_sample() {
    let change = Change::to("distribution.sequence_parallel", "false");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    update(&mut state, Event::SourceStarted(run.info()));
    let mut searches = 0;
    for second in 0..600 {
        let sample = run.sample(START.plus_millis(second * 1000));
        let begun = happen_counting(&mut state, Event::Sample(Box::new(sample)));
        searches += begun;
        update(&mut state, Event::Tick(Moment(START.0 + second * 1000 + 500)));
    }
    assert!((1..=12).contains(&searches), "{searches} searches in ten minutes");
}

/// The same as [`happen`]; the searches that it began.
fn happen_counting(state: &mut State, event: Event) -> usize {
    let effects = update(state, event);
    let begun = effects.iter().filter(|effect| matches!(effect, Effect::Explain(_))).count();
    for effect in effects {
        if let Effect::Explain(number) = effect {
            let found = memwall::app::Question::of(state).unwrap().answer();
            happen(state, Event::Explained { number, found });
        }
    }
    begun
}

#[test]
fn an_answer_to_a_plan_that_has_changed_meanwhile_is_none() {
    let change = Change::to("distribution.sequence_parallel", "false");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    watch(&mut state, &mut run, 0..120);
    let found = state.run.explaining.found.clone();
    press(&mut state, &[KeyPress::Char('5'), KeyPress::Char('e')]);
    // A search is asked for by key; before it comes back, the plan is changed.
    let effects = update(&mut state, Event::Key(KeyPress::Char('e')));
    let Some(Effect::Explain(number)) = effects.first() else { panic!("{effects:?}") };
    update(&mut state, Event::Key(KeyPress::Enter));
    update(&mut state, Event::Explained { number: *number, found });
    assert_eq!(words(&state), Vec::<String>::new());
}

/// The cause of the run before it says nothing of another process, not even until the next search.
#[test]
fn what_was_found_of_one_process_is_not_said_of_the_next() {
    let change = Change::to("distribution.sequence_parallel", "false");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    watch(&mut state, &mut run, 0..120);
    assert!(!words(&state).is_empty());
    let before = state.monitor.attached.as_ref().map(|attached| attached.pid);
    for key in [KeyPress::Char('4'), KeyPress::End, KeyPress::Enter] {
        update(&mut state, Event::Key(key));
    }
    assert_ne!(state.monitor.attached.as_ref().map(|attached| attached.pid), before);
    assert_eq!(words(&state), Vec::<String>::new());
}

#[test]
fn the_pane_says_what_each_would_make_of_the_run() {
    let change = Change::to("training.activation_checkpointing", "full");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    watch(&mut state, &mut run, 0..120);
    state.views.focus = Pane::Compare;
    let shown = screen(&state, &look(), SIZE);
    for part in ["why, and what would be seen", "every block checkpointed", "⏎ makes the plan say"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

/// The first steps, whose time says nothing, take figures away that were there before: nothing is named anew for that.
#[test]
fn a_cause_that_was_named_stays_named_while_figures_are_averaged_anew() {
    for (example, key, value, cause) in [
        ("8b_single_gpu", "training.attention", "eager", "eager attention"),
        ("7b_lora", "training.precision", "fp32", "everything in fp32, no autocast"),
        ("8b_fsdp_torchtitan", "training.activation_checkpointing", "full", "every block checkpointed"),
        ("13b_long_sequence", "distribution.sequence_parallel", "false", "off: sequence parallel"),
    ] {
        let (mut state, mut run) = departing(example, &Change::to(key, value));
        watch(&mut state, &mut run, 0..1);
        let mut named = Vec::new();
        for second in 1..150 {
            watch(&mut state, &mut run, second..second + 1);
            named.extend(words(&state).first().cloned());
            named.dedup();
        }
        assert_eq!(named, [cause], "{example}");
    }
}

/// What the command of the process itself says is not what it does otherwise.
#[test]
fn nothing_is_explained_by_what_the_process_was_told_otherwise() {
    let change = Change::to("training.activation_checkpointing", "full");
    let (mut state, mut run) = departing("13b_long_sequence", &change);
    watch(&mut state, &mut run, 0..120);
    let pid = state.monitor.attached_here().unwrap();
    let proposal = |told: &str| Proposal {
        pid,
        plan: LoadedPlan::from_text("inferred", state.plans.editor.text()).unwrap(),
        account: Account { title: String::new(), rows: Vec::new(), open: Vec::new() },
        stated: vec![("training.activation_checkpointing", told.to_owned())],
        steps: None,
        heard: HookKnowledge::Nothing,
    };
    let told = [proposal("selective"), proposal("full")];
    let blamed = told.map(|proposal| {
        happen(&mut state, Event::Inferred { pid, outcome: Ok(Box::new(proposal)) });
        press(&mut state, &[KeyPress::Esc, KeyPress::Char('5'), KeyPress::Char('e')]);
        words(&state).iter().any(|words| words.contains("every block checkpointed"))
    });
    // It was told to recompute everything: that the plan does not know.
    assert_eq!(blamed, [false, true]);
}
