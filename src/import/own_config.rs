//! Files of settings of scripts of one's own: the names of `TrainingArguments` and peft's in sections that every author
//! calls as he likes (`model.name`, `lora.r`, `training.per_device_train_batch_size`).

use std::collections::HashMap;

use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::rows::not_modelled;
use super::settings::Settings;
use super::trainer;
use crate::plan::keys;

/// Names of the model that is trained, in a section for it.
const MODEL: [&str; 14] = [
    "name",
    "name_or_path",
    "id",
    "path",
    "base",
    "base_model",
    "model_name",
    "model_id",
    "model_path",
    "pretrained",
    "pretrained_model",
    "base_model_name",
    "model_name_or_path",
    "pretrained_model_name_or_path",
];

/// Names of the model outside of sections.
const NAMED: [&str; 6] = ["model_name_or_path", "base_model", "model_name", "model_id", "model_path", "model"];

/// Settings as a script asks for them: by the last part of their names, where that is one setting's alone, and by the
/// usual names in sections for the model, its adapters and their quantisation.
pub fn flattened(file: &Settings) -> Settings {
    // Counted once: a hostile file has a hundred thousand names.
    let mut named: HashMap<&str, usize> = HashMap::new();
    file.iter().for_each(|(name, _)| *named.entry(last(name)).or_default() += 1);
    let alone = |name: &str| named.get(name) == Some(&1);
    let mut settings = Settings::default();
    settings.adopt_all(file, |name| {
        let short = last(name);
        let usual = usual(name);
        Some(usual.map_or_else(|| if alone(short) { short } else { name }.to_owned(), str::to_owned))
    });
    settings
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The usual name of a setting by the section that it stands in.
fn usual(name: &str) -> Option<&'static str> {
    let (above, short) = name.rsplit_once('.')?;
    let section = last(above).to_lowercase();
    let other =
        ["eval", "infer", "generat", "reward", "teacher", "judge", "ref"].iter().any(|part| section.contains(part));
    if section.contains("model") && !other && MODEL.contains(&short) {
        return Some("model_name_or_path");
    }
    if ["lora", "peft", "adapter"].iter().any(|part| section.contains(part)) {
        return match short {
            "r" | "rank" | "lora_rank" => Some("lora_r"),
            "dropout" => Some("lora_dropout"),
            "alpha" => Some("lora_alpha"),
            "target_modules" | "targets" => Some("lora_target_modules"),
            "enabled" | "enable" | "use" => Some("use_lora"),
            _ => None,
        };
    }
    let double = ["double_quant", "use_double_quant", "bnb_4bit_use_double_quant"];
    (section.contains("quant") && double.contains(&short)).then_some("double_quant")
}

/// Takes another name for the optimizer over, where its value is one that is known.
pub fn adopt_optimizer(settings: &mut Settings) {
    const NAMES: [&str; 3] = ["optimizer", "optimizer_name", "optimizer_type"];
    let known = |name: &&&str| {
        let found = settings.get(name).and_then(|found| found.value.as_str());
        found.is_some_and(|value| common::optimizer(value).is_some())
    };
    let found = NAMES.iter().find(known).copied().filter(|_| !settings.is_set("optim"));
    if let Some(name) = found {
        let own = settings.clone();
        settings.adopt("optim", &own, name);
    }
}

/// Whether settings are such a file.
pub fn is_config(settings: &Settings) -> bool {
    let flat = flattened(settings);
    flat.holds("per_device_train_batch_size") && NAMED.iter().any(|name| flat.text(name).is_some())
}

/// The plan of such a file alone.
pub fn of_file(file: &Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut flat = flattened(file);
    adopt_optimizer(&mut flat);
    if flat.is_set("gradient_accumulation_steps") {
        // What the other sizes make is said for the reader.
        ["effective_batch_size", "global_batch_size", "total_batch_size"].iter().for_each(|name| flat.accept(name));
    }
    let adapts = |text: &str| ["lora", "unsloth"].iter().any(|part| text.to_lowercase().contains(part));
    let words = flat.iter().filter(|(key, _)| ["track", "backend", "framework", "method", "train_type"].contains(key));
    let named = adapts(name) || words.filter_map(|(_, found)| found.value.as_str()).any(adapts);
    let mut imported = trainer::of_file(flat.clone(), name, context);
    // TRL's configurations turn it on by themselves, as does peft for quantised weights; `TrainingArguments` do not.
    imported.doubt_default(keys::training::activation_checkpointing, "the script says it, or what it trains with");
    let typed = ["torch_dtype", "dtype", "model_dtype"].iter().any(|name| flat.is_set(name));
    if !typed && imported.get(keys::training::precision).is_some() {
        imported.drop(keys::training::precision);
        imported.miss(keys::training::precision, "the script says in which type it loads the weights");
    }
    if imported.get(keys::lora::rank).is_some() && imported.get(keys::lora::targets).is_none() {
        imported.miss(keys::lora::targets, "the script says where its adapters go");
    }
    if named && imported.get(keys::lora::rank).is_none() {
        not_modelled(&mut imported, "adapters, which the file is named after: the script says their rank");
        imported.miss(keys::lora::rank, "the script says it");
    }
    imported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn sections_have_the_usual_names() {
        let file = "model:\n  name: m\nlora:\n  r: 8\n  dropout: 0.1\nquantization:\n  double_quant: true\ntraining:\n  seed: 1\n  bf16: true\ndata:\n  seed: 2\n";
        let flat = flattened(&text::yaml("a.yaml", file).unwrap());
        let names: Vec<&str> = flat.iter().map(|(name, _)| name).collect();
        let told =
            ["bf16", "data.seed", "double_quant", "lora_dropout", "lora_r", "model_name_or_path", "training.seed"];
        assert_eq!(names, told);
    }
}
