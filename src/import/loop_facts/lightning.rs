//! What Lightning's Trainer is told, by a call of the script or by the files and options of its `LightningCLI`
//! (lightning/pytorch/trainer/trainer.py, `__init__`; lightning/pytorch/cli.py).

use super::Script;
use super::named::BATCHES;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::own_loop;
use crate::settings::{Settings, text, whole};

/// Whether a script hands its training to `LightningCLI`, and its command asks it to train.
pub(super) fn is_client(context: &ImportContext, text: &str) -> bool {
    text.contains("LightningCLI(") && context.program.words.iter().any(|word| word == "fit")
}

/// The file that such a command names. What it passes beside it goes over the file.
pub(super) fn client_file(context: &ImportContext, options: &Settings) -> Option<Settings> {
    let path = ["config", "c"].iter().find_map(|name| options.text(name))?.value;
    context.configuration(&path, &mut ImportedPlan::default())
}

impl Script<'_> {
    /// What the Trainer is told; nothing where that is not followed.
    fn trainer(&self) -> Option<Settings> {
        if self.is_client {
            if self.has(&["trainer_defaults", "trainer_class"]) {
                return None;
            }
            let mut told = Settings::default();
            told.adopt_all(self.given, |name| name.strip_prefix("trainer.").map(str::to_owned));
            return Some(told);
        }
        if !own_loop::is_lightning(self.text) {
            return None;
        }
        self.reader.open.set(false);
        let call = self.reader.calls(&["Trainer"]);
        (!self.reader.open.get() && call.iter().next().is_some()).then_some(call)
    }

    /// Batches of a step: one where it is told nothing.
    pub(super) fn accumulated_by_trainer(&self) -> Option<Setting<u64>> {
        let trainer = self.trainer()?;
        match trainer.get("accumulate_grad_batches").filter(|found| !found.value.is_null()) {
            Some(found) => Some(Setting::new(whole(&found.value)?, self.told_by(found))),
            None => Some(Setting::new(1, self.says("Lightning's Trainer accumulates nothing"))),
        }
    }

    /// fp32 where it is told nothing (plugins/precision, `_PRECISION_INPUT`).
    pub(super) fn precision_of_trainer(&self) -> Option<Setting<&'static str>> {
        let trainer = self.trainer()?;
        let Some(found) = trainer.get("precision").filter(|found| !found.value.is_null()) else {
            return Some(Setting::new("fp32", self.says("Lightning's Trainer is told no precision")));
        };
        let word = match text(&found.value)?.as_str() {
            "32-true" | "32" => "fp32",
            "16-mixed" | "16" => "fp16-mixed",
            "bf16-mixed" | "bf16" => "bf16-mixed",
            "16-true" => "fp16",
            "bf16-true" => "bf16",
            _ => return None,
        };
        Some(Setting::new(word, self.told_by(found)))
    }

    /// The batch that the client's file gives its data module, which hands it to its loader.
    pub(super) fn batch_of_client(&self) -> Option<Setting<u64>> {
        let loads = own_loop::loader_batch(self.text)?;
        let name = loads.rsplit('.').next().filter(|name| loads.starts_with("self.") && BATCHES.contains(name))?;
        let is_of_data = |key: &&str| key.starts_with("data.") && key.rsplit('.').next() == Some(name);
        let mut keys = self.given.iter().map(|(key, _)| key).filter(is_of_data);
        let key = keys.next().filter(|_| keys.next().is_none())?;
        self.given.whole(key)
    }

    fn told_by<T>(&self, found: &Setting<T>) -> Origin {
        match found.origin.clone() {
            Origin::Default { option, .. } => self.says(&option),
            origin => origin,
        }
    }
}
