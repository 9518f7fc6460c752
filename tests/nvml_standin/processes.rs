//! Who holds a GPU, and for what share of the time.

use std::ffi::{c_uint, c_ulonglong};

use crate::device::{Handle, on};
use crate::scenario::Process;
use crate::write;

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;

/// `nvmlProcessInfo_t` of `_v3`.
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// # Safety
/// `infos` is null or has room for `*room` entries.
unsafe fn processes(
    name: &'static str,
    device: Handle,
    room: *mut c_uint,
    infos: *mut ProcessInfo,
    listed: impl Fn(&Process) -> bool,
) -> c_uint {
    on(name, device, |gpu, now| {
        let there: Vec<&Process> =
            gpu.processes.iter().filter(|process| listed(process) && process.is_there(now)).collect();
        // SAFETY: the caller's.
        let had = *unsafe { room.as_ref() }.ok_or(INVALID_ARGUMENT)? as usize;
        // SAFETY: not null, as was just seen.
        unsafe { write(room, there.len() as c_uint)? };
        if had < there.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (position, process) in there.into_iter().enumerate() {
            let info = ProcessInfo {
                pid: process.pid,
                // NVML_VALUE_NOT_AVAILABLE.
                used: process.memory.as_ref().map_or(c_ulonglong::MAX, |memory| memory.count(now)),
                gpu_instance: c_uint::MAX,
                compute_instance: c_uint::MAX,
            };
            // SAFETY: within the room that the caller has.
            unsafe { write(infos.add(position), info)? };
        }
        Ok(())
    })
}

/// `nvmlDeviceGetComputeRunningProcesses_v2`: the entries are those of the third.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Handle,
    room: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    // SAFETY: NVML's contract for these pointers.
    unsafe { processes("nvmlDeviceGetComputeRunningProcesses_v2", device, room, infos, |process| process.compute) }
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    device: Handle,
    room: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    // SAFETY: NVML's contract for these pointers.
    unsafe { processes("nvmlDeviceGetGraphicsRunningProcesses_v2", device, room, infos, |process| process.graphics) }
}

/// `nvmlDeviceGetComputeRunningProcesses_v3`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    room: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    // SAFETY: NVML's contract for these pointers.
    unsafe { processes("nvmlDeviceGetComputeRunningProcesses_v3", device, room, infos, |process| process.compute) }
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v3`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Handle,
    room: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    // SAFETY: NVML's contract for these pointers.
    unsafe { processes("nvmlDeviceGetGraphicsRunningProcesses_v3", device, room, infos, |process| process.graphics) }
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub struct Utilization {
    pid: c_uint,
    time_stamp: c_ulonglong,
    sm: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

/// `nvmlDeviceGetProcessUtilization`: a sample of each process ten times a second.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Handle,
    samples: *mut Utilization,
    room: *mut c_uint,
    since: c_ulonglong,
) -> c_uint {
    on("nvmlDeviceGetProcessUtilization", device, |gpu, now| {
        gpu.busy.as_ref().ok_or(NOT_SUPPORTED)?;
        // The first sample is of the first tenth of a second.
        let time_stamp = (now.ms / 100 + 1) * 100_000;
        let there: Vec<(&Process, u64)> = gpu
            .processes
            .iter()
            .filter(|process| process.is_there(now))
            .filter_map(|process| Some((process, process.busy.as_ref()?.count(now))))
            .collect();
        if there.is_empty() || time_stamp <= since {
            return Err(NOT_FOUND);
        }
        // SAFETY: NVML's contract for this pointer.
        let had = *unsafe { room.as_ref() }.ok_or(INVALID_ARGUMENT)? as usize;
        // SAFETY: not null, as was just seen.
        unsafe { write(room, there.len() as c_uint)? };
        if had < there.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (position, (process, busy)) in there.into_iter().enumerate() {
            let sample =
                Utilization { pid: process.pid, time_stamp, sm: busy as c_uint, memory: 0, encoder: 0, decoder: 0 };
            // SAFETY: within the room that the caller has.
            unsafe { write(samples.add(position), sample)? };
        }
        Ok(())
    })
}
