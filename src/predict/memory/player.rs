//! How a stage's tapes are played, layer by layer, pass by pass.

use super::buffers::Buffers;
use super::peak::Peak;
use super::resident::Resident;
use super::units::Units;
use super::{BEHIND, Player, START};
use crate::model::{GROUPS, Group};
use crate::plan::keywords::{CpuOffload, Mode};
use crate::predict::prediction::{Component, Phase, Place, TimelinePoint};
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::step::layers::Ends;
use crate::predict::step::play::{Groups, PassPeak, TapePlay, WeightGradients};
use crate::predict::step::prefill::looked_up;
use crate::units::Bytes;

impl<'a> Player<'a> {
    /// Before the step, on top of `base` bytes.
    pub(super) fn of(held: &StageTapes<'a>, resident: Resident, base: u64, in_flight: u64) -> Self {
        let (job, step) = (held.job, held.step);
        let train = job.training.mode == Mode::Train;
        Self {
            step,
            train,
            ends: Ends::of(job),
            resident,
            base,
            workspaces: 0,
            in_flight,
            left: 0,
            shared: if held.layers.is_empty() { 0 } else { step.shared() },
            offload: train && job.training.cpu_offload == CpuOffload::Activations,
            by_module: !job.training.offload_modules.is_empty(),
            offload_until: job.training.offload_layers.unwrap_or(u64::MAX),
            peak: Peak::none(),
            timeline: Vec::new(),
            curve: true,
            stride: (held.layers.len() as u64).div_ceil(24).max(1),
            retained: [0; GROUPS],
            gradients: if resident.gradients_before { resident.gradients.0 } else { 0 },
            buffers: Buffers::of(&resident),
            units: if train { Units::of(held) } else { None },
        }
    }

    /// Before anything runs: what the last step left.
    pub(super) fn start(&mut self) {
        let left = self.left;
        if left == 0 {
            return;
        }
        let mut groups = [0; GROUPS];
        groups[Group::Residual as usize] = left;
        let waiting = std::mem::take(&mut self.in_flight);
        self.meet(
            Phase::Forward,
            Place::Named(START),
            &PassPeak { total: left, groups, at: START },
            Bytes::ZERO,
            false,
        );
        self.in_flight = waiting;
    }

    pub(super) fn forward(&mut self, held: &StageTapes<'_>) {
        if held.first {
            let there = self.there(|units, _| units.in_root(), |buffers| buffers.gathered(0));
            self.meet(Phase::Forward, Place::Named(self.ends.first), &self.step.first.forward.clone(), there, true);
            self.keep(&self.step.first, 0, 1);
            self.retained[Group::Embedding as usize] += if self.train { 0 } else { looked_up(&self.step.walk.first) };
        }
        for (at, run) in self.runs(held).into_iter().enumerate() {
            let shown = self.is_shown(at, held.layers.len());
            let ends = [run.first(), run.last().filter(|_| run.len() > 1)];
            for (layer, alike) in ends.into_iter().flatten().zip([run.len().saturating_sub(1).max(1), 1]) {
                let played = self.step.layer(*layer);
                let passing = self.step.passing(*layer).saturating_add(self.step.returned_before(*layer));
                self.retained[Group::Attention as usize] += passing;
                let there = self.there(|units, step| units.in_forward(step, *layer), Buffers::in_forward);
                self.meet(Phase::Forward, Place::Layer(*layer), &played.forward, there, shown);
                self.retained[Group::Attention as usize] -= passing;
                self.keep(played, *layer, alike as u64);
            }
        }
        self.buffers.keep_live();
        if held.last {
            let passing = self.step.passing(BEHIND);
            self.retained[Group::Attention as usize] += passing;
            let there =
                self.there(|units, step| units.at_head(step, &held.layers, false), |buffers| buffers.gathered(1));
            self.meet(Phase::Forward, Place::Named(self.ends.last), &self.step.last.forward.clone(), there, true);
            self.retained[Group::Attention as usize] -= passing;
            self.keep(&self.step.last, BEHIND, 1);
        }
    }

    /// Autocast's copies of weights that nothing saved go when it is left.
    pub(super) fn leave_autocast(&mut self, held: &StageTapes<'_>) {
        let copies = Group::WeightCopy as usize;
        let mut gone: u64 = held.layers.iter().map(|layer| self.step.layer(*layer).until_exit).sum();
        gone += if held.first { self.step.first.until_exit } else { 0 };
        gone += if held.last { self.step.last.until_exit } else { 0 };
        self.retained[copies] = self.retained[copies].saturating_sub(gone);
    }

    pub(super) fn backward(&mut self, held: &StageTapes<'_>) {
        self.buffers.turn_back();
        if held.last {
            self.backward_of_last(held);
        }
        for (at, run) in self.runs(held).into_iter().enumerate().rev() {
            let shown = self.is_shown(at, held.layers.len());
            for (layer, alike) in self.backward_ends(run) {
                self.backward_of_layers(*layer, alike as u64, shown);
            }
        }
        if held.first {
            self.backward_of_first();
        }
    }

    fn backward_of_last(&mut self, held: &StageTapes<'_>) {
        let played = &self.step.last;
        let parameters = self.step.walk.last.parameters();
        self.drop_kept(played, BEHIND, 1);
        let passed = self.step.passed(BEHIND);
        self.retained[Group::Attention as usize] += passed;
        let there = self.there(|units, step| units.at_head(step, &held.layers, true), Buffers::in_loss);
        self.meet(Phase::Backward, Place::Named(self.ends.loss), &played.backward.clone(), there, true);
        self.retained[Group::Attention as usize] -= passed;
        self.outlast(played, 1);
        if let Some(units) = &mut self.units {
            units.waits(played);
        } else {
            self.gradients += self.new_gradients(played, parameters);
        }
        self.buffers.queue(self.resident.head_gradients);
    }

    /// Back through `alike` layers that are like `layer`, the last to go.
    fn backward_of_layers(&mut self, layer: u64, alike: u64, shown: bool) {
        let played = self.step.layer(layer);
        let parameters = self.step.parameters(layer);
        // Those between have gone the same way.
        let between = alike - 1;
        self.gradients += between * self.new_gradients(played, parameters);
        self.drop_kept(played, layer, alike);
        self.outlast(played, between);
        let (waiting, passed) = (self.step.waiting(layer), self.step.passed(layer));
        self.retained[Group::ActivationGradient as usize] += waiting;
        self.retained[Group::Attention as usize] += passed;
        let ahead = self.reloaded(played, layer);
        self.add(ahead, u64::saturating_add);
        let there = self.there(|units, step| units.in_backward(step, layer), Buffers::in_backward);
        self.meet(Phase::Backward, Place::Layer(layer), &played.backward, there, shown);
        if let Some((peak, there)) = self.units.as_ref().and_then(|one| one.reduction(self.step, layer, played)) {
            let there = there + self.resident.accumulated;
            self.meet(Phase::Backward, Place::Layer(layer), &peak, there, false);
        }
        self.add(ahead, u64::saturating_sub);
        self.retained[Group::ActivationGradient as usize] -= waiting;
        self.retained[Group::Attention as usize] -= passed;
        self.outlast(played, 1);
        self.gradients += self.left_gradients(layer, played, parameters);
        self.buffers.leave_layer();
    }

    fn backward_of_first(&mut self) {
        let played = &self.step.first;
        let parameters = self.step.walk.first.parameters();
        self.drop_kept(played, 0, 1);
        let there = self.there(|units, _| units.in_root(), Buffers::in_root);
        self.meet(Phase::Backward, Place::Named(self.ends.first), &played.backward.clone(), there, true);
        if let Some((peak, there)) = self.units.as_ref().map(|units| units.root_reduction(played)) {
            let there = there + self.resident.accumulated;
            self.meet(Phase::Backward, Place::Named(self.ends.first), &peak, there, false);
        }
        self.gradients += self.new_gradients(played, parameters);
    }

    /// What sharing out weights and gradients adds: FSDP's units, or others' buffers.
    fn there(&self, units: impl Fn(&Units, &StepTapes) -> Bytes, buffers: impl Fn(&Buffers) -> Bytes) -> Bytes {
        let whole = self.resident.accumulated;
        self.units.as_ref().map_or_else(|| buffers(&self.buffers), |one| units(one, self.step) + whole)
    }

    /// Layers of a run of alike ones at which memory may be the most, from the last on, and how many layers each is or
    /// stands for: behind the last one, FSDP2 holds what that one reduced; before the first, none is gathered ahead.
    fn backward_ends<'r>(&self, run: &'r [u64]) -> Vec<(&'r u64, usize)> {
        match run {
            [] => Vec::new(),
            [one] => vec![(one, 1)],
            [first, next, .., second, last] if self.units.is_some() => {
                vec![(last, 1), (second, 1), (next, run.len() - 3), (first, 1)]
            }
            [first, second, last] if self.units.is_some() => vec![(last, 1), (second, 1), (first, 1)],
            [first, .., last] => vec![(last, 1), (first, run.len() - 1)],
        }
    }

    /// Gradients that a layer leaves when its backward pass is over.
    fn left_gradients(&mut self, layer: u64, played: &TapePlay, parameters: u64) -> u64 {
        let reduced = self.units.as_mut().is_none_or(|units| units.leave(self.step, layer, played));
        if reduced { self.new_gradients(played, parameters) } else { 0 }
    }

    /// What comes back from host memory while `played` runs backward: modules of the layer before, as Megatron leaves
    /// those of the last layer on the GPU, so that each module's pass fetches what is needed one layer on (megatron-core,
    /// pipeline_parallel/fine_grained_activation_offload.py, `post_warmup_callback` and `on_group_start_backward`).
    pub(super) fn reloaded(&self, played: &TapePlay, layer: u64) -> Groups {
        if self.offload && self.by_module && layer < self.offload_until { played.offloaded } else { [0; GROUPS] }
    }

    pub(super) fn add(&mut self, bytes: Groups, with: fn(u64, u64) -> u64) {
        for (held, more) in self.retained.iter_mut().zip(bytes) {
            *held = with(*held, more);
        }
    }

    /// Layers in turn. Alike ones that follow each other are one run: from one to the next of them memory changes by the
    /// same bytes, so that its peak is at an end of the run. Where the course over the step is wanted, or layers hold
    /// something for others far away, each layer is a run of its own.
    pub(super) fn runs<'h>(&self, held: &'h StageTapes<'_>) -> Vec<&'h [u64]> {
        let (step, walk) = (self.step, &self.step.walk);
        let folds = !self.curve && !self.buffers.waits() && walk.pending.is_empty() && walk.passing.is_empty();
        if !folds {
            return held.layers.chunks(1).collect();
        }
        let kind = |layer: &u64| (step.kind(*layer), step.is_checkpointed(*layer), *layer < self.offload_until);
        held.layers.chunk_by(|one, other| kind(one) == kind(other)).collect()
    }

    pub(super) fn optimizer(&mut self) {
        let resident = self.resident;
        let (gradients, temporary) = (resident.gradients.0, resident.optimizer_temporary.0);
        let total = self.base + gradients + temporary + self.left;
        let at = Place::Named("optimizer step");
        if self.curve {
            let parts = self.parts(self.left, temporary, gradients, 0);
            self.timeline.push(TimelinePoint { phase: Phase::Optimizer, at, allocated: Bytes(total), parts });
        }
        if total > self.peak.total {
            let mut groups = [0; GROUPS];
            groups[Group::Residual as usize] = self.left;
            self.peak = Peak {
                total,
                phase: Phase::Optimizer,
                at,
                groups,
                gradients,
                optimizer: temporary,
                buffers: resident.buckets.0,
                ..Peak::none()
            };
        }
    }

    /// Gradients that a tape leaves, unless they exist already: what it made, or its part of what ranks share out.
    pub(super) fn new_gradients(&self, played: &TapePlay, parameters: u64) -> u64 {
        if self.resident.gradients_before || self.resident.accumulated.0 > 0 {
            return played.waiting;
        }
        if self.step.gradients == WeightGradients::Made {
            return played.weight_gradients;
        }
        let part =
            u128::from(self.resident.gradients.0) * u128::from(parameters) / u128::from(self.resident.params.max(1));
        u64::try_from(part).unwrap_or(self.resident.gradients.0).saturating_add(played.waiting)
    }

    pub(super) fn keep(&mut self, played: &TapePlay, layer: u64, times: u64) {
        let here = played.stays_here(self.offload && layer < self.offload_until, self.by_module);
        for (sum, bytes) in self.retained.iter_mut().zip(here) {
            *sum = sum.saturating_add(bytes.saturating_mul(times));
        }
    }

    /// A tape's own saved tensors are part of its backward peak: they are taken off before, `times` over where as many
    /// alike are passed.
    pub(super) fn drop_kept(&mut self, played: &TapePlay, layer: u64, times: u64) {
        let here = played.stays_here(self.offload && layer < self.offload_until, self.by_module);
        let copies = Group::WeightCopy as usize;
        for (group, (sum, bytes)) in self.retained.iter_mut().zip(here).enumerate() {
            let bytes = if group == copies { bytes.saturating_sub(played.until_exit) } else { bytes };
            *sum = sum.saturating_sub(bytes.saturating_mul(times));
        }
    }

    /// What of the saved tensors of `times` such tapes is there still when they have run backward.
    fn outlast(&mut self, played: &TapePlay, times: u64) {
        let held = &mut self.retained[Group::Residual as usize];
        *held = held.saturating_add(played.lasting.saturating_mul(times));
    }

    /// Puts the peak on the timeline where the layer that makes it is between two points.
    pub(super) fn show_summit(&mut self) {
        let Peak { phase, at, total, missing, .. } = self.peak;
        if let Some(index) = missing.filter(|_| self.curve) {
            let Peak { in_flight, gradients, shared, groups, buffers, optimizer, .. } = self.peak;
            let held: u64 = groups.iter().sum();
            let buffers = buffers.saturating_sub(self.resident.buckets.0);
            let parts = self.parts(in_flight + shared + held, optimizer, gradients, buffers);
            self.timeline.insert(index, TimelinePoint { phase, at, allocated: Bytes(total), parts });
        }
    }

    pub(super) fn is_shown(&self, at: usize, of: usize) -> bool {
        (at as u64).is_multiple_of(self.stride) || at + 1 == of
    }

    /// Sets a tape's peak on top of what is there.
    pub(super) fn meet(&mut self, phase: Phase, place: Place, peak: &PassPeak, buffers: Bytes, shown: bool) {
        let mine: u64 = self.retained.iter().sum();
        let total = [self.base, self.in_flight, self.shared, mine, peak.total, self.gradients, buffers.0]
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part));
        if shown && self.curve {
            let held = mine.saturating_add(self.in_flight).saturating_add(self.shared);
            let parts = self.parts(held, peak.total, self.gradients, buffers.0);
            self.timeline.push(TimelinePoint { phase, at: place, allocated: Bytes(total), parts });
        }
        if total > self.peak.total {
            let mut groups = self.retained;
            for (sum, bytes) in groups.iter_mut().zip(peak.groups) {
                *sum = sum.saturating_add(bytes);
            }
            self.peak = Peak {
                total,
                phase,
                at: place,
                missing: (!shown).then_some(self.timeline.len()),
                operator: peak.at,
                groups,
                in_flight: self.in_flight,
                gradients: self.gradients,
                buffers: (buffers + self.resident.buckets).0,
                optimizer: 0,
                shared: self.shared,
                in_block: matches!(place, Place::Layer(_)),
                in_loss: phase == Phase::Backward && matches!(place, Place::Named(name) if name == self.ends.loss),
            };
        }
    }

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
