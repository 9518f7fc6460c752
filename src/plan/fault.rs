//! What is wrong with a plan, and where.

use std::fmt;

/// A place in a text: line and column from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One fault of a plan: the key, the rule that it breaks, and the place where known.
///
/// Rules over several keys (batch arithmetic, degrees) are checked where nothing is
/// known of the text: those faults have no place until [`Fault::placed`] gives them one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key with its path (`training.precision`); empty where the text as a whole is broken.
    pub key: String,
    /// What is wrong and what would be right, in one line.
    pub message: String,
    /// Where, if known.
    pub at: Option<TextPosition>,
}

impl Fault {
    /// A fault of `key`, its place not known here.
    pub fn of(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), at: None }
    }

    /// The same fault at its place.
    #[must_use]
    pub fn placed(self, at: Option<TextPosition>) -> Self {
        Self { at: self.at.or(at), ..self }
    }
}

/// Characters of a key that are shown.
const LONGEST_KEY: usize = 200;

impl fmt::Display for Fault {
    /// `12:5: training.precision: …`, the parts that are known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "{}:{}: ", at.line, at.column)?;
        }
        if !self.key.is_empty() {
            // A key of megabytes is a file's, and a line is for people.
            let more = if self.key.chars().nth(LONGEST_KEY).is_some() { "…" } else { "" };
            let key: String = self.key.chars().take(LONGEST_KEY).collect();
            write!(f, "{key}{more}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
