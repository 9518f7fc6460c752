//! The plan's fields as a form: what they show, and what the values next to theirs are.

use super::editor::Editor;
use super::step::{Direction, Step, step};
use crate::catalog::Catalog;

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
const FIELDS: [Field; 18] = [
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

/// State of the form.
#[derive(Debug, Clone, Default)]
pub struct Form {
    /// The selected field, by its place among the shown ones.
    pub selected: usize,
    /// What has been typed, while a value is being typed.
    pub typing: Option<String>,
    /// The value below the selected field's.
    pub lower: Option<Step>,
    /// The value above the selected field's.
    pub upper: Option<Step>,
}

impl Form {
    /// The fields that mean something for this plan.
    #[must_use]
    pub fn fields(editor: &Editor) -> Vec<Field> {
        let experts = editor.job().is_some_and(|job| job.decoder().is_some_and(|decoder| decoder.moe.is_some()));
        let relevant = |field: &Field| match field {
            Field::ExpertParallel => experts || editor.is_written(*field),
            _ => true,
        };
        FIELDS.into_iter().filter(relevant).collect()
    }

    /// The selected field.
    #[must_use]
    pub fn field(&self, editor: &Editor) -> Option<Field> {
        Self::fields(editor).get(self.selected).copied()
    }

    /// Works out the neighbouring values of the selected field.
    pub fn look_around(&mut self, editor: &Editor, catalog: &Catalog) {
        let field = self.field(editor);
        let step = |direction| step(field?, direction, editor, catalog);
        self.lower = step(Direction::Less);
        self.upper = step(Direction::More);
    }

    /// The names that what has been typed may stand for, best first.
    #[must_use]
    pub fn matches(&self, editor: &Editor, catalog: &Catalog, typed: &str) -> Vec<String> {
        self.field(editor).map_or_else(Vec::new, |field| field.matches(typed, catalog))
    }
}

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
}
