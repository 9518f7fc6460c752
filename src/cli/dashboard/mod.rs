//! The dashboard: one owner of the state, fed by tasks, drawing when something happened.

mod files;
mod input;
mod look;
mod panics;
mod recovery;
mod tape;
mod terminal;
mod watch;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use recovery::Store;
pub use watch::{Outside, watch};

use super::replay::exit_for;
use super::{DashboardArgs, Exit, Streams, import, made_up, plans, user_catalog};
use crate::app::{self, Keymap, State};
use crate::catalog::Catalog;
use crate::observe::log::Pattern;
use crate::observe::{self, Choice, Follow, Header, Means, Wants};
use crate::plan::{EXAMPLES, Fault, Loaded};
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
    let loaded = match open_plan(args, recorded.as_ref(), &catalog) {
        Ok(loaded) => loaded,
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
    let clock = Clock::start();
    let attach = args.attach.or(recorded.and_then(|header| header.attach));
    let mut state = State::new(loaded, catalog, attach, clock.now());
    state.keys = match own_keys() {
        Ok(keys) => keys,
        Err(messages) => {
            return messages.iter().fold(Exit::Usage, |exit, message| exit.and(streams.fail(Exit::Usage, message)));
        }
    };
    let store = Store::of_user(|name| std::env::var_os(name));
    let kept = store.as_ref().and_then(|store| store.unsaved(state.editor.path(), state.editor.name()));
    app::offer(&mut state, kept);
    state.mouse = args.look.mouse;
    state.monitor.interval = Seconds(args.interval.as_secs_f64());
    let open = match source(args, &state) {
        Ok(open) => open,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    // What a recording tells of has nothing to do with the processes that run now.
    let live = !matches!(args.source, Choice::Replay { .. });
    let follow = Follow { log: args.log.clone(), pattern, pid: args.attach, live };
    match watch(state, &look, open, Outside { every: args.interval, clock, store, follow }) {
        Ok(()) => Exit::Done,
        Err(message) => streams.fail(Exit::Failed, &message),
    }
}

/// The user's key map: `~/.config/memwall/keys.yaml`, where there is one.
fn own_keys() -> Result<Keymap, Vec<String>> {
    let Some(path) = user_catalog::folder(|name| std::env::var_os(name)).map(|folder| folder.join("keys.yaml")) else {
        return Ok(Keymap::default());
    };
    if !path.is_file() {
        return Ok(Keymap::default());
    }
    let shown = path.display();
    let text = std::fs::read_to_string(&path).map_err(|error| vec![format!("{shown}: {error}")])?;
    Keymap::parse(&text).map_err(|faults| faults.into_iter().map(|fault| format!("{shown}:{fault}")).collect())
}

/// What the recording that is to be played says of itself; none where none is.
fn recorded(source: &Choice) -> Result<Option<Header>, (Exit, String)> {
    let Choice::Replay { path, .. } = source else { return Ok(None) };
    Header::read(path).map(Some).map_err(|why| (exit_for(&why), why.to_string()))
}

/// The plan of the command line, that of the recording, or the built-in example. It must make a
/// prediction.
fn open_plan(args: &DashboardArgs, recorded: Option<&Header>, catalog: &Catalog) -> Result<Loaded, Vec<String>> {
    let named = args.plan.as_ref().map(|path| path.display().to_string());
    let kept = recorded.and_then(|header| header.plan.as_ref());
    let said = |faults: Vec<Fault>| {
        let file = named.clone().or_else(|| kept.map(|plan| format!("the recording's plan {}", plan.name)));
        faults.into_iter().map(|fault| plans::line(file.as_deref(), fault)).collect::<Vec<_>>()
    };
    let loaded = match (&args.plan, kept) {
        (Some(path), _) => import::open(path),
        (None, Some(plan)) => plan.load(),
        (None, None) => example(),
    }
    .map_err(said)?;
    let place = |fault: Fault| loaded.document.placed(fault);
    Job::resolve(&loaded.plan, catalog).map_err(|faults| said(faults.into_iter().map(place).collect()))?;
    Ok(loaded)
}

/// What opens without a plan: a plain case that fits, so that there is something to play with.
fn example() -> Result<Loaded, Vec<Fault>> {
    const NAME: &str = "13b_long_sequence";
    match EXAMPLES.iter().find(|(name, _)| *name == NAME) {
        Some((name, text)) => Loaded::from_text(name, text),
        None => Err(vec![Fault::of("", format!("no example `{NAME}`"))]),
    }
}

/// How to open the source that was asked for, on its own thread.
///
/// # Errors
/// In a line, where the demo's run cannot depart from the plan as it is asked to.
fn source(
    args: &DashboardArgs,
    state: &State,
) -> Result<impl FnOnce(&Wants) -> Result<Box<dyn observe::Source>, String> + Send + 'static, String> {
    let choice = args.source.clone();
    let demo = made_up::run(&choice, &state.editor, DEMO_HEAD_START, &state.catalog)?;
    let catalog = state.catalog.clone();
    Ok(move |wants: &Wants| observe::open(choice, Means { demo, wants: wants.clone(), catalog }))
}
