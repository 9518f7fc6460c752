//! How far the run is: what its log, its hook and its command tell, in one.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::reading::{HookedRun, LogFormat, Moment, Progress, ProgressSource, Reading, ReadingKind};

impl Telemetry {
    /// The process and how far it is; none where nothing is known of any.
    #[must_use]
    pub fn progress(&self, monitor: &Monitor, now: Moment) -> Option<(Option<u32>, Progress)> {
        let attached = monitor.attached.as_ref().map(|attached| attached.pid);
        let hook = self.hooked(monitor, now);
        let log = self.log(monitor);
        let hooked = hook.map(HookedRun::progress);
        let pid = attached.or_else(|| hook.map(|run| run.pid)).or(self.news.pid);
        let mut known = match (log, hooked) {
            (Some(log), Some(hooked)) => joined(log, hooked),
            (Some(log), None) => log.clone(),
            (None, Some(hooked)) => hooked,
            (None, None) => {
                // Of the rhythm of a GPU alone nobody knows whose it is.
                attached?;
                self.rhythm.value()?;
                Progress { told_by: ProgressSource::Rhythm, step_time: self.rhythm.clone(), ..Progress::default() }
            }
        };
        // Of optimizer steps: a bar, and a log whose steps are derived, may count batches.
        let counts_steps =
            known.step.kind() == Some(ReadingKind::Measured) && known.told_by != ProgressSource::Log(LogFormat::Bar);
        let stated = || self.stated_of_it(monitor)?.steps.filter(|_| counts_steps);
        if let (Reading::Absent(_), Some(steps)) = (&known.total_steps, stated()) {
            known.total_steps = Reading::estimated(steps, now);
        }
        Some((pid, known))
    }
}

/// The log's figures, with the hook's where the log has none, or one that is only derived. A bar has the time of what it
/// counts, which may be batches of which several make a step.
fn joined(log: &Progress, hooked: Progress) -> Progress {
    fn better<T: Clone>(log: &Reading<T>, hooked: Reading<T>) -> Reading<T> {
        let derived = log.kind() != Some(ReadingKind::Measured) && hooked.value().is_some();
        if derived { hooked } else { log.clone() }
    }
    let by_bar = matches!(log.told_by, ProgressSource::Log(LogFormat::Bar));
    let counts_batches = by_bar || log.step.kind() == Some(ReadingKind::Estimated);
    let is_hooks = counts_batches && hooked.step_time.value().is_some();
    let mut counted = log.clone();
    if let (Reading::Absent(_), Reading::Known { .. }) = (&log.step, &hooked.step) {
        // A log of losses alone counts nothing.
        counted = Progress { told_by: hooked.told_by, step: hooked.step, total_steps: hooked.total_steps, ..counted };
    }
    Progress {
        step_time: if is_hooks { hooked.step_time } else { better(&log.step_time, hooked.step_time) },
        tokens_per_s_per_gpu: better(&log.tokens_per_s_per_gpu, hooked.tokens_per_s_per_gpu),
        allocated: better(&log.allocated, hooked.allocated),
        peak_allocated: better(&log.peak_allocated, hooked.peak_allocated),
        peak_reserved: better(&log.peak_reserved, hooked.peak_reserved),
        // Steps since the process began are none of the run's, which may have been resumed.
        ..counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::run::inferred::StatedValues;
    use crate::reading::RunNews;
    use crate::units::Seconds;

    const NOW: Moment = Moment(1_000_000);

    /// Lightning's bar: 18 batches at 0.75 s, of which two make a step of 1.5 s.
    #[test]
    fn a_bar_of_batches_is_no_time_of_a_step() {
        let bar = |step| Progress {
            told_by: ProgressSource::Log(LogFormat::Lightning),
            step,
            step_time: Reading::measured(Seconds(0.75), NOW),
            ..Progress::default()
        };
        let hook = |seconds| Progress { step_time: seconds, ..Progress::default() };
        let known = || Reading::measured(Seconds(1.5), NOW);
        let time = |log: &Progress, hooked| joined(log, hook(hooked)).step_time.value().copied();
        assert_eq!(time(&bar(Reading::estimated(18, NOW)), known()), Some(Seconds(1.5)));
        assert_eq!(time(&bar(Reading::estimated(18, NOW)), Reading::default()), Some(Seconds(0.75)));
        // One that says its optimizer steps is taken at its word.
        assert_eq!(time(&bar(Reading::measured(9, NOW)), known()), Some(Seconds(0.75)));
    }

    /// litgpt and most loops of one's own never print how many steps there are.
    #[test]
    fn steps_that_the_command_states_give_an_eta_to_its_own_process_where_no_log_tells_them() {
        let (mut run, monitor) = (Telemetry::default(), Monitor::new(Some(7)));
        let stated = |pid| Some(StatedValues { pid, values: Vec::new(), steps: Some(2_000) });
        let log = |total_steps| Progress {
            told_by: ProgressSource::Log(LogFormat::Text),
            step: Reading::measured(500, NOW),
            step_time: Reading::measured(Seconds(0.5), NOW),
            total_steps,
            ..Progress::default()
        };
        let left = |run: &Telemetry| {
            let (_, progress) = run.progress(&monitor, NOW).unwrap();
            (progress.total_steps.value().copied(), progress.remaining().value().map(|left| left.0))
        };
        run.take(RunNews { pid: Some(7), progress: log(Reading::default()), ..RunNews::default() });
        assert_eq!(left(&run), (None, None));
        run.stated = stated(8);
        assert_eq!(left(&run), (None, None));
        // 1 500 steps of half a second.
        run.stated = stated(7);
        assert_eq!(left(&run), (Some(2_000), Some(750.0)));
        let batches = Progress { step: Reading::estimated(500, NOW), ..log(Reading::default()) };
        run.take(RunNews { pid: Some(7), progress: batches, ..RunNews::default() });
        assert_eq!(left(&run), (None, None), "batches are no steps");
        run.take(RunNews { pid: Some(7), progress: log(Reading::measured(900, NOW)), ..RunNews::default() });
        assert_eq!(left(&run), (Some(900), Some(200.0)));
    }
}
