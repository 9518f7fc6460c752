//! Where a field's value is from: the plan's own key, other keys that decide it, or nothing in the plan.

use super::field::Field;
use super::{CONFIG, Editor};
use crate::plan::keywords::Strategy;
use crate::predict::lacking;

/// What a plan says of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOrigin {
    /// Its value.
    Plan,
    /// What that key says decides it.
    Derived(&'static str),
    /// Nothing: a default stands in for it.
    Assumed,
}

const STRATEGY: &str = "distribution.strategy";

/// Keys besides the field's own and the strategy that decide its value.
const fn deciders(field: Field) -> &'static [&'static str] {
    match field {
        Field::Model => &["model.hf_config", "model.architecture", "model.layers", "model.size_billions"],
        Field::Gpu => &["hardware.custom"],
        Field::NumGpus => &[
            "cluster.nodes",
            "distribution.data_parallel",
            "distribution.tensor_parallel",
            "distribution.pipeline_parallel",
            "distribution.context_parallel",
        ],
        Field::Batch => &["training.micro_batch_size", "training.gradient_accumulation_steps"],
        Field::MicroBatch => &["model.batch_size"],
        Field::Sequence => &["model.image_size"],
        Field::DataParallel => &["cluster.num_gpus", "cluster.nodes"],
        Field::Sharding => &["training.distributed_optimizer"],
        _ => &[],
    }
}

/// Whether that strategy fills the field where the plan leaves it open.
const fn fills(strategy: Strategy, field: Field) -> bool {
    match strategy {
        Strategy::DataParallel => matches!(field, Field::DataParallel),
        Strategy::TensorParallel => matches!(field, Field::TensorParallel),
        Strategy::PipelineParallel => matches!(field, Field::PipelineParallel),
        Strategy::Fsdp | Strategy::Zero1 | Strategy::Zero2 | Strategy::Zero3 => {
            matches!(field, Field::DataParallel | Field::Sharding)
        }
        Strategy::Hybrid => false,
    }
}

impl Editor {
    /// Where the value of `field` is from.
    #[must_use]
    pub fn origin(&self, field: Field) -> FieldOrigin {
        if self.is_written(field) {
            return FieldOrigin::Plan;
        }
        let strategy = self.said(STRATEGY).and_then(|said| Strategy::parse(&said));
        if strategy.is_some_and(|strategy| fills(strategy, field)) {
            return FieldOrigin::Derived(STRATEGY);
        }
        let decider = deciders(field).iter().find(|key| self.has(key));
        decider.map_or(FieldOrigin::Assumed, |key| FieldOrigin::Derived(key))
    }

    /// What the prediction has against the value that the plan says under `field`'s key: that it has no effect, that no
    /// such kernel runs on the GPU, that it is beyond what the model is published with.
    #[must_use]
    pub fn caveat(&self, field: Field) -> Option<&str> {
        self.caveats(field).next()
    }

    fn caveats(&self, field: Field) -> impl Iterator<Item = &str> {
        let all = self.job().map_or(&[][..], |job| &job.assumptions);
        let written = if self.is_written(field) { all } else { &[] };
        let own = written.iter().filter_map(move |line| line.strip_prefix(field.key())?.strip_prefix(": "));
        // What a config.json describes and the prediction leaves out is said of the model, under whichever of its keys.
        let described = if field == Field::Model { all } else { &[] };
        own.chain(described.iter().filter_map(|line| {
            let key_and_words = line.strip_prefix(CONFIG)?;
            let words = key_and_words.split_once(": ")?.1;
            // A value says nothing without its key.
            let is_value = ["true", "false"].iter().any(|value| words.starts_with(value));
            Some(if is_value { key_and_words.trim_start_matches('.') } else { words })
        }))
    }

    /// The first field whose value the GPU has no kernels or no link for, with what it lacks: the GPU by its short name,
    /// so that narrow places say what is missing.
    #[must_use]
    pub fn lacking(&self) -> Option<(Field, String)> {
        let job = self.job()?;
        let gpu = &job.hardware.gpu;
        let fields = [Field::Precision, Field::Attention, Field::Other("cluster.interconnect")];
        let mut all = lacking(&gpu.name, &job.assumptions)
            .filter_map(|(key, missing)| Some((fields.into_iter().find(|field| field.key() == key)?, missing)));
        let (field, missing) = all.find(|(field, _)| self.is_written(*field))?;
        Some((field, format!("{}{}", gpu.short, missing.strip_prefix(gpu.name.as_str())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn what_a_card_lacks_is_told_from_other_caveats() {
        let catalog = Catalog::embedded().unwrap();
        let lacking = |gpu: &str| {
            let text = format!(
                "model: {{preset: llama-2-7b, framework: torchtitan}}\ntraining: {{precision: fp8-mixed}}\n\
                 hardware: {{gpu_type: {gpu}}}\n"
            );
            let editor = Editor::open_text("a".to_owned(), None, text, &catalog);
            assert!(editor.caveat(Field::Precision).is_some());
            editor.lacking().map(|(field, _)| field)
        };
        assert_eq!(lacking("NVIDIA A100 80GB"), Some(Field::Precision));
        // There it says what fp8-mixed saves.
        assert_eq!(lacking("NVIDIA H100"), None);
    }

    #[test]
    fn a_part_left_out_is_said_of_the_model() {
        let text = "model:\n  hf_config: {model_type: llava, text_config: {model_type: qwen2, hidden_size: 256, \
                    num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 4}}\n";
        let editor = Editor::open_text("a".to_owned(), None, text.to_owned(), &Catalog::embedded().unwrap());
        let said = editor.caveat(Field::Model).unwrap();
        assert!(said.starts_with("only the language model is predicted"), "{said}");
    }

    #[test]
    fn what_the_plan_says_decides_and_leaves_open_is_told_apart() {
        let text = "model: {preset: llama-2-7b, batch_size: 8}\ncluster: {num_gpus: 8}\n";
        let editor = Editor::open_text("a".to_owned(), None, text.to_owned(), &Catalog::embedded().unwrap());
        assert_eq!(editor.origin(Field::Model), FieldOrigin::Plan);
        assert_eq!(editor.origin(Field::MicroBatch), FieldOrigin::Derived("model.batch_size"));
        assert_eq!(editor.origin(Field::DataParallel), FieldOrigin::Derived("cluster.num_gpus"));
        assert_eq!(editor.origin(Field::Optimizer), FieldOrigin::Assumed);
        assert_eq!(editor.origin(Field::Sharding), FieldOrigin::Assumed);
        let text = format!("{text}distribution: {{strategy: fsdp}}\n");
        let editor = Editor::open_text("a".to_owned(), None, text, &Catalog::embedded().unwrap());
        assert_eq!(editor.origin(Field::Sharding), FieldOrigin::Derived(STRATEGY));
        assert_eq!(editor.origin(Field::TensorParallel), FieldOrigin::Assumed);
    }
}
