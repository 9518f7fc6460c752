//! Saving and leaving.

use std::path::PathBuf;

use memwall::app::{Conflict, Effect, Event, ExpectedFile, KeyPress, Overlay, SaveObstacle, State, update};
use memwall::reading::Moment;

use super::{PLAN, go_to, press};
use crate::support::demo::{look, screen};
use crate::support::plan::open;

#[test]
fn leaving_with_unsaved_changes_asks() {
    let mut state = open(PLAN);
    assert_eq!(press(&mut state, &[KeyPress::Char('q')]), [Effect::Quit]);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(press(&mut state, &[KeyPress::Right, KeyPress::Char('q')]), []);
    assert_eq!(state.dialogs.overlay, Some(Overlay::ConfirmQuit));
    assert_eq!(press(&mut state, &[KeyPress::Esc]), []);
    assert_eq!(state.dialogs.overlay, None);
    assert_eq!(press(&mut state, &[KeyPress::Char('q'), KeyPress::Char('q')]), [Effect::Quit]);
}

#[test]
fn saving_on_the_way_out_leaves_only_when_saved() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    let effects = press(&mut state, &[KeyPress::Char('q'), KeyPress::Char('s')]);
    let [Effect::Save { path: None, text, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let text = text.clone();
    update(&mut state, Event::SaveFailed("disk full".to_owned()));
    assert!(state.plans.editor.modified());
    press(&mut state, &[KeyPress::Char('q'), KeyPress::Char('s')]);
    let path = PathBuf::from("test.yaml");
    assert_eq!(update(&mut state, Event::Saved { path, text }).last(), Some(&Effect::Quit));
    assert!(!state.plans.editor.modified());
}

#[test]
fn a_plan_is_saved_when_its_changes_have_been_shown() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(press(&mut state, &[KeyPress::Right, KeyPress::Char('s')]), []);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Diff(0)));
    // Another key goes back.
    assert_eq!(press(&mut state, &[KeyPress::Esc]), []);
    assert_eq!(state.dialogs.overlay, None);
    assert!(matches!(
        press(&mut state, &[KeyPress::Char('s'), KeyPress::Char('s')]).as_slice(),
        [Effect::Save { expected: ExpectedFile::Nothing, .. }]
    ));
    // One save at a time.
    assert_eq!(press(&mut state, &[KeyPress::Char('s'), KeyPress::Char('s')]), []);
}

#[test]
fn a_save_that_hangs_is_shown_and_can_be_left() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right, KeyPress::Char('s'), KeyPress::Char('s')]);
    let top = |state: &State| screen(state, &look(), (120, 40)).lines().next().unwrap().to_owned();
    let at = |state: &mut State, seconds: u64| update(state, Event::Tick(Moment(seconds * 1000)));
    at(&mut state, 1);
    assert!(!top(&state).contains("saving"), "{}", top(&state));
    at(&mut state, 12);
    assert!(top(&state).contains("saving for 12 s"), "{}", top(&state));
    // A second one is refused with the reason; everything else goes on, leaving too.
    assert_eq!(press(&mut state, &[KeyPress::Char('s')]), []);
    assert_eq!(state.notice.as_ref().unwrap().text, "still being written for 12 s: the disk does not answer");
    assert_eq!(press(&mut state, &[KeyPress::Char('q'), KeyPress::Char('q')]).last(), Some(&Effect::Quit));
    // Written at last, it is shown no more.
    let (path, text) = (PathBuf::from("test.yaml"), state.plans.editor.text().to_owned());
    update(&mut state, Event::Saved { path, text });
    assert!(!top(&state).contains("saving"), "{}", top(&state));
}

#[test]
fn somebody_elses_changes_are_written_over_only_when_asked_for() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right, KeyPress::Char('s'), KeyPress::Char('s')]);
    let theirs = PLAN.replace("the base", "our base");
    let found = SaveObstacle::Newer(Some(theirs));
    update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
    assert_eq!(state.dialogs.overlay, Some(Overlay::Conflict(0)));
    let effects = press(&mut state, &[KeyPress::Char('o')]);
    assert!(matches!(effects.as_slice(), [Effect::Save { expected: ExpectedFile::Anything, .. }]), "{effects:?}");
}

#[test]
fn leaving_while_an_older_text_is_being_written_loses_nothing() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    let effects = press(&mut state, &[KeyPress::Right, KeyPress::Char('s'), KeyPress::Char('s')]);
    let [Effect::Save { text: older, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    // Edited again and told to save and leave, before the first save has ended.
    assert_eq!(press(&mut state, &[KeyPress::Right, KeyPress::Char('q'), KeyPress::Char('s')]), []);
    let newer = state.plans.editor.text().to_owned();
    let path = PathBuf::from("test.yaml");
    let effects = update(&mut state, Event::Saved { path: path.clone(), text: older.clone() });
    let [Effect::Save { text, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*text, newer);
    assert_eq!(update(&mut state, Event::Saved { path, text: newer }).last(), Some(&Effect::Quit));
}

/// The plan is edited beside the dashboard: what is shown is what `memwall predict` says of the file.
#[test]
fn a_plan_that_is_written_elsewhere_is_read_again() {
    let mut state = open(PLAN);
    let path = PathBuf::from("test.yaml");
    let opened =
        Event::Opened { name: "test".to_owned(), path: path.clone(), text: PLAN.to_owned(), drafts: Vec::new() };
    update(&mut state, opened);
    let looks = |state: &mut State, second: u64| {
        let effects = update(state, Event::Tick(Moment(second * 1000)));
        effects.into_iter().filter(|effect| matches!(effect, Effect::LookAtFile { .. })).count()
    };
    // Every three seconds, once the disk has answered.
    let looked = |known: &str, text: Option<&str>| Event::LookedAtFile {
        path: path.clone(),
        known: known.to_owned(),
        text: text.map(str::to_owned),
        is_gone: false,
    };
    assert_eq!([20, 21, 30].map(|second| looks(&mut state, second)), [1, 0, 0]);
    update(&mut state, looked(PLAN, None));
    assert_eq!([31, 32].map(|second| looks(&mut state, second)), [1, 0]);
    let theirs = PLAN.replace("the base", "our base");
    // A writer may be half-way: what two looks found alike is taken.
    update(&mut state, looked(PLAN, Some("model:\n")));
    update(&mut state, looked(PLAN, Some(&theirs)));
    assert_eq!(state.plans.editor.text(), PLAN);
    update(&mut state, looked(PLAN, Some(&theirs)));
    assert_eq!((state.plans.editor.text(), state.plans.editor.modified()), (theirs.as_str(), false));
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!((state.plans.editor.text(), state.plans.editor.modified()), (PLAN, true));
    // Changes of one's own stay.
    let others = PLAN.replace("the base", "no base");
    update(&mut state, looked(&theirs, Some(&others)));
    update(&mut state, looked(&theirs, Some(&others)));
    assert_eq!(state.plans.editor.text(), PLAN);
    let said = &state.notice.as_ref().unwrap().text;
    assert_eq!(said, "test.yaml was changed on disk: saving offers to merge");
}

/// Somebody removes the file of a plan that is open; an editor that writes it anew does so for a moment.
#[test]
fn a_plan_whose_file_is_removed_says_so_once() {
    let mut state = open(PLAN);
    let path = PathBuf::from("test.yaml");
    update(&mut state, Event::Saved { path: path.clone(), text: PLAN.to_owned() });
    let mut said = |is_gone| {
        state.notice = None;
        let known = PLAN.to_owned();
        update(&mut state, Event::LookedAtFile { path: path.clone(), known, text: None, is_gone });
        state.notice.as_ref().map(|notice| notice.text.clone())
    };
    let told = Some("test.yaml was removed: saving writes it again".to_owned());
    assert_eq!([true, false, true].map(&mut said), [None, None, None]);
    assert_eq!([true, true, true].map(&mut said), [told.clone(), None, None]);
    assert_eq!([false, true, true].map(&mut said), [None, None, told]);
}

/// Undone, the other's change is in the text no more: written without asking it would be lost.
#[test]
fn a_merge_that_was_undone_is_asked_about_again() {
    let mut state = open(PLAN);
    let path = PathBuf::from("test.yaml");
    update(&mut state, Event::Saved { path: path.clone(), text: PLAN.to_owned() });
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    let ours = state.plans.editor.text().to_owned();
    let theirs = format!("{PLAN}# theirs\n");
    update(&mut state, Event::SaveRefused(Conflict { path, found: SaveObstacle::Newer(Some(theirs.clone())) }));
    press(&mut state, &[KeyPress::Char('m')]);
    let merged = state.plans.editor.text().to_owned();
    assert!(merged.ends_with("# theirs\n"));
    let expects = |state: &State| {
        let mut state = state.clone();
        let effects = press(&mut state, &[KeyPress::Char('s'), KeyPress::Char('s')]);
        let [Effect::Save { expected: ExpectedFile::Text(text), .. }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        text.clone()
    };
    // What is expected on disk is what is written over; anything else is asked about.
    assert_eq!(expects(&state), theirs);
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!((state.plans.editor.text(), expects(&state).as_str()), (ours.as_str(), PLAN));
    press(&mut state, &[KeyPress::Ctrl('r')]);
    assert_eq!((state.plans.editor.text(), expects(&state)), (merged.as_str(), theirs));
}
