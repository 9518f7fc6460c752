//! What the run tells, how it compares with its plan, and what follows from that.

use super::families as f;
use super::gpus::flag;
use crate::app::{Gravity, State, run_verdict};
use crate::compare::{Comparison, Forecast, Residual, RunPhase};
use crate::reading::{Progress, ProgressSource, Reading};
use crate::report::metrics::{MetricFamily, MetricsPage};

/// Explanations that are exported at most: those after them nobody acts on.
const CAUSES: usize = 3;

/// Adds what the run itself tells: its log, its hook, or the rhythm of its GPU.
pub fn put_progress(page: &mut MetricsPage, state: &State, run: &str) {
    let Some((pid, progress)) = state.run.telemetry.progress(&state.monitor, state.now) else { return };
    let pid = pid.map_or_else(String::new, |pid| pid.to_string());
    let (told_by, format) = match progress.told_by {
        ProgressSource::Nobody => ("", ""),
        ProgressSource::Log(format) => ("log", format.name()),
        ProgressSource::Hook => ("hook", ""),
        ProgressSource::Rhythm => ("rhythm", ""),
    };
    let is_over = state.run.telemetry.ended(&state.monitor, state.now).is_some();
    let is_paused = state.run.telemetry.pause(&state.monitor, state.now).is_some();
    let phase = match state.run.telemetry.phases().phase(state.now) {
        _ if is_over => "ended",
        RunPhase::Untold => "",
        RunPhase::WarmingUp if is_paused => "between_steps",
        RunPhase::WarmingUp => "warming_up",
        RunPhase::Steady => "steady",
        RunPhase::Between => "between_steps",
    };
    let labels = [("run", run), ("pid", &pid), ("told_by", told_by), ("format", format), ("phase", phase)];
    page.put(&f::RUN_INFO, &labels, 1.0);
    let mut series = RunSeries { page, run };
    series.progress(&progress);
    if !is_over {
        series.pace(&progress);
    }
    let left = state.run.telemetry.remaining(&progress, &state.monitor, state.now);
    series.known(&f::RUN_REMAINING, &left, |time| time.0);
}

/// Adds what is made of it: only where the GPUs were read just now.
pub fn put_judgement(page: &mut MetricsPage, state: &State, run: &str) {
    let mut series = RunSeries { page, run };
    series.verdict(state);
    if let Some(comparison) = &state.run.comparison {
        series.comparison(comparison);
    }
    series.causes(state);
    series.forecast(state);
}

/// The series of the run.
struct RunSeries<'a> {
    page: &'a mut MetricsPage,
    run: &'a str,
}

impl RunSeries<'_> {
    fn put(&mut self, family: &MetricFamily, value: f64) {
        self.page.put(family, &[("run", self.run)], value);
    }

    fn known<T>(&mut self, family: &MetricFamily, reading: &Reading<T>, number: impl Fn(&T) -> f64) {
        if let Some(value) = reading.value() {
            self.put(family, number(value));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.known(&f::RUN_STEPS, &progress.step, |steps| *steps as f64);
        self.known(&f::RUN_TARGET_STEPS, &progress.total_steps, |steps| *steps as f64);
        self.known(&f::RUN_EPOCHS, &progress.epoch, |epochs| *epochs);
        self.known(&f::RUN_LOSS, &progress.loss, |loss| *loss);
        self.known(&f::RUN_GRADIENT_NORM, &progress.grad_norm, |norm| *norm);
        self.known(&f::RUN_PEAK_ALLOCATED, &progress.peak_allocated, |bytes| bytes.as_f64());
        self.known(&f::RUN_PEAK_RESERVED, &progress.peak_reserved, |bytes| bytes.as_f64());
    }

    /// What it does now: one that is over makes no tokens and holds nothing.
    fn pace(&mut self, progress: &Progress) {
        self.known(&f::RUN_STEP_DURATION, &progress.step_time, |time| time.0);
        self.known(&f::RUN_TOKENS, &progress.tokens_per_s, |rate| rate.0);
        self.known(&f::RUN_GPU_TOKENS, &progress.tokens_per_s_per_gpu, |rate| rate.0);
        self.known(&f::RUN_SAMPLES, &progress.samples_per_s, |rate| *rate);
        self.known(&f::RUN_MFU, &progress.mfu, |share| share.0);
        self.known(&f::RUN_ALLOCATED, &progress.allocated, |bytes| bytes.as_f64());
    }

    fn verdict(&mut self, state: &State) {
        let verdict = run_verdict(state);
        let gravity = match verdict.gravity {
            Gravity::Good => "good",
            Gravity::Quiet => "quiet",
            Gravity::Warning => "warning",
            Gravity::Danger => "danger",
        };
        let labels = [("run", self.run), ("verdict", verdict.subject()), ("gravity", gravity)];
        self.page.put(&f::RUN_VERDICT, &labels, 1.0);
    }

    fn comparison(&mut self, comparison: &Comparison) {
        self.put(&f::RUN_OFF_PLAN, flag(comparison.is_notable()));
        self.residual("device_memory", &comparison.memory);
        self.residual("reserved_memory", &comparison.reserved);
        self.residual("allocated_memory", &comparison.allocated);
        self.residual("dram_bandwidth", &comparison.bandwidth);
        self.residual("compute", &comparison.compute);
        self.residual("step_duration", &comparison.step);
        if let Some(power) = &comparison.power {
            self.residual("power", power);
        }
        if let Some(tokens) = &comparison.tokens {
            self.residual("tokens", tokens);
        }
        if let Some(mfu) = &comparison.mfu {
            self.residual("mfu", mfu);
        }
    }

    /// A distance that says nothing, such as that of a bound above the prediction, is left out.
    fn residual<T>(&mut self, quantity: &str, residual: &Residual<T>) {
        let labels = [("run", self.run), ("quantity", quantity)];
        if let Some(relative) = residual.relative.filter(|_| residual.conclusive) {
            self.page.put(&f::RUN_DEVIATION, &labels, relative);
            self.page.put(&f::RUN_DEVIATION_OUTSIDE, &labels, flag(residual.notable));
        }
    }

    fn causes(&mut self, state: &State) {
        for explanation in state.run.explaining.found.iter().take(CAUSES) {
            let fits = if explanation.fits { "true" } else { "false" };
            let labels = [("run", self.run), ("cause", &*explanation.words()), ("fits", fits)];
            self.page.put(&f::RUN_CAUSE, &labels, explanation.share.0);
        }
        let Some(cause) = state.run.telemetry.step_cause(&state.monitor, state.now) else { return };
        let stalls = if cause.stalls { "true" } else { "false" };
        let activity = cause.activity.word();
        let labels = [("run", self.run), ("cause", &*cause.words), ("activity", activity), ("stalls", stalls)];
        self.page.put(&f::RUN_STEP_CAUSE, &labels, 1.0);
        if let Some(lost) = cause.lost {
            self.put(&f::RUN_STEP_LOST, lost.0);
        }
    }

    fn forecast(&mut self, state: &State) {
        match state.run.outlook.memory {
            Forecast::TooShort => {}
            Forecast::Flat => self.put(&f::RUN_MEMORY_GROWTH, 0.0),
            Forecast::Growing(growth) => {
                self.put(&f::RUN_MEMORY_GROWTH, growth.rate.0);
                self.put(&f::RUN_MEMORY_FULL, growth.left.0);
            }
        }
        if let Some(headroom) = state.run.outlook.headroom {
            self.put(&f::RUN_MEMORY_HEADROOM, headroom.as_f64());
        }
    }
}
