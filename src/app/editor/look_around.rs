//! What the values beside each field would do. Each is a prediction of its own, so that they are worked out beside the
//! loop: a key waits for none of them. What was found is kept as long as the plan is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::field::Field;
use super::step::{Direction, FieldStep, step};
use super::{Editor, EvaluatedPlan};
use crate::app::event::Effect;
use crate::app::pane::Pane;
use crate::app::state::State;
use crate::app::what_if::fixes::remedy;
use crate::catalog::Catalog;
use crate::predict::Verdict;

/// The values below and above a field's own; none where there is none that makes a valid plan.
pub type FieldSides = [Option<FieldStep>; 2];

/// What was found out about a plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Neighbours {
    /// What lies beside fields, by their keys.
    pub sides: Vec<(Field, FieldSides)>,
    /// The cheapest change that makes the plan fit, or that there is none; where that was asked.
    pub remedy: Option<Option<String>>,
}

/// What is known of one plan, and what is being found out.
#[derive(Debug, Clone, Default)]
pub struct KnownNeighbours {
    of: EvaluatedPlan,
    sides: BTreeMap<&'static str, FieldSides>,
    remedy: Option<Option<String>>,
    /// The newest question.
    number: u64,
    asked: Option<Topics>,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Topics {
    Fields(Vec<Field>),
    Remedy,
}

impl KnownNeighbours {
    /// Forgets what was found about another plan.
    pub(super) fn follow(&mut self, editor: &Editor) {
        let now = editor.evaluated();
        if self.of != now {
            *self = Self { of: now, number: self.number, ..Self::default() };
        }
    }

    /// What lies beside a field; none while that is being found out.
    pub(super) fn sides(&self, field: Field) -> Option<&FieldSides> {
        self.sides.get(field.key())
    }

    /// The cheapest change that makes the plan fit, once it is known.
    pub(super) fn remedy(&self) -> Option<&str> {
        self.remedy.as_ref()?.as_deref()
    }

    pub(super) fn take(&mut self, found: Neighbours) {
        self.sides.extend(found.sides.into_iter().map(|(field, sides)| (field.key(), sides)));
        self.remedy = found.remedy.or_else(|| self.remedy.take());
    }

    /// What is to be found out next: the first of the fields alone, as a hand may be on it, then the rest, then what
    /// makes the plan fit.
    fn unknown(&self, fields: &[Field], editor: &Editor) -> Option<Topics> {
        if let Some(first) = fields.first().filter(|first| self.sides(**first).is_none()) {
            return Some(Topics::Fields(vec![*first]));
        }
        let rest: Vec<Field> = fields.iter().copied().filter(|field| self.sides(*field).is_none()).collect();
        if !rest.is_empty() {
            return Some(Topics::Fields(rest));
        }
        let misfit = editor.prediction().is_some_and(|plan| plan.capacity.verdict() == Verdict::DoesNotFit);
        (misfit && self.remedy.is_none()).then_some(Topics::Remedy)
    }

    /// Whether a question that is under way answers that one too.
    fn awaits(&self, topics: &Topics) -> bool {
        match (&self.asked, topics) {
            (Some(Topics::Fields(asked)), Topics::Fields(fields)) => fields.iter().all(|field| asked.contains(field)),
            (asked, topics) => asked.as_ref() == Some(topics),
        }
    }
}

/// Asks for what is shown and not known yet, in place of what was asked before; nothing while the text is edited,
/// which shows none of it.
pub fn ask(state: &mut State) -> Option<Effect> {
    let plans = &mut state.plans;
    if plans.text.is_some() || plans.editor.prediction().is_none() {
        return None;
    }
    let fields = plans.form.shown_fields(&plans.editor);
    let known = &mut plans.form.known;
    known.follow(&plans.editor);
    let topics = known.unknown(&fields, &plans.editor)?;
    if known.awaits(&topics) {
        return None;
    }
    known.number += 1;
    known.asked = Some(topics);
    Some(Effect::LookAround(known.number))
}

/// An answer has come.
pub fn arrived(state: &mut State, number: u64, found: Neighbours) {
    let form = &mut state.plans.form;
    if number != form.known.number || form.known.of != state.plans.editor.evaluated() {
        return;
    }
    form.known.asked = None;
    form.known.take(found);
    let all = state.views.zoomed && state.views.focus == Pane::Plan;
    form.look_around(all, &state.plans.editor);
}

/// Everything that an answer takes: it can be found anywhere.
#[derive(Debug, Clone)]
pub struct LookAround {
    editor: Editor,
    catalog: Arc<Catalog>,
    topics: Topics,
}

impl LookAround {
    /// What was asked last; none where that is not of the plan in front any more.
    #[must_use]
    pub fn of(state: &State) -> Option<Self> {
        let known = &state.plans.form.known;
        let topics = known.asked.clone().filter(|_| known.of == state.plans.editor.evaluated())?;
        Some(Self { editor: state.plans.editor.without_texts(), catalog: Arc::clone(&state.catalog), topics })
    }

    /// The answer; none where `is_cancelled` before it is found. Takes some predictions for each field.
    #[must_use]
    pub fn answer(&self, is_cancelled: impl Fn() -> bool) -> Option<Neighbours> {
        match &self.topics {
            Topics::Fields(fields) => fields_sides(fields, &self.editor, &self.catalog, is_cancelled),
            Topics::Remedy if is_cancelled() => None,
            Topics::Remedy => {
                Some(Neighbours { remedy: Some(remedy(&self.editor, &self.catalog)), ..Neighbours::default() })
            }
        }
    }
}

fn fields_sides(
    fields: &[Field],
    editor: &Editor,
    catalog: &Catalog,
    is_cancelled: impl Fn() -> bool,
) -> Option<Neighbours> {
    let mut found = Neighbours::default();
    for field in fields {
        if is_cancelled() {
            return None;
        }
        found.sides.push((*field, sides(*field, editor, catalog)));
    }
    Some(found)
}

/// The values beside one field.
pub(super) fn sides(field: Field, editor: &Editor, catalog: &Catalog) -> FieldSides {
    [Direction::Less, Direction::More].map(|direction| step(field, direction, editor, catalog))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::event::Event;
    use crate::app::key::KeyPress;
    use crate::app::update::update;
    use crate::plan::LoadedPlan;
    use crate::reading::Moment;

    fn state() -> State {
        let text = "model: {preset: gpt2, batch_size: 8, sequence_length: 1024}\n";
        let plan = LoadedPlan::from_text("a", text).unwrap();
        let mut state = State::new(plan, Catalog::embedded().unwrap(), None, Moment(0));
        state.plans.form.select("model.batch_size", &state.plans.editor);
        press(&mut state, KeyPress::Up);
        let asked = press(&mut state, KeyPress::Down);
        assert_eq!(answer(&mut state, asked[0]), []);
        state
    }

    fn press(state: &mut State, key: KeyPress) -> Vec<u64> {
        let effects = update(state, Event::Key(key)).into_iter();
        effects.filter_map(|effect| if let Effect::LookAround(number) = effect { Some(number) } else { None }).collect()
    }

    fn answer(state: &mut State, number: u64) -> Vec<Effect> {
        let found = LookAround::of(state).unwrap().answer(|| false).unwrap();
        update(state, Event::LookedAround { number, found: Box::new(found) })
    }

    fn batch(state: &State) -> u64 {
        state.plans.editor.job().unwrap().batch.global
    }

    #[test]
    fn a_key_that_comes_before_the_answer_takes_the_same_value_and_supersedes_the_question() {
        let mut state = state();
        assert!(state.plans.form.is_known(&state.plans.editor));
        let first = press(&mut state, KeyPress::Right);
        assert_eq!((batch(&state), first.len()), (16, 1));
        let late = LookAround::of(&state).unwrap().answer(|| false).unwrap();
        let second = press(&mut state, KeyPress::Right);
        assert_eq!(batch(&state), 32);
        assert!(second[0] > first[0]);
        // The answer to what is not asked any more says nothing.
        update(&mut state, Event::LookedAround { number: first[0], found: Box::new(late) });
        assert!(!state.plans.form.is_known(&state.plans.editor));
        assert_eq!(answer(&mut state, second[0]), []);
        assert_eq!(state.plans.form.upper.as_ref().unwrap().value, "64");
        // All samples at once are one micro batch: there is no half of it.
        assert_eq!(state.plans.form.lower, None);
    }

    #[test]
    fn a_cancelled_question_has_no_answer() {
        let mut state = state();
        press(&mut state, KeyPress::Right);
        assert_eq!(LookAround::of(&state).unwrap().answer(|| true), None);
    }

    #[test]
    fn the_zoomed_form_asks_for_the_selected_field_first_and_for_each_field_once() {
        let mut state = state();
        press(&mut state, KeyPress::Char('z'));
        let asked = press(&mut state, KeyPress::Right);
        let own = LookAround::of(&state).unwrap();
        assert_eq!(own.topics, Topics::Fields(vec![Field::Batch]));
        let effects = answer(&mut state, asked[0]);
        let [Effect::LookAround(rest)] = effects[..] else { panic!("{effects:?}") };
        // Another selection waits for the answer that is under way.
        assert!(press(&mut state, KeyPress::Down).is_empty());
        assert_eq!(answer(&mut state, rest), []);
        for field in state.plans.form.fields(&state.plans.editor) {
            assert!(state.plans.form.sides(field).is_some(), "{}", field.key());
        }
        assert!(press(&mut state, KeyPress::Down).is_empty());
    }
}
