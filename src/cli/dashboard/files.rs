//! What the dashboard wants done with files, or takes long, on threads that may block.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use super::recovery::{Store, Wish};
use crate::app::{Event, Expected, Question, State};
use crate::cli::infer::proposal;
use crate::plan::{self, HfConfig};

/// More plans than this are not listed.
const MOST_LISTED: usize = 500;

/// Runs `work` where it may block, and passes on what has come of it.
fn aside(events: Sender<Event>, work: impl FnOnce() -> Event + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(work()));
    });
}

/// Reads the plan of a process: files of its own may lie anywhere.
pub fn infer(pid: u32, state: &State, events: Sender<Event>) {
    let gpus = state.monitor.devices().iter().filter_map(|device| device.name.value().cloned()).collect();
    let catalog = state.catalog.clone();
    aside(events, move || Event::Inferred { pid, outcome: proposal(pid, gpus, &catalog).map(Box::new) });
}

/// Searches for explanations of what is seen.
pub fn explain(number: u64, state: &State, events: Sender<Event>) {
    let question = Question::of(state);
    aside(events, move || {
        let found = question.as_ref().map_or_else(Vec::new, Question::answer);
        Event::Explained { number, found }
    });
}

/// Writes the plan; where it has no file, to a new one of its name.
pub fn save(path: Option<PathBuf>, name: &str, text: String, expected: Expected, events: Sender<Event>) {
    let path = path.unwrap_or_else(|| Path::new(name).with_extension("yaml"));
    aside(events, move || {
        if let Some((why, theirs)) = refused(&path, &expected) {
            return Event::SaveRefused { why, theirs };
        }
        match plan::save(&path, &text) {
            Ok(()) => Event::Saved { path, text },
            Err(fault) => Event::SaveFailed(fault.to_string()),
        }
    });
}

/// Why a plan is not written over what is there, and what that is, where both sets of changes
/// can be merged. A file that is gone is in nobody's way.
fn refused(path: &Path, expected: &Expected) -> Option<(String, Option<String>)> {
    let shown = path.display();
    match expected {
        Expected::Anything => None,
        _ if !path.exists() => None,
        Expected::Nothing => Some((format!("not saved: {shown} exists already"), None)),
        Expected::Text(text) if plan::differs(path, text) => {
            let why = format!("not saved: {shown} was changed by someone else since it was opened");
            Some((why, plan::read_text(path).ok()))
        }
        Expected::Text(_) => None,
    }
}

/// Reads a plan's file.
pub fn open(path: PathBuf, store: Option<Store>, events: Sender<Event>) {
    aside(events, move || match plan::read_text(&path) {
        Ok(text) => {
            let name = plan::name_of(&path);
            let recovered = store.and_then(|store| store.unsaved(Some(&path), &name));
            Event::Opened { name, path, text, recovered }
        }
        Err(fault) => Event::OpenFailed(format!("{}: {fault}", path.display())),
    });
}

/// Looks for plans in the working directory and one level below.
pub fn list(events: Sender<Event>) {
    aside(events, || {
        let mut found = plans_in(Path::new(""));
        found.extend(folders_in(Path::new("")).iter().flat_map(|folder| plans_in(folder)));
        found.truncate(MOST_LISTED);
        Event::PlansListed(found)
    });
}

fn entries(folder: &Path) -> Vec<(PathBuf, bool)> {
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let visible = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with('.');
    let mut found: Vec<(PathBuf, bool)> = entries
        .flatten()
        .filter(|entry| visible(&entry.file_name()))
        .map(|entry| (folder.join(entry.file_name()), entry.path().is_dir()))
        .take(MOST_LISTED * 10)
        .collect();
    found.sort();
    found
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|(_, is_folder)| *is_folder).map(|(path, _)| path).collect()
}

fn plans_in(folder: &Path) -> Vec<PathBuf> {
    let is_plan = |path: &Path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    entries(folder).into_iter().filter(|(path, is_folder)| !is_folder && is_plan(path)).map(|(path, _)| path).collect()
}

/// Reads a configuration that a plan names.
pub fn read_config(plan: Option<PathBuf>, named: String, events: Sender<Event>) {
    aside(events, move || {
        let folder = plan.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let config = plan::read_config(&folder.join(&named)).map(HfConfig::Inline);
        Event::ConfigRead { named, config }
    });
}

/// A thread that keeps and forgets unsaved texts in the order in which that is asked. Dropping
/// it waits until all that was asked is done: that is what is there after a crash.
pub struct Keeper {
    wishes: Option<mpsc::Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

/// How long the last wishes may take: a dead file system must not keep the program.
const PATIENCE: Duration = Duration::from_secs(2);

impl Keeper {
    /// Starts the thread.
    pub fn start(store: Store) -> Self {
        let (wishes, wished) = mpsc::channel::<Wish>();
        let work = move || {
            while let Ok(mut wish) = wished.recv() {
                // Letters that were typed meanwhile make one text.
                while let Ok(later) = wished.try_recv() {
                    if !later.replaces(&wish) {
                        store.carry_out(&wish);
                    }
                    wish = later;
                }
                store.carry_out(&wish);
            }
        };
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(work).ok();
        Self { wishes: Some(wishes), thread }
    }

    /// Asks for something to be done.
    pub fn wish(&self, wish: Wish) {
        if let Some(wishes) = &self.wishes {
            drop(wishes.send(wish));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.wishes = None;
        let Some(thread) = self.thread.take() else { return };
        let started = Instant::now();
        while !thread.is_finished() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_written_over_is_what_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let text = |text: &str| Expected::Text(text.to_owned());
        assert_eq!(refused(&path, &Expected::Nothing), None);
        assert_eq!(refused(&path, &text("a")), None, "removed underneath: in nobody's way");
        std::fs::write(&path, "b").unwrap();
        assert_eq!(refused(&path, &text("b")), None);
        assert_eq!(refused(&path, &Expected::Anything), None);
        assert!(refused(&path, &Expected::Nothing).unwrap().0.contains("exists already"));
        let (why, theirs) = refused(&path, &text("a")).unwrap();
        assert!(why.contains("someone else") && theirs.as_deref() == Some("b"));
    }
}
