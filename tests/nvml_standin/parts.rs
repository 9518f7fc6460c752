//! Parts of a GPU (MIG).

use std::ffi::c_uint;

use crate::device::{Handle, index, on, part};
use crate::write;

const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;

/// `nvmlDeviceGetMigMode`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(device: Handle, now: *mut c_uint, pending: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetMigMode", device, |gpu, when| {
        let mode = gpu.mig.as_ref().ok_or(NOT_SUPPORTED)?.count(when) as c_uint;
        // SAFETY: NVML's contract for these pointers.
        unsafe {
            write(now, mode)?;
            write(pending, mode)
        }
    })
}

/// `nvmlDeviceGetMaxMigDeviceCount`: always seven places, some of them empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetMaxMigDeviceCount", device, |gpu, _| {
        gpu.mig.as_ref().ok_or(NOT_SUPPORTED)?;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(count, 7) }
    })
}

/// `nvmlDeviceGetMigDeviceHandleByIndex`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Handle,
    number: c_uint,
    to: *mut Handle,
) -> c_uint {
    on("nvmlDeviceGetMigDeviceHandleByIndex", device, |gpu, _| {
        gpu.parts.get(number as usize).ok_or(NOT_FOUND)?;
        let card = index(device).ok_or(NOT_FOUND)?;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, part(card, number)) }
    })
}
