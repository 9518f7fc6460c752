//! Exit codes.

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
