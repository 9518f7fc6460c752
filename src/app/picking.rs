//! What happens in a list and with what is taken from it.

use super::choice::Choice;
use super::editing;
use super::event::Effect;
use super::key::Key;
use super::keymap::{Action, Context};
use super::listing::{Command, commands};
use super::picker::{Picker, Purpose};
use super::plans;
use super::saving;
use super::search_view;
use super::state::State;
use super::step::outlook;
use super::sweep_view;

/// Rows that PageUp and PageDown go.
const PAGE: isize = 10;

/// Opens the list of actions.
pub fn open_palette(state: &mut State) {
    let choices = commands(state.focus).iter().map(|command| choice(command, state)).collect();
    state.picker = Some(Picker::open(Purpose::Action, choices, None));
}

fn choice(command: &Command, state: &State) -> Choice {
    let binding = command.binding;
    let key = state.keys.shown(binding);
    let place = match binding.context {
        Context::Anywhere => String::new(),
        context => format!(" ({})", context.name()),
    };
    let facts = format!("{key:>7}  {}{place}", binding.help);
    Choice { name: command.action.name().replace('-', " "), facts, aliases: String::new() }
}

/// A key while a list is open. An action that was chosen is returned to be done.
pub fn on_key(state: &mut State, key: Key) -> (Vec<Effect>, Option<Action>) {
    let Some(picker) = &mut state.picker else { return (Vec::new(), None) };
    match key {
        Key::Up | Key::Ctrl('p') => picker.step(-1),
        Key::Down | Key::Ctrl('n') => picker.step(1),
        Key::PageUp => picker.step(-PAGE),
        Key::PageDown => picker.step(PAGE),
        Key::Home => picker.step(isize::MIN),
        Key::End => picker.step(isize::MAX),
        Key::Char(letter) => picker.type_letter(letter),
        Key::Backspace => {
            let mut query = std::mem::take(&mut picker.query);
            query.pop();
            picker.set_query(query);
        }
        Key::Ctrl('u') => picker.set_query(String::new()),
        Key::Tab => {
            if let Some(name) = picker.choice().map(|choice| choice.name.clone()) {
                picker.set_query(name);
            }
        }
        Key::Esc | Key::Ctrl('c') => {
            state.picker = None;
            editing::leave_value(state);
        }
        Key::Enter => return take(state),
        _ => {}
    }
    look(state);
    (Vec::new(), None)
}

/// Works out what the selected value would do.
pub fn look(state: &mut State) {
    let Some(picker) = &mut state.picker else { return };
    let Purpose::Value(field) = picker.purpose else { return };
    picker.outcome =
        picker.taken().and_then(|value| outlook(field, &value, &state.editor, &state.catalog)).map(|step| step.outcome);
}

fn take(state: &mut State) -> (Vec<Effect>, Option<Action>) {
    let Some(picker) = state.picker.take() else { return (Vec::new(), None) };
    let Some(taken) = picker.taken() else {
        state.picker = Some(picker);
        return (Vec::new(), None);
    };
    let mut effects = Vec::new();
    match picker.purpose {
        Purpose::Value(field) => editing::take_value(state, field, &taken),
        Purpose::NewKey => editing::add(state, &taken),
        Purpose::SecondKey => sweep_view::add(state, &taken),
        Purpose::Constraint(constraint) => effects = search_view::constrain(state, constraint, &taken),
        Purpose::Open => effects = plans::chosen(state, &taken),
        Purpose::SaveAs => {
            state.save_as = Some(taken.into());
            effects = saving::save(state, false);
        }
        Purpose::Action => {
            let command = picker.place().and_then(|place| commands(state.focus).get(place).copied());
            let Some(command) = command else { return (effects, None) };
            if let Context::In(pane) = command.binding.context {
                state.focus = pane;
            }
            return (effects, Some(command.action));
        }
    }
    (effects, None)
}
