//! Linear layers: matmuls with a parameter, in 16 bit, fp32 or FP8, and the adapters beside them.

use super::{Builder, Linear, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, TensorId, Unit, rounded};
use crate::model::weight::{Part, TiedGrad, Weight};
use crate::model::work::{MatMul, Work};

/// FP8 operands: how such a tensor lies in memory (Transformer Engine, `pytorch/tensor/float8_tensor.py`, `float8_blockwise_tensor.py`,
/// `mxfp8_tensor.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operands {
    /// Scales for blocks of values: a byte for 32 of them (MXFP8), or four for 128 (blockwise); else one a tensor.
    pub block_scales: bool,
    /// A matrix is kept once by rows and once by columns. Products of Blackwell GPUs read tensors with one scale
    /// either way (`pytorch/utils.py`, `is_non_tn_fp8_gemm_supported`).
    pub both_ways: bool,
}

impl Operands {
    /// Bytes of `numel` values, one way.
    #[must_use]
    pub const fn bytes(self, numel: u64) -> u64 {
        if self.block_scales { numel.saturating_add(numel / 32) } else { numel }
    }

    /// Bytes of what takes `bytes` one way, as both matmuls of a backward pass need it.
    #[must_use]
    pub const fn both(self, bytes: u64) -> u64 {
        if self.both_ways { bytes.saturating_mul(2) } else { bytes }
    }
}

/// The embedding, as an adapter stands on it.
pub const EMBEDDING: &str = "embedding";

/// The output matrix, as an adapter stands on it.
pub const HEAD: &str = "head";

/// What joins a tower of vision to a language model, where it trains whole beside adapters.
pub const JOINT: &str = "vision.joint";

impl Builder<'_> {
    /// `linear`: saves its input for the weight's gradient and its weight for the input's.
    pub fn linear(&mut self, x: TensorId, rows: u64, layer: Linear) -> TensorId {
        let weight = self.weight(layer.part, layer.to, layer.from);
        let bias = layer.bias.then(|| self.weight(layer.part, layer.to, 1));
        let (inside, apart) = if self.bias_apart { (None, bias) } else { (bias, None) };
        let out = self.block_matrix(layer.name, x, (weight, layer.part), inside, (rows, layer.from, layer.to));
        let out = apart.map_or(out, |bias| self.add(layer.name, out, bias));
        // The caller has the input until the module returns, whatever autocast made of it.
        if self.types.autocast.is_some_and(|lower| lower != self.element(x)) {
            self.holds("linear.return", &[x]);
        }
        self.adapted(x, out, rows, layer)
    }

    /// The matrix multiplication of a linear layer within a block, whose recipe may be FP8.
    pub fn block_matrix(
        &mut self,
        name: &'static str,
        x: TensorId,
        (weight, part): (TensorId, Part),
        bias: Option<TensorId>,
        shape: (u64, u64, u64),
    ) -> TensorId {
        let operands = self.types.fp8.filter(|_| is_covered(part));
        let bits = self.adapters.and_then(|adapters| adapters.base_bits);
        let quantised = bits.filter(|_| is_covered(part) && !self.grad(weight));
        let out = self.product(name, x, (weight, bias), shape, operands, quantised.is_some());
        if let Some(bits) = quantised {
            self.unpacked(weight, bits);
        }
        self.in_block(part);
        // Autocast does not reach into bitsandbytes' functions: they cast for themselves, and their output back
        // (bitsandbytes, nn/modules.py, `Linear4bit.forward`).
        let restores = self.adapters.is_some_and(|adapters| adapters.restores_input_type) && !self.is_in_kernel(name);
        if quantised.is_some() && restores { self.cast("base.output", out, self.element(x)) } else { out }
    }

    /// The quantised matrix of the matmul written last is made whole in the type of the computation while it multiplies,
    /// and saved as it lies: 4 bits in both passes (bitsandbytes 0.50, autograd/_functions.py, `MatMul4Bit`; torchao 0.14,
    /// dtypes/nf4tensor.py, `LinearNF4`), 8 bits in the backward pass alone (`MatMul8bitLt`).
    fn unpacked(&mut self, weight: TensorId, bits: u64) {
        let lower = self.types.autocast.unwrap_or(self.types.weight);
        let bytes = rounded(self.numel(weight).saturating_mul(lower.bytes()));
        if let Some(op) = self.tape.ops.last_mut() {
            op.scratch_forward = op.scratch_forward.saturating_add(if bits == 4 { bytes } else { 0 });
            op.scratch_backward = op.scratch_backward.saturating_add(bytes);
        }
    }

    /// The matrix multiplication of a linear layer, with given weights; `shape` is rows, inner, columns.
    pub fn matrix(
        &mut self,
        name: &'static str,
        x: TensorId,
        weight: TensorId,
        bias: Option<TensorId>,
        shape: (u64, u64, u64),
    ) -> TensorId {
        self.product(name, x, (weight, bias), shape, None, false)
    }

    /// With FP8 operands a copy of the input is read and kept in its place; the gradient of the output is turned into
    /// FP8 as well before the backward matmuls (Transformer Engine, pytorch/module/layernorm_linear.py, linear.py and
    /// grouped_linear.py).
    fn product(
        &mut self,
        name: &'static str,
        x: TensorId,
        (weight, bias): (TensorId, Option<TensorId>),
        shape: (u64, u64, u64),
        operands: Option<Operands>,
        quantised: bool,
    ) -> TensorId {
        let a = self.lower(name, x);
        let bias = bias.map(|bias| self.lower(name, bias));
        let w = if quantised { weight } else { self.lower(name, weight) };
        self.multiplied(name, a, (w, bias), shape, operands)
    }

    /// A matrix multiplication of operands as they are, whatever autocast computes in; `shape` is rows, inner, columns.
    pub fn multiplied(
        &mut self,
        name: &'static str,
        a: TensorId,
        (w, bias): (TensorId, Option<TensorId>),
        shape: (u64, u64, u64),
        operands: Option<Operands>,
    ) -> TensorId {
        let element = self.element(a);
        let (needs_x, needs_w) = (self.grad(a), self.grad(w));
        let out = self.local(
            shape.0.saturating_mul(shape.2),
            element,
            needs_x || needs_w || bias.is_some_and(|b| self.grad(b)),
        );
        let product = 2.0 * shape.0 as f64 * shape.1 as f64 * shape.2 as f64;
        let backward = product * f64::from(u8::from(needs_x) + u8::from(needs_w));
        let mut inputs = [(a, Flow::New), (w, Flow::New), (w, Flow::Stop)];
        if let Some(bias) = bias {
            inputs[2] = (bias, Flow::New);
        }
        let copy = operands.map(|operands| self.local(operands.bytes(self.numel(a)), Element::Fp8, false));
        let scratch = operands.map_or((0, 0), |operands| {
            let read = operands.bytes(self.numel(a));
            (operands.both(read) - read, operands.both(operands.bytes(self.numel(out))))
        });
        let saved = [copy.unwrap_or(a), w];
        let saved = match (needs_w, needs_x) {
            (true, true) => &saved[..],
            (true, false) => &saved[..1],
            (false, true) => &saved[1..],
            (false, false) => &[],
        };
        self.tape.push(&Spec {
            name,
            unit: Unit::Matrix(element),
            work: Work::Product(MatMul { batch: 1, rows: shape.0, inner: shape.1, columns: shape.2, layer: false }),
            inputs: &inputs[..if bias.is_some() { 3 } else { 2 }],
            outputs: &[out, copy.unwrap_or(out)][..if copy.is_some() { 2 } else { 1 }],
            saved,
            scratch_forward: scratch.0,
            scratch_backward: scratch.1,
            flops: (product, backward),
            ..Spec::default()
        });
        out
    }

    /// The matmul written last stands in a block, if its matrix is of attention, a feed-forward block or an expert:
    /// those are what FP8 recipes cover (Transformer Engine's modules; torchao's filter leaves out the head).
    pub fn in_block(&mut self, part: Part) {
        let covered = is_covered(part);
        if let Some(Work::Product(product)) = self.tape.ops.last_mut().map(|op| &mut op.work) {
            product.layer = covered;
        }
    }

    /// The operator written last normalises rows.
    pub fn of_rows(&mut self) {
        if let Some(op) = self.tape.ops.last_mut() {
            op.work = Work::Rows;
        }
    }

    /// A copy with the dimensions in another order. The gradient of the copy is the copy's; that of what it was made from is
    /// in order again only after a copy of its own: the view under it reshapes its gradient (tools/autograd/derivatives.yaml,
    /// `view`: `grad.reshape_symint`).
    pub fn reordered(&mut self, name: &'static str, x: TensorId) -> TensorId {
        let out = self.copy(name, x);
        if let Some(op) = self.tape.ops.last_mut() {
            op.work = Work::Reordered;
        }
        out
    }

    /// The operator written last is a collective's arrival.
    pub fn sent(&mut self) {
        if let Some(op) = self.tape.ops.last_mut() {
            op.work = Work::Sent;
        }
    }

    /// peft's adapter beside a linear layer (peft/tuners/lora/layer.py, `Linear.forward`).
    fn adapted(&mut self, x: TensorId, out: TensorId, rows: u64, layer: Linear) -> TensorId {
        self.adapted_each(x, out, rows, layer, (1, 1))
    }

    /// An adapter beside each of so many linear layers alike, of which a token passes some.
    pub fn adapted_each(
        &mut self,
        x: TensorId,
        out: TensorId,
        rows: u64,
        layer: Linear,
        (copies, active): (u64, u64),
    ) -> TensorId {
        let Some(adapters) = self.adapters.filter(|adapters| adapters.targets.contains(&layer.name)) else {
            return out;
        };
        self.tape.adapted.push(layer.name);
        let a = self.weights(Part::Adapter, adapters.rank, layer.from, copies, active);
        let b = self.weights(Part::Adapter, layer.to, adapters.rank, copies, active);
        self.adapted_by(x, out, rows, layer, (a, b), copies)
    }

    /// An adapter of these matrices.
    pub fn adapted_by(
        &mut self,
        x: TensorId,
        out: TensorId,
        rows: u64,
        layer: Linear,
        (a, b): (TensorId, TensorId),
        copies: u64,
    ) -> TensorId {
        let Some(adapters) = self.adapters else { return out };
        if self.is_in_kernel(layer.name) {
            return self.adapted_in_kernel(x, out, rows, layer, (a, b));
        }
        let group = std::mem::replace(&mut self.group, Group::Adapter);
        // peft clones what a quantised layer returns (tuners/lora/bnb.py, `Linear4bit.forward`).
        let clones = adapters.base_bits == Some(4) && adapters.restores_input_type;
        let out = if clones { self.copy("lora.clone", out) } else { out };
        // Beside quantised weights under autocast peft leaves the input as it is (`requires_conversion`).
        let read_as_is = adapters.base_bits.is_some() && self.is_autocast();
        let wide = if read_as_is { x } else { self.cast("lora.input", x, adapters.element) };
        let dropped = self.dropout("lora.dropout", wide, adapters.dropout);
        let inner = self.matrix("lora.a", dropped, a, None, (rows, layer.from, adapters.rank));
        self.each_its_share(rows, copies);
        let outer = self.matrix("lora.b", inner, b, None, (rows, adapters.rank, layer.to));
        self.each_its_share(rows, copies);
        let scaled = self.pointwise("lora.scale", outer, Stash::Nothing);
        let sum = self.add("lora.add", out, scaled);
        self.group = group;
        let element = self.element(out);
        let out = self.cast("lora.output", sum, element);
        // The caller has its input, the module the one it cast, until it returns.
        self.holds("lora.return", &[x, wide]);
        out
    }

    /// The output matrix; a tied one is the embedding, held, counted and frozen with that.
    pub fn output_matrix(&mut self, rows: u64, columns: u64, tied: bool) -> TensorId {
        if let Some(copy) = self.saved(HEAD, Part::Head, (rows, columns), tied) {
            return copy;
        }
        let trained = self.is_trained(if tied { Part::Embedding } else { Part::Head });
        let meets = if tied { TiedGrad::Later } else { TiedGrad::Nothing };
        let weight = Weight { tied, meets, ..Weight::matrix(Part::Head, trained, rows, columns) };
        self.tape.weight(weight, self.types.weight)
    }

    /// The copy of the embedding or the output matrix that trains in its place, beside the original, which nothing reads
    /// and which the device keeps (peft 0.18, utils/other.py, `ModulesToSaveWrapper`). The original of a tied matrix is the
    /// embedding's; the copies are tied no more.
    pub fn saved(
        &mut self,
        name: &'static str,
        part: Part,
        (rows, columns): (u64, u64),
        tied: bool,
    ) -> Option<TensorId> {
        self.adapters.filter(|adapters| adapters.saved.contains(&name))?;
        if !tied {
            let original = Weight { active: 0, ..Weight::matrix(part, false, rows, columns) };
            self.tape.weight(original, self.types.weight);
        }
        Some(self.tape.weight(Weight::matrix(part, true, rows, columns), self.types.weight))
    }

    /// peft's adapter beside an output matrix; `shape` is rows, inner, columns.
    pub fn adapted_head(&mut self, x: TensorId, logits: TensorId, shape: (u64, u64, u64)) -> TensorId {
        let (rows, from, to) = shape;
        self.adapted(x, logits, rows, Linear { name: HEAD, from, to, bias: false, part: Part::Head })
    }

    /// peft's adapter beside an embedding (peft/tuners/lora/layer.py, `Embedding.forward`): rows of one matrix, times the other.
    /// `table` is its rows and columns.
    pub fn adapted_lookup(&mut self, out: TensorId, tokens: u64, table: (u64, u64)) -> TensorId {
        let Some(adapters) = self.adapters.filter(|adapters| adapters.targets.contains(&EMBEDDING)) else { return out };
        self.tape.adapted.push(EMBEDDING);
        let a = self.weights(Part::Adapter, table.0, adapters.rank, 1, 1);
        let b = self.weights(Part::Adapter, table.1, adapters.rank, 1, 1);
        let group = std::mem::replace(&mut self.group, Group::Adapter);
        let inner = self.make(tokens.saturating_mul(adapters.rank), adapters.element, true);
        self.op(&Spec { name: "lora.a", inputs: &[(a, Flow::New)], outputs: &[inner], ..Spec::default() });
        let outer = self.matrix("lora.b", inner, b, None, (tokens, adapters.rank, table.1));
        let scaled = self.pointwise("lora.scale", outer, Stash::Nothing);
        let sum = self.add("lora.add", out, scaled);
        self.group = group;
        let element = self.element(out);
        self.cast("lora.output", sum, element)
    }

    /// The matmuls written last are one batched product.
    pub fn in_one_launch(&mut self) {
        if let Some(op) = self.tape.ops.last_mut() {
            op.launches = 1;
        }
    }

    /// The matmul written last is one of each of so many experts, which share the rows evenly.
    pub fn each_its_share(&mut self, rows: u64, experts: u64) {
        if let Some(op) = self.tape.ops.last_mut().filter(|_| experts > 1) {
            op.launches = experts;
            if let Work::Product(product) = &mut op.work {
                (product.batch, product.rows) = (experts, rows.div_ceil(experts));
            }
        }
    }
}

/// Whether FP8 recipes cover a matrix of that part.
pub const fn is_covered(part: Part) -> bool {
    matches!(part, Part::Attention | Part::Mlp | Part::Expert)
}
