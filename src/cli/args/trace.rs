//! Arguments of `trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Arguments of `trace`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("way").required(true).args(["target", "hf", "timm", "torchvision", "diffusers", "command"])))]
pub struct TraceArgs {
    /// A function of yours that returns the model: file.py:make_model
    #[arg(value_name = "FILE.py:FUNCTION")]
    pub target: Option<String>,
    /// A Hugging Face config.json, or the folder that holds it
    #[arg(long, value_name = "FILE")]
    pub hf: Option<PathBuf>,
    /// The transformers class, instead of the one that the configuration names; with --forward, the class of the
    /// script's model
    #[arg(long, value_name = "NAME", conflicts_with_all = ["target", "timm", "torchvision", "diffusers"])]
    pub class: Option<String>,
    /// How transformers computes attention: sdpa or eager
    #[arg(long, value_name = "NAME", requires = "hf")]
    pub attention: Option<String>,
    /// A model of timm
    #[arg(long, value_name = "NAME")]
    pub timm: Option<String>,
    /// A model of torchvision
    #[arg(long, value_name = "NAME")]
    pub torchvision: Option<String>,
    /// The config.json of a diffusers model
    #[arg(long, value_name = "FILE")]
    pub diffusers: Option<PathBuf>,
    /// What your model reads, once for each input: `input_ids=int64[B,S]`; B is the batch, S and T are lengths, I an
    /// image's side
    #[arg(long, value_name = "NAME=TYPE[SIDES]", requires = "target")]
    pub input: Vec<String>,
    /// The loss, an expression of `output` and the inputs' names: output.loss
    #[arg(long, value_name = "EXPRESSION", requires = "target")]
    pub loss: Option<String>,
    /// Trace at this length alone: for a model whose operators depend on it, as a loop over tokens does
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub length: Option<u32>,
    /// Trace with this batch alone: for a model that loops over its samples, as detectors do over images
    #[arg(long, value_name = "SAMPLES", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: Option<u32>,
    /// Trace the forward pass without gradients, for plans of inference
    #[arg(long, conflicts_with = "loss")]
    pub forward: bool,
    /// A program that your code may start while it is traced, though it is no mere query: make
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["hf", "timm", "torchvision", "diffusers"])]
    pub allow: Vec<String>,
    /// The tape to write
    #[arg(long, short, value_name = "FILE", default_value = "model.tape.json.gz")]
    pub output: PathBuf,
    /// The Python that has PyTorch and the model's libraries
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// Trace on the host's device, without the stand-in for a GPU
    #[arg(long)]
    pub cpu: bool,
    /// Say nothing but what went wrong
    #[arg(long, short)]
    pub quiet: bool,
    /// A training command, such as python train.py: its first step is traced, then it ends
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
