//! A file that somebody else writes: read from near its end, and followed over rotation and
//! truncation.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::reading::{Absence, Moment};

/// How much of what is there already is read: some thousand lines.
const TAIL: u64 = 256 * 1024;

/// How much is read in one go. What a faster writer leaves behind is passed over.
const MOST: u64 = 1024 * 1024;

/// `O_NONBLOCK`: a named pipe would hold the opening up until somebody writes.
const NONBLOCK: i32 = 0o4000;

/// How the bytes that were read go on from those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogContinuity {
    /// Right after them.
    Before,
    /// At the beginning of a file.
    Start,
    /// Somewhere within a line.
    Within,
}

/// What reading brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How they go on.
    pub from: LogContinuity,
    /// Where in the file they begin.
    pub offset: u64,
    /// When the file was written to last.
    pub written: Moment,
    /// They were there before anybody followed the file: their time of arrival says nothing.
    pub old: bool,
}

/// Follows one file by its path.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    open: Option<OpenLog>,
    /// Something was read already: a file that appears now is a new one.
    begun: bool,
    /// At first no more than these bytes of its end are read: what is before them is another run's.
    most: Option<u64>,
    /// Something is before them.
    behind: bool,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    identity: (u64, u64),
    position: u64,
}

impl Follower {
    /// Nothing is opened yet.
    pub fn new(path: PathBuf) -> Self {
        Self::of_last(path, None)
    }

    /// The same from `most` bytes before the present end.
    pub fn of_last(path: PathBuf, most: Option<u64>) -> Self {
        Self { path, open: None, begun: false, most, behind: false }
    }

    /// Whether the file begins with lines of another run.
    pub const fn follows_another(&self) -> bool {
        self.behind
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What has come since the last look; none where nothing has.
    ///
    /// # Errors
    /// Why the file cannot be read now. It is tried again next time.
    pub fn read(&mut self) -> Result<Option<LogPiece>, Absence> {
        let Some(open) = &mut self.open else {
            return self.begin().map_err(absence);
        };
        let now = fs::metadata(&self.path).ok().map(|meta| identity(&meta));
        let piece = open.more().map_err(absence)?;
        // The old file is read to its end before a new one under its name is taken up.
        if piece.is_none() && now.is_some_and(|now| now != open.identity) {
            self.open = None;
            return self.begin().map_err(absence);
        }
        Ok(piece)
    }

    /// As much of the beginning as is read of the end; nothing where that cannot be read.
    pub fn head(&self) -> Vec<u8> {
        let mut bytes = vec![0; TAIL as usize];
        let read = self.open.as_ref().and_then(|open| open.file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    fn begin(&mut self) -> io::Result<Option<LogPiece>> {
        let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&self.path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not a file"));
        }
        let own = self.most.unwrap_or(u64::MAX);
        let position = if self.begun { 0 } else { meta.len().saturating_sub(own.min(TAIL)) };
        self.behind = !self.begun && own < meta.len();
        let old = !std::mem::replace(&mut self.begun, true);
        let mut open = OpenLog { file, identity: identity(&meta), position };
        let first = open.more()?.map(|piece| {
            let from = if position == 0 { LogContinuity::Start } else { LogContinuity::Within };
            LogPiece { from, old, ..piece }
        });
        self.open = Some(open);
        // An empty new file ends whatever was unfinished in the old one.
        Ok(first.or_else(|| {
            (!old).then(|| LogPiece {
                bytes: Vec::new(),
                from: LogContinuity::Start,
                offset: 0,
                written: written(&meta),
                old,
            })
        }))
    }
}

impl OpenLog {
    fn more(&mut self) -> io::Result<Option<LogPiece>> {
        let meta = self.file.metadata()?;
        let mut from = LogContinuity::Before;
        if meta.len() < self.position {
            (self.position, from) = (0, LogContinuity::Start);
        }
        if meta.len() - self.position > MOST {
            (self.position, from) = (meta.len() - MOST, LogContinuity::Within);
        }
        if meta.len() == self.position && from == LogContinuity::Before {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let offset = self.position;
        self.file.seek(SeekFrom::Start(self.position))?;
        let read = (&mut self.file).take(MOST).read_to_end(&mut bytes)?;
        self.position += read as u64;
        Ok(Some(LogPiece { bytes, from, offset, written: written(&meta), old: false }))
    }
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn written(meta: &Metadata) -> Moment {
    let since = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[allow(clippy::needless_pass_by_value)]
fn absence(error: io::Error) -> Absence {
    match error.kind() {
        ErrorKind::PermissionDenied => Absence::NoPermission,
        ErrorKind::NotFound => Absence::Because("no such file".into()),
        _ => Absence::Failed(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::rename;
    use std::io::Write;

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn append(path: &Path, text: &str) {
        OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The bytes as text, and how they go on.
    fn read(follower: &mut Follower) -> Option<(String, LogContinuity)> {
        follower.read().unwrap().map(|piece| (String::from_utf8(piece.bytes).unwrap(), piece.from))
    }

    fn some(text: &str, from: LogContinuity) -> Option<(String, LogContinuity)> {
        Some((text.to_owned(), from))
    }

    #[test]
    fn what_comes_is_read_once() {
        let folder = folder();
        let path = folder.path().join("log");
        let mut follower = Follower::new(path.clone());
        assert_eq!(follower.read(), Err(Absence::Because("no such file".into())));
        append(&path, "one\n");
        assert_eq!(read(&mut follower), some("one\n", LogContinuity::Start));
        assert_eq!(read(&mut follower), None);
        append(&path, "two\n");
        assert_eq!(read(&mut follower), some("two\n", LogContinuity::Before));
    }

    #[test]
    fn a_rotated_log_is_read_to_its_end_and_then_the_new_one() {
        let folder = folder();
        let path = folder.path().join("log");
        append(&path, "one\n");
        let mut follower = Follower::new(path.clone());
        read(&mut follower);
        append(&path, "last\n");
        rename(&path, folder.path().join("log.1")).unwrap();
        append(&path, "new\n");
        assert_eq!(read(&mut follower), some("last\n", LogContinuity::Before));
        assert_eq!(read(&mut follower), some("new\n", LogContinuity::Start));
        assert_eq!(read(&mut follower), None);
    }

    #[test]
    fn a_truncated_log_is_read_from_its_start() {
        let folder = folder();
        let path = folder.path().join("log");
        append(&path, "a long first line\n");
        let mut follower = Follower::new(path.clone());
        read(&mut follower);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(read(&mut follower), some("new\n", LogContinuity::Start));
    }

    #[test]
    fn gigabytes_are_read_from_their_end() {
        let folder = folder();
        let path = folder.path().join("log");
        // Sparse: it takes no room.
        let file = File::create(&path).unwrap();
        file.set_len(8 << 30).unwrap();
        append(&path, "\nlast\n");
        let mut follower = Follower::new(path.clone());
        let piece = follower.read().unwrap().unwrap();
        assert_eq!((piece.bytes.len() as u64, piece.from, piece.old), (TAIL, LogContinuity::Within, true));
        assert!(piece.bytes.ends_with(b"\nlast\n"));
        file.set_len(16 << 30).unwrap();
        let piece = follower.read().unwrap().unwrap();
        assert_eq!((piece.bytes.len() as u64, piece.from), (MOST, LogContinuity::Within));
        assert_eq!(follower.read(), Ok(None));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        for path in ["/dev/null", "/proc"] {
            assert!(matches!(Follower::new(path.into()).read(), Err(Absence::Failed(_))), "{path}");
        }
    }
}
