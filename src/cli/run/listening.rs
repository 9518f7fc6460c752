//! What the hooks of a run tell, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::cpu_waits::RunWaits;
use super::ends::ExitWatches;
use super::losses::LossWatch;
use crate::cli::dashboard::Clock;
use crate::observe::hook::Listener;
use crate::reading::{HookedRun, LauncherReport};

/// How long the listener waits for messages before it looks whether it shall end, and for new processes: one that ends
/// before it is watched leaves no exit code.
const TURN: Duration = Duration::from_millis(50);

/// What a listener has heard.
#[derive(Default)]
pub struct HookReport {
    /// The processes with a hook in them.
    pub runs: Vec<HookedRun>,
    /// What launchers said of ranks that failed.
    pub reports: Vec<LauncherReport>,
    /// Processes that were heard and had to make room for others.
    pub forgotten: u64,
    /// How long they waited for a core.
    pub cpu_waits: RunWaits,
    /// The losses that the command writes.
    pub losses: LossWatch,
}

impl HookReport {
    /// Leaves what other runs have told: they meet in the same directory.
    pub fn retain_own(&mut self) {
        let own = Some(std::process::id());
        self.runs.retain(|run| run.about.as_ref().is_some_and(|about| about.launcher == own));
        self.reports.retain(|report| report.run == own);
        // A launcher that asks for its ranks at once is the only one to see how they ended.
        for failed in self.reports.iter().flat_map(|report| &report.ranks) {
            let run = self.runs.iter_mut().find(|run| run.pid == failed.exit.pid);
            if let Some((exit, _)) = run.and_then(|run| run.exit.as_mut()).filter(|(exit, _)| exit.words().is_none()) {
                *exit = failed.exit;
            }
        }
    }
}

/// A listener on a thread of its own.
pub struct HookListener {
    thread: thread::JoinHandle<HookReport>,
    ended: Arc<AtomicBool>,
}

impl HookListener {
    /// Begins to listen, by that clock.
    pub fn start(mut listener: Listener, clock: Clock) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let told = ended.clone();
        let thread = thread::spawn(move || {
            let mut cpu_waits = RunWaits::default();
            let mut watches = ExitWatches::default();
            let mut losses = LossWatch::of_output(clock.now());
            loop {
                // What was sent before the end is heard: the queue is emptied once more.
                let last = told.load(Relaxed);
                let heard = listener.listen(TURN, || clock.now());
                cpu_waits.look(listener.runs(), clock.now());
                watches.look(listener.runs());
                losses.look(clock.now(), last);
                if last || heard.is_err() {
                    let (mut runs, forgotten) = (listener.runs().to_vec(), listener.forgotten());
                    watches.fill_in(&mut runs, clock.now());
                    return HookReport { runs, reports: listener.reports().to_vec(), forgotten, cpu_waits, losses };
                }
            }
        });
        Self { thread, ended }
    }

    /// What was heard until now.
    pub fn end(self) -> HookReport {
        self.ended.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
