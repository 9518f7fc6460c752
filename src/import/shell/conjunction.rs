//! Conditions of several parts, joined by `&&` and `||`.

/// The parts of a condition between `&&` and `||` outside of quotes and of `[[ … ]]`, each with the sign before it.
fn parts(condition: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut quote, mut depth, mut start, mut sign) = (None, 0_usize, 0, "");
    for (at, letter) in condition.char_indices() {
        let rest = condition.get(at..).unwrap_or("");
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '[') if rest.starts_with("[[ ") => depth += 1,
            (None, ']') if rest.starts_with("]]") => depth = depth.saturating_sub(1),
            (None, '&' | '|') if depth == 0 && at >= start => {
                let Some(two) = ["&&", "||"].into_iter().find(|two| rest.starts_with(two)) else { continue };
                found.push((sign, condition.get(start..at).unwrap_or("").trim()));
                (start, sign) = (at + two.len(), two);
            }
            _ => {}
        }
    }
    found.push((sign, condition.get(start..).unwrap_or("").trim()));
    found
}

/// Whether a condition of several parts holds, as a shell joins them: from the left, both signs alike. Within `[[ … ]]`
/// only parts of one sign are followed.
pub fn joined(condition: &str, holds: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
    let join = |left: Option<bool>, sign: &str, right: Option<bool>| match (sign, left, right) {
        ("&&", Some(false), _) | ("&&", _, Some(false)) => Some(false),
        ("||", Some(true), _) | ("||", _, Some(true)) => Some(true),
        (_, Some(_), Some(right)) => Some(right),
        _ => None,
    };
    let all = parts(condition.trim());
    if all.len() > 1 {
        let (_, first) = all.first()?;
        return all
            .iter()
            .skip(1)
            .fold(joined(first, holds), |left, (sign, part)| join(left, sign, joined(part, holds)));
    }
    let inner = condition.trim().strip_prefix("[[ ").and_then(|rest| rest.strip_suffix("]]"));
    let within = inner.map(parts).filter(|parts| parts.len() > 1);
    let Some(within) = within else { return holds(condition) };
    let mut signs = within.iter().skip(1).map(|(sign, _)| *sign);
    let only = signs.next()?;
    if signs.any(|sign| sign != only) {
        return None;
    }
    let one = |part: &str| holds(&format!("[[ {part} ]]"));
    let (_, first) = within.first()?;
    within.iter().skip(1).fold(one(first), |left, (sign, part)| join(left, sign, one(part)))
}

/// Whether a statement is a condition and nothing else.
pub fn is_test(statement: &str) -> bool {
    let plain = statement.trim_start().trim_start_matches("! ");
    ["[ ", "[[ ", "test ", "(("].iter().any(|start| plain.starts_with(start))
}

/// The command whose success is asked for: of `if torchrun train.py; then` and `if ! torchrun train.py; then` it runs.
pub fn asked(condition: &str) -> Option<&str> {
    const TESTS: [&str; 6] = ["[", "(", "{", "test ", "true", "false"];
    let command = condition.strip_prefix("! ").unwrap_or(condition).trim();
    (!command.is_empty() && !TESTS.iter().any(|start| command.starts_with(start))).then_some(command)
}

/// A condition with `-v NAME`, which asks whether a variable is set, as one that asks for its value: no script that matters
/// sets one to nothing and asks so.
pub fn set_asked_for(condition: &str) -> String {
    let words: Vec<&str> = condition.split(' ').collect();
    let mut made: Vec<String> = Vec::new();
    let mut before = "";
    for (at, word) in words.iter().enumerate() {
        let after_v = before == "-v"
            && at > 1
            && matches!(words.get(at - 2), Some(&"[[" | &"[" | &"test" | &"!" | &"&&" | &"||"));
        let name = word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if after_v && name && !word.is_empty() {
            made.pop();
            made.extend(["-n".to_owned(), format!("\"${{{word}-}}\"")]);
        } else {
            made.push((*word).to_owned());
        }
        before = word;
    }
    made.join(" ")
}
