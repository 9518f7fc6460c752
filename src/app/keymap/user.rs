//! The user's own keys on top of the table: a YAML file of contexts, keys and actions.

use std::borrow::Cow;

use serde_json::Value;

use super::{Action, Binding, KeyContext, bindings, bound};
use crate::app::key::KeyPress;
use crate::app::pane::Pane;
use crate::plan::{Document, TextPosition};

/// Keys with words of their own in the file.
const NAMED: &[(&str, KeyPress)] = &[
    ("up", KeyPress::Up),
    ("down", KeyPress::Down),
    ("left", KeyPress::Left),
    ("right", KeyPress::Right),
    ("enter", KeyPress::Enter),
    ("esc", KeyPress::Esc),
    ("tab", KeyPress::Tab),
    ("shift-tab", KeyPress::BackTab),
    ("backspace", KeyPress::Backspace),
    ("delete", KeyPress::Delete),
    ("ctrl-left", KeyPress::WordLeft),
    ("ctrl-right", KeyPress::WordRight),
    ("home", KeyPress::Home),
    ("end", KeyPress::End),
    ("page-up", KeyPress::PageUp),
    ("page-down", KeyPress::PageDown),
    ("space", KeyPress::Char(' ')),
];

/// What a key does: the table, with the user's keys over it.
#[derive(Debug, Clone, Default)]
pub struct Keymap {
    own: Vec<(KeyContext, KeyPress, Option<Action>)>,
}

impl Keymap {
    /// Reads a key map: contexts (`plan`, `vram` …, `text`, `anywhere`), in each keys with the
    /// names of actions, or `none` for a key that shall do nothing.
    ///
    /// # Errors
    /// One line a fault, with its place: no YAML, an unknown context, key or action.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let said = |faults: Vec<crate::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let document = Document::parse(text).map_err(said)?;
        let mut map = Self::default();
        let mut faults = Vec::new();
        if document.keys().next().is_none() && document.text().lines().any(is_said) {
            faults.push(placed(Some(START), "contexts are needed here, each with keys and their actions"));
        }
        for name in document.keys() {
            let Some(context) = contexts().find(|context| context.name().eq_ignore_ascii_case(&name)) else {
                let known: Vec<_> = contexts().map(|context| context.name().to_lowercase()).collect();
                let why = format!("no context `{name}`; known: {}", known.join(", "));
                faults.push(placed(document.place_of(&name), &why));
                continue;
            };
            match document.value(&name) {
                Some(Value::Object(keys)) => {
                    for (key, action) in &keys {
                        let (at_key, at_action) = document.places(&name, key).unzip();
                        match map.take(context, key, action) {
                            Ok(()) => {}
                            Err(BindingError::Key(why)) => faults.push(placed(at_key, &why)),
                            Err(BindingError::Action(why)) => faults.push(placed(at_action, &why)),
                        }
                    }
                }
                Some(Value::Null) | None => {}
                Some(_) => faults.push(placed(document.place_of(&name), "keys and their actions are needed here")),
            }
        }
        if faults.is_empty() && !map.can_quit() {
            let at = document.place_of(&KeyContext::Anywhere.name().to_lowercase());
            faults.push(placed(at, "no key is left for `quit`"));
        }
        if faults.is_empty() { Ok(map) } else { Err(faults) }
    }

    /// Takes a key with its action, or `none`.
    fn take(&mut self, context: KeyContext, key: &str, action: &Value) -> Result<(), BindingError> {
        let known = key_of(key).ok_or_else(|| {
            BindingError::Key(format!("no key `{key}`; a letter, ctrl- and a letter, or a name such as page-up"))
        })?;
        if context == KeyContext::Text && matches!(known, KeyPress::Char(_)) {
            return Err(BindingError::Key(format!("`{key}` is typed in the text; take one with ctrl-")));
        }
        if self.own.iter().any(|(place, own, _)| (*place, *own) == (context, known)) {
            return Err(BindingError::Key(format!("`{key}` is given twice, in two spellings")));
        }
        let action = action.as_str().map_or_else(|| action.to_string(), str::to_owned);
        self.own.push((context, known, action_of(&action).map_err(BindingError::Action)?));
        Ok(())
    }

    /// Some key leaves the dashboard, wherever it is pressed.
    fn can_quit(&self) -> bool {
        let own = self.own.iter().map(|(_, key, _)| *key);
        let mut keys = bindings().flat_map(|binding| binding.keys.iter().copied()).chain(own);
        keys.any(|key| self.within(key, KeyContext::Anywhere) == Some(Action::Quit))
    }

    /// What `key` does in a context, and perhaps while a recording is played; `Anywhere` holds where the context says nothing, in the
    /// text view too, as far as nobody would type the key.
    #[must_use]
    pub fn lookup(&self, key: KeyPress, context: KeyContext, replay: bool) -> Option<Action> {
        self.within(key, context).or_else(|| {
            let typed = context == KeyContext::Text && !matches!(key, KeyPress::Ctrl('c'));
            if typed {
                return None;
            }
            let steered = if replay { self.within(key, KeyContext::Replay) } else { None };
            steered.or_else(|| self.within(key, KeyContext::Anywhere))
        })
    }

    fn within(&self, key: KeyPress, context: KeyContext) -> Option<Action> {
        let own = self.own.iter().rev().find(|(where_, own, _)| *where_ == context && *own == key);
        match own {
            Some((_, _, action)) => *action,
            None => bound(key, context),
        }
    }

    /// The keys of a row as people read them: the table's words where they hold.
    #[must_use]
    pub fn shown(&self, binding: &Binding) -> Cow<'static, str> {
        let touched = self.own.iter().any(|(context, key, action)| {
            *context == binding.context
                && (binding.keys.contains(key) || action.is_some_and(|action| binding.actions.contains(&action)))
        });
        if !touched {
            return Cow::Borrowed(binding.shown);
        }
        let own = self.own.iter().filter(|(context, _, _)| *context == binding.context).map(|(_, key, _)| *key);
        let mut keys: Vec<KeyPress> = binding.keys.iter().copied().chain(own).collect();
        keys.retain(|key| self.within(*key, binding.context).is_some_and(|action| binding.actions.contains(&action)));
        let mut words: Vec<String> = keys.into_iter().map(word).collect();
        words.dedup();
        Cow::Owned(words.join(" "))
    }
}

impl Keymap {
    /// The first key of a row that does `action`; empty where the user has left it none.
    #[must_use]
    pub fn key_of(&self, binding: &Binding, action: Action) -> String {
        let own = self.own.iter().filter(|(context, _, _)| *context == binding.context).map(|(_, key, _)| *key);
        let mut keys = binding.keys.iter().copied().chain(own);
        keys.find(|key| self.within(*key, binding.context) == Some(action)).map_or_else(String::new, sign)
    }
}

/// A key in as few cells as it takes.
fn sign(key: KeyPress) -> String {
    match key {
        KeyPress::Left => "←".to_owned(),
        KeyPress::Right => "→".to_owned(),
        KeyPress::Enter => "⏎".to_owned(),
        key => word(key),
    }
}

fn contexts() -> impl Iterator<Item = KeyContext> {
    Pane::ALL.into_iter().map(KeyContext::In).chain([KeyContext::Text, KeyContext::Replay, KeyContext::Anywhere])
}

/// What is wrong with a line: its key, or what the key shall do.
enum BindingError {
    Key(String),
    Action(String),
}

/// Where a text begins.
const START: TextPosition = TextPosition { line: 1, column: 1 };

/// More than a blank line, a comment or the mark of a document.
fn is_said(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && line != "---" && line != "{}"
}

fn placed(at: Option<TextPosition>, why: &str) -> String {
    at.map_or_else(|| why.to_owned(), |at| format!("{}:{}: {why}", at.line, at.column))
}

/// The action of that name; none for `none`.
fn action_of(name: &str) -> Result<Option<Action>, String> {
    if name == "none" {
        return Ok(None);
    }
    let actions = || bindings().flat_map(|binding| binding.actions).copied();
    match actions().find(|known| known.name() == name) {
        Some(action) => Ok(Some(action)),
        None => {
            let near = actions()
                .map(Action::name)
                .max_by(|one, other| strsim::jaro_winkler(one, name).total_cmp(&strsim::jaro_winkler(other, name)));
            Err(format!("no action `{name}`; nearest: `{}`", near.unwrap_or_default()))
        }
    }
}

fn key_of(name: &str) -> Option<KeyPress> {
    if let Some((_, key)) = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*key);
    }
    let single = |text: &str| {
        let mut letters = text.chars();
        letters.next().filter(|_| letters.next().is_none())
    };
    match name.strip_prefix("ctrl-") {
        Some(letter) => single(letter).map(|letter| KeyPress::Ctrl(letter.to_ascii_lowercase())),
        None => single(name).map(KeyPress::Char),
    }
}

fn word(key: KeyPress) -> String {
    match key {
        KeyPress::Ctrl(letter) => format!("^{}", letter.to_ascii_uppercase()),
        KeyPress::Char(' ') => "space".to_owned(),
        KeyPress::Char(letter) => letter.to_string(),
        key => NAMED.iter().find(|(_, known)| *known == key).map_or_else(String::new, |(name, _)| (*name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: KeyContext = KeyContext::In(Pane::Plan);

    #[test]
    fn a_pane_wins_over_anywhere() {
        let keys = Keymap::default();
        assert_eq!(keys.lookup(KeyPress::Enter, PLAN, false), Some(Action::Type));
        assert_eq!(keys.lookup(KeyPress::Enter, KeyContext::In(Pane::Monitor), false), Some(Action::Attach));
        assert_eq!(keys.lookup(KeyPress::Enter, KeyContext::In(Pane::Vram), false), None);
        assert_eq!(keys.lookup(KeyPress::Char('q'), KeyContext::In(Pane::Vram), false), Some(Action::Quit));
        assert_eq!(keys.lookup(KeyPress::Char('q'), KeyContext::Text, false), None);
    }

    #[test]
    fn ones_own_keys_win_and_are_shown() {
        let keys =
            Keymap::parse("anywhere: {ctrl-q: quit, q: none}\nplan:\n  w: save\n  page-up: focus-vram\n").unwrap();
        assert_eq!(keys.lookup(KeyPress::Ctrl('q'), PLAN, false), Some(Action::Quit));
        assert_eq!(keys.lookup(KeyPress::Char('q'), PLAN, false), None);
        assert_eq!(keys.lookup(KeyPress::Char('w'), PLAN, false), Some(Action::Save));
        assert_eq!(keys.lookup(KeyPress::PageUp, PLAN, false), Some(Action::Focus(Pane::Vram)));
        let row = |action| bindings().find(|row| row.actions.contains(&action) && row.context != PLAN).unwrap();
        assert_eq!(keys.shown(row(Action::Quit)), "^C ^Q");
        assert_eq!(keys.shown(row(Action::Help)), "?");
        assert_eq!(keys.key_of(row(Action::Quit), Action::Quit), "^C");
        assert_eq!(keys.key_of(row(Action::PreviousPane), Action::PreviousPane), "shift-tab");
        let fields = bindings().find(|row| row.actions.contains(&Action::More)).unwrap();
        assert_eq!(keys.key_of(fields, Action::More), "→");
    }

    #[test]
    fn faults_of_a_key_map_have_their_place() {
        let faults = Keymap::parse("plan:\n  w: sav\n  hyper-x: quit\nplans: {}\n").unwrap_err();
        assert_eq!(faults[0], "2:6: no action `sav`; nearest: `save`");
        assert!(faults[1].starts_with("3:3: no key `hyper-x`"), "{faults:?}");
        assert!(faults[2].starts_with("4:1: no context `plans`; known: plan, vram"), "{faults:?}");
        for (text, said) in [
            ("plan: [", "1:7: this bracket `[` is never closed"),
            ("- a\n", "1:1: "),
            ("plan: {w: 5}\n", "1:11: no action `5`"),
            ("plan: {tab: save, Tab: undo}\n", "1:19: `Tab` is given twice"),
            ("text: {x: save}\n", "1:8: `x` is typed in the text"),
            ("anywhere: {q: none, ctrl-c: none}\n", "1:1: no key is left for `quit`"),
            ("plan: save\n", "1:1: keys and their actions"),
        ] {
            let faults = Keymap::parse(text).unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(said), "{text}: {faults:?}");
        }
        for text in ["", "# nothing\n", "plan:\n", "{}\n"] {
            assert!(Keymap::parse(text).is_ok(), "{text}");
        }
    }
}
