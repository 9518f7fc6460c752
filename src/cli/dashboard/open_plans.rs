//! Which plans are open elsewhere: every dashboard holds a lock on the files of its plans, which ends with it.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::mpsc::Sender;

use crate::app::Event;
use crate::files;

/// More locks than a machine has.
const MOST_LOCKS: u64 = 4 << 20;

/// The plans that are open here, followed on a thread of its own: their file systems may hang.
#[derive(Debug)]
pub struct OpenPlans {
    paths: mpsc::Sender<Vec<PathBuf>>,
    last: Vec<PathBuf>,
}

impl OpenPlans {
    /// Starts the thread; what is open elsewhere is told as an event. None where the system gives no thread.
    pub fn start(events: Sender<Event>) -> Option<Self> {
        let (paths, coming) = mpsc::channel::<Vec<PathBuf>>();
        let work = move || {
            let mut locks = Locks::default();
            while let Ok(paths) = coming.recv() {
                for (path, holder) in locks.follow(paths) {
                    // A dashboard that has gone meanwhile needs no telling.
                    drop(events.blocking_send(Event::OpenElsewhere { path, holder }));
                }
            }
        };
        thread::Builder::new().name("open plans".to_owned()).spawn(work).ok()?;
        Some(Self { paths, last: Vec::new() })
    }

    /// These are open now. `written`: one of them may be another file of that name by now.
    pub fn follow<'a>(&mut self, paths: impl Iterator<Item = &'a Path>, written: bool) {
        let mut known = self.last.iter().map(PathBuf::as_path);
        let mut paths = paths.peekable();
        if !written && paths.peek().is_none() && self.last.is_empty() {
            return;
        }
        let paths: Vec<&Path> = paths.collect();
        if written || !known.by_ref().eq(paths.iter().copied()) {
            self.last = paths.into_iter().map(Path::to_owned).collect();
            drop(self.paths.send(self.last.clone()));
        }
    }
}

/// The locks that are held.
#[derive(Debug, Default)]
struct Locks {
    held: Vec<HeldLock>,
}

#[derive(Debug)]
struct HeldLock {
    path: PathBuf,
    identity: (u64, u64),
    file: File,
}

impl Drop for HeldLock {
    /// Closing alone would not do: a program that is just being started has the file too, for a moment.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Locks {
    /// Locks these files and no others. Those of the new ones that are open elsewhere, each with who has it, where that
    /// is known.
    fn follow(&mut self, paths: Vec<PathBuf>) -> Vec<(PathBuf, Option<u32>)> {
        let mut elsewhere = Vec::new();
        let mut held = Vec::new();
        for path in paths {
            let before = self.held.iter().position(|lock| lock.path == path).map(|at| self.held.swap_remove(at));
            let Ok(meta) = std::fs::metadata(&path) else { continue };
            let identity = (meta.dev(), meta.ino());
            match before {
                Some(lock) if lock.identity == identity => held.push(lock),
                before => {
                    let Some((file, is_elsewhere)) = lock(&path) else { continue };
                    // A file that was written anew is told of no second time.
                    if is_elsewhere && before.is_none() {
                        elsewhere.push((path.clone(), holder(identity.1)));
                    }
                    held.push(HeldLock { path, identity, file });
                }
            }
        }
        self.held = held;
        elsewhere
    }
}

/// The file with a shared lock, and whether another program has one. None where there are no locks.
fn lock(path: &Path) -> Option<(File, bool)> {
    let file = files::open(path).ok()?;
    let is_elsewhere = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => false,
        Err(Errno::WOULDBLOCK) => true,
        Err(_) => return None,
    };
    flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
    Some((file, is_elsewhere))
}

/// Another process of this machine that has a lock on that file.
fn holder(inode: u64) -> Option<u32> {
    let own = std::process::id();
    // The kernel's files have no length.
    let locks = File::open("/proc/locks").and_then(|file| files::up_to(file, MOST_LOCKS)).ok()?;
    String::from_utf8_lossy(&locks).lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else { return None };
        let is_it = file.rsplit(':').next().and_then(|number| number.parse().ok()) == Some(inode);
        pid.parse().ok().filter(|pid| is_it && *pid != own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_open_elsewhere_is_told_of_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, "a").unwrap();
        let (mut one, mut other) = (Locks::default(), Locks::default());
        assert_eq!(one.follow(vec![path.clone()]), []);
        // Both are of this process, which is not named.
        assert_eq!(other.follow(vec![path.clone()]), [(path.clone(), None)]);
        assert_eq!(other.follow(vec![path.clone()]), []);
        // One saves: the file is another one, and the other has it open still.
        std::fs::write(folder.path().join("b"), "b").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert_eq!(one.follow(vec![path.clone()]), []);
        assert_eq!(other.follow(vec![path.clone()]), []);
        // It is closed: nobody else has it.
        assert_eq!(one.follow(Vec::new()), []);
        assert_eq!(other.follow(Vec::new()), []);
        assert_eq!(one.follow(vec![path]), []);
    }

    #[test]
    fn a_program_that_is_being_started_holds_no_lock_that_was_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, "a").unwrap();
        let (mut one, mut other) = (Locks::default(), Locks::default());
        assert_eq!(one.follow(vec![path.clone()]), []);
        // As a program has it between its start and its first instruction.
        let inherited = one.held[0].file.try_clone().unwrap();
        assert_eq!(one.follow(Vec::new()), []);
        assert_eq!(other.follow(vec![path]), []);
        drop(inherited);
    }
}
