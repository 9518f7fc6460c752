//! Unsharded weights and gradients that exist while a layer runs, as the step goes on.

use crate::predict::memory::resident::Resident;
use crate::units::Bytes;

/// What is there beside a layer's own tensors because ranks share out weights and gradients.
#[derive(Debug, Clone, Copy)]
pub(in crate::predict) struct Buffers {
    resident: Resident,
    /// Whole gradients that wait for their turn to be reduced.
    queued: Bytes,
    /// Weights that were not released after their forward pass.
    live: Bytes,
    /// The buffer that gradients are reduced in, once it is there.
    bucket: Bytes,
}

impl Buffers {
    /// Before the step.
    pub const fn of(resident: &Resident) -> Self {
        Self { resident: *resident, queued: Bytes::ZERO, live: Bytes::ZERO, bucket: Bytes::ZERO }
    }

    /// Something grows from layer to layer: alike ones do not meet alike memory.
    pub const fn waits(&self) -> bool {
        self.resident.reduce_queue.is_some() || self.resident.live.0 > 0
    }

    /// Unsharded weights while `layers` layers are gathered.
    pub fn gathered(&self, layers: u64) -> Bytes {
        let gathered = self.resident.root + self.resident.unsharded_layer * layers;
        gathered.max(self.live) + self.bucket + self.resident.accumulated
    }

    /// In a block's forward pass.
    pub fn in_forward(&self) -> Bytes {
        self.gathered(self.resident.gathered_layers)
    }

    /// In the head's and the loss's backward pass. Megatron FSDP gathers layers ahead of that one too.
    pub fn in_loss(&self) -> Bytes {
        self.gathered(if self.resident.reduce_queue.is_some() { self.resident.gathered_layers } else { 1 })
    }

    /// In a block's backward pass: its weights and the next one's, its gradients, those of the block before on
    /// their way to the other ranks, and the head's, which wait for the root's turn.
    pub fn in_backward(&self) -> Bytes {
        let resident = &self.resident;
        let gathered = self.gathered(resident.gathered_layers);
        if resident.reduce_queue.is_some() {
            return gathered + self.queued + resident.unsharded_gradients;
        }
        gathered + resident.unsharded_gradients + resident.reduced_layer + resident.head_gradients
    }

    /// In the embedding's: the root's gradients are reduced.
    pub fn in_root(&self) -> Bytes {
        if self.resident.reduce_queue.is_some() {
            return self.gathered(0) + self.queued + self.resident.reduced_root;
        }
        self.gathered(0) + self.resident.head_gradients + self.resident.reduced_root
    }

    /// The blocks have run forward: what is not released stays.
    pub const fn keep_live(&mut self) {
        self.live = self.resident.live;
    }

    /// The backward pass begins.
    pub const fn turn_back(&mut self) {
        self.bucket = self.resident.reduce_bucket;
    }

    /// A block's backward pass is done.
    pub fn leave_layer(&mut self) {
        self.queue(self.resident.unsharded_gradients);
        self.live = self.live.saturating_sub(self.resident.unsharded_gradients);
    }

    /// `bytes` of whole gradients are handed on to be reduced; where those before them have more than the room, the
    /// first of them, taken to be as large, are freed.
    pub fn queue(&mut self, bytes: Bytes) {
        if let Some(room) = self.resident.reduce_queue {
            let waiting = if self.queued > room { Bytes(room.0 - room.0 % bytes.0.max(1)) } else { self.queued };
            self.queued = waiting + bytes;
        }
    }
}
