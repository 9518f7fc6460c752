//! Writes a recording.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::format::{Header, encode};
use super::lines::LONGEST_LINE;
use super::out::{RecordingOutput, is_full};
use crate::reading::{Moment, Sample};
use crate::units::{Bytes, Seconds};

/// Endings that a part's number goes before.
const ENDINGS: [&str; 4] = ["gz", "ndjson", "jsonl", "json"];

/// Endings of files that are lines of JSON.
const PLAIN: [&str; 3] = ["ndjson", "jsonl", "json"];

/// How a recording is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Plain lines.
    #[default]
    None,
    /// gzip, flushed after every line: what was written before a kill can be unpacked.
    Gzip,
}

impl Compression {
    /// As the ending of the file's name says: packed, unless it is that of lines of JSON.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let plain = |ending: &std::ffi::OsStr| PLAIN.iter().any(|known| ending == *known);
        // What is no file, such as /dev/stdout, is read by whoever is behind it.
        let special = path.exists() && !path.is_file();
        if special || path.extension().is_some_and(plain) { Self::None } else { Self::Gzip }
    }
}

/// When a file is full, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotation {
    /// The next part begins where this one has grown to that size; none: one file for all.
    pub size: Option<Bytes>,
    /// The oldest parts beyond that many are removed; none: all are kept.
    pub keep: Option<u32>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingTotals {
    /// The first file, or the only one.
    pub path: PathBuf,
    /// Samples in all parts.
    pub samples: u64,
    /// Bytes in all parts, those included that were removed again.
    pub bytes: Bytes,
    /// Files.
    pub parts: u32,
    /// The number of the oldest file that is still there.
    pub oldest: u32,
    /// The first file of these samples, where they go on with an earlier recording.
    pub continued: Option<u32>,
    /// Samples for which the disk had no room.
    pub lost: u64,
    /// Time of the first sample and of the last one.
    pub span: Option<(Moment, Moment)>,
}

impl RecordingTotals {
    /// What became of it, in words.
    #[must_use]
    pub fn summary(&self) -> String {
        let length = self.span.map_or(Seconds(0.0), |(first, last)| last.since(first));
        let Self { samples, parts, oldest, bytes, lost, .. } = self;
        let file = part_path(&self.path, *oldest);
        let parts = match parts {
            0 | 1 => String::new(),
            _ if *oldest > 1 => format!(" and later, {} of {parts} parts kept", parts - oldest + 1),
            _ => format!(" in {parts} parts"),
        };
        let before = match self.continued {
            Some(part) => format!("; what was recorded before is part of it, this begins in part {part}"),
            None => String::new(),
        };
        let lost =
            if *lost > 0 { format!("; {lost} samples were lost while the disk was full") } else { String::new() };
        format!("recorded {samples} samples over {length} to {}{parts} ({bytes}){before}{lost}", file.display())
    }
}

/// A recording that is being written: each sample reaches the system before the next one.
#[derive(Debug)]
pub struct Recorder {
    header: Header,
    compression: Compression,
    rotation: Rotation,
    out: RecordingOutput,
    written: RecordingTotals,
    /// Bytes of the parts before this one.
    before: u64,
}

impl Recorder {
    /// Begins a recording at `path`, or goes on with the one that a command like this left there, where parts are
    /// rotated. What is there already is never written over; a device or a pipe is written to.
    ///
    /// # Errors
    /// Where the file exists, or cannot be made or written.
    pub fn create(path: &Path, mut header: Header, compression: Compression, rotation: Rotation) -> io::Result<Self> {
        let earlier = if rotation.size.is_some() { parts(path) } else { Vec::new() };
        if let Some(newest) = earlier.last() {
            header = continued(&part_path(path, *newest), header)?;
        }
        let out = begin(&part_path(path, header.part), &header, compression)?;
        let oldest = earlier.first().copied().unwrap_or(header.part);
        let continued = (!earlier.is_empty()).then_some(header.part);
        let bytes = Bytes(out.bytes());
        let written = RecordingTotals {
            path: path.to_owned(),
            samples: 0,
            bytes,
            parts: header.part,
            oldest,
            continued,
            lost: 0,
            span: None,
        };
        let mut recorder = Self { header, compression, rotation, out, written, before: 0 };
        recorder.make_room();
        Ok(recorder)
    }

    /// Writes a sample. Where the disk is full it is left out and counted, and the next one is tried: `false` until
    /// there is room again.
    ///
    /// # Errors
    /// Where the file cannot be written any more. What was written stays readable.
    pub fn write(&mut self, sample: &Sample) -> io::Result<bool> {
        let missed = Sample { dropped: sample.dropped + self.written.lost, ..sample.clone() };
        match self.put(if self.written.lost > 0 { &missed } else { sample }) {
            Ok(()) => Ok(true),
            // Nothing yet: there is no recording that could wait.
            Err(error) if self.written.samples > 0 && is_full(&error) => {
                self.written.lost += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn put(&mut self, sample: &Sample) -> io::Result<()> {
        if self.rotation.size.is_some_and(|size| self.out.bytes() >= size.0) {
            self.turn()?;
        }
        let line = encode(sample)?;
        if line.len() as u64 >= LONGEST_LINE {
            // Nobody could read it back.
            let why = format!("a sample of {} GPUs is larger than {}", sample.devices.len(), Bytes(LONGEST_LINE));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.out.line(&line)?;
        self.written.samples += 1;
        self.written.bytes = Bytes(self.before + self.out.bytes());
        let first = self.written.span.map_or(sample.at, |(first, _)| first);
        self.written.span = Some((first, sample.at));
        Ok(())
    }

    /// What has been written so far.
    #[must_use]
    pub const fn written(&self) -> &RecordingTotals {
        &self.written
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Where its last bytes cannot be written.
    pub fn finish(mut self) -> io::Result<RecordingTotals> {
        self.out.end()?;
        self.written.bytes = Bytes(self.before + self.out.bytes());
        Ok(self.written)
    }

    /// Ends this part and begins the next one.
    fn turn(&mut self) -> io::Result<()> {
        let header = Header { part: self.header.part + 1, ..self.header.clone() };
        let next = begin(&part_path(&self.written.path, header.part), &header, self.compression)?;
        let ended = self.out.end();
        self.before += self.out.bytes();
        (self.header, self.out) = (header, next);
        self.written.parts = self.header.part;
        self.make_room();
        // A reader needs no last bytes of a part that another one follows.
        ended.or_else(|error| if is_full(&error) { Ok(()) } else { Err(error) })
    }

    /// Removes the oldest parts beyond those that are kept.
    fn make_room(&mut self) {
        let Some(keep) = self.rotation.keep else { return };
        let oldest = (self.header.part + 1).saturating_sub(keep.max(1)).max(1);
        for part in self.written.oldest..oldest {
            // Somebody may have moved it away already: then there is nothing to remove.
            drop(fs::remove_file(part_path(&self.written.path, part)));
        }
        self.written.oldest = self.written.oldest.max(oldest);
    }
}

/// A new file with the header in it; none stays where there is no room for that.
fn begin(path: &Path, header: &Header, compression: Compression) -> io::Result<RecordingOutput> {
    let mut out = RecordingOutput::create(path, compression)?;
    match out.line(&serde_json::to_string(header)?) {
        Ok(()) => Ok(out),
        Err(error) => {
            if is_full(&error) && path.is_file() {
                drop(fs::remove_file(path));
            }
            Err(error)
        }
    }
}

/// The header of the part after `newest`, which must be of a recording like the one that `header` begins.
fn continued(newest: &Path, header: Header) -> io::Result<Header> {
    let other = |what: &str| {
        let message = format!("{} exists already and {what}: it is not gone on with", newest.display());
        io::Error::new(io::ErrorKind::AlreadyExists, message)
    };
    let old = Header::read(newest).map_err(|_| other("is no recording"))?;
    if old.plan != header.plan {
        return Err(other("is a recording with another plan"));
    }
    if old.source.kind != header.source.kind {
        return Err(other("is a recording of another source"));
    }
    Ok(Header { started: old.started, part: old.part + 1, ..header })
}

/// The numbers of the parts of a recording that are there, in order.
fn parts(path: &Path) -> Vec<u32> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = stem_of(&name);
    let number = |other: &str| -> Option<u32> {
        if other == name {
            return Some(1);
        }
        other.strip_prefix(stem)?.strip_prefix('.')?.strip_suffix(ending)?.parse().ok().filter(|number| *number > 1)
    };
    let entries = fs::read_dir(folder).map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let files = entries.iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut found: Vec<u32> = files.filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect();
    found.sort_unstable();
    found
}

/// The file of a part: `run.ndjson.gz`, `run.2.ndjson.gz`, `run.3.ndjson.gz`.
pub fn part_path(path: &Path, part: u32) -> PathBuf {
    if part <= 1 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = stem_of(&name);
    path.with_file_name(format!("{stem}.{part}{ending}"))
}

/// A file's name without its endings, and those.
fn stem_of(name: &str) -> (&str, &str) {
    let mut stem = name;
    while let Some((rest, _)) = stem.rsplit_once('.').filter(|(rest, end)| !rest.is_empty() && ENDINGS.contains(end)) {
        stem = rest;
    }
    (stem, &name[stem.len()..])
}
