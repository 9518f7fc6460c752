//! Reads a recording: all of its parts, up to where one is damaged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use super::format::{Header, VERSION};
use super::lines::{BREAKS_OFF, RecordingLines};
use super::writer::part_path;
use crate::files;
use crate::plan::reason;
use crate::reading::Moment;

impl OpenError {
    /// Whether another file was meant, rather than something being wrong with this one.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Io(_, error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory),
            Self::NoRecording(_) | Self::Newer(..) | Self::Rotated(..) => true,
            Self::Empty(_) | Self::Damaged(_) => false,
        }
    }
}

/// Why a recording cannot be played at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{0}: {why}", why = reason(.1))]
    Io(PathBuf, io::Error),
    /// Its first part was removed to make room for later ones; the oldest that is left.
    #[error("{0} is gone, as older parts are where --keep says so: the oldest one left is {1}")]
    Rotated(PathBuf, PathBuf),
    /// It is something else.
    #[error("{0}: not a recording of memwall: its first line is no header")]
    NoRecording(PathBuf),
    /// It is from a later version.
    #[error("{0}: recorded in schema {1} by a newer memwall; this one reads up to {VERSION}")]
    Newer(PathBuf, u32),
    /// It ended before its first sample.
    #[error("{0}: the recording holds no sample")]
    Empty(PathBuf),
    /// It is damaged before its first sample.
    #[error("{0}")]
    Damaged(Damage),
}

/// Where a recording breaks off, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// The byte at which that line begins, of the unpacked text, from 0.
    pub byte: u64,
    /// The time of the last sample before it.
    pub after: Option<Moment>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, byte, after, what } = self;
        write!(f, "{}: damaged at line {line}, byte {byte}", path.display())?;
        if let Some(after) = after {
            write!(f, ", after {after}")?;
        }
        write!(f, ": {what}")
    }
}

/// Where a sample stands.
#[derive(Debug, Clone, Copy)]
pub struct SampleEntry {
    /// The place of its file among the parts.
    pub part: usize,
    /// Lines before it in its file.
    pub line: u64,
    /// Bytes of unpacked text before it.
    pub byte: u64,
    /// When it was taken.
    pub at: Moment,
}

/// When the sample of a line was taken. As lines are written here that stands at their beginning, and the rest is read
/// when it is played: a day of eight GPUs is gigabytes, and nobody waits for all of them to see the first second.
fn taken(line: &[u8]) -> serde_json::Result<Moment> {
    /// What every line of a sample has.
    #[derive(Deserialize)]
    struct Stamp {
        at: Moment,
    }
    let written_here = line.strip_prefix(br#"{"at":"#).filter(|_| line.ends_with(b"}"));
    let digits = written_here.and_then(|rest| rest.split(|byte| !byte.is_ascii_digit()).next());
    match digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()) {
        Some(millis) => Ok(Moment(millis)),
        None => serde_json::from_slice::<Stamp>(line).map(|stamp| stamp.at),
    }
}

/// Samples that are played: two years at a second each.
const MOST_SAMPLES: usize = 1 << 22;

/// A recording: its header, and where each of its samples stands.
#[derive(Debug)]
pub struct Recording {
    header: Header,
    parts: Vec<PathBuf>,
    pub(super) entries: Vec<SampleEntry>,
    pub(super) damage: Option<Damage>,
}

impl Header {
    /// What a recording says of itself.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(path: &Path) -> Result<Self, OpenError> {
        let mut lines = RecordingLines::open(path).map_err(|error| not_opened(path, error))?;
        header_of(path, &mut lines)
    }
}

impl Recording {
    /// Looks a recording through: this file, and the parts that follow it.
    ///
    /// # Errors
    /// Where there is no sample to be played.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let mut lines = RecordingLines::open(path).map_err(|error| not_opened(path, error))?;
        let header = header_of(path, &mut lines)?;
        let first = header.part;
        let base = base_of(path, first);
        let mut recording = Self { header, parts: vec![path.to_owned()], entries: Vec::new(), damage: None };
        let mut goes_on = recording.scan(lines);
        while goes_on {
            let number = first.saturating_add(u32::try_from(recording.parts.len()).unwrap_or(u32::MAX));
            let next = part_path(&base, number);
            let Ok(mut lines) = RecordingLines::open(&next) else { break };
            match header_of(&next, &mut lines) {
                Ok(header) if header.started == recording.header.started && header.part == number => {}
                // Another recording's, or none.
                _ => break,
            }
            recording.parts.push(next);
            goes_on = recording.scan(lines);
        }
        match (recording.entries.is_empty(), recording.damage.take()) {
            (true, Some(damage)) => Err(OpenError::Damaged(damage)),
            (true, None) => Err(OpenError::Empty(path.to_owned())),
            (false, damage) => Ok(Self { damage, ..recording }),
        }
    }

    /// Notes where the samples of the newest part stand; whether a later part may go on. It may where the last line
    /// of this one breaks off: a program that was killed was started again.
    fn scan(&mut self, mut lines: RecordingLines) -> bool {
        let part = self.parts.len() - 1;
        // The header is the line before the first.
        for line in 1.. {
            let byte = lines.byte;
            let what = match lines.next() {
                Ok(Some(text)) => match taken(text) {
                    Ok(_) if self.entries.len() == MOST_SAMPLES => format!("more than {MOST_SAMPLES} samples"),
                    Ok(at) if self.entries.last().is_none_or(|last| last.at <= at) => {
                        self.entries.push(SampleEntry { part, line, byte, at });
                        continue;
                    }
                    Ok(_) => "the time goes back".to_owned(),
                    Err(error) => format!("no sample: {}", fault(&error)),
                },
                Ok(None) => return true,
                Err(error) => error.to_string(),
            };
            let breaks_off = what == BREAKS_OFF;
            let after = self.entries.last().map(|last| last.at);
            let path = self.parts[part].clone();
            self.damage.get_or_insert(Damage { path, line: line + 1, byte, after, what });
            return breaks_off;
        }
        true
    }

    /// What its first line says.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Its files, in order.
    #[must_use]
    pub fn parts(&self) -> &[PathBuf] {
        &self.parts
    }

    /// Where it breaks off, where it does.
    #[must_use]
    pub const fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// How many samples it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never: a recording without samples is not opened.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The time of a sample; of the last one where there are not so many.
    #[must_use]
    pub fn time(&self, index: usize) -> Moment {
        self.entries.get(index).or(self.entries.last()).map_or(Moment::default(), |entry| entry.at)
    }

    /// The last sample at or before that time; the first where all are later.
    #[must_use]
    pub fn index_at(&self, at: Moment) -> usize {
        self.entries.partition_point(|entry| entry.at <= at).saturating_sub(1)
    }
}

/// The error without its place: that is the line's, which is told already.
pub fn fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// A header has a plan's text and a model's configuration.
const MOST_HEADER: usize = 400_000;

/// The header of a file.
fn header_of(path: &Path, lines: &mut RecordingLines) -> Result<Header, OpenError> {
    /// What a header of any version says.
    #[derive(Deserialize)]
    struct Version {
        memwall_recording: u32,
    }
    let none = || OpenError::NoRecording(path.to_owned());
    let line = match lines.next() {
        Ok(line) => line.ok_or_else(none)?,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(none()),
        Err(error) => return Err(OpenError::Io(path.to_owned(), error)),
    };
    if files::most_json_values(line) > MOST_HEADER {
        return Err(none());
    }
    let Version { memwall_recording: version } = serde_json::from_slice(line).map_err(|_| none())?;
    if version > VERSION {
        return Err(OpenError::Newer(path.to_owned(), version));
    }
    serde_json::from_slice(line).map_err(|_| none())
}

/// Why a file could not be opened; where later parts of it are there, which is the oldest.
fn not_opened(path: &Path, error: io::Error) -> OpenError {
    /// More parts than anybody looks through.
    const LAST: u32 = 10_000;
    let parts = (2..=LAST).take_while(|_| error.kind() == io::ErrorKind::NotFound);
    match parts.map(|part| part_path(path, part)).find(|part| part.is_file()) {
        Some(oldest) => OpenError::Rotated(path.to_owned(), oldest),
        None => OpenError::Io(path.to_owned(), error),
    }
}

/// The path of a recording's first part, from that of any.
fn base_of(path: &Path, part: u32) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = format!(".{part}");
    let Some(at) = name.rfind(&number) else { return path.to_owned() };
    let base = path.with_file_name(format!("{}{}", &name[..at], &name[at + number.len()..]));
    if part_path(&base, part) == path { base } else { path.to_owned() }
}
