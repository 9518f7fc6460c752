//! What a source saw of a run, boiled down to what a plan predicts.

use super::evidence::Evidence;
use crate::reading::Reading;
use crate::units::Bytes;

/// Whose memory was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOwner {
    /// The attached process, as the driver charges it.
    Process {
        /// Its pid.
        pid: u32,
        /// The device of which its memory is meant: the one where it holds most. None while
        /// it is on none.
        device: Option<u32>,
    },
    /// Everything on one device.
    Device {
        /// Its index.
        device: u32,
    },
    /// Nobody's: no process is attached, and no device is busy. What is known stands in the run's log.
    Log,
}

impl MemoryOwner {
    /// The device that the figures are of.
    #[must_use]
    pub const fn device(self) -> Option<u32> {
        match self {
            Self::Process { device, .. } => device,
            Self::Device { device } => Some(device),
            Self::Log => None,
        }
    }
}

/// What was seen of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Whose figures these are.
    pub whose: MemoryOwner,
    /// Device-used bytes now.
    pub memory: Reading<Bytes>,
    /// Devices that the source sees.
    pub devices: usize,
    /// The pipeline stage of its device, where the ranks of the job are known.
    pub stage: Option<usize>,
    /// The rest: peaks, rates and what may befall a run.
    pub evidence: Evidence,
}
