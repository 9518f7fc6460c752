//! What the hook told of a run, as a recording keeps it.

use serde::{Deserialize, Serialize};

use super::{HookAbout, HookModules, HookStep, HookedRun, Moment, TokensSeen};

/// A run with the hook in it, without what only its live process tells: places of its stack, and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedHook {
    /// The pid, in its own namespace.
    pub pid: u32,
    /// What it trains.
    #[serde(default)]
    pub about: Option<HookAbout>,
    /// The newest step.
    #[serde(default)]
    pub step: Option<HookStep>,
    /// Whether its steps take as many tokens each.
    #[serde(default)]
    pub tokens: TokensSeen,
    /// The newest sampled step, without its blocks.
    #[serde(default)]
    pub modules: Option<HookModules>,
}

impl RecordedHook {
    /// What `run` has told.
    #[must_use]
    pub fn of(run: &HookedRun) -> Self {
        let HookedRun { pid, about, step, tokens, modules, .. } = run;
        let modules = modules.clone().map(|modules| HookModules { blocks: Vec::new(), ..modules });
        Self { pid: *pid, about: about.clone(), step: step.clone(), tokens: *tokens, modules }
    }

    /// The run as it was heard then.
    #[must_use]
    pub fn run(&self, heard: Moment) -> HookedRun {
        let Self { pid, about, step, tokens, modules } = self.clone();
        HookedRun { about, step, tokens, modules, ..HookedRun::new(pid, heard) }
    }
}
