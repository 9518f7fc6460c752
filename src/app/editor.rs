//! The plan being edited: its text, what it says, and what that predicts.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::field::Field;
use crate::catalog::Catalog;
use crate::plan::{Change, Document, Fault, HfConfig, Loaded, Plan};
use crate::predict::{self, Job, Prediction};

/// A plan that made a prediction.
#[derive(Debug, Clone)]
struct Good {
    document: Document,
    job: Job,
    prediction: Prediction,
}

/// The plan's text is the truth; everything else here follows from it.
#[derive(Debug, Clone)]
pub struct Editor {
    name: String,
    path: Option<PathBuf>,
    document: Document,
    saved: String,
    undo: Vec<Document>,
    redo: Vec<Document>,
    /// The configuration file that the plan names, as it was read when the plan was opened.
    hf_config: Option<(String, HfConfig)>,
    good: Option<Good>,
    faults: Vec<Fault>,
}

/// Changes that can be taken back.
const UNDOABLE: usize = 500;

impl Editor {
    /// Opens a loaded plan.
    #[must_use]
    pub fn open(loaded: Loaded, catalog: &Catalog) -> Self {
        let named = loaded.document.written("model.hf_config").map(str::to_owned);
        let hf_config = named.zip(loaded.plan.model.hf_config.clone());
        let mut editor = Self {
            name: loaded.name,
            path: loaded.path,
            saved: loaded.document.text().to_owned(),
            document: loaded.document,
            undo: Vec::new(),
            redo: Vec::new(),
            hf_config,
            good: None,
            faults: Vec::new(),
        };
        editor.refresh(catalog);
        editor
    }

    /// What the plan is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is saved; none for a built-in example.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// A plan that came with the program.
    #[must_use]
    pub const fn is_example(&self) -> bool {
        self.path.is_none()
    }

    /// The text as it would be saved.
    #[must_use]
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// The text as it is on disk, as far as is known here.
    #[must_use]
    pub fn saved_text(&self) -> &str {
        &self.saved
    }

    /// Differs from what is on disk.
    #[must_use]
    pub fn modified(&self) -> bool {
        self.document.text() != self.saved
    }

    /// `text` is on disk now, at `path`.
    pub fn mark_saved(&mut self, path: PathBuf, text: String) {
        self.path = Some(path);
        self.saved = text;
    }

    /// What is wrong with the text as it stands.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The prediction of the last good plan.
    #[must_use]
    pub fn prediction(&self) -> Option<&Prediction> {
        self.good.as_ref().map(|good| &good.prediction)
    }

    /// Everything decided about the last good plan.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        self.good.as_ref().map(|good| &good.job)
    }

    /// Whether the text itself says what `field` is.
    #[must_use]
    pub fn is_written(&self, field: Field) -> bool {
        self.document.written(field.key()).is_some()
    }

    /// Whether the text says something under `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.document.value(key).is_some()
    }

    /// The value of a field: what it came to; while the text is broken, what it says where it
    /// says something else than the last good plan.
    #[must_use]
    pub fn shown(&self, field: Field) -> String {
        let Some(good) = &self.good else { return String::new() };
        match self.document.value(field.key()) {
            Some(value) if good.document.value(field.key()).as_ref() != Some(&value) => match value {
                Value::String(text) => text,
                value => value.to_string(),
            },
            _ => field.effective(&good.job),
        }
    }

    /// A line about the run: whose layers, batch, sequence, degrees.
    #[must_use]
    pub fn summary(&self) -> String {
        let Some(job) = self.job() else { return String::new() };
        let mut parts = vec![
            Field::Model.effective(job),
            Field::Framework.effective(job),
            format!("B{}", Field::Batch.effective(job)),
            format!("S{}", Field::Sequence.effective(job)),
        ];
        for (letter, field) in [
            ("dp", Field::DataParallel),
            ("tp", Field::TensorParallel),
            ("pp", Field::PipelineParallel),
            ("cp", Field::ContextParallel),
            ("ep", Field::ExpertParallel),
        ] {
            let degree = field.effective(job);
            if degree != "1" {
                parts.push(format!("{letter}{degree}"));
            }
        }
        parts.join(" ")
    }

    /// The document with a change made; nothing here changes.
    ///
    /// # Errors
    /// Where the text cannot be changed in place.
    pub fn with(&self, change: &Change) -> Result<Document, Fault> {
        self.document.changed(change)
    }

    /// What `document` would predict.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn try_out(&self, document: &Document, catalog: &Catalog) -> Result<Prediction, Vec<Fault>> {
        self.evaluate(document, catalog).map(|good| good.prediction)
    }

    /// Makes `document` the plan; the one before can be had back.
    pub fn apply(&mut self, document: Document, catalog: &Catalog) {
        if self.undo.len() == UNDOABLE {
            self.undo.remove(0);
        }
        self.undo.push(std::mem::replace(&mut self.document, document));
        self.redo.clear();
        self.refresh(catalog);
    }

    /// Takes back the last change. False when there is none.
    pub fn undo(&mut self, catalog: &Catalog) -> bool {
        let Some(before) = self.undo.pop() else { return false };
        self.redo.push(std::mem::replace(&mut self.document, before));
        self.refresh(catalog);
        true
    }

    /// Makes a change again that was taken back. False when there is none.
    pub fn redo(&mut self, catalog: &Catalog) -> bool {
        let Some(after) = self.redo.pop() else { return false };
        self.undo.push(std::mem::replace(&mut self.document, after));
        self.refresh(catalog);
        true
    }

    fn refresh(&mut self, catalog: &Catalog) {
        match self.evaluate(&self.document, catalog) {
            Ok(good) => {
                self.good = Some(good);
                self.faults.clear();
            }
            Err(faults) => self.faults = faults,
        }
    }

    fn evaluate(&self, document: &Document, catalog: &Catalog) -> Result<Good, Vec<Fault>> {
        let plan = self.with_config(document.plan()?)?;
        let placed = |faults: Vec<Fault>| faults.into_iter().map(|fault| document.placed(fault)).collect::<Vec<_>>();
        let job = Job::resolve(&plan, catalog).map_err(placed)?;
        let prediction = predict::predict(&job);
        Ok(Good { document: document.clone(), job, prediction })
    }

    /// Nothing here reads files: a configuration is the one that was read on opening.
    fn with_config(&self, mut plan: Plan) -> Result<Plan, Vec<Fault>> {
        if let Some(HfConfig::Path(path)) = &plan.model.hf_config {
            match &self.hf_config {
                Some((known, config)) if known == path => plan.model.hf_config = Some(config.clone()),
                _ => return Err(vec![Fault::of("model.hf_config", "another file: save and open the plan again")]),
            }
        }
        Ok(plan)
    }
}
