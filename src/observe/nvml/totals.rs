//! Counters that only grow, as what they grew by since the sample before.

use std::time::Instant;

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;

use super::absence::MetricReader;
use super::health::field_values;
use crate::reading::{Absence, NvLinks, Reading};
use crate::units::{BytesPerSec, Fraction};

/// `NVML_FI_DEV_PERF_POLICY_POWER`, `_THERMAL`: nanoseconds in which the clocks were held down.
/// `NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX`, `_TX`: KiB over one link, the first where none is named.
const FIELDS: [FieldId; 4] = [FieldId(74), FieldId(75), FieldId(139), FieldId(138)];

/// What the counters stood at, and when.
#[derive(Debug, Default)]
pub struct Totals {
    before: Option<(Instant, [Reading<u64>; 4])>,
}

/// What they grew by.
#[derive(Debug)]
pub struct TotalsGrowth {
    /// Share of the time in which the power limit held the clocks down.
    pub slowed_by_power: Reading<Fraction>,
    /// Share of the time in which heat did.
    pub slowed_by_heat: Reading<Fraction>,
    /// Bytes that came over the first NVLink.
    received: Reading<BytesPerSec>,
    /// Bytes that went over it.
    sent: Reading<BytesPerSec>,
}

impl Totals {
    /// Reads the counters; nothing yet the first time.
    pub fn read(&mut self, device: &Device<'static>, reader: &mut MetricReader) -> TotalsGrowth {
        let read = field_values(device, reader, FIELDS);
        let now = Instant::now();
        let before = self.before.replace((now, read.clone()));
        let seconds = before.as_ref().map_or(0.0, |(at, _)| now.duration_since(*at).as_secs_f64());
        let grown = |field: usize| match before.as_ref().and_then(|(_, before)| before[field].value()) {
            _ if read[field].absence().is_some() => read[field].map(|_| 0.0),
            // One that stands lower was set back in between.
            Some(before) if seconds > 0.0 && *before <= *read[field].value().unwrap_or(&0) => {
                read[field].map(|now| (now - before) as f64 / seconds)
            }
            _ => Reading::Absent(Absence::TooShort),
        };
        // The driver brings them up to date now and then: a little more than all of it is all of it.
        let share = |field| grown(field).map(|nanoseconds| Fraction((nanoseconds / 1e9).min(1.0)));
        let rate = |field| grown(field).map(|kibibytes| BytesPerSec(kibibytes * 1024.0));
        TotalsGrowth { slowed_by_power: share(0), slowed_by_heat: share(1), received: rate(2), sent: rate(3) }
    }
}

impl TotalsGrowth {
    /// Received and sent over all NVLinks: traffic is spread evenly over those that are up, so
    /// it is as many times what the first carries. Estimated.
    pub fn nvlink(&self, links: &Reading<NvLinks>) -> [Reading<BytesPerSec>; 2] {
        [&self.received, &self.sent].map(|one| match (one, links) {
            (Reading::Known { value, at, .. }, Reading::Known { value: links, .. }) => {
                Reading::estimated(*value * f64::from(links.active), *at)
            }
            (Reading::Absent(why), _) | (_, Reading::Absent(why)) => Reading::Absent(why.clone()),
        })
    }
}
