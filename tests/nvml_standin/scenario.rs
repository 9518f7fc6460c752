//! What the driver shall do: the scenario file and its values over time.
//! The format is described at the top of `lib.rs`.

use std::collections::HashMap;

use serde::Deserialize;

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// `nvmlSystemGetDriverVersion`.
    pub driver: Option<String>,
    /// `nvmlSystemGetNVMLVersion`.
    pub nvml: Option<String>,
    /// `nvmlSystemGetCudaDriverVersion`: 12040 is 12.4.
    pub cuda: Option<i32>,
    /// What `nvmlInit_v2` answers: an error code.
    pub init: u32,
    /// Functions that this driver does not know: they answer 13.
    pub missing: Vec<String>,
    /// Calls that fail or hang.
    pub faults: Vec<Fault>,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// A file that gets a line for each call: its name and the index of the GPU.
    pub log: Option<String>,
}

/// Calls that fail or hang.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The function, or `*`.
    pub call: String,
    /// The GPU; absent: all.
    #[serde(default)]
    pub gpu: Option<u32>,
    /// When.
    #[serde(default)]
    pub when: Window,
    /// The code that it answers, after the pause if there is one.
    #[serde(default)]
    pub error: Option<u32>,
    /// Seconds that it hangs before.
    #[serde(default)]
    pub hang_s: Option<f64>,
    /// What it writes to standard error, and to standard output.
    #[serde(default)]
    pub says: Option<String>,
    /// How it ends the whole program.
    #[serde(default)]
    pub ends: Option<End>,
}

/// How a driver ends the program that it is in.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It reads where nothing is.
    Crash,
    /// It calls `abort`.
    Abort,
    /// It calls `exit` with success.
    Exit,
}

/// A stretch of time or of calls. What is absent does not limit it.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Milliseconds since the library was initialised.
    pub from_ms: Option<u64>,
    /// The first millisecond after it.
    pub until_ms: Option<u64>,
    /// The first call of that function on that GPU is 1.
    pub from_call: Option<u64>,
    /// The first call after it.
    pub until_call: Option<u64>,
}

impl Window {
    fn holds(&self, now: Now) -> bool {
        self.from_ms.is_none_or(|from| now.ms >= from)
            && self.until_ms.is_none_or(|until| now.ms < until)
            && self.from_call.is_none_or(|from| now.call >= from)
            && self.until_call.is_none_or(|until| now.call < until)
    }
}

/// When a value is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Milliseconds since the library was initialised.
    pub ms: u64,
    /// How often that function was called for that GPU, this call included.
    pub call: u64,
}

/// One GPU. What is absent is not supported (code 3) there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpu {
    /// Product name.
    pub name: Option<String>,
    /// UUID.
    pub uuid: Option<String>,
    /// Memory in bytes.
    pub memory: Option<Memory>,
    /// Percent.
    pub busy: Option<Signal>,
    /// Percent.
    pub memory_busy: Option<Signal>,
    /// Milliwatts.
    pub power: Option<Signal>,
    /// Milliwatts.
    pub power_limit: Option<Signal>,
    /// Degrees Celsius.
    pub temperature: Option<Signal>,
    /// MHz.
    pub sm_clock: Option<Signal>,
    /// MHz.
    pub sm_clock_max: Option<Signal>,
    /// MHz.
    pub memory_clock: Option<Signal>,
    /// MHz.
    pub memory_clock_max: Option<Signal>,
    /// Bits.
    pub bus_width: Option<Signal>,
    /// The bits of `nvmlClocksEventReason…`.
    pub throttle: Option<Signal>,
    /// Whether MIG is on: 0 or 1.
    pub mig: Option<Signal>,
    /// The parts that it is split into; a part is a GPU of its own with these facts.
    pub parts: Vec<Gpu>,
    /// PCI bus address, `00000000:1B:00.0`.
    pub pci: Option<String>,
    /// Millijoules.
    pub energy: Option<Signal>,
    /// Percent.
    pub fan: Option<Signal>,
    /// 0 to 15.
    pub performance_state: Option<Signal>,
    /// `nvmlDeviceArchitecture_t`: 9 is Hopper.
    pub architecture: Option<u32>,
    /// CUDA compute capability, major and minor.
    pub capability: Option<(i32, i32)>,
    /// Serial number.
    pub serial: Option<String>,
    /// Version of the video BIOS.
    pub vbios: Option<String>,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// PCIe.
    pub pcie: Option<Pcie>,
    /// NVLinks.
    pub nvlink: Option<NvLink>,
    /// ECC.
    pub ecc: Option<Ecc>,
    /// Values of `nvmlDeviceGetFieldValues` by field id (82 is the memory's temperature).
    pub fields: HashMap<u32, Signal>,
    /// Critical errors, each told of once, in this order.
    pub xids: Vec<Xid>,
    /// Whether its events can be listened to. On unless said.
    pub no_events: bool,
    /// What lies between it and every other GPU: `nvmlGpuTopologyLevel_t`.
    pub topology: Option<u32>,
    /// Processes.
    pub processes: Vec<Process>,
    /// Performance counters.
    pub gpm: Option<Gpm>,
    /// While the GPU is off the bus, everything answers 15.
    pub lost: Option<Window>,
}

impl Gpu {
    /// Whether it is off the bus.
    pub fn is_lost(&self, now: Now) -> bool {
        self.lost.is_some_and(|lost| lost.holds(now))
    }
}

/// `nvmlDeviceGetCurrPcieLink…` and the like.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Now.
    pub generation: Signal,
    /// At most.
    pub generation_max: Signal,
    /// Lanes now.
    pub width: Signal,
    /// Lanes at most.
    pub width_max: Signal,
    /// KB a second to the host.
    #[serde(default)]
    pub sent: Option<Signal>,
    /// KB a second from the host.
    #[serde(default)]
    pub received: Option<Signal>,
    /// Packets sent again.
    #[serde(default)]
    pub replays: Option<Signal>,
}

/// `nvmlDeviceGetNvLinkState` and the like.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLink {
    /// Links that there are.
    pub all: u32,
    /// Links that are down, by number.
    #[serde(default)]
    pub down: Vec<u32>,
    /// Version.
    pub version: u32,
}

/// `nvmlDeviceGetEccMode` and `nvmlDeviceGetTotalEccErrors`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecc {
    /// Whether it is on.
    pub on: bool,
    /// Errors that were mended.
    pub corrected: Signal,
    /// Errors that were not.
    pub uncorrected: Signal,
    /// Those of SRAM that were not.
    #[serde(default)]
    pub sram: Option<Signal>,
}

/// A critical error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// Its number.
    pub code: u64,
    /// From when on it may be told of.
    #[serde(default)]
    pub from_ms: u64,
}

/// `nvmlDeviceGetMemoryInfo_v2`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// All.
    pub total: Signal,
    /// By processes.
    pub used: Signal,
    /// By the driver.
    #[serde(default)]
    pub reserved: Option<Signal>,
}

/// A process that holds the GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Bytes; absent: the driver does not tell.
    #[serde(default)]
    pub memory: Option<Signal>,
    /// In the compute list. On unless said.
    #[serde(default = "yes")]
    pub compute: bool,
    /// In the graphics list.
    #[serde(default)]
    pub graphics: bool,
    /// Percent of the time, for `nvmlDeviceGetProcessUtilization`; absent: no sample of it.
    #[serde(default)]
    pub busy: Option<Signal>,
    /// While it is there.
    #[serde(default)]
    pub when: Window,
}

impl Process {
    /// Whether it is there.
    pub fn is_there(&self, now: Now) -> bool {
        self.when.holds(now)
    }
}

fn yes() -> bool {
    true
}

/// Performance counters of one GPU, in percent; traffic (20, 21, 60, 61) in MiB a second.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpm {
    /// What `nvmlGpmQueryDeviceSupport` says. On unless said.
    pub unsupported: bool,
    /// Values by metric id (2 SM, 5 any tensor, 10 DRAM bandwidth). Others are not supported.
    pub metrics: HashMap<u32, Signal>,
    /// Codes that single metrics answer.
    pub errors: HashMap<u32, u32>,
}

/// A value over time.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Signal {
    /// Always the same.
    Constant(f64),
    /// From one value to another over a time, then the other.
    Ramp {
        /// The two values and the milliseconds between.
        ramp: (f64, f64, u64),
    },
    /// `[[0, 10], [1000, 20]]`: 10 from the start, 20 from 1000 ms on.
    Steps {
        /// Milliseconds and values, in order.
        steps: Vec<(u64, f64)>,
    },
    /// One value a call, the last for ever.
    ByCall {
        /// The values.
        by_call: Vec<f64>,
    },
    /// Evenly spread around a value; another each `every_ms` (100 unless said).
    Noise {
        /// Middle and half width.
        noise: (f64, f64),
        /// The same seed, the same values.
        #[serde(default)]
        seed: u64,
        /// How long one value holds.
        #[serde(default = "tenth")]
        every_ms: u64,
    },
}

fn tenth() -> u64 {
    100
}

impl Signal {
    /// The value then.
    pub fn at(&self, now: Now) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Ramp { ramp: (from, to, over) } => {
                let share = (now.ms as f64 / (*over).max(1) as f64).min(1.0);
                from + (to - from) * share
            }
            Self::Steps { steps } => {
                steps.iter().rev().find(|(ms, _)| *ms <= now.ms).or(steps.first()).map_or(0.0, |(_, value)| *value)
            }
            Self::ByCall { by_call } => {
                let position = usize::try_from(now.call.saturating_sub(1)).unwrap_or(usize::MAX);
                by_call.get(position).or(by_call.last()).copied().unwrap_or(0.0)
            }
            Self::Noise { noise: (middle, half), seed, every_ms } => {
                middle + half * spread(seed ^ (now.ms / (*every_ms).max(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            }
        }
    }

    /// The value then, as NVML's counts are.
    pub fn count(&self, now: Now) -> u64 {
        self.at(now).round() as u64
    }
}

/// -1 to 1 by a key (xorshift64*).
fn spread(key: u64) -> f64 {
    let mut state = key | 1;
    for _ in 0..4 {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
    }
    (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

impl Scenario {
    /// From the text of the file.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    /// The fault that hits a call, if one does.
    pub fn fault(&self, call: &str, gpu: Option<u32>, now: Now) -> Option<&Fault> {
        self.faults.iter().find(|fault| {
            (fault.call == "*" || fault.call == call)
                && (fault.gpu.is_none() || fault.gpu == gpu)
                && fault.when.holds(now)
        })
    }
}
