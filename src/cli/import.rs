//! `memwall import FILE`, `memwall import -- COMMAND…`.

use std::path::Path;

use super::args::ImportArgs;
use super::infer::{HostFiles, account, deliver, nothing_known};
use super::plans;
use super::user_catalog;
use super::{Exit, Failure, Streams};
use crate::app::Import;
use crate::catalog::Catalog;
use crate::import::{self, ImportedPlan, ProcessView, Refused};
use crate::observe;
use crate::plan::{self, Document, Fault, LoadedPlan, MAX_BYTES};

pub fn run(args: &ImportArgs, catalog: &Catalog, streams: &mut Streams) -> Result<Exit, Failure> {
    let files = HostFiles { folder: std::env::current_dir().ok(), root: None };
    let mut run = ProcessView::of(args.command.clone(), &files);
    run.world = args.gpus;
    run.which = args.which;
    let (heading, imported) = match &args.file {
        Some(file) => of_text(file, &streams.read(file)?, &run, catalog)?,
        None => (format!("Imported from the command: {}", shown(&args.command)), import::run(&run, catalog)),
    };
    if imported.tool.is_empty() {
        return Err(Failure::failed(format!("no tool known: {}", nothing_known(&imported))));
    }
    deliver(&heading, &imported, &args.to, streams)
}

/// What a file that gives no plan ends a command with.
impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let exit = match refused {
            Refused::Unreadable(_) | Refused::Plan(_) | Refused::Several { .. } => Exit::Usage,
            Refused::NoTool(_) => Exit::Failed,
        };
        Self::new(exit, refused)
    }
}

/// A plan file, or a file of another tool as the plan that it spells: that one has a name that
/// says so and no path, so that nothing is ever written over the other tool's file.
///
/// # Errors
/// As [`LoadedPlan::load`]; and where another tool's file names no model: nothing stands in for one.
pub fn open(path: &Path) -> Result<LoadedPlan, Failure> {
    LoadedPlan::load(path).or_else(|faults| {
        let name = path.display().to_string();
        let text = observe::regular_file(path, MAX_BYTES as u64).ok();
        let Some(text) = text.filter(|text| import::is_foreign(&name, text)) else {
            return Err(plans::refused(Some(&name), faults));
        };
        let catalog = user_catalog::load(|name| std::env::var_os(name)).0;
        let (loaded, imported) = spelled(path, &text, &catalog)?;
        if let Some(why) = imported.names_no_model() {
            return Err(Failure::failed(format!(
                "{name} ({}) names no model: {why}; complete the plan: memwall import {name} --save plan.yaml",
                imported.tool
            )));
        }
        let name = title(&path.file_name().unwrap_or_default().to_string_lossy(), &imported);
        Ok(LoadedPlan { name, ..loaded })
    })
}

/// What a plan of another tool's file is called: with the tool, and with what was not understood or is not modelled.
fn title(file: &str, imported: &ImportedPlan) -> String {
    const LONGEST: usize = 240;
    let tool = &imported.tool;
    let Some(but) = imported.reservations() else { return format!("{file} ({tool})") };
    let short: String = but.chars().take(LONGEST).collect();
    let more = if short.len() < but.len() { "…" } else { "" };
    format!("{file} ({tool}; {short}{more})")
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
/// It cannot be read, or is another tool's without a plan in it.
pub fn to_edit(path: &Path, catalog: &Catalog) -> Result<OpenedPlan, Failure> {
    let shown = path.display().to_string();
    let text = plan::read_text(path).map_err(|fault| plans::refused(Some(&shown), [fault]))?;
    let is_plan = Document::parse(&text).and_then(|document| document.plan()).is_ok();
    if is_plan || !import::is_foreign(&shown, &text) {
        return Ok(OpenedPlan::Text(text));
    }
    let (loaded, imported) = spelled(path, &text, catalog)?;
    let title = format!("{}: {shown} read as a plan", imported.tool);
    let plan = LoadedPlan { name: short_name(path), ..loaded };
    Ok(OpenedPlan::Import(Box::new(Import { plan, account: account(title, &imported) })))
}

/// The plan that another tool's file spells.
fn spelled(path: &Path, text: &str, catalog: &Catalog) -> Result<(LoadedPlan, ImportedPlan), Failure> {
    let files = HostFiles { folder: std::env::current_dir().ok(), root: None };
    let run = ProcessView::of(Vec::new(), &files);
    let (heading, imported) = of_text(path, text, &run, catalog)?;
    let name = path.display().to_string();
    let loaded = LoadedPlan::from_text("", &imported.yaml(&heading));
    // The text that they have places in is nobody's.
    let unplaced = |faults: Vec<Fault>| faults.into_iter().map(|fault| Fault { at: None, ..fault }).collect::<Vec<_>>();
    Ok((loaded.map_err(|faults| plans::refused(Some(&name), unplaced(faults)))?, imported))
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

/// What a file says. Whoever stands in `scripts` and names `sft.sh` means the project that `scripts/sft.sh` is of as well:
/// its whole path is read, and shown as it was named.
fn of_text(file: &Path, text: &str, run: &ProcessView, catalog: &Catalog) -> Result<(String, ImportedPlan), Refused> {
    let name = file.display().to_string();
    let Some((folder, whole)) = whole_path(file) else {
        let imported = import::file(&name, text, run, catalog)?;
        return Ok((format!("Imported from {name} ({})", imported.tool), imported));
    };
    let as_named = |said: &str| said.replace(&whole, &name).replace(&folder, "");
    let mut imported = import::file(&whole, text, run, catalog).map_err(|refused| refused.reworded(as_named))?;
    imported.reword(as_named);
    Ok((format!("Imported from {name} ({})", imported.tool), imported))
}

/// The present directory with a slash behind it, and the whole path of a file that is named from there; none of another, or
/// of none that is there.
fn whole_path(file: &Path) -> Option<(String, String)> {
    let present = std::env::current_dir().ok()?.canonicalize().ok().filter(|present| present.parent().is_some())?;
    let there = file.is_relative().then(|| present.join(file)).filter(|there| there.is_file())?;
    let above = there.parent()?.canonicalize().ok()?;
    let folder = format!("{}/", present.to_str()?);
    Some((folder, above.join(there.file_name()?).to_str()?.to_owned()))
}

fn shown(words: &[String]) -> String {
    words.join(" ").chars().take(200).collect()
}
