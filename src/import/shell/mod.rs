//! A shell script read, never run: its assignments, arrays and arithmetic, and from them the
//! training command that it would start.

mod and_or;
mod case;
mod child;
mod comparison;
mod condition;
mod conjunction;
mod doubts;
mod edited;
mod expansion;
mod fork;
mod joined;
mod loops;
mod output;
mod pattern;
mod pipes;
mod skipped;
mod statements;
mod substitution;
mod words;
mod written;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::settings::UNKNOWN;
use child::positional;
pub use child::started as started_script;
use comparison::{holds, holds_marked};
use doubts::Doubts;
use expansion::closing;
pub use words::quoted;
use words::stands_alone;

/// More words than this make no command.
const MAX_WORDS: usize = 100_000;

/// No text that matters is longer.
const MAX_TEXT: usize = 4_000_000;

/// A script as far as it can be followed without running it.
#[derive(Debug, Default, Clone)]
pub struct Script {
    variables: BTreeMap<String, Vec<String>>,
    /// Functions by name.
    functions: BTreeMap<String, String>,
    /// Every simple command, its words expanded.
    pub commands: Vec<ShellCommand>,
    /// Files that it writes itself, by their paths.
    pub files: BTreeMap<String, String>,
    /// Files that it writes or changes in a way that is not followed.
    pub changed: BTreeSet<String>,
    /// Variables that its commands find in their environment.
    pub exported: BTreeMap<String, String>,
    /// Scripts that it reads and that could not be read here.
    pub unread: Vec<String>,
    /// Variables that hold an argument that nobody gave, with its number.
    arguments: BTreeMap<String, String>,
    /// What the command before a pipe hands on, where that is known.
    piped: Option<String>,
    /// Where it has gone, from where it began.
    folder: String,
    /// Variables that hold options, and that branches which are not taken set; whether no run takes one of these.
    skipped: BTreeMap<String, bool>,
    /// Variables that have another value where their surroundings set others, which nobody sets here.
    pub doubts: Doubts,
    /// Variables that nobody sets and that decide whether the present statement is read.
    asking: BTreeSet<String>,
    /// It has run commands that may set variables of any name.
    may_set_any: bool,
    /// Variables that nobody has set, of the present command.
    unset: RefCell<Vec<String>>,
    /// Those that stood among the words of a variable and were left out there.
    left_out: Vec<String>,
    /// Bytes that words were put together of.
    spent: Cell<usize>,
    /// How deep expansions stand in each other now.
    depth: Cell<usize>,
    /// Functions whose output was asked for.
    calls: Cell<usize>,
    /// Statements that were followed.
    turns: usize,
    /// The loop that begins here starts no command: each of its turns is followed.
    counts: bool,
    /// Words of all commands.
    count: usize,
}

/// A simple command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// Its words.
    pub words: Vec<String>,
    /// Variables that stand in it as words of their own and that nobody has set: nothing stands for them.
    pub unset: Vec<String>,
    /// Variables in it whose value another variable decides, which nobody sets: taken as not set. Both names.
    pub doubts: Vec<(String, String)>,
    /// One of those stands in front, where a launcher may be.
    pub begins_unset: bool,
    /// Where the script has gone before.
    pub folder: String,
}

/// A script whose variables double each other is left where so much has been put together.
const MAX_SPENT: usize = 4 * MAX_TEXT;

/// No script that matters takes more statements.
const MAX_TURNS: usize = 20_000;

/// Functions, sourced scripts and texts that are evaluated, in each other.
const DEEPEST: usize = 8;

/// Stands for a variable that nobody has set.
const UNSET: char = '\0';

/// What a script finds around it.
pub struct Surroundings<'a> {
    /// A variable from outside.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// A script that it sources.
    pub file: &'a dyn Fn(&str) -> Option<String>,
    /// How many of its arguments `shift` has taken; none where they are not known.
    pub shifted: Option<&'a Cell<usize>>,
}

/// Reads a script, or a command line as one types it. `known` are variables from outside.
///
/// What only a run could tell is unknown: arguments of the script, substituted commands, and what the branches of a
/// condition on such or on files leave differently. All branches of those are read.
pub fn read(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Script {
    read_around(text, &Surroundings { variable: known, file: &|_| None, shifted: None })
}

/// As [`read`], with the scripts that it sources.
pub fn read_around(text: &str, around: &Surroundings) -> Script {
    let mut script = Script::default();
    if text.len() <= MAX_TEXT {
        script.run(&text.replace(UNSET, ""), around, 0);
    }
    script
}

impl Script {
    /// The words of a variable that holds Megatron's options for a model: a part of a command that another script starts
    /// (Megatron-LM, `examples/post_training/modelopt/conf/*.sh`, `MODEL_ARGS`).
    pub fn options_of_a_model(&self) -> Option<Vec<String>> {
        const SHAPE: [&str; 2] = ["--hidden-size", "--num-attention-heads"];
        const LAYERS: [&str; 3] = ["--num-layers", "--hybrid-layer-pattern", "--hybrid-override-pattern"];
        self.variables.values().find_map(|value| {
            let words: Vec<String> = value.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned).collect();
            let has = |option: &&str| words.iter().any(|word| word == option);
            (SHAPE.iter().all(has) && LAYERS.iter().any(has)).then_some(words)
        })
    }

    /// Whether a condition holds, its parts joined by `&&` and `||` one after the other; none where only a run could tell.
    fn holds(&self, condition: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<bool> {
        let condition = &conjunction::set_asked_for(condition);
        let one = |part: &str| match part.trim().strip_prefix("((").and_then(|part| part.strip_suffix("))")) {
            Some(comparison) => self.compares(comparison, known),
            None if part.trim_start().trim_start_matches("! ").starts_with("[[") => {
                holds_marked(&self.marked_words(part, known))
            }
            None => holds(&self.raw_words(part, known)),
        };
        conjunction::joined(condition, &one)
    }

    fn statement(&mut self, statement: &str, around: &Surroundings, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        if let Some((name, body)) = function(statement) {
            self.functions.insert(name.to_owned(), body.to_owned());
            return;
        }
        if let Some(text) = statement.strip_prefix(": ").filter(|text| text.contains("${")) {
            return self.fill_in(text, around.variable);
        }
        let group = |open, close| statement.starts_with(open).then(|| closing(statement, open, close));
        if let Some(end) = group('{', '}').filter(|_| statement.starts_with("{ ") || statement.starts_with("{\n")) {
            return self.run(statement.get(1..end.saturating_sub(1)).unwrap_or(""), around, depth + 1);
        }
        if let Some(end) = group('(', ')').filter(|_| !statement.starts_with("((")) {
            let before = (self.variables.clone(), self.folder.clone());
            self.run(statement.get(1..end.saturating_sub(1)).unwrap_or(""), around, depth + 1);
            (self.variables, self.folder) = before;
            return;
        }
        let known = around.variable;
        let rest = declared(statement);
        if let Some((name, added, value)) = assignment(rest)
            && let Some(list) = value.strip_prefix('(').and_then(|value| value.trim_end().strip_suffix(')'))
        {
            let words = self.words(list, known);
            self.take_doubts(rest, name, added);
            self.assign(name, added, words);
            return;
        }
        self.keep_argument(rest, known);
        self.unset.take();
        let begins_unset = self.raw_words(rest, known).first().is_some_and(|word| word.contains(UNSET));
        self.unset.take();
        let mut words = self.words(rest, known);
        let all = self.unset.take();
        let unset: Vec<String> = all.iter().filter(|name| crate::unset::matters(rest, name)).cloned().collect();
        let leading = words.iter().take_while(|word| assignment(word).is_some()).count();
        let command = words.split_off(leading);
        self.set_unseen(statement, &command);
        if statement.starts_with("export ") {
            self.export(&command);
        }
        if command.is_empty() || statement.len() != rest.len() {
            self.left_out.extend(all.into_iter().filter(|name| stands_alone(rest, name)));
            for word in &words {
                if let Some((name, added, value)) = assignment(word) {
                    self.take_doubts(rest, name, added);
                    self.assign(name, added, vec![value.to_owned()]);
                    if statement.starts_with("export ") && value != UNKNOWN && !value.is_empty() {
                        self.exported.insert(name.to_owned(), value.to_owned());
                    }
                }
            }
        }
        if !self.start(&words, &command, around, depth) && !self.follow(&command, around, depth) {
            self.note_command(words, command, (unset, begins_unset), rest);
        }
    }

    /// Hands on variables that are set before: `export NNODES NPROC_PER_NODE`.
    fn export(&mut self, names: &[String]) {
        for name in names {
            let told = self.variables.get(name).and_then(|words| <&[String; 1]>::try_from(words.as_slice()).ok());
            if let Some([value]) = told.filter(|[value]| !value.is_empty() && !value.contains([UNSET]))
                && !value.contains(UNKNOWN)
            {
                self.exported.insert(name.clone(), value.clone());
            }
        }
    }

    /// Keeps a command, with the variables in front of it, which are its alone, and with what is not known of its words.
    fn note_command(&mut self, leading: Vec<String>, command: Vec<String>, unset: (Vec<String>, bool), text: &str) {
        let (mut unset, begins_unset) = unset;
        let command = self.handed_on(command);
        let words: Vec<String> = leading.into_iter().chain(command).collect();
        self.count += words.len();
        unset.extend(self.left_out.iter().cloned());
        let folder = self.folder.clone();
        let doubts = self.doubts_of(text, &unset);
        self.commands.push(ShellCommand { words, unset, doubts, begins_unset, folder });
    }

    /// Follows a command that is a function, `source` or `eval`, or nothing; whether it was one.
    fn follow(&mut self, command: &[String], around: &Surroundings, depth: usize) -> bool {
        let Some((first, arguments)) = command.split_first() else { return true };
        match first.as_str() {
            "source" | "." => {
                let Some(path) = arguments.first() else { return true };
                let own = self.files.get(path).cloned();
                match own.or_else(|| (around.file)(path)) {
                    Some(text) if text.len() <= MAX_TEXT => {
                        // Words behind the path are its arguments; without any it has those of the script.
                        let words = arguments.get(1..).filter(|words| !words.is_empty());
                        let known = |name: &str| match words {
                            _ if name == "BASH_SOURCE" => Some(path.clone()),
                            Some(words) => positional(name, words).or_else(|| (around.variable)(name)),
                            None => (around.variable)(name),
                        };
                        let shifted = around.shifted.filter(|_| words.is_none());
                        let inner = Surroundings { variable: &known, file: around.file, shifted };
                        self.run(&text.replace(UNSET, ""), &inner, depth + 1);
                    }
                    _ => self.unread.push(path.clone()),
                }
                true
            }
            "cd" | "pushd" => {
                if let Some(path) = arguments.iter().find(|word| !word.starts_with('-') && !word.contains(UNKNOWN)) {
                    let from = if path.starts_with('/') || self.folder.is_empty() { "" } else { &self.folder };
                    let slash = if from.is_empty() { "" } else { "/" };
                    self.folder = format!("{from}{slash}{path}");
                }
                true
            }
            "shift" => {
                let left = (around.variable)("#").and_then(|count| count.parse::<usize>().ok());
                let taken = arguments.first().map_or(Some(1), |count| count.parse().ok());
                if let (Some(shifted), Some(taken), Some(left)) = (around.shifted, taken, left) {
                    // Of fewer it takes none.
                    shifted.set(shifted.get() + if taken <= left { taken } else { 0 });
                }
                true
            }
            "printf" if arguments.first().is_some_and(|word| word == "-v") => {
                self.print_into(arguments.get(1..).unwrap_or_default());
                true
            }
            "tmux" => {
                // `tmux new-session -d -s NAME "COMMANDS"`, `tmux send-keys -t NAME "COMMAND" C-m`.
                for text in arguments.iter().skip(1).filter(|word| word.trim().contains(' ')) {
                    self.run(text, around, depth + 1);
                }
                true
            }
            "eval" if !arguments.is_empty() => {
                self.run(&arguments.join(" "), around, depth + 1);
                true
            }
            name => {
                let Some(body) = self.functions.get(name).cloned() else { return false };
                let shifted = Cell::new(0);
                let known = |name: &str| {
                    let left = arguments.get(shifted.get()..).unwrap_or_default();
                    positional(name, left).or_else(|| (around.variable)(name))
                };
                let inner = Surroundings { variable: &known, file: around.file, shifted: Some(&shifted) };
                self.run(&body, &inner, depth + 1);
                true
            }
        }
    }

    fn assign(&mut self, name: &str, added: bool, mut value: Vec<String>) {
        if !added {
            self.variables.insert(name.to_owned(), value);
            return;
        }
        let old = self.variables.entry(name.to_owned()).or_default();
        if old.len() + value.len() < MAX_WORDS {
            old.append(&mut value);
        }
    }

    /// The value of a variable; unknown is none.
    fn variable(&self, name: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        match self.variables.get(name) {
            Some(words) => Some(words.join(" ")),
            None if name == "BASH_SOURCE" => known(name).or_else(|| known("0")),
            None => known(name),
        }
    }
}

/// `name() { … }`, `function name { … }`: the name, and what stands in the braces.
fn function(text: &str) -> Option<(&str, &str)> {
    let (told, rest) = text.strip_prefix("function ").map_or((false, text), |rest| (true, rest.trim_start()));
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '_' | '-' | '.' | ':'))?;
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let (called, rest) = match rest.strip_prefix('(') {
        Some(rest) => (true, rest.trim_start().strip_prefix(')')?.trim_start()),
        None => (false, rest),
    };
    let good = !name.is_empty() && (told || called) && rest.starts_with('{');
    let end = closing(rest, '{', '}');
    good.then(|| (name, rest.get(1..end.saturating_sub(1)).unwrap_or("")))
}

/// A statement without the word that declares a variable, and its options.
fn declared(statement: &str) -> &str {
    ["export ", "declare ", "local ", "readonly ", "typeset "]
        .iter()
        .find_map(|word| statement.strip_prefix(word))
        .unwrap_or(statement)
        .trim_start()
        .trim_start_matches("-A ")
        .trim_start_matches("-a ")
        .trim_start_matches("-x ")
}

/// `name=value`, `name+=value`.
fn assignment(word: &str) -> Option<(&str, bool, &str)> {
    let (name, value) = word.split_once('=')?;
    let (name, added) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    let good = !name.is_empty()
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    good.then_some((name, added, value))
}

#[cfg(test)]
mod tests;
