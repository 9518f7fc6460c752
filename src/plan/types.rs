//! Values of keys that are more than a number, a word or a text.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::keywords::RecomputeModule;
use super::traced::TracedModel;

/// A Hugging Face (or diffusers) configuration, inline or by path.
#[derive(Debug, Clone, PartialEq)]
pub enum HfConfig {
    /// A path, as written: relative to the plan file. Whoever loads the plan reads it and puts `Inline` here.
    Path(String),
    /// Its keys.
    Inline(Map<String, Value>),
}

/// A traced model, by path or as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelTrace {
    /// A path, as written: relative to the plan file. Whoever loads the plan reads it and puts `Read` here.
    Path(String),
    /// What it holds.
    Read(Arc<TracedModel>),
}

/// `training.activation_checkpointing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything saved.
    None,
    /// The attention core recomputed.
    Selective,
    /// torchtitan's: every second matrix multiplication kept.
    SelectiveOp,
    /// Each block recomputed.
    Full,
    /// Each K-th block recomputed.
    Every(u64),
    /// Megatron's list of recomputed modules.
    Modules(Vec<RecomputeModule>),
    /// Blocks of these classes of a traced model.
    Classes(Vec<String>),
}

impl std::fmt::Display for Checkpointing {
    /// As a plan has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Selective => f.pad("selective"),
            Self::SelectiveOp => f.pad("selective-op"),
            Self::Full => f.pad("full"),
            Self::Every(blocks) => f.pad(&format!("{{every: {blocks}}}")),
            Self::Modules(modules) => {
                let names: Vec<&str> = modules.iter().map(|module| module.name()).collect();
                f.pad(&format!("{{modules: [{}]}}", names.join(", ")))
            }
            Self::Classes(classes) => f.pad(&format!("{{classes: [{}]}}", classes.join(", "))),
        }
    }
}
