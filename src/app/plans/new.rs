//! A new plan: of a model, of a template, of another tool's file, or empty.

use std::path::{Path, PathBuf};

use super::{arrive, leave, open, unused};
use crate::app::editor::Editor;
use crate::app::editor::text::TextView;
use crate::app::event::Effect;
use crate::app::notice::{info, problem};
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::State;
use crate::catalog::Catalog;
use crate::plan::{EMPTY_TEXT, EXAMPLES, LoadedPlan, name_of, text_of_model};

/// The choice that is neither a template nor a model.
const EMPTY: &str = "empty";

/// The GPU of a new plan where none is seen: the one that plans without a GPU are predicted on.
pub const USUAL_GPU: &str = "NVIDIA H100";

/// Asks what to begin with. The plan will be saved to that file, if one is meant.
pub fn ask(state: &mut State, path: Option<PathBuf>) {
    let templates = EXAMPLES.iter().map(|(name, text)| Choice::of(name, &format!("template: {}", summary(text))));
    let models = state.catalog.models.iter().map(Choice::of_model);
    let empty = Choice::of(EMPTY, "every key to be written by you");
    let choices = std::iter::once(empty).chain(templates).chain(models).collect();
    if let Some(path) = &path {
        state.notice = Some(info(format!("{} is not there: choose what it begins with", path.display())));
    }
    state.plans.new_at = path;
    state.dialogs.picker = Some(Picker::open(PickerPurpose::NewPlan, choices, None));
}

/// The first sentence of a template's comment.
fn summary(text: &str) -> String {
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let comment = comment.join(" ");
    comment.split_once(". ").map_or(comment.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}

/// Begins the plan with what was chosen or typed.
pub fn chosen(state: &mut State, name: &str) -> Vec<Effect> {
    let path = state.plans.new_at.take();
    let (gpu, gpus) = hardware(state);
    let Some((base, text)) = text_of(name, &gpu, gpus, &state.catalog) else {
        let may_be_file = name.contains(['/', '.']);
        // Where it is no file either, the question stands as before.
        if state.plans.editor.is_unbegun() {
            ask(state, path);
            if let Some(picker) = &mut state.dialogs.picker {
                picker.set_query(name.to_owned());
            }
            state.notice = (!may_be_file).then(|| problem(format!("{name}: no model, no template and no file")));
            return if may_be_file { vec![Effect::Open(name.into())] } else { Vec::new() };
        }
        return vec![Effect::Open(name.into())];
    };
    begin(state, path.as_deref(), &base, &text);
    Vec::new()
}

/// Leaves the question. A plan that was named to begin with begins empty.
pub fn left(state: &mut State) {
    if state.plans.editor.is_unbegun() {
        chosen(state, EMPTY);
    }
    state.plans.new_at = None;
}

/// The name and text of a new plan; none where `name` is neither a template nor a model, but perhaps a file.
#[must_use]
pub fn text_of(name: &str, gpu: &str, gpus: u64, catalog: &Catalog) -> Option<(String, String)> {
    if name == EMPTY {
        return Some(("plan".to_owned(), EMPTY_TEXT.to_owned()));
    }
    if let Some((name, text)) = EXAMPLES.iter().find(|(known, _)| *known == name) {
        // Under its own name it would be the example itself.
        return Some((format!("my_{name}"), (*text).to_owned()));
    }
    let model = catalog.model(name)?;
    Some((model.name.clone(), text_of_model(&model.name, gpu, gpus)))
}

/// The GPUs that are watched, where the catalogue knows them; else one of the usual ones.
fn hardware(state: &State) -> (String, u64) {
    let devices = || state.monitor.devices().iter().filter(|device| device.mig.is_none());
    let seen = devices().find_map(|device| state.card(device)).filter(|_| !state.is_made_up());
    let usual = || state.catalog.gpu(USUAL_GPU).map_or_else(|| USUAL_GPU.to_owned(), |gpu| gpu.name.clone());
    match seen {
        Some(gpu) => (gpu.name.clone(), devices().count().max(1) as u64),
        None => (usual(), 1),
    }
}

/// Puts the new plan in front, instead of one that was begun and never touched.
fn begin(state: &mut State, path: Option<&Path>, base: &str, text: &str) {
    let name = path.map_or_else(|| unused(&state.plans, base), name_of);
    let loaded = match LoadedPlan::from_text(&name, text) {
        Ok(loaded) => loaded,
        Err(faults) => {
            state.notice = faults.first().map(|fault| problem(fault.to_string()));
            return;
        }
    };
    let plan = match path {
        Some(path) => Editor::new_at(loaded, path, &state.catalog),
        None => Editor::unsaved(loaded, &state.catalog),
    };
    let editor = &state.plans.editor;
    if editor.is_unbegun() || editor.is_new() && editor.text() == EMPTY_TEXT {
        leave(&mut state.plans);
        state.plans.editor = plan;
        arrive(state);
        state.plans.text = TextView::to_mend(&state.plans.editor);
    } else {
        open(state, plan, Vec::new());
    }
    let file = path.map_or_else(|| format!("{name}.yaml"), |path| path.display().to_string());
    state.notice = Some(info(format!("a new plan: s writes {file}")));
}
