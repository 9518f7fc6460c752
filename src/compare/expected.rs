//! What one GPU of a run should show if a plan, and nothing else, decides.

use super::bands::{Band, Bands};
use super::evidence::{Deviations, Evidence, Misfit, NOISE};
use crate::predict::{Prediction, StageMemory};
use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Fraction, Seconds, TokensPerSec};

/// What one GPU of a run should show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expectation {
    /// What the driver charges.
    pub device_used: Bytes,
    /// What the caching allocator holds.
    pub reserved: Bytes,
    /// What is in tensors.
    pub allocated: Bytes,
    /// One optimizer step.
    pub step: Seconds,
    /// Of which in operators that the clock speeds up.
    pub compute: Seconds,
    /// Of which in collectives that nothing hides.
    pub communication: Seconds,
    /// DRAM traffic of a step.
    pub traffic: Bytes,
    /// Matrix operations of a step, recomputation included.
    pub flops: Flops,
    /// Tokens of a step over all GPUs; 0 for plans without tokens.
    pub tokens: f64,
    /// Share of time with a kernel running.
    pub busy: Fraction,
    /// The SM clock over the highest that the GPU holds under such load.
    pub clock: Fraction,
    /// What other processes hold on the same device.
    pub others: Bytes,
    /// Share of time in which the process waits for a core of the CPU that it trains on.
    pub cpu_wait: Fraction,
    /// GPUs of the run.
    pub gpus: u64,
}

impl Expectation {
    /// What `prediction` says of the GPU that holds the stage of this number; without one, of the one that needs most.
    #[must_use]
    pub(super) fn of_stage(prediction: &Prediction, number: Option<u64>) -> Self {
        let stage = number.and_then(|number| prediction.stages.get(usize::try_from(number).ok()?));
        Self::of(prediction, stage.unwrap_or_else(|| prediction.largest()))
    }

    /// What `prediction` says of the GPU that holds `stage`.
    #[must_use]
    pub fn of(prediction: &Prediction, stage: &StageMemory) -> Self {
        let time = &prediction.time;
        Self {
            device_used: stage.device_used,
            reserved: stage.peak_reserved,
            allocated: stage.peak_allocated,
            step: time.step,
            compute: time.compute,
            communication: time.communication,
            traffic: prediction.traffic.total(),
            flops: prediction.flops.forward + prediction.flops.backward,
            tokens: time.tokens_per_s.map_or(0.0, |rate| rate * time.step.0),
            busy: Fraction(1.0),
            clock: Fraction(1.0),
            others: Bytes::ZERO,
            cpu_wait: Fraction(0.0),
            gpus: prediction.num_gpus,
        }
    }

    /// Mean DRAM traffic.
    #[must_use]
    pub fn bandwidth(&self) -> BytesPerSec {
        BytesPerSec(self.traffic.as_f64() / self.step.0)
    }

    /// Mean rate of the matrix units.
    #[must_use]
    pub fn rate(&self) -> FlopsPerSec {
        FlopsPerSec(self.flops.0 / self.step.0)
    }

    /// Tokens a second of the whole run.
    #[must_use]
    pub fn tokens_per_s(&self) -> TokensPerSec {
        TokensPerSec(self.tokens / self.step.0)
    }

    /// How badly the evidence meets this.
    ///
    /// Rates are held against the step that was observed, where one was: what a step moves
    /// and computes is predicted far better than how long it takes, and a slow step must
    /// not count three times.
    #[must_use]
    pub fn misfit(&self, evidence: &Evidence, bands: &Bands) -> Misfit {
        let mut sum = Deviations::default();
        self.memory(evidence, bands, &mut sum);
        self.time(evidence, bands, &mut sum);
        if let Some(busy) = evidence.busy.value() {
            sum.add((busy.0 - self.busy.0) / BUSY);
        }
        if let (Some(others), Some(all)) = (evidence.others.value(), evidence.device_used.value()) {
            // They are seen by themselves: no prediction stands between.
            let unexplained = others.saturating_sub(self.others);
            sum.add(unexplained.share_of(*all).map_or(0.0, |share| share.0) / OTHERS);
        }
        if let Some(clock) = evidence.clock.value() {
            sum.add((clock.0 - self.clock.0) / CLOCK);
        }
        if let Some(wait) = evidence.cpu_wait.value() {
            // Seen by itself, as others' memory is.
            sum.add((wait.0 - self.cpu_wait.0).max(0.0) / CPU_WAIT);
        }
        sum.misfit()
    }

    fn memory(&self, evidence: &Evidence, bands: &Bands, sum: &mut Deviations) {
        let figures = [
            (&evidence.allocated, self.allocated, bands.allocated),
            (&evidence.reserved, self.reserved, bands.reserved),
            (&evidence.device_used, self.device_used, bands.device_used),
        ];
        // The three stray together: what the outer ones add is their difference to the inner one.
        let mut inner = 1.0;
        for (observed, expected, band) in figures {
            let Some(seen) = observed.value().map(|bytes| bytes.as_f64()) else { continue };
            if !evidence.settled && seen < expected.as_f64() {
                continue;
            }
            let off = seen / expected.as_f64();
            sum.add(band.and(STEADY).off(off, inner));
            inner = off;
        }
    }

    fn time(&self, evidence: &Evidence, bands: &Bands, sum: &mut Deviations) {
        let step = evidence.step.value().copied().filter(|step| step.0 > 0.0);
        let tokens = evidence.tokens.value().copied().filter(|rate| rate.0 > 0.0 && self.tokens > 0.0);
        let step = match (step, tokens) {
            (Some(step), Some(rate)) => {
                // How many tokens a step takes is no prediction: the run says it, in two figures.
                sum.add((step.0 * rate.0 / self.tokens).ln() / (NOISE * std::f64::consts::SQRT_2));
                Some(step)
            }
            (None, Some(rate)) => Some(Seconds(self.tokens / rate.0)),
            (step, None) => step,
        };
        match step {
            Some(step) => {
                sum.add(bands.time.and(STEADY).off(step.0, self.step.0));
                let of_step = |rate: f64| rate * step.0;
                let (traffic, flops) = (bands.traffic.and(STEADY), bands.flops.and(STEADY));
                sum.share(&evidence.bandwidth, |rate| of_step(rate.0), self.traffic.as_f64(), traffic);
                sum.share(&evidence.compute, |rate| of_step(rate.0), self.flops.0, flops);
            }
            None => {
                let pace = bands.time.of_rate().and(STEADY);
                sum.share(&evidence.bandwidth, |rate| rate.0, self.bandwidth().0, pace.and(bands.traffic));
                sum.share(&evidence.compute, |rate| rate.0, self.rate().0, pace.and(bands.flops));
            }
        }
    }
}

/// What one reading after another differs by.
const STEADY: Band = Band::even(NOISE);

/// Kernels run back to back in a healthy step; what is idle between them is a few percent.
const BUSY: f64 = 0.04;

/// A share of what is in use that a desktop or a monitor may hold beside a run.
const OTHERS: f64 = 0.03;

/// Power capping moves clocks by some percent on healthy GPUs.
const CLOCK: f64 = 0.05;

/// A quiet machine has a process wait for a core in some percent of the time.
const CPU_WAIT: f64 = 0.05;
