//! Several plans, the baseline, what is kept and merged.

use std::path::PathBuf;

use memwall::app::{Conflict, Draft, Effect, Event, KeyPress, Overlay, SaveObstacle, offer, update};

use super::{PLAN, go_to, letters, press};
use crate::support::demo::{look, screen};
use crate::support::plan::{draft, open};

#[test]
fn a_baseline_tells_what_changed_and_is_let_go() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('b')]);
    let needed = state.plans.editor.prediction().unwrap().capacity.needed;
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    let prediction = state.plans.editor.prediction().unwrap();
    let outcome = state.plans.baseline.as_ref().unwrap().outcome(prediction);
    assert_eq!(outcome.memory, prediction.capacity.needed - needed);
    // Pinned again it moves here; then it is let go.
    press(&mut state, &[KeyPress::Char('b')]);
    assert_eq!(state.plans.baseline.as_ref().unwrap().outcome(state.plans.editor.prediction().unwrap()).memory.0, 0);
    press(&mut state, &[KeyPress::Char('b')]);
    assert!(state.plans.baseline.is_none());
}

#[test]
fn copies_are_tabs_of_their_own() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('d')]);
    assert_eq!((state.plans.editor.name(), state.plans.tabs.place()), ("test-2", (1, 2)));
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    assert!(state.plans.editor.text().contains("4096"));
    press(&mut state, &[KeyPress::Char('[')]);
    assert_eq!((state.plans.editor.name(), state.plans.editor.text()), ("test", PLAN));
    press(&mut state, &[KeyPress::Char('='), KeyPress::Down, KeyPress::Enter]);
    assert_eq!((state.plans.editor.name(), state.dialogs.overlay), ("test-2", None));
    // With unsaved changes it is not closed; leaving asks about it wherever one is.
    press(&mut state, &[KeyPress::Ctrl('w')]);
    assert_eq!(state.plans.tabs.place().1, 2);
    press(&mut state, &[KeyPress::Char(']'), KeyPress::Char('q')]);
    assert_eq!((state.plans.editor.name(), state.dialogs.overlay), ("test-2", Some(Overlay::ConfirmQuit)));
    assert_eq!(press(&mut state, &[KeyPress::Char('q')]).last(), Some(&Effect::Quit));
}

#[test]
fn a_plan_is_opened_from_the_list_beside_the_first() {
    let mut state = open(PLAN);
    assert_eq!(
        press(&mut state, &[KeyPress::Char('o')]),
        [Effect::ListPlans { folder: std::path::PathBuf::new(), recent: Vec::new() }]
    );
    update(
        &mut state,
        Event::PlansListed(["plans/big.yaml", "small.yaml"].map(|path| (path.into(), "file".into())).to_vec()),
    );
    letters(&mut state, "big");
    assert_eq!(press(&mut state, &[KeyPress::Enter]), [Effect::Open(PathBuf::from("plans/big.yaml"))]);
    let (name, path) = ("big".to_owned(), PathBuf::from("plans/big.yaml"));
    let text = "model: {preset: gpt2}\n".to_owned();
    update(
        &mut state,
        Event::Opened { name: name.clone(), path: path.clone(), text: text.clone(), drafts: Vec::new() },
    );
    assert_eq!((state.plans.editor.name(), state.plans.tabs.place()), ("big", (1, 2)));
    // A second time it comes to the front as it is.
    press(&mut state, &[KeyPress::Char('[')]);
    update(&mut state, Event::Opened { name, path, text, drafts: Vec::new() });
    assert_eq!((state.plans.editor.name(), state.plans.tabs.place()), ("big", (1, 2)));
    // What is no plan yet is opened as text, at its fault.
    let broken = "model:\n  preset: gpt2\n  bach_size: 3\n".to_owned();
    let (name, path) = ("broken".to_owned(), PathBuf::from("broken.yaml"));
    update(&mut state, Event::Opened { name, path, text: broken, drafts: Vec::new() });
    assert_eq!(state.plans.text.as_ref().unwrap().cursor(), (2, 2));
}

#[test]
fn unsaved_text_is_kept_until_it_is_saved_or_taken_back() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    let effects = press(&mut state, &[KeyPress::Right]);
    let [Effect::Keep(kept)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(kept.text, PLAN.replace("2048", "4096"));
    assert_eq!(press(&mut state, &[KeyPress::Down]), [], "it is kept already");
    assert!(matches!(press(&mut state, &[KeyPress::Char('u')]).as_slice(), [Effect::Forget { .. }]));
    // The terminal goes: what is unsaved was kept before.
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    state.plans.form.upper.as_ref().unwrap();
    let effects = press(&mut state, &[KeyPress::Right]);
    assert!(matches!(effects.as_slice(), [Effect::Keep(_)]));
    assert_eq!(update(&mut state, Event::TerminalGone), [Effect::Quit]);
}

#[test]
fn what_was_kept_is_offered_and_taken_back_as_an_edit() {
    let mut state = open(PLAN);
    let kept = PLAN.replace("2048", "8192");
    offer(&mut state, vec![draft(&kept)]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Recovered(0)));
    press(&mut state, &[KeyPress::Char('r')]);
    assert_eq!((state.plans.editor.text(), state.plans.editor.modified()), (kept.as_str(), true));
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), PLAN);
    offer(&mut state, vec![draft(PLAN)]);
    assert_eq!(state.dialogs.overlay, None, "nothing is different");
    offer(&mut state, vec![draft(&kept)]);
    // It is not passed by: the next edit would take its place.
    press(&mut state, &[KeyPress::Down]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Recovered(1)));
    press(&mut state, &[KeyPress::Esc]);
    assert!(state.dialogs.overlay.is_some());
    assert!(matches!(press(&mut state, &[KeyPress::Char('d')]).as_slice(), [Effect::DeleteDraft(_)]));
    assert_eq!(state.dialogs.overlay, None);
}

#[test]
fn of_several_drafts_each_is_shown_with_its_origin_and_merged_with_the_file() {
    let mut state = open(PLAN);
    let theirs = PLAN.replace("batch_size: 32", "batch_size: 64");
    // It started from the file before somebody wrote the batch size that stands there now.
    let older = Draft {
        id: "b.json".to_owned(),
        pid: 4712,
        base: Some(theirs),
        ..draft(&PLAN.replace("2048", "8192").replace("batch_size: 32", "batch_size: 64"))
    };
    offer(&mut state, vec![draft(&PLAN.replace("2048", "4096")), older]);
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("unsaved at 2026-09-22T13:46:40Z by process 4711 on node7"), "{shown}");
    assert!(shown.contains("sequence_length: 4096") && shown.contains("2 drafts were kept"), "{shown}");
    press(&mut state, &[KeyPress::Char('n')]);
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("by process 4712") && shown.contains("sequence_length: 8192"), "{shown}");
    let effects = press(&mut state, &[KeyPress::Char('r')]);
    assert!(
        matches!(effects.as_slice(), [Effect::TakeDraft { id, .. }, Effect::Keep(_)] if id == "b.json"),
        "{effects:?}"
    );
    assert_eq!(state.plans.editor.text(), PLAN.replace("2048", "8192"), "their batch size stays");
    let said = &state.notice.as_ref().unwrap().text;
    assert!(said.contains("merged with what was written since") && said.contains("1 more"), "{said}");
}

/// Somebody else wrote that to the plan's file.
fn newer(theirs: &str) -> Event {
    Event::SaveRefused(Conflict { path: "test.yaml".into(), found: SaveObstacle::Newer(Some(theirs.to_owned())) })
}

#[test]
fn both_sets_of_changes_are_merged() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right, KeyPress::Char('s'), KeyPress::Char('s')]);
    // The neighbouring line: lines meet, values do not.
    let theirs = PLAN.replace("batch_size: 32", "batch_size: 64 # theirs");
    update(&mut state, newer(&theirs));
    press(&mut state, &[KeyPress::Char('m')]);
    assert_eq!(state.plans.editor.text(), theirs.replace("2048", "4096"));
    assert_eq!(state.plans.editor.saved_text(), theirs);
    // The same value twice: both stand there, between marks.
    press(&mut state, &[KeyPress::Char('s'), KeyPress::Char('s')]);
    let again = theirs.replace("2048", "1024");
    update(&mut state, newer(&again));
    press(&mut state, &[KeyPress::Char('m')]);
    let text = state.plans.editor.text();
    assert!(text.contains("<<<<<<<") && text.contains("4096") && text.contains("1024"), "{text}");
    assert!(state.plans.text.is_some() && !state.plans.editor.faults().is_empty());
}
