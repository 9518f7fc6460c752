//! A shell script read, never run: its assignments, arrays and arithmetic, and from them the
//! training command that it would start.

mod condition;
mod statements;

use std::collections::BTreeMap;

use super::expression;
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
}

/// Reads a script, or a command line as one types it. `known` are variables from outside.
///
/// What only a run could tell (loops, substituted commands, conditions on files) is not followed: the
/// first branch of such a condition counts as taken. Comparisons of words and numbers are followed.
pub fn read(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Script {
    let mut script = Script::default();
    if text.len() > MAX_TEXT {
        return script;
    }
    let mut skipping = Branches::default();
    for statement in statements(text) {
        if script.commands.iter().map(Vec::len).sum::<usize>() > MAX_WORDS {
            break;
        }
        let followed = skipping.taken(&statement, |condition| {
            // What `&&` or `||` joins to it is another statement: then nobody knows.
            holds(&script.words(condition, known)).unwrap_or(true)
        });
        if let Some(statement) = followed {
            script.statement(&statement, known);
        }
    }
    script
}

impl Script {
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

    /// Splits into words as a shell does, quotes undone and variables put in.
    fn words(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
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
        splitter.words
    }

    /// What a text that begins with `$` stands for, and how many bytes that uses up.
    fn expanded(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, usize) {
        if let Some(inner) = text.strip_prefix("$((") {
            let Some(end) = inner.find("))") else { return (String::new(), text.len()) };
            let plain = inner[..end].replace(['$', '{', '}'], "");
            // As a shell counts: what is not set, or is random, is zero; what a cluster sets nobody knows.
            let number = |name: &str| match self.variable(name, known).unwrap_or_else(|| unset(name)).trim() {
                "" => Some(0),
                text => text.parse().ok(),
            };
            let value =
                expression::whole(&plain, &number).map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
            return (value, end + "$((".len() + "))".len());
        }
        if let Some(inner) = text.strip_prefix('`') {
            let end = inner.find('`').unwrap_or(inner.len());
            return (output(&inner[..end]), (end + "``".len()).min(text.len()));
        }
        if text.starts_with("$(") {
            let used = closing(text, '(', ')');
            return (output(text.get(2..used.saturating_sub(1)).unwrap_or("")), used);
        }
        if text.starts_with("${") {
            let used = closing(text, '{', '}');
            let inner = text.get(2..used.saturating_sub(1)).unwrap_or("");
            return (self.parameter(inner, known), used);
        }
        let name: &str = &text[1..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(name.len());
        match name.chars().next() {
            // `$1`: an argument of the script, `$@`: all of them.
            Some(digit) if digit.is_ascii_digit() => (known(&name[..1]).unwrap_or_default(), 2),
            Some('@' | '*') => (known("@").unwrap_or_default(), 2),
            Some('#' | '?' | '$' | '!') => (String::new(), 2),
            _ if end == 0 => ("$".to_owned(), 1),
            _ => (self.variable(&name[..end], known).unwrap_or_else(|| unset(&name[..end])), 1 + end),
        }
    }

    /// `name`, `name[@]`, `name:-default`, `name:=default`, `name-default`.
    fn parameter(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let value = self.variable(name, known);
        let default = [":-", ":=", "-", "="].iter().find_map(|sign| rest.strip_prefix(sign));
        match (value, default) {
            (Some(value), _) if !value.is_empty() || default.is_none() => value,
            // One level of variables in a default is followed, not more.
            (_, Some(default)) => {
                let words = default.trim_matches(['"', '\'']);
                let inner =
                    words.strip_prefix("${").and_then(|name| name.strip_suffix('}')).or(words.strip_prefix('$'));
                inner.map_or_else(|| words.to_owned(), |name| self.variable(name, known).unwrap_or_default())
            }
            (value, None) => value.unwrap_or_else(|| unset(name)),
        }
    }
}

/// What a substituted command prints, where that can be told without running it: the present directory.
fn output(command: &str) -> String {
    if command.trim() == "pwd" { ".".to_owned() } else { UNKNOWN.to_owned() }
}

/// A variable that nobody has set: nothing, but for what a cluster sets before the script begins.
fn unset(name: &str) -> String {
    if name == "PWD" {
        return ".".to_owned();
    }
    const CLUSTERS: [&str; 6] = ["MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "HOSTNAME", "SLURMD_NODENAME"];
    let clusters = CLUSTERS.contains(&name) || name.starts_with("SLURM_") || name.starts_with("PET_");
    if clusters { UNKNOWN.to_owned() } else { String::new() }
}

/// Bytes up to and with the bracket that closes the first one.
fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    text.len()
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
