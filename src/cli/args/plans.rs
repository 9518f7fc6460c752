//! Arguments of the commands that read plans out of others and write them for others.

use super::fault::OptionFault;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::pid;

/// Arguments of `infer`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InferArgs {
    /// The process (a rank, or the launcher that started it), or the file of a job: an sbatch script, what
    /// `scontrol show job` prints, a manifest of Kubernetes; `-` for standard input
    #[arg(value_name = "PID|FILE", value_parser = InferTarget::parse)]
    pub of: InferTarget,
    /// The number of GPUs, if the file does not say it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub gpus: Option<u64>,
    /// Which training command of a script, from 1, where it has several
    #[arg(long, value_name = "N")]
    pub which: Option<usize>,
    /// Where the plan is written, and how
    #[command(flatten)]
    pub to: PlanOutput,
}

/// What a plan is inferred from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InferTarget {
    /// A process of this machine.
    Process(u32),
    /// The file of a job.
    Job(PathBuf),
}

impl InferTarget {
    /// A number is a process: a file of that name is `./4711`.
    fn parse(text: &str) -> Result<Self, OptionFault> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let path = PathBuf::from(text);
        if !is_number && (text == "-" || text.contains(['/', '.']) || path.exists()) {
            return Ok(Self::Job(path));
        }
        pid(text).map(Self::Process).map_err(|why| format!("{why}; there is no file of that name either").into())
    }
}

/// Arguments of `new`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct NewArgs {
    /// A model that `memwall models` lists, a template, or a file to begin with; without it, an empty plan
    #[arg(value_name = "MODEL")]
    pub from: Option<String>,
    /// The GPU of a model's plan [default: this machine's, else NVIDIA H100]
    #[arg(long, value_name = "GPU")]
    pub gpu_type: Option<String>,
    /// How many of them
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub gpus: u64,
    /// Write the plan to this file; an existing file is left alone
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ImportArgs {
    /// The file; `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "command")]
    pub file: Option<PathBuf>,
    /// The number of GPUs, if the file does not say it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub gpus: Option<u64>,
    /// Which training command of a script, from 1, where it has several
    #[arg(long, value_name = "N")]
    pub which: Option<usize>,
    /// A training command
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "file")]
    pub command: Vec<String>,
    /// Where the plan is written, and how
    #[command(flatten)]
    pub to: PlanOutput,
}

/// Arguments of `export`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExportArgs {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// What to write it as
    #[arg(long, value_enum, value_name = "TOOL")]
    pub to: ExportTarget,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What a plan can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportTarget {
    /// Megatron-LM's arguments
    Megatron,
    /// The command that starts the run
    Torchrun,
    /// DeepSpeed's JSON
    Deepspeed,
    /// torchtitan's TOML, to February 2026
    Torchtitan,
    /// torchtitan's configuration in Python, since
    TorchtitanPython,
}

/// Where a plan that was inferred goes.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PlanOutput {
    /// Write the plan to this file; an existing file is left alone
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// YAML with each value's origin, or JSON with values and origins apart
    #[arg(long, value_enum, default_value = "yaml")]
    pub format: PlanFormat,
}

/// How an inferred plan is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// A plan file with comments
    Yaml,
    /// One object: plan, origins, what is missing, notes
    Json,
}
