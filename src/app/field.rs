//! The fields of the form: each one key of the plan, with its values.

use crate::catalog::Catalog;
use crate::plan::Checkpointing;
use crate::plan::keywords::{Attention, Framework, Optimizer, Precision, Sharding, Word};
use crate::predict::Job;

/// Matches given for typed text.
const MATCHES: usize = 6;

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
}

/// In the order of the form.
pub const FIELDS: [Field; 18] = [
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
            Self::DataParallel => "distribution.data_parallel",
            Self::TensorParallel => "distribution.tensor_parallel",
            Self::PipelineParallel => "distribution.pipeline_parallel",
            Self::ContextParallel => "distribution.context_parallel",
            Self::ExpertParallel => "distribution.expert_parallel",
            Self::SequenceParallel => "distribution.sequence_parallel",
        }
    }

    /// The word in the form.
    #[must_use]
    pub const fn label(self) -> &'static str {
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
            Self::DataParallel => "data par.",
            Self::TensorParallel => "tensor par.",
            Self::PipelineParallel => "pipeline",
            Self::ContextParallel => "context",
            Self::ExpertParallel => "expert",
            Self::SequenceParallel => "seq. par.",
        }
    }

    /// The value that the plan came to.
    #[must_use]
    pub fn effective(self, job: &Job) -> String {
        match self {
            Self::Model => job.architecture.name.clone(),
            Self::Framework => job.framework.name().to_owned(),
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
            },
            Self::Sharding => job.degrees.sharding.name().to_owned(),
            Self::SequenceParallel => job.degrees.sequence_parallel.to_string(),
            _ => self.number(job).map_or_else(String::new, |number| number.to_string()),
        }
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

    /// The values to choose from, in order; empty for numbers.
    pub fn names(self, catalog: &Catalog) -> Vec<String> {
        let words = |words: &[Word]| words.iter().map(|word| word.name.to_owned()).collect();
        match self {
            Self::Model => catalog.models.iter().map(|model| model.name.clone()).collect(),
            Self::Gpu => catalog.gpus.iter().map(|gpu| gpu.name.clone()).collect(),
            Self::Framework => words(Framework::WORDS),
            Self::Precision => words(Precision::WORDS),
            Self::Optimizer => words(Optimizer::WORDS),
            Self::Attention => words(Attention::WORDS),
            Self::Sharding => words(Sharding::WORDS),
            Self::Checkpointing => ["none", "selective", "selective-op", "full"].map(str::to_owned).to_vec(),
            Self::SequenceParallel => ["false", "true"].map(str::to_owned).to_vec(),
            _ => Vec::new(),
        }
    }

    /// The word that typed text is another spelling of (`adamw-foreach` is `adamw`).
    #[must_use]
    pub fn word(self, typed: &str) -> Option<String> {
        match self {
            Self::Framework => Framework::parse(typed).map(|word| word.name().to_owned()),
            Self::Precision => Precision::parse(typed).map(|word| word.name().to_owned()),
            Self::Optimizer => Optimizer::parse(typed).map(|word| word.name().to_owned()),
            Self::Attention => Attention::parse(typed).map(|word| word.name().to_owned()),
            Self::Sharding => Sharding::parse(typed).map(|word| word.name().to_owned()),
            _ => None,
        }
    }

    /// The names that typed text may stand for: the one that it is, those that begin with it,
    /// those that contain it.
    #[must_use]
    pub fn matches(self, typed: &str, catalog: &Catalog) -> Vec<String> {
        let wanted = typed.trim().to_lowercase();
        let names = self.names(catalog);
        // What is typed in full is itself, though longer names begin with it.
        let rank = |name: &str| {
            let name = name.to_lowercase();
            if name == wanted {
                Some(0)
            } else if name.starts_with(&wanted) {
                Some(1)
            } else {
                name.contains(&wanted).then_some(2)
            }
        };
        let mut found: Vec<(u8, &String)> = names.iter().filter_map(|name| Some((rank(name)?, name))).collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().take(MATCHES).map(|(_, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_typed_in_full_is_itself() {
        let catalog = Catalog::embedded().unwrap();
        for field in FIELDS {
            for name in field.names(&catalog) {
                assert_eq!(field.matches(&name, &catalog).first(), Some(&name), "{field:?}");
                assert_eq!(field.matches(&name.to_uppercase(), &catalog).first(), Some(&name), "{field:?}");
            }
        }
    }

    #[test]
    fn a_beginning_stands_for_what_begins_with_it() {
        let catalog = Catalog::embedded().unwrap();
        assert_eq!(Field::Precision.matches("fp8", &catalog), ["fp8-mixed"]);
        assert_eq!(Field::Optimizer.matches("momentum", &catalog), ["sgd-momentum"]);
    }
}
