//! One card: its fixed facts, and what it says at a moment.

use std::borrow::Cow;
use std::collections::BTreeMap;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml as Library};

use super::absence::{Reader, absence};
use super::counters::{Counters, Figures};
use crate::reading::{Absence, DeviceMemory, DeviceProcess, DeviceSample, Moment, Reading};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Megahertz, Watts};

/// One card in its place of the driver's order.
#[derive(Debug)]
pub struct Card {
    index: u32,
    device: Option<Device<'static>>,
    facts: Facts,
    /// The facts are those of the card that was here before.
    stale: bool,
    counters: Counters,
}

/// What does not change while a card is in its place.
#[derive(Debug, Default)]
struct Facts {
    name: Reading<String>,
    uuid: Reading<String>,
    sm_clock_max: Reading<u32>,
    memory_clock_max: Reading<u32>,
    bus_width: Reading<u32>,
}

impl Facts {
    /// Asks for what is missing.
    fn ask(&mut self, device: &Device<'static>, reader: &mut Reader) {
        reader.once(&mut self.name, || device.name());
        reader.once(&mut self.uuid, || device.uuid());
        reader.once(&mut self.sm_clock_max, || device.max_clock_info(Clock::SM));
        reader.once(&mut self.memory_clock_max, || device.max_clock_info(Clock::Memory));
        reader.once(&mut self.bus_width, || device.memory_bus_width());
    }

    /// Bus width in bytes, twice a clock: all of DDR, GDDR as NVML counts its clock, and HBM.
    fn dram_peak(&self) -> Reading<BytesPerSec> {
        match (&self.bus_width, &self.memory_clock_max) {
            (Reading::Known { value: bits, .. }, Reading::Known { value: megahertz, at, .. }) => {
                let bytes = f64::from(*bits) / 8.0;
                Reading::estimated(BytesPerSec(bytes * 2.0 * f64::from(*megahertz) * 1e6), *at)
            }
            (Reading::Absent(why), _) | (_, Reading::Absent(why)) => Reading::Absent(why.clone()),
        }
    }
}

impl Card {
    /// The card at `index`, not asked anything so far.
    pub fn new(index: u32) -> Self {
        Self { index, device: None, facts: Facts::default(), stale: false, counters: Counters::default() }
    }

    /// Everything that it says now.
    pub fn sample(&mut self, library: &'static Library, now: Moment, counters_wanted: bool) -> DeviceSample {
        if self.device.is_none()
            && let Err(why) = self.find(library)
        {
            return self.absent(&why);
        }
        let Some(device) = &self.device else { return self.absent(&Absence::Gone) };
        let mut reader = Reader::new(now);
        // Memory first: it is what nobody can do without.
        let mut sample = DeviceSample {
            index: self.index,
            memory: reader.read(|| device.memory_info()).map(|memory| DeviceMemory {
                total: Bytes(memory.total),
                used: Bytes(memory.used),
                free: Bytes(memory.free),
            }),
            ..DeviceSample::default()
        };
        if reader.in_use() {
            self.counters.give_up();
        }
        if self.stale {
            let mut fresh = Facts::default();
            fresh.ask(device, &mut reader);
            if !reader.lost() {
                self.facts = fresh;
                self.stale = false;
            }
        } else {
            self.facts.ask(device, &mut reader);
        }
        put_utilization(&mut sample, device, &mut reader);
        put_power(&mut sample, device, &mut reader);
        sample.processes = reader.read(|| processes(device, now));
        let figures = if reader.lost() {
            lost()
        } else {
            // Last, because on some drivers these have made other calls fail.
            self.counters.read(library, device, now, counters_wanted)
        };
        self.put_facts(&mut sample);
        put_counters(&mut sample, figures);
        if reader.lost() {
            self.lose();
        }
        sample
    }

    /// Looks the card up, for the first time or because it was lost.
    fn find(&mut self, library: &'static Library) -> Result<(), Absence> {
        self.device = Some(library.device_by_index(self.index).map_err(|error| absence(&error))?);
        Ok(())
    }

    /// Forgets a card that is off the bus, except what it was.
    fn lose(&mut self) {
        self.device = None;
        // Another card may come into its place.
        self.stale = true;
        self.counters = Counters::default();
    }

    /// A sample of a card that says nothing, and why. Its name stays: the row is still its.
    fn absent(&self, why: &Absence) -> DeviceSample {
        let mut sample = DeviceSample {
            index: self.index,
            memory: Reading::Absent(why.clone()),
            busy: Reading::Absent(why.clone()),
            memory_busy: Reading::Absent(why.clone()),
            sm_activity: Reading::Absent(why.clone()),
            tensor_activity: Reading::Absent(why.clone()),
            dram_bandwidth: Reading::Absent(why.clone()),
            power: Reading::Absent(why.clone()),
            power_limit: Reading::Absent(why.clone()),
            temperature: Reading::Absent(why.clone()),
            sm_clock: Reading::Absent(why.clone()),
            memory_clock: Reading::Absent(why.clone()),
            throttle: Reading::Absent(why.clone()),
            processes: Reading::Absent(why.clone()),
            ..DeviceSample::default()
        };
        self.put_facts(&mut sample);
        if sample.name == Reading::not_read() {
            // A card that never answered: its facts are absent for the same reason.
            sample.name = Reading::Absent(why.clone());
            sample.uuid = Reading::Absent(why.clone());
            sample.sm_clock_max = Reading::Absent(why.clone());
            sample.dram_peak = Reading::Absent(why.clone());
        }
        sample
    }

    fn put_facts(&self, sample: &mut DeviceSample) {
        sample.name = self.facts.name.clone();
        sample.uuid = self.facts.uuid.clone();
        sample.sm_clock_max = self.facts.sm_clock_max.map(|megahertz| Megahertz(f64::from(*megahertz)));
        sample.dram_peak = self.facts.dram_peak();
    }
}

fn lost() -> Figures {
    let gone = || Reading::Absent(Absence::Gone);
    Figures { sm: gone(), tensor: gone(), dram: gone() }
}

fn put_utilization(sample: &mut DeviceSample, device: &Device<'static>, reader: &mut Reader) {
    let utilization = reader.read(|| device.utilization_rates());
    let share = |percent: u32| Fraction::from_percent(f64::from(percent));
    sample.busy = utilization.map(|utilization| share(utilization.gpu));
    sample.memory_busy = utilization.map(|utilization| share(utilization.memory));
}

fn put_power(sample: &mut DeviceSample, device: &Device<'static>, reader: &mut Reader) {
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
fn put_counters(sample: &mut DeviceSample, figures: Figures) {
    sample.dram_bandwidth = match (&figures.dram, &sample.dram_peak, &sample.memory_busy) {
        (Reading::Known { value: share, at, .. }, Reading::Known { value: peak, .. }, _) => {
            Reading::measured(*peak * share.0, *at)
        }
        (Reading::Absent(_), Reading::Known { value: peak, .. }, Reading::Known { value: busy, at, .. }) => {
            Reading::upper_bound(*peak * busy.0, *at)
        }
        (Reading::Absent(_), _, Reading::Absent(why)) | (_, Reading::Absent(why), _) => Reading::Absent(why.clone()),
    };
    sample.sm_activity = figures.sm;
    sample.tensor_activity = figures.tensor;
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

/// Compute and graphics processes, each once.
fn processes(device: &Device<'static>, now: Moment) -> Result<Vec<DeviceProcess>, NvmlError> {
    let mut all = device.running_compute_processes()?;
    // Not all cards have a graphics list: what computes is what matters here.
    all.extend(device.running_graphics_processes().unwrap_or_default());
    Ok(merged(&all, now))
}

fn merged(all: &[ProcessInfo], now: Moment) -> Vec<DeviceProcess> {
    let mut memory_of: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in all {
        let memory = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        // A process in both lists has the same memory in each; one of them may not know it.
        let known = memory_of.entry(process.pid).or_default();
        *known = (*known).max(memory);
    }
    memory_of
        .into_iter()
        .map(|(pid, memory)| DeviceProcess {
            pid,
            memory: memory.map_or(Reading::Absent(Absence::NotSupported), |bytes| Reading::measured(Bytes(bytes), now)),
        })
        .collect()
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

    #[test]
    fn a_process_in_both_lists_counts_once_and_an_unknown_is_no_zero() {
        let process = |pid, used_gpu_memory| ProcessInfo {
            pid,
            used_gpu_memory,
            gpu_instance_id: None,
            compute_instance_id: None,
        };
        let all = [
            process(9, UsedGpuMemory::Unavailable),
            process(7, UsedGpuMemory::Used(5)),
            process(7, UsedGpuMemory::Used(5)),
            process(9, UsedGpuMemory::Unavailable),
            process(8, UsedGpuMemory::Used(0)),
        ];
        let expected = [
            DeviceProcess { pid: 7, memory: Reading::measured(Bytes(5), Moment(1)) },
            DeviceProcess { pid: 8, memory: Reading::measured(Bytes(0), Moment(1)) },
            DeviceProcess { pid: 9, memory: Reading::Absent(Absence::NotSupported) },
        ];
        assert_eq!(merged(&all, Moment(1)), expected);
    }
}
