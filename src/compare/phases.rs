//! What a run is about, by when it tells of its steps: warming up, in steady training, or between steps, to
//! evaluate or to save. Only steady training is held against a plan.

use std::collections::VecDeque;

use crate::reading::{Moment, Progress, ProgressSource, Reading};
use crate::units::Seconds;

/// What a run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunPhase {
    /// Nobody tells of its steps.
    #[default]
    Untold,
    /// Its first steps: kernels are chosen and compiled, caches and the allocator grow.
    WarmingUp,
    /// Steps, one like the other.
    Steady,
    /// No step has been done for longer than any takes: it evaluates, saves, waits, or hangs.
    Between,
}

/// Step times that the usual one is the median of.
const KEPT: usize = 9;

/// From this step on a run is warm, however its steps go.
const WARM: u64 = 20;

/// The first steps are never taken for warm: libraries choose kernels in them.
const COLD: u64 = 2;

/// A warm step takes at most this many times the fastest one.
const ALIKE: f64 = 1.2;

/// Steps that take this many times as long as usual have something between them…
const LATE: f64 = 1.5;

/// … and so much more, in seconds: looks at logs are a second apart.
const SLACK: f64 = 2.5;

/// Steps between two that are told, where one alone has been: more are seldom made without a word.
const UNTOLD: u64 = 1_000;

/// A hook tells at least this often of steps that are made (`_LONGEST_EVERY` in the hook): one message alone says nothing of
/// when the next one comes.
const LONGEST_MESSAGE: Seconds = Seconds(5.0);

/// Before the usual time of a step is known, none for so long is late.
const UNTIMED: Seconds = Seconds(1800.0);

/// Stretches between steps that are remembered: those within the longest mean are few.
const STRETCHES: usize = 64;

/// What was told of a run's steps, and what follows from when.
#[derive(Debug, Clone, Default)]
pub struct Phases {
    /// The newest step and when it was told.
    last: Option<(u64, Moment)>,
    /// How many steps were told of at once, the last time.
    together: u64,
    /// Told times of a step, the newest last.
    times: VecDeque<f64>,
    fastest: Option<f64>,
    /// Their median, once the run is warm.
    usual: Option<Seconds>,
    steady_since: Option<Moment>,
    /// Stretches with something else than steps in them.
    between: VecDeque<(Moment, Moment)>,
}

/// Times of a step that differ by less are one.
const ANOTHER: f64 = 0.05;

impl Phases {
    /// Takes in how far the run is by now.
    pub fn note(&mut self, progress: &Progress, now: Moment) {
        let Reading::Known { value: step, at: told_at, .. } = progress.step else { return };
        let mut told_at = told_at.min(now);
        let told = progress.step_time.value().map(|time| time.0).filter(|time| *time > 0.0 && time.is_finite());
        match self.last {
            Some((last, _)) if step == last => return,
            // Begun again, or another run.
            Some((last, _)) if step < last => {
                *self = Self { together: steps_between(progress), ..Self::default() };
            }
            Some((last, at)) => {
                self.together = step - last;
                told_at = now;
                if self.is_late(at, now) {
                    if self.between.len() == STRETCHES {
                        self.between.pop_front();
                    }
                    self.between.push_back((at, now));
                }
            }
            // Told before anybody followed it: by a log that may have ended long ago.
            None => self.together = steps_between(progress),
        }
        self.last = Some((step, told_at));
        if let Some(told) = told {
            self.fastest = Some(self.fastest.map_or(told, |fastest| fastest.min(told)));
            if self.times.len() == KEPT {
                self.times.pop_front();
            }
            self.times.push_back(told);
        }
        if self.steady_since.is_none() && self.is_warm(step, told) {
            self.steady_since = Some(told_at);
            // What the first steps took says nothing of the others.
            let fastest = self.fastest;
            self.times.retain(|time| fastest.is_none_or(|fastest| *time <= ALIKE * fastest));
        }
        self.usual = self.steady_since.and_then(|_| median(&self.times)).map(Seconds);
    }

    fn is_warm(&self, step: u64, told: Option<f64>) -> bool {
        let alike = told.zip(self.fastest).is_some_and(|(told, fastest)| told <= ALIKE * fastest);
        step >= WARM || (step > COLD && self.times.len() > 1 && alike)
    }

    /// Whether more than steps must have happened between two moments.
    fn is_late(&self, since: Moment, now: Moment) -> bool {
        let Some(step) = self.step() else { return now.since(since).0 > UNTIMED.0 };
        now.since(since).0 > LATE * step.0 * self.together.max(1) as f64 + SLACK
    }

    /// The usual time of a step: the median of what was told last. None before the run is warm.
    #[must_use]
    pub const fn step(&self) -> Option<Seconds> {
        self.usual
    }

    /// `told`, a time of one step, as the usual one: a step with an evaluation in it is none of the others.
    #[must_use]
    pub fn usual(&self, told: &Reading<Seconds>) -> Reading<Seconds> {
        told.map(|told| self.step().unwrap_or(*told))
    }

    /// The usual time of a step, where `told` is another one: what is compared is not what was told last.
    #[must_use]
    pub fn apart_from(&self, told: Seconds) -> Option<Seconds> {
        self.step().filter(|usual| (told.0 / usual.0 - 1.0).abs() > ANOTHER)
    }

    /// What the run is about now.
    #[must_use]
    pub fn phase(&self, now: Moment) -> RunPhase {
        match (self.last, self.steady_since) {
            (None, _) => RunPhase::Untold,
            (Some((_, at)), _) if self.is_late(at, now) => RunPhase::Between,
            (Some(_), None) => RunPhase::WarmingUp,
            (Some(_), Some(_)) => RunPhase::Steady,
        }
    }

    /// Whether what has been told is of the first steps alone, however long ago.
    #[must_use]
    pub const fn is_warming(&self) -> bool {
        self.last.is_some() && self.steady_since.is_none()
    }

    /// How long it has been since a step was told of.
    #[must_use]
    pub fn quiet_for(&self, now: Moment) -> Option<Seconds> {
        self.last.map(|(_, at)| now.since(at))
    }

    /// Whether the run trained steadily at that time, as known `now`. Of a run that tells nothing, every moment
    /// counts.
    #[must_use]
    pub fn is_steady(&self, at: Moment, now: Moment) -> bool {
        let Some((_, last)) = self.last else { return true };
        let warm = self.steady_since.is_some_and(|since| at >= since);
        let within = |(from, to): &(Moment, Moment)| *from < at && at < *to;
        let quiet = at > last && self.is_late(last, now);
        warm && !quiet && !self.between.iter().any(within)
    }
}

/// How many steps lie between two that are told, as far as one that is told first says.
fn steps_between(progress: &Progress) -> u64 {
    match progress.told_by {
        ProgressSource::Log(_) => progress.told_every.unwrap_or(UNTOLD),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        ProgressSource::Hook => progress.step_time.value().map_or(1, |step| (LONGEST_MESSAGE.0 / step.0).ceil() as u64),
        ProgressSource::Rhythm | ProgressSource::Nobody => 1,
    }
}

fn median(times: &VecDeque<f64>) -> Option<f64> {
    let mut times: Vec<f64> = times.iter().copied().collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: u64, seconds: f64, at: Moment) -> Progress {
        Progress {
            step: Reading::measured(step, at),
            step_time: Reading::measured(Seconds(seconds), at),
            ..Progress::default()
        }
    }

    /// Steps of 2 s, told as they are done, from the first on; the first takes 30 s.
    fn warmed(steps: u64) -> (Phases, Moment) {
        let mut phases = Phases::default();
        let mut now = Moment(0);
        for step in 1..=steps {
            let took = if step == 1 { 30.0 } else { 2.0 };
            now = now.plus_millis(if step == 1 { 30_000 } else { 2_000 });
            phases.note(&told(step, took, now), now);
        }
        (phases, now)
    }

    #[test]
    fn the_first_steps_are_no_steady_training() {
        let (phases, now) = warmed(2);
        assert_eq!(phases.phase(now), RunPhase::WarmingUp);
        assert!(!phases.is_steady(now, now));
        let (phases, now) = warmed(6);
        assert_eq!((phases.phase(now), phases.step()), (RunPhase::Steady, Some(Seconds(2.0))));
        // 30 s and two steps of 2 s: warm from the third step on, and not in the first.
        assert!(phases.is_steady(Moment(35_000), now) && !phases.is_steady(Moment(20_000), now));
    }

    #[test]
    fn an_evaluation_between_steps_is_left_out_also_before_it_has_ended() {
        let (mut phases, begun) = warmed(30);
        // 1.5 steps of 2 s and 2.5 s: from 5.5 s on it is late.
        assert_eq!(phases.phase(begun.plus_millis(5_000)), RunPhase::Steady);
        let during = begun.plus_millis(20_000);
        assert_eq!(phases.phase(during), RunPhase::Between);
        assert!(!phases.is_steady(begun.plus_millis(10_000), during));
        assert!(phases.is_steady(begun.plus_millis(10_000), begun.plus_millis(5_000)), "not known yet");
        let ended = begun.plus_millis(42_000);
        // The log has the evaluation in the time of its step.
        phases.note(&told(31, 42.0, ended), ended);
        assert_eq!(phases.phase(ended), RunPhase::Steady);
        assert_eq!(phases.step(), Some(Seconds(2.0)));
        assert!(!phases.is_steady(begun.plus_millis(30_000), ended) && phases.is_steady(begun, ended));
    }

    #[test]
    fn a_log_that_tells_every_tenth_step_is_not_late_for_nine() {
        let mut phases = Phases::default();
        let mut now = Moment(0);
        for step in (100..=200).step_by(10) {
            now = now.plus_millis(20_000);
            phases.note(&told(step, 2.0, now), now);
        }
        assert_eq!(phases.phase(now.plus_millis(25_000)), RunPhase::Steady);
        // 1.5 x 20 s + 2.5 s
        assert_eq!(phases.phase(now.plus_millis(33_000)), RunPhase::Between);
    }

    #[test]
    fn a_log_is_as_old_as_its_last_line_when_it_is_first_read() {
        let old = |told_every| {
            let mut phases = Phases::default();
            let written = Moment(1_000_000);
            let by = ProgressSource::Log(crate::reading::LogFormat::HuggingFace);
            phases.note(&Progress { told_by: by, told_every, ..told(400, 2.0, written) }, written.plus_millis(90_000));
            (phases, written)
        };
        // Every tenth step of 2 s: 1.5 x 20 s + 2.5 s.
        let (phases, written) = old(Some(10));
        assert_eq!(phases.phase(written.plus_millis(90_000)), RunPhase::Between);
        assert_eq!(phases.quiet_for(written.plus_millis(90_000)), Some(Seconds(90.0)));
        // Of one that tells every hundredth it is the usual pause, and of a single line nobody knows that.
        for every in [Some(100), None] {
            let (phases, written) = old(every);
            assert_eq!(phases.phase(written.plus_millis(90_000)), RunPhase::Steady, "{every:?}");
        }
        let mut untimed = Phases::default();
        untimed.note(&Progress { step: Reading::measured(400, Moment(0)), ..Progress::default() }, Moment(60_000));
        assert_eq!(untimed.phase(Moment(60_000)), RunPhase::Steady);
        assert_eq!(untimed.phase(Moment(1_801_000)), RunPhase::Between);
        let (phases, written) = old(None);
        // Not a thousand steps of 2 s: 1.5 x 2000 s + 2.5 s.
        assert_eq!(phases.phase(written.plus_millis(3_003_000)), RunPhase::Between);
    }

    #[test]
    fn a_run_that_begins_again_warms_up_again() {
        let (mut phases, now) = warmed(30);
        phases.note(&told(1, 30.0, now), now);
        assert_eq!(phases.phase(now), RunPhase::WarmingUp);
        assert_eq!(Phases::default().phase(now), RunPhase::Untold);
        assert!(Phases::default().is_steady(now, now));
    }
}
