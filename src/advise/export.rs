//! Exports that are read back: what the other tool's file or command says otherwise than the plan is found by importing it
//! and predicting both.

use std::path::Path;

use crate::catalog::Catalog;
use crate::files::Unread;
use crate::import::{self, Files, ImportedPlan, ProcessView};
use crate::plan::export::{self, ExportDegrees, ExportedPlan, Target};
use crate::plan::keywords::Framework;
use crate::plan::{Change, Plan, PlanOverlay};
use crate::predict::{self, Prediction};

/// Predictions that differ by less are the same: the import may round what a tool's file rounds.
const TOLERANCE: f64 = 0.002;

/// `plan` as `target` writes it, with a note for each key that an import of the text takes to be another.
#[must_use]
pub fn export(plan: &Plan, catalog: &Catalog, target: Target) -> ExportedPlan {
    let mut exported = export::export(plan, catalog, target);
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
    if target == Target::Torchrun && plan.model.framework != Some(Framework::Megatron) {
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
    let read = completed(read, plan, target);
    match predict::of(&read, catalog) {
        Ok(other) if is_same(&own, &other) => Vec::new(),
        Ok(other) => differing(plan, &imported, &own, &other, target, catalog),
        Err(faults) => faults.iter().map(|fault| format!("{}: read back, {}", fault.key, fault.message)).collect(),
    }
}

/// What no target writes, and of DeepSpeed what the script says.
fn completed(mut read: Plan, plan: &Plan, target: Target) -> Plan {
    read.cluster = plan.cluster.clone();
    read.hardware = plan.hardware.clone();
    if target == Target::Deepspeed {
        let (batch, framework) = (read.model.batch_size, read.model.framework);
        read.model = plan.model.clone();
        read.model.batch_size = batch.or(plan.model.batch_size);
        read.model.framework = plan.model.framework.or(framework);
        read.training.attention = plan.training.attention;
        read.training.activation_checkpointing = plan.training.activation_checkpointing.clone();
        read.training.lora = plan.training.lora.clone();
        read.training.loss = plan.training.loss;
    }
    read
}

/// What is compared: parameters, states, peak and time.
fn measures(prediction: &Prediction) -> [f64; 4] {
    let stage = prediction.largest();
    let (parameters, step) = (prediction.params.total as f64, prediction.time.step.0);
    [parameters, stage.static_bytes.0 as f64, stage.peak_allocated.0 as f64, step]
}

fn is_same(one: &Prediction, other: &Prediction) -> bool {
    let pairs = measures(one).into_iter().zip(measures(other));
    pairs.into_iter().all(|(one, other)| (one - other).abs() <= TOLERANCE * one.max(other))
}

/// Each imported value that alone changes the plan's prediction; where none does, that both together differ.
fn differing(
    plan: &Plan,
    imported: &ImportedPlan,
    own: &Prediction,
    other: &Prediction,
    target: Target,
    catalog: &Catalog,
) -> Vec<String> {
    let is_compared = |key: &str| {
        let sections: &[&str] = if target == Target::Deepspeed {
            &["training.", "distribution.", "model.batch_size"]
        } else {
            &["training.", "distribution.", "model."]
        };
        sections.iter().any(|section| key.starts_with(section))
    };
    let mut lines = Vec::new();
    for value in imported.values.iter().filter(|value| is_compared(value.key)) {
        let text = value.value.to_string();
        let Ok(overlay) = PlanOverlay::read(&Change::to(value.key, text.clone()), Path::new("")) else { continue };
        let mut changed = plan.clone();
        overlay.apply(&mut changed);
        if predict::of(&changed, catalog).is_ok_and(|changed| !is_same(own, &changed)) {
            lines.push(format!("{}: read back as {text}", value.key));
        }
    }
    if lines.is_empty() {
        let peak = |prediction: &Prediction| prediction.largest().peak_allocated.0 as f64;
        let change = (peak(other) / peak(own).max(1.0) - 1.0) * 100.0;
        lines.push(format!("plan: read back, it is another: peak memory {change:+.1} %"));
    }
    lines
}
