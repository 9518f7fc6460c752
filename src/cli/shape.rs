//! A plan from the command line: `transformer 7.0 32 --sequence-length 8192`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::args::{ShapeArgs, WeightBits};
use super::hub;
use crate::catalog::Catalog;
use crate::plan::keywords::{ModelType, Strategy};

/// A kind of model, a size and a batch, as the plan that says the same; none where the
/// words are names of plan files. Nothing is checked here: the plan's own reader does it.
pub fn plan(words: &[String], shape: &ShapeArgs) -> Option<Value> {
    let [kind, size, batch] = words else { return None };
    // A file may be called 7.0 or cnn; a kind of model, or a word with a number behind it, is far likelier.
    if size.parse::<f64>().is_err() && ModelType::parse(kind).is_none() {
        return None;
    }
    let mut model = json!({"type": kind, "size_billions": scalar(size), "batch_size": scalar(batch)});
    let mut plan = Map::new();
    for (section, key, value) in shape.keys() {
        let Some(value) = value else { continue };
        let section = match section {
            "model" => &mut model,
            other => plan.entry(other).or_insert_with(|| Value::Object(Map::new())),
        };
        section[key] = scalar(value);
    }
    plan.insert("model".to_owned(), model);
    Some(Value::Object(plan))
}

/// A model of the catalogue, or of the local Hugging Face cache, as the plan that the options say; none where the
/// word is neither, or a file.
pub fn of_model(words: &[String], shape: &ShapeArgs, catalog: &Catalog) -> Option<Value> {
    let [word] = words else { return None };
    if Path::new(word).exists() {
        return None;
    }
    // What was downloaded may be newer than the catalogue.
    let downloaded = hub::config(word, |name| std::env::var_os(name));
    let mut plan = match downloaded {
        Some(config) => json!({"model": {"hf_config": config}}),
        None => json!({"model": {"preset": catalog.model(word)?.name}}),
    };
    let size = shape.batch.as_deref().or(shape.gpus.as_deref()).map_or_else(|| Value::from(1), scalar);
    plan["model"]["batch_size"] = size;
    if shape.inference {
        plan["training"] = json!({"mode": "inference", "precision": "bf16"});
    }
    shape.fill(&mut plan);
    if let Some(tokens) = &shape.context {
        plan["model"]["sequence_length"] = scalar(tokens);
    }
    if let Some((key, value)) = shape.bits.and_then(WeightBits::key) {
        plan["training"][key] = value;
    }
    Some(plan)
}

/// Whether the words are a kind of model and its size, and no batch.
pub fn lacks_batch(words: &[String]) -> bool {
    matches!(words, [kind, size] if ModelType::parse(kind).is_some() && size.parse::<f64>().is_ok())
}

/// A number where it reads as one, else the word.
fn scalar(word: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(word).map_or_else(|_| Value::from(word), Value::Number)
}

impl ShapeArgs {
    /// Sets the keys of a plan that the options name.
    pub fn fill(&self, plan: &mut Value) {
        for (section, key, value) in self.keys() {
            if let Some(value) = value {
                plan[section][key] = scalar(value);
            }
        }
    }

    /// Section, key and value of every option.
    fn keys(&self) -> [(&'static str, &'static str, Option<&str>); 14] {
        let parallel = self.gpus.as_deref();
        [
            ("model", "sequence_length", self.sequence_length.as_deref()),
            ("model", "image_size", self.image_size.as_deref()),
            ("model", "framework", self.framework.as_deref()),
            ("training", "precision", self.precision.as_deref()),
            ("training", "optimizer", self.optimizer.as_deref()),
            ("training", "attention", self.attention.as_deref()),
            ("training", "activation_checkpointing", self.activation_checkpointing.as_deref()),
            ("training", "micro_batch_size", self.micro_batch_size.as_deref()),
            ("hardware", "gpu_type", self.gpu_type.as_deref()),
            ("cluster", "num_gpus", parallel),
            ("distribution", "strategy", self.strategy.as_deref()),
            ("distribution", "tensor_parallel", self.tensor_parallel.as_deref()),
            ("distribution", "pipeline_parallel", self.pipeline_parallel.as_deref()),
            ("distribution", "data_parallel", self.data_parallel.as_deref()),
        ]
    }

    /// What is to be said of `--strategy hybrid` over several GPUs that names no degree: it fills none, so that all GPUs
    /// would hold the same.
    pub fn open_degrees(&self) -> Option<&'static str> {
        let hybrid = self.strategy.as_deref().and_then(Strategy::parse) == Some(Strategy::Hybrid);
        let several = self.gpus.as_deref().is_some_and(|gpus| gpus != "1");
        let given =
            [&self.tensor_parallel, &self.pipeline_parallel, &self.data_parallel].into_iter().any(Option::is_some);
        (hybrid && several && !given).then_some(
            "--strategy hybrid: which degrees? Give --tensor-parallel N, --pipeline-parallel N or --data-parallel N; \
             `memwall search PLAN` finds the fastest that fit",
        )
    }

    /// The first option that goes with the name of a model alone.
    pub fn first_of_model(&self) -> Option<&'static str> {
        let given = [
            ("--inference", self.inference),
            ("--context", self.context.is_some()),
            ("--batch", self.batch.is_some()),
            ("--bits", self.bits.is_some()),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// The first option that is given, as it is written.
    pub fn first_given(&self) -> Option<String> {
        if let Some(option) = self.first_of_model() {
            return Some(option.to_owned());
        }
        let (_, key, _) = self.keys().into_iter().find(|(_, _, value)| value.is_some())?;
        let option = if key == "num_gpus" { "gpus" } else { key };
        Some(format!("--{}", option.replace('_', "-")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_contracts_example_becomes_its_plan() {
        let shape = ShapeArgs {
            sequence_length: Some("8192".to_owned()),
            gpu_type: Some("NVIDIA H100".to_owned()),
            gpus: Some("8".to_owned()),
            strategy: Some("tensor_parallel".to_owned()),
            ..ShapeArgs::default()
        };
        let by_hand = json!({
            "model": {"type": "transformer", "size_billions": 7.0, "batch_size": 32, "sequence_length": 8192},
            "hardware": {"gpu_type": "NVIDIA H100"},
            "cluster": {"num_gpus": 8},
            "distribution": {"strategy": "tensor_parallel"},
        });
        assert_eq!(plan(&words(&["transformer", "7.0", "32"]), &shape), Some(by_hand));
        assert_eq!(shape.first_given().as_deref(), Some("--sequence-length"));
    }

    #[test]
    fn a_hybrid_strategy_asks_for_its_degrees() {
        let mut shape =
            ShapeArgs { gpus: Some("8".to_owned()), strategy: Some("hybrid".to_owned()), ..ShapeArgs::default() };
        assert!(shape.open_degrees().unwrap().contains("--tensor-parallel"));
        shape.tensor_parallel = Some("2".to_owned());
        assert_eq!(shape.open_degrees(), None);
        let plan = plan(&words(&["transformer", "7.0", "32"]), &shape).unwrap();
        assert_eq!(plan["distribution"], json!({"strategy": "hybrid", "tensor_parallel": 2}));
    }

    #[test]
    fn names_of_files_are_no_model() {
        let shape = ShapeArgs { gpus: Some("8".to_owned()), ..ShapeArgs::default() };
        assert_eq!(plan(&words(&["a.yaml", "b.yaml", "c.yaml"]), &shape), None);
        assert_eq!(plan(&words(&["transformer", "7.0"]), &shape), None);
        assert_eq!(shape.first_given().as_deref(), Some("--gpus"));
    }

    #[test]
    fn a_word_in_place_of_a_number_is_left_to_the_reader() {
        let plan = plan(&words(&["transformer", "7.0", "many"]), &ShapeArgs::default()).unwrap();
        assert_eq!(plan["model"]["batch_size"], "many");
    }
}
