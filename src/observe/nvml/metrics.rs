//! Which functions of NVML each figure comes from, and when they are called.

/// When a source asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryInterval {
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

impl QueryInterval {
    /// It in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "each sample",
            Self::Slowly => "every 10 s",
            Self::Counters => "each sample, while bandwidth or tensor activity is shown or recorded",
            Self::Health => "every 10 s, while the alert `gpu` is on, the monitor is shown or a recording runs",
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
    pub asked: QueryInterval,
}

const fn metric(name: &'static str, symbols: &'static [&'static str], asked: QueryInterval) -> Metric {
    Metric { name, symbols, asked }
}

/// Everything that is asked of NVML: nothing else is called (a test holds it).
pub const METRICS: &[Metric] = &[
    metric(
        "the driver and its versions",
        &["nvmlInit_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"],
        QueryInterval::Once,
    ),
    metric("the GPUs", &["nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2"], QueryInterval::Once),
    metric(
        "name, UUID, PCI address",
        &["nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3"],
        QueryInterval::Once,
    ),
    metric("highest SM and memory clock", &["nvmlDeviceGetMaxClockInfo"], QueryInterval::Once),
    metric("peak DRAM bandwidth (~: from bus width and clock)", &["nvmlDeviceGetMemoryBusWidth"], QueryInterval::Once),
    metric("memory used, free, reserved", &["nvmlDeviceGetMemoryInfo_v2"], QueryInterval::Always),
    metric("busy, memory busy", &["nvmlDeviceGetUtilizationRates"], QueryInterval::Always),
    metric(
        "power and its limit",
        &["nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit"],
        QueryInterval::Always,
    ),
    metric("GPU temperature", &["nvmlDeviceGetTemperature"], QueryInterval::Always),
    metric("SM and memory clock", &["nvmlDeviceGetClockInfo"], QueryInterval::Always),
    metric("why clocks are low", &["nvmlDeviceGetCurrentClocksThrottleReasons"], QueryInterval::Always),
    metric(
        "processes and their memory",
        &["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"],
        QueryInterval::Always,
    ),
    metric(
        "MIG instances",
        &["nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"],
        QueryInterval::Slowly,
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
        QueryInterval::Counters,
    ),
    metric(
        "ECC mode and errors, of SRAM on their own",
        &["nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter"],
        QueryInterval::Health,
    ),
    metric(
        "PCIe generation and width (each sample while looked at closely)",
        &["nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth"],
        QueryInterval::Health,
    ),
    metric(
        "retired pages, remapped rows, NVLink errors; memory temperature, time slowed by power and by heat, NVLink bytes where GPM has \
         none (~: from the first link; while looked at closely)",
        &["nvmlDeviceGetFieldValues"],
        QueryInterval::Health,
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
        QueryInterval::Health,
    ),
    metric("energy", &["nvmlDeviceGetTotalEnergyConsumption"], QueryInterval::Closely),
    metric("fan", &["nvmlDeviceGetFanSpeed_v2"], QueryInterval::Closely),
    metric("performance state", &["nvmlDeviceGetPerformanceState"], QueryInterval::Closely),
    metric("PCIe throughput where GPM has none", &["nvmlDeviceGetPcieThroughput"], QueryInterval::Closely),
    metric("PCIe replays", &["nvmlDeviceGetPcieReplayCounter"], QueryInterval::Closely),
    metric(
        "NVLink state and version (every 10 s)",
        &["nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkVersion"],
        QueryInterval::Closely,
    ),
    metric(
        "highest PCIe generation and width",
        &["nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth"],
        QueryInterval::Once,
    ),
    metric(
        "serial number, architecture, compute capability, video BIOS, NUMA node",
        &[
            "nvmlDeviceGetSerial",
            "nvmlDeviceGetArchitecture",
            "nvmlDeviceGetCudaComputeCapability",
            "nvmlDeviceGetVbiosVersion",
            "nvmlDeviceGetNumaNodeId",
        ],
        QueryInterval::Once,
    ),
    metric("topology", &["nvmlDeviceGetTopologyCommonAncestor"], QueryInterval::Once),
    metric("a process's share of the time", &["nvmlDeviceGetProcessUtilization"], QueryInterval::Processes),
];
