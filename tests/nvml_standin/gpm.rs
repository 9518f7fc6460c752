//! Performance counters (GPM): samples, and metrics between two of them.

use std::collections::HashMap;
use std::ffi::{c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::device::{Handle, index, on};
use crate::driver::call;
use crate::scenario::Gpm;
use crate::{driver, write};

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NO_DATA: u32 = 21;
/// Handles of samples, as those of devices, are never followed.
const FIRST_SAMPLE: usize = 0x4750_0000;
/// Closer samples give no metrics.
const LEAST_MS: u128 = 100;

/// `nvmlGpmSample_t`.
pub type Sample = *mut c_void;

/// Samples that were allocated and not freed; with the GPU and the time once they were taken.
static SAMPLES: Mutex<Option<Samples>> = Mutex::new(None);

#[derive(Default)]
struct Samples {
    next: usize,
    taken: HashMap<usize, Option<(u32, Instant)>>,
}

fn samples() -> MutexGuard<'static, Option<Samples>> {
    SAMPLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `nvmlGpmSupport_t`.
#[repr(C)]
pub struct Support {
    version: c_uint,
    supported: c_uint,
}

/// `nvmlGpmQueryDeviceSupport`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmQueryDeviceSupport(device: Handle, support: *mut Support) -> c_uint {
    on("nvmlGpmQueryDeviceSupport", device, |gpu, _| {
        let supported = gpu.gpm.as_ref().is_some_and(|gpm| !gpm.unsupported);
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(support, Support { version: 1, supported: supported.into() }) }
    })
}

/// `nvmlGpmSampleAlloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleAlloc(sample: *mut Sample) -> c_uint {
    call("nvmlGpmSampleAlloc", None, |_, _| {
        let mut guard = samples();
        let all = guard.get_or_insert_with(Samples::default);
        all.next += 1;
        let handle = FIRST_SAMPLE + all.next;
        all.taken.insert(handle, None);
        // SAFETY: NVML's contract for this pointer.
        unsafe { write(sample, handle as Sample) }
    })
}

/// `nvmlGpmSampleFree`: twice is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleFree(sample: Sample) -> c_uint {
    call("nvmlGpmSampleFree", None, |_, _| {
        let removed = samples().as_mut().and_then(|all| all.taken.remove(&(sample as usize)));
        removed.map(drop).ok_or(INVALID_ARGUMENT)
    })
}

/// `nvmlGpmSampleGet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleGet(device: Handle, sample: Sample) -> c_uint {
    on("nvmlGpmSampleGet", device, |gpu, _| {
        gpu.gpm.as_ref().filter(|gpm| !gpm.unsupported).ok_or(NOT_SUPPORTED)?;
        let card = index(device).ok_or(INVALID_ARGUMENT)?;
        let mut guard = samples();
        let taken = guard.as_mut().and_then(|all| all.taken.get_mut(&(sample as usize)));
        *taken.ok_or(INVALID_ARGUMENT)? = Some((card, Instant::now()));
        Ok(())
    })
}

/// `nvmlGpmMetric_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Metric {
    id: c_uint,
    code: c_uint,
    value: f64,
    short_name: *mut c_char,
    long_name: *mut c_char,
    unit: *mut c_char,
}

/// `nvmlGpmMetricsGet_t`. Callers of different ages have room for 98 to 210 metrics: only the
/// first `count` are looked at.
#[repr(C)]
pub struct MetricsGet {
    version: c_uint,
    count: c_uint,
    older: Sample,
    newer: Sample,
    metrics: [Metric; 0],
}

/// `nvmlGpmMetricsGet`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut MetricsGet) -> c_uint {
    // SAFETY: NVML's contract for this pointer.
    let Some(head) = (unsafe { request.as_ref() }) else { return INVALID_ARGUMENT };
    let taken = |sample: Sample| {
        let guard = samples();
        guard.as_ref().and_then(|all| all.taken.get(&(sample as usize)).copied().flatten())
    };
    let (Some((card, older)), Some((other, newer))) = (taken(head.older), taken(head.newer)) else {
        return INVALID_ARGUMENT;
    };
    if card != other || newer < older || head.version != 1 {
        return INVALID_ARGUMENT;
    }
    let count = head.count as usize;
    call("nvmlGpmMetricsGet", Some(card), |scenario, now| {
        if (newer - older).as_millis() < LEAST_MS {
            return Err(NO_DATA);
        }
        let gpm = scenario.gpus.get(card as usize).and_then(|gpu| gpu.gpm.as_ref()).ok_or(NOT_SUPPORTED)?;
        // SAFETY: the caller has at least `count` metrics after the head.
        let metrics = unsafe {
            let first = (&raw mut (*request).metrics).cast::<Metric>();
            std::slice::from_raw_parts_mut(first, count)
        };
        for metric in metrics {
            fill(metric, gpm, now);
        }
        Ok(())
    })
}

fn fill(metric: &mut Metric, gpm: &Gpm, now: crate::scenario::Now) {
    (metric.short_name, metric.long_name, metric.unit) = (null_mut(), null_mut(), null_mut());
    let found: driver::Answer = match (gpm.errors.get(&metric.id), gpm.metrics.get(&metric.id)) {
        (Some(code), _) => Err(*code),
        (None, Some(signal)) => {
            metric.value = signal.at(now);
            Ok(())
        }
        (None, None) => Err(NOT_SUPPORTED),
    };
    metric.code = found.err().unwrap_or(0);
}
