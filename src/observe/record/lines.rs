//! The lines of a recording's file, from wherever is wanted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// No line of a recording is longer; a file that is no text may have no end of line at all.
const LONGEST_LINE: u64 = 64 << 20;

/// The lines of a file, unpacked where it is packed.
#[derive(Debug)]
pub struct Lines {
    input: Input,
    /// Bytes of unpacked text before the next line.
    pub byte: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Input {
    Plain(BufReader<File>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<File>>>>),
}

impl Lines {
    /// From the first line on.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let input =
            if packed { Input::Gzip(Box::new(BufReader::new(MultiGzDecoder::new(file)))) } else { Input::Plain(file) };
        Ok(Self { input, byte: 0, buffer: Vec::new() })
    }

    /// The next line without its end; none at the end of the file.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.clear();
        let buffer = &mut self.buffer;
        let read = match &mut self.input {
            Input::Plain(input) => input.take(LONGEST_LINE).read_until(b'\n', buffer),
            Input::Gzip(input) => input.take(LONGEST_LINE).read_until(b'\n', buffer),
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
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "the line breaks off")),
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
