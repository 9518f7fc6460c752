//! How a run that is followed has ended: by its hook, by the exit of its process, or of one of its ranks.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::app::monitor::attached::AttachedState;
use crate::reading::{Absence, HookEnd, HookedRun, Moment, ProcessExit, Progress, ProgressSource, Reading};
use crate::units::{Seconds, counted as counted_words, grouped};

/// The signal that asks a process to end.
const SIGTERM: u32 = 15;

/// Signals that another sends: SIGHUP, SIGINT, SIGKILL and SIGTERM.
const SENT: [u32; 4] = [1, 2, 9, SIGTERM];

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// As it should.
    Finished,
    /// By itself, with an exception, a code other than 0 or a fault's signal.
    Failed,
    /// By a signal that was sent to it.
    Killed,
    /// Nobody has told.
    Unknown,
}

/// Without a step for so long a run has no pace that its end could be foreseen from.
const NO_PACE: Seconds = Seconds(1800.0);

impl Telemetry {
    /// Time to the end of the run at the present `progress`; none of one that has ended, that makes no step now, or that
    /// evaluates for so long that nobody knows whether it ends.
    #[must_use]
    pub fn remaining(&self, progress: &Progress, monitor: &Monitor, now: Moment) -> Reading<Seconds> {
        let left = progress.remaining();
        let Some(expected) = left.value() else { return left };
        if self.ended(monitor, now).is_some() {
            return Reading::Absent(Absence::Gone);
        }
        let pause = self.pause(monitor, now);
        if pause.as_ref().is_some_and(|pause| expected.0 > 0.0 && pause.lasting.is_some() && !pause.is_intended()) {
            return Reading::Absent(Absence::Because("it makes no step now".into()));
        }
        let quiet = pause.and_then(|pause| pause.lasting);
        if quiet.is_some_and(|quiet| expected.0 > 0.0 && quiet.0 > NO_PACE.0.min(expected.0)) {
            return Reading::Absent(Absence::Because("no step for too long".into()));
        }
        // One late step is not how the others go on.
        match (self.phases.step(), progress.step_time.value()) {
            (Some(usual), Some(told)) if told.0 > 0.0 => left.map(|left| *left * (usual.0 / told.0)),
            _ => left,
        }
    }

    /// How the attached run ended, in words: `ended after 1 840 steps, exit 1`; none while it goes on, as far as
    /// anybody knows.
    #[must_use]
    pub fn ended(&self, monitor: &Monitor, now: Moment) -> Option<String> {
        let gone = monitor.attached.as_ref().is_some_and(|attached| attached.state == AttachedState::Ended);
        let end = self.hooked(monitor, now).and_then(|run| run.end.as_ref());
        let exit = self.exit(monitor);
        let raised = self.uncaught(monitor, now);
        if !gone && end.is_none() && exit.is_none() && raised.is_none() {
            return None;
        }
        let steps = self.steps_made(monitor, now);
        // What killed a rank says more than how the others ended, and what the process says more than its code.
        let killed = exit.filter(|(exit, _)| exit.signal.is_some()).and_then(exit_words);
        let said = || end.and_then(|end| with_its_text(end, self.news.exception.as_deref()));
        let both = || match (exit.and_then(exit_words), raised) {
            (Some(exit), Some(raised)) => Some(format!("{raised}, {exit}")),
            (exit, raised) => exit.or_else(|| raised.map(str::to_owned)),
        };
        let how = killed.or_else(said).or_else(both);
        let how = how.map_or_else(String::new, |how| format!(", {how}"));
        Some(format!("ended{steps}{how}"))
    }

    /// The exception that its log shows last and nobody has caught. A process that goes on, or ends as it should, may have
    /// caught it; one that failed has not, nor one of whose end nobody tells: its parent may have asked for the code first.
    fn uncaught(&self, monitor: &Monitor, now: Moment) -> Option<&str> {
        let gone = monitor.attached.as_ref().is_some_and(|attached| attached.state == AttachedState::Ended);
        let is_told = self.hooked(monitor, now).is_some_and(|run| run.end.is_some());
        let is_its = match self.exit(monitor) {
            Some((ProcessExit { code: Some(code), .. }, _)) => code != 0,
            Some((ProcessExit { signal: Some(_), .. }, _)) => false,
            Some(_) => !is_told,
            None => gone && !is_told,
        };
        self.news.exception.as_deref().filter(|_| is_its || self.is_logged(monitor))
    }

    /// How far it came: what the process counted to its very end, else the most that anybody told, which it made at least.
    fn steps_made(&self, monitor: &Monitor, now: Moment) -> String {
        let counted = self.hook_at_end(monitor, now).and_then(steps_of);
        let whole = |steps: u64| counted_words(steps, "step", "steps");
        if let Some(steps) = self.final_steps(monitor, now) {
            return format!(" after {}", whole(steps));
        }
        let told = self.progress(monitor, now).and_then(|(_, known)| Some((known.told_by, *known.step.value()?)));
        match (counted, told) {
            (None, None) => String::new(),
            (None, Some((ProgressSource::Hook, steps))) => format!(" after at least {}", whole(steps)),
            (Some(steps), told) if told.is_none_or(|(_, told)| told <= steps) => {
                format!(" after at least {}", whole(steps))
            }
            // A log's count may have begun in an earlier process, and most logs tell one step of several.
            (_, Some((_, step))) => {
                let clean = self.exit(monitor).is_some_and(|(exit, _)| exit.code == Some(0));
                format!(" at step {}{}", grouped(step), if clean { "" } else { " or later" })
            }
            (Some(steps), None) => format!(" after at least {}", whole(steps)),
        }
    }

    /// The hook of a run that may have ended. One that was killed says nothing any more: what it said stays true.
    fn hook_at_end(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        let pid = monitor.attached_here();
        let is_its = |run: &&HookedRun| {
            Some(run.pid) == pid && monitor.attached.as_ref().is_some_and(|attached| attached.may_have_loaded(run))
        };
        self.news.hooks.iter().find(is_its).or_else(|| self.hooked(monitor, now))
    }

    /// The steps that a run had made as it ended, which its process has counted to the very end: a log may count from 0.
    #[must_use]
    pub fn final_steps(&self, monitor: &Monitor, now: Moment) -> Option<u64> {
        // One that a signal ends may go on for some steps after it has told of its end.
        let is_killed = self.exit(monitor).is_some_and(|(exit, _)| was_killed(exit));
        self.hook_at_end(monitor, now).filter(|run| run.end.is_some() && !is_killed).and_then(steps_of)
    }

    /// The progress of a run that has ended, with the steps that it had made in all.
    #[must_use]
    pub fn to_its_end(&self, progress: Progress, monitor: &Monitor, now: Moment) -> Progress {
        match self.final_steps(monitor, now) {
            Some(steps) => Progress { step: progress.step.map(|_| steps), ..progress },
            None => progress,
        }
    }

    /// Whether the attached run ended as it should: by an exit code of 0, or behind its last step, without an exception. None
    /// while it goes on.
    #[must_use]
    pub fn outcome(&self, monitor: &Monitor, now: Moment) -> Option<RunOutcome> {
        self.ended(monitor, now)?;
        let end = self.hooked(monitor, now).and_then(|run| run.end.as_ref());
        let exit = self.exit(monitor).map(|(exit, _)| exit);
        if exit.is_some_and(was_killed) {
            return Some(RunOutcome::Killed);
        }
        let is_failed = self.uncaught(monitor, now).is_some()
            || exit.is_some_and(|exit| exit.signal.is_some() || exit.code.unwrap_or(0) != 0)
            || end.is_some_and(|end| end.error.is_some() || end.out_of_memory.is_some() || end.code.unwrap_or(0) != 0);
        let is_clean = exit.is_some_and(|exit| exit.code == Some(0)) || end.is_some_and(|end| end.code == Some(0));
        let is_whole = || {
            let (_, progress) = self.progress(monitor, now)?;
            Some(progress.step.value()? >= progress.total_steps.value()?)
        };
        Some(if is_failed {
            RunOutcome::Failed
        } else if is_clean || is_whole() == Some(true) {
            RunOutcome::Finished
        } else {
            RunOutcome::Unknown
        })
    }

    /// How the attached process, or a rank of its run, ended: the first that a signal or a code other than 0 tells of.
    /// Launchers end the other ranks by SIGTERM once one has failed (torch.distributed.elastic, `_close`): it says least.
    fn exit(&self, monitor: &Monitor) -> Option<(ProcessExit, Option<u32>)> {
        let attached = monitor.attached_here()?;
        let rank = |pid: u32| self.news.ranks.iter().find(|rank| rank.pid == pid).map(|rank| rank.rank);
        // Ranks may outlive their launcher: killed, torchrun leaves them running.
        let runs_on = rank(attached).is_some()
            && self.news.exits.iter().all(|exit| exit.pid != attached)
            && monitor.attached.as_ref().is_some_and(|attached| attached.state != AttachedState::Ended);
        let is_of_it = |exit: &&ProcessExit| {
            exit.pid == attached || rank(exit.pid).is_some() || (self.news.pid == Some(exit.pid) && !runs_on)
        };
        let exits = || self.news.exits.iter().filter(is_of_it).filter(|_| self.news.pid == monitor.attached_by_user());
        let failed = exits()
            .find(|exit| exit.signal.is_some_and(|signal| signal != SIGTERM))
            .or_else(|| exits().find(|exit| exit.code.unwrap_or(0) != 0))
            .or_else(|| exits().find(|exit| exit.signal.is_some()));
        // A rank that is done before the others ends no run.
        let own = || exits().find(|exit| exit.pid == attached);
        // The one process of a run needs no number.
        failed.or_else(own).map(|exit| (*exit, rank(exit.pid).filter(|_| self.news.ranks.len() > 1)))
    }
}

/// Whether a signal that was sent ended a process. Whoever catches or passes one on ends with 128 and its number (POSIX,
/// sh, "Exit Status for Commands").
fn was_killed(exit: ProcessExit) -> bool {
    let passed_on = exit.code.and_then(|code| code.checked_sub(128));
    exit.signal.or(passed_on).is_some_and(|signal| SENT.contains(&signal))
}

/// The steps that a process has told of.
fn steps_of(run: &HookedRun) -> Option<u64> {
    let step = run.step.as_ref().map_or(0, |step| step.step);
    Some(step.max(run.places.as_ref().map_or(0, |places| places.step))).filter(|steps| *steps > 0)
}

/// How a run ended by its hook, with what the exception itself says, where the log shows that.
fn with_its_text(end: &HookEnd, raised: Option<&str>) -> Option<String> {
    let class = |said: &str| said.split(':').next().and_then(|path| path.rsplit('.').next()).map(str::to_owned);
    let raised = raised.filter(|raised| end.error.as_deref().is_some_and(|error| class(error) == class(raised)));
    HookEnd { error: raised.map(str::to_owned).or_else(|| end.error.clone()), ..end.clone() }.words()
}

/// How a process ended, with its rank where it is one: `rank 1: SIGKILL, exit 137`.
fn exit_words((exit, rank): (ProcessExit, Option<u32>)) -> Option<String> {
    let words = exit.words()?;
    Some(rank.map_or_else(|| words.clone(), |rank| format!("rank {rank}: {words}")))
}
