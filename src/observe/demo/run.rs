//! The simulated run itself: what one GPU does at a time after the start of its process.

use crate::predict::{Phase, Prediction, StageMemory, TimelinePoint};
use crate::units::{Bytes, BytesPerSec};

/// Reading the checkpoint and building the model.
const LOADING: f64 = 10.0;
/// The first step allocates what later ones reuse. Nobody waits longer than this for it in a demo.
const LONGEST_FIRST_STEP: f64 = 30.0;
/// A run is slower than its plan by this much.
const SLOWER: f64 = 1.06;
/// The optimizer streams its states at this share of peak bandwidth.
const STREAMING: f64 = 0.85;

/// A part of a step: how long it takes, and what it moves and computes.
#[derive(Debug, Clone, Copy)]
struct Part {
    seconds: f64,
    bytes: f64,
    flops: f64,
}

/// Work that a GPU has done since its first step began.
#[derive(Debug, Clone, Copy, Default)]
pub struct GpuWork {
    /// DRAM traffic in bytes.
    pub bytes: f64,
    /// Operations.
    pub flops: f64,
}

/// One step as the run does it: forward, backward, optimizer.
#[derive(Debug, Clone, Copy)]
pub struct DemoStep {
    parts: [Part; 3],
}

impl DemoStep {
    /// The predicted step, slowed down. Phases share the predicted traffic and operations so
    /// that a whole step has exactly the predicted amounts.
    pub fn of(prediction: &Prediction, peak: BytesPerSec) -> Self {
        let predicted = prediction.time.step.0;
        // A plan may leave the step time open; the demo still has to move.
        let whole = if predicted.is_finite() && predicted > 0.0 { predicted } else { 1.0 };
        let traffic = prediction.traffic.total().as_f64();
        let states = prediction.traffic.optimizer_states.as_f64();
        let optimizer = (states / (STREAMING * peak.0)).clamp(0.0, 0.3 * whole);
        let (forward, backward) = (prediction.flops.forward.0, prediction.flops.backward.0);
        let both = forward + backward;
        let share = if both > 0.0 { forward / both } else { 1.0 / 3.0 };
        let rest = whole - optimizer;
        let part = |seconds: f64, bytes: f64, flops: f64| Part { seconds: seconds * SLOWER, bytes, flops };
        Self {
            parts: [
                part(rest * share, (traffic - states) * share, forward),
                part(rest * (1.0 - share), (traffic - states) * (1.0 - share), backward),
                part(optimizer, states, 0.0),
            ],
        }
    }

    /// How long it takes.
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(|part| part.seconds).sum()
    }

    /// Work of a second, on average.
    pub fn mean(&self) -> GpuWork {
        let whole = self.work(self.seconds());
        GpuWork { bytes: whole.bytes / self.seconds(), flops: whole.flops / self.seconds() }
    }

    /// Work done after `seconds` of stepping.
    pub fn work(&self, seconds: f64) -> GpuWork {
        let seconds = seconds.max(0.0);
        let whole_steps = (seconds / self.seconds()).floor();
        let mut left = seconds - whole_steps * self.seconds();
        let mut work = GpuWork::default();
        for part in &self.parts {
            let share = if part.seconds > 0.0 { (left / part.seconds).clamp(0.0, 1.0) } else { 0.0 };
            left -= part.seconds;
            work.bytes += part.bytes * (whole_steps + share);
            work.flops += part.flops * (whole_steps + share);
        }
        work
    }
}

/// What a GPU is about at some moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GpuActivity {
    /// No process: the last one ran out of memory, the next has not started.
    Nothing,
    /// Reading and building; the share of it that is done.
    Loading(f64),
    /// Training, for so many seconds.
    Stepping(f64),
}

impl GpuActivity {
    /// What a process does that started so many seconds ago.
    pub fn at(age: f64) -> Self {
        if age < LOADING { Self::Loading(age / LOADING) } else { Self::Stepping(age - LOADING) }
    }
}

/// Memory of one GPU's process over the run.
#[derive(Debug, Clone)]
pub struct Memory {
    built: f64,
    /// Highest bytes up to each of these points of the first step, evenly spaced in time.
    first_step: Vec<f64>,
    first_step_seconds: f64,
    step_seconds: f64,
    limit: Option<f64>,
    /// What the driver charges beside what PyTorch's allocator holds.
    beside: f64,
    /// What is in tensors between steps, and the most within one.
    left: f64,
    allocated: f64,
    /// Bytes a second that are never given back.
    leak: f64,
}

impl Memory {
    /// The memory of `stage`, `factor` times what was predicted. A plan that fits keeps fitting:
    /// `limit` caps it then.
    pub fn of(stage: &StageMemory, factor: f64, step: &DemoStep, limit: Option<Bytes>) -> Self {
        let beside = stage.device_used.saturating_sub(stage.peak_allocated);
        let scaled = |allocated: Bytes| (allocated + beside).as_f64() * factor;
        let mut highest = scaled(stage.static_bytes.min(stage.peak_allocated));
        let built = highest;
        let mut first_step: Vec<f64> = in_order(&stage.timeline)
            .map(|point| {
                highest = highest.max(scaled(point.allocated.min(stage.peak_allocated)));
                highest
            })
            .collect();
        // What the prediction puts at the peak, the run reaches, whatever its timeline samples.
        first_step.push(stage.device_used.as_f64() * factor);
        Self {
            built,
            first_step,
            first_step_seconds: step.seconds().min(LONGEST_FIRST_STEP),
            step_seconds: step.seconds(),
            limit: limit.map(Bytes::as_f64),
            beside: stage.device_used.saturating_sub(stage.peak_reserved).as_f64() * factor,
            left: stage.static_bytes.as_f64() * factor,
            allocated: stage.peak_allocated.as_f64() * factor,
            leak: 0.0,
        }
    }

    /// The same with a leak that fills `capacity` within `seconds` of stepping; what it then has is all that
    /// there is.
    pub fn leaking(mut self, capacity: Bytes, seconds: f64) -> Self {
        let most = self.first_step.last().copied().unwrap_or(self.built);
        self.leak = (capacity.as_f64() - most).max(0.0) / seconds;
        self.limit = None;
        self
    }

    /// By how much the first request that does not fit `capacity` is beyond it; none where only a leak fills that.
    pub fn beyond(&self, capacity: Bytes) -> Option<Bytes> {
        let points = std::iter::once(&self.built).chain(&self.first_step);
        points
            .map(|bytes| Bytes::from_f64(*bytes))
            .find(|bytes| *bytes > capacity)
            .map(|bytes| bytes.saturating_sub(capacity))
    }

    /// What PyTorch's allocator holds, the most that was in tensors, and what is between steps.
    pub fn counted(&self, doing: GpuActivity) -> [Bytes; 3] {
        let reserved = (self.at(doing).as_f64() - self.beside).max(0.0);
        let leaked = self.leaked(doing);
        [reserved, (self.allocated + leaked).min(reserved), (self.left + leaked).min(reserved)].map(Bytes::from_f64)
    }

    fn leaked(&self, doing: GpuActivity) -> f64 {
        if let GpuActivity::Stepping(seconds) = doing { self.leak * seconds } else { 0.0 }
    }

    /// What the driver charges to the process.
    ///
    /// It grows through the first step and then stays: PyTorch keeps what it has reserved, so
    /// the driver never sees the ups and downs within a step. Fragmentation adds a little later on.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn at(&self, doing: GpuActivity) -> Bytes {
        let bytes = match doing {
            GpuActivity::Nothing => 0.0,
            GpuActivity::Loading(share) => self.built * share,
            GpuActivity::Stepping(seconds) if seconds < self.first_step_seconds => {
                let position = seconds / self.first_step_seconds * self.first_step.len() as f64;
                self.first_step.get(position as usize).copied().unwrap_or(self.built)
            }
            GpuActivity::Stepping(seconds) => {
                let steps = seconds / self.step_seconds;
                let grown = if steps < 20.0 {
                    1.0
                } else if steps < 60.0 {
                    1.004
                } else {
                    1.006
                };
                self.first_step.last().copied().unwrap_or(self.built) * grown + self.leaked(doing)
            }
        };
        Bytes::from_f64(self.limit.map_or(bytes, |limit| bytes.min(limit)))
    }

    /// When it first exceeds `capacity`, in seconds after the start of the process.
    pub fn exceeds(&self, capacity: Bytes) -> Option<f64> {
        if self.built > capacity.as_f64() {
            return Some(LOADING * capacity.as_f64() / self.built);
        }
        let points = self.first_step.len() as f64;
        let most = self.first_step.last().copied().unwrap_or(self.built);
        if self.leak > 0.0 && most < capacity.as_f64() {
            return Some(LOADING + (capacity.as_f64() - most) / self.leak);
        }
        let at = self.first_step.iter().position(|&bytes| bytes > capacity.as_f64())?;
        Some(LOADING + self.first_step_seconds * at as f64 / points)
    }
}

/// A timeline in the order of a step, whatever the order of its list.
fn in_order(timeline: &[TimelinePoint]) -> impl Iterator<Item = &TimelinePoint> {
    [Phase::Forward, Phase::Backward, Phase::Optimizer]
        .into_iter()
        .flat_map(|phase| timeline.iter().filter(move |point| point.phase == phase))
}

/// When processes start and end: once and for all where the plan fits, again and again, as a
/// launcher restarts it, where it runs out of memory.
#[derive(Debug, Clone, Copy)]
pub struct ProcessTimeline {
    /// Seconds from the start of a process to its end.
    pub fails_after: Option<f64>,
}

impl ProcessTimeline {
    const RESTART: f64 = 12.0;

    /// Which process it is, when it started, and what it does, at `seconds` into the demo.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn at(self, seconds: f64) -> (u32, f64, GpuActivity) {
        let Some(life) = self.fails_after else { return (0, 0.0, GpuActivity::at(seconds)) };
        let round = life + Self::RESTART;
        let number = (seconds / round).floor();
        let age = seconds - number * round;
        (number as u32, number * round, if age < life { GpuActivity::at(age) } else { GpuActivity::Nothing })
    }
}
