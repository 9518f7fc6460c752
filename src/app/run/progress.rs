//! How far the run is: what its log, its hook and its command tell, in one.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::reading::{HookedRun, LogFormat, Moment, Progress, ProgressSource, Reading, ReadingKind};
use crate::units::TokensPerSec;

/// Where the counts of a log and of the hook stood when the log told a step last: many logs tell one in twenty or a
/// hundred, and the hook goes on counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CountAnchor {
    pid: u32,
    log: u64,
    hook: u64,
    /// From the line before to this one both counted as many: they count the same.
    is_alike: bool,
    /// The log counted clearly more: passes, of which several make a step.
    counts_passes: bool,
    /// The step that was told last: a count goes back only where the log does.
    told: u64,
}

impl CountAnchor {
    /// Both are read at other moments: so many steps may lie between.
    fn counts_alike(&self, log: u64, hook: u64) -> bool {
        let (by_log, by_hook) = (log.saturating_sub(self.log), hook.saturating_sub(self.hook));
        by_log > 0 && by_log.abs_diff(by_hook) <= (by_log / 10).max(2)
    }

    /// Whether the log went on by half as many again as the hook's steps, or by more.
    fn counts_more(&self, log: u64, hook: u64) -> bool {
        let (by_log, by_hook) = (log.saturating_sub(self.log), hook.saturating_sub(self.hook));
        by_hook > 0 && by_log > (by_hook + by_hook / 2).max(by_hook + 2)
    }

    /// The step where the hook has counted `hook`.
    fn step(&self, hook: u64) -> u64 {
        let since = if self.is_alike { hook.saturating_sub(self.hook) } else { 0 };
        (self.log + since).max(self.told)
    }
}

impl Telemetry {
    /// Notes where both counts stand, where the log tells another step than before.
    pub(super) fn anchor_counts(&mut self, monitor: &Monitor, now: Moment) {
        let log = self.log(monitor).and_then(|log| log.step.value().copied());
        let hook = self.hooked(monitor, now).and_then(|run| Some((run.pid, run.step.as_ref()?.step)));
        let known = self.anchor.filter(|known| Some(known.pid) == hook.map(|(pid, _)| pid));
        self.anchor = log.zip(hook).map(|(log, (pid, hook))| match known {
            Some(known) if known.log == log => known,
            Some(known) if known.log < log => {
                let is_alike = known.counts_alike(log, hook);
                let told = if is_alike { known.told.max(log) } else { log };
                CountAnchor { pid, log, hook, is_alike, counts_passes: known.counts_more(log, hook), told }
            }
            _ => CountAnchor { pid, log, hook, is_alike: false, counts_passes: false, told: log },
        });
        if let (Some(anchor), Some((_, hook))) = (&mut self.anchor, hook) {
            anchor.told = anchor.step(hook);
        }
    }

    /// The step that the run is at by both counts; none where the hook does not count what the log does.
    fn counted_on(&self, log: &Progress, hooked: &Progress) -> Option<u64> {
        let anchor = self.anchor.filter(|anchor| anchor.is_alike && log.step.value() == Some(&anchor.log))?;
        let step = anchor.step(*hooked.step.value()?);
        log.total_steps.value().is_none_or(|last| step <= *last).then_some(step)
    }

    /// Whether the time of a step is the hook's and not the log's.
    fn takes_hooks_time(&self, log: &Progress, hooked: &Progress) -> bool {
        takes_hooks_time(log, hooked, self.anchor.is_some_and(|anchor| anchor.counts_passes))
    }

    /// Whether the hook tells the time of a step by now.
    pub(super) fn is_timed_by_hook(&self, monitor: &Monitor, now: Moment) -> bool {
        let Some(hooked) = self.hooked(monitor, now).map(HookedRun::progress) else { return false };
        self.log(monitor).map_or(hooked.step_time.value().is_some(), |log| self.takes_hooks_time(log, &hooked))
    }

    /// The process and how far it is; none where nothing is known of any.
    #[must_use]
    pub fn progress(&self, monitor: &Monitor, now: Moment) -> Option<(Option<u32>, Progress)> {
        let attached = monitor.attached.as_ref().map(|attached| attached.pid);
        let hook = self.hooked(monitor, now);
        let log = self.log(monitor);
        let hooked = hook.map(HookedRun::progress);
        let pid = attached.or_else(|| hook.map(|run| run.pid)).or(self.news.pid);
        let mut known = match (log, hooked) {
            (Some(log), Some(hooked)) => {
                let passes = hook.and_then(|run| run.modules.as_ref()?.passes);
                let of_passes = passes.and_then(|passes| counted_in_steps(log, &hooked, passes));
                let step = self.counted_on(log, &hooked);
                let is_hooks = of_passes.is_some() || self.takes_hooks_time(log, &hooked);
                joined(of_passes.as_ref().unwrap_or(log), hooked, step, is_hooks)
            }
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

/// The log in steps, where it has counted the passes of the steps that the hook has: a bar of batches, of which several make a
/// step.
fn counted_in_steps(log: &Progress, hooked: &Progress, passes: u64) -> Option<Progress> {
    let (by_log, by_hook) = (*log.step.value()?, *hooked.step.value()?);
    let expected = by_hook.checked_mul(passes)?;
    // Both are read at other moments.
    let is_of_passes = passes > 1 && by_log.abs_diff(expected) <= (by_log / 10).max(2 * passes) && by_log > by_hook + 2;
    let total_steps = log.total_steps.clone().map(|total| total / passes);
    is_of_passes.then(|| Progress { step: hooked.step.clone(), total_steps, ..log.clone() })
}

/// Whether a log's steps may be batches, of which several make a step: those of a bar, or derived ones.
fn counts_batches(log: &Progress) -> bool {
    let by_bar = matches!(log.told_by, ProgressSource::Log(LogFormat::Bar));
    by_bar || log.step.kind() == Some(ReadingKind::Estimated)
}

/// Whether the time of a step is the hook's: the log's is only derived, or is the time of what it counts.
fn takes_hooks_time(log: &Progress, hooked: &Progress, counts_passes: bool) -> bool {
    let is_derived = log.step_time.kind() != Some(ReadingKind::Measured);
    hooked.step_time.value().is_some() && (is_derived || counts_passes || counts_batches(log))
}

/// The log's figures, with the hook's where the log has none, or one that is only derived; the time of a step is the
/// hook's where `is_hooks`. From the last step that the log told the hook counts on, to `step` then.
fn joined(log: &Progress, hooked: Progress, step: Option<u64>, is_hooks: bool) -> Progress {
    fn better<T: Clone>(log: &Reading<T>, hooked: Reading<T>) -> Reading<T> {
        let derived = log.kind() != Some(ReadingKind::Measured) && hooked.value().is_some();
        if derived { hooked } else { log.clone() }
    }
    // What the hook counts on one step, in the time that the log says for it: both figures are then of one stretch.
    let hooked_rate = match (log.step_time.value(), hooked.step_time.value()) {
        (Some(by_log), Some(by_hook)) if !is_hooks && log.step_time.kind() == Some(ReadingKind::Measured) => {
            let slower = by_log.0 / by_hook.0;
            hooked.tokens_per_s_per_gpu.clone().map(|rate| TokensPerSec(rate.0 / slower))
        }
        _ => hooked.tokens_per_s_per_gpu.clone(),
    };
    let mut counted = log.clone();
    if let (Reading::Absent(_), Reading::Known { .. }) = (&log.step, &hooked.step) {
        // A log of losses alone counts nothing.
        counted = Progress { told_by: hooked.told_by, step: hooked.step, total_steps: hooked.total_steps, ..counted };
    } else if let (Some(step), Reading::Known { at, .. }, false) = (step, &hooked.step, counts_batches(log)) {
        counted.step = Reading::measured(step, *at);
    }
    Progress {
        step_time: if is_hooks { hooked.step_time } else { log.step_time.clone() },
        tokens_per_s_per_gpu: better(&log.tokens_per_s_per_gpu, hooked_rate),
        allocated: better(&log.allocated, hooked.allocated),
        peak_allocated: better(&log.peak_allocated, hooked.peak_allocated),
        peak_reserved: better(&log.peak_reserved, hooked.peak_reserved),
        loss: better(&log.loss, hooked.loss),
        // Steps since the process began are none of the run's, which may have been resumed.
        ..counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::run::inferred::StatedValues;
    use crate::reading::{HookMemory, HookStep, RunNews};
    use crate::units::Seconds;

    const NOW: Moment = Moment(1_000_000);

    /// A bar of 81 batches of 10 000, of which four make a step: the hook has counted 20. One that counts steps says as many.
    #[test]
    fn a_bar_of_batches_is_told_in_steps_where_the_hook_counts_their_passes() {
        let log = |step| Progress {
            told_by: ProgressSource::Log(LogFormat::Bar),
            step: Reading::estimated(step, NOW),
            total_steps: Reading::measured(10_000, NOW),
            ..Progress::default()
        };
        let hook = Progress { step: Reading::measured(20, NOW), ..Progress::default() };
        let told = |step, passes| counted_in_steps(&log(step), &hook, passes);
        let steps = told(81, 4).unwrap();
        assert_eq!((steps.step.value(), steps.total_steps.value()), (Some(&20), Some(&2_500)));
        assert_eq!(told(81, 1), None);
        assert_eq!(told(20, 4), None, "it counts steps");
        assert_eq!(told(5_080, 4), None, "it goes on from an earlier run");
    }

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
        let time = |log: &Progress, hooked, counts_passes| {
            let hooked = hook(hooked);
            let is_hooks = takes_hooks_time(log, &hooked, counts_passes);
            joined(log, hooked, None, is_hooks).step_time.value().copied()
        };
        assert_eq!(time(&bar(Reading::estimated(18, NOW)), known(), false), Some(Seconds(1.5)));
        assert_eq!(time(&bar(Reading::estimated(18, NOW)), Reading::default(), false), Some(Seconds(0.75)));
        // One that says its optimizer steps is taken at its word.
        assert_eq!(time(&bar(Reading::measured(9, NOW)), known(), false), Some(Seconds(0.75)));
        // But where the hook is seen to count half as many.
        assert_eq!(time(&bar(Reading::measured(18, NOW)), known(), true), Some(Seconds(1.5)));
    }

    /// A log says 2 s for its last step, the hook 0.5 s for what it heard last, of 4 096 tokens: 2 048 a second go with 2 s.
    #[test]
    fn a_rate_is_of_the_same_stretch_as_the_step_beside_it() {
        let hook = Progress {
            step_time: Reading::measured(Seconds(0.5), NOW),
            tokens_per_s_per_gpu: Reading::estimated(TokensPerSec(8_192.0), NOW),
            ..Progress::default()
        };
        let log = |step_time, tokens_per_s_per_gpu| Progress {
            told_by: ProgressSource::Log(LogFormat::Text),
            step: Reading::measured(9, NOW),
            step_time,
            tokens_per_s_per_gpu,
            ..Progress::default()
        };
        let pair = |log: &Progress| {
            let known = joined(log, hook.clone(), None, takes_hooks_time(log, &hook, false));
            (known.step_time.value().unwrap().0, known.tokens_per_s_per_gpu.value().unwrap().0)
        };
        let two = || Reading::measured(Seconds(2.0), NOW);
        assert_eq!(pair(&log(two(), Reading::default())), (2.0, 2_048.0));
        assert_eq!(pair(&log(Reading::estimated(Seconds(2.0), NOW), Reading::default())), (0.5, 8_192.0));
        // What the log says itself is its own.
        assert_eq!(pair(&log(two(), Reading::measured(TokensPerSec(1_900.0), NOW))), (2.0, 1_900.0));
    }

    fn step_of(run: &mut Telemetry, (log, hook): (u64, u64), total: Option<u64>) -> u64 {
        let monitor = Monitor::new(Some(7));
        let total_steps = total.map_or_else(Reading::not_read, |total| Reading::measured(total, NOW));
        let told_by = ProgressSource::Log(LogFormat::Text);
        let progress = Progress { told_by, step: Reading::measured(log, NOW), total_steps, ..Progress::default() };
        let told = HookStep {
            step: hook,
            step_time: Reading::not_read(),
            memory: HookMemory::Resident,
            ..HookStep::default()
        };
        let hooks = vec![HookedRun { step: Some(told), ..HookedRun::new(7, NOW) }];
        run.take(RunNews { pid: Some(7), progress, hooks, ..RunNews::default() });
        run.follow(&monitor, NOW);
        *run.progress(&monitor, NOW).unwrap().1.step.value().unwrap()
    }

    /// A run that was resumed at step 12 000 prints each twentieth step.
    #[test]
    fn from_a_logs_last_step_the_hook_counts_on() {
        let mut run = Telemetry::default();
        assert_eq!(step_of(&mut run, (12_020, 35), None), 12_020);
        // Nobody knows yet that both count the same.
        assert_eq!(step_of(&mut run, (12_020, 43), None), 12_020);
        assert_eq!(step_of(&mut run, (12_040, 56), None), 12_040);
        assert_eq!(step_of(&mut run, (12_040, 64), None), 12_048);
        // The hook was read a little before the log: the count does not go back.
        assert_eq!(step_of(&mut run, (12_040, 78), None), 12_062);
        assert_eq!(step_of(&mut run, (12_060, 78), None), 12_062);
        // Behind the last step nothing is counted, and a run that begins again does.
        assert_eq!(step_of(&mut run, (12_060, 90), Some(12_070)), 12_060);
        assert_eq!(step_of(&mut run, (0, 1), None), 0);
    }

    #[test]
    fn a_log_that_counts_something_else_is_taken_at_its_word() {
        let mut run = Telemetry::default();
        // Epochs of a hundred steps.
        let told = [(1, 100), (1, 150), (2, 200), (2, 270), (3, 300)].map(|pair| step_of(&mut run, pair, None));
        assert_eq!(told, [1, 1, 2, 2, 3]);
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
