//! The user's own keys on top of the table: a YAML file of contexts, keys and actions.

use std::borrow::Cow;

use super::{Action, Binding, Context, bindings, bound};
use crate::app::key::Key;
use crate::app::pane::Pane;
use crate::plan::Document;

/// Keys with words of their own in the file.
const NAMED: &[(&str, Key)] = &[
    ("up", Key::Up),
    ("down", Key::Down),
    ("left", Key::Left),
    ("right", Key::Right),
    ("enter", Key::Enter),
    ("esc", Key::Esc),
    ("tab", Key::Tab),
    ("shift-tab", Key::BackTab),
    ("backspace", Key::Backspace),
    ("delete", Key::Delete),
    ("ctrl-left", Key::WordLeft),
    ("ctrl-right", Key::WordRight),
    ("home", Key::Home),
    ("end", Key::End),
    ("page-up", Key::PageUp),
    ("page-down", Key::PageDown),
    ("space", Key::Char(' ')),
];

/// What a key does: the table, with the user's keys over it.
#[derive(Debug, Clone, Default)]
pub struct Keymap {
    own: Vec<(Context, Key, Option<Action>)>,
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
        for context in contexts() {
            let name = context.name().to_lowercase();
            let Some(keys) = document.value(&name) else { continue };
            let Some(keys) = keys.as_object() else {
                faults.push(placed(&document, &name, "keys and their actions are needed here"));
                continue;
            };
            for (key, action) in keys {
                match one(key, action.as_str().unwrap_or_default()) {
                    Ok((key, action)) => map.own.push((context, key, action)),
                    Err(why) => faults.push(placed(&document, &format!("{name}.{key}"), &why)),
                }
            }
        }
        for key in document.keys() {
            if !contexts().any(|context| context.name().eq_ignore_ascii_case(&key)) {
                let known: Vec<_> = contexts().map(|context| context.name().to_lowercase()).collect();
                faults.push(placed(&document, &key, &format!("no context `{key}`; known: {}", known.join(", "))));
            }
        }
        if faults.is_empty() { Ok(map) } else { Err(faults) }
    }

    /// What `key` does in a context, and perhaps while a recording is played; `Anywhere` holds where the context says nothing, in the
    /// text view too, as far as nobody would type the key.
    #[must_use]
    pub fn lookup(&self, key: Key, context: Context, replay: bool) -> Option<Action> {
        self.within(key, context).or_else(|| {
            let typed = context == Context::Text && !matches!(key, Key::Ctrl('c'));
            if typed {
                return None;
            }
            let steered = if replay { self.within(key, Context::Replay) } else { None };
            steered.or_else(|| self.within(key, Context::Anywhere))
        })
    }

    fn within(&self, key: Key, context: Context) -> Option<Action> {
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
        let mut keys: Vec<Key> = binding.keys.iter().copied().chain(own).collect();
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
fn sign(key: Key) -> String {
    match key {
        Key::Left => "←".to_owned(),
        Key::Right => "→".to_owned(),
        Key::Enter => "⏎".to_owned(),
        key => word(key),
    }
}

fn contexts() -> impl Iterator<Item = Context> {
    Pane::ALL.into_iter().map(Context::In).chain([Context::Text, Context::Replay, Context::Anywhere])
}

fn placed(document: &Document, key: &str, why: &str) -> String {
    document.locate(key).map_or_else(|| why.to_owned(), |at| format!("{}:{}: {why}", at.line, at.column))
}

fn one(key: &str, action: &str) -> Result<(Key, Option<Action>), String> {
    let key = key_of(key)
        .ok_or_else(|| format!("no key `{key}`; a letter, ctrl- and a letter, or a name such as page-up"))?;
    if action == "none" {
        return Ok((key, None));
    }
    let actions = || bindings().flat_map(|binding| binding.actions).copied();
    match actions().find(|known| known.name() == action) {
        Some(action) => Ok((key, Some(action))),
        None => {
            let near = actions()
                .map(Action::name)
                .max_by(|one, other| strsim::jaro_winkler(one, action).total_cmp(&strsim::jaro_winkler(other, action)));
            Err(format!("no action `{action}`; nearest: `{}`", near.unwrap_or_default()))
        }
    }
}

fn key_of(name: &str) -> Option<Key> {
    if let Some((_, key)) = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*key);
    }
    let single = |text: &str| {
        let mut letters = text.chars();
        letters.next().filter(|_| letters.next().is_none())
    };
    match name.strip_prefix("ctrl-") {
        Some(letter) => single(letter).map(|letter| Key::Ctrl(letter.to_ascii_lowercase())),
        None => single(name).map(Key::Char),
    }
}

fn word(key: Key) -> String {
    match key {
        Key::Ctrl(letter) => format!("^{}", letter.to_ascii_uppercase()),
        Key::Char(' ') => "space".to_owned(),
        Key::Char(letter) => letter.to_string(),
        key => NAMED.iter().find(|(_, known)| *known == key).map_or_else(String::new, |(name, _)| (*name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Context = Context::In(Pane::Plan);

    #[test]
    fn a_pane_wins_over_anywhere() {
        let keys = Keymap::default();
        assert_eq!(keys.lookup(Key::Enter, PLAN, false), Some(Action::Type));
        assert_eq!(keys.lookup(Key::Enter, Context::In(Pane::Monitor), false), Some(Action::Attach));
        assert_eq!(keys.lookup(Key::Enter, Context::In(Pane::Vram), false), None);
        assert_eq!(keys.lookup(Key::Char('q'), Context::In(Pane::Vram), false), Some(Action::Quit));
        assert_eq!(keys.lookup(Key::Char('q'), Context::Text, false), None);
    }

    #[test]
    fn ones_own_keys_win_and_are_shown() {
        let keys =
            Keymap::parse("anywhere: {ctrl-q: quit, q: none}\nplan:\n  w: save\n  page-up: focus-vram\n").unwrap();
        assert_eq!(keys.lookup(Key::Ctrl('q'), PLAN, false), Some(Action::Quit));
        assert_eq!(keys.lookup(Key::Char('q'), PLAN, false), None);
        assert_eq!(keys.lookup(Key::Char('w'), PLAN, false), Some(Action::Save));
        assert_eq!(keys.lookup(Key::PageUp, PLAN, false), Some(Action::Focus(Pane::Vram)));
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
        assert!(faults[1].starts_with("3:12: no key `hyper-x`"), "{faults:?}");
        assert!(faults[2].starts_with("4:8: no context `plans`; known: plan, vram"), "{faults:?}");
        assert!(Keymap::parse("plan: [").is_err());
    }
}
