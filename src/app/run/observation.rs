//! What was seen of the run, boiled down to what a plan predicts.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::app::monitor::attached::{AttachedProcess, AttachedState};
use crate::catalog::{Generation, Gpu};
use crate::compare::{Evidence, MemoryOwner, Observation, RunPhase, resident_evidence};
use crate::predict::{Job, Prediction};
use crate::reading::{
    Absence, DeviceProcess, DeviceSample, HookMemory, HookedRun, Moment, Progress, ProgressSource, Reading,
    ReadingKind, Sample,
};
use crate::units::{Bytes, FlopsPerSec, Fraction, Seconds, TokensPerSec};

/// Where the figures of the run are to be found.
struct RunMemory {
    whose: MemoryOwner,
    /// The device in the sample; none while the process is on none.
    position: Option<usize>,
    memory: Reading<Bytes>,
    memory_peak: Reading<Bytes>,
    /// Why there are no rates, where there is no device.
    without: Absence,
}

/// What was observed, on the GPU of the plan's `job`: of the attached process where there is one, else of the device that
/// holds most. None before the first sample and without devices.
#[must_use]
pub fn observation(monitor: &Monitor, run: &Telemetry, prediction: &Prediction, job: &Job) -> Option<Observation> {
    let sample = monitor.sample.as_ref()?;
    let gpu = &job.hardware.gpu;
    let found = match &monitor.attached {
        // Which process it is cannot be told: the device's totals are what there is.
        Some(attached) if attached.state != AttachedState::Unmatched => of_process(sample, attached),
        None if monitor.is_idle() && run.is_logged(monitor) => of_log(),
        // What nobody uses differs from no plan.
        None if monitor.is_idle() => return None,
        Some(_) | None => of_fullest_device(monitor, prediction)?,
    };
    let device = found.position.and_then(|position| Some((position, sample.devices.get(position)?)));
    let rates = match device {
        Some((position, device)) => rates((monitor, run), prediction, gpu, position, device),
        None => absent(&found.without),
    };
    let others = match (found.whose, device) {
        (MemoryOwner::Device { .. }, Some((_, device))) => others(device),
        // What is charged to one process is nobody else's.
        _ => Reading::measured(Bytes::ZERO, sample.at),
    };
    if run.uses_no_gpu(monitor, sample.at) {
        return Some(on_cpu((monitor, run), prediction, job, found.whose, sample));
    }
    let mut evidence = Evidence { device_used: found.memory_peak, others, ..rates };
    if found.whose == MemoryOwner::Log {
        // No device says how long it has trained: its steps do.
        evidence.settled = has_trained(run, sample.at);
    }
    // Also of one that the driver knows by another pid: somebody said that it is this run.
    // A log that was named may be of a run elsewhere: beside devices that are busy here it is not compared.
    let evidence = if monitor.attached.is_some() || found.whose == MemoryOwner::Log {
        with_progress(evidence, (monitor, run), prediction, job, sample.at)
    } else {
        without_progress(evidence, monitor, run, sample.at)
    };
    let stage = found.position.and_then(|position| monitor.cluster.stage_at(position));
    let devices = sample.devices.len();
    Some(Observation { whose: found.whose, memory: found.memory, devices, stage, evidence })
}

/// With the reason why steps that are told are not compared: nobody said that they are of what the devices hold.
fn without_progress(evidence: Evidence, monitor: &Monitor, run: &Telemetry, now: Moment) -> Evidence {
    let why = "the steps told may be another run's; attached, its process is compared with its own";
    match run.progress(monitor, now) {
        Some(_) => Evidence { step: Reading::Absent(Absence::Because(why.into())), ..evidence },
        None => evidence,
    }
}

/// Whether the run has made steady steps.
fn has_trained(run: &Telemetry, now: Moment) -> bool {
    matches!(run.phases().phase(now), RunPhase::Steady | RunPhase::Between) && !run.phases().is_warming()
}

/// A run without a GPU: against a plan for the CPU its process's resident set and its steps; nothing against any other.
fn on_cpu(
    (monitor, run): (&Monitor, &Telemetry),
    prediction: &Prediction,
    job: &Job,
    whose: MemoryOwner,
    sample: &Sample,
) -> Observation {
    let (devices, without) = (sample.devices.len(), absent(&Absence::NoGpu));
    if job.hardware.gpu.generation != Generation::Cpu {
        let memory = Reading::Absent(Absence::NoGpu);
        return Observation { whose, memory, devices, stage: None, evidence: without };
    }
    let pid = monitor.attached_here();
    let process = sample.processes.iter().find(|process| Some(process.pid) == pid);
    let resident = match process {
        // A shell, or a `memwall run`, holds nothing of the runs that it has started.
        Some(process) if run.news.runs_below.is_empty() && !process.starts_run() => process.resident.clone(),
        _ => Reading::not_read(),
    };
    let step = run.hooked(monitor, sample.at).and_then(|hooked| hooked.step.as_ref());
    let told = match step.filter(|step| step.memory == HookMemory::Resident) {
        Some(step) => Evidence {
            bandwidth: without.bandwidth,
            compute: without.compute,
            power: without.power,
            // While a run warms up its memory grows, and differs from the plan by that alone.
            settled: has_trained(run, sample.at),
            ..resident_evidence(step, prediction)
        },
        // Nobody tells the peak: what a run of whole steps holds is near it.
        None => Evidence {
            device_used: resident.clone(),
            others: resident.map(|_| Bytes::ZERO),
            settled: run.phases().phase(sample.at) == RunPhase::Steady,
            step: Reading::not_read(),
            ..without
        },
    };
    // A launcher waits for no core: the process below it that trains does.
    let trains = run.hooked(monitor, sample.at).map(|hooked| hooked.pid);
    let mut known = sample.processes.iter().chain(&sample.children);
    let worker = trains.and_then(|pid| known.find(|process| process.pid == pid)).or(process);
    let cpu_wait = worker.map_or_else(Reading::not_read, |process| process.cpu_wait.clone());
    let told = Evidence { cpu_wait, ..told };
    let (allocated, reserved) = (told.allocated.clone(), told.reserved.clone());
    let evidence = with_progress(told, (monitor, run), prediction, job, sample.at);
    let evidence = Evidence { allocated, reserved, ..evidence };
    Observation { whose, memory: resident, devices, stage: None, evidence }
}

/// With what the attached process's log and hook tell. The rhythm of its device tells too little
/// to hold against a plan.
fn with_progress(
    evidence: Evidence,
    (monitor, run): (&Monitor, &Telemetry),
    prediction: &Prediction,
    job: &Job,
    now: Moment,
) -> Evidence {
    let progress = run.progress(monitor, now).map(|(_, progress)| progress);
    let Some(progress) = progress.filter(|progress| progress.told_by != ProgressSource::Rhythm) else {
        return evidence;
    };
    let all = |each: &Reading<TokensPerSec>| match each {
        // As fast as this one: nobody counts the others.
        Reading::Known { value, at, .. } => Reading::estimated(TokensPerSec(value.0 * prediction.num_gpus as f64), *at),
        Reading::Absent(why) => Reading::Absent(why.clone()),
    };
    let tokens = match progress.tokens_per_s.value() {
        Some(_) => progress.tokens_per_s.clone(),
        None => all(&progress.tokens_per_s_per_gpu),
    };
    let warming = run.phases().is_warming();
    // A log that counts batches within an epoch does not say whether several make a step.
    // The hook times whole steps.
    let hooked = run.hooked(monitor, now).and_then(|run| run.step.as_ref()?.step_time.value()).is_some();
    let counted =
        matches!(progress.told_by, ProgressSource::Log(_)) && progress.step.kind() != Some(ReadingKind::Measured);
    let batches = counted && !hooked && progress.step_time.value().is_some() && job.batch.accumulation > 1;
    let (step, tokens) = if batches {
        (Reading::Absent(Absence::Because("its log counts batches, of which several make a step".into())), tokens)
    } else if warming {
        // What the first steps take says nothing of the others.
        (Reading::Absent(Absence::TooShort), Reading::Absent(Absence::TooShort))
    } else {
        (told(run.phases().usual(&progress.step_time), progress.told_by), told(tokens, progress.told_by))
    };
    let hooked = run.hooked(monitor, now);
    // A step with something else in it is slower by as much, where the rate is of that step.
    let slower = progress.step_time.value().zip(step.value()).filter(|_| is_rate_of_step(&progress, monitor, run, now));
    let slower = slower.map_or(1.0, |(told, usual)| told.0 / usual.0);
    let tokens = tokens.map(|rate| TokensPerSec(rate.0 * slower));
    Evidence {
        data_wait: hooked.map_or_else(Reading::not_read, |run| run.data_wait(&step)),
        own_code: hooked.map_or_else(Reading::not_read, |run| run.own_code(&step)),
        step,
        tokens,
        allocated: progress.peak_allocated,
        reserved: progress.peak_reserved,
        ..evidence
    }
}

/// Whether rate and time of a step are told of the same steps: both by one line of the log, or both by the hook.
fn is_rate_of_step(progress: &Progress, monitor: &Monitor, run: &Telemetry, now: Moment) -> bool {
    let hook = run.hooked(monitor, now).map(HookedRun::progress);
    let by_hook = |of: fn(&Progress) -> Option<f64>| hook.as_ref().is_some_and(|hook| of(progress) == of(hook));
    let step = by_hook(|told| told.step_time.value().map(|time| time.0));
    let rate = progress.tokens_per_s.value().is_none() && by_hook(|told| Some(told.tokens_per_s_per_gpu.value()?.0));
    step == rate && progress.step_time.kind() == Some(ReadingKind::Measured)
}

/// `reading`, or that the log says nothing of it where lines are all that is followed.
fn told<T>(reading: Reading<T>, by: ProgressSource) -> Reading<T> {
    match (&reading, by) {
        (Reading::Absent(Absence::NotRead), ProgressSource::Log(_)) => {
            Reading::Absent(Absence::Because("its log does not tell it".into()))
        }
        _ => reading,
    }
}

/// What a device does, averaged over whole steps.
fn rates(
    (monitor, run): (&Monitor, &Telemetry),
    prediction: &Prediction,
    gpu: &Gpu,
    position: usize,
    device: &DeviceSample,
) -> Evidence {
    let step = run.phases().step().unwrap_or(prediction.time.step);
    let now = monitor.sample.as_ref().map_or(Moment::default(), |sample| sample.at);
    let stretch = monitor.history.stretch(position, window(step), |at| run.phases().is_steady(at, now));
    let tensor = stretch.tensor(&device.tensor_activity, step);
    let fp32 = stretch.fp32(&device.counters.fp32, step);
    let compute = executed(&tensor, &fp32, prediction.roofline.peak, gpu);
    let clock = match (device.sm_clock.value(), device.sm_clock_max.value()) {
        (Some(_), Some(highest)) if highest.0 > 0.0 => device.sm_clock.map(|clock| Fraction(clock.0 / highest.0)),
        _ => Reading::not_read(),
    };
    Evidence {
        bandwidth: stretch.bandwidth(&device.dram_bandwidth, step),
        compute,
        busy: stretch.busy(&device.busy, step),
        power: stretch.power(&device.power, step),
        clock,
        slowed: device.throttle.map(|reasons| reasons.iter().any(|reason| SLOWING.contains(&reason.as_ref()))),
        settled: stretch.lasted().0 >= 2.0 * step.0,
        ..Evidence::default()
    }
}

/// Reasons for lower clocks that somebody should look into; a power cap is how big products run.
const SLOWING: [&str; 4] = ["hot", "too hot", "hw slowdown", "power brake"];

fn absent(without: &Absence) -> Evidence {
    // A step on a CPU is none of a plan for GPUs.
    let step = if *without == Absence::NoGpu { Absence::NoGpu } else { Absence::NotRead };
    Evidence {
        device_used: Reading::Absent(without.clone()),
        step: Reading::Absent(step.clone()),
        tokens: Reading::Absent(step),
        bandwidth: Reading::Absent(without.clone()),
        compute: Reading::Absent(without.clone()),
        power: Reading::Absent(without.clone()),
        ..Evidence::default()
    }
}

/// What all but the largest process hold: the largest is the run.
fn others(device: &DeviceSample) -> Reading<Bytes> {
    device.processes.map(|list| {
        let held = |process: &DeviceProcess| process.memory.value().copied().unwrap_or(Bytes::ZERO);
        let all: Bytes = list.iter().map(held).sum();
        all.saturating_sub(list.iter().map(held).max().unwrap_or(Bytes::ZERO))
    })
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

fn of_process(sample: &Sample, attached: &AttachedProcess) -> RunMemory {
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
            let whose = MemoryOwner::Process { pid, device: Some(device) };
            RunMemory { whose, position: Some(position), memory, memory_peak: peak(&without), without }
        }
        (state, _) => {
            let awaited = matches!(state, AttachedState::Awaited | AttachedState::Missing);
            let without = if awaited { Absence::NotThere } else { Absence::Gone };
            let memory = Reading::Absent(without.clone());
            let whose = MemoryOwner::Process { pid, device: attached.device };
            RunMemory { whose, position: None, memory, memory_peak: peak(&without), without }
        }
    }
}

/// A log that was named, of a run that is not seen itself.
const fn of_log() -> RunMemory {
    RunMemory {
        whose: MemoryOwner::Log,
        position: None,
        memory: Reading::Absent(Absence::NotAttached),
        memory_peak: Reading::Absent(Absence::NotAttached),
        without: Absence::NotAttached,
    }
}

/// The device that holds most of what the plan has for its own stage.
fn of_fullest_device(monitor: &Monitor, prediction: &Prediction) -> Option<RunMemory> {
    // Among those that answer, by the peak, which only grows: the choice does not flicker between equals.
    let peak_of = |position: usize| monitor.peaks.get(position).copied().flatten();
    let used = |device: &DeviceSample| device.memory.map(|memory| memory.used);
    let devices = monitor.devices().len();
    let planned = |position: usize, device: &DeviceSample| {
        let told = monitor.cluster.stage_at(position).and_then(|stage| prediction.stages.get(stage));
        let stage = told.or_else(|| prediction.stage_of(device.index, devices));
        stage.unwrap_or_else(|| prediction.largest()).device_used.as_f64().max(1.0)
    };
    let share = |position: usize, device: &DeviceSample| {
        peak_of(position).map_or(0.0, |peak| peak.as_f64() / planned(position, device))
    };
    let answers = |device: &DeviceSample| device.memory.value().is_some();
    let (position, device) = monitor.run_devices().max_by(|(at, one), (beside, other)| {
        let shares = share(*at, one).total_cmp(&share(*beside, other));
        answers(one).cmp(&answers(other)).then(shares).then(beside.cmp(at))
    })?;
    let memory = used(device);
    let memory_peak = memory.map(|now| peak_of(position).unwrap_or(*now));
    let whose = MemoryOwner::Device { device: device.index };
    Some(RunMemory { whose, position: Some(position), memory, memory_peak, without: Absence::NotRead })
}
