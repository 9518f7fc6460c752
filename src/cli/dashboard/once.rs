//! `memwall --once`: what runs now, as a few plain lines or as JSON: for scripts, `watch` and cron.

mod cpu_wait;
mod json;
mod played;

use std::path::Path;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, Receiver};

use super::{
    Clock, RequestedSource, calibrations, cluster, look, missing_process, open_plan, pattern, recorded, source,
};
use crate::app::{
    AttachedState, Editor, Effect, Event, Proposal, Question, RunPlan, SourceState, State, measured_rows, run_verdict,
    update,
};
use crate::catalog::Catalog;
use crate::cli::config::Config;
use crate::cli::infer::{DeviceSight, HookSpeech};
use crate::cli::output::page;
use crate::cli::{DashboardArgs, Exit, Failure, Streams, infer};
use crate::compare::{Bands, Tolerance};
use crate::observe::{self, FollowOptions, SharedRequirements, SourceChoice, SourceReport};
use crate::printable::printable;
use crate::reading::{DeviceSample, HostProcess, RunNews, Sample, SourceInfo};
use crate::ui::{cause_words, wrapped};

/// Time between the two samples that rates need, where nobody says another.
const BETWEEN: Duration = Duration::from_millis(500);

/// A driver that has said nothing by then will not.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hook that has told its steps and nothing of its modules by then may rather not look into a pass.
const MODULES_PATIENCE: Duration = Duration::from_secs(4);

/// A log that tells nothing by then tells nothing, and the time between two looks.
const LOGS_PATIENCE: Duration = Duration::from_millis(1500);
const TURN: Duration = Duration::from_millis(100);

/// Samples that may wait.
const REPORTS: usize = 8;

/// Samples that are looked at: the first has no rates.
const SAMPLES: usize = 3;

/// `memwall --once`.
///
/// # Errors
/// Why there is nothing to show.
pub fn once(args: &DashboardArgs, catalog: Catalog, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    let state = observed(args, catalog)?;
    Ok(streams.print(if args.json { format!("{}\n", json::of(&state)) } else { page(None).show(&as_text(&state)) }))
}

/// The dashboard's state after a few samples.
fn observed(args: &DashboardArgs, catalog: Catalog) -> Result<State, Failure> {
    let config = Config::load(|name| std::env::var_os(name));
    let choice = args.source.clone().or_else(|| config.source.clone()).unwrap_or(SourceChoice::Auto);
    // What is wrong with the command line comes before what is wrong with the machine.
    look::choose(&args.look, &config, None)?;
    if let Some(missing) = missing_process(args.attach, &choice) {
        return Err(Failure::failed(missing));
    }
    let recorded = recorded(&choice)?;
    let pattern = pattern(args, &choice)?;
    let (plan, _) = open_plan(args, recorded.as_ref(), &catalog)?;
    if let Some(path) = plan.path().filter(|_| plan.is_new()) {
        return Err(Failure::failed(format!("{}: there is no such file", path.display())));
    }
    let asked = args.attach.or(recorded.as_ref().and_then(|header| header.attach));
    if let SourceChoice::Replay { path, .. } = &choice {
        return played::at_end(path, plan, catalog, asked);
    }
    let clock = Clock::start();
    let rank_file = cluster::rank_file(args.hosts.as_deref())?;
    let mut state = State::on(plan, catalog, asked, clock.now());
    cluster::watch_job(&mut state, args.job.clone(), rank_file.clone());
    let (requested, _) = source(&choice, (asked, args.log.is_some()), config.access.clone(), &state)?;
    let requested = RequestedSource { later: None, ..requested };
    // Nothing is made up for want of a GPU: what runs now is asked for.
    let requested = if choice == SourceChoice::Auto { RequestedSource { demo: None, ..requested } } else { requested };
    let every = args.interval.unwrap_or(BETWEEN);
    let mut watched = Watched::open(requested, every, clock)?;
    let info = watched.started()?;
    let first = watched.sample()?;
    let live = info.kind.is_live();
    if let Some(pid) = asked.or_else(|| busiest(&first)).filter(|_| live) {
        let sight = DeviceSight::of(&info, &first.devices, &state.catalog);
        let read = args.plan.is_none().then(|| infer::proposal(pid, sight, &state.catalog, HookSpeech::Asked).ok());
        let own = |read: &Proposal| Editor::open(read.plan.clone(), &state.catalog);
        let read = read.flatten();
        let plan = read.as_ref().map_or_else(|| state.plans.editor.clone(), own);
        state = State::on(plan, state.catalog, Some(pid), clock.now());
        cluster::watch_job(&mut state, args.job.clone(), rank_file);
        if let Some(read) = &read {
            state.run.telemetry.heed(read);
        }
    }
    state.run.calibrations = calibrations::read(calibrations::file(|name| std::env::var_os(name)).as_deref()).0;
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    let follow = FollowOptions { log: args.log.clone(), pattern, pid: attached, live };
    let (news, mut heard) = mpsc::channel::<RunNews>(REPORTS);
    let mut follower = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
        .map_err(|error| Failure::failed(format!("no thread for logs and hooks: {error}")))?;
    follower.attend(attached);
    happen(&mut state, Event::SourceStarted(info));
    happen(&mut state, Event::Sample(Box::new(first)));
    for _ in 1..SAMPLES {
        let Ok(sample) = watched.sample() else { break };
        while let Ok(news) = heard.try_recv() {
            happen(&mut state, Event::Run(Box::new(news)));
        }
        happen(&mut state, Event::Sample(Box::new(sample)));
    }
    if live && (attached.is_some() || args.log.is_some()) {
        hear(&mut state, attached, &mut heard);
        // A rank of the launcher is followed from here on: its own command is read once it is seen.
        let follows_another = state.monitor.attached.as_ref().map(|attached| attached.pid) != attached;
        if let Some(sample) = follows_another.then(|| watched.sample().ok()).flatten() {
            happen(&mut state, Event::Sample(Box::new(sample)));
        }
        cpu_wait::learn(&mut state, &mut watched, &mut heard);
    }
    if let Some(words) = state.monitor.no_gpu_of_job() {
        return Err(Failure::failed(printable(&words)));
    }
    Ok(state)
}

/// Waits for what the process's hook says, else its log.
fn hear(state: &mut State, pid: Option<u32>, heard: &mut Receiver<RunNews>) {
    let hooked = pid.is_some_and(infer::has_hook);
    let until = Instant::now() + if hooked { infer::HOOKS_PATIENCE } else { LOGS_PATIENCE };
    let mut spoke: Option<Instant> = None;
    loop {
        while let Ok(news) = heard.try_recv() {
            happen(state, Event::Run(Box::new(news)));
        }
        let telemetry = &state.run.telemetry;
        let told = if hooked {
            let heard = telemetry.hooked(&state.monitor, state.now).filter(|run| run.step.is_some());
            let about = heard.and_then(|run| run.about.as_ref());
            let since = about.map(|_| *spoke.get_or_insert_with(Instant::now));
            // It looks into a pass only after some steps, and then tells of model and batch.
            let all =
                heard.is_some_and(|run| run.modules.is_some()) || about.is_some_and(|about| about.no_modules.is_some());
            since.is_some_and(|since| all || since.elapsed() >= MODULES_PATIENCE)
        } else {
            telemetry.progress(&state.monitor, state.now).is_some()
        };
        if told || Instant::now() >= until {
            return;
        }
        thread::sleep(TURN);
    }
}

/// The process that holds the most memory of a GPU.
fn busiest(sample: &Sample) -> Option<u32> {
    let processes = sample.devices.iter().filter_map(|device| device.processes.value()).flatten();
    let held = processes.filter_map(|process| Some((process.memory.value()?.0, process.pid)));
    held.max().map(|(_, pid)| pid)
}

/// An event, and what it asks for: explanations are searched for at once, the rest is the dashboard's.
fn happen(state: &mut State, event: Event) {
    for effect in update(state, event) {
        match effect {
            Effect::Explain(number) => {
                let found = Question::of(state).map(|question| question.answer()).unwrap_or_default();
                update(state, Event::Explained { number, found });
            }
            Effect::ReadCommand(pid) => {
                let read = infer::command_plan(pid, &state.catalog);
                update(state, Event::CommandRead(Box::new(read)));
            }
            _ => {}
        }
    }
}

/// A source on its thread.
struct Watched {
    reports: std_mpsc::Receiver<SourceReport>,
    _source: observe::Handle,
}

impl Watched {
    fn open(mut requested: RequestedSource, every: Duration, clock: Clock) -> Result<Self, Failure> {
        let (sender, mut receiver): (_, Receiver<SourceReport>) = mpsc::channel(REPORTS);
        let requirements = SharedRequirements::everything();
        let source = observe::spawn(move || requested.open(&requirements), every, move || clock.now(), sender)
            .map_err(|error| Failure::failed(format!("no thread for the source: {error}")))?;
        // A channel that is waited for no longer than a driver may take.
        let (passed, reports) = std_mpsc::channel();
        thread::spawn(move || while receiver.blocking_recv().is_some_and(|report| passed.send(report).is_ok()) {});
        Ok(Self { reports, _source: source })
    }

    fn next(&self, until: Instant) -> Result<SourceReport, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        match self.reports.recv_timeout(left) {
            Ok(SourceReport::Failed(why)) => Err(Failure::failed(why)),
            Ok(report) => Ok(report),
            Err(std_mpsc::RecvTimeoutError::Timeout) => {
                Err(Failure::failed(format!("the driver has not answered for {} s", PATIENCE.as_secs())))
            }
            Err(std_mpsc::RecvTimeoutError::Disconnected) => Err(Failure::failed("the source has ended")),
        }
    }

    fn started(&mut self) -> Result<SourceInfo, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let SourceReport::Started(info) = self.next(until)? {
                return Ok(info);
            }
        }
    }

    fn sample(&mut self) -> Result<Sample, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.next(until)? {
                SourceReport::Sample(sample) => return Ok(sample),
                SourceReport::Played(_, samples) => {
                    if let Some(sample) = samples.into_iter().last() {
                        return Ok(sample);
                    }
                }
                SourceReport::Started(_) | SourceReport::Failed(_) => {}
            }
        }
    }
}

/// What is known of a run, for both forms.
struct Summary<'a> {
    source: Option<&'a SourceInfo>,
    /// Those that may be the run's.
    devices: Vec<&'a DeviceSample>,
    pid: Option<u32>,
    /// The launcher that was named, where a rank of it is followed.
    launcher: Option<u32>,
    /// The attached process is gone.
    gone: bool,
    command: Option<String>,
    plan: Option<&'a Editor>,
    /// The plan is somebody's, and makes no prediction: its name and why.
    unpredicted: Option<String>,
}

impl<'a> Summary<'a> {
    fn of(state: &'a State) -> Self {
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

fn as_text(state: &State) -> String {
    let Summary { source, devices, pid, launcher, gone, command, plan, unpredicted } = Summary::of(state);
    let mut lines = vec![format!("source   {}", source.map_or("", |source| source.detail.as_str()))];
    let names: Vec<String> = devices.iter().map(|device| state.monitor.gpu_name(device)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    lines.extend(devices.iter().zip(&names).map(|(device, name)| device_line(device, &format!("{name:<width$}"))));
    lines.extend(off_lines(state));
    if devices.is_empty() {
        lines.push("GPU      none".to_owned());
    }
    let rank = launcher.map_or_else(String::new, |launcher| format!(", a rank of {launcher}"));
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
    let front = &state.plans.editor;
    let none = || match unpredicted {
        Some(why) => why,
        None if !front.is_example() => format!("{}: nothing runs that it is compared with", plan_name(front)),
        None => "none: memwall PLAN --once compares".to_owned(),
    };
    lines.push(format!("plan     {}", plan.map_or_else(none, plan_words)));
    let unread = state.run.telemetry.news.no_log.as_ref().filter(|_| pid.is_some() && !gone);
    let unread = unread.filter(|_| state.run.telemetry.progress(&state.monitor, state.now).is_none());
    lines.extend(unread.map(|why| format!("steps    not known: {}", printable(&why.to_string()))));
    lines.extend(measured_rows(state).into_iter().map(|(name, text)| format!("{name:<9}{}", printable(&text))));
    lines.push(format!("verdict  {}", run_verdict(state).words));
    let text: String = lines.iter().map(|line| format!("{}\n", fitted(line))).collect();
    text + &cause_words(state).map_or_else(String::new, |words| wrapped_line("why", &printable(&words)))
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
