//! Command lines of processes, and what is none: a title that a program gives itself.

use std::collections::HashMap;
use std::ffi::OsString;

/// The command lines of the processes that are watched. One changes where a process becomes another program.
#[derive(Debug, Default)]
pub struct CommandLines {
    known: HashMap<u32, CommandLine>,
}

/// What stands for a process.
#[derive(Debug)]
struct CommandLine {
    /// When it started.
    started: u64,
    line: String,
    /// It was another one's before.
    is_later: bool,
}

impl CommandLines {
    /// The line of a process that started then. Its words were written by who started it, or over them stands a title that
    /// the program changes as it goes on (`ray::Actor.step()`, `trainer: step 12`): one word then, which says nothing of
    /// what runs, and what stood there before goes on to hold.
    pub fn of(&mut self, pid: u32, started: u64, words: &[OsString], line: String) -> String {
        match self.known.get(&pid).filter(|before| before.started == started) {
            Some(before) if is_title(words) || before.line == line => before.line.clone(),
            before => {
                let is_later = before.is_some();
                self.known.insert(pid, CommandLine { started, line: line.clone(), is_later });
                line
            }
        }
    }

    /// Whether the process has become another program since it was seen first.
    pub fn has_changed(&self, pid: u32) -> bool {
        self.known.get(&pid).is_some_and(|known| known.is_later)
    }

    /// Drops those of processes that are not among the `wanted`.
    pub fn forget(&mut self, wanted: impl Fn(u32) -> bool) {
        self.known.retain(|pid, _| wanted(*pid));
    }
}

/// Whether a command line may be a title: no program's path, and no argument behind it.
fn is_title(words: &[OsString]) -> bool {
    match words {
        [word] => !word.to_string_lossy().starts_with(['/', '.']),
        words => words.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_no_other_program() {
        let mut lines = CommandLines::default();
        let mut of = |started: u64, words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            lines.of(7, started, &words, line)
        };
        assert_eq!(of(100, &["sh", "run.sh"]), "sh run.sh");
        assert_eq!(of(100, &["python", "train.py"]), "python train.py");
        for title in ["ray::IDLE", "ray::Actor.step()", "trainer: step 12"] {
            assert_eq!(of(100, &[title]), "python train.py");
        }
        assert_eq!(of(100, &["/usr/bin/evaluate"]), "/usr/bin/evaluate");
        // Another process, of which nothing else was seen.
        assert_eq!(of(200, &["ray::IDLE"]), "ray::IDLE");
        assert_eq!(of(200, &["ray::Actor.step()"]), "ray::IDLE");
    }
}
