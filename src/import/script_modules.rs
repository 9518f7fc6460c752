//! Modules of its own project that a script imports its parts from. Read, never run.

use std::collections::BTreeSet;

use super::common::ImportContext;
use super::script_classes;
use super::script_defaults::{LONGEST, is_name};

/// Libraries that no project has modules of.
const OTHERS: [&str; 6] = ["transformers", "torch", "typing", "dataclasses", "datasets", "peft"];

/// The text of a script with those of the modules of its own project that it imports from.
pub fn project_text(context: &ImportContext, path: &str, text: &str) -> String {
    const MOST: usize = 12;
    let read = |file: String| context.run.files.read(&file).ok().filter(|text| text.len() <= LONGEST);
    let files = of(path, text).into_iter().chain(packaged(context, path, text));
    // A module may be found by several of the paths that it is looked for at.
    let mut seen = BTreeSet::new();
    let others = files.filter_map(read).filter(|text| seen.insert(text.clone()));
    let others = others.take(MOST).map(|text| as_imported(&text)).collect::<Vec<_>>();
    std::iter::once(text.to_owned()).chain(others).collect::<Vec<_>>().join("\n")
}

/// The same with what those modules import of the project in turn.
pub fn deep_project_text(context: &ImportContext, path: &str, text: &str) -> String {
    const MOST: usize = 12;
    let mut whole = project_text(context, path, text);
    let near: BTreeSet<String> = of(path, text).into_iter().collect();
    let further = of(path, whole.get(text.len()..).unwrap_or("")).into_iter().filter(|file| !near.contains(file));
    let mut seen = BTreeSet::new();
    let read = |file: String| context.run.files.read(&file).ok().filter(|text| text.len() <= LONGEST);
    for module in further.filter_map(read).filter(|text| seen.insert(text.clone())).take(MOST) {
        let module = as_imported(&module);
        if !whole.contains(module.as_str()) {
            whole.push('\n');
            whole.push_str(&module);
        }
    }
    whole
}

/// What of a module runs when it is imported: without what it does when it is started by itself. Lines keep their places.
pub fn as_imported(text: &str) -> String {
    let mut starts = false;
    let lines = text.lines().map(|line| {
        let margin = !line.is_empty() && !line.starts_with([' ', '\t', '#', ')']);
        starts = if margin { line.starts_with("if __name__") && !line.contains("!=") } else { starts };
        if starts { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A script in which what it takes from libraries under names of its own (`from transformers import HfArgumentParser as
/// HfArgs`) has the library's names, unless something else has that name there. Lines keep their places.
pub fn by_library_names(text: &str) -> String {
    const LIBRARIES: [&str; 7] = ["transformers", "trl", "peft", "accelerate", "unsloth", "lightning", "deepspeed"];
    let mut named = text.to_owned();
    for (at, _) in text.match_indices(" as ") {
        let (before, behind) = text.split_at(at);
        let word = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let original = before.rsplit(word).next().unwrap_or("");
        let own = behind.get(" as ".len()..).unwrap_or("").split(word).next().unwrap_or("");
        let statement = before.rfind("from ").and_then(|from| before.get(from..)).unwrap_or("");
        let library = statement.split(['.', ' ']).nth(1).unwrap_or("");
        let whole = !statement.contains(')') && (statement.contains('(') || !statement.contains('\n'));
        let imports = LIBRARIES.contains(&library) && statement.contains(" import ") && whole;
        if !imports || original.len() <= 3 || own.len() <= 3 || original == own {
            continue;
        }
        if text.match_indices(original).filter(|(at, _)| is_whole_word(text, *at, original)).count() == 1 {
            named = renamed(&named, own, original);
        }
    }
    named
}

fn is_whole_word(text: &str, at: usize, word: &str) -> bool {
    let joins = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let before = text.get(..at).and_then(|before| before.chars().next_back());
    let behind = text.get(at + word.len()..).and_then(|behind| behind.chars().next());
    !joins(before) && !joins(behind)
}

fn renamed(text: &str, own: &str, original: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(own).filter(|(at, _)| is_whole_word(text, *at, own)) {
        written.push_str(text.get(from..at).unwrap_or(""));
        written.push_str(original);
        from = at + own.len();
    }
    written.push_str(text.get(from..).unwrap_or(""));
    written
}

/// The text of a script as [`project_text`] has it, without functions and classes of the modules that nothing calls by name, which
/// an import is not: what other scripts of the project do.
pub fn called_text(context: &ImportContext, path: &str, text: &str) -> String {
    let whole = project_text(context, path, text);
    let modules = whole.get(text.len()..).unwrap_or("");
    let (mut kept, mut functions) = (text.to_owned(), Vec::new());
    let mut using = text.to_owned();
    for block in blocks(modules) {
        match defined(&block) {
            Some(name) => functions.push((name.to_owned(), block)),
            None => {
                using.push_str(&without_imports(&block));
                kept.push_str(&block);
            }
        }
    }
    loop {
        let (called, others): (Vec<_>, Vec<_>) = functions.into_iter().partition(|(name, _)| is_word(&using, name));
        for (_, block) in &called {
            using.push_str(&without_imports(block));
            kept.push_str(block);
        }
        if called.is_empty() {
            return kept;
        }
        functions = others;
    }
}

/// Parts of a module that begin at its left margin.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let starts = ["def ", "async def ", "class ", "@"].iter().any(|start| line.starts_with(start));
        // What decorates belongs to what it decorates.
        let decorated = blocks.last().is_some_and(|block| block.starts_with('@') && defined(block).is_none());
        let ended = || is_statement(line) && blocks.last().is_some_and(|block| is_whole(block));
        if starts && !decorated || ended() {
            blocks.push(String::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
        }
    }
    blocks
}

/// Whether a line at the left margin sets a name or imports something: no function or class goes on there.
fn is_statement(line: &str) -> bool {
    let named = line.split_once(" = ").is_some_and(|(name, _)| is_name(name.split(':').next().unwrap_or(name)));
    named || line.starts_with("import ") || line.starts_with("from ") && line.contains(" import ")
}

/// Whether a block is a function or a class, and no text in it is still open.
fn is_whole(block: &str) -> bool {
    let closed = |quote: &str| block.matches(quote).count().is_multiple_of(2);
    defined(block).is_some() && closed("\"\"\"") && closed("'''")
}

/// The name of the function or the class that a block is, behind what decorates it.
fn defined(block: &str) -> Option<&str> {
    let starts = |line: &&str| ["def ", "async def ", "class "].iter().any(|start| line.starts_with(start));
    let line = block.lines().find(starts)?;
    let rest = line.strip_prefix("async ").unwrap_or(line);
    let rest = rest.strip_prefix("def ").or_else(|| rest.strip_prefix("class "))?;
    rest.split(['(', ':']).next().map(str::trim).filter(|name| is_name(name))
}

/// A text without its statements of import, over several lines too.
fn without_imports(text: &str) -> String {
    let mut within = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let begins = line.trim_start().starts_with("from ") && line.contains(" import ");
        if !within && !begins {
            kept.push_str(line);
        }
        within = (within || begins && line.contains('(')) && !line.contains(')');
    }
    kept
}

/// Whether a name stands in a text by itself, or behind a module's.
fn is_word(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| is_whole_word(text, at, name))
}

/// Files of its own project that a script imports from: `from pkg.arguments import A`, `from pkg import arguments`,
/// `from .arguments import A`.
pub fn of(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    for (module, names) in imports(text) {
        if OTHERS.iter().any(|other| module.starts_with(other)) {
            continue;
        }
        let place = module.trim_start_matches('.').replace('.', "/");
        // `from . import config as C`
        if place.is_empty() {
            let names = names.split(',').filter_map(|name| name.split(" as ").next()).map(str::trim);
            let own = names.filter(|name| is_name(name)).map(|name| format!("{name}.py"));
            files.extend(own.map(|file| if folder.is_empty() { file } else { format!("{folder}/{file}") }));
            continue;
        }
        let near = |file: &str| {
            if module.starts_with('.') && !folder.is_empty() { format!("{folder}/{file}") } else { file.to_owned() }
        };
        // The folder of the script comes first on Python's path.
        if !module.starts_with('.') && !folder.is_empty() {
            files.push(format!("{folder}/{place}.py"));
        }
        files.push(near(&format!("{place}.py")));
        if !module.starts_with('.') {
            files.push(format!("src/{place}.py"));
            // A package that stands with its `setup.py` in a folder of its own name.
            let package = place.split('/').next().unwrap_or("");
            files.push(format!("{package}/{place}.py"));
        }
        // A folder whose modules are taken over whole.
        if !module.contains('.') {
            let names = names.split(',').map(str::trim).filter(|name| is_name(name));
            files.extend(names.map(|name| near(&format!("{place}/{name}.py"))));
        }
    }
    files.dedup();
    files
}

/// Files that a module takes the classes from that its own stand on: `class Tuner(Common)` under `from .common import Common`.
pub fn of_bases(path: &str, text: &str) -> Vec<String> {
    let bases = script_classes::bases(text);
    let wanted = |names: &str| names.split(',').any(|name| bases.contains(name.trim()));
    let lines =
        imports(text).filter(|(_, names)| wanted(names)).map(|(module, _)| format!("from {module} import bases\n"));
    of(path, &lines.collect::<String>())
}

/// Modules of a package in which what a script takes from it is defined: `from pkg.utils import A`, where the `__init__.py` of
/// that package has `from .module import A` or `from pkg.utils.module import A`.
fn packaged(context: &ImportContext, path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    for (module, names) in imports(text).filter(|(module, _)| !OTHERS.iter().any(|other| module.starts_with(other))) {
        let inside = module.trim_start_matches('.').replace('.', "/");
        let beside = if folder.is_empty() { None } else { Some(format!("{folder}/")) };
        let roots = beside.into_iter().chain(if module.starts_with('.') { None } else { Some(String::new()) });
        let found = roots.into_iter().find_map(|root| {
            let init = format!("{root}{inside}/__init__.py");
            Some((context.run.files.read(&init).ok().filter(|_| !inside.is_empty())?, root))
        });
        let Some((inner, root)) = found else { continue };
        let wanted: Vec<&str> = names.split(',').map(str::trim).filter(|name| is_name(name)).collect();
        for (from, names) in imports(&inner) {
            let file = match from.strip_prefix('.') {
                Some(own) => format!("{root}{inside}/{}.py", own.replace('.', "/")),
                None => format!("{root}{}.py", from.replace('.', "/")),
            };
            let all = || names.trim() == "*" && context.run.files.read(&file).is_ok_and(|text| defines(&text, &wanted));
            if names.split(',').any(|name| wanted.contains(&name.trim())) || all() {
                files.push(file);
            }
        }
    }
    files.dedup();
    files
}

/// Whether a module defines a function or a class of one of these names.
fn defines(text: &str, names: &[&str]) -> bool {
    let defined = text.lines().filter_map(|line| line.strip_prefix("def ").or_else(|| line.strip_prefix("class ")));
    defined.filter_map(|rest| rest.split(['(', ':']).next()).any(|name| names.contains(&name.trim()))
}

/// What a text imports from where, those in its functions too; names in brackets may stand over several lines.
fn imports(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut from = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = from;
        from += line.len();
        let (module, names) = line.trim().strip_prefix("from ")?.split_once(" import ")?;
        let Some(first) = names.trim_start().strip_prefix('(') else { return Some((module, names)) };
        let open = start + line.find('(').map_or(0, |at| at + 1);
        let within = text.get(open..).and_then(|rest| rest.split_once(')')).map_or(first, |(within, _)| within);
        Some((module, within))
    })
}

/// Whether a script takes its models from unsloth, installed or as a copy beside it (`from unsloth.unsloth import`); what it
/// takes from other modules of that, as `unsloth.chat_templates`, says nothing of its models.
pub fn takes_unsloth(text: &str) -> bool {
    imports(text).any(|(module, _)| module.trim().rsplit('.').next() == Some("unsloth"))
}

/// Modules that a package hands on: `from pkg.arguments import A` in the `__init__.py` of the package that a script
/// imports `A` from.
pub fn handed_on(context: &ImportContext, path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    for (module, _) in imports(text) {
        let place = module.trim_start_matches('.').replace('.', "/");
        let near = if folder.is_empty() { place.clone() } else { format!("{folder}/{place}") };
        let places = if module.starts_with('.') { vec![near] } else { vec![place, near] };
        let packages = places.into_iter().map(|below| format!("{below}/__init__.py"));
        let found = packages.into_iter().find_map(|path| Some((context.run.files.read(&path).ok()?, path)));
        let Some((inner, package)) = found else { continue };
        for file in of(&package, &inner) {
            // The module that fills the arguments in takes their classes from others.
            let text = context.run.files.read(&file).ok().filter(|text| text.contains("ArgumentParser("));
            files.extend(text.map(|text| of(&file, &text)).unwrap_or_default());
            files.push(file);
        }
    }
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::as_imported;

    #[test]
    fn an_imported_module_does_not_start_itself() {
        let text = "def train(way=None):\n    load(way)\n\nif __name__ == '__main__':\n    # by itself\n\n    train('flash')\n\nlater = 1\n";
        assert_eq!(as_imported(text), "def train(way=None):\n    load(way)\n\n\n\n\n\n\nlater = 1");
    }
}
