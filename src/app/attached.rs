//! The process that is watched: whether it is there, still there, or another one by now.

use crate::reading::{DeviceSample, Sample};
use crate::units::Bytes;

/// The process that the plan is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// Its pid.
    pub pid: u32,
    /// When it started, once known: another start time under this pid is another process.
    pub started: Option<u64>,
    /// The most memory it held on one device since it was attached.
    pub peak: Option<Bytes>,
    /// The device on which it held most, as last seen.
    pub device: Option<u32>,
    /// How it stands.
    pub state: AttachedState,
}

/// How an attached process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachedState {
    /// Not seen on a GPU so far.
    Awaited,
    /// It holds memory on a GPU.
    Present,
    /// It held memory and does so no more.
    Ended,
    /// Its pid belongs to another process now.
    Replaced,
}

impl Attached {
    /// A process to wait for.
    #[must_use]
    pub fn to(pid: u32) -> Self {
        Self { pid, started: None, peak: None, device: None, state: AttachedState::Awaited }
    }

    /// Takes in a sample.
    pub fn note(&mut self, sample: &Sample) {
        if matches!(self.state, AttachedState::Ended | AttachedState::Replaced) {
            return;
        }
        let host = sample.processes.iter().find(|host| host.pid == self.pid);
        let started = host.and_then(|host| host.started.value().copied());
        if let (Some(before), Some(now)) = (self.started, started)
            && before != now
        {
            self.state = AttachedState::Replaced;
            return;
        }
        self.started = self.started.or(started);
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
        } else if self.state == AttachedState::Present && sample.devices.iter().all(lists_processes) {
            self.state = AttachedState::Ended;
        }
    }
}

/// A device whose list could not be read says nothing about who is on it.
fn lists_processes(device: &DeviceSample) -> bool {
    device.processes.value().is_some()
}
