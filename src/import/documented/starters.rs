//! Scripts of a shell that start a script of Python's with its arguments, and nothing else: in its folder and those above,
//! and in what lies there under the usual names.

use std::collections::BTreeMap;

use super::super::common::ImportContext;
use super::super::documented_commands::{LONGEST, is_module, names};
use super::super::imported::{ImportedPlan, InferredValue};
use super::super::origin::Origin;
use super::super::refused::Refused;
use super::super::{file, launch};

/// Folders of such scripts, below the script's own and those above.
const FOLDERS: [&str; 5] = ["", "scripts/", "script/", "examples/", "examples/scripts/"];

/// No script that matters stands deeper.
const MOST_FOLDERS: usize = 4;

/// No more scripts are looked into.
const MOST_SCRIPTS: usize = 60;

/// How names of such scripts end.
const ENDINGS: [&str; 3] = [".sh", ".slurm", ".sbatch"];

/// The plan of a script that takes its arguments from a command line, where such a command is written beside it: in a
/// README, or in a script of a shell. Of several such scripts none is taken.
///
/// # Errors
/// `refused` where no script is found, else the scripts that start the file.
pub fn plan(name: &str, content: &str, context: &ImportContext, refused: Refused) -> Result<ImportedPlan, Refused> {
    const MOST_NAMED: usize = 6;
    if let Some(imported) = super::alone(name, content, context) {
        return Ok(imported);
    }
    let starters = of(name, context);
    let [(path, text)] = starters.as_slice() else {
        let names: Vec<&str> = starters.iter().map(|(path, _)| path.as_str()).take(MOST_NAMED).collect();
        let several =
            || format!("{name}: several scripts start it with other arguments: import one of {}", names.join(", "));
        return Err(if names.is_empty() { refused } else { Refused::NoTool(several()) });
    };
    let started = file::of_script(path, text, &BTreeMap::new(), context.run, context.catalog);
    let Ok(mut imported) = started else { return Err(refused) };
    if imported.tool.is_empty() || imported.names_no_model().is_some() {
        return Err(refused);
    }
    imported.note(format!("started by {path}"));
    Ok(imported)
}

/// A file of a launcher's or an engine's, as the one run that is started with it: a command in a README, or one script of a
/// shell. Of several runs the file stands alone, and a note names them.
pub fn of_part(part: ImportedPlan, name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    const PARTS: [&str; 2] = ["accelerate", "DeepSpeed"];
    const MOST_NAMED: usize = 4;
    let is_file = [".json", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    if !is_file || !PARTS.contains(&part.tool.as_str()) {
        return part;
    }
    let base = launch::base(name);
    // The run has read the file.
    let whole = |plan: &ImportedPlan| {
        let named =
            |found: &InferredValue| matches!(&found.origin, Origin::File { name, .. } if launch::base(name) == base);
        plan.names_no_model().is_none() && !PARTS.contains(&plan.tool.as_str()) && plan.values.iter().any(named)
    };
    if let Some(imported) = super::alone(name, content, context).filter(whole) {
        return imported;
    }
    let starters = starting(name, base, context, &|words, beside| {
        words.iter().any(|word| names(word.split_once('=').map_or(word.as_str(), |(_, value)| value), name, beside))
    });
    if let [(path, text)] = starters.as_slice() {
        let started = file::of_script(path, text, &BTreeMap::new(), context.run, context.catalog);
        return match started.ok().filter(whole) {
            Some(mut imported) => {
                imported.note(format!("the run that {path} starts with this file"));
                imported
            }
            None => part,
        };
    }
    let mut part = part;
    if !starters.is_empty() {
        let names: Vec<&str> = starters.iter().map(|(path, _)| path.as_str()).take(MOST_NAMED).collect();
        part.note(format!("several scripts start with this file: import one of {}", names.join(", ")));
    }
    part
}

/// The scripts that start the file, each with its text: those of the nearest folder that has one.
fn of(name: &str, context: &ImportContext) -> Vec<(String, String)> {
    let Some(stem) = launch::base(name).strip_suffix(".py") else { return Vec::new() };
    starting(name, stem, context, &|words, beside| {
        let program = launch::take_apart(words).program;
        names(&program.path, name, beside) || (program.module && is_module(&program.path, name))
    })
}

/// The scripts whose commands all fit, each with its text: those of the nearest folder that has one.
fn starting(
    name: &str,
    stem: &str,
    context: &ImportContext,
    fits: &dyn Fn(&[String], bool) -> bool,
) -> Vec<(String, String)> {
    for folder in above(name) {
        let mut found = Vec::new();
        for (path, text) in FOLDERS.iter().flat_map(|below| in_folder(&format!("{folder}{below}"), stem, context)) {
            let beside = folder == own_folder(name);
            let commands = file::commands(&text, &|_| None);
            if !commands.is_empty() && commands.iter().all(|words| fits(words, beside)) {
                found.push((path, text));
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// The scripts in a folder that speak of a file: by the names that lie there, else by the usual ones.
fn in_folder(folder: &str, stem: &str, context: &ImportContext) -> Vec<(String, String)> {
    let mut listed = context.run.files.names(folder.trim_end_matches('/'));
    if listed.is_empty() {
        listed = vec![format!("{stem}.sh"), format!("run_{stem}.sh"), "run.sh".to_owned(), "train.sh".to_owned()];
    }
    let scripts = listed.into_iter().filter(|name| ENDINGS.iter().any(|end| name.ends_with(end))).take(MOST_SCRIPTS);
    let texts = scripts.filter_map(|script| {
        let path = format!("{folder}{script}");
        let text = context.run.files.read(&path).ok()?;
        (text.len() <= LONGEST && text.contains(stem)).then_some((path, text))
    });
    texts.collect()
}

/// The folder of a file, with its stroke.
fn own_folder(name: &str) -> String {
    name.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("{folder}/"))
}

/// The folder of a file and those above, the nearest first.
fn above(name: &str) -> Vec<String> {
    let folders = std::iter::successors(name.rsplit_once('/').map(|(folder, _)| folder), |folder| {
        folder.rsplit_once('/').map(|(above, _)| above)
    });
    let mut found: Vec<String> = folders.take(MOST_FOLDERS).map(|folder| format!("{folder}/")).collect();
    if !name.starts_with('/') {
        found.push(String::new());
    }
    found
}
