//! How long processes could have run and waited for a core, by `/proc/PID/schedstat`: it tells a run that has too little
//! of a CPU from one that waits for data. Only of the main thread, which starts every step's work: a trainer has hundreds
//! of threads, and each would be a file to read.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use super::waits::read;
use crate::reading::{Absence, Moment, Reading};
use crate::units::{Fraction, Seconds};

/// A share is taken over the last of these: as long as rates are averaged over.
const WINDOW: Seconds = Seconds(30.0);

/// Less says nothing: a single turn of another program counts too much.
const SHORTEST: Seconds = Seconds(4.0);

/// What is remembered of processes between two looks.
#[derive(Debug, Default)]
pub struct CpuWaits {
    seen: HashMap<u32, ProcessWaits>,
}

#[derive(Debug)]
struct ProcessWaits {
    started: u64,
    /// When, and the nanoseconds that it had waited by then; oldest first.
    looks: VecDeque<(Moment, u64)>,
}

impl CpuWaits {
    /// The share of the last half minute in which the process of that pid and start waited for a core; `here` is where it is
    /// looked at, its own pid among them.
    pub fn of(&mut self, here: (&Path, u32), pid: u32, started: u64, now: Moment) -> Reading<Fraction> {
        let Some(waited) = waited(here.0, here.1) else {
            self.seen.remove(&pid);
            return Reading::Absent(Absence::NotSupported);
        };
        let known = self.seen.entry(pid).or_insert_with(|| ProcessWaits { started, looks: VecDeque::new() });
        if known.started != started || known.looks.back().is_some_and(|(at, before)| *at > now || *before > waited) {
            *known = ProcessWaits { started, looks: VecDeque::new() };
        }
        known.looks.push_back((now, waited));
        // One look from before the window stays: the share is of all of it.
        while known.looks.get(1).is_some_and(|(at, _)| now.since(*at).0 >= WINDOW.0) {
            known.looks.pop_front();
        }
        let Some((first, before)) = known.looks.front() else { return Reading::not_read() };
        let lasted = now.since(*first);
        if lasted.0 < SHORTEST.0 {
            return Reading::Absent(Absence::TooShort);
        }
        let share = waited.saturating_sub(*before) as f64 / 1e9 / lasted.0;
        Reading::measured(Fraction(share.min(1.0)), now)
    }

    /// Drops what belongs to processes that nobody asks for any more.
    pub fn forget(&mut self, is_asked: impl Fn(u32) -> bool) {
        self.seen.retain(|pid, _| is_asked(*pid));
    }
}

/// How long the main thread of a process has waited for a core since it started.
#[must_use]
pub fn waited_for_core(root: &Path, pid: u32) -> Option<Seconds> {
    Some(Seconds(waited(root, pid)? as f64 / 1e9))
}

/// Nanoseconds on a run queue: the second field (Documentation/scheduler/sched-stats.rst). A kernel that does not count
/// writes zeros: nothing has ever run for none.
fn waited(root: &Path, pid: u32) -> Option<u64> {
    let text = read(&root.join(pid.to_string()).join("schedstat"))?;
    let mut fields = text.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    fields.next().filter(|ran| *ran > 0)?;
    fields.next()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PID: u32 = 7;

    #[test]
    fn the_share_is_of_the_last_half_minute_and_starts_over_with_another_process() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        let mut waits = CpuWaits::default();
        let mut look = |second: u64, waited_s: f64, started: u64| {
            let text = format!("{} {:.0} 42\n", second * 100_000_000, waited_s * 1e9);
            fs::write(root.path().join("7/schedstat"), text).unwrap();
            waits.of((root.path(), PID), PID, started, Moment(second * 1000)).value().map(|share| share.0)
        };
        assert_eq!(look(100, 50.0, 1), None, "one look");
        assert_eq!(look(102, 51.0, 1), None, "two seconds");
        assert_eq!(look(110, 55.0, 1), Some(0.5));
        // 20 s more without a wait: 5 s of 30.
        assert_eq!(look(130, 55.0, 1), Some(5.0 / 30.0));
        // The look of second 110 is the oldest of those 30 s.
        assert_eq!(look(140, 55.0, 1), Some(0.0));
        assert_eq!(look(150, 1.0, 2), None, "another process");
        waits.forget(|_| false);
        assert!(waits.seen.is_empty());
    }

    #[test]
    fn a_kernel_without_the_file_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        let told = CpuWaits::default().of((root.path(), PID), PID, 1, Moment(1000));
        assert_eq!(told, Reading::Absent(Absence::NotSupported));
        fs::create_dir(root.path().join("7")).unwrap();
        fs::write(root.path().join("7/schedstat"), "1\n").unwrap();
        assert_eq!(waited_for_core(root.path(), PID), None);
        fs::write(root.path().join("7/schedstat"), "100 2500000000 3\n").unwrap();
        assert_eq!(waited_for_core(root.path(), PID), Some(Seconds(2.5)));
    }
}
