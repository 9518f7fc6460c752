//! Changes of a plan, and the way back.

use std::ops::Range;
use std::sync::Arc;

use super::{Editor, ReadingState};
use crate::catalog::Catalog;
use crate::plan::Document;

impl Editor {
    /// Makes `document` the plan; the one before can be had back.
    pub fn apply(&mut self, document: Document, catalog: &Catalog) {
        self.revisions.note(&self.text, document.text(), false);
        document.text().clone_into(&mut self.text);
        self.document = Some(Arc::new(document));
        self.standing = ReadingState::Read;
        self.evaluate_again(catalog);
    }

    /// Makes `text` the plan's; the one before can be had back. `typed`: letter by letter, so
    /// that a word is taken back at once.
    pub fn set_text(&mut self, text: String, typed: bool, catalog: &Catalog) {
        if text == self.text {
            return;
        }
        self.revisions.note(&self.text, &text, typed);
        self.text = text;
        self.follow_text(catalog);
    }

    /// Puts `inserted` in the place of those bytes: what a key changes of a large text is small. Otherwise as
    /// [`Self::set_text`].
    pub fn splice(&mut self, place: Range<usize>, inserted: &str, typed: bool, catalog: &Catalog) {
        let Some(removed) = self.text.get(place.clone()).filter(|removed| *removed != inserted) else { return };
        self.revisions.note_at(place.start, removed, inserted, typed);
        self.text.replace_range(place, inserted);
        self.follow_text(catalog);
    }

    /// Takes back the last change; the byte at which it was. None when there is none.
    pub fn undo(&mut self, catalog: &Catalog) -> Option<usize> {
        let (text, at) = self.revisions.undo(&self.text)?;
        self.text = text;
        self.follow_text(catalog);
        Some(at)
    }

    /// Makes a change again that was taken back; the byte at which it is. None when there is none.
    pub fn redo(&mut self, catalog: &Catalog) -> Option<usize> {
        let (text, at) = self.revisions.redo(&self.text)?;
        self.text = text;
        self.follow_text(catalog);
        Some(at)
    }
}
