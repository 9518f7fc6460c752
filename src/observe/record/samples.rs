//! The samples of a recording, read from wherever is wanted.

use std::collections::VecDeque;
use std::io;

use rayon::prelude::*;
use thiserror::Error;

use super::event::FoundEvent;
use super::format::{MOST_PARTS, decode, parts};
use super::lines::RecordingLines;
use super::reader::{Damage, Recording, SampleEntry, fault};
use crate::reading::{Moment, Sample};

/// The samples of a recording, read one after the other from wherever is wanted.
#[derive(Debug)]
pub struct Samples {
    recording: Recording,
    open: Option<(usize, RecordingLines)>,
    /// What was read ahead, and the place of its first.
    ahead: (usize, VecDeque<Result<Sample, UnreadableSample>>),
}

/// Why a sample cannot be read any more.
#[derive(Debug, Error)]
enum UnreadableSample {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file has become shorter")]
    Shorter,
    #[error("no sample: {}", fault(.0))]
    Malformed(#[from] serde_json::Error),
}

/// Samples that are looked through for an event at once: some five hours, which takes some seconds.
const MOST_LOOKED_THROUGH: usize = 20_000;

/// Samples that are read together on the way to one that lies far ahead: they are decoded side by side.
const TOGETHER: usize = 64;

/// Bytes of lines that are decoded side by side; of their parts there are no more than one sample may have.
const MOST_BYTES_TOGETHER: usize = 16 << 20;

impl Samples {
    /// Of this recording.
    #[must_use]
    pub const fn of(recording: Recording) -> Self {
        Self { recording, open: None, ahead: (0, VecDeque::new()) }
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The sample at that place; none beyond the last. What cannot be read any more, or is no
    /// sample to its last field, is the recording's end from then on. Those up to `until` will be
    /// asked for next.
    pub fn get(&mut self, index: usize, until: usize) -> Option<Sample> {
        let entry = *self.recording.entries.get(index)?;
        if self.ahead.0 != index || self.ahead.1.is_empty() {
            self.ahead = (index, self.read(index, until.clamp(index, index + TOGETHER - 1)));
        }
        self.ahead.0 += 1;
        match self.ahead.1.pop_front()? {
            Ok(sample) => Some(sample),
            Err(what) => {
                let after = index.checked_sub(1).map(|before| self.recording.time(before));
                let path = self.recording.parts()[entry.part].clone();
                let what = what.to_string();
                self.recording.damage = Some(Damage { path, line: entry.line + 1, byte: entry.byte, after, what });
                self.recording.entries.truncate(index);
                None
            }
        }
    }

    /// The nearest sample after, or before, that place at which something happens; where it would take too long to
    /// look further, as far as was looked. None where nothing happens up to the end, or the beginning.
    pub fn find_event(&mut self, from: usize, forward: bool) -> Option<FoundEvent> {
        let last = self.recording.len().saturating_sub(1);
        let mut at = if forward { from } else { from.checked_sub(1)? };
        let (mut looked, mut together) = (0, TOGETHER);
        while looked < MOST_LOOKED_THROUGH {
            // One more than is asked for: what a sample is compared with.
            let (first, until) =
                if forward { (at, (at + together).min(last)) } else { (at.saturating_sub(together), at) };
            if first >= until {
                return None;
            }
            let read = self.read(first, until);
            if read.len() <= until - first {
                together = read.len().saturating_sub(1).max(1);
                continue;
            }
            let samples: Vec<Sample> = read.into_iter().map_while(Result::ok).collect();
            if let Some(found) = FoundEvent::among(&samples, first, forward) {
                return Some(found);
            }
            looked += until - first;
            at = if forward { until } else { first };
        }
        let index = if forward { (from + looked).min(last) } else { from.saturating_sub(looked) };
        Some(FoundEvent { index, words: format!("nothing in {looked} samples") })
    }

    /// The samples from one place to another; fewer where they are large, but two where there are two.
    fn read(&mut self, from: usize, to: usize) -> VecDeque<Result<Sample, UnreadableSample>> {
        let entries: Vec<SampleEntry> = self.recording.entries.iter().take(to + 1).skip(from).copied().collect();
        let (mut lines, mut bytes, mut held) = (Vec::new(), 0, 0);
        for entry in entries {
            if lines.len() > 1 && (bytes > MOST_BYTES_TOGETHER || held > MOST_PARTS) {
                break;
            }
            let line = self.line(entry).map(|line| (line, entry.at));
            if let Ok((line, _)) = &line {
                (bytes, held) = (bytes + line.len(), held + parts(line));
            }
            lines.push(line);
        }
        let sample = |line: Result<(Vec<u8>, Moment), UnreadableSample>| {
            let (line, at) = line?;
            Ok(decode(&line, at)?)
        };
        // One alone needs no other thread.
        if lines.len() == 1 {
            return lines.into_iter().map(sample).collect();
        }
        lines.into_par_iter().map(sample).collect::<Vec<_>>().into()
    }

    fn line(&mut self, entry: SampleEntry) -> Result<Vec<u8>, UnreadableSample> {
        let path = &self.recording.parts()[entry.part];
        let mut lines = match self.open.take() {
            Some((part, lines)) if part == entry.part => lines,
            _ => RecordingLines::open(path)?,
        };
        lines.go_to(entry.byte, path)?;
        let line = lines.next()?.ok_or(UnreadableSample::Shorter)?.to_vec();
        self.open = Some((entry.part, lines));
        Ok(line)
    }
}
