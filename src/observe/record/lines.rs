//! The lines of a recording's file, from wherever is wanted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::files;

/// No line of a recording is longer; a file that is no text may have no end of line at all.
pub(super) const LONGEST_LINE: u64 = 32 << 20;

/// A file that unpacks to more than so many times its own size, and to more than that besides, is none that anybody
/// recorded: samples become a tenth.
const MOST_TIMES: u64 = 60;
const UNPACKED_ANYWAY: u64 = 32 << 20;

/// What is wrong with the last line of a file whose writer was stopped.
pub const BREAKS_OFF: &str = "the line breaks off";

/// The lines of a file, unpacked where it is packed.
#[derive(Debug)]
pub struct RecordingLines {
    input: Input,
    /// Bytes of unpacked text before the next line.
    pub byte: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Input {
    Plain(BufReader<File>),
    /// With how many bytes may come out of it.
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<File>>>>, u64),
}

impl RecordingLines {
    /// From the first line on.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(files::open(path)?);
        let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let most = file.get_ref().metadata()?.len().saturating_mul(MOST_TIMES).saturating_add(UNPACKED_ANYWAY);
        let input = if packed {
            Input::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(file))), most)
        } else {
            Input::Plain(file)
        };
        Ok(Self { input, byte: 0, buffer: Vec::new() })
    }

    /// The next line without its end; none at the end of the file.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.clear();
        let buffer = &mut self.buffer;
        let read = match &mut self.input {
            Input::Plain(input) => input.take(LONGEST_LINE).read_until(b'\n', buffer),
            Input::Gzip(_, most) if self.byte > *most => {
                return Err(invalid("it unpacks to far more than samples do"));
            }
            Input::Gzip(input, _) => input.take(LONGEST_LINE).read_until(b'\n', buffer),
        };
        match read {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            // A packed file that nobody ended: fine where its last line was.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.buffer.is_empty() => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
        let length = self.buffer.len() as u64;
        match self.buffer.strip_suffix(b"\n") {
            Some(line) => {
                self.byte += length;
                Ok(Some(line))
            }
            None if length == LONGEST_LINE => Err(invalid("the line is longer than any sample's")),
            None => Err(invalid(BREAKS_OFF)),
        }
    }

    /// Goes to where a line begins. Forward, packed text is read over; back, from the beginning.
    pub fn go_to(&mut self, byte: u64, path: &Path) -> io::Result<()> {
        if byte == self.byte {
            return Ok(());
        }
        if let Input::Plain(input) = &mut self.input {
            input.seek(SeekFrom::Start(byte))?;
            self.byte = byte;
            return Ok(());
        }
        if byte < self.byte {
            *self = Self::open(path)?;
        }
        while self.byte < byte && self.next()?.is_some() {}
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
