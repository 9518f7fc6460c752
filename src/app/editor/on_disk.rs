//! What is known of a plan's file: its text, its folder.

use std::path::{Path, PathBuf};

use super::opening::Provenance;
use super::{Editor, named_config};
use crate::plan::name_of;

/// What somebody else wrote and was put into this text: undone, it has to be asked about again.
#[derive(Debug, Clone)]
pub(super) struct MergedText {
    /// The text before.
    ours: String,
    /// What was known to be on disk then.
    base: String,
    theirs: String,
}

/// The folder that a file lies in; empty for the working directory.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Editor {
    /// The text as it is on disk, as far as is known here.
    #[must_use]
    pub fn saved_text(&self) -> &str {
        &self.saved
    }

    /// Differs from what is on disk. What is done to a lesson's plan is an exercise, which nobody keeps.
    #[must_use]
    pub fn modified(&self) -> bool {
        self.text != self.saved && !self.is_lesson()
    }

    /// The folder that relative paths in the plan start from.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `text` is on disk now, at `path`, whose name the plan has from now on. In another folder what the plan names
    /// is read anew.
    pub fn mark_saved(&mut self, path: PathBuf, text: String) {
        self.name = name_of(&path);
        let folder = folder_of(&path);
        if self.folder != folder {
            self.folder = folder.to_owned();
            self.configs.clear();
            self.unread = self.document().and_then(named_config);
        }
        self.path = Some(path);
        (self.is_new, self.provenance) = (false, Provenance::User);
        self.saved = text;
        self.merged = None;
    }

    /// Whatever is unsaved is given up: nothing is to be kept of it.
    pub fn discard_changes(&mut self) {
        self.saved.clone_from(&self.text);
    }

    /// `theirs` is on disk now, and what follows brings it into this text.
    pub fn note_merge(&mut self, theirs: String) {
        let base = std::mem::replace(&mut self.saved, theirs.clone());
        self.merged = Some(MergedText { ours: self.text.clone(), base, theirs });
    }

    /// The last change was taken back: without theirs in it, the text is one that knows nothing of them.
    pub(super) fn follow_undone_merge(&mut self) {
        if let Some(merged) =
            self.merged.as_ref().filter(|merged| self.text == merged.ours && self.saved == merged.theirs)
        {
            self.saved.clone_from(&merged.base);
        }
    }

    /// A change is about to be made again: it may be the merge.
    pub(super) fn follow_redone_merge(&mut self) {
        if let Some(merged) =
            self.merged.as_ref().filter(|merged| self.text == merged.ours && self.saved == merged.base)
        {
            self.saved.clone_from(&merged.theirs);
        }
    }

    /// `text` is on disk now, put there by somebody else.
    pub fn note_on_disk(&mut self, text: String) {
        self.saved = text;
    }
}
