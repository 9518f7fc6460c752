//! `memwall validate --traced`: what the catalogue's rules say of a Hugging Face model, beside what PyTorch itself was
//! traced to run of the same config.json.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::super::trace::{Tracer, no_python};
use super::super::{Failure, plans};
use crate::catalog::Catalog;
use crate::plan::traced::{SizeAxis, TracedModel, read_trace};
use crate::predict;
use crate::report::validate::{Case, FailedCase, figures};

/// What a trace says exactly, or to the rules by which allocations are replayed.
const QUANTITIES: [&str; 6] =
    ["params", "trainable_params", "peak_allocated_bytes", "activation_bytes", "flops_forward", "flops_backward"];

/// Other sizes than the traced ones.
const BATCH: u64 = 8;
const TOKENS: u64 = 256;

/// Why there is no tape of a configuration.
#[derive(Debug, Error)]
enum NoTape {
    #[error("{}", .0.lines.join("; "))]
    NoPython(Failure),
    #[error("{0}")]
    Refused(String),
    #[error("the tracer ended without a word")]
    Silent,
}

/// Sets configurations beside their traces.
pub struct TracedCases<'a> {
    tracer: Tracer,
    python: &'a Path,
    catalog: &'a Catalog,
}

impl<'a> TracedCases<'a> {
    /// With PyTorch and transformers of this Python.
    pub fn new(python: &'a Path, catalog: &'a Catalog) -> Result<Self, Failure> {
        Ok(Self { tracer: Tracer::install()?, python, catalog })
    }

    /// A case for each type of weights that could be traced.
    pub fn of(&self, config: &Path) -> Vec<Result<Case, FailedCase>> {
        let config = &if config.is_dir() { config.join("config.json") } else { config.to_owned() };
        let name = name(config);
        let fail = |error: String| vec![Err(FailedCase { id: name.clone(), error })];
        let tape = match self.trace(config) {
            Ok(tape) => tape,
            Err(error) => return fail(error.to_string()),
        };
        let model = match read_trace(&tape) {
            Ok(model) => model,
            Err(error) => return fail(error.to_string()),
        };
        // The rules mean the kernels of these layers: what ran in their place is no measure of them.
        let instead = ["in transformers' own code", "by the slow path of Python"];
        if let Some(note) = model.notes.iter().find(|note| instead.iter().any(|mark| note.contains(mark))) {
            return fail(format!("{note}; the catalogue predicts the kernels"));
        }
        let traces = &model.traces;
        let types = [("fp32", &traces.fp32), ("bf16-mixed", &traces.mixed), ("bf16", &traces.half)];
        let traced = types.into_iter().filter(|(_, trace)| trace.is_some());
        traced.map(|(precision, _)| self.case(&name, config, &tape, &model, precision)).collect()
    }

    fn trace(&self, config: &Path) -> Result<PathBuf, NoTape> {
        let tape = self.tracer.folder().join("model.tape.json.gz");
        let mut command = self.tracer.command(self.python);
        command.arg("--hf").arg(config).arg("--quiet").arg("--output").arg(&tape);
        let done = command.output().map_err(|error| NoTape::NoPython(no_python(self.python, &error)))?;
        if done.status.success() {
            return Ok(tape);
        }
        // The last line says why: what libraries warn of stands before it.
        let said = String::from_utf8_lossy(&done.stderr);
        let why = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(why.map_or(NoTape::Silent, |why| NoTape::Refused(why.trim_start_matches("memwall trace: ").to_owned())))
    }

    fn case(
        &self,
        name: &str,
        config: &Path,
        tape: &Path,
        model: &TracedModel,
        precision: &str,
    ) -> Result<Case, FailedCase> {
        let id = format!("{name} {precision}");
        let plan = |model: Value, batch: u64| {
            json!({
                "model": model,
                "training": {"precision": precision, "micro_batch_size": batch, "optimizer": "adamw"},
                // Reserved by cuBLAS at its first use: a trace sees none of it.
                "hardware": {"library_workspaces": false},
            })
        };
        let sizes = Sizes::of(model);
        let traced = plan(sizes.model("trace", tape), sizes.batch);
        let prediction = plans::of_case(&traced, Path::new("."))
            .and_then(|plan| predict::of(&plan, self.catalog))
            .map_err(|faults| FailedCase { id: id.clone(), error: super::in_a_line(faults) })?;
        Ok(Case {
            id,
            group: None,
            source: Some(format!("memwall trace with {}", versions(model))),
            plan: plan(sizes.model("hf_config", config), sizes.batch),
            measured: figures(&prediction, &QUANTITIES),
        })
    }
}

/// What both predictions are made at.
struct Sizes {
    batch: u64,
    tokens: Option<u64>,
}

impl Sizes {
    fn of(model: &TracedModel) -> Self {
        let fixed = model.points.last().filter(|_| model.fixed);
        let at =
            |axis: SizeAxis, otherwise: u64| fixed.and_then(|point| point.get(&axis)).copied().unwrap_or(otherwise);
        let tokens =
            model.varies(SizeAxis::Sequence) || fixed.is_some_and(|point| point.contains_key(&SizeAxis::Sequence));
        // A text that an image stands in is as long as it needs.
        let lengths = model.points.iter().filter_map(|point| point.get(&SizeAxis::Sequence));
        let least = lengths.min().copied().unwrap_or(0).max(TOKENS);
        Self {
            batch: at(SizeAxis::Batch, BATCH),
            tokens: tokens.then(|| at(SizeAxis::Sequence, least.min(model.longest.unwrap_or(least)))),
        }
    }

    fn model(&self, key: &str, file: &Path) -> Value {
        let mut model = Map::new();
        model.insert(key.to_owned(), file.display().to_string().into());
        if let Some(tokens) = self.tokens {
            model.insert("sequence_length".to_owned(), tokens.into());
        }
        Value::Object(model)
    }
}

/// A config.json is told by its folder, any other file by its own name.
fn name(config: &Path) -> String {
    let own = config.file_stem().unwrap_or_default();
    let folder = std::path::absolute(config).ok().and_then(|whole| Some(whole.parent()?.file_name()?.to_owned()));
    let name = folder.filter(|_| own == "config").unwrap_or_else(|| own.to_owned());
    name.to_string_lossy().into_owned()
}

fn versions(model: &TracedModel) -> String {
    let each = model.versions.iter().map(|(library, version)| format!("{library} {version}"));
    each.collect::<Vec<_>>().join(", ")
}
