//! Operations, traffic and time of the operators of a stage, from the same tapes.

mod attention;
mod classes;
mod clock;
mod convolution;
mod cpu;
mod detailed_pass;
mod gradients;
mod kernel;
mod matmul;
mod moved;
mod operator_row;
mod optimizer;
mod tape;
mod traffic;
mod units;

use std::borrow::Cow;

pub use attention::{BACKWARD_PRODUCTS, reached};
pub(in crate::predict) use classes::{KernelClass, classes};
pub use convolution::{ConvolutionKernel, implicit};
pub(in crate::predict) use detailed_pass::{DetailedPass, Pass};
pub(in crate::predict) use kernel::{Kernels, peak};
pub use matmul::MatrixUnit;

use crate::model::Unit;
use crate::plan::keywords::{Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::memory::resident::Resident;
use crate::predict::prediction::{Bound, Roofline, RooflineOp, StepFlops, Traffic};
use crate::predict::step::StepTapes;
use crate::predict::step::pipeline::is_whole;
use crate::predict::step::play::Recompute;
use crate::units::{Bytes, BytesPerSec, Flops, Seconds};
use detailed_pass::PassFlops;
use operator_row::{OperatorRow, gather_by_name};
use optimizer::optimizer;
use traffic::additions;
pub(in crate::predict) use units::ModuleSharder;

/// One micro-batch through each tape of a walk.
pub(in crate::predict) struct Passes {
    pub first: DetailedPass,
    /// Each kind of layer, without and with recomputation, where there are such layers.
    pub kinds: Vec<[Option<DetailedPass>; 2]>,
    pub last: DetailedPass,
}

/// What a pass depends on beside its operators and the GPU: two jobs that agree in it and in those have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::predict) struct Variant {
    /// Micro-batches that share casts of weights.
    micro_batches: u64,
    /// Gradients are added to others in so many of so many micro-batches.
    additions: (u64, u64),
    /// Weights are gathered from so many ranks or more: none, or two.
    gathers: bool,
    /// They stay gathered over all micro-batches.
    stay_gathered: bool,
    /// The host gathers them module by module.
    by_module: Option<ModuleSharder>,
}

impl Variant {
    pub fn of(job: &Job) -> Self {
        let steps = job.batch.accumulation;
        let shared = job.storage.fp8 && job.modules.fp8_weights_once.is;
        Self {
            micro_batches: if shared { steps } else { 1 },
            additions: additions(job),
            gathers: job.degrees.sharding == Sharding::Zero3 && job.degrees.shard_ranks > 1,
            stay_gathered: is_whole(job),
            by_module: ModuleSharder::of(job),
        }
    }
}

impl Passes {
    /// Runs one micro-batch of `job` through each tape of its walk.
    pub fn of(job: &Job, step: &StepTapes) -> Self {
        let kernels = Kernels::of(job);
        let walk = &step.walk;
        let mut kinds: Vec<[Option<DetailedPass>; 2]> = walk.kinds.iter().map(|_| [None, None]).collect();
        for (layer, kind) in walk.order.iter().enumerate() {
            let again = step.is_checkpointed(layer as u64);
            let recompute = if again { step.recompute } else { Recompute::Nothing };
            kinds[*kind][usize::from(again)]
                .get_or_insert_with(|| DetailedPass::of(job, &kernels, &walk.kinds[*kind].1, recompute));
        }
        let end = |tape| DetailedPass::of(job, &kernels, tape, Recompute::Nothing);
        Self { first: end(&walk.first), kinds, last: end(&walk.last) }
    }

    /// The passes of a stage, with how often each is made in a step.
    fn of_stage<'a>(
        &'a self,
        job: &Job,
        step: &StepTapes,
        layers: &[u64],
        ends: (bool, bool),
    ) -> impl Iterator<Item = (&'a DetailedPass, u64)> {
        let mut here = vec![[0_u64; 2]; self.kinds.len()];
        for layer in layers {
            here[step.kind(*layer)][usize::from(step.is_checkpointed(*layer))] += 1;
        }
        let kinds = self.kinds.iter().zip(here).flat_map(|(passed, times)| passed.iter().zip(times));
        let kinds = kinds.filter_map(|(passed, times)| Some((passed.as_ref()?, times)));
        let steps = job.batch.accumulation;
        std::iter::once((&self.first, u64::from(ends.0)))
            .chain(kinds)
            .chain(std::iter::once((&self.last, u64::from(ends.1))))
            .filter(|(_, times)| *times > 0)
            .map(move |(passed, times)| (passed, times.saturating_mul(steps)))
    }
}

/// Sums over the operators of a stage.
#[derive(Debug, Clone)]
pub(in crate::predict) struct Cost {
    pub flops: StepFlops,
    pub traffic: Traffic,
    /// Operations of a reference model's pass, which are among those forward.
    pub reference: Flops,
    pub compute: Seconds,
    pub memory_bound: Seconds,
    /// What of them is outside of the passes: the optimizer's part, and pages that a CPU's process uses first.
    pub outside: Seconds,
    /// That part as lines.
    once: Vec<OperatorRow>,
}

/// Sums the operators of a stage over a whole step.
pub(in crate::predict) fn of_stage(
    job: &Job,
    step: &StepTapes,
    passes: &Passes,
    (layers, ends): (&[u64], (bool, bool)),
    resident: &Resident,
) -> Cost {
    let (mut flops, mut compute, mut memory) = (PassFlops::default(), Seconds::ZERO, Seconds::ZERO);
    let (mut traffic, mut reference) = (Traffic::default(), Flops::ZERO);
    for (passed, times) in passes.of_stage(job, step, layers, ends) {
        let count = times as f64;
        reference += passed.reference.as_ref().map_or(Flops::ZERO, |referred| referred.flops.forward * count);
        for passed in passed.with_reference() {
            flops.forward += passed.flops.forward * count;
            flops.backward += passed.flops.backward * count;
            flops.recompute += passed.flops.recompute * count;
            compute += passed.compute * count;
            memory += passed.memory * count;
            traffic.add(passed.traffic, times);
        }
    }
    let update = (job.training.mode == Mode::Train).then(|| optimizer(job, resident, &mut traffic));
    let once: Vec<OperatorRow> = update.into_iter().chain(cpu::first_use(job, step, &mut traffic)).collect();
    for row in &once {
        compute += row.compute;
        memory += row.memory;
    }
    Cost {
        flops: StepFlops {
            forward: flops.forward,
            backward: flops.backward + flops.recompute,
            recompute: flops.recompute,
        },
        reference,
        traffic,
        compute,
        memory_bound: memory,
        outside: once.iter().map(OperatorRow::seconds).sum(),
        once,
    }
}

/// Where long kernels of a kind would take less than this share of its time, no roof binds an operator.
const LONG: f64 = 0.5;

/// What binds an operator: a roof, by the side of its type's ridge on which its intensity lies, or none.
fn bound(row: &OperatorRow, bandwidth: BytesPerSec) -> Bound {
    let under = row.flops / row.peak.0 < row.bytes as f64 / bandwidth.0;
    match under {
        _ if row.long < LONG * row.seconds() => Bound::SmallKernel,
        true => Bound::Memory,
        false => Bound::Compute,
    }
}

/// The operators of a stage over a whole step, under the GPU's roofs.
pub(in crate::predict) fn roofline(
    job: &Job,
    step: &StepTapes,
    passes: &Passes,
    (layers, ends): (&[u64], (bool, bool)),
    cost: &Cost,
) -> Roofline {
    let mut rows: Vec<OperatorRow> = Vec::with_capacity(48);
    for (passed, times) in passes.of_stage(job, step, layers, ends) {
        for row in passed.with_reference().flat_map(|passed| &passed.rows) {
            gather_by_name(&mut rows, row.times(times));
        }
    }
    rows.extend(cost.once.iter().cloned());
    rows.sort_by(|a, b| b.seconds().0.total_cmp(&a.seconds().0));
    let line = |row: &OperatorRow| RooflineOp {
        name: Cow::Borrowed(row.name),
        count: row.count,
        flops: Flops(row.flops),
        bytes: Bytes(row.bytes),
        intensity: Flops(row.flops).over(Bytes(row.bytes)),
        bound: bound(row, job.hardware.gpu.bandwidth),
        peak: row.peak,
        seconds: row.seconds(),
    };
    let gpu = &job.hardware.gpu;
    let (peak, peak_name) = peak(job, Unit::Matrix(job.storage.compute), true);
    let bandwidth = BytesPerSec(gpu.bandwidth.0);
    Roofline {
        bandwidth,
        peak,
        peak_name,
        ridge: peak.ridge(bandwidth),
        roofs: gpu.peaks.named(),
        l2: gpu.l2_bandwidth,
        ops: rows.iter().map(line).collect(),
    }
}
