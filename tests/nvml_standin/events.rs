//! Critical errors, told of once.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, PoisonError};

use crate::device::{Handle, handle, index, on};
use crate::driver::call;
use crate::write;

const NOT_SUPPORTED: u32 = 3;
const TIMEOUT: u32 = 10;
/// `nvmlEventTypeXidCriticalError`.
const XID: c_ulonglong = 8;
/// There is one set; nobody follows its handle.
const SET: usize = 0x4556_0000;

/// `nvmlEventSet_t`.
pub type Set = *mut c_void;

/// Cards that are listened to, and events told of, by GPU.
static LISTENED: Mutex<Vec<(u32, usize)>> = Mutex::new(Vec::new());

/// `nvmlEventSetCreate`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(set: *mut Set) -> c_uint {
    call("nvmlEventSetCreate", None, |_, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(set, SET as Set) }
    })
}

/// `nvmlEventSetFree`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(_set: Set) -> c_uint {
    call("nvmlEventSetFree", None, |_, _| Ok(()))
}

/// `nvmlDeviceRegisterEvents`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(device: Handle, _events: c_ulonglong, _set: Set) -> c_uint {
    on("nvmlDeviceRegisterEvents", device, |gpu, _| {
        if gpu.no_events {
            return Err(NOT_SUPPORTED);
        }
        let card = index(device).ok_or(NOT_SUPPORTED)?;
        let mut listened = LISTENED.lock().unwrap_or_else(PoisonError::into_inner);
        if !listened.iter().any(|(known, _)| *known == card) {
            listened.push((card, 0));
        }
        Ok(())
    })
}

/// `nvmlEventData_t`.
#[repr(C)]
pub struct EventData {
    device: Handle,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlEventSetWait_v2`: does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(_set: Set, data: *mut EventData, _timeout: c_uint) -> c_uint {
    call("nvmlEventSetWait_v2", None, |scenario, now| {
        let mut listened = LISTENED.lock().unwrap_or_else(PoisonError::into_inner);
        for (card, told) in listened.iter_mut() {
            let next = scenario.gpus.get(*card as usize).and_then(|gpu| gpu.xids.get(*told));
            let Some(xid) = next.filter(|xid| xid.from_ms <= now.ms) else { continue };
            *told += 1;
            let event = EventData {
                device: handle(*card),
                kind: XID,
                data: xid.code,
                gpu_instance: c_uint::MAX,
                compute_instance: c_uint::MAX,
            };
            // SAFETY: NVML's contract for this pointer.
            return unsafe { write(data, event) };
        }
        Err(TIMEOUT)
    })
}

/// `nvmlDeviceGetIndex`: an event's GPU may be off the bus by now, and has its number still.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: Handle, to: *mut c_uint) -> c_uint {
    call("nvmlDeviceGetIndex", None, |_, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, index(device).ok_or(NOT_SUPPORTED)?) }
    })
}
