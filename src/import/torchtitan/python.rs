//! torchtitan's configurations in Python: the calls of a function of `config_registry.py`, and what it sets behind them.

use serde_json::Value;

use super::known::{DEFAULTS, VERSION};
use super::{renamed, set};
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::python::ScriptReader;
use crate::python_calls::call;
use crate::refused::Refused;
use crate::rows::not_modelled;
use crate::settings::Settings;
use crate::text::python_literal;
use crate::unread::{account_for, account_for_call};

/// Calls whose keywords are a section's.
const SECTIONS: [(&str, &str); 5] = [
    ("TrainingConfig", "training"),
    ("ParallelismConfig", "parallelism"),
    ("CompileConfig", "compile"),
    ("default_adamw", "optimizer"),
    ("Float8LinearConverter.Config", "float8"),
];

/// The parts of a configuration (`torchtitan/trainer.py`), each read by its own call or of no bearing.
const PARTS: [&str; 24] = [
    "loss",
    "hf_assets_path",
    "dump_folder",
    "profiling",
    "profiler",
    "metrics",
    "model_spec",
    "optimizer",
    "lr_scheduler",
    "training",
    "dataloader",
    "parallelism",
    "checkpoint",
    "activation_checkpoint",
    "compile",
    "model_converters",
    "validator",
    "comm",
    "debug",
    "tokenizer",
    "fault_tolerance",
    "job",
    "override",
    "experimental",
];

/// Whether a script makes a configuration of torchtitan.
pub fn is_python(content: &str) -> bool {
    let made = content.lines().any(|line| line.contains("-> ") && line.contains("Trainer.Config:"));
    made && content.contains("Trainer.Config(") && content.contains("model_registry(")
}

/// How deep one configuration may be made of another.
const DEEPEST: usize = 4;

/// The configurations of a registry, each with the text that makes it: what stands above all of them, the function that
/// it changes, and its own.
fn registry(content: &str) -> Vec<(String, String)> {
    let marked: Vec<&str> = content.split("\ndef ").collect();
    let Some((head, functions)) = marked.split_first().filter(|_| is_python(content)) else { return Vec::new() };
    let named: Vec<(&str, &str)> = functions
        .iter()
        .filter(|text| text.lines().take(4).any(|line| line.contains("-> ") && line.contains("Trainer.Config:")))
        .filter_map(|text| Some((text.split('(').next()?, *text)))
        .collect();
    let made = named.iter().map(|(name, text)| {
        let mut parts = vec![format!("def {text}")];
        let mut below = *text;
        for _ in 0..DEEPEST {
            let base = named.iter().find(|(other, _)| other != name && below.contains(&format!(" = {other}()")));
            let Some((_, text)) = base else { break };
            below = text;
            parts.insert(0, format!("def {text}"));
        }
        ((*name).to_owned(), format!("{head}\n{}", parts.join("\n")))
    });
    made.collect()
}

/// The text of the configuration that is meant of a registry's; none of a file that has one or none.
///
/// # Errors
/// It has several, and none is chosen, or no such.
pub fn chosen(name: &str, content: &str, which: Option<usize>) -> Result<Option<String>, Refused> {
    let mut all = registry(content);
    let several = all.len() > 1;
    match which {
        Some(which) if several => match which.checked_sub(1).filter(|at| *at < all.len()) {
            Some(at) => Ok(Some(all.swap_remove(at).1)),
            None => Err(Refused::NoTool(format!("{name}: --which {which}, and it has {} configurations", all.len()))),
        },
        None if several => {
            Err(Refused::Several { file: name.to_owned(), commands: all.into_iter().map(|(name, _)| name).collect() })
        }
        _ => Ok(all.pop().map(|(_, text)| text)),
    }
}

/// The plan of such a file.
pub fn of_python(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtitan");
    imported.say(keys::model::framework, "torchtitan", Origin::Program("torchtitan's own calls".to_owned()));
    let mut settings = Settings::default();
    let reader = ScriptReader::new(name, content, Settings::default());
    for (call, section) in SECTIONS {
        let keywords = reader.calls(&[call]);
        settings.adopt_all(&keywords, |key| Some(format!("{section}.{key}")));
    }
    settings.accept("optimizer.lr");
    account_for_call(&mut imported, &reader.calls(&["Trainer.Config", "FaultTolerantTrainer.Config"]), &PARTS);
    let origin = |key: &str| Origin::File { name: name.to_owned(), line: None, key: key.to_owned() };
    let registry = reader.calls(&["model_registry"]);
    if let Some(flavor) = registry.text("0") {
        settings.set("model.flavor", flavor.value.into(), flavor.origin);
    }
    let model = content.lines().find_map(|line| {
        let (module, _) = line.trim().strip_prefix("from torchtitan.models.")?.split_once(" import model_registry")?;
        Some(module.to_owned())
    });
    // `torchtitan/models/llama3/config_registry.py`: `from . import model_registry`.
    let folder = || {
        let own = content.contains("from . import model_registry");
        name.rsplit('/').nth(1).filter(|_| own).map(str::to_owned)
    };
    if let Some(model) = model.or_else(folder) {
        settings.set("model.name", model.into(), origin("model_registry"));
    }
    if call(content, "Float8LinearConverter.Config").is_some() {
        settings.set("float8.enable_float8_linear", Value::Bool(true), origin("Float8LinearConverter"));
        // Since converters know of compilation, a row's scale is the default (`components/quantization/float8.py`,
        // `Float8LinearConverter.Config.recipe_name`: rowwise or rowwise_with_gw_hp).
        let knows = settings.get("float8.model_compile_enabled").is_some();
        if knows && settings.get("float8.recipe_name").is_none() {
            settings.set("float8.recipe_name", "rowwise".into(), origin("Float8LinearConverter"));
        }
        settings.accept("float8.model_compile_enabled");
    }
    for class in ["NVFP4LinearConverter", "MXFP8LinearConverter"] {
        if call(content, &format!("{class}.Config")).is_some() {
            not_modelled(&mut imported, &format!("{class}: matrix multiplications in its type"));
        }
    }
    // `torchft/local_sgd.py`, `DiLoCo`: weights of the last exchange and an outer optimizer's states stay beside.
    if content.contains("semi_sync_method=\"") {
        not_modelled(&mut imported, "semi_sync_method: what is held between exchanges of weights");
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
