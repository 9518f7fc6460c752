//! Where in its code the run is slow or held up, as the hooks in its processes saw it.

use super::{Telemetry, is_quiet, is_sampled};
use crate::app::monitor::Monitor;
use crate::compare::{StalledRank, late_steps, stalled, step_share};
use crate::reading::{HookPlaces, HookedRun, Moment, StepCause};
use crate::units::Seconds;

/// Samples that are older say nothing of now.
const OLD: Seconds = Seconds(30.0);

impl Telemetry {
    /// Why steps of the attached run are late, or why it makes none: the place in its code.
    #[must_use]
    pub fn step_cause(&self, monitor: &Monitor, now: Moment) -> Option<StepCause> {
        let hooked = self.placed(monitor).filter(|(run, _)| run.end.is_none());
        let told = hooked.and_then(|(run, places)| {
            let ranks = self.ranks_of(run, now);
            let own = stalled_rank(run, now);
            let stalls = own.filter(|own| own.age.0 < OLD.0).and_then(|own| stalled(&own, &ranks));
            stalls.or_else(|| late_steps(places, now.since(run.placed)))
        });
        told.or_else(|| self.sampled_cause.clone().filter(|_| is_sampled(monitor)))
    }

    /// What of each step goes to something else than its work.
    #[must_use]
    pub fn step_share(&self, monitor: &Monitor) -> Option<String> {
        self.placed(monitor).and_then(|(_, places)| step_share(places))
    }

    /// The attached process and what was told of its stack. One that is stalled tells no steps: it is not quiet.
    fn placed(&self, monitor: &Monitor) -> Option<(&HookedRun, &HookPlaces)> {
        let pid = monitor.attached_here()?;
        let run = self.news.hooks.iter().find(|run| run.pid == pid)?;
        Some((run, run.places.as_ref()?))
    }

    /// All ranks of that run on this machine.
    fn ranks_of(&self, own: &HookedRun, now: Moment) -> Vec<StalledRank<'_>> {
        let hooks = self.news.hooks.iter().filter(|run| is_of_run(own, run));
        let mut ranks: Vec<StalledRank<'_>> = hooks.filter_map(|run| stalled_rank(run, now)).collect();
        ranks.sort_by_key(|rank| rank.rank);
        ranks
    }

    /// The processes of the followed run that have a hook in them and are heard, in the order of the newest last.
    #[must_use]
    pub fn hooked_ranks(&self, monitor: &Monitor, now: Moment) -> Vec<&HookedRun> {
        let own = monitor.attached_here().and_then(|pid| self.news.hooks.iter().find(|run| run.pid == pid));
        let Some(own) = own else { return Vec::new() };
        // A rank that is stalled tells no steps, but where it is.
        let is_heard = |run: &&HookedRun| !is_quiet(run, now) || now.since(run.placed).0 < OLD.0;
        let of_it = self.news.hooks.iter().filter(|run| run.end.is_none() && is_of_run(own, run));
        let mut ranks: Vec<&HookedRun> = of_it.filter(is_heard).collect();
        ranks.sort_by_key(|run| run.heard);
        ranks
    }
}

/// Whether a process is of the same run as `own`: of the same launcher, else of as many ranks.
fn is_of_run(own: &HookedRun, run: &HookedRun) -> bool {
    let same = if launcher(own).is_some() { launcher(run) == launcher(own) } else { world(run) == world(own) };
    run.pid == own.pid || (rank(run).is_some() && same)
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
