//! A GPU looked at closely: board sensors, PCIe, NVLink.

use nvml_wrapper::Device;
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::{PcieUtilCounter, PerformanceState};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;

use super::absence::MetricReader;
use super::cached_answer::CachedAnswer;
use super::facts::{CloseFacts, DeviceFacts};
use super::health::field_values;
use super::totals::Totals;
use crate::reading::{Absence, Board, DeviceSample, Health, Links, Moment, NvLinks, Reading};
use crate::units::{BytesPerSec, Celsius, Fraction, Joules, Megahertz};

/// `NVML_FI_DEV_MEMORY_TEMP`.
const MEMORY_TEMPERATURE: FieldId = FieldId(82);

/// More links than any GPU has (18 on Hopper and Blackwell).
const MOST_LINKS: u32 = 36;

/// What is remembered of a GPU that is looked at closely.
#[derive(Debug, Default)]
pub struct CloseLook {
    facts: CloseFacts,
    pcie: CachedAnswer<[Reading<u32>; 2]>,
    nvlinks: CachedAnswer<Reading<NvLinks>>,
    totals: Totals,
}

impl CloseLook {
    /// Fills in what of the way to the host somebody is alerted of, who does not look closely.
    pub fn put_pcie(&mut self, device: &Device<'static>, reader: &mut MetricReader, now: Moment, links: &mut Links) {
        self.facts.ask_pcie(device, reader);
        let [generation, width] = self.pcie.get(now, || pcie(device, reader)).clone();
        links.pcie_generation = generation;
        links.pcie_generation_max = self.facts.pcie_generation_max.clone();
        links.pcie_width = width;
        links.pcie_width_max = self.facts.pcie_width_max.clone();
    }

    /// Fills board and links in. `sample.links` holds already what the counters say; traffic
    /// that these have nothing of is asked for.
    pub fn put(
        &mut self,
        library: &'static Library,
        device: &Device<'static>,
        facts: &DeviceFacts,
        reader: &mut MetricReader,
        now: Moment,
        sample: &mut DeviceSample,
    ) {
        self.facts.ask(library, sample.index, device, reader);
        let known = &self.facts;
        let growth = self.totals.read(device, reader);
        sample.board = Board {
            pci: facts.pci.clone(),
            serial: facts.serial.clone(),
            architecture: known.architecture.clone(),
            capability: known.capability.clone(),
            vbios: known.vbios.clone(),
            numa_node: known.numa_node.clone(),
            performance_state: reader.read(|| performance_state(device)),
            fan: reader.read(|| device.fan_speed(0)).map(|percent| Fraction::from_percent(f64::from(*percent))),
            energy: reader
                .read(|| device.total_energy_consumption())
                .map(|millijoules| Joules(*millijoules as f64 / 1000.0)),
            memory_temperature: memory_temperature(device, reader),
            slowed_by_power: growth.slowed_by_power.clone(),
            slowed_by_heat: growth.slowed_by_heat.clone(),
            memory_clock_max: facts.memory_clock_max.map(|megahertz| Megahertz(f64::from(*megahertz))),
        };
        let counted = std::mem::take(&mut sample.links);
        let architecture = known.architecture.value().map_or("", String::as_str);
        let nvlinks = self.nvlinks.get(now, || reader.read(|| nvlinks(device, architecture))).clone();
        let [pcie_generation, pcie_width] = pcie(device, reader);
        let [received, sent] = growth.nvlink(&nvlinks);
        sample.links = Links {
            pcie_generation,
            pcie_generation_max: known.pcie_generation_max.clone(),
            pcie_width,
            pcie_width_max: known.pcie_width_max.clone(),
            // Each of these takes 20 ms, so only where the counters do not tell.
            pcie_received: counted_or(counted.pcie_received, || throughput(device, PcieUtilCounter::Receive, reader)),
            pcie_sent: counted_or(counted.pcie_sent, || throughput(device, PcieUtilCounter::Send, reader)),
            pcie_replays: reader.read(|| device.pcie_replay_counter()).map(|count| u64::from(*count)),
            nvlinks,
            nvlink_received: counted_or(counted.nvlink_received, || received),
            nvlink_sent: counted_or(counted.nvlink_sent, || sent),
            nvlink_errors: link_errors(&sample.health),
            peers: known.peers.clone(),
        };
    }
}

/// What the counters say, where they say it or are about to.
fn counted_or(counted: Reading<BytesPerSec>, otherwise: impl FnOnce() -> Reading<BytesPerSec>) -> Reading<BytesPerSec> {
    match counted {
        Reading::Known { .. } | Reading::Absent(Absence::TooShort) => counted,
        Reading::Absent(_) => otherwise(),
    }
}

fn throughput(device: &Device<'static>, way: PcieUtilCounter, reader: &mut MetricReader) -> Reading<BytesPerSec> {
    reader.read(|| device.pcie_throughput(way)).map(|kilobytes| BytesPerSec(f64::from(*kilobytes) * 1000.0))
}

fn memory_temperature(device: &Device<'static>, reader: &mut MetricReader) -> Reading<Celsius> {
    let [degrees] = field_values(device, reader, [MEMORY_TEMPERATURE]);
    match degrees {
        // What sensorless GPUs answer.
        Reading::Known { value: 0, .. } => Reading::Absent(Absence::NotSupported),
        degrees => degrees.map(|degrees| Celsius(*degrees as f64)),
    }
}

fn performance_state(device: &Device<'static>) -> Result<u8, NvmlError> {
    use PerformanceState as P;
    let order = [
        P::Zero,
        P::One,
        P::Two,
        P::Three,
        P::Four,
        P::Five,
        P::Six,
        P::Seven,
        P::Eight,
        P::Nine,
        P::Ten,
        P::Eleven,
        P::Twelve,
        P::Thirteen,
        P::Fourteen,
        P::Fifteen,
    ];
    let state = device.performance_state()?;
    (0..).zip(order).find_map(|(number, known)| (known == state).then_some(number)).ok_or(NvmlError::NotSupported)
}

/// Generation and lanes now.
fn pcie(device: &Device<'static>, reader: &mut MetricReader) -> [Reading<u32>; 2] {
    [reader.read(|| device.current_pcie_link_gen()), reader.read(|| device.current_pcie_link_width())]
}

/// All errors over NVLink that are known.
fn link_errors(health: &Health) -> Reading<u64> {
    let kinds = [&health.nvlink_replays, &health.nvlink_recoveries, &health.nvlink_crc_errors];
    let known = kinds.into_iter().filter_map(Reading::value);
    match kinds.into_iter().find(|errors| errors.value().is_some()) {
        Some(first) => first.map(|_| known.fold(0_u64, |sum, count| sum.saturating_add(*count))),
        None => health.nvlink_replays.clone(),
    }
}

/// The generation of NVLink that a driver means: `nvmlNvlinkVersion_t` numbers 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0 and 6.0
/// from 1 on. Hopper's links are of the fourth (NVIDIA H100 Tensor Core GPU Architecture, 2022); some drivers answer 5.0.
fn generation(version: u32, architecture: &str) -> Option<u32> {
    const GENERATIONS: [u32; 8] = [1, 2, 2, 3, 3, 4, 5, 6];
    let generation = GENERATIONS.get(usize::try_from(version.checked_sub(1)?).ok()?)?;
    Some(if architecture == "Hopper" { 4 } else { *generation })
}

/// How many links there are and are up. A GPU without any does not support the question.
fn nvlinks(device: &Device<'static>, architecture: &str) -> Result<NvLinks, NvmlError> {
    let mut links = NvLinks { active: 0, all: 0, version: None };
    for number in 0..MOST_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(active) => {
                links.all += 1;
                if active {
                    links.active += 1;
                    links.version = links.version.or_else(|| generation(link.version().ok()?, architecture));
                }
            }
            // Past the last one.
            Err(NvmlError::NotSupported | NvmlError::InvalidArg) if links.all > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}
