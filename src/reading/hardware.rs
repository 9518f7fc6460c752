//! What a device tells of itself beyond its load: counters, board, links, health.

use serde::{Deserialize, Serialize};

use super::{Absence, Moment, Reading};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Joules, Megahertz};

/// A group of readings that can be absent for one reason.
macro_rules! readings {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $field:ident: $of:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$about])* pub $field: Reading<$of>,)* }

        impl $name {
            /// Nothing of it is known, and this is why.
            #[must_use]
            pub fn absent(why: &Absence) -> Self {
                Self { $($field: Reading::Absent(why.clone()),)* }
            }
        }
    };
}

readings! {
    /// The performance counters (GPM, Hopper and later) that are not among a device's main
    /// figures. Shares are of the time or of the peak between two samples.
    pub struct Counters {
        /// Warps that were resident, as a share of those that fit.
        pub occupancy: Fraction,
        /// Matrix units at 16 and 8 bit floating point (HMMA).
        pub tensor_half: Fraction,
        /// Matrix units at integers (IMMA).
        pub tensor_integer: Fraction,
        /// Matrix units at FP64 (DFMA).
        pub tensor_double: Fraction,
        /// Pipes for FP64 outside the matrix units.
        pub fp64: Fraction,
        /// Pipes for FP32 outside the matrix units.
        pub fp32: Fraction,
        /// Pipes for FP16 outside the matrix units.
        pub fp16: Fraction,
    }
}

readings! {
    /// The board: what it is, and sensors that nobody needs every second.
    pub struct Board {
        /// PCI address, `00000000:1B:00.0`.
        pub pci: String,
        /// Serial number of the board, as it is printed on it.
        pub serial: String,
        /// The chip's generation in the driver's word, `Hopper`.
        pub architecture: String,
        /// CUDA compute capability, `9.0`.
        pub capability: String,
        /// Version of the video BIOS.
        pub vbios: String,
        /// The NUMA node that it hangs on.
        pub numa_node: u32,
        /// Performance state: 0 is the fastest, 15 the slowest.
        pub performance_state: u8,
        /// Speed of its first fan that the driver asks for.
        pub fan: Fraction,
        /// Energy drawn since the driver was loaded: differences give the true mean power.
        pub energy: Joules,
        /// Temperature of the memory.
        pub memory_temperature: Celsius,
        /// Share of the time since the sample before in which the power limit held the clocks down.
        pub slowed_by_power: Fraction,
        /// Share of that time in which heat did.
        pub slowed_by_heat: Fraction,
        /// The highest memory clock.
        pub memory_clock_max: Megahertz,
    }
}

/// NVLinks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvLinks {
    /// Links that are up.
    pub active: u32,
    /// Links that there are.
    pub all: u32,
    /// The generation of NVLink of the first that is up: 4 on Hopper.
    pub version: Option<u32>,
}

/// How far another device is away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its index.
    pub index: u32,
    /// What lies between, in words: `one PCIe switch`.
    pub between: String,
}

readings! {
    /// What joins a device to the host and to others.
    pub struct Links {
        /// PCIe generation now; lower than it could be while idle.
        pub pcie_generation: u32,
        /// The highest that device and slot can do.
        pub pcie_generation_max: u32,
        /// PCIe lanes now.
        pub pcie_width: u32,
        /// The most that device and slot can do.
        pub pcie_width_max: u32,
        /// Bytes that came over PCIe.
        pub pcie_received: BytesPerSec,
        /// Bytes that went over PCIe.
        pub pcie_sent: BytesPerSec,
        /// PCIe packets that had to be sent again.
        pub pcie_replays: u64,
        /// NVLinks and their state.
        pub nvlinks: NvLinks,
        /// Bytes that came over all NVLinks.
        pub nvlink_received: BytesPerSec,
        /// Bytes that went over all NVLinks.
        pub nvlink_sent: BytesPerSec,
        /// NVLink packets that arrived damaged or had to be sent again, over all links.
        pub nvlink_errors: u64,
        /// The other devices.
        pub peers: Vec<Peer>,
    }
}

/// A critical error that the driver reported (NVIDIA's "Xid").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xid {
    /// Its number; none where the driver does not know it.
    pub code: Option<u64>,
    /// When it was heard of.
    pub at: Moment,
}

/// The critical errors heard of since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Xids {
    /// How many.
    pub count: u64,
    /// The last one.
    pub last: Option<Xid>,
}

/// Where a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessPlace {
    /// On the host itself, as far as its control group tells.
    Host,
    /// In a container: of that name or number.
    Container(String),
}

readings! {
    /// Errors.
    pub struct Health {
        /// Whether memory is checked (ECC).
        pub ecc: bool,
        /// Memory errors that ECC mended since the driver was loaded.
        pub corrected: u64,
        /// Memory errors that it could not.
        pub uncorrected: u64,
        /// Memory pages taken out of use for good (up to Volta and Turing).
        pub retired_pages: u64,
        /// Memory rows replaced by spare ones (Ampere and later).
        pub remapped_rows: u64,
        /// Errors of caches and registers (SRAM) that ECC could not mend, in all its life.
        pub sram_uncorrected: u64,
        /// These are so many that the GPU is to be replaced, by its driver's own count.
        pub sram_exceeded: bool,
        /// Pages or rows wait for a reset to be replaced.
        pub repair_pending: bool,
        /// No spare row was left for one.
        pub repair_failed: bool,
        /// Packets that went over NVLink again.
        pub nvlink_replays: u64,
        /// Times that an NVLink was set up again after an error.
        pub nvlink_recoveries: u64,
        /// Packets over NVLink whose checksum was wrong.
        pub nvlink_crc_errors: u64,
        /// Critical errors.
        pub xids: Xids,
    }
}

/// A part of a GPU that is a device of its own (MIG).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigInstance {
    /// Its number on its GPU.
    pub number: u32,
}

/// What a process does on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ProcessWork {
    /// It computes: CUDA.
    #[default]
    Compute,
    /// It draws.
    Graphics,
    /// Both.
    Both,
}

impl ProcessWork {
    /// The letter that nvidia-smi prints.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Compute => "C",
            Self::Graphics => "G",
            Self::Both => "C+G",
        }
    }
}

readings! {
    /// What the host knows of a process beyond its name and load; asked while processes are looked at.
    pub struct HostDetail {
        /// Threads.
        pub threads: u64,
        /// Bytes that it read from storage.
        pub read: BytesPerSec,
        /// Bytes that it wrote to storage.
        pub written: BytesPerSec,
        /// Where it runs.
        pub place: ProcessPlace,
        /// Memory that it has in swap.
        pub swapped: Bytes,
    }
}

/// Which device is looked at closely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DetailTarget {
    /// None.
    #[default]
    None,
    /// The one with that index.
    Device(u32),
    /// All of them.
    All,
}

impl DetailTarget {
    /// Whether the device with that index is meant.
    #[must_use]
    pub fn means(self, index: u32) -> bool {
        self == Self::All || self == Self::Device(index)
    }
}

/// What somebody wants to see beyond what every sample has. Sources leave out the rest,
/// because asking costs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredMetrics {
    /// Performance counters. They are shared hardware: a profiler beside us may want them.
    pub counters: bool,
    /// Errors of all devices.
    pub health: bool,
    /// Board and links.
    pub closely: DetailTarget,
    /// What processes do beyond holding memory, and their children.
    pub processes: bool,
    /// A process to tell of whether or not it is on a device.
    pub process: Option<u32>,
}

impl RequiredMetrics {
    /// Everything that a source has.
    #[must_use]
    pub const fn everything() -> Self {
        Self { counters: true, health: true, closely: DetailTarget::All, processes: true, process: None }
    }
}
