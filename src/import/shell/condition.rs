//! Conditions and loops of a script: which branch of them is read, and what is known behind them.

use super::Script;
use super::fork::{Fork, without_arguments};
use crate::settings::UNKNOWN;

/// No script that matters asks more often what only its run could tell.
const MOST_FORKS: usize = 200;

/// More words than this are not kept for each branch.
const MOST_WORDS: usize = 4_000;

/// A condition that is open.
#[derive(Debug, Clone, Default)]
struct OpenCondition {
    /// Of a `case`: the word that is compared, and patterns of `a | b)` that were read already.
    case: Option<(String, Vec<String>)>,
    /// Of a `case`: what is compared is what the script itself sets, whole.
    is_own: bool,
    /// The present branch is skipped whatever the surroundings of the script hold.
    surely_skipped: bool,
    /// An earlier branch is taken whatever they hold.
    surely_taken: bool,
    /// A branch of it has been read already: later ones are passed over.
    taken: bool,
    /// The present branch is read.
    reading: bool,
    /// Nobody knows which branch is taken: all are read, each from what was known before.
    fork: Option<Fork>,
    /// A loop over words that are known.
    turns: Option<Turns>,
    /// A loop that takes the arguments of the script one by one.
    taking: Option<Taking>,
    /// It is a loop.
    is_loop: bool,
}

/// A loop over arguments: its condition, how many there were when its present turn began, and where its body begins.
#[derive(Debug, Clone)]
struct Taking {
    condition: String,
    count: String,
    start: usize,
}

/// What is left of a loop.
#[derive(Debug, Clone, Default)]
struct Turns {
    variable: String,
    /// The words that come, the next one last.
    left: Vec<String>,
    /// The statement that its body begins with.
    start: usize,
}

/// Which branches of nested conditions the reader is in.
#[derive(Debug, Default)]
pub struct Branches {
    open: Vec<OpenCondition>,
    forks: usize,
    /// Where it goes on, where a loop begins anew.
    pub back: Option<usize>,
}

impl Branches {
    /// What is left of a statement that is to be followed; `next` is the number of the one behind it.
    pub fn taken(
        &mut self,
        statement: &str,
        next: usize,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let mut rest = statement.trim();
        loop {
            rest = self.behind_pattern(rest, script, known)?;
            let word = rest.split([' ', '\t']).next().unwrap_or("");
            let after = rest[word.len()..].trim();
            match word {
                "if" => {
                    let runs = self.follows();
                    self.open(runs.then(|| script.holds(after, known)).flatten(), after, script);
                    if let Some(OpenCondition { fork: Some(fork), .. }) = self.open.last_mut() {
                        fork.without_arguments = without_arguments(after, &script.arguments);
                    }
                    return asked(after).filter(|_| runs).map(str::to_owned);
                }
                "while" | "until" | "for" | "select" => {
                    let runs = self.follows() && (word == "until" || word == "while" && after.starts_with("! "));
                    self.open_loop(word, after, next, script, known);
                    return asked(after).filter(|_| runs).map(str::to_owned);
                }
                "case" => {
                    rest = self.open_case(after, script, known);
                    if rest.is_empty() {
                        return None;
                    }
                }
                "fi" | "esac" | "done" => {
                    self.close(script, known);
                    return None;
                }
                "elif" | "else" => {
                    self.next_branch(word == "else", after, script, known);
                    // `else B=2; fi` in one line.
                    if word == "elif" || after.is_empty() {
                        return None;
                    }
                    rest = after;
                }
                "then" | "do" | "time" | "exec" => rest = after,
                "exit" | "return" => {
                    if self.follows()
                        && let Some(OpenCondition { fork: Some(fork), .. }) = self.open.last_mut()
                    {
                        fork.left = true;
                    }
                    return None;
                }
                _ => break,
            }
        }
        (!rest.is_empty() && self.follows()).then(|| rest.to_owned())
    }

    fn open_loop(
        &mut self,
        word: &str,
        header: &str,
        start: usize,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) {
        // Arguments of the script are taken in such a loop: there are none.
        let arguments = ["$#", "getopts", "$1", "${1"].iter().any(|part| header.contains(part));
        let (mut turns, mut taking) = (None, None);
        if self.follows() {
            match word {
                "for" | "select" => {
                    let (variable, left) = script.loop_over(header, known);
                    turns = (word == "for" && !left.is_empty()).then_some(Turns { variable, left, start });
                }
                // `while read -r A B`
                _ => {
                    let mut names = header.split_whitespace().skip_while(|word| *word != "read").skip(1);
                    for name in names.by_ref().filter(|name| !name.starts_with('-')) {
                        script.variables.insert(name.to_owned(), vec![UNKNOWN.to_owned()]);
                    }
                }
            }
        }
        if self.follows() && word == "while" && arguments && script.holds(header, known) == Some(true) {
            taking = known("#").map(|count| Taking { condition: header.to_owned(), count, start });
        }
        let reading = word == "for" || !arguments || taking.is_some();
        self.open.push(OpenCondition {
            taken: true,
            reading,
            turns,
            taking,
            is_loop: true,
            ..OpenCondition::default()
        });
    }

    /// Behind the last branch of a condition, or a turn of a loop.
    fn close(&mut self, script: &mut Script, known: &dyn Fn(&str) -> Option<String>) {
        let Some(mut open) = self.open.pop() else { return };
        if let Some(taking) = &mut open.taking {
            let left = known("#").unwrap_or_default();
            // A turn that takes none would go on for ever.
            let goes_on = left != taking.count && script.holds(&taking.condition, known) == Some(true);
            if goes_on {
                taking.count = left;
                self.back = Some(taking.start);
                return self.open.push(open);
            }
        }
        if let Some(mut fork) = open.fork.take() {
            fork.end_branch(open.reading, script);
            fork.join(script);
        }
        if let Some(turns) = &mut open.turns
            && let Some(word) = turns.left.pop()
        {
            script.variables.insert(turns.variable.clone(), vec![word]);
            self.back = Some(turns.start);
            self.open.push(open);
        }
    }

    /// Opens a `case`; what is left is what stands behind its `in`.
    fn open_case<'a>(
        &mut self,
        header: &'a str,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> &'a str {
        let (compared, first) = header.split_once(" in").unwrap_or((header, ""));
        let compared = script.words(compared, known).join(" ");
        let unknown = compared == UNKNOWN && self.follows();
        let fork = if unknown { self.fork(script) } else { None };
        let is_own = self.follows() && script.decides_itself(header);
        self.open.push(OpenCondition { case: Some((compared, Vec::new())), is_own, fork, ..OpenCondition::default() });
        first.trim()
    }

    /// Whether what stands here is read.
    fn follows(&self) -> bool {
        self.open.iter().all(|open| open.reading)
    }

    /// Whether what stands here is of a branch that is not taken, and then whether it is none in any run; a loop over
    /// arguments may be by who starts the script.
    pub fn skipped(&self) -> Option<bool> {
        let skipped = !self.follows() && !self.open.iter().any(|open| open.is_loop);
        skipped.then(|| self.open.iter().any(|open| !open.reading && open.surely_skipped))
    }

    fn fork(&mut self, script: &Script) -> Option<Fork> {
        self.forks += 1;
        let words: usize = script.variables.values().map(Vec::len).sum();
        (self.forks <= MOST_FORKS && words <= MOST_WORDS).then(|| Fork::before(script))
    }

    fn open(&mut self, holds: Option<bool>, condition: &str, script: &Script) {
        let fork = if holds.is_none() && self.follows() { self.fork(script) } else { None };
        let reading = holds.unwrap_or(true);
        let surely = holds.filter(|_| script.decides_itself(condition));
        self.open.push(OpenCondition {
            taken: reading && fork.is_none(),
            reading,
            fork,
            surely_skipped: surely == Some(false),
            surely_taken: surely == Some(true),
            ..OpenCondition::default()
        });
    }

    fn next_branch(
        &mut self,
        last: bool,
        condition: &str,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) {
        let Some((open, around)) = self.open.split_last_mut() else { return };
        // The next branch begins with what was known before the first.
        if let Some(fork) = &mut open.fork {
            fork.end_branch(open.reading, script);
        }
        let holds = if last { Some(true) } else { script.holds(condition, known) };
        let followed = around.iter().all(|open| open.reading);
        let surely = holds.filter(|_| followed && (last || script.decides_itself(condition)));
        open.surely_skipped = open.surely_taken || surely == Some(false);
        open.surely_taken |= surely == Some(true);
        match &mut open.fork {
            Some(fork) => {
                open.reading = !open.taken && holds != Some(false);
                fork.complete |= holds == Some(true);
                open.taken |= holds == Some(true);
            }
            None => {
                open.reading = !open.taken && holds.unwrap_or(true);
                open.taken |= open.reading;
            }
        }
    }

    /// Behind the pattern of a `case` that a statement begins with, if it does; none where it is no more than
    /// a part of one. The branch is read where the pattern is the word, or `*`.
    fn behind_pattern<'a>(
        &mut self,
        statement: &'a str,
        script: &mut Script,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> Option<&'a str> {
        let Some(open) = self.open.last_mut() else { return Some(statement) };
        let OpenCondition { case: Some((word, patterns)), taken, reading, fork, is_own, surely_skipped, .. } = open
        else {
            return Some(statement);
        };
        let end = statement.find([')', '(', ' ', '=']).unwrap_or(statement.len());
        let pattern = &statement[..end];
        match statement[end..].trim_start().strip_prefix(')') {
            Some(behind) => {
                patterns.push(pattern.to_owned());
                if let Some(fork) = fork {
                    fork.end_branch(*reading, script);
                    *reading = true;
                    fork.complete |= patterns.iter().any(|one| one == "*");
                } else {
                    let is = |one: &String| {
                        let plain = script.words(one, known).join(" ");
                        one == "*" || plain == *word
                    };
                    *reading = !*taken && patterns.iter().any(is);
                    *taken |= *reading;
                    *is_own &= patterns.iter().all(|one| one == "*" || script.decides_itself(one));
                    *surely_skipped = *is_own && !*reading;
                }
                patterns.clear();
                Some(behind.trim())
            }
            // `"a" | "b")` comes in pieces, as every pipe does.
            None if statement[end..].trim().is_empty() && !pattern.is_empty() && pattern != "esac" => {
                patterns.push(pattern.to_owned());
                None
            }
            None => Some(statement),
        }
    }
}

/// The parts of a condition between `&&` and `||` outside of quotes and of `[[ … ]]`, each with the sign before it.
fn parts(condition: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let (mut quote, mut depth, mut start, mut sign) = (None, 0_usize, 0, "");
    for (at, letter) in condition.char_indices() {
        let rest = condition.get(at..).unwrap_or("");
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '[') if rest.starts_with("[[ ") => depth += 1,
            (None, ']') if rest.starts_with("]]") => depth = depth.saturating_sub(1),
            (None, '&' | '|') if depth == 0 && at >= start => {
                let Some(two) = ["&&", "||"].into_iter().find(|two| rest.starts_with(two)) else { continue };
                found.push((sign, condition.get(start..at).unwrap_or("").trim()));
                (start, sign) = (at + two.len(), two);
            }
            _ => {}
        }
    }
    found.push((sign, condition.get(start..).unwrap_or("").trim()));
    found
}

/// Whether a condition of several parts holds, as a shell joins them: from the left, both signs alike. Within `[[ … ]]`
/// only parts of one sign are followed.
pub fn joined(condition: &str, holds: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
    let join = |left: Option<bool>, sign: &str, right: Option<bool>| match (sign, left, right) {
        ("&&", Some(false), _) | ("&&", _, Some(false)) => Some(false),
        ("||", Some(true), _) | ("||", _, Some(true)) => Some(true),
        (_, Some(_), Some(right)) => Some(right),
        _ => None,
    };
    let all = parts(condition.trim());
    if all.len() > 1 {
        let (_, first) = all.first()?;
        return all
            .iter()
            .skip(1)
            .fold(joined(first, holds), |left, (sign, part)| join(left, sign, joined(part, holds)));
    }
    let inner = condition.trim().strip_prefix("[[ ").and_then(|rest| rest.strip_suffix("]]"));
    let within = inner.map(parts).filter(|parts| parts.len() > 1);
    let Some(within) = within else { return holds(condition) };
    let mut signs = within.iter().skip(1).map(|(sign, _)| *sign);
    let only = signs.next()?;
    if signs.any(|sign| sign != only) {
        return None;
    }
    let one = |part: &str| holds(&format!("[[ {part} ]]"));
    let (_, first) = within.first()?;
    within.iter().skip(1).fold(one(first), |left, (sign, part)| join(left, sign, one(part)))
}

/// The command whose success is asked for: of `if torchrun train.py; then` and `if ! torchrun train.py; then` it runs.
fn asked(condition: &str) -> Option<&str> {
    const TESTS: [&str; 6] = ["[", "(", "{", "test ", "true", "false"];
    let command = condition.strip_prefix("! ").unwrap_or(condition).trim();
    (!command.is_empty() && !TESTS.iter().any(|start| command.starts_with(start))).then_some(command)
}
