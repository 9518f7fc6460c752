//! The statements of a script one after the other, and lists of them: `[ A ] && B || C`.

use super::condition::Branches;
use super::conjunction::is_test;
use super::fork::Fork;
use super::statements::{Joining, statements};
use super::{MAX_SPENT, MAX_TURNS, MAX_WORDS, Script, Surroundings, assignment, loops};

/// What is known of how the statement before went.
#[derive(Debug, Clone, Default)]
enum Status {
    /// It succeeds, or fails.
    Known(bool),
    /// Only the run could tell.
    Open,
    /// It does something, and a script counts on it.
    #[default]
    Presumed,
}

/// Commands that do not fail where a script is any good.
const PLAIN: [&str; 16] = [
    "cd", "pushd", "popd", "mkdir", "export", "declare", "local", "source", ".", "echo", "printf", "set", "unset",
    "conda", "module", "ulimit",
];

/// Commands that a script asks, to know what is there.
const ASKING: [&str; 12] =
    ["grep", "egrep", "command", "which", "type", "hash", "pgrep", "nvidia-smi", "ls", "find", "ping", "curl"];

impl Script {
    /// Follows a script, or a part of it.
    pub(super) fn run(&mut self, text: &str, around: &Surroundings, depth: usize) {
        let mut branches = Branches::default();
        let statements = statements(text);
        let outer = self.asking.clone();
        let mut status = Status::default();
        let mut condition = String::new();
        let mut at = 0;
        while let Some(statement) = statements.get(at) {
            at += 1;
            self.turns += 1;
            if self.count > MAX_WORDS || self.spent.get() > MAX_SPENT || self.turns > MAX_TURNS {
                return;
            }
            self.asking = branches.asks().union(&outer).cloned().collect();
            let (runs, open) = match (statement.link, &status) {
                (Joining::IfSucceeded, Status::Known(succeeds)) => (*succeeds, false),
                (Joining::IfFailed, Status::Known(succeeds)) => (!succeeds, false),
                (Joining::After, _) | (Joining::IfSucceeded, Status::Presumed) => (true, false),
                (_, Status::Open) | (Joining::IfFailed, Status::Presumed) => (true, true),
            };
            if statement.link != Joining::After && branches.follows() {
                self.asking.extend(self.asked_unset(&condition, around.variable));
                if !runs {
                    self.skip(&statement.text, self.decides_itself(&condition));
                    continue;
                }
            }
            // What may end the script, or not, ends no branch.
            if open && ends_the_script(&statement.text) {
                continue;
            }
            self.counts = loops::only_assigns(&statement.text, statements.get(at..).unwrap_or_default());
            if let Some(followed) = branches.taken(&statement.text, at, self, around.variable) {
                let fork = if open { branches.fork(self) } else { None };
                let before = self.commands.len();
                // `name()` with its braces on the next line.
                let header = followed.ends_with("()") || followed.starts_with("function ") && !followed.contains('{');
                match statements.get(at).filter(|body| header && body.text.trim_start().starts_with('{')) {
                    Some(body) => {
                        at += 1;
                        self.statement(&format!("{followed} {}", body.text.trim()), around, depth);
                    }
                    None => self.statement(&followed, around, depth),
                }
                self.written(before, statement, around);
                self.end_open(fork);
                status = self.status(&followed, around.variable);
                if statement.link == Joining::After || is_test(&followed) {
                    condition = followed;
                }
            } else if let Some(surely) = branches.skipped() {
                self.skip(&statement.text, surely);
            } else {
                (status, condition) = Default::default();
            }
            at = branches.back.take().unwrap_or(at);
        }
        self.asking = outer;
    }

    fn end_open(&mut self, fork: Option<Fork>) {
        if let Some(mut fork) = fork {
            fork.end_branch(true, self);
            fork.join(self);
        }
    }

    fn status(&self, statement: &str, known: &dyn Fn(&str) -> Option<String>) -> Status {
        let first = statement.split_whitespace().next().unwrap_or_default();
        match first {
            "true" | ":" => Status::Known(true),
            "false" => Status::Known(false),
            _ if is_test(statement) => self.holds(statement, known).map_or(Status::Open, Status::Known),
            "!" => Status::Open,
            _ if ASKING.contains(&first) => Status::Open,
            _ if PLAIN.contains(&first) || first == "{" || assignment(first).is_some() => Status::Known(true),
            _ => Status::Presumed,
        }
    }
}

/// Whether a statement ends the script, or a function or a turn of a loop.
fn ends_the_script(statement: &str) -> bool {
    matches!(statement.split_whitespace().next(), Some("exit" | "return" | "break" | "continue"))
}
