//! Changes of a plan, and the way back.

use std::ops::Range;
use std::sync::Arc;

use super::{Editor, LastPrediction, ReadingState};
use crate::catalog::Catalog;
use crate::plan::Document;
use crate::reading::Moment;
use crate::units::Seconds;

/// A line that has not been typed in for so long says what is meant.
const STANDS: Seconds = Seconds(3.0);

/// A line that is being typed: what it says half-way is nobody's plan, valid or not.
#[derive(Debug, Clone)]
pub(super) struct Typing {
    /// The plan before it began.
    pub before: Option<Arc<LastPrediction>>,
    /// The byte at which the line begins.
    line: usize,
    /// The last key.
    at: Moment,
}

impl Editor {
    /// Makes `document` the plan; the one before can be had back.
    pub fn apply(&mut self, document: Document, catalog: &Catalog) {
        self.revisions.note(&self.text, document.text(), false);
        document.text().clone_into(&mut self.text);
        self.typing = None;
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
        self.typing = None;
        self.text = text;
        self.follow_text(catalog);
    }

    /// Puts `inserted` in the place of those bytes at that time: what a key changes of a large text is small. Otherwise
    /// as [`Self::set_text`].
    pub fn splice(&mut self, place: Range<usize>, inserted: &str, (typed, at): (bool, Moment), catalog: &Catalog) {
        let Some(removed) = self.text.get(place.clone()).filter(|removed| *removed != inserted) else { return };
        self.revisions.note_at(place.start, removed, inserted, typed);
        let line = self.text[..place.start].rfind('\n').map_or(0, |end| end + 1);
        let goes_on = |typing: &Typing| typing.line == line && at.since(typing.at) < STANDS;
        let before = self.typing.take().filter(goes_on).map_or_else(|| self.good.clone(), |typing| typing.before);
        self.typing = Some(Typing { before, line, at });
        self.text.replace_range(place, inserted);
        self.follow_text(catalog);
    }

    /// Takes back the last change; the byte at which it was. None when there is none.
    pub fn undo(&mut self, catalog: &Catalog) -> Option<usize> {
        let (text, at) = self.revisions.undo(&self.text)?;
        self.text = text;
        self.typing = None;
        self.follow_undone_merge();
        self.follow_text(catalog);
        Some(at)
    }

    /// Makes a change again that was taken back; the byte at which it is. None when there is none.
    pub fn redo(&mut self, catalog: &Catalog) -> Option<usize> {
        let (text, at) = self.revisions.redo(&self.text)?;
        self.follow_redone_merge();
        self.text = text;
        self.typing = None;
        self.follow_text(catalog);
        Some(at)
    }
}
