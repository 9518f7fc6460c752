//! The plan being edited: its text, what it says, and what that predicts.

pub(super) mod amount;
mod changing;
pub(super) mod editing;
pub(super) mod field;
pub(super) mod form;
mod gpus;
pub(super) mod look_around;
mod on_disk;
mod opening;
pub(super) mod origin;
pub(super) mod reader;
mod reading;
pub(super) mod revisions;
pub(super) mod step;
pub(super) mod text;
mod traces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::{Catalog, UNKNOWN_MODEL};
use crate::plan::keywords::Mode;
use crate::plan::{Change, ConfigFileError, Document, Fault, HfConfig, Plan, PlanOverlay, keys};
use crate::predict::{self, Job, Outline, Prediction};
use changing::Typing;
use field::Field;
use on_disk::MergedText;
pub use on_disk::folder_of;
use opening::Provenance;
pub use reading::{AT_ONCE, ReadingState};
use revisions::Revisions;
use traces::Traces;

/// The key that names a configuration file.
pub const CONFIG: &str = "model.hf_config";

/// A plan that made a prediction.
#[derive(Debug, Clone)]
struct LastPrediction {
    document: Arc<Document>,
    plan: Plan,
    job: Job,
    prediction: Prediction,
}

/// A plan as it was read and predicted: equal to itself alone, not to one that says the same.
#[derive(Debug, Clone, Default)]
pub(super) struct EvaluatedPlan {
    document: Option<Arc<Document>>,
    good: Option<Arc<LastPrediction>>,
}

impl PartialEq for EvaluatedPlan {
    fn eq(&self, other: &Self) -> bool {
        self.document.as_ref().map(Arc::as_ptr) == other.document.as_ref().map(Arc::as_ptr)
            && self.good.as_ref().map(Arc::as_ptr) == other.good.as_ref().map(Arc::as_ptr)
    }
}

/// The plan's text is the truth; everything else here follows from it.
#[derive(Debug, Clone)]
pub struct Editor {
    name: String,
    path: Option<PathBuf>,
    /// Relative paths in the text start here.
    folder: PathBuf,
    text: String,
    /// The text as a tree; none while it cannot be read as one.
    document: Option<Arc<Document>>,
    saved: String,
    merged: Option<MergedText>,
    /// Its file is not there yet.
    is_new: bool,
    provenance: Provenance,
    revisions: Revisions,
    /// The configuration files that the plan has named so far, as they were read.
    configs: BTreeMap<String, Result<HfConfig, ConfigFileError>>,
    /// The tapes that the plan named when it was opened.
    traces: Traces,
    /// One that the plan names and that nobody has read yet.
    unread: Option<String>,
    good: Option<Arc<LastPrediction>>,
    typing: Option<Typing>,
    faults: Vec<Fault>,
    /// Whether `document` and `faults` are those of the text already.
    standing: ReadingState,
}

impl Editor {
    /// Whether its file is not there yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether nobody has said yet what its file is to begin with.
    #[must_use]
    pub fn is_unbegun(&self) -> bool {
        self.is_new && self.text.is_empty()
    }

    /// What tells this plan, as it is read and predicted now, from what it was before.
    pub(super) fn evaluated(&self) -> EvaluatedPlan {
        EvaluatedPlan { document: self.document.clone(), good: self.good.clone() }
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

    /// The text as it would be saved.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The configuration file that the last good plan names, as it was read.
    #[must_use]
    pub fn hf_config(&self) -> Option<&HfConfig> {
        let named = self.document.as_ref()?.value("model.hf_config")?;
        self.configs.get(named.as_str()?)?.as_ref().ok()
    }

    /// The text as a tree; none while it cannot be read as one.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.document.as_deref()
    }

    /// A configuration file that the plan names and that is to be read.
    #[must_use]
    pub fn unread_config(&self) -> Option<&str> {
        self.unread.as_deref()
    }

    /// Takes in a configuration file as it was read, or why it could not be.
    pub fn take_config(&mut self, named: String, config: Result<HfConfig, ConfigFileError>, catalog: &Catalog) {
        self.configs.insert(named, config);
        self.evaluate_again(catalog);
    }

    /// What is wrong first, with its place; without it of a plan that is no file's: nobody has seen its lines.
    #[must_use]
    pub fn first_fault(&self) -> Option<Fault> {
        let fault = self.faults().first()?.clone();
        Some(if self.path().is_some() { fault } else { Fault { at: None, ..fault } })
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

    /// Whether the last good plan answers requests: nothing is trained.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.job().is_some_and(|job| job.training.mode == Mode::Inference)
    }

    /// Whether the text itself says what `field` is.
    #[must_use]
    pub fn is_written(&self, field: Field) -> bool {
        self.readable().is_some_and(|document| document.written(field.key()).is_some())
    }

    /// Whether the text has a value under `key`, not further keys.
    #[must_use]
    pub fn is_value(&self, key: &str) -> bool {
        self.readable().is_some_and(|document| {
            document.written(key).is_some() && !document.value(key).is_some_and(|value| value.is_object())
        })
    }

    /// Whether the text says something under `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.readable().is_some_and(|document| document.value(key).is_some())
    }

    /// The text's tree; while it has none, that of the last good plan.
    fn readable(&self) -> Option<&Document> {
        self.document.as_deref().or_else(|| self.good.as_ref().map(|good| good.document.as_ref()))
    }

    /// What the text says under `key`, in words of the plan file.
    #[must_use]
    pub fn said(&self, key: &str) -> Option<String> {
        self.readable()?.value(key).map(|value| match value {
            Value::String(text) => text,
            value => value.to_string(),
        })
    }

    /// Nothing is wrong but that the model is not known yet.
    #[must_use]
    pub fn waits_for_model(&self) -> bool {
        self.faults.len() == 1 && self.said(Field::Model.key()).as_deref() == Some(UNKNOWN_MODEL)
    }

    /// Nothing is wrong but that the plan is of a CPU that nobody has measured.
    #[must_use]
    pub fn waits_for_bench(&self) -> bool {
        let [fault] = self.faults.as_slice() else { return false };
        fault.key == keys::hardware::gpu_type && self.said(&fault.key).is_some_and(|said| Catalog::is_cpu(&said))
    }

    /// The value of a field: what it came to; while the text is broken, what it says where it
    /// says something else than the last good plan.
    #[must_use]
    pub fn shown(&self, field: Field) -> String {
        let said = self.said(field.key());
        let Some(good) = &self.good else { return said.or_else(|| self.own_model(field)).unwrap_or_default() };
        let document = self.document.as_ref().unwrap_or(&good.document);
        match said {
            Some(said) if good.document.value(field.key()) != document.value(field.key()) => said,
            said => field.effective(&good.job).or(said).unwrap_or_default(),
        }
    }

    /// What a model is called that is no preset, while nothing is made of the plan.
    fn own_model(&self, field: Field) -> Option<String> {
        let named = ["model.hf_config.model_type", keys::model::hf_config, keys::model::trace];
        named.into_iter().filter(|_| field == Field::Model).find_map(|key| self.said(key))
    }

    /// A line about the run: whose layers, batch, sequence, degrees.
    #[must_use]
    pub fn summary(&self) -> String {
        let Some(job) = self.job() else { return String::new() };
        let mut parts = vec![
            job.architecture.name.clone(),
            job.profile.name().to_owned(),
            format!("B{}", job.batch.global),
            format!("S{}", job.batch.sequence),
        ];
        let degrees = &job.degrees;
        for (letter, degree) in [
            ("dp", degrees.data),
            ("tp", degrees.tensor),
            ("pp", degrees.pipeline),
            ("cp", degrees.context),
            ("ep", degrees.expert),
        ] {
            if degree != 1 {
                parts.push(format!("{letter}{degree}"));
            }
        }
        parts.join(" ")
    }

    /// The plan that the text says, with its configuration read in; none while it is not valid.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        self.good.as_ref().filter(|_| self.faults.is_empty()).map(|good| &good.plan)
    }

    /// The document with a change made; nothing here changes.
    ///
    /// # Errors
    /// Where the text cannot be changed in place.
    pub fn with(&self, change: &Change) -> Result<Document, Fault> {
        match &self.document {
            Some(document) => document.changed(change),
            None if self.standing != ReadingState::Read => Err(Fault::of("", "the text is still being read")),
            None => Err(Fault::of("", "the text is broken; e opens it at the fault")),
        }
    }

    /// The figures that the plan would have with a change made; none where that makes no valid
    /// plan. A valid plan is changed by value, which is many times faster than by text.
    #[must_use]
    pub fn outline(&self, change: &Change, catalog: &Catalog) -> Option<Outline> {
        self.resolved(change, catalog).map(|job| predict::outline(&job))
    }

    /// Everything that would be decided with a change made; none where that makes no valid plan.
    #[must_use]
    pub fn resolved(&self, change: &Change, catalog: &Catalog) -> Option<Job> {
        let plan = match self.plan() {
            // Nothing here reads files: what a plan refers to has been read.
            Some(_) if change.set.iter().any(|(key, _)| *key == CONFIG) => return None,
            Some(plan) => {
                let mut plan = plan.clone();
                PlanOverlay::read(change, Path::new("")).ok()?.apply(&mut plan);
                plan
            }
            None => self.with_config(self.with(change).ok()?.plan().ok()?).ok()?,
        };
        Job::resolve(&plan, catalog).ok()
    }

    fn read_again(&mut self, catalog: &Catalog) {
        let read = Document::parse(&self.text);
        self.take_read(read, catalog);
    }

    /// While the text is broken the last good plan stays.
    fn take_read(&mut self, read: Result<Document, Vec<Fault>>, catalog: &Catalog) {
        self.standing = ReadingState::Read;
        match read {
            Ok(document) => {
                self.document = Some(Arc::new(document));
                self.evaluate_again(catalog);
            }
            Err(faults) => {
                self.document = None;
                self.take_faults(faults);
            }
        }
    }

    fn evaluate_again(&mut self, catalog: &Catalog) {
        let Some(document) = &self.document else { return };
        self.unread = named_config(document).filter(|named| !self.configs.contains_key(named));
        match self.evaluate(document, catalog) {
            Ok(good) => {
                self.good = Some(Arc::new(good));
                self.faults.clear();
            }
            Err(faults) => self.take_faults(faults),
        }
    }

    /// What was valid half-way through what is being typed was meant by nobody: the plan before that is the last good one.
    fn take_faults(&mut self, faults: Vec<Fault>) {
        self.faults = faults;
        if let Some(typing) = &self.typing {
            self.good.clone_from(&typing.before);
        }
    }

    fn evaluate(&self, document: &Arc<Document>, catalog: &Catalog) -> Result<LastPrediction, Vec<Fault>> {
        let placed = |faults: Vec<Fault>| faults.into_iter().map(|fault| document.placed(fault)).collect::<Vec<_>>();
        let plan = self.with_config(document.plan()?).map_err(|fault| placed(vec![fault]))?;
        let job = Job::resolve(&plan, catalog).map_err(placed)?;
        let prediction = predict::predict(&job);
        Ok(LastPrediction { document: Arc::clone(document), plan, job, prediction })
    }

    /// Nothing here reads files: a configuration is the one that was read when it was first named.
    fn with_config(&self, mut plan: Plan) -> Result<Plan, Fault> {
        if let Some(HfConfig::Path(path)) = &plan.model.hf_config {
            let config = match self.configs.get(path) {
                Some(Ok(config)) => config.clone(),
                Some(Err(why)) => return Err(Fault::of(CONFIG, why.to_string())),
                None => return Err(Fault::of(CONFIG, "being read")),
            };
            plan.model.hf_config = Some(config);
        }
        self.traces.put_into(&mut plan)?;
        Ok(plan)
    }
}

/// The configuration file that a plan names.
fn named_config(document: &Document) -> Option<String> {
    match document.value(CONFIG)? {
        Value::String(path) => Some(path),
        _ => None,
    }
}
