//! The text of a module of recipes: its functions, its constants, and where the functions that it imports lie.

use std::collections::BTreeMap;

use crate::common::ImportContext;
use crate::script_files::near;
use crate::text::arguments;

/// Modules that hand a name on.
const DEEPEST: usize = 4;

/// A module.
pub struct RecipeModule<'a> {
    context: &'a ImportContext<'a>,
    /// How origins call it.
    pub shown: String,
    /// Its text, behind a line's end.
    text: String,
}

/// A function of a module.
pub struct RecipeFunction {
    /// Its parameters, with their defaults as written.
    pub parameters: Vec<(String, Option<String>)>,
    /// Its statements.
    pub statements: Vec<RecipeStatement>,
}

/// A statement without its comments.
pub struct RecipeStatement {
    /// Its line, from 1.
    pub line: usize,
    /// How far it is indented.
    pub indent: usize,
    /// Its text, in one line.
    pub text: String,
}

impl<'a> RecipeModule<'a> {
    /// A module of that text.
    pub fn new(context: &'a ImportContext<'a>, shown: String, text: &str) -> Self {
        Self { context, shown, text: format!("\n{text}") }
    }

    /// The module of a path in the project, as it is found at or above the present one.
    pub fn find(context: &'a ImportContext<'a>, from: &str, path: &str) -> Option<Self> {
        let (text, there) = near(context.run.files, from, path).ok()?;
        Some(Self::new(context, there, &text))
    }

    /// The recipes that it makes: its functions without a line in front that give a `ConfigContainer`.
    pub fn recipes(&self) -> Vec<String> {
        let named = self.text.split("\ndef ").skip(1).filter_map(|part| {
            let (head, _) = part.split_once(":\n")?;
            let name = head.split('(').next()?;
            (head.contains("-> ConfigContainer") && !name.starts_with('_')).then(|| name.to_owned())
        });
        named.collect()
    }

    /// Where a function is defined: this module, or another that it imports it from, and its name there.
    pub fn defining(&self, function: &str) -> Option<(Option<Self>, String)> {
        self.followed(function, DEEPEST)
    }

    fn followed(&self, function: &str, deepest: usize) -> Option<(Option<Self>, String)> {
        if self.text.contains(&format!("\ndef {function}(")) {
            return Some((None, function.to_owned()));
        }
        let deepest = deepest.checked_sub(1)?;
        let (module, name) = self.imported(function)?;
        let home = self.module(&module)?;
        let (inner, name) = home.followed(&name, deepest)?;
        Some((Some(inner.unwrap_or(home)), name))
    }

    /// The module that a name is imported from, and its name there.
    fn imported(&self, function: &str) -> Option<(String, String)> {
        for part in self.text.split("\nfrom ").skip(1) {
            let Some((module, rest)) = part.split_once(" import ") else { continue };
            if module.contains(['\n', ' ']) {
                continue;
            }
            let names = match rest.trim_start().strip_prefix('(') {
                Some(inner) => arguments(inner),
                None => rest.lines().next().unwrap_or("").split(',').map(str::to_owned).collect(),
            };
            for name in names {
                let (theirs, ours) = name
                    .split_once(" as ")
                    .map_or((name.trim(), name.trim()), |(one, other)| (one.trim(), other.trim()));
                if ours == function {
                    return Some((module.to_owned(), theirs.to_owned()));
                }
            }
        }
        None
    }

    /// Another module by its dotted name.
    fn module(&self, name: &str) -> Option<Self> {
        let dots = name.chars().take_while(|letter| *letter == '.').count();
        let path = name.trim_start_matches('.').replace('.', "/");
        let ends = |path: &str| [format!("{path}.py"), format!("{path}/__init__.py")];
        if dots > 0 {
            let mut folder = self.shown.as_str();
            for _ in 0..dots {
                folder = folder.rsplit_once('/')?.0;
            }
            return ends(&format!("{folder}/{path}")).iter().find_map(|path| {
                let text = self.context.run.files.read(path).ok()?;
                Some(Self::new(self.context, path.clone(), &text))
            });
        }
        let own = path.starts_with("megatron/bridge/").then_some(path)?;
        ends(&own).iter().find_map(|path| Self::find(self.context, &self.shown, path))
    }

    /// The modules that it hands all names of on.
    pub fn handed_on(&self) -> Vec<Self> {
        let names = self.text.lines().filter_map(|line| line.strip_prefix("from ")?.strip_suffix(" import *"));
        names.filter_map(|name| self.module(name)).collect()
    }

    /// Its constants, as written.
    pub fn constants(&self) -> BTreeMap<String, String> {
        let lines =
            self.text.lines().filter(|line| line.starts_with(|letter: char| letter.is_alphabetic() || letter == '_'));
        let pairs = lines.filter_map(|line| line.split_once(" = "));
        let plain = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        pairs
            .map(|(name, value)| (name.split(':').next().unwrap_or(name).trim(), bare(value).trim().to_owned()))
            .filter(|(name, _)| plain(name))
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// A function of its own.
    pub fn function(&self, name: &str) -> Option<RecipeFunction> {
        let at = self.text.find(&format!("\ndef {name}("))? + 1;
        let first = self.text.get(..at)?.lines().count();
        let rest = self.text.get(at..)?;
        let inner = rest.split_once('(')?.1;
        let parameters = arguments(inner).iter().map(|part| parameter(part)).collect();
        let body = rest.lines().enumerate().skip(1);
        let signature =
            |line: &str| line.trim_end().ends_with(':') && (line.starts_with(')') || line.starts_with("def "));
        let head = rest.lines().position(signature)?;
        let within = body
            .skip(head)
            .take_while(|(_, line)| line.trim().is_empty() || line.starts_with([' ', '\t', '#']))
            .map(|(number, line)| (first + number, line));
        Some(RecipeFunction { parameters, statements: statements(within) })
    }
}

/// `peft_scheme: str | PEFT = "lora"`
fn parameter(part: &str) -> (String, Option<String>) {
    let (declared, usual) = part.split_once('=').map_or((part, None), |(name, usual)| (name, Some(usual)));
    let name = declared.split(':').next().unwrap_or(declared).trim();
    (name.to_owned(), usual.map(|usual| bare(usual).trim().to_owned()))
}

/// A line without its comment.
fn bare(line: &str) -> &str {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') => return line.get(..at).unwrap_or(line),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    line
}

/// How many brackets a line opens, less those that it closes.
fn opened(line: &str) -> i64 {
    let mut quote = None;
    let mut depth = 0;
    for letter in line.chars() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    depth
}

/// Lines as statements: what brackets hold together is one; texts that stand alone are left out.
fn statements<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<RecipeStatement> {
    const QUOTES: &str = "\"\"\"";
    let mut found = Vec::new();
    let mut open: Option<(RecipeStatement, i64)> = None;
    let mut told = false;
    for (number, line) in lines {
        let quotes = line.matches(QUOTES).count();
        if told || (open.is_none() && line.trim_start().starts_with(QUOTES)) {
            told ^= quotes % 2 == 1;
            continue;
        }
        let text = bare(line).trim_end();
        if text.trim().is_empty() {
            continue;
        }
        let (mut statement, depth) = open.take().unwrap_or_else(|| {
            let indent = text.len() - text.trim_start().len();
            (RecipeStatement { line: number, indent, text: String::new() }, 0)
        });
        statement.text.push_str(text.trim());
        let depth = depth + opened(text);
        if depth > 0 {
            statement.text.push(' ');
            open = Some((statement, depth));
        } else {
            found.push(statement);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::statements;

    #[test]
    fn brackets_hold_lines_together() {
        let text = "    \"\"\"Told.\n    More = 1\n    \"\"\"\n    cfg.a = f(  # why\n        b=\"#\",\n    )\n    if x:\n        cfg.c = 1\n";
        let found = statements(text.lines().enumerate());
        let shown: Vec<(usize, &str)> = found.iter().map(|one| (one.indent, one.text.as_str())).collect();
        assert_eq!(shown, [(4, "cfg.a = f( b=\"#\", )"), (4, "if x:"), (8, "cfg.c = 1")]);
    }
}
