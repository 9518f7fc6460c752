//! Time of a step: passes of the stages, collectives that nothing hides, the host where it is slower than the GPU,
//! and the pipeline's bubble.

mod between;
pub(in crate::predict) mod collectives;
pub(in crate::predict) mod cost;
pub(in crate::predict) mod decode;
mod hidden;
pub(in crate::predict) mod link;
pub(in crate::predict) mod offload;
mod partners;
pub(in crate::predict) mod pass_costs;
mod tape_terms;
pub(in crate::predict) mod terms;

use crate::model::{Input, Tape, Unit};
use crate::plan::keywords::{CpuOffload, CudaGraph, Mode};
use crate::predict::job::Job;
use crate::predict::job::mfu::counted;
use crate::predict::prediction::{HostPass, StepTime};
use crate::predict::step::StepTapes;
use crate::predict::step::play::Recompute;
use crate::predict::time::between::{sends, transfers};
use crate::predict::time::collectives::{OverlappedCollectives, Weights, backward_gathers, between, sharded, within};
use crate::predict::time::cost::{Cost, Pass, Passes, peak};
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{BytesPerSec, Flops, Seconds, Watts};

/// One micro-batch through one stage.
#[derive(Debug, Clone, Copy, Default)]
struct Stage {
    /// Its kernels.
    card: PassCosts,
    /// The host, to launch them.
    host: PassCosts,
    /// Waiting for a host that may not be far ahead.
    held: PassCosts,
    /// Collectives beside the passes.
    beside: OverlappedCollectives,
    /// Waiting for the host to read what the GPU routed.
    reads: Seconds,
    weights: Weights,
}

impl Stage {
    /// Adds one micro-batch through `tape`, of which so much runs again.
    fn add(&mut self, job: &Job, tape: &Tape, (pass, again): (&Pass, Recompute)) {
        let train = job.training.mode == Mode::Train;
        let weights = Weights::of(job, tape);
        let within = within(job, tape, pass, (train, again));
        self.beside.add(within, 1.0);
        self.beside.add(sharded(job, weights, pass, &within, backward_gathers(job, tape, (train, again))), 1.0);
        self.card += pass.card;
        self.host += pass.host;
        self.held += pass.held;
        if job.training.reference_pass {
            self.read_by_reference(job, tape, (pass, weights));
        }
        if weights.expert > 0.0 && job.speed.cuda_graph != CudaGraph::FullIteration {
            self.reads += Seconds(job.speed.stack.expert_us * 1e-6);
        }
        self.weights.add(weights, 1.0);
    }

    /// The reference model reads the same samples, forward alone.
    fn read_by_reference(&mut self, job: &Job, tape: &Tape, (pass, weights): (&Pass, Weights)) {
        let within = within(job, tape, pass, (false, Recompute::Nothing));
        self.beside.add(within, 1.0);
        self.beside.add(sharded(job, weights, pass, &within, None), 1.0);
        self.card.forward += pass.card.forward;
        self.host.forward += pass.host.forward;
        self.held.forward += pass.held.forward;
    }

    /// Adds `count` times what `one` is.
    fn repeat(&mut self, one: &Self, count: f64) {
        self.card += one.card * count;
        self.host += one.host * count;
        self.held += one.held * count;
        self.beside.add(one.beside, count);
        self.reads += one.reads * count;
        self.weights.add(one.weights, count);
    }

    /// Time that the GPU waits for the host to launch its kernels. The passes follow each other, so that one of
    /// them may wait and the other not.
    fn late(&self, job: &Job) -> PassCosts {
        let host = self.launching(job);
        // Launches that block: the host goes on where a kernel has ended, and the GPU waits for it each time.
        if job.training.launch_blocking { host } else { host.beyond(self.card + self.beside.waits).most(self.held) }
    }

    /// The host's time, but for what graphs of kernels launch.
    fn launching(&self, job: &Job) -> PassCosts {
        let captured = match job.speed.cuda_graph {
            CudaGraph::None => 1.0,
            CudaGraph::TransformerEngine | CudaGraph::Local => 0.2,
            CudaGraph::FullIteration => 0.0,
        };
        self.host * captured
    }

    /// Both passes beside the host that launches them.
    fn host_passes(&self, job: &Job) -> [HostPass; 2] {
        let (host, busy, waits) = (self.launching(job), self.card + self.beside.waits, self.late(job));
        let pass = |host: Seconds, busy: Seconds, waits: Seconds| {
            let is_held = !job.training.launch_blocking && waits > (host - busy).max(Seconds::ZERO);
            HostPass { host, busy, waits, is_held }
        };
        [pass(host.forward, busy.forward, waits.forward), pass(host.backward, busy.backward, waits.backward)]
    }

    /// Time that the GPU waits for the host, to launch and to read.
    fn gap(&self, job: &Job) -> Seconds {
        self.reads + self.late(job).all()
    }

    /// Time of the GPU, with its collectives.
    fn busy(&self) -> Seconds {
        (self.card + self.beside.waits).all()
    }

    fn seconds(&self, job: &Job) -> Seconds {
        self.busy() + self.gap(job)
    }

    /// Time that the step waits for the exchange of its gradients and weights. It also runs while the GPU waits for
    /// the host.
    fn exchange(&self, job: &Job) -> Seconds {
        between(job, self.weights, self.beside.left(self.card) + self.late(job))
    }
}

/// How many layers of each kind a stage holds, without and with recomputation.
type Counts = Vec<[u64; 2]>;

/// Stages that follow each other and hold the same layers.
struct StageGroup {
    /// The first of them.
    index: usize,
    /// How many there are.
    count: usize,
    /// One micro-batch through one of them.
    stage: Stage,
}

/// One micro-batch through every stage.
fn stages(job: &Job, step: &StepTapes, passes: &Passes) -> Vec<StageGroup> {
    let of_layer = |kind: usize, again: usize| {
        let mut one = Stage::default();
        if let Some(passed) = &passes.kinds[kind][again] {
            let recompute = if again == 1 { step.recompute } else { Recompute::Nothing };
            one.add(job, &step.walk.kinds[kind].1, (&passed.pass, recompute));
        }
        one
    };
    let layers: Vec<[Stage; 2]> =
        (0..passes.kinds.len()).map(|kind| [0, 1].map(|again| of_layer(kind, again))).collect();
    let last = job.stages.len() - 1;
    let mut alike: Vec<StageGroup> = Vec::with_capacity(4);
    let (mut counts, mut before): (Counts, Counts) = (vec![[0; 2]; layers.len()], Vec::with_capacity(layers.len()));
    for index in 0..job.stages.len() {
        count(job, step, index, &mut counts);
        // The first stage embeds and the last has the loss.
        if let Some(known) = alike.last_mut().filter(|known| known.index > 0 && index < last && before == counts) {
            known.count += 1;
            continue;
        }
        let mut stage = Stage { beside: OverlappedCollectives::bare(transfers(job, index)), ..Stage::default() };
        for (one, count) in layers.iter().flatten().zip(counts.iter().flatten()).filter(|(_, count)| **count > 0) {
            stage.repeat(one, *count as f64);
        }
        if index == 0 {
            stage.add(job, &step.walk.first, (&passes.first.pass, Recompute::Nothing));
        }
        if index == last {
            stage.add(job, &step.walk.last, (&passes.last.pass, Recompute::Nothing));
        }
        alike.push(StageGroup { index, count: 1, stage });
        before.clone_from(&counts);
    }
    alike
}

/// Counts the layers of stage `index` by kind.
fn count(job: &Job, step: &StepTapes, index: usize, counts: &mut Counts) {
    counts.fill([0; 2]);
    for layer in job.stages[index].chunks.iter().flat_map(|(from, count)| *from..from.saturating_add(*count)) {
        counts[step.kind(layer)][usize::from(step.is_checkpointed(layer))] += 1;
    }
}

/// Seconds that one micro-batch spends at least in a layer of which nothing runs again: its kernels, and the collectives
/// that nothing hides.
pub(in crate::predict) fn of_layer(job: &Job, tape: &Tape, pass: &Pass) -> Seconds {
    let mut one = Stage::default();
    one.add(job, tape, (pass, Recompute::Nothing));
    one.busy() + one.reads
}

/// A step but for its optimizer and for what lies in host memory: what it takes at least.
pub struct StepTimeline {
    stages: Vec<StageGroup>,
    /// Seconds of all micro-batches through all stages.
    pipeline: Seconds,
    /// Seconds of that in which chunks wait for what others send.
    sends: Seconds,
    /// Seconds of the exchange between data-parallel ranks that the step waits for.
    exchange: Seconds,
}

/// Time that the step waits for a stage's exchange.
fn collectives(job: &Job, stage: &Stage) -> Seconds {
    if job.training.mode == Mode::Train { stage.exchange(job) } else { Seconds::ZERO }
}

impl StepTimeline {
    pub(in crate::predict) fn of(job: &Job, step: &StepTapes, passes: &Passes) -> Self {
        let stages = stages(job, step, passes);
        let [mut through, mut slowest, mut waits] = [Seconds::ZERO; 3];
        let mut passes = PassCosts::default();
        for StageGroup { stage, count, .. } in &stages {
            let seconds = stage.seconds(job);
            through += seconds * *count as f64;
            if seconds > slowest {
                (slowest, passes) = (seconds, stage.beside.left(stage.card));
            }
            waits = waits.max(collectives(job, stage));
        }
        let sends = sends(job, passes);
        // The slowest stage sets the pace; the others are passed once on the way in and out, a chunk of each at a time
        // where they are interleaved: with equal stages (p - 1) / (v m) of the passes (arXiv 2104.04473, section 2.2).
        let micro_batches = job.batch.accumulation as f64;
        let pipeline = micro_batches * slowest + (through - slowest) / job.degrees.virtual_pipeline as f64;
        Self { stages, pipeline: pipeline + sends, sends, exchange: waits }
    }

    /// Its time.
    #[must_use]
    pub fn seconds(&self) -> Seconds {
        self.pipeline + self.exchange
    }

    /// Seconds that host memory adds, as `job` uses it.
    pub(in crate::predict) fn host(&self, job: &Job, step: &StepTapes) -> Seconds {
        if job.training.cpu_offload == CpuOffload::None {
            return Seconds::ZERO;
        }
        let moved = |StageGroup { index, stage, .. }: &StageGroup| {
            let layers = job.stages[*index].layers();
            // Transfers go on while the GPU waits for its host or for collectives, unless those have the same lanes.
            let lanes = if job.hardware.interconnect.on_board { stage.beside.comm } else { PassCosts::default() };
            let passes = (stage.card + stage.beside.waits + stage.late(job)).beyond(lanes);
            offload::seconds(job, step, &layers, stage.weights, passes)
        };
        self.stages.iter().map(moved).fold(Seconds::ZERO, Seconds::max)
    }

    /// The step's time and what comes of it; `largest` is the stage whose GPU the parts are of.
    pub(in crate::predict) fn finish(&self, (job, step): (&Job, &StepTapes), cost: &Cost, largest: usize) -> StepTime {
        let host = self.host(job, step);
        let seconds = self.seconds() + host + cost.outside;
        let own = self.stages.iter().rfind(|alike| alike.index <= largest);
        let own = own.map_or_else(Stage::default, |alike| alike.stage);
        let micro_batches = job.batch.accumulation as f64;
        let kernels = cost.compute + cost.memory_bound;
        let launch = own.gap(job) * micro_batches;
        let communication = own.beside.waits.all() * micro_batches + self.sends + collectives(job, &own) + host;
        // What is left of rounding is no wait.
        let bubble = seconds - kernels - launch - communication;
        let bubble = if bubble > 1e-9 * seconds { bubble } else { Seconds::ZERO };
        finish(job, cost, [seconds, communication, bubble, launch], self.mean_of_stages(&own))
    }

    /// How long the passes of a stage keep its GPU busy on average, over how long those of `own` do.
    fn mean_of_stages(&self, own: &Stage) -> f64 {
        let stages = self.stages.iter().map(|group| group.count).sum::<usize>() as f64;
        let all = self.stages.iter().map(|group| group.stage.card.all().0 * group.count as f64).sum::<f64>();
        let own = own.card.all().0;
        if own > 0.0 && stages > 0.0 { all / stages / own } else { 1.0 }
    }
}

/// `mean` is how long the passes of all stages take on average, over how long this one's do.
fn finish(job: &Job, cost: &Cost, [step, communication, bubble, launch]: [Seconds; 4], mean: f64) -> StepTime {
    let seconds = step.0;
    let input = job.architecture.input();
    let tokens = job.batch.tokens() as f64;
    let gpus = job.degrees.num_gpus as f64;
    let per_gpu = tokens / seconds / gpus;
    let train = job.training.mode == Mode::Train;
    // (6 N + 12 L h s) a token, N with embeddings, L those layers that attend (CONTRACT), s a window's tokens where a layer has
    // one; a third of it is the forward pass.
    let seen = job.batch.sequence.saturating_add(job.batch.past);
    let attention = job
        .decoder()
        .map_or(0.0, |decoder| 12.0 * (decoder.heads * decoder.head_dim) as f64 * decoder.attended_keys(seen).all);
    let share = if train { 1.0 } else { 1.0 / 3.0 };
    let (dense, _) = peak(job, Unit::Matrix(job.storage.compute), true);
    // A reference model's pass trains nothing.
    let own = cost.flops.forward + cost.flops.backward - cost.flops.recompute - cost.reference;
    let sees = job.architecture.sight().is_some();
    let reads = matches!(input, Input::Tokens(_));
    let formula = reads && counted(&job.training, &job.architecture).is_none();
    let by_formula = (6.0 * job.params.active as f64 + attention) * share * per_gpu;
    let model_flops = if formula { by_formula } else { own.0 / seconds };
    let mfu = ((reads || sees) && train && dense.0 > 0.0).then(|| model_flops / dense.0);
    let has_tokens = !matches!(input, Input::Image(..) | Input::Captioned(_));
    let again = if own.0 > 0.0 { 1.0 + (cost.flops.recompute + cost.reference).0 / own.0 } else { 1.0 };
    let bytes = cost.traffic.total().as_f64();
    let kernels = (cost.compute + cost.memory_bound).0;
    let of_all = if kernels > 0.0 { (mean * (kernels - cost.outside.0) + cost.outside.0) / kernels } else { 1.0 };
    let hours = job.total_tokens.filter(|_| train && has_tokens).map(|all| all / (tokens / seconds) / 3600.0);
    StepTime {
        step,
        compute: cost.compute,
        memory_bound: cost.memory_bound,
        communication,
        bubble,
        launch,
        tokens_per_s: has_tokens.then_some(tokens / seconds),
        tokens_per_s_per_gpu: has_tokens.then_some(per_gpu),
        samples_per_s: job.batch.global as f64 / seconds,
        model_flops_per_gpu: Flops(model_flops).per_second(),
        mfu,
        hfu: mfu.map(|mfu| mfu * again),
        bandwidth: BytesPerSec(bytes / seconds),
        mbu: bytes / seconds / job.hardware.gpu.bandwidth.0,
        total_hours: hours,
        total_cost: hours.zip(job.price_per_gpu_hour).map(|(hours, price)| hours * gpus * price),
        power: power(job, [cost.compute * of_all, cost.memory_bound * of_all], seconds),
    }
}

/// Average power of one GPU over a step of `seconds`, whose kernels compute and move memory so long.
fn power(job: &Job, kernels: [Seconds; 2], seconds: f64) -> Option<Watts> {
    let board = job.hardware.gpu.tdp?.0;
    let limit = job.hardware.power_limit_w.map_or(board, |limit| limit.min(board));
    let curve = &job.speed.curves.matrix;
    let idle = board * curve.idle_power;
    let [compute, memory] = kernels.map(|part| part.0);
    let waiting = (seconds - compute - memory).max(0.0);
    let busy = (compute + curve.dram_power * memory + curve.waiting_power * waiting) / seconds;
    Some(Watts((idle + (limit - idle).max(0.0) * busy.min(1.0)).min(limit)))
}

impl Flops {
    /// A count of operations in a second, as a rate.
    const fn per_second(self) -> crate::units::FlopsPerSec {
        crate::units::FlopsPerSec(self.0)
    }
}
