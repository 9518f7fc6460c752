//! Where an inferred value comes from.

use std::fmt;

use serde_json::Value;

/// What said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An argument of the command: `--micro-batch-size`.
    Argument(String),
    /// A line of a file that the command names.
    File {
        /// As the command names it.
        name: String,
        /// From 1; none where the place is not known.
        line: Option<usize>,
        /// The key there.
        key: String,
    },
    /// A variable of the process's environment.
    Environment(String),
    /// The program itself: its script, module or recipe.
    Program(String),
    /// The GPUs that the process runs on.
    Gpu(String),
    /// Nobody said so: what the framework does then.
    Default {
        /// The framework and its version.
        framework: &'static str,
        /// Its option.
        option: String,
    },
    /// Follows from others.
    Derived(String),
}

impl Origin {
    /// What may name a file.
    pub(super) fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::File { name: text, .. }
            | Self::Argument(text)
            | Self::Program(text)
            | Self::Derived(text)
            | Self::Default { option: text, .. } => Some(text),
            Self::Environment(_) | Self::Gpu(_) => None,
        }
    }

    /// Whether a file of settings said so, and no script.
    pub(super) fn is_of_settings(&self) -> bool {
        matches!(self, Self::File { name, .. } if !name.ends_with(".py"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(name) => f.write_str(name),
            // An argument by its place has no name.
            Self::File { name, line: Some(line), key } if key.parse::<u64>().is_ok() => write!(f, "{name}:{line}"),
            Self::File { name, line: Some(line), key } => write!(f, "{name}:{line}: {key}"),
            Self::File { name, line: None, key } => write!(f, "{name}: {key}"),
            Self::Environment(name) => write!(f, "environment: {name}"),
            Self::Program(what) | Self::Gpu(what) | Self::Derived(what) => f.write_str(what),
            Self::Default { framework, option } => write!(f, "default of {framework}: {option}"),
        }
    }
}

/// A value and what said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// What said so.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// `value`, as `origin` says.
    pub const fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// Another value out of this one, said by the same.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: to(self.value), origin: self.origin }
    }

    /// Another value out of this one, where there is one.
    pub fn and_then<U>(self, to: impl FnOnce(T) -> Option<U>) -> Option<Setting<U>> {
        to(self.value).map(|value| Setting { value, origin: self.origin })
    }
}

impl<T: Into<Value>> Setting<T> {
    /// As a value of a plan.
    pub fn into_value(self) -> Setting<Value> {
        self.map(Into::into)
    }
}
