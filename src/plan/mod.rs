//! The plan file: its schema, reading it with located errors, and editing it in place.

mod fault;
pub mod keywords;
mod types;

pub use fault::{Fault, Mark};
pub use types::{
    AnalysisPart, ArchitecturePart, Checkpointing, ClusterPart, CustomGpu, DistributionPart, HardwarePart, HfConfig,
    LoraPart, MlaPart, ModelPart, MoePart, Plan, RunPart, TrainingPart,
};
