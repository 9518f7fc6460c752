//! Where in a plan a cursor stands, told from the lines above it and the letters before it,
//! so that it is known in a broken text too.

/// Blanks by which a section's keys are indented where nothing says otherwise.
pub const INDENT: usize = 2;

/// What may stand at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpotKind {
    /// A key.
    Key,
    /// A value.
    Value,
    /// Nothing that the schema knows: a comment.
    Nothing,
}

/// A place in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Dotted path of the section; empty at the top.
    pub section: String,
    /// Dotted path of the key that stands there or whose value stands there.
    pub key: Option<String>,
    /// What may stand there.
    pub wanted: SpotKind,
    /// What is typed of it before the cursor.
    pub prefix: String,
}

/// The place of a cursor: line and column from 0, in characters.
#[must_use]
pub fn at(lines: &[String], row: usize, column: usize) -> Spot {
    let line = lines.get(row).map_or("", String::as_str);
    let before: String = line.chars().take(column).collect();
    let above = section_of(lines, row, indent_of(if line.trim().is_empty() { &before } else { line }));
    let scan = Scan::of(&before);
    let mut section = above;
    section.extend(scan.open.iter().flatten().cloned());
    let section = section.join(".");
    let path = |key: &str| if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    if scan.comment {
        let key = first_key(line).map(|key| path(&key));
        return Spot { section, key, wanted: SpotKind::Nothing, prefix: String::new() };
    }
    match &scan.key {
        Some(key) => {
            let prefix = scan.token.trim_start_matches([' ', '"', '\'']).to_owned();
            Spot { key: Some(path(key)), section, wanted: SpotKind::Value, prefix }
        }
        None => {
            let prefix = scan.token.trim_start_matches([' ', '-', '"', '\'']).to_owned();
            let rest: String = line.chars().skip(column).take_while(|c| is_name(*c)).collect();
            let whole = format!("{prefix}{rest}");
            Spot { key: (!whole.is_empty()).then(|| path(&whole)), section, wanted: SpotKind::Key, prefix }
        }
    }
}

/// The keys of the sections that a line with that indentation stands in.
fn section_of(lines: &[String], row: usize, indent: usize) -> Vec<String> {
    let mut keys = Vec::new();
    let mut indent = indent;
    // At the very left no line above is further out.
    let row = if indent == 0 { 0 } else { row };
    for line in lines.iter().take(row).rev() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', '}', ']']) || indent_of(line) >= indent {
            continue;
        }
        indent = indent_of(line);
        keys.extend(first_key(line));
        if indent == 0 {
            break;
        }
    }
    keys.reverse();
    keys
}

fn indent_of(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

/// The key that a line begins with.
fn first_key(line: &str) -> Option<String> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && key.chars().all(is_name) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_key.then(|| key.to_owned())
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// What stands before the cursor on its line.
#[derive(Default)]
struct Scan {
    /// Keys whose braces or brackets are still open; none where they have no key.
    open: Vec<Option<String>>,
    /// The key whose value is being written.
    key: Option<String>,
    /// The word that is being written.
    token: String,
    comment: bool,
}

impl Scan {
    fn of(before: &str) -> Self {
        let mut scan = Self::default();
        let mut quote = None;
        let mut letters = before.chars().peekable();
        while let Some(letter) = letters.next() {
            if let Some(open) = quote {
                if letter == open {
                    quote = None;
                } else {
                    scan.token.push(letter);
                }
                continue;
            }
            match letter {
                '"' | '\'' if scan.token.trim().is_empty() => quote = Some(letter),
                '#' if scan.token.is_empty() || scan.token.ends_with(' ') => {
                    scan.comment = true;
                    return scan;
                }
                '{' | '[' => {
                    scan.open.push(scan.key.take());
                    scan.token.clear();
                }
                '}' | ']' => {
                    scan.open.pop();
                    scan.key = None;
                    scan.token.clear();
                }
                ',' if !scan.open.is_empty() => {
                    scan.key = None;
                    scan.token.clear();
                }
                ':' if letters.peek().is_none_or(|next| *next == ' ') && scan.key.is_none() => {
                    let key = scan.token.trim().trim_start_matches("- ").to_owned();
                    scan.token.clear();
                    scan.key = Some(key);
                }
                letter => scan.token.push(letter),
            }
        }
        scan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the `|`.
    fn spot(text: &str) -> Spot {
        let row = text.lines().position(|line| line.contains('|')).unwrap();
        let column = text.lines().nth(row).unwrap().chars().position(|c| c == '|').unwrap();
        let lines: Vec<String> = text.replace('|', "").lines().map(str::to_owned).collect();
        at(&lines, row, column)
    }

    fn is(text: &str, wanted: SpotKind, section: &str, key: Option<&str>, prefix: &str) {
        let expected =
            Spot { section: section.to_owned(), key: key.map(str::to_owned), wanted, prefix: prefix.to_owned() };
        assert_eq!(spot(text), expected, "{text}");
    }

    #[test]
    fn keys_stand_in_the_section_that_their_indentation_says() {
        is("mo|", SpotKind::Key, "", Some("mo"), "mo");
        is("model:\n  # a\n\n  ba|tch_size: 8", SpotKind::Key, "model", Some("model.batch_size"), "ba");
        is("model:\n  architecture:\n    hidden_size: 1\n  pre|", SpotKind::Key, "model", Some("model.pre"), "pre");
        is("model:\n  architecture:\n    |", SpotKind::Key, "model.architecture", None, "");
        is("model:\n  batch_size: 8\n|", SpotKind::Key, "", None, "");
    }

    #[test]
    fn values_stand_behind_a_colon() {
        is("training:\n  precision: bf|", SpotKind::Value, "training", Some("training.precision"), "bf");
        is("training:\n  precision: |fp8 # x", SpotKind::Value, "training", Some("training.precision"), "");
        is("training:\n  precision: \"bf|", SpotKind::Value, "training", Some("training.precision"), "bf");
    }

    #[test]
    fn braces_open_sections_on_one_line() {
        is("hardware: {gpu|", SpotKind::Key, "hardware", Some("hardware.gpu"), "gpu");
        is("hardware: {gpu_type: NVIDIA H|", SpotKind::Value, "hardware", Some("hardware.gpu_type"), "NVIDIA H");
        is("hardware: {custom: {name: a}, gpu|", SpotKind::Key, "hardware", Some("hardware.gpu"), "gpu");
    }

    #[test]
    fn json_is_read_alike() {
        is("{\n  \"model\": {\n    \"ba|", SpotKind::Key, "model", Some("model.ba"), "ba");
    }

    #[test]
    fn comments_want_nothing() {
        is("model:\n  batch_size: 8 # gl|", SpotKind::Nothing, "model", Some("model.batch_size"), "");
    }
}
