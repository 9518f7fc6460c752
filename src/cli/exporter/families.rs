//! Every metric of the exporter, with its unit and what it means.
//!
//! Names follow Prometheus' conventions: base units, `_total` for counts, `_ratio` for shares of 1, `_info` for words.

use crate::report::metrics::{MetricFamily, MetricType};

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal $($unit:literal)?: $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: MetricFamily =
                MetricFamily { name: $name, kind: MetricType::$kind, unit: unit!($($unit)?), help: $help };
        )*

        /// All of them.
        pub const FAMILIES: &[MetricFamily] = &[$($constant),*];
    };
}

macro_rules! unit {
    () => {
        None
    };
    ($unit:literal) => {
        Some($unit)
    };
}

families! {
    BUILD_INFO = Info "memwall_build_info": "The exporter's version.";
    SOURCE_UP = Gauge "memwall_source_up": "Whether what is exported could be read: gpu, log, hook.";
    SOURCE_INFO = Info "memwall_source_info": "Where GPU readings come from. A demo simulates them.";
    SOURCE_FAILURE = Info "memwall_source_failure_info": "Why a source could not be read.";
    PROCESS_CPU = Counter "process_cpu_seconds_total" "seconds": "CPU time of the exporter itself.";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" "bytes": "Host memory of the exporter itself.";
    PROCESS_FDS = Gauge "process_open_fds": "Open file descriptors of the exporter itself.";
    PROCESS_START = Gauge "process_start_time_seconds" "seconds": "When the exporter started, since the Unix epoch.";

    GPU_INFO = Info "memwall_gpu_info": "A GPU's product name, PCI address and serial number.";
    GPU_UP = Gauge "memwall_gpu_up": "Whether the GPU answers.";
    GPU_FAILURE = Info "memwall_gpu_failure_info": "Why a GPU does not answer.";
    GPU_MEMORY_USED = Gauge "memwall_gpu_memory_used_bytes" "bytes": "Device memory that processes hold.";
    GPU_MEMORY_FREE = Gauge "memwall_gpu_memory_free_bytes" "bytes": "Device memory that is left to allocate.";
    GPU_MEMORY_TOTAL = Gauge "memwall_gpu_memory_total_bytes" "bytes": "All device memory.";
    GPU_MEMORY_RESERVED = Gauge "memwall_gpu_memory_reserved_bytes" "bytes":
        "Device memory that the driver keeps for itself.";
    GPU_BUSY = Gauge "memwall_gpu_busy_ratio" "ratio": "Share of time in which at least one kernel ran.";
    GPU_MEMORY_BUSY = Gauge "memwall_gpu_memory_controller_busy_ratio" "ratio":
        "Share of time in which the memory controller was busy: no bandwidth.";
    GPU_SM_ACTIVITY = Gauge "memwall_gpu_sm_activity_ratio" "ratio":
        "Share of the streaming multiprocessors that had work.";
    GPU_TENSOR_ACTIVITY = Gauge "memwall_gpu_tensor_activity_ratio" "ratio": "Share of the matrix units' peak.";
    GPU_DRAM = Gauge "memwall_gpu_dram_bandwidth_bytes_per_second" "bytes_per_second":
        "DRAM traffic. The label kind says whether it is measured, estimated or only an upper bound.";
    GPU_DRAM_PEAK = Gauge "memwall_gpu_dram_bandwidth_peak_bytes_per_second" "bytes_per_second":
        "The most DRAM traffic that the GPU can have.";
    GPU_POWER = Gauge "memwall_gpu_power_watts" "watts": "Power drawn.";
    GPU_POWER_LIMIT = Gauge "memwall_gpu_power_limit_watts" "watts": "The enforced power limit.";
    GPU_TEMPERATURE = Gauge "memwall_gpu_temperature_celsius" "celsius": "Temperature of the GPU.";
    GPU_SM_CLOCK = Gauge "memwall_gpu_sm_clock_hertz" "hertz": "Clock of the streaming multiprocessors.";
    GPU_SM_CLOCK_MAX = Gauge "memwall_gpu_sm_clock_max_hertz" "hertz": "The highest that it can be.";
    GPU_MEMORY_CLOCK = Gauge "memwall_gpu_memory_clock_hertz" "hertz": "Clock of the memory.";
    GPU_THROTTLE_REASONS = Gauge "memwall_gpu_throttle_reasons": "How many reasons hold the clocks down.";
    GPU_THROTTLED = Gauge "memwall_gpu_throttled": "1 for each reason that holds the clocks down now.";
    GPU_PCIE_RECEIVED = Gauge "memwall_gpu_pcie_receive_bytes_per_second" "bytes_per_second":
        "Bytes that came over PCIe.";
    GPU_PCIE_SENT = Gauge "memwall_gpu_pcie_transmit_bytes_per_second" "bytes_per_second": "Bytes that went over PCIe.";
    GPU_NVLINK_RECEIVED = Gauge "memwall_gpu_nvlink_receive_bytes_per_second" "bytes_per_second":
        "Bytes that came over all NVLinks.";
    GPU_NVLINK_SENT = Gauge "memwall_gpu_nvlink_transmit_bytes_per_second" "bytes_per_second":
        "Bytes that went over all NVLinks.";
    GPU_ECC_ERRORS = Counter "memwall_gpu_ecc_errors_total":
        "Memory errors since the driver was loaded, by whether ECC could correct them.";
    GPU_REMAPPED_ROWS = Gauge "memwall_gpu_remapped_rows": "Memory rows that were replaced by spare ones.";
    GPU_RETIRED_PAGES = Gauge "memwall_gpu_retired_pages": "Memory pages that are out of use for good.";
    GPU_REPAIR_PENDING = Gauge "memwall_gpu_memory_repair_pending":
        "Whether rows or pages wait for a reset to be replaced.";
    GPU_REPAIR_FAILED = Gauge "memwall_gpu_memory_repair_failed": "Whether no spare row was left for one.";
    GPU_XIDS = Counter "memwall_gpu_xid_errors_total": "Critical errors (Xid) since the exporter looks.";
    GPU_LAST_XID = Gauge "memwall_gpu_last_xid": "The number of the newest Xid.";

    RUN_INFO = Info "memwall_run_info": "The run that is followed: its process, and who tells of its steps.";
    RUN_STEPS = Counter "memwall_run_steps_total": "Optimizer steps done.";
    RUN_TARGET_STEPS = Gauge "memwall_run_target_steps": "Optimizer steps of the whole run.";
    RUN_EPOCHS = Gauge "memwall_run_epochs": "Epochs done, with a fraction.";
    RUN_LOSS = Gauge "memwall_run_loss": "The loss, in the framework's own mean; NaN where the framework says so.";
    RUN_GRADIENT_NORM = Gauge "memwall_run_gradient_norm": "Norm of all gradients before clipping.";
    RUN_STEP_DURATION = Gauge "memwall_run_step_duration_seconds" "seconds": "Time of one optimizer step.";
    RUN_TOKENS = Gauge "memwall_run_tokens_per_second" "tokens_per_second": "Tokens a second of the whole run.";
    RUN_GPU_TOKENS = Gauge "memwall_run_gpu_tokens_per_second" "tokens_per_second": "Tokens a second of one GPU.";
    RUN_SAMPLES = Gauge "memwall_run_samples_per_second" "samples_per_second": "Samples a second of the whole run.";
    RUN_MFU = Gauge "memwall_run_mfu_ratio" "ratio": "Model FLOP utilization as the framework counts it.";
    RUN_REMAINING = Gauge "memwall_run_remaining_seconds" "seconds": "Time to the last step at the present pace.";
    RUN_ALLOCATED = Gauge "memwall_run_memory_allocated_bytes" "bytes": "Memory in tensors, as the framework tells.";
    RUN_PEAK_ALLOCATED = Gauge "memwall_run_memory_peak_allocated_bytes" "bytes":
        "The most memory in tensors, as the framework tells.";
    RUN_PEAK_RESERVED = Gauge "memwall_run_memory_peak_reserved_bytes" "bytes":
        "The most memory that the caching allocator held, as the framework tells.";
    RUN_VERDICT = Info "memwall_run_verdict_info": "What is to be said of the run, and how grave that is.";
    RUN_OFF_PLAN = Gauge "memwall_run_off_plan":
        "Whether a value lies outside of what predictions of healthy runs stray by.";
    RUN_CAUSE = Gauge "memwall_run_cause_probability_ratio" "ratio":
        "How much of the belief falls on a cause, among all that were tried.";
    RUN_STEP_CAUSE = Info "memwall_run_late_step_info": "Where in its code the run is late or held up.";
    RUN_STEP_LOST = Gauge "memwall_run_late_step_time_ratio" "ratio":
        "Share of all time that late steps took beyond the usual.";
    RUN_DEVIATION = Gauge "memwall_run_deviation_ratio" "ratio":
        "Distance from the prediction: (observed - predicted) / predicted.";
    RUN_DEVIATION_OUTSIDE = Gauge "memwall_run_deviation_outside":
        "Whether that distance is outside of what predictions of healthy runs stray by.";
    RUN_MEMORY_GROWTH = Gauge "memwall_run_memory_growth_bytes_per_second" "bytes_per_second":
        "How fast the run's device memory grows; 0 where it is flat.";
    RUN_MEMORY_FULL = Gauge "memwall_run_memory_full_seconds" "seconds":
        "Time until the device memory is all used at that rate.";
    RUN_MEMORY_HEADROOM = Gauge "memwall_run_memory_headroom_bytes" "bytes":
        "What was left of the device's memory when it held most.";

    RANK_INFO = Info "memwall_rank_info": "A rank of the run: its process and its GPU.";
    RANK_DEVICE_MEMORY = Gauge "memwall_rank_device_memory_bytes" "bytes":
        "Device memory that the driver charges to a rank's process.";
    RANK_STEPS = Counter "memwall_rank_steps_total": "Optimizer steps since the rank's process began.";
    RANK_STEP_DURATION = Gauge "memwall_rank_step_duration_seconds" "seconds": "Time of a rank's optimizer step.";
    RANK_TOKENS = Gauge "memwall_rank_tokens_per_second" "tokens_per_second": "Tokens a second of a rank.";
    RANK_ALLOCATED = Gauge "memwall_rank_memory_allocated_bytes" "bytes": "Memory of a rank in tensors after a step.";
    RANK_RESERVED = Gauge "memwall_rank_memory_reserved_bytes" "bytes":
        "Memory that a rank's caching allocator holds after a step.";
    RANK_PEAK_ALLOCATED = Gauge "memwall_rank_memory_peak_allocated_bytes" "bytes":
        "The most memory of a rank in tensors.";
    RANK_PEAK_RESERVED = Gauge "memwall_rank_memory_peak_reserved_bytes" "bytes":
        "The most memory that a rank's caching allocator held.";
    RANK_COMPONENT = Gauge "memwall_rank_memory_component_bytes" "bytes":
        "Memory of a rank by what it holds, counted between two steps.";
    RANK_RETRIES = Counter "memwall_rank_allocator_retries_total":
        "Times that a rank's allocator freed its cache and tried again.";
    RANK_OOMS = Counter "memwall_rank_out_of_memory_total": "Times that a rank's allocator ran out of memory.";
    RANK_ACTIVITY = Gauge "memwall_rank_activity_ratio" "ratio":
        "Share of a rank's step by what its training thread does: data, forward, backward, optimizer, collective.";
    RANK_LATE_STEPS = Counter "memwall_rank_late_steps_total": "Steps of a rank that took longer than usual.";
    RANK_STALL = Gauge "memwall_rank_stall_seconds" "seconds": "How long a step of a rank lasts that does not end.";
    RANK_PREDICTED_COMPONENT = Gauge "memwall_rank_predicted_memory_component_bytes" "bytes":
        "Predicted memory of a rank's stage at its peak, by what it holds.";
    RANK_PREDICTED_ALLOCATED = Gauge "memwall_rank_predicted_memory_peak_allocated_bytes" "bytes":
        "Predicted peak of a rank's memory in tensors.";
    RANK_PREDICTED_RESERVED = Gauge "memwall_rank_predicted_memory_peak_reserved_bytes" "bytes":
        "Predicted peak of what a rank's caching allocator holds.";
    RANK_PREDICTED_DEVICE = Gauge "memwall_rank_predicted_device_memory_bytes" "bytes":
        "Predicted device memory of a rank's process.";

    PLAN_INFO = Info "memwall_plan_info": "The plan that the run is compared with.";
    PREDICTED_COMPONENT = Gauge "memwall_predicted_memory_component_bytes" "bytes":
        "Predicted memory of a pipeline stage's GPU at its peak, by what it holds.";
    PREDICTED_ALLOCATED = Gauge "memwall_predicted_memory_peak_allocated_bytes" "bytes":
        "Predicted peak of the memory in tensors, by pipeline stage.";
    PREDICTED_RESERVED = Gauge "memwall_predicted_memory_peak_reserved_bytes" "bytes":
        "Predicted peak of what the caching allocator holds, by pipeline stage.";
    PREDICTED_DEVICE = Gauge "memwall_predicted_device_memory_bytes" "bytes":
        "Predicted device memory of a process, by pipeline stage.";
    PREDICTED_CAPACITY = Gauge "memwall_predicted_memory_capacity_bytes" "bytes": "Memory of the plan's GPU.";
    PREDICTED_STEP = Gauge "memwall_predicted_step_duration_seconds" "seconds": "Predicted time of one step.";
    PREDICTED_TOKENS = Gauge "memwall_predicted_tokens_per_second" "tokens_per_second":
        "Predicted tokens a second of all GPUs.";
    PREDICTED_DRAM = Gauge "memwall_predicted_dram_bandwidth_bytes_per_second" "bytes_per_second":
        "Predicted DRAM traffic over the step time.";
    PREDICTED_MFU = Gauge "memwall_predicted_mfu_ratio" "ratio": "Predicted model FLOP utilization.";
    PREDICTED_POWER = Gauge "memwall_predicted_power_watts" "watts": "Predicted mean power of a GPU.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_end_in_their_units_and_say_what_they_are() {
        // https://prometheus.io/docs/practices/naming and the OpenMetrics specification.
        let names: BTreeSet<&str> = FAMILIES.iter().map(MetricFamily::base_name).collect();
        assert_eq!(names.len(), FAMILIES.len(), "two families share a name");
        for family in FAMILIES {
            let name = family.name;
            assert!(name.starts_with("memwall_") || name.starts_with("process_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(family.kind == MetricType::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(family.kind == MetricType::Info, name.ends_with("_info"), "{name}");
            assert!(family.unit.is_none_or(|unit| family.base_name().ends_with(&format!("_{unit}"))), "{name}");
            let has_unit = ["_bytes", "_seconds", "_ratio", "_watts", "_hertz", "_celsius", "_per_second"]
                .iter()
                .any(|unit| family.base_name().ends_with(unit));
            assert_eq!(has_unit, family.unit.is_some(), "{name}");
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{name}");
        }
    }
}
