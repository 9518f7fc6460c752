//! What the hook in a process says of it, over what its command suggests.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::catalog::Catalog;
use crate::import::{self, ImportedPlan, ProcessView};
use crate::observe;
use crate::predict;
use crate::reading::{HookedRun, Moment};

/// How long the hook is waited for: it answers a new listener at the end of a step.
pub const HOOKS_PATIENCE: Duration = Duration::from_secs(8);

/// How long the other processes of a script are waited for behind the first, where that tells of none: each looks for
/// listeners every two seconds.
const SIBLINGS_PATIENCE: Duration = Duration::from_secs(3);

/// Whether the environment of a process has the hook in it.
#[must_use]
pub fn has_hook(pid: u32) -> bool {
    let Ok(directory) = observe::hook::Directory::open(|name| std::env::var_os(name)) else { return false };
    observe::ProcessCommand::of(pid)
        .is_ok_and(|command| is_hooked(&directory, &command.words, command.variables.get("PYTHONPATH")))
}

/// The hook lies in its `PYTHONPATH`; `memwall run` itself only hands that on.
fn is_hooked(directory: &observe::hook::Directory, words: &[String], python_path: Option<&String>) -> bool {
    let own = directory.path().display().to_string();
    starts_hook(words) || python_path.is_some_and(|path| path.split(':').any(|folder| folder.starts_with(&own)))
}

/// Whether a command is a `memwall run`.
pub(super) fn starts_hook(words: &[String]) -> bool {
    matches!(words, [program, command, ..] if Path::new(program).ends_with("memwall") && command == "run")
}

/// Asks the hook in the process, where its environment has it.
pub(super) fn ask(pid: u32, process: &ProcessView<'_>, imported: &mut ImportedPlan, catalog: &Catalog) {
    let Ok(directory) = observe::hook::Directory::open(|name| std::env::var_os(name)) else { return };
    if !is_hooked(&directory, &process.command, process.variables.get("PYTHONPATH")) {
        return;
    }
    let Ok(mut listener) = observe::hook::Listener::bind(&directory) else { return };
    let (start, beat) = (Instant::now(), Duration::from_millis(200));
    let mut first_heard = None;
    let found = loop {
        let heard = listener.listen(beat, Moment::default).is_ok();
        // A launcher's ranks speak for it, the first before the others.
        let told = listener.runs().iter().filter(|run| run.about.is_some() && observe::is_below(run.pid, pid));
        let leader = told.min_by_key(|run| (!run.leads(), run.step.is_none())).cloned();
        let waited = !heard || start.elapsed() > HOOKS_PATIENCE;
        if waited || leader.as_ref().is_some_and(|run| run.step.is_some() && run.leads()) {
            let is_alone = |run: &HookedRun| run.pid == pid || run.about.as_ref().is_some_and(|it| it.world.is_some());
            let since = *first_heard.get_or_insert_with(Instant::now);
            if waited || leader.as_ref().is_some_and(is_alone) || since.elapsed() > SIBLINGS_PATIENCE {
                break leader;
            }
        }
    };
    match found {
        Some(run) => {
            tell(imported, &run, catalog);
            let trains = |other: &&HookedRun| other.step.is_some() && observe::is_below(other.pid, pid);
            let training = listener.runs().iter().filter(trains).count();
            if training > 1 && run.about.as_ref().is_none_or(|about| about.world.is_none()) {
                import::tell_several(imported, training);
            }
        }
        None => imported.notes.push(format!("the hook in it has said nothing for {} s", HOOKS_PATIENCE.as_secs())),
    }
}

/// What the hook says goes over what the command suggests.
pub(super) fn tell(imported: &mut ImportedPlan, run: &HookedRun, catalog: &Catalog) {
    let Some(about) = &run.about else { return };
    import::tell_vocabulary(imported, run);
    // Its parameters are counted whatever the device is: a CPU may not have been measured yet.
    let named = imported.names_no_model().is_none();
    let planned = imported.plan().ok().filter(|_| named).and_then(|plan| predict::of(&plan, catalog).ok());
    let other = planned.and_then(|planned| import::other_model(about, planned.params.total));
    import::tell_hook(imported, run);
    if let Some(line) = other {
        imported.notes.insert(0, line);
    }
}
