//! What stages of a pipeline send each other, and what waits for it.

use crate::model::CollectiveKind;
use crate::plan::keywords::{Mode, Schedule};
use crate::predict::job::Job;
use crate::predict::step::pipeline::warm_up;
use crate::predict::time::link::{LinkGroup, Volume};
use crate::predict::time::pass_costs::PassCosts;
use crate::units::Seconds;

/// Whether stages hold several chunks, which take turns.
pub(super) fn interleaves(job: &Job) -> bool {
    job.degrees.schedule == Schedule::Interleaved && job.degrees.virtual_pipeline > 1
}

/// Seconds in which activations pass one boundary between stages, and their gradients.
pub(super) fn boundary(job: &Job) -> PassCosts {
    let Boundary { sent, gathered, .. } = Boundary::of(job);
    let forward = sent.seconds + gathered.seconds;
    PassCosts { forward, backward: if job.training.mode == Mode::Train { forward } else { Seconds::ZERO } }
}

/// What activations take to pass one boundary between stages.
#[derive(Default)]
pub(super) struct Boundary {
    /// To be sent over it.
    pub sent: Volume,
    /// To be gathered behind it, by so many ranks.
    pub gathered: Volume,
    pub parts: u64,
}

impl Boundary {
    pub fn of(job: &Job) -> Self {
        let stages = job.stages.len() as u64;
        let degrees = &job.degrees;
        if stages < 2 {
            return Self::default();
        }
        let width = job.decoder().map_or(0, |decoder| decoder.hidden);
        let cut = if degrees.sequence_parallel { degrees.tensor } else { 1 } * degrees.context;
        let tokens = job.batch.micro.saturating_mul(job.batch.sequence);
        let bytes = (tokens.saturating_mul(width).saturating_mul(job.storage.compute.bytes()) / cut.max(1)) as f64;
        // Where all tensor-parallel ranks hold the same, each of Megatron's sends a part, which those behind gather
        // (arXiv 2104.04473, section 4.1; so does DeepSpeed, runtime/pipe/engine.py, `is_pipe_partitioned`).
        let parts = if job.profile.pipeline.sends_parts.is && !degrees.sequence_parallel { degrees.tensor } else { 1 };
        let sent = bytes / parts as f64;
        let seconds = LinkGroup { ranks: 2, stride: degrees.num_gpus / stages }.send(job, sent);
        let gathered = LinkGroup { ranks: parts, stride: 1 }.in_buckets(job, CollectiveKind::AllGather, (bytes, bytes));
        Self { sent: Volume { seconds, bytes: sent }, gathered, parts }
    }
}

/// How many tensors stage `index` waits for in each pass, one behind the other.
pub(super) fn transfers_in_turn(job: &Job, index: usize) -> f64 {
    let between = index > 0 && index + 1 < job.stages.len();
    if between && job.profile.pipeline.sends_one_by_one.is { 2.0 } else { 1.0 }
}

/// Seconds that one micro-batch waits in stage `index` for what it sends its neighbours and gets from them, where nothing
/// hides it. Stages that do both at once wait for one transfer each way: as they send activations on they get a gradient.
/// Where each tensor is waited for before the next one is sent or received, a stage between two others waits for all four
/// (DeepSpeed, runtime/pipe/engine.py: `_exec_recv_activations` and `_exec_send_grads` before a forward pass,
/// `_exec_send_activations` and `_exec_recv_grads` before a backward one).
pub(super) fn transfers(job: &Job, index: usize) -> PassCosts {
    if interleaves(job) {
        return PassCosts::default();
    }
    let Boundary { sent, gathered, .. } = Boundary::of(job);
    let forward = sent.seconds * transfers_in_turn(job, index) + gathered.seconds;
    PassCosts { forward, backward: if job.training.mode == Mode::Train { forward } else { Seconds::ZERO } }
}

/// Seconds of a step that the first of interleaved stages waits for what chunks send each other. Once it has made its
/// first pass backward a send runs beside the other way's pass of another chunk; before, and after its last pass forward,
/// nothing hides one (Megatron: --overlap-p2p-communication is its default, --overlap-p2p-communication-warmup-flush is
/// not). `passes` are those of a micro-batch through the slowest stage that hide nothing else.
pub(super) fn sends(job: &Job, passes: PassCosts) -> Seconds {
    if !interleaves(job) {
        return Seconds::ZERO;
    }
    let sent = boundary(job);
    let chunks = job.degrees.virtual_pipeline;
    let bare = warm_up(job, 0);
    let beside = job.batch.accumulation.saturating_mul(chunks).saturating_sub(bare);
    let hides = PassCosts { forward: passes.backward, backward: passes.forward } * (1.0 / chunks as f64);
    sent.all() * bare as f64 + sent.beyond(hides).all() * beside as f64
}
