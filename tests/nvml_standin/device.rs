//! Calls on one GPU.

use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

use crate::driver::{Answer, call};
use crate::scenario::{Gpu, Now, Signal};
use crate::{write, write_text};

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const ARGUMENT_VERSION_MISMATCH: u32 = 25;

/// Handles are never followed, so they may hold an index; far from 0, so that a null is none.
const FIRST_HANDLE: usize = 0x4e56_0000;

/// `nvmlDevice_t`.
pub type Handle = *mut c_void;

/// Handles of parts are above those of all GPUs.
const PARTS: u32 = 1 << 16;

/// Parts of one GPU have places for so many.
const MOST_PARTS: u32 = 8;

/// The number behind a handle.
fn number(handle: Handle) -> Option<u32> {
    (handle as usize).checked_sub(FIRST_HANDLE).and_then(|number| u32::try_from(number).ok())
}

/// The index behind a handle: of the GPU itself, or of the one that it is a part of.
pub fn index(handle: Handle) -> Option<u32> {
    number(handle).map(|number| number.checked_sub(PARTS).map_or(number, |part| part / MOST_PARTS))
}

/// The handle of a part of a GPU.
pub fn part(card: u32, part: u32) -> Handle {
    handle(PARTS + card * MOST_PARTS + part)
}

/// The handle of a GPU.
pub fn handle(number: u32) -> Handle {
    (FIRST_HANDLE + number as usize) as Handle
}

/// Answers a call on a GPU or a part of one, if there is one behind the handle.
pub fn on(name: &'static str, handle: Handle, answer: impl FnOnce(&Gpu, Now) -> Answer) -> c_uint {
    let (Some(index), Some(number)) = (index(handle), number(handle)) else { return INVALID_ARGUMENT };
    call(name, Some(index), |scenario, now| {
        let card = scenario.gpus.get(index as usize).ok_or(INVALID_ARGUMENT)?;
        match number.checked_sub(PARTS) {
            None => answer(card, now),
            Some(part) => answer(card.parts.get((part % MOST_PARTS) as usize).ok_or(INVALID_ARGUMENT)?, now),
        }
    })
}

/// Answers with a count, or that the GPU does not have it.
///
/// # Safety
/// `to` is null or points to the type that NVML says.
pub unsafe fn count(
    name: &'static str,
    handle: Handle,
    to: *mut c_uint,
    signal: impl FnOnce(&Gpu) -> Option<&Signal>,
) -> c_uint {
    on(name, handle, |gpu, now| {
        let value = signal(gpu).ok_or(NOT_SUPPORTED)?.count(now);
        // SAFETY: the caller's.
        unsafe { write(to, value as c_uint) }
    })
}

/// `nvmlDeviceGetHandleByIndex_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> c_uint {
    call("nvmlDeviceGetHandleByIndex_v2", Some(index), |scenario, _| {
        scenario.gpus.get(index as usize).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(device, handle(index)) }
    })
}

/// `nvmlDeviceGetName`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Handle, name: *mut c_char, length: c_uint) -> c_uint {
    on("nvmlDeviceGetName", device, |gpu, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(name, length, gpu.name.as_deref().ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetUUID`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: *mut c_char, length: c_uint) -> c_uint {
    on("nvmlDeviceGetUUID", device, |gpu, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(uuid, length, gpu.uuid.as_deref().ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlMemory_t`.
#[repr(C)]
pub struct MemoryV1 {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Total, reserved, used.
fn memory(gpu: &Gpu, now: Now) -> Result<(u64, u64, u64), u32> {
    let memory = gpu.memory.as_ref().ok_or(NOT_SUPPORTED)?;
    let reserved = memory.reserved.as_ref().map_or(0, |reserved| reserved.count(now));
    Ok((memory.total.count(now), reserved, memory.used.count(now)))
}

/// `nvmlDeviceGetMemoryInfo`: counts what is reserved as used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, info: *mut MemoryV1) -> c_uint {
    on("nvmlDeviceGetMemoryInfo", device, |gpu, now| {
        let (total, reserved, used) = memory(gpu, now)?;
        let used = used + reserved;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(info, MemoryV1 { total, free: total.saturating_sub(used), used }) }
    })
}

/// `nvmlDeviceGetMemoryInfo_v2`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, info: *mut MemoryV2) -> c_uint {
    on("nvmlDeviceGetMemoryInfo_v2", device, |gpu, now| {
        let (total, reserved, used) = memory(gpu, now)?;
        // SAFETY: NVML's contract for this pointer; a null gives no version.
        let version = unsafe { info.as_ref() }.ok_or(INVALID_ARGUMENT)?.version;
        // NVML_STRUCT_VERSION(Memory, 2): the size, and the version in the top byte.
        if version as usize != size_of::<MemoryV2>() | 2 << 24 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let free = total.saturating_sub(used).saturating_sub(reserved);
        // SAFETY: as above.
        unsafe { write(info, MemoryV2 { version, total, reserved, free, used }) }
    })
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// `nvmlDeviceGetUtilizationRates`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, to: *mut Utilization) -> c_uint {
    on("nvmlDeviceGetUtilizationRates", device, |gpu, now| {
        let busy = gpu.busy.as_ref().ok_or(NOT_SUPPORTED)?.count(now);
        let memory = gpu.memory_busy.as_ref().map_or(0, |memory| memory.count(now));
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, Utilization { gpu: busy as c_uint, memory: memory as c_uint }) }
    })
}

/// `nvmlDeviceGetPowerUsage`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, power: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { count("nvmlDeviceGetPowerUsage", device, power, |gpu| gpu.power.as_ref()) }
}

/// `nvmlDeviceGetEnforcedPowerLimit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { count("nvmlDeviceGetEnforcedPowerLimit", device, limit, |gpu| gpu.power_limit.as_ref()) }
}

/// `nvmlDeviceGetTemperature`: sensor 0 is the chip.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(device: Handle, sensor: c_uint, to: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe {
        count("nvmlDeviceGetTemperature", device, to, |gpu| if sensor == 0 { gpu.temperature.as_ref() } else { None })
    }
}

/// `nvmlDeviceGetClockInfo`: 1 is the SM clock, 2 the memory clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(device: Handle, clock: c_uint, to: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe {
        count("nvmlDeviceGetClockInfo", device, to, |gpu| match clock {
            1 => gpu.sm_clock.as_ref(),
            2 => gpu.memory_clock.as_ref(),
            _ => None,
        })
    }
}

/// `nvmlDeviceGetMaxClockInfo`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(device: Handle, clock: c_uint, to: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe {
        count("nvmlDeviceGetMaxClockInfo", device, to, |gpu| match clock {
            1 => gpu.sm_clock_max.as_ref(),
            2 => gpu.memory_clock_max.as_ref(),
            _ => None,
        })
    }
}

/// `nvmlDeviceGetMemoryBusWidth`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryBusWidth(device: Handle, width: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { count("nvmlDeviceGetMemoryBusWidth", device, width, |gpu| gpu.bus_width.as_ref()) }
}

/// # Safety
/// `to` is null or points to a count.
unsafe fn throttle(name: &'static str, device: Handle, to: *mut c_ulonglong) -> c_uint {
    on(name, device, |gpu, now| {
        let reasons = gpu.throttle.as_ref().ok_or(NOT_SUPPORTED)?.count(now);
        // SAFETY: the caller's.
        unsafe { write(to, reasons) }
    })
}

/// `nvmlDeviceGetCurrentClocksThrottleReasons`: the name before driver 535, still there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, to: *mut c_ulonglong) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { throttle("nvmlDeviceGetCurrentClocksThrottleReasons", device, to) }
}

/// `nvmlDeviceGetCurrentClocksEventReasons`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, to: *mut c_ulonglong) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { throttle("nvmlDeviceGetCurrentClocksEventReasons", device, to) }
}
