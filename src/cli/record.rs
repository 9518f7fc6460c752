//! `memwall record`: what is observed to a file, without a screen.

use std::future::pending;
use std::io;
use std::path::Path;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::sleep;

use super::args::RecordArgs;
use super::beside::Beside;
use super::dashboard::Clock;
use super::ending::Ending;
use super::{Exit, Streams, made_up, plans};
use crate::app::Editor;
use crate::catalog::Catalog;
use crate::observe::{
    self, Choice, Compression, Demo, Header, Means, PlanText, Recorder, Report, Rotation, Source, Wants, Written,
};
use crate::plan::{Fault, Loaded};
use crate::predict::Job;
use crate::reading::SourceInfo;
use crate::units::Seconds;

/// Samples that may wait for the disk: beyond that they are dropped and counted.
const REPORTS: usize = 64;

pub fn run(args: &RecordArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    if matches!(args.source, Choice::Replay { .. }) {
        return streams.fail(Exit::Usage, "--source: this is a recording already");
    }
    let plan = match args.plan.as_deref().map(|path| open_plan(path, &args.source, catalog)).transpose() {
        Ok(plan) => plan,
        Err(lines) => {
            return lines.iter().fold(Exit::Usage, |exit, line| exit.and(streams.fail(Exit::Usage, line)));
        }
    };
    match record(args, plan, catalog.clone(), streams) {
        Ok(written) => streams.print(format!("{}\n", written.summary())),
        Err(message) => streams.fail(Exit::Failed, &message),
    }
}

/// A plan that makes a prediction.
struct Planned {
    text: PlanText,
    demo: Option<Demo>,
}

fn open_plan(path: &Path, source: &Choice, catalog: &Catalog) -> Result<Planned, Vec<String>> {
    let shown = path.display().to_string();
    let said =
        |faults: Vec<Fault>| faults.into_iter().map(|fault| plans::line(Some(&shown), fault)).collect::<Vec<_>>();
    let loaded = Loaded::load(path).map_err(said)?;
    let place = |faults: Vec<Fault>| said(faults.into_iter().map(|fault| loaded.document.placed(fault)).collect());
    Job::resolve(&loaded.plan, catalog).map_err(place)?;
    let text = PlanText::new(&loaded.name, loaded.document.text(), loaded.plan.model.hf_config.as_ref());
    let demo =
        made_up::run(source, &Editor::open(loaded, catalog), Seconds(0.0), catalog).map_err(|line| vec![line])?;
    Ok(Planned { text, demo })
}

fn record(
    args: &RecordArgs,
    plan: Option<Planned>,
    catalog: Catalog,
    streams: &mut Streams,
) -> Result<Written, String> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| format!("no event loop: {error}"))?;
    let (text, demo) = plan.map_or((None, None), |plan| (Some(plan.text), plan.demo));
    let choice = args.source.clone();
    // A made-up run is recorded where one is asked for, never for want of a GPU.
    let demo = demo.filter(|_| matches!(choice, Choice::Demo(_)));
    let means = Means { demo, later: None, wants: Wants::everything(), catalog };
    let open = move || observe::open(choice, means);
    let recorded = runtime.block_on(until_asked(args, text, open, streams));
    // A thread that is stuck in a driver must not keep the program.
    runtime.shutdown_background();
    recorded
}

async fn until_asked(
    args: &RecordArgs,
    plan: Option<PlanText>,
    open: impl FnOnce() -> Result<Box<dyn Source>, String> + Send + 'static,
    streams: &mut Streams<'_>,
) -> Result<Written, String> {
    let mut ending = Ending::listen()?;
    let clock = Clock::start();
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let _source = observe::spawn(open, args.interval, move || clock.now(), reports)
        .map_err(|error| format!("no thread for the source: {error}"))?;
    let over = async {
        match args.duration {
            Some(duration) => sleep(duration).await,
            None => pending().await,
        }
    };
    tokio::pin!(over);
    let mut beside = Beside::of(args, clock)?;
    let mut recorder: Option<Recorder> = None;
    let mut has_room = true;
    loop {
        let report = tokio::select! {
            report = reported.recv() => report,
            () = &mut over => break,
            () = ending.asked() => break,
        };
        match report {
            Some(Report::Started(source)) => recorder = Some(begin(args, plan.clone(), source, clock)?),
            Some(Report::Sample(sample)) => {
                if let Some(recorder) = &mut recorder {
                    let sample = beside.as_mut().map_or_else(|| sample.clone(), |beside| beside.told(&sample));
                    let written = recorder.write(&sample).map_err(|error| broken_off(recorder.written(), &error))?;
                    if written != has_room {
                        has_room = written;
                        streams.note(&room(recorder.written(), has_room));
                    }
                }
            }
            Some(Report::Failed(why)) => return Err(why),
            Some(Report::Played(..)) => {}
            None => return Err("the source has ended".to_owned()),
        }
    }
    drain(&mut reported, recorder)
}

fn begin(args: &RecordArgs, plan: Option<PlanText>, source: SourceInfo, clock: Clock) -> Result<Recorder, String> {
    let header = Header { attach: args.attach, plan, ..Header::new(clock.now(), args.interval, source) };
    let compression = if args.compress { Compression::Gzip } else { Compression::of(&args.output) };
    let rotation = Rotation { size: args.rotate, keep: args.keep };
    Recorder::create(&args.output, header, compression, rotation).map_err(|error| not_begun(&args.output, &error))
}

/// Writes what had been sampled when the end came.
fn drain(reported: &mut Receiver<Report>, recorder: Option<Recorder>) -> Result<Written, String> {
    let mut recorder = recorder.ok_or("ended before the source was open: nothing is recorded")?;
    while let Ok(report) = reported.try_recv() {
        if let Report::Sample(sample) = report {
            recorder.write(&sample).map_err(|error| broken_off(recorder.written(), &error))?;
        }
    }
    let written = recorder.written().clone();
    recorder.finish().map_err(|error| broken_off(&written, &error))
}

/// That a disk is full, or has room again, in one line.
pub fn room(written: &Written, has_room: bool) -> String {
    let Written { path, samples, lost, .. } = written;
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
pub fn broken_off(written: &Written, error: &io::Error) -> String {
    let Written { path, samples, .. } = written;
    format!("{}: recording broke off: {error}; the {samples} samples before that can be replayed", path.display())
}
