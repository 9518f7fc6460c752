//! From what NVML answers to readings.

use std::borrow::Cow;

use nvml_wrapper::error::NvmlError;

use crate::reading::{Absence, Moment, Reading};

/// `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`, `NVML_ERROR_DEPRECATED`: the wrapper has no names for them.
const OTHER_AGE: [u32; 2] = [25, 26];
/// `NVML_ERROR_GPU_NOT_FOUND`.
const GPU_NOT_FOUND: u32 = 28;

/// Why there is no value.
pub fn absence(error: &NvmlError) -> Absence {
    match error {
        // A driver that is too old lacks the function or refuses the newer argument.
        NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => {
            Absence::NotSupported
        }
        NvmlError::UnexpectedVariant(code) if OTHER_AGE.contains(code) => Absence::NotSupported,
        NvmlError::NoPermission => Absence::NoPermission,
        NvmlError::GpuLost => Absence::Gone,
        NvmlError::UnexpectedVariant(GPU_NOT_FOUND) => Absence::Gone,
        NvmlError::UnexpectedVariant(code) => Absence::Failed(Cow::Owned(format!("NVML error {code}"))),
        other => Absence::Failed(Cow::Owned(other.to_string())),
    }
}

/// Makes readings at one moment, until the GPU turns out to be off the bus: then nothing more
/// is asked of it, because each call may take seconds to fail.
#[derive(Debug)]
pub struct MetricReader {
    now: Moment,
    lost: bool,
    in_use: bool,
}

impl MetricReader {
    /// For readings taken at `now`.
    pub const fn new(now: Moment) -> Self {
        Self { now, lost: false, in_use: false }
    }

    /// Whether the GPU is off the bus.
    pub const fn lost(&self) -> bool {
        self.lost
    }

    /// Whether a call was refused because something else uses the GPU's counters.
    pub const fn in_use(&self) -> bool {
        self.in_use
    }

    /// What a call answers.
    pub fn read<T>(&mut self, call: impl FnOnce() -> Result<T, NvmlError>) -> Reading<T> {
        if self.lost {
            return Reading::Absent(Absence::Gone);
        }
        match call() {
            Ok(value) => Reading::measured(value, self.now),
            Err(error) => {
                self.in_use |= matches!(error, NvmlError::InUse);
                let why = absence(&error);
                self.lost |= why == Absence::Gone;
                Reading::Absent(why)
            }
        }
    }

    /// A fact that does not change: asked until it is known, or known not to be had.
    pub fn once<T>(&mut self, fact: &mut Reading<T>, call: impl FnOnce() -> Result<T, NvmlError>) {
        match fact {
            Reading::Known { .. } | Reading::Absent(Absence::NotSupported | Absence::NoPermission) => {}
            Reading::Absent(_) => *fact = self.read(call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_an_absence_of_its_own_kind() {
        assert_eq!(absence(&NvmlError::NotSupported), Absence::NotSupported);
        assert_eq!(absence(&NvmlError::FunctionNotFound), Absence::NotSupported);
        assert_eq!(absence(&NvmlError::UnexpectedVariant(25)), Absence::NotSupported);
        assert_eq!(absence(&NvmlError::NoPermission), Absence::NoPermission);
        assert_eq!(absence(&NvmlError::GpuLost), Absence::Gone);
        assert_eq!(absence(&NvmlError::UnexpectedVariant(28)), Absence::Gone);
        assert_eq!(absence(&NvmlError::UnexpectedVariant(77)), Absence::Failed("NVML error 77".into()));
        assert_eq!(absence(&NvmlError::Timeout), Absence::Failed("the provided timeout was reached".into()));
    }

    #[test]
    fn a_lost_card_is_asked_nothing_more() {
        let mut reader = MetricReader::new(Moment(1));
        assert_eq!(reader.read(|| Ok(5)), Reading::measured(5, Moment(1)));
        assert_eq!(reader.read::<u32>(|| Err(NvmlError::GpuLost)), Reading::Absent(Absence::Gone));
        let mut asked = false;
        let answer = reader.read(|| {
            asked = true;
            Ok(5)
        });
        assert_eq!(answer, Reading::Absent(Absence::Gone));
        assert!(!asked);
    }

    #[test]
    fn a_fact_is_asked_again_only_while_it_may_still_come() {
        let mut reader = MetricReader::new(Moment(1));
        let mut fact = Reading::not_read();
        reader.once::<u32>(&mut fact, || Err(NvmlError::Timeout));
        reader.once(&mut fact, || Ok(5));
        reader.once(&mut fact, || Ok(6));
        assert_eq!(fact, Reading::measured(5, Moment(1)));
        let mut fact = Reading::Absent(Absence::NotSupported);
        reader.once(&mut fact, || Ok(6));
        assert_eq!(fact, Reading::Absent(Absence::NotSupported));
    }
}
