//! Whether a script trains a model by its own text, and how.

use super::super::common::ImportContext;
use super::super::python_calls::is_script;
use super::super::script_classes;
use super::super::script_defaults::script_of;
use super::super::script_doubts::code;
use super::super::script_modules::{called_text, project_text};
use super::lightning;

/// Whether the script that runs trains a model of transformers by its own text: with a loop of its own, or with a
/// Trainer whose arguments come from the command line.
pub fn trains(context: &ImportContext) -> bool {
    let Some((_, text)) = training_text(context) else { return false };
    // Those that make `TrainingArguments` themselves say more there than on their command lines.
    let parses = || parses(&text) && !is_script(&text);
    is_loop(&text) || (uses_trainer(&text) && parses())
}

/// Whether a script fills `TrainingArguments` from a command line or a file.
pub fn parses(text: &str) -> bool {
    script_classes::PARSERS.iter().any(|parser| text.contains(parser))
}

/// The script that runs; of one that by its name, or its first argument, trains and only starts what stands in modules
/// of its project, with those.
pub fn training_text(context: &ImportContext) -> Option<(String, String)> {
    const TRAINING: [&str; 9] = ["train", "tune", "sft", "dpo", "rlhf", "grpo", "ppo", "distil", "lora"];
    let (path, text) = script_of(context)?;
    // What it fits, and by which optimizer, its modules say.
    if lightning::trains(&text) {
        let whole = project_text(context, &path, &text);
        return Some((path, whole));
    }
    let tells = |word: &str| TRAINING.iter().any(|part| word.to_lowercase().contains(part));
    let first = context.program.words.first().filter(|word| !word.starts_with('-'));
    let named = tells(context.program.name()) || first.is_some_and(|word| tells(word));
    let trains = |text: &str| {
        code(text).any(|line| line.contains(".backward(")) || (uses_trainer(text) && text.contains("from transformers"))
    };
    // A Trainer of the project's own, which its modules define, is a loop.
    if uses_trainer(&text) && !parses(&text) && !text.contains("TrainingArguments") {
        let whole = project_text(context, &path, &text);
        if loops(&whole) {
            return Some((path, whole));
        }
    }
    // Its modules may hold what it loads.
    if named && loops(&text) && !is_loop(&text) {
        let whole = project_text(context, &path, &text);
        return Some((path, if is_loop(&whole) && whole.contains("AutoModel") { whole } else { text }));
    }
    if !named || trains(&text) {
        return Some((path, text));
    }
    // A module may lend it functions and train by others, which it never calls.
    let called = called_text(context, &path, &text);
    Some((path, if trains(&called) { called } else { text }))
}

/// Whether a script leaves its training to modules that are not read: neither a Trainer nor a loop is in what is.
pub fn hides(context: &ImportContext) -> bool {
    const KNOWN: [&str; 8] =
        ["TrainingArguments", "Trainer(", "Trainer.", "Parser(", ".backward(", "Config(", "fire.Fire(", "Accelerator("];
    script_of(context).is_some_and(|(path, text)| {
        let whole = project_text(context, &path, &text);
        !KNOWN.iter().any(|part| whole.contains(part))
    })
}

/// Whether a script has a loop of its own.
pub fn is_loop(text: &str) -> bool {
    // The names that the library had before its second version.
    const LIBRARIES: [&str; 3] = ["transformers", "pytorch_transformers", "pytorch_pretrained_bert"];
    LIBRARIES.iter().any(|library| imports(text, library)) && loops(text)
}

/// Whether a script imports a package or a part of it: `from lightning.pytorch import Trainer`, `import time, torch, transformers`.
pub fn imports(text: &str, package: &str) -> bool {
    let is_of = |name: &str| {
        let rest = name.trim_start().strip_prefix(package);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', ',', '\t']))
    };
    text.lines().map(str::trim_start).any(|line| match (line.strip_prefix("from "), line.strip_prefix("import ")) {
        (Some(rest), _) => is_of(rest),
        (_, Some(rest)) => rest.split(',').any(|name| is_of(name.trim_end())),
        _ => false,
    })
}

/// Whether a script does something where it is started: a module only declares what others call.
pub fn starts(text: &str) -> bool {
    const RUNS: [&str; 4] = ["if __name__", "for ", "while ", "with "];
    text.lines().any(|line| {
        let name = line.split('(').next().unwrap_or("");
        let calls = line.contains('(') && name.chars().all(|letter| letter.is_alphanumeric() || "_.".contains(letter));
        RUNS.iter().any(|start| line.starts_with(start)) || (calls && !name.is_empty())
    })
}

/// Whether a script that is known to train has a loop of its own, on models of whatever library.
pub fn loops(text: &str) -> bool {
    lightning::trains(text) || !uses_trainer(text) && code(text).any(|line| line.contains(".backward("))
}

/// Whether a script trains by the Trainer of a library, which it has read the length of its samples for.
pub fn trains_by_library(text: &str) -> bool {
    uses_trainer(text) && text.contains("TrainingArguments")
}

/// Whether a script's only backward pass stands in one place.
pub fn has_one_backward(text: &str) -> bool {
    lightning::trains(text) || code(text).filter(|line| line.contains("backward(")).count() == 1
}

/// Whether a script makes a Trainer of a library.
pub fn uses_trainer(text: &str) -> bool {
    if lightning::trains(text) && !text.contains("TrainingArguments") {
        return false;
    }
    let own: Vec<&str> = text.lines().filter_map(|line| own_trainer(line, text)).collect();
    code(text).any(|line| {
        line.match_indices("Trainer(").any(|(at, end)| {
            let before = line.get(..at + end.len() - 1).unwrap_or("");
            let class = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
            !class.is_some_and(|class| own.contains(&class))
        })
    })
}

/// The name of a class that a line begins, if it is called a trainer and is none of a library's: it stands on no class
/// of that kind, or on one that the project has itself.
fn own_trainer<'t>(line: &'t str, text: &str) -> Option<&'t str> {
    let rest = line.strip_prefix("class ")?;
    let (name, bases) = rest.split_once([':', '(']).unwrap_or((rest, ""));
    let own = |base: &str| !base.contains("Trainer") || is_of_project(base, text);
    let all = bases.split([')', ':']).next().unwrap_or("").split(',').all(|base| own(base.trim()));
    (name.ends_with("Trainer") && all).then_some(name.trim())
}

/// Whether a class stands in the text, or a module takes it from beside it: `from .base import Trainer`.
fn is_of_project(class: &str, text: &str) -> bool {
    let defines = |line: &str| {
        line.strip_prefix("class ")
            .and_then(|rest| rest.strip_prefix(class))
            .is_some_and(|rest| rest.starts_with([':', '(']))
    };
    if text.lines().any(defines) {
        return true;
    }
    text.lines().filter_map(|line| line.strip_prefix("from .")?.split_once(" import ")).any(|(_, names)| {
        names.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|name| name == class)
    })
}
