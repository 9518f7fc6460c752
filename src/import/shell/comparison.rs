//! One comparison of a condition.

use super::UNSET;
use super::pattern::{Pattern, UNKNOWN_PART};
use crate::settings::UNKNOWN;

/// Whether a condition of `[ … ]` or `test` holds, its words expanded; none where files or commands decide.
pub fn holds(words: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    let inner = match first.as_str() {
        "!" => return holds(rest).map(|holds| !holds),
        "[" => rest.strip_suffix(&["]".to_owned()])?,
        "test" => rest,
        _ => return None,
    };
    // There a pattern is the name of a file, and compared as a text where no file has it.
    let equals = |one: &str, other: &str| Pattern::literal(other).matches(one);
    compared(&inner.iter().map(|word| word.replace(UNSET, "")).collect::<Vec<_>>(), &equals)
}

/// The same of `[[ … ]]`, its words marked: what stands behind `==` and `!=` is a pattern.
pub fn holds_marked(words: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    let inner = match first.as_str() {
        "!" => return holds_marked(rest).map(|holds| !holds),
        "[[" => rest.strip_suffix(&["]]".to_owned()])?,
        _ => return None,
    };
    let marked: Vec<String> = inner.iter().map(|word| word.replace(UNSET, "")).collect();
    if let [one, sign, other] = marked.as_slice() {
        let is = |pattern: Option<Pattern>| pattern?.matches(&plain(one));
        match sign.as_str() {
            "=" | "==" => return Pattern::takes(other, &plain(one)),
            "!=" => return Pattern::takes(other, &plain(one)).map(|is| !is),
            "=~" => return is(Pattern::regular(other)),
            _ => {}
        }
    }
    let words: Vec<String> = marked.iter().map(|word| plain(word)).collect();
    compared(&words, &|one, other| Pattern::literal(other).matches(one))
}

/// A marked word as it is.
pub fn plain(marked: &str) -> String {
    let mut text = String::new();
    let mut letters = marked.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            UNKNOWN_PART => text.push_str(UNKNOWN),
            letter => text.push(letter),
        }
    }
    text
}

fn compared(words: &[String], equals: &dyn Fn(&str, &str) -> Option<bool>) -> Option<bool> {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    // What nobody has set is empty; what only the run knows decides nothing here.
    if words.iter().any(|word| word == UNKNOWN) {
        return None;
    }
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    match plain.as_slice() {
        ["!", ..] => compared(words.get(1..)?, equals).map(|holds| !holds),
        // An empty word has gone: `[ -n $A ]` is true whatever A is, and nobody means that.
        ["-z"] => Some(true),
        ["-n"] => Some(false),
        ["-z", text] => Some(text.is_empty()),
        ["-n", text] => Some(!text.is_empty()),
        [text] if !text.starts_with('-') => Some(!text.is_empty()),
        [one, "=" | "==", other] => equals(one, other),
        [one, "!=", other] => equals(one, other).map(|equal| !equal),
        [one, sign, other] => {
            let (one, other) = (number(one)?, number(other)?);
            match *sign {
                "-eq" => Some(one == other),
                "-ne" => Some(one != other),
                "-gt" => Some(one > other),
                "-ge" => Some(one >= other),
                "-lt" => Some(one < other),
                "-le" => Some(one <= other),
                _ => None,
            }
        }
        _ => None,
    }
}
