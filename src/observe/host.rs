//! The attached process alone, or a log, on a machine where no driver tells of GPUs.

use std::path::Path;

use super::process::HostFacts;
use super::{SharedRequirements, Source};
use crate::reading::{Moment, Sample, SourceInfo, SourceKind};

/// Samples without devices: of one process, or of none, beside a log.
pub struct Host {
    facts: HostFacts,
    requirements: SharedRequirements,
    pid: Option<u32>,
    detail: String,
}

impl Host {
    /// The process, and why no GPU is watched. None where there is no such process.
    #[must_use]
    pub fn open(pid: u32, requirements: SharedRequirements, why: &str) -> Option<Self> {
        is_process(pid).then(|| Self { pid: Some(pid), ..Self::of_nobody(requirements, why) })
    }

    /// No process, and why no GPU is watched: what is known of the run stands in its log.
    #[must_use]
    pub fn of_nobody(requirements: SharedRequirements, why: &str) -> Self {
        let detail = format!("no GPU is watched: {why}");
        Self { facts: HostFacts::new(), requirements, pid: None, detail }
    }
}

/// Whether there is a process of that number here.
#[must_use]
pub fn is_process(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).is_dir()
}

impl Source for Host {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Host, detail: self.detail.clone() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let wanted = self.requirements.get();
        let pids: Vec<u32> = wanted.process.or(self.pid).into_iter().collect();
        let mut processes = self.facts.of(&pids, now);
        let mut children = if wanted.processes { self.facts.closely(&mut processes, now) } else { Vec::new() };
        self.facts.waits(processes.iter_mut().chain(&mut children), now);
        Sample { at: now, processes, children, ..Sample::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_without_a_driver_and_none_is_made_up() {
        let own = std::process::id();
        let mut host = Host::open(own, SharedRequirements::nothing(), "no driver").unwrap();
        let sample = host.sample(Moment(5));
        assert!(sample.devices.is_empty() && sample.progress.is_none());
        assert_eq!((sample.processes.len(), sample.processes[0].pid), (1, own));
        assert!(sample.processes[0].resident.value().is_some());
        // Beside a log alone there is no process either.
        assert!(Host::of_nobody(SharedRequirements::nothing(), "no driver").sample(Moment(5)).processes.is_empty());
        // Larger than any that the system gives (`PID_MAX_LIMIT`, 2^22).
        assert!(Host::open(1 << 23, SharedRequirements::nothing(), "no driver").is_none());
    }
}
