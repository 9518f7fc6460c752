//! What a search may not change: chosen from lists, and searched under again.

use super::{BATCH, Constraint};
use crate::advise::KNOBS;
use crate::app::editor::Editor;
use crate::app::editor::field::Field;
use crate::app::editor::step::{meant, with_value};
use crate::app::event::Effect;
use crate::app::notice::problem;
use crate::app::picker::choice::Choice;
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::state::State;
use crate::catalog::Catalog;
use crate::plan::{Change, Fault};

/// Lists what a constraint may be.
pub(super) fn choose(state: &mut State, constraint: Constraint) {
    let Some(view) = &state.dialogs.search else { return };
    let (choices, now) = match constraint {
        Constraint::Value(field) => {
            let now = view.around.shown(field);
            let mut choices = field.choices(&state.catalog);
            if choices.is_empty() {
                let powers = if field == Field::Sequence { 7..21 } else { 0..14 };
                choices = powers.map(|power| Choice::of(&(1_u64 << power).to_string(), "")).collect();
            }
            (choices, Some(now))
        }
        Constraint::Keep => {
            let word = |knob: &str| if view.keep.contains(&knob) { "stays; choose it to free it" } else { "free" };
            let batch = if view.free_batch {
                "free: an eighth to eight times the plan's"
            } else {
                "stays; choose it to free it"
            };
            let knobs = KNOBS.iter().map(|knob| Choice::of(knob, word(knob)));
            (std::iter::once(Choice::of(BATCH, batch)).chain(knobs).collect(), None)
        }
    };
    state.dialogs.picker = Some(Picker::open(PickerPurpose::Constraint(constraint), choices, now.as_deref()));
}

/// Searches under another constraint.
pub fn constrain(state: &mut State, constraint: Constraint, taken: &str) -> Vec<Effect> {
    let Some(view) = &mut state.dialogs.search else { return Vec::new() };
    match constraint {
        Constraint::Keep if taken == BATCH => view.free_batch = !view.free_batch,
        Constraint::Keep => {
            let Some(knob) = KNOBS.into_iter().find(|knob| *knob == taken) else { return Vec::new() };
            match view.keep.iter().position(|kept| *kept == knob) {
                Some(at) => drop(view.keep.remove(at)),
                None => view.keep.push(knob),
            }
        }
        Constraint::Value(field) => {
            let value = meant(field, taken, &state.catalog);
            // Knobs that only suited another value are the search's to choose.
            let around = constrained(&view.around, field, &value, &state.catalog).or_else(|fault| {
                let freed = freed(&view.around, &view.keep, &state.catalog).ok_or(fault)?;
                constrained(&freed, field, &value, &state.catalog)
            });
            match around {
                Ok(around) => view.around = around,
                Err(fault) => {
                    state.notice = Some(problem(fault.to_string()));
                    return Vec::new();
                }
            }
        }
    }
    view.begin()
}

/// The plan with another value; a fault where that makes no valid one.
fn constrained(around: &Editor, field: Field, value: &str, catalog: &Catalog) -> Result<Editor, Fault> {
    let mut around = around.clone();
    around.apply(with_value(field, value, &around, catalog)?, catalog);
    around.faults().first().cloned().map_or(Ok(around), Err)
}

/// The plan without a word on the knobs that need not stay.
fn freed(around: &Editor, keep: &[&str], catalog: &Catalog) -> Option<Editor> {
    let remove = KNOBS.into_iter().filter(|knob| !keep.contains(knob)).collect();
    let document = around.document()?.changed(&Change { set: Vec::new(), remove }).ok()?;
    let mut around = around.clone();
    around.apply(document, catalog);
    Some(around)
}
