//! What happens in a list and with what is taken from it.

use super::choice::Choice;
use super::{Picker, PickerPurpose};
use crate::app::cluster::actions as cluster_actions;
use crate::app::editor::editing;
use crate::app::editor::step::outlook;
use crate::app::event::Effect;
use crate::app::key::{KeyPress, PAGE};
use crate::app::keymap::listing::{PaletteCommand, commands};
use crate::app::keymap::synonyms::synonyms;
use crate::app::keymap::{Action, KeyContext};
use crate::app::lesson;
use crate::app::notice::problem;
use crate::app::plans;
use crate::app::plans::exporting;
use crate::app::plans::new;
use crate::app::plans::saving;
use crate::app::state::State;
use crate::app::themes;
use crate::app::topics;
use crate::app::what_if::search;
use crate::app::what_if::sweep;

/// Opens the list of actions.
pub fn open_palette(state: &mut State) {
    let choices = listed(state).iter().map(|command| choice(command, state)).collect();
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Action, choices, None));
}

/// The actions that can be done now: those of a recording only while one is played.
fn listed(state: &State) -> Vec<PaletteCommand> {
    let mut commands = commands(state.views.focus);
    commands.retain(|command| command.binding.context != KeyContext::Replay || state.recordings.playback.is_some());
    commands
}

fn choice(command: &PaletteCommand, state: &State) -> Choice {
    let binding = command.binding;
    let key = state.keys.key_of(binding, command.action);
    let place = match binding.context {
        KeyContext::Anywhere => String::new(),
        context => format!(" ({})", context.name()),
    };
    let facts = format!("{key:>9}  {}{place}", binding.help);
    Choice { name: command.action.name().replace('-', " "), facts, aliases: synonyms(command.action).to_owned() }
}

/// A key while a list is open. An action that was chosen is returned to be done.
pub fn on_key(state: &mut State, key: KeyPress) -> (Vec<Effect>, Option<Action>) {
    let Some(picker) = &mut state.dialogs.picker else { return (Vec::new(), None) };
    match key {
        KeyPress::Up | KeyPress::Ctrl('p') => picker.step(-1),
        KeyPress::Down | KeyPress::Ctrl('n') => picker.step(1),
        KeyPress::PageUp => picker.step(-PAGE.cast_signed()),
        KeyPress::PageDown => picker.step(PAGE.cast_signed()),
        KeyPress::Home => picker.step(isize::MIN),
        KeyPress::End => picker.step(isize::MAX),
        KeyPress::Char(letter) => picker.type_letter(letter),
        KeyPress::Backspace => {
            let mut query = std::mem::take(&mut picker.query);
            query.pop();
            picker.set_query(query);
        }
        KeyPress::Ctrl('u') => picker.set_query(String::new()),
        // What is typed as a path goes on as one; else the selected name is written out.
        KeyPress::Tab if picker.purpose.is_path() && (picker.choice().is_none() || is_path(&picker.query)) => {
            return (vec![Effect::CompletePath(picker.query.clone())], None);
        }
        KeyPress::Tab => {
            if let Some(name) = picker.choice().map(|choice| choice.name.clone()) {
                picker.set_query(name);
            }
        }
        KeyPress::Esc | KeyPress::Ctrl('c') => {
            state.dialogs.picker = None;
            new::left(state);
            editing::leave_value(state);
        }
        KeyPress::Enter => return take(state),
        _ => {}
    }
    look(state);
    (Vec::new(), None)
}

fn is_path(typed: &str) -> bool {
    typed.contains('/') || typed.starts_with('~')
}

/// Writes out what all paths have in common that begin as it was typed, and lists them.
pub fn paths_found(state: &mut State, typed: &str, paths: Vec<String>) {
    let waits = |picker: &&mut Picker| picker.purpose.is_path() && picker.query == typed;
    let Some(picker) = state.dialogs.picker.as_mut().filter(waits) else { return };
    let Some(first) = paths.first() else {
        state.notice = Some(problem("no path begins so"));
        return;
    };
    let common = paths.iter().fold(first.as_str(), |common, path| {
        let same = common.chars().zip(path.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        &common[..same]
    });
    let query = common.to_owned();
    if paths.len() > 1 {
        picker.choices = paths.iter().map(|path| Choice::of(path, "")).collect();
    }
    picker.set_query(query);
}

/// Works out what the selected value would do.
pub fn look(state: &mut State) {
    let Some(picker) = &mut state.dialogs.picker else { return };
    let PickerPurpose::Value(field) = picker.purpose else { return };
    picker.outcome = picker
        .taken()
        .and_then(|value| outlook(field, &value, &state.plans.editor, &state.catalog))
        .map(|step| step.outcome);
}

fn take(state: &mut State) -> (Vec<Effect>, Option<Action>) {
    let Some(picker) = state.dialogs.picker.take() else { return (Vec::new(), None) };
    let Some(taken) = picker.taken() else {
        state.dialogs.picker = Some(picker);
        return (Vec::new(), None);
    };
    let mut effects = Vec::new();
    match picker.purpose {
        PickerPurpose::Value(field) => editing::take_value(state, field, &taken),
        PickerPurpose::NewKey => editing::add(state, &taken),
        PickerPurpose::SecondKey => sweep::add(state, &taken),
        PickerPurpose::Constraint(constraint) => effects = search::constrain(state, constraint, &taken),
        PickerPurpose::NewPlan => effects = new::chosen(state, &taken),
        PickerPurpose::Theme => themes::chosen(state, &taken),
        PickerPurpose::Open => effects = plans::chosen(state, &taken),
        PickerPurpose::SaveAs => {
            state.plans.save_as = Some(taken.into());
            effects = saving::save(&mut state.plans, false);
        }
        PickerPurpose::Job => cluster_actions::chosen(state, &taken),
        PickerPurpose::Export => exporting::chosen(state, &taken),
        PickerPurpose::ExportTo => effects = exporting::write_to(&mut state.plans, taken.into()),
        PickerPurpose::Term => lesson::show(state, &taken),
        PickerPurpose::Topic => picker.place().into_iter().for_each(|place| topics::chosen(state, place)),
        PickerPurpose::Action => {
            let command = picker.place().and_then(|place| listed(state).get(place).copied());
            let Some(command) = command else { return (effects, None) };
            if let KeyContext::In(pane) = command.binding.context {
                state.views.focus = pane;
            }
            return (effects, Some(command.action));
        }
    }
    (effects, None)
}
