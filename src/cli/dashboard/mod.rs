//! The dashboard: one owner of the state, fed by tasks, drawing when something happened.

mod active_recording;
mod alert_output;
mod calibrations;
mod files;
mod input;
mod look;
mod output;
mod panics;
mod recovery;
mod searching;
mod stray_output;
pub mod supervisor;
mod suspension;
mod terminal;
mod watch;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use super::demo::PendingDemo;
pub use recovery::Store;
pub use watch::{WatchOptions, watch};

use super::import::OpenedPlan;
use super::replay::exit_for;
use super::{DashboardArgs, Exit, Streams, demo, import, plans, user_catalog};
use crate::app::{self, Account, AlertRules, Editor, Keymap, Notice, NoticeSeverity, Pane, State};
use crate::catalog::Catalog;
use crate::observe::log::Pattern;
use crate::observe::{self, Demo, FollowOptions, Header, PlanText, SharedRequirements, SourceChoice, SourceContext};
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

/// `memwall [PLAN]`: until the user quits or the system asks to.
pub fn run(args: &DashboardArgs, catalog: Catalog, streams: &mut Streams<'_>) -> Exit {
    let recorded = match recorded(&args.source) {
        Ok(recorded) => recorded,
        Err((exit, message)) => return streams.fail(exit, &message),
    };
    let (plan, account) = match open_plan(args, recorded.as_ref(), &catalog) {
        Ok(opened) => opened,
        Err(messages) => {
            return messages.iter().fold(Exit::Usage, |exit, message| exit.and(streams.fail(Exit::Usage, message)));
        }
    };
    let look = match look::choose(&args.look) {
        Ok(look) => look,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    let pattern = match args.log_pattern.as_deref().map(Pattern::new).transpose() {
        Ok(pattern) => pattern,
        Err(message) => return streams.fail(Exit::Usage, &format!("--log-pattern: {message}")),
    };
    let drivers = matches!(args.source, SourceChoice::Auto | SourceChoice::Nvml | SourceChoice::Amdgpu);
    if let Some(pid) = args.attach.filter(|pid| drivers && !observe::is_process(*pid))
        && observe::sees_all_processes()
    {
        return streams.fail(Exit::Failed, &format!("there is no process {pid}"));
    }
    let clock = Clock::start();
    let attach = args.attach.or(recorded.and_then(|header| header.attach));
    let mut state = State::on(plan, catalog, attach, clock.now());
    let files = own("keys.yaml", Keymap::parse).and_then(|keys| Ok((keys, own("alerts.yaml", AlertRules::parse)?)));
    (state.keys, state.run.alerts.rules) = match files {
        Ok(files) => files,
        Err(messages) => {
            return messages.iter().fold(Exit::Usage, |exit, message| exit.and(streams.fail(Exit::Usage, message)));
        }
    };
    let calibration = calibrations::file(|name| std::env::var_os(name));
    let (known, fault) = calibrations::read(calibration.as_deref());
    state.run.calibrations = known;
    state.notice = fault.map(|text| Notice { severity: NoticeSeverity::Problem, text });
    // What a recording tells of has nothing to do with the processes that run now, nor its plan with the user's.
    let live = !matches!(args.source, SourceChoice::Replay { .. });
    let store = Store::of_user(|name| std::env::var_os(name)).filter(|_| live || args.plan.is_some());
    let kept = store.as_ref().and_then(|store| store.unsaved(state.plans.editor.path(), state.plans.editor.name()));
    if let Some(account) = account {
        app::show_account(&mut state, account);
    }
    app::offer(&mut state, kept);
    state.views.mouse = args.look.mouse;
    state.monitor.interval = Seconds(args.interval.as_secs_f64());
    let (asked, pending_demo) = match source(args, &state) {
        Ok(source) => source,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    if pending_demo.is_none() {
        app::plan_of_simulation(&mut state);
    }
    if !live || attach.is_some() {
        // What is looked at is what was observed, or what runs.
        state.views.focus = Pane::Monitor;
    }
    let follow = FollowOptions { log: args.log.clone(), pattern, pid: args.attach, live };
    let mut asked = asked;
    let open = move |requirements: &SharedRequirements| asked.open(requirements);
    match watch(
        state,
        &look,
        open,
        WatchOptions { every: args.interval, clock, store, calibration, follow, pending_demo },
    ) {
        Ok(()) => Exit::Done,
        Err(message) => streams.fail(Exit::Failed, &message),
    }
}

/// Larger than any file of keys or alerts.
const MOST_OWN: u64 = 1 << 20;

/// A file of the user's, `~/.config/memwall/NAME`, read as what it is; what holds without one.
fn own<T: Default>(name: &str, parse: impl Fn(&str) -> Result<T, Vec<String>>) -> Result<T, Vec<String>> {
    let Some(path) = user_catalog::folder(|name| std::env::var_os(name)).map(|folder| folder.join(name)) else {
        return Ok(T::default());
    };
    let shown = path.display();
    let text = match crate::files::read_text(&path, MOST_OWN) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(T::default());
        }
        Err(error) => return Err(vec![format!("{shown}: {error}")]),
    };
    parse(&text).map_err(|faults| faults.into_iter().map(|fault| format!("{shown}:{fault}")).collect())
}

/// What the recording that is to be played says of itself; none where none is.
fn recorded(source: &SourceChoice) -> Result<Option<Header>, (Exit, String)> {
    let SourceChoice::Replay { path, .. } = source else { return Ok(None) };
    Header::read(path).map(Some).map_err(|why| (exit_for(&why), why.to_string()))
}

/// The plan of the command line, that of the recording, or the built-in example. One of the command
/// line need not be a plan yet; one that was read out of another tool's file comes with what was read.
fn open_plan(
    args: &DashboardArgs,
    recorded: Option<&Header>,
    catalog: &Catalog,
) -> Result<(Editor, Option<Account>), Vec<String>> {
    let kept = recorded.and_then(|header| header.plan.as_ref());
    if let Some(path) = &args.plan {
        return match import::to_edit(path, catalog).map_err(|why| vec![why])? {
            OpenedPlan::Text(text) => Ok((mended(path, text, catalog), None)),
            OpenedPlan::Import(import) => Ok((Editor::unsaved(import.plan, catalog), Some(import.account))),
        };
    }
    let said = |faults: Vec<Fault>| {
        let file = kept.map(|plan| format!("the recording's plan {}", plan.name));
        faults.into_iter().map(|fault| plans::line(file.as_deref(), fault)).collect::<Vec<_>>()
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
fn example() -> Result<LoadedPlan, Vec<Fault>> {
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
    catalog: Catalog,
}

impl RequestedSource {
    /// May be tried again where it fails.
    fn open(&mut self, requirements: &SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> {
        let Self { choice, demo, later, attach, catalog } = self;
        let (requirements, catalog) = (requirements.clone(), catalog.clone());
        // A demo is in place of a driver that is not there: it is not come back to.
        let context = SourceContext { demo: demo.take(), later: later.take(), attach: *attach, requirements, catalog };
        observe::open(choice.clone(), context)
    }
}

/// How to open the source that was asked for; and what waits for the demo where the plan makes no prediction yet.
///
/// # Errors
/// In a line, where the demo's run cannot depart from the plan as it is asked to.
fn source(args: &DashboardArgs, state: &State) -> Result<(RequestedSource, Option<PendingDemo>), String> {
    let choice = args.source.clone();
    if matches!(choice, SourceChoice::Auto) && args.attach.is_some() {
        // What runs is real: nothing is made up beside it.
        let catalog = state.catalog.clone();
        return Ok((RequestedSource { choice, demo: None, later: None, attach: args.attach, catalog }, None));
    }
    let demo = demo::run(&choice, &state.plans.editor, DEMO_HEAD_START, &state.catalog)?;
    let (hand, later) = mpsc::channel();
    let pending_demo =
        demo.is_none().then(|| PendingDemo { choice: choice.clone(), head_start: DEMO_HEAD_START, hand });
    let later = pending_demo.is_some().then_some(later);
    Ok((RequestedSource { choice, demo, later, attach: None, catalog: state.catalog.clone() }, pending_demo))
}
