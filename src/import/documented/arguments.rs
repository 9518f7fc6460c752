//! What a script of a shell is given on its command line, where a README of its folder or of one above starts it with
//! arguments: `sbatch --nodes=1 train.slurm --model Qwen --task sft`.

use std::collections::BTreeMap;

use super::super::documented_commands::{joined_lines, texts};
use super::super::imported::ImportedPlan;
use super::super::refused::Refused;
use super::super::{Files, ProcessView, file, launch, shell};
use super::brief;
use crate::catalog::Catalog;
use crate::plan::keys;

/// The usual text.
const TEXT: &str = "README.md";

/// No more commands are followed.
const MOST_RUNS: usize = 12;

/// Whether a script alone says too little: no tool or no model, or its options depend on what is not known.
pub fn are_lacking(alone: &Result<ImportedPlan, Refused>) -> bool {
    match alone {
        Ok(imported) => {
            let open = imported.missing.iter().any(|missing| missing.key == keys::model::architecture);
            open || imported.unread.is_some() || imported.names_no_model().is_some()
        }
        Err(refused) => matches!(refused, Refused::NoTool(_)),
    }
}

/// Whether a script asks what it is given.
pub fn are_asked_for(content: &str) -> bool {
    ["$1", "${1", "$@", "${@", "$#", "$*"].iter().any(|asked| content.contains(asked))
}

/// The plan of the script called `name` as the texts beside it start it; of several that differ `--which` takes one. None
/// where no text starts it in a way that names a model.
pub fn plan(name: &str, around: &ProcessView, catalog: &Catalog) -> Option<Result<ImportedPlan, Refused>> {
    let inner = ProcessView { which: None, ..around.copy() };
    // The text stands for a script beside the one that it starts.
    let beside = name.rsplit_once('/').map_or_else(|| TEXT.to_owned(), |(folder, _)| format!("{folder}/{TEXT}"));
    let mut runs: Vec<(String, ImportedPlan)> = Vec::new();
    for (place, command) in commands(name, around.files) {
        let Ok(plan) = file::of_script_alone(&beside, &command, &BTreeMap::new(), &inner, catalog) else { continue };
        let told = !plan.tool.is_empty() && plan.names_no_model().is_none();
        if told && runs.iter().all(|(_, known)| known.json() != plan.json()) {
            runs.push((format!("{place}: {}", brief(&[command])), plan));
        }
    }
    let number = runs.len();
    let chosen = match (around.which, number) {
        (_, 0) => return None,
        (None, 1) => 0,
        (None, _) => {
            let commands = runs.into_iter().map(|(shown, _)| shown).collect();
            return Some(Err(Refused::Several { file: name.to_owned(), commands }));
        }
        (Some(which), _) => which.checked_sub(1).filter(|at| *at < number)?,
    };
    let (shown, mut imported) = runs.swap_remove(chosen);
    imported.note(format!("its arguments are those of {shown}"));
    Some(Ok(imported))
}

/// Commands that start a script with arguments that are all spelled out, each with its place.
fn commands(name: &str, files: &dyn Files) -> Vec<(String, String)> {
    let base = launch::base(name);
    let mut found: Vec<(String, String)> = Vec::new();
    for (path, text) in texts(name, files) {
        let lines: Vec<&str> = text.lines().collect();
        for (line, whole) in joined_lines(&lines) {
            let open = ['$', '<', '{', '…'].iter().any(|sign| whole.contains(*sign)) || whole.contains("...");
            if open || !whole.contains(base) {
                continue;
            }
            for command in shell::read(&whole, &|_| None).commands {
                let leading = command.words.iter().take_while(|word| word.contains('=') && !word.starts_with('-'));
                let leading = leading.count();
                let words = command.words.get(leading..).unwrap_or_default();
                let Some((script, arguments)) = shell::started_script(words) else { continue };
                let is_it = name == script.trim_start_matches("./")
                    || name.ends_with(&format!("/{}", script.trim_start_matches("./")));
                let asks = arguments.iter().any(|word| matches!(word.as_str(), "--help" | "-h"));
                if !is_it || asks || arguments.is_empty() || found.len() >= MOST_RUNS {
                    continue;
                }
                let own = |word: &String| if word == script { name.to_owned() } else { word.clone() };
                let words: Vec<String> = command.words.iter().map(own).map(|word| shell::quoted(&word)).collect();
                found.push((format!("{path}:{line}"), words.join(" ")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::are_asked_for;

    #[test]
    fn a_script_asks_for_arguments() {
        assert!(are_asked_for("SIZE=${1:-7b}") && are_asked_for("train.py $@") && !are_asked_for("train.py --lr $LR"));
    }
}
