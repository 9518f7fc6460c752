//! Linear attention by the gated delta rule (arXiv 2412.06464), as Qwen3-Next's and Qwen3.5's layers run it with the kernels of
//! flash-linear-attention and causal-conv1d (transformers 4.57.6, models/qwen3_next/modeling_qwen3_next.py,
//! `Qwen3NextGatedDeltaNet`; 5.3, models/qwen3_5/modeling_qwen3_5.py, `Qwen3_5GatedDeltaNet`).

use super::DecoderContext;
use super::attention::product;
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::element::{Element, Group};
use crate::model::stack::DeltaNet;
use crate::model::tape::{Flow, Spec, TensorId, Unit};
use crate::model::weight::Part;
use crate::model::work::{MatMul, Work};

/// Tokens of a chunk (fla-core 0.6.0, fla/ops/gated_delta_rule/chunk.py, `chunk_size`).
const CHUNK: u64 = 64;

/// Elements of a layer's tensors over all tokens.
#[derive(Clone, Copy)]
struct Sizes {
    rows: u64,
    /// Keys of all key heads; queries are as many.
    keys: u64,
    /// Keys of as many heads as values have.
    wide: u64,
    values: u64,
    /// The state at the start of each chunk.
    states: u64,
    /// A number for each token and value head.
    gates: u64,
    /// Matrices of a chunk, over all samples and value heads.
    chunks: u64,
}

impl Sizes {
    fn of(net: &DeltaNet, samples: u64, length: u64) -> Self {
        let rows = samples.saturating_mul(length);
        let chunks = product(&[samples, length.div_ceil(CHUNK), net.value_heads]);
        Self {
            rows,
            keys: rows.saturating_mul(net.keys()),
            wide: product(&[rows, net.value_heads, net.key_dim]),
            values: rows.saturating_mul(net.values()),
            states: product(&[chunks, net.key_dim, net.value_dim]),
            gates: rows.saturating_mul(net.value_heads),
            chunks,
        }
    }
}

/// What goes into the rule.
struct Inputs {
    query: TensorId,
    key: TensorId,
    value: TensorId,
    decay: TensorId,
    beta: TensorId,
}

/// What a layer's linear layers make.
struct Projected {
    /// Queries, keys and values, before the convolution.
    mixed: TensorId,
    /// What gates the output.
    z: TensorId,
    /// Beta and decay, as they come.
    gates: [TensorId; 2],
}

impl DecoderContext<'_> {
    /// The layer's mixing of tokens, between its norms.
    pub(super) fn delta_net(&self, b: &mut Builder<'_>, x: TensorId, net: &DeltaNet) -> TensorId {
        b.group = Group::Attention;
        let s = Sizes::of(net, self.run.batch, self.run.local_sequence());
        let Projected { mixed, z, gates: [beta, decay] } =
            if net.joined { self.joined_projections(b, x, net, s) } else { self.projections_apart(b, x, net, s) };
        let mixed = convolved(b, mixed, net, s.rows);
        let [query, key, value] = b.split("linear.split", mixed, [s.keys, s.keys, s.values]);
        b.held.push(mixed);
        let beta = b.pointwise("linear.beta", beta, Stash::Output);
        let decay = decayed(b, decay, net);
        let repeats = net.value_heads > net.key_heads;
        let [query, key] =
            [query, key].map(|part| if repeats { b.copy_of("linear.repeat", part, s.wide) } else { part });
        if repeats {
            b.held.extend([query, key]);
        }
        let out = ruled(b, &Inputs { query, key, value, decay, beta }, net, s);
        let out = gated_norm(b, out, z, net);
        b.held.push(out);
        let part = Part::Attention;
        let layer = Linear { name: "linear.out_proj", from: net.values(), to: self.d.hidden, bias: false, part };
        let out = b.linear(out, s.rows, layer);
        b.returns("attention.return");
        out
    }

    /// One matrix makes queries, keys, values and the output's gate head by head, another both gates of the rule: all are copied
    /// out of them (`fix_query_key_value_ordering`), and queries, keys and values put together again.
    fn joined_projections(&self, b: &mut Builder<'_>, x: TensorId, net: &DeltaNet, s: Sizes) -> Projected {
        let (from, part) = (self.d.hidden, Part::Attention);
        let to = (net.keys() + net.values()).saturating_mul(2);
        let all = b.linear(x, s.rows, Linear { name: "linear.qkvz_proj", from, to, bias: false, part });
        let to = net.value_heads.saturating_mul(2);
        let gates = b.linear(x, s.rows, Linear { name: "linear.ba_proj", from, to, bias: false, part });
        b.held.extend([all, gates]);
        let parts = b.split("linear.split", all, [s.keys, s.keys, s.values, s.values]);
        let [query, key, value, z] = parts.map(|part| b.copy("linear.split", part));
        let gates = b.split("linear.split", gates, [s.gates, s.gates]).map(|gate| b.copy("linear.split", gate));
        let grad = b.needs_grad(query);
        let mixed = b.make(s.keys.saturating_mul(2).saturating_add(s.values), b.element(query), grad);
        let inputs = [query, key, value].map(|part| (part, Flow::Pass));
        b.op(&Spec { name: "linear.cat", inputs: &inputs, outputs: &[mixed], ..Spec::default() });
        Projected { mixed, z, gates }
    }

    fn projections_apart(&self, b: &mut Builder<'_>, x: TensorId, net: &DeltaNet, s: Sizes) -> Projected {
        let (from, part) = (self.d.hidden, Part::Attention);
        let mixed = net.keys().saturating_mul(2).saturating_add(net.values());
        let [mixed, z, beta, decay] = [
            ("linear.qkv_proj", mixed),
            ("linear.z_proj", net.values()),
            ("linear.b_proj", net.value_heads),
            ("linear.a_proj", net.value_heads),
        ]
        .map(|(name, to)| b.linear(x, s.rows, Linear { name, from, to, bias: false, part }));
        Projected { mixed, z, gates: [beta, decay] }
    }
}

/// A convolution of each channel along the sequence with its SiLU: one kernel, which keeps its input
/// (causal-conv1d 1.6, causal_conv1d_interface.py, `CausalConv1dFn`; autocast does not reach into it).
fn convolved(b: &mut Builder<'_>, x: TensorId, net: &DeltaNet, rows: u64) -> TensorId {
    let channels = net.keys().saturating_mul(2).saturating_add(net.values());
    let weight = b.weight(Part::Convolution, channels, net.kernel);
    b.window((1, net.kernel));
    let (numel, element) = (b.numel(x), b.element(x));
    let grad = b.needs_grad(x) || b.needs_grad(weight);
    let out = b.make(numel, element, grad);
    let flops = 2.0 * rows as f64 * channels as f64 * net.kernel as f64;
    let saved = [x, weight];
    b.op(&Spec {
        name: "linear.conv",
        inputs: &[(x, Flow::New), (weight, Flow::New)],
        outputs: &[out],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        flops: (flops, 2.0 * flops),
        ..Spec::default()
    });
    out
}

/// `-exp(A_log) * softplus(a + dt_bias)`, in fp32.
fn decayed(b: &mut Builder<'_>, a: TensorId, net: &DeltaNet) -> TensorId {
    let name = "linear.decay";
    let [bias, rate] = [(); 2].map(|()| b.weight(Part::Attention, net.value_heads, 1));
    let rate = b.cast(name, rate, Element::F32);
    let rate = b.pointwise(name, rate, Stash::Output);
    let rate = b.pointwise(name, rate, Stash::Nothing);
    let wide = b.cast(name, a, Element::F32);
    let biased = b.add(name, wide, bias);
    let soft = b.pointwise(name, biased, Stash::Input);
    b.mul(name, rate, soft)
}

/// The rule itself, chunk by chunk: queries and keys are normed, values made contiguous, and all of them kept with the sums of
/// decays and the inverse of each chunk's triangle; states are made again backward (fla-core 0.6.0,
/// fla/ops/gated_delta_rule/chunk.py, `ChunkGatedDeltaRuleFunction`).
fn ruled(b: &mut Builder<'_>, inputs: &Inputs, net: &DeltaNet, s: Sizes) -> TensorId {
    let Inputs { query, key, value, decay, beta } = *inputs;
    let (element, queries) = (b.element(query), b.numel(query));
    let grad = [query, key, value, decay, beta].iter().any(|id| b.needs_grad(*id));
    let out = b.make(s.values, element, grad);
    let mut keep = |numel: u64, element: Element| b.make(numel, element, false);
    let scales = queries / net.key_dim.max(1);
    let kept = [
        keep(queries, element),
        keep(scales, Element::F32),
        keep(queries, element),
        keep(scales, Element::F32),
        keep(s.values, element),
        keep(s.gates, Element::F32),
        keep(s.gates.saturating_mul(CHUNK), element),
    ];
    let mut saved = kept.to_vec();
    saved.push(beta);
    let mut outputs = vec![out];
    outputs.extend(kept);
    let bytes = |numel: u64| numel.saturating_mul(element.bytes());
    // `w`, `u`, the states and the new values; backward their gradients as well, and a second part of the keys'.
    // Queries and keys that nothing has repeated are made contiguous first.
    let contiguous = if net.value_heads > net.key_heads { 0 } else { 2 * s.keys };
    let forward = bytes(s.wide + 2 * s.values + s.states + contiguous);
    let backward = bytes(3 * s.wide + 3 * s.values + 2 * s.states).saturating_add(s.gates.saturating_mul(8));
    b.op(&Spec {
        name: "linear.rule",
        unit: Unit::Matrix(element),
        work: Work::Product(MatMul {
            batch: s.chunks,
            rows: CHUNK,
            inner: net.key_dim,
            columns: net.value_dim,
            layer: false,
        }),
        inputs: &[query, key, value, decay, beta].map(|id| (id, Flow::New)),
        outputs: &outputs,
        saved: if grad { &saved } else { &[] },
        scratch_forward: forward,
        scratch_backward: backward,
        flops: flops(net, s),
        ..Spec::default()
    });
    out
}

/// Products of the kernels, forward (`chunk_fwd.py`, `wy_fast.py`, `chunk_delta_h.py`, `chunk_o.py`) and backward, which makes
/// `w`, `u` and the states again.
fn flops(net: &DeltaNet, s: Sizes) -> (f64, f64) {
    let (chunk, keys, values) = (CHUNK as f64, net.key_dim as f64, net.value_dim as f64);
    let each = 2.0 * s.chunks as f64 * chunk;
    let forward = 3.0 * keys * values + chunk * (3.0 * keys + 2.0 * values);
    let backward = 8.0 * keys * values + chunk * (9.0 * keys + 5.0 * values + 2.0 * chunk);
    (each * forward, each * backward)
}

/// An RMS norm of each head and the gate's SiLU: one kernel, which keeps what comes in (fla-core 0.6.0,
/// fla/modules/norm/fused_norm_gate.py, `LayerNormGatedFunction`).
fn gated_norm(b: &mut Builder<'_>, x: TensorId, z: TensorId, net: &DeltaNet) -> TensorId {
    let (numel, element) = (b.numel(x), b.element(x));
    b.group = Group::Norm;
    let weight = b.weight(Part::Norm, net.value_dim, 1);
    let grad = [x, z, weight].iter().any(|id| b.needs_grad(*id));
    let out = b.make(numel, element, grad);
    let deviation = b.make(numel / net.value_dim.max(1), Element::F32, false);
    let saved = [x, z, deviation];
    b.op(&Spec {
        name: "linear.norm",
        inputs: &[x, z, weight].map(|id| (id, Flow::New)),
        outputs: &[out, deviation],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        work: Work::Rows,
        ..Spec::default()
    });
    b.group = Group::Attention;
    out
}
