//! News of a run besides its devices: its log and the hooks in its processes.

use super::{Absence, HookLosses, HookedRun, HostProcess, OutOfMemory, ProcessWait, Progress};

/// What is known of the followed run, and of every process with a hook in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunNews {
    /// The process whose log is followed.
    pub pid: Option<u32>,
    /// What its log tells.
    pub progress: Progress,
    /// Why there is no log, or why it cannot be read now.
    pub no_log: Option<Absence>,
    /// The newest out-of-memory message in the log, where the run did not go on after it.
    pub out_of_memory: Option<OutOfMemory>,
    /// The exception with which the log's newest traceback ends, where the run did not go on after it.
    pub exception: Option<String>,
    /// The step whose loss in the log is no number, as are all behind it.
    pub loss_since: Option<u64>,
    /// Trainings of the followed shell that have ended: what is told after one more is of another.
    pub jobs_over: u32,
    /// The ranks that the followed process has started.
    pub ranks: Vec<RankProcess>,
    /// Processes with a hook that the followed one, a shell say, has started and that are no ranks of one run.
    pub runs_below: Vec<u32>,
    /// How the followed process and its ranks ended: those that have, the first one first.
    pub exits: Vec<ProcessExit>,
    /// Those of them that do nothing now, and what for.
    pub waits: Vec<ProcessWait>,
    /// Processes with a hook in them.
    pub hooks: Vec<HookedRun>,
    /// What came through the socket and was not taken.
    pub losses: HookLosses,
    /// Why nobody listens to hooks.
    pub deaf: Option<String>,
}

/// A rank of a run, as a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankProcess {
    /// Its pid.
    pub pid: u32,
    /// When it started, in ticks since the machine did: another one may have had its pid.
    pub started: Option<u64>,
    /// Its rank.
    pub rank: u32,
}

/// How a process ended: by a code or a signal, or nobody can tell any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// Which.
    pub pid: u32,
    /// Its exit code.
    pub code: Option<u32>,
    /// The signal that ended it.
    pub signal: Option<u32>,
}

impl ProcessExit {
    /// The number that a shell shows: the code, or 128 and the signal; none where it is not known.
    #[must_use]
    pub fn shell_code(&self) -> Option<u8> {
        let number = self.signal.map_or(self.code, |signal| Some(128 + signal))?;
        u8::try_from(number & 0xff).ok()
    }

    /// `exit 1`, or `SIGKILL, exit 137`, as a shell has it; nothing where it is not known.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match (self.code, self.signal) {
            (_, Some(signal)) => Some(exit_words(128 + signal)),
            (Some(code), None) => Some(format!("exit {code}")),
            (None, None) => None,
        }
    }
}

/// A rank that failed, as the launcher that had started it says: torchrun, `accelerate launch`, `torch.multiprocessing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRank {
    /// The rank, where the launcher counts ranks.
    pub rank: Option<u32>,
    /// Its process and how that ended.
    pub exit: ProcessExit,
}

/// What a launcher says of ranks that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LauncherReport {
    /// The pid of the `memwall run` that started the launcher.
    pub run: Option<u32>,
    /// The ranks, the one first that the launcher calls the root cause.
    pub ranks: Vec<FailedRank>,
}

/// An exit code as a shell tells it: 128 and more is a signal.
///
/// ```
/// use memwall_core::reading::exit_words;
///
/// assert_eq!([1, 137, 162].map(exit_words), ["exit 1", "SIGKILL, exit 137", "signal 34, exit 162"]);
/// ```
#[must_use]
pub fn exit_words(code: u32) -> String {
    // Signals end at 64 on Linux: what lies above is a code of the program's own.
    let name = match code.checked_sub(128).filter(|signal| (1..=64).contains(signal)) {
        None => return format!("exit {code}"),
        Some(1) => "SIGHUP".to_owned(),
        Some(2) => "SIGINT".to_owned(),
        Some(6) => "SIGABRT".to_owned(),
        Some(7) => "SIGBUS".to_owned(),
        Some(9) => "SIGKILL".to_owned(),
        Some(11) => "SIGSEGV".to_owned(),
        Some(15) => "SIGTERM".to_owned(),
        Some(other) => format!("signal {other}"),
    };
    format!("{name}, exit {code}")
}

impl HostProcess {
    /// Whether it is a `memwall run`, which holds nothing of the run that it has started.
    ///
    /// ```
    /// use memwall_core::reading::{HostProcess, Moment, Reading};
    ///
    /// let of = |command: &str| HostProcess { command: Reading::measured(command.into(), Moment(0)), ..HostProcess::default() };
    /// assert!(of("/usr/bin/memwall run -- python train.py").starts_run());
    /// assert!(!of("python train.py run").starts_run());
    /// ```
    #[must_use]
    pub fn starts_run(&self) -> bool {
        let mut words = self.command.value().into_iter().flat_map(|command| command.split(' '));
        let is_memwall = words.next().is_some_and(|program| std::path::Path::new(program).ends_with("memwall"));
        is_memwall && words.next() == Some("run")
    }
}
