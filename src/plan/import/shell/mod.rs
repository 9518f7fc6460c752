//! A shell script read, never run: its assignments, arrays and arithmetic, and from them the
//! training command that it would start.

mod condition;
mod expansion;
mod statements;
mod written;

use std::cell::Cell;
use std::collections::BTreeMap;

use super::settings::UNKNOWN;
use condition::{Branches, holds};
use statements::statements;

/// More words than this make no command.
const MAX_WORDS: usize = 100_000;

/// No text that matters is longer.
const MAX_TEXT: usize = 4_000_000;

/// A script as far as it can be followed without running it.
#[derive(Debug, Default)]
pub struct Script {
    variables: BTreeMap<String, Vec<String>>,
    /// Every simple command, its words expanded.
    pub commands: Vec<Vec<String>>,
    /// Files that it writes itself, by their paths.
    pub files: BTreeMap<String, String>,
    /// Bytes that words were put together of.
    spent: Cell<usize>,
}

/// A script whose variables double each other is left where so much has been put together.
const MAX_SPENT: usize = 4 * MAX_TEXT;

/// Stands for a variable that nobody has set.
const UNSET: char = '\0';

/// Reads a script, or a command line as one types it. `known` are variables from outside.
///
/// What only a run could tell is unknown: arguments of the script, substituted commands, and what the branches of a
/// condition on such or on files leave differently. All branches of those are read.
pub fn read(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Script {
    let mut script = Script::default();
    if text.len() > MAX_TEXT {
        return script;
    }
    let text = text.replace(UNSET, "");
    let mut branches = Branches::default();
    for statement in statements(&text) {
        if script.commands.iter().map(Vec::len).sum::<usize>() > MAX_WORDS || script.spent.get() > MAX_SPENT {
            break;
        }
        if let Some(followed) = branches.taken(&statement.text, &mut script, known) {
            let before = script.commands.len();
            script.statement(&followed, known);
            script.written(before, &statement, known);
        }
    }
    script
}

impl Script {
    /// Whether a condition holds; none where only a run could tell.
    fn holds(&self, condition: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<bool> {
        holds(&self.raw_words(condition, known))
    }

    /// `NAME in WORDS`: the word where there is one, else nobody knows which.
    fn loop_over(&mut self, header: &str, known: &dyn Fn(&str) -> Option<String>) {
        let Some((name, list)) = header.split_once(" in ") else { return };
        let words = self.words(list, known);
        let value = match words.as_slice() {
            [one] if !one.contains(['{', '*']) => one.clone(),
            _ => UNKNOWN.to_owned(),
        };
        self.variables.insert(name.trim().to_owned(), vec![value]);
    }

    fn statement(&mut self, statement: &str, known: &dyn Fn(&str) -> Option<String>) {
        let rest = ["export ", "declare ", "local ", "readonly "]
            .iter()
            .find_map(|word| statement.strip_prefix(word))
            .unwrap_or(statement)
            .trim_start();
        if let Some((name, added, value)) = assignment(rest)
            && let Some(list) = value.strip_prefix('(').and_then(|value| value.trim_end().strip_suffix(')'))
        {
            let words = self.words(list, known);
            self.assign(name, added, words);
            return;
        }
        let mut words = self.words(rest, known);
        let leading = words.iter().take_while(|word| assignment(word).is_some()).count();
        let command = words.split_off(leading);
        if command.is_empty() || statement.len() != rest.len() {
            for word in &words {
                if let Some((name, added, value)) = assignment(word) {
                    self.assign(name, added, vec![value.to_owned()]);
                }
            }
        }
        if !command.is_empty() {
            // Variables in front of a command are the command's alone, and it is looked at with them.
            self.commands.push(words.into_iter().chain(command).collect());
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
            None => known(name),
        }
    }

    /// Splits into words as a shell does, quotes undone and variables put in. A variable that nobody has set is
    /// nothing by itself, and unknown as the value of an option or in a word with more.
    fn words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in self.raw_words(text, known) {
            if !word.contains(UNSET) {
                words.push(word);
                continue;
            }
            let alone = word.chars().all(|letter| letter == UNSET);
            let option = words.last().is_some_and(|last| last.starts_with("--") && !last.contains('='));
            if !alone || option {
                words.push(word.replace(UNSET, UNKNOWN));
            }
        }
        words
    }

    /// As [`Self::words`], with what nobody has set marked.
    fn raw_words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut rest = text;
        let mut quote = None;
        while let Some(letter) = rest.chars().next() {
            let after = &rest[letter.len_utf8()..];
            match (quote, letter) {
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    splitter.quoted = true;
                }
                (Some(open), _) if open == letter => quote = None,
                (None | Some('"'), '$' | '`') => {
                    let (expanded, used) = self.expanded(rest, known);
                    splitter.put(&expanded, quote.is_none());
                    rest = rest.get(used.max(1)..).unwrap_or("");
                    continue;
                }
                (None, '#') if splitter.at_start() => {
                    let end = rest.find('\n').unwrap_or(rest.len());
                    rest = &rest[end..];
                    continue;
                }
                (None | Some('"'), '\\') => {
                    if let Some(escaped) = after.chars().next() {
                        splitter.letter(escaped);
                        rest = &after[escaped.len_utf8()..];
                        continue;
                    }
                }
                (None, _) if letter.is_whitespace() => splitter.end(),
                _ => splitter.letter(letter),
            }
            if splitter.words.len() > MAX_WORDS || splitter.bytes > MAX_TEXT {
                break;
            }
            rest = after;
        }
        splitter.end();
        self.spent.set(self.spent.get() + splitter.bytes);
        splitter.words
    }
}

/// Words as they come together.
#[derive(Debug, Default)]
struct Splitter {
    words: Vec<String>,
    word: String,
    quoted: bool,
    bytes: usize,
}

impl Splitter {
    fn at_start(&self) -> bool {
        self.word.is_empty() && !self.quoted
    }

    fn letter(&mut self, letter: char) {
        self.bytes += letter.len_utf8();
        self.word.push(letter);
    }

    /// Puts a variable's text in; without quotes it is split at blanks.
    fn put(&mut self, text: &str, split: bool) {
        for letter in text.chars() {
            if self.bytes > MAX_TEXT {
                return;
            }
            if split && letter.is_whitespace() { self.end() } else { self.letter(letter) }
        }
    }

    fn end(&mut self) {
        if !self.at_start() {
            self.words.push(std::mem::take(&mut self.word));
        }
        self.quoted = false;
    }
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
mod tests {
    use super::*;

    fn last(text: &str) -> Vec<String> {
        read(text, &|name| (name == "HOME").then(|| "/root".to_owned())).commands.pop().unwrap_or_default()
    }

    #[test]
    fn variables_arrays_arithmetic_and_defaults_are_put_in() {
        let script = "\
GPUS=8   # a node
NODES=${SLURM_NNODES:-\"2\"}
export WORLD=$(($GPUS*$NODES))
ARGS=(
    --layers 96 # deep
    --name 'a b'
    # --left-out
)
ARGS+=(--more \"$HOME/x\")
if [ -n \"$A\" ]; then
  ARGS+=(--taken)
else
  ARGS+=(--not-taken)
fi
torchrun --nproc $GPUS --world ${WORLD} train.py \\
   ${ARGS[@]} > log 2>&1 &
";
        assert_eq!(
            last(script),
            [
                "torchrun",
                "--nproc",
                "8",
                "--world",
                "16",
                "train.py",
                "--layers",
                "96",
                "--name",
                "a",
                "b",
                "--more",
                "/root/x",
                "--not-taken",
                ">",
                "log",
                "2>&1"
            ]
        );
        // A comment ends with its line, whatever stands at its end; branches that do not hold are passed over.
        let script = "ARGS=(\n  # --left-out 1 \\\n  --kept 2 \\\n)\nif [ \"$MODE\" == \"b\" ]; then\nS=1\nelif [ $N -gt 3 ]; then\nS=2\n\
            else\nS=3\nfi\nif [ -z \"$2\" ]; then S=9; fi\ntorchrun --master_addr $MASTER_ADDR --port $(free_port) x.py $ARGS --s $S --one $1\n";
        let known = |name: &str| match name {
            "1" => Some("first".to_owned()),
            "2" | "N" => Some("4".to_owned()),
            _ => None,
        };
        assert_eq!(
            read(script, &known).commands.pop().unwrap_or_default(),
            ["torchrun", "--master_addr", "?", "--port", "?", "x.py", "--kept", "2", "--s", "2", "--one", "first"]
        );
        assert_eq!(last("A=1 B=2 python x.py"), ["A=1", "B=2", "python", "x.py"]);
        assert_eq!(last("cd \"$(dirname $0)\" && python 'a b' \"c $HOME\""), ["python", "a b", "c /root"]);
    }

    #[test]
    fn of_a_case_the_branch_of_its_word_is_read() {
        let script = "SCALE=\"8B\" # or \"800M\"\ncase \"${SCALE}\" in\n  \"800M\")\n    TP=1\n    ;;\n  \"7B\" | \"8B\")\n    TP=4\n    PP=2 ;;\n\
            *)\n    TP=9\n    exit 1\n    ;;\nesac\ncase $NONE in a) PP=7 ;; *) CP=2;; esac\npython x.py $TP $PP $CP $(($RANDOM % 1000 + 6000)) `pwd`/a.json $(($SLURM_NNODES * 8))";
        assert_eq!(last(script), ["python", "x.py", "4", "2", "2", "6000", "./a.json", "?"]);
    }

    #[test]
    fn whatever_the_bytes_the_end_is_reached() {
        for text in ["$", "${", "$((", "${a", "'", "\"\\", "a=(", "${a:-${b", "if", "fi fi", "\\"] {
            read(text, &|_| None);
        }
        let doubling = (0..64).fold("a=xxxxxxxx\n".to_owned(), |text, _| text + "a=\"$a$a\"\n");
        read(&doubling, &|_| None);
    }
}
