//! Which functions of NVML each figure comes from, and when they are called.

/// When a source asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Until it is known, then never again.
    Once,
    /// In every sample.
    Always,
    /// Every ten seconds.
    Slowly,
    /// In every sample while counters are wanted.
    Counters,
    /// Every ten seconds while errors are wanted; events whenever there are some.
    Health,
    /// In every sample while that device is looked at closely.
    Closely,
    /// In every sample while processes are looked at.
    Processes,
}

impl Asked {
    /// It in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "each sample",
            Self::Slowly => "every 10 s",
            Self::Counters => "each sample, while bandwidth or tensor activity is shown or recorded",
            Self::Health => "every 10 s, while the monitor is shown or a recording runs",
            Self::Closely => "each sample, while that GPU's details are shown or recorded",
            Self::Processes => "each sample, while processes are shown or recorded",
        }
    }
}

/// A figure and where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What it is.
    pub name: &'static str,
    /// The functions of NVML that it is read with.
    pub symbols: &'static [&'static str],
    /// When.
    pub asked: Asked,
}

const fn metric(name: &'static str, symbols: &'static [&'static str], asked: Asked) -> Metric {
    Metric { name, symbols, asked }
}

/// Everything that is asked of NVML: nothing else is called (a test holds it).
pub const METRICS: &[Metric] = &[
    metric(
        "the driver and its versions",
        &["nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"],
        Asked::Once,
    ),
    metric("the GPUs", &["nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"], Asked::Once),
    metric("name, UUID", &["nvmlDeviceGetName", "nvmlDeviceGetUUID"], Asked::Once),
    metric("highest SM and memory clock", &["nvmlDeviceGetMaxClockInfo"], Asked::Once),
    metric("peak DRAM bandwidth (~: from bus width and clock)", &["nvmlDeviceGetMemoryBusWidth"], Asked::Once),
    metric("memory used, free, reserved", &["nvmlDeviceGetMemoryInfo_v2"], Asked::Always),
    metric("busy, memory busy", &["nvmlDeviceGetUtilizationRates"], Asked::Always),
    metric("power and its limit", &["nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit"], Asked::Always),
    metric("GPU temperature", &["nvmlDeviceGetTemperature"], Asked::Always),
    metric("SM and memory clock", &["nvmlDeviceGetClockInfo"], Asked::Always),
    metric("why clocks are low", &["nvmlDeviceGetCurrentClocksThrottleReasons"], Asked::Always),
    metric(
        "processes and their memory",
        &["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"],
        Asked::Always,
    ),
    metric(
        "MIG instances",
        &["nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"],
        Asked::Slowly,
    ),
    metric(
        "SM activity and occupancy, tensor activity by type, FP pipes, DRAM bandwidth, PCIe and NVLink bytes (GPM)",
        &[
            "nvmlGpmQueryDeviceSupport",
            "nvmlGpmSampleAlloc",
            "nvmlGpmSampleGet",
            "nvmlGpmMetricsGet",
            "nvmlGpmSampleFree",
        ],
        Asked::Counters,
    ),
    metric("ECC mode and errors", &["nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors"], Asked::Health),
    metric(
        "retired pages, remapped rows; memory temperature, time slowed by power and by heat, NVLink bytes where GPM has \
         none (~: from the first link; while looked at closely)",
        &["nvmlDeviceGetFieldValues"],
        Asked::Health,
    ),
    metric(
        "Xid events",
        &[
            "nvmlEventSetCreate",
            "nvmlDeviceRegisterEvents",
            "nvmlEventSetWait_v2",
            "nvmlDeviceGetIndex",
            "nvmlEventSetFree",
        ],
        Asked::Health,
    ),
    metric("energy", &["nvmlDeviceGetTotalEnergyConsumption"], Asked::Closely),
    metric("fan", &["nvmlDeviceGetFanSpeed_v2"], Asked::Closely),
    metric("performance state", &["nvmlDeviceGetPerformanceState"], Asked::Closely),
    metric(
        "PCIe generation and width",
        &["nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth"],
        Asked::Closely,
    ),
    metric("PCIe throughput where GPM has none", &["nvmlDeviceGetPcieThroughput"], Asked::Closely),
    metric("PCIe replays", &["nvmlDeviceGetPcieReplayCounter"], Asked::Closely),
    metric(
        "NVLink state and version (every 10 s)",
        &["nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkVersion"],
        Asked::Closely,
    ),
    metric(
        "highest PCIe generation and width",
        &["nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth"],
        Asked::Once,
    ),
    metric(
        "PCI address, architecture, compute capability, video BIOS, NUMA node",
        &[
            "nvmlDeviceGetPciInfo_v3",
            "nvmlDeviceGetArchitecture",
            "nvmlDeviceGetCudaComputeCapability",
            "nvmlDeviceGetVbiosVersion",
            "nvmlDeviceGetNumaNodeId",
        ],
        Asked::Once,
    ),
    metric("topology", &["nvmlDeviceGetTopologyCommonAncestor"], Asked::Once),
    metric("a process's share of the time", &["nvmlDeviceGetProcessUtilization"], Asked::Processes),
];
