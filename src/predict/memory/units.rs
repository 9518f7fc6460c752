//! Units of PyTorch's FSDP as the backward pass comes through them: each layer's weights are gathered while the layer behind
//! it runs, its whole gradients are made one by one, reduced together, and freed. What is in no layer is the root's: its
//! gradients wait until the pass is over.
//!
//! FSDP1 (torch/distributed/fsdp): autograd puts a layer's gradients together in one flat tensor beside them, as its weights
//! are views of one (_flat_param.py, `_use_unsharded_views`); then the weights are freed, and the flat tensor is cast
//! to the type that is reduced in (_runtime_utils.py, `_post_backward_hook`).
//!
//! FSDP2 (torch/distributed/fsdp/_fully_shard): the weights are freed, then what the layer before reduced; gradients are
//! copied to a new tensor in the type that is reduced in, which stays until the next layer's are
//! (_fsdp_param_group.py, `post_backward`; _fsdp_collectives.py, `foreach_reduce`).

use super::shards::{is_between, trained};
use crate::model::{Group, Tape};
use crate::plan::keywords::Engine;
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::step::accumulates_whole;
use crate::predict::step::play::{PassPeak, TapePlay, WeightGradients};
use crate::units::Bytes;

/// What is reduced together.
const REDUCED: &str = "gradient reduction";

/// What a layer, or the root, has while it is whole.
#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    weights: Bytes,
    gradients: Bytes,
    /// The gradients in the type that they are reduced in.
    reduced: Bytes,
}

/// All units of a stage, and what is there of them.
#[derive(Debug)]
pub(super) struct Units {
    root: Unit,
    /// Each kind of layer; none where its weights are the root's.
    kinds: Vec<Option<Unit>>,
    /// FSDP2.
    second: bool,
    /// The types of gradients and of their reduction differ.
    casts: bool,
    /// Weights stay whole from their forward pass on.
    stays: bool,
    /// Gradients are not reduced before the last micro-batch, and weights that stay whole do so until then
    /// (_runtime_utils.py, `_should_free_in_backward`).
    accumulates: bool,
    /// Weights that stay.
    live: Bytes,
    /// What the layer before reduced.
    lingers: Bytes,
    /// The root's gradients so far.
    waiting: Bytes,
}

/// Memory at a moment of the backward pass: what a tape has, and what its unit adds.
pub(super) type Moment = (PassPeak, Bytes);

impl Units {
    /// Those of a stage; none where another engine shares the weights out, or none does.
    pub fn of(held: &StageTapes<'_>) -> Option<Self> {
        if held.step.gradients != WeightGradients::UntilReduced {
            return None;
        }
        let storage = &held.job.storage;
        let [seen, reduced] = [storage.compute, storage.reduce].map(|element| Bytes(element.bytes()));
        let unit =
            |weights: Bytes, trained: u64| Unit { weights, gradients: seen * trained, reduced: reduced * trained };
        let of = |tape: &Tape| (!is_between(tape)).then(|| unit(held.whole(tape), trained(tape)));
        let kinds: Vec<Option<Unit>> = held.step.walk.kinds.iter().map(|(_, tape)| of(tape)).collect();
        let root = unit(seen * held.outside(Tape::parameters), held.outside(trained));
        let weights = |layer: &u64| kinds[held.step.kind(*layer)].map_or(Bytes::ZERO, |unit| unit.weights);
        Some(Self {
            live: root.weights + held.layers.iter().map(weights).sum(),
            root,
            second: held.job.degrees.engine == Engine::Fsdp2,
            casts: storage.compute != storage.reduce,
            stays: held.job.degrees.stays_gathered,
            accumulates: accumulates_whole(held.job),
            kinds,
            lingers: Bytes::ZERO,
            waiting: Bytes::ZERO,
        })
    }

    fn unit(&self, step: &StepTapes, layer: u64) -> Option<Unit> {
        self.kinds[step.kind(layer)]
    }

    /// The unit that ran before `layer`, which is gathered ahead.
    fn ahead(&self, step: &StepTapes, layer: u64) -> Bytes {
        (0..layer).rev().find_map(|one| self.unit(step, one)).map_or(Bytes::ZERO, |unit| unit.weights)
    }

    fn gathered(&self, step: &StepTapes, layer: u64) -> Bytes {
        let own = self.unit(step, layer).unwrap_or_default();
        if self.stays { self.live } else { self.root.weights + own.weights + self.ahead(step, layer) }
    }

    /// In a layer's forward pass. What FSDP2 gathered is copied to the weights, and goes when the next layer's are there
    /// (`wait_for_unshard`); FSDP1's weights are views of it.
    pub fn in_forward(&self, step: &StepTapes, layer: u64) -> Bytes {
        let own = self.unit(step, layer).unwrap_or_default().weights;
        if self.stays { self.live } else { self.root.weights + own * if self.second { 2 } else { 1 } }
    }

    /// Behind the last of `layers`: forward, and backward, where that one is gathered ahead.
    pub fn at_head(&self, step: &StepTapes, layers: &[u64], backward: bool) -> Bytes {
        let last = layers.last().map_or(Bytes::ZERO, |last| self.ahead(step, last + 1));
        if self.stays {
            return self.live;
        }
        self.root.weights + if self.second || backward { last } else { Bytes::ZERO }
    }

    /// In a layer's backward pass.
    pub fn in_backward(&self, step: &StepTapes, layer: u64) -> Bytes {
        self.gathered(step, layer) + self.lingers + self.waiting
    }

    /// In the root's own, behind all layers.
    pub fn in_root(&self) -> Bytes {
        self.root.weights + self.lingers + self.waiting
    }

    /// When a layer's gradients are reduced; none where they are the root's.
    pub fn reduction(&self, step: &StepTapes, layer: u64, played: &TapePlay) -> Option<Moment> {
        let unit = self.unit(step, layer).filter(|unit| unit.gradients > Bytes::ZERO)?;
        Some(self.reduced(unit, self.in_backward(step, layer), played))
    }

    /// When the root's are.
    pub fn root_reduction(&self, played: &TapePlay) -> Moment {
        self.reduced(self.root, self.in_root(), played)
    }

    fn reduced(&self, unit: Unit, there: Bytes, played: &TapePlay) -> Moment {
        let mut moment = PassPeak { total: played.over.iter().sum(), groups: played.over, at: REDUCED };
        let mut add = |bytes: Bytes| {
            moment.total = moment.total.saturating_add(bytes.0);
            moment.groups[Group::WeightGradient as usize] += bytes.0;
        };
        if self.second {
            add(unit.reduced);
            return (moment, there.saturating_sub(unit.weights + self.lingers));
        }
        // Beside the flat tensor: its parts and the weights, then its copy.
        let copy = if self.casts { unit.reduced.saturating_sub(unit.weights) } else { Bytes::ZERO };
        add(unit.gradients.max(copy));
        (moment, there)
    }

    /// A layer's backward pass is over. Gives the parameters whose parts of gradients are there from now on.
    pub fn leave(&mut self, step: &StepTapes, layer: u64, played: &TapePlay) -> bool {
        let Some(unit) = self.unit(step, layer) else {
            self.waits(played);
            return false;
        };
        if !self.accumulates {
            self.live = self.live.saturating_sub(unit.weights);
        }
        self.lingers = if self.second { unit.reduced } else { Bytes::ZERO };
        true
    }

    /// A tape of the root's has run backward.
    pub fn waits(&mut self, played: &TapePlay) {
        self.waiting += Bytes(played.weight_gradients);
    }
}
