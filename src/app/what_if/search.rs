//! The best plans over every knob, under the user's constraints: asked for, watched while they are
//! searched, and taken into the plan.

mod constraints;

use super::WhatIfError;
use std::sync::Arc;

use constraints::choose;
pub use constraints::constrain;

use crate::advise::{
    FewestGpus, LargestModel, Limit, RankedPlan, Request, SearchOutcome, SearchProgress, SearchStatus, SmallestChange,
    fewest_gpus, fold, largest_model, search_aloud, smallest_change,
};
use crate::app::editor::Editor;
use crate::app::editor::editing;
use crate::app::editor::field::Field;
use crate::app::event::Effect;
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::state::{Dialogs, Overlay, State};
use crate::catalog::Catalog;
use crate::plan::{Fault, Plan};

/// Plans that are told apart.
const TOP: usize = 30;

/// Stays as it is unless it is freed: another batch trains another way.
const BATCH: &str = "model.batch_size";

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aim {
    /// The fastest plans that fit.
    #[default]
    Fastest,
    /// The fewest changed keys after which the plan fits.
    SmallestChange,
    /// The fewest GPUs on which the model fits.
    FewestGpus,
    /// The largest model that fits on these GPUs.
    LargestModel,
}

impl Aim {
    /// In words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::SmallestChange => "smallest change",
            Self::FewestGpus => "fewest GPUs",
            Self::LargestModel => "largest model",
        }
    }

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Fastest => Self::SmallestChange,
            Self::SmallestChange => Self::FewestGpus,
            Self::FewestGpus => Self::LargestModel,
            Self::LargestModel => Self::Fastest,
        }
    }
}

/// What can be chosen of a search besides its aim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraint {
    /// A value of the plan that is no knob.
    Value(Field),
    /// A knob that stays as it is, or is free again.
    Keep,
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Plans, by speed.
    Plans(SearchOutcome),
    /// The plans that fit after the fewest changes; none where no few are enough.
    Change(Option<SmallestChange>),
    /// How many GPUs are needed, and with which plan.
    Gpus(Limit<FewestGpus>),
    /// The largest models.
    Model(Box<Limit<LargestModel>>),
}

/// One line of what was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRow<'a> {
    /// Its rank, or what it is a plan for.
    pub label: String,
    /// The plan.
    pub plan: &'a RankedPlan,
    /// What may be set otherwise, each alone, at the same speed.
    pub alike: Vec<String>,
}

/// A search: what is asked, how far it is, what it has found.
#[derive(Debug, Clone)]
pub struct SearchView {
    /// The plan that is searched around: the one in front, with the constraints in it.
    pub around: Editor,
    /// Knobs that stay.
    pub keep: Vec<&'static str>,
    /// Batch and accumulation vary too.
    pub free_batch: bool,
    /// What is searched for.
    pub aim: Aim,
    /// How far it is; none once it has ended.
    pub under_way: Option<SearchStatus>,
    /// What was found, or why nothing could be.
    pub answer: Option<Result<Answer, WhatIfError>>,
    /// Memory against speed is listed, not the fastest.
    pub front: bool,
    /// The selected line.
    pub selected: usize,
    /// Which search it is of all.
    number: u64,
}

impl SearchView {
    /// What is listed.
    #[must_use]
    pub fn rows(&self) -> Vec<SearchRow<'_>> {
        let row = |label: String, plan| SearchRow { label, plan, alike: Vec::new() };
        match self.answer.as_ref() {
            Some(Ok(Answer::Plans(found))) => {
                let closest = found.nearest.iter().map(|plan| row("–".to_owned(), plan));
                if self.front {
                    let numbered = found.front.iter().enumerate().map(|(at, plan)| row((at + 1).to_string(), plan));
                    return numbered.chain(closest).collect();
                }
                let folded = fold(&found.ranked).into_iter().enumerate();
                let folded =
                    folded.map(|(at, one)| SearchRow { alike: one.alike, ..row((at + 1).to_string(), one.plan) });
                folded.chain(closest).collect()
            }
            Some(Ok(Answer::Change(found))) => {
                let keys = |keys| if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") };
                found
                    .iter()
                    .flat_map(|found| found.plans.iter().map(|one| row(keys(found.keys), &one.ranked)))
                    .collect()
            }
            Some(Ok(Answer::Gpus(found))) => {
                found.apart().into_iter().map(|(gpus, plan)| row(format!("{gpus} GPUs"), plan)).collect()
            }
            Some(Ok(Answer::Model(found))) => {
                let plans = found.apart().into_iter().flat_map(LargestModel::plans);
                plans.map(|(label, plan)| row(label, plan)).collect()
            }
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// The plans of which none is better in both memory and speed, fastest first.
    #[must_use]
    pub fn front(&self) -> &[RankedPlan] {
        match self.answer.as_ref() {
            Some(Ok(Answer::Plans(found))) => &found.front,
            _ => &[],
        }
    }

    /// The fastest plan that fits.
    #[must_use]
    pub fn best(&self) -> Option<&RankedPlan> {
        match self.answer.as_ref() {
            Some(Ok(Answer::Plans(found))) => found.ranked.first(),
            _ => None,
        }
    }

    fn step(&mut self, rows: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(rows).min(last);
    }

    /// Begins to search anew.
    fn begin(&mut self) -> Vec<Effect> {
        self.number += 1;
        self.under_way = Some(SearchProgress::default().seen());
        self.answer = None;
        self.selected = 0;
        self.front = false;
        vec![Effect::Search(self.number)]
    }
}

/// Everything that a search reads: it can be answered anywhere.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    plan: Plan,
    keep: Vec<&'static str>,
    free_batch: bool,
    aim: Aim,
    catalog: Arc<Catalog>,
}

impl SearchRequest {
    /// What is searched for now; none without a valid plan.
    #[must_use]
    pub fn of(state: &State) -> Option<Self> {
        let view = state.dialogs.search.as_ref()?;
        let plan = view.around.plan()?.clone();
        let (keep, free_batch) = (view.keep.clone(), view.free_batch);
        Some(Self { plan, keep, free_batch, aim: view.aim, catalog: Arc::clone(&state.catalog) })
    }

    /// Searches. `tell` may be given what was found so far, which is made where it is asked for.
    ///
    /// # Errors
    /// In one line, why there is nothing to search.
    pub fn answer(&self, progress: &SearchProgress, tell: &dyn Fn(&dyn Fn() -> Answer)) -> Result<Answer, WhatIfError> {
        let (keep, free_batch) = (self.keep.clone(), self.free_batch);
        let request = Request { plan: &self.plan, keep, top: TOP, free_batch };
        let why = |faults: Vec<Fault>| faults.into_iter().next().map_or(WhatIfError::InvalidPlan, WhatIfError::Refused);
        let answer = match self.aim {
            Aim::Fastest => {
                let aloud = |found: &dyn Fn() -> SearchOutcome| tell(&|| Answer::Plans(found()));
                search_aloud(&request, &self.catalog, progress, &aloud).map(Answer::Plans)
            }
            Aim::SmallestChange => smallest_change(&request, &self.catalog, progress).map(Answer::Change),
            Aim::FewestGpus => fewest_gpus(&request, &self.catalog, progress).map(Answer::Gpus),
            Aim::LargestModel => {
                largest_model(&request, &self.catalog, progress).map(|found| Answer::Model(Box::new(found)))
            }
        };
        answer.map_err(why)
    }
}

/// Opens the search around the plan in front; a search of that same plan is there still.
pub fn open(state: &mut State) -> Vec<Effect> {
    if state.plans.editor.plan().is_none() {
        state.notice = Some(problem("the plan is not valid: there is nothing to search around"));
        return Vec::new();
    }
    state.dialogs.overlay = Some(Overlay::Search);
    let known = state.dialogs.search.as_ref().is_some_and(|view| view.around.text() == state.plans.editor.text());
    if known && state.dialogs.search.as_ref().is_some_and(|view| view.answer.is_some() || view.under_way.is_some()) {
        return Vec::new();
    }
    let number = state.dialogs.search.as_ref().map_or(0, |view| view.number);
    let mut view = SearchView {
        around: state.plans.editor.clone(),
        keep: Vec::new(),
        free_batch: false,
        aim: Aim::default(),
        under_way: None,
        answer: None,
        front: false,
        selected: 0,
        number,
    };
    let effects = view.begin();
    state.dialogs.search = Some(view);
    effects
}

/// A search is so far, and has perhaps found this by now.
pub fn goes_on(dialogs: &mut Dialogs, number: u64, seen: SearchStatus, found: Option<Answer>) {
    let Some(view) = dialogs.search.as_mut().filter(|view| view.number == number && view.under_way.is_some()) else {
        return;
    };
    view.under_way = Some(seen);
    if let Some(found) = found {
        view.answer = Some(Ok(found));
        view.step(0);
    }
}

/// A search has ended.
pub fn ended(dialogs: &mut Dialogs, number: u64, answer: Result<Answer, WhatIfError>) {
    let Some(view) = dialogs.search.as_mut().filter(|view| view.number == number) else { return };
    view.under_way = None;
    view.answer = Some(answer);
    view.step(0);
}

/// A key while a search is shown.
pub fn on_key(state: &mut State, key: KeyPress) -> Vec<Effect> {
    let Some(view) = &mut state.dialogs.search else {
        state.dialogs.overlay = None;
        return Vec::new();
    };
    match key {
        KeyPress::Up => view.step(-1),
        KeyPress::Down => view.step(1),
        KeyPress::PageUp | KeyPress::Home => view.step(isize::MIN),
        KeyPress::PageDown | KeyPress::End => view.step(isize::MAX),
        KeyPress::Tab => {
            view.front = !view.front;
            view.selected = 0;
        }
        KeyPress::Char('g') => choose(state, Constraint::Value(Field::NumGpus)),
        KeyPress::Char('u') => choose(state, Constraint::Value(Field::Gpu)),
        KeyPress::Char('b') => choose(state, Constraint::Value(Field::Batch)),
        KeyPress::Char('s') => choose(state, Constraint::Value(Field::Sequence)),
        KeyPress::Char('m') => choose(state, Constraint::Value(Field::Model)),
        KeyPress::Char('f') => choose(state, Constraint::Value(Field::Framework)),
        KeyPress::Char('k') => choose(state, Constraint::Keep),
        KeyPress::Char('a') => {
            view.aim = view.aim.next();
            return view.begin();
        }
        KeyPress::Char('c') if view.under_way.is_some() => return vec![Effect::CancelSearch],
        KeyPress::Enter => take(state),
        _ => {
            state.dialogs.overlay = None;
            if view.under_way.is_some() {
                return vec![Effect::CancelSearch];
            }
        }
    }
    Vec::new()
}

/// Puts the selected plan, and the constraints that it was found under, into the plan: one edit.
fn take(state: &mut State) {
    let Some(view) = &state.dialogs.search else { return };
    let rows = view.rows();
    let Some((document, row)) = view.around.document().zip(rows.get(view.selected)) else { return };
    match document.changed(&row.plan.change) {
        Ok(document) => {
            let words = row.plan.change.words();
            let said = if words.is_empty() {
                "the plan is that already".to_owned()
            } else {
                format!("taken; s saves it, u takes it back: {words}")
            };
            state.dialogs.overlay = None;
            editing::apply(state, document);
            state.notice = Some(info(said));
        }
        Err(fault) => state.notice = Some(problem(fault.to_string())),
    }
}
