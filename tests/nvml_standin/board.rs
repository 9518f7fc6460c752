//! The board: what it is, its sensors, its links, its errors.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong};

use crate::device::{Handle, count, index, on};
use crate::scenario::{Pcie, Signal};
use crate::{write, write_text};

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    address: [c_char; 32],
}

/// `nvmlDeviceGetPciInfo_v3`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: *mut PciInfo) -> c_uint {
    on("nvmlDeviceGetPciInfo_v3", device, |gpu, _| {
        let text = gpu.pci.as_deref().ok_or(NOT_SUPPORTED)?;
        let mut parts = text.split([':', '.']).map(|part| c_uint::from_str_radix(part, 16).unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        let mut info = PciInfo {
            legacy: [0; 16],
            domain: next(),
            bus: next(),
            device: next(),
            // An H100 SXM.
            pci_device_id: 0x2330_10de,
            pci_subsystem_id: 0x16c1_10de,
            address: [0; 32],
        };
        // The legacy address has four digits for the domain.
        let short = text.get(4..).unwrap_or(text);
        // SAFETY: both arrays are as long as said.
        unsafe {
            write_text(info.legacy.as_mut_ptr(), 16, short)?;
            write_text(info.address.as_mut_ptr(), 32, text)?;
            write(pci, info)
        }
    })
}

/// A call that answers with one count of the GPU.
macro_rules! counts {
    ($($name:ident, $of:expr;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(device: Handle, to: *mut c_uint) -> c_uint {
                // SAFETY: NVML's contract for this pointer.
                unsafe { count(stringify!($name), device, to, $of) }
            }
        )*
    };
}

counts! {
    nvmlDeviceGetPerformanceState, |gpu| gpu.performance_state.as_ref();
    nvmlDeviceGetCurrPcieLinkGeneration, |gpu| gpu.pcie.as_ref().map(|pcie| &pcie.generation);
    nvmlDeviceGetMaxPcieLinkGeneration, |gpu| gpu.pcie.as_ref().map(|pcie| &pcie.generation_max);
    nvmlDeviceGetCurrPcieLinkWidth, |gpu| gpu.pcie.as_ref().map(|pcie| &pcie.width);
    nvmlDeviceGetMaxPcieLinkWidth, |gpu| gpu.pcie.as_ref().map(|pcie| &pcie.width_max);
    nvmlDeviceGetPcieReplayCounter, |gpu| gpu.pcie.as_ref().and_then(|pcie| pcie.replays.as_ref());
}

/// `nvmlDeviceGetPcieThroughput`: counter 0 is what was sent, 1 what was received.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieThroughput(device: Handle, counter: c_uint, to: *mut c_uint) -> c_uint {
    let of = |pcie: &'_ Pcie| -> Option<Signal> {
        match counter {
            0 => pcie.sent.clone(),
            1 => pcie.received.clone(),
            _ => None,
        }
    };
    on("nvmlDeviceGetPcieThroughput", device, |gpu, now| {
        let value = gpu.pcie.as_ref().and_then(of).ok_or(NOT_SUPPORTED)?.count(now);
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, value as c_uint) }
    })
}

/// `nvmlDeviceGetFanSpeed_v2`: there is one fan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFanSpeed_v2(device: Handle, fan: c_uint, to: *mut c_uint) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    unsafe { count("nvmlDeviceGetFanSpeed_v2", device, to, |gpu| if fan == 0 { gpu.fan.as_ref() } else { None }) }
}

/// `nvmlDeviceGetTotalEnergyConsumption`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, to: *mut c_ulonglong) -> c_uint {
    on("nvmlDeviceGetTotalEnergyConsumption", device, |gpu, now| {
        let energy = gpu.energy.as_ref().ok_or(NOT_SUPPORTED)?.count(now);
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, energy) }
    })
}

/// `nvmlDeviceGetArchitecture`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetArchitecture(device: Handle, to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetArchitecture", device, |gpu, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, gpu.architecture.ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetCudaComputeCapability`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Handle,
    major: *mut c_int,
    minor: *mut c_int,
) -> c_uint {
    on("nvmlDeviceGetCudaComputeCapability", device, |gpu, _| {
        let capability = gpu.capability.ok_or(NOT_SUPPORTED)?;
        // SAFETY: NVML's contract for these pointers.
        unsafe {
            write(major, capability.0)?;
            write(minor, capability.1)
        }
    })
}

/// `nvmlDeviceGetSerial`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSerial(device: Handle, serial: *mut c_char, length: c_uint) -> c_uint {
    on("nvmlDeviceGetSerial", device, |gpu, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(serial, length, gpu.serial.as_deref().ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetVbiosVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetVbiosVersion(device: Handle, version: *mut c_char, length: c_uint) -> c_uint {
    on("nvmlDeviceGetVbiosVersion", device, |gpu, _| {
        // SAFETY: NVML's contract for this buffer.
        unsafe { write_text(version, length, gpu.vbios.as_deref().ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetNumaNodeId`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNumaNodeId(device: Handle, to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetNumaNodeId", device, |gpu, _| {
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, gpu.numa_node.ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetTopologyCommonAncestor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(device: Handle, other: Handle, to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetTopologyCommonAncestor", device, |gpu, _| {
        index(other).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, gpu.topology.ok_or(NOT_SUPPORTED)?) }
    })
}

/// `nvmlDeviceGetNvLinkState`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetNvLinkState", device, |gpu, _| {
        let links = gpu.nvlink.as_ref().ok_or(NOT_SUPPORTED)?;
        if link >= links.all {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, c_uint::from(!links.down.contains(&link))) }
    })
}

/// `nvmlDeviceGetNvLinkVersion`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkVersion(device: Handle, link: c_uint, to: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetNvLinkVersion", device, |gpu, _| {
        let links = gpu.nvlink.as_ref().filter(|links| link < links.all).ok_or(NOT_SUPPORTED)?;
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, links.version) }
    })
}

/// `nvmlDeviceGetEccMode`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEccMode(device: Handle, now: *mut c_uint, pending: *mut c_uint) -> c_uint {
    on("nvmlDeviceGetEccMode", device, |gpu, _| {
        let mode = c_uint::from(gpu.ecc.as_ref().ok_or(NOT_SUPPORTED)?.on);
        // SAFETY: NVML's contract for these pointers.
        unsafe {
            write(now, mode)?;
            write(pending, mode)
        }
    })
}

/// `nvmlDeviceGetTotalEccErrors`: kind 0 was corrected, 1 was not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Handle,
    kind: c_uint,
    _counter: c_uint,
    to: *mut c_ulonglong,
) -> c_uint {
    on("nvmlDeviceGetTotalEccErrors", device, |gpu, now| {
        let ecc = gpu.ecc.as_ref().filter(|ecc| ecc.on).ok_or(NOT_SUPPORTED)?;
        let errors = if kind == 0 { &ecc.corrected } else { &ecc.uncorrected };
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, errors.count(now)) }
    })
}

/// `nvmlDeviceGetMemoryErrorCounter`: of errors that nobody mended in SRAM (location 7) alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryErrorCounter(
    device: Handle,
    kind: c_uint,
    _counter: c_uint,
    location: c_uint,
    to: *mut c_ulonglong,
) -> c_uint {
    on("nvmlDeviceGetMemoryErrorCounter", device, |gpu, now| {
        let sram = gpu.ecc.as_ref().and_then(|ecc| ecc.sram.as_ref()).ok_or(NOT_SUPPORTED)?;
        if (kind, location) != (1, 7) {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(to, sram.count(now)) }
    })
}

/// `nvmlFieldValue_t`. The value is the union's unsigned long long.
#[repr(C)]
pub struct FieldValue {
    field: c_uint,
    scope: c_uint,
    time_stamp: c_longlong,
    latency: c_longlong,
    kind: c_uint,
    code: c_uint,
    value: c_ulonglong,
}

/// `nvmlDeviceGetFieldValues`: each field has a code of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: *mut FieldValue) -> c_uint {
    on("nvmlDeviceGetFieldValues", device, |gpu, now| {
        let length = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        if values.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller vouches for the length.
        for value in unsafe { std::slice::from_raw_parts_mut(values, length) } {
            // NVML_VALUE_TYPE_UNSIGNED_LONG_LONG.
            value.kind = 3;
            match gpu.fields.get(&value.field) {
                Some(signal) => (value.code, value.value) = (0, signal.count(now)),
                None => value.code = NOT_SUPPORTED,
            }
        }
        Ok(())
    })
}
