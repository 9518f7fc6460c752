//! Calls that MemWall does not make, but without which another monitor (nvtop's `extract_gpuinfo_nvidia.c`) takes the
//! library for none: the bench of what watching costs runs them side by side.

use std::ffi::{c_uint, c_void};

use crate::device::{Handle, count, on};

const NOT_SUPPORTED: u32 = 3;

/// `nvmlDeviceGetFanSpeed`: the first fan's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFanSpeed(device: Handle, speed: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { count("nvmlDeviceGetFanSpeed", device, speed, |gpu| gpu.fan.as_ref()) }
}

/// `nvmlDeviceGetTemperatureThreshold`: of none.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperatureThreshold(device: Handle, _threshold: c_uint, _to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetTemperatureThreshold", device, |_, _| Err(NOT_SUPPORTED))
}

/// `nvmlDeviceGetEncoderUtilization`: there is no encoder.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEncoderUtilization(device: Handle, _busy: *mut c_uint, _period: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetEncoderUtilization", device, |_, _| Err(NOT_SUPPORTED))
}

/// `nvmlDeviceGetDecoderUtilization`: there is no decoder.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDecoderUtilization(device: Handle, _busy: *mut c_uint, _period: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetDecoderUtilization", device, |_, _| Err(NOT_SUPPORTED))
}

/// `nvmlDeviceGetComputeRunningProcesses`, as it was before its second version: of none, for the later ones answer.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses(
    device: Handle,
    _count: *mut c_uint,
    _processes: *mut c_void,
) -> c_uint {
    on("nvmlDeviceGetComputeRunningProcesses", device, |_, _| Err(NOT_SUPPORTED))
}

/// `nvmlDeviceGetGraphicsRunningProcesses`, the same.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses(
    device: Handle,
    _count: *mut c_uint,
    _processes: *mut c_void,
) -> c_uint {
    on("nvmlDeviceGetGraphicsRunningProcesses", device, |_, _| Err(NOT_SUPPORTED))
}
