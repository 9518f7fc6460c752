//! `memwall record`: what is observed to a file, without a screen.

use std::future::pending;
use std::io;
use std::path::Path;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::sleep;

use super::args::RecordArgs;
use super::config::Config;
use super::dashboard::Clock;
use super::followed_run::FollowedRun;
use super::termination::TerminationSignals;
use super::{Exit, Failure, Streams, demo, plans};
use crate::app::Editor;
use crate::catalog::Catalog;
use crate::observe::{
    self, Compression, Demo, Header, PlanText, Recorder, RecordingTotals, Rotation, SharedRequirements, Source,
    SourceChoice, SourceContext, SourceError, SourceReport,
};
use crate::plan::{Fault, LoadedPlan};
use crate::predict::Job;
use crate::reading::{SourceInfo, SourceKind};
use crate::units::Seconds;

/// Samples that may wait for the disk: beyond that they are dropped and counted.
const REPORTS: usize = 64;

pub fn run(args: &RecordArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    if matches!(args.source, SourceChoice::Replay { .. }) {
        return Err(Failure::usage("--source: this is a recording already"));
    }
    if matches!(args.source, SourceChoice::Demo(_)) && args.plan.is_none() {
        return Err(Failure::usage("--source demo: a simulated run needs a plan: memwall record PLAN --source demo …"));
    }
    let plan = args.plan.as_deref().map(|path| open_plan(path, &args.source, catalog)).transpose()?;
    let written = record(args, plan, catalog.clone(), streams)?;
    Ok(streams.print(format!("{}\n", written.summary())))
}

/// A plan that makes a prediction.
struct PredictedPlan {
    text: PlanText,
    demo: Option<Demo>,
}

fn open_plan(path: &Path, source: &SourceChoice, catalog: &Catalog) -> Result<PredictedPlan, Failure> {
    let shown = path.display().to_string();
    let said = |faults: Vec<Fault>| plans::refused(Some(&shown), faults);
    let loaded = LoadedPlan::load(path).map_err(said)?;
    let place = |faults: Vec<Fault>| said(faults.into_iter().map(|fault| loaded.document.placed(fault)).collect());
    Job::resolve(&loaded.plan, catalog).map_err(place)?;
    let text = PlanText::new(&loaded.name, loaded.document.text(), loaded.plan.model.hf_config.as_ref());
    let demo = demo::run(source, &Editor::open(loaded, catalog), Seconds(0.0), catalog)?;
    Ok(PredictedPlan { text, demo })
}

fn record(
    args: &RecordArgs,
    plan: Option<PredictedPlan>,
    catalog: Catalog,
    streams: &mut Streams,
) -> Result<RecordingTotals, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no event loop: {error}")))?;
    let (text, demo) = plan.map_or((None, None), |plan| (Some(plan.text), plan.demo));
    let choice = args.source.clone();
    // A simulated run is recorded where one is asked for, never for want of a GPU.
    let demo = demo.filter(|_| matches!(choice, SourceChoice::Demo(_)));
    let access = Config::load(|name| std::env::var_os(name)).access;
    let (attach, log) = (args.attach, args.log.is_some());
    let mut demo = demo;
    // Whatever fails is tried again; a simulated run is opened once.
    let open = move || {
        let requirements = SharedRequirements::everything();
        let (demo, catalog, access) = (demo.take(), catalog.clone(), access.clone());
        observe::open(choice.clone(), SourceContext { demo, later: None, attach, log, requirements, catalog, access })
    };
    let recorded = runtime.block_on(until_asked(args, text, open, streams));
    // A thread that is stuck in a driver must not keep the program.
    runtime.shutdown_background();
    recorded
}

async fn until_asked(
    args: &RecordArgs,
    plan: Option<PlanText>,
    open: impl FnMut() -> Result<Box<dyn Source>, SourceError> + Send + 'static,
    streams: &mut Streams<'_>,
) -> Result<RecordingTotals, Failure> {
    let mut ending = TerminationSignals::listen()?;
    let clock = Clock::start();
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let _source = observe::spawn(open, args.interval, move || clock.now(), reports)
        .map_err(|error| Failure::failed(format!("no thread for the source: {error}")))?;
    let over = async {
        match args.duration {
            Some(duration) => sleep(duration).await,
            None => pending().await,
        }
    };
    tokio::pin!(over);
    let mut beside = FollowedRun::of(args, clock)?;
    let mut recorder: Option<Recorder> = None;
    let mut has_room = true;
    loop {
        let report = tokio::select! {
            report = reported.recv() => report,
            () = &mut over => break,
            () = ending.asked() => break,
        };
        match report {
            Some(SourceReport::Started(source)) => recorder = Some(begin(args, plan.clone(), source, clock)?),
            Some(SourceReport::Sample(sample)) => {
                if let Some(recorder) = &mut recorder {
                    let sample = beside.as_mut().map_or_else(|| sample.clone(), |beside| beside.told(&sample));
                    let written = recorder.write(&sample);
                    let written = written.map_err(|error| Failure::failed(broken_off(recorder.written(), &error)))?;
                    if written != has_room {
                        has_room = written;
                        streams.note(&room(recorder.written(), has_room));
                    }
                }
            }
            Some(SourceReport::Failed(why)) => return Err(Failure::failed(why)),
            Some(SourceReport::Played(..)) => {}
            None => return Err(Failure::failed("the source has ended")),
        }
    }
    drain(&mut reported, recorder)
}

fn begin(args: &RecordArgs, plan: Option<PlanText>, source: SourceInfo, clock: Clock) -> Result<Recorder, Failure> {
    // What a simulated run tells is its own: a replay compares it as the dashboard does that plays it.
    let simulated = (source.kind == SourceKind::Demo).then_some(Demo::FIRST_PID);
    let attach = args.attach.or(simulated);
    let header = Header { attach, plan, ..Header::new(clock.now(), args.interval, source) };
    let compression = if args.compress { Compression::Gzip } else { Compression::of(&args.output) };
    let rotation = Rotation { size: args.rotate, keep: args.keep };
    let created = Recorder::create(&args.output, header, compression, rotation);
    created.map_err(|error| Failure::failed(not_begun(&args.output, &error)))
}

/// Writes what had been sampled when the end came.
fn drain(reported: &mut Receiver<SourceReport>, recorder: Option<Recorder>) -> Result<RecordingTotals, Failure> {
    let unopened = || Failure::failed("ended before the source was open: nothing is recorded");
    let mut recorder = recorder.ok_or_else(unopened)?;
    while let Ok(report) = reported.try_recv() {
        if let SourceReport::Sample(sample) = report {
            let written = recorder.write(&sample);
            written.map_err(|error| Failure::failed(broken_off(recorder.written(), &error)))?;
        }
    }
    let written = recorder.written().clone();
    recorder.finish().map_err(|error| Failure::failed(broken_off(&written, &error)))
}

/// That a disk is full, or has room again, in one line.
pub fn room(written: &RecordingTotals, has_room: bool) -> String {
    let RecordingTotals { path, samples, lost, .. } = written;
    let path = path.display();
    if has_room {
        format!("{path}: the disk has room again: recording goes on, {lost} samples were lost")
    } else {
        format!(
            "{path}: no space left on the disk: what comes is lost until there is; the {samples} samples before can be replayed"
        )
    }
}

/// Why a recording cannot be begun, in one line.
pub fn not_begun(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        // With more than the system's own words.
        io::ErrorKind::AlreadyExists if error.get_ref().is_some() => error.to_string(),
        io::ErrorKind::AlreadyExists => format!("{shown} exists already and is not written over"),
        _ => format!("{shown}: cannot be written: {error}"),
    }
}

/// Why a recording broke off, and what there is of it, in one line.
pub fn broken_off(written: &RecordingTotals, error: &io::Error) -> String {
    let RecordingTotals { path, samples, .. } = written;
    format!("{}: recording broke off: {error}; the {samples} samples before that can be replayed", path.display())
}
