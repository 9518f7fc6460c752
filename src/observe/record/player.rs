//! Plays a recording: the same samples at the same distances, faster or slower, from anywhere.

use std::path::Path;
use std::time::{Duration, Instant};

use super::event::FoundEvent;
use super::reader::{OpenError, Recording};
use super::samples::Samples;
use crate::Source;
use crate::reading::playback::{Milestones, Playback, PlaybackCommand, SPEEDS};
use crate::reading::{Moment, Sample, SourceInfo, SourceKind};

/// A recording as a source.
#[derive(Debug)]
pub struct Replay {
    samples: Samples,
    /// The sample that is shown; none before the first.
    shown: Option<usize>,
    /// The sample up to which none waits for its time.
    until: usize,
    /// What keeps time: a sample's recorded time, and when that was shown.
    anchor: (Moment, Instant),
    speed: f64,
    paused: bool,
    rewound: u64,
    /// Where it went to: samples before that.
    from: usize,
    milestones: Milestones<()>,
    /// What it went to last that was looked for: when, and what happens there.
    found: Option<(Moment, String)>,
}

impl Replay {
    /// A recording from its beginning, at `speed` recorded seconds a second.
    ///
    /// # Errors
    /// Where there is nothing to be played.
    pub fn open(path: &Path, speed: f64) -> Result<Self, OpenError> {
        Ok(Self::of(Recording::open(path)?, speed))
    }

    /// The same of a recording that has been looked through already.
    #[must_use]
    pub fn of(recording: Recording, speed: f64) -> Self {
        let anchor = (recording.time(0), Instant::now());
        let speed = speed.clamp(*SPEEDS.start(), *SPEEDS.end());
        let (samples, milestones) = (Samples::of(recording), Milestones::default());
        let (shown, paused, found) = (None, false, None);
        Self { samples, shown, until: 0, anchor, speed, paused, rewound: 0, from: 0, milestones, found }
    }

    fn recording(&self) -> &Recording {
        self.samples.recording()
    }

    /// The sample that comes next; none after the last.
    fn next(&self) -> Option<usize> {
        let next = self.shown.map_or(0, |shown| shown + 1);
        (next < self.recording().len()).then_some(next)
    }

    /// From here on time runs from the sample that is shown.
    fn anchor(&mut self) {
        self.anchor = (self.recording().time(self.shown.unwrap_or(0)), Instant::now());
    }

    /// The sample that is shown, or that it is on the way to.
    fn target(&self) -> usize {
        self.shown.unwrap_or(0).max(self.until)
    }

    /// Shows that sample next as if it had been played to: at once all that lie between, from where it
    /// stands or, where that is nearer or it lies before, the last milestone or the beginning.
    fn go_to(&mut self, index: usize) {
        let milestone = self.milestones.before(index).map_or(0, |(at, ())| *at);
        let played = self.shown.map_or(0, |shown| shown + 1);
        if index + 1 < played || milestone > played {
            self.play_from(milestone);
        }
        self.until = index;
    }

    /// Plays from the sample after so many.
    fn play_from(&mut self, samples: usize) {
        self.from = samples;
        self.shown = samples.checked_sub(1);
        self.rewound += 1;
    }

    /// Goes so many recorded seconds on or back from where it is.
    fn seek(&mut self, seconds: f64) {
        let (start, target) = (self.recording().time(0), self.recording().time(self.target()));
        let millis = (target.since(start).0 + seconds) * 1000.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let index = self.recording().index_at(start.plus_millis(millis.round() as u64));
        self.go_to(index);
    }
}

impl Source for Replay {
    fn info(&self) -> SourceInfo {
        let recorded = &self.recording().header().source;
        let name = self.recording().parts().first().and_then(|path| path.file_name()).unwrap_or_default();
        let detail = format!("{}, {} {}", name.to_string_lossy(), recorded.kind.word(), recorded.detail);
        SourceInfo { kind: SourceKind::Replay, detail }
    }

    /// The next sample, with the time that it was recorded at; the last one again after that.
    fn sample(&mut self, now: Moment) -> Sample {
        if let Some(next) = self.next()
            && let Some(sample) = self.samples.get(next, self.until)
        {
            self.shown = Some(next);
            self.milestones.pass(next + 1, || ());
            if next == self.until {
                self.anchor();
            }
            return sample;
        }
        self.shown.and_then(|shown| self.samples.get(shown, shown)).unwrap_or(Sample { at: now, ..Sample::default() })
    }

    fn pause(&self, _: Duration) -> Option<Duration> {
        let next = self.next()?;
        if next <= self.until {
            return Some(Duration::ZERO);
        }
        if self.paused {
            return None;
        }
        let (time, shown) = self.anchor;
        let ahead = self.recording().time(next).since(time).0 / self.speed;
        // A gap that no clock can wait for is none that anybody sits through.
        let due = Duration::try_from_secs_f64(ahead).ok().and_then(|ahead| shown.checked_add(ahead))?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn playback(&self) -> Option<Playback> {
        let recording = self.recording();
        Some(Playback {
            start: recording.time(0),
            end: recording.time(usize::MAX),
            at: recording.time(self.shown.unwrap_or(0)),
            speed: self.speed,
            paused: self.paused,
            rewound: self.rewound,
            from: self.from,
            going_to: self.next().filter(|next| *next < self.until).map(|_| recording.time(self.until)),
            found: self.found.clone(),
            damage: recording.damage().map(ToString::to_string),
        })
    }

    fn steer(&mut self, steer: PlaybackCommand) {
        self.found = None;
        match steer {
            PlaybackCommand::Pause if self.next().is_none() => {
                self.paused = false;
                self.go_to(0);
            }
            PlaybackCommand::Pause => self.paused = !self.paused,
            PlaybackCommand::Step(by) => {
                self.paused = true;
                let last = self.recording().len().saturating_sub(1);
                self.go_to(self.target().saturating_add_signed(isize::try_from(by).unwrap_or(0)).min(last));
            }
            PlaybackCommand::Seek(by) => self.seek(f64::from(by)),
            PlaybackCommand::SeekPercent(by) => {
                let whole = self.recording().time(usize::MAX).since(self.recording().time(0));
                self.seek(whole.0 * f64::from(by) / 100.0);
            }
            PlaybackCommand::Event(by) => {
                let last = self.recording().len().saturating_sub(1);
                let target = self.target();
                let forward = by > 0;
                let found = self.samples.find_event(target, forward).unwrap_or_else(|| FoundEvent {
                    index: if forward { last } else { 0 },
                    words: format!("nothing more: the {}", if forward { "end" } else { "beginning" }),
                });
                self.paused = true;
                self.go_to(found.index);
                self.found = Some((self.recording().time(found.index), found.words));
            }
            PlaybackCommand::Afresh => {
                self.until = self.target();
                self.play_from(0);
            }
            PlaybackCommand::Faster => self.speed = (self.speed * 2.0).min(*SPEEDS.end()),
            PlaybackCommand::Slower => self.speed = (self.speed / 2.0).max(*SPEEDS.start()),
        }
        self.anchor();
    }
}
