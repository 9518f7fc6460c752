//! How much each device has, by what it said last, and held at most: a GPU that is gone keeps the scale of its past.

use super::Monitor;
use super::places::rearranged;
use crate::reading::DeviceSample;
use crate::units::{Bytes, Watts};

/// What a device said last that it has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceScale {
    /// Memory in all.
    pub memory: Option<Bytes>,
    /// What it may draw.
    pub power: Option<Watts>,
}

/// The scales of all devices, by their places.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceScales(Vec<DeviceScale>);

impl DeviceScales {
    pub(super) fn note(&mut self, devices: &[DeviceSample]) {
        self.0.resize(devices.len().max(self.0.len()), DeviceScale::default());
        for (scale, device) in self.0.iter_mut().zip(devices) {
            scale.memory = device.memory.value().map(|memory| memory.total).or(scale.memory);
            scale.power = device.power_limit.value().copied().or(scale.power);
        }
    }

    pub(super) fn rearrange(&mut self, former: &[Option<usize>]) {
        rearranged(&mut self.0, former);
    }
}

impl Monitor {
    /// Keeps the most that each device held, and what the attached process does.
    pub(super) fn note_peaks(&mut self) {
        let Some(sample) = &self.sample else { return };
        self.peaks.resize(sample.devices.len().max(self.peaks.len()), None);
        for (peak, device) in self.peaks.iter_mut().zip(&sample.devices) {
            *peak = (*peak).max(device.memory.value().map(|memory| memory.used));
        }
        if let Some(attached) = &mut self.attached {
            attached.note(sample);
        }
    }

    /// What the device at that place said last that it has.
    #[must_use]
    pub fn scale(&self, position: usize) -> DeviceScale {
        self.scales.0.get(position).copied().unwrap_or_default()
    }
}
