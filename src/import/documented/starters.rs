//! Scripts of a shell that start a script of Python's with its arguments, and nothing else: in its folder and those above,
//! and in what lies there under the usual names.

use std::collections::BTreeMap;

use super::super::common::ImportContext;
use super::super::documented_commands::{LONGEST, is_module, names};
use super::super::imported::ImportedPlan;
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

/// The scripts that start the file, each with its text: those of the nearest folder that has one.
fn of(name: &str, context: &ImportContext) -> Vec<(String, String)> {
    let Some(stem) = launch::base(name).strip_suffix(".py") else { return Vec::new() };
    for folder in above(name) {
        let mut found = Vec::new();
        for (path, text) in FOLDERS.iter().flat_map(|below| in_folder(&format!("{folder}{below}"), stem, context)) {
            let beside = folder == own_folder(name);
            let commands = file::commands(&text, &|_| None);
            let own = |words: &Vec<String>| {
                let program = launch::take_apart(words).program;
                names(&program.path, name, beside) || (program.module && is_module(&program.path, name))
            };
            if !commands.is_empty() && commands.iter().all(own) {
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
