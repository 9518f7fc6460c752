//! The plan's fields as a form: what they show, and what the values next to theirs are.

use super::Editor;
use super::field::{FIELDS, Field};
use super::step::{Direction, Step, meant, outlook, step};
use crate::catalog::Catalog;
use crate::plan::schema;

/// State of the form.
#[derive(Debug, Clone, Default)]
pub struct Form {
    /// The selected field, by its place among the shown ones.
    pub selected: usize,
    /// What has been typed, while a value is being typed.
    pub typing: Option<String>,
    /// What the typed value would do; none while it makes no valid plan.
    pub typed: Option<Step>,
    /// A key that is being added: shown last until it has its value.
    pub adding: Option<Field>,
    /// The value below the selected field's.
    pub lower: Option<Step>,
    /// The value above the selected field's.
    pub upper: Option<Step>,
    /// The values below and above every field's, while all are shown.
    pub around: Vec<[Option<Step>; 2]>,
}

impl Form {
    /// The fields that mean something for this plan: the ones of every plan, then whatever
    /// else its file says, then the one that is being added.
    #[must_use]
    pub fn fields(&self, editor: &Editor) -> Vec<Field> {
        let experts = editor.job().is_some_and(|job| job.decoder().is_some_and(|decoder| decoder.moe.is_some()));
        let relevant = |field: &Field| match field {
            Field::ExpertParallel => experts || editor.is_written(*field),
            _ => true,
        };
        let further = schema::keys().iter().map(|key| Field::Other(key.path)).filter(|field| {
            let known = FIELDS.iter().any(|known| known.key() == field.key());
            !known && editor.is_value(field.key())
        });
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

    /// Works out the neighbouring values of the selected field, or of `all`.
    pub fn look_around(&mut self, all: bool, editor: &Editor, catalog: &Catalog) {
        let beside =
            |field| [Direction::Less, Direction::More].map(|direction| step(field, direction, editor, catalog));
        self.around = if all { self.fields(editor).into_iter().map(beside).collect() } else { Vec::new() };
        let own = match self.around.get(self.selected) {
            Some(own) => own.clone(),
            None => self.field(editor).map_or([None, None], beside),
        };
        [self.lower, self.upper] = own;
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
