//! Which process here has sent a message: in a PID namespace of its own, as in a container, it knows another number.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::process::last_number_in;

/// Senders that are kept.
const MOST: usize = 128;

/// A sender that was not found is looked for again after this long: it means reading a file of every process.
const AGAIN: Duration = Duration::from_secs(10);

/// Numbers of processes of other PID namespaces.
#[derive(Debug)]
pub struct SenderPids {
    root: PathBuf,
    /// This program's own namespace, by its inode; none where the system does not tell.
    own: Option<u64>,
    known: Vec<KnownSender>,
}

#[derive(Debug)]
struct KnownSender {
    namespace: u64,
    pid: u32,
    began: Option<f64>,
    here: Option<u32>,
    looked: Instant,
}

impl SenderPids {
    /// Those that `root` shows, `/proc`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let own = namespace_of(&root.join("self"));
        Self { root, own, known: Vec::new() }
    }

    /// The pid here of a process that calls itself `pid` in that namespace, and that began to speak then; none where it is
    /// not in sight. Who does not say its namespace shares this one.
    pub fn here(&mut self, pid: u32, namespace: Option<u64>, began: Option<f64>) -> Option<u32> {
        let Some((namespace, own)) = namespace.zip(self.own) else { return Some(pid) };
        if namespace == own {
            return Some(pid);
        }
        let is_it = |known: &&KnownSender| {
            (known.namespace, known.pid) == (namespace, pid) && (began.is_none() || known.began == began)
        };
        // Who tells the end of another process does not know when that began: the newest is meant.
        if let Some(known) = self.known.iter().rev().find(is_it)
            && (known.here.is_some() || known.looked.elapsed() < AGAIN)
        {
            return known.here;
        }
        self.known.retain(|known| !is_it(&known));
        if self.known.len() == MOST {
            self.known.remove(0);
        }
        let here = find(&self.root, pid, namespace);
        self.known.push(KnownSender { namespace, pid, began, here, looked: Instant::now() });
        here
    }
}

/// This program's own PID namespace, for messages; none where the system does not tell.
pub fn own_namespace() -> Option<u64> {
    namespace_of(Path::new("/proc/self"))
}

fn namespace_of(process: &Path) -> Option<u64> {
    fs::metadata(process.join("ns/pid")).ok().map(|namespace| namespace.ino())
}

fn find(root: &Path, pid: u32, namespace: u64) -> Option<u32> {
    fs::read_dir(root).ok()?.flatten().find_map(|entry| {
        let here = entry.file_name().to_str()?.parse().ok()?;
        let is_it = last_number_in(&entry.path()) == Some(pid) && namespace_of(&entry.path()) == Some(namespace);
        is_it.then_some(here)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as `/proc`: processes with their numbers and the file that stands for their namespace.
    fn proc_with(processes: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, numbers, namespace) in processes {
            let folder = root.path().join(name);
            fs::create_dir_all(folder.join("ns")).unwrap();
            fs::write(folder.join("status"), format!("Name:\tpython\nNSpid:\t{numbers}\n")).unwrap();
            let file = root.path().join(namespace);
            fs::write(&file, "").unwrap();
            fs::hard_link(&file, folder.join("ns/pid")).unwrap();
        }
        root
    }

    #[test]
    fn a_number_of_another_namespace_is_that_of_the_process_here() {
        let root = proc_with(&[("self", "5", "host"), ("41", "41\t7", "a"), ("42", "42\t7", "b"), ("7", "7", "host")]);
        let namespace = |name: &str| fs::metadata(root.path().join(name)).ok().map(|file| file.ino());
        let mut senders = SenderPids::new(root.path());
        assert_eq!(senders.here(7, namespace("a"), Some(1.0)), Some(41));
        assert_eq!(senders.here(7, namespace("b"), Some(1.0)), Some(42));
        assert_eq!(senders.here(7, namespace("host"), Some(1.0)), Some(7));
        // Older hooks do not say it.
        assert_eq!(senders.here(7, None, Some(1.0)), Some(7));
        // In no sight: nobody's number here.
        assert_eq!(senders.here(7, Some(u64::MAX), Some(1.0)), None);
        // It has ended by the time that its end is told.
        fs::remove_dir_all(root.path().join("41")).unwrap();
        assert_eq!(senders.here(7, namespace("a"), None), Some(41));
        // Another process by that number is another one.
        assert_eq!(senders.here(7, namespace("a"), Some(9.0)), None);
    }
}
