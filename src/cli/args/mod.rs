//! What may be written after `memwall`.

mod bench;
mod examples;
mod exporter;
pub(super) mod fault;
mod mistake;
mod plans;
mod predictions;
mod runs;
mod tools;
mod trace;
pub(super) mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use bench::BenchArgs;
pub use exporter::{ClusterFile, ExporterArgs};
pub use mistake::parsed;
pub use plans::{ExportArgs, ExportTarget, ImportArgs, InferArgs, InferTarget, NewArgs, PlanFormat, PlanOutput};
pub use predictions::{
    PredictArgs, PredictionPlot, RooflineArgs, SearchArgs, ShapeArgs, SweepArgs, ValidateArgs, WeightBits,
};
pub use runs::{ExplainArgs, RecordArgs, ReplayArgs, RunArgs, TutorialArgs};
pub use tools::{FitPurpose, ManArgs, ModelsArgs, SchemaArgs, SchemaName};
pub use trace::TraceArgs;

use crate::app::JobSelector;
use crate::observe::SourceChoice;
use values::{interval, pid, source};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "memwall",
    version,
    about = "Predicts the memory and time of a training plan and sets them against the GPUs that run it",
    args_conflicts_with_subcommands = true,
    // The last word counts, as after an alias with options of its own.
    args_override_self = true,
    disable_help_subcommand = true,
    after_help = "`memwall help` lists the topics of the manual.",
    after_long_help = examples::questions()
)]
pub struct Cli {
    /// What to do without the dashboard.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The dashboard, where there is no command.
    #[command(flatten)]
    pub dashboard: DashboardArgs,
}

impl Cli {
    /// The definition of the command line, with examples.
    pub fn program() -> clap::Command {
        examples::added(<Self as clap::CommandFactory>::command())
    }
}

/// A command that needs no dashboard.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Report what a plan needs: memory, time, roofline
    ///
    /// Exits 0 if every plan fits, 3 if one does not, 2 if one is faulty.
    #[command(override_usage = "memwall predict [OPTIONS] PLAN...\n       \
                                memwall predict [OPTIONS] MODEL\n       \
                                memwall predict [OPTIONS] MODEL_TYPE SIZE BATCH")]
    Predict(Box<PredictArgs>),
    /// Predict a plan with each value of a key, or of several
    ///
    /// One row a value, and the two walls: where memory ends, and where throughput flattens.
    Sweep(SweepArgs),
    /// Find the best plans over every parallel and memory knob
    ///
    /// Model, batch and cluster stay as the plan has them; data, tensor, pipeline, context, expert and sequence
    /// parallelism, sharding, micro batch, schedule, recomputation and offload are searched. Ctrl-C stops it with the
    /// best so far. Exits 0 if a plan fits, 3 if none does, 1 if it was stopped.
    Search(SearchArgs),
    /// Draw a plan's operators under the limits of its GPU
    Roofline(RooflineArgs),
    /// Compare predictions with measured cases
    Validate(ValidateArgs),
    /// Write the plan that a running training process, or the file of a job, seems to have
    Infer(InferArgs),
    /// Write a new plan: of a model, a config.json, a template, or an empty one
    ///
    /// `memwall new llama-3-8b --save plan.yaml`. Templates are the plans under configs/plans, by their names.
    New(NewArgs),
    /// Show the options of the dashboard, and who says them
    Config(ConfigArgs),
    /// Write the plan that another tool's file or a training command describes
    ///
    /// A Hugging Face config.json, a DeepSpeed JSON, a torchtitan TOML, the YAML of axolotl,
    /// LLaMA-Factory, torchtune, llm-foundry, litgpt or accelerate, a nanoGPT configuration, a shell
    /// script; or, behind `--`, a command as you type it. Nothing is run.
    #[command(override_usage = "memwall import [OPTIONS] FILE\n       memwall import [OPTIONS] -- COMMAND...")]
    Import(ImportArgs),
    /// Write a plan as another tool's file or command
    Export(ExportArgs),
    /// Write what is observed to a file, until a signal or --duration ends it
    Record(RecordArgs),
    /// Serve what is observed and predicted to Prometheus, as OpenMetrics
    ///
    /// Readings are taken when the page is asked for. It listens on this machine alone unless it is told otherwise.
    Exporter(ExporterArgs),
    /// Play a recording in the dashboard; without a terminal, summarise it
    Replay(ReplayArgs),
    /// List the GPUs that plans can name
    Gpus(CatalogueArgs),
    /// List the models that plans can name, or those that fit a GPU
    Models(ModelsArgs),
    /// Run a training command with the PyTorch hook in place
    ///
    /// Its output is untouched and its exit status passed on.
    Run(RunArgs),
    /// Explain a term of the screens, an out-of-memory message or a PyTorch memory snapshot
    ///
    /// `memwall explain ridge --plan plan.yaml`, `memwall explain train.log`, `memwall explain snapshot.pickle`.
    Explain(ExplainArgs),
    /// Learn the memory wall in eight steps in the dashboard, each a plan and a task
    Tutorial(TutorialArgs),
    /// Trace a model of your own with PyTorch, without a GPU and without weights
    ///
    /// Writes a tape, which a plan names as its model: `model: {trace: model.tape.json.gz}`.
    #[command(override_usage = "memwall trace [OPTIONS] --hf config.json\n       \
                                memwall trace [OPTIONS] FILE.py:FUNCTION --input 'input_ids=int64[B,S]'\n       \
                                memwall trace [OPTIONS] -- python train.py ARGS...")]
    Trace(Box<TraceArgs>),
    /// Measure what this machine's kernels and links reach, for predictions of it
    ///
    /// PyTorch multiplies, copies, convolves and attends for about a minute, and uses the GPU for it. The curves go into
    /// `~/.config/memwall/efficiency.yaml`, and predictions of that GPU, or of `gpu_type: cpu`, say that they were measured
    /// on this machine. Nothing runs it but you.
    Bench(Box<BenchArgs>),
    /// Write the PyTorch hook, for scripts that import it themselves
    Hook,
    /// Write a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the man page of the program or of a command
    Man(ManArgs),
    /// Write the Python client: `memwall python > memwall.py`
    Python,
    /// Write a JSON Schema: of plans for editors, of what is written for programs
    Schema(SchemaArgs),
    /// Say what works here and what does not: driver, permissions, terminal, files
    Doctor,
    /// Show a topic of the manual, or what a command takes
    ///
    /// Without a name it lists the topics and commands.
    Help(HelpArgs),
    /// What `run` starts beside the command: tells which signals the whole process group receives
    #[command(hide = true)]
    ReportGroupSignals,
}

/// Arguments of the dashboard.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DashboardArgs {
    /// The plan to open; without one, an example
    pub plan: Option<PathBuf>,
    /// Compare with this process from the start
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub attach: Option<u32>,
    /// Follow this log, TensorBoard or W&B folder instead of the attached process's own output
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// A regular expression for its lines, with groups named step, loss, step_time_s, …
    #[arg(long, value_name = "REGEX")]
    pub log_pattern: Option<String>,
    /// The job to watch on a cluster: job=4711, or namespace=ml,pod=llama-*
    #[arg(long, value_name = "SELECTOR")]
    pub job: Option<JobSelector>,
    /// A hostfile or rank file: the job's hosts and GPUs, in the order of its ranks
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Where readings come from: auto, nvml, amdgpu, demo, replay:FILE or
    /// prometheus:URL
    ///
    /// The demo's run may depart from the plan: `demo:KEY=VALUE` with keys of the plan, `demo:leak`, or several with
    /// commas between.
    /// Without it: auto, or what config.yaml says.
    #[arg(long, value_name = "SOURCE", value_parser = source)]
    pub source: Option<SourceChoice>,
    /// Time between readings, 100ms to 60s [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub interval: Option<Duration>,
    /// Show what runs now once, without the dashboard: GPUs, run, plan, verdict
    #[arg(long)]
    pub once: bool,
    /// Write that as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
    /// How it looks.
    #[command(flatten)]
    pub look: LookArgs,
    /// It begins with the tutorial.
    #[arg(skip)]
    pub tutorial: bool,
}

/// What `--theme` says without a name.
pub const LIST_THEMES: &str = "?";

/// How the screen looks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct LookArgs {
    /// Colour theme; without a name, a list of them
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = LIST_THEMES)]
    pub theme: Option<String>,
    /// Let the mouse choose panes and fields (the terminal's own selection then needs Shift)
    #[arg(long)]
    pub mouse: bool,
    /// Draw with ASCII characters only
    #[arg(long)]
    pub ascii: bool,
    /// Draw without colours
    #[arg(long)]
    pub no_color: bool,
}

impl DashboardArgs {
    /// What is wrong with a plan that is not there. A word alone may have been meant as a command.
    #[must_use]
    pub fn no_such_plan(&self) -> Option<String> {
        let plan = self.plan.as_ref().filter(|plan| !plan.exists())?;
        if is_new_plan(plan) {
            return None;
        }
        let word = plan.to_string_lossy();
        let hint = mistake::nearest(&word).unwrap_or_default();
        Some(format!("{word}: no such plan file{hint}"))
    }
}

/// Whether nothing is at that path yet, and a plan may be begun there.
#[must_use]
pub fn is_new_plan(path: &Path) -> bool {
    let plan = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    plan && path.symlink_metadata().is_err() && folder.is_dir()
}

/// Arguments of `gpus` and `models`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CatalogueArgs {
    /// Only those that have these letters in one of their names
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// How to write the list
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,
    /// Other names and the source of every value
    #[arg(long, short)]
    pub verbose: bool,
}

/// Arguments of `config`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ConfigArgs {
    /// Write a commented config.yaml with every option instead
    #[arg(long)]
    pub example: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// The shell to write for
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `help`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct HelpArgs {
    /// A topic or a command
    #[arg(value_name = "TOPIC", num_args = 0..)]
    pub topic: Vec<String>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs: an object each
    Json,
    /// For tables: a row each
    Csv,
}

/// How what has no rows to compare is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    Text,
    /// As JSON, bytes and seconds unrounded
    Json,
}

#[cfg(test)]
mod tests;
