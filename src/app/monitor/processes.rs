//! The list of processes: which rows there are, in which order, and which of them are sought.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use serde::{Deserialize, Serialize};

use crate::order::StableOrder;
use crate::reading::{DeviceSample, HostProcess, ProcessWork, Reading, Sample};
use crate::units::{Bytes, Fraction};

/// The longest text to find.
const LONGEST: usize = 60;

/// What rows are ordered by. Figures: the highest first, what is not known last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SortBy {
    /// The first device, then the pid: rows keep their places.
    #[default]
    Gpu,
    /// Device memory.
    Memory,
    /// Share of the device's time.
    Busy,
    /// Host processor time.
    Cpu,
    /// Host memory.
    Resident,
    /// The longest running first.
    Runtime,
}

impl SortBy {
    /// The word in the frame.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Memory => "memory",
            Self::Busy => "sm",
            Self::Cpu => "cpu",
            Self::Resident => "host memory",
            Self::Runtime => "time",
        }
    }

    /// The order after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Gpu => Self::Memory,
            Self::Memory => Self::Busy,
            Self::Busy => Self::Cpu,
            Self::Cpu => Self::Resident,
            Self::Resident => Self::Runtime,
            Self::Runtime => Self::Gpu,
        }
    }
}

/// How the list is shown.
#[derive(Debug, Clone, Default)]
pub struct ProcessList {
    /// The order.
    pub sort: SortBy,
    /// What is sought in pid, user and command; empty: everything is shown.
    pub sought: String,
    /// It is being typed.
    pub typing: bool,
}

impl ProcessList {
    /// Shows everything again. False where everything is shown.
    pub fn clear(&mut self) -> bool {
        let filtered = !self.sought.is_empty();
        self.sought.clear();
        filtered
    }

    /// Adds to what is sought as far as there is room.
    pub fn type_text(&mut self, text: &str) {
        for c in text.chars().filter(|c| !c.is_control()) {
            if self.sought.len() + c.len_utf8() <= LONGEST {
                self.sought.push(c);
            }
        }
    }
}

/// A process with everything it holds, over all devices; or a child of one, which holds nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessRow<'a> {
    /// Its pid.
    pub pid: u32,
    /// The devices and the memory held there, in device order.
    pub on: Vec<(&'a DeviceSample, &'a Reading<Bytes>)>,
    /// Its share of the time of the device where that is highest.
    pub busy: Reading<Fraction>,
    /// Whether it computes or draws.
    pub work: ProcessWork,
    /// What the host knows of it.
    pub host: Option<&'a HostProcess>,
    /// Generations below the process on the device: 0 is that one itself.
    pub depth: usize,
}

impl ProcessRow<'_> {
    /// All memory that it holds; none where no device tells.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        let mut known = self.on.iter().filter_map(|(_, memory)| memory.value().copied()).peekable();
        known.peek()?;
        Some(known.sum())
    }

    /// What it is ordered by: the highest comes first, the unknown last.
    fn key(&self, by: SortBy) -> Option<f64> {
        match by {
            SortBy::Gpu => None,
            SortBy::Memory => self.memory().map(Bytes::as_f64),
            SortBy::Busy => self.busy.value().map(|share| share.0),
            SortBy::Cpu => self.host?.cpu.value().map(|share| share.0),
            SortBy::Resident => self.host?.resident.value().map(|bytes| bytes.as_f64()),
            SortBy::Runtime => self.host?.started.value().map(|started| -(*started as f64)),
        }
    }

    /// What is searched.
    fn text(&self) -> String {
        let known = |reading: fn(&HostProcess) -> &Reading<String>| {
            self.host.and_then(|host| reading(host).value()).map_or("", String::as_str)
        };
        format!("{} {} {}", self.pid, known(|host| &host.user), known(|host| &host.command))
    }
}

/// The rows of a sample: those that are sought, in order; as a tree, each with its children below it.
#[must_use]
pub fn rows<'a>(sample: &'a Sample, list: &ProcessList, tree: bool) -> Vec<ProcessRow<'a>> {
    let mut rows = if sample.devices.is_empty() { without_device(sample) } else { on_devices(sample) };
    // By GPU, then by part of it.
    rows.order_by_key(|row| {
        (row.on.first().map(|(device, _)| (device.index, device.mig.map(|part| part.number))), row.pid)
    });
    if list.sort != SortBy::Gpu {
        let key = |row: &ProcessRow<'_>| row.key(list.sort).unwrap_or(f64::NEG_INFINITY);
        rows.order_by(|one, other| key(other).total_cmp(&key(one)));
    }
    let mut all = Vec::new();
    for row in rows {
        let pid = row.host.and_then(|host| host.here).unwrap_or(row.pid);
        all.push(row);
        if tree {
            add_children(sample, pid, 1, &mut all);
        }
    }
    if !list.sought.is_empty() {
        let found = matches(&all, &list.sought);
        let mut found = found.into_iter();
        all.retain(|_| found.next() == Some(true));
    }
    all
}

fn on_devices(sample: &Sample) -> Vec<ProcessRow<'_>> {
    let mut rows: Vec<ProcessRow<'_>> = Vec::new();
    for device in &sample.devices {
        for process in device.processes.value().into_iter().flatten() {
            match rows.iter_mut().find(|row| row.pid == process.pid) {
                Some(row) => {
                    row.on.push((device, &process.memory));
                    let more = process.busy.value().map(|share| share.0) > row.busy.value().map(|share| share.0);
                    if more {
                        row.busy = process.busy.clone();
                    }
                }
                None => rows.push(ProcessRow {
                    pid: process.pid,
                    on: vec![(device, &process.memory)],
                    busy: process.busy.clone(),
                    work: process.work,
                    host: sample.processes.iter().find(|host| host.pid == process.pid),
                    depth: 0,
                }),
            }
        }
    }
    rows
}

/// The processes of a run on the CPU, as the host knows them; nothing is told of a device.
fn without_device(sample: &Sample) -> Vec<ProcessRow<'_>> {
    let there = sample.processes.iter().filter(|host| host.started.value().is_some());
    there
        .map(|host| ProcessRow {
            pid: host.pid,
            on: Vec::new(),
            busy: Reading::not_read(),
            work: ProcessWork::default(),
            host: Some(host),
            depth: 0,
        })
        .collect()
}

/// Deeper trees than any are not followed.
const DEEPEST: usize = 8;

fn add_children<'a>(sample: &'a Sample, parent: u32, depth: usize, rows: &mut Vec<ProcessRow<'a>>) {
    if depth > DEEPEST {
        return;
    }
    for child in sample.children.iter().filter(|child| child.parent == Some(parent)) {
        rows.push(ProcessRow {
            pid: child.pid,
            on: Vec::new(),
            busy: Reading::not_read(),
            work: ProcessWork::default(),
            host: Some(child),
            depth,
        });
        add_children(sample, child.pid, depth + 1, rows);
    }
}

/// Which rows have the letters of `sought`, in their order; words apart each on their own.
fn matches(rows: &[ProcessRow<'_>], sought: &str) -> Vec<bool> {
    let pattern = Pattern::parse(sought, CaseMatching::Smart, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut letters = Vec::new();
    rows.iter().map(|row| pattern.score(Utf32Str::new(&row.text(), &mut letters), &mut matcher).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{DeviceProcess, DeviceSample, Moment};

    const AT: Moment = Moment(1_000);

    fn host(pid: u32, command: &str, cpu: f64, parent: Option<u32>) -> HostProcess {
        HostProcess {
            pid,
            parent,
            command: Reading::measured(command.to_owned(), AT),
            cpu: Reading::measured(Fraction(cpu), AT),
            ..HostProcess::default()
        }
    }

    fn holding(pid: u32, gib: f64) -> DeviceProcess {
        DeviceProcess::holding(pid, Reading::measured(Bytes::from_gib(gib), AT))
    }

    fn sample() -> Sample {
        let device =
            |index, list| DeviceSample { index, processes: Reading::measured(list, AT), ..DeviceSample::default() };
        Sample {
            at: AT,
            devices: vec![device(0, vec![holding(7, 10.0), holding(9, 30.0)]), device(1, vec![holding(8, 20.0)])],
            processes: vec![
                host(7, "python train.py", 0.5, None),
                host(8, "python eval.py", 2.0, None),
                host(9, "jupyter", 0.1, None),
            ],
            children: vec![host(70, "loader", 1.0, Some(7)), host(71, "worker", 0.2, Some(70))],
            ..Sample::default()
        }
    }

    fn pids(list: &ProcessList) -> Vec<u32> {
        rows(&sample(), list, true).iter().map(|row| row.pid).collect()
    }

    #[test]
    fn without_a_device_the_process_itself_has_a_row_while_it_is_there() {
        let mut there = host(7, "python train.py", 0.5, None);
        there.started = Reading::measured(1, AT);
        let mut sample = Sample { at: AT, processes: vec![there], ..Sample::default() };
        let pids = |sample: &Sample| {
            rows(sample, &ProcessList::default(), false).iter().map(|row| row.pid).collect::<Vec<_>>()
        };
        assert_eq!(pids(&sample), [7]);
        assert_eq!(rows(&sample, &ProcessList::default(), false)[0].memory(), None);
        sample.processes[0].started = Reading::Absent(crate::reading::Absence::Gone);
        assert!(pids(&sample).is_empty());
    }

    #[test]
    fn children_stand_below_their_parents_in_every_order() {
        for (sort, expected) in [
            (SortBy::Gpu, [7, 70, 71, 9, 8]),
            (SortBy::Memory, [9, 8, 7, 70, 71]),
            (SortBy::Cpu, [8, 7, 70, 71, 9]),
            // Nobody knows: as by device.
            (SortBy::Busy, [7, 70, 71, 9, 8]),
        ] {
            assert_eq!(pids(&ProcessList { sort, ..ProcessList::default() }), expected, "{sort:?}");
        }
        let sample = sample();
        let depths: Vec<usize> = rows(&sample, &ProcessList::default(), true).iter().map(|row| row.depth).collect();
        assert_eq!(depths, [0, 1, 2, 0, 0]);
    }

    #[test]
    fn letters_in_order_find_and_words_apart_must_all_be_there() {
        let find = |sought: &str| pids(&ProcessList { sought: sought.to_owned(), ..ProcessList::default() });
        assert_eq!(find("trn"), [7]);
        assert_eq!(find("py ev"), [8]);
        assert_eq!(find("9"), [9]);
        assert_eq!(find("nobody"), Vec::<u32>::new());
    }

    #[test]
    fn what_is_sought_is_bounded_and_on_one_line() {
        let mut list = ProcessList::default();
        list.type_text("a\u{1b}b\n");
        assert_eq!(list.sought, "ab");
        list.type_text(&"é".repeat(500));
        assert_eq!(list.sought.len(), LONGEST);
    }
}
