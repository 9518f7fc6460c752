//! The demo: a training run of the loaded plan, made up from its prediction.
//!
//! It is as far from its plan as real runs are: some percent more memory, some
//! percent slower, one GPU hotter than its neighbours, now and then a power cap. The
//! readings are marked as the real source of such a GPU would mark them (a GPU
//! without GPM shows a bound, not a measured bandwidth); that nothing here was
//! measured at all is what [`SourceKind::Demo`] says, and the header with it.
//!
//! The same plan, seed and times always give the same samples.

mod board;
mod departure;
mod exhaustion;
mod noise;
mod report;
mod run;

use std::borrow::Cow;

pub use departure::{Departure, DepartureError};
use noise::{Channel, Noise};
use report::DemoReport;
use run::{DemoStep, GpuActivity, GpuWork, Memory, ProcessTimeline};

use super::Source;
use crate::catalog::{Generation, Gpu};
use crate::predict::Prediction;
use crate::reading::{
    Absence, DeviceMemory, DeviceProcess, DeviceSample, HostDetail, HostProcess, Moment, ProcessPlace, Reading, Sample,
    SourceInfo, SourceKind,
};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, GIB, Megahertz, Seconds, Watts};

/// GPUs of one node, which is what one dashboard watches.
const NODE: u64 = 8;
const SEED: u64 = 0x6d65_6d77_616c_6c00;
/// A run holds this much more than its plan.
const MORE_MEMORY: f64 = 1.01;
/// Above the largest pid that Linux gives out (2^22), so that none of these is ever a real process.
const FIRST_PID: u32 = 4_200_000;
/// Data loaders of each process.
const LOADERS: u32 = 2;
/// How fast a GPU warms up: seconds to cover 63 % of the way.
const WARMING: f64 = 45.0;
/// Board power and clock where the catalogue has none.
const USUAL_TDP: Watts = Watts(300.0);
const USUAL_CLOCK: Megahertz = Megahertz(1700.0);
/// Length of the stretches in which a power cap may bite, in seconds.
const CAP_STRETCH: f64 = 20.0;

/// A simulated training run of a plan.
#[derive(Debug)]
pub struct Demo {
    gpus: Vec<DemoGpu>,
    card: Gpu,
    step: DemoStep,
    compute_peak: f64,
    timeline: ProcessTimeline,
    noise: Noise,
    told: DemoReport,
    /// What a GPU should draw on average.
    power: Option<Watts>,
    detail: String,
    start: Option<Moment>,
    head_start: f64,
    previous: Option<f64>,
}

/// One GPU of the node.
#[derive(Debug)]
struct DemoGpu {
    index: u32,
    memory: Memory,
    /// Degrees above its neighbours.
    hotter: f64,
}

/// What all parts of one device's sample are made from.
struct Tick {
    at: Moment,
    seconds: f64,
    doing: GpuActivity,
    process: u32,
    rate: GpuWork,
}

impl Demo {
    /// The process of the first GPU as the run begins.
    pub const FIRST_PID: u32 = FIRST_PID;

    /// The run of the plan behind `prediction`, on as many of `card` as one node holds.
    #[must_use]
    pub fn new(prediction: &Prediction, card: &Gpu) -> Self {
        let step = DemoStep::of(prediction, card.bandwidth);
        let capacity = prediction.capacity.bytes.min(card.memory);
        // A plan that fits on paper must not run out of memory through a simulated deviation.
        let fits = prediction.capacity.needed <= capacity;
        let limit = fits.then(|| Bytes::from_f64(capacity.as_f64() * 0.995));
        let noise = Noise::new(SEED);
        let gpus: Vec<DemoGpu> = node(prediction)
            .filter_map(|(index, stage)| {
                let factor = MORE_MEMORY + 0.003 * noise.in_bucket(index, Channel::Card, 0);
                let memory = Memory::of(prediction.stages.get(stage)?, factor, &step, limit);
                Some(DemoGpu { index, memory, hotter: 2.0 * noise.in_bucket(index, Channel::Card, 1) })
            })
            .collect();
        let exceeds = gpus.iter().filter(|_| !fits).filter_map(|gpu| gpu.memory.exceeds(capacity));
        let fails_after = exceeds.min_by(f64::total_cmp);
        let mut demo = Self {
            gpus,
            card: card.clone(),
            step,
            compute_peak: prediction.roofline.peak.0,
            timeline: ProcessTimeline { fails_after },
            noise,
            told: DemoReport::of(prediction),
            power: prediction.time.power,
            detail: "a simulated run of the plan".to_owned(),
            start: None,
            head_start: 0.0,
            previous: None,
        };
        // Every rack has its hot spot.
        let hottest = demo.gpus.len() * 2 / 3;
        if let Some(gpu) = demo.gpus.get_mut(hottest) {
            gpu.hotter = 9.0;
        }
        demo
    }

    /// The same run with a leak that fills the GPU within so long a time.
    #[must_use]
    pub fn leaking(mut self, within: Seconds) -> Self {
        let capacity = self.card.memory;
        let leaks = |gpu: DemoGpu| DemoGpu { memory: gpu.memory.leaking(capacity, within.0), ..gpu };
        self.gpus = self.gpus.into_iter().map(leaks).collect();
        let exceeds = self.gpus.iter().filter_map(|gpu| gpu.memory.exceeds(capacity));
        self.timeline = ProcessTimeline { fails_after: exceeds.min_by(f64::total_cmp) };
        self
    }

    /// The same run with other chance events.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.noise = Noise::new(seed);
        self
    }

    /// The same run, met after it has been going on for so long.
    #[must_use]
    pub fn after(mut self, running: Seconds) -> Self {
        self.head_start = running.0;
        self
    }

    /// The same run, with the reason why it is shown instead of real devices.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        self.detail = why.to_owned();
        self
    }

    /// Seconds since the demo began, and the rates of work since the sample before.
    fn instant(&mut self, at: Moment) -> Tick {
        let start = *self.start.get_or_insert(at);
        let seconds = at.since(start).0 + self.head_start;
        let (process, _, doing) = self.timeline.at(seconds);
        // Counters are read twice, and what they say is the mean between.
        let window = self.previous.map_or(1.0, |previous| seconds - previous).clamp(0.05, 60.0);
        self.previous = Some(seconds);
        let rate = match doing {
            GpuActivity::Stepping(stepping) => {
                let (now, before) = (self.step.work(stepping), self.step.work(stepping - window));
                GpuWork { bytes: (now.bytes - before.bytes) / window, flops: (now.flops - before.flops) / window }
            }
            GpuActivity::Loading(_) | GpuActivity::Nothing => GpuWork::default(),
        };
        Tick { at, seconds, doing, process, rate }
    }

    /// Whether the power cap bites on this GPU now.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn capped(&self, gpu: &DemoGpu, now: &Tick) -> bool {
        matches!(now.doing, GpuActivity::Stepping(_))
            && self.noise.in_bucket(gpu.index, Channel::Cap, (now.seconds / CAP_STRETCH) as u64) > 0.96
    }

    fn device(&self, gpu: &DemoGpu, now: &Tick) -> DeviceSample {
        let at = now.at;
        let used = gpu.memory.at(now.doing).min(self.card.memory);
        let memory = DeviceMemory { total: self.card.memory, used, free: self.card.memory.saturating_sub(used) };
        let mut sample = DeviceSample {
            index: gpu.index,
            name: Reading::measured(self.card.name.clone(), at),
            uuid: Reading::measured(format!("{}{}", DeviceSample::SIMULATED, gpu.index), at),
            memory: Reading::measured(memory, at),
            dram_peak: Reading::estimated(self.card.bandwidth, at),
            // The catalogue does not know it, and a simulated figure would explain nothing.
            memory_clock: Reading::Absent(Absence::NotSupported),
            processes: Reading::measured(process_on(gpu, now, used), at),
            ..DeviceSample::default()
        };
        self.put_activity(&mut sample, gpu, now);
        self.put_power(&mut sample, gpu, now);
        board::put(self, &mut sample, gpu.index, now);
        sample
    }

    /// Utilization, bandwidth, matrix units: what the GPU's generation has of them.
    fn put_activity(&self, sample: &mut DeviceSample, gpu: &DemoGpu, now: &Tick) {
        let at = now.at;
        let peak = self.card.bandwidth.0;
        let noise = |channel, period| self.noise.at(gpu.index, channel, now.seconds, period);
        let working = matches!(now.doing, GpuActivity::Stepping(_));
        let slowed = if self.capped(gpu, now) { 0.95 } else { 1.0 };
        let moved = (now.rate.bytes * slowed * (1.0 + 0.02 * noise(Channel::Bandwidth, 2.5))).min(0.94 * peak);
        let tensor = now.rate.flops * slowed * (1.0 + 0.015 * noise(Channel::Tensor, 3.5)) / self.compute_peak;
        let active = if working { 0.93 + 0.03 * noise(Channel::Activity, 3.0) } else { 0.0 };
        // Busy counts any time with a request in flight: more than the share of peak.
        let memory_busy = (moved / peak / 0.9).clamp(0.0, 1.0);
        let whole_percent = |share: f64| Fraction::from_percent((share * 100.0).round());
        let busy = if working { (0.985 + 0.02 * noise(Channel::Activity, 5.0)).min(1.0) } else { 0.0 };
        sample.busy = Reading::measured(whole_percent(busy), at);
        sample.memory_busy = Reading::measured(whole_percent(memory_busy), at);
        if has_counters(self.card.generation) {
            sample.sm_activity = Reading::measured(Fraction(active), at);
            sample.tensor_activity = Reading::measured(Fraction(tensor.clamp(0.0, 1.0)), at);
            sample.dram_bandwidth = Reading::measured(BytesPerSec(moved), at);
        } else {
            sample.sm_activity = Reading::Absent(Absence::NotSupported);
            sample.tensor_activity = Reading::Absent(Absence::NotSupported);
            sample.dram_bandwidth = Reading::upper_bound(BytesPerSec(whole_percent(memory_busy).0 * peak), at);
        }
    }

    /// Power, temperature, clocks and what holds them down.
    fn put_power(&self, sample: &mut DeviceSample, gpu: &DemoGpu, now: &Tick) {
        let at = now.at;
        let limit = self.card.tdp.unwrap_or(USUAL_TDP).0;
        let clock = self.card.max_sm_clock.or(self.card.boost_clock).unwrap_or(USUAL_CLOCK).0;
        let capped = self.capped(gpu, now);
        let idle = 0.12 * limit;
        let power = match now.doing {
            GpuActivity::Nothing => idle,
            GpuActivity::Loading(_) => 0.2 * limit,
            GpuActivity::Stepping(_) if capped => 0.995 * limit,
            GpuActivity::Stepping(_) => {
                let mean = self.step.mean();
                let moving = (now.rate.bytes - mean.bytes) / self.card.bandwidth.0;
                let computing = (now.rate.flops - mean.flops) / self.compute_peak;
                let share = self.power.map_or(0.85, |power| 0.97 * power.0 / limit) + 0.5 * computing + 0.25 * moving;
                let noise = 0.02 * self.noise.at(gpu.index, Channel::Power, now.seconds, 4.0);
                (share + noise).clamp(0.15, 0.97) * limit
            }
        };
        // Warms towards its load's temperature as a body with one time constant does.
        let (resting, loaded) = (33.0, 62.0 + gpu.hotter);
        let warmed = match now.doing {
            GpuActivity::Stepping(seconds) => 1.0 - (-seconds / WARMING).exp(),
            GpuActivity::Loading(_) | GpuActivity::Nothing => 0.0,
        };
        let share_of_clock = match now.doing {
            GpuActivity::Nothing => 0.18,
            GpuActivity::Loading(_) => 0.9,
            GpuActivity::Stepping(_) if capped => 0.85,
            GpuActivity::Stepping(_) => 0.94 + 0.01 * self.noise.at(gpu.index, Channel::Power, now.seconds, 6.0),
        };
        let steps_of_15 = |megahertz: f64| Megahertz((megahertz / 15.0).round() * 15.0);
        sample.power = Reading::measured(Watts(power.round()), at);
        sample.power_limit = Reading::measured(Watts(limit), at);
        sample.temperature = Reading::measured(Celsius((resting + (loaded - resting) * warmed).round()), at);
        sample.sm_clock = Reading::measured(steps_of_15(clock * share_of_clock), at);
        sample.sm_clock_max = Reading::measured(Megahertz(clock), at);
        let reasons = if capped { vec![Cow::Borrowed("power cap")] } else { Vec::new() };
        sample.throttle = Reading::measured(reasons, at);
    }

    fn host(&self, gpu: &DemoGpu, now: &Tick) -> HostProcess {
        let at = now.at;
        let (_, started, _) = self.timeline.at(now.seconds);
        let ago_millis = ((now.seconds - started) * 1000.0).max(0.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let started = at.0.saturating_sub(ago_millis as u64) / 1000;
        let cpu = 1.04 + 0.06 * self.noise.at(gpu.index, Channel::Host, now.seconds, 3.0);
        HostProcess {
            pid: pid_on(gpu, now),
            // There is no such process: whatever is said of it is invented.
            started: Reading::estimated(started, at),
            name: Reading::estimated("python".to_owned(), at),
            command: Reading::estimated(self.told.command().to_owned(), at),
            user: Reading::estimated("demo".to_owned(), at),
            cpu: Reading::estimated(Fraction(cpu), at),
            resident: Reading::estimated(Bytes(6 * GIB + u64::from(gpu.index) * 37 * (GIB >> 10)), at),
            detail: HostDetail {
                threads: Reading::estimated(118, at),
                read: Reading::estimated(BytesPerSec(4e6), at),
                written: Reading::estimated(BytesPerSec(0.0), at),
                place: Reading::estimated(ProcessPlace::Host, at),
                swapped: Reading::estimated(Bytes::ZERO, at),
            },
            ..HostProcess::default()
        }
    }

    /// Processes that feed a GPU's own with data.
    fn loaders(&self, gpu: &DemoGpu, now: &Tick) -> Vec<HostProcess> {
        let parent = self.host(gpu, now);
        (0..LOADERS)
            .map(|number| HostProcess {
                pid: parent.pid + 100_000 * (number + 1),
                parent: Some(parent.pid),
                command: Reading::estimated("pt_data_worker (demo)".to_owned(), now.at),
                cpu: parent.cpu.map(|cpu| Fraction(cpu.0 * 0.4)),
                resident: parent.resident.map(|bytes| Bytes(bytes.0 / 8)),
                detail: HostDetail { threads: Reading::estimated(2, now.at), ..parent.detail.clone() },
                ..parent.clone()
            })
            .collect()
    }
}

impl Source for Demo {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Demo, detail: self.detail.clone() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let now = self.instant(now);
        let runs = now.doing != GpuActivity::Nothing;
        Sample {
            at: now.at,
            devices: self.gpus.iter().map(|gpu| self.device(gpu, &now)).collect(),
            processes: self.gpus.iter().filter(|_| runs).map(|gpu| self.host(gpu, &now)).collect(),
            children: self.gpus.iter().filter(|_| runs).flat_map(|gpu| self.loaders(gpu, &now)).collect(),
            progress: self.told.at(&now, self.step.seconds(), self.gpus.first()).map(Box::new),
            out_of_memory: self.ran_out(&now).map(Box::new),
            ..Sample::default()
        }
    }
}

/// The GPUs of the node that holds the stage with the most memory, each with the index of its
/// stage. Stages are the slowest to change along the ranks, as Megatron orders them.
fn node(prediction: &Prediction) -> impl Iterator<Item = (u32, usize)> {
    let total = prediction.num_gpus.max(1);
    let stages = (prediction.stages.len() as u64).max(1);
    let in_node = total.min(NODE);
    let first = (prediction.largest_stage as u64 * total / stages / in_node * in_node).min(total - in_node);
    let last_stage = prediction.stages.len().saturating_sub(1);
    (0_u32..).zip(first..first + in_node).map(move |(index, rank)| {
        let stage = usize::try_from(rank * stages / total).unwrap_or(last_stage);
        (index, stage.min(last_stage))
    })
}

/// Hopper was the first with counters for bandwidth and matrix units (GPM).
const fn has_counters(generation: Generation) -> bool {
    matches!(generation, Generation::Hopper | Generation::Blackwell)
}

fn pid_on(gpu: &DemoGpu, now: &Tick) -> u32 {
    pid_of(gpu, now.process)
}

/// The process of that number on a GPU.
const fn pid_of(gpu: &DemoGpu, process: u32) -> u32 {
    FIRST_PID + process.wrapping_mul(16) % 1_000_000 + gpu.index
}

fn process_on(gpu: &DemoGpu, now: &Tick, used: Bytes) -> Vec<DeviceProcess> {
    if now.doing == GpuActivity::Nothing {
        return Vec::new();
    }
    let process = DeviceProcess::holding(pid_on(gpu, now), Reading::measured(used, now.at));
    let share = if matches!(now.doing, GpuActivity::Stepping(_)) { 0.98 } else { 0.0 };
    vec![DeviceProcess { busy: Reading::measured(Fraction(share), now.at), ..process }]
}

#[cfg(test)]
pub(crate) mod tests;
