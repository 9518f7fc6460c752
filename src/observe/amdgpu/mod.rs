//! AMD GPUs, as their kernel driver shows them in files: no library, no root.
//!
//! Files and units: <https://docs.kernel.org/gpu/amdgpu/thermal.html> (hwmon, busy percentages,
//! `pp_dpm_*`), <https://docs.kernel.org/gpu/amdgpu/driver-misc.html> (`mem_info_*`, `product_name`,
//! `unique_id`), <https://docs.kernel.org/gpu/drm-usage-stats.html> (what a process holds).

mod files;
mod processes;

use std::fs;
use std::path::{Path, PathBuf};

use files::Folder;
use processes::Clients;
use thiserror::Error;

use super::Source;
use super::nvml::pids;
use super::process::HostFacts;
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::reading::{
    Absence, DeviceMemory, DeviceSample, Moment, Reading, Sample, SourceInfo, SourceKind, dram_bandwidth,
};
use crate::units::{Bytes, BytesPerSec, Celsius, Fraction, Megahertz, Watts};

/// AMD's number among the makers of PCI devices.
const VENDOR: &str = "0x1002";

/// Names of GPUs whose maker wrote none into them, by PCI device id
/// (<https://gitlab.freedesktop.org/mesa/drm/-/blob/main/data/amdgpu.ids>).
const NAMES: [(&str, &str); 8] = [
    ("0x738c", "AMD Instinct MI100"),
    ("0x7408", "AMD Instinct MI250X"),
    ("0x740c", "AMD Instinct MI250X / MI250"),
    ("0x740f", "AMD Instinct MI210"),
    ("0x74a0", "AMD Instinct MI300A"),
    ("0x74a1", "AMD Instinct MI300X"),
    ("0x74a5", "AMD Instinct MI325X"),
    ("0x75a3", "AMD Instinct MI355X"),
];

/// The AMD GPUs of this machine.
pub struct Amdgpu {
    cards: Vec<AmdDevice>,
    clients: Clients,
    hosts: HostFacts,
}

/// One GPU: where its files are, and what does not change.
#[derive(Debug)]
struct AmdDevice {
    device: Folder,
    hwmon: Option<Folder>,
    /// Its PCI address, by which processes name it.
    address: String,
    name: Reading<String>,
    uuid: Reading<String>,
    /// From the catalogue, by its name.
    dram_peak: Reading<BytesPerSec>,
    /// Names of its temperatures: `edge`, `junction`, `mem`, each with its file.
    temperatures: Vec<(String, String)>,
    /// Names of its clocks: `sclk`, `mclk`, likewise.
    clocks: Vec<(String, String)>,
}

/// The kernel's driver has no GPU under this folder.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no AMD GPU: the amdgpu driver shows none under {}", .0.display())]
pub struct NoAmdGpu(PathBuf);

impl Amdgpu {
    /// The GPUs under `root`, which is `/` but in tests.
    ///
    /// # Errors
    /// Where there is none.
    pub fn open(root: &Path, catalog: &Catalog) -> Result<Self, NoAmdGpu> {
        let drm = root.join("sys/class/drm");
        let mut cards: Vec<AmdDevice> = fs::read_dir(&drm)
            .into_iter()
            .flatten()
            .flatten()
            // `card0`, not its connectors `card0-DP-1`.
            .filter(|entry| entry.file_name().to_string_lossy().strip_prefix("card").is_some_and(is_number))
            .filter_map(|entry| AmdDevice::at(entry.path().join("device"), catalog))
            .collect();
        if cards.is_empty() {
            return Err(NoAmdGpu(drm));
        }
        // The order of AMD's own tools.
        cards.order_by(|one, other| one.address.cmp(&other.address));
        Ok(Self { cards, clients: Clients::new(root.join("proc")), hosts: HostFacts::new() })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Source for Amdgpu {
    fn info(&self) -> SourceInfo {
        let version = fs::read_to_string("/sys/module/amdgpu/version").ok();
        let detail = version.map_or_else(|| "in the kernel".to_owned(), |version| format!("driver {}", version.trim()));
        SourceInfo { kind: SourceKind::Amdgpu, detail }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let mut held = self.clients.held(now);
        let devices: Vec<DeviceSample> = (0..)
            .zip(&self.cards)
            .map(|(index, card)| {
                let processes = held.as_mut().map(|held| held.remove(&card.address).unwrap_or_default());
                let processes = match processes {
                    Ok(processes) => Reading::measured(processes, now),
                    Err(why) => Reading::Absent(why.clone()),
                };
                DeviceSample { processes, ..card.sample(index, now) }
            })
            .collect();
        let processes = self.hosts.of(&pids(&devices, None), now);
        Sample { at: now, devices, processes, ..Sample::default() }
    }
}

impl AmdDevice {
    /// The GPU at that folder, if it is one of amdgpu's.
    fn at(path: PathBuf, catalog: &Catalog) -> Option<Self> {
        let device = Folder::at(path);
        let event = device.text("uevent").unwrap_or_default();
        let told = |key: &str| event.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        let is_ours = device.text("vendor").is_ok_and(|vendor| vendor == VENDOR)
            && told("DRIVER=").is_none_or(|driver| driver == "amdgpu")
            && device.text("mem_info_vram_total").is_ok();
        if !is_ours {
            return None;
        }
        let hwmon = hwmon(device.path());
        let labelled = |prefix: &str| hwmon.as_ref().map_or_else(Vec::new, |hwmon| hwmon.labelled(prefix));
        let name = name(&device);
        let card = name.as_ref().and_then(|name| catalog.gpu(name));
        Some(Self {
            address: told("PCI_SLOT_NAME=").unwrap_or_default(),
            dram_peak: fact(card.map(|card| card.bandwidth).ok_or(Absence::NotSupported)),
            name: fact(name.ok_or(Absence::NotSupported)),
            uuid: fact(device.text("unique_id")),
            temperatures: labelled("temp"),
            clocks: labelled("freq"),
            hwmon,
            device,
        })
    }

    fn sample(&self, index: u32, now: Moment) -> DeviceSample {
        let fresh = |name: &str| self.device.number(name, 0.01, now).map(|share| Fraction(*share));
        let memory_busy = fresh("mem_busy_percent");
        // Its counters are for root alone.
        let dram_bandwidth = dram_bandwidth(&Reading::Absent(Absence::NotSupported), &memory_busy, &self.dram_peak);
        let mut sample = DeviceSample {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            memory: self.memory(now),
            busy: fresh("gpu_busy_percent"),
            memory_busy,
            dram_bandwidth,
            dram_peak: self.dram_peak.clone(),
            // Of what is drawn now some chips tell the mean, some the moment; both in microwatts.
            power: first([self.sensor("power1_average", 1e-6, now), self.sensor("power1_input", 1e-6, now)])
                .map(|watts| Watts(*watts)),
            power_limit: self.sensor("power1_cap", 1e-6, now).map(|watts| Watts(*watts)),
            // MI300 has no edge sensor.
            temperature: first(["edge", "junction"].map(|label| self.temperature(label, now))),
            sm_clock: self.clock("sclk", now),
            memory_clock: self.clock("mclk", now),
            sm_clock_max: highest(&self.device, "pp_dpm_sclk", now),
            ..DeviceSample::absent(index, &Absence::NotSupported)
        };
        self.put_board(&mut sample, now);
        sample
    }

    fn memory(&self, now: Moment) -> Reading<DeviceMemory> {
        let bytes = |name: &str| self.device.number(name, 1.0, now).map(|bytes| Bytes::from_f64(*bytes));
        match (bytes("mem_info_vram_total"), bytes("mem_info_vram_used")) {
            (Reading::Known { value: total, .. }, Reading::Known { value: used, at, .. }) => {
                Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at)
            }
            (Reading::Absent(why), _) | (_, Reading::Absent(why)) => Reading::Absent(why),
        }
    }

    /// What the board tells beside its load.
    fn put_board(&self, sample: &mut DeviceSample, now: Moment) {
        if !self.address.is_empty() {
            sample.board.pci = Reading::measured(self.address.clone(), now);
        }
        sample.board.memory_temperature = self.temperature("mem", now);
        let whole = |name: &str| self.device.number(name, 1.0, now);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let lanes = |name: &str| whole(name).map(|lanes| *lanes as u32);
        sample.links.pcie_width = lanes("current_link_width");
        sample.links.pcie_width_max = lanes("max_link_width");
        sample.links.pcie_generation = generation(&self.device, "current_link_speed", now);
        sample.links.pcie_generation_max = generation(&self.device, "max_link_speed", now);
    }

    fn sensor(&self, file: &str, scale: f64, now: Moment) -> Reading<f64> {
        self.hwmon.as_ref().map_or(Reading::Absent(Absence::NotSupported), |hwmon| hwmon.number(file, scale, now))
    }

    /// A temperature by its label, which is told in thousandths of a degree.
    fn temperature(&self, label: &str, now: Moment) -> Reading<Celsius> {
        self.labelled(&self.temperatures, label, 1e-3, now).map(|degrees| Celsius(*degrees))
    }

    /// A clock by its label, which is told in hertz.
    fn clock(&self, label: &str, now: Moment) -> Reading<Megahertz> {
        self.labelled(&self.clocks, label, 1e-6, now).map(|megahertz| Megahertz(*megahertz))
    }

    fn labelled(&self, known: &[(String, String)], label: &str, scale: f64, now: Moment) -> Reading<f64> {
        let file = known.iter().find(|(known, _)| known == label);
        file.map_or(Reading::Absent(Absence::NotSupported), |(_, file)| self.sensor(file, scale, now))
    }
}

/// A fact that was read when the GPU was found, before any sample.
fn fact<T>(read: Result<T, Absence>) -> Reading<T> {
    read.map_or_else(Reading::Absent, |value| Reading::measured(value, Moment::default()))
}

/// The first that is known, else why the first is not.
fn first<T, const N: usize>(readings: [Reading<T>; N]) -> Reading<T> {
    let mut absent = None;
    for reading in readings {
        match reading {
            known @ Reading::Known { .. } => return known,
            Reading::Absent(why) => absent = absent.or(Some(why)),
        }
    }
    Reading::Absent(absent.unwrap_or(Absence::NotSupported))
}

/// The one folder of sensors below a device.
fn hwmon(device: &Path) -> Option<Folder> {
    let folder = fs::read_dir(device.join("hwmon")).ok()?.flatten().next()?;
    Some(Folder::at(folder.path()))
}

/// What is written into the GPU, else what its number stands for, else the number.
fn name(device: &Folder) -> Option<String> {
    let written = device.text("product_name").ok().filter(|name| !name.is_empty());
    written.or_else(|| {
        let id = device.text("device").ok()?;
        let known = NAMES.iter().find(|(number, _)| *number == id);
        Some(known.map_or_else(|| format!("AMD GPU {id}"), |(_, name)| (*name).to_owned()))
    })
}

/// The highest of a clock's levels: `1: 2100Mhz *`.
fn highest(device: &Folder, file: &str, now: Moment) -> Reading<Megahertz> {
    let levels = match device.text(file) {
        Ok(levels) => levels,
        Err(why) => return Reading::Absent(why),
    };
    let megahertz = levels.lines().filter_map(|line| {
        let clock = line.split_once(':')?.1.trim().trim_end_matches('*').trim().to_lowercase();
        clock.strip_suffix("mhz")?.parse::<f64>().ok()
    });
    megahertz
        .reduce(f64::max)
        .map_or(Reading::Absent(Absence::NotSupported), |highest| Reading::measured(Megahertz(highest), now))
}

/// The generation of a PCIe link by the speed of a lane: `32.0 GT/s PCIe` is the fifth.
fn generation(device: &Folder, file: &str, now: Moment) -> Reading<u32> {
    const SPEEDS: [(&str, u32); 6] = [("2.5", 1), ("5.0", 2), ("8.0", 3), ("16.0", 4), ("32.0", 5), ("64.0", 6)];
    let speed = match device.text(file) {
        Ok(speed) => speed,
        Err(why) => return Reading::Absent(why),
    };
    let number = speed.split_whitespace().next().unwrap_or_default();
    let known = SPEEDS.iter().find(|(speed, _)| *speed == number);
    known.map_or(Reading::Absent(Absence::NotSupported), |(_, generation)| Reading::measured(*generation, now))
}

#[cfg(test)]
mod tests;
