//! What each rank of the run tells, and what the plan predicts of its stage.

use std::collections::BTreeMap;

use super::families as f;
use crate::app::State;
use crate::predict::{Component, Prediction, StageMemory};
use crate::reading::{HookAbout, HookMemory, HookPlaces, HookStep, HookedRun};
use crate::report::metrics::{MetricFamily, MetricsPage};
use crate::units::Bytes;

/// A rank of the run on this machine.
struct Rank<'a> {
    pid: u32,
    hook: Option<&'a HookedRun>,
    /// Its GPU's label and UUID, and what its process holds there.
    gpu: Option<(String, &'a str, Option<Bytes>)>,
}

/// Adds the ranks. `prediction`: of the plan that the run is compared with; `seen`: the GPUs were read just now.
pub fn put(page: &mut MetricsPage, state: &State, run: &str, prediction: Option<&Prediction>, seen: bool) {
    for (number, rank) in ranks(state) {
        let (number_text, pid) = (number.to_string(), rank.pid.to_string());
        let (gpu, uuid) = rank.gpu.as_ref().map_or(("", ""), |(gpu, uuid, _)| (gpu.as_str(), *uuid));
        let labels = [("run", run), ("rank", &number_text), ("gpu", gpu), ("uuid", uuid)];
        let mut series = RankSeries { page: &mut *page, labels };
        series.labelled(&f::RANK_INFO, ("pid", &pid), 1.0);
        if let Some(held) = rank.gpu.as_ref().and_then(|(.., held)| *held).filter(|_| seen) {
            series.bytes(&f::RANK_DEVICE_MEMORY, held);
        }
        let about = rank.hook.and_then(|hook| hook.about.as_ref());
        if let Some(hook) = rank.hook {
            series.hook(hook);
        }
        let world = about.and_then(|about| about.world);
        if let Some(stage) = prediction.and_then(|prediction| stage_of(prediction, number, world)) {
            series.predicted(stage);
        }
    }
}

/// The stage that a rank holds: only where nobody has to guess how many ranks there are.
fn stage_of(prediction: &Prediction, rank: u32, world: Option<u32>) -> Option<&StageMemory> {
    prediction.stage_of(rank, world.map_or(0, |world| world as usize))
}

/// The ranks of the followed run by their numbers: those that its hooks tell of, else the launcher's processes, else
/// the attached process alone.
fn ranks(state: &State) -> BTreeMap<u32, Rank<'_>> {
    let (telemetry, monitor) = (&state.run.telemetry, &state.monitor);
    let mut pids: BTreeMap<u32, (u32, Option<&HookedRun>)> = BTreeMap::new();
    if telemetry.news.pid == monitor.attached_by_user() {
        pids.extend(telemetry.news.ranks.iter().map(|rank| (rank.rank, (rank.pid, None))));
    }
    for hook in telemetry.hooked_ranks(monitor, state.now) {
        let number = hook.about.as_ref().and_then(|about| about.rank).or_else(|| hook.places.as_ref()?.rank);
        pids.insert(number.unwrap_or(0), (hook.pid, Some(hook)));
    }
    // One that nobody has seen is no rank: it may be that no process has that number. Nor is one that is gone.
    if pids.is_empty() && telemetry.ended(monitor, state.now).is_none() {
        let seen = monitor.attached.as_ref().filter(|attached| attached.is_known());
        pids.extend(seen.map(|attached| (0, (monitor.here(attached.pid), None))));
    }
    pids.into_iter().map(|(number, (pid, hook))| (number, Rank { pid, hook, gpu: gpu_of(state, pid) })).collect()
}

/// The GPU on which a process holds most.
fn gpu_of(state: &State, pid: u32) -> Option<(String, &str, Option<Bytes>)> {
    let held = state.monitor.devices().iter().flat_map(|device| {
        let processes = device.processes.value().into_iter().flatten();
        processes.map(move |process| (device, process))
    });
    let own = held.filter(|(_, process)| state.monitor.here(process.pid) == pid);
    let (device, process) = own.max_by_key(|(_, process)| process.memory.value().copied())?;
    let uuid = device.uuid.value().map_or("", String::as_str);
    Some((device.label(), uuid, process.memory.value().copied()))
}

/// The series of one rank.
struct RankSeries<'a> {
    page: &'a mut MetricsPage,
    labels: [(&'a str, &'a str); 4],
}

impl RankSeries<'_> {
    fn put(&mut self, family: &MetricFamily, value: f64) {
        self.page.put(family, &self.labels, value);
    }

    fn bytes(&mut self, family: &MetricFamily, bytes: Bytes) {
        self.put(family, bytes.as_f64());
    }

    fn labelled(&mut self, family: &MetricFamily, more: (&str, &str), value: f64) {
        let labels: Vec<(&str, &str)> = self.labels.iter().copied().chain([more]).collect();
        self.page.put(family, &labels, value);
    }

    fn hook(&mut self, hook: &HookedRun) {
        if let Some(step) = &hook.step {
            self.step(step);
        }
        if let Some(rate) = hook.progress().tokens_per_s_per_gpu.value() {
            self.put(&f::RANK_TOKENS, rate.0);
        }
        if let Some(about) = hook.about.as_ref().filter(|about| about.device != "cpu") {
            self.components(about);
        }
        if let Some(places) = &hook.places {
            self.places(places);
        }
    }

    fn step(&mut self, step: &HookStep) {
        self.put(&f::RANK_STEPS, step.step as f64);
        if let Some(time) = step.step_time.value() {
            self.put(&f::RANK_STEP_DURATION, time.0);
        }
        // Of a process on the CPU nobody counts tensors.
        if step.memory != HookMemory::Allocator {
            return;
        }
        for (family, reading) in [
            (&f::RANK_ALLOCATED, &step.allocated),
            (&f::RANK_RESERVED, &step.reserved),
            (&f::RANK_PEAK_ALLOCATED, &step.peak_allocated),
            (&f::RANK_PEAK_RESERVED, &step.peak_reserved),
        ] {
            if let Some(bytes) = reading.value() {
                self.bytes(family, *bytes);
            }
        }
        self.put(&f::RANK_RETRIES, step.retries as f64);
        self.put(&f::RANK_OOMS, step.ooms as f64);
    }

    fn components(&mut self, about: &HookAbout) {
        for (component, bytes) in [
            (Component::Parameters, about.param_bytes),
            (Component::Gradients, about.gradient_bytes),
            (Component::OptimizerStates, about.optimizer_state_bytes),
        ] {
            self.labelled(&f::RANK_COMPONENT, ("component", component.key()), bytes.as_f64());
        }
    }

    fn places(&mut self, places: &HookPlaces) {
        let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
        for place in &places.places {
            *shares.entry(place.activity.word()).or_default() += place.share.0;
        }
        for (activity, share) in shares {
            self.labelled(&f::RANK_ACTIVITY, ("activity", activity), share);
        }
        self.put(&f::RANK_LATE_STEPS, places.late_steps as f64);
        if let Some(stall) = &places.stall {
            let activity = places.places.get(stall.place).map_or("", |place| place.activity.word());
            self.labelled(&f::RANK_STALL, ("activity", activity), stall.lasting.0);
        }
    }

    fn predicted(&mut self, stage: &StageMemory) {
        for component in Component::ALL {
            let bytes = stage.component(component);
            self.labelled(&f::RANK_PREDICTED_COMPONENT, ("component", component.key()), bytes.as_f64());
        }
        self.bytes(&f::RANK_PREDICTED_ALLOCATED, stage.peak_allocated);
        self.bytes(&f::RANK_PREDICTED_RESERVED, stage.peak_reserved);
        self.bytes(&f::RANK_PREDICTED_DEVICE, stage.device_used);
    }
}
