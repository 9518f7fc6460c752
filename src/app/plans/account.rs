//! What was read out of something that is no plan, and what was not: each value with what said so.

use crate::app::editor::Editor;
use crate::app::notice::info;
use crate::app::plans;
use crate::app::state::{Overlay, State};
use crate::plan::LoadedPlan;

/// The account that is given of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Whose it was, and which: `Megatron-LM: the plan of 4711`.
    pub title: String,
    /// Key, value and what said so.
    pub rows: Vec<[String; 3]>,
    /// What was not found, and what a plan has no word for.
    pub open: Vec<String>,
}

impl Account {
    /// Lines that it takes at most to show all of it on a narrow screen.
    #[must_use]
    pub fn lines(&self) -> usize {
        const NARROW: usize = 50;
        let open: usize = self.open.iter().map(|line| 1 + line.chars().count() / NARROW).sum();
        self.rows.len() + if open == 0 { 0 } else { open + 2 }
    }
}

/// Another tool's file, read as a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The plan, in no file yet.
    pub plan: LoadedPlan,
    /// What it was read from.
    pub account: Account,
}

/// Another tool's file is opened as a plan of its own beside the others; what was read of it is shown.
pub fn arrived(state: &mut State, import: Import) {
    let name = plans::unused(&state.plans, &import.plan.name);
    let plan = Editor::unsaved(LoadedPlan { name, ..import.plan }, &state.catalog);
    plans::open(state, plan, Vec::new());
    show(state, import.account);
}

/// Shows what was read of the file that the plan in front is from.
pub fn show(state: &mut State, account: Account) {
    state.plans.imported = Some(account);
    state.dialogs.overlay = Some(Overlay::Imported(0));
}

/// It has been seen; what comes next is said.
pub fn close(state: &mut State) {
    state.dialogs.overlay = None;
    if state.plans.imported.take().is_some() {
        let name = state.plans.editor.name();
        // In the text letters are typed.
        let keys = match state.plans.text {
            Some(_) => format!("^S writes {name}.yaml, beside each value stands what it is from"),
            None => format!("s writes {name}.yaml, e shows what each value is from"),
        };
        state.notice = Some(info(format!("an unsaved plan: {keys}")));
    }
}
