//! Keys while something lies on top of the panes: it is scrolled, answered, or goes.

use crate::app::event::Effect;
use crate::app::key::{KeyPress, PAGE};
use crate::app::keymap::key_names::word;
use crate::app::keymap::listing::help_shape;
use crate::app::lesson;
use crate::app::notice::dead_key;
use crate::app::plans;
use crate::app::plans::account;
use crate::app::plans::drafts;
use crate::app::plans::exporting;
use crate::app::plans::saving;
use crate::app::run::inferred;
use crate::app::state::{Overlay, State};
use crate::app::topics;
use crate::app::tutorial;
use crate::app::what_if::fixes;
use crate::app::what_if::largest;
use crate::app::what_if::search;
use crate::app::what_if::sweep;

/// A key while something lies on top.
pub fn on_key(state: &mut State, overlay: Overlay, key: KeyPress) -> Vec<Effect> {
    if key == KeyPress::Ctrl('c') && overlay != Overlay::ConfirmQuit {
        state.dialogs.overlay = None;
        return saving::quit(state);
    }
    if let Overlay::Help(_) = overlay {
        return on_help(state, overlay, key);
    }
    if !is_listed(state, overlay, key) {
        state.notice = Some(dead_key(format!("{} does nothing here", word(key))));
        return Vec::new();
    }
    if let Some(scrolled) = scrolled(state, overlay, key) {
        state.dialogs.overlay = Some(scrolled);
        return Vec::new();
    }
    match overlay {
        Overlay::ConfirmQuit => return saving::on_quit(state, key),
        Overlay::Conflict(_) => return saving::on_conflict(state, key),
        Overlay::Recovered(_) => return drafts::on_offered(state, key),
        Overlay::Diff(_) => {
            state.dialogs.overlay = None;
            if matches!(key, KeyPress::Char('s') | KeyPress::Ctrl('s') | KeyPress::Enter) {
                return saving::save(&mut state.plans, false);
            }
        }
        Overlay::Export(_) => {
            state.dialogs.overlay = None;
            match key {
                KeyPress::Char('s') | KeyPress::Ctrl('s') | KeyPress::Enter => {
                    return exporting::write(&mut state.plans, false);
                }
                KeyPress::Char('S') => exporting::ask_where(state),
                _ => state.plans.export = None,
            }
        }
        Overlay::Imported(_) => {
            account::close(state);
        }
        Overlay::Proposal(_) => inferred::on_key(state, key),
        Overlay::Fixes => fixes::on_key(state, key),
        Overlay::Largest => largest::on_key(state, key),
        Overlay::Sweep => sweep::on_key(state, key),
        Overlay::Search => return search::on_key(state, key),
        Overlay::Plans(selected) => plans::on_table(state, key, selected),
        Overlay::Tutorial(_) => tutorial::on_key(state, key),
        Overlay::RanOut(_) => state.dialogs.overlay = None,
        Overlay::Topic { .. } if topics::leads_to_topics(key) => topics::open(state),
        Overlay::Lesson(_) if topics::leads_to_topics(key) => lesson::ask(state),
        Overlay::Help(_) | Overlay::Topic { .. } | Overlay::Lesson(_) => state.dialogs.overlay = None,
    }
    Vec::new()
}

/// A key while the keys are listed: what is typed finds among them.
fn on_help(state: &mut State, overlay: Overlay, key: KeyPress) -> Vec<Effect> {
    match key {
        KeyPress::Esc => {
            // What was typed goes first.
            let typed = !std::mem::take(&mut state.dialogs.help_query).is_empty();
            state.dialogs.overlay = typed.then_some(Overlay::Help(0));
        }
        KeyPress::Enter if state.dialogs.help_query.is_empty() => lesson::open(state),
        KeyPress::Tab | KeyPress::Enter | KeyPress::Char('/' | '?') => {
            state.dialogs.help_query.clear();
            topics::open(state);
        }
        KeyPress::Char(letter) => {
            state.dialogs.help_query.push(letter);
            state.dialogs.overlay = Some(Overlay::Help(0));
        }
        KeyPress::Backspace => {
            state.dialogs.help_query.pop();
            state.dialogs.overlay = Some(Overlay::Help(0));
        }
        KeyPress::Ctrl('u') => state.dialogs.help_query.clear(),
        _ => {
            if let Some(scrolled) = scrolled(state, overlay, key) {
                state.dialogs.overlay = Some(scrolled);
            }
        }
    }
    Vec::new()
}

/// Whether a key does something while that lies on top.
fn is_listed(state: &State, overlay: Overlay, key: KeyPress) -> bool {
    use KeyPress::{Char, Ctrl, Down, End, Enter, Esc, Home, Left, PageDown, PageUp, Right, Tab, Up};
    if matches!(key, Ctrl('c')) || (matches!(key, Esc | Char('q')) && !matches!(overlay, Overlay::Recovered(_))) {
        return true;
    }
    let moves = matches!(key, Up | Down | PageUp | PageDown | Char('j' | 'k'));
    match overlay {
        Overlay::ConfirmQuit => matches!(key, Char('s') | Ctrl('s')),
        Overlay::Conflict(_) => moves || matches!(key, Char('o' | 'w' | 'S' | 'm')),
        Overlay::Recovered(_) => {
            let several = state.plans.drafts.len() > 1;
            moves || matches!(key, Char('r' | 'd' | 'q') | Enter) || several && matches!(key, Char('n') | Tab)
        }
        Overlay::Diff(_) => moves || matches!(key, Char('s') | Ctrl('s') | Enter),
        Overlay::Export(_) => moves || matches!(key, Char('s' | 'S') | Ctrl('s') | Enter),
        Overlay::Imported(_) | Overlay::Proposal(_) | Overlay::RanOut(_) => moves || key == Enter,
        Overlay::Plans(_) => moves || key == Enter,
        Overlay::Fixes => moves || matches!(key, Home | End | Char('g' | 'G') | Enter),
        Overlay::Largest => key == Enter,
        Overlay::Sweep => {
            let two = state.dialogs.sweep.as_ref().is_some_and(|view| view.fields.len() > 1);
            moves || matches!(key, Home | End | Left | Right | Char('h' | 'l' | 'a') | Enter) || two && key == Char('v')
        }
        Overlay::Tutorial(_) => moves || matches!(key, Enter | Left | Right | Char('n' | 'p' | 'a' | 'b' | 'c')),
        Overlay::Topic { .. } | Overlay::Lesson(_) => moves || matches!(key, Char('/' | '?') | Tab | Enter),
        Overlay::Search => {
            let under_way = state.dialogs.search.as_ref().is_some_and(|view| view.under_way.is_some());
            matches!(key, Up | Down | PageUp | PageDown | Home | End | Tab | Enter)
                || matches!(key, Char('g' | 'u' | 'b' | 's' | 'm' | 'f' | 'k' | 'a'))
                || under_way && key == Char('c')
        }
        // It tells by itself.
        Overlay::Help(_) => true,
    }
}

/// The overlay from another line on, where the key scrolls it.
fn scrolled(state: &State, overlay: Overlay, key: KeyPress) -> Option<Overlay> {
    // The last screenful stays full.
    let hidden = |lines: usize| lines.saturating_sub(topics::sheet_height(state.views.size));
    let last = match overlay {
        Overlay::Help(_) => help_shape(state).hidden,
        Overlay::Topic { topic, .. } => hidden(topics::topic_rows(topic, state.views.size).len()),
        Overlay::Tutorial(_) => hidden(tutorial::tutorial_rows(state).len()),
        Overlay::Lesson(_) => hidden(lesson::lesson_rows(state).len()),
        Overlay::Recovered(_) => {
            let draft = state.plans.drafts.first().map_or(0, |draft| draft.text.lines().count());
            draft.max(state.plans.editor.text().lines().count()) * 2
        }
        Overlay::Diff(_) | Overlay::Conflict(_) => {
            state.plans.editor.text().lines().count().max(state.plans.editor.saved_text().lines().count()) * 2
        }
        Overlay::Proposal(_) => {
            state.run.proposal.as_ref().map_or(0, |proposal| proposal.account.lines().saturating_sub(1))
        }
        Overlay::Imported(_) => state.plans.imported.as_ref().map_or(0, |account| account.lines().saturating_sub(1)),
        Overlay::Export(_) => state.plans.export.as_ref().map_or(0, |export| export.lines().saturating_sub(1)),
        Overlay::RanOut(_) => state.run.ran_out.as_ref().map_or(0, |known| known.lines().saturating_sub(1)),
        Overlay::ConfirmQuit
        | Overlay::Plans(_)
        | Overlay::Fixes
        | Overlay::Largest
        | Overlay::Sweep
        | Overlay::Search => 0,
    };
    let to = |line: usize| match key {
        KeyPress::Up | KeyPress::Char('k') => Some(line.min(last).saturating_sub(1)),
        KeyPress::Down | KeyPress::Char('j') => Some((line + 1).min(last)),
        KeyPress::PageUp => Some(line.min(last).saturating_sub(PAGE)),
        KeyPress::PageDown => Some((line + PAGE).min(last)),
        _ => None,
    };
    match overlay {
        Overlay::Help(line) => to(line).filter(|_| last > 0).map(Overlay::Help),
        Overlay::Topic { topic, line } => to(line).map(|line| Overlay::Topic { topic, line }),
        Overlay::Tutorial(line) => to(line).map(Overlay::Tutorial),
        Overlay::Lesson(line) => to(line).map(Overlay::Lesson),
        Overlay::Diff(line) => to(line).map(Overlay::Diff),
        Overlay::Conflict(line) => to(line).map(Overlay::Conflict),
        Overlay::Recovered(line) => to(line).map(Overlay::Recovered),
        Overlay::Proposal(line) => to(line).map(Overlay::Proposal),
        Overlay::Imported(line) => to(line).map(Overlay::Imported),
        Overlay::Export(line) => to(line).map(Overlay::Export),
        Overlay::RanOut(line) => to(line).map(Overlay::RanOut),
        Overlay::ConfirmQuit
        | Overlay::Plans(_)
        | Overlay::Fixes
        | Overlay::Largest
        | Overlay::Sweep
        | Overlay::Search => None,
    }
}
