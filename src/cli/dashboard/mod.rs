//! The dashboard: one owner of the state, fed by tasks, drawing when something happened.

mod input;
mod look;
mod panics;
mod terminal;
mod watch;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use watch::watch;

use super::{DashboardArgs, Exit, SourceKind, Streams, import, plans};
use crate::app::State;
use crate::catalog::Catalog;
use crate::observe::{self, Wants};
use crate::plan::{EXAMPLES, Fault, Loaded};
use crate::predict::{Job, Verdict};
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
    let loaded = match open_plan(args, &catalog) {
        Ok(loaded) => loaded,
        Err(messages) => {
            return messages.iter().fold(Exit::Usage, |exit, message| exit.and(streams.fail(Exit::Usage, message)));
        }
    };
    let look = match look::choose(args) {
        Ok(look) => look,
        Err(message) => return streams.fail(Exit::Usage, &message),
    };
    let clock = Clock::start();
    let mut state = State::new(loaded, catalog, args.attach, clock.now());
    state.monitor.interval = Seconds(args.interval.as_secs_f64());
    let open = source(args, &state);
    match watch(state, &look, open, args.interval, clock) {
        Ok(()) => Exit::Done,
        Err(message) => streams.fail(Exit::Failed, &message),
    }
}

/// The plan of the command line, or the built-in example. It must make a prediction.
fn open_plan(args: &DashboardArgs, catalog: &Catalog) -> Result<Loaded, Vec<String>> {
    let said = |faults: Vec<Fault>| {
        let file = args.plan.as_ref().map(|path| path.display().to_string());
        faults.into_iter().map(|fault| plans::line(file.as_deref(), fault)).collect::<Vec<_>>()
    };
    let loaded = match &args.plan {
        Some(path) => import::open(path),
        None => example(),
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
fn source(
    args: &DashboardArgs,
    state: &State,
) -> impl FnOnce() -> Result<Box<dyn observe::Source>, String> + Send + 'static {
    let choice = match args.source {
        SourceKind::Auto => observe::Choice::Auto,
        SourceKind::Nvml => observe::Choice::Nvml,
        SourceKind::Demo => observe::Choice::Demo,
    };
    let demo = state.editor.prediction().zip(state.editor.job()).map(|(prediction, job)| {
        let demo = observe::Demo::new(prediction, &job.hardware.gpu);
        // A run that is under way says more at first sight than one that is loading.
        let fits = prediction.capacity.verdict() != Verdict::DoesNotFit;
        if fits { demo.after(DEMO_HEAD_START) } else { demo }
    });
    // Bandwidth and tensor activity are in the header, so the counters are always wanted.
    move || observe::open(choice, demo, &Wants::everything())
}
