//! Arguments of the commands for other programs: schema, man.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CatalogueArgs;

/// Arguments of `schema`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SchemaArgs {
    /// What to describe
    #[arg(value_enum)]
    pub name: SchemaName,
}

/// What there is a JSON Schema of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// The plan file
    Plan,
    /// What `predict --format json` writes of a plan
    Report,
    /// A line of a recording
    Recording,
    /// A file of measured cases
    Cases,
}

/// Arguments of `man`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ManArgs {
    /// The page of this command; without it, the program's
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub command: Option<String>,
    /// Write all pages to this folder
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// Arguments of `models`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ModelsArgs {
    /// How it is listed.
    #[command(flatten)]
    pub list: CatalogueArgs,
    /// Instead: which models fit one GPU of that name, and how large a batch
    ///
    /// Samples or requests have 2048 tokens, or as many as the model takes. Training recomputes activations.
    #[arg(long, value_name = "GPU")]
    pub fit: Option<String>,
    /// Instead: how many GPUs of that name models of 7B to 671B need to answer, at 16, 8 and 4 bits a weight
    #[arg(long, value_name = "GPU", conflicts_with_all = ["fit", "name"])]
    pub scales: Option<String>,
    /// What `--fit` is for: adapters of rank 16, all weights, or answers
    #[arg(long = "train", value_name = "USE", value_enum, default_value = "lora", requires = "fit")]
    pub purpose: FitPurpose,
}

/// What a model is to fit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FitPurpose {
    /// Adapters on frozen 16-bit weights
    Lora,
    /// All weights, in 16 bits with AdamW
    Full,
    /// Weights in 16 bits and a KV cache
    Inference,
}
