//! The dashboard: one owner of the state, fed by tasks, drawing when something happened.

mod active_recording;
mod alert_output;
pub(super) mod calibrations;
mod cells;
mod cluster;
mod files;
mod input;
mod look;
mod loop_inputs;
mod once;
mod open_plans;
mod output;
mod panics;
mod recovery;
mod searching;
mod session;
mod stray_output;
pub mod supervisor;
mod surroundings;
mod suspension;
mod terminal;
mod watch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use super::demo::PendingDemo;
pub use look::{has_sixteen_colours, known_themes, no_theme};
pub use once::once;
pub use recovery::Store;
pub use watch::{WatchOptions, watch};

use self::look::ChosenLook;
use super::args::is_new_plan;
use super::config::Config;
use super::import::OpenedPlan;
use super::{DashboardArgs, Exit, Failure, demo, import, plans};
use crate::app::{self, Account, Editor, Notice, NoticeSeverity, Pane, SavedSession, SourceState, State, Themes};
use crate::catalog::{Catalog, Generation};
use crate::observe::log::Pattern;
use crate::observe::{
    self, Access, Demo, FollowOptions, Header, PlanText, SharedRequirements, SourceChoice, SourceContext, SourceError,
};
use crate::plan::{self, EXAMPLES, Fault, LoadedPlan};
use crate::predict::Job;
use crate::reading::Moment;
use crate::units::Seconds;

/// How long the demo's run has been going on when the dashboard opens.
const DEMO_HEAD_START: Seconds = Seconds(300.0);

/// Time since the Unix epoch that never goes back, whatever is done to the system's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: Moment,
    start: Instant,
}

impl Clock {
    /// A clock that shows the system's time now.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = Moment(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
        Self { epoch, start: Instant::now() }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.epoch.plus_millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

/// Why a terminal of that kind (`TERM`) cannot show the dashboard, and what to do; none where it can.
#[must_use]
pub fn unable(kind: Option<&OsStr>) -> Option<String> {
    (kind == Some(OsStr::new("dumb"))).then(|| {
        "TERM=dumb: this terminal cannot place text, which the dashboard needs. `memwall predict PLAN` writes a report, \
         `memwall record` writes what is observed; or set TERM to what the terminal is, such as xterm-256color"
            .to_owned()
    })
}

/// Every theme with where it is from, a line each.
pub fn themes() -> String {
    look::list()
}

/// The pattern that lines of the named log have. A simulated or recorded run has steps of its own: no log goes with it.
fn pattern(args: &DashboardArgs, source: &SourceChoice) -> Result<Option<Pattern>, Failure> {
    let own = matches!(source, SourceChoice::Demo(_) | SourceChoice::Replay { .. });
    if own && args.log.is_some() {
        let why = "--log follows a run that trains: a demo and a recording have steps of their own, leave --source out";
        return Err(Failure::usage(why));
    }
    let pattern = args.log_pattern.as_deref().map(Pattern::new).transpose();
    pattern.map_err(|why| Failure::usage(format!("--log-pattern: {why}")))
}

/// What is said of a process to attach to that is not there, where the source watches this machine.
fn missing_process(attach: Option<u32>, source: &SourceChoice) -> Option<String> {
    let drivers = matches!(source, SourceChoice::Auto | SourceChoice::Nvml | SourceChoice::Amdgpu);
    let pid = attach.filter(|pid| drivers && !observe::is_process(*pid))?;
    observe::sees_all_processes().then(|| format!("there is no process {pid}"))
}

/// `memwall [PLAN]`: until the user quits or the system asks to. `unreadable`: what of the user's catalogue is not used.
///
/// # Errors
/// Why there is no dashboard, or why it ended.
pub fn run(args: &DashboardArgs, catalog: Catalog, unreadable: &[String]) -> Result<Exit, Failure> {
    let variable = |name: &str| std::env::var_os(name);
    let config = Config::load(variable);
    let usual = config.source.clone().filter(|_| !args.tutorial);
    let choice = args.source.clone().or(usual).unwrap_or(SourceChoice::Auto);
    let recorded = recorded(&choice)?;
    let (plan, account) =
        if args.tutorial { (app::first_lesson(&catalog), None) } else { open_plan(args, recorded.as_ref(), &catalog)? };
    let session = session::file(variable);
    let before = session.as_deref().map(session::read).unwrap_or_default();
    let ChosenLook { look, themes, by_name, faults } = look::choose(&args.look, &config, before.theme.clone())?;
    let pattern = pattern(args, &choice)?;
    if let Some(missing) = missing_process(args.attach, &choice) {
        return Err(Failure::failed(missing));
    }
    let rank_file = cluster::rank_file(args.hosts.as_deref())?;
    let clock = Clock::start();
    let attach = args.attach.or(recorded.and_then(|header| header.attach));
    let mut state = State::on(plan, catalog, attach, clock.now());
    let calibration = calibrations::file(variable);
    let (known, unread) = calibrations::read(calibration.as_deref());
    state.run.calibrations = known;
    state.run.telemetry.is_simulation_asked_for = matches!(choice, SourceChoice::Demo(_));
    configure(&mut state, &config, before, themes);
    state.views.ascii = look.ascii;
    state.views.mouse = args.look.mouse || config.mouse == Some(true);
    cluster::watch_job(&mut state, args.job.clone(), rank_file);
    state.monitor.cluster.rack_pattern = config.rack.clone();
    // What a recording tells of has nothing to do with the processes that run now, nor its plan with the user's.
    let live = !matches!(choice, SourceChoice::Replay { .. });
    let store = Store::of_user(variable).filter(|_| live || args.plan.is_some());
    let fault = first_of(unreadable).or_else(|| config.fault()).or(unread).or_else(|| faults.into_iter().next());
    greet(&mut state, account, args.plan.clone(), fault);
    offer_drafts(&mut state, store.as_ref());
    let every = args.interval.or(config.interval).unwrap_or(USUAL_INTERVAL);
    state.monitor.interval = Seconds(every.as_secs_f64());
    let (mut asked, pending_demo) = source(&choice, (args.attach, args.log.is_some()), config.access.clone(), &state)?;
    if pending_demo.is_none() && !args.tutorial {
        app::plan_of_simulation(&mut state);
    }
    // What is looked at is what was observed, or what runs.
    let observed = (!live || attach.is_some()).then_some(Pane::Monitor);
    state.views.focus = config.start_pane.or(observed).unwrap_or(state.views.focus);
    if args.tutorial {
        state.monitor.source = SourceState::Unwatched;
        app::open_tutorial(&mut state);
    }
    let follow = FollowOptions { log: args.log.clone(), pattern, pid: args.attach, live: live && !args.tutorial };
    let is_alone = args.tutorial;
    let open = move |requirements: &SharedRequirements| match is_alone {
        true => Err(SourceError::Unwanted),
        false => asked.open(requirements),
    };
    watch(
        state,
        &look,
        open,
        WatchOptions { every, clock, store, calibration, follow, pending_demo, session, themes: by_name },
    )?;
    Ok(Exit::Done)
}

/// Offers what earlier sessions left unsaved of the plan.
fn offer_drafts(state: &mut State, store: Option<&Store>) {
    let editor = &state.plans.editor;
    let drafts =
        store.filter(|_| !editor.is_lesson()).map(|store| store.drafts(editor.path(), editor.name(), editor.text()));
    app::offer(state, drafts.unwrap_or_default());
}

/// The first of what is wrong with the user's catalogue, and how many more there are.
fn first_of(unreadable: &[String]) -> Option<String> {
    let (first, others) = unreadable.split_first()?;
    Some(match others.len() {
        0 => first.clone(),
        count => format!("{first} (and {count} more: `memwall doctor` lists them)"),
    })
}

/// What is said before the first key: how the plan was read, that there is none yet, and what is wrong with a file.
fn greet(state: &mut State, account: Option<Account>, asked: Option<PathBuf>, fault: Option<String>) {
    if let Some(account) = account {
        app::show_account(state, account);
    }
    if state.plans.editor.is_new() {
        app::ask_new_plan(state, asked);
    }
    state.notice = fault.map(|text| Notice { severity: NoticeSeverity::Problem, text }).or(state.notice.take());
}

/// Time between readings where nobody says another.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// The dashboard as its user has it: what is configured goes over what the last session left.
fn configure(state: &mut State, config: &Config, before: SavedSession, themes: Themes) {
    if let Some(panes) = &config.panes {
        state.views.arrangement.show_only(panes);
    }
    before.restore(state);
    state.views.themes = themes;
    if let Some(preset) = config.layout {
        state.views.arrangement.preset = preset;
    }
    state.keys = config.keys.clone();
    state.run.alerts.rules = config.alerts.clone();
    if let Some(path) = state.plans.editor.path().filter(|_| !state.plans.editor.is_new()) {
        app::note_recent(&mut state.plans.recent, path);
    }
}

/// What the recording that is to be played says of itself; none where none is.
fn recorded(source: &SourceChoice) -> Result<Option<Header>, Failure> {
    let SourceChoice::Replay { path, .. } = source else { return Ok(None) };
    Ok(Some(Header::read(path)?))
}

/// The plan of the command line, that of the recording, or the built-in example. One of the command
/// line need not be a plan yet; one that was read out of another tool's file comes with what was read.
fn open_plan(
    args: &DashboardArgs,
    recorded: Option<&Header>,
    catalog: &Catalog,
) -> Result<(Editor, Option<Account>), Failure> {
    let kept = recorded.and_then(|header| header.plan.as_ref());
    if let Some(path) = args.plan.as_deref().filter(|path| is_new_plan(path)) {
        return Ok((Editor::unbegun(path), None));
    }
    if let Some(path) = &args.plan {
        return Ok(match import::to_edit(path, catalog)? {
            OpenedPlan::Text(text) => (mended(path, text, catalog), None),
            OpenedPlan::Import(import) => (Editor::unsaved(import.plan, catalog), Some(import.account)),
        });
    }
    let said = |faults: Vec<Fault>| {
        let file = kept.map(|plan| format!("the recording's plan {}", plan.name));
        plans::refused(file.as_deref(), faults)
    };
    let loaded = kept.map_or_else(example, PlanText::load).map_err(said)?;
    let place = |fault: Fault| loaded.document.placed(fault);
    Job::resolve(&loaded.plan, catalog).map_err(|faults| said(faults.into_iter().map(place).collect()))?;
    Ok((Editor::open(loaded, catalog), None))
}

/// The plan of a file with what it refers to, or its text as it stands.
fn mended(path: &Path, text: String, catalog: &Catalog) -> Editor {
    match LoadedPlan::load(path) {
        Ok(loaded) => Editor::open(loaded, catalog),
        Err(_) => Editor::open_text(plan::name_of(path), Some(path.to_owned()), text, catalog),
    }
}

/// What opens without a plan: a plain case that fits, so that there is something to play with.
pub(super) fn example() -> Result<LoadedPlan, Vec<Fault>> {
    const NAME: &str = "13b_long_sequence";
    match EXAMPLES.iter().find(|(name, _)| *name == NAME) {
        Some((name, text)) => LoadedPlan::from_text(name, text),
        None => Err(vec![Fault::of("", format!("no example `{NAME}`"))]),
    }
}

/// The source that was asked for, to be opened on its own thread.
struct RequestedSource {
    choice: SourceChoice,
    demo: Option<Demo>,
    later: Option<mpsc::Receiver<Demo>>,
    attach: Option<u32>,
    log: bool,
    catalog: Catalog,
    access: Access,
    /// The plan trains on a CPU: no GPU is made up for it.
    on_cpu: bool,
}

impl RequestedSource {
    /// May be tried again where it fails.
    fn open(&mut self, requirements: &SharedRequirements) -> Result<Box<dyn observe::Source>, SourceError> {
        let Self { choice, demo, later, attach, log, catalog, access, on_cpu } = self;
        let (requirements, catalog) = (requirements.clone(), catalog.clone());
        // A demo is in place of a driver that is not there: it is not come back to.
        let (demo, later, access) = (demo.take(), later.take(), access.clone());
        let context = SourceContext { demo, later, attach: *attach, log: *log, requirements, catalog, access };
        observe::open(choice.clone(), context).map_err(|error| match error {
            SourceError::Nvml(why) if *on_cpu && !why.is_broken() => SourceError::CpuPlan,
            error => error,
        })
    }
}

/// How to open the source that was asked for; and what waits for the demo where the plan makes no prediction yet.
///
/// # Errors
/// Where the demo's run cannot depart from the plan as it is asked to.
fn source(
    choice: &SourceChoice,
    (attach, log): (Option<u32>, bool),
    access: Access,
    state: &State,
) -> Result<(RequestedSource, Option<PendingDemo>), Failure> {
    let choice = choice.clone();
    let on_cpu = state.plans.editor.job().is_some_and(|job| job.hardware.gpu.generation == Generation::Cpu);
    let auto = matches!(choice, SourceChoice::Auto);
    if auto && (attach.is_some() || log || on_cpu) {
        // What runs is real: nothing is made up beside it. Nor is a GPU for a CPU.
        let catalog = Catalog::clone(&state.catalog);
        return Ok((RequestedSource { choice, demo: None, later: None, attach, log, catalog, access, on_cpu }, None));
    }
    let demo = demo::run(&choice, &state.plans.editor, DEMO_HEAD_START, &state.catalog)?;
    let (hand, later) = mpsc::channel();
    let pending_demo =
        demo.is_none().then(|| PendingDemo { choice: choice.clone(), head_start: DEMO_HEAD_START, hand });
    let later = pending_demo.is_some().then_some(later);
    Ok((
        RequestedSource {
            choice,
            demo,
            later,
            attach: None,
            log,
            catalog: Catalog::clone(&state.catalog),
            access,
            on_cpu,
        },
        pending_demo,
    ))
}
