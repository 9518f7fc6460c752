//! The optimizer that a loop passes to DeepSpeed.

use super::OwnLoop;
use crate::common;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::python::{PassedArgument, ScriptReader};
use crate::settings::Settings;

/// An optimizer of the script's own, which its configuration's makes way for.
#[derive(Debug)]
pub(super) struct ClientOptimizer {
    /// Whether it is the one that the script is known to make.
    is_followed: bool,
    weight_decay: Option<Setting<f64>>,
}

impl ClientOptimizer {
    /// What the script passes to `deepspeed.initialize`, where it passes an optimizer.
    pub(super) fn of(reader: &ScriptReader, settings: &Settings) -> Option<Self> {
        let passed = reader.passed(&["initialize", "deepspeed.initialize"], "optimizer");
        let (passed, _) = passed.into_iter().find(|(passed, _)| !matches!(passed, PassedArgument::Nothing))?;
        Some(Self {
            is_followed: matches!(passed, PassedArgument::Made(..)),
            weight_decay: settings.number("weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
        })
    }
}

impl OwnLoop {
    /// DeepSpeed takes a client's optimizer over its configuration's (`runtime/engine.py`, `_configure_optimizer`).
    pub(super) fn takes_client_optimizer(&self, imported: &mut ImportedPlan) {
        let Some(client) = &self.client_optimizer else { return };
        let configured = |imported: &ImportedPlan, key: &str, option: &str| {
            imported.get(key).is_some_and(|found| found.origin.to_string().ends_with(option))
        };
        if configured(imported, keys::training::weight_decay, "optimizer.params.weight_decay") {
            imported.drop(keys::training::weight_decay);
            imported.set(keys::training::weight_decay, client.weight_decay.clone());
        }
        if !configured(imported, keys::training::optimizer, "optimizer.type") {
            return;
        }
        imported.drop(keys::training::optimizer);
        match self.optimizer.filter(|_| client.is_followed) {
            Some(word) => {
                let origin = Origin::Program(format!("{}: its optimizer, over its configuration's", self.path));
                common::set_optimizer(imported, Some(Setting::new(word.to_owned(), origin)));
            }
            None => {
                let why = format!("{} hands DeepSpeed an optimizer that is not followed", self.path);
                imported.miss(keys::training::optimizer, why);
            }
        }
    }
}
