//! The loop: events in, state changed, effects carried out, one frame for all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::active_recording::ActiveRecording;
use super::files::{self, Keeper};
use super::input::{self, InputGate};
use super::panics::Panics;
use super::recovery::{RecoveryRequest, Store};
use super::searching::Search;
use super::stray_output::StrayOutput;
use super::suspension::{self, JobControl};
use super::terminal::{TerminalScreen, size};
use super::{Clock, alert_output};
use crate::app::{Effect, Event, SourceState, State, TargetProcess, update};
use crate::cli::demo::PendingDemo;
use crate::cli::termination::TerminationSignals;
use crate::observe::{self, End, FollowOptions, Header, PlanText, SharedRequirements, SourceReport};
use crate::ui::{Look, hit, required_metrics};

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
pub struct WatchOptions {
    /// Time between samples.
    pub every: Duration,
    /// The clock.
    pub clock: Clock,
    /// Where unsaved plans are kept against a crash; none: nowhere.
    pub store: Option<Store>,
    /// The file of calibrations; none: none are kept.
    pub calibration: Option<PathBuf>,
    /// Which logs and hooks are followed.
    pub follow: FollowOptions,
    /// What waits for a plan that can be predicted.
    pub pending_demo: Option<PendingDemo>,
}

/// Shows the dashboard until the user quits or the system asks to.
///
/// # Errors
/// One line: no terminal, a terminal that went away, or an internal error. The terminal
/// has been put back by then.
pub fn watch(
    state: State,
    look: &Look,
    open: impl FnMut(&SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + 'static,
    outside: WatchOptions,
) -> Result<(), String> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| format!("no event loop: {error}"))?;
    // Signals first: from here on none leaves the terminal as the dashboard needs it.
    let (ending, jobs) = {
        let _inside = runtime.enter();
        (TerminationSignals::listen()?, JobControl::listen()?)
    };
    let (answers, answered) = mpsc::channel(1);
    let gate = InputGate::default();
    let screen = TerminalScreen::take(gate.clone(), answered)?;
    let panics = Panics::catch();
    let around = LoopParts { screen, gate, answers, ending, jobs, panics: panics.clone() };
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
struct LoopParts {
    screen: TerminalScreen,
    gate: InputGate,
    answers: Sender<()>,
    ending: TerminationSignals,
    jobs: JobControl,
    panics: Panics,
}

async fn watch_on(
    around: LoopParts,
    mut state: State,
    look: &Look,
    mut open: impl FnMut(&SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + 'static,
    outside: WatchOptions,
) -> Result<(), String> {
    let WatchOptions { every, clock, store, calibration, follow, mut pending_demo } = outside;
    let LoopParts { mut screen, gate, answers, mut ending, mut jobs, panics } = around;
    let (events, mut happening) = mpsc::channel(QUEUE);
    // From here on only the loop writes to the terminal.
    let _stray = StrayOutput::catch(events.clone());
    let (reports, mut reported) = mpsc::channel(REPORTS);
    let requirements = SharedRequirements::nothing();
    let shared = requirements.clone();
    let source = observe::spawn(move || open(&shared), every, move || clock.now(), reports)
        .map_err(|error| format!("no thread for the source: {error}"))?;
    let (news, mut heard) = mpsc::channel(REPORTS);
    let mut following = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
        .map_err(|error| format!("no thread for logs and hooks: {error}"))?;
    let (pointers, mut pointing) = mpsc::channel(QUEUE);
    tokio::spawn(input::pass_on(gate, events.clone(), pointers, answers));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    state.views.size = size();
    if state.views.mouse {
        screen.take_mouse(true)?;
    }
    requirements.set(required_metrics(&state));
    screen.draw(&state, look)?;
    let keeper = store.clone().map(Keeper::start);
    let failures = events.clone();
    // A dashboard that has gone meanwhile needs no telling.
    let commands =
        alert_output::Commands::start(alert_output::PATIENCE, move |event| drop(failures.blocking_send(event)))
            .map_err(|error| format!("no thread for the commands of alerts: {error}"))?;
    let mut event_loop = EventLoop {
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
                report.map(report_events)
            }
            news = heard.recv(), if !heard.is_closed() => news.map(|news| vec![Event::Run(Box::new(news))]),
            _ = ticks.tick() => Some(vec![Event::Tick(clock.now())]),
            turned = screen.turn(), if screen.is_under_way() => {
                turned?;
                Some(Vec::new())
            }
            wanted = jobs.wanted() => {
                if wanted == suspension::JobRequest::Stop {
                    jobs.stop(&mut screen).await;
                }
                screen.take_again()?;
                Some(vec![Event::Resized(size().0, size().1)])
            }
            () = ending.asked() => Some(vec![Event::TerminalGone]),
            () = panics.happened() => break,
        };
        let Some(first) = first else { continue };
        // Everything that has happened meanwhile goes into the same frame.
        let rest = std::iter::from_fn(|| next(&mut happening, &mut reported)).take(QUEUE);
        match event_loop.apply_events(std::iter::once(first).chain(rest).flatten(), &mut state, &mut screen)? {
            Exit::Finished => break,
            Exit::Suspended => {
                jobs.stop(&mut screen).await;
                screen.take_again()?;
            }
            Exit::Unchanged if !screen.is_due() => continue,
            Exit::Unchanged | Exit::Changed => {}
        }
        pending_demo = pending_demo.filter(|pending_demo| !pending_demo.look(&mut state));
        following.attend(state.monitor.attached_by_user());
        requirements.set(required_metrics(&state));
        screen.draw(&state, look)?;
    }
    // The terminal first: a disk may take longer.
    screen.give_back().await;
    event_loop.rest();
    Ok(())
}

/// What came of a few events.
enum Exit {
    /// Something that the screen shows may be another.
    Changed,
    /// Nothing that it shows.
    Unchanged,
    /// The user wants the shell for a while.
    Suspended,
    /// The user wants to leave.
    Finished,
}

/// What carries effects out.
struct EventLoop {
    source: observe::Handle,
    /// What is observed goes there, while it does.
    tape: Option<ActiveRecording>,
    search: Search,
    events: Sender<Event>,
    every: Duration,
    clock: Clock,
    store: Option<Store>,
    keeper: Option<Keeper>,
    calibration: Option<PathBuf>,
    commands: alert_output::Commands,
}

impl EventLoop {
    /// Lets events happen in their order, each with its effects.
    fn apply_events(
        &mut self,
        events: impl Iterator<Item = Event>,
        state: &mut State,
        screen: &mut TerminalScreen,
    ) -> Result<Exit, String> {
        let (mut exit, mut suspended) = (Exit::Unchanged, false);
        for event in events {
            if let (Some(tape), Event::Sample(sample)) = (&mut self.tape, &event) {
                tape.put(sample, state);
            }
            let (ticked, told) = (matches!(event, Event::Tick(_)), matches!(event, Event::Run(_)));
            if !ticked && !told && !matches!(event, Event::Sample(_)) {
                screen.disturb();
            }
            for effect in update(state, event) {
                match effect {
                    Effect::Quit => return Ok(Exit::Finished),
                    Effect::Suspend => {
                        suspended = true;
                        continue;
                    }
                    _ => {}
                }
                self.carry_out(effect, state, screen)?;
            }
            // Of time alone only the age of what is late is seen: the rest comes with the next sample,
            // and what the run tells as well where that is near. One frame is for both.
            let waits = ticked && state.monitor.is_fresh(state.now) || told && state.monitor.is_near(state.now);
            if !waits {
                exit = Exit::Changed;
            }
        }
        Ok(if suspended { Exit::Suspended } else { exit })
    }

    fn carry_out(&mut self, effect: Effect, state: &State, screen: &mut TerminalScreen) -> Result<(), String> {
        let events = self.events.clone();
        match effect {
            // The loop's own.
            Effect::Quit | Effect::Suspend => {}
            Effect::Repaint => return screen.repaint(),
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
            Effect::Keep(unsaved) => self.request(RecoveryRequest::Keep(unsaved)),
            Effect::Forget { path, name } => self.request(RecoveryRequest::Forget(path, name)),
            Effect::Mouse(taken) => return screen.take_mouse(taken),
            Effect::Record => self.tape = self.header(state).map(|header| ActiveRecording::start(header, events)),
            Effect::StopRecording => self.tape = None,
            Effect::Steer(steer) => self.source.steer(steer),
            Effect::Calibrate(kept, keep) => files::calibrate(self.calibration.clone(), *kept, keep, events),
            Effect::Alert(alert) => {
                screen.send(&alert_output::bytes(&alert, |name| std::env::var(name).ok()));
                self.commands.send(*alert);
            }
            Effect::End { meant, forced } => end(meant, forced, events),
        }
        Ok(())
    }

    fn request(&self, request: RecoveryRequest) {
        if let Some(keeper) = &self.keeper {
            keeper.request(request);
        }
    }

    /// What a recording that begins now says of itself.
    fn header(&self, state: &State) -> Option<Header> {
        let SourceState::Running(source) = &state.monitor.source else { return None };
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

fn next(happening: &mut Receiver<Event>, reported: &mut Receiver<SourceReport>) -> Option<Vec<Event>> {
    happening.try_recv().ok().map(|event| vec![event]).or_else(|| reported.try_recv().ok().map(report_events))
}

fn report_events(report: SourceReport) -> Vec<Event> {
    let sample = |sample| Event::Sample(Box::new(sample));
    match report {
        SourceReport::Started(info) => vec![Event::SourceStarted(info)],
        SourceReport::Sample(seen) => vec![sample(seen)],
        SourceReport::Played(playback, samples) => {
            std::iter::once(Event::Played(playback)).chain(samples.into_iter().map(sample)).collect()
        }
        SourceReport::Failed(why) => vec![Event::SourceFailed(why)],
    }
}

/// Sends a signal on a thread that may block: looking at a process can.
fn end(meant: TargetProcess, forced: bool, events: Sender<Event>) {
    let how = if forced { End::Forced } else { End::Asked };
    tokio::task::spawn_blocking(move || {
        let event = match observe::end(meant.pid, meant.started, how) {
            Ok(()) => Event::EndSent { meant, forced },
            Err(why) => Event::EndFailed(why.to_string()),
        };
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(event));
    });
}
