//! Why a file gives no plan.

use std::fmt;

/// Why a file gives no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It cannot be read as what its name says it is: where, and why.
    Unreadable(String),
    /// It is a plan already.
    Plan(String),
    /// No tool that is known has written it, or is started by it.
    NoTool(String),
    /// It starts several trainings; one has to be chosen.
    Several {
        /// The file.
        file: String,
        /// The commands, as they are numbered from 1.
        commands: Vec<String>,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) | Self::NoTool(why) => f.write_str(why),
            Self::Plan(name) => write!(f, "{name}: a plan already, nothing to import"),
            Self::Several { file, commands } => {
                write!(f, "{file}: {} trainings; choose one with --which:", commands.len())?;
                for (at, command) in commands.iter().enumerate() {
                    write!(f, " [{}] {command}", at + 1)?;
                }
                Ok(())
            }
        }
    }
}
