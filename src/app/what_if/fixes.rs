//! What holds the plan in front back, and the changes that would help: ranked as `predict --bottlenecks` ranks them,
//! taken as one edit.

use super::WhatIfError;
use crate::advise::{Advice, Finding, Fix, advise, operators};
use crate::app::editor::Editor;
use crate::app::editor::editing;
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::state::{Overlay, State};
use crate::catalog::Catalog;
use crate::predict::{Outline, Verdict, outline};

/// Rows that a page goes up or down.
const PAGE: usize = 10;

/// The findings about a plan with their fixes; each fix once, where it is told first.
#[derive(Debug, Clone)]
pub struct FixesView {
    /// The plan as it is.
    pub now: Outline,
    /// Gravest first, each with the fixes that none before it has.
    pub findings: Vec<Finding>,
    /// The kinds of those whose fixes all stand with a graver one.
    pub told_above: Vec<&'static str>,
    /// The selected fix, counted over all findings.
    pub selected: usize,
}

impl FixesView {
    fn of(editor: &Editor, catalog: &Catalog) -> Result<Self, WhatIfError> {
        let Advice { outline, mut findings } = advice(editor, catalog).ok_or(WhatIfError::InvalidPlan)?;
        let mut told = Vec::new();
        let mut told_above = Vec::new();
        for finding in &mut findings {
            let had = finding.fixes.len();
            finding.fixes.retain(|fix| {
                let first = !told.contains(&fix.change);
                told.push(fix.change.clone());
                first
            });
            if finding.fixes.is_empty() && had > 0 {
                told_above.push(finding.kind);
            }
        }
        if findings.is_empty() {
            return Err(WhatIfError::NothingHelps);
        }
        Ok(Self { now: outline, findings, told_above, selected: 0 })
    }

    /// All fixes, in the order in which they are shown.
    pub fn fixes(&self) -> impl Iterator<Item = &Fix> {
        self.findings.iter().flat_map(|finding| &finding.fixes)
    }
}

fn advice(editor: &Editor, catalog: &Catalog) -> Option<Advice> {
    let (job, prediction) = editor.job().zip(editor.prediction()).filter(|_| editor.faults().is_empty())?;
    Some(advise(editor.plan()?, job, prediction, catalog))
}

/// The first change that makes a plan fit which does not, in a few words.
#[must_use]
pub fn remedy(editor: &Editor, catalog: &Catalog) -> Option<String> {
    editor.prediction().filter(|prediction| prediction.capacity.verdict() == Verdict::DoesNotFit)?;
    Some(advice(editor, catalog)?.remedy()?.name.clone())
}

/// Shows what would help the plan in front.
pub fn open(state: &mut State) {
    match FixesView::of(&state.plans.editor, &state.catalog) {
        Ok(view) => {
            state.dialogs.fixes = Some(view);
            state.dialogs.overlay = Some(Overlay::Fixes);
        }
        Err(why) => state.notice = Some(info(why.to_string())),
    }
}

/// Shows what the operator that is selected in the roofline costs, why, and what would help.
pub fn open_operator(state: &mut State) {
    let pane = &state.views.roofline;
    let editor = &state.plans.editor;
    let valid = editor.job().zip(editor.prediction()).zip(editor.plan());
    let Some(((job, prediction), plan)) = valid else {
        state.notice = Some(info("the plan is not valid"));
        return;
    };
    let Some(op) = pane.ops(&prediction.roofline).nth(pane.selected) else { return };
    let findings = operators(plan, job, prediction, &[&op.name], &state.catalog);
    state.dialogs.fixes = Some(FixesView { now: outline(job), findings, told_above: Vec::new(), selected: 0 });
    state.dialogs.overlay = Some(Overlay::Fixes);
}

/// A key while they are shown: Enter takes the selected one.
pub fn on_key(state: &mut State, key: KeyPress) {
    let Some(view) = &mut state.dialogs.fixes else { return };
    let last = view.fixes().count().saturating_sub(1);
    match key {
        KeyPress::Up | KeyPress::Char('k') => view.selected = view.selected.saturating_sub(1),
        KeyPress::Down | KeyPress::Char('j') => view.selected = (view.selected + 1).min(last),
        KeyPress::PageUp => view.selected = view.selected.saturating_sub(PAGE),
        KeyPress::PageDown => view.selected = (view.selected + PAGE).min(last),
        KeyPress::Home | KeyPress::Char('g') => view.selected = 0,
        KeyPress::End | KeyPress::Char('G') => view.selected = last,
        KeyPress::Enter => take(state),
        _ => close(state),
    }
}

fn close(state: &mut State) {
    state.dialogs.overlay = None;
    state.dialogs.fixes = None;
}

fn take(state: &mut State) {
    let view = state.dialogs.fixes.take();
    close(state);
    let Some(view) = view else { return };
    let Some(fix) = view.fixes().nth(view.selected) else { return };
    match state.plans.editor.with(&fix.change) {
        Ok(document) => {
            editing::apply(state, document);
            state.notice = Some(info(format!("taken; s saves it, u takes it back: {}", fix.line(&view.now))));
        }
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}
