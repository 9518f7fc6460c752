//! One comparison of a condition.

use super::UNSET;
use crate::settings::UNKNOWN;

/// Whether a condition holds, its words expanded; none where files or commands decide.
pub fn holds(words: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    let inner = match first.as_str() {
        "[" => rest.strip_suffix(&["]".to_owned()])?,
        "[[" => rest.strip_suffix(&["]]".to_owned()])?,
        "test" => rest,
        _ => return None,
    };
    let number = |text: &str| text.trim().parse::<i64>().ok();
    // What nobody has set is empty; what only the run knows decides nothing here.
    if inner.iter().any(|word| word == UNKNOWN) {
        return None;
    }
    let plain: Vec<String> = inner.iter().map(|word| word.replace(UNSET, "")).collect();
    let words: Vec<&str> = plain.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["!", rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
            holds(&[&["test".to_owned()], rest.as_slice()].concat()).map(|holds| !holds)
        }
        // An empty word has gone: `[ -n $A ]` is true whatever A is, and nobody means that.
        ["-z"] => Some(true),
        ["-n"] => Some(false),
        ["-z", text] => Some(text.is_empty()),
        ["-n", text] => Some(!text.is_empty()),
        [one, "=" | "==", other] => Some(one == other),
        [one, "!=", other] => Some(one != other),
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
