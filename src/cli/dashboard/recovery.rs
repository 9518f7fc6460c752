//! Unsaved texts, kept in the user's state directory while the dashboard runs, and found there
//! after a crash.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::app::UnsavedText;
use crate::cli::user_catalog;
use crate::files;
use crate::plan::MAX_BYTES;

/// A text with every letter escaped, and what stands beside it.
const MOST_BYTES: u64 = 6 * MAX_BYTES as u64 + 100_000;

/// Where unsaved texts are kept.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    /// Whose they are.
    pid: u32,
}

/// What is to be done with an unsaved text.
#[derive(Debug)]
pub enum RecoveryRequest {
    /// Keep it.
    Keep(UnsavedText),
    /// Forget what was kept of the plan of that file and name.
    Forget(Option<PathBuf>, String),
}

impl RecoveryRequest {
    /// Whether an earlier wish needs not be carried out any more: it is about the same plan.
    pub fn replaces(&self, earlier: &Self) -> bool {
        let plan = |request: &Self| match request {
            Self::Keep(unsaved) => (unsaved.path.clone(), unsaved.name.clone()),
            Self::Forget(path, name) => (path.clone(), name.clone()),
        };
        plan(self) == plan(earlier)
    }
}

/// A file of the store.
#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    path: Option<PathBuf>,
    name: String,
    pid: u32,
    text: String,
}

impl Store {
    /// The store of the user: `$XDG_STATE_HOME/memwall/unsaved`, by the XDG base directory
    /// specification. None without a home.
    pub fn of_user(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let folder = user_catalog::state_folder(variable)?.join("unsaved");
        Some(Self { folder, pid: std::process::id() })
    }

    /// Does what is wished. A store that cannot be written to must not get in the way of the work:
    /// the plan's own file is what counts.
    pub fn carry_out(&self, request: &RecoveryRequest) {
        match request {
            RecoveryRequest::Keep(unsaved) => drop(self.keep(unsaved)),
            RecoveryRequest::Forget(path, name) => drop(fs::remove_file(self.place(path.as_deref(), name))),
        }
    }

    fn keep(&self, unsaved: &UnsavedText) -> Option<()> {
        fs::create_dir_all(&self.folder).ok()?;
        let UnsavedText { path, name, text } = unsaved.clone();
        let place = self.place(path.as_deref(), &name);
        let kept = StoredFile { path: path.map(absolute), name, pid: self.pid, text };
        // Beside it and then over it: a crash in between leaves the one before. Not forced to the
        // disk: it outlives the program, and a disk that is asked at every key is no calm neighbour.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).ok()?;
        file.write_all(serde_json::to_string(&kept).ok()?.as_bytes()).ok()?;
        file.persist(place).ok().map(drop)
    }

    /// What was kept of the plan of that file and name by a dashboard that is gone.
    pub fn unsaved(&self, path: Option<&Path>, name: &str) -> Option<String> {
        let text = files::read_text(&self.place(path, name), MOST_BYTES).ok()?;
        let kept: StoredFile = serde_json::from_str(&text).ok()?;
        (kept.pid == self.pid || !is_running(kept.pid)).then_some(kept.text)
    }

    /// One file a plan.
    fn place(&self, path: Option<&Path>, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        path.map(|path| absolute(path.to_owned())).hash(&mut hasher);
        name.hash(&mut hasher);
        self.folder.join(format!("{:016x}.json", hasher.finish()))
    }
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Whether that process is another dashboard that still runs.
fn is_running(pid: u32) -> bool {
    let program = |place: String| fs::read_link(place).ok()?.file_name().map(ToOwned::to_owned);
    let own = program("/proc/self/exe".to_owned());
    own.is_some() && own == program(format!("/proc/{pid}/exe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(home: &Path) -> Store {
        Store::of_user(|name| (name == "XDG_STATE_HOME").then(|| home.as_os_str().to_owned())).unwrap()
    }

    fn unsaved(text: &str) -> UnsavedText {
        UnsavedText { path: Some("/plans/a.yaml".into()), name: "a".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn what_a_dead_dashboard_left_is_found_and_a_living_ones_is_not() {
        let home = tempfile::tempdir().unwrap();
        let (path, none) = (Path::new("/plans/a.yaml"), Path::new("/plans/b.yaml"));
        // No process has this number: the kernel's highest is 2^22.
        let dead = Store { pid: 1 << 30, ..store(home.path()) };
        dead.carry_out(&RecoveryRequest::Keep(unsaved("model: {}\n")));
        dead.carry_out(&RecoveryRequest::Keep(unsaved("model: {preset: gpt2}\n")));
        let found = store(home.path()).unsaved(Some(path), "a");
        assert_eq!(found.as_deref(), Some("model: {preset: gpt2}\n"));
        assert_eq!(store(home.path()).unsaved(Some(none), "a"), None);
        assert_eq!(store(home.path()).unsaved(None, "a"), None);
        store(home.path()).carry_out(&RecoveryRequest::Keep(unsaved("x")));
        assert_eq!(dead.unsaved(Some(path), "a"), None, "its dashboard runs: this one");
        dead.carry_out(&RecoveryRequest::Forget(Some(path.to_owned()), "a".to_owned()));
        assert_eq!(store(home.path()).unsaved(Some(path), "a"), None);
    }

    #[test]
    fn a_store_that_cannot_be_written_to_is_no_trouble() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("memwall"), "a file where a folder should be").unwrap();
        store(home.path()).carry_out(&RecoveryRequest::Keep(unsaved("x")));
        assert_eq!(store(home.path()).unsaved(Some(Path::new("/plans/a.yaml")), "a"), None);
    }
}
