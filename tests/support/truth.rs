//! Measured cases: the files of `tests/truth`.

use std::path::PathBuf;

use serde_json::Value;

/// The folder of the files.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth"))
}

/// The text of one file.
pub fn text(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The cases of one file: each with its id, its group, its plan and what was measured.
pub fn cases(file: &str) -> Vec<Value> {
    serde_json::from_str(&text(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}
