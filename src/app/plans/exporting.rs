//! The plan as other tools write it: chosen, looked at, written to a file.

use std::path::{Path, PathBuf};

use crate::advise::export;
use crate::app::event::{Effect, ExpectedFile};
use crate::app::notice::{info, problem};
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::{Overlay, Plans, Saving, State};
use crate::plan::export::{ExportedPlan, Target};

/// What the plan is exported as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// For whom.
    pub target: Target,
    /// The text, and what it does not say.
    pub exported: ExportedPlan,
    /// Where it would be written.
    pub path: PathBuf,
}

impl Export {
    /// What would be written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.exported.text
    }

    /// Lines that it takes to show all of it.
    #[must_use]
    pub fn lines(&self) -> usize {
        let notes = self.exported.notes.len();
        self.text().lines().count() + if notes == 0 { 0 } else { notes + 2 }
    }
}

/// Asks as what.
pub fn ask(state: &mut State) {
    if state.plans.editor.plan().is_none() {
        state.notice = Some(problem("the plan is not valid: there is nothing to export"));
        return;
    }
    let choices = Target::ALL.map(|target| Choice::of(target.name(), target.meaning())).to_vec();
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Export, choices, None));
}

/// Shows the plan as that target writes it.
pub fn chosen(state: &mut State, name: &str) {
    let target = Target::ALL.into_iter().find(|target| target.name() == name);
    let Some((target, plan)) = target.zip(state.plans.editor.plan()) else { return };
    let exported = export(plan, &state.catalog, target).with_notes(target);
    if let Some(why) = exported.refused {
        state.notice = Some(problem(why));
        return;
    }
    let folder = state.plans.editor.path().and_then(Path::parent).unwrap_or(Path::new(""));
    let path = folder.join(format!("{}.{}", state.plans.editor.name(), target.ending()));
    state.plans.export = Some(Export { target, exported, path });
    state.dialogs.overlay = Some(Overlay::Export(0));
}

/// Asks for the file to write to.
pub fn ask_where(state: &mut State) {
    let mut picker = Picker::open(PickerPurpose::ExportTo, Vec::new(), None);
    picker.query = state.plans.export.as_ref().map_or_else(String::new, |export| export.path.display().to_string());
    state.dialogs.picker = Some(picker);
}

/// Writes it to that file.
pub fn write_to(plans: &mut Plans, path: PathBuf) -> Vec<Effect> {
    if let Some(export) = &mut plans.export {
        export.path = path;
    }
    write(plans, false)
}

/// Writes it; `over` whatever is there.
pub fn write(plans: &mut Plans, over: bool) -> Vec<Effect> {
    let Some(export) = plans.export.as_ref().filter(|_| plans.saving == Saving::Idle) else {
        return Vec::new();
    };
    plans.saving = Saving::Export;
    let expected = if over { ExpectedFile::Anything } else { ExpectedFile::Nothing };
    let (path, text) = (Some(export.path.clone()), export.text().to_owned());
    vec![Effect::Save { path, name: plans.editor.name().to_owned(), text, expected }]
}

/// It is on disk.
pub fn written(state: &mut State, path: &Path) {
    let Some(export) = state.plans.export.take() else { return };
    let unsaid = match export.exported.notes.len() {
        0 => String::new(),
        1 => "; 1 thing it cannot say".to_owned(),
        notes => format!("; {notes} things it cannot say"),
    };
    state.notice = Some(info(format!("exported {}{unsaid}", path.display())));
}
