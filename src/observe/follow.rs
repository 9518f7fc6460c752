//! A thread beside the source's: it reads the log of the attached process, listens to hooks, and hands on what is new.

mod shell;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use self::shell::TellingJob;
use super::hook::{Directory, Listener, WakeHandle};
use super::log::{Log, Pattern};
use super::process::{ExitWatch, Waits, python_of_shell, ranks_of, told_ranks_of, told_runs_of};
use crate::order::StableOrder;
use crate::reading::{Absence, Moment, RankProcess, RunNews};
use crate::units::Seconds;

/// Time between two looks at the log, and the longest that a change of the attached process waits.
const EVERY: Duration = Duration::from_secs(1);

/// The same where nothing is followed: a process that is attached, and a hook that speaks, end the wait.
const IDLE_EVERY: Duration = Duration::from_secs(60);

/// Time between two looks for ranks: it means reading a file for every thread.
const RANKS_EVERY: Seconds = Seconds(3.0);

/// The same once they have stayed the same for so many looks and none has ended: eight ranks have thousands of threads.
const SETTLED_RANKS_EVERY: Seconds = Seconds(30.0);
const SETTLED_LOOKS: u32 = 10;

/// A single run below a shell is followed once no other has been heard for so long.
const ALONE_FOR: Seconds = Seconds(5.0);

/// Looks at a log after its run has ended, for what pipes still held. Later steps are another run's, that appends to it.
const LAST_LOOKS: u32 = 2;

/// Looks in all for how it ended: a shared disk tells late.
const LATE_LOOKS: u32 = 60;

/// Time between two looks for a log of rank 0's own.
const RANK_LOG_EVERY: Seconds = Seconds(10.0);

/// What is followed besides the devices.
#[derive(Debug, Clone, Default)]
pub struct FollowOptions {
    /// This log instead of the attached process's own.
    pub log: Option<PathBuf>,
    /// The user's own pattern of its lines.
    pub pattern: Option<Pattern>,
    /// The process that is attached from the start.
    pub pid: Option<u32>,
    /// Read the attached process's own log and listen to hooks.
    pub live: bool,
}

/// Follows until it is dropped.
#[derive(Debug)]
pub struct RunFollower {
    /// None while it is dropped: the thread ends where nobody can send.
    attached: Option<std_mpsc::Sender<Option<u32>>>,
    last: Option<u32>,
    socket: Option<PathBuf>,
    wake_handle: Option<WakeHandle>,
}

impl RunFollower {
    /// The process whose log is read from now on.
    pub fn attend(&mut self, pid: Option<u32>) {
        if pid != self.last {
            self.last = pid;
            // A thread that is gone has nobody to attend to.
            let _ = self.attached.as_ref().map(|attached| attached.send(pid));
            self.wake_handle.iter().for_each(WakeHandle::wake);
        }
    }
}

impl Drop for RunFollower {
    fn drop(&mut self) {
        self.attached = None;
        self.wake_handle.iter().for_each(WakeHandle::wake);
        // The thread may be cut off by the end of the program: the socket's name goes here.
        if let Some(path) = &self.socket {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Starts to follow.
///
/// # Errors
/// Where the system gives no thread.
pub fn follow(
    wanted: FollowOptions,
    variable: impl Fn(&str) -> Option<OsString>,
    clock: impl Fn() -> Moment + Send + 'static,
    news: Sender<RunNews>,
) -> io::Result<RunFollower> {
    let (attached, changes) = std_mpsc::channel();
    let listener = wanted.live.then(|| Directory::open(variable).and_then(|directory| Listener::bind(&directory)));
    let (listener, deaf) = match listener {
        Some(Ok(listener)) => (Some(listener), None),
        Some(Err(why)) => (None, Some(why.to_string())),
        None => (None, None),
    };
    // Where nobody can wake it, it waits for no longer than ever.
    let wake_handle = listener.as_ref().and_then(|listener| listener.wake_handle().ok());
    let idle_every = if wake_handle.is_some() || listener.is_none() { IDLE_EVERY } else { EVERY };
    let socket = listener.as_ref().map(|listener| listener.path().to_owned());
    let last = wanted.pid;
    let mut follower = FollowThread::new(wanted, listener, idle_every);
    follower.news.deaf = deaf;
    follower.turn_to(last);
    thread::Builder::new().name("follow".to_owned()).spawn(move || {
        loop {
            match follower.wait(&changes, &clock) {
                Some(Some(pid)) => follower.turn_to(pid),
                Some(None) => {}
                None => return,
            }
            follower.look(&clock);
            if !follower.tell(&news) {
                return;
            }
        }
    })?;
    Ok(RunFollower { attached: Some(attached), last, socket, wake_handle })
}

struct FollowThread {
    wanted: FollowOptions,
    log: Option<Log>,
    /// The log of rank 0 with its pid, where the launcher's own tells of no step.
    rank_log: Option<(u32, Log)>,
    /// The rank whose log was looked for last, and when.
    sought: Option<(u32, Moment)>,
    listener: Option<Listener>,
    waits: Waits,
    /// The followed process and its ranks, as long as they run and after.
    watches: Vec<ExitWatch>,
    /// When ranks were looked for last.
    ranked: Option<Moment>,
    /// Looks since they were others.
    same_ranks: u32,
    /// Who tells the steps, where a shell is followed.
    telling: TellingJob,
    /// Since when a single run without ranks is known below the followed process.
    alone_since: Option<Moment>,
    /// Looks since all that is watched has ended.
    looks_after_end: u32,
    news: RunNews,
    /// What was handed on last.
    told: RunNews,
    /// Time between two looks where nothing is followed.
    idle_every: Duration,
}

impl FollowThread {
    fn new(wanted: FollowOptions, listener: Option<Listener>, idle_every: Duration) -> Self {
        Self {
            log: None,
            rank_log: None,
            sought: None,
            waits: Waits::new("/proc"),
            news: RunNews::default(),
            wanted,
            listener,
            watches: Vec::new(),
            ranked: None,
            same_ranks: 0,
            telling: TellingJob::new("/proc"),
            alone_since: None,
            looks_after_end: 0,
            told: RunNews::default(),
            idle_every,
        }
    }

    fn turn_to(&mut self, pid: Option<u32>) {
        let own = self.wanted.pattern.clone();
        let opened = match (&self.wanted.log, pid) {
            (Some(file), _) => Some(Ok(Log::at(file.clone(), own))),
            (None, Some(pid)) if self.wanted.live => Some(Log::of_process(pid, own)),
            (None, _) => None,
        };
        let hooks = std::mem::take(&mut self.news.hooks);
        self.news = RunNews { pid, hooks, losses: self.news.losses, deaf: self.news.deaf.take(), ..RunNews::default() };
        self.log = None;
        self.rank_log = None;
        self.sought = None;
        self.ranked = None;
        self.same_ranks = 0;
        self.telling = TellingJob::new("/proc");
        self.alone_since = None;
        self.looks_after_end = 0;
        let watched = pid.filter(|_| self.wanted.live).and_then(ExitWatch::of);
        self.watches = watched.into_iter().collect();
        match opened {
            Some(Ok(log)) => self.log = Some(log),
            Some(Err(why)) => self.news.no_log = Some(why),
            None => {}
        }
    }

    /// Listens until the next look is due. What the attached process changed to; none when nobody wants news any more.
    fn wait(
        &mut self,
        changes: &std_mpsc::Receiver<Option<u32>>,
        clock: &impl Fn() -> Moment,
    ) -> Option<Option<Option<u32>>> {
        let idle = self.news.pid.is_none() && self.log.is_none();
        let every = if idle { self.idle_every } else { EVERY };
        let Some(listener) = &mut self.listener else {
            return match changes.recv_timeout(every) {
                Ok(pid) => Some(Some(pid)),
                Err(std_mpsc::RecvTimeoutError::Timeout) => Some(None),
                Err(std_mpsc::RecvTimeoutError::Disconnected) => None,
            };
        };
        let heard = listener.listen(every, clock);
        self.news.losses = listener.losses();
        // Runs are copied only where one has told something: most seconds have no news.
        if !matches!(heard, Ok(false)) {
            self.news.hooks = listener.runs().to_vec();
        }
        if let Err(error) = heard {
            self.news.deaf = Some(error.to_string());
            self.listener = None;
        }
        match changes.try_iter().last() {
            Some(pid) => Some(Some(pid)),
            None => match changes.try_recv() {
                Ok(pid) => Some(Some(pid)),
                Err(std_mpsc::TryRecvError::Empty) => Some(None),
                Err(std_mpsc::TryRecvError::Disconnected) => None,
            },
        }
    }

    fn look(&mut self, clock: &impl Fn() -> Moment) {
        let now = clock();
        self.look_for_ranks(now);
        let mut exits: Vec<_> = self.watches.iter().filter_map(ExitWatch::ended).collect();
        exits.order_by_key(|(_, at)| *at);
        self.news.exits = exits.into_iter().map(|(exit, _)| exit).collect();
        if let Some(pid) = self.news.pid.filter(|_| self.wanted.live) {
            self.news.waits = self.waits.of(pid, &self.news.ranks, now);
        }
        self.choose_log(now);
        let over = !self.watches.is_empty() && self.news.exits.len() == self.watches.len() || self.ranks_are_over();
        let job_ended = self.telling.has_ended();
        self.looks_after_end = if over { self.looks_after_end.saturating_add(1) } else { 0 };
        if self.looks_after_end <= LATE_LOOKS {
            for log in self.rank_log.as_mut().map(|(_, log)| log).into_iter().chain(&mut self.log) {
                // Looking for ranks takes its time: between lines lies what lay between the readings.
                log.read(clock());
            }
            self.end_job(job_ended);
            self.take_log();
        }
    }

    /// Whether all ranks have ended, though what started them may go on: what is written then is another run's.
    fn ranks_are_over(&self) -> bool {
        let has_ended = |rank: &RankProcess| self.news.exits.iter().any(|exit| exit.pid == rank.pid);
        !self.news.ranks.is_empty() && self.news.ranks.iter().all(has_ended)
    }

    /// A shell goes on behind a training: its figures end with it. Ranks and hooks tell themselves.
    fn end_job(&mut self, ended: bool) {
        let has_exit = |pid: &u32| self.news.exits.iter().any(|exit| exit.pid == *pid);
        let followed = self.news.pid.filter(|pid| self.wanted.live && self.news.ranks.is_empty() && !has_exit(pid));
        if let (Some(pid), Some(log)) = (followed, &mut self.log)
            && self.telling.look(pid, log, ended)
        {
            log.begin_run();
            self.news.jobs_over += 1;
        }
    }

    /// What the log has told by now.
    fn take_log(&mut self) {
        let of_rank = self.rank_log.as_ref().map(|(_, log)| log);
        let of_rank = of_rank.filter(|log| log.progress().step.value().is_some() || self.log.is_none());
        let Some(log) = of_rank.or(self.log.as_ref()) else { return };
        if self.looks_after_end <= LAST_LOOKS {
            self.news.progress.clone_from(log.progress());
            self.news.no_log = log.trouble().cloned().or_else(|| no_figures(log));
        } else if log.progress().step.value() != self.news.progress.step.value() {
            // Another run writes there now.
            self.looks_after_end = LATE_LOOKS;
            return;
        }
        self.news.out_of_memory = log.out_of_memory().cloned();
        self.news.exception = log.exception().map(str::to_owned);
        self.news.loss_since = log.loss_turned().and_then(|turn| turn.step);
    }

    /// Launchers may give each rank a log of its own: rank 0's is followed where the launcher's tells of no step.
    fn choose_log(&mut self, now: Moment) {
        let told = self.log.as_ref().is_some_and(|log| log.progress().step.value().is_some());
        let first = self.news.ranks.first().filter(|_| self.wanted.live && self.wanted.log.is_none() && !told);
        let Some(first) = first.filter(|first| self.rank_log.as_ref().is_none_or(|(pid, _)| *pid != first.pid)) else {
            return;
        };
        // Its files are opened to look: one that has no log of its own has none a second later either.
        if self.sought.is_some_and(|(pid, at)| pid == first.pid && now.since(at) < RANK_LOG_EVERY) {
            return;
        }
        self.sought = Some((first.pid, now));
        // One that writes where its launcher does has no log of its own.
        let opened = Log::of_process(first.pid, self.wanted.pattern.clone()).ok();
        let is_own =
            |log: &Log| self.log.as_ref().is_some_and(|own| log.paths().all(|path| own.paths().any(|own| own == path)));
        let other = opened.filter(|log| !is_own(log));
        self.rank_log = other.map(|log| (first.pid, log)).or_else(|| self.rank_log.take());
    }

    /// Ranks come and go with a launcher's restarts.
    fn look_for_ranks(&mut self, now: Moment) {
        let Some(pid) = self.news.pid.filter(|_| self.wanted.live) else { return };
        // Another that speaks may be what a process without ranks has started.
        let is_clear = !self.news.ranks.is_empty() || self.news.hooks.iter().all(|run| run.pid == pid);
        let settled = is_clear && self.same_ranks >= SETTLED_LOOKS && self.news.exits.is_empty();
        let every = if settled { SETTLED_RANKS_EVERY } else { RANKS_EVERY };
        if self.ranked.is_some_and(|at| now.since(at) < every) {
            return;
        }
        self.ranked = Some(now);
        let mut ranks = ranks_of(Path::new("/proc"), pid);
        if ranks.is_empty() {
            ranks = told_ranks_of(pid, &self.news.hooks);
        }
        let over = self.news.ranks.iter().all(|rank| self.news.exits.iter().any(|exit| exit.pid == rank.pid));
        if ranks.is_empty() && over {
            let python = python_of_shell(Path::new("/proc"), pid, &self.news.hooks);
            ranks = python.map_or_else(|| self.run_below(pid, now), |python| vec![python]);
        }
        self.same_ranks = if ranks == self.news.ranks { self.same_ranks.saturating_add(1) } else { 0 };
        if ranks.is_empty() {
            // Those that have ended stay known.
            return;
        }
        for rank in &ranks {
            if !self.watches.iter().any(|watch| watch.is_of(rank.pid, rank.started)) {
                // How one ended that had the number before says nothing of this one.
                self.watches.retain(|watch| watch.pid() != rank.pid);
                self.watches.extend(ExitWatch::of(rank.pid));
            }
        }
        self.alone_since = None;
        self.news.runs_below.clear();
        self.news.ranks = ranks;
    }

    /// Where a shell is attached, the one run that it has started is followed. Each of several tells of itself only with its
    /// steps: before one is taken for the only one, others are waited for.
    fn run_below(&mut self, pid: u32, now: Moment) -> Vec<RankProcess> {
        let runs = told_runs_of(pid, &self.news.hooks);
        if let [_] = runs.as_slice() {
            self.news.runs_below.clear();
            let since = *self.alone_since.get_or_insert(now);
            return if now.since(since) < ALONE_FOR { Vec::new() } else { runs };
        }
        self.alone_since = None;
        self.news.runs_below = runs.iter().map(|run| run.pid).collect();
        Vec::new()
    }

    /// Hands on what is new; false when nobody takes it any more. Where the queue is full the next
    /// news replace these.
    fn tell(&mut self, news: &Sender<RunNews>) -> bool {
        if self.news != self.told && news.try_send(self.news.clone()).is_ok() {
            self.told = self.news.clone();
        }
        !news.is_closed()
    }
}

/// Why a log that can be read tells nothing.
fn no_figures(log: &Log) -> Option<Absence> {
    let why = if log.is_between_runs() {
        "the training that told its last step has ended"
    } else if log.follows_another() {
        "its log has lines of an earlier run alone so far"
    } else if log.is_empty() {
        // To a file Python writes in blocks.
        "its log is empty so far (python -u writes at once)"
    } else {
        "no line of a known format in the log so far (--log-pattern)"
    };
    (!log.progress().is_known()).then(|| Absence::Because(why.into()))
}

#[cfg(test)]
mod tests;
