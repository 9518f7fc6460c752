//! Conditions of a script: which branch of them is read.

/// A condition that is open.
#[derive(Debug, Clone, Default)]
struct OpenCondition {
    /// Of a `case`: the word that is compared, and patterns of `a | b)` that were read already.
    case: Option<(String, Vec<String>)>,
    /// A branch of it has been read already: later ones are passed over.
    taken: bool,
    /// The present branch is read.
    reading: bool,
}

/// Which branches of nested conditions the reader is in.
#[derive(Debug, Default)]
pub struct Branches {
    open: Vec<OpenCondition>,
}

impl Branches {
    /// What is left of a statement that is to be followed. `holds` tells of a condition whether it is true;
    /// where only a run could tell it counts as true.
    pub fn taken(&mut self, statement: &str, holds: impl Fn(&str) -> bool) -> Option<String> {
        let mut rest = statement.trim();
        loop {
            rest = self.behind_pattern(rest, &holds)?;
            let word = rest.split([' ', '\t']).next().unwrap_or("");
            let after = rest[word.len()..].trim();
            match word {
                "if" => {
                    let read = holds(after);
                    self.open.push(OpenCondition { case: None, taken: read, reading: read });
                    return None;
                }
                "case" => {
                    let (compared, first) = after.split_once(" in").unwrap_or((after, ""));
                    let case = Some((compared.trim().trim_matches('"').to_owned(), Vec::new()));
                    self.open.push(OpenCondition { case, ..OpenCondition::default() });
                    rest = first.trim();
                    if rest.is_empty() {
                        return None;
                    }
                }
                "fi" | "esac" => {
                    self.open.pop();
                    return None;
                }
                "elif" | "else" => {
                    if let Some(last) = self.open.last_mut() {
                        last.reading = !last.taken && (word == "else" || holds(after));
                        last.taken |= last.reading;
                    }
                    return None;
                }
                "then" | "do" | "{" | "time" | "exec" => rest = after,
                _ => break,
            }
        }
        let followed = !rest.is_empty() && self.open.iter().all(|open| open.reading);
        followed.then(|| rest.to_owned())
    }

    /// Behind the pattern of a `case` that a statement begins with, if it does; none where it is no more than
    /// a part of one. The branch is read where the pattern is the word, or `*`.
    fn behind_pattern<'a>(&mut self, statement: &'a str, holds: &impl Fn(&str) -> bool) -> Option<&'a str> {
        let Some(OpenCondition { case: Some((word, patterns)), taken, reading }) = self.open.last_mut() else {
            return Some(statement);
        };
        let end = statement.find([')', '(', ' ', '=']).unwrap_or(statement.len());
        let pattern = &statement[..end];
        match statement[end..].trim_start().strip_prefix(')') {
            Some(behind) => {
                patterns.push(pattern.to_owned());
                let is = |one: &String| one == "*" || holds(&format!("[[ \"{word}\" == {one} ]]"));
                *reading = !*taken && patterns.iter().any(is);
                *taken |= *reading;
                patterns.clear();
                Some(behind.trim())
            }
            // `"a" | "b")` comes in pieces, as every pipe does.
            None if statement[end..].trim().is_empty() && !pattern.is_empty() && pattern != "esac" => {
                patterns.push(pattern.to_owned());
                None
            }
            None => Some(statement),
        }
    }
}

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
    let words: Vec<&str> = inner.iter().map(String::as_str).collect();
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
