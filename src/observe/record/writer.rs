//! Writes a recording.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

use super::format::{Header, encode};
use crate::reading::{Moment, Sample};
use crate::units::{Bytes, Seconds};

/// Endings that a part's number goes before.
const ENDINGS: [&str; 4] = ["gz", "ndjson", "jsonl", "json"];

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
    /// As the ending of the file's name says.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|ending| ending == "gz") { Self::Gzip } else { Self::None }
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
pub struct Written {
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
    /// Time of the first sample and of the last one.
    pub span: Option<(Moment, Moment)>,
}

impl Written {
    /// What became of it, in words.
    #[must_use]
    pub fn summary(&self) -> String {
        let length = self.span.map_or(Seconds(0.0), |(first, last)| last.since(first));
        let Self { samples, parts, oldest, bytes, .. } = self;
        let file = part_path(&self.path, *oldest);
        let parts = match parts {
            0 | 1 => String::new(),
            _ if *oldest > 1 => format!(" and later, {} of {parts} parts kept", parts - oldest + 1),
            _ => format!(" in {parts} parts"),
        };
        format!("recorded {samples} samples over {length} to {}{parts} ({bytes})", file.display())
    }
}

/// A recording that is being written: each sample reaches the system before the next one.
#[derive(Debug)]
pub struct Recorder {
    header: Header,
    compression: Compression,
    rotation: Rotation,
    out: Out,
    written: Written,
    /// Bytes of the parts before this one.
    before: u64,
}

impl Recorder {
    /// Begins a recording at `path`. What is there already is never written over; a device or a
    /// pipe is written to.
    ///
    /// # Errors
    /// Where the file exists, or cannot be made or written.
    pub fn create(path: &Path, header: Header, compression: Compression, rotation: Rotation) -> io::Result<Self> {
        let mut out = Out::create(path, compression)?;
        out.line(&serde_json::to_string(&header)?)?;
        let (path, bytes) = (path.to_owned(), Bytes(out.bytes()));
        let written = Written { path, samples: 0, bytes, parts: 1, oldest: 1, span: None };
        Ok(Self { header, compression, rotation, out, written, before: 0 })
    }

    /// Writes a sample.
    ///
    /// # Errors
    /// Where the disk is full or the file cannot be written any more. What was written stays readable.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        if self.rotation.size.is_some_and(|size| self.out.bytes() >= size.0) {
            self.turn()?;
        }
        self.out.line(&encode(sample)?)?;
        self.written.samples += 1;
        self.written.bytes = Bytes(self.before + self.out.bytes());
        let first = self.written.span.map_or(sample.at, |(first, _)| first);
        self.written.span = Some((first, sample.at));
        Ok(())
    }

    /// What has been written so far.
    #[must_use]
    pub const fn written(&self) -> &Written {
        &self.written
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Where its last bytes cannot be written.
    pub fn finish(mut self) -> io::Result<Written> {
        self.out.end()?;
        self.written.bytes = Bytes(self.before + self.out.bytes());
        Ok(self.written)
    }

    /// Ends this part and begins the next one.
    fn turn(&mut self) -> io::Result<()> {
        self.out.end()?;
        self.before += self.out.bytes();
        self.header.part += 1;
        self.written.parts = self.header.part;
        let path = part_path(&self.written.path, self.header.part);
        self.out = Out::create(&path, self.compression)?;
        self.out.line(&serde_json::to_string(&self.header)?)?;
        let gone = self.rotation.keep.and_then(|keep| self.header.part.checked_sub(keep.max(1)));
        if let Some(gone) = gone.filter(|gone| *gone > 0) {
            // Somebody may have moved it away already: then there is nothing to remove.
            drop(fs::remove_file(part_path(&self.written.path, gone)));
            self.written.oldest = gone + 1;
        }
        Ok(())
    }
}

/// The file of a part: `run.ndjson.gz`, `run.2.ndjson.gz`, `run.3.ndjson.gz`.
pub fn part_path(path: &Path, part: u32) -> PathBuf {
    if part <= 1 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut stem = name.as_str();
    while let Some((rest, _)) = stem.rsplit_once('.').filter(|(rest, end)| !rest.is_empty() && ENDINGS.contains(end)) {
        stem = rest;
    }
    path.with_file_name(format!("{stem}.{part}{}", &name[stem.len()..]))
}

/// A file that counts what goes into it.
#[derive(Debug)]
struct Counted {
    file: File,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[derive(Debug)]
enum Out {
    Plain(Counted),
    Gzip(GzEncoder<Counted>),
}

impl Out {
    fn create(path: &Path, compression: Compression) -> io::Result<Self> {
        let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        let file = OpenOptions::new().write(true).create_new(!special).open(path)?;
        let counted = Counted { file, bytes: 0 };
        Ok(match compression {
            Compression::None => Self::Plain(counted),
            // It runs beside training: half the work for a tenth more bytes.
            Compression::Gzip => Self::Gzip(GzEncoder::new(counted, flate2::Compression::fast())),
        })
    }

    /// Writes a line through to the system.
    fn line(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        match self {
            Self::Plain(out) => out.write_all(line.as_bytes()),
            Self::Gzip(out) => {
                out.write_all(line.as_bytes())?;
                out.flush()
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.try_finish(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Plain(out) => out.bytes,
            Self::Gzip(out) => out.get_ref().bytes,
        }
    }
}
