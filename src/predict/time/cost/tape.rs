//! One micro-batch through a tape, operator by operator.

use std::ops::Range;

use super::detailed_pass::{DetailedPass, Launches};
use super::gradients::summed_for_bias;
use super::kernel::Kernels;
use super::matmul::supplied;
use super::moved::{cast_traffic, dequantized, rearranged};
use super::operator_row::{OperatorRow, Run, gather};
use super::traffic::{added_bytes, adds_to_gradient, arithmetic, backward_bytes, forward_bytes, sharding_traffic};
use super::units::{ModuleRerun, ShardedModules};
use crate::model::{Flow, Home, MatMul, Op, Part, RepeatedOps, Tape, TensorId, Unit, Work};
use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::step::play::{Recompute, again_inside, early_stop, runs_again};
use crate::predict::time::collectives::backward_gathers;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{Bytes, Flops, Seconds};

/// What a launch that blocks takes beyond its host's own time, until the host learns that the kernel has ended and the next
/// one starts: short kernels one behind the other take 9.6 us each with `cudaStreamSynchronize` after every launch and 3.8 us
/// without (Gray, "Getting Started with CUDA Graphs", NVIDIA, 2019, https://developer.nvidia.com/blog/cuda-graphs/).
const ROUND_TRIP: Seconds = Seconds(5.8e-6);

/// Whether rows are normalised by PyTorch's own kernels: those of apex, Transformer Engine and Inductor hold a row in
/// registers and sum the gradients of norms' weights beside their other work.
pub(super) fn reads_rows_slowly(job: &Job) -> bool {
    job.modules.layer_norm.is_none() && !job.training.compile
}

/// Operations of an operator that run: fused attention leaves out blocks that its mask hides.
fn executed(op: &Op, flops: f64) -> f64 {
    if let Work::Attention(scores) = op.work { flops * scores.visible } else { flops }
}

/// How often the work of so many products is in an operator: kernels that do several things at a time, as those of the delta
/// rule, have the shape of one of them.
fn products_of(product: &MatMul, products: f64, flops: f64) -> f64 {
    let own = products * product.flops();
    // What rounding leaves is no work.
    if flops > own * (1.0 + 1e-9) && own > 0.0 { flops / own } else { 1.0 }
}

/// Operators from the first to the last that reads a routed expert's matrix.
fn of_experts(tape: &Tape) -> Range<usize> {
    if !tape.weights.iter().any(|weight| weight.part == Part::Expert) {
        return 0..0;
    }
    let reads = |op: &Op| {
        let weight = |id: &TensorId| match tape.get(*id).home {
            Home::Weight(at) => tape.weights[at as usize].part == Part::Expert,
            _ => false,
        };
        tape.ids(op.inputs).iter().any(weight)
    };
    let first = tape.ops.iter().position(reads).unwrap_or(0);
    first..tape.ops.iter().rposition(reads).map_or(first, |last| last + 1)
}

/// What of a tape runs again, as its operators are gone through.
struct RerunCourse {
    recompute: Recompute,
    /// The first operator that recomputation of all does not reach.
    stop: usize,
    /// Operators about routed experts' matrices.
    experts: Range<usize>,
    /// Matrix multiplications so far.
    products: u32,
}

impl RerunCourse {
    fn runs_again(&mut self, tape: &Tape, at: usize) -> bool {
        runs_again(tape, at, self.stop, self.recompute, &mut self.products)
    }

    /// Whether what is there several times over runs again each time or never. Every second product does so unlike.
    fn is_alike_in(&self, repeat: &RepeatedOps) -> bool {
        let inside = |places: &Range<usize>| places.start <= repeat.from && repeat.end() <= places.end;
        let selective = matches!(self.recompute, Recompute::SelectiveOp { .. });
        !selective && inside(&(0..self.stop)) && inside(&self.experts)
    }
}

/// A pass under way.
pub(super) struct Tally<'a> {
    pub job: &'a Job,
    pub(super) kernels: &'a Kernels<'a>,
    pub tape: &'a Tape,
    pub sums: DetailedPass,
    pub(super) launches: Launches,
    /// A backward pass follows.
    pub(super) trains: bool,
}

impl DetailedPass {
    /// One micro-batch through `tape`, of which `recompute` runs again.
    pub(in crate::predict) fn of(job: &Job, kernels: &Kernels<'_>, tape: &Tape, recompute: Recompute) -> Self {
        let of = |trains, recompute| {
            let mut tally = Tally { job, kernels, tape, sums: Self::empty(), launches: Launches::default(), trains };
            tally.operators(recompute);
            tally.sums
        };
        let recompute = if tape.plain { Recompute::Nothing } else { recompute.of(tape) };
        let reference = job.training.reference_pass.then(|| Box::new(of(false, Recompute::Nothing)));
        Self { reference, ..of(job.training.mode == Mode::Train, recompute) }
    }
}

impl Tally<'_> {
    fn operators(&mut self, recompute: Recompute) {
        let tape = self.tape;
        let train = self.trains;
        let stop = if self.job.modules.reruns_all.is || tape.reruns_all { tape.ops.len() } else { early_stop(tape) };
        let mut course = RerunCourse { recompute, stop, experts: of_experts(tape), products: 0 };
        let repeat = tape.repeat.filter(|repeat| course.is_alike_in(repeat));
        let mut modules = ShardedModules::of(self.job);
        let mut at = 0;
        while at < tape.ops.len() {
            if let Some(repeat) = repeat.filter(|repeat| repeat.from == at) {
                self.repeated(&repeat, &mut course);
                at = repeat.end();
            } else {
                if let Some(modules) = &mut modules {
                    modules.pass(&tape.ops[at], self.sums.pass.card, self.launches);
                }
                self.in_turn(at, &mut course);
                at += 1;
            }
        }
        let rows = (self.sums.pass.card, self.launches);
        if train {
            let seconds = self.gradient_sums();
            self.sums.pass.card.backward += seconds;
        }
        let gathers = backward_gathers(self.job, tape, (train, recompute));
        let (forward, backward) = sharding_traffic(self.job, tape, gathers);
        self.sums.traffic.parameters += Bytes(forward);
        self.sums.traffic.gradients += Bytes(backward);
        let seconds = self.moves("sharding.copy", forward);
        self.sums.pass.card.forward += seconds;
        let seconds = self.moves("sharding.copy", backward);
        self.sums.pass.card.backward += seconds;
        self.collectives(train);
        let waited = if self.job.training.launch_blocking { ROUND_TRIP } else { Seconds::ZERO };
        let each = Seconds(self.job.speed.stack.host_us * 1e-6) + waited;
        if let Some(modules) = modules.filter(|_| train) {
            let rerun = match recompute == Recompute::All {
                true if gathers == Some(2) => ModuleRerun::Whole,
                true => ModuleRerun::Inside,
                false => ModuleRerun::Nothing,
            };
            self.sums.pass.held = modules.waits(tape, rows, rerun, each);
            self.launches.add(modules.launches(tape, rerun), 1);
        }
        let Launches { forward, backward } = self.launches;
        self.sums.pass.host = PassCosts { forward: each * forward, backward: each * backward };
    }

    /// What is there several times over, once for all times.
    fn repeated(&mut self, repeat: &RepeatedOps, course: &mut RerunCourse) {
        let before = (std::mem::replace(&mut self.sums, DetailedPass::empty()), std::mem::take(&mut self.launches));
        for at in repeat.from..repeat.from + repeat.ops {
            self.in_turn(at, course);
        }
        let (sums, launches) = (std::mem::replace(&mut self.sums, before.0), self.launches);
        self.launches = before.1;
        self.sums.add(&sums, repeat.times as u64);
        self.launches.add(launches, repeat.times as u64);
    }

    /// The operator at a place, forward and backward.
    fn in_turn(&mut self, at: usize, course: &mut RerunCourse) {
        let tape = self.tape;
        let op = &tape.ops[at];
        let train = self.trains;
        let before = self.sums.pass.card;
        if op.work == Work::Sent {
            let again = train && course.runs_again(tape, at);
            self.rearranged(op, again);
            return;
        }
        if op.launches == 0 {
            if train {
                self.joins_gradients(op);
            }
            return;
        }
        let compute = self.products(op);
        let fused = matches!(op.work, Work::Attention(_));
        let again = train && course.runs_again(tape, at);
        let inner = again_inside(tape, at, course.recompute) && train;
        for rerun in [false].into_iter().chain(again.then_some(true)).chain(inner.then_some(true)) {
            let seconds = self.run_forward(op, compute.forward, rerun);
            let pass = &mut self.sums.pass;
            let way = |of: Seconds| {
                let (forward, backward) = if rerun { (Seconds::ZERO, of) } else { (of, Seconds::ZERO) };
                PassCosts { forward, backward }
            };
            pass.card += way(seconds);
            pass.attention += way(if fused { seconds } else { Seconds::ZERO });
            let launches = &mut self.launches;
            *if rerun { &mut launches.backward } else { &mut launches.forward } += op.launches as f64;
        }
        if train && tape.flows(op.inputs).iter().any(|flow| matches!(flow, Flow::New | Flow::View | Flow::InPlace)) {
            let seconds = self.run_backward(op, compute.backward);
            let pass = &mut self.sums.pass;
            pass.card.backward += seconds;
            pass.attention.backward += if fused { seconds } else { Seconds::ZERO };
            self.launches.backward += op.launches as f64 / 2.0;
        }
        if train && op.work == Work::Reordered {
            self.reorders_gradient(op);
        }
        if course.experts.contains(&at) {
            let pass = &mut self.sums.pass;
            pass.experts += pass.card - before;
        }
    }

    /// Collectives are launches of the host too.
    fn collectives(&mut self, train: bool) {
        let launches = &mut self.launches;
        for one in &self.tape.collectives {
            launches.forward += f64::from(one.forward);
            launches.backward += if train { f64::from(one.backward) } else { 0.0 };
        }
    }

    /// Copies about a collective, forward, where its tensor is made `again`, and backward.
    fn rearranged(&mut self, op: &Op, again: bool) {
        let (forward, backward) = rearranged(self.job, self.tape, op);
        let train = self.trains;
        let behind = [(again, forward), (train, backward)].map(|(runs, bytes)| if runs { bytes } else { 0 });
        self.sums.traffic.activations += Bytes(forward + behind[0] + behind[1]);
        let seconds = self.moves("collective.copy", forward);
        self.sums.pass.card.forward += seconds;
        for bytes in behind {
            let seconds = self.moves("collective.copy", bytes);
            self.sums.pass.card.backward += seconds;
        }
    }

    /// An operator on the compute roof.
    fn products(&mut self, op: &Op) -> PassCosts {
        match op.work {
            Work::Elements | Work::Reordered | Work::Rows | Work::Normalized | Work::GroupNormalized | Work::Sent => {
                let rate = self.kernels.sustained(op.unit, false);
                PassCosts { forward: Seconds(op.flops_forward / rate), backward: Seconds(op.flops_backward / rate) }
            }
            Work::Attention(scores) => {
                let (Unit::Attention(element) | Unit::Matrix(element)) = op.unit else { return PassCosts::default() };
                let both = self.kernels.attention(&scores, element, op.flops_forward);
                PassCosts { backward: if op.flops_backward > 0.0 { both.backward } else { Seconds::ZERO }, ..both }
            }
            Work::Product(product) => self.matmuls(op, &product),
            Work::Convolution(conv) => {
                let (compute, turned) = self.convolutions(op, &conv);
                self.sums.pass.card += turned;
                compute
            }
        }
    }

    /// Which of the two operands need a gradient.
    pub(super) fn needs(&self, op: &Op) -> [bool; 2] {
        let flows = self.tape.flows(op.inputs);
        [0, 1].map(|at| op.flops_backward > 0.0 && flows.get(at).is_some_and(|flow| *flow != Flow::Stop))
    }

    /// A matmul on the compute roof.
    fn matmuls(&self, op: &Op, product: &MatMul) -> PassCosts {
        let (Unit::Matrix(element) | Unit::Attention(element)) = op.unit else { return PassCosts::default() };
        let each = element.bytes();
        let supplied = supplied(product.inner, each).min(supplied(product.columns, each));
        let rate = self.kernels.sustained(op.unit, product.layer).min(self.kernels.per_clock(supplied));
        let rate = if product.batch > 1 && !product.layer { self.kernels.of_heads(rate, product, each) } else { rate };
        let forward = self.kernels.product(product, op.unit, rate);
        let (rows, inner, columns) = (product.rows, product.inner, product.columns);
        let [of_input, of_weight] = self.needs(op);
        let (keeps_input, keeps_weight) = self.kernels.backward(op.unit, product.layer);
        let mut backward = Seconds::ZERO;
        if of_input {
            let of_input = MatMul { inner: columns, columns: inner, ..*product };
            backward += self.kernels.product(&of_input, op.unit, rate * keeps_input);
        }
        if of_weight {
            let of_weight = MatMul { rows: inner, inner: rows, ..*product };
            // Only Megatron's kernels add to the main gradient; two activations' gradients are nothing to add to.
            let adds = (product.batch == 1 || product.layer) && adds_to_gradient(self.job);
            let keeps = if adds { self.job.speed.curves.matrix.gradient } else { 1.0 };
            backward += self.kernels.product(&of_weight, op.unit, rate * keeps * keeps_weight);
        }
        let products = [of_input, of_weight].into_iter().filter(|is| *is).count() as f64;
        PassCosts {
            forward: forward * products_of(product, 1.0, op.flops_forward),
            backward: backward * products_of(product, products, op.flops_backward),
        }
    }

    fn run_forward(&mut self, op: &Op, compute: Seconds, rerun: bool) -> Seconds {
        let (bytes, weights) = forward_bytes(self.job, self.tape, op);
        let flops = &mut self.sums.flops;
        *if rerun { &mut flops.recompute } else { &mut flops.forward } += Flops(op.flops_forward);
        self.sums.traffic.parameters += Bytes(weights);
        self.sums.traffic.activations += Bytes(bytes - weights);
        let flops = executed(op, op.flops_forward);
        let long = self.long(op, flops, compute, |both| both.0);
        let run = Run { flops, bytes, compute, long, kernels: op.launches, rows: self.reads_rows(op) };
        let (casts, _) = cast_traffic(self.job, self.tape, op);
        self.operator(op, run) + self.casts(casts) + self.dequantized(op)
    }

    fn run_backward(&mut self, op: &Op, compute: Seconds) -> Seconds {
        self.sums.flops.backward += Flops(op.flops_backward);
        let moved = backward_bytes(self.job, self.tape, op);
        self.sums.traffic.parameters += Bytes(moved.parameters);
        self.sums.traffic.gradients += Bytes(moved.gradients);
        self.sums.traffic.activations += Bytes(moved.activations);
        let products = if op.unit.multiplies() { 2 } else { 1 };
        let kernels = op.launches.saturating_mul(products);
        let flops = executed(op, op.flops_backward);
        let long = self.long(op, flops, compute, |both| both.1);
        let summed = summed_for_bias(self.job, self.tape, op);
        let bytes = moved.all().saturating_sub(summed);
        let run = Run { flops, bytes, compute, long, kernels, rows: self.reads_rows(op) };
        let (_, casts) = cast_traffic(self.job, self.tape, op);
        let dequantized = if self.needs(op)[0] { self.dequantized(op) } else { Seconds::ZERO };
        let added = added_bytes(self.job, self.tape, op);
        self.sums.traffic.gradients += Bytes(added);
        let beside = self.moves("bias.gradient", summed) + self.moves("gradient.accumulate", added);
        self.operator(op, run) + beside + self.casts(casts) + dequantized
    }

    /// Time in which long kernels would do an operator's arithmetic: `compute` where shapes do not matter to it. `pass`
    /// chooses of the rates forward and backward.
    fn long(&self, op: &Op, flops: f64, compute: Seconds, pass: impl Fn((f64, f64)) -> f64) -> Seconds {
        let rate = match op.work {
            Work::Elements | Work::Reordered | Work::Rows | Work::Normalized | Work::GroupNormalized | Work::Sent => {
                return compute;
            }
            Work::Product(product) => self.kernels.sustained(op.unit, product.layer),
            Work::Convolution(_) => self.kernels.sustained(op.unit, false),
            Work::Attention(scores) => {
                let (Unit::Attention(element) | Unit::Matrix(element)) = op.unit else { return compute };
                pass(self.kernels.long_attention(&scores, element))
            }
        };
        Seconds(flops / rate)
    }

    /// A quantized base's weights, made 16 bit before each matmul.
    fn dequantized(&mut self, op: &Op) -> Seconds {
        let bytes = dequantized(self.job, self.tape, op);
        self.sums.traffic.parameters += Bytes(bytes);
        self.moves("base.dequantize", bytes)
    }

    /// Casts to FP8.
    fn casts(&mut self, bytes: u64) -> Seconds {
        self.sums.traffic.activations += Bytes(bytes);
        self.moves("fp8.cast", bytes)
    }

    /// A kernel that does nothing but move bytes. None moves none.
    pub(super) fn moves(&mut self, name: &'static str, bytes: u64) -> Seconds {
        if bytes == 0 {
            return Seconds::ZERO;
        }
        self.add(
            (name, Unit::Vector, false),
            Run { flops: 0.0, bytes, compute: Seconds::ZERO, long: Seconds::ZERO, kernels: 1, rows: false },
        )
    }

    /// Whether an operator reads as slowly as norms of rows do. Group norms are such kernels, a group a block (aten/src/ATen/
    /// native/cuda/group_norm_kernel.cu, `RowwiseMomentsCUDAKernel`).
    fn reads_rows(&self, op: &Op) -> bool {
        reads_rows_slowly(self.job) && matches!(op.work, Work::Rows | Work::GroupNormalized)
    }

    /// Runs of an operator of the tape, with the arithmetic that PyTorch does not count.
    fn operator(&mut self, op: &Op, run: Run) -> Seconds {
        let layer = matches!(op.work, Work::Product(product) if product.layer);
        let flops = run.flops + arithmetic(self.tape, op);
        self.add((op.name, op.unit, layer), Run { flops, ..run })
    }

    /// Adds runs to the sums. Gives their time.
    pub(super) fn add(&mut self, what: (&'static str, Unit, bool), run: Run) -> Seconds {
        let row = OperatorRow::of(self.job, self.kernels, what, run);
        let seconds = row.seconds();
        self.sums.compute += row.compute;
        self.sums.memory += row.memory;
        gather(&mut self.sums.rows, row);
        seconds
    }
}
