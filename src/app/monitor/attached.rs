//! The process that is watched: whether it is there, still there, or another one by now.

use super::Monitor;
use crate::reading::{Absence, DeviceSample, HookedRun, HostProcess, Sample};
use crate::units::Bytes;

/// Seconds that the start of a process, which the kernel counts from the machine's, may lie from the clock's time: that is
/// set while a run goes on. A pid is not used again so soon.
const CLOCKS_DIFFER: f64 = 30.0;

/// The process that the plan is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachedProcess {
    /// Its pid.
    pub pid: u32,
    /// When it started, once known: another start time under this pid is another process.
    pub started: Option<u64>,
    /// Its command line, once known: a process may become another program.
    pub command: Option<String>,
    /// The launcher that was attached, where this is a rank of it.
    pub launcher: Option<u32>,
    /// The most memory it held on one device since it was attached.
    pub peak: Option<Bytes>,
    /// The device on which it held most, as last seen.
    pub device: Option<u32>,
    /// How it stands.
    pub state: AttachedState,
}

/// Which process is meant, and which program in it: pids are used again, and a process may become another program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: u32,
    /// When it started, in seconds since the Unix epoch.
    pub started: Option<u64>,
    /// Its command line.
    pub command: Option<String>,
}

impl ProcessIdentity {
    /// Whether `later` is another process, or another program. What is not known of one of them tells nothing.
    #[must_use]
    pub fn differs_from(&self, later: &Self) -> bool {
        let started = self.started.zip(later.started).is_some_and(|(before, now)| before != now);
        let command = self.command.as_ref().zip(later.command.as_ref()).is_some_and(|(before, now)| before != now);
        self.pid != later.pid || started || command
    }

    /// What is known by now of a process that does not differ.
    #[must_use]
    pub fn with(self, later: Self) -> Self {
        Self { pid: self.pid, started: later.started.or(self.started), command: later.command.or(self.command) }
    }
}

/// How an attached process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachedState {
    /// Not seen on a GPU so far.
    Awaited,
    /// Not on a GPU, and no process has that pid.
    Missing,
    /// The driver tells pids of another namespace: which process is it, nobody can tell.
    Unmatched,
    /// It holds memory on a GPU.
    Present,
    /// It held memory and does so no more.
    Ended,
    /// Its pid belongs to another process now.
    Replaced,
}

impl Monitor {
    /// Whether what a source tells in its samples is of the run that is followed: of a process that it has seen, or of
    /// everything it sees. A simulated or recorded run tells nothing of a real process.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.attached.as_ref().is_none_or(AttachedProcess::is_known)
    }
}

impl AttachedProcess {
    /// Whether it is process `pid`, and has ended.
    #[must_use]
    pub fn has_ended_as(&self, pid: Option<u32>) -> bool {
        self.has_ended() && Some(self.pid) == pid
    }

    /// Whether it was there and is no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state == AttachedState::Ended
    }

    /// A process to wait for.
    #[must_use]
    pub fn to(pid: u32) -> Self {
        Self {
            pid,
            started: None,
            command: None,
            launcher: None,
            peak: None,
            device: None,
            state: AttachedState::Awaited,
        }
    }

    /// Which process and program it is by now.
    #[must_use]
    pub fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, started: self.started, command: self.command.clone() }
    }

    /// Whether a hook may be in this process: one that was loaded before it started was in another, which had that pid.
    #[must_use]
    pub fn may_have_loaded(&self, run: &HookedRun) -> bool {
        self.started.zip(run.began).is_none_or(|(started, began)| began + CLOCKS_DIFFER >= started as f64)
    }

    /// Whether the source has seen it: what a source tells of a run is of a process that it sees.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.started.is_some() || self.device.is_some()
    }

    /// Whether it is this one that the source tells of, and not one that has got its pid since.
    #[must_use]
    pub fn is(&self, host: &HostProcess) -> bool {
        self.started.is_none_or(|own| host.started.value().is_none_or(|started| *started == own))
    }

    /// Takes in a sample.
    pub fn note(&mut self, sample: &Sample) {
        if matches!(self.state, AttachedState::Ended | AttachedState::Replaced) {
            return;
        }
        // In a container, the pid that people and hooks know is not the driver's.
        if let Some(driver) = by_own_pid(sample, self.pid) {
            self.pid = driver;
        }
        let host = sample.processes.iter().find(|host| host.pid == self.pid);
        let absence = host.and_then(|host| host.started.absence());
        let started = host.and_then(|host| host.started.value().copied());
        if let (Some(before), Some(now)) = (self.started, started)
            && before != now
        {
            self.state = AttachedState::Replaced;
            return;
        }
        self.started = self.started.or(started);
        self.command = host.and_then(|host| host.command.value().cloned()).or(self.command.take());
        if self.started.is_some() && absence == Some(&Absence::Gone) {
            // Whatever the driver still lists under its pid.
            self.state = AttachedState::Ended;
            return;
        }
        let mut found = sample
            .devices
            .iter()
            .filter_map(|device| Some((device.index, device.processes.value()?)))
            .flat_map(|(index, list)| list.iter().map(move |process| (index, process)))
            .filter(|(_, process)| process.pid == self.pid)
            .map(|(index, process)| (process.memory.value().copied(), std::cmp::Reverse(index)))
            .peekable();
        if found.peek().is_some() {
            self.state = AttachedState::Present;
            if let Some((most, std::cmp::Reverse(index))) = found.max() {
                self.peak = self.peak.max(most);
                self.device = Some(index);
            }
        } else if self.state == AttachedState::Present {
            if sample.devices.iter().all(lists_processes) {
                self.state = AttachedState::Ended;
            }
        } else {
            let (elsewhere, all) = elsewhere(sample);
            self.state = match absence {
                Some(Absence::Gone | Absence::Elsewhere) => AttachedState::Missing,
                _ if all > 0 && elsewhere == all => AttachedState::Unmatched,
                _ => AttachedState::Awaited,
            };
        }
    }
}

/// The driver's pid of the process that has that pid here, where they differ.
pub fn by_own_pid(sample: &Sample, own: u32) -> Option<u32> {
    sample.processes.iter().find(|host| host.here == Some(own)).map(|host| host.pid)
}

/// How many processes on devices have pids of another namespace, and how many there are.
pub fn elsewhere(sample: &Sample) -> (usize, usize) {
    let on_devices = sample.devices.iter().filter_map(|device| device.processes.value()).flatten();
    let mut pids: Vec<u32> = on_devices.map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let absence = |pid: u32| sample.processes.iter().find(|host| host.pid == pid)?.started.absence();
    (pids.iter().filter(|pid| absence(**pid) == Some(&Absence::Elsewhere)).count(), pids.len())
}

/// A device whose list could not be read says nothing about who is on it.
fn lists_processes(device: &DeviceSample) -> bool {
    device.processes.value().is_some()
}
