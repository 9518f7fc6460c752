//! The file of a recording: whole lines, also where the disk is full in the middle of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Crc;
use flate2::write::GzEncoder;

use super::writer::Compression;

/// Command lines and paths are in it: nobody else's business.
const MODE: u32 = 0o600;

/// A file that counts what goes into it.
#[derive(Debug)]
struct CountingWriter {
    file: File,
    bytes: u64,
    /// Given up: what is still written, a packer's last bytes, goes nowhere.
    given_up: bool,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.given_up {
            return Ok(bytes.len());
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The file, packed or not.
#[derive(Debug)]
pub struct RecordingOutput {
    to: To,
    /// Bytes up to the end of the last whole line.
    whole: u64,
    /// Of the whole lines that the packer has seen.
    packed: Crc,
    /// What still ends the packed lines before those that this packer sees.
    trailer: Vec<u8>,
}

/// A last block of nothing, as deflate has it (RFC 1951, 3.2.6): behind a flush it ends what was packed.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];

#[derive(Debug)]
enum To {
    Plain(CountingWriter),
    Gzip(GzEncoder<CountingWriter>),
}

impl To {
    fn of(counted: CountingWriter, compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(counted),
            // It runs beside training: half the work for a tenth more bytes.
            Compression::Gzip => Self::Gzip(GzEncoder::new(counted, flate2::Compression::fast())),
        }
    }

    fn counted(&mut self) -> &mut CountingWriter {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out.get_mut(),
        }
    }
}

impl RecordingOutput {
    /// A new file; a device or a pipe is written to.
    pub fn create(path: &Path, compression: Compression) -> io::Result<Self> {
        let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        let file = OpenOptions::new().write(true).create_new(!special).mode(MODE).open(path)?;
        Ok(Self {
            to: To::of(CountingWriter { file, bytes: 0, given_up: false }, compression),
            whole: 0,
            packed: Crc::new(),
            trailer: Vec::new(),
        })
    }

    /// Writes a line through to the system, or nothing of it where the disk has no room for all.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let written = match &mut self.to {
            To::Plain(out) => out.write_all(line.as_bytes()),
            To::Gzip(out) => {
                let ended = out.get_mut().write_all(&self.trailer);
                ended.and_then(|()| out.write_all(line.as_bytes())).and_then(|()| out.flush())
            }
        };
        match written {
            Ok(()) => {
                self.whole = self.bytes();
                if !self.trailer.is_empty() {
                    self.trailer.clear();
                    self.packed.reset();
                }
                self.packed.update(line.as_bytes());
                Ok(())
            }
            Err(error) => {
                // Where that fails too, the reader stops at the broken line.
                let _cut = self.take_back();
                Err(error)
            }
        }
    }

    /// Cuts off what was written of the last line.
    fn take_back(&mut self) -> io::Result<()> {
        let whole = self.whole;
        let packed = matches!(self.to, To::Gzip(_));
        let counted = self.to.counted();
        counted.file.set_len(whole)?;
        counted.file.seek(SeekFrom::Start(whole))?;
        counted.bytes = whole;
        if packed {
            // What the packer has seen is not what is in the file: another one goes on behind it, as gzip allows.
            let file = counted.file.try_clone()?;
            counted.given_up = true;
            if self.trailer.is_empty() && self.packed.amount() > 0 {
                self.trailer.extend(LAST_BLOCK);
                self.trailer.extend(self.packed.sum().to_le_bytes());
                self.trailer.extend(self.packed.amount().to_le_bytes());
            }
            self.to = To::of(CountingWriter { file, bytes: whole, given_up: false }, Compression::Gzip);
        }
        Ok(())
    }

    pub fn end(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Plain(out) => out.flush(),
            // Nothing has come after what the trailer ends.
            To::Gzip(out) if !self.trailer.is_empty() => {
                let ended = out.get_mut().write_all(&self.trailer);
                out.get_mut().given_up = true;
                ended
            }
            To::Gzip(out) => out.try_finish(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match &self.to {
            To::Plain(out) => out.bytes,
            To::Gzip(out) => out.get_ref().bytes,
        }
    }
}

/// Whether there may be room again later.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
