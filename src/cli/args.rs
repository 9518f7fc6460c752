//! What may be written after `memwall`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use super::import_args::{ExportArgs, ImportArgs, InferArgs};
use crate::observe::{Choice, Departure};
use crate::reading::playback::SPEEDS;
use crate::report::roofline::OwnOp;
use crate::units::Bytes;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "memwall",
    version,
    about = "Predicts the memory and time of a training plan and sets them against the GPUs that run it",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Headless>,
    #[command(flatten)]
    dashboard: DashboardArgs,
}

impl Cli {
    /// The one command that it asks for.
    #[must_use]
    pub fn into_command(self) -> Command {
        match self.command {
            None => Command::Dashboard(self.dashboard),
            Some(Headless::Predict(args)) => Command::Predict(args),
            Some(Headless::Sweep(args)) => Command::Sweep(args),
            Some(Headless::Search(args)) => Command::Search(args),
            Some(Headless::Roofline(args)) => Command::Roofline(args),
            Some(Headless::Validate(args)) => Command::Validate(args),
            Some(Headless::Infer(args)) => Command::Infer(args),
            Some(Headless::Import(args)) => Command::Import(args),
            Some(Headless::Export(args)) => Command::Export(args),
            Some(Headless::Record(args)) => Command::Record(args),
            Some(Headless::Replay(args)) => Command::Replay(args),
            Some(Headless::Gpus(args)) => Command::Gpus(args),
            Some(Headless::Models(args)) => Command::Models(args),
            Some(Headless::Run(args)) => Command::Run(args),
            Some(Headless::Explain(args)) => Command::Explain(args),
            Some(Headless::Hook) => Command::Hook,
            Some(Headless::Completions(args)) => Command::Completions(args),
        }
    }
}

/// What there is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `memwall [PLAN]`
    Dashboard(DashboardArgs),
    /// `memwall predict`
    Predict(Box<PredictArgs>),
    /// `memwall sweep`
    Sweep(SweepArgs),
    /// `memwall search`
    Search(SearchArgs),
    /// `memwall roofline`
    Roofline(RooflineArgs),
    /// `memwall validate`
    Validate(ValidateArgs),
    /// `memwall infer`
    Infer(InferArgs),
    /// `memwall import`
    Import(ImportArgs),
    /// `memwall export`
    Export(ExportArgs),
    /// `memwall record`
    Record(RecordArgs),
    /// `memwall replay`
    Replay(ReplayArgs),
    /// `memwall gpus`
    Gpus(CatalogueArgs),
    /// `memwall models`
    Models(CatalogueArgs),
    /// `memwall run`
    Run(RunArgs),
    /// `memwall explain`
    Explain(ExplainArgs),
    /// `memwall hook`
    Hook,
    /// `memwall completions`
    Completions(CompletionsArgs),
}

#[derive(Debug, Subcommand)]
enum Headless {
    /// Report what a plan needs: memory, time, roofline
    ///
    /// Exits 0 if every plan fits, 3 if one does not, 2 if one is faulty.
    #[command(override_usage = "memwall predict [OPTIONS] PLAN...\n       \
                                memwall predict [OPTIONS] MODEL_TYPE SIZE BATCH")]
    Predict(Box<PredictArgs>),
    /// Predict a plan with every value of a key, or of several
    ///
    /// One row a value, and the two walls: where memory ends, and where throughput flattens.
    Sweep(SweepArgs),
    /// Find the best plans over every parallel and memory knob
    ///
    /// Model, batch and cluster stay as the plan has them; data, tensor, pipeline, context, expert and sequence
    /// parallelism, sharding, micro batch, schedule, recomputation and offload are searched. Ctrl-C stops it with the
    /// best so far. Exits 0 if a plan fits, 3 if none does, 1 if it was stopped.
    Search(SearchArgs),
    /// Draw a plan's operators under the roofs of its card
    Roofline(RooflineArgs),
    /// Hold predictions against measured cases
    Validate(ValidateArgs),
    /// Write the plan that a running training process seems to have
    Infer(InferArgs),
    /// Write the plan that a file of another tool, or a training command, spells
    ///
    /// A Hugging Face config.json, a DeepSpeed JSON, a torchtitan TOML, the YAML of axolotl,
    /// LLaMA-Factory, torchtune, llm-foundry, litgpt or accelerate, a nanoGPT configuration, a shell
    /// script; or, behind `--`, a command as one types it. Nothing is run.
    #[command(override_usage = "memwall import [OPTIONS] FILE\n       memwall import [OPTIONS] -- COMMAND...")]
    Import(ImportArgs),
    /// Write a plan as another tool's file or command
    Export(ExportArgs),
    /// Write what is observed to a file, until a signal or --duration ends it
    Record(RecordArgs),
    /// Play a recording in the dashboard; without a terminal, summarise it
    Replay(ReplayArgs),
    /// List the GPUs that plans can name
    Gpus(CatalogueArgs),
    /// List the models that plans can name
    Models(CatalogueArgs),
    /// Run a training command with the PyTorch hook in place
    ///
    /// Its output is untouched and its exit status passed on.
    Run(RunArgs),
    /// Explain an out-of-memory message or a PyTorch memory snapshot
    Explain(ExplainArgs),
    /// Write the PyTorch hook, for scripts that import it themselves
    Hook,
    /// Write a completion script for a shell
    Completions(CompletionsArgs),
}

/// Arguments of the dashboard.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct DashboardArgs {
    /// The plan to open; without one, an example
    pub plan: Option<PathBuf>,
    /// Compare with this process from the start
    #[arg(long, value_name = "PID")]
    pub attach: Option<u32>,
    /// Follow this log instead of the attached process's own output
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// A regular expression for its lines, with groups named step, loss, step_time_s, …
    #[arg(long, value_name = "REGEX")]
    pub log_pattern: Option<String>,
    /// Where readings come from: auto, nvml, amdgpu, demo, replay:FILE or
    /// prometheus:URL
    ///
    /// The demo's run may depart from the plan: `demo:KEY=VALUE` with keys of the plan, `demo:leak`, or both.
    #[arg(long, value_name = "SOURCE", default_value = "auto", value_parser = source)]
    pub source: Choice,
    /// Time between readings, 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// How it looks.
    #[command(flatten)]
    pub look: LookArgs,
}

/// How a screen shall look.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct LookArgs {
    /// Colour theme
    #[arg(long, value_name = "NAME")]
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
        let word = self.plan.as_ref().filter(|plan| !plan.exists())?.to_string_lossy();
        let command = Cli::command();
        let near =
            command.get_subcommands().map(clap::Command::get_name).find(|name| strsim::levenshtein(name, &word) < 3);
        let hint = near.map_or(String::new(), |name| format!("; the command is `{name}`"));
        Some(format!("{word}: no such plan file{hint}"))
    }
}

/// Arguments of `predict`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PredictArgs {
    /// Plan files, `-` for a stream of plans separated by `---`; or a kind of model, its
    /// size in billions of parameters and the global batch: `transformer 7.0 32`
    #[arg(required = true, value_name = "PLAN", allow_negative_numbers = true)]
    pub what: Vec<String>,
    /// How to write the report [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Every term with its formula and source, and the curve over the step
    #[arg(long, short)]
    pub verbose: bool,
    /// What holds the plan back, and what each change would do
    ///
    /// Every fix is a changed plan, predicted. In JSON they are always there, unless the plan says
    /// `analysis: {enable_bottlenecks: false}`.
    #[arg(long, short)]
    pub bottlenecks: bool,
    /// Find the largest batch that fits
    #[arg(long)]
    pub max_batch_size: bool,
    /// What goes with MODEL_TYPE SIZE BATCH.
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// Keys of a plan that is written on the command line. Their values are checked where
/// those of a file are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
#[command(next_help_heading = "With MODEL_TYPE SIZE BATCH")]
pub struct ShapeArgs {
    /// Tokens a sample
    #[arg(long, value_name = "TOKENS")]
    pub sequence_length: Option<String>,
    /// Pixels a side
    #[arg(long, value_name = "PIXELS")]
    pub image_size: Option<String>,
    /// Whose layers run: pytorch, megatron, torchtitan, ...
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// A name from `memwall gpus`
    #[arg(long, value_name = "NAME")]
    pub gpu_type: Option<String>,
    /// Number of GPUs
    #[arg(long, value_name = "N")]
    pub gpus: Option<String>,
    /// data_parallel, tensor_parallel, pipeline_parallel, fsdp, zero1, zero2, zero3
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
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
}

/// Arguments of `sweep`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SweepArgs {
    /// The plan file, `-` for standard input
    pub plan: String,
    /// A key of the plan and its values, written as in a plan; several: every combination
    ///
    /// `batch_size=8,16,32`; ranges count up (`1..8`), double (`1..64x2`) or add (`2048..8192+2048`), their end
    /// included; `null` leaves the key out. A key may be named by its last part. Keys that cannot stand beside a
    /// varied one are derived: the replicas when another degree varies, the accumulation when the batch does.
    #[arg(long, required = true, value_name = "KEY=v1,v2,...")]
    pub vary: Vec<String>,
    /// Change a key of the plan first
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How to write the rows [default: by the extension of --output, else text]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
    /// Instead: the fewest GPUs on which any plan fits
    #[arg(long, conflicts_with = "largest_model")]
    pub fewest_gpus: bool,
    /// Instead: the largest model for which any plan fits
    #[arg(long)]
    pub largest_model: bool,
    /// How to write what is found [default: by the extension of --output, else text]
    #[arg(long, value_enum, conflicts_with_all = ["fewest_gpus", "largest_model"])]
    pub format: Option<Format>,
    /// Write what is found to this file; to FILE.yaml, your plan with the best settings, comments and order kept
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `roofline`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RooflineArgs {
    /// The plan file, `-` for standard input
    pub plan: String,
    /// An operator of your own: its operations and its bytes, `mine=1.2e12:3e9`
    #[arg(long, value_name = "NAME=FLOPS:BYTES", value_parser = OwnOp::parse)]
    pub op: Vec<OwnOp>,
    /// Change a key of the plan first
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write the chart to FILE.svg or FILE.txt instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `validate`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ValidateArgs {
    /// Files of measured cases: a JSON array, or one case a line; `-` for standard input
    #[arg(required = true, value_name = "CASES")]
    pub cases: Vec<PathBuf>,
    /// How to write the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `record`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RecordArgs {
    /// The plan of the run, kept in the recording
    pub plan: Option<PathBuf>,
    /// The file to write: run.ndjson, or run.ndjson.gz to have it compressed
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Where readings come from: auto, nvml, amdgpu, demo or prometheus:URL
    #[arg(long, value_name = "SOURCE", default_value = "auto", value_parser = source)]
    pub source: Choice,
    /// Time between readings, 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// End after that time [default: at a signal]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// The process that a replay compares with the plan
    #[arg(long, value_name = "PID")]
    pub attach: Option<u32>,
    /// Begin another file when this one has grown to that size: 100MB, 1GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub rotate: Option<Bytes>,
    /// Keep that many of the newest files, with --rotate
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    /// Compress with gzip, whatever the file is called
    #[arg(long)]
    pub compress: bool,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ReplayArgs {
    /// A recording, or the part of one to begin with
    pub file: PathBuf,
    /// Write a summary like this instead of playing it
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Recorded seconds a second
    #[arg(long, value_name = "X", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// How it looks.
    #[command(flatten)]
    pub look: LookArgs,
}

impl ReplayArgs {
    /// The dashboard on the recording.
    #[must_use]
    pub fn dashboard(self) -> DashboardArgs {
        DashboardArgs {
            plan: None,
            log: None,
            log_pattern: None,
            attach: None,
            source: Choice::Replay { path: self.file, speed: self.speed },
            interval: Duration::from_secs(1),
            look: self.look,
        }
    }
}

/// Arguments of `gpus` and `models`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CatalogueArgs {
    /// How to write the list
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,
    /// Other names and the source of every figure
    #[arg(long, short)]
    pub verbose: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainArgs {
    /// A text or log with the message, `-` for standard input; or what torch.cuda.memory._dump_snapshot wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The plan of the run: what it foresees stands beside, and fixes are predicted
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// The plan to hold the run against at its end
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Say nothing at its end
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Arguments of `completions`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// The shell to write for
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One object a plan, one a line
    Json,
    /// One row a plan
    Csv,
}

/// How a catalogue is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    Text,
    /// An array of objects
    Json,
}

/// More than these in a list nobody compares.
fn top(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|top| (1..=1000).contains(top)).ok_or_else(|| "is not between 1 and 1000".to_owned())
}

/// `500ms`, `1s`, `1m`: quicker readings cost the host more than they tell, slower ones miss steps.
fn interval(text: &str) -> Result<Duration, String> {
    const BOUNDS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 500ms or 2s"))?;
    if BOUNDS.contains(&time) { Ok(time) } else { Err("is not between 100ms and 60s".to_owned()) }
}

/// A positive time such as `90s` or `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 90s or 2h"))?;
    if time.is_zero() { Err("is no time at all".to_owned()) } else { Ok(time) }
}

/// `auto`, or the name of a source with what it needs.
fn source(text: &str) -> Result<Choice, String> {
    match text.split_once(':') {
        Some(("replay", path)) if !path.is_empty() => Ok(Choice::Replay { path: PathBuf::from(path), speed: 1.0 }),
        Some(("demo", otherwise)) => Departure::parse(otherwise).map(Choice::Demo),
        Some(("prometheus", url)) if !url.is_empty() => Ok(Choice::Prometheus(url.to_owned())),
        _ => match text {
            "auto" => Ok(Choice::Auto),
            "nvml" => Ok(Choice::Nvml),
            "amdgpu" => Ok(Choice::Amdgpu),
            "demo" => Ok(Choice::Demo(Departure::default())),
            _ => Err("known are auto, nvml, amdgpu, demo, replay:FILE and prometheus:URL".to_owned()),
        },
    }
}

/// `100MB`, `1GiB`, or plain bytes. Less than a few samples would be nothing but first lines.
fn size(text: &str) -> Result<Bytes, String> {
    let bytes = parse_size::parse_size(text).map_err(|_| "is no size; write it like 100MB or 1GiB".to_owned())?;
    if bytes >= 64 << 10 { Ok(Bytes(bytes)) } else { Err("is less than 64KiB".to_owned()) }
}

fn speed(text: &str) -> Result<f64, String> {
    let (slowest, fastest) = (*SPEEDS.start(), *SPEEDS.end());
    let speed = text.parse::<f64>().ok().filter(|speed| SPEEDS.contains(speed));
    speed.ok_or_else(|| format!("is not between {slowest} and {fastest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &[&str]) -> Result<Command, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"memwall").chain(line)).map(Cli::into_command)
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bare_word_is_a_plan() {
        let Command::Dashboard(args) = command(&["plan.yaml", "--interval", "500ms", "--source", "demo"]).unwrap()
        else {
            panic!("not the dashboard");
        };
        assert_eq!(args.plan, Some(PathBuf::from("plan.yaml")));
        assert_eq!((args.interval, args.source), (Duration::from_millis(500), Choice::Demo(Departure::default())));
        let Command::Dashboard(args) = command(&[]).unwrap() else { panic!("not the dashboard") };
        assert_eq!((args.plan, args.interval), (None, Duration::from_secs(1)));
        assert!(matches!(command(&["predict", "plan.yaml"]), Ok(Command::Predict(_))));
    }

    #[test]
    fn a_mistyped_command_is_named() {
        let Command::Dashboard(args) = command(&["predcit"]).unwrap() else { panic!("not the dashboard") };
        assert_eq!(args.no_such_plan().unwrap(), "predcit: no such plan file; the command is `predict`");
        let Command::Dashboard(args) = command(&["Cargo.toml"]).unwrap() else { panic!("not the dashboard") };
        assert_eq!(args.no_such_plan(), None);
    }

    #[test]
    fn a_source_is_named_with_what_it_needs() {
        let Ok(Command::Dashboard(args)) = command(&["--source", "replay:a:b.ndjson"]) else { panic!("no dashboard") };
        assert_eq!(args.source, Choice::Replay { path: PathBuf::from("a:b.ndjson"), speed: 1.0 });
        for wrong in ["replay", "replay:", "smi", "demo:x"] {
            assert_eq!(command(&["--source", wrong]).unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn a_recording_is_told_where_when_and_how_large() {
        let line = ["record", "-o", "r.ndjson", "--rotate", "1GiB", "--keep", "3", "--duration", "2h"];
        let Ok(Command::Record(args)) = command(&line) else { panic!("no recording") };
        assert_eq!((args.rotate, args.keep), (Some(Bytes(1 << 30)), Some(3)));
        assert_eq!(args.duration, Some(Duration::from_secs(7200)));
        for wrong in [&["record"][..], &["record", "-o", "a", "--keep", "2"], &["record", "-o", "a", "--rotate", "9"]] {
            assert_eq!(command(wrong).unwrap_err().exit_code(), 2, "{wrong:?}");
        }
        assert!(command(&["replay", "a", "--speed", "0"]).is_err());
    }

    #[test]
    fn intervals_have_bounds() {
        for (text, fine) in
            [("100ms", true), ("60s", true), ("1m", true), ("99ms", false), ("61s", false), ("x", false)]
        {
            assert_eq!(command(&["--interval", text]).is_ok(), fine, "{text}");
        }
    }

    #[test]
    fn faults_of_usage_exit_with_2() {
        for line in [&["predict"][..], &["validate"], &["--nonsense"], &["gpus", "--format", "csv"], &["a", "b"]] {
            let error = command(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }
}
