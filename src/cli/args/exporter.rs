//! Arguments of `exporter`.

use super::fault::OptionFault;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::{pid, source};
use crate::observe::SourceChoice;

/// Arguments of `exporter`.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct ExporterArgs {
    /// The plan of the run: what it predicts is exported too, and what is seen is compared with it
    pub plan: Option<PathBuf>,
    /// Where to listen: 127.0.0.1:9877, 0.0.0.0:9877 for all addresses, `[::1]:9877`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9877", value_parser = address)]
    pub listen: SocketAddr,
    /// Compare with this process: a rank, or the launcher [default: the run that started under the hook last]
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub attach: Option<u32>,
    /// Follow this log, TensorBoard or W&B folder instead of the attached process's own output
    #[arg(long, value_name = "PATH")]
    pub log: Option<PathBuf>,
    /// A regular expression for its lines, with groups named step, loss, step_time_s, …
    #[arg(long, value_name = "REGEX")]
    pub log_pattern: Option<String>,
    /// Where readings come from: auto, nvml, amdgpu or demo; a demo says that it is one
    #[arg(long, value_name = "SOURCE", default_value = "auto", value_parser = source)]
    pub source: SourceChoice,
    /// What the run is called in the label `run` [default: the Slurm job's number, else the plan's name]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Instead: write a file that a cluster needs to use it
    #[arg(long, value_enum, value_name = "FILE", conflicts_with_all = ["plan", "attach", "log", "log_pattern", "run"])]
    pub print: Option<ClusterFile>,
}

/// A file for a cluster, which the program has with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClusterFile {
    /// What Prometheus scrapes
    Prometheus,
    /// Recording and alerting rules
    Rules,
    /// A Grafana dashboard
    Grafana,
    /// A systemd unit
    Systemd,
    /// A Kubernetes DaemonSet
    Kubernetes,
}

/// An address with its port: a name would have to be looked up, and may be several.
fn address(text: &str) -> Result<SocketAddr, OptionFault> {
    text.parse().map_err(|_| "is no address with a port, such as 127.0.0.1:9877, 0.0.0.0:9877 or [::]:9877".into())
}
