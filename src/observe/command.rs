//! What the system tells of one process: its command, working directory, environment and
//! ancestors, read from `/proc`. Read-only and bounded: whatever a process has made of its
//! own command line is taken as bytes from a stranger.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::files::{self, Unread};
use crate::plan::reason;

/// The system's own bound on arguments is a quarter of the stack, mostly 2 MiB; a process may
/// have set a larger one.
const MOST_BYTES: u64 = 8 << 20;

/// More ancestors than this are a loop.
const MOST_ANCESTORS: usize = 32;

/// One process as the system has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessCommand {
    /// Its id in this namespace.
    pub pid: u32,
    /// The words of its command line.
    pub words: Vec<String>,
    /// Its working directory; none where that is not told.
    pub folder: Option<PathBuf>,
    /// Where its absolute paths start, in a container; none where they lead to the same files here.
    pub root: Option<PathBuf>,
    /// Its environment as it started; empty where that is not told.
    pub variables: BTreeMap<String, String>,
    /// Why the environment or the working directory are not known.
    pub withheld: Option<String>,
    /// The command lines of its parent, its parent's parent and so on.
    pub ancestors: Vec<Vec<String>>,
}

impl ProcessCommand {
    /// Reads a process.
    ///
    /// # Errors
    /// There is none, it may not be looked at, or it has no command line.
    pub fn of(pid: u32) -> Result<Self, ProcessError> {
        Self::under(Path::new("/proc"), pid)
    }

    /// The same with the system's files elsewhere.
    fn under(root: &Path, pid: u32) -> Result<Self, ProcessError> {
        let folder = root.join(pid.to_string());
        let words = command_line(&folder).map_err(|error| ProcessError::of(pid, error, "command line"))?;
        if words.is_empty() {
            return Err(ProcessError::NoCommand(pid));
        }
        let mut withheld = None;
        let mut told = |what: &'static str, error: io::Error| {
            withheld = Some(ProcessError::of(pid, error, what).to_string());
        };
        let cwd = fs::read_link(folder.join("cwd")).map_err(|error| told("working directory", error)).ok();
        let its_root = elsewhere(&folder);
        // In another file system the name leads to another folder: the link itself does not.
        let cwd = cwd.map(|path| if its_root.is_some() { folder.join("cwd") } else { path });
        let variables =
            bounded(&folder.join("environ")).map_err(|error| told("environment", error)).unwrap_or_default();
        let (words, ancestors) = started(words, ancestors(root, &folder));
        Ok(Self { pid, words, folder: cwd, root: its_root, variables: pairs(&variables), withheld, ancestors })
    }
}

/// The command that a process of `multiprocessing` works for, and the ancestors of that: its own says no more than that
/// Python has started it.
fn started(words: Vec<String>, mut ancestors: Vec<Vec<String>>) -> (Vec<String>, Vec<Vec<String>>) {
    if !is_spawned(&words) {
        return (words, ancestors);
    }
    match ancestors.iter().position(|words| !is_spawned(words)) {
        Some(at) => {
            let above = ancestors.split_off(at + 1);
            (ancestors.swap_remove(at), above)
        }
        None => (words, ancestors),
    }
}

/// `python -c 'from multiprocessing.spawn import spawn_main; …'` (Lib/multiprocessing/spawn.py, `get_command_line`), and what
/// a fork server has forked.
fn is_spawned(words: &[String]) -> bool {
    const STARTS: [&str; 2] = ["from multiprocessing.spawn import", "from multiprocessing.forkserver import"];
    let code = words.iter().skip_while(|word| *word != "-c").nth(1);
    code.is_some_and(|code| STARTS.iter().any(|start| code.starts_with(start)))
}

/// The root directory of a process, where that is another than this program's.
fn elsewhere(folder: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let root = folder.join("root");
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    identity(&root).filter(|its| identity(Path::new("/")) != Some(*its)).map(|_| root)
}

/// Why a process cannot be read.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// No process has that number.
    #[error("there is no process {0}")]
    None(u32),
    /// It has just ended.
    #[error("process {0} has ended")]
    Ended(u32),
    /// It has ended, or is none of a user's.
    #[error("process {0} has no command line: it has ended, or is a thread of the kernel")]
    NoCommand(u32),
    /// Somebody else's, and what of it is not shown.
    #[error("process {0} is another user's: its {1} cannot be read (as that user or root it can)")]
    Foreign(u32, &'static str),
    /// More than is read of any process.
    #[error("process {0} has a {1} of more than {mib} MiB", mib = MOST_BYTES >> 20)]
    TooLarge(u32, &'static str),
    /// Another reason of the system's.
    #[error("process {0}: {1}: {2}")]
    Io(u32, &'static str, io::Error),
}

impl ProcessError {
    fn of(pid: u32, error: io::Error, what: &'static str) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::None(pid),
            ErrorKind::PermissionDenied => Self::Foreign(pid, what),
            ErrorKind::FileTooLarge => Self::TooLarge(pid, what),
            // The system answers so for one that has just ended.
            _ if error.raw_os_error() == Some(3) => Self::Ended(pid),
            _ => Self::Io(pid, what, error),
        }
    }
}

fn command_line(folder: &Path) -> io::Result<Vec<String>> {
    let bytes = bounded(&folder.join("cmdline"))?;
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes = bytes.get(..end).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    // A process that has changed its title has one word with blanks in it.
    match words.as_slice() {
        [title] if title.contains(' ') => Ok(title.split_whitespace().map(str::to_owned).collect()),
        _ => Ok(words),
    }
}

fn pairs(bytes: &[u8]) -> BTreeMap<String, String> {
    let entries = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    entries.filter_map(|entry| entry.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}

/// Whether a process is `above`, or one that it started, or those that they started.
#[must_use]
pub fn is_below(pid: u32, above: u32) -> bool {
    let mut now = Some(pid);
    for _ in 0..=MOST_ANCESTORS {
        match now {
            Some(pid) if pid == above => return true,
            Some(pid) if pid > 1 => now = parent(&Path::new("/proc").join(pid.to_string())),
            _ => return false,
        }
    }
    false
}

fn ancestors(root: &Path, folder: &Path) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut parent = parent(folder);
    while let Some(pid) = parent.filter(|pid| *pid > 1) {
        if found.len() >= MOST_ANCESTORS {
            break;
        }
        let folder = root.join(pid.to_string());
        found.push(command_line(&folder).unwrap_or_default());
        parent = self::parent(&folder);
    }
    found
}

/// `pid (name) state ppid …`; the name may hold anything, brackets too.
fn parent(folder: &Path) -> Option<u32> {
    let stat = bounded(&folder.join("stat")).ok()?;
    let text = String::from_utf8_lossy(&stat);
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The text of a regular file that a stranger has named: never a pipe or device, which might
/// block or never end, and never more than `most` bytes.
///
/// # Errors
/// Why it is not read.
pub fn regular_file(path: &Path, most: u64) -> Result<String, Unread> {
    files::read_text(path, most).map_err(|error| Unread(format!("{}: {}", path.display(), reason(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(root: &Path, pid: u32, cmdline: &[u8], parent: u32) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cmdline"), cmdline).unwrap();
        fs::write(folder.join("stat"), format!("{pid} (a) b) S {parent} 1 1")).unwrap();
        fs::write(folder.join("environ"), b"A=1\0B=x=y\0broken\0").unwrap();
    }

    #[test]
    fn a_process_is_below_those_that_started_it() {
        let (me, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(is_below(me, me) && is_below(me, parent) && !is_below(parent, me));
    }

    #[test]
    fn a_process_is_read_with_its_ancestors() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 30, b"python\0train.py\0\0--x\0\0", 20);
        process(root.path(), 20, b"torchrun --n 2 train.py", 1);
        let found = ProcessCommand::under(root.path(), 30).unwrap();
        assert_eq!(found.words, ["python", "train.py", "", "--x"]);
        assert_eq!(found.ancestors, [["torchrun", "--n", "2", "train.py"]]);
        assert_eq!(found.variables["B"], "x=y");
        assert!(found.withheld.unwrap().contains("working directory") || found.folder.is_none());
    }

    #[test]
    fn what_multiprocessing_has_started_has_the_command_of_who_asked_for_it() {
        let root = tempfile::tempdir().unwrap();
        let spawned =
            b"python\0-B\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6, pipe_handle=8)\0\
            --multiprocessing-fork\0";
        process(root.path(), 32, spawned, 31);
        process(root.path(), 31, spawned, 30);
        process(root.path(), 30, b"python\0train.py\0", 20);
        process(root.path(), 20, b"sh\0train.sh\0", 1);
        let found = ProcessCommand::under(root.path(), 32).unwrap();
        assert_eq!((found.pid, found.words), (32, vec!["python".to_owned(), "train.py".to_owned()]));
        assert_eq!(found.ancestors, [["sh", "train.sh"]]);
        // Of an orphan nobody knows it.
        process(root.path(), 33, spawned, 1);
        assert_eq!(ProcessCommand::under(root.path(), 33).unwrap().words.len(), 5);
    }

    #[test]
    fn a_container_has_files_of_its_own() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 40, b"python\0train.py\0", 1);
        let folder = proc.path().join("40");
        let container = tempfile::tempdir().unwrap();
        fs::create_dir(container.path().join("work")).unwrap();
        std::os::unix::fs::symlink(container.path(), folder.join("root")).unwrap();
        std::os::unix::fs::symlink(container.path().join("work"), folder.join("cwd")).unwrap();
        let found = ProcessCommand::under(proc.path(), 40).unwrap();
        assert_eq!(found.root, Some(folder.join("root")));
        // What `/work` is here is another folder, or none.
        assert_eq!(found.folder, Some(folder.join("cwd")));
        fs::remove_file(folder.join("root")).unwrap();
        std::os::unix::fs::symlink("/", folder.join("root")).unwrap();
        let found = ProcessCommand::under(proc.path(), 40).unwrap();
        assert_eq!((found.root, found.folder), (None, Some(container.path().join("work"))));
    }

    #[test]
    fn what_cannot_be_read_is_one_line() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ProcessCommand::under(root.path(), 7).unwrap_err().to_string(), "there is no process 7");
        process(root.path(), 8, b"", 1);
        assert!(ProcessCommand::under(root.path(), 8).unwrap_err().to_string().contains("no command line"));
        process(root.path(), 9, &vec![b'x'; (MOST_BYTES + 1) as usize], 1);
        assert!(ProcessCommand::under(root.path(), 9).unwrap_err().to_string().contains("more than 8 MiB"));
        process(root.path(), 10, b"loop", 10);
        assert_eq!(ProcessCommand::under(root.path(), 10).unwrap().ancestors.len(), MOST_ANCESTORS);
        process(root.path(), 11, &[0xff, 0xfe, 0, b'a'], 1);
        assert_eq!(ProcessCommand::under(root.path(), 11).unwrap().words[1], "a");
    }
}
