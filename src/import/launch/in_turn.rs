//! Commands that a shell is told to run one after the other: `srun bash -c "python a.py; python b.py"`.

use std::collections::BTreeMap;

use super::{LaunchCommand, base, follow, is_shell, take_apart};
use crate::shell::{self, ShellCommand, quoted};

/// The command once for each training that a shell in it is told to start; itself where there is one, or none.
pub fn in_turn(command: ShellCommand) -> Vec<ShellCommand> {
    let Some(place) = text_at(&command.words) else { return vec![command] };
    let text = command.words.get(place).map_or("", String::as_str);
    let given: BTreeMap<String, String> = take_apart(&command.words).variables.into_iter().collect();
    let script = shell::read(text, &|name| given.get(name).cloned());
    let each: Vec<String> = script.commands.iter().filter(|one| trains(&take_apart(&one.words))).map(line).collect();
    if each.len() < 2 {
        return vec![command];
    }
    let exported: String =
        script.exported.iter().map(|(name, value)| format!("export {name}={}; ", quoted(value))).collect();
    let one = |line: String| {
        let mut words = command.words.clone();
        if let Some(word) = words.get_mut(place) {
            *word = exported.clone() + &line;
        }
        ShellCommand { words, ..command.clone() }
    };
    each.into_iter().map(one).collect()
}

/// Whether a command starts Python or a launcher for anything that may train.
pub fn trains(launched: &LaunchCommand) -> bool {
    let tool = crate::file::trains_by_itself(&launched.program);
    let starts = launched.program.python || !launched.launchers.is_empty() || tool;
    starts && !launched.program.trains_nothing()
}

/// Where the text stands that a shell in a command is told.
fn text_at(words: &[String]) -> Option<usize> {
    let shell = words.iter().position(|word| is_shell(base(word)))?;
    let options = words.get(shell + 1..)?.iter().take_while(|word| word.starts_with('-'));
    let last = options.enumerate().find(|(_, word)| !word.starts_with("--") && word.ends_with('c'))?.0;
    let at = shell + last + 2;
    (at < words.len()).then_some(at)
}

fn line(command: &ShellCommand) -> String {
    command.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Of a shell's commands the last that starts Python or a launcher (`torchrun … | tee log`) for anything that may
/// train, else the last.
pub(super) fn last_that_trains(mut commands: Vec<Vec<String>>, depth: usize) -> Vec<String> {
    let starts = |words: &Vec<String>| {
        let mut launched = LaunchCommand::default();
        follow(words.clone(), &mut launched, depth + 1);
        trains(&launched)
    };
    let at = commands.iter().rposition(starts).or(commands.len().checked_sub(1));
    let at = at.map(|at| with_launcher(&commands, at, depth));
    at.map(|at| commands.swap_remove(at)).unwrap_or_default()
}

/// Where several branches start one program, that with a launcher: which is taken only the run knows, and how many it starts.
fn with_launcher(commands: &[Vec<String>], at: usize, depth: usize) -> usize {
    let apart = |words: &Vec<String>| {
        let mut launched = LaunchCommand::default();
        follow(words.clone(), &mut launched, depth + 1);
        launched
    };
    let Some(last) = commands.get(at).map(apart).filter(|last| last.launchers.is_empty()) else { return at };
    let launches = |words: &Vec<String>| {
        let other = apart(words);
        !other.launchers.is_empty() && other.program.path == last.program.path && !last.program.path.is_empty()
    };
    commands.iter().position(launches).unwrap_or(at)
}
