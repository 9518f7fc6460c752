//! What a process waits for, as the kernel has it.

use crate::reading::Moment;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// A local file system, or a file on one.
    Disk,
    /// A file system on other machines.
    NetworkStorage,
    /// A connection.
    Socket,
    /// What another process writes or reads.
    Pipe,
    /// Another thread or process, by a futex.
    Lock,
    /// A lock on a file.
    FileLock,
    /// Any of several files, connections or timers.
    Event,
    /// The end of a process that it has started.
    Child,
    /// Time: it sleeps.
    Sleep,
    /// A device's driver.
    Device,
    /// The kernel does not say for what, but it cannot be interrupted: a file system, mostly.
    Uninterruptible,
    /// Somebody has stopped it.
    Stopped,
}

impl ProcessWait {
    /// A process that waits alone, as far as anybody knows.
    #[must_use]
    pub const fn new(pid: u32, kind: WaitKind, since: Moment) -> Self {
        Self { pid, rank: None, worker: None, kind, target: None, since, is_from_first_look: false, works_below: false }
    }

    /// Whether nothing goes on that this wait is for, as far as this machine knows: other hosts and devices may be at work.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        !self.works_below && !matches!(self.kind, WaitKind::Socket | WaitKind::Device)
    }
}

impl WaitKind {
    /// What it waits for, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Disk => "the disk",
            Self::NetworkStorage => "network storage",
            Self::Socket => "a socket",
            Self::Pipe => "a pipe",
            Self::Lock => "another thread (futex)",
            Self::FileLock => "a file lock",
            Self::Event => "an event (poll)",
            Self::Child => "a process that it has started",
            Self::Sleep => "a timer (it sleeps)",
            Self::Device => "a device driver",
            Self::Uninterruptible => "the kernel (state D: mostly a disk)",
            Self::Stopped => "SIGCONT (it is stopped)",
        }
    }

    /// Whether that is what a rank does for which others wait, and not waiting for them.
    #[must_use]
    pub const fn holds_others_up(self) -> bool {
        !matches!(self, Self::Socket | Self::Lock | Self::Event | Self::Device)
    }
}

/// A process that has used no processor time for a while, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessWait {
    /// Its pid.
    pub pid: u32,
    /// Its rank, of a run of several.
    pub rank: Option<u32>,
    /// The process that it has started and waits for, where that one waits for the rest of this.
    pub worker: Option<u32>,
    /// For what.
    pub kind: WaitKind,
    /// Which file or connection.
    pub target: Option<String>,
    /// Since when it has been seen so.
    pub since: Moment,
    /// It was so as it was looked at first: it may have begun long before.
    pub is_from_first_look: bool,
    /// A process that it has started computes meanwhile, or has done so: a compiler, a loader's worker.
    pub works_below: bool,
}
