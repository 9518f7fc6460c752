//! Arguments of `bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::duration;

/// Arguments of `bench`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct BenchArgs {
    /// Measure the CPU, for plans with `gpu_type: cpu`
    #[arg(long)]
    pub cpu: bool,
    /// Which GPU, as PyTorch counts them
    #[arg(long, value_name = "INDEX", default_value_t = 0, conflicts_with = "cpu")]
    pub gpu: u32,
    /// Measure collectives as well, among so many ranks of this node, each with a GPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub ranks: Option<u32>,
    /// Measure although another process uses the GPU
    #[arg(long)]
    pub shared: bool,
    /// About how long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub time: Duration,
    /// The Python that has PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// The file to write [default: efficiency.yaml in the user's folder]
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Fit rows that the program wrote elsewhere instead, such as under torchrun on several nodes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpu", "gpu", "ranks", "shared"])]
    pub rows: Option<PathBuf>,
    /// The link between the GPUs of a node that collectives went over [default: the GPU's own]
    #[arg(long, value_name = "NAME")]
    pub interconnect: Option<String>,
    /// The link between nodes that collectives went over [default: infiniband_ndr]
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Write the Python program to standard output and measure nothing
    #[arg(long, exclusive = true)]
    pub program: bool,
}
