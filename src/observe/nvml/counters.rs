//! The GPU's performance counters (GPM, Hopper and later): what the streaming multiprocessors,
//! the matrix units and the DRAM really did between two samples.

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml as Library};

use super::absence::absence;
use crate::reading::{Absence, Moment, Reading};
use crate::units::Fraction;

/// NVML has nothing to say about samples that are closer.
const LEAST_MILLIS: u64 = 100;

const METRICS: [GpmMetricId; 3] = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];

/// What the counters say.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Share of the multiprocessors that had work.
    pub sm: Reading<Fraction>,
    /// Share of the matrix units' peak.
    pub tensor: Reading<Fraction>,
    /// Share of the DRAM's peak bandwidth.
    pub dram: Reading<Fraction>,
}

impl Figures {
    fn absent(why: &Absence) -> Self {
        Self {
            sm: Reading::Absent(why.clone()),
            tensor: Reading::Absent(why.clone()),
            dram: Reading::Absent(why.clone()),
        }
    }
}

/// The counters of one card.
#[derive(Debug, Default)]
pub struct Counters {
    support: Support,
    // Figures lie between two samples: the older one waits here for the next tick.
    older: Option<(GpmSample<'static>, Moment)>,
    last: Figures,
}

#[derive(Debug, Default)]
enum Support {
    #[default]
    Unknown,
    Yes,
    No(Absence),
}

impl Counters {
    /// What the counters say now, if anybody wants to know.
    pub fn read(&mut self, library: &'static Library, device: &Device<'static>, now: Moment, wanted: bool) -> Figures {
        if !wanted {
            // Frees the sample: the hardware is shared with profilers.
            self.older = None;
            self.last = Figures::default();
        } else if let Some(why) = self.missing(device) {
            return Figures::absent(&why);
        } else if self.older.as_ref().is_none_or(|(_, at)| now.0.saturating_sub(at.0) >= LEAST_MILLIS) {
            self.last = self.advance(library, device, now).unwrap_or_else(|error| {
                self.older = None;
                Figures::absent(&absence(&error))
            });
        }
        self.last.clone()
    }

    /// Gives the counters up for good: on some drivers they disturb other calls.
    pub fn give_up(&mut self) {
        if self.older.take().is_some() {
            self.support = Support::No(Absence::Failed("the counters disturb the driver's other answers".into()));
        }
    }

    /// Why this card has no counters, if so. Asked once.
    fn missing(&mut self, device: &Device<'static>) -> Option<Absence> {
        if matches!(self.support, Support::Unknown) {
            // With MIG on, sampling the whole card has made drivers refuse other calls until a restart.
            let split = device.mig_mode().is_ok_and(|mode| mode.current != 0);
            self.support = match device.gpm_support() {
                Ok(true) if !split => Support::Yes,
                Ok(_) => Support::No(Absence::NotSupported),
                Err(error) => match absence(&error) {
                    why @ (Absence::NotSupported | Absence::NoPermission) => Support::No(why),
                    // May pass: asked again next time.
                    why => return Some(why),
                },
            };
        }
        match &self.support {
            Support::No(why) => Some(why.clone()),
            Support::Yes | Support::Unknown => None,
        }
    }

    /// Takes a sample and says what happened since the one before; nothing yet on the first.
    fn advance(
        &mut self,
        library: &'static Library,
        device: &Device<'static>,
        now: Moment,
    ) -> Result<Figures, NvmlError> {
        let newer = device.gpm_sample()?;
        let Some((older, _)) = self.older.replace((newer, now)) else { return Ok(Figures::default()) };
        let Some((newer, _)) = &self.older else { return Ok(Figures::default()) };
        let mut metrics = gpm_metrics_get(library, &older, newer, &METRICS)?.into_iter();
        let mut next = || match metrics.next() {
            Some(Ok(metric)) => share(metric.value, now),
            Some(Err(error)) => Reading::Absent(absence(&error)),
            None => Reading::Absent(Absence::NotSupported),
        };
        Ok(Figures { sm: next(), tensor: next(), dram: next() })
    }
}

/// A percentage from a counter. Counters that something else has just reset give nonsense.
fn share(percent: f64, now: Moment) -> Reading<Fraction> {
    if (0.0..=101.0).contains(&percent) {
        Reading::measured(Fraction::from_percent(percent.min(100.0)), now)
    } else {
        Reading::Absent(Absence::Failed("the counter gave no percentage".into()))
    }
}
