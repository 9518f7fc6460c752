//! Files of any origin, read within bounds: regular ones, without waiting, never more than a caller asks for.
//!
//! A configuration folder may hold a FIFO, which nobody writes to, or a link to `/dev/zero`; another user's process
//! names files as it likes. Whatever is read goes through here.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `O_NONBLOCK`: to open a pipe would be to wait for its writer.
const NON_BLOCKING: i32 = 0o4000;

/// Why a file is not read, in a line with its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unread(pub String);

/// Opens a regular file.
///
/// # Errors
/// Where there is none, it may not be read, or it is a folder, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Asked before as well: to open a device may set something going.
    refuse_special(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(NON_BLOCKING).open(path)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// Opens what a user names on the command line: a regular file, or a descriptor that this process was started with
/// (`/dev/stdin`, a shell's `<(…)`).
///
/// # Errors
/// As [`open`].
pub fn open_argument(path: &Path) -> io::Result<File> {
    let is_descriptor =
        path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    if is_descriptor { File::open(path) } else { open(path) }
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open`], and where it has more than `most` bytes ([`ErrorKind::FileTooLarge`]).
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large(&format!("{length} bytes are too large: at most {most} are read")));
    }
    up_to(file, most)
}

/// The text of a regular file.
///
/// # Errors
/// As [`read`], and where it is no UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text_of(read(path, most)?)
}

/// All bytes of an input that ends by then.
///
/// # Errors
/// Where it cannot be read or has more than `most` bytes ([`ErrorKind::FileTooLarge`]).
pub fn up_to(input: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(&format!("more than {most} bytes"))) } else { Ok(bytes) }
}

/// The bytes as text.
///
/// # Errors
/// Where they are no UTF-8.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

/// How many values a JSON text has at most: each but the first stands behind a bracket, a comma or a colon. Counted
/// before it is parsed, where one value of two bytes becomes one of seventy.
#[must_use]
pub fn most_json_values(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b'[' | b'{' | b',' | b':')).count()
}

/// Levels that values of a YAML file may stand in each other.
const DEEPEST: usize = 64;

/// Whether values of a YAML text stand in each other deeper than those of any file that people write: the parser's time
/// grows with the square of the depth.
///
/// ```
/// # use memwall_core as memwall;
/// assert!(memwall::files::is_deep(&"[".repeat(1000)));
/// assert!(memwall::files::is_deep(&"- ".repeat(1000)));
/// assert!(!memwall::files::is_deep("a: [[1, 2], {b: 3}]\n- - c\n"));
/// ```
#[must_use]
pub fn is_deep(text: &str) -> bool {
    let mut brackets = 0_usize;
    text.lines().any(|line| {
        // Sequences and keys that begin on one line: `- - - ? ? a`.
        let begins = line.as_bytes().windows(2).take_while(|pair| matches!(pair[0], b' ' | b'-' | b'?' | b':' | b'\t'));
        if begins.filter(|pair| pair[0] != b' ' && pair[1] == b' ').count() > DEEPEST {
            return true;
        }
        line.bytes().any(|byte| {
            match byte {
                b'[' | b'{' => brackets += 1,
                b']' | b'}' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            brackets > DEEPEST
        })
    })
}

fn refuse_special(meta: &Metadata) -> io::Result<()> {
    if meta.is_file() {
        Ok(())
    } else if meta.is_dir() {
        Err(ErrorKind::IsADirectory.into())
    } else {
        Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"))
    }
}

fn too_large(message: &str) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(folder.path(), 5).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert!(read(Path::new("/dev/zero"), 5).unwrap_err().to_string().contains("not a regular file"));
        assert_eq!(read(&folder.path().join("b"), 5).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe, 5).unwrap_err().to_string().contains("not a regular file"));
        assert!(open_argument(&pipe).is_err());
    }

    #[test]
    fn json_values_are_counted_before_they_are_made() {
        // The list and its three items; the object, its two keys and their values: five.
        assert!(most_json_values(b"[1,2,3]") >= 4);
        assert!(most_json_values(br#"{"a":1,"b":[]}"#) >= 5);
    }
}
