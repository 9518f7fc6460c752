//! What `memwall exporter` tells (`cli/exporter/families.rs` has its names): the GPUs of its node, and each rank of the
//! run. A node may have NVIDIA's exporter too: then a GPU's own name (UUID) says which is which.

use std::borrow::Cow;

use super::device::Values;
use super::endpoint::GpuDescription;
use super::labels::{GpuPlace, Labels, location};
use super::table::ExporterMetric;
use crate::reading::{Activity, ActivityShare, DeviceSample, Moment, RankReport, RankStall, Reading, ReadingKind};
use crate::units::{BytesPerSec, Fraction, MIB, Seconds};

/// What goes before each name.
const PREFIX: &str = "memwall_";

/// The metric of a GPU that stands for each of its names, and what makes DCGM's unit of the exporter's.
const GPU_METRICS: [(&str, ExporterMetric, f64); 26] = [
    ("gpu_memory_used_bytes", ExporterMetric::MemoryUsed, 1.0 / MIB as f64),
    ("gpu_memory_free_bytes", ExporterMetric::MemoryFree, 1.0 / MIB as f64),
    ("gpu_memory_total_bytes", ExporterMetric::MemoryTotal, 1.0 / MIB as f64),
    ("gpu_memory_reserved_bytes", ExporterMetric::MemoryReserved, 1.0 / MIB as f64),
    ("gpu_busy_ratio", ExporterMetric::Busy, 100.0),
    ("gpu_memory_controller_busy_ratio", ExporterMetric::MemoryBusy, 100.0),
    ("gpu_sm_activity_ratio", ExporterMetric::SmActive, 1.0),
    ("gpu_tensor_activity_ratio", ExporterMetric::TensorActive, 1.0),
    ("gpu_power_watts", ExporterMetric::Power, 1.0),
    ("gpu_power_limit_watts", ExporterMetric::PowerLimit, 1.0),
    ("gpu_temperature_celsius", ExporterMetric::Temperature, 1.0),
    ("gpu_sm_clock_hertz", ExporterMetric::SmClock, 1e-6),
    ("gpu_sm_clock_max_hertz", ExporterMetric::MaxSmClock, 1e-6),
    ("gpu_memory_clock_hertz", ExporterMetric::MemoryClock, 1e-6),
    ("gpu_pcie_receive_bytes_per_second", ExporterMetric::PcieReceived, 1.0),
    ("gpu_pcie_transmit_bytes_per_second", ExporterMetric::PcieSent, 1.0),
    ("gpu_nvlink_receive_bytes_per_second", ExporterMetric::NvlinkReceived, 1.0),
    ("gpu_nvlink_transmit_bytes_per_second", ExporterMetric::NvlinkSent, 1.0),
    ("gpu_remapped_rows", ExporterMetric::RemappedCorrectable, 1.0),
    ("gpu_retired_pages", ExporterMetric::RetiredSingle, 1.0),
    ("gpu_memory_repair_pending", ExporterMetric::RetiredPending, 1.0),
    ("gpu_memory_repair_failed", ExporterMetric::RemapFailure, 1.0),
    // The words behind the reasons are metrics of their own, and so is the number of the last Xid: a count of none
    // says that it is known that there is none.
    ("gpu_throttle_reasons", ExporterMetric::ClockReasons, 0.0),
    ("gpu_throttled", ExporterMetric::ClockReasons, 1.0),
    ("gpu_xid_errors_total", ExporterMetric::Xid, 0.0),
    ("gpu_last_xid", ExporterMetric::Xid, 1.0),
];

/// Those whose label `type` says which metric it is.
const TYPED_METRICS: [(&str, &str, ExporterMetric); 5] = [
    ("gpu_ecc_errors_total", "corrected", ExporterMetric::Corrected),
    ("gpu_ecc_errors_total", "uncorrected", ExporterMetric::Uncorrected),
    ("gpu_nvlink_errors_total", "replay", ExporterMetric::NvlinkReplays),
    ("gpu_nvlink_errors_total", "recovery", ExporterMetric::NvlinkRecoveries),
    ("gpu_nvlink_errors_total", "crc", ExporterMetric::NvlinkFlitErrors),
];

const DRAM: &str = "gpu_dram_bandwidth_bytes_per_second";
const DRAM_PEAK: &str = "gpu_dram_bandwidth_peak_bytes_per_second";
const STEPS: &str = "rank_steps_total";
const STEP_TIME: &str = "rank_step_duration_seconds";
const ACTIVITY: &str = "rank_activity_ratio";
const STALL: &str = "rank_stall_seconds";

/// The metric by which a GPU is described.
pub const DESCRIBED_BY: &str = "memwall_gpu_info";

/// A regular expression for the names of all that is read.
pub fn names() -> String {
    let mut names: Vec<&str> = GPU_METRICS.iter().map(|(name, ..)| *name).collect();
    names.extend(TYPED_METRICS.iter().map(|(name, ..)| *name));
    names.extend([DRAM, DRAM_PEAK, STEPS, STEP_TIME, ACTIVITY, STALL]);
    names.dedup();
    format!("{PREFIX}({})", names.join("|"))
}

/// What a name is behind the exporter's own prefix; none where it is another exporter's.
pub fn own_name(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

/// Which GPU a memwall exporter tells of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemwallPlace {
    /// Where it is for that exporter.
    pub place: GpuPlace,
    /// The GPU's own name; empty where it has none.
    pub uuid: String,
}

impl MemwallPlace {
    /// By the labels of a series.
    pub fn of(place: GpuPlace, labels: &impl Labels) -> Self {
        Self { place, uuid: labels.label("uuid").unwrap_or_default().into_owned() }
    }
}

/// What memwall exporters say of a GPU.
#[derive(Debug, Default)]
pub struct MemwallAnswer {
    /// The endpoint that tells of it.
    pub endpoint: usize,
    /// Its metrics, in DCGM's units.
    pub values: Values,
    /// What its labels say, where they were there.
    pub described: Option<GpuDescription>,
    /// What no other exporter has.
    pub more: MemwallReport,
}

/// What only memwall exporters say of a GPU.
#[derive(Debug, Default)]
pub struct MemwallReport {
    dram: Option<(f64, ReadingKind)>,
    dram_peak: Option<f64>,
    /// The rank on it.
    pub rank: Option<RankReport>,
}

impl MemwallAnswer {
    /// Takes in a series; `name` is without the prefix.
    pub fn take(&mut self, at: &MemwallPlace, labels: &impl Labels, name: &str, value: f64) {
        if DESCRIBED_BY.strip_prefix(PREFIX) == Some(name) {
            let product = labels.first(&["name"]).map(Cow::into_owned);
            let uuid = Some(at.uuid.clone()).filter(|uuid| !uuid.is_empty());
            self.described = Some((product, uuid, location(&at.place, labels)));
        } else if let Some((metric, value)) = gpu_metric(name, labels, value) {
            self.values.join(metric, value);
        } else if value.is_finite() {
            self.more.take(labels, name, value);
        }
    }
}

/// A GPU's metric in DCGM's unit.
pub fn gpu_metric(name: &str, labels: &impl Labels, value: f64) -> Option<(ExporterMetric, f64)> {
    if let Some((_, metric, factor)) = GPU_METRICS.iter().find(|(known, ..)| *known == name) {
        let bits = || labels.label("reason").map_or(0, |reason| super::device::reason_bit(&reason));
        let value = if name == "gpu_throttled" { bits() as f64 } else { value * factor };
        return Some((*metric, value));
    }
    let kind = labels.label("type")?;
    let typed = TYPED_METRICS.iter().find(|(known, of, _)| *known == name && *of == kind);
    typed.map(|(.., metric)| (*metric, value))
}

impl MemwallReport {
    fn take(&mut self, labels: &impl Labels, name: &str, value: f64) {
        match name {
            DRAM => {
                const KINDS: [ReadingKind; 3] =
                    [ReadingKind::Measured, ReadingKind::UpperBound, ReadingKind::Estimated];
                let told = labels.label("kind").unwrap_or_default().replace('_', " ");
                let kind = KINDS.into_iter().find(|kind| kind.word() == told);
                self.dram = kind.map(|kind| (value, kind));
            }
            DRAM_PEAK => self.dram_peak = Some(value),
            _ => self.take_rank(labels, name, value),
        }
    }

    /// Of several ranks on one GPU the lowest is told.
    fn take_rank(&mut self, labels: &impl Labels, name: &str, value: f64) {
        let Some(number) = labels.label("rank").and_then(|rank| rank.parse().ok()) else { return };
        let run = labels.label("run").unwrap_or_default();
        let known = self.rank.as_ref().map(|rank| rank.rank);
        if known.is_some_and(|known| known < number) {
            return;
        }
        if known != Some(number) {
            self.rank = Some(RankReport { run: run.into_owned(), rank: number, ..RankReport::default() });
        }
        let Some(rank) = &mut self.rank else { return };
        let activity = || {
            let word = labels.label("activity")?;
            Activity::ALL.into_iter().find(|activity| activity.word() == word)
        };
        match name {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            STEPS => rank.steps = Some(value as u64),
            STEP_TIME => rank.step_time = Some(Seconds(value)),
            STALL => rank.stall = Some(RankStall { lasting: Seconds(value), activity: activity() }),
            ACTIVITY => {
                let share = |activity| ActivityShare { activity, share: Fraction(value) };
                rank.activities.extend(activity().map(share));
            }
            _ => {}
        }
    }

    /// Adds what no other exporter says of the GPU, and the DRAM traffic where it is better known.
    pub fn complete(&self, sample: &mut DeviceSample, now: Moment) {
        if let Some((rate, kind)) = self.dram
            && sample.dram_bandwidth.kind() != Some(ReadingKind::Measured)
        {
            sample.dram_bandwidth = Reading::Known { value: BytesPerSec(rate), at: now, kind };
        }
        if let Some(peak) = self.dram_peak.filter(|_| sample.dram_peak.value().is_none()) {
            sample.dram_peak = Reading::estimated(BytesPerSec(peak), now);
        }
        sample.rank = self.rank.clone().map(Box::new);
    }
}
