//! Scripts of a shell that start a script of Python's with its arguments, and nothing else: in its folder and those above,
//! and in what lies there under the usual names.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::super::common::ImportContext;
use super::super::documented_commands::{Documented, LONGEST, does_other_work, is_module, names};
use super::super::imported::ImportedPlan;
use super::super::origin::Origin;
use super::super::refused::Refused;
use super::super::{file, launch};
use super::brief;

/// Folders of such scripts, below the script's own and those above.
const FOLDERS: [&str; 9] = [
    "",
    "scripts/",
    "script/",
    "examples/",
    "examples/scripts/",
    "slurm/",
    "scripts/slurm/",
    "scripts/train/",
    "bash/",
];

/// No script that matters stands deeper.
const MOST_FOLDERS: usize = 4;

/// No more scripts are looked into.
const MOST_SCRIPTS: usize = 60;

/// How names of such scripts end.
const ENDINGS: [&str; 3] = [".sh", ".slurm", ".sbatch"];

/// No more commands are shown.
const MOST_RUNS: usize = 24;

/// The plan of a file that is not understood by itself, where a command that starts it is written beside it: in a README, or
/// in scripts of a shell. Of several that come to different plans `--which` takes one.
///
/// # Errors
/// `refused` where no command is found, else the commands that start the file.
pub fn plan(name: &str, content: &str, context: &ImportContext, refused: Refused) -> Result<ImportedPlan, Refused> {
    const MOST_NAMED: usize = 6;
    if let Some(imported) = super::alone(name, content, context) {
        return Ok(imported);
    }
    let StartingScripts { mut runs, paths } = starting_scripts(name, context);
    if !name.ends_with(".py") {
        runs.retain(|(_, plan)| has_read(plan, name));
    }
    let told = runs.iter().any(|(_, plan)| plan.names_no_model().is_none());
    runs.retain(|(_, plan)| !told || plan.names_no_model().is_none());
    let place = |run: &Documented| run.place.clone();
    let chosen = match (context.run.which, runs.len()) {
        (_, 0) if paths.len() > 1 => {
            let paths: Vec<String> = paths.into_iter().take(MOST_NAMED).collect();
            let several =
                format!("{name}: several scripts start it, none in a way that is understood: {}", paths.join(", "));
            return Err(Refused::NoTool(several));
        }
        (_, 0) if !name.ends_with(".py") => return read_by_script(name, context).ok_or(refused),
        (_, 0) => return Err(refused),
        (None, 1) => 0,
        (None, _) => {
            let commands = runs.iter().map(|(run, _)| format!("{}: {}", place(run), brief(&run.words))).collect();
            return Err(Refused::Several { file: name.to_owned(), commands });
        }
        (Some(which), number) => which.checked_sub(1).filter(|at| *at < number).ok_or_else(|| {
            Refused::NoTool(format!("{name}: --which {which}, and {number} commands start it with other arguments"))
        })?,
    };
    let (run, mut imported) = runs.swap_remove(chosen);
    imported.note(format!("started by {}", place(&run)));
    Ok(imported)
}

/// The run that scripts of a shell start a file in, where all of them come to the same plan.
pub fn only(name: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let runs = starting_scripts(name, context).runs;
    let [(run, plan)] = runs.as_slice() else { return None };
    let mut imported = plan.clone();
    imported.note(format!("started by {}", run.place));
    imported.names_no_model().is_none().then_some(imported)
}

/// The plan of a file of settings by the one script in Python that reads it.
fn read_by_script(name: &str, context: &ImportContext) -> Option<ImportedPlan> {
    match super::scripts::readers(name, context).as_mut_slice() {
        [(_, plan)] => Some(std::mem::take(plan)),
        _ => None,
    }
}

/// Whether a run has taken something from the file.
fn has_read(plan: &ImportedPlan, name: &str) -> bool {
    let base = launch::base(name);
    plan.values.iter().any(|found| matches!(&found.origin, Origin::File { name, .. } if launch::base(name) == base))
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
    let whole = |plan: &ImportedPlan| {
        plan.names_no_model().is_none() && !PARTS.contains(&plan.tool.as_str()) && has_read(plan, name)
    };
    if let Some(imported) = super::alone(name, content, context).filter(whole) {
        return imported;
    }
    let starters = starting(name, base, context, &|words, beside| names_file(words, name, beside));
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

/// Whether a word of a command, or the value of an option, is the file.
fn names_file(words: &[String], name: &str, beside: bool) -> bool {
    words.iter().any(|word| names(word.split_once('=').map_or(word.as_str(), |(_, value)| value), name, beside))
}

/// What starts a file in scripts of a shell.
pub struct StartingScripts {
    /// Each command that is understood, once, with its plan.
    pub runs: Vec<(Documented, ImportedPlan)>,
    /// The scripts that start the file, whether that is understood or not.
    pub paths: Vec<String>,
}

/// What starts the file in the scripts of the nearest folder that has one.
pub fn starting_scripts(name: &str, context: &ImportContext) -> StartingScripts {
    let base = launch::base(name);
    let stem = base.strip_suffix(".py").unwrap_or(base);
    let mut found = StartingScripts { runs: Vec::new(), paths: Vec::new() };
    for folder in above(name) {
        for below in FOLDERS {
            let of_scripts = format!("{folder}{below}");
            // A script of another folder is started from the project's root, unless such a file lies beside it.
            let elsewhere = context.run.files.read(&format!("{of_scripts}{base}")).is_err();
            let beside = of_scripts == own_folder(name) || (elsewhere && !name.contains('/'));
            for (path, text) in in_folder(&of_scripts, stem, context) {
                found.add(path, &text, context, &|words| is_started(words, name, beside));
            }
        }
        if !found.paths.is_empty() {
            break;
        }
    }
    found
}

impl StartingScripts {
    /// Adds what a script starts by commands that fit.
    fn add(&mut self, path: String, text: &str, context: &ImportContext, fits: &dyn Fn(&[String]) -> bool) {
        let starts = Cell::new(false);
        let fits = |words: &[String]| {
            let fits = fits(words);
            starts.set(starts.get() || fits);
            fits
        };
        for (words, plan) in file::runs_of_script(&path, text, context, &fits) {
            let is_new = self.runs.iter().all(|(_, known)| known.json() != plan.json());
            if is_new && self.runs.len() < MOST_RUNS {
                let run = Documented { place: path.clone(), words, named: String::new(), neighbour: false };
                self.runs.push((run, plan));
            }
        }
        if starts.get() {
            self.paths.push(path);
        }
    }
}

/// Whether a command starts the file: a script as its program, settings as one of its words.
fn is_started(words: &[String], name: &str, beside: bool) -> bool {
    let program = launch::take_apart(words).program;
    if does_other_work(&program) {
        return false;
    }
    if !name.ends_with(".py") {
        return names_file(words, name, beside);
    }
    // The text of `bash -c` is one word.
    let first = words.iter().find(|word| word.ends_with(".py")).unwrap_or(&program.path);
    names(first, name, beside) || (program.module && is_module(&program.path, name))
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
