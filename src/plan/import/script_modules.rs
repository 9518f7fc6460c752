//! Modules of its own project that a script imports its parts from. Read, never run.

use super::common::ImportContext;
use super::script_defaults::{LONGEST, is_name};

/// The text of a script with those of the modules of its own project that it imports from.
pub fn project_text(context: &ImportContext, path: &str, text: &str) -> String {
    const MOST: usize = 12;
    let read = |file: String| context.run.files.read(&file).ok().filter(|text| text.len() <= LONGEST);
    let others = of(path, text).into_iter().filter_map(read).take(MOST).map(|text| as_imported(&text));
    std::iter::once(text.to_owned()).chain(others).collect::<Vec<_>>().join("\n")
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

/// The text of a script as [`project_text`] has it, without functions of the modules that nothing calls by name: what other scripts of the project do.
pub fn called_text(context: &ImportContext, path: &str, text: &str) -> String {
    let whole = project_text(context, path, text);
    let modules = whole.get(text.len()..).unwrap_or("");
    let (mut kept, mut functions) = (text.to_owned(), Vec::new());
    for block in blocks(modules) {
        match function(&block) {
            Some(name) => functions.push((name.to_owned(), block)),
            None => kept.push_str(&block),
        }
    }
    loop {
        let (called, others): (Vec<_>, Vec<_>) = functions.into_iter().partition(|(name, _)| is_word(&kept, name));
        called.iter().for_each(|(_, block)| kept.push_str(block));
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
        if ["def ", "async def ", "class ", "@"].iter().any(|start| line.starts_with(start)) {
            blocks.push(String::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
        }
    }
    blocks
}

/// The name of the function that a block is.
fn function(block: &str) -> Option<&str> {
    let rest = block.strip_prefix("async ").unwrap_or(block).strip_prefix("def ")?;
    rest.split('(').next().map(str::trim).filter(|name| is_name(name))
}

/// Whether a name stands in a text by itself, or behind a module's.
fn is_word(text: &str, name: &str) -> bool {
    let letter = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (text.get(..at).unwrap_or(""), text.get(at + name.len()..).unwrap_or(""));
        !letter(before.chars().next_back()) && !letter(behind.chars().next())
    })
}

/// Files of its own project that a script imports from: `from pkg.arguments import A`, `from pkg import arguments`,
/// `from .arguments import A`.
pub fn of(path: &str, text: &str) -> Vec<String> {
    const OTHERS: [&str; 6] = ["transformers", "torch", "typing", "dataclasses", "datasets", "peft"];
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    let imports = text.lines().filter_map(|line| line.strip_prefix("from ")?.split_once(" import "));
    for (module, names) in imports {
        if OTHERS.iter().any(|other| module.starts_with(other)) {
            continue;
        }
        let place = module.trim_start_matches('.').replace('.', "/");
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

/// Modules that a package hands on: `from pkg.arguments import A` in the `__init__.py` of the package that a script
/// imports `A` from.
pub fn handed_on(context: &ImportContext, path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut files = Vec::new();
    for module in text.lines().filter_map(|line| Some(line.strip_prefix("from ")?.split_once(" import ")?.0)) {
        let place = module.trim_start_matches('.').replace('.', "/");
        let below = if module.starts_with('.') && !folder.is_empty() { format!("{folder}/{place}") } else { place };
        let package = format!("{below}/__init__.py");
        if let Ok(inner) = context.run.files.read(&package) {
            files.extend(of(&package, &inner));
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
