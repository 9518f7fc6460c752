//! Which of the GPUs that a source tells of may be the run's: of a cluster those of its job.

use super::Monitor;
use crate::reading::DeviceSample;

impl Monitor {
    /// Whether the GPU at a place of the newest sample may be the run's: where a job was chosen, or a file lists its GPUs, its own
    /// alone are.
    #[must_use]
    pub fn is_of_run(&self, position: usize) -> bool {
        !self.cluster.is_narrowed() || self.cluster.layout().rank_at(position).is_some()
    }

    /// The devices that may be the run's, with their places in the newest sample.
    pub fn run_devices(&self) -> impl Iterator<Item = (usize, &DeviceSample)> {
        self.devices().iter().enumerate().filter(|(position, _)| self.is_of_run(*position))
    }

    /// Whether there are GPUs and none is of the job that was chosen.
    #[must_use]
    pub fn has_no_gpu_of_job(&self) -> bool {
        !self.devices().is_empty() && self.run_devices().next().is_none()
    }

    /// That none is, in words.
    #[must_use]
    pub fn no_gpu_of_job(&self) -> Option<String> {
        let job =
            || self.cluster.selector.as_ref().map_or_else(|| "the file of --hosts".to_owned(), ToString::to_string);
        self.has_no_gpu_of_job().then(|| format!("no GPU is of {}", job()))
    }

    /// Whether nobody uses any device that may be the run's.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.run_devices().all(|(_, device)| device.is_idle())
    }

    /// Whether there are GPUs and none of them tells anything.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.run_devices().next().is_some() && self.run_devices().all(|(_, device)| device.is_unread())
    }
}
