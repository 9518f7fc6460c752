//! What the GPUs tell.

use super::families as f;
use crate::reading::{DeviceSample, Health, Reading};
use crate::report::metrics::{MetricFamily, MetricsPage};
use crate::units::{BytesPerSec, Fraction, Megahertz};

/// Adds every GPU.
pub fn put(page: &mut MetricsPage, devices: &[DeviceSample]) {
    for device in devices {
        let (gpu, uuid) = (device.label(), device.uuid.value().map_or("", String::as_str));
        let mut series = GpuSeries { page: &mut *page, labels: [("gpu", &gpu), ("uuid", uuid)] };
        series.about(device);
        series.memory(device);
        series.load(device);
        series.board(device);
        series.traffic(device);
        series.health(&device.health);
    }
}

/// The series of one GPU.
struct GpuSeries<'a> {
    page: &'a mut MetricsPage,
    labels: [(&'a str, &'a str); 2],
}

impl GpuSeries<'_> {
    fn put(&mut self, family: &MetricFamily, value: f64) {
        self.page.put(family, &self.labels, value);
    }

    fn labelled(&mut self, family: &MetricFamily, more: &[(&str, &str)], value: f64) {
        let labels: Vec<(&str, &str)> = self.labels.iter().chain(more).copied().collect();
        self.page.put(family, &labels, value);
    }

    /// What is known: an absence has no series.
    fn known<T>(&mut self, family: &MetricFamily, reading: &Reading<T>, number: impl Fn(&T) -> f64) {
        if let Some(value) = reading.value() {
            self.put(family, number(value));
        }
    }

    fn about(&mut self, device: &DeviceSample) {
        let text = |reading: &Reading<String>| reading.value().cloned().unwrap_or_default();
        let (name, pci, serial) = (text(&device.name), text(&device.board.pci), text(&device.board.serial));
        self.labelled(&f::GPU_INFO, &[("name", &name), ("pci_bus_id", &pci), ("serial", &serial)], 1.0);
        self.put(&f::GPU_UP, flag(device.memory.value().is_some()));
        if let Some(why) = device.memory.absence() {
            self.labelled(&f::GPU_FAILURE, &[("reason", &why.to_string())], 1.0);
        }
    }

    fn memory(&mut self, device: &DeviceSample) {
        self.known(&f::GPU_MEMORY_USED, &device.memory, |memory| memory.used.as_f64());
        self.known(&f::GPU_MEMORY_FREE, &device.memory, |memory| memory.free.as_f64());
        self.known(&f::GPU_MEMORY_TOTAL, &device.memory, |memory| memory.total.as_f64());
        self.known(&f::GPU_MEMORY_RESERVED, &device.memory_reserved, |bytes| bytes.as_f64());
    }

    fn load(&mut self, device: &DeviceSample) {
        let share = |share: &Fraction| share.0;
        self.known(&f::GPU_BUSY, &device.busy, share);
        self.known(&f::GPU_MEMORY_BUSY, &device.memory_busy, share);
        self.known(&f::GPU_SM_ACTIVITY, &device.sm_activity, share);
        self.known(&f::GPU_TENSOR_ACTIVITY, &device.tensor_activity, share);
        if let Reading::Known { value, kind, .. } = &device.dram_bandwidth {
            self.labelled(&f::GPU_DRAM, &[("kind", &kind.word().replace(' ', "_"))], value.0);
        }
        self.known(&f::GPU_DRAM_PEAK, &device.dram_peak, |rate| rate.0);
    }

    fn board(&mut self, device: &DeviceSample) {
        let hertz = |clock: &Megahertz| clock.0 * 1e6;
        self.known(&f::GPU_POWER, &device.power, |power| power.0);
        self.known(&f::GPU_POWER_LIMIT, &device.power_limit, |power| power.0);
        self.known(&f::GPU_TEMPERATURE, &device.temperature, |degrees| degrees.0);
        self.known(&f::GPU_SM_CLOCK, &device.sm_clock, hertz);
        self.known(&f::GPU_SM_CLOCK_MAX, &device.sm_clock_max, hertz);
        self.known(&f::GPU_MEMORY_CLOCK, &device.memory_clock, hertz);
        self.known(&f::GPU_THROTTLE_REASONS, &device.throttle, |reasons| reasons.len() as f64);
        for reason in device.throttle.value().into_iter().flatten() {
            self.labelled(&f::GPU_THROTTLED, &[("reason", reason)], 1.0);
        }
    }

    fn traffic(&mut self, device: &DeviceSample) {
        let rate = |rate: &BytesPerSec| rate.0;
        let links = &device.links;
        self.known(&f::GPU_PCIE_RECEIVED, &links.pcie_received, rate);
        self.known(&f::GPU_PCIE_SENT, &links.pcie_sent, rate);
        self.known(&f::GPU_NVLINK_RECEIVED, &links.nvlink_received, rate);
        self.known(&f::GPU_NVLINK_SENT, &links.nvlink_sent, rate);
    }

    fn health(&mut self, health: &Health) {
        for (errors, kind) in [(&health.corrected, "corrected"), (&health.uncorrected, "uncorrected")] {
            if let Some(count) = errors.value() {
                self.labelled(&f::GPU_ECC_ERRORS, &[("type", kind)], *count as f64);
            }
        }
        self.known(&f::GPU_REMAPPED_ROWS, &health.remapped_rows, |rows| *rows as f64);
        self.known(&f::GPU_RETIRED_PAGES, &health.retired_pages, |pages| *pages as f64);
        self.known(&f::GPU_REPAIR_PENDING, &health.repair_pending, |pending| flag(*pending));
        self.known(&f::GPU_REPAIR_FAILED, &health.repair_failed, |failed| flag(*failed));
        self.known(&f::GPU_XIDS, &health.xids, |xids| xids.count as f64);
        if let Some(code) = health.xids.value().and_then(|xids| xids.last?.code) {
            self.put(&f::GPU_LAST_XID, code as f64);
        }
    }
}

/// Yes and no as a metric.
pub const fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
