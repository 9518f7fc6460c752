//! How the processes of a run end, as the system has it: watched from their first message on.

use std::time::Instant;

use crate::compare::{ProcessEnd, failure_words, first_failure, last_job, process_ends, stood_still};
use crate::observe::ExitWatch;
use crate::reading::{HookedRun, LauncherReport, Moment, ProcessExit, exit_words};

/// The processes that are watched, and those that were gone by then.
#[derive(Default)]
pub struct ExitWatches {
    watches: Vec<ExitWatch>,
    gone: Vec<(ProcessExit, Instant)>,
}

impl ExitWatches {
    /// Watches those that are heard for the first time.
    pub fn look(&mut self, runs: &[HookedRun]) {
        for run in runs.iter().filter(|run| run.end.is_none()) {
            let pid = run.pid;
            if self.watches.iter().any(|watch| watch.pid() == pid) || self.gone.iter().any(|(gone, _)| gone.pid == pid)
            {
                continue;
            }
            match ExitWatch::of(pid) {
                Some(watch) => self.watches.push(watch),
                None => self.gone.push((ProcessExit { pid, code: None, signal: None }, Instant::now())),
            }
        }
    }

    /// Adds to each run how and when it ended, by a clock that shows `now`.
    pub fn fill_in(&self, runs: &mut [HookedRun], now: Moment) {
        let seen = Instant::now();
        for run in runs {
            let watched = self.watches.iter().find(|watch| watch.pid() == run.pid).and_then(ExitWatch::ended);
            let ended = watched.or_else(|| self.gone.iter().find(|(gone, _)| gone.pid == run.pid).copied());
            run.exit = ended.map(|(exit, at)| {
                let ago = seen.saturating_duration_since(at).as_millis();
                (exit, Moment(now.0.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))))
            });
        }
    }
}

/// How the command ended.
#[derive(Debug, Clone, Copy)]
pub struct CommandEnd {
    /// The process that it began as.
    pub pid: Option<u32>,
    /// Its exit code, as a shell has it.
    pub code: u8,
    /// When it was over.
    pub at: Moment,
    /// When it was first asked to end, if it was.
    pub asked: Option<Moment>,
}

/// The process that failed first of several, by its pid, and what is said of the end: who failed first, and where the run
/// stood still.
pub fn ending(runs: &[HookedRun], reports: &[LauncherReport], end: CommandEnd) -> (Option<u32>, Vec<String>) {
    let (runs, reports) = last_job(runs, reports);
    let (runs, reports) = (runs.as_slice(), reports.as_slice());
    let has_failed = end.code != 0;
    let still = (has_failed || end.asked.is_some()).then(|| stood_still(runs, end.at, end.asked)).flatten();
    let ends = process_ends(runs, reports);
    // Who was asked to end, and what fails because of that, is no news; nor is what a command that ended well got over.
    let is_news = |at: Option<Moment>| has_failed && end.asked.is_none_or(|asked| at.is_some_and(|at| at < asked));
    let first = first_failure(&ends, reports).filter(|first| is_news(first.at()));
    // The end of a command that is one process has been told.
    let told_by_command = |pid: u32| {
        let code = runs.iter().find(|run| run.pid == pid).and_then(|run| run.exit?.0.shell_code());
        ends.len() == 1 && code == Some(end.code)
    };
    let failure = first.filter(|first| !told_by_command(first.pid)).and_then(|first| failure_words(first, &ends));
    let several = ends.iter().filter(|one| one.has_failed() || Some(*one) == first).count() > 1;
    let own = failure.is_none().then(|| own_end(&ends, end)).flatten();
    (first.filter(|_| several).map(|first| first.pid), own.into_iter().chain(still).chain(failure).collect())
}

/// How a command ended that exits with a code of its own: what the one process says that had a hook in it, or that it said
/// nothing. Of a signal others tell.
fn own_end(ends: &[ProcessEnd], end: CommandEnd) -> Option<String> {
    if matches!(end.code, 0 | 129..=192) || end.asked.is_some() {
        return None;
    }
    let exit = exit_words(end.code.into());
    // Who waits for it may be quicker than who watches it.
    let its =
        |one: &ProcessEnd| Some(one.pid) == end.pid || one.exit.and_then(|exit| exit.shell_code()) == Some(end.code);
    let how = match ends {
        [one] if one.error.is_some() => one.error.as_ref().map(|error| format!("{error}, {exit}"))?,
        [one] if one.told.is_none() && its(one) => {
            format!("{exit}, without a word of Python's: os._exit, or a library that ended the process")
        }
        _ => exit,
    };
    Some(format!("the command ended with {how}"))
}

/// The exit code of each process, for who listens: its own where it was seen, else the command's.
pub fn exit_codes(runs: &[HookedRun], code: u8) -> Vec<(u32, u8)> {
    runs.iter().map(|run| (run.pid, run.exit.and_then(|(exit, _)| exit.shell_code()).unwrap_or(code))).collect()
}
