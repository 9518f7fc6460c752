//! One device at one moment.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Absence, Board, Counters, DeviceLocation, Health, Links, MigInstance, ProcessWork, RankReport, Reading};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Megahertz, Watts};

/// Memory of a device as the driver counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceMemory {
    /// All of it.
    pub total: Bytes,
    /// Held by processes; without what the driver reserves for itself (NVML's v2 count).
    pub used: Bytes,
    /// Left to allocate.
    pub free: Bytes,
}

/// One device at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSample {
    /// Position in the driver's order.
    pub index: u32,
    /// The product name as the driver gives it.
    pub name: Reading<String>,
    /// A name that stays with the GPU over reboots.
    pub uuid: Reading<String>,
    /// Where it is a part of a GPU: which. `index` is the GPU's then.
    pub mig: Option<MigInstance>,
    /// Where it is in a cluster, where the source tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Arc<DeviceLocation>>,
    /// What the rank on it tells of itself, where the source tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<Box<RankReport>>,
    /// Device memory.
    pub memory: Reading<DeviceMemory>,
    /// Memory that the driver keeps for itself: neither used nor free.
    pub memory_reserved: Reading<Bytes>,
    /// Share of time in which at least one kernel ran.
    pub busy: Reading<Fraction>,
    /// Share of time in which the memory controller was busy: no bandwidth, at best a bound on it.
    pub memory_busy: Reading<Fraction>,
    /// Share of the streaming multiprocessors that had work, from GPM.
    pub sm_activity: Reading<Fraction>,
    /// Share of peak of the matrix units of any type, from GPM.
    pub tensor_activity: Reading<Fraction>,
    /// DRAM traffic: measured from GPM counters, else an upper bound.
    pub dram_bandwidth: Reading<BytesPerSec>,
    /// Peak DRAM bandwidth of this GPU, from bus width and memory clock where the driver tells: estimated.
    pub dram_peak: Reading<BytesPerSec>,
    /// Power drawn.
    pub power: Reading<Watts>,
    /// The enforced power limit.
    pub power_limit: Reading<Watts>,
    /// GPU temperature.
    pub temperature: Reading<Celsius>,
    /// SM clock.
    pub sm_clock: Reading<Megahertz>,
    /// The highest SM clock.
    pub sm_clock_max: Reading<Megahertz>,
    /// Memory clock.
    pub memory_clock: Reading<Megahertz>,
    /// Why clocks are below their maximum, in words ("power cap", "hot"); empty when nothing slows them.
    pub throttle: Reading<Vec<Cow<'static, str>>>,
    /// The processes that hold memory on it.
    pub processes: Reading<Vec<DeviceProcess>>,
    /// Performance counters beyond the main figures.
    pub counters: Counters,
    /// The board; asked while the device is looked at closely.
    pub board: Board,
    /// PCIe, NVLink and the way to other devices; asked likewise.
    pub links: Links,
    /// Errors.
    pub health: Health,
}

impl DeviceSample {
    /// How the names (UUID) of simulated GPUs begin: who reads them through an exporter knows them by that.
    pub const SIMULATED: &str = "GPU-demo-";

    /// Whether a demo tells of it, here or elsewhere.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.uuid.value().is_some_and(|uuid| uuid.starts_with(Self::SIMULATED))
    }

    /// Whether nothing is known of what it does: it does not answer, or who tells of it does not.
    #[must_use]
    pub const fn is_unread(&self) -> bool {
        self.processes.value().is_none() && self.busy.value().is_none() && self.memory.value().is_none()
    }

    /// Whether nobody uses it: no process is on it, and it neither works nor holds more than a driver does. In a
    /// container the driver lists no process of it, and what runs there shows in the other two alone.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        /// Share of the memory that a driver holds by itself at most.
        const DRIVER: f64 = 0.02;
        let listed = self.processes.value().is_some_and(|processes| !processes.is_empty());
        let works = self.busy.value().is_some_and(|busy| busy.0 > 0.0);
        let holds = self.memory.value().and_then(|memory| memory.used.share_of(memory.total));
        !listed && !works && holds.is_none_or(|share| share.0 < DRIVER)
    }

    /// In words, where it works and its PCIe link has fewer lanes or a lower generation than device and slot can do. An
    /// idle one lowers its generation to save power.
    #[must_use]
    pub fn narrow_link(&self) -> Option<String> {
        let links = &self.links;
        let below = |now: &Reading<u32>, most: &Reading<u32>| {
            now.value().copied().zip(most.value().copied()).filter(|(now, most)| now < most)
        };
        if let Some((now, most)) = below(&links.pcie_width, &links.pcie_width_max) {
            return Some(format!("PCIe x{now} of x{most}"));
        }
        let works = self.busy.value().is_some_and(|busy| busy.0 > 0.5);
        let generation = below(&links.pcie_generation, &links.pcie_generation_max).filter(|_| works);
        generation.map(|(now, most)| format!("PCIe gen {now} of {most}"))
    }

    /// A device that says nothing, and why.
    #[must_use]
    pub fn absent(index: u32, why: &Absence) -> Self {
        Self {
            index,
            name: Reading::Absent(why.clone()),
            uuid: Reading::Absent(why.clone()),
            mig: None,
            location: None,
            rank: None,
            memory: Reading::Absent(why.clone()),
            memory_reserved: Reading::Absent(why.clone()),
            busy: Reading::Absent(why.clone()),
            memory_busy: Reading::Absent(why.clone()),
            sm_activity: Reading::Absent(why.clone()),
            tensor_activity: Reading::Absent(why.clone()),
            dram_bandwidth: Reading::Absent(why.clone()),
            dram_peak: Reading::Absent(why.clone()),
            power: Reading::Absent(why.clone()),
            power_limit: Reading::Absent(why.clone()),
            temperature: Reading::Absent(why.clone()),
            sm_clock: Reading::Absent(why.clone()),
            sm_clock_max: Reading::Absent(why.clone()),
            memory_clock: Reading::Absent(why.clone()),
            throttle: Reading::Absent(why.clone()),
            processes: Reading::Absent(why.clone()),
            counters: Counters::absent(why),
            board: Board::absent(why),
            links: Links::absent(why),
            health: Health::absent(why),
        }
    }

    /// Its number for people: `3`, or `3:1` for the second part of GPU 3.
    #[must_use]
    pub fn label(&self) -> String {
        match self.mig {
            None => self.index.to_string(),
            Some(part) => format!("{}:{}", self.index, part.number),
        }
    }
}

/// A process's hold on one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceProcess {
    /// Process id as the driver tells it.
    pub pid: u32,
    /// Memory that the driver charges to it.
    pub memory: Reading<Bytes>,
    /// Whether it computes or draws.
    pub work: ProcessWork,
    /// Share of the time in which a kernel of it ran.
    pub busy: Reading<Fraction>,
}

impl DeviceProcess {
    /// A computing process of which nothing else is known.
    #[must_use]
    pub fn holding(pid: u32, memory: Reading<Bytes>) -> Self {
        Self { pid, memory, ..Self::default() }
    }
}

/// DRAM bandwidth of a device: the share of its peak that counters saw, times that peak, and of the weaker kind of the
/// two. Without counters the share of time in which the memory controller was busy bounds it.
///
/// ```
/// # use memwall_core as memwall;
/// use memwall::reading::{ReadingKind, Moment, Reading, dram_bandwidth};
/// use memwall::units::{BytesPerSec, Fraction};
///
/// let at = Moment(0);
/// let peak = Reading::estimated(BytesPerSec(2e12), at);
/// let seen = dram_bandwidth(&Reading::measured(Fraction(0.5), at), &Reading::not_read(), &peak);
/// assert_eq!((seen.value(), seen.kind()), (Some(&BytesPerSec(1e12)), Some(ReadingKind::Estimated)));
/// ```
#[must_use]
pub fn dram_bandwidth(
    share: &Reading<Fraction>,
    busy: &Reading<Fraction>,
    peak: &Reading<BytesPerSec>,
) -> Reading<BytesPerSec> {
    match (share, peak, busy) {
        (Reading::Known { value, at, kind }, Reading::Known { value: peak, kind: of_peak, .. }, _) => {
            Reading::Known { value: *peak * value.0, at: *at, kind: kind.weaker(*of_peak) }
        }
        // The next sample counts it: a bound for one second would make the whole stretch one.
        (Reading::Absent(Absence::TooShort), ..) => Reading::Absent(Absence::TooShort),
        (Reading::Absent(_), Reading::Known { value: peak, .. }, Reading::Known { value: busy, at, .. }) => {
            Reading::upper_bound(*peak * busy.0, *at)
        }
        (Reading::Absent(why @ Absence::NotExported), Reading::Known { .. }, _) => Reading::Absent(why.clone()),
        (Reading::Absent(_), _, Reading::Absent(why)) | (_, Reading::Absent(why), _) => Reading::Absent(why.clone()),
    }
}
