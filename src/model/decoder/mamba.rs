//! Mamba-2 as transformers' classes train it with the kernels of mamba-ssm and causal-conv1d: one function from the input matrix to
//! the output (transformers 4.57.6, models/mamba2/modeling_mamba2.py, `Mamba2Mixer.cuda_kernels_forward`; mamba-ssm 2.3.2,
//! ops/triton/ssd_combined.py, `MambaSplitConv1dScanCombinedFn`). It keeps what the input matrix gave and what the scan gave, and
//! makes the convolution, the states and the norm's output again.

use super::DecoderContext;
use super::attention::product;
use crate::model::architecture::{Scan, StateSpace};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, Tensor, TensorId, Unit};
use crate::model::weight::Part;
use crate::model::work::{MatMul, Work};

/// Multiprocessors of the GPU (an H100's and H200's): backward kernels give as many parts of their sums (ops/triton/
/// ssd_chunk_state.py, `_chunk_state_bwd_db`).
const PROCESSORS: u64 = 132;
/// Rows of the smallest tile that `_chunk_scan_bwd_ddAcs_stable` leaves room for.
const TILE: u64 = 16;

/// Sizes of a layer with heads.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub count: u64,
    pub groups: u64,
    pub chunk: u64,
    pub normed: bool,
}

/// Elements of its tensors over all tokens.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub rows: u64,
    /// What the scan gives.
    values: u64,
    /// What is convolved: values, and what goes into states and is read from them.
    convolved: u64,
    /// Of that, one of the latter two.
    keys: u64,
    /// A state for each head and chunk.
    states: u64,
    /// A state for each head.
    last_states: u64,
    /// A number for each head and token of a chunk.
    steps: u64,
    /// A number for each pair of a chunk's tokens, over all groups.
    pairs: u64,
    /// Chunks of all samples and heads.
    chunks: u64,
    /// Parts of the sums over a group's heads.
    splits: u64,
}

impl Sizes {
    pub fn of(space: &StateSpace, heads: Heads, samples: u64, length: u64) -> Self {
        let rows = samples.saturating_mul(length);
        let pieces = samples.saturating_mul(length.div_ceil(heads.chunk));
        let chunks = pieces.saturating_mul(heads.count);
        let group = heads.count / heads.groups.max(1);
        let each = chunks.div_ceil(PROCESSORS).min(group).max(1);
        Self {
            rows,
            values: rows.saturating_mul(space.inner),
            convolved: rows.saturating_mul(space.convolved()),
            keys: product(&[rows, heads.groups, space.state]),
            states: product(&[pieces, space.inner, space.state]),
            last_states: product(&[samples, space.inner, space.state]),
            steps: chunks.saturating_mul(heads.chunk),
            pairs: product(&[pieces, heads.groups, heads.chunk, heads.chunk]),
            chunks,
            splits: group.div_ceil(each),
        }
    }
}

/// What a layer's weights are to the scan.
pub(super) struct Weights {
    filter: TensorId,
    filter_bias: Option<TensorId>,
    step_bias: TensorId,
    decay: TensorId,
    skip: TensorId,
    norm: Option<TensorId>,
}

impl DecoderContext<'_> {
    /// A state-space model between the norm and the residual addition.
    pub(super) fn state_space(&self, b: &mut Builder<'_>, x: TensorId, space: &StateSpace) -> TensorId {
        b.group = Group::Attention;
        match space.scan {
            Scan::Heads { heads: count, groups, chunk, normed } => {
                self.scan_of_heads(b, x, space, Heads { count, groups, chunk, normed })
            }
            Scan::Channels { rank, norms } => self.scan_of_channels(b, x, space, (rank, norms)),
        }
    }

    /// A state-space model and attention that read the same, their results added (`FalconH1DecoderLayer.forward`).
    pub(super) fn space_beside_attention(&self, b: &mut Builder<'_>, x: TensorId, space: &StateSpace) -> TensorId {
        let remembered = self.state_space(b, x, space);
        let remembered = self.times(b, "mamba.multiplier", remembered);
        let read = self.times(b, "attention.multiplier", x);
        let attended = self.attention(b, read, false);
        let attended = self.times(b, "attention.multiplier", attended);
        b.group = Group::Residual;
        b.add("mamba.residual", remembered, attended)
    }

    /// Times a number of the configuration, where the family has such numbers.
    pub(super) fn times(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId) -> TensorId {
        let multiplied = self.d.state_space.as_ref().is_some_and(|space| space.multiplied);
        if multiplied { b.pointwise(name, x, Stash::Nothing) } else { x }
    }

    /// The residual stream in its own type.
    pub(super) fn in_stream_type(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let wide = self.d.state_space.as_ref().is_some_and(|space| space.wide_stream);
        if wide { b.cast("residual.cast", x, Element::F32) } else { x }
    }

    /// The normed stream in the type of the weights, as the output matrix reads it.
    pub(super) fn narrowed(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let wide = self.d.state_space.as_ref().is_some_and(|space| space.wide_stream);
        if wide { b.cast("head.cast", x, self.run.types.weight) } else { x }
    }

    /// A norm of the residual stream, which some classes cast to the type of the norm's weight (`Mamba2Block.forward`).
    pub(super) fn stream_norm(&self, b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
        let wide = self.d.state_space.as_ref().is_some_and(|space| space.wide_stream);
        let x = if wide { b.cast(name, x, self.run.types.weight) } else { x };
        self.norm(b, x, name, self.d.hidden)
    }

    fn scan_of_heads(&self, b: &mut Builder<'_>, x: TensorId, space: &StateSpace, heads: Heads) -> TensorId {
        if self.run.modules.splits_scan.is {
            return self.split_scan(b, x, space, heads);
        }
        let s = Sizes::of(space, heads, self.run.batch, self.run.local_sequence());
        let read = self.times(b, "mamba.multiplier", x);
        let (hidden, to) = (self.d.hidden, space.projected());
        let part = Part::Attention;
        let layer = Linear { name: "mamba.in_proj", from: hidden, to, bias: space.in_bias, part };
        let all = b.linear(read, s.rows, layer);
        let all = self.times_each(b, all, to);
        b.held.push(all);
        let weights = scan_weights(b, space, heads);
        let given = OutputMatrix::of(b, hidden, space);
        let out = scanned(b, all, (&weights, Some(&given)), space, (heads, s));
        let out = given.multiplied(b, out, s.rows);
        b.returns("attention.return");
        out
    }

    /// Times a number for each column, a buffer in the type of the weights (`compute_mup_vector`).
    fn times_each(&self, b: &mut Builder<'_>, x: TensorId, columns: u64) -> TensorId {
        if !self.d.state_space.as_ref().is_some_and(|space| space.multiplied) {
            return x;
        }
        let buffer = b.make(columns, self.run.types.weight, false);
        b.mul("mamba.multiplier", x, buffer)
    }
}

pub(super) fn scan_weights(b: &mut Builder<'_>, space: &StateSpace, heads: Heads) -> Weights {
    let filter = b.weight(Part::Convolution, space.convolved(), space.kernel);
    b.window((1, space.kernel));
    let filter_bias = space.conv_bias.then(|| b.weight(Part::Convolution, space.convolved(), 1));
    let [step_bias, rate, skip] = [(); 3].map(|()| b.weight(Part::Attention, heads.count, 1));
    let decay = negative_exp(b, rate);
    let norm = heads.normed.then(|| b.weight(Part::Norm, space.inner, 1));
    Weights { filter, filter_bias, step_bias, decay, skip, norm }
}

/// `-exp(A_log.float())`.
pub(super) fn negative_exp(b: &mut Builder<'_>, rate: TensorId) -> TensorId {
    let wide = b.cast("mamba.decay", rate, Element::F32);
    let rate = b.pointwise("mamba.decay", wide, Stash::Output);
    b.pointwise("mamba.decay", rate, Stash::Nothing)
}

/// Convolution, scan, gated norm and output matrix.
pub(super) fn scanned(
    b: &mut Builder<'_>,
    all: TensorId,
    (weights, given): (&Weights, Option<&OutputMatrix>),
    space: &StateSpace,
    (heads, s): (Heads, Sizes),
) -> (TensorId, TensorId) {
    let Weights { filter, filter_bias, step_bias, decay, skip, norm } = *weights;
    let element = b.element(all);
    let mut inputs = vec![all, filter, step_bias, decay, skip];
    inputs.extend([filter_bias, norm].into_iter().flatten());
    inputs.extend(given.into_iter().flat_map(|given| [Some(given.weight), given.bias]).flatten());
    let grad = inputs.iter().any(|id| b.needs_grad(*id));
    // Without an output matrix what the scan gave, gated, is the result.
    let (result, type_of) = given.map_or((s.values, all), |given| (s.rows.saturating_mul(given.columns), given.weight));
    let out = b.make(result, b.element(type_of), grad);
    let mark = b.make(1, Element::F32, grad);
    let mut keep = |numel: u64, element: Element| b.make(numel, element, false);
    let scan = keep(s.values, element);
    let deviation = keep(if heads.normed { s.rows.saturating_mul(heads.groups) } else { 0 }, Element::F32);
    let outputs = [
        out,
        mark,
        scan,
        deviation,
        // What the output matrix reads, and what the function has names for until it returns.
        keep(if given.is_some() { s.values } else { 0 }, element),
        keep(s.convolved, element),
        keep(s.steps, Element::F32),
        keep(s.steps, Element::F32),
        keep(s.states, element),
        keep(s.last_states, Element::F32),
    ];
    let mut saved = inputs.clone();
    saved.extend([scan, deviation]);
    let flows: Vec<(TensorId, Flow)> = inputs.iter().map(|id| (*id, Flow::New)).collect();
    let unaligned = !space.projected().is_multiple_of(8);
    let scratch = Scratch { s, bytes: element.bytes(), normed: heads.normed, multiplies: given.is_some(), unaligned };
    b.op(&Spec {
        name: "mamba.scan",
        unit: Unit::Matrix(element),
        // As many matrices of a chunk as its kernels multiply.
        work: Work::Product(MatMul {
            batch: s.chunks.saturating_mul(multiplied(space, heads)),
            rows: heads.chunk,
            inner: space.state,
            columns: space.inner / heads.count.max(1),
            layer: false,
        }),
        inputs: &flows,
        outputs: &outputs,
        saved: if grad { &saved } else { &[] },
        scratch_forward: scratch.forward(result),
        scratch_backward: scratch.backward(heads),
        flops: flops(space, heads, s),
        ..Spec::default()
    });
    (out, mark)
}

/// The output matrix, which the function of the scan multiplies by: its own input is not kept, and its weight is cast by the
/// function itself, whose copy no cache of autocast holds.
pub(super) struct OutputMatrix {
    pub weight: TensorId,
    pub bias: Option<TensorId>,
    inner: u64,
    pub columns: u64,
}

impl OutputMatrix {
    pub fn of(b: &mut Builder<'_>, hidden: u64, space: &StateSpace) -> Self {
        let weight = cast_within(b, Part::Attention, (hidden, space.inner));
        let bias = space.out_bias.then(|| cast_within(b, Part::Attention, (hidden, 1)));
        Self { weight, bias, inner: space.inner, columns: hidden }
    }

    /// The operations of that product, whose result `out` the function gave: nothing is allocated for it, but that its backward
    /// pass is counted by the gradient of something, `mark`.
    pub fn multiplied(&self, b: &mut Builder<'_>, (out, mark): (TensorId, TensorId), rows: u64) -> TensorId {
        let whole = *b.tape.get(out);
        let view = b.tape.tensor(Tensor { view_of: Some(out), ..whole });
        let matmul = 2.0 * rows as f64 * self.inner as f64 * self.columns as f64;
        let trained = b.needs_grad(self.weight);
        let inputs = [(mark, Flow::New), (self.weight, Flow::Stop), (out, Flow::Pass)];
        let trained_inputs = [inputs[0], inputs[2]];
        b.op(&Spec {
            name: "mamba.out_proj",
            unit: Unit::Matrix(whole.element),
            work: Work::Product(MatMul { batch: 1, rows, inner: self.inner, columns: self.columns, layer: false }),
            inputs: if trained { &trained_inputs } else { &inputs },
            outputs: &[view],
            flops: (matmul, matmul * f64::from(1 + u8::from(trained))),
            ..Spec::default()
        });
        view
    }
}

/// A weight in autocast's type, cast within a function of its own: no cache of autocast keeps the copy.
pub(super) fn cast_within(b: &mut Builder<'_>, part: Part, (rows, columns): (u64, u64)) -> TensorId {
    let weight = b.weight(part, rows, columns);
    let lower = b.lowered_type(weight);
    if b.element(weight) == lower {
        return weight;
    }
    let group = std::mem::replace(&mut b.group, Group::WeightCopy);
    let copy = b.unary("mamba.cast", (weight, Flow::New), (rows.saturating_mul(columns), lower), Stash::Nothing);
    b.group = group;
    copy
}

/// What the function has besides its results and what it keeps.
struct Scratch {
    s: Sizes,
    bytes: u64,
    normed: bool,
    /// The output matrix is part of the function.
    multiplies: bool,
    /// Rows of the input matrix's result do not begin at a multiple of 8: what is convolved is copied first.
    unaligned: bool,
}

impl Scratch {
    /// States in fp32 before they are passed on (`_chunk_state_fwd`), then products of pairs, while results are not there yet.
    fn forward(&self, result: u64) -> u64 {
        let s = self.s;
        let later = result.saturating_add(s.values).saturating_mul(self.bytes);
        let states = s.states.saturating_mul(4).saturating_sub(later + s.values.saturating_mul(self.bytes));
        states.max(s.pairs.saturating_mul(4).saturating_sub(if self.normed { later } else { 0 }))
    }

    /// `MambaSplitConv1dScanCombinedFn.backward` and `_mamba_chunk_scan_combined_bwd`.
    fn backward(&self, heads: Heads) -> u64 {
        let (s, bytes) = (self.s, self.bytes);
        let of = |numel: u64| numel.saturating_mul(bytes);
        let wide = |numel: u64| numel.saturating_mul(4);
        // The gradient of what the output matrix read, that made again, and the gradient before norm and gate; the convolution
        // and its gradient.
        let values = match (self.multiplies, self.normed) {
            (false, _) => 1,
            (true, true) => 3,
            (true, false) => 4,
        };
        let again = of(s.values) * values + of(s.convolved) * 2;
        let time_steps = of(s.rows.saturating_mul(heads.count)) + wide(s.steps) * 2;
        let always = again.saturating_add(time_steps).saturating_add(wide(s.pairs));
        // States, their gradients and both as they are passed on; in fp32 states are passed on as they are.
        let states = if bytes < 4 { wide(s.states) * 2 + of(s.states) * 2 } else { wide(s.states) * 3 };
        let kept = if bytes < 4 { of(s.states) * 2 } else { wide(s.states) * 2 };
        let sums = wide(s.keys) * 2 + wide(s.steps) * 3;
        // Products of pairs in so many parts, then their sum.
        let pairs = wide(s.pairs) * (s.splits + u64::from(s.splits > 0));
        let tiles = wide(s.pairs) + wide(s.steps).saturating_mul(heads.chunk.div_ceil(TILE));
        let later = kept + sums + pairs.max(tiles);
        // Copies of what is convolved and of both its gradients; none of the states is left.
        let filtered = if self.unaligned { of(s.convolved) * 3 } else { 0 };
        always + (wide(s.last_states) + states.max(later)).max(filtered)
    }
}

/// How many times forward kernels do the work of states from values: that and values from states, besides pairs.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn multiplied(space: &StateSpace, heads: Heads) -> u64 {
    let (chunk, state) = (heads.chunk as f64, space.state as f64);
    let channels = space.inner as f64 / heads.count.max(1) as f64;
    let group = heads.count as f64 / heads.groups.max(1) as f64;
    (2.0 + chunk / state + chunk / (channels * group)).round() as u64
}

/// Matrix multiplications of the kernels, over whole chunks, and the convolution: forward, and backward with what is made again
/// (ops/triton/ssd_chunk_state.py, ssd_bmm.py, ssd_chunk_scan.py and ssd_combined.py, the `tl.dot` of each).
fn flops(space: &StateSpace, heads: Heads, s: Sizes) -> (f64, f64) {
    let (chunk, state) = (heads.chunk as f64, space.state as f64);
    let channels = space.inner as f64 / heads.count as f64;
    let chunks = s.chunks as f64;
    let group = heads.count as f64 / heads.groups as f64;
    let convolution = 2.0 * s.convolved as f64 * space.kernel as f64;
    let by_state = 2.0 * chunks * chunk * channels * state;
    let by_pair = 2.0 * chunks * chunk * chunk * channels;
    let pairs = 2.0 * chunks / group * chunk * chunk * state;
    let forward = 2.0 * by_state + by_pair + pairs + convolution;
    let backward = 5.0 * by_state + 3.0 * by_pair + 3.0 * pairs + 3.0 * convolution;
    (forward, backward)
}
