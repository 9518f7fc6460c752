//! What is found out while a plan is decided: assumptions, and faults.

use crate::plan::Fault;

/// Where resolving gathers what it finds.
#[derive(Debug, Default)]
pub(in crate::predict) struct Notes {
    pub faults: Vec<Fault>,
    pub assumptions: Vec<String>,
}

impl Notes {
    pub(in crate::predict) fn assume(&mut self, key: &str, value: impl std::fmt::Display) {
        self.assumptions.push(format!("{key}: {value}"));
    }

    pub(in crate::predict) fn fault(&mut self, key: &str, message: impl Into<String>) {
        self.faults.push(Fault::of(key, message));
    }

    /// `value`, or `default` and a line that says so.
    pub(in crate::predict) fn or<T: std::fmt::Display + Copy>(&mut self, key: &str, value: Option<T>, default: T) -> T {
        value.unwrap_or_else(|| {
            self.assume(key, default);
            default
        })
    }
}
