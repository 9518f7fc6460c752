//! The attached run besides its devices: its progress by log, hook or rhythm.

mod batch;
pub(super) mod calibrations;
pub(super) mod commanded;
mod ending;
pub(super) mod exhaustion;
pub(super) mod explanation_search;
pub(super) mod inferred;
pub(super) mod last_attempt;
pub(super) mod loss;
pub(super) mod measured;
pub(super) mod mismatch;
pub(super) mod observation;
pub(super) mod offer;
pub(super) mod outlook;
pub(super) mod pause;
mod places;
pub(super) mod plan;
mod progress;
pub(super) mod settings;
mod stated;
pub(super) mod taken;
pub(super) mod verdict;

use crate::app::monitor::attached::{AttachedProcess, ProcessIdentity};
use crate::app::monitor::{Monitor, SourceState};
use crate::compare::{Phases, period};
use crate::reading::{
    Absence, HookedRun, Moment, OutOfMemory, Progress, ProgressSource, Reading, RecordedHook, RunNews, Sample,
    SourceKind, StatedSettings, StepCause,
};
use crate::units::Seconds;
use commanded::CommandPlan;
use inferred::StatedValues;

/// A hook that has said nothing for so long speaks of a process that is gone.
const QUIET: f64 = 60.0;

/// What is known of runs besides their devices.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// The newest news.
    pub news: RunNews,
    /// What the newest sample told: of a recorded run, or a simulated one.
    sampled: Option<Progress>,
    /// What the hook had told by then, of a recorded run.
    sampled_hook: Option<HookedRun>,
    /// Memory that ran out in it.
    ran_out: Option<OutOfMemory>,
    /// Why steps were late in it.
    sampled_cause: Option<StepCause>,
    /// What the run is about, by its steps.
    phases: Phases,
    /// What a process that was looked at runs for sure.
    stated: Option<StatedValues>,
    /// The same with who says so.
    commanded: Option<CommandPlan>,
    /// The process and program whose command was asked for.
    asked_command: Option<ProcessIdentity>,
    /// Where the counts of log and hook stood last.
    anchor: Option<progress::CountAnchor>,
    /// The process and program that the phases are of.
    of: Option<ProcessIdentity>,
    /// The hook has told the time of its steps: what a log told before may be that of a pass.
    is_timed_by_hook: bool,
    /// The last loss of the run that was a number.
    finite_loss: Option<f64>,
    /// The step by the rhythm of the attached process's device.
    rhythm: Reading<Seconds>,
    /// The process of the simulated run, which was attached by itself: once let go of, it stays so.
    simulated_pid: Option<u32>,
    /// Runs that were offered and not taken.
    declined: Vec<u32>,
    /// Runs that were offered, each since when.
    offers: Vec<(u32, Moment)>,
    /// The simulated run was asked for by name: a run that starts beside it is no news.
    pub is_simulation_asked_for: bool,
}

impl Telemetry {
    /// Takes in news.
    pub fn take(&mut self, news: RunNews) {
        if news.jobs_over != self.news.jobs_over {
            self.phases = Phases::default();
        }
        self.news = news;
    }

    /// Takes in what a source that knows of a run tells in a sample. The demo's own run is attached: once let
    /// go of, it stays so.
    pub fn on_progress(&mut self, sample: &Sample, monitor: &mut Monitor) {
        self.ran_out = sample.out_of_memory.as_deref().cloned();
        self.sampled_cause = sample.step_cause.as_deref().cloned();
        if let Some(hook) = &sample.hook {
            self.sampled_hook = Some(hook.run(sample.at));
        }
        let Some(progress) = &sample.progress else { return };
        self.sampled = Some((**progress).clone());
        let demo = matches!(&monitor.source, SourceState::Running(info) if info.kind == SourceKind::Demo);
        let first = sample.processes.first().map(|process| process.pid).filter(|_| demo);
        // As its launcher starts it again.
        let is_free = monitor.attached.as_ref().is_none_or(|attached| attached.has_ended_as(self.simulated_pid));
        if let Some(pid) = first.filter(|pid| is_free && self.simulated_pid != Some(*pid)) {
            monitor.toggle_attach(pid);
        }
        self.simulated_pid = first.or(self.simulated_pid);
    }

    /// A real run takes the place of the simulated one.
    pub fn leave_simulation(&mut self) {
        self.rewind();
        self.simulated_pid = None;
        self.is_simulation_asked_for = false;
    }

    /// What was played has not happened yet.
    pub fn rewind(&mut self) {
        (self.sampled, self.sampled_hook) = (None, None);
        (self.ran_out, self.sampled_cause, self.finite_loss) = (None, None, None);
        (self.phases, self.is_timed_by_hook) = (Phases::default(), false);
        self.anchor = None;
        self.rhythm = Reading::default();
    }

    /// What the attached process runs for sure: its command, files and environment say so.
    #[must_use]
    pub fn stated(&self, monitor: &Monitor) -> &[(&'static str, String)] {
        self.stated_of_it(monitor).map_or(&[], |stated| &stated.values)
    }

    /// What was read of the attached process, or of the launcher of whose ranks it is one: that started it with its own
    /// command's words.
    fn stated_of_it(&self, monitor: &Monitor) -> Option<&StatedValues> {
        let its = [monitor.attached_here(), monitor.attached_by_user()];
        self.stated.as_ref().filter(|stated| its.contains(&Some(stated.pid)))
    }

    /// Notes which steps are told by now, and so what the run is about.
    pub fn follow(&mut self, monitor: &Monitor, now: Moment) {
        let attached = monitor.attached.as_ref().map(AttachedProcess::identity);
        self.of = match (self.of.take(), attached) {
            (Some(of), Some(now)) if !of.differs_from(&now) => Some(of.with(now)),
            (None, None) => None,
            (_, now) => {
                (self.phases, self.is_timed_by_hook, self.finite_loss) = (Phases::default(), false, None);
                now
            }
        };
        self.anchor_counts(monitor, now);
        if !self.is_timed_by_hook && self.is_timed_by_hook(monitor, now) {
            (self.phases, self.is_timed_by_hook) = (Phases::default(), true);
        }
        if let Some((_, progress)) =
            self.progress(monitor, now).filter(|(_, known)| known.told_by != ProgressSource::Rhythm)
        {
            self.phases.note(&progress, now);
        }
        self.note_loss(monitor, now);
        self.note_offer(monitor, now);
    }

    /// What the run is about, by its steps.
    #[must_use]
    pub const fn phases(&self) -> &Phases {
        &self.phases
    }

    /// What a log tells, or the recording of one.
    fn log(&self, monitor: &Monitor) -> Option<&Progress> {
        Some(&self.news.progress)
            .filter(|log| log.is_known())
            .or(self.sampled.as_ref().filter(|_| monitor.is_sampled()))
    }

    /// Whether the user has named the log of a run, now or when it was recorded, and it tells of training, while no
    /// process is attached.
    #[must_use]
    pub fn is_logged(&self, monitor: &Monitor) -> bool {
        let recorded = self.sampled.as_ref().filter(|_| is_replayed(monitor));
        monitor.attached.is_none() && (self.news.progress.is_known() || recorded.is_some_and(Progress::is_known))
    }

    /// What the header of its log states of the training.
    #[must_use]
    pub fn log_states(&self, monitor: &Monitor) -> &StatedSettings {
        let sampled = self.sampled.as_ref().filter(|_| monitor.is_sampled()).map(|log| &log.stated);
        match &self.news.progress.stated {
            stated if stated.is_empty() => sampled.unwrap_or(stated),
            stated => stated,
        }
    }

    /// Whether the attached process trains on the CPU: its hook says so, or no driver tells of any GPU.
    #[must_use]
    pub fn uses_no_gpu(&self, monitor: &Monitor, now: Moment) -> bool {
        let hook = self.hooked(monitor, now).and_then(|run| run.about.as_ref());
        match hook.map(|about| about.device.as_str()) {
            Some(device) => device == "cpu",
            None => {
                let SourceState::Running(info) = &monitor.source else { return false };
                // A recording without any device is of a machine without a driver.
                let is_empty = || monitor.sample.as_ref().is_some_and(|sample| sample.devices.is_empty());
                let alone = info.kind == SourceKind::Host || info.kind == SourceKind::Replay && is_empty();
                alone && monitor.attached.is_some()
            }
        }
    }

    /// Memory that ran out: what the process says as it ends comes before what stands in its log, or in the
    /// recording of one.
    #[must_use]
    pub fn out_of_memory(&self, monitor: &Monitor, now: Moment) -> Option<&OutOfMemory> {
        let ending = self.hooked(monitor, now).and_then(|run| run.end.as_ref()?.out_of_memory.as_ref());
        ending.or(self.news.out_of_memory.as_ref()).or(self.ran_out.as_ref().filter(|_| monitor.is_sampled()))
    }

    /// A sample with what log and hook tell of the run at that time, for a recording.
    #[must_use]
    pub fn told_in(&self, sample: &Sample, monitor: &Monitor, now: Moment) -> Sample {
        let progress = || self.progress(monitor, now).map(|(_, progress)| Box::new(progress));
        let ran_out = || self.out_of_memory(monitor, now).cloned().map(Box::new);
        let cause = || self.step_cause(monitor, now).map(Box::new);
        let hook = || self.hooked(monitor, now).map(|run| Box::new(RecordedHook::of(run)));
        Sample {
            hook: sample.hook.clone().or_else(hook),
            progress: sample.progress.clone().or_else(progress),
            out_of_memory: sample.out_of_memory.clone().or_else(ran_out),
            step_cause: sample.step_cause.clone().or_else(cause),
            ..sample.clone()
        }
    }

    /// Looks for the rhythm of a device's recent past, where nobody tells the step.
    pub fn find_rhythm(&mut self, monitor: &Monitor) {
        if self.log(monitor).is_some() || !self.news.hooks.is_empty() {
            return;
        }
        let Some(device) = monitor.run_device() else {
            self.rhythm = Reading::default();
            return;
        };
        let points = || monitor.history.points(device);
        let times: Vec<Moment> = points().map(|point| point.at).collect();
        let series: [Option<Vec<f64>>; 2] = [
            points().map(|point| point.power.map(|power| power.0)).collect(),
            points().map(|point| point.busy.map(|busy| busy.0)).collect(),
        ];
        let found = series.into_iter().flatten().find_map(|values| period(&times, &values));
        self.rhythm = match (found, times.last()) {
            (Some(step), Some(at)) => Reading::estimated(step, *at),
            _ => Reading::Absent(Absence::TooShort),
        };
    }

    /// The hook of the attached process.
    #[must_use]
    pub fn hooked(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        // A hook knows the pid that its process has itself.
        let pid = monitor.attached_here()?;
        // What one said as it ended stays true.
        let speaks = |run: &&HookedRun| run.end.is_some() || !is_quiet(run, now);
        let is_its = |run: &&HookedRun| monitor.attached.as_ref().is_some_and(|attached| attached.may_have_loaded(run));
        let own = self.news.hooks.iter().filter(is_its).find(|run| run.pid == pid && speaks(run));
        // Of a `memwall run` the one process speaks that it has started.
        let started = |run: &&HookedRun| run.about.as_ref().and_then(|about| about.launcher) == Some(pid);
        let live = own.or_else(|| self.news.hooks.iter().filter(started).find(|run| run.leads() && speaks(run)));
        let recorded = self.sampled_hook.as_ref().filter(|run| (run.pid == pid || started(run)) && speaks(run));
        live.or_else(|| recorded.filter(|_| is_replayed(monitor)))
    }
}

fn is_replayed(monitor: &Monitor) -> bool {
    matches!(&monitor.source, SourceState::Running(info) if info.kind == SourceKind::Replay)
}

fn is_quiet(run: &HookedRun, now: Moment) -> bool {
    let step = run.step.as_ref().and_then(|step| step.step_time.value()).map_or(0.0, |time| time.0);
    now.since(run.heard).0 > QUIET.max(5.0 * step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{HookAbout, HookStep, LogFormat, SourceInfo};
    use crate::units::{Bytes, TokensPerSec};

    const NOW: Moment = Moment(1_000_000);

    fn hooked(pid: u32, heard: Moment) -> HookedRun {
        let step = HookStep {
            step: 40,
            step_time: Reading::measured(Seconds(0.5), heard),
            allocated: Reading::measured(Bytes(10), heard),
            reserved: Reading::measured(Bytes(20), heard),
            peak_allocated: Reading::measured(Bytes(15), heard),
            peak_reserved: Reading::measured(Bytes(25), heard),
            tokens: Some(4_096),
            ..HookStep::default()
        };
        HookedRun { step: Some(step), ..HookedRun::new(pid, heard) }
    }

    #[test]
    fn ranks_that_have_launchers_of_their_own_are_one_run_where_no_rank_is_there_twice() {
        let ranked = |pid, rank, launcher, params| {
            let (rank, world, launcher) = (Some(rank), Some(2), Some(launcher));
            let about = HookAbout { rank, world, launcher, params, ..HookAbout::default() };
            HookedRun { about: Some(about), ..hooked(pid, NOW) }
        };
        let (mut run, monitor) = (Telemetry::default(), Monitor::new(Some(7)));
        let mut pids_of = |hooks: Vec<HookedRun>| {
            run.take(RunNews { hooks, ..RunNews::default() });
            let mut pids: Vec<u32> = run.hooked_ranks(&monitor, NOW).iter().map(|run| run.pid).collect();
            pids.sort_unstable();
            pids
        };
        // `srun memwall run`: pids 6 and 8 started 7 and 9. A process of another model is of another run.
        let one = [ranked(7, 0, 6, 100), ranked(9, 1, 8, 100)];
        assert_eq!(pids_of([&one[..], &[ranked(11, 1, 10, 50)]].concat()), [7, 9]);
        // `memwall run torchrun`: the same launcher says which of two runs that are alike.
        let other = [ranked(17, 0, 16, 100), ranked(19, 1, 16, 100)];
        let same = [ranked(7, 0, 6, 100), ranked(9, 1, 6, 100)];
        assert_eq!(pids_of([&same[..], &other[..]].concat()), [7, 9]);
        // Nobody can tell which of the two ranks 1 belongs to 7.
        assert_eq!(pids_of([&one[..], &other[..]].concat()), [7]);
    }

    #[test]
    fn a_hooked_run_is_offered_tells_nothing_until_it_is_taken_and_is_not_offered_again() {
        let (mut run, mut monitor) = (Telemetry::default(), Monitor::new(None));
        let news = RunNews { hooks: vec![hooked(7, NOW)], ..RunNews::default() };
        run.take(news);
        let source = |kind| SourceState::Running(SourceInfo { kind, detail: String::new() });
        for (kind, offered) in [(SourceKind::Nvml, Some(7)), (SourceKind::Prometheus, None), (SourceKind::Replay, None)]
        {
            monitor.source = source(kind);
            assert_eq!(run.offered(&monitor, NOW).map(|run| run.pid), offered, "{kind:?}");
        }
        monitor.source = SourceState::Failed("no GPU: the plan is for this machine's CPU".to_owned());
        assert_eq!(run.offered(&monitor, NOW).map(|run| run.pid), Some(7), "a run on the CPU");
        monitor.source = source(SourceKind::Nvml);
        assert_eq!((&monitor.attached, run.progress(&monitor, NOW)), (&None, None));
        monitor.toggle_attach(7);
        assert!(run.offered(&monitor, NOW).is_none());
        let (pid, progress) = run.progress(&monitor, NOW).unwrap();
        // 4096 tokens in half a second.
        assert_eq!((pid, progress.tokens_per_s_per_gpu.value()), (Some(7), Some(&TokensPerSec(8_192.0))));
        // A minute and more without a word: gone.
        assert_eq!(run.progress(&monitor, NOW.plus_millis(61_000)), None);
        monitor.toggle_attach(7);
        run.decline(7);
        assert!(run.offered(&monitor, NOW).is_none());
    }

    #[test]
    fn the_recording_of_a_log_is_a_log_and_a_demo_is_none() {
        let (mut run, mut monitor) = (Telemetry::default(), Monitor::new(None));
        let told_by = ProgressSource::Log(LogFormat::Text);
        let progress = Progress { told_by, step: Reading::measured(7, NOW), ..Progress::default() };
        let sample = Sample { at: NOW, progress: Some(Box::new(progress)), ..Sample::default() };
        for (kind, logged) in [(SourceKind::Replay, true), (SourceKind::Demo, false), (SourceKind::Nvml, false)] {
            monitor.source = SourceState::Running(SourceInfo { kind, detail: String::new() });
            run.on_progress(&sample, &mut monitor);
            assert_eq!(run.is_logged(&monitor), logged, "{kind:?}");
        }
    }

    #[test]
    fn the_logs_count_and_the_hooks_time() {
        let (mut run, monitor) = (Telemetry::default(), Monitor::new(Some(7)));
        let log = Progress {
            told_by: ProgressSource::Log(LogFormat::HuggingFace),
            step: Reading::measured(1_040, NOW),
            step_time: Reading::estimated(Seconds(0.7), NOW),
            ..Progress::default()
        };
        let news = RunNews { pid: Some(7), progress: log, hooks: vec![hooked(7, NOW)], ..RunNews::default() };
        run.take(news);
        let (_, progress) = run.progress(&monitor, NOW).unwrap();
        assert_eq!((progress.step.value(), progress.step_time.value()), (Some(&1_040), Some(&Seconds(0.5))));
        assert_eq!(progress.peak_reserved.value(), Some(&Bytes(25)));
    }
}
