//! The metrics that are read, by the names that exporters give them.
//!
//! NVIDIA's are DCGM's fields
//! (<https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html>); which of them are there is the
//! exporter's configuration (dcgm-exporter, `etc/default-counters.csv` and `etc/dcp-metrics-included.csv`). AMD's are in
//! `docs/configuration/metricslist.md` of device-metrics-exporter; they take the place of the field that means the same.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::labels::Labels;

macro_rules! metrics {
    ($($metric:ident = $name:literal,)*) => {
        /// A metric of a GPU.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ExporterMetric { $(
            #[doc = $name]
            $metric,
        )* }

        /// DCGM's names, in the order of [`ExporterMetric`].
        const NAMES: &[(&str, ExporterMetric)] = &[$(($name, ExporterMetric::$metric),)*];
    };
}

metrics! {
    SmClock = "DCGM_FI_DEV_SM_CLOCK",
    MaxSmClock = "DCGM_FI_DEV_MAX_SM_CLOCK",
    MemoryClock = "DCGM_FI_DEV_MEM_CLOCK",
    MaxMemoryClock = "DCGM_FI_DEV_MAX_MEM_CLOCK",
    Temperature = "DCGM_FI_DEV_GPU_TEMP",
    MemoryTemperature = "DCGM_FI_DEV_MEMORY_TEMP",
    Power = "DCGM_FI_DEV_POWER_USAGE",
    PowerLimit = "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    PowerManagementLimit = "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    Energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    Fan = "DCGM_FI_DEV_FAN_SPEED",
    PerformanceState = "DCGM_FI_DEV_PSTATE",
    PcieSent = "DCGM_FI_PROF_PCIE_TX_BYTES",
    PcieReceived = "DCGM_FI_PROF_PCIE_RX_BYTES",
    PcieSentKilobytes = "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
    PcieReceivedKilobytes = "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    PcieReplays = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    PcieGeneration = "DCGM_FI_DEV_PCIE_LINK_GEN",
    PcieMaxGeneration = "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
    PcieWidth = "DCGM_FI_DEV_PCIE_LINK_WIDTH",
    PcieMaxWidth = "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
    NvlinkSent = "DCGM_FI_PROF_NVLINK_TX_BYTES",
    NvlinkReceived = "DCGM_FI_PROF_NVLINK_RX_BYTES",
    NvlinkFlitErrors = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    NvlinkDataErrors = "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    NvlinkReplays = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    NvlinkRecoveries = "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    Busy = "DCGM_FI_DEV_GPU_UTIL",
    MemoryBusy = "DCGM_FI_DEV_MEM_COPY_UTIL",
    EngineActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    SmActive = "DCGM_FI_PROF_SM_ACTIVE",
    Occupancy = "DCGM_FI_PROF_SM_OCCUPANCY",
    TensorActive = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    TensorHalf = "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE",
    TensorInteger = "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE",
    TensorDouble = "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE",
    Fp64Active = "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    Fp32Active = "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    Fp16Active = "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    DramActive = "DCGM_FI_PROF_DRAM_ACTIVE",
    Xid = "DCGM_FI_DEV_XID_ERRORS",
    PowerViolation = "DCGM_FI_DEV_POWER_VIOLATION",
    ThermalViolation = "DCGM_FI_DEV_THERMAL_VIOLATION",
    ClockReasons = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    MemoryFree = "DCGM_FI_DEV_FB_FREE",
    MemoryUsed = "DCGM_FI_DEV_FB_USED",
    MemoryReserved = "DCGM_FI_DEV_FB_RESERVED",
    MemoryTotal = "DCGM_FI_DEV_FB_TOTAL",
    Corrected = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    Uncorrected = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    SramUncorrected = "DCGM_FI_DEV_ECC_DBE_AGG_SRM",
    SramExceeded = "DCGM_FI_DEV_THRESHOLD_SRM",
    RetiredSingle = "DCGM_FI_DEV_RETIRED_SBE",
    RetiredDouble = "DCGM_FI_DEV_RETIRED_DBE",
    RetiredPending = "DCGM_FI_DEV_RETIRED_PENDING",
    RemappedUncorrectable = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    RemappedCorrectable = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    RemapFailure = "DCGM_FI_DEV_ROW_REMAP_FAILURE",
}

/// How many there are.
pub const COUNT: usize = NAMES.len();

/// Other names of the same: AMD's, and those that DCGM 4 gives.
const OTHERS: &[(&str, ExporterMetric)] = &[
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", ExporterMetric::ClockReasons),
    ("DCGM_FI_DEV_SRAM_EXCEEDED", ExporterMetric::SramExceeded),
    ("gpu_package_power", ExporterMetric::Power),
    ("gpu_average_package_power", ExporterMetric::Power),
    ("gpu_junction_temperature", ExporterMetric::Temperature),
    ("gpu_memory_temperature", ExporterMetric::MemoryTemperature),
    ("gpu_gfx_activity", ExporterMetric::Busy),
    ("gpu_umc_activity", ExporterMetric::MemoryBusy),
    ("gpu_used_vram", ExporterMetric::MemoryUsed),
    ("gpu_free_vram", ExporterMetric::MemoryFree),
    ("gpu_total_vram", ExporterMetric::MemoryTotal),
    ("gpu_ecc_correct_total", ExporterMetric::Corrected),
    ("gpu_ecc_uncorrect_total", ExporterMetric::Uncorrected),
    ("pcie_replay_count", ExporterMetric::PcieReplays),
];

/// AMD's clock, whose label says of what.
const AMD_CLOCK: &str = "gpu_clock";

/// How DCGM's names begin.
const DCGM_PREFIX: &str = "DCGM_FI_";

/// What AMD's exporter may put before each name.
const AMD_PREFIX: &str = "amd_";

/// The metric of a series; none for what is not read.
pub fn metric(name: &str, labels: &impl Labels) -> Option<ExporterMetric> {
    static KNOWN: OnceLock<HashMap<&'static str, ExporterMetric>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| NAMES.iter().chain(OTHERS).copied().collect());
    if let Some(metric) = known.get(name) {
        return Some(*metric);
    }
    let plain = name.strip_prefix(AMD_PREFIX).unwrap_or(name);
    if plain == AMD_CLOCK {
        return match labels.label("clock_type")?.as_ref() {
            "GPU_CLOCK_TYPE_SYSTEM" => Some(ExporterMetric::SmClock),
            "GPU_CLOCK_TYPE_MEMORY" => Some(ExporterMetric::MemoryClock),
            _ => None,
        };
    }
    known.get(plain).copied().filter(|_| !plain.starts_with("DCGM"))
}

/// A regular expression for the names of all that is read.
pub fn names() -> String {
    let (dcgm, amd): (Vec<&str>, Vec<&str>) =
        NAMES.iter().chain(OTHERS).map(|(name, _)| *name).partition(|name| name.starts_with(DCGM_PREFIX));
    let dcgm: Vec<&str> = dcgm.iter().map(|name| name.trim_start_matches(DCGM_PREFIX)).collect();
    format!("{DCGM_PREFIX}({})|({AMD_PREFIX})?({AMD_CLOCK}|{})", dcgm.join("|"), amd.join("|"))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    struct Clock(&'static str);

    impl Labels for Clock {
        fn label(&self, wanted: &str) -> Option<Cow<'_, str>> {
            (wanted == "clock_type").then_some(Cow::Borrowed(self.0))
        }
    }

    #[test]
    fn a_name_is_a_metric_and_the_query_asks_for_every_name() {
        let any = Clock("GPU_CLOCK_TYPE_MEMORY");
        assert_eq!(metric("DCGM_FI_DEV_FB_USED", &any), Some(ExporterMetric::MemoryUsed));
        assert_eq!(metric("amd_gpu_used_vram", &any), Some(ExporterMetric::MemoryUsed));
        assert_eq!(metric("gpu_clock", &any), Some(ExporterMetric::MemoryClock));
        assert_eq!(metric("gpu_clock", &Clock("GPU_CLOCK_TYPE_VIDEO")), None);
        assert_eq!(metric("amd_DCGM_FI_DEV_FB_USED", &any), None);
        assert_eq!(metric("DCGM_FI_DEV_ENC_UTIL", &any), None);
        // As Prometheus takes it: the whole name.
        let all = regex::Regex::new(&format!("^(?:{})$", names())).unwrap();
        for (name, _) in NAMES.iter().chain(OTHERS) {
            assert!(all.is_match(name), "{name}");
        }
        assert!(all.is_match("amd_gpu_clock") && !all.is_match("DCGM_FI_DEV_ENC_UTIL"));
    }
}
