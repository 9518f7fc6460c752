//! torchtitan's configurations in Python: the calls of a function of `config_registry.py`, and what it sets behind them.

use serde_json::Value;

use super::known::{DEFAULTS, VERSION};
use super::{renamed, set};
use crate::plan::import::common::ImportContext;
use crate::plan::import::imported::ImportedPlan;
use crate::plan::import::origin::Origin;
use crate::plan::import::python_calls::{call, keywords_of};
use crate::plan::import::settings::Settings;
use crate::plan::import::text::python_literal;
use crate::plan::import::unread::account_for;
use crate::plan::keys;

/// Calls whose keywords are a section's.
const SECTIONS: [(&str, &str); 4] = [
    ("TrainingConfig", "training"),
    ("ParallelismConfig", "parallelism"),
    ("CompileConfig", "compile"),
    ("default_adamw", "optimizer"),
];

/// Whether a script is one function that makes a configuration of torchtitan.
pub fn is_python(content: &str) -> bool {
    content.contains("Trainer.Config(")
        && content.contains("model_registry(")
        && content.matches("-> Trainer.Config:").count() == 1
}

/// The plan of such a file.
pub fn of_python(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtitan");
    imported.say(keys::model::framework, "torchtitan", Origin::Program("torchtitan's own calls".to_owned()));
    let mut settings = Settings::default();
    for (call, section) in SECTIONS {
        let keywords = keywords_of(name, content, call);
        settings.adopt_all(&keywords, |key| Some(format!("{section}.{key}")));
    }
    settings.accept("optimizer.lr");
    let origin = |key: &str| Origin::File { name: name.to_owned(), line: None, key: key.to_owned() };
    let registry = keywords_of(name, content, "model_registry");
    if let Some(flavor) = registry.text("0") {
        settings.set("model.flavor", flavor.value.into(), flavor.origin);
    }
    let model = content.lines().find_map(|line| {
        let (module, _) = line.trim().strip_prefix("from torchtitan.models.")?.split_once(" import model_registry")?;
        Some(module.to_owned())
    });
    if let Some(model) = model {
        settings.set("model.name", model.into(), origin("model_registry"));
    }
    if call(content, "Float8LinearConverter.Config").is_some() {
        settings.set("float8.enable_float8_linear", Value::Bool(true), origin("Float8LinearConverter"));
    }
    let mode = [("FullAC", "full"), ("SelectiveAC", "selective"), ("MemoryBudgetAC", "memory_budget")];
    let told = mode.iter().find(|(class, _)| call(content, &format!("{class}.Config")).is_some());
    let none = content.contains("activation_checkpoint=None");
    if let Some(mode) = told.map(|(_, mode)| *mode).or_else(|| none.then_some("none")) {
        settings.set("activation_checkpoint.mode", mode.into(), origin("activation_checkpoint"));
    }
    settings.set("activation_checkpoint.selective_ac_option", "op".into(), origin("SelectiveAC"));
    settings.accept("activation_checkpoint.selective_ac_option");
    let chunked = call(content, "ChunkedLossWrapper.Config").is_some();
    settings.set("loss.chunked", chunked.into(), origin("loss"));
    behind(&mut settings, name, content);
    let settings = Settings::defaults(VERSION, DEFAULTS).with(renamed(&settings));
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

/// `config.parallelism.tensor_parallel_degree = 8`
fn behind(settings: &mut Settings, name: &str, content: &str) {
    for (number, line) in content.lines().enumerate() {
        let Some((key, value)) = line.trim().strip_prefix("config.").and_then(|rest| rest.split_once(" = ")) else {
            continue;
        };
        if let Some(value) = python_literal(value) {
            let origin = Origin::File { name: name.to_owned(), line: Some(number + 1), key: key.to_owned() };
            settings.set(key, value, origin);
        }
    }
}
