//! How a plan comes into the editor: from a file, as a text, as a copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::revisions::Revisions;
use super::traces::Traces;
use super::{Editor, ReadingState, folder_of, named_config};
use crate::catalog::Catalog;
use crate::plan::{EXAMPLES, LoadedPlan, name_of};

/// Whose plan it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provenance {
    /// Somebody's own.
    User,
    /// It came with the program.
    Example,
    /// A step of the tutorial begins with it.
    Lesson,
}

impl Editor {
    /// Opens a loaded plan.
    #[must_use]
    pub fn open(loaded: LoadedPlan, catalog: &Catalog) -> Self {
        let named = named_config(&loaded.document);
        let configs = named.zip(loaded.plan.model.hf_config.clone().map(Ok)).into_iter().collect();
        let traces = Traces::of(&loaded);
        let mut editor = Self::of(loaded.name, loaded.path, loaded.document.text().to_owned());
        editor.configs = configs;
        editor.traces = traces;
        editor.read_again(catalog);
        editor
    }

    /// Opens a plan that is in no file yet: it counts as modified until it is saved.
    #[must_use]
    pub fn unsaved(loaded: LoadedPlan, catalog: &Catalog) -> Self {
        Self { saved: String::new(), path: None, ..Self::open(loaded, catalog) }
    }

    /// Begins a plan whose file is not there yet.
    #[must_use]
    pub fn new_at(loaded: LoadedPlan, path: &Path, catalog: &Catalog) -> Self {
        let (path, folder) = (Some(path.to_owned()), folder_of(path).to_owned());
        Self { path, folder, is_new: true, ..Self::unsaved(loaded, catalog) }
    }

    /// A plan whose file is not there yet, before anybody has said what it begins with: nothing is predicted of it.
    #[must_use]
    pub fn unbegun(path: &Path) -> Self {
        Self { is_new: true, ..Self::of(name_of(path), Some(path.to_owned()), String::new()) }
    }

    /// Opens a text as it stands, which need not be a plan yet.
    #[must_use]
    pub fn open_text(name: String, path: Option<PathBuf>, text: String, catalog: &Catalog) -> Self {
        let mut editor = Self::of(name, path, text);
        editor.read_again(catalog);
        editor
    }

    /// Opens the plan of a step of the tutorial.
    #[must_use]
    pub fn lesson(name: String, text: &str, catalog: &Catalog) -> Self {
        Self { provenance: Provenance::Lesson, ..Self::open_text(name, None, text.to_owned(), catalog) }
    }

    /// Whether it is a plan that came with the program.
    #[must_use]
    pub fn is_example(&self) -> bool {
        self.provenance == Provenance::Example
    }

    /// Whether it is the plan of a step of the tutorial, which has nothing to do with what runs.
    #[must_use]
    pub fn is_lesson(&self) -> bool {
        self.provenance == Provenance::Lesson
    }

    fn of(name: String, path: Option<PathBuf>, text: String) -> Self {
        let is_example = path.is_none() && EXAMPLES.iter().any(|(example, _)| *example == name);
        Self {
            provenance: if is_example { Provenance::Example } else { Provenance::User },
            name,
            folder: path.as_deref().map(|path| folder_of(path).to_owned()).unwrap_or_default(),
            path,
            saved: text.clone(),
            merged: None,
            is_new: false,
            text,
            document: None,
            revisions: Revisions::default(),
            configs: BTreeMap::new(),
            traces: Traces::default(),
            unread: None,
            good: None,
            typing: None,
            faults: Vec::new(),
            standing: ReadingState::Read,
        }
    }

    /// A copy under another name, not in any file yet: to try something out.
    #[must_use]
    pub fn duplicate(&self, name: String) -> Self {
        let saved = self.text.clone();
        // Somebody who reads for this one does not read for the copy.
        let standing = if self.standing == ReadingState::Read { ReadingState::Read } else { ReadingState::Unread };
        let provenance = if name == self.name { self.provenance } else { Provenance::User };
        let (merged, typing, revisions) = (None, None, Revisions::default());
        let path = None;
        Self { name, path, saved, merged, is_new: false, provenance, standing, revisions, typing, ..self.clone() }
    }

    /// The plan as it is read, without its texts and their history: to predict changes of it elsewhere.
    pub(super) fn without_texts(&self) -> Self {
        Self {
            name: self.name.clone(),
            path: self.path.clone(),
            folder: self.folder.clone(),
            text: String::new(),
            document: self.document.clone(),
            saved: String::new(),
            merged: None,
            is_new: self.is_new,
            provenance: self.provenance,
            revisions: Revisions::default(),
            configs: self.configs.clone(),
            traces: self.traces.clone(),
            unread: self.unread.clone(),
            good: self.good.clone(),
            typing: None,
            faults: self.faults.clone(),
            standing: self.standing,
        }
    }
}
