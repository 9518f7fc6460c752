//! The plan file: its schema, reading it with located errors, and editing it in place.

pub mod keywords;
mod types;

pub use types::{
    AnalysisPart, ArchitecturePart, Checkpointing, ClusterPart, CustomGpu, DistributionPart, HardwarePart, HfConfig,
    LoraPart, MlaPart, ModelPart, MoePart, Plan, RunPart, TrainingPart,
};
