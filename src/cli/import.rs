//! `memwall import FILE`, `memwall import -- COMMAND…`.

use std::path::Path;

use super::args::ImportArgs;
use super::infer::{HostFiles, account, deliver, nothing_known};
use super::plans;
use super::user_catalog;
use super::{Exit, Streams};
use crate::app::Import;
use crate::catalog::Catalog;
use crate::observe;
use crate::plan::import::{self, ImportedPlan, ProcessView, Refused};
use crate::plan::{self, Document, Fault, LoadedPlan, MAX_BYTES};

pub fn run(args: &ImportArgs, catalog: &Catalog, streams: &mut Streams) -> Exit {
    let files = HostFiles { folder: std::env::current_dir().ok(), root: None };
    let mut run = ProcessView::of(args.command.clone(), &files);
    run.world = args.gpus;
    run.which = args.which;
    let read = match &args.file {
        Some(file) => match streams.read(file) {
            Ok(text) => of_text(file, &text, &run, catalog),
            Err(exit) => return exit,
        },
        None => Ok((format!("Imported from the command: {}", shown(&args.command)), import::run(&run, catalog))),
    };
    match read {
        Ok((_, imported)) if imported.tool.is_empty() => {
            streams.fail(Exit::Failed, &format!("no tool known: {}", nothing_known(&imported)))
        }
        Ok((heading, imported)) => deliver(&heading, &imported, &args.to, streams),
        Err(refused) => streams.fail(exit_of(&refused), &refused.to_string()),
    }
}

/// What a file that gives no plan ends the command with.
const fn exit_of(refused: &Refused) -> Exit {
    match refused {
        Refused::Unreadable(_) | Refused::Plan(_) | Refused::Several { .. } => Exit::Usage,
        Refused::NoTool(_) => Exit::Failed,
    }
}

/// Why a file could not be opened as a plan.
pub enum NotOpened {
    /// Faults of a plan's text.
    Faults(Vec<Fault>),
    /// Another tool's file, or nobody's: the exit code, and why in a line.
    Foreign(Exit, String),
}

/// A plan file, or a file of another tool as the plan that it spells: that one has a name that
/// says so and no path, so that nothing is ever written over the other tool's file.
///
/// # Errors
/// As [`LoadedPlan::load`]; and where another tool's file names no model: nothing stands in for one.
pub fn open(path: &Path) -> Result<LoadedPlan, NotOpened> {
    LoadedPlan::load(path).or_else(|faults| {
        let Ok(text) = observe::regular_file(path, MAX_BYTES as u64) else { return Err(NotOpened::Faults(faults)) };
        if !import::is_foreign(&path.display().to_string(), &text) {
            return Err(NotOpened::Faults(faults));
        }
        let catalog = user_catalog::load(|name| std::env::var_os(name)).0;
        let (loaded, imported) = spelled(path, &text, &catalog)?;
        if let Some(why) = imported.names_no_model() {
            let shown = path.display();
            let message = format!(
                "{shown} ({}) names no model: {why}; complete the plan: memwall import {shown} --save plan.yaml",
                imported.tool
            );
            return Err(NotOpened::Foreign(Exit::Failed, message));
        }
        let name = format!("{} ({})", path.file_name().unwrap_or_default().to_string_lossy(), imported.tool);
        Ok(LoadedPlan { name, ..loaded })
    })
}

/// A file that was opened to be edited.
pub enum OpenedPlan {
    /// A plan's, or one that is to become it: its text.
    Text(String),
    /// Another tool's.
    Import(Box<Import>),
}

/// Reads a file to be edited: what is neither a plan nor another tool's is a plan to be mended.
///
/// # Errors
/// In one line with the file: it cannot be read, or is another tool's without a plan in it.
pub fn to_edit(path: &Path, catalog: &Catalog) -> Result<OpenedPlan, String> {
    let shown = path.display();
    let text = plan::read_text(path).map_err(|fault| plans::line(Some(&shown.to_string()), fault))?;
    let is_plan = Document::parse(&text).and_then(|document| document.plan()).is_ok();
    if is_plan || !import::is_foreign(&shown.to_string(), &text) {
        return Ok(OpenedPlan::Text(text));
    }
    let (loaded, imported) = spelled(path, &text, catalog).map_err(|why| match why {
        NotOpened::Faults(faults) => {
            faults.into_iter().next().map_or_else(|| format!("{shown}: no plan"), |fault| fault.to_string())
        }
        NotOpened::Foreign(_, why) => why,
    })?;
    let title = format!("{}: {shown} read as a plan", imported.tool);
    let plan = LoadedPlan { name: short_name(path), ..loaded };
    Ok(OpenedPlan::Import(Box::new(Import { plan, account: account(title, &imported) })))
}

/// The plan that another tool's file spells.
fn spelled(path: &Path, text: &str, catalog: &Catalog) -> Result<(LoadedPlan, ImportedPlan), NotOpened> {
    let files = HostFiles { folder: std::env::current_dir().ok(), root: None };
    let run = ProcessView::of(Vec::new(), &files);
    let (heading, imported) = of_text(path, text, &run, catalog)
        .map_err(|refused| NotOpened::Foreign(exit_of(&refused), refused.to_string()))?;
    Ok((LoadedPlan::from_text("", &imported.yaml(&heading)).map_err(NotOpened::Faults)?, imported))
}

/// What a plan out of that file is called: `config.json` says no more than its folder does.
fn short_name(path: &Path) -> String {
    let folder = || path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match plan::name_of(path) {
        name if name == "config" => folder().unwrap_or(name),
        name => name,
    }
}

/// What another tool's file is, in a few words; none where it spells no plan.
pub fn kind(path: &Path, text: &str, catalog: &Catalog) -> Option<String> {
    if !import::is_foreign(&path.display().to_string(), text) {
        return None;
    }
    let (_, imported) = spelled(path, text, catalog).ok().filter(|(_, imported)| !imported.values.is_empty())?;
    Some(if imported.tool.is_empty() { "a training command".to_owned() } else { imported.tool })
}

fn of_text(file: &Path, text: &str, run: &ProcessView, catalog: &Catalog) -> Result<(String, ImportedPlan), Refused> {
    let name = file.display().to_string();
    let imported = import::file(&name, text, run, catalog)?;
    Ok((format!("Imported from {name} ({})", imported.tool), imported))
}

fn shown(words: &[String]) -> String {
    words.join(" ").chars().take(200).collect()
}
