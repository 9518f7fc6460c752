//! A stand-in for `libnvidia-ml.so`: the C functions of NVML that MemWall calls, answered from
//! a scenario file instead of a driver. The program under test loads it as it would load the
//! driver's own and cannot tell the two apart.
//!
//! # Use
//!
//! `cargo test` builds it as `target/…/examples/libnvml_standin.so`. The environment variable
//! `MEMWALL_NVML_SCENARIO` names the scenario. The file is read again whenever it has changed
//! (write another and rename it over the first), so that a test can steer a running program. If
//! it cannot be read, every call answers 999 and the reason lies beside it in `NAME.error`.
//!
//! # The scenario
//!
//! YAML; everything may be left out. A fact of a GPU that is left out is not supported there
//! (code 3). Codes are those of `nvmlReturn_t`: 3 not supported, 4 no permission, 9 driver not
//! loaded, 13 function not found, 15 GPU is lost, 18 driver and library mismatch, 999 unknown.
//!
//! ```yaml
//! driver: "550.54.15"
//! nvml: "12.550.54.15"
//! cuda: 12040
//! init: 0                                  # what nvmlInit_v2 answers
//! missing: [nvmlGpmSampleGet]              # these answer 13, as a driver without them does
//! log: /tmp/calls                          # gets a line for each call: its name, its GPU
//! faults:
//!   - { call: nvmlDeviceGetMemoryInfo_v2, gpu: 0, when: { from_ms: 3000 }, error: 15 }
//!   - { call: nvmlDeviceGetPowerUsage, when: { from_call: 2, until_call: 4 }, error: 4 }
//!   - { call: nvmlDeviceGetUtilizationRates, hang_s: 30 }
//!   - { call: "*", gpu: 1, error: 999 }
//!   - { call: nvmlDeviceGetPowerUsage, says: "NVRM: Xid 79", ends: crash }   # or abort, exit
//! gpus:
//!   - name: NVIDIA H100 80GB HBM3
//!     uuid: GPU-1
//!     pci: "00000000:1B:00.0"
//!     memory: { total: 85520809984, reserved: 617611264, used: { ramp: [0, 6.0e10, 5000] } }
//!     busy: { noise: [95, 4], seed: 7, every_ms: 500 }     # percent
//!     memory_busy: 40                                      # percent
//!     power: { steps: [[0, 120000], [2000, 612000]] }      # milliwatts
//!     power_limit: 700000
//!     temperature: { by_call: [40, 55, 67] }
//!     sm_clock: 1755
//!     sm_clock_max: 1980
//!     memory_clock: 2619
//!     memory_clock_max: 2619
//!     bus_width: 5120
//!     throttle: 4                                          # bits of nvmlClocksEventReason…
//!     mig: 0                                               # 1: split into its parts
//!     parts: [{ name: NVIDIA H100 MIG 1g.10gb, memory: { total: 1.0e10, used: 5.0e9 } }]
//!     energy: { ramp: [0, 6.0e8, 1000000] }                # millijoules
//!     fan: 40                                              # percent
//!     performance_state: 0
//!     architecture: 9
//!     capability: [9, 0]
//!     vbios: 96.00.61.00.01
//!     serial: "1652922012345"
//!     numa_node: 0
//!     pcie: { generation: 5, generation_max: 5, width: 16, width_max: 16, sent: 1000, received: 2000, replays: 0 }
//!     nvlink: { all: 18, down: [3], version: 6 }          # 4.0 (nvmlNvlinkVersion_t)
//!     ecc: { on: true, corrected: 2, uncorrected: 0, sram: 0 }
//!     fields: { 82: 78, 142: 1 }                           # by field id; what is absent is not supported
//!     xids: [{ code: 79, from_ms: 4000 }]                  # each told of once
//!     no_events: false
//!     topology: 40                                         # to every other GPU
//!     processes:
//!       - { pid: 4711, memory: 6.0e10, graphics: true, busy: 90, when: { until_ms: 9000 } }
//!       - { pid: 4712 }                                    # memory that the driver does not tell
//!     gpm: { metrics: { 2: 97, 5: 44, 10: 39 }, errors: { 10: 3 } }
//!     lost: { from_ms: 4000, until_ms: 8000 }              # off the bus: everything answers 15
//! ```
//!
//! A value is a number; `ramp: [from, to, over_ms]`; `steps: [[from_ms, value], …]`;
//! `by_call: [value, …]` (the last stays); or `noise: [middle, half_width]` with `seed` and
//! `every_ms`. Milliseconds count from the first `nvmlInit_v2`; calls count from 1, for each
//! function and GPU.

#![allow(clippy::missing_safety_doc)]

mod board;
mod device;
mod driver;
mod events;
mod gpm;
mod others;
mod parts;
mod processes;
mod scenario;

use std::ffi::{CStr, c_char, c_int, c_uint};

use driver::{Answer, UNINITIALISED, call, initialise, shut_down};

/// Writes `text` with its final NUL into a caller's buffer.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
pub(crate) unsafe fn write_text(to: *mut c_char, length: c_uint, text: &str) -> Answer {
    const INVALID_ARGUMENT: u32 = 2;
    const INSUFFICIENT_SIZE: u32 = 7;
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: text and NUL fit, as was just checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), text.len());
        *to.add(text.len()) = 0;
    }
    Ok(())
}

/// Writes a value where a caller wants it.
///
/// # Safety
/// `to` is null or points to a `T`.
pub(crate) unsafe fn write<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(2);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// `nvmlInit_v2`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    initialise()
}

/// `nvmlInitWithFlags`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_uint {
    initialise()
}

/// `nvmlShutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    shut_down()
}

/// `nvmlErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    let text: &CStr = match code {
        0 => c"Success",
        UNINITIALISED => c"Uninitialized",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        9 => c"Driver Not Loaded",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        18 => c"Driver/library version mismatch",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// `nvmlSystemGetDriverVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_uint {
    call("nvmlSystemGetDriverVersion", None, |scenario, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(version, length, scenario.driver.as_deref().unwrap_or("550.54.15")) }
    })
}

/// `nvmlSystemGetNVMLVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> c_uint {
    call("nvmlSystemGetNVMLVersion", None, |scenario, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(version, length, scenario.nvml.as_deref().unwrap_or("12.550.54.15")) }
    })
}

/// `nvmlSystemGetCudaDriverVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> c_uint {
    call("nvmlSystemGetCudaDriverVersion", None, |scenario, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(version, scenario.cuda.unwrap_or(12040)) }
    })
}

/// `nvmlSystemGetCudaDriverVersion_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> c_uint {
    call("nvmlSystemGetCudaDriverVersion_v2", None, |scenario, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(version, scenario.cuda.unwrap_or(12040)) }
    })
}

/// `nvmlDeviceGetCount_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_uint {
    call("nvmlDeviceGetCount_v2", None, |scenario, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(count, scenario.gpus.len() as c_uint) }
    })
}
