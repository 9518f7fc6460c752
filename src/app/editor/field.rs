//! The fields of the form: each one key of the plan, with its values.

use std::borrow::Cow;

use crate::app::picker::choice::Choice;
use crate::catalog::{Catalog, Scope};
use crate::plan::Checkpointing;
use crate::plan::keywords::Word;
use crate::plan::schema::{self, ValueKind};
use crate::predict::Job;

/// A field of the form: one key of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// `model.preset`
    Model,
    /// `model.framework`
    Framework,
    /// `hardware.gpu_type`
    Gpu,
    /// `cluster.num_gpus`
    NumGpus,
    /// `model.batch_size`
    Batch,
    /// `training.micro_batch_size`
    MicroBatch,
    /// `model.sequence_length`
    Sequence,
    /// `training.precision`
    Precision,
    /// `training.optimizer`
    Optimizer,
    /// `training.attention`
    Attention,
    /// `training.activation_checkpointing`
    Checkpointing,
    /// `distribution.sharding`
    Sharding,
    /// `distribution.engine`
    Engine,
    /// `distribution.data_parallel`
    DataParallel,
    /// `distribution.tensor_parallel`
    TensorParallel,
    /// `distribution.pipeline_parallel`
    PipelineParallel,
    /// `distribution.context_parallel`
    ContextParallel,
    /// `distribution.expert_parallel`
    ExpertParallel,
    /// `distribution.sequence_parallel`
    SequenceParallel,
    /// Any other key, by its dotted path.
    Other(&'static str),
}

/// In the order of the form.
pub const FIELDS: [Field; 19] = [
    Field::Model,
    Field::Framework,
    Field::Gpu,
    Field::NumGpus,
    Field::Batch,
    Field::MicroBatch,
    Field::Sequence,
    Field::Precision,
    Field::Optimizer,
    Field::Attention,
    Field::Checkpointing,
    Field::Sharding,
    Field::Engine,
    Field::DataParallel,
    Field::TensorParallel,
    Field::PipelineParallel,
    Field::ContextParallel,
    Field::ExpertParallel,
    Field::SequenceParallel,
];

impl Field {
    /// The key in the plan file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Model => "model.preset",
            Self::Framework => "model.framework",
            Self::Gpu => "hardware.gpu_type",
            Self::NumGpus => "cluster.num_gpus",
            Self::Batch => "model.batch_size",
            Self::MicroBatch => "training.micro_batch_size",
            Self::Sequence => "model.sequence_length",
            Self::Precision => "training.precision",
            Self::Optimizer => "training.optimizer",
            Self::Attention => "training.attention",
            Self::Checkpointing => "training.activation_checkpointing",
            Self::Sharding => "distribution.sharding",
            Self::Engine => "distribution.engine",
            Self::DataParallel => "distribution.data_parallel",
            Self::TensorParallel => "distribution.tensor_parallel",
            Self::PipelineParallel => "distribution.pipeline_parallel",
            Self::ContextParallel => "distribution.context_parallel",
            Self::ExpertParallel => "distribution.expert_parallel",
            Self::SequenceParallel => "distribution.sequence_parallel",
            Self::Other(path) => path,
        }
    }

    /// The word in the form.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Framework => "framework",
            Self::Gpu => "GPU",
            Self::NumGpus => "GPUs",
            Self::Batch => "batch",
            Self::MicroBatch => "micro batch",
            Self::Sequence => "sequence",
            Self::Precision => "precision",
            Self::Optimizer => "optimizer",
            Self::Attention => "attention",
            Self::Checkpointing => "checkpoint",
            Self::Sharding => "sharding",
            Self::Engine => "engine",
            Self::DataParallel => "data par.",
            Self::TensorParallel => "tensor par.",
            Self::PipelineParallel => "pipeline",
            Self::ContextParallel => "context",
            Self::ExpertParallel => "expert",
            Self::SequenceParallel => "seq. par.",
            Self::Other(path) => path.rsplit('.').next().unwrap_or(path),
        }
    }

    /// The word in a narrow column: of a long key every part that has a usual short form takes it.
    #[must_use]
    pub fn short(self) -> Cow<'static, str> {
        const ROOM: usize = 11;
        let usual = match self.key() {
            "training.gradient_accumulation_steps" => Some("accumulate"),
            "training.distributed_optimizer" => Some("dist. opt."),
            "training.gradient_dtype" => Some("grad. dtype"),
            "cluster.gpus_per_node" => Some("GPUs a node"),
            "cluster.interconnect" => Some("GPU links"),
            "cluster.network" => Some("network"),
            "distribution.pipeline_schedule" => Some("schedule"),
            "distribution.virtual_pipeline" => Some("virtual st."),
            "analysis.enable_bottlenecks" => Some("bottlenecks"),
            _ => None,
        };
        if let Some(usual) = usual {
            return Cow::Borrowed(usual);
        }
        let label = self.label();
        if !label.contains('_') {
            return Cow::Borrowed(label);
        }
        let short = |word| match word {
            _ if label.len() <= ROOM => word,
            "accumulation" => "acc.",
            "activation" => "act.",
            "attention" => "attn.",
            "billions" => "B",
            "communication" => "comm.",
            "distributed" => "dist.",
            "embedding" | "embeddings" => "emb.",
            "gradient" => "grad.",
            "intermediate" => "interm.",
            "learning" => "learn.",
            "optimizer" => "opt.",
            "overlap" => "ovl.",
            "parallel" => "par.",
            "pipeline" => "pipe.",
            "position" => "pos.",
            "sequence" => "seq.",
            whole => whole,
        };
        Cow::Owned(label.split('_').map(short).collect::<Vec<_>>().join(" "))
    }

    /// What the schema says of its key.
    #[must_use]
    pub fn schema(self) -> Option<&'static schema::PlanKey> {
        schema::key(self.key())
    }

    /// The value that the plan came to; none for a key that is no more than what the file says.
    #[must_use]
    pub fn effective(self, job: &Job) -> Option<String> {
        Some(match self {
            Self::Other(_) => return None,
            Self::Model => job.architecture.name.clone(),
            Self::Framework => job.profile.name().to_owned(),
            Self::Gpu => job.hardware.gpu.name.clone(),
            Self::Precision => job.storage.precision.name().to_owned(),
            Self::Optimizer => job.training.optimizer.name().to_owned(),
            Self::Attention => job.training.attention.name().to_owned(),
            Self::Checkpointing => match &job.training.checkpointing {
                Checkpointing::None => "none".to_owned(),
                Checkpointing::Selective => "selective".to_owned(),
                Checkpointing::SelectiveOp => "selective-op".to_owned(),
                Checkpointing::Full => "full".to_owned(),
                Checkpointing::Every(blocks) => format!("every {blocks} blocks"),
                Checkpointing::Modules(modules) => {
                    modules.iter().map(|module| module.name()).collect::<Vec<_>>().join(" ")
                }
                Checkpointing::Classes(classes) => classes.join(" "),
            },
            Self::Sharding => job.degrees.asked().name().to_owned(),
            Self::Engine => job.degrees.engine.name().to_owned(),
            Self::SequenceParallel => job.degrees.sequence_parallel.to_string(),
            _ => self.number(job).map_or_else(String::new, |number| number.to_string()),
        })
    }

    /// The value as a number; none for fields that are none.
    #[must_use]
    pub fn number(self, job: &Job) -> Option<u64> {
        match self {
            Self::NumGpus => Some(job.degrees.num_gpus),
            Self::Batch => Some(job.batch.global),
            Self::MicroBatch => Some(job.batch.micro),
            Self::Sequence => Some(job.batch.sequence),
            Self::DataParallel => Some(job.degrees.data),
            Self::TensorParallel => Some(job.degrees.tensor),
            Self::PipelineParallel => Some(job.degrees.pipeline),
            Self::ContextParallel => Some(job.degrees.context),
            Self::ExpertParallel => Some(job.degrees.expert),
            _ => None,
        }
    }

    /// The values to choose from, in order, each with what is known of it; empty for numbers
    /// and free text.
    #[must_use]
    pub fn choices(self, catalog: &Catalog) -> Vec<Choice> {
        let words = |words: &[Word]| words.iter().map(|word| Choice::of(word.name, word.meaning)).collect();
        match self {
            Self::Model => catalog.models.iter().map(Choice::of_model).collect(),
            Self::Gpu => catalog.gpus.iter().map(Choice::of_gpu).collect(),
            Self::Checkpointing => ["none", "selective", "selective-op", "full"]
                .into_iter()
                .filter_map(|name| self.schema()?.kind.words().iter().find(|word| word.name == name))
                .map(|word| Choice::of(word.name, word.meaning))
                .collect(),
            Self::Other("cluster.interconnect") => Choice::of_links(catalog, Scope::Node),
            Self::Other("cluster.network") => Choice::of_links(catalog, Scope::Network),
            _ => match self.schema().map(|key| key.kind) {
                Some(ValueKind::Word(known)) => words(known),
                Some(ValueKind::Flag | ValueKind::FlagOrAmount) => {
                    ["false", "true"].map(|name| Choice::of(name, "")).to_vec()
                }
                Some(ValueKind::Choice(numbers)) => {
                    numbers.iter().map(|number| Choice::of(&number.to_string(), "")).collect()
                }
                _ => Vec::new(),
            },
        }
    }

    /// The word that typed text is another spelling of (`adamw-foreach` is `adamw`).
    #[must_use]
    pub fn word(self, typed: &str) -> Option<String> {
        let Some(ValueKind::Word(words)) = self.schema().map(|key| key.kind) else { return None };
        words.iter().find(|word| word.is_spelled(typed)).map(|word| word.name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_shortened_by_their_parts_and_short_ones_left() {
        let short = |path| Field::Other(path).short();
        assert_eq!(short("training.gradient_accumulation_steps"), "accumulate");
        assert_eq!(short("training.distributed_optimizer"), "dist. opt.");
        assert_eq!(short("training.cpu_offload"), "cpu offload");
        assert_eq!(short("model.architecture.intermediate_size"), "interm. size");
    }

    #[test]
    fn every_field_is_a_key_of_the_schema_with_a_line() {
        for field in FIELDS {
            assert!(field.schema().is_some_and(|key| !key.line.is_empty()), "{field:?}");
        }
    }

    #[test]
    fn enumerations_have_their_list_and_numbers_none() {
        let catalog = Catalog::embedded().unwrap();
        let names = |field: Field| field.choices(&catalog).into_iter().map(|choice| choice.name).collect::<Vec<_>>();
        assert_eq!(names(Field::SequenceParallel), ["false", "true"]);
        assert_eq!(names(Field::Other("training.lora.base_bits")), ["4", "8"]);
        assert!(names(Field::Other("cluster.network")).contains(&"infiniband_ndr".to_owned()));
        assert!(names(Field::Other("model.type")).contains(&"cnn".to_owned()));
        assert_eq!(names(Field::Batch), Vec::<String>::new());
    }
}
