//! Arguments of the commands about one run: record, replay, run, explain.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{duration, interval, pid, size, source, speed};
use super::{DashboardArgs, ListFormat, LookArgs, ReportFormat};
use crate::observe::SourceChoice;
use crate::units::Bytes;

/// Arguments of `record`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct RecordArgs {
    /// The plan of the run, kept in the recording
    pub plan: Option<PathBuf>,
    /// The file to write: compressed, unless its name ends in .ndjson, .jsonl or .json
    ///
    /// `-o run.ndjson.gz`, or `-o run.ndjson` for plain lines of JSON, eight times as large.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Where readings come from: auto, nvml, amdgpu, demo, prometheus:URL or dcgm:URL
    #[arg(long, value_name = "SOURCE", default_value = "auto", value_parser = source)]
    pub source: SourceChoice,
    /// Time between readings, 100ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// End after that time [default: at a signal]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// The process that a replay compares with the plan; its log and hook are recorded too
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub attach: Option<u32>,
    /// The run's log, TensorBoard or W&B folder, instead of what the attached process writes to
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// Begin another file when this one has grown to that size: 100MB, 1GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub rotate: Option<Bytes>,
    /// Keep that many of the newest files, with --rotate
    #[arg(long, value_name = "N", requires = "rotate", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    /// Compress with gzip, whatever its name
    #[arg(long)]
    pub compress: bool,
}

/// Arguments of `replay`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ReplayArgs {
    /// A recording, or the part of one to begin with
    pub file: PathBuf,
    /// Write to this file instead of playing it: a summary, or to FILE.svg, .png or .pdf, a plot of the memory against the
    /// plan's
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Plot memory over the recording against the plan's, in letters
    #[arg(long, conflicts_with_all = ["format", "output"])]
    pub plot: bool,
    /// Write a summary like this instead of playing it
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
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
            source: Some(SourceChoice::Replay { path: self.file, speed: self.speed }),
            job: None,
            hosts: None,
            interval: None,
            once: false,
            json: false,
            look: self.look,
            tutorial: false,
        }
    }
}

/// Arguments of `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainArgs {
    /// A term of the screens; an out-of-memory message, or a log with one, `-` for standard input; or what
    /// torch.cuda.memory._dump_snapshot wrote. Without it: the list of terms
    #[arg(value_name = "WHAT", num_args = 0..)]
    pub what: Vec<OsString>,
    /// The plan whose numbers are told; of a message, the plan of the run, for which fixes are predicted
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// How to write it
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,
    /// The memory that a snapshot and its values may take; they take some five times the file
    #[arg(long, value_name = "SIZE", default_value = "200MiB", value_parser = size)]
    pub memory: Bytes,
}

/// Arguments of `tutorial`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct TutorialArgs {
    /// How it looks.
    #[command(flatten)]
    pub look: LookArgs,
}

impl TutorialArgs {
    /// The dashboard with the tutorial over it.
    #[must_use]
    pub fn dashboard(self) -> DashboardArgs {
        DashboardArgs {
            plan: None,
            log: None,
            log_pattern: None,
            attach: None,
            source: None,
            job: None,
            hosts: None,
            interval: None,
            once: false,
            json: false,
            look: self.look,
            tutorial: true,
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// The plan to compare the run with at its end
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Trace the third step and write its tape to this file, which a plan may name as its model
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Look into the modules from the first pass on: also of a script without an optimizer step
    #[arg(long)]
    pub modules: bool,
    /// No summary at its end
    #[arg(long, short)]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
