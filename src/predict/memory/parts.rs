//! What a moment of the step is held for.

use super::Player;
use crate::predict::prediction::Component;
use crate::units::Bytes;

impl Player<'_> {
    /// A moment by component: activations, what only the running operator needs, gradients and buffers of collectives,
    /// on top of what is there in every phase.
    pub(super) fn parts(
        &self,
        activations: u64,
        temporaries: u64,
        gradients: u64,
        buffers: u64,
    ) -> [Bytes; Component::ALL.len()] {
        let resident = &self.resident;
        let weights = resident.weights + resident.fp8_copies;
        let states = resident.masters + resident.states;
        let lasting = resident.buckets + resident.global_buffer + resident.received;
        let named = weights + states + resident.kv_cache_waiting + resident.dummies + lasting + Bytes(self.workspaces);
        let inputs = Bytes(self.base).saturating_sub(named);
        [
            weights,
            Bytes(gradients) + resident.dummies,
            states,
            Bytes(activations),
            Bytes(temporaries) + inputs,
            resident.kv_cache_waiting,
            Bytes(buffers) + lasting,
            Bytes(self.workspaces),
        ]
    }
}
