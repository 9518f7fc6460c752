//! Operations, traffic and time of the operators of a stage, from the same tapes.

mod kernel;
mod traffic;

use std::borrow::Cow;

pub(super) use kernel::peak;

use super::job::Job;
use super::optimizer::rule;
use super::play::Recompute;
use super::prediction::{Bound, Roofline, RooflineOp, StepFlops, Traffic};
use super::resident::Resident;
use super::step::Step;
use crate::model::{Experts, Flow, Home, Op, Tape, Unit, Work};
use crate::plan::keywords::Mode;
use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Seconds};
use kernel::Kernels;
use traffic::{arithmetic, backward_bytes, cast_traffic, forward_bytes, sharding_traffic};

/// Sums over the operators of a stage.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    pub flops: StepFlops,
    pub traffic: Traffic,
    pub roofline: Roofline,
    pub compute: Seconds,
    pub memory_bound: Seconds,
    /// The optimizer's part of them.
    pub optimizer: Seconds,
    /// One pass through each tape.
    pub passes: Passes,
}

/// One micro-batch through each tape.
#[derive(Debug, Clone, Default)]
pub(super) struct Passes {
    pub first: Pass,
    /// Each kind of layer: without and with recomputation.
    pub kinds: Vec<[Pass; 2]>,
    pub last: Pass,
}

/// One micro-batch through a tape, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pass {
    /// Of the card, forward.
    pub forward: f64,
    /// Of the card, backward with what is recomputed.
    pub backward: f64,
    /// Of the card, in fused attention: forward and backward.
    pub attention: (f64, f64),
    /// Of the host, to launch all that.
    pub host: f64,
}

/// One line of the table that is summed up.
struct Row {
    name: &'static str,
    count: u64,
    /// Matrix products, and the arithmetic of elementwise operators.
    flops: f64,
    bytes: u64,
    peak: FlopsPerSec,
    compute: f64,
    memory: f64,
}

impl Row {
    /// The same literal: cheaper than comparing texts, and just as good within one prediction.
    fn is(&self, name: &'static str) -> bool {
        self.name.as_ptr() == name.as_ptr() && self.name.len() == name.len()
    }
}

/// What one kernel, or several alike, cost.
#[derive(Clone, Copy)]
struct Run {
    flops: f64,
    bytes: u64,
    /// Seconds on the compute roof.
    compute: f64,
    kernels: u64,
}

struct Table<'a> {
    job: &'a Job,
    kernels: Kernels<'a>,
    rows: Vec<Row>,
    forward: f64,
    backward: f64,
    recompute: f64,
    traffic: Traffic,
}

/// Sums the operators of a stage over a whole step.
pub(super) fn of_stage(job: &Job, step: &Step, layers: &[u64], ends: (bool, bool), resident: &Resident) -> Cost {
    let kernels = Kernels::of(job);
    let (rows, traffic) = (Vec::with_capacity(48), Traffic::default());
    let mut table = Table { job, kernels, rows, forward: 0.0, backward: 0.0, recompute: 0.0, traffic };
    let passes = job.batch.accumulation;
    let train = job.training.mode == Mode::Train;
    let mut here = vec![[0_u64; 2]; step.walk.kinds.len()];
    let mut anywhere = vec![[false; 2]; step.walk.kinds.len()];
    for layer in layers {
        here[step.walk.order[usize::try_from(*layer).unwrap_or(0)]][usize::from(step.is_checkpointed(*layer))] += 1;
    }
    for (layer, kind) in step.walk.order.iter().enumerate() {
        anywhere[*kind][usize::from(step.is_checkpointed(layer as u64))] = true;
    }
    let mut each = Passes { kinds: vec![[Pass::default(); 2]; step.walk.kinds.len()], ..Passes::default() };
    each.first = table.tape(&step.walk.first, if ends.0 { passes } else { 0 }, Recompute::Nothing, train);
    for (kind, times) in here.iter().enumerate() {
        let tape = &step.walk.kinds[kind].1;
        for (again, recompute) in [Recompute::Nothing, step.recompute].into_iter().enumerate() {
            if anywhere[kind][again] {
                each.kinds[kind][again] = table.tape(tape, times[again] * passes, recompute, train);
            }
        }
    }
    each.last = table.tape(&step.walk.last, if ends.1 { passes } else { 0 }, Recompute::Nothing, train);
    let mut optimizer = Seconds(0.0);
    if train {
        optimizer = table.optimizer(resident);
    }
    table.finish(optimizer, each)
}

impl Table<'_> {
    /// One pass through `tape`, and `times` as much in the sums.
    fn tape(&mut self, tape: &Tape, times: u64, recompute: Recompute, train: bool) -> Pass {
        let recompute = if tape.plain { Recompute::Nothing } else { recompute };
        let mut pass = Pass::default();
        let mut products = 0;
        let stop = super::play::early_stop(tape);
        for (at, op) in tape.ops.iter().enumerate() {
            if op.launches == 0 || op.work == Work::Sent {
                continue;
            }
            let (forward, backward) = self.products(tape, op);
            let again = train && super::play::runs_again(op, at, stop, recompute, &mut products);
            for rerun in std::iter::once(false).chain(again.then_some(true)) {
                let seconds = self.run_forward(tape, op, forward, (times, rerun));
                let fused = if matches!(op.work, Work::Attention(_)) { seconds } else { 0.0 };
                if rerun {
                    pass.backward += seconds;
                    pass.attention.1 += fused;
                } else {
                    pass.forward += seconds;
                    pass.attention.0 += fused;
                }
                pass.host += op.launches as f64;
            }
            if train && tape.flows(op.inputs).iter().any(|flow| matches!(flow, Flow::New | Flow::InPlace)) {
                let seconds = self.run_backward(tape, op, backward, times);
                pass.backward += seconds;
                pass.attention.1 += if matches!(op.work, Work::Attention(_)) { seconds } else { 0.0 };
                pass.host += op.launches as f64 / 2.0;
            }
        }
        if train {
            let seconds = self.gradient_sums(tape, times);
            pass.backward += seconds;
        }
        let (forward, backward) = sharding_traffic(self.job, tape);
        self.traffic.parameters += Bytes(forward.saturating_mul(times));
        self.traffic.gradients += Bytes(backward.saturating_mul(times));
        pass.forward += self.moves("sharding.copy", forward, times);
        pass.backward += self.moves("sharding.copy", backward, times);
        pass.host *= self.job.speed.stack.host_us * 1e-6;
        pass
    }

    /// Seconds of an operator on the compute roof, forward and backward.
    fn products(&self, tape: &Tape, op: &Op) -> (f64, f64) {
        match op.work {
            Work::Elements | Work::Sent => {
                let rate = self.kernels.sustained(op.unit, false);
                (op.flops_forward / rate, op.flops_backward / rate)
            }
            Work::Attention(scores) => {
                let (Unit::Attention(element) | Unit::Matrix(element)) = op.unit else { return (0.0, 0.0) };
                let (forward, backward) = self.kernels.attention(&scores, element, op.flops_forward);
                (forward, if op.flops_backward > 0.0 { backward } else { 0.0 })
            }
            Work::Product(product) => {
                let rate = self.kernels.sustained(op.unit, product.layer);
                let forward = self.kernels.product(&product, rate);
                if op.flops_backward <= 0.0 {
                    return (forward, 0.0);
                }
                let flows = tape.flows(op.inputs);
                let needs = |at: usize| flows.get(at).is_some_and(|flow| *flow != Flow::Stop);
                let (rows, inner, columns) = (product.rows, product.inner, product.columns);
                let mut backward = 0.0;
                if needs(0) {
                    let of_input = crate::model::Product { inner: columns, columns: inner, ..product };
                    backward += self.kernels.product(&of_input, rate);
                }
                if needs(1) {
                    let of_weight = crate::model::Product { rows: inner, inner: rows, ..product };
                    // Two activations' gradients are nothing to add to.
                    let linear = product.batch == 1 || product.layer;
                    let keeps = if linear { self.job.speed.curves.matrix.gradient } else { 1.0 };
                    backward += self.kernels.product(&of_weight, rate * keeps);
                }
                (forward, backward)
            }
        }
    }

    fn run_forward(&mut self, tape: &Tape, op: &Op, compute: f64, (times, rerun): (u64, bool)) -> f64 {
        let (bytes, weights) = forward_bytes(self.job, tape, op);
        if rerun {
            self.recompute += op.flops_forward * times as f64;
        } else {
            self.forward += op.flops_forward * times as f64;
        }
        self.traffic.parameters += Bytes(weights.saturating_mul(times));
        self.traffic.activations += Bytes((bytes - weights).saturating_mul(times));
        let run = Run { flops: op.flops_forward, bytes, compute, kernels: op.launches };
        let (casts, _) = cast_traffic(self.job, tape, op);
        self.operator(tape, op, run, times) + self.casts(casts, times)
    }

    fn run_backward(&mut self, tape: &Tape, op: &Op, compute: f64, times: u64) -> f64 {
        self.backward += op.flops_backward * times as f64;
        let moved = backward_bytes(self.job, tape, op);
        self.traffic.parameters += Bytes(moved.parameters.saturating_mul(times));
        self.traffic.gradients += Bytes(moved.gradients.saturating_mul(times));
        self.traffic.activations += Bytes(moved.activations.saturating_mul(times));
        let products = if matches!(op.unit, Unit::Matrix(_)) { 2 } else { 1 };
        let kernels = op.launches.saturating_mul(products);
        let run = Run { flops: op.flops_backward, bytes: moved.all(), compute, kernels };
        let (_, casts) = cast_traffic(self.job, tape, op);
        self.operator(tape, op, run, times) + self.casts(casts, times)
    }

    /// Casts to FP8.
    fn casts(&mut self, bytes: u64, times: u64) -> f64 {
        self.traffic.activations += Bytes(bytes.saturating_mul(times));
        self.moves("fp8.cast", bytes, times)
    }

    /// A kernel that does nothing but move bytes. None moves none.
    fn moves(&mut self, name: &'static str, bytes: u64, times: u64) -> f64 {
        if bytes == 0 {
            return 0.0;
        }
        self.add(name, Unit::Vector, false, Run { flops: 0.0, bytes, compute: 0.0, kernels: 1 }, times)
    }

    /// Gradients of tensors that several operators read are added up, by kernels of their own.
    fn gradient_sums(&mut self, tape: &Tape, times: u64) -> f64 {
        if self.job.training.compile {
            return 0.0;
        }
        let mut readers = vec![0_u64; tape.tensors.len()];
        for op in &tape.ops {
            for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
                if *flow != Flow::Stop {
                    readers[id.0 as usize] += 1;
                }
            }
        }
        let (mut bytes, mut kernels) = (0_u64, 0_u64);
        for (tensor, readers) in tape.tensors.iter().zip(readers) {
            if readers > 1 && tensor.grad && !matches!(tensor.home, Home::Weight(_)) {
                // Two read, their sum written.
                bytes = bytes.saturating_add(tensor.bytes().saturating_mul(3 * (readers - 1)));
                kernels += readers - 1;
            }
        }
        if kernels == 0 {
            return 0.0;
        }
        self.traffic.activations += Bytes(bytes.saturating_mul(times));
        self.add("gradient.add", Unit::Vector, false, Run { flops: 0.0, bytes, compute: 0.0, kernels }, times)
    }

    /// Runs of an operator of a tape, with the arithmetic that PyTorch does not count.
    fn operator(&mut self, tape: &Tape, op: &Op, run: Run, times: u64) -> f64 {
        let layer = matches!(op.work, Work::Product(product) if product.layer);
        let flops = run.flops + arithmetic(tape, op);
        self.add(op.name, op.unit, layer, Run { flops, ..run }, times)
    }

    /// Adds `times` runs to the line of that name. Gives the seconds of one.
    fn add(&mut self, name: &'static str, unit: Unit, layer: bool, run: Run, times: u64) -> f64 {
        // Grouped products are one launch of the host for many.
        let grouped = run.kernels > 1 && layer && self.job.rules.experts.is != Experts::Loop;
        let started = if grouped { 1 } else { run.kernels };
        let memory = self.kernels.memory(run.bytes);
        let seconds = run.compute.max(memory) + self.kernels.start * started as f64;
        if times == 0 {
            return seconds;
        }
        let found = self.rows.iter().position(|row| row.is(name));
        let (peak, _) = peak(self.job, unit, layer);
        let at = found.unwrap_or_else(|| {
            self.rows.push(Row { name, count: 0, flops: 0.0, bytes: 0, peak, compute: 0.0, memory: 0.0 });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.count = row.count.saturating_add(times.saturating_mul(run.kernels));
        row.flops += run.flops * times as f64;
        row.bytes = row.bytes.saturating_add(run.bytes.saturating_mul(times));
        row.peak = FlopsPerSec(row.peak.0.max(peak.0));
        if run.compute > memory {
            row.compute += seconds * times as f64;
        } else {
            row.memory += seconds * times as f64;
        }
        seconds
    }

    /// The optimizer reads gradients, reads and writes weights, masters and states.
    fn optimizer(&mut self, resident: &Resident) -> Seconds {
        let both = resident.states.saturating_add(resident.masters).saturating_mul(2);
        let weights = resident.weights.saturating_mul(2);
        let trained = if resident.params == 0 { 0 } else { weights / resident.params.max(1) * resident.trained };
        let temporary = resident.optimizer_temporary.saturating_mul(2);
        let bytes = both.saturating_add(trained).saturating_add(resident.gradients).saturating_add(temporary);
        self.traffic.optimizer_states += Bytes(both.saturating_add(temporary));
        self.traffic.parameters += Bytes(trained);
        self.traffic.gradients += Bytes(resident.gradients);
        let states = rule(self.job.training.optimizer, self.job.framework).moments.max(1);
        // A handful of operations an element (Adam: about ten for two moments).
        let flops = 5.0 * states as f64 * resident.trained as f64;
        let compute = flops / self.kernels.sustained(Unit::Vector, false);
        Seconds(self.add("optimizer", Unit::Vector, false, Run { flops, bytes, compute, kernels: 1 }, 1))
    }

    fn finish(mut self, optimizer: Seconds, passes: Passes) -> Cost {
        let gpu = &self.job.hardware.gpu;
        let (matrix, peak_name) = peak(self.job, Unit::Matrix(self.job.storage.compute), true);
        self.rows.sort_by(|a, b| (b.compute + b.memory).total_cmp(&(a.compute + a.memory)));
        let ops = self
            .rows
            .iter()
            .map(|row| RooflineOp {
                name: Cow::Borrowed(row.name),
                count: row.count,
                flops: Flops(row.flops),
                bytes: Bytes(row.bytes),
                intensity: Flops(row.flops).over(Bytes(row.bytes)),
                bound: if row.compute > row.memory { Bound::Compute } else { Bound::Memory },
                peak: row.peak,
                seconds: Seconds(row.compute + row.memory),
            })
            .collect();
        let bandwidth = BytesPerSec(gpu.bandwidth.0);
        Cost {
            flops: StepFlops {
                forward: Flops(self.forward),
                backward: Flops(self.backward + self.recompute),
                recompute: Flops(self.recompute),
            },
            traffic: self.traffic,
            compute: Seconds(self.rows.iter().map(|row| row.compute).sum()),
            memory_bound: Seconds(self.rows.iter().map(|row| row.memory).sum()),
            optimizer,
            roofline: Roofline {
                bandwidth,
                peak: matrix,
                peak_name,
                ridge: matrix.ridge(bandwidth),
                roofs: gpu.peaks.named(),
                l2: gpu.l2_bandwidth,
                ops,
            },
            passes,
        }
    }
}
