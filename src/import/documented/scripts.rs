//! Scripts in Python that read a file of settings by its name: `load_config("configs/sft.yaml")`, or a default of theirs.

use std::collections::BTreeSet;

use super::super::common::ImportContext;
use super::super::documented_commands::LONGEST;
use super::super::imported::ImportedPlan;
use super::super::trainer::NO_SCRIPT;
use super::super::{Files, ProcessView, file, hydra, launch};
use crate::files::Unread;

/// Folders of such scripts, below the file's own and those above, each with the folders in it.
const FOLDERS: [&str; 6] = ["", "src/", "scripts/", "training/", "train/", "code/"];

/// No script that matters stands deeper.
const MOST_FOLDERS: usize = 4;

/// No more scripts are looked into.
const MOST_SCRIPTS: usize = 200;

/// No more of them are imported.
const MOST_READERS: usize = 6;

/// Files but for one.
pub struct Without<'a> {
    files: &'a dyn Files,
    path: String,
}

impl<'a> Without<'a> {
    /// All of `files` but that one.
    pub fn of(files: &'a dyn Files, path: &str) -> Self {
        Self { files, path: files.absolute(path) }
    }
}

impl Files for Without<'_> {
    fn read(&self, path: &str) -> Result<String, Unread> {
        if self.files.absolute(path) == self.path {
            return Err(Unread("left out".to_owned()));
        }
        self.files.read(path)
    }

    fn absolute(&self, path: &str) -> String {
        self.files.absolute(path)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.files.names(folder)
    }
}

/// The plan of a file of settings that no command names, by the one script that reads it: its plan is another without the
/// file. Of several that come to different plans the file stands alone, and a note names them.
pub fn complete(imported: ImportedPlan, (name, content): (&str, &str), context: &ImportContext) -> ImportedPlan {
    const MOST_NAMED: usize = 4;
    if !imported.notes.iter().any(|line| line == NO_SCRIPT) {
        return imported;
    }
    // A command that starts it with a script of another tool's: unsloth's names are the Trainer's.
    let whole = |plan: &ImportedPlan| plan.tool != imported.tool && plan.names_no_model().is_none();
    if let Some(started) = super::started_alone(name, content, context).filter(whole) {
        return started;
    }
    let mut found = readers(name, context);
    match found.len() {
        0 => imported,
        1 => found.remove(0).1,
        _ => {
            let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).take(MOST_NAMED).collect();
            let mut imported = imported;
            imported.note(format!("several scripts read this file: import one of {}", names.join(", ")));
            imported
        }
    }
}

/// The scripts that read the file, each with its plan, of alike ones the first.
pub fn readers(name: &str, context: &ImportContext) -> Vec<(String, ImportedPlan)> {
    let around = context.run;
    let without = Without::of(around.files, name);
    let alone = ProcessView { files: &without, ..around.copy() };
    let mut found: Vec<(String, ImportedPlan)> = Vec::new();
    for (path, text) in naming(name, context).into_iter().take(MOST_READERS) {
        let Ok(mut plan) = file::file(&path, &text, around, context.catalog) else { continue };
        let left = file::file(&path, &text, &alone, context.catalog).ok();
        let reads = left.is_none_or(|left| left.json() != plan.json());
        if plan.names_no_model().is_some() || !reads || found.iter().any(|(_, known)| known.json() == plan.json()) {
            continue;
        }
        plan.note(format!("{path} reads this file"));
        found.push((path, plan));
    }
    found
}

/// What the top of a project has.
const TOPS: [&str; 3] = [".git", "pyproject.toml", "setup.py"];

/// The scripts of the project that write the file's path between quotes, in the order of their folders.
fn naming(name: &str, context: &ImportContext) -> Vec<(String, String)> {
    let files = context.run.files;
    let Some((folder, base)) = name.rsplit_once('/') else { return Vec::new() };
    let path = format!("{}/{base}", launch::base(folder));
    let quoted = ['"', '\''].map(|quote| format!("{path}{quote}"));
    let above = std::iter::successors(Some(folder), |folder| folder.rsplit_once('/').map(|(above, _)| above));
    let mut roots: Vec<String> = Vec::new();
    for folder in above.skip(1).take(MOST_FOLDERS) {
        roots.push(format!("{folder}/"));
        // Beyond its top there are other projects.
        if files.names(folder).iter().any(|name| TOPS.contains(&name.as_str())) {
            break;
        }
    }
    if !name.starts_with('/') {
        roots.push(String::new());
    }
    let mut seen = BTreeSet::new();
    let mut scripts = Vec::new();
    for root in roots {
        for below in FOLDERS {
            let folder = format!("{root}{below}");
            let inner = files.names(folder.trim_end_matches('/'));
            let deeper = inner.iter().filter(|name| !below.is_empty() && !name.contains('.'));
            let folders = std::iter::once(folder.clone()).chain(deeper.map(|name| format!("{folder}{name}/")));
            for folder in folders {
                let names = files.names(folder.trim_end_matches('/'));
                scripts.extend(
                    names.into_iter().filter(|name| name.ends_with(".py")).map(|name| format!("{folder}{name}")),
                );
            }
        }
    }
    scripts.retain(|path| seen.insert(path.clone()));
    let texts = scripts.into_iter().take(MOST_SCRIPTS).filter_map(|path| {
        let text = files.read(&path).ok().filter(|text| text.len() <= LONGEST)?;
        let named = quoted.iter().any(|quoted| text.contains(quoted.as_str()));
        (named || hydra::is_started_with(&path, &text, name, files)).then_some((path, text))
    });
    texts.collect()
}
