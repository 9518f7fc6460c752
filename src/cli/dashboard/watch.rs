//! The loop: events in, state changed, effects carried out, one frame for all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::active_recording::ActiveRecording;
use super::files::{self, Keeper};
use super::input::{self, InputGate};
use super::look::ThemedLook;
use super::loop_inputs::LoopInputs;
use super::open_plans::OpenPlans;
use super::panics::Panics;
use super::recovery::{RecoveryRequest, Store};
use super::searching::Search;
use super::session::SessionKeeper;
use super::stray_output::StrayOutput;
use super::surroundings::SurroundingsSearch;
use super::suspension::{self, JobControl};
use super::terminal::{TerminalScreen, size};
use super::{Clock, alert_output};
use crate::app::{Editor, Effect, Event, SourceState, State, TargetProcess, update};
use crate::catalog::Catalog;
use crate::cli::Failure;
use crate::cli::demo::PendingDemo;
use crate::cli::termination::TerminationSignals;
use crate::observe::{
    self, End, FollowOptions, Header, PlanText, RunFollower, SharedRequirements, SourceChoice, SourceContext,
    SourceReport,
};
use crate::reading::RunNews;
use crate::ui::{Look, Theme, required_metrics};

/// Events that may wait. A burst beyond that makes the terminal's reader wait, nothing is lost.
const QUEUE: usize = 256;

/// Samples that may wait: beyond that the source drops and counts them.
const REPORTS: usize = 4;

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
    /// The file in which habits are kept for the next start; none: none are.
    pub session: Option<PathBuf>,
    /// The themes that can be chosen.
    pub themes: Vec<(String, Theme)>,
}

/// Shows the dashboard until the user quits or the system asks to.
///
/// # Errors
/// No terminal, a terminal that went away, or an internal error. The terminal
/// has been put back by then.
pub fn watch(
    state: State,
    look: &Look,
    open: impl FnMut(&SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + 'static,
    outside: WatchOptions,
) -> Result<(), Failure> {
    let runtime = Builder::new_current_thread().enable_all().on_thread_start(step_back).build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no event loop: {error}")))?;
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
        (Some(panic), _) => Err(Failure::failed(panic)),
        (None, Ok(outcome)) => outcome,
        (None, Err(_)) => Err(Failure::failed("internal error")),
    }
}

/// Makes a thread that works something out come behind the one that answers keys, and behind a training. Linux takes
/// niceness for a thread's own (`man 7 pthreads`, on what differs from POSIX).
fn step_back() {
    // Where it is not allowed the work is done all the same.
    rustix::process::nice(10).ok();
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
    open: impl FnMut(&SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + 'static,
    mut outside: WatchOptions,
) -> Result<(), Failure> {
    let mut themed = ThemedLook::new(look, std::mem::take(&mut outside.themes), &state);
    let mut session = outside.session.take().map(SessionKeeper::start);
    let LoopParts { mut screen, gate, answers, ending, mut jobs, panics } = around;
    let (events, happening) = mpsc::channel(QUEUE);
    // From here on only the loop writes to the terminal.
    let _stray = StrayOutput::catch(events.clone());
    let clock = outside.clock;
    let mut pending_demo = outside.pending_demo.take();
    let (mut event_loop, reported, heard) = EventLoop::start(events.clone(), open, outside)?;
    let (pointers, pointing) = mpsc::channel(QUEUE);
    tokio::spawn(input::pass_on(gate, events, pointers, answers));
    let mut inputs = LoopInputs::new(happening, reported, heard, pointing, ending);
    state.views.size = size();
    if state.views.mouse {
        screen.take_mouse(true)?;
    }
    event_loop.look_at(&state, false);
    screen.draw(&state, themed.of(&state))?;
    loop {
        let first = tokio::select! {
            events = inputs.next(&state, clock) => events,
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
            () = panics.happened() => break,
        };
        let Some(first) = first else { continue };
        // Everything that has happened meanwhile goes into the same frame.
        let rest = std::iter::from_fn(|| inputs.try_next()).take(QUEUE);
        match event_loop.apply_events(std::iter::once(first).chain(rest).flatten(), &mut state, &mut screen)? {
            LoopExit::Finished => break,
            LoopExit::Suspended => {
                jobs.stop(&mut screen).await;
                screen.take_again()?;
            }
            LoopExit::Unchanged if !screen.is_due() => continue,
            LoopExit::Unchanged | LoopExit::Changed => {}
        }
        pending_demo = pending_demo.filter(|pending_demo| !pending_demo.look(&mut state));
        event_loop.look_at(&state, false);
        if let Some(session) = &mut session {
            session.look(&state);
        }
        screen.draw(&state, themed.of(&state))?;
    }
    // The terminal first: a disk may take longer.
    screen.give_back().await;
    // What changed together with the end is kept too.
    if let Some(session) = &mut session {
        session.look(&state);
    }
    event_loop.rest();
    Ok(())
}

/// What came of a few events.
enum LoopExit {
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
    /// Where a source reports.
    reports: Sender<SourceReport>,
    following: RunFollower,
    requirements: SharedRequirements,
    open_plans: Option<OpenPlans>,
    /// What is observed goes there, while it does.
    tape: Option<ActiveRecording>,
    search: Search,
    surroundings: SurroundingsSearch,
    events: Sender<Event>,
    every: Duration,
    clock: Clock,
    store: Option<Store>,
    keeper: Option<Keeper>,
    calibration: Option<PathBuf>,
    commands: alert_output::Commands,
}

impl EventLoop {
    /// Starts what works beside the loop, and returns where the source's and the runs' news come.
    fn start(
        events: Sender<Event>,
        mut open: impl FnMut(&SharedRequirements) -> Result<Box<dyn observe::Source>, observe::SourceError> + Send + 'static,
        outside: WatchOptions,
    ) -> Result<(Self, Receiver<SourceReport>, Receiver<RunNews>), Failure> {
        let WatchOptions { every, clock, store, calibration, follow, .. } = outside;
        let (reports, reported) = mpsc::channel(REPORTS);
        let requirements = SharedRequirements::nothing();
        let shared = requirements.clone();
        let source = observe::spawn(move || open(&shared), every, move || clock.now(), reports.clone())
            .map_err(|error| Failure::failed(format!("no thread for the source: {error}")))?;
        let (news, heard) = mpsc::channel(REPORTS);
        let following = observe::follow(follow, |name| std::env::var_os(name), move || clock.now(), news)
            .map_err(|error| Failure::failed(format!("no thread for logs and hooks: {error}")))?;
        let failures = events.clone();
        // A dashboard that has gone meanwhile needs no telling.
        let commands =
            alert_output::Commands::start(alert_output::PATIENCE, move |event| drop(failures.blocking_send(event)))
                .map_err(|error| Failure::failed(format!("no thread for the commands of alerts: {error}")))?;
        let event_loop = Self {
            source,
            reports,
            following,
            requirements,
            open_plans: OpenPlans::start(events.clone()),
            tape: None,
            search: Search::default(),
            surroundings: SurroundingsSearch::default(),
            keeper: store.clone().map(|store| Keeper::start(store, events.clone())),
            events,
            every,
            clock,
            store,
            calibration,
            commands,
        };
        Ok((event_loop, reported, heard))
    }

    /// Follows what is on the screen. `written`: a plan's file may be another one by now.
    fn look_at(&mut self, state: &State, written: bool) {
        self.following.attend(state.monitor.attached_by_user());
        self.requirements.set(required_metrics(state));
        if let Some(open_plans) = &mut self.open_plans {
            open_plans.follow(state.plans.tabs.all(&state.plans.editor).filter_map(Editor::path), written);
        }
    }

    /// Lets events happen in their order, each with its effects.
    fn apply_events(
        &mut self,
        events: impl Iterator<Item = Event>,
        state: &mut State,
        screen: &mut TerminalScreen,
    ) -> Result<LoopExit, Failure> {
        let (mut exit, mut suspended) = (LoopExit::Unchanged, false);
        for event in events {
            if let (Some(tape), Event::Sample(sample)) = (&mut self.tape, &event) {
                tape.put(sample, state);
            }
            let written = matches!(event, Event::Saved { .. });
            let (ticked, told) = (matches!(event, Event::Tick(_)), matches!(event, Event::Run(_)));
            if !ticked && !told && !matches!(event, Event::Sample(_)) {
                screen.disturb();
            }
            for effect in update(state, event) {
                match effect {
                    Effect::Quit => return Ok(LoopExit::Finished),
                    Effect::Suspend => {
                        suspended = true;
                        continue;
                    }
                    _ => {}
                }
                self.carry_out(effect, state, screen)?;
            }
            if written {
                self.look_at(state, true);
            }
            // Of time alone only the age of what is late is seen: the rest comes with the next sample,
            // and what the run tells as well where that is near. One frame is for both.
            let waits = ticked && state.monitor.is_fresh(state.now) || told && state.monitor.is_near(state.now);
            if !waits {
                exit = LoopExit::Changed;
            }
        }
        Ok(if suspended { LoopExit::Suspended } else { exit })
    }

    fn carry_out(&mut self, effect: Effect, state: &State, screen: &mut TerminalScreen) -> Result<(), Failure> {
        let events = self.events.clone();
        match effect {
            // The loop's own.
            Effect::Quit | Effect::Suspend => {}
            Effect::Repaint => screen.repaint(),
            Effect::Save { path, name, text, expected } => files::save(path, &name, text, expected, events),
            Effect::LookAtFile { path, known } => files::look(path, known, events),
            Effect::Open(path) => files::open(&path, self.store.clone(), Arc::clone(&state.catalog), events),
            Effect::WatchProcess(pid) => self.watch_process(pid, &state.catalog)?,
            Effect::Infer(pid) => files::infer(pid, state, events),
            Effect::ReadCommand(pid) => files::read_command(pid, state, events),
            Effect::Explain(number) => files::explain(number, state, events),
            Effect::LookAround(number) => self.surroundings.begin(number, state, events),
            Effect::Search(number) => self.search.begin(number, state, events),
            Effect::CancelSearch => self.search.cancel(),
            Effect::Read { number, text } => files::read(number, text, events),
            Effect::ListPlans { folder, recent } => files::list(folder, recent, Arc::clone(&state.catalog), events),
            Effect::CompletePath(typed) => files::complete(typed, events),
            Effect::ReadConfig { folder, named } => files::read_config(&folder, named, events),
            Effect::Keep(unsaved) => self.request(RecoveryRequest::Keep(unsaved)),
            Effect::Forget { path, name } => self.request(RecoveryRequest::Forget(path, name)),
            Effect::DeleteDraft(id) => self.request(RecoveryRequest::Delete(id)),
            Effect::TakeDraft { id, path, name } => self.request(RecoveryRequest::Take(id, path, name)),
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

    /// Ends the simulated run's source, and opens that of this machine.
    fn watch_process(&mut self, pid: u32, catalog: &Catalog) -> Result<(), Failure> {
        let (requirements, catalog, clock) = (self.requirements.clone(), catalog.clone(), self.clock);
        let open = move || {
            let (requirements, catalog) = (requirements.clone(), catalog.clone());
            let context = SourceContext { attach: Some(pid), requirements, catalog, ..SourceContext::default() };
            observe::open(SourceChoice::Auto, context)
        };
        let source = observe::spawn(open, self.every, move || clock.now(), self.reports.clone());
        self.source = source.map_err(|error| Failure::failed(format!("no thread for the source: {error}")))?;
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
