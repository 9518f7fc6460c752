//! What the Trainer of sentence-transformers is told: its arguments are those of transformers with some more
//! (sentence_transformers/training_args.py, `SentenceTransformerTrainingArguments(TransformersTrainingArguments)`).

use super::Script;
use crate::imported::InferredValue;
use crate::origin::Setting;
use crate::plan::keys;
use crate::python::ScriptReader;
use crate::settings::Settings;

/// The classes of its arguments.
const ARGUMENTS: [&str; 3] =
    ["SentenceTransformerTrainingArguments", "CrossEncoderTrainingArguments", "SparseEncoderTrainingArguments"];

/// What the only such call is given; nothing where it is not followed.
fn arguments(reader: &ScriptReader) -> Option<Settings> {
    reader.open.set(false);
    let call = reader.calls(&ARGUMENTS);
    (!reader.open.get() && call.iter().next().is_some()).then_some(call)
}

impl Script<'_> {
    /// What a call of its arguments says itself, by keys of a plan.
    pub(super) fn of_library(&self) -> Vec<InferredValue> {
        let Some(call) = arguments(self.reader) else { return Vec::new() };
        let number = |name: &str| call.whole(name).filter(|found| found.value > 0);
        let is_on = |name: &str| call.flag(name).filter(|found| found.value);
        let mixed = |half: &str, word: &'static str| is_on(half).map(|found| found.map(|_| word));
        let full: Option<Setting<&'static str>> = is_on("gradient_checkpointing").map(|found| found.map(|_| "full"));
        let rows = [
            self.row(keys::training::micro_batch_size, number("per_device_train_batch_size")),
            self.row(keys::training::gradient_accumulation_steps, number("gradient_accumulation_steps")),
            self.row(keys::training::precision, mixed("bf16", "bf16-mixed").or_else(|| mixed("fp16", "fp16-mixed"))),
            self.row(keys::training::activation_checkpointing, full),
        ];
        rows.into_iter().flatten().collect()
    }
}
