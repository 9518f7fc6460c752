//! How long the processes of a run on a CPU waited for a core of it, over the whole run.

use std::collections::HashMap;
use std::path::Path;

use crate::observe::waited_for_core;
use crate::reading::{HookedRun, Moment, Reading};
use crate::units::{Fraction, Seconds};

/// By pid: when each was looked at first and last, and how long it had waited by then.
#[derive(Debug, Default)]
pub struct RunWaits(HashMap<u32, [(Moment, Seconds); 2]>);

impl RunWaits {
    /// Looks at those that train on the CPU.
    pub fn look(&mut self, runs: &[HookedRun], now: Moment) {
        let on_cpu = |run: &&HookedRun| run.about.as_ref().is_some_and(|about| about.device == "cpu");
        for run in runs.iter().filter(on_cpu).filter(|run| run.end.is_none()) {
            if let Some(waited) = waited_for_core(Path::new("/proc"), run.pid) {
                let look = (now, waited);
                self.0.entry(run.pid).or_insert([look, look])[1] = look;
            }
        }
    }

    /// The share of its time in which a process waited.
    pub fn of(&self, pid: u32) -> Reading<Fraction> {
        let Some([(first, before), (last, after)]) = self.0.get(&pid) else { return Reading::not_read() };
        let lasted = last.since(*first);
        if lasted.0 <= 0.0 {
            return Reading::not_read();
        }
        Reading::measured(Fraction(((*after - *before).0 / lasted.0).clamp(0.0, 1.0)), *last)
    }
}
