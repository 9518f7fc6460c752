//! Why a value is none that an option takes.

use thiserror::Error;

/// Why a value is none that an option takes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionFault {
    /// It is too small or too large.
    #[error("is not between {least} and {most}")]
    OutOfBounds {
        /// The least that is taken.
        least: String,
        /// The most.
        most: String,
    },
    /// A word that is none of those that are known.
    #[error("`{word}` is none of {known}")]
    Unknown {
        /// The word.
        word: String,
        /// All of them.
        known: String,
    },
    /// Something of another kind; says what is needed.
    #[error("{0}")]
    Malformed(String),
}

impl OptionFault {
    /// Outside of these bounds.
    pub fn out_of(least: impl ToString, most: impl ToString) -> Self {
        Self::OutOfBounds { least: least.to_string(), most: most.to_string() }
    }
}

impl From<String> for OptionFault {
    fn from(needed: String) -> Self {
        Self::Malformed(needed)
    }
}

impl From<&str> for OptionFault {
    fn from(needed: &str) -> Self {
        Self::Malformed(needed.to_owned())
    }
}
