//! The plan's fields as a form: what they show, and what the values next to theirs are.

use super::editor::Editor;
use super::field::{FIELDS, Field};
use super::step::{Direction, Step, step};
use crate::catalog::Catalog;

/// State of the form.
#[derive(Debug, Clone, Default)]
pub struct Form {
    /// The selected field, by its place among the shown ones.
    pub selected: usize,
    /// What has been typed, while a value is being typed.
    pub typing: Option<String>,
    /// The value below the selected field's.
    pub lower: Option<Step>,
    /// The value above the selected field's.
    pub upper: Option<Step>,
}

impl Form {
    /// The fields that mean something for this plan.
    #[must_use]
    pub fn fields(editor: &Editor) -> Vec<Field> {
        let experts = editor.job().is_some_and(|job| job.decoder().is_some_and(|decoder| decoder.moe.is_some()));
        let relevant = |field: &Field| match field {
            Field::ExpertParallel => experts || editor.is_written(*field),
            _ => true,
        };
        FIELDS.into_iter().filter(relevant).collect()
    }

    /// The selected field.
    #[must_use]
    pub fn field(&self, editor: &Editor) -> Option<Field> {
        Self::fields(editor).get(self.selected).copied()
    }

    /// Works out the neighbouring values of the selected field.
    pub fn look_around(&mut self, editor: &Editor, catalog: &Catalog) {
        let field = self.field(editor);
        let step = |direction| step(field?, direction, editor, catalog);
        self.lower = step(Direction::Less);
        self.upper = step(Direction::More);
    }

    /// The names that what has been typed may stand for, best first.
    #[must_use]
    pub fn matches(&self, editor: &Editor, catalog: &Catalog, typed: &str) -> Vec<String> {
        self.field(editor).map_or_else(Vec::new, |field| field.matches(typed, catalog))
    }
}
