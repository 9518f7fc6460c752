//! Places of GPUs in the samples: a host that joins or leaves a cluster moves those of all others, and what is known of a
//! GPU goes with it.

use super::{Monitor, SelectedRow};
use crate::printable::printable;
use crate::reading::DeviceSample;

/// By place in `now`: where each GPU was in `before`. None where all are where they were.
fn former_places(before: &[DeviceSample], now: &[DeviceSample]) -> Option<Vec<Option<usize>>> {
    let stays = |(was, is): (&DeviceSample, &DeviceSample)| match (identity(was), identity(is)) {
        (Some(was), Some(is)) => was == is,
        // One that does not say who it is stands where it stood.
        _ => true,
    };
    let kept = before.len().min(now.len());
    if before.iter().zip(now).all(stays) && before.len() <= now.len() {
        return None;
    }
    let place = |(place, device): (usize, &DeviceSample)| match identity(device) {
        Some(own) => before.iter().position(|was| identity(was).as_ref() == Some(&own)),
        None => (place < kept && identity(&before[place]).is_none()).then_some(place),
    };
    Some(now.iter().enumerate().map(place).collect())
}

/// What a GPU, or a part of one, is known by: its own name, else where it is.
fn identity(device: &DeviceSample) -> Option<(&str, u32, Option<u32>)> {
    let part = device.mig.map(|part| part.number);
    match (device.uuid.value(), &device.location) {
        (Some(uuid), _) => Some((uuid, 0, part)),
        (None, Some(location)) => Some((&location.node, location.gpu, part)),
        (None, None) => None,
    }
}

/// The values in their new places; what is new begins with nothing.
pub(super) fn rearranged<T: Default>(values: &mut Vec<T>, former: &[Option<usize>]) {
    let mut values_before: Vec<Option<T>> = std::mem::take(values).into_iter().map(Some).collect();
    let taken = |place: &Option<usize>| place.and_then(|place| values_before.get_mut(place)?.take());
    *values = former.iter().map(taken).map(Option::unwrap_or_default).collect();
}

impl Monitor {
    /// The name of a GPU for people: with its host where there are several.
    #[must_use]
    pub fn gpu_name(&self, device: &DeviceSample) -> String {
        match &device.location {
            Some(location) if self.cluster.is_there() => {
                printable(&format!("{}/{}", self.cluster.host_of(&location.node), location.gpu))
            }
            _ => device.label(),
        }
    }

    /// The name of the GPU with that index.
    #[must_use]
    pub fn gpu_name_at(&self, index: u32) -> String {
        let device = self.devices().iter().find(|device| device.index == index);
        device.map_or_else(|| index.to_string(), |device| self.gpu_name(device))
    }

    /// Takes what is known of each GPU along to its place in the devices of the next sample.
    pub(super) fn follow_places(&mut self, devices: &[DeviceSample]) {
        let Some(former) = former_places(self.devices(), devices) else { return };
        self.history.rearrange(&former);
        self.spans.rearrange(&former);
        rearranged(&mut self.peaks, &former);
        self.scales.rearrange(&former);
        if let SelectedRow::Device(selected) = self.selected {
            let place = former.iter().position(|place| *place == Some(selected));
            self.selected = SelectedRow::Device(place.unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reading::{Absence, DeviceLocation, DeviceMemory, Moment, Reading, Sample};
    use crate::units::Bytes;

    /// A GPU of a node that holds so many bytes.
    fn device(node: &str, uuid: Option<&str>, used: u64) -> DeviceSample {
        let at = Moment(0);
        let location = DeviceLocation { node: node.to_owned(), ..DeviceLocation::default() };
        let memory = DeviceMemory { total: Bytes(100), used: Bytes(used), free: Bytes(100 - used) };
        DeviceSample {
            uuid: uuid.map_or(Reading::Absent(Absence::NotRead), |uuid| Reading::measured(uuid.to_owned(), at)),
            location: Some(Arc::new(location)),
            memory: Reading::measured(memory, at),
            ..DeviceSample::absent(0, &Absence::NotRead)
        }
    }

    fn sample(at: u64, devices: Vec<DeviceSample>) -> Sample {
        Sample { at: Moment(at), devices, ..Sample::default() }
    }

    fn peaks(monitor: &Monitor) -> Vec<Option<u64>> {
        monitor.peaks.iter().map(|peak| peak.map(|peak| peak.0)).collect()
    }

    #[test]
    fn what_a_gpu_held_goes_with_it_when_a_host_joins_or_leaves() {
        let mut monitor = Monitor::new(None);
        monitor.take(sample(1, vec![device("b", Some("B"), 90), device("c", None, 20)]));
        monitor.selected = SelectedRow::Device(1);
        // Host `a` sorts before both: their places are one further.
        monitor.take(sample(2, vec![device("a", Some("A"), 5), device("b", Some("B"), 10), device("c", None, 10)]));
        assert_eq!(peaks(&monitor), [Some(5), Some(90), Some(20)]);
        assert_eq!(monitor.selected, SelectedRow::Device(2));
        let seen = |monitor: &Monitor, place: usize| {
            monitor.history.points(place).map(|point| point.memory.map(|held| held.0)).collect::<Vec<_>>()
        };
        assert_eq!(seen(&monitor, 0), [Some(5)]);
        assert_eq!(seen(&monitor, 1), [Some(90), Some(10)]);
        monitor.take(sample(3, vec![device("a", Some("A"), 5), device("c", None, 10)]));
        assert_eq!(peaks(&monitor), [Some(5), Some(20)]);
        assert_eq!(seen(&monitor, 1), [Some(20), Some(10), Some(10)]);
        assert_eq!(monitor.selected, SelectedRow::Device(1));
    }

    #[test]
    fn a_gpu_that_says_nothing_for_a_moment_stays_where_it_was() {
        let mut monitor = Monitor::new(None);
        let silent = DeviceSample::absent(0, &Absence::Gone);
        let known = |used| DeviceSample { location: None, ..device("", Some("A"), used) };
        monitor.take(sample(1, vec![known(70)]));
        monitor.take(sample(2, vec![silent]));
        monitor.take(sample(3, vec![known(10)]));
        assert_eq!(peaks(&monitor), [Some(70)]);
    }

    #[test]
    fn a_gpu_of_several_hosts_is_named_with_its_own() {
        let mut monitor = Monitor::new(None);
        let alone = device("a", None, 1);
        assert_eq!(monitor.gpu_name(&alone), "0");
        monitor.cluster.take(&[alone.clone(), device("b", None, 1)], None, Moment(0));
        assert_eq!(monitor.gpu_name(&alone), "a/0");
    }
}
