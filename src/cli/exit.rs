//! How commands end: exit codes, and why one ended early.

use std::fmt;
use std::process::ExitCode;

/// How a command ended, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Something failed while it ran.
    Failed,
    /// Bad usage or a bad plan.
    Usage,
    /// A plan does not fit its GPUs.
    DoesNotFit,
    /// All well.
    Done,
    /// What a command that was run ended with.
    Child(u8),
}

impl Exit {
    /// The number that scripts see.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::DoesNotFit => 3,
            Self::Child(code) => code,
        }
    }

    /// The graver of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.min(other)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command ends before it is done: what is said of it, a line each, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the command ends with.
    pub exit: Exit,
    /// What is still to be said; empty where all has been.
    pub lines: Vec<String>,
}

impl Failure {
    /// One line, and the code that goes with it.
    pub fn new(exit: Exit, line: impl fmt::Display) -> Self {
        Self { exit, lines: vec![line.to_string()] }
    }

    /// Bad usage or a bad plan.
    pub fn usage(line: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, line)
    }

    /// Something failed while the command ran.
    pub fn failed(line: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, line)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("; "))
    }
}

impl std::error::Error for Failure {}

/// What has been told already has nothing left to say.
impl From<Exit> for Failure {
    fn from(exit: Exit) -> Self {
        Self { exit, lines: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_graver_outcome_decides() {
        assert_eq!(Exit::Done.and(Exit::DoesNotFit), Exit::DoesNotFit);
        assert_eq!(Exit::Usage.and(Exit::DoesNotFit).code(), 2);
        assert_eq!(Exit::Usage.and(Exit::Failed).code(), 1);
    }
}
