//! Keys by name: as a key map has them, and as people read them.

use crate::app::key::KeyPress;

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
    ("ctrl-up", KeyPress::CtrlUp),
    ("ctrl-down", KeyPress::CtrlDown),
    ("home", KeyPress::Home),
    ("end", KeyPress::End),
    ("page-up", KeyPress::PageUp),
    ("page-down", KeyPress::PageDown),
    ("space", KeyPress::Char(' ')),
];

/// A key in as few cells as it takes.
pub fn sign(key: KeyPress) -> String {
    match key {
        KeyPress::Left => "←".to_owned(),
        KeyPress::Right => "→".to_owned(),
        KeyPress::Enter => "⏎".to_owned(),
        key => word(key),
    }
}

/// Keys that are pressed one after the other.
pub fn sequence(keys: &[KeyPress]) -> String {
    keys.iter().copied().map(word).collect::<Vec<_>>().join(" ")
}

/// The key of that name.
pub fn key_of(name: &str) -> Option<KeyPress> {
    if let Some((_, key)) = NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*key);
    }
    let single = |text: &str| {
        let mut letters = text.chars();
        letters.next().filter(|_| letters.next().is_none())
    };
    if let Some(letter) = name.strip_prefix("ctrl-") {
        return single(letter).map(|letter| KeyPress::Ctrl(letter.to_ascii_lowercase()));
    }
    if let Some(letter) = name.strip_prefix("alt-") {
        return single(letter).map(KeyPress::Alt);
    }
    let number = name.strip_prefix(['f', 'F']).and_then(|number| number.parse::<u8>().ok());
    match number.filter(|number| (1..=12).contains(number)) {
        Some(number) => Some(KeyPress::Function(number)),
        None => single(name).map(KeyPress::Char),
    }
}

/// A key as people read it.
pub fn word(key: KeyPress) -> String {
    match key {
        KeyPress::Alt(letter) => format!("alt-{letter}"),
        KeyPress::Function(number) => format!("F{number}"),
        KeyPress::Ctrl(letter) => format!("^{}", letter.to_ascii_uppercase()),
        KeyPress::Char(' ') => "space".to_owned(),
        KeyPress::Char(letter) => letter.to_string(),
        key => NAMED.iter().find(|(_, known)| *known == key).map_or_else(String::new, |(name, _)| (*name).to_owned()),
    }
}

/// The key that a word on the screen stands for: `⏎`, `esc`, `^S`, `F5`, a letter.
#[must_use]
pub fn key_on_screen(word: &str) -> Option<KeyPress> {
    match word {
        "⏎" | "Enter" => Some(KeyPress::Enter),
        "↑" => Some(KeyPress::Up),
        "↓" => Some(KeyPress::Down),
        "←" | "‹" => Some(KeyPress::Left),
        "→" | "›" => Some(KeyPress::Right),
        _ => match word.strip_prefix('^').filter(|rest| !rest.is_empty()) {
            Some(letter) => key_of(&format!("ctrl-{letter}")),
            None => key_of(word),
        },
    }
}
