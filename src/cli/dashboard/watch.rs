//! The loop: events in, state changed, effects carried out, one frame for all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossterm::event::EventStream;
use futures::StreamExt;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::super::infer;
use super::Clock;
use super::input::translate;
use super::panics::Panics;
use super::tape::Tape;
use super::terminal::Screen;
use crate::app::{Effect, Event, Source, State, update};
use crate::cli::ending::Ending;
use crate::observe::{self, Header, PlanText, Report};
use crate::plan;
use crate::ui::Look;

/// Events that may wait. A burst beyond that makes the terminal's reader wait, nothing is lost.
const QUEUE: usize = 256;

/// Samples that may wait: beyond that the source drops and counts them.
const REPORTS: usize = 4;

/// Shows the dashboard until the user quits or the system asks to.
///
/// # Errors
/// One line: no terminal, a terminal that went away, or an internal error. The terminal
/// has been put back by then.
pub fn watch(
    state: State,
    look: &Look,
    open: impl FnOnce() -> Result<Box<dyn observe::Source>, String> + Send + 'static,
    every: Duration,
    clock: Clock,
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
    let watching = AssertUnwindSafe(|| runtime.block_on(watch_on(around, state, look, open, every, clock)));
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
    open: impl FnOnce() -> Result<Box<dyn observe::Source>, String> + Send + 'static,
    every: Duration,
    clock: Clock,
) -> Result<(), String> {
    let Around { mut screen, mut ending, panics } = around;
    let (events, mut happening) = mpsc::channel(QUEUE);
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let source = observe::spawn(open, every, move || clock.now(), reports)
        .map_err(|error| format!("no thread for the source: {error}"))?;
    tokio::spawn(read_terminal(events.clone()));
    tokio::spawn(tick(events.clone(), clock));
    state.size = screen.size();
    screen.draw(&state, look)?;
    let mut hands = Hands { source, tape: None, events, every, clock };
    loop {
        let first = tokio::select! {
            event = happening.recv() => event.map(|event| vec![event]),
            report = reported.recv(), if !reported.is_closed() => report.map(told),
            () = ending.asked() => break,
            () = panics.happened() => break,
        };
        let Some(first) = first else { continue };
        // Everything that has happened meanwhile goes into the same frame.
        let rest = std::iter::from_fn(|| next(&mut happening, &mut reported)).take(QUEUE);
        for event in std::iter::once(first).chain(rest).flatten() {
            if let (Some(tape), Event::Sample(sample)) = (&mut hands.tape, &event) {
                tape.put(sample);
            }
            for effect in update(&mut state, event) {
                if effect == Effect::Quit {
                    hands.rest();
                    return Ok(());
                }
                hands.carry_out(effect, &state);
            }
        }
        screen.draw(&state, look)?;
    }
    hands.rest();
    Ok(())
}

/// What carries effects out.
struct Hands {
    source: observe::Handle,
    /// What is observed goes there, while it does.
    tape: Option<Tape>,
    events: Sender<Event>,
    every: Duration,
    clock: Clock,
}

impl Hands {
    fn carry_out(&mut self, effect: Effect, state: &State) {
        match effect {
            // The loop's own.
            Effect::Quit => {}
            Effect::Save { path, name, text, over } => {
                let opened = (!over).then(|| state.editor.saved_text().to_owned());
                save(path, &name, text, opened, self.events.clone());
            }
            Effect::Record => {
                self.tape = self.header(state).map(|header| Tape::start(header, self.events.clone()));
            }
            Effect::Infer(pid) => infer(pid, state, self.events.clone()),
            Effect::StopRecording => self.tape = None,
            Effect::Steer(steer) => self.source.steer(steer),
        }
    }

    /// What a recording that begins now says of itself.
    fn header(&self, state: &State) -> Option<Header> {
        let Source::Running(source) = &state.monitor.source else { return None };
        let plan = PlanText::new(state.editor.name(), state.editor.text(), state.editor.hf_config());
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
async fn read_terminal(events: Sender<Event>) {
    let mut terminal = EventStream::new();
    while let Some(Ok(event)) = terminal.next().await {
        let Some(event) = translate(event) else { continue };
        if events.send(event).await.is_err() {
            return;
        }
    }
    // A dashboard that has gone meanwhile needs no telling.
    drop(events.send(Event::TerminalGone).await);
}

async fn tick(events: Sender<Event>, clock: Clock) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if events.send(Event::Tick(clock.now())).await.is_err() {
            return;
        }
    }
}

/// Reads the plan of a process on a thread that may block: files of its own may lie anywhere.
fn infer(pid: u32, state: &State, events: Sender<Event>) {
    let gpus = state.monitor.devices().iter().filter_map(|device| device.name.value().cloned()).collect();
    let catalog = state.catalog.clone();
    tokio::task::spawn_blocking(move || {
        let outcome = infer::proposal(pid, gpus, &catalog).map(Box::new);
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(Event::Inferred { pid, outcome }));
    });
}

/// Writes the plan on a thread that may block.
///
/// `opened` is the text that may be written over; none: whatever is there.
fn save(path: Option<PathBuf>, name: &str, text: String, opened: Option<String>, events: Sender<Event>) {
    let new = path.is_none();
    let path = path.unwrap_or_else(|| Path::new(name).with_extension("yaml"));
    tokio::task::spawn_blocking(move || {
        let event = match opened.and_then(|opened| refused(&path, new, &opened)) {
            Some(why) => Event::SaveRefused(why),
            None => match plan::save(&path, &text) {
                Ok(()) => Event::Saved { path, text },
                Err(fault) => Event::SaveFailed(format!("not saved: {fault}")),
            },
        };
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(event));
    });
}

/// Why a plan is not written over what is there: somebody else's file, or somebody else's
/// changes. A file that is gone is in nobody's way.
fn refused(path: &Path, new: bool, opened: &str) -> Option<String> {
    let shown = path.display();
    if !path.exists() {
        None
    } else if new {
        Some(format!("not saved: {shown} exists already"))
    } else if plan::differs(path, opened) {
        Some(format!("not saved: {shown} was changed by someone else since it was opened"))
    } else {
        None
    }
}
