//! A model as `memwall trace` wrote it: the operators of a training step, or of a forward pass, with sizes as polynomials of batch and
//! lengths. Read from a file that anybody may have written, within bounds.

mod check;
mod names;
mod read;
mod traces;
mod work;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use names::intern;
pub use read::{read_trace, unpacked};
pub use traces::{TraceTypes, Traces};
pub use work::TracedWork;

/// The version of the format. The first had training steps alone, the third nothing that the model itself recomputes.
pub const VERSION: u32 = 4;

/// A traced model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TracedModel {
    /// Version of the format.
    pub memwall_tape: u32,
    /// What ran.
    #[serde(default)]
    pub pass: TracedPass,
    /// What the model is called.
    pub name: String,
    /// What it was made from.
    pub source: String,
    /// Versions of the libraries that ran, by name.
    pub versions: BTreeMap<String, String>,
    /// The device that was traced on, and how it came about.
    pub device: String,
    /// What differs from a GPU there.
    pub differences: Vec<String>,
    /// What the tracer had to say.
    pub notes: Vec<String>,
    /// Parameters, tied ones once.
    pub parameters: ParameterCounts,
    /// What sizes depend on, in the order of the exponents of `terms`.
    pub axes: Vec<SizeAxis>,
    /// Sizes at which it was traced, by axis.
    pub points: Vec<BTreeMap<SizeAxis, u64>>,
    /// Exponents of each term, by axis.
    pub terms: Vec<Vec<u32>>,
    /// Pixels (or latents) a side of the images that it was made for.
    pub image: Option<u64>,
    /// Whether it was traced with images of other sizes too.
    pub image_varies: bool,
    /// Most tokens.
    pub longest: Option<u64>,
    /// What runs differs between sizes: it holds for the last traced point alone.
    pub fixed: bool,
    /// Each size: a denominator, and the numerator of each term's factor (one number alone: a constant).
    pub sizes: Vec<Vec<i64>>,
    /// Sizes that follow no polynomial: held at those of the last traced point.
    pub unfit: Vec<u32>,
    /// Tensors that a batch consists of.
    pub inputs: Vec<TracedInput>,
    /// Buffers: type, elements, how many alike.
    pub buffers: Vec<(TracedElement, u64, u64)>,
    /// The step in each precision.
    pub traces: Traces,
    /// The path of the output matrix of a model of transformers, empty where there is none. Older tapes do not say.
    #[serde(default)]
    pub output_layer: Option<String>,
    /// Layers that several modules have, by the path of the first. Older tapes do not say.
    #[serde(default)]
    pub shared_layers: Option<Vec<String>>,
    /// The model recomputes its blocks by itself, which are what it checkpoints.
    #[serde(default)]
    pub recomputes: bool,
}

/// What of a model was traced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TracedPass {
    /// A training step.
    #[default]
    Step,
    /// A forward pass without gradients.
    Forward,
}

/// Numbers of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ParameterCounts {
    /// All.
    pub total: u64,
    /// With gradients.
    pub trainable: u64,
}

/// What sizes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum SizeAxis {
    /// Samples.
    #[serde(rename = "B")]
    Batch,
    /// Tokens a sample.
    #[serde(rename = "S")]
    Sequence,
    /// Tokens a sample of the decoder.
    #[serde(rename = "T")]
    Target,
    /// Pixels a side.
    #[serde(rename = "I")]
    Image,
}

/// A tensor of a batch: name, type, whether it takes the type of the weights (1), sides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TracedInput(pub String, pub TracedElement, pub u8, pub Vec<u32>);

/// The type of an element; others are written as one of as many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TracedElement {
    /// 8 bytes.
    I64,
    /// 4 bytes.
    F32,
    /// 2 bytes: the lower precision.
    Bf16,
    /// 2 bytes.
    F16,
    /// 1 byte.
    U8,
}

impl TracedModel {
    /// Whether keys and values are kept for later tokens.
    #[must_use]
    pub fn keeps_cache(&self) -> bool {
        let tensors = self.traces.all().flat_map(|trace| &trace.kinds).flat_map(|segment| &segment.tensors);
        tensors.into_iter().any(|tensor| tensor.2 == TracedGroup::KvCache)
    }
}

/// A training step, cut into blocks and what lies between them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Trace {
    /// Segments that differ.
    pub kinds: Vec<Segment>,
    /// Kind of each segment, in the order of the forward pass: the first stands before all blocks, the last behind.
    pub order: Vec<u32>,
    /// Gradients that wait: the segment that makes them, the one that takes them, shape, type.
    pub pending: Vec<(u32, u32, Vec<u32>, TracedElement)>,
    /// What is held in the forward pass.
    pub passing: Vec<TracedPassing>,
    /// Where tensors of other segments were made to which a gradient may flow or which some segment saves, in the order of the segments
    /// that read them. Older tapes have none.
    #[serde(default)]
    pub links: Option<Vec<TracedLink>>,
    /// What the gradients of `pending` are of, where that is known: the segment that made it, and the tensor there.
    #[serde(default)]
    pub pending_of: Vec<Option<(u32, u32)>>,
    /// Where each segment stands in the model. Older tapes have none.
    #[serde(default)]
    pub paths: Vec<String>,
    /// What Python has a name for while later segments run, where nothing saves it: the segment that made it, the tensor there, and the
    /// segments behind which and up to which it is held.
    #[serde(default)]
    pub named: Vec<TracedLink>,
    /// What is there before and behind a step beside parameters, buffers and the batch, as tables that a layer made once: type,
    /// elements, how many alike.
    #[serde(default)]
    pub resting: Vec<(TracedElement, u64, u64)>,
}

/// A tensor that another segment made: the segment that reads it, the tensor there, the segment that made it, the tensor there. For
/// [`Trace::named`] as that says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct TracedLink(pub u32, pub u32, pub u32, pub u32);

/// What is held in the forward pass: behind which segment, up to which, shape, type, and what is known of it, added up: a
/// frame alone has it, as no segment reads it any more (1); it came into that segment (2); that segment has it as well,
/// unless it is recomputed (4). And the first block that reads it, where others stand before that.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TracedPassing(
    pub u32,
    pub u32,
    pub Vec<u32>,
    pub TracedElement,
    #[serde(default)] pub u8,
    #[serde(default)] pub u32,
);

/// A block, or what lies between two.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Segment {
    /// Its class.
    pub name: String,
    /// Where the first of its kind stands in the model.
    pub path: String,
    /// Whether it is a block.
    pub block: bool,
    /// What comes in is saved by the segment that made it.
    pub borrows: bool,
    /// Parameters.
    pub weights: Vec<TracedWeight>,
    /// Tensors.
    pub tensors: Vec<TracedTensor>,
    /// Operators in the order of the forward pass.
    pub ops: Vec<TracedOp>,
    /// The tensor that leaves.
    pub output: Option<u32>,
    /// Further ones whose gradients come back.
    pub also: Vec<u32>,
    /// Of these, what its own operators alone save and no block reads: recomputed, the segment makes it again.
    #[serde(default)]
    pub also_made_again: Vec<u32>,
    /// Its own operators alone save what leaves, beside the next segment.
    #[serde(default)]
    pub leaves_output: bool,
    /// The gradient of what leaves is another tensor's as well, until the segment has run backward.
    #[serde(default)]
    pub shares_gradient: bool,
    /// Recomputed, it runs to its last operator, in a backward pass of its own.
    #[serde(default)]
    pub reruns_all: bool,
    /// Recomputed, what comes in is an attribute of a custom function's context, up to the end of the backward pass.
    #[serde(default)]
    pub input_lasts: bool,
    /// What its operators save for segments behind the next alone: recomputed, it need not come as far.
    #[serde(default)]
    pub for_others: Vec<u32>,
    /// Checkpoints in it: their first operator, one past their last, and 1 where they run again to the last.
    #[serde(default)]
    pub inner: Vec<(u32, u32, u8)>,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TracedWeight(
    /// Its name within the segment.
    pub String,
    /// Its shape.
    pub Vec<u64>,
    /// Its type.
    pub TracedElement,
    /// What it is part of.
    pub TracedPart,
    /// Whether it is trained (1); 2 where it is to be, and no gradient reaches it.
    pub u8,
    /// Whether an earlier segment has it.
    pub u8,
    /// 0: no other segment makes a part of its gradient; 1: this part comes first and waits; 2: it is added to one that
    /// waits.
    pub u8,
    /// 1: its elements are complex, each of two numbers.
    #[serde(default)]
    pub u8,
);

/// What a parameter is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TracedPart {
    Embedding,
    Attention,
    Mlp,
    Norm,
    Router,
    Expert,
    Head,
    Convolution,
}

/// What a tensor is listed under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TracedGroup {
    Residual,
    Norm,
    Attention,
    Mlp,
    Experts,
    Embedding,
    Convolution,
    WeightCopy,
    Logits,
    KvCache,
}

/// A module has a name for a tensor beyond the step, until the next one makes its own.
pub const KEPT: u8 = 2;

/// A custom function's context has a tensor as an attribute, which goes with the graph when the backward pass is over.
pub const LASTS: u8 = 3;

/// Another segment holds a tensor, whether this one saves it or not: its gradient takes memory beside it.
pub const STAYS: u8 = 4;

/// A tensor.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TracedTensor(
    /// Its shape, each side a size.
    pub Vec<u32>,
    /// Its type.
    pub TracedElement,
    /// What it is listed under.
    pub TracedGroup,
    /// 0: made here; 1: it comes in; 2: another segment holds it; from 3 on: a weight.
    pub u32,
    /// Whether a gradient flows to it.
    pub u8,
    /// Whether it is kept beyond the segment: 1 by autocast's cache, or as keys and values for later tokens; [`KEPT`]; [`LASTS`]; [`STAYS`].
    pub u8,
    /// The tensor whose memory it is a view of.
    pub Option<u32>,
);

/// An operator as autograd sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TracedOp(
    /// Its name with its module's.
    pub String,
    /// The module's class.
    pub String,
    /// The `ATen` operator, or the class of a custom function.
    pub String,
    /// `vector`, `matrix:TYPE` or `attention:TYPE`.
    pub String,
    /// What it computes on: a kind, and its sizes.
    pub Option<(TracedWork, Vec<u32>)>,
    /// What it reads, each with the way of its gradient: 0 none, 1 the output's own, 2 new, 3 new and handed on as a
    /// view.
    pub Vec<(u32, u8)>,
    /// What it makes.
    pub Vec<u32>,
    /// What it saves.
    pub Vec<u32>,
    /// Bytes that it needs only while it runs, forward.
    pub u32,
    /// And backward.
    pub u32,
    /// Operations forward.
    pub u32,
    /// And backward.
    pub u32,
    /// Kernels; 0: none, a view.
    pub u32,
    /// Whether it computes on each element.
    pub u8,
    /// Whether a recomputed block keeps what it makes.
    #[serde(default)]
    pub u8,
);

impl TracedModel {
    /// Whether sizes depend on that.
    #[must_use]
    pub fn varies(&self, axis: SizeAxis) -> bool {
        self.axes.contains(&axis)
    }

    /// Whether a step has that size, which may be one alone.
    #[must_use]
    pub fn has(&self, axis: SizeAxis) -> bool {
        self.varies(axis) || self.points.iter().any(|point| point.contains_key(&axis))
    }

    /// The sizes for a value of each axis. What is no whole number is rounded, what is below 0 is 0.
    #[must_use]
    pub fn sizes_at(&self, at: impl Fn(SizeAxis) -> u64) -> Vec<u64> {
        let value = |term: &Vec<u32>| {
            let factors = self.axes.iter().zip(term);
            factors.fold(1_i128, |product, (axis, power)| {
                product.saturating_mul(i128::from(at(*axis)).saturating_pow(*power))
            })
        };
        let terms: Vec<i128> = self.terms.iter().map(value).collect();
        let size = |polynomial: &Vec<i64>| {
            let Some((below, factors)) = polynomial.split_first() else { return 0 };
            if let [constant] = factors {
                return u64::try_from(*constant).unwrap_or(0);
            }
            let sum = factors.iter().zip(&terms).fold(0_i128, |sum: i128, (factor, term)| {
                sum.saturating_add(i128::from(*factor).saturating_mul(*term))
            });
            let below = i128::from((*below).max(1));
            u64::try_from(sum.saturating_add(below / 2).div_euclid(below).max(0)).unwrap_or(u64::MAX)
        };
        self.sizes.iter().map(size).collect()
    }
}
