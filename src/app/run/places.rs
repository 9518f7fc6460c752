//! Where in its code the run is slow or held up, as the hooks in its processes saw it.

use std::collections::BTreeSet;

use super::{Telemetry, is_quiet};
use crate::app::monitor::Monitor;
use crate::compare::{StalledRank, late_steps_among, stalled, step_share, waiting};
use crate::order::StableOrder;
use crate::reading::{Activity, HookPlaces, HookedRun, LateStep, Moment, ProcessWait, StepCause, WaitKind};
use crate::units::Seconds;

/// Samples that are older say nothing of now.
const OLD: Seconds = Seconds(30.0);

/// A step that takes this many times the usual one, and so many seconds more, stalls; before one is usual: so many
/// seconds. As the hook has it (`observe/hook/python/watch.py`).
const STALL: f64 = 5.0;
const STALL_MORE: f64 = 5.0;
pub(super) const UNUSUAL_STALL: Seconds = Seconds(60.0);

impl Telemetry {
    /// Why steps of the attached run are late, or why it makes none: the place in its code.
    #[must_use]
    pub fn step_cause(&self, monitor: &Monitor, now: Moment) -> Option<StepCause> {
        let hooked = self.placed(monitor).filter(|(run, _)| run.end.is_none());
        let told = hooked.and_then(|(run, _)| {
            let ranks = self.ranks_of(run, now);
            let own = stalled_rank(run, now)?;
            let stalls = Some(own).filter(|own| own.age.0 < OLD.0).and_then(|own| stalled(&own, &ranks));
            stalls.or_else(|| late_steps_among(&own, &ranks))
        });
        let told = told.or_else(|| self.waiting(monitor, now).filter(|_| hooked.is_none()));
        told.or_else(|| self.sampled_cause.clone().filter(|_| monitor.is_sampled()))
    }

    /// What the processes of the run wait for, where they have made no step for longer than any takes.
    fn waiting(&self, monitor: &Monitor, now: Moment) -> Option<StepCause> {
        if self.news.waits.is_empty() || self.news.pid != monitor.attached_by_user() {
            return None;
        }
        // What a launcher waits for is none of what the training does that it has started.
        let is_launchers = |wait: &ProcessWait| {
            self.news
                .hooks
                .iter()
                .any(|run| run.end.is_none() && run.pid != wait.pid && launcher(run) == Some(wait.pid))
        };
        if self.news.waits.iter().all(is_launchers) {
            return None;
        }
        let usual = self.phases.step().map_or(UNUSUAL_STALL, |step| Seconds((STALL * step.0).max(step.0 + STALL_MORE)));
        let is_stopped = || self.news.waits.iter().any(|wait| wait.kind == WaitKind::Stopped);
        let is_late = match self.phases.quiet_for(now) {
            Some(quiet) => quiet.0 >= usual.0 || is_stopped(),
            None => self.waits_for_first_step(monitor, now),
        };
        let stalls = is_late && self.ended(monitor, now).is_none();
        if stalls { waiting(&self.news.waits, self.news.ranks.len(), now) } else { None }
    }

    /// What of each step goes to something else than its work.
    #[must_use]
    pub fn step_share(&self, monitor: &Monitor) -> Option<String> {
        let (own, _) = self.placed(monitor)?;
        let of_run =
            self.news.hooks.iter().filter(|run| run.pid == own.pid || (run.end.is_none() && is_of_run(own, run)));
        let ranks: Vec<&HookPlaces> = of_run.filter_map(|run| run.places.as_ref()).collect();
        step_share(&ranks)
    }

    /// The attached process and what was told of its stack. One that is stalled tells no steps: it is not quiet.
    fn placed(&self, monitor: &Monitor) -> Option<(&HookedRun, &HookPlaces)> {
        let pid = monitor.attached_here()?;
        let own = self.news.hooks.iter().find(|run| run.pid == pid);
        // Of a `memwall run` that is attached, the process that it has started.
        let started = || self.news.hooks.iter().find(|run| run.leads() && launcher(run) == Some(pid));
        let run = own.or_else(started)?;
        Some((run, run.places.as_ref()?))
    }

    /// How long a step of the attached process has lasted that does not end, by its hook.
    pub(super) fn stalled_for(&self, monitor: &Monitor, now: Moment) -> Option<Seconds> {
        let (run, places) = self.placed(monitor)?;
        Some(places.stall.as_ref()?.lasting + now.since(run.placed))
    }

    /// The newest late step of the attached process that its hook tells of, with what it did there; none once that is
    /// long ago.
    #[must_use]
    pub fn newest_late(&self, monitor: &Monitor, now: Moment) -> Option<(LateStep, Activity)> {
        let (run, places) = self.placed(monitor)?;
        let late = places.late.last()?;
        let is_recent = (late.ago + now.since(run.placed)).0 <= late.took.0 + OLD.0;
        Some((*late, places.places.get(late.place)?.activity)).filter(|_| is_recent)
    }

    /// All ranks of that run on this machine.
    fn ranks_of(&self, own: &HookedRun, now: Moment) -> Vec<StalledRank<'_>> {
        let hooks = self.news.hooks.iter().filter(|run| is_of_run(own, run));
        let mut ranks: Vec<StalledRank<'_>> = hooks.filter_map(|run| stalled_rank(run, now)).collect();
        ranks.order_by_key(|rank| rank.rank);
        ranks
    }

    /// The processes of the followed run that have a hook in them and are heard, in the order of the newest last.
    #[must_use]
    pub fn hooked_ranks(&self, monitor: &Monitor, now: Moment) -> Vec<&HookedRun> {
        let own = monitor.attached_here().and_then(|pid| self.news.hooks.iter().find(|run| run.pid == pid));
        let Some(own) = own else { return Vec::new() };
        // A rank that is stalled tells no steps, but where it is.
        let is_heard = |run: &&HookedRun| !is_quiet(run, now) || now.since(run.placed).0 < OLD.0;
        let heard: Vec<&HookedRun> = self.news.hooks.iter().filter(|run| run.end.is_none()).filter(is_heard).collect();
        let mut ranks: Vec<&HookedRun> = heard.iter().copied().filter(|run| is_of_run(own, run)).collect();
        if ranks.len() <= 1 {
            // Under `srun memwall run` each rank has a launcher of its own. Of two runs that are alike, some rank is
            // there twice: nobody can tell them apart.
            let alike: Vec<&HookedRun> = heard.into_iter().filter(|run| is_alike(own, run)).collect();
            let numbers: BTreeSet<Option<u32>> = alike.iter().map(|run| rank(run)).collect();
            if numbers.len() == alike.len() && !alike.is_empty() {
                ranks = alike;
            }
        }
        ranks.order_by_key(|run| run.heard);
        ranks
    }
}

/// Whether a process is of the same run as `own`: of the same launcher, else of as many ranks.
fn is_of_run(own: &HookedRun, run: &HookedRun) -> bool {
    let same = if launcher(own).is_some() { launcher(run) == launcher(own) } else { world(run) == world(own) };
    run.pid == own.pid || (rank(run).is_some() && same)
}

/// Whether a process may be another rank of a run of several: it tells as many ranks, and the same model.
fn is_alike(own: &HookedRun, run: &HookedRun) -> bool {
    let model = |run: &HookedRun| run.about.as_ref().map(|about| (about.model.clone(), about.params));
    let several = world(own).is_some_and(|world| world > 1) && world(run) == world(own);
    run.pid == own.pid || (several && rank(run).is_some() && model(run) == model(own))
}

fn stalled_rank(run: &HookedRun, now: Moment) -> Option<StalledRank<'_>> {
    let places = run.places.as_ref()?;
    Some(StalledRank { rank: rank(run), places, has_ended: run.end.is_some(), age: now.since(run.placed) })
}

fn rank(run: &HookedRun) -> Option<u32> {
    run.about.as_ref().and_then(|about| about.rank).or_else(|| run.places.as_ref()?.rank)
}

fn launcher(run: &HookedRun) -> Option<u32> {
    run.about.as_ref().and_then(|about| about.launcher).or_else(|| run.places.as_ref()?.launcher)
}

fn world(run: &HookedRun) -> Option<u32> {
    run.about.as_ref().and_then(|about| about.world)
}
