//! A tower's layers before those of a language model.

use std::sync::Arc;

use super::{Sight, ends};
use crate::model::architecture::Family;
use crate::model::builder::Adapters;
use crate::model::decoder::{DecoderContext, product};
use crate::model::element::Element;
use crate::model::frozen::FrozenParts;
use crate::model::tape::{Tape, rounded};
use crate::model::walk::{Cut, MicroBatch, Passing, Walk};
use crate::model::weight::Weight;
use crate::plan::keywords::Position;

/// Index of a mask that no layer of a tower has.
const NO_MASK: usize = 2;

/// What stands before a language model, and one micro-batch of images.
pub(super) struct Before<'a> {
    pub sight: &'a Sight,
    run: MicroBatch<'a>,
    language: &'a MicroBatch<'a>,
    nothing: &'a Adapters,
}

/// Adapters on nothing: what stands below them is not trained, and quantised where their base is.
fn none_trained(run: &MicroBatch<'_>) -> Adapters {
    Adapters {
        rank: 1,
        targets: Vec::new(),
        saved: Vec::new(),
        dropout: 0.0,
        element: run.types.weight,
        base_bits: run.adapters.and_then(|adapters| adapters.base_bits),
        restores_input_type: run.adapters.is_some_and(|adapters| adapters.restores_input_type),
    }
}

/// The walk of a language model with its tower: the tower's blocks, the joint with the text's embedding, the layers.
pub fn seeing(language: &DecoderContext<'_>, sight: &Arc<Sight>, walk: Walk) -> Walk {
    let run = language.run;
    let nothing = none_trained(run);
    let trains = run.adapters.is_none() && !run.frozen.has_tower();
    let class_token = u64::from(sight.patches.class_token);
    let shown = run.seen.images.max(1);
    let before = Before {
        sight,
        language: run,
        nothing: &nothing,
        run: MicroBatch {
            adapters: (!trains).then_some(&nothing),
            batch: run.batch.saturating_mul(shown),
            sequence: sight.patches_of(run.seen.side).saturating_add(class_token),
            cut: Cut::WHOLE,
            padded: false,
            frozen: FrozenParts::default(),
            cache: None,
            ..run.clone()
        },
    };
    before.walk(language, walk)
}

/// No gradient reaches a weight that is trained.
pub(super) const fn not_reached(weight: &mut Weight) {
    if weight.trained {
        (weight.trained, weight.unreached) = (false, true);
    }
}

/// The weights of what does not run: no gradient reaches them.
pub(super) fn idle(tape: &Tape) -> Tape {
    let mut idle = Tape::default();
    idle.weights.clone_from(&tape.weights);
    idle.weights.iter_mut().for_each(not_reached);
    idle.plain = true;
    idle
}

impl Before<'_> {
    /// The tower's blocks as a stack of its own.
    pub(super) fn tower(&self) -> DecoderContext<'_> {
        DecoderContext { d: &self.sight.tower, family: Family::Tower, run: &self.run, causal: false }
    }

    /// Whether the tower's weights are trained.
    pub(super) const fn tower_trains(&self) -> bool {
        self.run.adapters.is_none()
    }

    /// Parts of the joint that are not trained: all or none.
    pub(super) const fn frozen_joint(&self) -> FrozenParts {
        if self.language.frozen.has_joint() { FrozenParts::EVERYTHING } else { FrozenParts::NOTHING }
    }

    /// Patches of all images.
    pub(super) fn patches(&self) -> u64 {
        self.run.batch.saturating_mul(self.sight.patches_of(self.run.seen.side))
    }

    /// The tower's blocks; those that nothing reads run forward alone.
    fn blocks(&self) -> (Vec<(&'static str, Tape)>, Vec<usize>) {
        let tower = self.tower();
        let stream = tower.stream_element();
        let (mut blocks, mut order) = tower.layers(stream);
        let read = usize::try_from(self.sight.read).unwrap_or(usize::MAX);
        if read >= order.len() {
            return (blocks, order);
        }
        let run = MicroBatch { adapters: Some(self.nothing), ..self.run.clone() };
        let (unread, _) = DecoderContext { run: &run, ..tower }.layers(stream);
        let from = blocks.len();
        let trains = self.tower_trains();
        blocks.extend(unread.into_iter().map(|(name, mut tape)| {
            tape.weights.iter_mut().for_each(|weight| weight.unreached = trains);
            (name, tape)
        }));
        order.iter_mut().skip(read).for_each(|kind| *kind += from);
        (blocks, order)
    }

    fn walk(&self, language: &DecoderContext<'_>, walk: Walk) -> Walk {
        let (blocks, order) = self.blocks();
        let bridge = order.len();
        let joint = blocks.len();
        let shown = language.run.seen.images > 0;
        let ran = |tape: Tape| if shown { tape } else { idle(&tape) };
        let mut kinds: Vec<_> = blocks.into_iter().map(|(_, tape)| ("vision layer", ran(tape))).collect();
        kinds.push(("projector and embedding", if shown { self.bridge(language) } else { self.text(language) }));
        let first = kinds.len();
        if !shown {
            let order =
                order.into_iter().chain([joint]).chain(walk.order.into_iter().map(|kind| kind + first)).collect();
            kinds.extend(walk.kinds);
            return Walk { first: idle(&self.start()), kinds, order, ..walk };
        }
        kinds.extend(walk.kinds);
        let mut passing = walk.passing.into_iter().map(|one| one.behind(bridge + 1)).collect::<Vec<_>>();
        passing.extend(self.held(language, bridge));
        Walk {
            first: self.start(),
            kinds,
            order: order.into_iter().chain([joint]).chain(walk.order.into_iter().map(|kind| kind + first)).collect(),
            masks: walk.masks,
            mask_of: std::iter::repeat_n(NO_MASK, bridge + 1).chain(walk.mask_of).collect(),
            inputs: walk.inputs.saturating_add(ends::inputs(&self.sight.patches, self.patches())),
            passing,
            shared: walk.shared.saturating_add(if self.tower_trains() { self.tables() } else { 0 }),
            ..walk
        }
    }

    /// Cosines and sines of each sample's tokens, by time, height and width.
    fn positions(&self, language: &DecoderContext<'_>) -> u64 {
        if !language.class_rules().sample_tables {
            return 0;
        }
        let element = language.stream_element();
        rounded(product(&[3, self.language.tokens(), language.d.rotary_dim, element.bytes()])).saturating_mul(2)
    }

    /// Cosines and sines of all patches, in fp32.
    fn tables(&self) -> u64 {
        let d = &self.sight.tower;
        if d.position != Position::Rope {
            return 0;
        }
        rounded(product(&[self.patches(), d.head_dim, Element::F32.bytes()])).saturating_mul(2)
    }

    /// What is there while the tower runs: the text's embedding, which comes first, tables that nothing keeps, and the
    /// blocks' outputs where all are asked for.
    fn held(&self, language: &DecoderContext<'_>, bridge: usize) -> Vec<Passing> {
        let text = rounded(product(&[language.run.tokens(), language.d.hidden, language.stream_element().bytes()]));
        let tables = if self.tower_trains() { 0 } else { self.tables() };
        let layers = usize::try_from(language.d.layers).unwrap_or(0);
        let mut held = vec![Passing::read(bridge + 1, bridge + layers, self.positions(language))];
        held.push(Passing::by_frame(0, bridge.saturating_sub(1), text.saturating_add(tables)));
        if self.sight.keeps_states {
            let tower = self.tower();
            let state = rounded(product(&[self.run.tokens(), tower.d.hidden, tower.stream_element().bytes()]));
            held.extend((0..bridge).map(|layer| Passing::by_frame(layer + 1, bridge, state)));
        }
        held
    }
}
