//! One GPU: what it says at a moment, in which order it is asked.

use std::borrow::Cow;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml as Library};

use super::absence::{MetricReader, absence};
use super::cached_answer::CachedAnswer;
use super::close::CloseLook;
use super::counters::{CounterValues, Sampler};
use super::facts::DeviceFacts;
use super::health::health;
use super::memory::{self, KnownCard};
use super::parts::Parts;
use super::processes::Processes;
use crate::reading::{Absence, DeviceSample, Health, Links, Moment, Reading, RequiredMetrics, dram_bandwidth};
use crate::units::{Celsius, Fraction, Megahertz, Watts};

/// One GPU in its place of the driver's order.
#[derive(Debug)]
pub struct NvmlDevice {
    index: u32,
    device: Option<Device<'static>>,
    facts: DeviceFacts,
    /// The facts are those of the GPU that was here before.
    stale: bool,
    remembered: DeviceCache,
}

/// What is remembered of a GPU between samples, until it is lost.
#[derive(Debug, Default)]
struct DeviceCache {
    counters: Sampler,
    processes: Processes,
    size: KnownCard,
    parts: Parts,
    health: CachedAnswer<Health>,
    close: CloseLook,
}

impl NvmlDevice {
    /// The GPU at `index`, not asked anything so far.
    pub fn new(index: u32) -> Self {
        Self { index, device: None, facts: DeviceFacts::default(), stale: false, remembered: DeviceCache::default() }
    }

    /// Its number and handle, while it is there.
    pub fn there(&self) -> Option<(u32, &Device<'static>)> {
        Some((self.index, self.device.as_ref()?))
    }

    /// Everything that it says now, and after it what its parts say, if it is split.
    pub fn sample(&mut self, library: &'static Library, now: Moment, wanted: &RequiredMetrics) -> Vec<DeviceSample> {
        if self.device.is_none() {
            match library.device_by_index(self.index) {
                Ok(device) => self.device = Some(device),
                Err(error) => return vec![self.absent(&absence(&error))],
            }
        }
        let Some(device) = &self.device else { return vec![self.absent(&Absence::Gone)] };
        let mut reader = MetricReader::new(now);
        let remembered = &mut self.remembered;
        let mut sample = DeviceSample { index: self.index, ..DeviceSample::default() };
        // Memory first: it is what nobody can do without.
        memory::put(&mut sample, device, &mut reader);
        if reader.in_use() {
            remembered.counters.give_up();
        }
        if self.stale {
            let mut fresh = DeviceFacts::default();
            fresh.ask(device, &mut reader);
            if !reader.lost() {
                self.facts = fresh;
                self.stale = false;
            }
        } else {
            self.facts.ask(device, &mut reader);
        }
        put_facts(&mut sample, &self.facts);
        put_utilization(&mut sample, device, &mut reader);
        put_power(&mut sample, device, &mut reader);
        let parts = remembered.parts.sample(self.index, device, &mut reader, now);
        let split = parts.is_some();
        sample.processes = match split {
            // What runs on a part is listed there; on both, it would count twice.
            true => Reading::measured(Vec::new(), now),
            false => remembered.processes.list(device, &mut reader, now, wanted.processes),
        };
        remembered.size.estimate(&mut sample, now);
        remembered.size.put_peak(&mut sample, now);
        if wanted.health {
            sample.health = remembered.health.get(now, || health(device, &mut reader)).clone();
        }
        // Late, because on some drivers these have made other calls fail.
        let figures = if reader.lost() {
            CounterValues::absent(&Absence::Gone)
        } else {
            remembered.counters.read(library, device, now, wanted.counters, split)
        };
        put_counters(&mut sample, figures);
        if wanted.health {
            remembered.close.put_pcie(device, &mut reader, now, &mut sample.links);
        }
        if wanted.closely.means(self.index) {
            remembered.close.put(library, device, &self.facts, &mut reader, now, &mut sample);
        }
        if reader.lost() {
            self.lose();
        }
        std::iter::once(sample).chain(parts.into_iter().flatten()).collect()
    }

    /// Forgets a GPU that is off the bus, except what it was.
    fn lose(&mut self) {
        self.device = None;
        // Another GPU may come into its place.
        self.stale = true;
        self.remembered = DeviceCache::default();
    }

    /// A sample of a GPU that says nothing, and why. Its name stays: the row is still its.
    fn absent(&self, why: &Absence) -> DeviceSample {
        let mut sample = DeviceSample::absent(self.index, why);
        if self.facts.name != Reading::not_read() {
            put_facts(&mut sample, &self.facts);
        }
        sample
    }
}

fn put_facts(sample: &mut DeviceSample, facts: &DeviceFacts) {
    sample.name = facts.name.clone();
    sample.uuid = facts.uuid.clone();
    sample.board.pci = facts.pci.clone();
    sample.board.serial = facts.serial.clone();
    sample.sm_clock_max = facts.sm_clock_max.map(|megahertz| Megahertz(f64::from(*megahertz)));
    sample.dram_peak = facts.dram_peak();
}

fn put_utilization(sample: &mut DeviceSample, device: &Device<'static>, reader: &mut MetricReader) {
    let utilization = reader.read(|| device.utilization_rates());
    let share = |percent: u32| Fraction::from_percent(f64::from(percent));
    sample.busy = utilization.map(|utilization| share(utilization.gpu));
    sample.memory_busy = utilization.map(|utilization| share(utilization.memory));
}

fn put_power(sample: &mut DeviceSample, device: &Device<'static>, reader: &mut MetricReader) {
    let watts = |milliwatts: &u32| Watts(f64::from(*milliwatts) / 1000.0);
    let megahertz = |clock: &u32| Megahertz(f64::from(*clock));
    sample.power = reader.read(|| device.power_usage()).map(watts);
    // Administrators change it while a run goes on, so it is no fixed fact.
    sample.power_limit = reader.read(|| device.enforced_power_limit()).map(watts);
    sample.temperature =
        reader.read(|| device.temperature(TemperatureSensor::Gpu)).map(|degrees| Celsius(f64::from(*degrees)));
    sample.sm_clock = reader.read(|| device.clock_info(Clock::SM)).map(megahertz);
    sample.memory_clock = reader.read(|| device.clock_info(Clock::Memory)).map(megahertz);
    sample.throttle = reader.read(|| device.current_throttle_reasons()).map(|reasons| words(*reasons));
}

/// What the counters say; where they say nothing of the bandwidth, the bound that the
/// memory-busy share gives.
fn put_counters(sample: &mut DeviceSample, figures: CounterValues) {
    sample.dram_bandwidth = dram_bandwidth(&figures.dram, &sample.memory_busy, &sample.dram_peak);
    sample.sm_activity = figures.sm;
    sample.tensor_activity = figures.tensor;
    sample.counters = figures.more;
    sample.links = Links {
        pcie_received: figures.pcie_received,
        pcie_sent: figures.pcie_sent,
        nvlink_received: figures.nvlink_received,
        nvlink_sent: figures.nvlink_sent,
        ..Links::default()
    };
}

/// Why the clocks are down, shortest words first to mind. Being idle is no complaint.
fn words(reasons: ThrottleReasons) -> Vec<Cow<'static, str>> {
    const WORDS: [(ThrottleReasons, &str); 8] = [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "hot"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "too hot"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
        (ThrottleReasons::HW_SLOWDOWN, "hw slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost"),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "clocks set"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display clock"),
    ];
    let mut reasons = reasons;
    // The general bit comes along with those that name the cause.
    if reasons.intersects(ThrottleReasons::HW_THERMAL_SLOWDOWN | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN) {
        reasons.remove(ThrottleReasons::HW_SLOWDOWN);
    }
    WORDS.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, word)| Cow::Borrowed(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_words() {
        assert_eq!(words(ThrottleReasons::GPU_IDLE), Vec::<Cow<'static, str>>::new());
        assert_eq!(words(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::SW_THERMAL_SLOWDOWN), ["power cap", "hot"]);
        assert_eq!(words(ThrottleReasons::HW_SLOWDOWN), ["hw slowdown"]);
        assert_eq!(words(ThrottleReasons::HW_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN), ["too hot"]);
    }
}
