//! Drafts: unsaved texts, kept in the user's state directory while the dashboard runs, and found there after a crash.
//! There is one file for each plan and dashboard, so that several of them keep out of each other's way, on several hosts
//! too where these share a home.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::app::{Draft, UnsavedText};
use crate::cli::user_catalog;
use crate::files;
use crate::order::StableOrder;
use crate::plan::MAX_BYTES;
use crate::reading::Moment;

/// Two texts with every letter escaped, and what stands beside them.
const MOST_BYTES: u64 = 12 * MAX_BYTES as u64 + 100_000;

/// More drafts of a plan are not offered: the newest come first.
const MOST_DRAFTS: usize = 20;

/// Files of the folder that are looked through.
const MOST_FILES: usize = 10_000;

/// Larger than the names of the kernel.
const MOST_KERNEL_BYTES: u64 = 4096;

/// Where drafts are kept.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    /// Whose they are.
    writer: Writer,
}

/// A dashboard: a process number alone means nothing on another host or after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
struct Writer {
    host: String,
    /// The kernel's name of the time since its start.
    boot: String,
    pid: u32,
    /// When it was started, in the kernel's ticks.
    started: u64,
}

impl Writer {
    fn this() -> Self {
        let kernel = |name: &str| {
            // The kernel's files have no length.
            let file = fs::File::open(Path::new("/proc/sys/kernel").join(name));
            let bytes = file.and_then(|file| files::up_to(file, MOST_KERNEL_BYTES)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let pid = std::process::id();
        Self { host: kernel("hostname"), boot: kernel("random/boot_id"), pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether that dashboard runs on this host.
    fn is_running(&self, here: &Self) -> bool {
        self.host == here.host && self.boot == here.boot && started(self.pid) == Some(self.started)
    }
}

/// When a process was started: the 22nd field of its state, counted from behind the name, which may hold anything.
fn started(pid: u32) -> Option<u64> {
    let file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let text = files::text_of(files::up_to(file, MOST_KERNEL_BYTES).ok()?).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// What is to be done with drafts.
#[derive(Debug)]
pub enum RecoveryRequest {
    /// Keep an unsaved text.
    Keep(UnsavedText),
    /// Forget what this dashboard kept of the plan of that file and name.
    Forget(Option<PathBuf>, String),
    /// Delete a draft.
    Delete(String),
    /// The draft of that name is this dashboard's from now on, for the plan of that file and name.
    Take(String, Option<PathBuf>, String),
}

impl RecoveryRequest {
    /// Whether an earlier request needs not be carried out any more: it is about the same text.
    pub fn replaces(&self, earlier: &Self) -> bool {
        let plan = |request: &Self| match request {
            Self::Keep(unsaved) => Some((unsaved.path.clone(), unsaved.name.clone())),
            Self::Forget(path, name) => Some((path.clone(), name.clone())),
            Self::Delete(_) | Self::Take(..) => None,
        };
        plan(self).is_some_and(|own| Some(own) == plan(earlier))
    }
}

/// A file of the store. Those of earlier releases have no host and no base.
#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    path: Option<PathBuf>,
    name: String,
    #[serde(flatten)]
    writer: Writer,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    kept: u64,
    #[serde(default)]
    base: Option<String>,
    text: String,
}

impl Store {
    /// The store of the user: `$XDG_STATE_HOME/memwall/unsaved`, by the XDG base directory
    /// specification. None without a home.
    pub fn of_user(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let folder = user_catalog::state_folder(variable)?.join("unsaved");
        Some(Self { folder, writer: Writer::this() })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Does what is asked.
    ///
    /// # Errors
    /// Where an unsaved text could not be kept.
    pub fn carry_out(&self, request: &RecoveryRequest) -> io::Result<()> {
        match request {
            RecoveryRequest::Keep(unsaved) => return self.keep(unsaved),
            RecoveryRequest::Forget(path, name) => drop(fs::remove_file(self.own_place(path.as_deref(), name))),
            RecoveryRequest::Delete(id) => drop(fs::remove_file(self.folder.join(id))),
            // Takes no room: a full disk loses nothing.
            RecoveryRequest::Take(id, path, name) => {
                drop(fs::rename(self.folder.join(id), self.own_place(path.as_deref(), name)));
            }
        }
        Ok(())
    }

    fn keep(&self, unsaved: &UnsavedText) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let UnsavedText { path, name, base, text } = unsaved.clone();
        let place = self.own_place(path.as_deref(), &name);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stored = StoredFile {
            path: path.map(absolute),
            name,
            writer: self.writer.clone(),
            kept: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            base: Some(base),
            text,
        };
        // Beside it and then over it: a crash in between leaves the one before. Not forced to the
        // disk: it outlives the program, and a disk that is asked at every key is no calm neighbour.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(serde_json::to_string(&stored)?.as_bytes())?;
        file.persist(place)?;
        Ok(())
    }

    /// What dashboards that are gone kept of the plan of that file and name, the newest first, where its text is `text`
    /// now. What says nothing else than that is deleted.
    pub fn drafts(&self, path: Option<&Path>, name: &str, text: &str) -> Vec<Draft> {
        let prefix = plan_key(path, name);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten().take(MOST_FILES);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let of_plan = names.filter(|id| id.starts_with(&prefix) && id.ends_with(".json"));
        let mut drafts: Vec<Draft> = of_plan.filter_map(|id| self.draft(id)).collect();
        drafts.order_by(|one, other| other.kept.cmp(&one.kept).then_with(|| one.id.cmp(&other.id)));
        drafts.truncate(MOST_DRAFTS);
        let (same, different): (Vec<Draft>, Vec<Draft>) =
            drafts.into_iter().partition(|draft| draft.on(text).as_deref() == Ok(text));
        for draft in same {
            drop(fs::remove_file(self.folder.join(draft.id)));
        }
        different
    }

    fn draft(&self, id: String) -> Option<Draft> {
        let stored = files::read_text(&self.folder.join(&id), MOST_BYTES).ok()?;
        let StoredFile { writer, kept, base, text, .. } = serde_json::from_str(&stored).ok()?;
        if writer.is_running(&self.writer) {
            return None;
        }
        let host = Some(writer.host).filter(|host| !host.is_empty() && *host != self.writer.host);
        Some(Draft { id, kept: Moment(kept), pid: writer.pid, host, base, text })
    }

    /// One file for a plan and this dashboard.
    fn own_place(&self, path: Option<&Path>, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        self.writer.hash(&mut hasher);
        self.folder.join(format!("{}-{:016x}.json", plan_key(path, name), hasher.finish()))
    }
}

/// What the names of a plan's files begin with.
fn plan_key(path: Option<&Path>, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    path.map(|path| absolute(path.to_owned())).hash(&mut hasher);
    name.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(home: &Path) -> Store {
        Store::of_user(|name| (name == "XDG_STATE_HOME").then(|| home.as_os_str().to_owned())).unwrap()
    }

    /// A dashboard on that host, since a start of its kernel; no process has these numbers.
    fn another(home: &Path, host: &str, boot: &str) -> Store {
        let writer = Writer { host: host.to_owned(), boot: boot.to_owned(), pid: 1 << 30, started: 5 };
        Store { writer, ..store(home) }
    }

    fn keep(store: &Store, text: &str) {
        let base = "model: {}\n".to_owned();
        let unsaved =
            UnsavedText { path: Some("/plans/a.yaml".into()), name: "a".to_owned(), base, text: text.to_owned() };
        store.carry_out(&RecoveryRequest::Keep(unsaved)).unwrap();
    }

    fn found(store: &Store) -> Vec<String> {
        let drafts = store.drafts(Some(Path::new("/plans/a.yaml")), "a", "model: {}\n");
        let mut texts: Vec<String> = drafts.into_iter().map(|draft| draft.text).collect();
        texts.sort();
        texts
    }

    #[test]
    fn what_gone_dashboards_left_is_found_each_for_itself() {
        let home = tempfile::tempdir().unwrap();
        let here = store(home.path());
        let dead = another(home.path(), &here.writer.host, &here.writer.boot);
        keep(&dead, "model: {a: 0}\n");
        keep(&dead, "model: {a: 1}\n");
        keep(&another(home.path(), &here.writer.host, "before the restart"), "model: {a: 2}\n");
        keep(&another(home.path(), "node7", &here.writer.boot), "model: {a: 3}\n");
        let rest = ["model: {a: 1}\n", "model: {a: 2}\n", "model: {a: 3}\n"];
        assert_eq!(found(&here), rest);
        let hosts = here.drafts(Some(Path::new("/plans/a.yaml")), "a", "").into_iter().filter_map(|draft| draft.host);
        assert_eq!(hosts.collect::<Vec<_>>(), ["node7"]);
        assert_eq!(here.drafts(Some(Path::new("/plans/b.yaml")), "a", ""), []);
        assert_eq!(here.drafts(None, "a", ""), []);
        // Its own are no drafts that somebody left, and to forget them touches nobody else's.
        keep(&here, "mine");
        assert_eq!(found(&here), rest);
        here.carry_out(&RecoveryRequest::Forget(Some("/plans/a.yaml".into()), "a".to_owned())).unwrap();
        assert_eq!(found(&here), rest);
    }

    #[test]
    fn a_draft_that_is_taken_is_kept_as_ones_own_and_one_that_says_nothing_goes() {
        let home = tempfile::tempdir().unwrap();
        let here = store(home.path());
        let dead = another(home.path(), "node7", "");
        keep(&dead, "model: {a: 1}\n");
        let id = here.drafts(Some(Path::new("/plans/a.yaml")), "a", "").remove(0).id;
        here.carry_out(&RecoveryRequest::Take(id.clone(), Some("/plans/a.yaml".into()), "a".to_owned())).unwrap();
        assert!(!here.folder.join(id).exists());
        assert!(here.own_place(Some(Path::new("/plans/a.yaml")), "a").exists());
        keep(&dead, "model: {}\n");
        assert_eq!(fs::read_dir(&here.folder).unwrap().count(), 2);
        found(&here);
        assert_eq!(fs::read_dir(&here.folder).unwrap().count(), 1, "it says what the file says");
    }

    #[test]
    fn a_draft_of_an_earlier_release_is_found() {
        let home = tempfile::tempdir().unwrap();
        let here = store(home.path());
        fs::create_dir_all(&here.folder).unwrap();
        let old = r#"{"path":"/plans/a.yaml","name":"a","pid":1073741824,"text":"old"}"#;
        let name = format!("{}.json", plan_key(Some(Path::new("/plans/a.yaml")), "a"));
        fs::write(here.folder.join(name), old).unwrap();
        assert_eq!(found(&here), ["old"]);
    }

    #[test]
    fn a_store_that_cannot_be_written_to_is_said() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("memwall"), "a file where a folder should be").unwrap();
        let unsaved = UnsavedText { path: None, name: "a".to_owned(), base: String::new(), text: "x".to_owned() };
        assert!(store(home.path()).carry_out(&RecoveryRequest::Keep(unsaved)).is_err());
        assert_eq!(found(&store(home.path())), [""; 0]);
    }
}
