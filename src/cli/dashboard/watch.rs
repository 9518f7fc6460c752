//! The loop: events in, state changed, effects carried out, one frame for all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{Event as TerminalEvent, EventStream};
use futures::StreamExt;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::files::{self, Keeper};
use super::input::{pointed, translate};
use super::panics::Panics;
use super::recovery::{Store, Wish};
use super::searching::Search;
use super::tape::Tape;
use super::terminal::{Screen, size};
use super::{Clock, alarm};
use crate::app::{Effect, Event, Meant, Source, State, update};
use crate::cli::ending::Ending;
use crate::cli::made_up::Awaited;
use crate::observe::{self, End, Follow, Header, PlanText, Report, Wants};
use crate::ui::{Look, Pointer, hit, wanted};

/// Events that may wait. A burst beyond that makes the terminal's reader wait, nothing is lost.
const QUEUE: usize = 256;

/// Samples that may wait: beyond that the source drops and counts them.
const REPORTS: usize = 4;

/// How long the time stands still on the screen where nothing else moves it.
const TICK: Duration = Duration::from_secs(1);

/// The same after a report, which moves it: were it no longer than reports take, every one would
/// come with a tick.
const LATE: Duration = Duration::from_millis(1250);

/// What the loop needs of the world besides its source and the terminal.
#[derive(Debug)]
pub struct Outside {
    /// Time between samples.
    pub every: Duration,
    /// The clock.
    pub clock: Clock,
    /// Where unsaved plans are kept against a crash; none: nowhere.
    pub store: Option<Store>,
    /// The file of calibrations; none: none are kept.
    pub calibration: Option<PathBuf>,
    /// Which logs and hooks are followed.
    pub follow: Follow,
    /// What waits for a plan that can be predicted.
    pub awaited: Option<Awaited>,
}

/// Shows the dashboard until the user quits or the system asks to.
///
/// # Errors
/// One line: no terminal, a terminal that went away, or an internal error. The terminal
/// has been put back by then.
pub fn watch(
    state: State,
    look: &Look,
    open: impl FnOnce(&Wants) -> Result<Box<dyn observe::Source>, String> + Send + 'static,
    outside: Outside,
) -> Result<(), String> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| format!("no event loop: {error}"))?;
    // Signals first: from here on none leaves the terminal as the dashboard needs it.
    let ending = {
        let _inside = runtime.enter();
        Ending::listen()?
    };
    let screen = Screen::take()?;
    let panics = Panics::catch();
    let around = Around { screen, ending, panics: panics.clone() };
    let watching = AssertUnwindSafe(|| runtime.block_on(watch_on(around, state, look, open, outside)));
    let outcome = catch_unwind(watching);
    // A save that hangs on a dead file system must not keep the program.
    runtime.shutdown_background();
    match (panics.finish(), outcome) {
        (Some(panic), _) => Err(panic),
        (None, Ok(outcome)) => outcome,
        (None, Err(_)) => Err("internal error".to_owned()),
    }
}

/// What surrounds the dashboard.
struct Around {
    screen: Screen,
    ending: Ending,
    panics: Panics,
}

async fn watch_on(
    around: Around,
    mut state: State,
    look: &Look,
    open: impl FnOnce(&Wants) -> Result<Box<dyn observe::Source>, String> + Send + 'static,
    outside: Outside,
) -> Result<(), String> {
    let Outside { every, clock, store, calibration, follow, mut awaited } = outside;
    let Around { mut screen, mut ending, panics } = around;
    let (events, mut happening) = mpsc::channel(QUEUE);
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let wants = Wants::nothing();
    let shared = wants.clone();
    let source = observe::spawn(move || open(&shared), every, move || clock.now(), reports)
        .map_err(|error| format!("no thread for the source: {error}"))?;
    let (news, mut heard) = mpsc::channel(REPORTS);
    let mut following = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
        .map_err(|error| format!("no thread for logs and hooks: {error}"))?;
    let (pointers, mut pointing) = mpsc::channel(QUEUE);
    tokio::spawn(read_terminal(events.clone(), pointers));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    state.views.size = size();
    if state.views.mouse {
        screen.take_mouse(true)?;
    }
    wants.set(wanted(&state));
    screen.draw(&state, look)?;
    let keeper = store.clone().map(Keeper::start);
    let failures = events.clone();
    // A dashboard that has gone meanwhile needs no telling.
    let commands = alarm::Commands::start(alarm::PATIENCE, move |event| drop(failures.blocking_send(event)))
        .map_err(|error| format!("no thread for the commands of alerts: {error}"))?;
    let mut hands = Hands {
        source,
        tape: None,
        search: Search::default(),
        events,
        every,
        clock,
        store,
        keeper,
        calibration,
        commands,
    };
    loop {
        let first = tokio::select! {
            event = happening.recv() => event.map(|event| vec![event]),
            pointer = pointing.recv(), if !pointing.is_closed() => {
                pointer.and_then(|pointer| hit(&state, pointer)).map(|target| vec![Event::Click(target)])
            }
            report = reported.recv(), if !reported.is_closed() => {
                ticks.reset_after(LATE);
                report.map(told)
            }
            news = heard.recv(), if !heard.is_closed() => news.map(|news| vec![Event::Run(Box::new(news))]),
            _ = ticks.tick() => Some(vec![Event::Tick(clock.now())]),
            () = ending.asked() => Some(vec![Event::TerminalGone]),
            () = panics.happened() => break,
        };
        let Some(first) = first else { continue };
        // Everything that has happened meanwhile goes into the same frame.
        let rest = std::iter::from_fn(|| next(&mut happening, &mut reported)).take(QUEUE);
        match hands.live_through(std::iter::once(first).chain(rest).flatten(), &mut state, &mut screen)? {
            Came::ToAnEnd => break,
            Came::Unseen => continue,
            Came::Seen => {}
        }
        awaited = awaited.filter(|awaited| !awaited.look(&mut state));
        following.attend(state.monitor.attached_here());
        wants.set(wanted(&state));
        screen.draw(&state, look)?;
    }
    hands.rest();
    Ok(())
}

/// What came of a few events.
enum Came {
    /// Something that the screen shows may be another.
    Seen,
    /// Nothing that it shows.
    Unseen,
    /// The user wants to leave.
    ToAnEnd,
}

/// What carries effects out.
struct Hands {
    source: observe::Handle,
    /// What is observed goes there, while it does.
    tape: Option<Tape>,
    search: Search,
    events: Sender<Event>,
    every: Duration,
    clock: Clock,
    store: Option<Store>,
    keeper: Option<Keeper>,
    calibration: Option<PathBuf>,
    commands: alarm::Commands,
}

impl Hands {
    /// Lets events happen in their order, each with its effects.
    fn live_through(
        &mut self,
        events: impl Iterator<Item = Event>,
        state: &mut State,
        screen: &mut Screen,
    ) -> Result<Came, String> {
        let mut came = Came::Unseen;
        for event in events {
            if let (Some(tape), Event::Sample(sample)) = (&mut self.tape, &event) {
                tape.put(sample, state);
            }
            let (ticked, told) = (matches!(event, Event::Tick(_)), matches!(event, Event::Run(_)));
            if !ticked && !told && !matches!(event, Event::Sample(_)) {
                screen.disturb();
            }
            for effect in update(state, event) {
                if effect == Effect::Quit {
                    return Ok(Came::ToAnEnd);
                }
                self.carry_out(effect, state, screen)?;
            }
            // Of time alone only the age of what is late is seen: the rest comes with the next sample,
            // and what the run tells as well where that is near. One frame is for both.
            let waits = ticked && state.monitor.is_fresh(state.now) || told && state.monitor.is_near(state.now);
            if !waits {
                came = Came::Seen;
            }
        }
        Ok(came)
    }

    fn carry_out(&mut self, effect: Effect, state: &State, screen: &mut Screen) -> Result<(), String> {
        let events = self.events.clone();
        match effect {
            // The loop's own.
            Effect::Quit => {}
            Effect::Save { path, name, text, expected } => files::save(path, &name, text, expected, events),
            Effect::Open(path) => files::open(&path, self.store.clone(), state.catalog.clone(), events),
            Effect::Infer(pid) => files::infer(pid, state, events),
            Effect::Explain(number) => files::explain(number, state, events),
            Effect::Search(number) => self.search.begin(number, state, events),
            Effect::CancelSearch => self.search.cancel(),
            Effect::Read { number, text } => files::read(number, text, events),
            Effect::ListPlans => files::list(state.catalog.clone(), events),
            Effect::CompletePath(typed) => files::complete(typed, events),
            Effect::ReadConfig { folder, named } => files::read_config(&folder, named, events),
            Effect::Keep(unsaved) => self.wish(Wish::Keep(unsaved)),
            Effect::Forget { path, name } => self.wish(Wish::Forget(path, name)),
            Effect::Mouse(taken) => return screen.take_mouse(taken),
            Effect::Record => self.tape = self.header(state).map(|header| Tape::start(header, events)),
            Effect::StopRecording => self.tape = None,
            Effect::Steer(steer) => self.source.steer(steer),
            Effect::Calibrate(kept, keep) => files::calibrate(self.calibration.clone(), *kept, keep, events),
            Effect::Alarm(alarm) => {
                screen.send(&alarm::bytes(&alarm, |name| std::env::var(name).ok()))?;
                self.commands.send(*alarm);
            }
            Effect::End { meant, forced } => end(meant, forced, events),
        }
        Ok(())
    }

    fn wish(&self, wish: Wish) {
        if let Some(keeper) = &self.keeper {
            keeper.wish(wish);
        }
    }

    /// What a recording that begins now says of itself.
    fn header(&self, state: &State) -> Option<Header> {
        let Source::Running(source) = &state.monitor.source else { return None };
        let plan = PlanText::new(state.plans.editor.name(), state.plans.editor.text(), state.plans.editor.hf_config());
        let attach = state.monitor.attached.as_ref().map(|attached| attached.pid);
        let header = Header::new(self.clock.now(), self.every, source.clone());
        Some(Header { attach, plan: Some(plan), ..header })
    }

    /// Ends what is under way.
    fn rest(self) {
        if let Some(tape) = self.tape {
            tape.finish();
        }
    }
}

fn next(happening: &mut Receiver<Event>, reported: &mut Receiver<Report>) -> Option<Vec<Event>> {
    happening.try_recv().ok().map(|event| vec![event]).or_else(|| reported.try_recv().ok().map(told))
}

fn told(report: Report) -> Vec<Event> {
    let sample = |sample| Event::Sample(Box::new(sample));
    match report {
        Report::Started(info) => vec![Event::SourceStarted(info)],
        Report::Sample(seen) => vec![sample(seen)],
        Report::Played(playback, samples) => {
            std::iter::once(Event::Played(playback)).chain(samples.into_iter().map(sample)).collect()
        }
        Report::Failed(why) => vec![Event::SourceFailed(why)],
    }
}

/// Passes the terminal's events on until the terminal or the dashboard is gone.
async fn read_terminal(events: Sender<Event>, pointers: Sender<Pointer>) {
    let mut terminal = EventStream::new();
    // From here on a change of size is told; what it was before then nobody told.
    let (width, height) = size();
    if events.send(Event::Resized(width, height)).await.is_err() {
        return;
    }
    while let Some(Ok(event)) = terminal.next().await {
        if let TerminalEvent::Mouse(mouse) = event {
            // A wheel turns faster than anyone reads: what does not fit is left out.
            let _left_out = pointed(mouse).map(|pointer| pointers.try_send(pointer).is_err());
            continue;
        }
        let Some(event) = translate(event) else { continue };
        if events.send(event).await.is_err() {
            return;
        }
    }
    // A dashboard that has gone meanwhile needs no telling.
    drop(events.send(Event::TerminalGone).await);
}

/// Sends a signal on a thread that may block: looking at a process can.
fn end(meant: Meant, forced: bool, events: Sender<Event>) {
    let how = if forced { End::Forced } else { End::Asked };
    tokio::task::spawn_blocking(move || {
        let event = match observe::end(meant.pid, meant.started, how) {
            Ok(()) => Event::EndSent { meant, forced },
            Err(why) => Event::EndFailed(why),
        };
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(event));
    });
}
