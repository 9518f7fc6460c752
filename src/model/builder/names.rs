//! What functions that run have names for: Python keeps a tensor until the last of its names is gone.

use super::Builder;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::walk::MicroBatch;

impl Builder<'_> {
    /// The function that runs returns: up to here what it had names for was held.
    pub fn returns(&mut self, name: &'static str) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.holds(name, &held);
        }
    }

    /// Up to here these were held.
    pub fn holds(&mut self, name: &'static str, held: &[TensorId]) {
        let inputs: Vec<(TensorId, Flow)> = held.iter().map(|id| (*id, Flow::Stop)).collect();
        self.tape.push(&Spec { name, inputs: &inputs, launches: 0, ..Spec::default() });
    }

    /// The model's loop over its blocks has a name for what it gives one, until that has returned.
    pub fn held_by_loop(&mut self, x: TensorId, run: &MicroBatch<'_>) {
        if run.modules.python_names.is {
            self.named.push(x);
        }
    }

    /// The block returns.
    pub(super) fn block_returns(&mut self) {
        let named = std::mem::take(&mut self.named);
        if !named.is_empty() {
            self.holds("block.return", &named);
        }
    }
}
