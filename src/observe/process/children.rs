//! What processes have started: data loaders, compilers, shells.

use std::path::Path;

use procfs::process::Process;

use crate::reading::Moment;

/// Looked for this often, in milliseconds: it means reading a file for every thread.
const EVERY: u64 = 5_000;
/// More are not told of.
const MOST: usize = 256;

/// The descendants of some processes.
#[derive(Debug, Default)]
pub struct Children {
    of: Vec<u32>,
    at: Option<Moment>,
    /// Each with its parent; parents before children.
    found: Vec<(u32, u32)>,
    pids: Vec<u32>,
}

impl Children {
    /// Descendants of `roots` that are none of them, each with its parent, parents first.
    pub fn of(&mut self, root: &Path, roots: &[u32], now: Moment) -> &[(u32, u32)] {
        let fresh = self.at.is_some_and(|at| now.0.saturating_sub(at.0) < EVERY);
        if !fresh || self.of != roots {
            self.of = roots.to_vec();
            self.at = Some(now);
            self.found = look(root, roots);
            self.pids = self.found.iter().map(|(pid, _)| *pid).collect();
        }
        &self.found
    }

    /// Their pids.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }
}

/// Descendants of `roots`, each with its parent.
pub fn look(root: &Path, roots: &[u32]) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut open: Vec<u32> = roots.to_vec();
    while let Some(parent) = open.pop() {
        for child in started_by(root, parent) {
            let known = roots.contains(&child) || found.iter().any(|(pid, _)| *pid == child);
            if known {
                continue;
            }
            if found.len() == MOST {
                return found;
            }
            found.push((child, parent));
            open.push(child);
        }
    }
    found
}

/// The processes that any thread of this one has started and that are still its own. Where the
/// kernel does not tell (it was built without the file), none.
pub fn started_by(root: &Path, pid: u32) -> Vec<u32> {
    let tasks = Process::new_with_root(root.join(pid.to_string())).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten().flat_map(|task| task.children().unwrap_or_default()).collect()
}
