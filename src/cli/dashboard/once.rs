//! `memwall --once`: what runs now, as a few plain lines or as JSON: for scripts, `watch` and cron.

mod cpu_wait;
mod json;
mod played;
mod settle;
mod stall;
mod summary;

use std::path::Path;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use tokio::sync::mpsc::{self, Receiver};

use super::{
    Clock, RequestedSource, calibrations, cluster, look, missing_process, open_plan, pattern, recorded, source,
};
use crate::app::{Editor, Effect, Event, Proposal, Question, State, update};
use crate::catalog::Catalog;
use crate::cli::config::Config;
use crate::cli::infer::{DeviceSight, HookSpeech};
use crate::cli::output::page;
use crate::cli::{DashboardArgs, Exit, Failure, Streams, infer};
use crate::observe::{self, FollowOptions, Header, SharedRequirements, SourceChoice, SourceReport};
use crate::printable::printable;
use crate::reading::{HookedRun, RunNews, Sample, SourceInfo, TokensSeen};

/// Time between the two samples that rates need, where nobody says another.
const BETWEEN: Duration = Duration::from_millis(500);

/// A driver that has said nothing by then will not.
const PATIENCE: Duration = Duration::from_secs(20);

/// A hook that has told its steps and nothing of its modules by then may rather not look into a pass.
const MODULES_PATIENCE: Duration = Duration::from_secs(4);

/// A hook tells where its late steps were at once; one whose sampler is off does not.
const PLACES_PATIENCE: Duration = Duration::from_millis(1500);

/// A log that tells nothing so long after it was read tells nothing. On a busy machine reading it takes up to the second.
const LOGS_PATIENCE: Duration = Duration::from_millis(1500);
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks.
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
    Ok(streams.print(if args.json {
        format!("{}\n", json::of(&state))
    } else {
        page(None).show(&summary::as_text(&state))
    }))
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
    let plan = plan_that_is_there(args, recorded.as_ref(), &catalog)?;
    let asked = args.attach.or(recorded.as_ref().and_then(|header| header.attach));
    let rank_file = cluster::rank_file(args.hosts.as_deref())?;
    let of_job = |mut state: State| {
        cluster::watch_job(&mut state, args.job.clone(), rank_file.clone());
        state
    };
    if let SourceChoice::Replay { path, .. } = &choice {
        return with_gpus(played::at_end(path, |start| of_job(State::on(plan, catalog, asked, start)))?);
    }
    let clock = Clock::start();
    let mut state = of_job(State::on(plan, catalog, asked, clock.now()));
    let (requested, _) = source(&choice, (asked, args.log.is_some()), config.access.clone(), &state)?;
    let requested = RequestedSource { later: None, ..requested };
    // Nothing is made up for want of a GPU: what runs now is asked for.
    let requested = if choice == SourceChoice::Auto { RequestedSource { demo: None, ..requested } } else { requested };
    // Beside a plan runs on the CPU are of interest where there is no GPU.
    let log = requested.log || choice == SourceChoice::Auto && args.plan.is_some();
    let requested = RequestedSource { log, ..requested };
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
        state = of_job(State::on(plan, state.catalog, Some(pid), clock.now()));
        if let Some(read) = &read {
            state.run.telemetry.heed(read);
        }
    }
    state.run.calibrations = calibrations::read(calibrations::file(|name| std::env::var_os(name)).as_deref()).0;
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    let follow = FollowOptions { log: args.log.clone(), pattern, pid: attached, live };
    happen(&mut state, Event::SourceStarted(info));
    happen(&mut state, Event::Sample(Box::new(first)));
    look_on(&mut state, &mut watched, follow, clock)?;
    with_gpus(state)
}

/// Opens the plan that is asked for.
///
/// # Errors
/// That it, or the log, is not there: nobody waits for a file here.
fn plan_that_is_there(args: &DashboardArgs, recorded: Option<&Header>, catalog: &Catalog) -> Result<Editor, Failure> {
    let (plan, _) = open_plan(args, recorded, catalog)?;
    if let Some(path) = plan.path().filter(|_| plan.is_new()) {
        return Err(no_such_file(path));
    }
    if let Some(log) = args.log.as_deref().filter(|log| fs::metadata(log).is_err_and(|why| is_missing(&why))) {
        return Err(no_such_file(log));
    }
    Ok(plan)
}

/// Takes the further samples, and what the process's hook and log say meanwhile.
///
/// # Errors
/// That no thread follows them.
fn look_on(state: &mut State, watched: &mut Watched, follow: FollowOptions, clock: Clock) -> Result<(), Failure> {
    let (attached, live) = (follow.pid, follow.live);
    let is_told = live && (attached.is_some() || follow.log.is_some());
    let (news, mut heard) = mpsc::channel::<RunNews>(REPORTS);
    let mut follower = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
        .map_err(|error| Failure::failed(format!("no thread for logs and hooks: {error}")))?;
    follower.attend(attached);
    for _ in 1..SAMPLES {
        let Ok(sample) = watched.sample() else { break };
        while let Ok(news) = heard.try_recv() {
            happen(state, Event::Run(Box::new(news)));
        }
        happen(state, Event::Sample(Box::new(sample)));
    }
    if is_told {
        hear(state, attached, &mut heard);
        stall::learn(state, watched, &mut heard);
        // A rank of the launcher is followed from here on: its own command is read once it is seen.
        let follows_another = state.monitor.attached.as_ref().map(|attached| attached.pid) != attached;
        if let Some(sample) = follows_another.then(|| watched.sample().ok()).flatten() {
            happen(state, Event::Sample(Box::new(sample)));
        }
        cpu_wait::learn(state, watched, &mut heard);
    }
    if live && !is_told && state.monitor.devices().is_empty() {
        settle::hear_runs(state, watched, &mut heard);
    }
    settle::learn(state, watched, &mut heard);
    Ok(())
}

/// Takes samples, and what is heard meanwhile, as long as something is open and the source goes on.
fn look_while(
    state: &mut State,
    watched: &mut Watched,
    heard: &mut Receiver<RunNews>,
    is_open: impl Fn(&State) -> bool,
) {
    while is_open(state) {
        let Ok(sample) = watched.sample() else { return };
        while let Ok(news) = heard.try_recv() {
            happen(state, Event::Run(Box::new(news)));
        }
        happen(state, Event::Sample(Box::new(sample)));
    }
}

fn is_missing(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::NotFound
}

fn no_such_file(path: &Path) -> Failure {
    Failure::usage(format!("{}: there is no such file", path.display()))
}

/// That the job which is asked for has GPUs.
fn with_gpus(state: State) -> Result<State, Failure> {
    match state.monitor.no_gpu_of_job() {
        Some(words) => Err(Failure::failed(printable(&words))),
        None => Ok(state),
    }
}

/// Waits for what the process's hook says, else its log.
fn hear(state: &mut State, pid: Option<u32>, heard: &mut Receiver<RunNews>) {
    let hooked = pid.is_some_and(infer::has_hook);
    let until = Instant::now() + if hooked { infer::HOOKS_PATIENCE } else { READ_PATIENCE };
    let [mut spoke, mut was_read]: [Option<Instant>; 2] = [None, None];
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
            // A second step tells whether its batches are alike.
            let all = heard.is_some_and(|run| run.modules.is_some() && !is_first_look(run))
                || about.is_some_and(|about| about.no_modules.is_some());
            let placed =
                |since: Instant| heard.is_some_and(|run| run.places.is_some()) || since.elapsed() >= PLACES_PATIENCE;
            since.is_some_and(|since| all && placed(since) || since.elapsed() >= MODULES_PATIENCE)
        } else {
            // Once it is read it has figures, or a reason why there are none.
            let news = &telemetry.news;
            let is_read = news.progress.is_known() || news.no_log.is_some();
            let since = is_read.then(|| *was_read.get_or_insert_with(Instant::now));
            telemetry.progress(&state.monitor, state.now).is_some()
                || since.is_some_and(|since| since.elapsed() >= LOGS_PATIENCE)
        };
        if told || Instant::now() >= until {
            return;
        }
        thread::sleep(TURN);
    }
}

/// Whether one step alone has told its tokens so far.
fn is_first_look(run: &HookedRun) -> bool {
    run.tokens == TokensSeen::Once && run.step.as_ref().is_some_and(|step| step.tokens.is_some())
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
                let read = infer::command_plan(pid, infer::sees_no_driver(&state.monitor.source), &state.catalog);
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
