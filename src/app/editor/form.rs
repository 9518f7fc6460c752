//! The plan's fields as a form: what they show, and what the values next to theirs are.

use std::sync::LazyLock;

use super::Editor;
use super::field::{FIELDS, Field};
use super::look_around::{FieldSides, KnownNeighbours, Neighbours, sides};
use super::step::{FieldStep, meant, outlook};
use crate::app::what_if::fixes::remedy;
use crate::catalog::Catalog;
use crate::plan::schema;

/// Keys that are a field only where the plan's file says them.
static FURTHER: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let further = schema::keys().iter().filter(|key| FIELDS.iter().all(|known| known.key() != key.path));
    further.map(|key| Field::Other(key.path)).collect()
});

/// State of the form.
#[derive(Debug, Clone, Default)]
pub struct Form {
    /// The selected field, by its place among the shown ones.
    pub selected: usize,
    /// What has been typed, while a value is being typed.
    pub typing: Option<String>,
    /// What the typed value would do; none while it makes no valid plan.
    pub typed: Option<FieldStep>,
    /// A key that is being added: shown last until it has its value.
    pub adding: Option<Field>,
    /// The value below the selected field's.
    pub lower: Option<FieldStep>,
    /// The value above the selected field's.
    pub upper: Option<FieldStep>,
    /// The values beside every field are shown.
    pub all: bool,
    /// What is known of them, and of what makes the plan fit.
    pub(super) known: KnownNeighbours,
}

impl Form {
    /// The fields that mean something for this plan: the ones of every plan, then whatever
    /// else its file says, then the one that is being added.
    #[must_use]
    pub fn fields(&self, editor: &Editor) -> Vec<Field> {
        let experts = editor.job().is_some_and(|job| job.decoder().is_some_and(|decoder| decoder.moe.is_some()));
        // What shares states out, where ranks have any to share and the framework does not come with its own.
        let has_engines = editor.job().is_some_and(|job| {
            let degrees = &job.degrees;
            degrees.data.saturating_mul(degrees.context) > 1 && !degrees.engine.is_megatron() && !editor.serves()
        });
        let relevant = |field: &Field| match field {
            Field::ExpertParallel => experts || editor.is_written(*field),
            Field::Engine => has_engines || editor.is_written(*field),
            // What only training has.
            Field::Optimizer | Field::Checkpointing => !editor.serves() || editor.is_written(*field),
            _ => true,
        };
        let further = FURTHER.iter().copied().filter(|field| editor.is_value(field.key()));
        let mut fields: Vec<Field> = FIELDS.into_iter().filter(relevant).chain(further).collect();
        fields.extend(self.adding.filter(|adding| !fields.contains(adding)));
        fields
    }

    /// The selected field.
    #[must_use]
    pub fn field(&self, editor: &Editor) -> Option<Field> {
        self.fields(editor).get(self.selected).copied()
    }

    /// Selects the field of that key, where it is shown.
    pub fn select(&mut self, key: &str, editor: &Editor) {
        if let Some(at) = self.fields(editor).iter().position(|field| field.key() == key) {
            self.selected = at;
        }
    }

    /// The fields whose neighbouring values are shown, the selected one first.
    pub(super) fn shown_fields(&self, editor: &Editor) -> Vec<Field> {
        let fields = self.fields(editor);
        let rest = if self.all { fields.as_slice() } else { &[] };
        let selected = fields.get(self.selected).copied();
        selected.into_iter().chain(rest.iter().copied().filter(|field| Some(*field) != selected)).collect()
    }

    /// Shows what is known of the values beside the selected field, and beside `all` where those are shown.
    pub fn look_around(&mut self, all: bool, editor: &Editor) {
        self.all = all;
        self.known.follow(editor);
        let own = self.field(editor).and_then(|field| self.known.sides(field).cloned());
        [self.lower, self.upper] = own.unwrap_or_default();
    }

    /// Finds out at once what the values beside the selected field would do, and what makes the plan fit.
    pub fn look_at_once(&mut self, editor: &Editor, catalog: &Catalog) {
        self.known.follow(editor);
        let own = self.field(editor).map(|field| (field, sides(field, editor, catalog)));
        let remedy = Some(remedy(editor, catalog));
        self.known.take(Neighbours { sides: own.into_iter().collect(), remedy });
        self.look_around(false, editor);
    }

    /// What lies beside a field; none while that is being found out.
    #[must_use]
    pub fn sides(&self, field: Field) -> Option<&FieldSides> {
        self.known.sides(field)
    }

    /// Whether the values beside the selected field are known.
    #[must_use]
    pub fn is_known(&self, editor: &Editor) -> bool {
        self.field(editor).is_none_or(|field| self.known.sides(field).is_some())
    }

    /// The cheapest change that makes the plan fit, where it does not fit and that is known.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.known.remedy()
    }

    /// Works out what the value that is being typed would do.
    pub fn look_at_typed(&mut self, editor: &Editor, catalog: &Catalog) {
        let typed = self.typing.as_deref().filter(|typed| !typed.trim().is_empty());
        self.typed = typed.zip(self.field(editor)).and_then(|(typed, field)| {
            let value = meant(field, typed.trim(), catalog);
            outlook(field, &value, editor, catalog)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::editor::editing::{add, add_key, take_value};
    use crate::app::state::State;
    use crate::plan::LoadedPlan;
    use crate::plan::schema::ValueKind;
    use crate::reading::Moment;

    /// A value that its kind allows, as people type it.
    fn typed(kind: ValueKind) -> String {
        match kind {
            ValueKind::Word(words) | ValueKind::WordOrSection(words) => words[0].name.to_owned(),
            ValueKind::Words(words) => format!("[{}]", words[0].name),
            ValueKind::Whole { min, .. } => min.max(1).to_string(),
            ValueKind::Wholes { .. } | ValueKind::Texts => "[]".to_owned(),
            ValueKind::Choice(numbers) => numbers[0].to_string(),
            ValueKind::Positive { .. } | ValueKind::Amount { .. } | ValueKind::Share => "0.5".to_owned(),
            ValueKind::Flag | ValueKind::FlagOrAmount => "true".to_owned(),
            ValueKind::Text | ValueKind::PathOrKeys | ValueKind::Section => "some text".to_owned(),
        }
    }

    #[test]
    fn every_key_of_the_plan_file_is_reached() {
        let catalog = Catalog::embedded().unwrap();
        // On several GPUs no allocator is replayed for each of the plans on the way.
        let plan = LoadedPlan::from_text("a", "model: {batch_size: 8}\ncluster: {num_gpus: 8}\n").unwrap();
        let fresh = State::new(plan, catalog, None, Moment(0));
        let mut listing = fresh.clone();
        add_key(&mut listing);
        let offered: Vec<String> =
            listing.dialogs.picker.unwrap().choices.into_iter().map(|choice| choice.name).collect();
        for key in schema::keys().iter().filter(|key| key.kind != ValueKind::Section) {
            assert!(fresh.plans.editor.has(key.path) || offered.iter().any(|name| name == key.path), "{}", key.path);
            let mut state = fresh.clone();
            add(&mut state, key.path);
            let field = state.plans.form.field(&state.plans.editor).unwrap();
            assert_eq!(field.key(), key.path);
            assert!(
                state.dialogs.picker.is_some() || state.plans.form.typing.is_some(),
                "{}: no value can be given",
                key.path
            );
            take_value(&mut state, field, &typed(key.kind));
            let document = state.plans.editor.document().unwrap();
            assert!(document.value(key.path).is_some(), "{}: {}", key.path, state.plans.editor.text());
        }
    }
}
