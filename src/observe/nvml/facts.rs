//! What does not change while a GPU is in its place.

use nvml_wrapper::enum_wrappers::device::{Clock, TopologyLevel};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};

use super::absence::MetricReader;
use crate::reading::{Peer, Reading};
use crate::units::BytesPerSec;

/// What every sample needs.
#[derive(Debug, Default)]
pub struct DeviceFacts {
    pub name: Reading<String>,
    pub uuid: Reading<String>,
    /// Asked at the start: of a GPU that is off the bus it is what somebody looks for.
    pub pci: Reading<String>,
    /// Asked at the start, too: it is what is printed on a board that has to be replaced.
    pub serial: Reading<String>,
    pub sm_clock_max: Reading<u32>,
    pub memory_clock_max: Reading<u32>,
    bus_width: Reading<u32>,
}

impl DeviceFacts {
    /// Asks for what is missing.
    pub fn ask(&mut self, device: &Device<'static>, reader: &mut MetricReader) {
        reader.once(&mut self.name, || device.name());
        reader.once(&mut self.uuid, || device.uuid());
        reader.once(&mut self.pci, || Ok(device.pci_info()?.bus_id));
        reader.once(&mut self.serial, || device.serial());
        reader.once(&mut self.sm_clock_max, || device.max_clock_info(Clock::SM));
        reader.once(&mut self.memory_clock_max, || device.max_clock_info(Clock::Memory));
        reader.once(&mut self.bus_width, || device.memory_bus_width());
    }

    /// Bus width in bytes, twice a clock: all of DDR, GDDR as NVML counts its clock, and HBM.
    pub fn dram_peak(&self) -> Reading<BytesPerSec> {
        match (&self.bus_width, &self.memory_clock_max) {
            (Reading::Known { value: bits, .. }, Reading::Known { value: megahertz, at, .. }) => {
                let bytes = f64::from(*bits) / 8.0;
                Reading::estimated(BytesPerSec(bytes * 2.0 * f64::from(*megahertz) * 1e6), *at)
            }
            (Reading::Absent(why), _) | (_, Reading::Absent(why)) => Reading::Absent(why.clone()),
        }
    }
}

/// What is asked only of a GPU that is looked at closely.
#[derive(Debug, Default)]
pub struct CloseFacts {
    pub architecture: Reading<String>,
    pub capability: Reading<String>,
    pub vbios: Reading<String>,
    pub numa_node: Reading<u32>,
    pub pcie_generation_max: Reading<u32>,
    pub pcie_width_max: Reading<u32>,
    pub peers: Reading<Vec<Peer>>,
}

impl CloseFacts {
    /// Asks for what of the way to the host is missing.
    pub fn ask_pcie(&mut self, device: &Device<'static>, reader: &mut MetricReader) {
        reader.once(&mut self.pcie_generation_max, || device.max_pcie_link_gen());
        reader.once(&mut self.pcie_width_max, || device.max_pcie_link_width());
    }

    /// Asks for what is missing.
    pub fn ask(&mut self, library: &'static Library, index: u32, device: &Device<'static>, reader: &mut MetricReader) {
        reader.once(&mut self.architecture, || Ok(device.architecture()?.to_string()));
        reader.once(&mut self.capability, || {
            let capability = device.cuda_compute_capability()?;
            Ok(format!("{}.{}", capability.major, capability.minor))
        });
        reader.once(&mut self.vbios, || device.vbios_version());
        reader.once(&mut self.numa_node, || device.numa_node_id());
        self.ask_pcie(device, reader);
        reader.once(&mut self.peers, || peers(library, index, device));
    }
}

/// The way to every other GPU.
fn peers(library: &'static Library, index: u32, device: &Device<'static>) -> Result<Vec<Peer>, NvmlError> {
    let others = (0..library.device_count()?).filter(|other| *other != index);
    let mut peers = Vec::new();
    for other in others {
        // A lost one says nothing of this GPU.
        let Ok(there) = library.device_by_index(other) else { continue };
        match device.topology_common_ancestor(there) {
            Ok(level) => peers.push(Peer { index: other, between: between(&level).to_owned() }),
            Err(NvmlError::GpuLost) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(peers)
}

const fn between(level: &TopologyLevel) -> &'static str {
    match level {
        TopologyLevel::Internal => "same board",
        TopologyLevel::Single => "one PCIe switch",
        TopologyLevel::Multiple => "PCIe switches",
        TopologyLevel::HostBridge => "host bridge",
        TopologyLevel::Node => "same NUMA node",
        TopologyLevel::System => "other NUMA node",
    }
}
