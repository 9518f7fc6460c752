//! What may be written at a place of a plan, from the schema and the catalogue.

use std::borrow::Cow;

use super::spot::{Spot, SpotKind};
use crate::app::editor::Editor;
use crate::app::editor::field::{FIELDS, Field};
use crate::app::picker::choice::Choice;
use crate::app::picker::ranked;
use crate::catalog::Catalog;
use crate::plan::schema;

/// What is offered, best first.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Keys or values.
    pub wanted: SpotKind,
    /// What is offered.
    pub choices: Vec<Choice>,
    /// The selected one.
    pub selected: usize,
    /// Letters before the cursor that it replaces.
    pub typed: usize,
    section: String,
}

impl Completion {
    /// What may be written at `spot`; none where nothing goes on what is typed, or where
    /// nothing is typed and nobody `asked`.
    pub fn at(spot: &Spot, asked: bool, editor: &Editor, catalog: &Catalog) -> Option<Self> {
        let prefix = spot.prefix.trim_end();
        if prefix.is_empty() && !asked {
            return None;
        }
        let choices = match spot.wanted {
            SpotKind::Key => keys(&spot.section, prefix, editor),
            SpotKind::Value => values(spot.key.as_deref()?, catalog),
            SpotKind::Nothing => return None,
        };
        // A key is typed by its name: one that only has the word in its description would take its place.
        let names: Cow<'_, [Choice]> = match spot.wanted {
            SpotKind::Key => choices.iter().map(|choice| Choice::of(&choice.name, "")).collect(),
            _ => Cow::Borrowed(&choices),
        };
        let mut shown: Vec<Choice> = ranked(&names, prefix).into_iter().map(|at| choices[at].clone()).collect();
        if !asked && shown.first().is_some_and(|best| best.name == prefix) {
            shown.clear();
        }
        let typed = spot.prefix.chars().count();
        let section = spot.section.clone();
        let offer = Self { wanted: spot.wanted, choices: shown, selected: 0, typed, section };
        (!offer.choices.is_empty()).then_some(offer)
    }

    /// The selected one.
    #[must_use]
    pub fn choice(&self) -> Option<&Choice> {
        self.choices.get(self.selected)
    }

    /// Moves the selection by so many rows.
    pub fn step(&mut self, rows: isize) {
        let last = self.choices.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(rows).min(last);
    }

    /// Whether the selected one is a key that has further keys below it.
    #[must_use]
    pub fn opens_section(&self) -> bool {
        let path =
            |name: &str| if self.section.is_empty() { name.to_owned() } else { format!("{}.{name}", self.section) };
        self.wanted == SpotKind::Key
            && self
                .choice()
                .and_then(|choice| schema::key(&path(&choice.name)))
                .is_some_and(|key| key.kind == schema::ValueKind::Section)
    }
}

/// The keys that the section does not have yet.
fn keys(section: &str, prefix: &str, editor: &Editor) -> Vec<Choice> {
    schema::children(section)
        .filter(|key| key.name() == prefix || !editor.has(key.path))
        .map(|key| Choice::of(key.name(), key.line))
        .collect()
}

fn values(key: &str, catalog: &Catalog) -> Vec<Choice> {
    let Some(key) = schema::key(key) else { return Vec::new() };
    let field = FIELDS.into_iter().find(|field| field.key() == key.path).unwrap_or(Field::Other(key.path));
    let listed = field.choices(catalog);
    if listed.is_empty() {
        return key.kind.words().iter().map(|word| Choice::of(word.name, word.meaning)).collect();
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::editor::text::TextView;

    const PLAN: &str = "model:\n  preset: gpt2\n  ba\ntraining:\n  precision: bf\n";

    fn offered(text: &str, row: usize, column: usize, asked: bool) -> Vec<String> {
        let catalog = Catalog::embedded().unwrap();
        let editor = Editor::open_text("a".to_owned(), None, text.to_owned(), &catalog);
        let mut view = TextView::open(text, None);
        view.go_to(row, column);
        view.offer(asked, &editor, &catalog);
        view.completion.map_or_else(Vec::new, |all| all.choices.into_iter().map(|choice| choice.name).collect())
    }

    #[test]
    fn keys_and_values_come_from_the_schema() {
        assert_eq!(offered(PLAN, 2, 4, false).first().map(String::as_str), Some("batch_size"));
        let precisions = offered(PLAN, 4, 15, false);
        assert!(precisions.iter().any(|name| name == "bf16-mixed") && !precisions.contains(&"tf32".to_owned()));
        assert!(offered("hardware:\n  gpu_type: h100\n", 1, 16, false)[0].contains("H100"));
    }

    #[test]
    fn nothing_is_offered_before_it_is_asked_for() {
        assert!(offered("training:\n  precision: \n", 1, 13, false).is_empty());
        assert!(offered("training:\n  precision: \n", 1, 13, true).len() > 5);
        assert!(offered("a: 1 # mod", 0, 10, true).is_empty());
    }

    #[test]
    fn a_key_is_found_by_its_name_alone() {
        // model.size_billions has the word only in what explains it: `MODEL_TYPE SIZE BATCH`.
        let names = offered("model:\n  batch\n", 1, 7, false);
        assert!(!names.is_empty() && names.iter().all(|name| name.contains("batch")), "{names:?}");
    }

    #[test]
    fn what_is_taken_replaces_what_was_typed() {
        let catalog = Catalog::embedded().unwrap();
        let editor = Editor::open_text("a".to_owned(), None, PLAN.to_owned(), &catalog);
        let mut view = TextView::open(PLAN, None);
        view.go_to(2, 4);
        view.offer(false, &editor, &catalog);
        assert!(view.complete());
        assert_eq!(view.lines()[2], "  batch_size: ");
    }
}
