//! The configuration that a loop passes to `deepspeed.initialize` as a dictionary of its own.

use crate::python::ScriptReader;
use crate::settings::{Settings, is_open};

/// What follows from the batch of each GPU, and from the number of these (`runtime/config.py`, `_set_batch_related_parameters`).
const FOLLOWING: &str = "train_batch_size";

/// What `deepspeed.initialize` takes it by (`deepspeed/__init__.py`, `initialize`).
const PASSED: [&str; 2] = ["config", "config_params"];

/// Its settings below `deepspeed`, as `TrainingArguments` would hold them; nothing where the call is handed a path, or what is
/// not followed.
pub(super) fn passed(reader: &ScriptReader) -> Settings {
    let call = reader.calls(&["deepspeed.initialize"]);
    let open = |value: &serde_json::Value| value.as_str().is_some_and(is_open);
    let given = PASSED.iter().map(|name| call.below(name)).find(|given| given.iter().next().is_some());
    let mut settings = Settings::default();
    // A part that only the run knows says nothing of the others.
    if let Some(given) = given.filter(|given| given.iter().any(|(_, found)| !open(&found.value))) {
        let follows = given.get(FOLLOWING).is_some_and(|found| open(&found.value));
        settings.adopt_all(&given, |name| (name != FOLLOWING || !follows).then(|| format!("deepspeed.{name}")));
    }
    settings
}
