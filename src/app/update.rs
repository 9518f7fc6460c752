//! What each event does to the state.

use super::event::{Effect, Event};
use super::field::Field;
use super::form::Form;
use super::inferred;
use super::keymap::{Action, Key, help_shape, lookup};
use super::monitor::Source;
use super::observation::observation;
use super::pane::Pane;
use super::recording;
use super::state::{MemoryView, Notice, Overlay, Saving, Severity, State};
use super::step::{Direction, Typed, typed};
use crate::compare::{Bands, compare};

/// Rows that PageUp and PageDown go.
const PAGE: usize = 10;

/// The longest value that can be typed.
const LONGEST_VALUE: usize = 200;

/// Lets `event` happen. What is returned is to be done, in that order.
pub fn update(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) => return on_key(state, key),
        Event::Paste(text) => paste(state, &text),
        Event::Resized(width, height) => state.size = (width, height),
        Event::TerminalGone => return vec![Effect::Quit],
        // While a recording is played, its time is the time.
        Event::Tick(now) if state.playback.is_none() => state.now = state.now.max(now),
        Event::Tick(_) => {}
        Event::SourceStarted(info) => {
            state.monitor.source = Source::Running(info);
            if state.monitor.attached.is_some() && inferred::is_wanted(state) {
                return inferred::ask(state);
            }
        }
        Event::SourceFailed(why) => state.monitor.source = Source::Failed(why),
        Event::Sample(sample) => {
            state.now = state.now.max(sample.at);
            state.monitor.take(*sample);
            set_against(state);
        }
        Event::Played(playback) => recording::played(state, playback),
        Event::Recording(path) => recording::began(state, path),
        Event::Recorded(what) => recording::ended(state, info(what)),
        Event::RecordFailed(why) => recording::ended(state, problem(why)),
        Event::Saved { path, text } => {
            state.saving = Saving::Idle;
            state.notice = Some(info(format!("saved {}", path.display())));
            state.editor.mark_saved(path, text);
            if state.quit_after_save {
                // What was edited while an earlier text was being written is saved before leaving.
                return if state.editor.modified() { save(state) } else { vec![Effect::Quit] };
            }
        }
        Event::SaveFailed(why) => {
            state.saving = Saving::Idle;
            state.quit_after_save = false;
            state.notice = Some(problem(why));
        }
        Event::Inferred { pid, outcome } => inferred::arrived(state, pid, outcome),
        Event::SaveRefused(why) => {
            state.saving = Saving::ConflictTold;
            state.quit_after_save = false;
            state.notice = Some(problem(format!("{why}: s again writes over it")));
        }
    }
    Vec::new()
}

pub(super) fn info(text: impl Into<String>) -> Notice {
    Notice { severity: Severity::Info, text: text.into() }
}

pub(super) fn problem(text: impl Into<String>) -> Notice {
    Notice { severity: Severity::Problem, text: text.into() }
}

fn on_key(state: &mut State, key: Key) -> Vec<Effect> {
    state.notice = None;
    if !matches!(key, Key::Char('s') | Key::Ctrl('s')) && state.saving != Saving::UnderWay {
        state.saving = Saving::Idle;
    }
    match state.overlay {
        Some(Overlay::Help(line)) => {
            let last = help_shape(state.size).hidden;
            let line = line.min(last);
            let scrolled = match key {
                Key::Up | Key::Char('k') => Some(line.saturating_sub(1)),
                Key::Down | Key::Char('j') => Some((line + 1).min(last)),
                Key::PageUp => Some(line.saturating_sub(PAGE)),
                Key::PageDown => Some((line + PAGE).min(last)),
                _ => None,
            };
            state.overlay = scrolled.filter(|_| last > 0).map(Overlay::Help);
            return if key == Key::Ctrl('c') { quit(state) } else { Vec::new() };
        }
        Some(Overlay::Proposal(_)) if key == Key::Ctrl('c') => return quit(state),
        Some(Overlay::Proposal(line)) => {
            inferred::on_key(state, key, line);
            return Vec::new();
        }
        Some(Overlay::ConfirmQuit) => return confirm_quit(state, key),
        None => {}
    }
    if state.focus == Pane::Plan && state.form.typing.is_some() {
        type_key(state, key);
        return Vec::new();
    }
    lookup(key, state.focus, state.playback.is_some()).map_or_else(Vec::new, |action| act(state, action))
}

fn act(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit => return quit(state),
        Action::Save => return save(state),
        Action::NextPane => focus(state, state.focus.next()),
        Action::PreviousPane => focus(state, state.focus.previous()),
        Action::Focus(pane) => focus(state, pane),
        Action::Zoom => state.zoomed = !state.zoomed,
        Action::Help => state.overlay = Some(Overlay::Help(0)),
        Action::Up => select(state, |row, _| row.saturating_sub(1)),
        Action::Down => select(state, |row, last| (row + 1).min(last)),
        Action::PageUp => select(state, |row, _| row.saturating_sub(PAGE)),
        Action::PageDown => select(state, |row, last| (row + PAGE).min(last)),
        Action::First => select(state, |_, _| 0),
        Action::Last => select(state, |_, last| last),
        Action::Less => take_step(state, Direction::Less),
        Action::More => take_step(state, Direction::More),
        Action::Type => state.form.typing = Some(String::new()),
        Action::Undo => after_edit(state, |state| state.editor.undo(&state.catalog), "nothing to undo"),
        Action::Redo => after_edit(state, |state| state.editor.redo(&state.catalog), "nothing to redo"),
        Action::View => turn_view(state),
        Action::Attach => return attach(state),
        Action::Infer => return inferred::ask(state),
        Action::History => state.monitor.view = state.monitor.view.other(),
        Action::ShorterSpan => state.monitor.span = state.monitor.span.shorter(),
        Action::LongerSpan => state.monitor.span = state.monitor.span.longer(),
        Action::Record => return recording::toggle(state),
        Action::Steer(steer) => return vec![Effect::Steer(steer)],
    }
    Vec::new()
}

fn quit(state: &mut State) -> Vec<Effect> {
    if state.editor.modified() {
        state.overlay = Some(Overlay::ConfirmQuit);
        return Vec::new();
    }
    vec![Effect::Quit]
}

fn confirm_quit(state: &mut State, key: Key) -> Vec<Effect> {
    state.overlay = None;
    match key {
        Key::Char('q') | Key::Ctrl('c') => vec![Effect::Quit],
        Key::Char('s') | Key::Ctrl('s') => {
            state.quit_after_save = true;
            save(state)
        }
        _ => Vec::new(),
    }
}

fn save(state: &mut State) -> Vec<Effect> {
    let editor = &state.editor;
    let over = state.saving == Saving::ConflictTold;
    match state.saving {
        Saving::UnderWay => return Vec::new(),
        Saving::Idle if !editor.faults().is_empty() => {
            state.saving = Saving::FaultsTold;
            state.quit_after_save = false;
            state.notice =
                Some(problem("the plan is not valid and would not open again: s again saves it all the same"));
            return Vec::new();
        }
        Saving::Idle | Saving::FaultsTold | Saving::ConflictTold => state.saving = Saving::UnderWay,
    }
    let (path, name) = (editor.path().map(Into::into), editor.name().to_owned());
    vec![Effect::Save { path, name, text: editor.text().to_owned(), over }]
}

fn focus(state: &mut State, pane: Pane) {
    state.form.typing = None;
    state.focus = pane;
}

/// Moves the selection of the focused pane: from (row, last row) to a row.
fn select(state: &mut State, to: impl Fn(usize, usize) -> usize) {
    let prediction = state.editor.prediction();
    let (selected, rows) = match state.focus {
        Pane::Plan => (&mut state.form.selected, Form::fields(&state.editor).len()),
        Pane::Vram => {
            let rows = prediction.map_or(0, |prediction| match state.memory.view {
                MemoryView::Stages => prediction.stages.len(),
                MemoryView::Components | MemoryView::Terms => prediction.largest().terms.len(),
            });
            (&mut state.memory.selected, rows)
        }
        Pane::Roofline => {
            (&mut state.roofline.selected, prediction.map_or(0, |prediction| prediction.roofline.ops.len()))
        }
        Pane::Monitor => {
            let last = state.monitor.rows().saturating_sub(1);
            let row = to(state.monitor.selected_row().min(last), last);
            return state.monitor.select_row(row);
        }
        Pane::Compare => (&mut state.assumption, prediction.map_or(0, |prediction| prediction.assumptions.len())),
    };
    let last = rows.saturating_sub(1);
    *selected = to((*selected).min(last), last);
    if state.focus == Pane::Plan {
        state.form.look_around(&state.editor, &state.catalog);
    }
}

fn turn_view(state: &mut State) {
    match state.focus {
        Pane::Vram => {
            state.memory.view = state.memory.view.next();
            state.memory.selected = 0;
        }
        Pane::Roofline => state.roofline.table = !state.roofline.table,
        Pane::Plan | Pane::Monitor | Pane::Compare => {}
    }
}

fn attach(state: &mut State) -> Vec<Effect> {
    match state.monitor.selected_pid() {
        Some(pid) => {
            state.monitor.toggle_attach(pid);
            state.notice = Some(match &state.monitor.attached {
                Some(_) => info(format!("attached to {pid}: its memory is compared with the plan")),
                None => info(format!("let go of {pid}: the fullest GPU is compared with the plan")),
            });
            set_against(state);
            if state.monitor.attached.is_some() && inferred::is_wanted(state) {
                return vec![Effect::Infer(pid)];
            }
        }
        None => state.notice = Some(problem("no process on this GPU to attach to")),
    }
    Vec::new()
}

/// Takes a value next to the selected field's, which is known to make a valid plan.
fn take_step(state: &mut State, direction: Direction) {
    let step = match direction {
        Direction::Less => state.form.lower.take(),
        Direction::More => state.form.upper.take(),
    };
    let Some(step) = step else {
        let way = if direction == Direction::Less { "below" } else { "above" };
        let label = state.form.field(&state.editor).map_or("", Field::label);
        state.notice = Some(problem(format!("{label}: no value {way} this one makes a valid plan")));
        return;
    };
    state.editor.apply(step.document, &state.catalog);
    follow(state);
}

fn after_edit(state: &mut State, edit: impl FnOnce(&mut State) -> bool, otherwise: &str) {
    if edit(state) {
        follow(state);
    } else {
        state.notice = Some(problem(otherwise));
    }
}

/// What depends on the plan, after it changed.
fn follow(state: &mut State) {
    let fields = Form::fields(&state.editor).len();
    state.form.selected = state.form.selected.min(fields.saturating_sub(1));
    state.form.look_around(&state.editor, &state.catalog);
    set_against(state);
}

fn set_against(state: &mut State) {
    state.comparison = state.editor.job().zip(state.editor.prediction()).and_then(|(job, prediction)| {
        let observation = observation(&state.monitor, prediction)?;
        Some(compare(prediction, &observation, &Bands::of(job.framework), &state.calibration))
    });
}

fn type_key(state: &mut State, key: Key) {
    let Some(typed) = &mut state.form.typing else { return };
    match key {
        Key::Char(c) if typed.len() < LONGEST_VALUE => typed.push(c),
        Key::Backspace => {
            typed.pop();
        }
        Key::Ctrl('u') => typed.clear(),
        Key::Esc | Key::Ctrl('c') => state.form.typing = None,
        Key::Tab => complete(state),
        Key::Enter => take_typed(state),
        _ => {}
    }
}

fn paste(state: &mut State, text: &str) {
    if let Some(typed) = &mut state.form.typing {
        let room = LONGEST_VALUE.saturating_sub(typed.len());
        typed.extend(text.chars().filter(|c| !c.is_control()).take(room));
    }
}

fn complete(state: &mut State) {
    let Some(typed) = state.form.typing.clone() else { return };
    if let Some(best) = state.form.matches(&state.editor, &state.catalog, &typed).into_iter().next() {
        state.form.typing = Some(best);
    }
}

fn take_typed(state: &mut State) {
    let Some(text) = state.form.typing.take() else { return };
    let Some(field) = state.form.field(&state.editor) else { return };
    if text.trim().is_empty() {
        return;
    }
    match typed(field, text.trim(), &state.editor, &state.catalog) {
        Typed::Document(document) => {
            state.editor.apply(document, &state.catalog);
            follow(state);
        }
        Typed::Refused(fault) => state.notice = Some(problem(fault.to_string())),
    }
}
