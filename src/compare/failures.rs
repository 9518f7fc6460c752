//! Which process of a run failed first: the other ranks fail because of it, and tell of that.

use crate::reading::{FailedRank, HookedRun, LauncherReport, Moment, ProcessExit};

/// The signals with which a user, a scheduler or a launcher asks a process to end.
const ASKS: [u32; 3] = [1, 2, 15];

/// What Python raises for SIGINT.
const INTERRUPT: &str = "KeyboardInterrupt";

/// The signal of the kernel where memory runs out, and of whoever does not ask.
const SIGKILL: u32 = 9;

/// Python's exit code for an exception that nobody caught.
const RAISED: u32 = 1;

/// How one process of a run ended, as far as anybody saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Which.
    pub pid: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The exception that nobody caught, by its class: its last word.
    pub error: Option<String>,
    /// When it told that it ends: Python itself ended it. None of one that left no word.
    pub told: Option<Moment>,
    /// Its exit code or signal, by the system or its launcher.
    pub exit: Option<ProcessExit>,
    /// When it was seen to have ended.
    pub exited: Option<Moment>,
}

impl ProcessEnd {
    pub(super) fn of(run: &HookedRun) -> Self {
        Self {
            pid: run.pid,
            rank: run.about.as_ref().and_then(|about| about.rank),
            error: run.end.as_ref().and_then(|end| end.error.clone()),
            told: run.end.as_ref().map(|_| run.heard),
            exit: run.exit.map(|(exit, _)| exit),
            exited: run.exit.map(|(_, at)| at),
        }
    }

    /// When it told of its end or was seen to have ended, whichever came first.
    #[must_use]
    pub fn at(&self) -> Option<Moment> {
        self.told.into_iter().chain(self.exited).min()
    }

    /// Whether it was seen to end by an exception, a signal or a code other than 0.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.exit.and_then(|exit| exit.shell_code()).is_some_and(|code| code != 0)
    }

    /// Whether it was ended by SIGKILL.
    pub(super) fn was_killed(&self) -> bool {
        self.exit.is_some_and(|exit| exit.signal == Some(SIGKILL))
    }

    /// Whether it is gone without a word, and nobody saw how: so ends a rank that was killed, and a forked one that is done.
    pub(super) fn is_unseen(&self) -> bool {
        self.told.is_none() && self.exit.is_some_and(|exit| exit.shell_code().is_none())
    }

    /// Whether somebody asked it to end.
    pub(super) fn was_asked(&self) -> bool {
        let asked = |exit: ProcessExit| exit.signal.is_some_and(|signal| ASKS.contains(&signal));
        self.error.as_deref().map_or(self.exit.is_some_and(asked), |error| error == INTERRUPT)
    }

    /// Its exception, or how the system says that it ended: `ValueError`, `SIGKILL, exit 137`.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let unseen = || self.is_unseen().then(|| "without a word".to_owned());
        self.error.clone().or_else(|| self.exit?.words()).or_else(unseen)
    }

    /// `rank 1`, or `process 4711` where it has none.
    #[must_use]
    pub fn name(&self) -> String {
        self.rank.map_or_else(|| format!("process {}", self.pid), |rank| format!("rank {rank}"))
    }
}

/// How the processes of the run ended, those of its last start by torchrun alone, with those that only their launcher
/// knows: they ended before their first step.
#[must_use]
pub fn process_ends(runs: &[HookedRun], reports: &[LauncherReport]) -> Vec<ProcessEnd> {
    let mut ends: Vec<ProcessEnd> = last_start(runs).into_iter().map(ProcessEnd::of).collect();
    let told = || reports.iter().flat_map(|report| &report.ranks);
    // Its ranks are other processes than those that were heard: it started them again, and they made no step.
    if told().any(|failed| failed.rank.is_some()) && told().all(|failed| ends.iter().all(|end| !is_it(end, failed))) {
        ends.retain(|end| told().all(|failed| failed.rank.is_none() || end.rank != failed.rank));
    }
    for failed in told() {
        match ends.iter_mut().find(|end| is_it(end, failed)) {
            Some(end) => {
                end.exit = end.exit.filter(|exit| exit.words().is_some()).or(Some(failed.exit));
                end.rank = end.rank.or(failed.rank);
            }
            None => ends.push(ProcessEnd {
                pid: failed.exit.pid,
                rank: failed.rank,
                error: None,
                told: None,
                exit: Some(failed.exit),
                exited: None,
            }),
        }
    }
    ends
}

/// The processes that each torchrun started last, where it started them again.
#[must_use]
pub fn last_start(runs: &[HookedRun]) -> Vec<&HookedRun> {
    let restarts = |run: &HookedRun| run.about.as_ref().map_or(0, |about| about.restarts);
    let most = |of: &HookedRun| runs.iter().filter(|run| torchrun(run) == torchrun(of)).map(restarts).max();
    runs.iter().filter(|run| Some(restarts(run)) == most(run)).collect()
}

/// The processes of the job that failed last, else of the one that was heard last, with what launchers said of them. A
/// command may start several, one after the other: torchruns that had the same ranks, and processes that had ended before
/// the hook of one of this job was loaded.
#[must_use]
pub fn last_job(runs: &[HookedRun], reports: &[LauncherReport]) -> (Vec<HookedRun>, Vec<LauncherReport>) {
    let ends = runs.iter().map(|run| (run, ProcessEnd::of(run)));
    let failed = ends.filter(|(_, end)| end.has_failed()).max_by_key(|(_, end)| end.at()).map(|(run, _)| run);
    let Some(last) = failed.or_else(|| runs.iter().max_by_key(|run| run.heard)) else {
        return (Vec::new(), reports.to_vec());
    };
    let own = torchrun(last);
    let ranks_of = |one: Option<u32>| {
        let its = runs.iter().filter(move |run| torchrun(run) == one);
        its.filter_map(|run| run.about.as_ref()?.rank)
    };
    let is_other = |run: &HookedRun| {
        let its = torchrun(run);
        let same_ranks = || ranks_of(its).any(|rank| ranks_of(own).any(|own| own == rank));
        match own.zip(its) {
            Some((own, its)) => own != its && same_ranks(),
            None => follows(last, run) || follows(run, last),
        }
    };
    let others: Vec<u32> = runs.iter().filter(|run| is_other(run)).map(|run| run.pid).collect();
    let job = runs.iter().filter(|run| !others.contains(&run.pid)).cloned().collect();
    let is_own = |report: &&LauncherReport| report.ranks.iter().all(|failed| !others.contains(&failed.exit.pid));
    (job, reports.iter().filter(is_own).cloned().collect())
}

/// Whether the hook of `later` was loaded after `earlier` had ended.
fn follows(later: &HookedRun, earlier: &HookedRun) -> bool {
    let ended = ProcessEnd::of(earlier).at();
    later.began.zip(ended).is_some_and(|(began, ended)| began * 1000.0 > ended.0 as f64)
}

fn torchrun(run: &HookedRun) -> Option<u32> {
    run.about.as_ref()?.torchrun
}

fn is_it(end: &ProcessEnd, failed: &FailedRank) -> bool {
    end.pid == failed.exit.pid
}

/// The process that failed first: by its launcher where that names one alone, else by when each ended. None where all
/// were asked to end, and where nobody can tell.
///
/// A launcher that finds several has found them in one look, and calls the first of its list the root cause
/// (torch.distributed.elastic: `ChildFailedError.get_first_failure` compares whole seconds). When the system ended each
/// says more.
#[must_use]
pub fn first_failure<'a>(ends: &'a [ProcessEnd], reports: &[LauncherReport]) -> Option<&'a ProcessEnd> {
    let is_seen = |end: &&ProcessEnd| end.has_failed() && !end.was_asked();
    if !ends.iter().any(|end| is_seen(&end)) {
        return None;
    }
    // A rank that is gone without a word may be why another one fails.
    let breaks = |end: &ProcessEnd| {
        let mut others = ends.iter().filter(is_seen).filter(|other| other.rank.is_some() && other.rank != end.rank);
        end.is_unseen() && end.rank.is_some() && others.next().is_some()
    };
    let failed = || ends.iter().filter(|end| end.has_failed() || breaks(end));
    let named = |failed: &FailedRank| ends.iter().find(|end| is_it(end, failed));
    let told: Vec<&FailedRank> = reports.iter().flat_map(|report| &report.ranks).collect();
    if let [only] = told.as_slice() {
        return named(only);
    }
    if told.iter().any(|failed| named(failed).is_some_and(|end| end.at().is_none())) {
        // Python exits with 1 for an exception, as that of a lost connection is.
        let silent = told.iter().find(|failed| failed.exit.code != Some(RAISED));
        return silent.or(told.first()).and_then(|root| named(root));
    }
    let earliest =
        |told: bool| failed().filter(|end| end.told.is_some() == told).min_by_key(|end| (end.at().is_none(), end.at()));
    match (earliest(false), earliest(true)) {
        // One that is killed is seen a moment later than others tell of it; their processes last longer than that moment.
        (Some(silent), Some(teller)) => {
            let gone = |end: &ProcessEnd| end.exited.or(end.told);
            let silent_first = gone(silent).is_some_and(|at| gone(teller).is_none_or(|other| at <= other));
            Some(if silent_first { silent } else { teller })
        }
        (one, other) => {
            let first = one.or(other)?;
            (failed().filter(|end| end.at() == first.at()).count() == 1).then_some(first)
        }
    }
}

/// Who failed first and how, and who failed after it: `rank 1 ended first: SIGKILL, exit 137 …; rank 0 failed after it:
/// RuntimeError`. None where the one that failed has said so itself, and is alone.
#[must_use]
pub fn failure_words(first: &ProcessEnd, ends: &[ProcessEnd]) -> Option<String> {
    const MOST: usize = 3;
    // How one ended that left no word and nobody saw, says nothing: its launcher may have ended it.
    let is_seen = |end: &ProcessEnd| end.error.is_some() || end.exit.is_some_and(|exit| exit.shell_code().is_some());
    let is_after = |end: &ProcessEnd| end != first && end.has_failed() && !end.was_asked() && is_seen(end);
    let after = || ends.iter().filter(|end| is_after(end));
    let count = after().count();
    if count == 0 && first.error.is_some() {
        return None;
    }
    let why = match first.exit.filter(|_| first.error.is_none()).and_then(|exit| exit.signal) {
        Some(SIGKILL) => " (by you, a scheduler, or for lack of memory: dmesg tells of the last)",
        _ => "",
    };
    let mut words = format!("{} ended first: {}{why}", first.name(), first.words()?);
    for end in after().take(MOST) {
        words.push_str(&format!("; {} failed after it: {}", end.name(), end.words()?));
    }
    if count > MOST {
        words.push_str(&format!("; so did {} more", count - MOST));
    }
    Some(words)
}

#[cfg(test)]
mod tests;
