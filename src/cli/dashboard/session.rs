//! What is kept from one start of the dashboard to the next, in a file of the state folder.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::app::{SavedSession, State};
use crate::cli::user_catalog;
use crate::files;

/// Larger than any session.
const MOST_BYTES: u64 = 1 << 20;

/// How long the last writing may take: a dead file system must not keep the program.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where it is kept: `$XDG_STATE_HOME/memwall/session.json`. None without a home.
pub fn file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_catalog::state_folder(variable)?.join("session.json"))
}

/// What the last session left; nothing where it cannot be read, which costs no more than habits.
pub fn read(path: &Path) -> SavedSession {
    let text = files::read_text(path, MOST_BYTES).ok();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Writes a session when it has changed, on a thread of its own. Dropping it waits for what is under way.
#[derive(Debug)]
pub struct SessionKeeper {
    kept: SavedSession,
    sessions: Option<Sender<SavedSession>>,
    thread: Option<JoinHandle<()>>,
}

impl SessionKeeper {
    /// Keeps what is other than in the file: a plan that was opened at the start, and what changes from now on.
    pub fn start(path: PathBuf) -> Self {
        let kept = read(&path);
        let (sessions, changed) = mpsc::channel::<SavedSession>();
        let work = move || {
            while let Ok(mut session) = changed.recv() {
                while let Ok(later) = changed.try_recv() {
                    session = later;
                }
                // Habits that cannot be kept must not get in the way of the work.
                let _ = write(&path, session);
            }
        };
        let thread = thread::Builder::new().name("session".to_owned()).spawn(work).ok();
        Self { kept, sessions: Some(sessions), thread }
    }

    /// Keeps what has changed.
    pub fn look(&mut self, state: &State) {
        let session = SavedSession::of(state);
        if session == self.kept {
            return;
        }
        self.kept = session.clone();
        if let Some(sessions) = &self.sessions {
            drop(sessions.send(session));
        }
    }
}

impl Drop for SessionKeeper {
    fn drop(&mut self) {
        self.sessions = None;
        let Some(thread) = self.thread.take() else { return };
        let started = Instant::now();
        while !thread.is_finished() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Beside it and then over it: a crash in between leaves the one before.
fn write(path: &Path, mut session: SavedSession) -> Option<()> {
    for recent in &mut session.recent {
        *recent = std::path::absolute(&*recent).ok()?;
    }
    let folder = path.parent()?;
    fs::create_dir_all(folder).ok()?;
    // Another dashboard may have opened other plans meanwhile.
    let session = session.with_recent_of(read(path));
    let mut file = tempfile::NamedTempFile::new_in(folder).ok()?;
    file.write_all(serde_json::to_string_pretty(&session).ok()?.as_bytes()).ok()?;
    file.persist(path).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::SortBy;

    #[test]
    fn what_is_written_is_read_again_beside_what_another_dashboard_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memwall/session.json");
        assert_eq!(read(&path), SavedSession::default());
        let of =
            |recent: &[&str]| SavedSession { recent: recent.iter().map(PathBuf::from).collect(), ..Default::default() };
        write(&path, of(&["/a", "/b"])).unwrap();
        write(&path, SavedSession { sort: SortBy::Memory, ..of(&["/c", "/b"]) }).unwrap();
        let kept = read(&path);
        assert_eq!((kept.recent, kept.sort), (of(&["/c", "/b", "/a"]).recent, SortBy::Memory));
        fs::write(&path, "{").unwrap();
        assert_eq!(read(&path), SavedSession::default(), "a file that breaks off costs habits alone");
    }
}
