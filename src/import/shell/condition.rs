//! Conditions and loops of a script: which branch of them is read, and what is known behind them.

use std::collections::BTreeSet;

use super::Script;
use super::case::OpenCase;
use super::conjunction::asked;
use super::fork::{Fork, without_arguments};
use crate::settings::UNKNOWN;

/// No script that matters asks more often what only its run could tell.
const MOST_FORKS: usize = 200;

/// More words than this are not kept for each branch.
const MOST_WORDS: usize = 4_000;

/// A condition that is open.
#[derive(Debug, Clone, Default)]
struct OpenCondition {
    case: Option<OpenCase>,
    /// Variables that it asks for and that nobody sets.
    asks: BTreeSet<String>,
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
                    self.open_if(after, script, known);
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
                    self.next_part(word == "else", after, script, known);
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

    /// Whether what stands here is read.
    pub(super) fn follows(&self) -> bool {
        self.open.iter().all(|open| open.reading)
    }

    /// Whether what stands here is of a branch that is not taken, and then whether it is none in any run; a loop over
    /// arguments may be by who starts the script.
    pub fn skipped(&self) -> Option<bool> {
        let skipped = !self.follows() && !self.open.iter().any(|open| open.is_loop);
        skipped.then(|| self.open.iter().any(|open| !open.reading && open.surely_skipped))
    }

    /// `elif CONDITION` and `else`.
    fn next_part(&mut self, last: bool, condition: &str, script: &mut Script, known: &dyn Fn(&str) -> Option<String>) {
        let holds = if last { Some(true) } else { script.holds(condition, known) };
        let decided = last || script.decides_itself(condition);
        let asks = if last { BTreeSet::new() } else { script.asked_unset(condition, known) };
        if let Some(open) = self.open.last_mut().filter(|open| !open.taken) {
            open.asks.extend(asks);
        }
        self.next_branch(holds, decided, script);
    }

    pub(super) fn fork(&mut self, script: &Script) -> Option<Fork> {
        self.forks += 1;
        let words: usize = script.variables.values().map(Vec::len).sum();
        (self.forks <= MOST_FORKS && words <= MOST_WORDS).then(|| Fork::before(script))
    }

    fn open_if(&mut self, condition: &str, script: &mut Script, known: &dyn Fn(&str) -> Option<String>) {
        let runs = self.follows();
        self.open(runs.then(|| script.holds(condition, known)).flatten(), condition, script);
        let Some(open) = self.open.last_mut() else { return };
        if let Some(fork) = &mut open.fork {
            fork.without_arguments = without_arguments(condition, &script.arguments);
        }
        if runs {
            open.asks = script.asked_unset(condition, known);
        }
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

    /// Goes on with the next branch of the innermost condition; `decided`: every run answers it alike.
    pub(super) fn next_branch(&mut self, holds: Option<bool>, decided: bool, script: &mut Script) {
        let Some((open, around)) = self.open.split_last_mut() else { return };
        // The next branch begins with what was known before the first.
        if let Some(fork) = &mut open.fork {
            fork.end_branch(open.reading, script);
        }
        let followed = around.iter().all(|open| open.reading);
        let begins_fork = holds.is_none() && followed && open.fork.is_none() && !open.taken;
        let surely = holds.filter(|_| followed && decided);
        open.surely_skipped = open.surely_taken || surely == Some(false);
        open.surely_taken |= surely == Some(true);
        let fresh = if begins_fork { self.fork(script) } else { None };
        let Some(open) = self.open.last_mut() else { return };
        open.fork = open.fork.take().or(fresh);
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

    /// Variables that nobody sets and that decide what is read here.
    pub fn asks(&self) -> BTreeSet<String> {
        self.open.iter().flat_map(|open| open.asks.iter().cloned()).collect()
    }

    /// Behind a branch of a `case` that was read the next ones are looked at as if none had been; whether it was read.
    pub(super) fn compares_on(&mut self) -> bool {
        let Some(open) = self.open.last_mut().filter(|open| open.case.is_some() && open.reading) else { return false };
        (open.taken, open.surely_taken) = (false, false);
        true
    }

    /// Before the next pattern of a `case`.
    pub(super) fn innermost_case(&mut self) -> Option<&mut OpenCase> {
        self.open.last_mut()?.case.as_mut()
    }

    pub(super) fn begin_case(&mut self, case: OpenCase, asks: BTreeSet<String>) {
        self.open.push(OpenCondition { case: Some(case), asks, ..OpenCondition::default() });
    }
}
