//! The plan that a process seems to run: proposed, taken, dismissed.

use crate::support::demo::{self, look, open, screen};
use memwall::app::{
    Account, Effect, Event, ExpectedFile, HookKnowledge, KeyPress, NotInferred, Overlay, Proposal, State, update,
};
use memwall::plan::LoadedPlan;
use memwall::reading::{SourceInfo, SourceKind};

const INFERRED: &str = "model: {preset: gpt2, batch_size: 8, sequence_length: 1024} # x\n";

fn press(state: &mut State, keys: &[KeyPress]) -> Vec<Effect> {
    keys.iter().flat_map(|key| demo::happen(state, Event::Key(*key))).collect()
}

fn proposal(rows: usize) -> Proposal {
    let origins = ["--model_name_or_path gpt2", "micro batch 1 x 1 steps x 8 ranks", "config.json:3: n_positions"];
    let row = |n: usize| ["model.preset".to_owned(), "gpt2".to_owned(), origins[n % 3].to_owned()];
    Proposal {
        pid: 41213,
        plan: LoadedPlan::from_text("inferred-41213", INFERRED).unwrap(),
        account: Account {
            title: "transformers: the plan of 41213".to_owned(),
            rows: (0..rows).map(row).collect(),
            open: vec!["hardware.gpu_type: no GPU in sight".to_owned()],
        },
        stated: vec![("model.preset", "gpt2".to_owned())],
        steps: None,
        heard: HookKnowledge::Nothing,
    }
}

fn proposed(rows: usize) -> State {
    let mut state = open("13b_long_sequence");
    update(&mut state, Event::Inferred { pid: 41213, outcome: Ok(Box::new(proposal(rows))) });
    state
}

#[test]
fn a_proposal_changes_nothing_until_it_is_taken() {
    let mut state = proposed(3);
    let before = state.plans.editor.text().to_owned();
    assert_eq!(state.dialogs.overlay, Some(Overlay::Proposal(0)));
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!((state.dialogs.overlay, state.plans.editor.text()), (None, before.as_str()));
    let mut state = proposed(3);
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!((state.dialogs.overlay, state.plans.editor.text()), (None, INFERRED));
    // In no file yet: leaving asks, and saving makes a file of its own.
    assert!(state.plans.editor.modified() && state.plans.editor.path().is_none() && !state.plans.editor.is_example());
    let effects = press(&mut state, &[KeyPress::Char('1'), KeyPress::Char('s'), KeyPress::Char('s')]);
    let save = Effect::Save {
        path: None,
        name: "inferred-41213".to_owned(),
        text: INFERRED.to_owned(),
        expected: ExpectedFile::Nothing,
    };
    assert!(effects.contains(&save), "{effects:?}");
}

#[test]
fn the_plan_that_was_open_stays_beside_it() {
    let mut state = open("13b_long_sequence");
    let before = state.plans.editor.text().to_owned();
    update(&mut state, Event::Inferred { pid: 41213, outcome: Ok(Box::new(proposal(1))) });
    press(&mut state, &[KeyPress::Enter]);
    let open: Vec<&str> = state.plans.tabs.all(&state.plans.editor).map(|plan| plan.text()).collect();
    assert_eq!(open, [before.as_str(), INFERRED]);
}

#[test]
fn who_cannot_be_read_is_a_message() {
    let mut state = open("13b_long_sequence");
    update(&mut state, Event::Inferred { pid: 7, outcome: Err(NotInferred("there is no process 7".to_owned())) });
    assert_eq!((state.dialogs.overlay, state.run.proposal.is_none()), (None, true));
    assert!(state.notice.as_ref().unwrap().text.contains("there is no process 7"));
}

#[test]
fn attaching_from_the_start_asks_for_the_plan_where_none_was_given() {
    let nvml = || Event::SourceStarted(SourceInfo { kind: SourceKind::Nvml, detail: String::new() });
    let mut state = open("13b_long_sequence");
    assert_eq!(update(&mut state, nvml()), []);
    state.monitor.attached = Some(memwall::app::AttachedProcess::to(9));
    assert_eq!(update(&mut state, nvml()), []);
    // Its GPUs are known from the first sample on.
    let sample = || Event::Sample(Box::default());
    assert_eq!(update(&mut state, sample()), [Effect::Infer(9)]);
    assert_eq!(update(&mut state, sample()), []);
    // A demo's processes are simulated, and a plan of one's own needs no other.
    let demo = Event::SourceStarted(SourceInfo { kind: SourceKind::Demo, detail: String::new() });
    assert_eq!(update(&mut state, demo), []);
    press(&mut state, &[KeyPress::Char('4')]);
    assert_eq!(press(&mut state, &[KeyPress::Char('i')]), [Effect::Infer(9)]);
}

/// `preset: unknown` stands where a process does not tell its model. Who takes such a plan has not asked to write.
#[test]
fn keys_stay_keys_after_a_plan_without_a_model_is_taken() {
    let text = "model: {preset: unknown, batch_size: 8}\n";
    let plan = LoadedPlan::from_text("inferred-41213", text).unwrap();
    let mut state = open("13b_long_sequence");
    let outcome = Ok(Box::new(Proposal { plan, ..proposal(1) }));
    update(&mut state, Event::Inferred { pid: 41213, outcome });
    press(&mut state, &[KeyPress::Enter, KeyPress::Char('5')]);
    assert_eq!(state.plans.editor.text(), text);
    assert_eq!(state.views.focus, memwall::app::Pane::Compare);
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.contains("no model yet: its name is wanted in line 1"), "{shown}");
}

/// A command is for typing: none of its words is cut, however narrow the screen.
#[test]
fn a_command_among_what_is_open_is_whole() {
    let words = "memwall run --trace model.tape.json.gz -- python -m torch.distributed.run --nproc_per_node=8 \
                 /home/someone/projects/a-long-name/experiments/2026-11/train_language_model_with_everything.py --config=x.yaml";
    let mut account = proposal(2).account;
    account.open.push(format!("no preset is it: `{words}` follows one step of it"));
    let mut state = open("13b_long_sequence");
    update(&mut state, Event::Inferred { pid: 41213, outcome: Ok(Box::new(Proposal { account, ..proposal(2) })) });
    press(&mut state, &[KeyPress::PageDown; 9]);
    for size in [(80, 24), (120, 40)] {
        let shown = screen(&state, &look(), size);
        let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '│').collect::<String>();
        assert!(letters(&shown).contains(&letters(words)), "{shown}");
    }
}

#[test]
fn it_scrolls_to_its_last_line_and_no_further() {
    let mut state = proposed(60);
    press(&mut state, &[KeyPress::PageDown; 40]);
    let Some(Overlay::Proposal(line)) = state.dialogs.overlay else { panic!() };
    assert_eq!(line, proposal(60).account.lines() - 1);
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.contains("hardware.gpu_type: no GPU in sight"), "{shown}");
    press(&mut state, &[KeyPress::PageUp; 40]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Proposal(0)));
}

#[test]
fn each_value_stands_beside_what_said_so() {
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&proposed(3), &look(), size);
        let line = shown.lines().find(|line| line.contains("--model_name_or_path")).unwrap();
        assert!(line.contains("model.preset") && line.contains("gpt2"), "{shown}");
        assert!(shown.contains("the plan of 41213") && shown.contains("⏎ takes it"), "{shown}");
    }
}

/// What the hook tells after a plan was proposed makes it be asked for again: once for each thing, and never what was answered.
#[test]
fn a_proposal_is_read_again_when_the_hook_has_told_more() {
    let more = |heard| Event::Inferred { pid: 41213, outcome: Ok(Box::new(Proposal { heard, ..proposal(2) })) };
    let mut state = proposed(3);
    state.run.asked_again = Some((41213, HookKnowledge::Steps));
    update(&mut state, more(HookKnowledge::Steps));
    let shown = state.run.proposal.as_ref().unwrap();
    assert_eq!((shown.account.rows.len(), shown.heard), (2, HookKnowledge::Steps));
    assert_eq!(state.dialogs.overlay, Some(Overlay::Proposal(0)));
    press(&mut state, &[KeyPress::Esc]);
    update(&mut state, more(HookKnowledge::Steps));
    assert_eq!((state.dialogs.overlay, state.run.proposal.is_none()), (None, true));
}
