//! A training by Lightning's `Trainer`: what its arguments say (lightning/pytorch/trainer/trainer.py, `__init__`).

use serde_json::Value;

use super::OwnLoop;
use super::recognised::imports;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::launch::World;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::python::{PassedArgument, ScriptReader};
use crate::script_doubts::code;
use crate::settings::{Settings, text, whole};

/// Whether a script trains by it.
pub fn trains(text: &str) -> bool {
    let is_imported = ["pytorch_lightning", "lightning"].iter().any(|package| imports(text, package));
    is_imported && code(text).any(|line| line.contains(".fit(")) && code(text).any(|line| line.contains("Trainer("))
}

/// What shards the model.
#[derive(Debug, PartialEq)]
enum Strategy {
    /// Copies of the whole model, or one alone.
    Copies,
    /// DeepSpeed, by settings below `deepspeed`.
    Engine,
    /// What is not followed.
    Open(String),
}

/// What its `Trainer` is told.
#[derive(Debug)]
pub(super) struct LightningTrainer {
    /// Why the type that is computed in is not known.
    open_precision: Option<String>,
    strategy: Strategy,
    /// Processes on a node, and nodes.
    devices: Option<Setting<u64>>,
    nodes: Option<Setting<u64>>,
}

impl LightningTrainer {
    /// The call that makes it, with its settings under the names of `TrainingArguments`; none where the script trains by
    /// something else.
    pub(super) fn of(reader: &ScriptReader, text: &str) -> Option<(Self, Settings)> {
        if !trains(text) {
            return None;
        }
        reader.open.set(false);
        let call = reader.calls(&["Trainer"]);
        let open = reader.open.get() || call.iter().next().is_none();
        let mut settings = Settings::default();
        let open_precision = precision(&call, &mut settings).err();
        counted(&call, &mut settings, ("accumulate_grad_batches", "gradient_accumulation_steps"), (1.into(), open));
        counted(&call, &mut settings, ("gradient_clip_val", "max_grad_norm"), (0.into(), open));
        let strategy = match strategy(reader, &call, &mut settings) {
            Strategy::Copies if open => Strategy::Open("arguments that are not followed".to_owned()),
            found => found,
        };
        let open =
            Some("arguments that are not followed".to_owned()).filter(|_| open && call.get("precision").is_none());
        let devices = ["devices", "gpus"].iter().find_map(|name| number_of(&call, name));
        let nodes = call
            .whole("num_nodes")
            .or_else(|| (!call.holds("num_nodes")).then(|| Setting::new(1, default("num_nodes"))));
        Some((Self { open_precision: open_precision.or(open), strategy, devices, nodes }, settings))
    }
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: "Lightning", option: option.to_owned() }
}

/// A number of its own under the Trainer's name, or what it takes where it is told nothing; nothing where that is open.
fn counted(call: &Settings, settings: &mut Settings, (own, name): (&str, &str), (usual, open): (Value, bool)) {
    match call.get(own) {
        Some(found) if found.value.is_number() => settings.adopt(name, call, own),
        None | Some(Setting { value: Value::Null, .. }) if !open => settings.set(name, usual, default(own)),
        _ => settings.set(name, Value::Null, default(own)),
    }
}

/// `16-mixed` and its like, with the names that they had before Lightning 2 (plugins/precision, `_PRECISION_INPUT`).
fn precision(call: &Settings, settings: &mut Settings) -> Result<(), String> {
    let Some(found) = call.get("precision").filter(|found| !found.value.is_null()) else {
        for half in ["bf16", "fp16"] {
            settings.set(half, false.into(), default("precision 32-true"));
        }
        return Ok(());
    };
    let word = text(&found.value).unwrap_or_default();
    let (half, dtype) = match word.as_str() {
        "32-true" | "32" => (None, None),
        "16-mixed" | "16" => (Some("fp16"), None),
        "bf16-mixed" | "bf16" => (Some("bf16"), None),
        "16-true" => (Some("fp16"), Some("float16")),
        "bf16-true" => (Some("bf16"), Some("bfloat16")),
        _ => return Err(format!("Trainer(precision={word})")),
    };
    for name in ["bf16", "fp16"] {
        settings.set(name, (half == Some(name)).into(), found.origin.clone());
    }
    if let Some(dtype) = dtype {
        settings.set("torch_dtype", dtype.into(), found.origin.clone());
    }
    Ok(())
}

/// `"ddp"`, `"deepspeed_stage_2_offload"` (strategies/deepspeed.py, `register_strategies`), or an object that the script makes.
fn strategy(reader: &ScriptReader, call: &Settings, settings: &mut Settings) -> Strategy {
    let passed = reader.passed(&["Trainer"], "strategy").into_iter().next().map(|(passed, _)| passed);
    match passed {
        None | Some(PassedArgument::Nothing) => Strategy::Copies,
        Some(PassedArgument::Plain(found)) => {
            let word = text(&found.value).unwrap_or_default();
            let copies = word == "auto" || word == "single_device" || word.starts_with("ddp");
            if copies && !["sharded", "fully"].iter().any(|part| word.contains(part)) {
                return Strategy::Copies;
            }
            let Some(rest) = word.strip_prefix("deepspeed") else { return Strategy::Open(format!("strategy {word}")) };
            let stage = rest.strip_prefix("_stage_").and_then(|rest| rest.get(..1)?.parse().ok()).unwrap_or(2);
            by_deepspeed(call, settings, (stage, rest.ends_with("_offload")), &found.origin);
            Strategy::Engine
        }
        Some(PassedArgument::Made(path, given)) if path.ends_with("DDPStrategy") && given.get("0").is_none() => {
            Strategy::Copies
        }
        Some(PassedArgument::Made(path, given)) if path.ends_with("DeepSpeedStrategy") && is_plain(&given) => {
            let stage = given.whole("stage").map_or(2, |found| found.value);
            let offload = given.is("offload_optimizer");
            let origin = given.get("stage").map_or_else(|| default("DeepSpeedStrategy"), |found| found.origin.clone());
            by_deepspeed(call, settings, (stage, offload), &origin);
            Strategy::Engine
        }
        Some(PassedArgument::Made(path, _)) => {
            Strategy::Open(format!("strategy {}", path.rsplit('.').next().unwrap_or(&path)))
        }
        Some(PassedArgument::Open) => Strategy::Open("a strategy that is not followed".to_owned()),
    }
}

/// Whether DeepSpeed's strategy is told no more than a stage and whether its states go to the host.
fn is_plain(given: &Settings) -> bool {
    const KNOWN: [&str; 4] = ["stage", "offload_optimizer", "logging_level", "logging_batch_size_per_gpu"];
    given.iter().all(|(name, _)| KNOWN.contains(&name))
}

/// The configuration that its strategy makes (strategies/deepspeed.py, `_create_default_config`, `_format_precision_config`).
fn by_deepspeed(call: &Settings, settings: &mut Settings, (stage, offload): (u64, bool), origin: &Origin) {
    let mut put = |name: &str, value: Value| settings.set(&format!("deepspeed.{name}"), value, origin.clone());
    put("zero_optimization.stage", stage.into());
    put("zero_optimization.overlap_comm", true.into());
    put("zero_optimization.reduce_bucket_size", 200_000_000.into());
    if offload {
        put("zero_optimization.offload_optimizer.device", "cpu".into());
    }
    if offload && stage == 3 {
        put("zero_optimization.offload_param.device", "cpu".into());
    }
    let word = call.get("precision").and_then(|found| text(&found.value)).unwrap_or_default();
    if word.contains("bf16") {
        put("bf16.enabled", true.into());
    } else if word.starts_with("16") {
        put("fp16.enabled", true.into());
    }
}

/// How many devices a list or a number names; none for `auto` and all that there are.
fn number_of(call: &Settings, name: &str) -> Option<Setting<u64>> {
    let found = call.get(name)?;
    let number = match &found.value {
        Value::Array(items) => u64::try_from(items.len()).ok(),
        value => whole(value),
    };
    number.filter(|number| *number > 0).map(|number| Setting::new(number, found.origin.clone()))
}

impl OwnLoop {
    /// Sets what Lightning's Trainer decides, or says that it is not followed.
    pub(super) fn by_lightning(&self, imported: &mut ImportedPlan, context: &ImportContext) {
        let Some(trainer) = &self.lightning else { return };
        if let Some(why) = &trainer.open_precision {
            imported.drop(keys::training::precision);
            imported.miss(keys::training::precision, format!("{}: {why}", self.path));
        }
        if let Strategy::Open(what) = &trainer.strategy {
            for key in [keys::distribution::sharding, keys::distribution::engine, keys::training::precision] {
                imported.drop(key);
                imported.miss(key, format!("{}: {what} of Lightning's Trainer", self.path));
            }
        }
        if context.world.total.is_some() {
            return;
        }
        // It starts its processes itself, on every GPU in sight where it is told no number.
        let Some(devices) = trainer.devices.clone() else {
            return imported.miss(keys::cluster::num_gpus, "Lightning's Trainer takes every GPU in sight, and none is");
        };
        let world = World { total: None, nodes: trainer.nodes.clone(), per_node: Some(devices) }.completed();
        imported.fill(keys::cluster::num_gpus, world.total);
        imported.fill(keys::cluster::nodes, world.nodes);
        imported.fill(keys::cluster::gpus_per_node, world.per_node);
    }
}

#[cfg(test)]
mod tests {
    use super::trains;

    #[test]
    fn lightning_is_known_by_its_import_and_its_fit() {
        let fits = "trainer = Trainer(max_epochs=1)\ntrainer.fit(model)\n";
        assert!(trains(&format!("import pytorch_lightning as pl\n{fits}")));
        assert!(trains(&format!("from lightning.pytorch import Trainer\n{fits}")));
        assert!(trains(&format!("import torch, lightning as L\n{fits}")));
        assert!(!trains(&format!("from transformers import Trainer\n{fits}")));
        assert!(!trains(&format!("import lightning_utilities\n{fits}")));
        assert!(!trains("import lightning as L\nfabric = L.Fabric()\n"));
    }
}
