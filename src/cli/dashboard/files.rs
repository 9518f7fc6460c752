//! What the dashboard wants done with files, or takes long, on threads that may block.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use super::calibrations;
use super::recovery::{RecoveryRequest, Store};
use crate::app::{
    Conflict, Event, ExpectedFile, NotInferred, Question, SaveObstacle, SavedCalibration, SourceState, State,
};
use crate::catalog::Catalog;
use crate::cli::args::is_new_plan;
use crate::cli::import::{self, OpenedPlan};
use crate::cli::infer::{DeviceSight, HookSpeech, command_plan, proposal, sees_no_driver};
use crate::observe;
use crate::order::StableOrder;
use crate::plan::{self, Document, HfConfig};

/// More plans than this are not listed.
const MOST_LISTED: usize = 500;

/// What stands beside a YAML file that is no plan as it stands.
const FILE: &str = "file";

/// Larger files are not looked into to list them.
const MOST_LOOKED_INTO: u64 = 100_000;

/// How names of other tools' files end that may be read as a plan.
const OTHERS: [&str; 7] = ["json", "toml", "sh", "sbatch", "slurm", "args", "py"];

/// Runs `work` where it may block, and passes on what has come of it.
fn aside(events: Sender<Event>, work: impl FnOnce() -> Event + Send + 'static) {
    tokio::task::spawn_blocking(move || {
        // A dashboard that has gone meanwhile needs no telling.
        drop(events.blocking_send(work()));
    });
}

/// Reads the plan of a process: files of its own may lie anywhere.
pub fn infer(pid: u32, state: &State, events: Sender<Event>) {
    let sight = match &state.monitor.source {
        SourceState::Running(info) => DeviceSight::of(info, state.monitor.devices(), &state.catalog),
        SourceState::Starting | SourceState::Failed(_) | SourceState::Unwatched => DeviceSight::Gpus(Vec::new()),
    };
    let catalog = Arc::clone(&state.catalog);
    let attached = state.monitor.attached_here() == Some(pid);
    let heard = state.run.telemetry.hooked(&state.monitor, state.now).filter(|_| attached).cloned();
    aside(events, move || {
        let hook = heard.as_ref().map_or(HookSpeech::Unheard, HookSpeech::Heard);
        let outcome = proposal(pid, sight, &catalog, hook).map(Box::new);
        Event::Inferred { pid, outcome: outcome.map_err(|why| NotInferred(why.to_string())) }
    });
}

/// Reads what the command of a process says; nothing comes of one that says nothing.
pub fn read_command(pid: u32, state: &State, events: Sender<Event>) {
    let (no_driver, catalog) = (sees_no_driver(&state.monitor.source), Arc::clone(&state.catalog));
    aside(events, move || Event::CommandRead(Box::new(command_plan(pid, no_driver, &catalog))));
}

/// Keeps a calibration, or drops it.
pub fn calibrate(file: Option<PathBuf>, kept: SavedCalibration, keep: bool, events: Sender<Event>) {
    aside(events, move || Event::Calibrated(calibrations::write(file.as_deref(), kept, keep)));
}

/// Searches for explanations of what is seen.
pub fn explain(number: u64, state: &State, events: Sender<Event>) {
    let question = Question::of(state);
    aside(events, move || {
        let found = question.as_ref().map_or_else(Vec::new, Question::answer);
        Event::Explained { number, found }
    });
}

/// Writes a text; where no file is said, to a new one of that name.
pub fn save(path: Option<PathBuf>, name: &str, text: String, expected: ExpectedFile, events: Sender<Event>) {
    let path = path.map_or_else(|| PathBuf::from(format!("{name}.yaml")), |path| home(&path));
    aside(events, move || {
        if matches!(&expected, ExpectedFile::Text(known) if *known == text && !plan::differs(&path, known)) {
            return Event::Unchanged;
        }
        if let Some(found) = refused(&path, &expected) {
            return Event::SaveRefused(Conflict { path, found });
        }
        match plan::save(&path, &text) {
            Ok(()) => Event::Saved { path, text },
            Err(fault) => Event::SaveFailed(format!("{}: {fault}", path.display())),
        }
    });
}

/// Looks whether a file holds another text than was known; one that cannot be read tells nothing.
pub fn look(path: PathBuf, known: String, events: Sender<Event>) {
    aside(events, move || {
        let text = plan::read_text(&path).ok().filter(|text| *text != known);
        // Who replaces a file may have removed it first: the next look tells.
        let is_gone = path.symlink_metadata().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
        Event::LookedAtFile { path, known, text, is_gone }
    });
}

/// What a text is not written over: what is there and nobody has seen here. What cannot be written
/// to at all is told by the attempt.
fn refused(path: &Path, expected: &ExpectedFile) -> Option<SaveObstacle> {
    let there = || plan::read_text(path).ok();
    match expected {
        ExpectedFile::Anything => None,
        ExpectedFile::Nothing => path.is_file().then(|| SaveObstacle::Other(there())),
        // A folder that is gone, too, is a place that cannot be written to.
        ExpectedFile::Text(_) if !path.exists() => folder_of(path).is_dir().then_some(SaveObstacle::Nothing),
        ExpectedFile::Text(_) if path.is_dir() => None,
        ExpectedFile::Text(text) => plan::differs(path, text).then(|| SaveObstacle::Newer(there())),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path as a shell reads it: `~` is the user's home.
fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Reads a file to be edited.
pub fn open(path: &Path, store: Option<Store>, catalog: Arc<Catalog>, events: Sender<Event>) {
    let path = home(path);
    if is_new_plan(&path) {
        return aside(events, move || Event::PlanMissing(path));
    }
    aside(events, move || match import::to_edit(&path, &catalog) {
        Ok(OpenedPlan::Text(text)) => {
            let name = plan::name_of(&path);
            let drafts = store.map_or_else(Vec::new, |store| store.drafts(Some(&path), &name, &text));
            Event::Opened { name, path, text, drafts }
        }
        Ok(OpenedPlan::Import(import)) => Event::Imported(import),
        Err(why) => Event::OpenFailed(why.to_string()),
    });
}

/// Reads a long text.
pub fn read(number: u64, text: String, events: Sender<Event>) {
    aside(events, move || Event::Read { number, read: Document::parse(&text) });
}

/// What stands beside a folder in the list.
const FOLDER: &str = "folder: ⏎ walks into it";

/// What stands beside a plan in the list.
const PLAN: &str = "plan";

/// Looks for plans, and for what can be read as one, in a folder; in the working directory one level below too. Those
/// that were open last come first, then plans, other tools' files, and folders.
pub fn list(folder: PathBuf, recent: Vec<PathBuf>, catalog: Arc<Catalog>, events: Sender<Event>) {
    aside(events, move || {
        let here = folder.as_os_str().is_empty();
        let place = home(&folder);
        let mut found = plans_in(&place, &catalog);
        let folders = folders_in(&place);
        if here {
            found.extend(folders.iter().flat_map(|folder| plans_in(folder, &catalog)));
        }
        found.order_by_key(|(_, what)| (what != PLAN, what != FILE));
        let known =
            recent.into_iter().filter(|path| path.is_file()).map(|path| (shorter(path), "opened before".to_owned()));
        let known: Vec<(PathBuf, String)> = known.collect();
        found.retain(|(path, _)| known.iter().all(|(recent, _)| recent != path));
        let above = folder.parent().filter(|_| !here).map(|above| match above.as_os_str().is_empty() {
            true => PathBuf::from("./"),
            false => above.join(""),
        });
        let folders = folders.into_iter().map(|folder| folder.join(""));
        let folders = above.into_iter().chain(folders).map(|folder| (folder, FOLDER.to_owned()));
        let all = known.into_iter().chain(found).chain(folders).take(MOST_LISTED).collect();
        Event::PlansListed(all)
    });
}

/// A path as it is from here, where it is below the working directory.
fn shorter(path: PathBuf) -> PathBuf {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned)).unwrap_or(path)
}

/// Looks which paths begin as it was typed; folders end in a slash.
pub fn complete(typed: String, events: Sender<Event>) {
    aside(events, move || {
        let (folder, begun) = typed.rsplit_once('/').map_or(("", typed.as_str()), |(folder, begun)| (folder, begun));
        let before = typed.len() - begun.len();
        let real = if before > 0 && folder.is_empty() { PathBuf::from("/") } else { home(Path::new(folder)) };
        let paths = entries(&real)
            .into_iter()
            .filter_map(|(path, is_folder)| {
                let name = path.file_name()?.to_str().filter(|name| name.starts_with(begun))?;
                Some(format!("{}{name}{}", &typed[..before], if is_folder { "/" } else { "" }))
            })
            .collect();
        Event::PathsFound { typed, paths }
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

fn plans_in(folder: &Path, catalog: &Catalog) -> Vec<(PathBuf, String)> {
    let files = entries(folder).into_iter().filter(|(_, is_folder)| !is_folder);
    files.filter_map(|(path, _)| what_is(&path, catalog).map(|what| (path, what))).collect()
}

/// What a file is for somebody who looks for a plan; none where it is nothing to open. What ends
/// in YAML may always be a plan.
fn what_is(path: &Path, catalog: &Catalog) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    let own = matches!(ending, "yaml" | "yml");
    if !own && !OTHERS.contains(&ending) {
        return None;
    }
    let text = observe::regular_file(path, MOST_LOOKED_INTO).ok();
    let is_plan = text.as_deref().map(|text| Document::parse(text).and_then(|document| document.plan()).is_ok());
    let other = text.and_then(|text| import::kind(path, &text, catalog));
    match other {
        Some(tool) => Some(format!("{tool}, read as a plan")),
        None if !own => None,
        None => Some(if is_plan.unwrap_or(false) { PLAN } else { FILE }.to_owned()),
    }
}

/// Reads a configuration that a plan names.
pub fn read_config(folder: &Path, named: String, events: Sender<Event>) {
    let path = home(folder).join(&named);
    aside(events, move || {
        let config = plan::read_config(&path).map(HfConfig::Inline);
        Event::ConfigRead { named, config }
    });
}

/// A thread that keeps and forgets unsaved texts in the order in which that is asked. Dropping
/// it waits until all that was asked is done: that is what is there after a crash.
pub struct Keeper {
    wishes: Option<mpsc::Sender<RecoveryRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// How long the last wishes may take: a dead file system must not keep the program.
const PATIENCE: Duration = Duration::from_secs(2);

impl Keeper {
    /// Starts the thread. That a text cannot be kept is told once, until one can be.
    pub fn start(store: Store, events: Sender<Event>) -> Self {
        let (wishes, wished) = mpsc::channel::<RecoveryRequest>();
        let work = move || {
            let mut failed = false;
            let mut carry_out = |request: &RecoveryRequest| {
                let done = store.carry_out(request);
                if let (Err(error), false) = (&done, failed) {
                    let why = format!("{}: {}", store.folder().display(), plan::reason(error));
                    // A dashboard that has gone meanwhile needs no telling.
                    drop(events.try_send(Event::DraftNotKept(why)));
                }
                failed = if matches!(request, RecoveryRequest::Keep(_)) { done.is_err() } else { failed };
            };
            while let Ok(mut request) = wished.recv() {
                // Letters that were typed meanwhile make one text.
                while let Ok(later) = wished.try_recv() {
                    if !later.replaces(&request) {
                        carry_out(&request);
                    }
                    request = later;
                }
                carry_out(&request);
            }
        };
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(work).ok();
        Self { wishes: Some(wishes), thread }
    }

    /// Asks for something to be done.
    pub fn request(&self, request: RecoveryRequest) {
        if let Some(wishes) = &self.wishes {
            drop(wishes.send(request));
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
        let text = |text: &str| ExpectedFile::Text(text.to_owned());
        assert_eq!(refused(&path, &ExpectedFile::Nothing), None);
        assert_eq!(refused(&path, &text("a")), Some(SaveObstacle::Nothing), "removed underneath");
        assert_eq!(refused(&folder.path().join("gone/a.yaml"), &text("a")), None, "told by the attempt");
        std::fs::write(&path, "b").unwrap();
        assert_eq!(refused(&path, &text("b")), None);
        assert_eq!(refused(&path, &ExpectedFile::Anything), None);
        assert_eq!(refused(&path, &ExpectedFile::Nothing), Some(SaveObstacle::Other(Some("b".to_owned()))));
        assert_eq!(refused(&path, &text("a")), Some(SaveObstacle::Newer(Some("b".to_owned()))));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(refused(&path, &text("a")), Some(SaveObstacle::Newer(None)));
        assert_eq!(refused(folder.path(), &text("a")), None, "told by the attempt");
    }
}
