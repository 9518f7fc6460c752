//! Changing the plan: through its fields, through its text, back and forth.

use super::field::Field;
use super::step::{Direction, meant, nearest, why_not, with_value};
use super::text::TextView;
use crate::app::key::KeyPress;
use crate::app::keymap::{Action, KeyContext};
use crate::app::notice::{info, problem};
use crate::app::pane::Pane;
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::run::calibrations;
use crate::app::run::last_attempt;
use crate::app::run::observation::observation;
use crate::app::run::plan as run_plan;
use crate::app::run::taken;
use crate::app::state::State;
use crate::compare::{Bands, Calibration, compare};
use crate::plan::schema::{self, ValueKind};
use crate::plan::{Change, Document};

/// The longest value that can be typed.
const LONGEST_VALUE: usize = 200;

/// What depends on the plan, after it changed.
pub fn follow(state: &mut State) {
    let fields = state.plans.form.fields(&state.plans.editor).len();
    state.plans.form.selected = state.plans.form.selected.min(fields.saturating_sub(1));
    look_around(state);
    set_against(state);
}

/// Shows what the values beside the selected field's would do, as far as that is known.
pub fn look_around(state: &mut State) {
    if state.plans.text.is_none() {
        let all = state.views.zoomed && state.views.focus == Pane::Plan;
        state.plans.form.look_around(all, &state.plans.editor);
    }
}

/// Sets what is observed against what the run's plan predicts.
pub fn set_against(state: &mut State) {
    run_plan::follow(state);
    state.run.calibration = calibrations::holds(state).map_or_else(Calibration::default, |kept| kept.factors);
    let (monitor, telemetry) = (&state.monitor, &state.run.telemetry);
    let last = &mut state.run.last_attempt;
    state.run.comparison =
        state.plans.run.as_ref().and_then(|run| run.plan().job().zip(run.plan().prediction())).and_then(
            |(job, prediction)| {
                let seen = observation(monitor, telemetry, prediction, job);
                let observation = last.or(seen, telemetry, monitor, state.now)?;
                Some(compare(prediction, &observation, &Bands::of(job), &state.run.calibration))
            },
        );
    if state.run.last_attempt.is_shown() {
        last_attempt::forget_peaks(&mut state.monitor);
    }
}

/// Makes `document` the plan.
pub fn apply(state: &mut State, document: Document) {
    state.plans.editor.apply(document, &state.catalog);
    refresh(state);
}

/// Makes `text` the plan's, whatever it says.
pub fn take_text(state: &mut State, text: String) {
    state.plans.editor.set_text(text, false, &state.catalog);
    refresh(state);
}

/// The text was changed from elsewhere: the text view shows it, with the cursor where it was.
fn refresh(state: &mut State) {
    if let Some(view) = &mut state.plans.text {
        let (row, column) = view.cursor();
        view.follow(state.plans.editor.text(), 0);
        view.go_to(row, column);
    }
    follow(state);
}

/// Takes a value next to the selected field's, which is known to make a valid plan.
pub fn take_step(state: &mut State, direction: Direction) {
    let form = &state.plans.form;
    let field = form.field(&state.plans.editor);
    let change = match (form.is_known(&state.plans.editor), direction) {
        (true, Direction::Less) => form.lower.as_ref().map(|step| step.change.clone()),
        (true, Direction::More) => form.upper.as_ref().map(|step| step.change.clone()),
        // The key came before the answer what it would do.
        (false, _) => field.and_then(|field| nearest(field, direction, &state.plans.editor, &state.catalog)),
    };
    let Some(change) = change else {
        let way = if direction == Direction::Less { "below" } else { "above" };
        let why = field.and_then(|field| why_not(field, direction, &state.plans.editor, &state.catalog));
        let label = field.map_or("", Field::label);
        let said = why.unwrap_or_else(|| format!("{label}: no value {way} this one makes a valid plan"));
        state.notice = Some(problem(said));
        return;
    };
    match state.plans.editor.with(&change) {
        Ok(document) => apply(state, document),
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}

/// Opens the list of the selected field's values, or lets one be typed.
pub fn type_value(state: &mut State) {
    let Some(field) = state.plans.form.field(&state.plans.editor) else { return };
    let mut choices = field.choices(&state.catalog);
    if field == Field::Gpu {
        choices.iter_mut().for_each(|choice| tell_here(choice, state));
    }
    if choices.is_empty() {
        state.plans.form.typing = Some(String::new());
        return;
    }
    let shown = state.plans.editor.shown(field);
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Value(field), choices, Some(&shown)));
}

/// Tells of a GPU how many of it are watched.
fn tell_here(choice: &mut Choice, state: &State) {
    if state.is_made_up() {
        return;
    }
    let here = state
        .monitor
        .devices()
        .iter()
        .filter_map(|device| state.card(device))
        .filter(|gpu| gpu.name == choice.name)
        .count();
    if here > 0 {
        choice.facts += &format!("  {here} here");
    }
}

/// Takes back the last change of the plan, or makes it again.
pub fn turn_back(state: &mut State, action: Action) {
    let at = match action {
        Action::Undo => state.plans.editor.undo(&state.catalog),
        _ => state.plans.editor.redo(&state.catalog),
    };
    match at {
        Some(at) => {
            if let Some(view) = &mut state.plans.text {
                view.follow(state.plans.editor.text(), at);
            }
            follow(state);
            if action == Action::Undo {
                taken::take_back(state);
            }
        }
        None => {
            state.notice = Some(problem(if action == Action::Undo { "nothing to undo" } else { "nothing to redo" }))
        }
    }
}

/// Asks which key to add.
pub fn add_key(state: &mut State) {
    let missing =
        schema::keys().iter().filter(|key| key.kind != ValueKind::Section && !state.plans.editor.has(key.path));
    let choices = missing.map(|key| Choice::of(key.path, key.line)).collect();
    state.dialogs.picker = Some(Picker::open(PickerPurpose::NewKey, choices, None));
}

/// Lets the value of a key be given that the plan does not have yet.
pub fn add(state: &mut State, path: &str) {
    let Some(key) = schema::key(path) else { return };
    let known = super::field::FIELDS.into_iter().find(|field| field.key() == key.path);
    let field = known.unwrap_or(Field::Other(key.path));
    state.plans.form.adding = Some(field);
    state.plans.form.select(field.key(), &state.plans.editor);
    look_around(state);
    type_value(state);
}

/// Takes the selected key out of the plan.
pub fn remove_key(state: &mut State) {
    let Some(field) = state.plans.form.field(&state.plans.editor).filter(|field| state.plans.editor.is_written(*field))
    else {
        state.notice = Some(problem("the plan does not say this: it is assumed"));
        return;
    };
    match state.plans.editor.with(&Change { set: Vec::new(), remove: vec![field.key()] }) {
        Ok(document) => {
            apply(state, document);
            state.notice = Some(info(format!("{} is out; u takes it back", field.key())));
        }
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}

/// A key while a value is typed.
pub fn type_key(state: &mut State, key: KeyPress) {
    let Some(typed) = &mut state.plans.form.typing else { return };
    match key {
        KeyPress::Char(c) if typed.len() < LONGEST_VALUE => typed.push(c),
        KeyPress::Backspace => drop(typed.pop()),
        KeyPress::Ctrl('u') => typed.clear(),
        KeyPress::Esc | KeyPress::Ctrl('c') => leave_value(state),
        KeyPress::Enter => take_typed(state),
        _ => {}
    }
    state.plans.form.look_at_typed(&state.plans.editor, &state.catalog);
}

/// Leaves a value as it is.
pub fn leave_value(state: &mut State) {
    state.plans.form.typing = None;
    if state.plans.form.adding.take().is_some() {
        follow(state);
    }
}

fn take_typed(state: &mut State) {
    let Some(text) = state.plans.form.typing.take() else { return };
    let Some(field) = state.plans.form.field(&state.plans.editor) else { return };
    if text.trim().is_empty() {
        return leave_value(state);
    }
    let value = meant(field, text.trim(), &state.catalog);
    take_value(state, field, &value);
}

/// Makes `value` the field's, valid or not.
pub fn take_value(state: &mut State, field: Field, value: &str) {
    match with_value(field, value, &state.plans.editor, &state.catalog) {
        Ok(document) => {
            state.plans.form.adding = None;
            apply(state, document);
            state.plans.form.select(field.key(), &state.plans.editor);
            look_around(state);
        }
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}

/// Turns between form and text.
pub fn turn_text(state: &mut State) {
    if let Some(view) = state.plans.text.take() {
        // The field that the cursor was on.
        if let Some(key) = view.key() {
            state.plans.form.select(key.path, &state.plans.editor);
        }
        return follow(state);
    }
    let fault = state.plans.editor.faults().first().and_then(|fault| fault.at);
    let field = state.plans.form.field(&state.plans.editor);
    let place = || state.plans.editor.document()?.locate(field?.key());
    state.plans.text = Some(TextView::open(state.plans.editor.text(), fault.or_else(place)));
    state.views.focus = Pane::Plan;
}

/// A key while the plan is edited as text.
pub fn type_text(state: &mut State, key: KeyPress) {
    let Some(view) = &mut state.plans.text else { return };
    if let Some(completion) = &mut view.completion {
        match key {
            KeyPress::Up => return completion.step(-1),
            KeyPress::Down => return completion.step(1),
            KeyPress::Esc => {
                view.completion = None;
                return;
            }
            _ => {}
        }
    }
    if key == KeyPress::Esc {
        return turn_text(state);
    }
    let letter = matches!(key, KeyPress::Char(_));
    if view.take(key) {
        changed(state, letter);
    } else {
        view.completion = None;
    }
}

/// The lines of the text view are others now.
fn changed(state: &mut State, letter: bool) {
    let Some(view) = &mut state.plans.text else { return };
    if let Some((place, inserted)) = view.splice(state.plans.editor.text()) {
        state.plans.editor.splice(place, &inserted, (letter, state.now), &state.catalog);
    }
    if letter || view.completion.is_some() {
        view.offer(false, &state.plans.editor, &state.catalog);
    }
    follow(state);
}

/// Writes what is offered at the cursor; where nothing is, offers it or indents.
pub fn complete(state: &mut State) {
    let Some(view) = &mut state.plans.text else { return };
    if view.complete() {
        return changed(state, false);
    }
    let (row, column) = view.cursor();
    let blank = view.lines().get(row).is_some_and(|line| line.chars().take(column).all(|c| c == ' '));
    let at_end = view.lines().get(row).is_some_and(|line| line.chars().count() == column);
    if !(blank && at_end && column == 0) {
        view.offer(true, &state.plans.editor, &state.catalog);
    }
    if view.completion.is_none() && blank && view.indent() {
        changed(state, false);
    }
}

/// Pasted text goes where letters go.
pub fn paste(state: &mut State, text: &str) {
    if state.views.focus == Pane::Monitor && state.monitor.list.typing {
        state.monitor.list.type_text(text);
    } else if let Some(picker) = &mut state.dialogs.picker {
        text.chars().for_each(|letter| picker.type_letter(letter));
    } else if state.context() == KeyContext::Text {
        if state.plans.text.as_mut().is_some_and(|view| view.paste(text)) {
            changed(state, false);
        }
    } else if let Some(typed) = &mut state.plans.form.typing {
        let room = LONGEST_VALUE.saturating_sub(typed.len());
        typed.extend(text.chars().filter(|c| !c.is_control()).take(room));
        state.plans.form.look_at_typed(&state.plans.editor, &state.catalog);
    }
}
