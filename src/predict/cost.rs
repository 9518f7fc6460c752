//! Operations, traffic and time of the operators of a stage, from the same tapes.

use std::borrow::Cow;

use super::job::Job;
use super::optimizer::rule;
use super::play::Recompute;
use super::prediction::{Bound, Roofline, RooflineOp, StepFlops, Traffic};
use super::resident::{Resident, quantised};
use super::step::Step;
use crate::model::{Element, Flow, Home, Id, Op, Tape, Unit};
use crate::plan::keywords::Mode;
use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Seconds};

/// Efficiencies by size of the operation, and bandwidth by bytes: calculon, systems/a100_80g.json
/// (`matrix` and `mem1` tables: matmul 0.99 from 128 GFLOP, 0.9 from 16, 0.6 from 1, 0.1 below; HBM 0.95 from 100 MB,
/// 0.9 from 10, 0.7 from 1, 0.3 below).
const MATRIX: [(f64, f64); 4] = [(128e9, 0.99), (16e9, 0.9), (1e9, 0.6), (0.0, 0.1)];
const DRAM: [(f64, f64); 4] = [(100e6, 0.95), (10e6, 0.9), (1e6, 0.7), (0.0, 0.3)];

fn efficiency(table: &[(f64, f64)], size: f64) -> f64 {
    table.iter().find(|(from, _)| size >= *from).map_or(0.1, |(_, share)| *share)
}

/// Sums over the operators of a stage.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    pub flops: StepFlops,
    pub traffic: Traffic,
    pub roofline: Roofline,
    pub compute: Seconds,
    pub memory_bound: Seconds,
    /// The optimizer's part of `memory_bound`.
    pub optimizer: Seconds,
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

struct Table<'a> {
    job: &'a Job,
    rows: Vec<Row>,
    forward: f64,
    backward: f64,
    recompute: f64,
    traffic: Traffic,
}

/// The dense peak of a unit on the job's card, and its name.
pub(super) fn peak(job: &Job, unit: Unit) -> (FlopsPerSec, &'static str) {
    let peaks = &job.hardware.gpu.peaks;
    let vector = peaks.fp32.or(peaks.tf32).or(peaks.bf16).or(peaks.fp16).unwrap_or(FlopsPerSec(1e12));
    let element = match unit {
        Unit::Vector => return (vector, "fp32"),
        Unit::Attention(element) => element,
        Unit::Matrix(element) if job.storage.fp8 && element != Element::F32 => {
            return peaks.fp8.or(peaks.bf16).map_or((vector, "fp32"), |peak| (peak, "fp8"));
        }
        Unit::Matrix(element) => element,
    };
    match element {
        Element::F16 => peaks.fp16.map_or((vector, "fp32"), |peak| (peak, "fp16")),
        // A card without bf16 units computes it on the vector units.
        Element::Bf16 | Element::Fp8 => peaks.bf16.map_or((vector, "fp32"), |peak| (peak, "bf16")),
        _ if job.storage.tf32 => peaks.tf32.map_or((vector, "fp32"), |peak| (peak, "tf32")),
        _ => (vector, "fp32"),
    }
}

/// Sums the operators of a stage over a whole step.
pub(super) fn of_stage(job: &Job, step: &Step, layers: &[u64], ends: (bool, bool), resident: &Resident) -> Cost {
    let mut table = Table {
        job,
        rows: Vec::with_capacity(48),
        forward: 0.0,
        backward: 0.0,
        recompute: 0.0,
        traffic: Traffic::default(),
    };
    let passes = job.batch.accumulation;
    let train = job.training.mode == Mode::Train;
    let mut counts = vec![[0_u64; 2]; step.walk.kinds.len()];
    for layer in layers {
        let kind = step.walk.order[usize::try_from(*layer).unwrap_or(0)];
        counts[kind][usize::from(step.is_checkpointed(*layer))] += 1;
    }
    if ends.0 {
        table.tape(&step.walk.first, passes, Recompute::Nothing, train);
    }
    for (kind, [plain, again]) in counts.iter().enumerate() {
        let tape = &step.walk.kinds[kind].1;
        table.tape(tape, plain * passes, Recompute::Nothing, train);
        table.tape(tape, again * passes, step.recompute, train);
    }
    if ends.1 {
        table.tape(&step.walk.last, passes, Recompute::Nothing, train);
    }
    let mut optimizer = Seconds(0.0);
    if train {
        optimizer = table.optimizer(resident);
    }
    table.finish(optimizer)
}

impl Table<'_> {
    fn tape(&mut self, tape: &Tape, times: u64, recompute: Recompute, train: bool) {
        let recompute = if tape.plain { Recompute::Nothing } else { recompute };
        if times == 0 {
            return;
        }
        let mut products = 0;
        let stop = super::play::early_stop(tape);
        for (at, op) in tape.ops.iter().enumerate() {
            if op.launches == 0 {
                continue;
            }
            self.operator(tape, op, times, train);
            if train && super::play::runs_again(op, at, stop, recompute, &mut products) {
                let (bytes, _) = forward_bytes(self.job, tape, op);
                self.recompute += op.flops_forward * times as f64;
                self.add(op, (op.flops_forward, arithmetic(tape, op)), bytes, (times, op.launches));
                self.traffic.activations += Bytes(bytes.saturating_mul(times));
            }
        }
    }

    fn operator(&mut self, tape: &Tape, op: &Op, times: u64, train: bool) {
        let (bytes, weights) = forward_bytes(self.job, tape, op);
        self.forward += op.flops_forward * times as f64;
        self.add(op, (op.flops_forward, arithmetic(tape, op)), bytes, (times, op.launches));
        self.traffic.parameters += Bytes(weights.saturating_mul(times));
        self.traffic.activations += Bytes((bytes - weights).saturating_mul(times));
        let flows = tape.flows(op.inputs);
        if !train || flows.iter().all(|flow| !matches!(flow, Flow::New | Flow::InPlace)) {
            return;
        }
        self.backward += op.flops_backward * times as f64;
        let (activations, parameters, gradients) = backward_bytes(tape, op);
        let all = activations.saturating_add(parameters).saturating_add(gradients);
        self.traffic.parameters += Bytes(parameters.saturating_mul(times));
        self.traffic.gradients += Bytes(gradients.saturating_mul(times));
        self.traffic.activations += Bytes(activations.saturating_mul(times));
        let launches = op.launches.saturating_mul(2);
        self.add(op, (op.flops_backward, arithmetic(tape, op)), all, (times, launches));
    }

    /// Adds runs of an operator: operations that PyTorch counts and arithmetic that it does
    /// not, bytes, and (times, kernels each time).
    fn add(&mut self, op: &Op, (flops, arithmetic): (f64, f64), bytes: u64, (times, launches): (u64, u64)) {
        self.add_named(op.name, op.unit, flops, bytes, (times, launches));
        if let Some(row) = self.rows.iter_mut().find(|row| row.is(op.name)) {
            row.flops += arithmetic * times as f64;
        }
    }

    fn add_named(&mut self, name: &'static str, unit: Unit, flops: f64, bytes: u64, (times, launches): (u64, u64)) {
        let (peak, _) = peak(self.job, unit);
        let each = launches.max(1) as f64;
        let compute = flops / (peak.0 * efficiency(&MATRIX, flops / each));
        let memory = bytes as f64 / (self.job.hardware.gpu.bandwidth.0 * efficiency(&DRAM, bytes as f64 / each));
        let found = self.rows.iter().position(|row| row.is(name));
        let at = found.unwrap_or_else(|| {
            self.rows.push(Row { name, count: 0, flops: 0.0, bytes: 0, peak, compute: 0.0, memory: 0.0 });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.count = row.count.saturating_add(times.saturating_mul(launches));
        row.flops += flops * times as f64;
        row.bytes = row.bytes.saturating_add(bytes.saturating_mul(times));
        row.peak = FlopsPerSec(row.peak.0.max(peak.0));
        let seconds = compute.max(memory) * times as f64;
        if compute > memory {
            row.compute += seconds;
        } else {
            row.memory += seconds;
        }
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
        let before: f64 = self.rows.iter().map(|row| row.memory + row.compute).sum();
        let states = rule(self.job.training.optimizer, self.job.framework).moments.max(1);
        let name = "optimizer";
        // A handful of operations an element (Adam: about ten for two moments).
        self.add_named(name, Unit::Vector, 5.0 * states as f64 * resident.trained as f64, bytes, (1, 1));
        let after: f64 = self.rows.iter().map(|row| row.memory + row.compute).sum();
        Seconds(after - before)
    }

    fn finish(mut self, optimizer: Seconds) -> Cost {
        let gpu = &self.job.hardware.gpu;
        let (matrix, peak_name) = peak(self.job, Unit::Matrix(self.job.storage.compute));
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
            roofline: Roofline { bandwidth, peak: matrix, peak_name, ridge: matrix.ridge(bandwidth), ops },
        }
    }
}

/// Arithmetic of an operator that PyTorch's counter leaves out: at least one operation for
/// each element that it reads or writes, whichever are more. It places the operator on the
/// roofline and takes no time: the bytes take longer.
fn arithmetic(tape: &Tape, op: &Op) -> f64 {
    if !op.elementwise || op.flops_forward > 0.0 {
        return 0.0;
    }
    let elements = |span| tape.ids(span).iter().map(|id| tape.get(*id).numel).max().unwrap_or(0);
    elements(op.inputs).max(elements(op.outputs)) as f64
}

/// Bytes that an operator reads and writes forward, and which of them are weights.
fn forward_bytes(job: &Job, tape: &Tape, op: &Op) -> (u64, u64) {
    let made: u64 = tape.ids(op.outputs).iter().fold(0, |sum, id| sum.saturating_add(tape.get(*id).bytes()));
    let (mut all, mut weights) = (made, 0_u64);
    for id in tape.ids(op.inputs) {
        let bytes = match tape.get(*id).home {
            Home::Weight(at) => {
                let read = weight_bytes(job, tape, op, *id, at);
                weights = weights.saturating_add(read);
                read
            }
            _ => tape.get(*id).bytes(),
        };
        all = all.saturating_add(bytes);
    }
    (all, weights)
}

/// Bytes read of a weight: as it is stored where an inference server multiplies it so, and of a table that rows are
/// looked up in no more than those.
fn weight_bytes(job: &Job, tape: &Tape, op: &Op, id: Id, at: u32) -> u64 {
    let tensor = tape.get(id);
    if job.training.mode == Mode::Inference
        && let Some(millibytes) = quantised(job, &tape.weights[at as usize])
    {
        return tensor.numel.saturating_mul(millibytes) / 1000;
    }
    match tape.ids(op.outputs) {
        [rows] if tape.ids(op.inputs) == [id] => tensor.bytes().min(tape.get(*rows).numel * tensor.element.bytes()),
        _ => tensor.bytes(),
    }
}

/// Activations, parameters and weight gradients that an operator's backward pass moves.
fn backward_bytes(tape: &Tape, op: &Op) -> (u64, u64, u64) {
    let (mut activations, mut parameters, mut gradients) = (0_u64, 0_u64, 0_u64);
    for id in tape.ids(op.outputs) {
        if tape.get(*id).grad {
            activations = activations.saturating_add(tape.get(*id).bytes());
        }
    }
    for id in tape.ids(op.saved) {
        let bytes = tape.get(*id).bytes();
        if matches!(tape.get(*id).home, Home::Weight(_)) {
            parameters = parameters.saturating_add(bytes);
        } else {
            activations = activations.saturating_add(bytes);
        }
    }
    for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
        if matches!(flow, Flow::New | Flow::InPlace) {
            let bytes = tape.get(*id).bytes();
            if matches!(tape.get(*id).home, Home::Weight(_)) {
                gradients = gradients.saturating_add(bytes);
            } else {
                activations = activations.saturating_add(bytes);
            }
        }
    }
    (activations, parameters, gradients)
}
