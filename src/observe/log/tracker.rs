//! Puts together what single lines tell: the newest of each figure, and the time of a step where
//! no line says it.

use std::collections::VecDeque;

use super::facts::LineFacts;
use super::micro::Micro;
use crate::reading::{Absence, LogFormat, Moment, Progress, ProgressSource, Reading, ReadingKind, StatedSettings};
use crate::units::{Seconds, TokensPerSec};

/// Steps over which a time is averaged that no line says.
const WINDOW: usize = 16;

/// When a line was written, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTime {
    /// For the reading: not earlier than the line was written.
    pub at: Moment,
    /// The time that stands in the line, by the log's own clock.
    pub stamp: Option<u64>,
    /// It came while somebody looked: it was written just before `at`.
    pub live: bool,
}

/// The progress that the lines so far tell.
#[derive(Debug, Default)]
pub struct Tracker {
    progress: Progress,
    /// A line has told the time of a step.
    time_is_told: bool,
    stamped: Marks,
    arrived: Marks,
    /// When the log was looked at: the last time, and the time before.
    looks: [Option<Moment>; 2],
    micro: Micro,
    /// The marks are of batches.
    counts_batches: bool,
    /// Bars count the steps of an epoch: those without a name as well.
    counts_epochs: bool,
    /// Where the loss became no number, if it is none since.
    loss_turned: Option<LossTurn>,
}

/// The first of the newest losses that are no numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossTurn {
    /// Its step, where that is told.
    pub step: Option<u64>,
    /// What it is: NaN or an infinity.
    pub loss: f64,
}

impl Tracker {
    /// What is known.
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Where the loss became no number, if it is none since.
    pub const fn loss_turned(&self) -> Option<LossTurn> {
        self.loss_turned
    }

    /// The losses so far were another run's.
    pub const fn forget_losses(&mut self) {
        self.loss_turned = None;
    }

    /// Takes what the header states over.
    pub fn state(&mut self, stated: &StatedSettings) {
        self.progress.stated.clone_from(stated);
    }

    /// Another file, or the same begun anew: steps may go back, paces do not join.
    pub fn begin_anew(&mut self) {
        self.stamped = Marks::default();
        self.arrived = Marks::default();
        self.micro = Micro::default();
        self.counts_epochs = false;
    }

    /// The log is looked at.
    pub fn look(&mut self, now: Moment) {
        if self.looks[0] != Some(now) {
            self.looks = [Some(now), self.looks[0]];
        }
    }

    /// Lines come in blocks: of the last one `before` was the step before it.
    pub fn comes_in_blocks(&mut self, before: Option<u64>) {
        let steps = self.progress.step.value().zip(before).and_then(|(step, before)| step.checked_sub(before));
        self.progress.told_every = steps.filter(|steps| *steps > 0);
    }

    /// Takes in a line.
    pub fn take(&mut self, format: LogFormat, facts: &LineFacts, when: LineTime) {
        let at = when.at;
        if format == LogFormat::Bar && self.counts_epochs {
            return;
        }
        let progress = &mut self.progress;
        // A bar is beside the lines of most frameworks: it does not take their name.
        if format != LogFormat::Bar || matches!(progress.told_by, ProgressSource::Nobody) {
            progress.told_by = ProgressSource::Log(format);
        }
        if let Some(step) = facts.step {
            let since = progress.step.value().and_then(|before| step.checked_sub(*before)).filter(|steps| *steps > 0);
            progress.told_every = since.or(progress.told_every);
            let kind = if facts.step_is_derived { ReadingKind::Estimated } else { ReadingKind::Measured };
            progress.step = Reading::Known { value: step, at, kind };
        }
        let stated = facts.step.and(progress.stated.steps);
        set(&mut progress.total_steps, facts.total_steps.or(stated), at);
        if let Some(steps) = facts.epoch_steps {
            self.counts_epochs = true;
            let total = progress.stated.epochs.and_then(|epochs| epochs.checked_mul(steps));
            progress.total_steps =
                total.map_or(Reading::Absent(Absence::NotRead), |total| Reading::estimated(total, at));
        }
        set(&mut progress.epoch, facts.epoch, at);
        set(&mut progress.loss, facts.loss, at);
        match facts.loss {
            Some(loss) if loss.is_finite() => self.loss_turned = None,
            Some(loss) if self.loss_turned.is_none() => {
                let is_told = progress.step.kind() == Some(ReadingKind::Measured);
                let step = progress.step.value().copied().filter(|_| is_told);
                self.loss_turned = Some(LossTurn { step, loss });
            }
            _ => {}
        }
        set(&mut progress.grad_norm, facts.grad_norm, at);
        set(&mut progress.step_time, facts.step_time, at);
        set(&mut progress.tokens_per_s, facts.tokens_per_s.map(TokensPerSec), at);
        set(&mut progress.tokens_per_s_per_gpu, facts.tokens_per_s_per_gpu.map(TokensPerSec), at);
        set(&mut progress.samples_per_s, facts.samples_per_s, at);
        set(&mut progress.mfu, facts.mfu, at);
        set(&mut progress.model_flops_per_gpu, facts.model_flops_per_gpu, at);
        set(&mut progress.allocated, facts.allocated, at);
        set(&mut progress.peak_allocated, facts.peak_allocated, at);
        set(&mut progress.peak_reserved, facts.peak_reserved, at);
        self.time_is_told |= facts.step_time.is_some() || facts.micro_step.is_some();
        if let Some(step) = facts.micro_step.and_then(|micro| self.micro.take(micro, facts.step)) {
            self.progress.step_time = step.reading(at);
        }
        if facts.batch.is_some() != self.counts_batches && (facts.step.is_some() || facts.batch.is_some()) {
            // Two counts do not join, and what was taken for a step of the run was none.
            self.counts_batches = facts.batch.is_some();
            if self.counts_batches {
                self.progress.step = Reading::Absent(Absence::NotRead);
                self.progress.told_every = None;
            }
            (self.stamped, self.arrived) = (Marks::default(), Marks::default());
        }
        if let (Some(count), false) = (facts.batch.or(facts.step), self.time_is_told) {
            self.pace(count, when);
        }
    }

    /// Time of a step from how the count moves: by the log's own stamps, or by the times at which
    /// lines arrived.
    fn pace(&mut self, step: u64, when: LineTime) {
        // A stamp of whole seconds is half of one off, either way.
        let blur = |stamp: u64| if stamp.is_multiple_of(1000) { HALF_A_SECOND } else { 0 };
        let stamped = when
            .stamp
            .and_then(|stamp| self.stamped.note(step, (stamp, stamp.saturating_sub(blur(stamp))), OfOneTime::First));
        // A line that came was written at any time since the look before.
        let since = self.looks[1].map_or(when.at.0, |before| before.0.min(when.at.0));
        let arrived = when.live.then(|| self.arrived.note(step, (when.at.0, since), OfOneTime::Last)).flatten();
        // A log whose lines have stamps may leave those out that are the line's before.
        let has_stamps = when.stamp.is_some() || self.stamped.marks.len() > 1;
        if let Some(time) = stamped.or(arrived.filter(|_| !has_stamps)) {
            self.progress.step_time = Reading::estimated(time, when.at);
        }
    }
}

/// Takes a figure over where the line tells it.
fn set<T>(reading: &mut Reading<T>, told: Option<T>, at: Moment) {
    if let Some(value) = told {
        *reading = Reading::measured(value, at);
    }
}

/// Which of several steps that are told at one time stands for it: counted from one of another kind to the next, they
/// would be too many or too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfOneTime {
    /// Stamps of whole seconds: the second had just begun.
    First,
    /// Lines that were read in one look: it came just before.
    Last,
}

/// Milliseconds.
const HALF_A_SECOND: u64 = 500;

/// A time is told where both its ends are known to this share of it.
const SHARP: f64 = 0.25;

/// Steps and the milliseconds at which they were told: at the latest, and at the earliest.
#[derive(Debug, Default)]
struct Marks {
    marks: VecDeque<(u64, u64, u64)>,
    /// A pause was left out. Those that come again are the run's own way, and part of what is still to come.
    paused: bool,
}

/// Marks that tell what is usual.
const FEWEST_MARKS: usize = 3;

/// Steps that take this many times as long as those before, and so many milliseconds more, have a pause between them.
const PAUSE: f64 = 5.0;
const PAUSE_MORE: f64 = 5000.0;

impl Marks {
    /// Whether so many steps have taken far longer than those before.
    fn is_pause(&self, steps: u64, millis: u64) -> bool {
        let Some(((first, then, _), (last, until, _))) = self.marks.front().zip(self.marks.back()) else {
            return false;
        };
        // The first two tell nothing of the others: kernels are compiled between them.
        if self.paused || self.marks.len() < FEWEST_MARKS || until == then {
            return false;
        }
        let usual = (until - then) as f64 / (last - first) as f64 * steps as f64;
        millis as f64 > (PAUSE * usual).max(usual + PAUSE_MORE)
    }

    /// The mean time of a step over the last marks, once there are two that are far enough from each other.
    fn note(&mut self, step: u64, (millis, earliest): (u64, u64), of_one_time: OfOneTime) -> Option<Seconds> {
        match self.marks.back() {
            // Another rank tells the same step.
            Some((last, ..)) if *last == step => return None,
            // A restart, or a clock that was set.
            Some((last, then, _)) if *last > step || *then > millis => self.marks.clear(),
            // An evaluation, or somebody has stopped it: what follows is timed, and what came before.
            Some((last, then, _)) if self.is_pause(step - last, millis - then) => {
                self.marks.clear();
                self.paused = true;
            }
            Some((_, then, _)) if *then == millis => match of_one_time {
                OfOneTime::First => return None,
                OfOneTime::Last => drop(self.marks.pop_back()),
            },
            _ => {}
        }
        self.marks.push_back((step, millis, earliest));
        if self.marks.len() > WINDOW {
            self.marks.pop_front();
        }
        let (first, then, before) = self.marks.front()?;
        let steps = step - first;
        let lasted = millis.saturating_sub(*then) as f64;
        let open = (then.saturating_sub(*before) + millis.saturating_sub(earliest)) as f64;
        (steps > 0 && lasted > 0.0 && open <= SHARP * lasted).then(|| Seconds(lasted / 1000.0 / steps as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64) -> LineFacts {
        LineFacts { step: Some(step), ..LineFacts::default() }
    }

    fn at(seconds: u64, live: bool) -> LineTime {
        LineTime { at: Moment(seconds * 1000), stamp: None, live }
    }

    #[test]
    fn the_time_of_a_step_comes_from_lines_that_arrive() {
        let mut tracker = Tracker::default();
        // What was there before tells no time: it all came at once.
        for old in 1..5 {
            tracker.take(LogFormat::HuggingFace, &step(old), at(100, false));
        }
        assert_eq!(tracker.progress().step_time.value(), None);
        tracker.take(LogFormat::HuggingFace, &step(10), at(110, true));
        tracker.take(LogFormat::HuggingFace, &step(20), at(130, true));
        // 20 s for 10 steps.
        assert_eq!(tracker.progress().step_time, Reading::estimated(Seconds(2.0), Moment(130_000)));
        // After a restart the pace is measured anew.
        tracker.take(LogFormat::HuggingFace, &step(5), at(1_130, true));
        tracker.take(LogFormat::HuggingFace, &step(6), at(1_131, true));
        assert_eq!(tracker.progress().step_time.value(), Some(&Seconds(1.0)));
    }

    /// Ten steps a second, read once a second, or stamped with whole seconds: a step takes 0.1 s, from the second look on, or from
    /// where a second is a quarter of the time, and wherever the window begins.
    #[test]
    fn steps_that_are_told_at_one_time_are_no_steps_of_the_time_before() {
        let (mut read, mut stamped) = (Tracker::default(), Tracker::default());
        for second in 0..40 {
            for number in 0..10 {
                let told = step(second * 10 + number);
                read.take(LogFormat::Text, &told, at(second, true));
                stamped.take(LogFormat::Text, &told, LineTime { stamp: Some((100 + second) * 1000), ..at(0, false) });
            }
            let times = [&read, &stamped].map(|tracker| tracker.progress().step_time.value().copied());
            let told = [second > 0, second >= 4].map(|is| is.then_some(Seconds(0.1)));
            assert_eq!(times, told, "{second} s");
        }
    }

    /// Ten steps a second, and a pause of 25 s behind the 20th second: no step has taken longer than 0.1 s.
    #[test]
    fn a_pause_is_no_time_of_a_step() {
        let mut tracker = Tracker::default();
        let mut told = Vec::new();
        for second in 0..40 {
            let now = if second < 20 { second } else { second + 25 };
            tracker.take(LogFormat::Text, &step(second * 10), at(now, true));
            told.extend(tracker.progress().step_time.value().map(|time| time.0));
        }
        assert!(told.len() > 30 && told.iter().all(|time| (time - 0.1).abs() < 1e-9), "{told:?}");
        // Steps that have become slower for good are told as they are.
        let mut tracker = Tracker::default();
        for second in 0..20 {
            tracker.take(LogFormat::Text, &step(second * 10), at(second, true));
        }
        for second in 0..4 {
            tracker.take(LogFormat::Text, &step(201 + second), at(50 + second * 10, true));
        }
        assert_eq!(tracker.progress().step_time.value(), Some(&Seconds(10.0)));
    }

    /// A step a second, and 30 s of evaluation behind each fifth, which the steps to come have as well: 35 s for five.
    #[test]
    fn pauses_that_come_again_are_part_of_a_step() {
        let mut tracker = Tracker::default();
        for told in 1..=100 {
            tracker.take(LogFormat::Text, &step(told), at(told + (told - 1) / 5 * 30, true));
        }
        let time = tracker.progress().step_time.value().copied();
        assert!(time.is_some_and(|time| (time.0 - 7.0).abs() < 1.0), "{time:?}");
    }

    /// Steps of 0.4 s that are looked for every half second: from one look to the next there is one step, or there are two.
    #[test]
    fn lines_that_come_within_a_few_looks_tell_no_time() {
        let mut tracker = Tracker::default();
        let look = |tracker: &mut Tracker, millis: u64| {
            tracker.look(Moment(millis));
            let told = step(millis / 400);
            tracker.take(LogFormat::Text, &told, LineTime { at: Moment(millis), stamp: None, live: true });
            tracker.progress().step_time.value().map(|time| time.0)
        };
        assert_eq!([0, 500, 1_000, 1_500].map(|millis| look(&mut tracker, millis)), [None; 4]);
        // Of 5 s half a second at either end is a fifth: the step is told within a quarter of what it is.
        let told: Vec<f64> = (4..11).filter_map(|half| look(&mut tracker, half * 500)).collect();
        assert!(!told.is_empty() && told.iter().all(|told| (told - 0.4).abs() <= 0.1), "{told:?}");
    }

    #[test]
    fn a_line_without_the_stamp_of_the_line_before_is_no_arrival() {
        let mut tracker = Tracker::default();
        let line = |stamp: Option<u64>| LineTime { stamp, ..at(100, true) };
        tracker.take(LogFormat::Text, &step(10), line(Some(0)));
        tracker.take(LogFormat::Text, &step(20), line(Some(5_000)));
        tracker.take(LogFormat::Text, &step(23), LineTime { at: Moment(100_100), ..line(None) });
        tracker.take(LogFormat::Text, &step(26), LineTime { at: Moment(100_200), ..line(None) });
        // 5 s for ten steps.
        assert_eq!(tracker.progress().step_time.value(), Some(&Seconds(0.5)));
    }

    #[test]
    fn a_time_that_is_told_wins() {
        let mut tracker = Tracker::default();
        let told = LineFacts { step_time: Some(Seconds(0.5)), ..step(1) };
        tracker.take(LogFormat::Megatron, &told, at(1, true));
        tracker.take(LogFormat::Megatron, &step(2), at(9, true));
        assert_eq!(tracker.progress().step_time, Reading::measured(Seconds(0.5), Moment(1_000)));
    }
}
