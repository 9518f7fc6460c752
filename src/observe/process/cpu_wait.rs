//! How long processes could have run and waited for a core, by `schedstat` of their threads: it tells a run that has too
//! little of a CPU from one that waits for data.
//!
//! The main thread starts every step's work. Where it shares that with others, a part is done when the last of them has had
//! its core, and the first ones spin until then (libgomp's barriers): the step waits while any of them waits.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;

use super::waits::read;
use crate::reading::{Absence, Moment, Reading};
use crate::units::{Fraction, Seconds};

/// A share is taken over the last of these: as long as rates are averaged over.
const WINDOW: Seconds = Seconds(30.0);

/// Less says nothing: a single turn of another program counts too much.
const SHORTEST: Seconds = Seconds(4.0);

/// A thread that runs, or waits to run, for less than this share of the main thread's time holds no step up.
const WORKS_WITH: f64 = 0.5;

/// No trainer has more threads that matter.
const MOST_THREADS: usize = 1024;

/// What is remembered of processes between two looks.
#[derive(Debug, Default)]
pub struct CpuWaits {
    seen: HashMap<u32, ProcessWaits>,
}

#[derive(Debug)]
struct ProcessWaits {
    started: u64,
    /// When, and what its threads had by then; oldest first.
    looks: VecDeque<(Moment, Threads)>,
}

/// What the threads of a process have had since they began, the main one first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Threads(Vec<ThreadTime>);

/// Nanoseconds of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadTime {
    thread: u32,
    ran: u64,
    waited: u64,
}

impl CpuWaits {
    /// The share of the last half minute in which the process of that pid and start waited for a core; `here` is where it is
    /// looked at, its own pid among them.
    pub fn of(&mut self, here: (&Path, u32), pid: u32, started: u64, now: Moment) -> Reading<Fraction> {
        let Some(threads) = Threads::of(here.0, here.1) else {
            self.seen.remove(&pid);
            return Reading::Absent(Absence::NotSupported);
        };
        let known = self.seen.entry(pid).or_insert_with(|| ProcessWaits { started, looks: VecDeque::new() });
        let goes_back = |(at, before): &(Moment, Threads)| *at > now || before.main_waited() > threads.main_waited();
        if known.started != started || known.looks.back().is_some_and(goes_back) {
            *known = ProcessWaits { started, looks: VecDeque::new() };
        }
        known.looks.push_back((now, threads));
        // One look from before the window stays: the share is of all of it.
        while known.looks.get(1).is_some_and(|(at, _)| now.since(*at).0 >= WINDOW.0) {
            known.looks.pop_front();
        }
        let (Some((first, before)), Some((_, after))) = (known.looks.front(), known.looks.back()) else {
            return Reading::not_read();
        };
        let lasted = now.since(*first);
        if lasted.0 < SHORTEST.0 {
            return Reading::Absent(Absence::TooShort);
        }
        Reading::measured(after.waited_since(before, lasted), now)
    }

    /// Drops what belongs to processes that nobody asks for any more.
    pub fn forget(&mut self, is_asked: impl Fn(u32) -> bool) {
        self.seen.retain(|pid, _| is_asked(*pid));
    }
}

impl Threads {
    /// None where the kernel does not count: a process that has never run reads nothing.
    fn of(root: &Path, pid: u32) -> Option<Self> {
        let process = root.join(pid.to_string());
        let main = thread_time(&process.join("schedstat"), pid).filter(|main| main.ran > 0)?;
        let entries = fs::read_dir(process.join("task")).into_iter().flatten().take(MOST_THREADS);
        let others = entries.filter_map(|entry| {
            let thread = entry.ok()?.file_name().to_str()?.parse::<u32>().ok().filter(|thread| *thread != pid)?;
            thread_time(&process.join("task").join(thread.to_string()).join("schedstat"), thread)
        });
        Some(Self(std::iter::once(main).chain(others).collect()))
    }

    fn main_waited(&self) -> u64 {
        self.0.first().map_or(0, |main| main.waited)
    }

    /// The share of that time in which any of the threads that do the work waited, taken as chance has it: each waits for
    /// its own core.
    fn waited_since(&self, before: &Self, lasted: Seconds) -> Fraction {
        let share = |nanoseconds: u64| (nanoseconds as f64 / 1e9 / lasted.0).min(1.0);
        let since = self.0.iter().filter_map(|now| {
            let then = before.0.iter().find(|then| then.thread == now.thread)?;
            Some((share(now.ran.saturating_sub(then.ran)), share(now.waited.saturating_sub(then.waited))))
        });
        let mut works = 0.0;
        let mut waits = 0.0;
        for (at, (ran, waited)) in since.enumerate() {
            if at == 0 {
                works = ran + waited;
            }
            if at == 0 || ran + waited >= WORKS_WITH * works {
                waits += (1.0 - waits) * waited;
            }
        }
        Fraction(waits)
    }
}

/// How long the main thread of a process has waited for a core since it started.
#[must_use]
pub fn waited_for_core(root: &Path, pid: u32) -> Option<Seconds> {
    let main = thread_time(&root.join(pid.to_string()).join("schedstat"), pid).filter(|main| main.ran > 0)?;
    Some(Seconds(main.waited as f64 / 1e9))
}

/// Nanoseconds that a thread ran, and those on a run queue: the first two fields (Documentation/scheduler/sched-stats.rst).
/// A kernel that does not count writes zeros.
fn thread_time(path: &Path, thread: u32) -> Option<ThreadTime> {
    let text = read(path)?;
    let mut fields = text.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    Some(ThreadTime { thread, ran: fields.next()?, waited: fields.next()? })
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
    fn a_step_waits_while_any_of_the_threads_that_do_its_work_waits() {
        let root = tempfile::tempdir().unwrap();
        let mut waits = CpuWaits::default();
        let mut look = |second: u64, threads: &[(u32, f64, f64)]| {
            for (thread, ran, waited) in threads {
                let text = format!("{:.0} {:.0} 42\n", (ran + 1.0) * 1e9, waited * 1e9);
                let folder = root.path().join("7/task").join(thread.to_string());
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("schedstat"), &text).unwrap();
                if *thread == PID {
                    fs::write(root.path().join("7/schedstat"), &text).unwrap();
                }
            }
            waits.of((root.path(), PID), PID, 1, Moment(second * 1000)).value().map(|share| share.0)
        };
        look(0, &[(7, 0.0, 0.0), (8, 0.0, 0.0), (9, 0.0, 0.0)]);
        // Half of the time each of two has a core: both have one in a quarter. A third hardly ever runs.
        let told = look(10, &[(7, 5.0, 5.0), (8, 5.0, 5.0), (9, 0.5, 0.5)]).unwrap();
        assert!((told - 0.75).abs() < 1e-9, "{told}");
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
