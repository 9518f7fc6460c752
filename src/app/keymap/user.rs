//! The user's own keys on top of the table: a YAML file of contexts, keys and actions.

use std::borrow::Cow;

use serde_json::Value;

use super::key_names::{key_of, sequence, sign, word};
use super::{Action, Binding, KeyContext, bindings, bound};
use crate::app::key::KeyPress;
use crate::app::pane::Pane;
use crate::plan::{Document, Fault, TextPosition};

/// What a key does: the table, with the user's keys over it.
#[derive(Debug, Clone, Default)]
pub struct Keymap {
    own: Vec<UserBinding>,
}

/// Keys of the user's: one, or several that are pressed one after the other; nothing is done where there is no action.
#[derive(Debug, Clone)]
struct UserBinding {
    context: KeyContext,
    keys: Vec<KeyPress>,
    action: Option<Action>,
}

impl UserBinding {
    /// Its key, where it is no chord.
    fn single(&self) -> Option<KeyPress> {
        match self.keys.as_slice() {
            [key] => Some(*key),
            _ => None,
        }
    }
}

/// Keys of a chord, at most.
const LONGEST_CHORD: usize = 3;

/// What keys that were pressed one after the other are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMatch {
    /// This is to be done.
    Action(Action),
    /// A chord has begun.
    Begun,
    /// Nothing.
    Unbound,
}

impl Keymap {
    /// Reads a key map: contexts (`plan`, `vram` …, `text`, `anywhere`), in each keys with the
    /// names of actions, or `none` for a key that shall do nothing.
    ///
    /// # Errors
    /// One line a fault, with its place: no YAML, an unknown context, key or action.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        Self::default().extended(text)
    }

    /// These keys with those of another text over them.
    ///
    /// # Errors
    /// As [`Keymap::parse`].
    pub fn extended(self, text: &str) -> Result<Self, Vec<Fault>> {
        let document = Document::parse(text)?;
        let mut map = self;
        let before = map.own.len();
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
                        match map.take(context, key, action, before) {
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

    /// Takes a key or a chord with its action, or `none`. Those after `before` are of the same text.
    fn take(&mut self, context: KeyContext, name: &str, action: &Value, before: usize) -> Result<(), BindingError> {
        let unknown = |part: &str| {
            let known = "a letter, f1 to f12, ctrl- or alt- and a letter, or a name such as page-up";
            BindingError::Key(format!("no key `{part}`; {known}"))
        };
        let keys: Result<Vec<KeyPress>, BindingError> =
            name.split_whitespace().map(|part| key_of(part).ok_or_else(|| unknown(part))).collect();
        let keys = keys?;
        let Some(first) = keys.first() else { return Err(unknown(name)) };
        if keys.len() > LONGEST_CHORD {
            return Err(BindingError::Key(format!("`{name}` is longer than {LONGEST_CHORD} keys")));
        }
        if context == KeyContext::Text && matches!(first, KeyPress::Char(_)) {
            return Err(BindingError::Key(format!("`{name}` is typed in the text; take one with ctrl-")));
        }
        if self.own.iter().skip(before).any(|known| known.context == context && known.keys == keys) {
            return Err(BindingError::Key(format!("`{name}` is given twice, in two spellings")));
        }
        let action = action.as_str().map_or_else(|| action.to_string(), str::to_owned);
        let action = action_of(&action)?;
        self.own.push(UserBinding { context, keys, action });
        Ok(())
    }

    /// Some key leaves the dashboard, wherever it is pressed.
    fn can_quit(&self) -> bool {
        let own = self.own.iter().filter_map(UserBinding::single);
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

    /// What keys that were pressed one after the other do in a context; the last one may be the first of none.
    #[must_use]
    pub fn find(&self, keys: &[KeyPress], context: KeyContext, replay: bool) -> KeyMatch {
        let holds = |place: KeyContext| {
            let typed = context == KeyContext::Text;
            place == context
                || (place == KeyContext::Replay && replay && !typed)
                || (place == KeyContext::Anywhere && !typed)
        };
        let chords = || self.own.iter().rev().filter(|own| own.keys.len() > 1 && holds(own.context));
        if let Some(whole) = chords().find(|own| own.keys == keys) {
            return whole.action.map_or(KeyMatch::Unbound, KeyMatch::Action);
        }
        if chords().any(|own| own.keys.starts_with(keys)) {
            return KeyMatch::Begun;
        }
        match keys {
            [key] => self.lookup(*key, context, replay).map_or(KeyMatch::Unbound, KeyMatch::Action),
            _ => KeyMatch::Unbound,
        }
    }

    fn within(&self, key: KeyPress, context: KeyContext) -> Option<Action> {
        let own = self.own.iter().rev().find(|own| own.context == context && own.single() == Some(key));
        match own {
            Some(own) => own.action,
            None => bound(key, context),
        }
    }

    /// The chords of a row, as people read them.
    fn chords(&self, binding: &Binding) -> impl Iterator<Item = String> {
        let of_row = |own: &&UserBinding| {
            own.context == binding.context
                && own.keys.len() > 1
                && own.action.is_some_and(|action| binding.actions.contains(&action))
        };
        self.own.iter().filter(of_row).map(|own| sequence(&own.keys))
    }

    /// The keys of a row as people read them: the table's words where they hold.
    #[must_use]
    pub fn shown(&self, binding: &Binding) -> Cow<'static, str> {
        let touched = self.own.iter().any(|own| {
            own.context == binding.context
                && (own.single().is_some_and(|key| binding.keys.contains(&key))
                    || own.action.is_some_and(|action| binding.actions.contains(&action)))
        });
        if !touched {
            return Cow::Borrowed(binding.shown);
        }
        let mut keys: Vec<KeyPress> = binding.keys.iter().copied().chain(self.single_keys(binding.context)).collect();
        keys.retain(|key| self.within(*key, binding.context).is_some_and(|action| binding.actions.contains(&action)));
        let mut words: Vec<String> = keys.into_iter().map(word).chain(self.chords(binding)).collect();
        words.dedup();
        Cow::Owned(words.join(" "))
    }

    fn single_keys(&self, context: KeyContext) -> impl Iterator<Item = KeyPress> {
        self.own.iter().filter(move |own| own.context == context).filter_map(UserBinding::single)
    }

    /// The first key of a row that does `action`; empty where the user has left it none.
    #[must_use]
    pub fn key_of(&self, binding: &Binding, action: Action) -> String {
        let mut keys = binding.keys.iter().copied().chain(self.single_keys(binding.context));
        let chord = || {
            let own = self.own.iter().find(|own| own.context == binding.context && own.action == Some(action));
            own.map_or_else(String::new, |own| sequence(&own.keys))
        };
        keys.find(|key| self.within(*key, binding.context) == Some(action)).map_or_else(chord, sign)
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

fn placed(at: Option<TextPosition>, why: &str) -> Fault {
    Fault::of("", why).placed(at)
}

/// The action of that name; none for `none`.
fn action_of(name: &str) -> Result<Option<Action>, BindingError> {
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
            Err(BindingError::Action(format!("no action `{name}`; nearest: `{}`", near.unwrap_or_default())))
        }
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
    fn function_keys_and_chords_are_keys() {
        let keys =
            Keymap::parse("anywhere: {f5: record, ctrl-x ctrl-s: save, alt-t: themes}\nplan: {g w: sweep}\n").unwrap();
        let find = |pressed: &[KeyPress], context| keys.find(pressed, context, false);
        assert_eq!(find(&[KeyPress::Function(5)], PLAN), KeyMatch::Action(Action::Record));
        assert_eq!(find(&[KeyPress::Alt('t')], PLAN), KeyMatch::Action(Action::Themes));
        assert_eq!(find(&[KeyPress::Ctrl('x')], PLAN), KeyMatch::Begun);
        assert_eq!(find(&[KeyPress::Ctrl('x'), KeyPress::Ctrl('s')], PLAN), KeyMatch::Action(Action::Save));
        assert_eq!(find(&[KeyPress::Ctrl('x'), KeyPress::Char('s')], PLAN), KeyMatch::Unbound);
        assert_eq!(find(&[KeyPress::Ctrl('x')], KeyContext::Text), KeyMatch::Unbound, "typed text is no chord");
        // A chord of a pane begins there alone; elsewhere its first key is what it was.
        assert_eq!(find(&[KeyPress::Char('g')], PLAN), KeyMatch::Begun);
        assert_eq!(find(&[KeyPress::Char('g')], KeyContext::In(Pane::Vram)), KeyMatch::Action(Action::First));
        let row = bindings().find(|row| row.context == PLAN && row.does(Action::Sweep)).unwrap();
        assert_eq!((keys.shown(row).as_ref(), keys.key_of(row, Action::Sweep).as_str()), ("w g w", "w"));
        for text in ["plan: {f13: save}\n", "plan: {a b c d: save}\n", "text: {x y: save}\n"] {
            assert!(Keymap::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn faults_of_a_key_map_have_their_place() {
        let faults = Keymap::parse("plan:\n  w: sav\n  hyper-x: quit\nplans: {}\n").unwrap_err();
        assert_eq!(faults[0].to_string(), "2:6: no action `sav`; nearest: `save`");
        assert!(faults[1].to_string().starts_with("3:3: no key `hyper-x`"), "{faults:?}");
        assert!(faults[2].to_string().starts_with("4:1: no context `plans`; known: plan, vram"), "{faults:?}");
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
            assert!(faults.len() == 1 && faults[0].to_string().starts_with(said), "{text}: {faults:?}");
        }
        for text in ["", "# nothing\n", "plan:\n", "{}\n"] {
            assert!(Keymap::parse(text).is_ok(), "{text}");
        }
    }
}
