//! A plan and changed versions of it, each predicted once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::catalog::Catalog;
use crate::compare::expected::Expectation;
use crate::plan::traced::TracedModel;
use crate::plan::{Change, Document, HfConfig, ModelTrace};
use crate::predict::{self, Fragmentation, Job};

/// A plan that a run is held against, and what changed versions of it would show. A run is asked about for days, and
/// mostly the same changes come into question: each is predicted once. For one catalogue.
#[derive(Debug)]
pub struct Candidates {
    document: Document,
    /// The configuration file that the text names, where it names one.
    config: Option<HfConfig>,
    /// The tape that the text names, where it names one.
    trace: Option<Arc<TracedModel>>,
    /// Before any calibration; none where a change is not possible.
    known: Mutex<HashMap<Candidate, Option<Expectation>>>,
}

/// A changed plan, seen from the GPU of a stage.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Candidate {
    change: Change,
    stage: Option<u64>,
}

impl Candidates {
    /// Those of a plan.
    #[must_use]
    pub fn of(document: &Document, config: Option<&HfConfig>, trace: Option<&Arc<TracedModel>>) -> Self {
        let (document, config, trace) = (document.clone(), config.cloned(), trace.cloned());
        Self { document, config, trace, known: Mutex::default() }
    }

    /// Whether they are of this plan.
    #[must_use]
    pub fn are_of(&self, document: &Document, config: Option<&HfConfig>, trace: Option<&Arc<TracedModel>>) -> bool {
        let same_trace = match (&self.trace, trace) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        self.document.text() == document.text() && self.config.as_ref() == config && same_trace
    }

    /// The plan's job.
    pub(super) fn job(&self, catalog: &Catalog) -> Option<Job> {
        self.job_of(&self.document, catalog)
    }

    fn job_of(&self, document: &Document, catalog: &Catalog) -> Option<Job> {
        let mut plan = document.plan().ok()?;
        if let (Some(HfConfig::Path(_)), Some(config)) = (&plan.model.hf_config, &self.config) {
            plan.model.hf_config = Some(config.clone());
        }
        if let (Some(ModelTrace::Path(_)), Some(trace)) = (&plan.model.trace, &self.trace) {
            plan.take_trace(Arc::clone(trace));
        }
        Job::resolve(&plan, catalog).ok()
    }

    /// What the changed plan would show on the GPU of a stage, with the plan's own fragmentation; none where it is none,
    /// or another kind of model than `as_of`'s.
    pub(super) fn expected(
        &self,
        change: &Change,
        (as_of, catalog): (&Job, &Catalog),
        stage: Option<u64>,
        fragmentation: Fragmentation,
    ) -> Option<Expectation> {
        let key = Candidate { change: change.clone(), stage };
        if let Some(found) = self.known.lock().ok().and_then(|known| known.get(&key).copied()) {
            return found;
        }
        let predicted = self.document.changed(change).ok().and_then(|document| {
            let job = self.job_of(&document, catalog)?;
            let kind = |job: &Job| std::mem::discriminant(&job.architecture.shape);
            let prediction = (kind(&job) == kind(as_of)).then(|| predict::predict_as(&job, fragmentation))?;
            Some(Expectation::of_stage(&prediction, stage))
        });
        if let Ok(mut known) = self.known.lock() {
            known.insert(key, predicted);
        }
        predicted
    }
}
