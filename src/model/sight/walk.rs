//! A tower's layers before those of a language model.

use std::sync::Arc;

use super::{Sight, ends};
use crate::model::architecture::Family;
use crate::model::builder::{Adapters, JOINT};
use crate::model::decoder::{DecoderContext, is_aligned, product};
use crate::model::element::Element;
use crate::model::frozen::FrozenParts;
use crate::model::stack::Decoder;
use crate::model::tape::{Tape, rounded};
use crate::model::walk::{Cut, Kernel, MicroBatch, Passing, Pending, Walk};
use crate::model::weight::{Part, Weight};
use crate::plan::keywords::Position;

/// Index of a mask that no layer of a tower has.
const NO_MASK: usize = 2;

/// The same kind of layer where what comes in is held by what stands before it.
fn borrowing(kinds: &mut Vec<(&'static str, Tape)>, kind: usize) -> usize {
    let (name, mut tape) = kinds[kind].clone();
    tape.borrows = true;
    kinds.push((name, tape));
    kinds.len() - 1
}

/// Layers in a row: kinds, masks, and where branches are made and taken up.
#[derive(Default)]
struct Line {
    order: Vec<usize>,
    mask_of: Vec<usize>,
    branches: Vec<usize>,
    taken: Vec<usize>,
}

impl Line {
    fn run(&mut self, kind: usize, mask: usize) {
        self.order.push(kind);
        self.mask_of.push(mask);
    }

    fn branch(&mut self, kind: usize) {
        self.branches.push(self.order.len());
        self.run(kind, NO_MASK);
    }

    fn take_up(&mut self, kind: usize) {
        self.taken.push(self.order.len());
        self.run(kind, NO_MASK);
    }
}

/// What stands before a language model, and one micro-batch of images.
pub(super) struct VisionStack<'a> {
    pub sight: &'a Sight,
    run: MicroBatch<'a>,
    language: &'a MicroBatch<'a>,
    /// Its adapters; without any nothing below them is trained.
    adapters: &'a Adapters,
}

/// A tower's adapters, where it has some; without any what stands below them is not trained.
fn of_tower(run: &MicroBatch<'_>) -> Adapters {
    let none = Adapters {
        rank: 1,
        targets: Vec::new(),
        tower: Vec::new(),
        saved: Vec::new(),
        dropout: 0.0,
        element: run.types.weight,
        base_bits: None,
        restores_input_type: false,
        kernels: Vec::new(),
    };
    run.adapters.map_or(none, |own| Adapters {
        targets: own.tower.clone(),
        tower: Vec::new(),
        saved: Vec::new(),
        ..own.clone()
    })
}

/// Whether a gradient goes beyond the text's embedding: to a tower or what joins it, where images are shown.
pub fn trains_before(d: &Decoder, run: &MicroBatch<'_>) -> bool {
    let shown = d.sight.is_some() && run.seen.images > 0;
    let adapted = |adapters: &Adapters| {
        let mut joint = adapters.targets.iter().chain(&adapters.saved);
        !adapters.tower.is_empty() || joint.any(|name| name.starts_with(JOINT))
    };
    shown && run.adapters.map_or(!(run.frozen.has_tower() && run.frozen.has_joint()), adapted)
}

/// The walk of a language model with its tower: the tower's blocks, the joint with the text's embedding, the layers.
pub fn seeing(language: &DecoderContext<'_>, sight: &Arc<Sight>, walk: Walk) -> Walk {
    let run = language.run;
    let adapters = of_tower(run);
    let trains = run.adapters.is_none() && !run.frozen.has_tower();
    let class_token = u64::from(sight.patches.class_token);
    let shown = run.seen.images.max(1).saturating_mul(sight.tiles_of(run.seen.side));
    let (images, each) = (run.batch.saturating_mul(shown), sight.patches_of(run.seen.side).saturating_add(class_token));
    let (batch, sequence) = if sight.one_sequence { (1, images.saturating_mul(each)) } else { (images, each) };
    let before = VisionStack {
        sight,
        language: run,
        adapters: &adapters,
        run: MicroBatch {
            adapters: (!trains).then_some(&adapters),
            batch,
            sequence,
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

impl VisionStack<'_> {
    /// The tower's blocks as a stack of its own.
    pub(super) fn tower(&self) -> DecoderContext<'_> {
        DecoderContext { d: &self.sight.tower, family: Family::Tower, run: &self.run, causal: false }
    }

    /// Whether the tower's weights are trained.
    pub(super) const fn tower_trains(&self) -> bool {
        self.run.adapters.is_none()
    }

    /// Whether a copy of the joint trains whole beside adapters, and the original stays.
    pub(super) fn joint_saved(&self) -> bool {
        self.language.adapters.is_some_and(|adapters| adapters.saved.contains(&JOINT))
    }

    /// Whether adapters stand on the joint.
    pub(super) fn joint_adapted(&self) -> bool {
        self.language.adapters.is_some_and(|adapters| adapters.targets.iter().any(|name| name.starts_with(JOINT)))
    }

    /// Whether the joint's weights are trained.
    pub(super) fn joint_trains(&self) -> bool {
        match self.language.adapters {
            Some(_) => self.joint_saved(),
            None => !self.language.frozen.has_joint(),
        }
    }

    /// Whether a gradient flows out of the tower's layers.
    pub(super) fn tower_reached(&self) -> bool {
        self.run.adapters.is_none_or(|adapters| !adapters.targets.is_empty())
    }

    /// Parts of the joint that are not trained: all or none.
    pub(super) fn frozen_joint(&self) -> FrozenParts {
        if self.joint_trains() { FrozenParts::NOTHING } else { FrozenParts::EVERYTHING }
    }

    /// Type of the weights.
    pub(super) const fn weight_element(&self) -> Element {
        self.run.types.weight
    }

    /// Pixels a side of an image.
    pub(super) const fn side(&self) -> u64 {
        self.run.seen.side
    }

    /// Images of all samples.
    pub(super) fn images(&self) -> u64 {
        self.language.batch.saturating_mul(self.run.seen.images.max(1))
    }

    /// Patches of all images.
    pub(super) fn patches(&self) -> u64 {
        product(&[self.images(), self.sight.tiles_of(self.side()), self.sight.patches_of(self.side())])
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
        let bare = Adapters { targets: Vec::new(), ..self.adapters.clone() };
        let run = MicroBatch { adapters: Some(&bare), ..self.run.clone() };
        let (unread, own) = DecoderContext { run: &run, ..tower }.layers(stream);
        // Adapters stand there too, and no gradient reaches them.
        let adapters: Vec<Weight> = blocks.first().map_or_else(Vec::new, |(_, tape)| {
            tape.weights.iter().copied().filter(|weight| weight.part == Part::Adapter).collect()
        });
        let from = blocks.len();
        let trains = self.tower_trains();
        blocks.extend(unread.into_iter().map(|(name, mut tape)| {
            tape.weights.iter_mut().for_each(|weight| weight.unreached = trains);
            tape.weights.extend(adapters.iter().copied());
            tape.weights.iter_mut().for_each(not_reached);
            (name, tape)
        }));
        order.iter_mut().zip(own).skip(read).for_each(|(kind, own)| *kind = from + own);
        (blocks, order)
    }

    /// All layers in the order in which they run.
    fn walk(&self, language: &DecoderContext<'_>, walk: Walk) -> Walk {
        let shown = language.run.seen.images > 0;
        let ran = |tape: Tape| if shown { tape } else { idle(&tape) };
        let (blocks, order) = self.blocks();
        let mut kinds: Vec<_> = blocks.into_iter().map(|(_, tape)| ("vision layer", ran(tape))).collect();
        let mut line = Line::default();
        let branch = kinds.len();
        if !self.sight.deepstack.is_empty() {
            kinds.push(("vision branch", ran(self.branch(language))));
        }
        for (at, kind) in order.into_iter().enumerate() {
            // What a branch reads it keeps, and the block behind it reads the same.
            let behind = (at as u64).checked_sub(1).is_some_and(|before| self.sight.deepstack.contains(&before));
            let kind = if behind { borrowing(&mut kinds, kind) } else { kind };
            line.run(kind, NO_MASK);
            if self.sight.deepstack.contains(&(at as u64)) {
                line.branch(branch);
            }
        }
        let bridge = line.order.len();
        line.run(kinds.len(), NO_MASK);
        kinds.push(("projector and embedding", if shown { self.bridge(language) } else { self.text(language) }));
        let taken = kinds.len();
        if !self.sight.deepstack.is_empty() {
            kinds.push(("vision branch taken up", ran(self.taken_up(language))));
        }
        let first = kinds.len();
        kinds.extend(walk.kinds);
        for (at, (kind, mask)) in walk.order.into_iter().zip(walk.mask_of).enumerate() {
            // What is written in place is held where that is done.
            let behind = (1..=line.branches.len()).contains(&at);
            let kind = if behind { borrowing(&mut kinds, first + kind) } else { first + kind };
            line.run(kind, mask);
            if at < line.branches.len() {
                line.take_up(taken);
            }
        }
        let start = self.start();
        let inputs = if shown { ends::inputs(&self.sight.patches, self.patches()) } else { 0 };
        let kept = if self.tower_reached() { self.tables() } else { 0 };
        let kept = kept.saturating_add(if self.keeps_mask() { self.mask() } else { 0 });
        let kept = if shown { kept } else { 0 };
        let (passing, pending) = if shown { self.held(language, bridge, &line) } else { Default::default() };
        Walk {
            first: ran(start),
            kinds,
            order: line.order,
            mask_of: line.mask_of,
            inputs: walk.inputs.saturating_add(inputs),
            passing,
            pending,
            shared: walk.shared.saturating_add(kept),
            buffers: walk.buffers.saturating_add(self.buffers()),
            ..walk
        }
    }

    /// Cosines and sines of each sample's tokens, by time, height and width.
    fn positions(&self, language: &DecoderContext<'_>) -> u64 {
        if !language.class_rules().sample_tables || language.class_rules().layer_tables == 0 {
            return 0;
        }
        let element = language.stream_element();
        rounded(product(&[3, self.language.tokens(), language.d.rotary_dim, element.bytes()])).saturating_mul(2)
    }

    /// Cosines and sines of all patches, in fp32 or in the stream's type.
    fn tables(&self) -> u64 {
        let d = &self.sight.tower;
        if d.position != Position::Rope {
            return 0;
        }
        let element = if d.class_rules.wide_rotation { Element::F32 } else { self.tower().stream_element() };
        rounded(product(&[self.patches(), d.head_dim, element.bytes()])).saturating_mul(2)
    }

    /// The angles of every place of the largest image, where they are not made anew (`PixtralRotaryEmbedding`).
    fn buffers(&self) -> u64 {
        let d = &self.sight.tower;
        if d.position != Position::Rope || d.class_rules.wide_rotation {
            return 0;
        }
        rounded(product(&[d.max_positions.unwrap_or(0), d.head_dim, Element::F32.bytes()]))
    }

    /// The mask that the model makes for all blocks of its tower, of each image's patches or of all.
    fn mask(&self) -> u64 {
        if !self.sight.tower.class_rules.typed_mask {
            return 0;
        }
        let (run, element) = (&self.run, self.tower().stream_element());
        rounded(product(&[run.batch, run.sequence, run.sequence, element.bytes()]))
    }

    /// Whether that mask is kept: by a kernel that reads it as it is, or for blocks that run again.
    fn keeps_mask(&self) -> bool {
        let tower = self.tower();
        let as_it_is = self.run.compute() == tower.stream_element() && is_aligned(self.run.sequence);
        let saved = as_it_is && tower.kernel(&tower.core(false)) == Kernel::Efficient;
        self.tower_reached() && (saved || self.run.checkpointed)
    }

    /// The images that are gathered before the tower.
    fn gathered(&self) -> u64 {
        if self.sight.patches.gathered { ends::inputs(&self.sight.patches, self.patches()) } else { 0 }
    }

    /// What is there while the tower runs: the text's embedding, which comes first, tables that nothing keeps, the blocks'
    /// outputs where all are asked for. And what branches give, until it is taken up; the way back, its gradient.
    fn held(&self, language: &DecoderContext<'_>, bridge: usize, line: &Line) -> (Vec<Passing>, Vec<Pending>) {
        let text = rounded(product(&[language.run.tokens(), language.d.hidden, language.stream_element().bytes()]));
        let tables = if self.tower_reached() { 0 } else { self.tables() };
        let tables = tables.saturating_add(if self.keeps_mask() { 0 } else { self.mask() });
        let mut held = vec![Passing::read(bridge + 1, line.order.len() - 1, self.positions(language))];
        held.push(Passing::by_frame(0, bridge.saturating_sub(1), text.saturating_add(tables)));
        // The convolution keeps them itself where it reads them as they are.
        let saved = self.tower_trains() && self.run.compute() == Element::F32;
        held.push(Passing::by_frame(0, bridge, if saved { 0 } else { self.gathered() }));
        let tower = self.tower();
        if self.sight.keeps_states {
            let state = rounded(product(&[self.run.tokens(), tower.d.hidden, tower.stream_element().bytes()]));
            held.extend((0..bridge).map(|layer| Passing::by_frame(layer + 1, bridge, state)));
            // The last norm of SigLIP's gives a state that nothing reads; CLIP's takes its own token alone.
            if self.sight.unread_norm && !self.sight.patches.class_token {
                held.push(Passing::by_frame(bridge, bridge, state));
            }
        }
        let (numel, grad) = self.branched(language);
        let branch = rounded(numel.saturating_mul(tower.run.compute().bytes()));
        let between = || line.branches.iter().copied().zip(line.taken.iter().copied());
        held.extend(line.branches.iter().map(|made| Passing::by_frame(made + 1, line.order.len() - 1, branch)));
        let back = between().filter(|_| grad);
        (held, back.map(|(until, made_by)| Pending { made_by, until, bytes: branch }).collect())
    }
}
