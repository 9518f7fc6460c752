//! What is known of a run, as a few plain lines.

use std::path::Path;

use crate::app::{AttachedState, Editor, RunPlan, SourceState, State, measured_rows, run_verdict};
use crate::compare::{Bands, Residual, Tolerance};
use crate::printable::printable;
use crate::reading::{DeviceSample, HookedRun, HostProcess, ReadingKind, SourceInfo};
use crate::ui::{cause_words, signed_percent, wrapped};
use crate::units::{Bytes, BytesPerSec, Seconds, grouped};

/// What is known of a run, for both forms.
pub struct Summary<'a> {
    pub source: Option<&'a SourceInfo>,
    /// Those that may be the run's.
    pub devices: Vec<&'a DeviceSample>,
    pub pid: Option<u32>,
    /// The launcher that was named, where a rank of it is followed.
    pub launcher: Option<u32>,
    /// The attached process is gone.
    pub gone: bool,
    pub command: Option<String>,
    pub plan: Option<&'a Editor>,
    /// The plan is somebody's, and makes no prediction: its name and why.
    pub unpredicted: Option<String>,
}

impl<'a> Summary<'a> {
    pub fn of(state: &'a State) -> Self {
        let attached = state.monitor.attached.as_ref();
        let pid = attached.map(|attached| attached.pid);
        let processes = || state.monitor.sample.iter().flat_map(|sample| &sample.processes);
        let own = |process: &&HostProcess| attached.is_some_and(|own| own.pid == process.pid && own.is(process));
        // Of a rank that was found below its launcher nobody may have read the command so far.
        let launcher = attached.and_then(|attached| attached.launcher);
        let started = |process: &&HostProcess| launcher == Some(process.pid);
        let words = |process: &HostProcess| process.command.value().or(process.name.value()).cloned();
        let command = processes().filter(own).chain(processes().filter(started)).find_map(words);
        let source = match &state.monitor.source {
            SourceState::Running(info) => Some(info),
            SourceState::Starting | SourceState::Failed(_) | SourceState::Unwatched => None,
        };
        Self {
            source,
            devices: state.monitor.run_devices().map(|(_, device)| device).collect(),
            pid,
            launcher,
            gone: attached
                .is_some_and(|attached| matches!(attached.state, AttachedState::Ended | AttachedState::Missing)),
            command,
            plan: state.plans.run.as_ref().map(RunPlan::plan),
            unpredicted: unpredicted(state),
        }
    }
}

/// The plan in front and what is wrong with it, where it makes no prediction and is not the program's own example.
fn unpredicted(state: &State) -> Option<String> {
    let plan = &state.plans.editor;
    let is_somebodys = state.plans.run.is_none() && !plan.is_example();
    let why = plan.first_fault().filter(|_| is_somebodys && plan.prediction().is_none())?;
    Some(format!("{}: not predicted: {}", plan_name(plan), printable(&why.to_string())))
}

pub fn as_text(state: &State) -> String {
    let Summary { source, devices, pid, launcher, gone, command, plan, unpredicted } = Summary::of(state);
    let mut lines = vec![format!("source   {}", source.map_or("", |source| source.detail.as_str()))];
    let names: Vec<String> = devices.iter().map(|device| state.monitor.gpu_name(device)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    lines.extend(devices.iter().zip(&names).map(|(device, name)| device_line(device, &format!("{name:<width$}"))));
    lines.extend(off_lines(state));
    if devices.is_empty() {
        lines.push("GPU      none".to_owned());
    }
    let is_alone = state.run.telemetry.news.ranks.len() < 2;
    let which = if is_alone { "started by" } else { "a rank of" };
    let rank = launcher.map_or_else(String::new, |launcher| format!(", {which} {launcher}"));
    let run = match (pid, command) {
        (None, _) if state.run.telemetry.is_logged(&state.monitor) => {
            "the log alone: --attach PID names its process".to_owned()
        }
        (None, _) => match &state.run.telemetry.news.no_log {
            Some(why) => format!("the log tells nothing: {}", printable(&why.to_string())),
            None => "nothing is attached: --attach PID names a run".to_owned(),
        },
        (Some(pid), _) if gone => format!("PID {pid} is gone"),
        (Some(pid), None) => format!("PID {pid}{rank}"),
        (Some(pid), Some(command)) => format!("PID {pid}{rank}  {}", printable(&command)),
    };
    lines.push(format!("run      {run}"));
    lines.extend(hooked_lines(state));
    let front = &state.plans.editor;
    let none = || match unpredicted {
        Some(why) => why,
        None if !front.is_example() => format!("{}; nothing runs that it is compared with", plan_words(front)),
        None => "none: memwall PLAN --once compares".to_owned(),
    };
    lines.push(format!("plan     {}", plan.map_or_else(none, plan_words)));
    let unread = state.run.telemetry.news.no_log.as_ref().filter(|_| pid.is_some() && !gone);
    let unread = unread.filter(|_| state.run.telemetry.progress(&state.monitor, state.now).is_none());
    lines.extend(unread.map(|why| format!("steps    not known: {}", printable(&why.to_string()))));
    lines.extend(measured_rows(state).into_iter().map(|(name, text)| format!("{name:<9}{}", printable(&text))));
    lines.extend(last_step(state).map(|age| format!("last     step told {} ago", age.roughly())));
    let is_told = cause_words(state).is_some_and(|why| why.contains(WAITS));
    let waits = state.run.telemetry.news.waits.first().filter(|_| last_step(state).is_some() && !is_told);
    lines.extend(waits.map(|wait| format!("waits    for {}", wait.kind.words())));
    lines.extend(compared_lines(state));
    lines.push(format!("verdict  {}", run_verdict(state).words));
    let text: String = lines.iter().map(|line| format!("{}\n", fitted(line))).collect();
    text + &cause_words(state).map_or_else(String::new, |words| wrapped_line("why", &printable(&words)))
}

/// The runs under the hook that may be attached, the one that started last first.
fn hooked_lines(state: &State) -> Vec<String> {
    let runs = state.run.telemetry.followable(&state.monitor, state.now);
    let line = |run: &&HookedRun| {
        let model = run.about.as_ref().and_then(|about| about.model.as_deref()).unwrap_or("a run");
        let step = run.step.as_ref().map_or_else(String::new, |step| format!(", step {}", grouped(step.step)));
        format!("hooked   PID {}  {}{step}", run.pid, printable(model))
    };
    runs.iter().map(line).collect()
}

/// What the verdict comes from: each quantity that was observed beside what the plan has for it.
fn compared_lines(state: &State) -> Vec<String> {
    let Some(comparison) = &state.run.comparison else { return Vec::new() };
    let (name, memory) = comparison.notable_memory();
    let rows = [
        compared_line(name.trim_end(), memory, Bytes::to_string),
        compared_line("step", &comparison.step, Seconds::to_string),
        compared_line("DRAM", &comparison.bandwidth, BytesPerSec::to_string),
    ];
    let begin = |index: usize| if index == 0 { "compared" } else { "" };
    rows.into_iter().flatten().enumerate().map(|(index, row)| format!("{:<NAME$}{row}", begin(index))).collect()
}

/// `memory 55.0 GiB planned, 64.9 GiB observed: +18 %`; nothing where nothing was observed.
fn compared_line<T: Copy>(name: &str, residual: &Residual<T>, show: impl Fn(&T) -> String) -> Option<String> {
    let (seen, off) = (residual.observed.value()?, residual.relative?);
    let mark = residual.observed.kind().map_or("", ReadingKind::mark);
    let unsettled = if residual.conclusive { "" } else { ", may change" };
    let (planned, seen) = (show(&residual.predicted), show(seen));
    Some(format!("{name} {planned} planned, {mark}{seen} observed: {}{unsettled}", signed_percent(off)))
}

/// A step that was told longer ago than this is not of just now, in seconds.
const NOW: f64 = 5.0;

/// The word of a cause that `/proc` tells.
const WAITS: &str = "waits ";

/// How long ago the last step was told, where that is not just now and the run goes on, as far as anybody knows.
pub fn last_step(state: &State) -> Option<Seconds> {
    let telemetry = &state.run.telemetry;
    telemetry.progress(&state.monitor, state.now)?.1.step.value()?;
    let is_over = telemetry.ended(&state.monitor, state.now).is_some();
    telemetry.phases().quiet_for(state.now).filter(|quiet| quiet.0 > NOW && !is_over)
}

/// What is told in full: further lines stand below its first.
fn wrapped_line(name: &str, words: &str) -> String {
    let lines = wrapped(words, MOST - NAME, usize::MAX);
    let begin = |index: usize| if index == 0 { name } else { "" };
    lines.iter().enumerate().map(|(index, line)| format!("{:<NAME$}{line}\n", begin(index))).collect()
}

/// Room for the name of a line.
const NAME: usize = 9;

/// The width of a line that is not told in full elsewhere.
const MOST: usize = 160;

/// Lines of a plain frame are no longer than a terminal's.
fn fitted(line: &str) -> String {
    let short: String = line.chars().take(MOST).collect();
    if short.len() < line.len() { format!("{short}...") } else { short }
}

fn plan_name(plan: &Editor) -> String {
    printable(&plan.path().map_or_else(|| plan.name().to_owned(), |path: &Path| path.display().to_string()))
}

fn plan_words(plan: &Editor) -> String {
    let name = plan_name(plan);
    match plan.prediction() {
        Some(prediction) => {
            let (needs, step) = (prediction.capacity.needed, prediction.time.step);
            let of = match prediction.stages.len() {
                _ if prediction.on_cpu => "resident",
                0 | 1 => "on each GPU",
                _ => "on the fullest GPU",
            };
            let healthy = plan.job().map_or_else(String::new, |job| {
                let bands = Bands::of(job);
                let few = if bands.few { ", few measured like this" } else { "" };
                let Tolerance { below, above } = bands.time.within(2.0);
                format!(" (healthy runs: -{:.0} to +{:.0} %{few})", 100.0 * below, 100.0 * above)
            });
            format!("{name}: {needs} predicted {of}, a step in {step}{healthy}")
        }
        None => name,
    }
}

/// The ranks that are off their equals, the farthest first.
fn off_lines(state: &State) -> Vec<String> {
    let cluster = &state.monitor.cluster;
    let device = |rank: usize| state.monitor.devices().get(*cluster.layout().ranks.get(rank)?);
    let off = cluster
        .stragglers()
        .iter()
        .filter_map(|one| Some(format!("off      GPU {}: {}", state.monitor.gpu_name(device(one.rank)?), one.words())));
    off.collect()
}

fn device_line(device: &DeviceSample, label: &str) -> String {
    let name = device.name.value().map_or("GPU", String::as_str);
    let said = |reading: Option<String>, what: &str| reading.unwrap_or_else(|| format!("{what} not known"));
    let memory = device.memory.value().map(|memory| format!("{} of {}", memory.used, memory.total));
    let busy = device.busy.value().map(|busy| format!("busy {:.0} %", busy.percent()));
    let power = device.power.value().map(|power| format!("{:.0} W", power.0));
    let heat = device.temperature.value().map(|heat| format!("{:.0} C", heat.0));
    format!(
        "GPU {label} {}  {}  {}  {}  {}",
        printable(name),
        said(memory, "memory"),
        said(busy, "load"),
        said(power, "power"),
        said(heat, "temperature"),
    )
}
