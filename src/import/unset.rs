//! Variables that a script uses and sets nowhere, or only in branches that are not followed.

use std::collections::{BTreeMap, BTreeSet};

use super::imported::ImportedPlan;
use super::shell::Script;

/// Says which variables of a command have no value here: nothing stands for them, and something may in the run.
pub fn note(imported: &mut ImportedPlan, unset: &[String], script: &Script, text: &str) {
    let mut names: Vec<&str> = Vec::new();
    for name in unset {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return;
    }
    let unread: Vec<&str> = script.unread.iter().map(String::as_str).filter(|path| !sets_up_the_shell(path)).collect();
    let from = if unread.is_empty() { String::new() } else { format!(" ({} could not be read)", unread.join(", ")) };
    let (branches, nowhere): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| script.skips(name));
    let (blank, nowhere): (Vec<&str>, Vec<&str>) = nowhere.into_iter().partition(|name| is_placeholder(text, name));
    for (names, set) in [
        (nowhere, "set nowhere in the script"),
        (blank, "a placeholder in the script"),
        (branches, "set only in a branch that was not followed"),
    ] {
        if !names.is_empty() {
            let names = names.iter().map(|name| format!("${name}")).collect::<Vec<_>>().join(", ");
            imported.note(format!("{set}, taken as nothing or unknown: {names}{from}"));
        }
    }
    if let Some(file) = unread.first() {
        imported.unread = Some((*file).to_owned());
        imported.distrust();
    }
}

/// Whether a script leaves a variable to who runs it: `CHECKPOINT_PATH=<Specify path>`, which a shell reads as a file to
/// take its input from.
fn is_placeholder(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let value = line.trim_start().trim_start_matches("export ").strip_prefix(name);
        value.and_then(|rest| rest.strip_prefix("=<")).is_some_and(|rest| rest.contains('>'))
    })
}

/// Says which variables of a command have another value where the run's surroundings set what nobody sets here.
pub fn note_doubts(imported: &mut ImportedPlan, doubts: &[(String, String)]) {
    let mut told: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, asked) in doubts {
        told.entry(asked).or_default().insert(name);
    }
    for (asked, names) in told {
        let names: Vec<String> = names.into_iter().map(|name| format!("${name}")).collect();
        imported
            .note(format!("${asked}, which the script does not set, decides {}: taken as not set", names.join(", ")));
    }
}

/// Parts of options whose value names data, or where something is written, and nothing of what is held.
const OF_PLACES: [&str; 16] = [
    "data",
    "output",
    "save",
    "run_name",
    "wandb",
    "log",
    "exp_name",
    "experiment",
    "cache",
    "tensorboard",
    "project",
    "image_folder",
    "video_folder",
    "job_name",
    "pretrain_mm_mlp_adapter",
    "=version",
];

/// Parts of options that decide something all the same.
const OTHERS: [&str; 8] = ["model", "config", "batch", "parallel", "size", "len", "worker", "dataparallel"];

/// Whether a variable of a command that nobody sets may say something of a plan: not one that stands in names of data and of
/// outputs alone.
pub fn matters(command: &str, name: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let marks = [format!("${name}"), format!("${{{name}}}")];
    let mut places = 0;
    let idle = words.iter().enumerate().all(|(at, word)| {
        if !marks.iter().any(|mark| word.contains(mark.as_str())) {
            return true;
        }
        places += 1;
        let before = || at.checked_sub(1).and_then(|before| words.get(before)).copied().unwrap_or("");
        let option = word.split_once('=').map_or_else(before, |(option, _)| option);
        let option = option.trim_start_matches(['-', '+']).replace('-', "_").to_lowercase();
        let of = |part: &str| part.strip_prefix('=').map_or_else(|| option.contains(part), |whole| option == whole);
        OF_PLACES.iter().any(|part| of(part)) && !OTHERS.iter().any(|part| option.contains(part))
    });
    !(idle && places > 0)
}

/// Whether a sourced file readies the shell or turns an environment of Python on: of a training it says nothing that the
/// shell in which the script is started would not say.
pub fn sets_up_the_shell(path: &str) -> bool {
    const ENDS: [&str; 9] = [
        "/etc/profile.d/conda.sh",
        "/etc/profile.d/mamba.sh",
        "/etc/profile.d/modules.sh",
        "/bin/activate",
        "/etc/profile",
        ".bashrc",
        ".bash_profile",
        ".profile",
        "/lmod/init/bash",
    ];
    path == "activate" || ENDS.iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::matters;

    #[test]
    fn a_variable_in_the_names_of_data_alone_does_not_matter() {
        let command =
            "torchrun train.py --dataset $DATA --output_dir ./out/$RUN --model_name_or_path ./ckpt/$RUN --bf16";
        assert!(!matters(command, "DATA"));
        assert!(matters(command, "RUN"));
        // Inside an array, or in front of the program, nothing is seen of it.
        assert!(matters(command, "ARGS") && matters("$LAUNCHER train.py", "LAUNCHER"));
        assert!(matters("train.py --data_parallel_size $DP", "DP"));
    }
}
