//! Whether FSDP waits for the last of several micro-batches before it reduces gradients, as a loop's text has it.

use super::super::accelerate;
use super::super::imported::ImportedPlan;
use super::super::origin::Origin;
use super::super::script_doubts::code;
use super::OwnLoop;
use crate::plan::keys;

/// Calls under which a micro-batch's gradients stay: accelerate's (accelerator.py, `accumulate`), FSDP1's
/// (fully_sharded_data_parallel.py, `no_sync`), FSDP2's (_fully_shard.py) and Fabric's (fabric.py).
const WAITS: [&str; 4] = ["accelerator.accumulate(", ".no_sync(", ".set_requires_gradient_sync(", ".no_backward_sync("];

impl OwnLoop {
    /// Sets it where that changes what FSDP holds and sends. Without such a call each backward pass reduces its gradients
    /// (_runtime_utils.py, `_post_backward_hook`).
    pub(super) fn reductions(&self, imported: &mut ImportedPlan) {
        // `True if …` is another thing.
        let views = |line: &str| {
            let rest = line.split("gradient_as_bucket_view").nth(1).map(|rest| rest.replace(' ', ""));
            rest.is_some_and(|rest| rest == "=True" || rest.starts_with("=True)") || rest.starts_with("=True,"))
        };
        if code(&self.text).any(views) {
            let origin = Origin::Program(format!("{}: gradient_as_bucket_view=True", self.path));
            imported.say(keys::distribution::gradient_as_bucket_view, true, origin);
        }
        if !accelerate::reduces_by_unit(imported) {
            return;
        }
        let waits = WAITS.iter().find(|call| code(&self.text).any(|line| line.contains(**call)));
        let (each, why) = match waits {
            _ if self.syncs_each => (true, "GradientAccumulationPlugin(sync_each_batch)"),
            Some(call) => (false, *call),
            None => (true, "no no_sync in it"),
        };
        imported.say(keys::distribution::sync_each_micro_batch, each, Origin::Program(format!("{}: {why}", self.path)));
    }
}
