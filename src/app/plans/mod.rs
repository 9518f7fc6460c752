//! Several plans: opening, copying, closing them, and which is in front.

pub(super) mod account;
pub(super) mod baseline;
pub(super) mod drafts;
pub(super) mod exporting;
pub(super) mod merging;
pub(super) mod new;
mod relocating;
pub(super) mod saving;
pub(super) mod tabs;
pub(super) mod watching;

use std::path::PathBuf;

use drafts::Draft;

use crate::app::editor::Editor;
use crate::app::editor::editing::follow;
use crate::app::editor::text::TextView;
use crate::app::event::Effect;
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::session::note_recent;
use crate::app::state::{Dialogs, Overlay, Plans, Saving, State};
use crate::plan::EXAMPLES;

/// What stands beside an example in the list of plans.
const EXAMPLE: &str = "built-in example";

/// Asks which plan to open.
pub fn ask(state: &mut State) -> Vec<Effect> {
    let examples = EXAMPLES.iter().map(|(name, _)| Choice::of(name, EXAMPLE)).collect();
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Open, examples, None));
    vec![Effect::ListPlans { folder: PathBuf::new(), recent: state.plans.recent.clone() }]
}

/// Shows what there is in a folder.
fn walk_into(state: &mut State, folder: &str) -> Vec<Effect> {
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Open, Vec::new(), None));
    vec![Effect::ListPlans { folder: folder.into(), recent: Vec::new() }]
}

/// Adds the files that there are to the list, each with what it is, while that is open.
pub fn listed(dialogs: &mut Dialogs, files: &[(PathBuf, String)]) {
    let Some(picker) = dialogs.picker.as_mut().filter(|picker| picker.purpose == PickerPurpose::Open) else { return };
    let files = files.iter().map(|(path, what)| Choice::of(&path.display().to_string(), what));
    let choices = files.chain(picker.choices.drain(..).filter(|choice| choice.facts == EXAMPLE)).collect();
    let query = picker.query.clone();
    *picker = Picker::open(PickerPurpose::Open, choices, None);
    picker.set_query(query);
}

/// Opens the plan that was chosen or typed.
pub fn chosen(state: &mut State, name: &str) -> Vec<Effect> {
    match EXAMPLES.iter().find(|(known, _)| *known == name) {
        Some((name, text)) => {
            let plan = Editor::open_text((*name).to_owned(), None, (*text).to_owned(), &state.catalog);
            open(state, plan, Vec::new());
            Vec::new()
        }
        None if name.ends_with('/') => walk_into(state, name),
        None => vec![Effect::Open(name.into())],
    }
}

/// Brings the lesson of that name to the front; opened where it is not open yet.
pub fn open_lesson(state: &mut State, name: String, text: &str) {
    let place = state.plans.tabs.all(&state.plans.editor).position(|open| open.name() == name);
    match place {
        Some(place) if place == state.plans.tabs.place().0 => {}
        // Somebody goes back: the plan is as it was left.
        Some(place) => go_to(state, place),
        None => {
            let lesson = Editor::lesson(name, text, &state.catalog);
            open(state, lesson, Vec::new());
        }
    }
}

/// Puts a plan in front of the others. One that is open already comes to the front as it is.
pub fn open(state: &mut State, plan: Editor, kept: Vec<Draft>) {
    let same = |other: &Editor| other.path().is_some() && other.path() == plan.path();
    let open_already = state.plans.tabs.all(&state.plans.editor).position(same);
    if let Some(place) = open_already {
        go_to(state, place);
        state.notice = Some(info(format!("{} is open already", state.plans.editor.name())));
        return;
    }
    if let Some(path) = plan.path() {
        note_recent(&mut state.plans.recent, path);
    }
    leave(&mut state.plans);
    if state.plans.editor.is_unbegun() {
        state.plans.editor = plan;
        state.plans.new_at = None;
        state.dialogs.picker = None;
    } else {
        state.plans.tabs.open(&mut state.plans.editor, plan);
    }
    arrive(state);
    state.plans.text = TextView::to_mend(&state.plans.editor);
    if state.plans.text.is_some() {
        state.views.focus = crate::app::pane::Pane::Plan;
    }
    drafts::offer(state, kept);
}

/// `name`, with a number where a plan of that name is open.
pub fn unused(plans: &Plans, name: &str) -> String {
    let names: Vec<&str> = plans.tabs.all(&plans.editor).map(Editor::name).collect();
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(&name.as_str())).unwrap_or_default()
}

/// A copy of the plan in front, beside it.
pub fn duplicate(state: &mut State) {
    let copy = state.plans.editor.duplicate(unused(&state.plans, state.plans.editor.name()));
    leave(&mut state.plans);
    state.plans.tabs.open(&mut state.plans.editor, copy);
    arrive(state);
    state.notice = Some(info(format!("a copy: {}; [ and ] go between the plans", state.plans.editor.name())));
}

/// Closes the plan in front, unless it has unsaved changes or is the only one.
pub fn close(state: &mut State) {
    if state.plans.editor.modified() {
        state.notice = Some(problem("it has unsaved changes: save it, or undo them"));
        return;
    }
    if state.plans.saving != Saving::Idle || !state.plans.tabs.close(&mut state.plans.editor) {
        state.notice = Some(problem("this is the only plan: q leaves"));
        return;
    }
    arrive(state);
}

/// Brings the plan of that place to the front.
pub fn go_to(state: &mut State, place: usize) {
    turn(state, |state| state.plans.tabs.go_to(&mut state.plans.editor, place));
}

/// Brings the next plan to the front.
pub fn next(state: &mut State) {
    turn(state, |state| state.plans.tabs.next(&mut state.plans.editor));
}

/// Brings the previous plan to the front.
pub fn previous(state: &mut State) {
    turn(state, |state| state.plans.tabs.previous(&mut state.plans.editor));
}

fn turn(state: &mut State, to: impl FnOnce(&mut State)) {
    if state.plans.tabs.place().1 == 1 {
        state.notice = Some(problem("only this plan is open: o opens another, d copies this one"));
        return;
    }
    if state.plans.saving != Saving::Idle {
        state.notice = Some(problem("it is being saved"));
        return;
    }
    leave(&mut state.plans);
    to(state);
    arrive(state);
}

/// What belongs to the plan that was in front is put away.
fn leave(plans: &mut Plans) {
    plans.text = None;
    plans.form.typing = None;
    plans.form.adding = None;
    plans.kept = None;
}

fn arrive(state: &mut State) {
    state.views.memory.selected = 0;
    state.views.roofline.selected = 0;
    follow(state);
}

/// A key while the open plans are compared.
pub fn on_table(state: &mut State, key: KeyPress, selected: usize) {
    let last = state.plans.tabs.place().1 - 1;
    state.dialogs.overlay = match key {
        KeyPress::Up | KeyPress::Char('k') => Some(Overlay::Plans(selected.saturating_sub(1))),
        KeyPress::Down | KeyPress::Char('j') => Some(Overlay::Plans((selected + 1).min(last))),
        KeyPress::Enter => {
            if state.plans.tabs.place().0 != selected {
                go_to(state, selected);
            }
            None
        }
        _ => None,
    };
}
