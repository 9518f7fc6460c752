//! Messages of the bottom line.

/// How a message is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeSeverity {
    /// It worked.
    Info,
    /// It did not.
    Problem,
    /// A key that does nothing was pressed.
    DeadKey,
}

impl NoticeSeverity {
    /// Whether a key that does nothing was pressed.
    #[must_use]
    pub const fn is_dead_key(self) -> bool {
        matches!(self, Self::DeadKey)
    }
}

/// A message in the bottom line, until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How it is meant.
    pub severity: NoticeSeverity,
    /// What it says.
    pub text: String,
}

/// It worked.
pub fn info(text: impl Into<String>) -> Notice {
    Notice { severity: NoticeSeverity::Info, text: text.into() }
}

/// It did not.
pub fn problem(text: impl Into<String>) -> Notice {
    Notice { severity: NoticeSeverity::Problem, text: text.into() }
}

/// A key that does nothing was pressed.
pub fn dead_key(text: impl Into<String>) -> Notice {
    Notice { severity: NoticeSeverity::DeadKey, text: text.into() }
}
