//! The plan file: its schema, reading it with located errors, and editing it in place.

mod build;
mod change;
mod cluster;
mod document;
mod edit;
mod engine;
mod examples;
pub mod export;
mod fault;
mod json_schema;
pub mod keys;
pub mod keywords;
mod layout;
mod lines;
mod load;
mod nearest;
mod node;
mod open_fields;
mod overlay;
mod place;
mod read;
mod render;
mod save;
pub mod schema;
mod slip;
mod template;
pub mod torchtitan;
pub mod traced;
mod types;
mod unclosed;
mod values;

pub use change::Change;
pub use cluster::USUAL_PER_NODE;
pub use document::{Document, MAX_BYTES};
pub use examples::EXAMPLES;
pub use fault::{Fault, TextPosition};
pub use json_schema::{DIALECT, json_schema};
pub use keys::{
    AnalysisPart, ArchitecturePart, ClusterPart, CustomGpu, DistributionPart, HardwarePart, LoraPart, MlaPart,
    ModelPart, MoePart, Plan, RunPart, TrainingPart,
};
pub use layout::{even_chunks, layout_counts, uneven_layout};
pub use load::{
    ConfigFault, ConfigFileError, LoadedPlan, decoded, differs, name_of, plan_of, read_config, read_text, reason,
};
pub use node::{Entry, Node, NodeShape, Style};
pub use overlay::PlanOverlay;
pub use render::needs_quotes;
pub use save::save;
pub use template::{EMPTY_TEXT, text_of_model};
pub use types::{Checkpointing, HfConfig, ModelTrace};

#[cfg(test)]
mod tests;
