//! Whether a line of a script is reached: the conditions around it, over the script's own arguments. Read, never run.

use serde_json::Value;

use super::settings::{Settings, UNKNOWN, number, truth};
use super::text::python_literal;

/// Starts of lines that run nothing by themselves.
const OTHERS: [&str; 6] = ["#", "import ", "from ", "def ", "class ", "parser.add_argument"];

/// No condition that matters has more parts.
const DEEPEST: usize = 12;

/// Whether any line with `part` in it is reached: true where one is, false where none is, none where a condition around
/// one is not followed. A function counts as called.
pub fn reached(text: &str, part: &str, settings: &Settings) -> Option<bool> {
    let lines: Vec<&str> = text.lines().collect();
    let runs = |line: &str| !OTHERS.iter().any(|start| line.trim_start().starts_with(start));
    let mut answer = Some(false);
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(part) && runs(line)) {
        match line_is_reached(&lines, at, settings) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn line_is_reached(lines: &[&str], at: usize, settings: &Settings) -> Option<bool> {
    let mut inner = indent(lines.get(at)?);
    let mut answer = Some(true);
    let mut above = at;
    while above > 0 && inner > 0 {
        above -= 1;
        let line = lines.get(above)?;
        let code = line.trim();
        if code.is_empty() || code.starts_with(['#', ')', ']', '}']) || indent(line) >= inner {
            continue;
        }
        inner = indent(line);
        if code.starts_with("def ") || code.starts_with("class ") {
            break;
        }
        answer = both(answer, branch(lines, above, settings));
        if answer == Some(false) {
            return answer;
        }
    }
    answer
}

/// Whether the branch that a line opens is taken: `if`, `elif` and `else` with those before them.
fn branch(lines: &[&str], at: usize, settings: &Settings) -> Option<bool> {
    let line = lines.get(at)?;
    let code = line.trim();
    let condition = |code: &str, word: &str| {
        let rest = code.strip_prefix(word)?.split(" #").next()?.trim_end();
        Some(rest.strip_suffix(':').map(str::to_owned).unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    if let Some(condition) = condition(code, "if ") {
        return holds(&condition, settings, 0);
    }
    let own = match condition(code, "elif ") {
        Some(condition) => holds(&condition, settings, 0),
        None if code.starts_with("else:") => Some(true),
        None if code.starts_with("except") => None,
        // A call or a list over several lines, a loop, `with`, `try`.
        None => return Some(true),
    };
    let mut answer = own;
    for above in (0..at).rev() {
        let line = lines.get(above)?;
        let code = line.trim();
        if code.is_empty() || code.starts_with('#') || indent(line) > indent(lines.get(at)?) {
            continue;
        }
        if indent(line) < indent(lines.get(at)?) {
            break;
        }
        let first = condition(code, "if ");
        let other = first.clone().or_else(|| condition(code, "elif "))?;
        answer = both(answer, holds(&other, settings, 0).map(|holds| !holds));
        if first.is_some() {
            break;
        }
    }
    answer
}

/// Whether both hold.
pub const fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whether a condition over a script's arguments holds; none where it asks for anything else.
pub fn holds(condition: &str, settings: &Settings, depth: usize) -> Option<bool> {
    let condition = condition.trim();
    if depth > DEEPEST {
        return None;
    }
    let deeper = |part: &str| holds(part, settings, depth + 1);
    if let Some((left, right)) = split_outside(condition, " or ") {
        return match (deeper(left), deeper(right)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
    }
    if let Some((left, right)) = split_outside(condition, " and ") {
        return both(deeper(left), deeper(right));
    }
    if let Some(rest) = condition.strip_prefix("not ") {
        return deeper(rest).map(|holds| !holds);
    }
    if let Some(inner) = condition.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return deeper(inner);
    }
    for sign in [" is not ", " is ", "==", "!=", "<=", ">=", " < ", " > "] {
        if let Some((left, right)) = condition.split_once(sign) {
            return compare(&operand(left, settings)?, sign.trim(), &operand(right, settings)?);
        }
    }
    match operand(condition, settings)? {
        Value::Bool(truth) => Some(truth),
        Value::Null => Some(false),
        Value::Number(number) => number.as_f64().map(|number| number != 0.0),
        Value::String(text) => truth(&Value::String(text.clone())).or(Some(!text.is_empty())),
        _ => None,
    }
}

/// The first of two parts around a word that stands in no bracket or quote.
pub fn split_outside<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (mut depth, mut quote) = (0_i32, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ' ') if depth == 0 && text[at..].starts_with(word) => {
                return Some((&text[..at], &text[at + word.len()..]));
            }
            _ => {}
        }
    }
    None
}

fn compare(left: &Value, sign: &str, right: &Value) -> Option<bool> {
    let numbers = number(left).zip(number(right));
    let alike = match numbers {
        #[allow(clippy::float_cmp)]
        Some((left, right)) => left == right,
        None => left == right,
    };
    Some(match sign {
        "==" | "is" => alike,
        "!=" | "is not" => !alike,
        "<" => numbers?.0 < numbers?.1,
        ">" => numbers?.0 > numbers?.1,
        "<=" => numbers?.0 <= numbers?.1,
        ">=" => numbers?.0 >= numbers?.1,
        _ => return None,
    })
}

/// A literal, or an argument of the script: `args.use_lora`, `model_args.use_lora`.
fn operand(text: &str, settings: &Settings) -> Option<Value> {
    let text = text.trim();
    if text == "None" {
        return Some(Value::Null);
    }
    if let Some(literal) = python_literal(text) {
        return Some(literal);
    }
    let (owner, name) = text.rsplit_once('.')?;
    let plain = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'));
    let arguments = ["args", "config", "cfg"].iter().any(|end| owner.ends_with(end));
    if !arguments || !plain(text) {
        return None;
    }
    let found = settings.iter().find(|(own, _)| *own == name)?.1.value.clone();
    (found.as_str() != Some(UNKNOWN)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::import::origin::Origin;

    fn settings(entries: &[(&str, Value)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in entries {
            settings.set(name, value.clone(), Origin::Argument((*name).to_owned()));
        }
        settings
    }

    #[test]
    fn conditions_on_arguments_are_followed() {
        let given = settings(&[
            ("use_lora", false.into()),
            ("budget", 1.0.into()),
            ("stage", 3.into()),
            ("path", Value::Null),
            ("kind", "full".into()),
        ]);
        for (condition, expected) in [
            ("args.use_lora", Some(false)),
            ("not args.use_lora", Some(true)),
            ("args.budget < 1", Some(false)),
            ("args.stage == 3 and not args.use_lora", Some(true)),
            ("args.use_lora or args.other", None),
            ("args.stage >= 3 or args.other", Some(true)),
            ("args.path is None", Some(true)),
            ("model_args.kind != \"full\"", Some(false)),
            ("(args.stage > 2) and (args.path is not None)", Some(false)),
            ("torch.cuda.is_available()", None),
            ("len(args.kind) > 2", None),
        ] {
            assert_eq!(holds(condition, &given, 0), expected, "{condition}");
        }
    }

    #[test]
    fn a_line_is_reached_where_every_branch_around_it_is() {
        let text = "def main(args):\n    if args.use_lora:\n        model = get_peft_model(\n            model,\n        )\n    elif args.budget < 1:\n        model.checkpoint()\n    else:\n        model.plain()\n";
        let given = settings(&[("use_lora", false.into()), ("budget", 0.5.into())]);
        assert_eq!(reached(text, "get_peft_model(", &given), Some(false));
        assert_eq!(reached(text, ".checkpoint(", &given), Some(true));
        assert_eq!(reached(text, ".plain(", &given), Some(false));
        assert_eq!(reached(text, ".nowhere(", &given), Some(false));
        assert_eq!(reached(text, "get_peft_model(", &Settings::default()), None);
    }
}
