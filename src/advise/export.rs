//! Exports that are read back: what the other tool's file or command says otherwise than the plan is found by importing it
//! and predicting both.

use std::path::Path;

use crate::catalog::Catalog;
use crate::files::Unread;
use crate::import::{self, Files, ImportedPlan, ProcessView};
use crate::plan::export::{self, ExportDegrees, ExportedPlan, Target};
use crate::plan::keys::{self, ModelPart};
use crate::plan::schema::{self, PlanKey, ValueKind};
use crate::plan::{Change, Plan, PlanOverlay};
use crate::predict::{self, Prediction};

/// Predictions that differ by less are the same: the import may round what a tool's file rounds.
const TOLERANCE: f64 = 0.002;

/// `plan` as `target` writes it, with a note for each key that an import of the text takes to be another.
#[must_use]
pub fn export(plan: &Plan, catalog: &Catalog, target: Target) -> ExportedPlan {
    let mut exported = export::export(plan, catalog, target);
    if exported.refused.is_some() {
        return exported;
    }
    for line in read_back(plan, &exported, target, catalog) {
        let key = line.split(':').next().unwrap_or_default();
        if !exported.notes.iter().any(|note| note.starts_with(&format!("{key}:"))) {
            exported.notes.push(line);
        }
    }
    exported
}

/// No files: an export stands by itself.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &str) -> Result<String, Unread> {
        Err(Unread(format!("{path}: there is no such file")))
    }

    fn absolute(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// The keys that are read back otherwise, where that changes the prediction.
fn read_back(plan: &Plan, exported: &ExportedPlan, target: Target, catalog: &Catalog) -> Vec<String> {
    // A command that names a script of the user's, or a file of its own, says nothing by itself.
    if target == Target::Torchrun && !exported.text.contains("pretrain_gpt.py") {
        return Vec::new();
    }
    let Ok(own) = predict::of(plan, catalog) else { return Vec::new() };
    let mut run = ProcessView::of(Vec::new(), &NoFiles);
    run.world = Some(ExportDegrees::of(plan).gpus);
    let name = format!("plan.{}", target.ending());
    let Ok(imported) = import::file(&name, &exported.text, &run, catalog) else {
        return vec!["model: the text alone cannot be imported again".to_owned()];
    };
    let Ok(read) = imported.plan() else { return Vec::new() };
    let comparison = Comparison { plan, own: &own, target, catalog, names_model: names_model(target, &imported) };
    match predict::of(&comparison.completed(read), catalog) {
        Ok(other) if is_same(&own, &other) => Vec::new(),
        Ok(other) => comparison.differing(&imported, &other),
        Err(faults) => faults.iter().map(|fault| format!("{}: read back, {}", fault.key, fault.message)).collect(),
    }
}

/// Whether the text says which model it is: of DeepSpeed the script does, and a tool may not have that shape.
fn names_model(target: Target, imported: &ImportedPlan) -> bool {
    target != Target::Deepspeed && imported.names_no_model().is_none()
}

/// What is compared: parameters, states, peak, what the driver sees, and time.
fn measures(prediction: &Prediction) -> [f64; 5] {
    let stage = prediction.largest();
    let (parameters, step) = (prediction.params.total as f64, prediction.time.step.0);
    let [held, peak, used] = [stage.static_bytes, stage.peak_allocated, stage.device_used].map(|bytes| bytes.0 as f64);
    [parameters, held, peak, used, step]
}

fn is_same(one: &Prediction, other: &Prediction) -> bool {
    let pairs = measures(one).into_iter().zip(measures(other));
    pairs.into_iter().all(|(one, other)| (one - other).abs() <= TOLERANCE * one.max(other))
}

/// Keys that DeepSpeed's file leaves to the script, which its export says.
const OF_SCRIPT: [&str; 4] =
    [keys::training::attention, keys::training::activation_checkpointing, keys::training::lora, keys::training::loss];

/// A plan and its prediction, set against what an import reads.
struct Comparison<'a> {
    plan: &'a Plan,
    own: &'a Prediction,
    target: Target,
    catalog: &'a Catalog,
    names_model: bool,
}

impl Comparison<'_> {
    /// The imported plan with what its text leaves to the machine and to the script.
    fn completed(&self, mut read: Plan) -> Plan {
        let plan = self.plan;
        read.cluster = plan.cluster.clone();
        read.hardware = plan.hardware.clone();
        if !self.names_model {
            let model = plan.model.clone();
            read.model = ModelPart {
                batch_size: read.model.batch_size.or(model.batch_size),
                sequence_length: read.model.sequence_length.or(model.sequence_length),
                framework: model.framework.or(read.model.framework),
                ..model
            };
        }
        if self.target == Target::Deepspeed {
            read.training.attention = plan.training.attention;
            read.training.activation_checkpointing = plan.training.activation_checkpointing.clone();
            read.training.lora = plan.training.lora.clone();
            read.training.loss = plan.training.loss;
            // The stages are the script's too, and so are the replicas that they leave.
            read.distribution.data_parallel = plan.distribution.data_parallel;
            read.distribution.pipeline_parallel = plan.distribution.pipeline_parallel;
            read.distribution.context_parallel = plan.distribution.context_parallel;
        }
        read
    }

    fn is_compared(&self, key: &str) -> bool {
        let is_batch = matches!(key, keys::model::batch_size | keys::model::sequence_length);
        let is_script = self.target == Target::Deepspeed && OF_SCRIPT.iter().any(|known| key.starts_with(known));
        let is_model = key.starts_with("model.") && (self.names_model || is_batch);
        !is_script && (is_model || key.starts_with("training.") || key.starts_with("distribution."))
    }

    /// A whole value, and not a part of one, that the text could hold.
    fn may_be_lost(&self, key: &PlanKey) -> bool {
        let is_whole = schema::key(key.section()).is_some_and(|above| above.kind == ValueKind::Section);
        let is_model = key.path.starts_with("model.");
        // One model may be given in several ways.
        let names_one = matches!(key.path, keys::model::preset | keys::model::hf_config | keys::model::size_billions);
        !names_one
            && key.kind != ValueKind::Section
            && is_whole
            && (self.names_model || !is_model)
            && self.is_compared(key.path)
    }

    /// Whether the plan with that change to `key` is predicted otherwise. A degree or an engine that does not go with the
    /// plan's others is another; a size of a model given by name is not compared.
    fn changes(&self, key: &str, change: &Change) -> bool {
        let Ok(overlay) = PlanOverlay::read(change, Path::new("")) else { return false };
        let mut changed = self.plan.clone();
        overlay.apply(&mut changed);
        changed != *self.plan
            && predict::of(&changed, self.catalog)
                .map_or(!key.starts_with("model."), |changed| !is_same(self.own, &changed))
    }

    /// Each value that is read otherwise or not at all and alone changes the prediction; where none does, that all
    /// together differ.
    fn differing(&self, imported: &ImportedPlan, other: &Prediction) -> Vec<String> {
        let mut lines = Vec::new();
        for value in imported.values.iter().filter(|value| self.is_compared(value.key)) {
            let text = value.value.to_string();
            if self.changes(value.key, &Change::to(value.key, text.clone())) {
                lines.push(format!("{}: read back as {text}", value.key));
            }
        }
        for key in schema::keys().iter().filter(|key| self.may_be_lost(key) && imported.get(key.path).is_none()) {
            if self.changes(key.path, &Change { set: Vec::new(), remove: vec![key.path] }) {
                lines.push(format!("{}: not read back", key.path));
            }
        }
        if lines.is_empty() {
            let used = |prediction: &Prediction| prediction.largest().device_used.0 as f64;
            let change = (used(other) / used(self.own).max(1.0) - 1.0) * 100.0;
            lines.push(format!("plan: read back, it is another: memory {change:+.1} %"));
        }
        lines
    }
}
