//! What was seen of the run, boiled down to what a plan predicts.

use super::attached::{Attached, AttachedState};
use super::monitor::Monitor;
use crate::catalog::Gpu;
use crate::compare::{Observation, Whose};
use crate::predict::Prediction;
use crate::reading::{Absence, DeviceSample, Reading, Sample};
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds};

/// Where the figures of the run are to be found.
struct Found {
    whose: Whose,
    /// The device in the sample; none while the process is on none.
    position: Option<usize>,
    memory: Reading<Bytes>,
    memory_peak: Reading<Bytes>,
    /// Why there are no rates, where there is no device.
    without: Absence,
}

/// What was observed, on the plan's `gpu`: of the attached process where there is one, else of the device that
/// holds most. None before the first sample and without devices.
#[must_use]
pub fn observation(monitor: &Monitor, prediction: &Prediction, gpu: &Gpu) -> Option<Observation> {
    let sample = monitor.sample.as_ref()?;
    let found = match &monitor.attached {
        // Which process it is cannot be told: the device's totals are what there is.
        Some(attached) if attached.state != AttachedState::Unmatched => of_process(sample, attached),
        Some(_) | None => of_fullest_device(monitor, sample)?,
    };
    let step = prediction.time.step;
    let (bandwidth, compute, settled) = match found.position {
        None => (Reading::Absent(found.without.clone()), Reading::Absent(found.without), false),
        Some(position) => {
            let device = sample.devices.get(position)?;
            let stretch = monitor.history.stretch(position, window(step));
            let tensor = stretch.tensor(&device.tensor_activity, step);
            let fp32 = stretch.fp32(&device.counters.fp32, step);
            let compute = executed(&tensor, &fp32, prediction.roofline.peak, gpu);
            let settled = stretch.lasted().0 >= 2.0 * step.0;
            (stretch.bandwidth(&device.dram_bandwidth, step), compute, settled)
        }
    };
    let (whose, memory, memory_peak) = (found.whose, found.memory, found.memory_peak);
    Some(Observation { whose, memory, memory_peak, bandwidth, compute, devices: sample.devices.len(), settled })
}

/// Operations a second: the matrix units' share of their peak, and what the FP32 pipes add to it.
///
/// Activity is measured; which type's peak the matrix units' is a share of is the plan's word.
pub fn executed(
    tensor: &Reading<Fraction>,
    fp32: &Reading<Fraction>,
    peak: FlopsPerSec,
    gpu: &Gpu,
) -> Reading<FlopsPerSec> {
    match tensor {
        Reading::Known { value, at, .. } => {
            let outside = fp32.value().zip(gpu.peaks.fp32).map_or(0.0, |(share, peak)| share.0 * peak.0);
            Reading::estimated(FlopsPerSec(value.0 * peak.0 + outside), *at)
        }
        Reading::Absent(why) => Reading::Absent(why.clone()),
    }
}

/// Rates are averaged over at least three steps, so that it does not matter where in a step
/// a sample falls, and over half a minute at least, so that they do not swing.
fn window(step: Seconds) -> Seconds {
    const LONGEST: f64 = 600.0;
    Seconds((3.0 * step.0).clamp(30.0, LONGEST))
}

fn of_process(sample: &Sample, attached: &Attached) -> Found {
    let pid = attached.pid;
    let held = sample.devices.iter().enumerate().filter_map(|(position, device)| {
        let held = device.processes.value()?.iter().find(|process| process.pid == pid)?;
        Some((position, device.index, held.memory.clone()))
    });
    let most = held.max_by_key(|(position, _, memory)| {
        (memory.value().copied().unwrap_or(Bytes::ZERO), std::cmp::Reverse(*position))
    });
    // What it held at its highest stays known when it has ended: that is when people ask.
    let peak = |without: &Absence| match attached.peak {
        Some(peak) => Reading::measured(peak, sample.at),
        None => Reading::Absent(without.clone()),
    };
    match (attached.state, most) {
        (AttachedState::Present, Some((position, device, memory))) => {
            let without = memory.absence().cloned().unwrap_or(Absence::NotRead);
            let whose = Whose::Process { pid, device: Some(device) };
            Found { whose, position: Some(position), memory, memory_peak: peak(&without), without }
        }
        (state, _) => {
            let awaited = matches!(state, AttachedState::Awaited | AttachedState::Missing);
            let without = if awaited { Absence::NotThere } else { Absence::Gone };
            let memory = Reading::Absent(without.clone());
            let whose = Whose::Process { pid, device: attached.device };
            Found { whose, position: None, memory, memory_peak: peak(&without), without }
        }
    }
}

fn of_fullest_device(monitor: &Monitor, sample: &Sample) -> Option<Found> {
    // Among those that answer, by the peak, which only grows: the choice does not flicker between equals.
    let peak_of = |position: usize| monitor.peaks.get(position).copied().flatten();
    let used = |device: &DeviceSample| device.memory.map(|memory| memory.used);
    let (position, device) = sample.devices.iter().enumerate().max_by_key(|(position, device)| {
        (device.memory.value().is_some(), peak_of(*position), std::cmp::Reverse(*position))
    })?;
    let memory = used(device);
    let memory_peak = memory.map(|now| peak_of(position).unwrap_or(*now));
    let whose = Whose::Device { device: device.index };
    Some(Found { whose, position: Some(position), memory, memory_peak, without: Absence::NotRead })
}
