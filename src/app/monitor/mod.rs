//! What the monitor pane knows: the newest sample, the recent past, the attached process.

pub(super) mod attached;
pub(super) mod end_request;
pub(super) mod history;
mod job;
pub(super) mod milestones;
pub(super) mod places;
pub(super) mod processes;
pub(super) mod recording;
pub(super) mod scale;
pub(super) mod spans;
pub(super) mod trail;

use crate::app::cluster::Cluster;
use crate::app::key::KeyPress;
use crate::reading::{DeviceMetric, DeviceSample, HostProcess, Moment, Progress, RankProcess, Sample, SourceInfo};
use crate::units::{Bytes, Seconds};
use attached::{AttachedProcess, AttachedState};
use end_request::{EndRequest, TargetProcess};
use history::History;
use processes::{ProcessList, ProcessRow};
use scale::DeviceScales;
use spans::{HistorySpan, Spans};

/// A row of the pane, by what it shows: it stays selected while others come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectedRow {
    /// A device, by its place in the samples.
    Device(usize),
    /// A process, by its pid.
    Process(u32),
}

/// What the monitor pane shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MonitorView {
    /// What all devices do now, and who is on them.
    #[default]
    Now,
    /// Everything that is known of one device.
    Device,
    /// Everything that is known of the processes.
    Processes,
    /// What the devices did.
    History,
    /// All GPUs of a job over many nodes.
    Cluster,
}

impl MonitorView {
    /// To the past, and from there back to now.
    #[must_use]
    pub const fn history(self) -> Self {
        match self {
            Self::History => Self::Now,
            Self::Now | Self::Device | Self::Processes | Self::Cluster => Self::History,
        }
    }

    /// The view after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Now => Self::Device,
            Self::Device => Self::Processes,
            Self::Processes | Self::History => Self::Now,
            Self::Cluster => Self::Device,
        }
    }
}

/// How the source is doing.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceState {
    /// Nothing heard so far.
    Starting,
    /// It gives samples.
    Running(SourceInfo),
    /// It gave up, and why.
    Failed(String),
    /// Nothing is watched: the tutorial's plans stand alone.
    Unwatched,
}

/// What the monitor pane shows.
#[derive(Debug, Clone)]
pub struct Monitor {
    /// How the source is doing.
    pub source: SourceState,
    /// The newest sample.
    pub sample: Option<Sample>,
    /// The recent past, sample by sample.
    pub history: History,
    /// The past from a minute to a day.
    pub spans: Spans,
    /// Now or the past.
    pub view: MonitorView,
    /// How much of the past.
    pub span: HistorySpan,
    /// What the run tells, for its own metrics.
    pub told: Option<Box<Progress>>,
    /// The metric that the past begins with.
    pub metric: DeviceMetric,
    /// The metric that is drawn over each other one.
    pub over: Option<DeviceMetric>,
    /// Every device's line is in each chart, not the selected one's alone.
    pub every_device: bool,
    /// The attached process.
    pub attached: Option<AttachedProcess>,
    /// What is selected.
    pub selected: SelectedRow,
    /// The page of what is known of one device, where that takes several; past the last it begins again.
    pub page: usize,
    /// How processes are listed.
    pub list: ProcessList,
    /// The question whether to end a process.
    pub ending: Option<EndRequest>,
    /// The process that was asked to end last.
    pub asked_to_end: Option<TargetProcess>,
    /// The most that each device held since the start, or since the last attach.
    pub peaks: Vec<Option<Bytes>>,
    /// How much each device has, by what it said last.
    pub scales: DeviceScales,
    /// Samples lost since the start.
    pub dropped: u64,
    /// Time between samples.
    pub interval: Seconds,
    /// The job over many nodes, where the source tells of several.
    pub cluster: Cluster,
}

impl Monitor {
    /// Nothing seen; perhaps a process to wait for. A sample is expected each second.
    #[must_use]
    pub fn new(attach: Option<u32>) -> Self {
        Self {
            source: SourceState::Starting,
            sample: None,
            history: History::default(),
            spans: Spans::default(),
            view: MonitorView::default(),
            span: HistorySpan::default(),
            told: None,
            metric: DeviceMetric::Memory,
            over: None,
            every_device: false,
            attached: attach.map(AttachedProcess::to),
            selected: SelectedRow::Device(0),
            page: 0,
            list: ProcessList::default(),
            ending: None,
            asked_to_end: None,
            peaks: Vec::new(),
            scales: DeviceScales::default(),
            dropped: 0,
            interval: Seconds(1.0),
            cluster: Cluster::default(),
        }
    }

    /// A key while the processes to show are being typed: they follow at once.
    pub(super) fn search(&mut self, key: KeyPress) {
        let list = &mut self.list;
        match key {
            KeyPress::Char(c) => list.type_text(c.encode_utf8(&mut [0; 4])),
            KeyPress::Backspace => {
                list.sought.pop();
            }
            KeyPress::Ctrl('u') => list.sought.clear(),
            KeyPress::Enter => list.typing = false,
            KeyPress::Esc | KeyPress::Ctrl('c') => {
                list.typing = false;
                list.sought.clear();
            }
            _ => {}
        }
        self.keep_selection();
    }

    /// The devices of the newest sample.
    #[must_use]
    pub fn devices(&self) -> &[DeviceSample] {
        self.sample.as_ref().map_or(&[], |sample| &sample.devices)
    }

    /// The processes of the newest sample: those that are sought, in the order that was chosen;
    /// with their children where they are looked at closely.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessRow<'_>> {
        let tree = self.view == MonitorView::Processes;
        self.sample.as_ref().map_or_else(Vec::new, |sample| processes::rows(sample, &self.list, tree))
    }

    /// The pid that the attached process has here: the driver may tell that of another namespace.
    #[must_use]
    pub fn attached_here(&self) -> Option<u32> {
        self.attached.as_ref().map(|attached| self.here(attached.pid))
    }

    /// The pid that a process of the driver's has here.
    #[must_use]
    pub fn here(&self, pid: u32) -> u32 {
        self.host(pid).and_then(|host| host.here).unwrap_or(pid)
    }

    /// What the host knows of a process on a device.
    #[must_use]
    pub fn host(&self, pid: u32) -> Option<&HostProcess> {
        self.sample.as_ref()?.processes.iter().find(|host| host.pid == pid)
    }

    /// How many processes have numbers of another PID namespace, and how many there are.
    #[must_use]
    pub fn elsewhere(&self) -> (usize, usize) {
        self.sample.as_ref().map_or((0, 0), attached::elsewhere)
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
            SelectedRow::Process(pid) => Some(pid),
            SelectedRow::Device(position) => self
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
            SelectedRow::Device(position) => position,
            SelectedRow::Process(pid) => {
                let row = self.processes().iter().position(|row| row.pid == pid).unwrap_or(0);
                self.devices().len() + row
            }
        }
    }

    /// Selects what stands in a row.
    pub fn select_row(&mut self, row: usize) {
        let process = row.checked_sub(self.devices().len()).and_then(|row| Some(self.processes().get(row)?.pid));
        self.selected = process.map_or(SelectedRow::Device(row), SelectedRow::Process);
    }

    /// The device whose past is shown: the selected one, or the one of the selected process.
    #[must_use]
    pub fn shown_device(&self) -> usize {
        match self.selected {
            SelectedRow::Device(position) => position,
            SelectedRow::Process(pid) => {
                let on = |device: &DeviceSample| {
                    device.processes.value().is_some_and(|list| list.iter().any(|process| process.pid == pid))
                };
                self.devices().iter().position(on).unwrap_or(0)
            }
        }
    }

    /// The device that the run is on: the one where the attached process holds most, or everything where the driver
    /// tells other pids; the shown one where nothing is attached. None while the attached process is on none.
    #[must_use]
    pub fn run_device(&self) -> Option<usize> {
        let Some(attached) = &self.attached else {
            let first = || self.run_devices().next().map(|(position, _)| position);
            return Some(self.shown_device()).filter(|position| self.is_of_run(*position)).or_else(first);
        };
        match attached.device {
            Some(index) => self.devices().iter().position(|device| device.index == index),
            None => (attached.state == AttachedState::Unmatched).then(|| self.shown_device()),
        }
    }

    /// Attaches to a process, or lets go of it when it is the attached one.
    pub fn toggle_attach(&mut self, pid: u32) {
        self.attached = match &self.attached {
            Some(attached) if attached.pid == pid => None,
            _ => Some(AttachedProcess::to(pid)),
        };
        self.peaks.clear();
        self.note_peaks();
    }

    /// The process that was attached by its pid here: the launcher, where a rank of it is followed.
    #[must_use]
    pub fn attached_by_user(&self) -> Option<u32> {
        self.attached.as_ref().and_then(|attached| attached.launcher).or_else(|| self.attached_here())
    }

    /// Follows the rank of the attached launcher that holds most, the lowest of equals; one of its next run, where that
    /// has other processes than all of the one `before`.
    pub fn follow_rank(&mut self, before: &[RankProcess], ranks: &[RankProcess]) {
        let Some(attached) = self.attached.as_ref() else { return };
        let is_there = |rank: &RankProcess| before.iter().any(|known| known.pid == rank.pid);
        if attached.launcher.is_some() && (before.is_empty() || ranks.iter().any(is_there)) {
            return;
        }
        let launcher = attached.launcher.unwrap_or(attached.pid);
        let here = self.here(launcher);
        if ranks.iter().any(|rank| rank.pid == here) {
            return;
        }
        let held = |pid: u32| {
            let lists = self.devices().iter().filter_map(|device| device.processes.value()).flatten();
            lists
                .filter(|process| self.here(process.pid) == pid)
                .filter_map(|process| process.memory.value().copied())
                .max()
        };
        let most = ranks.iter().max_by_key(|rank| (held(rank.pid), std::cmp::Reverse(rank.rank)));
        if let Some(rank) = most {
            self.attached = Some(AttachedProcess { launcher: Some(launcher), ..AttachedProcess::to(rank.pid) });
            self.peaks.clear();
            self.note_peaks();
        }
    }

    /// Forgets what was seen, and waits for the attached process anew.
    pub fn restart(&mut self, from: Option<Self>) {
        let seen = from.unwrap_or_else(|| Self::new(self.attached.as_ref().map(|attached| attached.pid)));
        *self = Self {
            source: std::mem::replace(&mut self.source, SourceState::Starting),
            selected: self.selected,
            view: self.view,
            span: self.span,
            list: std::mem::take(&mut self.list),
            interval: self.interval,
            cluster: std::mem::take(&mut self.cluster),
            ..seen
        };
    }

    /// Takes in a sample.
    pub fn take(&mut self, mut sample: Sample) {
        self.follow_places(&sample.devices);
        if let Some(past) = sample.past.take() {
            self.history.begin(past.position, &past.samples);
            self.spans.begin(past.position, &past.samples);
        }
        self.scales.note(&sample.devices);
        self.history.push(&sample);
        self.spans.push(&sample, self.told.as_deref(), self.shown_device());
        self.dropped = sample.dropped;
        self.sample = Some(sample);
        self.note_peaks();
        self.keep_selection();
    }

    /// What is selected and no longer shown is not selected any more.
    pub fn keep_selection(&mut self) {
        if let SelectedRow::Process(pid) = self.selected
            && !self.processes().iter().any(|row| row.pid == pid)
        {
            self.selected = SelectedRow::Device(0);
        }
    }

    /// Age of the newest sample.
    #[must_use]
    pub fn age(&self, now: Moment) -> Option<Seconds> {
        self.sample.as_ref().map(|sample| now.since(sample.at))
    }

    /// Whether the next sample comes within a second.
    #[must_use]
    pub fn is_near(&self, now: Moment) -> bool {
        self.interval.0 <= 1.0 && self.is_fresh(now)
    }

    /// Whether the figures are as fresh as they can be: the next sample is not late.
    #[must_use]
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.age(now).is_some_and(|age| age.0 <= self.interval.0 + 1.0)
    }
}

#[cfg(test)]
mod tests;
