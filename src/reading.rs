//! What is known about the machine at a moment: [`Reading`] and [`Sample`].
//!
//! A reading is a value with the time it was taken and the kind of figure it is,
//! or the reason why there is none. It stays that way to the pixel: nobody on the
//! road from a source to the screen may turn an absence into a zero.

mod device;
mod hardware;
mod hook;
mod impossible;
mod input_shape;
mod location;
mod model_counts;
mod out_of_memory;
mod pace;
mod place;
pub mod playback;
mod progress;
mod rank;
mod recorded_hook;
mod run;
mod serialized;
mod snapshot;
mod spread;
mod stated;
mod wait;

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use device::{DeviceMemory, DeviceProcess, DeviceSample, dram_bandwidth};
pub use hardware::{
    Board, Counters, DetailTarget, Health, HostDetail, Links, MigInstance, NvLinks, Peer, ProcessPlace, ProcessWork,
    RequiredMetrics, Xid, Xids,
};
pub use hook::{
    HookAbout, HookEnd, HookLosses, HookMemory, HookModules, HookStep, HookedRun, ModuleBlock, ModuleKind, PrintedLoss,
    PrintedTurn, TokensSeen,
};
pub use input_shape::InputShape;
pub use location::DeviceLocation;
pub use out_of_memory::{CacheTokens, OutOfMemory, OutOfMemoryKind, ProgramBuffers, UnexplainedFailure};
pub use pace::{HeldMemory, StepPace};
pub use place::{Activity, CodePlace, FEWEST_SAMPLES, HookPlaces, HookStall, LateStep, PendingCollective, StepCause};
pub use progress::{LogFormat, Progress, ProgressSource};
pub use rank::{ActivityShare, RankReport, RankStall};
pub use recorded_hook::RecordedHook;
pub use run::{FailedRank, LauncherReport, ProcessExit, RankProcess, RunNews, exit_words};
pub use serialized::taken_at;
pub use snapshot::{BlockPurpose, DeviceSnapshot, SnapshotTerm};
pub use spread::{DeviceMetric, Spread};
pub use stated::{StatedCheckpointing, StatedSettings, StatedType};
pub use wait::{ProcessWait, WaitKind};

use crate::units::{Bytes, Fraction, Seconds};

/// A point in time: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// Time since `earlier`; zero when that lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds(self.0.saturating_sub(earlier.0) as f64 / 1000.0)
    }

    /// This much later.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Moment {
    /// `2026-09-21T13:46:40Z`; a time that no clock shows is the last that one does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LAST: u64 = 253_402_300_799_000;
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(self.0.min(LAST))).fmt(f)
    }
}

/// How a figure came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingKind {
    /// Counted or metered by the hardware, the driver or the framework.
    Measured,
    /// Not more than this (memory-busy share times peak bandwidth, for one).
    UpperBound,
    /// Derived from something else.
    Estimated,
}

impl ReadingKind {
    /// The mark that goes before a figure of this kind.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::UpperBound => "≤",
            Self::Estimated => "~",
        }
    }

    /// The one that says less: what two figures make together is of that kind.
    #[must_use]
    pub const fn weaker(self, other: Self) -> Self {
        match (self, other) {
            (Self::UpperBound, _) | (_, Self::UpperBound) => Self::UpperBound,
            (Self::Estimated, _) | (_, Self::Estimated) => Self::Estimated,
            (Self::Measured, Self::Measured) => Self::Measured,
        }
    }

    /// The kind in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::UpperBound => "upper bound",
            Self::Estimated => "estimated",
        }
    }
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// Nobody has asked for it so far.
    NotRead,
    /// This GPU, driver or system does not have it.
    NotSupported,
    /// The page of metrics does not have it: its exporter can be told to.
    NotExported,
    /// The system does not let this user read it.
    NoPermission,
    /// The process that it is asked of is on no device so far.
    NotThere,
    /// The process that it is asked of uses no device.
    NoGpu,
    /// The device does nothing, so there is no rate to speak of.
    Idle,
    /// Not enough was seen to speak of a mean.
    TooShort,
    /// Nobody has said which process it is.
    NotAttached,
    /// It has a pid of another namespace: the host's, seen from a container.
    Elsewhere,
    /// What it belongs to has disappeared (a process ended, a GPU fell off the bus).
    Gone,
    /// The call failed; the text is the driver's or the system's.
    Failed(Cow<'static, str>),
    /// Nothing has failed: the text says why there is none.
    Because(Cow<'static, str>),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRead => f.write_str("not read yet"),
            Self::NotSupported => f.write_str("not supported"),
            Self::NotExported => f.write_str("not exported"),
            Self::NoPermission => f.write_str("no permission"),
            Self::NotThere => f.write_str("not on a GPU yet"),
            Self::NoGpu => f.write_str("no GPU is used"),
            Self::Idle => f.write_str("idle"),
            Self::TooShort => f.write_str("starting"),
            Self::NotAttached => f.write_str("not attached"),
            Self::Elsewhere => f.write_str("in another PID namespace"),
            Self::Gone => f.write_str("gone"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Because(why) => f.write_str(why),
        }
    }
}

/// A value with its time and kind, or why there is none.
///
/// Written as `{"value": …, "at": …}`, with a `kind` where it was not measured, or as `{"absent": …}`.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading<T> {
    /// There is a value.
    Known {
        /// The value.
        value: T,
        /// When it was taken.
        at: Moment,
        /// What kind of figure it is.
        kind: ReadingKind,
    },
    /// There is none, and this is why.
    Absent(Absence),
}

impl<T> Reading<T> {
    /// A measured value.
    pub const fn measured(value: T, at: Moment) -> Self {
        Self::Known { value, at, kind: ReadingKind::Measured }
    }

    /// A value that the true one does not exceed.
    pub const fn upper_bound(value: T, at: Moment) -> Self {
        Self::Known { value, at, kind: ReadingKind::UpperBound }
    }

    /// A value derived from something else.
    pub const fn estimated(value: T, at: Moment) -> Self {
        Self::Known { value, at, kind: ReadingKind::Estimated }
    }

    /// Nobody has asked for it so far.
    pub const fn not_read() -> Self {
        Self::Absent(Absence::NotRead)
    }

    /// The value, where there is one.
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Absent(_) => None,
        }
    }

    /// The kind of the figure, where there is one.
    pub const fn kind(&self) -> Option<ReadingKind> {
        match self {
            Self::Known { kind, .. } => Some(*kind),
            Self::Absent(_) => None,
        }
    }

    /// Why there is no value, where there is none.
    pub const fn absence(&self) -> Option<&Absence> {
        match self {
            Self::Known { .. } => None,
            Self::Absent(why) => Some(why),
        }
    }

    /// The same reading of something computed from the value: time, kind and absence carry over.
    pub fn map<U>(&self, f: impl FnOnce(&T) -> U) -> Reading<U> {
        match self {
            Self::Known { value, at, kind } => Reading::Known { value: f(value), at: *at, kind: *kind },
            Self::Absent(why) => Reading::Absent(why.clone()),
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::not_read()
    }
}

/// What the host knows of a process that is on a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostProcess {
    /// Process id.
    pub pid: u32,
    /// Start time in seconds since the Unix epoch: tells a reused pid from the process that had it before.
    pub started: Reading<u64>,
    /// Executable name.
    pub name: Reading<String>,
    /// Command line, arguments joined by blanks. Untrusted text: cleaned where it is drawn.
    pub command: Reading<String>,
    /// Login name of its owner, or the numeric user id.
    pub user: Reading<String>,
    /// Host CPU use; 1.0 is one core.
    pub cpu: Reading<Fraction>,
    /// Share of the last half minute in which its main thread could have run and waited for a core.
    pub cpu_wait: Reading<Fraction>,
    /// Resident host memory.
    pub resident: Reading<Bytes>,
    /// The pid that it has here, where the driver tells that of another namespace.
    pub here: Option<u32>,
    /// The process that started it.
    pub parent: Option<u32>,
    /// What is asked only while processes are looked at.
    pub detail: HostDetail,
}

/// Everything that one source saw at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// When the source began to take it: what a slow driver delivers late is as old as this says.
    pub at: Moment,
    /// Devices in the driver's order. One that failed stays in its place, with the reason in its readings.
    pub devices: Vec<DeviceSample>,
    /// The processes on any device, ordered by pid; and the one that was asked for.
    pub processes: Vec<HostProcess>,
    /// What those have started and is on no device (data loaders), parents before children;
    /// asked while processes are looked at.
    pub children: Vec<HostProcess>,
    /// How far the run is, where the source itself knows: a recording, the demo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Box<Progress>>,
    /// Memory that ran out, where a recording tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<Box<OutOfMemory>>,
    /// Why steps are late, where a recording tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_cause: Option<Box<StepCause>>,
    /// What the run's hook told, where a recording tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<Box<RecordedHook>>,
    /// Samples since the start that could not be handed over, because the reader was behind.
    pub dropped: u64,
    /// The past of the device that is looked at closely, where the source keeps one; told once.
    #[serde(skip)]
    pub past: Option<Box<DevicePast>>,
}

/// What a source knows of a device from before it was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct DevicePast {
    /// Its place among the devices.
    pub position: usize,
    /// What it did, oldest first.
    pub samples: Vec<(Moment, DeviceSample)>,
}

/// What kind of source samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The NVIDIA driver.
    Nvml,
    /// AMD's driver, through sysfs.
    Amdgpu,
    /// A page of metrics, as DCGM's exporter has it.
    Prometheus,
    /// No driver: the attached process alone, as the system knows it.
    Host,
    /// A recording.
    Replay,
    /// A simulated run of the loaded plan.
    Demo,
}

impl SourceKind {
    /// The word in the header.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nvml => "nvml",
            Self::Amdgpu => "amdgpu",
            Self::Prometheus => "prometheus",
            Self::Host => "host",
            Self::Replay => "replay",
            Self::Demo => "demo",
        }
    }

    /// Whether the processes that it tells of are on this machine now.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Nvml | Self::Amdgpu | Self::Host)
    }
}

/// What a source says of itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceInfo {
    /// What kind it is.
    pub kind: SourceKind,
    /// The rest in words: driver and CUDA version, or why it is a demo.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_survives_mapping() {
        let reading: Reading<u32> = Reading::Absent(Absence::NoPermission);
        assert_eq!(reading.map(|value| value * 2), Reading::Absent(Absence::NoPermission));
    }

    #[test]
    fn a_moment_reads_as_a_date() {
        // `date -u -d @1790000000`
        assert_eq!(Moment(1_790_000_000_000).to_string(), "2026-09-21T14:13:20Z");
        assert_eq!(Moment(u64::MAX).to_string(), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_bound_stays_a_bound() {
        let doubled = Reading::upper_bound(2_u32, Moment(7)).map(|value| value * 2);
        assert_eq!(doubled, Reading::Known { value: 4, at: Moment(7), kind: ReadingKind::UpperBound });
    }
}
