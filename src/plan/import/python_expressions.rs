//! Expressions of several parts in a script's calls: `a if args.b else c`, `args.dtype.lower()`, `int(config["steps"])`,
//! and the parameters of a script's own functions. Read, never run.

use serde_json::Value;

use super::python_values::arguments;
use super::script_conditions::split_outside;
use super::settings::{UNKNOWN, text as text_of};

/// Calls around one value that leave it as it is, as far as a plan is concerned.
const CASTS: [&str; 5] = ["int(", "float(", "str(", "bool(", "list("];

/// What an expression of several parts comes to, where it is one: `value` tells a part's value, `holds` whether a
/// condition holds.
pub fn composed(text: &str, value: &dyn Fn(&str) -> Value, holds: &dyn Fn(&str) -> Option<bool>) -> Option<Value> {
    let text = text.trim();
    if let Some((then, rest)) = split_outside(text, " if ")
        && let Some((condition, other)) = split_outside(rest, " else ")
    {
        return Some(match holds(condition) {
            Some(true) => value(then.trim()),
            Some(false) => value(other.trim()),
            // Either way it is the same.
            None => Some(value(then.trim())).filter(|found| *found == value(other.trim())).unwrap_or(UNKNOWN.into()),
        });
    }
    if let Some((first, other)) = split_outside(text, " or ") {
        return match value(first.trim()) {
            Value::Null | Value::Bool(false) => Some(value(other.trim())),
            Value::String(word) if word.is_empty() => Some(value(other.trim())),
            Value::Number(number) if number.as_f64() == Some(0.0) => Some(value(other.trim())),
            Value::String(word) if word != UNKNOWN => Some(word.into()),
            first @ (Value::Number(_) | Value::Bool(true)) => Some(first),
            _ => None,
        };
    }
    for (call, change) in [(".lower()", str::to_lowercase as fn(&str) -> String), (".upper()", str::to_uppercase)] {
        if let Some(inner) = text.strip_suffix(call) {
            return word(value(inner)).map(|word| change(&word).into());
        }
    }
    if let Some(inner) = [".strip()"].iter().find_map(|call| text.strip_suffix(call)) {
        return word(value(inner)).map(|word| word.trim().into());
    }
    for call in [".split(\",\")", ".split(',')"] {
        if let Some(inner) = text.strip_suffix(call) {
            return word(value(inner)).map(|word| word.split(',').map(str::trim).collect());
        }
    }
    cast(text, value)
}

fn word(value: Value) -> Option<String> {
    text_of(&value).filter(|_| value.is_string())
}

/// `int(config["steps"])`: one value in a call that closes with the text.
fn cast(text: &str, value: &dyn Fn(&str) -> Value) -> Option<Value> {
    let call = CASTS.iter().find(|call| text.starts_with(**call))?;
    let inner = text.strip_prefix(call)?.strip_suffix(')')?;
    let whole = arguments(&format!("{inner})"));
    let [one] = whole.as_slice() else { return None };
    (one.trim() == inner.trim()).then(|| value(inner.trim()))
}

/// What a parameter of a script's own function is given: by the only call of the only function that has one of that
/// name, else by its default there; and whether a call was found.
pub fn parameter(content: &str, name: &str) -> Option<(String, bool)> {
    let mut found: Option<(&str, usize, Option<String>)> = None;
    for (at, _) in content.match_indices("def ") {
        let behind = content.get(at + "def ".len()..)?;
        let line = content.get(..at)?.rsplit('\n').next()?;
        let Some((function, rest)) = behind.split_once('(').filter(|_| line.trim().is_empty()) else { continue };
        let parts = arguments(rest);
        let part = parts.iter().enumerate().find_map(|(place, part)| {
            let (left, default) =
                part.split_once('=').map_or((part.as_str(), None), |(left, right)| (left, Some(right)));
            let own = left.split(':').next()?.trim() == name;
            own.then(|| (place, default.map(|text| text.trim().to_owned())))
        });
        let Some((place, default)) = part else { continue };
        if found.is_some() {
            return None;
        }
        found = Some((function, place, default));
    }
    let (function, place, default) = found?;
    let call = format!("{function}(");
    let mut calls = content.match_indices(&call).filter(|(at, _)| {
        let before = content.get(..*at).unwrap_or("");
        !before.ends_with("def ")
            && !before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.')
    });
    let Some((at, _)) = calls.next() else { return default.map(|default| (default, false)) };
    if calls.next().is_some() {
        return None;
    }
    let parts = arguments(content.get(at + call.len()..)?);
    let keyword = |part: &String| {
        let (left, right) = part.split_once('=').filter(|(_, right)| !right.starts_with('='))?;
        (left.trim() == name).then(|| right.trim().to_owned())
    };
    let given = parts.iter().find_map(keyword);
    let placed = || parts.get(place).filter(|part| !part.contains(['=', '*'])).map(|part| part.trim().to_owned());
    let spread = parts.iter().any(|part| part.trim().starts_with('*'));
    given.or_else(placed).or(default).filter(|given| given != name && !spread).map(|given| (given, true))
}

/// The dotted names that an expression may ask a file of settings for, the longer first, and what it takes where that
/// has none.
pub fn path_of(text: &str) -> Option<(Vec<String>, Option<String>)> {
    let mut names: Vec<String> = Vec::new();
    let mut default = None;
    let mut rest = text;
    loop {
        let quoted = |part: &str| {
            let name = part.trim().trim_matches(['"', '\'']);
            (!name.is_empty() && name.len() + 2 == part.trim().len() && !name.contains(['"', '\'']))
                .then(|| name.to_owned())
        };
        if let Some((before, inner)) = rest.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')) {
            names.insert(0, quoted(inner)?);
            rest = before;
        } else if let Some((before, inner)) = rest.strip_suffix(')').and_then(|inner| inner.rsplit_once(".get(")) {
            let (name, other) = inner.split_once(',').map_or((inner, None), |(name, other)| (name, Some(other)));
            if names.is_empty() {
                default = other.map(|other| other.trim().to_owned());
            }
            names.insert(0, quoted(name)?);
            rest = before;
        } else {
            break;
        }
    }
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'));
    if !plain(rest) || (names.is_empty() && !rest.contains('.')) {
        return None;
    }
    names.splice(0..0, rest.split('.').skip(1).map(str::to_owned));
    let short = names.last()?.clone();
    let long = names.len().checked_sub(2).and_then(|start| names.get(start..)).map(|two| two.join("."));
    Some((long.into_iter().chain([short]).collect(), default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Value {
        match text {
            "args.dtype" => "BF16".into(),
            "args.steps" => "8".into(),
            "args.none" => Value::Null,
            "args.zero" => 0.into(),
            "\"x\"" => "x".into(),
            _ => UNKNOWN.into(),
        }
    }

    #[test]
    fn expressions_of_several_parts_are_followed() {
        let holds = |text: &str| (text == "args.yes").then_some(true);
        let composed = |text: &str| composed(text, &of, &holds);
        assert_eq!(composed("args.dtype.lower()"), Some("bf16".into()));
        assert_eq!(composed("\"x\" if args.yes else args.dtype"), Some("x".into()));
        assert_eq!(composed("\"x\" if args.other else args.dtype"), Some(UNKNOWN.into()));
        assert_eq!(composed("args.none or \"x\""), Some("x".into()));
        assert_eq!(composed("args.zero or \"x\""), Some("x".into()));
        assert_eq!(composed("int(args.steps)"), Some("8".into()));
        assert_eq!(composed("int(args.steps) + int(args.steps)"), None);
    }

    #[test]
    fn a_parameter_is_what_the_only_call_gives() {
        let text = "def lora(model, rank, targets=None):\n    return LoraConfig(r=rank)\n\nmodel = lora(model, args.rank, targets=args.targets)\n";
        assert_eq!(parameter(text, "rank"), Some(("args.rank".to_owned(), true)));
        assert_eq!(parameter(text, "targets"), Some(("args.targets".to_owned(), true)));
        assert_eq!(parameter("def main(rank: int = 16):\n    pass\n", "rank"), Some(("16".to_owned(), false)));
        let twice = format!("{text}other = lora(model, 8)\n");
        assert_eq!(parameter(&twice, "rank"), None);
    }
}
