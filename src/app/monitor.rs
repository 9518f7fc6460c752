//! What the monitor pane knows: the newest sample, the recent past, the attached process.

use super::history::History;
use crate::compare::{Observation, Whose};
use crate::predict::Prediction;
use crate::reading::{Absence, DeviceProcess, DeviceSample, HostProcess, Moment, Reading, Sample, SourceInfo};
use crate::units::{Bytes, FlopsPerSec, Seconds};

/// A row of the pane, by what it shows: it stays selected while others come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// A device, by its place in the samples.
    Device(usize),
    /// A process, by its pid.
    Process(u32),
}

/// How the source is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Nothing heard so far.
    Starting,
    /// It gives samples.
    Running(SourceInfo),
    /// It gave up, and why.
    Failed(String),
}

/// The process that the plan is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// Its pid.
    pub pid: u32,
    /// When it started, once known: another start time under this pid is another process.
    pub started: Option<u64>,
    /// The most memory it held on one device since it was attached.
    pub peak: Option<Bytes>,
    /// How it stands.
    pub state: AttachedState,
}

/// How an attached process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachedState {
    /// Not seen on a GPU so far.
    Awaited,
    /// It holds memory on a GPU.
    Present,
    /// It held memory and does so no more.
    Ended,
    /// Its pid belongs to another process now.
    Replaced,
}

/// A process with everything it holds, over all devices.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow<'a> {
    /// Its pid.
    pub pid: u32,
    /// Device index and memory held there, in device order.
    pub on: Vec<(u32, &'a Reading<Bytes>)>,
    /// What the host knows of it.
    pub host: Option<&'a HostProcess>,
}

/// What the monitor pane shows.
#[derive(Debug, Clone)]
pub struct Monitor {
    /// How the source is doing.
    pub source: Source,
    /// The newest sample.
    pub sample: Option<Sample>,
    /// The recent past.
    pub history: History,
    /// The attached process.
    pub attached: Option<Attached>,
    /// What is selected.
    pub selected: Selected,
    /// The most that each device held since the start, or since the last attach.
    pub peaks: Vec<Option<Bytes>>,
    /// Samples lost since the start.
    pub dropped: u64,
    /// Time between samples.
    pub interval: Seconds,
}

impl Monitor {
    /// Nothing seen; perhaps a process to wait for. A sample is expected each second.
    #[must_use]
    pub fn new(attach: Option<u32>) -> Self {
        Self {
            source: Source::Starting,
            sample: None,
            history: History::default(),
            attached: attach.map(Attached::to),
            selected: Selected::Device(0),
            peaks: Vec::new(),
            dropped: 0,
            interval: Seconds(1.0),
        }
    }

    /// The devices of the newest sample.
    #[must_use]
    pub fn devices(&self) -> &[DeviceSample] {
        self.sample.as_ref().map_or(&[], |sample| &sample.devices)
    }

    /// The processes of the newest sample, by device and pid: rows that keep their places.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessRow<'_>> {
        let Some(sample) = &self.sample else { return Vec::new() };
        let mut rows: Vec<ProcessRow<'_>> = Vec::new();
        for device in &sample.devices {
            for DeviceProcess { pid, memory } in device.processes.value().into_iter().flatten() {
                match rows.iter_mut().find(|row| row.pid == *pid) {
                    Some(row) => row.on.push((device.index, memory)),
                    None => rows.push(ProcessRow {
                        pid: *pid,
                        on: vec![(device.index, memory)],
                        host: sample.processes.iter().find(|host| host.pid == *pid),
                    }),
                }
            }
        }
        rows.sort_by_key(|row| (row.on.first().map(|(index, _)| *index), row.pid));
        rows
    }

    /// Rows that can be selected.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.devices().len() + self.processes().len()
    }

    /// The pid of the selected process; of the largest one on the selected device, where a device is selected.
    #[must_use]
    pub fn selected_pid(&self) -> Option<u32> {
        match self.selected {
            Selected::Process(pid) => Some(pid),
            Selected::Device(position) => self
                .devices()
                .get(position)?
                .processes
                .value()?
                .iter()
                .max_by_key(|process| process.memory.value().copied())
                .map(|process| process.pid),
        }
    }

    /// The row of what is selected: devices first, then processes.
    #[must_use]
    pub fn selected_row(&self) -> usize {
        match self.selected {
            Selected::Device(position) => position,
            Selected::Process(pid) => {
                let row = self.processes().iter().position(|row| row.pid == pid).unwrap_or(0);
                self.devices().len() + row
            }
        }
    }

    /// Selects what stands in a row.
    pub fn select_row(&mut self, row: usize) {
        let process = row.checked_sub(self.devices().len()).and_then(|row| Some(self.processes().get(row)?.pid));
        self.selected = process.map_or(Selected::Device(row), Selected::Process);
    }

    /// The device whose past is shown: the selected one, or the one of the selected process.
    #[must_use]
    pub fn shown_device(&self) -> usize {
        match self.selected {
            Selected::Device(position) => position,
            Selected::Process(pid) => {
                let on = |device: &DeviceSample| {
                    device.processes.value().is_some_and(|list| list.iter().any(|process| process.pid == pid))
                };
                self.devices().iter().position(on).unwrap_or(0)
            }
        }
    }

    /// Attaches to a process, or lets go of it when it is the attached one.
    pub fn toggle_attach(&mut self, pid: u32) {
        self.attached = match &self.attached {
            Some(attached) if attached.pid == pid => None,
            _ => Some(Attached::to(pid)),
        };
        self.peaks.clear();
        self.note_peaks();
    }

    /// Takes in a sample.
    pub fn take(&mut self, sample: Sample) {
        self.history.push(&sample);
        self.dropped = sample.dropped;
        self.sample = Some(sample);
        self.note_peaks();
        if let Selected::Process(pid) = self.selected
            && !self.processes().iter().any(|row| row.pid == pid)
        {
            self.selected = Selected::Device(0);
        }
    }

    fn note_peaks(&mut self) {
        let Some(sample) = &self.sample else { return };
        self.peaks.resize(sample.devices.len().max(self.peaks.len()), None);
        for (peak, device) in self.peaks.iter_mut().zip(&sample.devices) {
            *peak = (*peak).max(device.memory.value().map(|memory| memory.used));
        }
        if let Some(attached) = &mut self.attached {
            attached.note(sample);
        }
    }

    /// What was observed of the run: of the attached process where there is one, else of
    /// the device that holds most. None before the first sample and without devices.
    #[must_use]
    pub fn observation(&self, prediction: &Prediction) -> Option<Observation> {
        let sample = self.sample.as_ref()?;
        let (whose, position, memory, peak) = match &self.attached {
            Some(attached) => self.of_process(sample, attached)?,
            None => self.of_fullest_device(sample)?,
        };
        let device = sample.devices.get(position)?;
        let window = window(prediction.time.step);
        let bandwidth = self.history.mean_bandwidth(position, &device.dram_bandwidth, window);
        let tensor = self.history.mean_tensor(position, &device.tensor_activity, window);
        let compute = match tensor {
            Reading::Known { value, at, .. } => {
                // Activity is measured; which type's peak it is a share of is the plan's word.
                Reading::estimated(FlopsPerSec(value.0 * prediction.roofline.peak.0), at)
            }
            Reading::Absent(why) => Reading::Absent(why),
        };
        let memory_peak = memory.map(|now| peak.unwrap_or(*now));
        Some(Observation { whose, memory, memory_peak, bandwidth, compute })
    }

    fn of_process(&self, sample: &Sample, attached: &Attached) -> Option<Found> {
        let gone = matches!(attached.state, AttachedState::Ended | AttachedState::Replaced);
        let held = sample.devices.iter().enumerate().filter_map(|(position, device)| {
            let held = device.processes.value()?.iter().find(|process| process.pid == attached.pid)?;
            Some((position, device.index, held.memory.clone()))
        });
        let most = held.max_by_key(|(position, _, memory)| {
            (memory.value().copied().unwrap_or(Bytes::ZERO), std::cmp::Reverse(*position))
        });
        let (position, device, memory) = match most {
            Some(found) if !gone => found,
            _ => (0, sample.devices.first()?.index, Reading::Absent(Absence::Gone)),
        };
        Some((Whose::Process { pid: attached.pid, device }, position, memory, attached.peak))
    }

    fn of_fullest_device(&self, sample: &Sample) -> Option<Found> {
        // Among those that answer, by the peak, which only grows: the choice does not flicker between equals.
        let peak_of = |position: usize| self.peaks.get(position).copied().flatten();
        let (position, device) = sample.devices.iter().enumerate().max_by_key(|(position, device)| {
            (device.memory.value().is_some(), peak_of(*position), std::cmp::Reverse(*position))
        })?;
        let memory = device.memory.map(|memory| memory.used);
        let peak = peak_of(position);
        Some((Whose::Device { device: device.index }, position, memory, peak))
    }

    /// Age of the newest sample.
    #[must_use]
    pub fn age(&self, now: Moment) -> Option<Seconds> {
        self.sample.as_ref().map(|sample| now.since(sample.at))
    }
}

type Found = (Whose, usize, Reading<Bytes>, Option<Bytes>);

/// Rates are averaged over at least three steps, so that it does not matter where in a step a sample falls.
fn window(step: Seconds) -> Seconds {
    Seconds((3.0 * step.0).clamp(30.0, super::history::KEPT as f64))
}

impl Attached {
    fn to(pid: u32) -> Self {
        Self { pid, started: None, peak: None, state: AttachedState::Awaited }
    }

    fn note(&mut self, sample: &Sample) {
        if matches!(self.state, AttachedState::Ended | AttachedState::Replaced) {
            return;
        }
        let host = sample.processes.iter().find(|host| host.pid == self.pid);
        let started = host.and_then(|host| host.started.value().copied());
        if let (Some(before), Some(now)) = (self.started, started)
            && before != now
        {
            self.state = AttachedState::Replaced;
            return;
        }
        self.started = self.started.or(started);
        let lists = sample.devices.iter().filter_map(|device| device.processes.value());
        let mut found = lists.flatten().filter(|process| process.pid == self.pid).peekable();
        if found.peek().is_some() {
            self.state = AttachedState::Present;
            let most = found.filter_map(|process| process.memory.value().copied()).max();
            self.peak = self.peak.max(most);
        } else if self.state == AttachedState::Present && sample.devices.iter().all(lists_processes) {
            self.state = AttachedState::Ended;
        }
    }
}

/// A device whose list could not be read says nothing about who is on it.
fn lists_processes(device: &DeviceSample) -> bool {
    device.processes.value().is_some()
}

impl ProcessRow<'_> {
    /// All memory that it holds; none where no device tells.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        let mut known = self.on.iter().filter_map(|(_, memory)| memory.value().copied()).peekable();
        known.peek()?;
        Some(known.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::DeviceMemory;

    fn device(index: u32, used_gib: f64, processes: &[(u32, f64)]) -> DeviceSample {
        let at = Moment(1_000);
        let (used, total) = (Bytes::from_gib(used_gib), Bytes::from_gib(80.0));
        let held = processes
            .iter()
            .map(|(pid, gib)| DeviceProcess { pid: *pid, memory: Reading::measured(Bytes::from_gib(*gib), at) })
            .collect();
        DeviceSample {
            index,
            memory: Reading::measured(DeviceMemory { total, used, free: total.saturating_sub(used) }, at),
            processes: Reading::measured(held, at),
            ..DeviceSample::default()
        }
    }

    fn sample(devices: Vec<DeviceSample>, hosts: &[(u32, u64)]) -> Sample {
        let at = Moment(1_000);
        let processes = hosts
            .iter()
            .map(|(pid, started)| HostProcess {
                pid: *pid,
                started: Reading::measured(*started, at),
                ..HostProcess::default()
            })
            .collect();
        Sample { at, devices, processes, dropped: 0 }
    }

    #[test]
    fn processes_on_several_devices_are_one_row() {
        let mut monitor = Monitor::new(None);
        monitor.take(sample(vec![device(0, 30.0, &[(7, 10.0), (9, 20.0)]), device(1, 15.0, &[(7, 15.0)])], &[]));
        let rows = monitor.processes();
        assert_eq!(rows.len(), 2);
        // 10 + 15 = 25 GiB
        assert_eq!((rows[0].pid, rows[0].memory()), (7, Some(Bytes::from_gib(25.0))));
        assert_eq!(rows[0].on.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn an_attached_process_that_leaves_is_noticed_and_its_peak_kept() {
        let mut monitor = Monitor::new(Some(7));
        assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Awaited);
        monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, 100)]));
        monitor.take(sample(vec![device(0, 20.0, &[(7, 20.0)])], &[(7, 100)]));
        assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
        monitor.take(sample(vec![device(0, 0.0, &[])], &[]));
        let attached = monitor.attached.as_ref().unwrap();
        assert_eq!((attached.state, attached.peak), (AttachedState::Ended, Some(Bytes::from_gib(30.0))));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut monitor = Monitor::new(Some(7));
        monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[(7, 100)]));
        monitor.take(sample(vec![device(0, 60.0, &[(7, 60.0)])], &[(7, 205)]));
        let attached = monitor.attached.as_ref().unwrap();
        assert_eq!((attached.state, attached.peak), (AttachedState::Replaced, Some(Bytes::from_gib(30.0))));
    }

    #[test]
    fn an_unreadable_list_is_not_an_ended_process() {
        let mut monitor = Monitor::new(Some(7));
        monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[]));
        let lost = DeviceSample { processes: Reading::Absent(Absence::Gone), ..DeviceSample::default() };
        monitor.take(sample(vec![lost], &[]));
        assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
    }

    #[test]
    fn letting_go_and_attaching_again_starts_anew() {
        let mut monitor = Monitor::new(None);
        monitor.take(sample(vec![device(0, 30.0, &[(7, 30.0)])], &[]));
        monitor.select_row(1);
        assert_eq!((monitor.selected, monitor.selected_row()), (Selected::Process(7), 1));
        assert_eq!(monitor.selected_pid(), Some(7));
        monitor.toggle_attach(7);
        assert_eq!(monitor.attached.as_ref().unwrap().state, AttachedState::Present);
        monitor.toggle_attach(7);
        assert_eq!(monitor.attached, None);
    }
}
