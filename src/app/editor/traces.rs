//! Tapes of `memwall trace` that a plan names: read with the plan, never while it is edited.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Editor;
use crate::plan::traced::TracedModel;
use crate::plan::{Fault, LoadedPlan, ModelTrace, Plan};

/// Where a plan names one.
const TRACE: &str = "model.trace";

/// The tapes that a plan named when it was opened, by the path that it names them by.
#[derive(Debug, Clone, Default)]
pub(super) struct Traces(BTreeMap<String, Arc<TracedModel>>);

impl Traces {
    /// Those of a loaded plan.
    pub fn of(loaded: &LoadedPlan) -> Self {
        Self(match (loaded.document.value(TRACE), loaded.plan.trace()) {
            (Some(Value::String(path)), Some(trace)) => BTreeMap::from([(path, Arc::clone(trace))]),
            _ => BTreeMap::new(),
        })
    }

    /// Puts the tape that a plan names in the place of its path.
    pub fn put_into(&self, plan: &mut Plan) -> Result<(), Fault> {
        if let Some(ModelTrace::Path(path)) = &plan.model.trace {
            let Some(trace) = self.0.get(path).cloned() else {
                let message = format!("{path}: a tape is read when a plan is opened: save the plan and open it again");
                return Err(Fault::of(TRACE, message));
            };
            plan.take_trace(trace);
        }
        Ok(())
    }
}

impl Editor {
    /// The tape that the plan names, where it was read.
    #[must_use]
    pub fn trace(&self) -> Option<&Arc<TracedModel>> {
        let named = self.document.as_ref()?.value(TRACE)?;
        self.traces.0.get(named.as_str()?)
    }
}
