//! What starts a file of settings, where that is written beside it: a command in the file's own comments, or in a
//! README of its folder or of one above. The launcher and the script of such a command say what the file leaves open.

use std::collections::BTreeMap;

use super::common::ImportContext;
use super::imported::{ImportedPlan, InferredValue};
use super::launch;
use super::origin::Origin;
use super::script_files::ScriptFiles;
use super::shell;
use super::{ProcessView, run};
use crate::plan::keys;

/// Files that no command trains with: they are a part of one.
const PARTS: [&str; 3] = ["accelerate", "DeepSpeed", "Hugging Face"];

/// Texts that tell how things are started, by the folder that they stand in.
const TEXTS: [&str; 2] = ["README.md", "scripts/README.md"];

/// No longer text is looked through.
const LONGEST: usize = 400_000;

/// No file that matters stands deeper.
const MOST_FOLDERS: usize = 6;

/// More commands than these are not compared.
const MOST_COMMANDS: usize = 6;

/// Sections of a plan that follow from others.
const FOLLOWING: [&str; 2] = ["model.batch_size", "distribution.data_parallel"];

/// A command that starts the file.
struct Documented {
    /// Where it is written.
    place: String,
    words: Vec<String>,
    /// It starts another file of the same folder, which this one stands for.
    neighbour: bool,
}

/// Fills in what a command that starts the file says beside it, where one is written near. What the file states itself
/// stays.
pub fn complete(imported: &mut ImportedPlan, name: &str, content: &str, context: &ImportContext) {
    if imported.tool.is_empty() || PARTS.contains(&imported.tool.as_str()) || name.ends_with(".py") {
        return;
    }
    let commands = commands(name, content, context);
    // What starts a full training beside it says nothing of one of adapters.
    let adapts = imported.get(keys::lora::rank).is_some();
    let alike = |command: &Documented| {
        let named = |word: &String| word != name && word.to_lowercase().contains("lora");
        !(command.neighbour && adapts) || command.words.iter().any(named)
    };
    let found: Vec<(Documented, ImportedPlan)> = commands
        .into_iter()
        .filter(alike)
        .filter_map(|command| {
            let plan = started(&command.words, name, context);
            (plan.tool == imported.tool).then_some((command, plan))
        })
        .collect();
    if let Some((first, _)) = found.first() {
        let shown = brief(&first.words);
        let how = if first.neighbour { "its neighbours are started as" } else { "started by" };
        imported.note(format!("{}: {how} `{shown}`: what that says beside the file is taken", first.place));
        merge(imported, &found);
    }
    doubt(imported, content);
}

/// The plan of a file that no tool is known by, where a command that starts it is written near: the file is what that
/// command's script reads.
pub fn alone(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let found: Vec<(Documented, ImportedPlan)> = commands(name, content, context)
        .into_iter()
        .filter(|command| !command.neighbour)
        .map(|command| {
            let plan = started(&command.words, name, context);
            (command, plan)
        })
        .filter(|(_, plan)| !plan.tool.is_empty() && plan.names_no_model().is_none_or(|_| !name.ends_with(".py")))
        .collect();
    let (first, plan) = found.first()?;
    let mut imported = plan.clone();
    imported.note(format!("{}: started by `{}`", first.place, brief(&first.words)));
    let differs = |key: &str| {
        found.iter().any(|(_, other)| other.get(key).map(|told| &told.value) != plan.get(key).map(|told| &told.value))
    };
    for key in plan.values.iter().map(|inferred| inferred.key).filter(|key| differs(key)) {
        imported.drop(key);
        imported.miss(key, format!("{} starts the file in several ways", first.place));
    }
    Some(imported)
}

/// Scripts of a shell that may start a script of Python's beside them, by its own name.
const STARTERS: [&str; 7] =
    ["{}.sh", "run_{}.sh", "run.sh", "train.sh", "scripts/{}.sh", "scripts/run.sh", "scripts/train.sh"];

/// The text of a shell's script beside a script of Python's that starts it and nothing else.
pub fn starter(name: &str, context: &ImportContext) -> Option<(String, String)> {
    let (folder, file) =
        name.rsplit_once('/').map_or((String::new(), name), |(above, file)| (format!("{above}/"), file));
    let stem = file.strip_suffix(".py")?;
    STARTERS.iter().map(|starter| format!("{folder}{}", starter.replace("{}", stem))).find_map(|path| {
        let text = context.run.files.read(&path).ok().filter(|text| text.len() <= LONGEST)?;
        let commands = super::file::commands(&text, &|_| None);
        let own = |words: &Vec<String>| launch::base(&launch::take_apart(words).program.path) == file;
        (!commands.is_empty() && commands.iter().all(own)).then_some((path, text))
    })
}

/// The first words of a command.
fn brief(words: &[String]) -> String {
    const LONGEST: usize = 100;
    let whole = words.join(" ");
    if whole.chars().count() <= LONGEST { whole } else { whole.chars().take(LONGEST).chain(['…']).collect() }
}

/// The plan of a command, its files looked for as the file itself was.
pub fn started(words: &[String], name: &str, context: &ImportContext) -> ImportedPlan {
    let files = ScriptFiles::around(context.run.files, name);
    let view = ProcessView {
        command: words.to_vec(),
        variables: BTreeMap::new(),
        ancestors: Vec::new(),
        gpus: context.run.gpus.clone(),
        withheld: true,
        world: context.run.world,
        which: None,
        versions: context.run.versions.clone(),
        files: &files,
    };
    run(&view, context.catalog)
}

/// Takes what all commands say alike and the file leaves open; what they say differently is open.
fn merge(imported: &mut ImportedPlan, found: &[(Documented, ImportedPlan)]) {
    let [(first, plan), others @ ..] = found else { return };
    let open = |imported: &ImportedPlan, key: &str| {
        imported.get(key).is_none_or(|told| matches!(told.origin, Origin::Default { .. } | Origin::Derived(_)))
    };
    // Of a neighbour's command only the launcher and the script are this file's.
    let launched = |key: &str| {
        let part = key.strip_prefix("distribution.").is_some();
        part || ["training.precision", "training.gradient_dtype", "training.cpu_offload", "training.attention"]
            .contains(&key)
    };
    // A tower is counted when all is read.
    let tower = imported.tower.is_some();
    let own = |key: &str| {
        let following = FOLLOWING.contains(&key) || (tower && key == "training.frozen_models_billions");
        !following && (!first.neighbour || launched(key))
    };
    for InferredValue { key, value, origin } in plan.values.iter().filter(|value| own(value.key)) {
        if !open(imported, key) && !is_engines_own(imported, plan, key, value) {
            let told = imported.get(key).filter(|told| told.value != *value);
            if told.is_some() && matches!(origin, Origin::Argument(_)) {
                imported.note(format!("{}: {origin} {value} goes over the file's own {key}", first.place));
            }
            continue;
        }
        if others.iter().all(|(_, other)| other.get(key).is_some_and(|told| told.value == *value)) {
            let same = imported.get(key).is_some_and(|told| told.value == *value);
            let origin = match origin {
                Origin::Default { .. } | Origin::Derived(_) => origin.clone(),
                said => Origin::Program(format!("{}: {said}", first.place)),
            };
            if !same {
                imported.say(key, value.clone(), origin);
            }
        } else if !first.neighbour {
            imported.drop(key);
            imported.miss(key, format!("{} starts the file in several ways", first.place));
        }
    }
    for missing in plan.missing.iter().filter(|_| !first.neighbour) {
        if own(missing.key) && open(imported, missing.key) && imported.get(missing.key).is_some() {
            imported.drop(missing.key);
            imported.miss(missing.key, missing.why.clone());
        }
    }
    let of_options = |line: &&String| {
        let kept = ["not understood:", "not modelled:"].iter().any(|start| line.starts_with(start));
        kept && line.contains(" --")
    };
    for line in plan.notes.iter().filter(of_options) {
        imported.note(line.clone());
    }
}

/// Whether a launcher's engine decides a value that a script's own call tells: DeepSpeed trains weights that were loaded in
/// 16 bits with masters of fp32 (`runtime/engine.py`, `_configure_zero_optimizer`).
fn is_engines_own(imported: &ImportedPlan, plan: &ImportedPlan, key: &str, value: &serde_json::Value) -> bool {
    let engine = plan.get("distribution.engine").is_some_and(|found| found.value == "deepspeed");
    let Some(told) = imported.get(key).filter(|_| engine && key == "training.precision") else { return false };
    let loaded = told.origin.to_string().contains("from_pretrained(");
    let masters = told.value.as_str().map(|half| format!("{half}-fp32-master"));
    loaded && masters.is_some_and(|masters| *value == masters)
}

/// Commands that start the file: in its comments, else in the nearest text that has one. Where no text names the file,
/// one that starts its neighbour in the same folder stands for it.
fn commands(name: &str, content: &str, context: &ImportContext) -> Vec<Documented> {
    let comments: Vec<&str> =
        content.lines().map(|line| line.trim_start().strip_prefix('#').unwrap_or("").trim()).collect();
    let own = of_text(&comments, name, &|word| names(word, name, true).then(|| name.to_owned()), name);
    if !own.is_empty() {
        return own;
    }
    let texts = texts(name, context);
    for direct in [true, false] {
        for (path, text) in &texts {
            let lines: Vec<&str> = text.lines().collect();
            let beside =
                path.rsplit_once('/').map(|(folder, _)| folder) == name.rsplit_once('/').map(|(folder, _)| folder);
            let put = |word: &str| {
                let hit = if direct { names(word, name, beside) } else { neighbours(word, name) };
                hit.then(|| name.to_owned())
            };
            let found = of_text(&lines, path, &put, name);
            if !found.is_empty() {
                return found.into_iter().map(|command| Documented { neighbour: !direct, ..command }).collect();
            }
        }
    }
    Vec::new()
}

/// Texts of the file's folder and those above, the nearest first.
fn texts(name: &str, context: &ImportContext) -> Vec<(String, String)> {
    let mut folders: Vec<&str> =
        std::iter::successors(Some(name), |path| path.rsplit_once('/').map(|(above, _)| above))
            .skip(1)
            .take(MOST_FOLDERS)
            .collect();
    if !name.starts_with('/') {
        folders.push("");
    }
    let paths = folders.iter().flat_map(|folder| {
        TEXTS.iter().map(move |text| if folder.is_empty() { (*text).to_owned() } else { format!("{folder}/{text}") })
    });
    paths
        .filter_map(|path| {
            let text = context.run.files.read(&path).ok().filter(|text| text.len() <= LONGEST)?;
            Some((path, text))
        })
        .collect()
}

/// The commands of a text one of whose words `put` replaces by the file.
fn of_text(lines: &[&str], path: &str, put: &dyn Fn(&str) -> Option<String>, name: &str) -> Vec<Documented> {
    let stem = launch::base(name).split('.').next().unwrap_or("");
    let mut found: Vec<Documented> = Vec::new();
    let mut at = 0;
    while at < lines.len() && found.len() < MOST_COMMANDS {
        let start = at;
        let mut whole = String::new();
        while let Some(line) = lines.get(at) {
            at += 1;
            let line = line.trim().trim_start_matches("$ ").trim_matches('`');
            match line.strip_suffix('\\') {
                Some(part) => whole.push_str(part),
                None => {
                    whole.push_str(line);
                    break;
                }
            }
            whole.push(' ');
        }
        let of_settings = whole.contains(".y") || whole.contains(".json");
        let of_script = name.ends_with(".py") && whole.contains(".py");
        if !whole.contains(' ') || !(of_settings || of_script) || stem.is_empty() {
            continue;
        }
        for command in shell::read(&whole, &|_| None).commands {
            let mut hit = false;
            let words: Vec<String> = command
                .words
                .iter()
                .map(|word| match put(word) {
                    Some(other) => {
                        hit = true;
                        other
                    }
                    None => word.clone(),
                })
                .collect();
            let is_new = found.iter().all(|other| other.words != words);
            if hit && is_new && starts(&words) {
                found.push(Documented { place: format!("{path}:{}", start + 1), words, neighbour: false });
            }
        }
    }
    found
}

/// Whether a command starts a program of Python's or a launcher, or hands on to a script.
fn starts(words: &[String]) -> bool {
    let launched = launch::take_apart(words);
    let program = &launched.program;
    let script = !program.python && program.path.ends_with(".sh");
    let started = !launched.launchers.is_empty() || program.python || script || super::file::trains_by_itself(program);
    started && !program.trains_nothing()
}

/// Parts of a path.
fn parts(path: &str) -> Vec<&str> {
    path.trim_matches(['"', '\'', '`']).split('/').filter(|part| !matches!(*part, "" | ".")).collect()
}

/// Whether a word of a command is the file: its whole path or the end of it, with the folder unless the text stands
/// `beside` it. `config_{a,b}.yaml` is each of both.
fn names(word: &str, name: &str, beside: bool) -> bool {
    let is_file = [".yaml", ".yml", ".json", ".toml"].iter().any(|end| word.ends_with(end));
    let is_script = name.ends_with(".py") && word.ends_with(".py");
    if !is_file && !is_script {
        return false;
    }
    if let Some((before, rest)) = word.split_once('{')
        && let Some((inner, behind)) = rest.split_once('}')
    {
        return inner.contains(',')
            && inner.split(',').any(|choice| names(&format!("{before}{choice}{behind}"), name, beside));
    }
    let (word, name) = (parts(word), parts(name));
    let alike = word.iter().rev().zip(name.iter().rev()).take_while(|(one, other)| one == other).count();
    let least = if beside { 1 } else { 2 };
    alike >= least && (alike == word.len() || alike == name.len())
}

/// Whether a word is another file of the same kind in the same folder, or in the one above.
fn neighbours(word: &str, name: &str) -> bool {
    let (Some((folder, file)), Some((own, other))) = (word.rsplit_once('/'), name.rsplit_once('/')) else {
        return false;
    };
    let kind = |file: &str| file.rsplit_once('.').map(|(_, end)| end.to_owned());
    let (folder, own) = (parts(folder), parts(own));
    let above = own.split_last().map_or(&own[..], |(_, above)| above);
    let within = |own: &[&str]| {
        let alike = folder.iter().rev().zip(own.iter().rev()).take_while(|(one, other)| one == other).count();
        alike >= 2 && alike == folder.len()
    };
    kind(file) == kind(other) && kind(file).is_some() && (within(&own) || within(above))
}

/// Takes a default of the launcher's out, where a comment of the file starts it by accelerate with a file of its own
/// that was not found: `# accelerate launch --config_file fsdp2_config.yaml src/train.py this.yaml`.
fn doubt(imported: &mut ImportedPlan, content: &str) {
    let comments = || content.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let says = |part: &str| comments().any(|line| line.contains(part));
    if !says("accelerate launch") || !says("--config_file") {
        return;
    }
    for key in ["distribution.sharding", "distribution.engine"] {
        // A default of accelerate's own comes from such a file, which was read.
        let guessed =
            |origin: &Origin| matches!(origin, Origin::Default { framework, .. } if *framework != "accelerate");
        if imported.get(key).is_some_and(|found| guessed(&found.origin)) {
            imported.drop(key);
            imported.miss(key, "a comment of the file starts it by accelerate with a file that may say it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{names, neighbours};

    #[test]
    fn a_word_is_the_file_by_the_end_of_its_path() {
        let name = "recipes/zephyr/sft/config_full.yaml";
        for (word, beside, expected) in [
            ("recipes/zephyr/sft/config_full.yaml", false, true),
            ("./recipes/zephyr/sft/config_full.yaml", false, true),
            ("sft/config_full.yaml", false, true),
            ("config_full.yaml", false, false),
            ("config_full.yaml", true, true),
            ("recipes/gemma/sft/config_full.yaml", false, false),
            ("recipes/zephyr/sft/config_{full,qlora}.yaml", false, true),
            ("recipes/{model}/sft/config_full.yaml", false, false),
            ("recipes/zephyr/sft", false, false),
        ] {
            assert_eq!(names(word, name, beside), expected, "{word}");
        }
        assert!(neighbours("recipes/zephyr/sft/other.yaml", name) && neighbours("zephyr/sft/other.yaml", name));
        assert!(!neighbours("recipes/zephyr/dpo/other.yaml", name) && !neighbours("sft/other.json", name));
    }
}
