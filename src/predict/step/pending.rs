//! What layers hold for layers far from them: hidden states and biases on the way forward, gradients on the way back.

use crate::model::Passing;
use crate::predict::step::StepTapes;

impl StepTapes {
    /// Gradients that layers behind `layer` made for layers before it.
    pub(in crate::predict) fn waiting(&self, layer: u64) -> u64 {
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        let pending = self.walk.pending.iter();
        pending.filter(|one| one.until <= layer && layer < one.made_by).map(|one| one.bytes).sum()
    }

    /// What layers before `layer` hold for layers behind it during the forward pass.
    pub(in crate::predict) fn passing(&self, layer: u64) -> u64 {
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        let made = self.walk.passing.iter().filter(|one| one.from <= layer && !self.is_kept(one));
        made.filter(|one| layer <= one.until || self.held_by(one).is_some()).map(|one| one.bytes).sum()
    }

    /// What the layer before `layer` returned beside its hidden state, where nothing saved that.
    pub(in crate::predict) fn returned_before(&self, layer: u64) -> u64 {
        let unsaved = |before| self.walk.returned_unsaved || self.is_checkpointed(before);
        if layer.checked_sub(1).is_some_and(unsaved) { self.walk.returned } else { 0 }
    }

    /// What recomputed layers hold of that until they have run again: at the backward pass of `layer`.
    pub(in crate::predict) fn passed(&self, layer: u64) -> u64 {
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        let held = |one: &&Passing| self.held_by(one).is_some_and(|holder| holder <= layer);
        self.walk.passing.iter().filter(held).map(|one| one.bytes).sum()
    }

    /// Whether the layer before those has it anyway: a recomputed one keeps what came in until it has run again, another
    /// one what it made and saved.
    pub(in crate::predict) fn is_kept(&self, one: &Passing) -> bool {
        let before = || one.from.checked_sub(1).and_then(|layer| self.checkpointed.get(layer)) == Some(&true);
        (one.came_in && before()) || (one.made_again && !before())
    }

    /// The first recomputed layer that is handed what one layer makes for those behind it: it keeps that until it has
    /// run again.
    fn held_by(&self, one: &Passing) -> Option<usize> {
        if !one.is_read || self.is_kept(one) {
            return None;
        }
        let behind = self.checkpointed.iter().enumerate().skip(one.reader.max(one.from));
        behind.take_while(|(layer, _)| *layer <= one.until).find(|(_, again)| **again).map(|(layer, _)| layer)
    }
}
