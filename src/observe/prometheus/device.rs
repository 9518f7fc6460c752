//! One GPU's metrics as a [`DeviceSample`].

use std::borrow::Cow;
use std::sync::Arc;

use super::table::{COUNT, ExporterMetric};
use crate::catalog::{Catalog, Gpu};
use crate::reading::{Absence, DeviceLocation, DeviceMemory, DeviceSample, Moment, Reading, Xid, Xids, dram_bandwidth};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Joules, MIB, Megahertz, Watts};

/// The metrics of a GPU in one answer, in DCGM's units; none where the answer has none.
#[derive(Debug, Clone)]
pub struct Values([Option<f64>; COUNT]);

impl Default for Values {
    fn default() -> Self {
        Self([None; COUNT])
    }
}

impl Values {
    /// Notes a value. Of two of the same metric the first that is one counts: a GPU that two exporters see is one GPU.
    pub fn put(&mut self, metric: ExporterMetric, value: f64) {
        let place = &mut self.0[metric as usize];
        if place.is_none_or(|before| blank(before).is_some()) {
            *place = Some(value);
        }
    }

    /// Notes a value that several series may make together: each reason of a low clock is one.
    pub fn join(&mut self, metric: ExporterMetric, value: f64) {
        let before = self.0[metric as usize];
        match (metric, before) {
            (ExporterMetric::ClockReasons, Some(before)) => {
                self.0[metric as usize] = Some((count(&before) | count(&value)) as f64);
            }
            (ExporterMetric::Xid, Some(before)) => self.0[metric as usize] = Some(before.max(value)),
            _ => self.put(metric, value),
        }
    }

    /// Takes the values of others where it has none.
    pub fn fill(&mut self, others: &Self) {
        for (place, other) in self.0.iter_mut().zip(others.0) {
            if place.is_none_or(|before| blank(before).is_some()) {
                *place = other.or(*place);
            }
        }
    }

    fn number(&self, metric: ExporterMetric, now: Moment) -> Reading<f64> {
        match self.0[metric as usize] {
            Some(value) => blank(value).map_or_else(|| Reading::measured(value, now), Reading::Absent),
            None => Reading::Absent(Absence::NotExported),
        }
    }
}

/// What DCGM puts in place of a value (`dcgm_structs.h`): DCGM_INT32_BLANK, DCGM_INT64_BLANK and DCGM_FP64_BLANK, and
/// one, two, three more for "not found", "not supported" and "no permission". Nothing that is read is negative.
fn blank(value: f64) -> Option<Absence> {
    const INT32: f64 = 2_147_483_632.0;
    const FP64: f64 = 140_737_488_355_328.0;
    /// Those of 64 bits are one number as the exporter's decimals are read.
    const INT64: f64 = 9.223_372_036_854_775e18;
    if !value.is_finite() || !(0.0..INT64).contains(&value) {
        return Some(Absence::NotSupported);
    }
    let number =
        [INT32, FP64].into_iter().find(|blank| (*blank..blank + 4.0).contains(&value)).map(|blank| value - blank);
    number.map(|number| if number >= 3.0 { Absence::NoPermission } else { Absence::NotSupported })
}

/// What stays of a GPU from one answer to the next.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The product's name.
    pub name: Reading<String>,
    /// A name that stays with the GPU.
    pub uuid: Reading<String>,
    /// Where it is.
    pub location: Arc<DeviceLocation>,
    /// When it was first missing.
    pub gone_since: Option<Moment>,
    /// The time in which power held the clocks down.
    pub power_violation: Accumulated,
    /// The time in which heat did.
    pub thermal_violation: Accumulated,
    /// The last critical error, and how many were seen.
    pub xids: Xids,
}

impl Identity {
    /// A GPU of which nothing but its place is known.
    pub fn at(location: DeviceLocation) -> Self {
        Self {
            name: Reading::Absent(Absence::NotExported),
            uuid: Reading::Absent(Absence::NotExported),
            location: Arc::new(location),
            gone_since: None,
            power_violation: Accumulated::default(),
            thermal_violation: Accumulated::default(),
            xids: Xids::default(),
        }
    }
}

/// A time that adds up: what share of the time it grew by. An exporter is asked more often than it counts, so that it
/// stands still for a while and then grows at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accumulated {
    /// The value, and when it came.
    last: Option<(f64, Moment)>,
    share: Option<f64>,
}

/// Nanoseconds in a millisecond.
const NANOS: f64 = 1e6;
/// A counter that stands still for so long, in milliseconds, does not grow: exporters count every 30 s at most.
const STILL: u64 = 60_000;

impl Accumulated {
    /// Takes in the counter, in nanoseconds, and tells the share of the time.
    fn share(&mut self, counted: &Reading<f64>, now: Moment) -> Reading<Fraction> {
        let Some(value) = counted.value().copied() else { return counted.map(|_| Fraction(0.0)) };
        match self.last {
            Some((before, since)) if value > before && now > since => {
                self.share = Some(((value - before) / (now.0 - since.0) as f64 / NANOS).min(1.0));
                self.last = Some((value, now));
            }
            Some((before, since)) if value >= before => {
                if now.0.saturating_sub(since.0) >= STILL {
                    self.share = Some(0.0);
                }
            }
            // At the start, and where the driver was loaded anew.
            _ => *self = Self { last: Some((value, now)), share: None },
        }
        match self.share {
            Some(share) => Reading::measured(Fraction(share), now),
            None => Reading::Absent(Absence::TooShort),
        }
    }
}

/// A GPU with its metrics.
pub fn device(index: u32, identity: &mut Identity, values: &Values, catalog: &Catalog, now: Moment) -> DeviceSample {
    let number = |metric| values.number(metric, now);
    let percent = |metric| number(metric).map(|value| Fraction::from_percent(*value));
    let share = |metric| number(metric).map(|value| Fraction(*value));
    let celsius = |metric| number(metric).map(|value| Celsius(*value));
    let megahertz = |metric| number(metric).map(|value| Megahertz(*value));
    let told = memory(number, None, now).value().map(|memory| memory.total);
    let card = identity.name.value().and_then(|name| catalog.seen(name, told));
    let dram_peak = card.map_or(Reading::Absent(Absence::NotSupported), |card| Reading::estimated(card.bandwidth, now));
    let memory_busy = percent(ExporterMetric::MemoryBusy);
    let mut sample = DeviceSample {
        memory: memory(number, card, now),
        memory_reserved: number(ExporterMetric::MemoryReserved).map(mib),
        // Of a part of a GPU there is no utilization but that of its engine.
        busy: or(percent(ExporterMetric::Busy), || share(ExporterMetric::EngineActive)),
        dram_bandwidth: dram_bandwidth(&share(ExporterMetric::DramActive), &memory_busy, &dram_peak),
        memory_busy,
        sm_activity: share(ExporterMetric::SmActive),
        tensor_activity: share(ExporterMetric::TensorActive),
        dram_peak,
        power: number(ExporterMetric::Power).map(|value| Watts(*value)),
        power_limit: power_limit(number, card, now),
        temperature: celsius(ExporterMetric::Temperature),
        sm_clock: megahertz(ExporterMetric::SmClock),
        sm_clock_max: limit(megahertz(ExporterMetric::MaxSmClock), card.and_then(|card| card.max_sm_clock), now),
        memory_clock: megahertz(ExporterMetric::MemoryClock),
        throttle: number(ExporterMetric::ClockReasons).map(reasons),
        ..absent(index, identity, &Absence::NotExported)
    };
    sample.board.memory_temperature = celsius(ExporterMetric::MemoryTemperature);
    sample.board.memory_clock_max = megahertz(ExporterMetric::MaxMemoryClock);
    sample.board.fan = percent(ExporterMetric::Fan);
    sample.counters.occupancy = share(ExporterMetric::Occupancy);
    sample.counters.tensor_half = share(ExporterMetric::TensorHalf);
    sample.counters.tensor_integer = share(ExporterMetric::TensorInteger);
    sample.counters.tensor_double = share(ExporterMetric::TensorDouble);
    sample.counters.fp64 = share(ExporterMetric::Fp64Active);
    sample.counters.fp32 = share(ExporterMetric::Fp32Active);
    sample.counters.fp16 = share(ExporterMetric::Fp16Active);
    put_board(&mut sample, identity, number, now);
    put_links(&mut sample, number);
    put_health(&mut sample, identity, number, now);
    sample
}

fn put_board(
    sample: &mut DeviceSample,
    identity: &mut Identity,
    number: impl Fn(ExporterMetric) -> Reading<f64>,
    now: Moment,
) {
    let board = &mut sample.board;
    if let Some(pci) = &identity.location.pci {
        board.pci = Reading::measured(pci.clone(), now);
    }
    // Told in thousandths of a joule.
    board.energy = number(ExporterMetric::Energy).map(|energy| Joules(*energy / 1000.0));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let state = |value: &f64| *value as u8;
    board.performance_state = number(ExporterMetric::PerformanceState).map(state);
    board.slowed_by_power = identity.power_violation.share(&number(ExporterMetric::PowerViolation), now);
    board.slowed_by_heat = identity.thermal_violation.share(&number(ExporterMetric::ThermalViolation), now);
}

fn put_links(sample: &mut DeviceSample, number: impl Fn(ExporterMetric) -> Reading<f64>) {
    let links = &mut sample.links;
    let rate = |bytes, kilobytes| {
        let bytes = number(bytes).map(|value| BytesPerSec(*value));
        // What NVML counts over 20 ms, in KB a second (`nvmlDeviceGetPcieThroughput`).
        or(bytes, || number(kilobytes).map(|value| BytesPerSec(*value * 1000.0)))
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let small = |metric| number(metric).map(|value| *value as u32);
    links.pcie_sent = rate(ExporterMetric::PcieSent, ExporterMetric::PcieSentKilobytes);
    links.pcie_received = rate(ExporterMetric::PcieReceived, ExporterMetric::PcieReceivedKilobytes);
    links.pcie_replays = number(ExporterMetric::PcieReplays).map(count);
    links.pcie_generation = small(ExporterMetric::PcieGeneration);
    links.pcie_generation_max = small(ExporterMetric::PcieMaxGeneration);
    links.pcie_width = small(ExporterMetric::PcieWidth);
    links.pcie_width_max = small(ExporterMetric::PcieMaxWidth);
    links.nvlink_sent = number(ExporterMetric::NvlinkSent).map(|value| BytesPerSec(*value));
    links.nvlink_received = number(ExporterMetric::NvlinkReceived).map(|value| BytesPerSec(*value));
    let errors = [
        ExporterMetric::NvlinkFlitErrors,
        ExporterMetric::NvlinkDataErrors,
        ExporterMetric::NvlinkReplays,
        ExporterMetric::NvlinkRecoveries,
    ]
    .map(&number);
    links.nvlink_errors = sum(&errors);
}

fn put_health(
    sample: &mut DeviceSample,
    identity: &mut Identity,
    number: impl Fn(ExporterMetric) -> Reading<f64>,
    now: Moment,
) {
    let health = &mut sample.health;
    health.corrected = number(ExporterMetric::Corrected).map(count);
    health.uncorrected = number(ExporterMetric::Uncorrected).map(count);
    health.sram_uncorrected = number(ExporterMetric::SramUncorrected).map(count);
    health.sram_exceeded = number(ExporterMetric::SramExceeded).map(|value| *value > 0.0);
    health.retired_pages = sum(&[ExporterMetric::RetiredSingle, ExporterMetric::RetiredDouble].map(&number));
    health.remapped_rows =
        sum(&[ExporterMetric::RemappedUncorrectable, ExporterMetric::RemappedCorrectable].map(&number));
    health.repair_pending = number(ExporterMetric::RetiredPending).map(|value| *value > 0.0);
    health.repair_failed = number(ExporterMetric::RemapFailure).map(|value| *value > 0.0);
    let code = number(ExporterMetric::Xid).map(count);
    if let Some(code) = code.value().copied().filter(|code| *code > 0)
        && identity.xids.last.is_none_or(|last| last.code != Some(code))
    {
        identity.xids = Xids { count: identity.xids.count + 1, last: Some(Xid { code: Some(code), at: now }) };
    }
    health.xids = code.map(|_| identity.xids);
}

/// The sum of those that are there; the first absence where none is.
fn sum(parts: &[Reading<f64>]) -> Reading<u64> {
    let known = || parts.iter().filter(|part| part.value().is_some());
    match known().next().or(parts.first()) {
        Some(first) => first.map(|_| known().filter_map(Reading::value).map(count).sum()),
        None => Reading::not_read(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
const fn count(value: &f64) -> u64 {
    *value as u64
}

fn or<T>(first: Reading<T>, other: impl FnOnce() -> Reading<T>) -> Reading<T> {
    if first.value().is_some() {
        return first;
    }
    let other = other();
    if other.value().is_some() { other } else { first }
}

/// A limit that is exported, else the catalogue's.
fn limit<T>(exported: Reading<T>, catalogue: Option<T>, now: Moment) -> Reading<T> {
    or(exported, || catalogue.map_or(Reading::Absent(Absence::NotExported), |value| Reading::estimated(value, now)))
}

fn power_limit(number: impl Fn(ExporterMetric) -> Reading<f64>, card: Option<&Gpu>, now: Moment) -> Reading<Watts> {
    let exported = or(number(ExporterMetric::PowerLimit), || number(ExporterMetric::PowerManagementLimit));
    limit(exported.map(|value| Watts(*value)), card.and_then(|card| card.tdp), now)
}

/// The unit in which exporters tell memory.
fn mib(value: &f64) -> Bytes {
    Bytes::from_f64(*value * MIB as f64)
}

/// The framebuffer, which exporters tell in MiB. Where the whole is left out, used, free and reserved are that; where
/// that is not to be had either, the catalogue says it.
fn memory(number: impl Fn(ExporterMetric) -> Reading<f64>, card: Option<&Gpu>, now: Moment) -> Reading<DeviceMemory> {
    let mib = |metric| number(metric).map(mib);
    let used = mib(ExporterMetric::MemoryUsed);
    let Some(used_bytes) = used.value().copied() else { return used.map(|_| DeviceMemory::default()) };
    let reserved = mib(ExporterMetric::MemoryReserved).value().copied().unwrap_or_default();
    let total = mib(ExporterMetric::MemoryTotal).value().copied();
    let free = mib(ExporterMetric::MemoryFree);
    match (total, free.value().copied()) {
        (total, Some(free)) => {
            used.map(|used| DeviceMemory { total: total.unwrap_or(*used + free + reserved), used: *used, free })
        }
        (Some(total), None) => {
            used.map(|used| DeviceMemory { total, used: *used, free: total.saturating_sub(*used + reserved) })
        }
        (None, None) => match card {
            Some(card) => {
                let free = card.memory.saturating_sub(used_bytes + reserved);
                Reading::estimated(DeviceMemory { total: card.memory, used: used_bytes, free }, now)
            }
            None => free.map(|_| DeviceMemory::default()),
        },
    }
}

/// Why clocks are low, by NVML's bits (`nvml.h`, nvmlClocksEventReason…), in the words of the driver's source.
const REASONS: [(u64, &str); 5] =
    [(0x4, "power cap"), (0x20, "hot"), (0x40, "too hot"), (0x80, "power brake"), (0x8, "hw slowdown")];

/// The bit of a word; 0 for one of others.
pub fn reason_bit(word: &str) -> u64 {
    REASONS.iter().find(|(_, known)| *known == word).map_or(0, |(bit, _)| *bit)
}

fn reasons(mask: &f64) -> Vec<Cow<'static, str>> {
    let mask = count(mask);
    REASONS.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, word)| Cow::Borrowed(*word)).collect()
}

/// A GPU that says nothing, and why.
pub fn absent(index: u32, identity: &Identity, why: &Absence) -> DeviceSample {
    let Identity { name, uuid, location, .. } = identity;
    let location = Some(Arc::clone(location));
    DeviceSample { name: name.clone(), uuid: uuid.clone(), location, ..DeviceSample::absent(index, why) }
}
