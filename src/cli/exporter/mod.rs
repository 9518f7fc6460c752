//! `memwall exporter`: what is observed and predicted, for Prometheus.

mod collector;
mod families;
mod gpus;
mod plan_metrics;
mod ranks;
mod run_metrics;
mod server;
mod sources;

use std::io;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use super::args::{ClusterFile, ExporterArgs};
use super::config::Config;
use super::dashboard::{self, Clock, calibrations};
use super::import;
use super::termination::TerminationSignals;
use super::{Exit, Failure, Streams, demo, plans};
use crate::app::{self, Editor, State};
use crate::catalog::Catalog;
use crate::observe::log::Pattern;
use crate::observe::{self, Demo, FollowOptions, SharedRequirements, SourceChoice, SourceContext};
use crate::plan::{Fault, LoadedPlan};
use crate::predict::Job;
use crate::units::Seconds;
pub use families::FAMILIES as EXPORTED_METRICS;

use collector::{Collector, CollectorInputs, CollectorParts, RunIdentity};

/// Scrapes, reports and news that may wait.
const QUEUE: usize = 64;

/// The usual time between two scrapes: a reading that is as old is no old one.
const USUAL_INTERVAL: Seconds = Seconds(15.0);

/// How long the demo's run has been going on when it is first read.
const DEMO_HEAD_START: Seconds = Seconds(300.0);

/// `memwall exporter`: until the system asks it to end.
pub fn run(args: &ExporterArgs, catalog: &Catalog, streams: &mut Streams<'_>) -> Result<Exit, Failure> {
    if let Some(file) = args.print {
        return Ok(streams.print(file_text(file)));
    }
    if matches!(args.source, SourceChoice::Replay { .. } | SourceChoice::Prometheus(_)) {
        return Err(Failure::usage("--source: an exporter reads the GPUs of its own machine, or the demo's"));
    }
    let editor = open_plan(args, catalog)?;
    let pattern = args.log_pattern.as_deref().map(Pattern::new).transpose();
    let pattern = pattern.map_err(|why| Failure::usage(format!("--log-pattern: {why}")))?;
    // A simulated run is exported where one is asked for, never for want of a GPU.
    let demo = demo::run(&args.source, &editor, DEMO_HEAD_START, catalog)?.filter(|_| is_demo(args));
    serve(args, (editor, demo, pattern), catalog, streams)?;
    Ok(Exit::Done)
}

const fn is_demo(args: &ExporterArgs) -> bool {
    matches!(args.source, SourceChoice::Demo(_))
}

/// The plan of the command line. Without one the example stands in, which nothing real is compared with.
fn open_plan(args: &ExporterArgs, catalog: &Catalog) -> Result<Editor, Failure> {
    let shown = args.plan.as_ref().map(|path| path.display().to_string());
    let said = |faults: Vec<Fault>| plans::refused(shown.as_deref(), faults);
    let loaded: LoadedPlan = match &args.plan {
        None => dashboard::example().map_err(said)?,
        Some(path) => import::open(path)?,
    };
    let place = |faults: Vec<Fault>| said(faults.into_iter().map(|fault| loaded.document.placed(fault)).collect());
    Job::resolve(&loaded.plan, catalog).map_err(place)?;
    Ok(Editor::open(loaded, catalog))
}

fn serve(
    args: &ExporterArgs,
    (editor, demo, pattern): (Editor, Option<Demo>, Option<Pattern>),
    catalog: &Catalog,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no event loop: {error}")))?;
    let served = runtime.block_on(async {
        let ending = TerminationSignals::listen()?;
        let unbound = |error: io::Error| {
            let what_to_do = match error.kind() {
                io::ErrorKind::AddrInUse => ": another program listens there, --listen names another port",
                _ => "",
            };
            Failure::failed(format!("{}: {error}{what_to_do}", args.listen))
        };
        let listener = TcpListener::bind(args.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let (collector, inputs, scrapes) = start(args, (editor, demo, pattern), catalog)?;
        if !address.ip().is_loopback() {
            streams.note("whoever reaches this address can read the metrics: there is no password");
        }
        streams.note(&format!("serves http://{address}/metrics"));
        tokio::spawn(server::serve(listener, scrapes));
        collector.collect(inputs, ending).await;
        Ok(())
    });
    // A thread that is stuck in a driver must not keep the program.
    runtime.shutdown_background();
    served
}

/// Starts what works beside the collector.
fn start(
    args: &ExporterArgs,
    (editor, demo, pattern): (Editor, Option<Demo>, Option<Pattern>),
    catalog: &Catalog,
) -> Result<(Collector, CollectorInputs, mpsc::Sender<server::ScrapeRequest>), Failure> {
    let clock = Clock::start();
    let is_demo = is_demo(args);
    let identity = RunIdentity {
        name: run_name(args, &editor, |name| std::env::var(name).ok()),
        has_plan: args.plan.is_some() || is_demo,
        is_chosen: args.attach.is_some(),
        log: !is_demo,
    };
    let state = state(args, editor, catalog, clock);
    let requirements = SharedRequirements::nothing();
    let (reports, reported) = mpsc::channel(QUEUE);
    let source = observe::spawn_on_demand(opener(args, demo, &requirements, catalog), move || clock.now(), reports)
        .map_err(|error| Failure::failed(format!("no thread for the source: {error}")))?;
    let (news, heard) = mpsc::channel(QUEUE);
    let follow = FollowOptions { log: args.log.clone(), pattern, pid: args.attach, live: !is_demo };
    let following = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
        .map_err(|error| Failure::failed(format!("no thread for logs and hooks: {error}")))?;
    let (events, happening) = mpsc::channel(QUEUE);
    let (scrapes, scraped) = mpsc::channel(QUEUE);
    let parts = CollectorParts { source, following, requirements, clock, events };
    let inputs = CollectorInputs { scrapes: scraped, reports: reported, news: heard, events: happening };
    Ok((Collector::new(state, identity, parts), inputs, scrapes))
}

/// How the source is opened; tried again where that fails.
fn opener(
    args: &ExporterArgs,
    mut demo: Option<Demo>,
    requirements: &SharedRequirements,
    catalog: &Catalog,
) -> impl FnMut() -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + use<> {
    let (choice, attach, requirements, catalog) =
        (args.source.clone(), args.attach, requirements.clone(), catalog.clone());
    let access = Config::load(|name| std::env::var_os(name)).access;
    move || {
        let (requirements, catalog, access) = (requirements.clone(), catalog.clone(), access.clone());
        // Hooks are always listened to, and a run on the CPU needs no driver.
        let log = true;
        let context = SourceContext { demo: demo.take(), later: None, attach, log, requirements, catalog, access };
        observe::open(choice.clone(), context)
    }
}

fn state(args: &ExporterArgs, editor: Editor, catalog: &Catalog, clock: Clock) -> State {
    let mut state = State::on(editor, catalog.clone(), args.attach, clock.now());
    // A file that cannot be read is the dashboard's to tell of: predictions are those of the plan then.
    state.run.calibrations = calibrations::read(calibrations::file(|name| std::env::var_os(name)).as_deref()).0;
    state.monitor.interval = USUAL_INTERVAL;
    if is_demo(args) {
        app::plan_of_simulation(&mut state);
    }
    state
}

/// What the run is called.
fn run_name(args: &ExporterArgs, editor: &Editor, variable: impl Fn(&str) -> Option<String>) -> String {
    let told = args.run.clone().or_else(|| variable("SLURM_JOB_ID")).filter(|name| !name.is_empty());
    let plan = || (args.plan.is_some() || is_demo(args)).then(|| editor.name().to_owned());
    told.or_else(plan).unwrap_or_default()
}

/// A file that a cluster needs, as it is under `configs/cluster/`: an installed program has no repository beside it.
const fn file_text(file: ClusterFile) -> &'static str {
    match file {
        ClusterFile::Prometheus => include_str!("../../../configs/cluster/prometheus.yml"),
        ClusterFile::Rules => include_str!("../../../configs/cluster/memwall.rules.yml"),
        ClusterFile::Grafana => include_str!("../../../configs/cluster/grafana.json"),
        ClusterFile::Systemd => include_str!("../../../configs/cluster/memwall-exporter.service"),
        ClusterFile::Kubernetes => include_str!("../../../configs/cluster/memwall-exporter.yaml"),
    }
}
