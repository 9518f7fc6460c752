//! What a script of a shell starts: the trainings among it, and the scripts that are not at hand.

use std::collections::BTreeMap;

use super::super::imported::ImportedPlan;
use super::super::script_files::ScriptFiles;
use super::super::{ProcessView, launch, of_command, shell, unset};
use super::training_commands::starting;
use crate::catalog::Catalog;
use crate::plan::keys;

/// No more files that were found elsewhere are named.
const MOST_ELSEWHERE: usize = 3;

/// No command is shown at greater length.
const LONGEST_SHOWN: usize = 100;

/// What a script starts, each command as it is shown.
pub struct StartedCommands {
    /// Those of a tool that is known, and their plans; two that come to the same plan are one.
    pub trainings: Vec<(String, ImportedPlan)>,
    pub others: Vec<String>,
    /// Of these the scripts that train by their names.
    pub further: Vec<String>,
    /// Scripts of a shell that it starts and that are not at hand.
    pub absent: Vec<String>,
}

/// What the script called `name` starts.
pub fn started(
    name: &str,
    mut script: shell::Script,
    variables: &BTreeMap<String, String>,
    around: &ProcessView,
    catalog: &Catalog,
) -> StartedCommands {
    let mut found =
        StartedCommands { trainings: Vec::new(), others: Vec::new(), further: Vec::new(), absent: Vec::new() };
    let commands = std::mem::take(&mut script.commands);
    let mut unclear = Vec::new();
    found.absent = commands.iter().filter_map(|command| absent(&command.words)).collect();
    let astray = commands.iter().find_map(|command| astray(&command.words)).map(str::to_owned);
    let mut lines: Vec<Vec<String>> = Vec::new();
    for command in starting(commands) {
        let words = command.words.clone();
        let shown = short(&words.join(" "));
        let program = launch::take_apart(&command.words).program;
        let mut imported = of_started(name, command, &script, variables, around, catalog);
        if let Some(option) = astray.as_ref().filter(|_| !imported.tool.is_empty()) {
            leave_open(&mut imported, option);
        }
        if imported.tool.is_empty() {
            if program.trains_by_its_name() {
                found.further.push(shown.clone());
            } else if program.python && !program.trains_nothing() && !is_a_check(&program) {
                unclear.push(shown.clone());
            }
            found.others.push(shown);
        } else if found.trainings.iter().all(|(_, known)| known.json() != imported.json()) {
            found.trainings.push((shown, imported));
            lines.push(words);
        }
    }
    for ((shown, _), told) in found.trainings.iter_mut().zip(told_apart(&lines)) {
        *shown = told;
    }
    if let ([(_, training)], Some(first)) = (found.trainings.as_mut_slice(), unclear.first()) {
        training.note(format!("also starts what is not recognised: {first}"));
    }
    found
}

/// Whether a program that nobody knows tests, compares or turns something into another kind, by its name.
fn is_a_check(program: &launch::Program) -> bool {
    const NAMES: [&str; 8] = ["test", "check", "compare", "coverage", "dump", "hf2", "2hf", "plot"];
    program.path.is_empty() || NAMES.iter().any(|part| program.name().to_lowercase().contains(part))
}

/// Files of jobs that a script hands to a scheduler: `kubectl apply -f job.yaml`, `sky launch task.yaml`.
pub fn handed_in(script: &shell::Script) -> Vec<String> {
    const STARTING: [(&str, &[&str]); 2] = [("kubectl", &["apply", "create"]), ("sky", &["launch", "jobs", "exec"])];
    let is_file = |word: &&String| word.ends_with(".yaml") || word.ends_with(".yml");
    let path = |command: &shell::ShellCommand| {
        let (first, rest) = command.words.split_first()?;
        let (_, verbs) = STARTING.iter().find(|(program, _)| *program == launch::base(first))?;
        let starts = rest.first().is_some_and(|verb| verbs.contains(&verb.as_str()));
        rest.iter().find(is_file).filter(|_| starts).cloned()
    };
    script.commands.iter().filter_map(path).collect()
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

/// Commands as they are shown beside each other: their beginnings, or where those are the same what not all of them have.
fn told_apart(commands: &[Vec<String>]) -> Vec<String> {
    const SHARED: usize = 40;
    // What a shell is handed as one word is a command by itself.
    let words: Vec<Vec<&str>> =
        commands.iter().map(|words| words.iter().flat_map(|word| word.split_whitespace()).collect()).collect();
    let mut shown: Vec<String> = words.iter().map(|words| short(&words.join(" "))).collect();
    let mut distinct = shown.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < shown.len() {
        let common = |word: &&str| words.iter().all(|other| other.contains(word));
        for (text, words) in shown.iter_mut().zip(&words) {
            let own: Vec<&str> = words.iter().copied().filter(|word| !common(word)).collect();
            let start: String = text.chars().take(SHARED).collect();
            *text = format!("{start}… {}", short(&own.join(" ")));
        }
    }
    shown
}

/// Takes out what nobody has said where options stand that may have been meant for the command.
fn leave_open(imported: &mut ImportedPlan, option: &str) {
    const WHOSE: &str = "options that belong to no command";
    imported.note(format!(
        "not understood: {option} begins a line: the command above it has ended, at a comment or without a backslash"
    ));
    imported.unread.get_or_insert_with(|| WHOSE.to_owned());
    imported.distrust();
    for key in [keys::model::batch_size, keys::training::gradient_accumulation_steps] {
        imported.doubt(key, format!("{WHOSE} may say it"));
    }
}

/// An option that begins a command: what was to be handed to the one above it, which a comment or a missing backslash ends.
fn astray(words: &[String]) -> Option<&str> {
    let option = words.first().and_then(|word| word.strip_prefix("--"))?;
    let starts = option.starts_with(|letter: char| letter.is_ascii_lowercase());
    starts.then(|| words.first().map(String::as_str)).flatten()
}

/// The commands of a script that fit, each with its words and its plan; two that come to the same plan are one.
pub fn fitting(
    name: &str,
    mut script: shell::Script,
    around: &ProcessView,
    catalog: &Catalog,
    fits: &dyn Fn(&[String]) -> bool,
) -> Vec<(Vec<String>, ImportedPlan)> {
    let mut found: Vec<(Vec<String>, ImportedPlan)> = Vec::new();
    let commands = std::mem::take(&mut script.commands);
    for command in starting(commands).into_iter().filter(|command| fits(&command.words)) {
        let words = command.words.clone();
        let imported = of_started(name, command, &script, &around.variables, around, catalog);
        if !imported.tool.is_empty() && found.iter().all(|(_, known)| known.json() != imported.json()) {
            found.push((words, imported));
        }
    }
    found
}

/// The script of a shell that a command starts, which was not followed: it is not at hand.
fn absent(words: &[String]) -> Option<String> {
    let (path, _) = shell::started_script(words)?;
    (!path.contains(['?', '$'])).then(|| path.to_owned())
}

/// Whether a script of a shell trains by its name.
pub fn trains(path: &str) -> bool {
    const NAMES: [&str; 7] = ["train", "finetun", "fine_tun", "sft", "dpo", "grpo", "ppo"];
    NAMES.iter().any(|part| launch::base(path).to_lowercase().contains(part))
}

/// The plan of one command, with the files and the variables that the script around it gives.
fn of_started(
    name: &str,
    command: shell::ShellCommand,
    script: &shell::Script,
    variables: &BTreeMap<String, String>,
    around: &ProcessView,
    catalog: &Catalog,
) -> ImportedPlan {
    let shell::ShellCommand { words: command, unset, doubts, begins_unset, folder } = command;
    let written = ScriptFiles::written(around.files, name, (&script.files, &script.changed), &folder);
    let inner = ProcessView {
        command,
        variables: script.exported.iter().chain(variables).map(|(name, value)| (name.clone(), value.clone())).collect(),
        ancestors: Vec::new(),
        gpus: around.gpus.clone(),
        // What stands in front may be a launcher.
        withheld: around.withheld || begins_unset,
        world: around.world,
        which: None,
        versions: around.versions.clone(),
        files: &written,
    };
    let mut imported = of_command(&inner, catalog);
    let text = around.files.read(name).unwrap_or_default();
    unset::note(&mut imported, &unset, script, &text);
    unset::note_doubts(&mut imported, &doubts);
    // Python finds modules beside its program and among what is installed, wherever a shell stands.
    let found: Vec<String> = written.elsewhere().into_iter().filter(|path| !path.ends_with(".py")).collect();
    for path in found.iter().take(MOST_ELSEWHERE) {
        imported.note(format!("{path}: found in this project, not where the script looks for it"));
    }
    if let Some(rest) = found.len().checked_sub(MOST_ELSEWHERE).filter(|rest| *rest > 0) {
        imported.note(format!("found in this project, not where the script looks for them: {rest} more"));
    }
    imported
}

#[cfg(test)]
mod tests {
    use super::told_apart;

    #[test]
    fn commands_that_begin_alike_show_what_tells_them_apart() {
        let command = |size: u8| {
            let line = format!(
                "uv run --no-sync python scripts/training/run_recipe.py --recipe a_very_long_name_of_one x={size} y=1"
            );
            vec!["srun".to_owned(), "bash".to_owned(), "-c".to_owned(), line]
        };
        let shown = told_apart(&[command(2), command(4)]);
        assert_eq!(
            shown,
            ["srun bash -c uv run --no-sync python scr… x=2", "srun bash -c uv run --no-sync python scr… x=4"]
        );
        let other = [vec!["python".to_owned(), "a.py".to_owned()], vec!["python".to_owned(), "b.py".to_owned()]];
        assert_eq!(told_apart(&other), ["python a.py", "python b.py"]);
    }
}
