//! Arguments of the commands that predict: predict, sweep, search, roofline, validate.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::ReportFormat;
use super::values::top;
use crate::report::roofline::OwnOp;

/// Arguments of `predict`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PredictArgs {
    /// Plan files, `-` for a stream of plans; or a model, by its name in `memwall models` or on the Hugging Face Hub;
    /// or a kind of model, its size in billions of parameters and the global batch: `transformer 7.0 32`
    #[arg(required_unless_present_any = ["config", "layer"], value_name = "PLAN", allow_negative_numbers = true)]
    pub what: Vec<String>,
    /// A plan file: the same as PLAN
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// How to write the report [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output; to FILE.svg, .png or .pdf, a plot
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plot instead: memory over the step by component, or of each stage or rank; without --output in letters
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "format")]
    pub plot: Option<PredictionPlot>,
    /// Every term with its formula and source, and the curve over the step
    #[arg(long, short)]
    pub verbose: bool,
    /// What limits the plan, and what each change would do
    ///
    /// Each fix is a changed plan, predicted. `analysis: {enable_bottlenecks: true}` in a plan asks for it too.
    #[arg(long, short)]
    pub bottlenecks: bool,
    /// Find the largest batch that fits
    #[arg(long)]
    pub max_batch_size: bool,
    /// With `-` and JSON: answer a faulty plan with a line on standard output, `{"plan", "faults"}`
    ///
    /// So each plan has one line, and a program that asks one plan after the other never waits for a line that does
    /// not come.
    #[arg(long)]
    pub faults: bool,
    /// Instead of a PLAN: a layer, or several one behind the other, each with its --layer: linear:16384x16384, relu
    ///
    /// They stand inside of a larger model: their input needs a gradient. Without other options they are fp32 and
    /// trained by SGD, so that a single layer's report is what its backward pass holds, tensor by tensor. Layers:
    /// linear:INxOUT, linear:INxOUT:nobias, relu, gelu, silu, tanh, sigmoid, layernorm, dropout:P.
    #[arg(long, value_name = "LAYER", conflicts_with_all = ["what", "config"], requires = "input")]
    pub layer: Vec<String>,
    /// With --layer: what it reads, as SAMPLESxROWSxCOLUMNS or ROWSxCOLUMNS: 32x4096x16384
    #[arg(long, value_name = "SHAPE", requires = "layer")]
    pub input: Option<String>,
    /// What goes with MODEL_TYPE SIZE BATCH.
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// What of a prediction is plotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PredictionPlot {
    /// Memory over the step, by component
    Memory,
    /// Memory of each pipeline stage
    Stages,
    /// Memory of each rank
    Ranks,
}

/// Keys of a plan that is written on the command line. Their values are checked where
/// those of a file are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(next_help_heading = "With MODEL, or MODEL_TYPE SIZE BATCH")]
pub struct ShapeArgs {
    /// Tokens a sample
    #[arg(long, value_name = "TOKENS")]
    pub sequence_length: Option<String>,
    /// Pixels a side; of a U-Net latents a side, an eighth of them
    #[arg(long, value_name = "SIDE")]
    pub image_size: Option<String>,
    /// Whose modules run: pytorch, megatron, torchtitan, ...
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// A name from `memwall gpus`
    #[arg(long, value_name = "NAME")]
    pub gpu_type: Option<String>,
    /// Number of GPUs
    #[arg(long, value_name = "N")]
    pub gpus: Option<String>,
    /// data_parallel, tensor_parallel, pipeline_parallel, fsdp, zero1, zero2, zero3; hybrid with degrees
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Ranks that share each matrix
    #[arg(long, value_name = "N")]
    pub tensor_parallel: Option<String>,
    /// Pipeline stages
    #[arg(long, value_name = "N")]
    pub pipeline_parallel: Option<String>,
    /// Ranks with samples of their own [default: what the other degrees leave]
    #[arg(long, value_name = "N")]
    pub data_parallel: Option<String>,
    /// fp32, tf32, bf16-mixed, fp16-mixed, bf16, fp16, bf16-fp32-master, fp16-fp32-master, fp8-mixed
    #[arg(long, value_name = "NAME")]
    pub precision: Option<String>,
    /// adamw, adamw-fused, adamw-8bit, adafactor, lion, muon, sgd, ...
    #[arg(long, value_name = "NAME")]
    pub optimizer: Option<String>,
    /// sdpa, flash, eager
    #[arg(long, value_name = "NAME")]
    pub attention: Option<String>,
    /// none, selective, full
    #[arg(long, value_name = "NAME")]
    pub activation_checkpointing: Option<String>,
    /// Samples per GPU per forward pass
    #[arg(long, value_name = "N")]
    pub micro_batch_size: Option<String>,
    /// With MODEL: answer requests instead of training
    #[arg(long)]
    pub inference: bool,
    /// With MODEL: tokens a sample or request, prompt and answer together
    #[arg(long, value_name = "TOKENS", conflicts_with = "sequence_length")]
    pub context: Option<String>,
    /// With MODEL: samples a step, or requests at once [default: one a GPU]
    #[arg(long, value_name = "N")]
    pub batch: Option<String>,
    /// With MODEL: bits of the weights that answer requests
    #[arg(long, value_enum, requires = "inference", conflicts_with = "precision")]
    pub bits: Option<WeightBits>,
}

/// Bits of weights that are only read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WeightBits {
    /// bf16
    #[value(name = "16")]
    Sixteen,
    /// FP8 matrices of the blocks, the rest in bf16
    #[value(name = "8")]
    Eight,
    /// int4 matrices of the blocks with scales, as GPTQ and AWQ have them, the rest in bf16
    #[value(name = "4")]
    Four,
}

impl WeightBits {
    /// The key of `training` that says so in a plan, and its value.
    #[must_use]
    pub fn key(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Sixteen => None,
            Self::Eight => Some(("precision", Value::from("fp8-mixed"))),
            Self::Four => Some(("weight_bits", Value::from(4))),
        }
    }
}

/// Arguments of `sweep`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SweepArgs {
    /// The plan file, `-` for standard input
    pub plan: String,
    /// A key of the plan and its values, written as in a plan; several: every combination
    ///
    /// `batch_size=8,16,32`; ranges count up (`1..8`), double (`1..64x2`) or add (`2048..8192+2048`), their end
    /// included; `null` leaves the key out. A key may be named by its last part. Keys that contradict a
    /// varied one are derived: the replicas when another degree varies, the accumulation when the batch does.
    #[arg(long, required = true, value_name = "KEY=v1,v2,...")]
    pub vary: Vec<String>,
    /// Change a key of the plan first
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How to write the rows [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output; to FILE.svg, .png or .pdf, a plot
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plot memory and throughput with both walls, in letters
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub plot: bool,
}

/// Arguments of `search`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SearchArgs {
    /// The plan file, `-` for standard input
    pub plan: String,
    /// Leave this knob as the plan has it
    #[arg(long, value_name = "KEY")]
    pub keep: Vec<String>,
    /// Change a key of the plan first; a knob that is set stays
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How many plans to list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = top)]
    pub top: usize,
    /// Let batch and accumulation vary too: from an eighth of the batch to eight times as much
    #[arg(long)]
    pub free_batch: bool,
    /// Instead: the fewest changed keys after which the plan fits
    #[arg(long, conflicts_with_all = ["fewest_gpus", "largest_model"])]
    pub smallest_change: bool,
    /// Instead: the fewest GPUs on which any plan fits
    #[arg(long, conflicts_with = "largest_model")]
    pub fewest_gpus: bool,
    /// Instead: the largest model for which any plan fits
    #[arg(long)]
    pub largest_model: bool,
    /// How to write the result [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the result to this file; to FILE.yaml, your plan with the best settings, comments and order kept; to
    /// FILE.svg, .png or .pdf, a plot of memory against throughput
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plot memory against throughput, in letters
    #[arg(long, conflicts_with_all = ["format", "output", "fewest_gpus", "largest_model", "smallest_change"])]
    pub plot: bool,
}

/// Arguments of `roofline`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RooflineArgs {
    /// The plan file, `-` for standard input; without one, name a GPU
    #[arg(required_unless_present = "gpu_type")]
    pub plan: Option<String>,
    /// Without a plan: a name from `memwall gpus`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plan", "set"])]
    pub gpu_type: Option<String>,
    /// An operator of your own: its operations and its bytes, `mine=1.2e12:3e9`
    #[arg(long, value_name = "NAME=FLOPS:BYTES", value_parser = OwnOp::parse)]
    pub op: Vec<OwnOp>,
    /// Change a key of the plan first
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write the chart to FILE.png, .svg, .pdf or .txt instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `validate`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ValidateArgs {
    /// Files of measured cases: a JSON array, or one case a line; `-` for standard input
    #[arg(required = true, value_name = "CASES")]
    pub cases: Vec<PathBuf>,
    /// CASES are config.json of Hugging Face models: set the catalogue's rules beside a trace by PyTorch itself
    #[arg(long)]
    pub traced: bool,
    /// The Python that has PyTorch and transformers
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "traced")]
    pub python: PathBuf,
    /// How to write the result [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output; to FILE.svg, .png or .pdf, a plot of predicted against measured
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plot predicted against measured, in letters
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub plot: bool,
}
