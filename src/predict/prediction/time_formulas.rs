//! How the terms of a step's time come about, with the numbers: written out only where they are read.

use std::fmt;

use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Fraction, Seconds, grouped, three_figures};

/// How a term of the step's time was computed.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeFormula {
    /// Kernels of one class.
    Kernels {
        /// How many.
        count: u64,
        /// What they do.
        work: KernelWork,
        /// Share of the peak that long ones sustain.
        sustained: f64,
        /// Time of them all.
        seconds: Seconds,
    },
    /// A collective.
    Collective {
        /// How often it runs.
        runs: f64,
        /// GPUs that take part.
        ranks: u64,
        /// Bytes of the whole tensors, of all runs together; 0: not counted.
        bytes: Bytes,
        /// The slowest link between them.
        link: String,
        /// Share of its rate that is reached.
        share: f64,
        /// That rate, each way.
        each_way: BytesPerSec,
        /// What all runs take.
        seconds: Seconds,
        /// Share of that which runs beside kernels.
        beside: f64,
    },
    /// Stages that wait for each other.
    Bubble {
        /// Stages.
        stages: usize,
        /// Chunks of layers in each.
        chunks: u64,
        /// Micro batches.
        micro_batches: u64,
        /// The first and the last of stages alike, and what a micro batch takes in each.
        each: Vec<(usize, usize, Seconds)>,
    },
    /// The GPU waiting for the host.
    Launch {
        /// Forward and backward.
        passes: [HostPass; 2],
        /// Microseconds for each kernel.
        each_us: f64,
        /// Reading what was routed.
        reads: Seconds,
        /// It gathers in Python what FSDP or DeepSpeed shards, module by module.
        gathers: bool,
    },
    /// What goes through host memory.
    Host {
        /// Share of the link's bandwidth that copies reach.
        share: f64,
        /// The link's bandwidth.
        each_way: BytesPerSec,
        /// The host steps too.
        updates: bool,
    },
}

/// One pass of a micro batch, and the host that launches it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostPass {
    /// The host's time.
    pub host: Seconds,
    /// The GPU's.
    pub busy: Seconds,
    /// What the GPU waits for the host.
    pub waits: Seconds,
    /// It waits because the host may gather only so many modules ahead, not because the host has more to do.
    pub is_held: bool,
}

/// What kernels do, as far as it bounds them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KernelWork {
    /// Operations, on a unit of that peak.
    Arithmetic(Flops, FlopsPerSec),
    /// Traffic, through memory of that bandwidth.
    Traffic(Bytes, BytesPerSec),
}

impl fmt::Display for TimeFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernels { count, work, sustained, seconds } => {
                let count = grouped(*count);
                match work {
                    KernelWork::Arithmetic(flops, _) => write!(f, "{count} kernels, {flops}")?,
                    KernelWork::Traffic(bytes, _) => write!(f, "{count} kernels, {bytes}")?,
                }
                let sustained = three_figures(100.0 * sustained);
                write!(f, "; long ones sustain {sustained} % of the peak; with start, fill and waves ")?;
                work.reached(f, *seconds)
            }
            Self::Collective { runs, ranks, bytes, link, share, each_way, seconds, beside } => {
                write!(f, "{} runs among {ranks} ranks", three_figures(*runs))?;
                if *bytes > Bytes::ZERO {
                    write!(f, ", {bytes} in all")?;
                }
                let (share, beside) = (three_figures(100.0 * share), Fraction(*beside));
                write!(
                    f,
                    ", over {link} at {share} % of {each_way} each way: {seconds} of which {beside} run beside kernels"
                )
            }
            Self::Bubble { stages, chunks, micro_batches, each } => {
                write!(
                    f,
                    "{stages} stages of {chunks} chunks, {micro_batches} micro batches: the slowest sets the pace, the \
                     others are passed once; a micro batch takes in stage "
                )?;
                for (at, (first, last, seconds)) in each.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{first}")?;
                    if last > first {
                        write!(f, "-{last}")?;
                    }
                    write!(f, ": {seconds}")?;
                }
                Ok(())
            }
            Self::Launch { passes, each_us, reads, gathers } => {
                let all = passes.iter().map(|pass| pass.waits).sum::<Seconds>() + *reads;
                write!(f, "a micro batch waits {all}: ")?;
                if *reads > Seconds::ZERO {
                    write!(f, "{reads} to read what was routed, ")?;
                }
                for (pass, (before, name)) in passes.iter().zip([("", "forward"), (", ", "backward")]) {
                    let HostPass { host, busy, waits, is_held } = pass;
                    write!(f, "{before}{waits} {name} ({host} to launch beside {busy} of the GPU")?;
                    f.write_str(if *is_held { "; modules are gathered two ahead at most)" } else { ")" })?;
                }
                let gathered = if *gathers { ", a sharded module takes tens of such times" } else { "" };
                write!(f, "; a launch takes {} µs{gathered}", three_figures(*each_us))
            }
            Self::Host { share, each_way, updates } => {
                let update = if *updates { ", and the host's update" } else { "" };
                write!(f, "what is sent at {:.0} % of {each_way} each way{update}", share * 100.0)
            }
        }
    }
}

impl KernelWork {
    /// What of the peak is reached in so much time.
    fn reached(&self, f: &mut fmt::Formatter<'_>, seconds: Seconds) -> fmt::Result {
        let seconds = seconds.0.max(f64::MIN_POSITIVE);
        match self {
            Self::Arithmetic(flops, peak) => {
                let rate = FlopsPerSec(flops.0 / seconds);
                write!(f, "{rate} of {peak} is {}", Fraction(rate.0 / peak.0))
            }
            Self::Traffic(bytes, peak) => {
                let rate = BytesPerSec(bytes.as_f64() / seconds);
                write!(f, "{rate} of {peak} is {}", Fraction(rate.0 / peak.0))
            }
        }
    }
}

/// Where the rule or the efficiency of a term comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimeSource {
    /// A paper or a file of a framework.
    Stated(&'static str),
    /// A source of that name in the catalogue's efficiencies.
    Efficiency(String),
}

impl fmt::Display for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stated(text) => f.write_str(text),
            Self::Efficiency(name) => write!(f, "configs/efficiency.yaml, {name}"),
        }
    }
}
