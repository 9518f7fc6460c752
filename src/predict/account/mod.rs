//! The peak as a list of named terms that sum to device-used, to the byte.

pub(in crate::predict) mod activation_formulas;
pub(in crate::predict) mod state_formulas;

use crate::model::Group;
use crate::plan::keywords::{Mode, Sharding};
use crate::predict::job::optimizer::rule_of;
use crate::predict::job::{Batch, Job};
use crate::predict::memory::StageRun;
use crate::predict::memory::companions::{ENGINE_SOURCE, engine_formula, standing_engine, woken_engine};
use crate::predict::memory::overhead::{
    Constant, NCCL_PER_COMMUNICATOR, PROCESS_SOURCE, communicators, context_of, libraries, outside, process, workspaces,
};
use crate::predict::memory::reserved::{ReservedExcess, beyond};
use crate::predict::memory::zero_step;
use crate::predict::prediction::{Component, Layer, Phase, Term, Words, words};
use crate::units::Bytes;

/// The terms of a stage, its reserved and its device-used bytes.
pub(in crate::predict) struct Account {
    pub terms: Vec<Term>,
    pub reserved: Bytes,
    pub device: Bytes,
}

struct Terms {
    list: Vec<Term>,
}

impl Terms {
    fn add(
        &mut self,
        name: &'static str,
        component: Component,
        bytes: Bytes,
        formula: impl Into<Words>,
        source: &'static str,
        layer: Layer,
    ) {
        if bytes > Bytes::ZERO {
            let (name, source) = (name.into(), source.into());
            self.list.push(Term { name, component, bytes, formula: formula.into(), source, layer });
        }
    }
}

/// What each group of activations is called, and what it is held for.
const fn group_term(group: Group) -> (&'static str, Component) {
    match group {
        Group::Residual => ("residual stream", Component::Activations),
        Group::Norm => ("norms", Component::Activations),
        Group::Attention => ("attention", Component::Activations),
        Group::Mlp => ("feed-forward", Component::Activations),
        Group::Experts => ("experts", Component::Activations),
        Group::Embedding => ("embedding", Component::Activations),
        Group::Convolution => ("convolutions", Component::Activations),
        Group::Adapter => ("adapters", Component::Activations),
        Group::WeightCopy => ("weight copies", Component::Activations),
        Group::Logits => ("logits and loss", Component::Activations),
        Group::ActivationGradient => ("activation gradients", Component::Temporaries),
        Group::KvCache => ("KV cache", Component::KvCache),
        Group::WeightGradient => ("weight gradients in flight", Component::Gradients),
    }
}

/// The account of a stage of so many layers at its peak.
pub(in crate::predict) fn account(job: &Job, layers: u64, run: &StageRun) -> Account {
    let mut terms = Terms { list: Vec::with_capacity(24) };
    resident(job, run, &mut terms);
    moment(job, layers, run, &mut terms);
    let Bytes(allocated) = terms.list.iter().map(|term| term.bytes).sum();
    let ReservedExcess { bytes: slack, formula, source } = beyond(job, run, allocated);
    terms.add("fragmentation", Component::Overhead, Bytes(slack), formula, source, Layer::Reserved);
    let flat = zero_step::cached(job, run, allocated);
    terms.add(
        "flat gradients, cached",
        Component::Overhead,
        Bytes(flat),
        zero_step::FORMULA,
        zero_step::SOURCE,
        Layer::Reserved,
    );
    let Constant { bytes, source } = context_of(job);
    let lazily = !job.profile.process.loads_all_kernels.is;
    let formula =
        if lazily { "one CUDA context with lazily loaded kernels" } else { "one CUDA context with all kernels" };
    terms.add("CUDA context", Component::Overhead, bytes, formula, source, Layer::Device);
    let formula = "the interpreter, its libraries and their threads, resident without a model";
    terms.add("Python and its libraries", Component::Overhead, process(job), formula, PROCESS_SOURCE, Layer::Device);
    let communicators = communicators(job);
    terms.add(
        "NCCL buffers",
        Component::CommunicationBuffers,
        NCCL_PER_COMMUNICATOR.bytes * communicators,
        words![communicators, " communicators x ", NCCL_PER_COMMUNICATOR.bytes],
        NCCL_PER_COMMUNICATOR.source,
        Layer::Device,
    );
    let reserved = allocated.saturating_add(slack).saturating_add(flat);
    terms.add(
        "generation engine",
        Component::KvCache,
        standing_engine(job) + woken_engine(job, run, reserved),
        engine_formula(job),
        ENGINE_SOURCE,
        Layer::Device,
    );
    let device = terms.list.iter().map(|term| term.bytes).sum();
    Account { terms: terms.list, reserved: Bytes(reserved), device }
}

/// What [`account`] comes to, without the names: allocated and device-used bytes.
pub(in crate::predict) fn figures(job: &Job, run: &StageRun) -> (Bytes, Bytes) {
    let allocated = run.peak.total;
    let slack = beyond(job, run, allocated).bytes.saturating_add(zero_step::cached(job, run, allocated));
    let reserved = allocated.saturating_add(slack);
    let device = reserved.saturating_add(outside(job)).saturating_add(woken_engine(job, run, reserved).0);
    (Bytes(allocated), Bytes(device))
}

/// What the stage holds in every phase.
fn resident(job: &Job, run: &StageRun, terms: &mut Terms) {
    weights(job, run, terms);
    states(job, run, terms);
    buffers(job, run, terms);
}

/// Weights: the model's, and of what lies beside it.
fn weights(job: &Job, run: &StageRun, terms: &mut Terms) {
    let held = &run.resident;
    let types = state_formulas::source(job);
    terms.add(
        "weights",
        Component::Parameters,
        held.weights,
        state_formulas::weights(job, held),
        types,
        Layer::Allocated,
    );
    terms.add(
        "reference model",
        Component::Parameters,
        held.reference,
        words!["a frozen copy: "].then(state_formulas::weights(job, held)),
        "TRL, trainer/dpo_trainer.py: ref_model",
        Layer::Allocated,
    );
    let beside = words![job.training.companions.frozen, " parameters x ", job.storage.weight.bytes(), " B"];
    terms.add(
        "other frozen models",
        Component::Parameters,
        held.frozen_models,
        beside.then(state_formulas::shared(job, &[Sharding::Zero3])),
        "training.frozen_models_billions",
        Layer::Allocated,
    );
    terms.add(
        "critic",
        Component::OptimizerStates,
        held.critic,
        "the weights, master weights and optimizer states once more",
        "volcengine/verl, verl/workers/fsdp_workers.py, CriticWorker: stored and sharded as the actor is",
        Layer::Allocated,
    );
    terms.add(
        "FP8 copies of weights",
        Component::Parameters,
        held.fp8_copies,
        "matrices of the blocks, by rows and by columns, kept over the step's micro-batches",
        "Transformer Engine, pytorch/module/base.py, quantize_weight (cached by is_first_microbatch)",
        Layer::Allocated,
    );
}

/// What the optimizer keeps, and a cache.
fn states(job: &Job, run: &StageRun, terms: &mut Terms) {
    let held = &run.resident;
    let all = [Sharding::Zero1, Sharding::Zero2, Sharding::Zero3];
    terms.add(
        "master weights",
        Component::OptimizerStates,
        held.masters,
        state_formulas::masters(job, held).then(state_formulas::shared(job, &all)),
        state_formulas::source(job),
        Layer::Allocated,
    );
    terms.add(
        "KV cache",
        Component::KvCache,
        held.kv_cache_waiting + Bytes(run.peak.groups[Group::KvCache as usize]),
        cache_formula(job, held.kv_cache),
        cache_source(job),
        Layer::Allocated,
    );
    let row = rule_of(job);
    terms.add(
        "optimizer states",
        Component::OptimizerStates,
        held.states,
        state_formulas::states(job, held),
        row.source,
        Layer::Allocated,
    );
    terms.add(
        "dummy weight gradients",
        Component::Gradients,
        held.dummies,
        "one buffer for each distinct shape of matrix, 16 bit",
        "Transformer Engine, pytorch/module/base.py, get_dummy_wgrad",
        Layer::Allocated,
    );
}

/// Room of libraries, of collectives, and for what comes in and goes out.
fn buffers(job: &Job, run: &StageRun, terms: &mut Terms) {
    let held = &run.resident;
    terms.add(
        "global memory buffer",
        Component::CommunicationBuffers,
        held.global_buffer,
        "the largest gathered input or score tensor, 16 bit",
        job.modules.gather.source,
        Layer::Allocated,
    );
    let threads = match job.training.mode {
        Mode::Train => "cuBLAS for the forward and the backward thread, and the engine's own",
        Mode::Inference => "cuBLAS for its thread, and the engine's own",
    };
    terms.add(
        "receive buffers",
        Component::CommunicationBuffers,
        held.received,
        "one for each micro-batch's activations and one for its gradients, less those that hold saved inputs",
        "PyTorch, torch/distributed/pipelining/stage.py, _prepare_forward_infra and _create_grad_recv_info",
        Layer::Allocated,
    );
    terms.add(
        "library workspaces",
        Component::Overhead,
        Bytes(run.workspaces),
        threads,
        workspaces(job.hardware.gpu.generation, libraries(job)).source,
        Layer::Allocated,
    );
    let (outputs, source) = activation_formulas::outputs(job);
    terms.add("outputs kept", Component::Temporaries, Bytes(run.kept), outputs, source, Layer::Allocated);
    let (inputs, source) = activation_formulas::inputs(job);
    terms.add("inputs and buffers", Component::Temporaries, Bytes(run.inputs), inputs, source, Layer::Allocated);
}

fn cache_formula(job: &Job, bytes: Bytes) -> Words {
    let Batch { micro, accumulation, sequence, .. } = job.batch;
    let requests = micro.saturating_mul(accumulation);
    let each = bytes.0 / requests.saturating_mul(sequence).max(1);
    let window = match job.decoder().and_then(|decoder| decoder.sliding_window) {
        Some(window) if window < sequence => words![", in windowed layers of the last ", window],
        _ => Words::NONE,
    };
    words![requests, " requests x ", sequence, " tokens"].then(window).then(words![
        ": ",
        each,
        " B a token on this GPU"
    ])
}

fn cache_source(job: &Job) -> &'static str {
    let decoder = job.decoder();
    if decoder.is_some_and(|decoder| decoder.mla.is_some()) {
        "arXiv 2405.04434, section 2.1.2: the compressed latent and the rotated key"
    } else if decoder.is_some_and(|decoder| decoder.sliding_window.is_some()) {
        "transformers 4.57.6, cache_utils.py, DynamicSlidingWindowLayer"
    } else {
        "transformers 4.57.6, cache_utils.py, DynamicCache"
    }
}

/// What is alive only at the peak.
fn moment(job: &Job, layers: u64, run: &StageRun, terms: &mut Terms) {
    let peak = &run.peak;
    let (gradient, _) = job.trained_types();
    terms.add(
        "gradients",
        Component::Gradients,
        Bytes(peak.gradients),
        words!["those that exist of ", run.resident.trained, " parameters x ", gradient.bytes(), " B"],
        state_formulas::gradient_source(job),
        Layer::Allocated,
    );
    // The cache is a term of its own, with what other requests hold of it.
    for group in Group::ALL.into_iter().filter(|group| *group != Group::KvCache) {
        let (name, component) = group_term(group);
        let bytes = peak.groups[group as usize];
        let formula = activation_formulas::formula(job, group, bytes, layers);
        terms.add(name, component, Bytes(bytes), formula, activation_formulas::source(job, group), Layer::Allocated);
    }
    if peak.shared > 0 {
        let source = job.modules.rope.source;
        let formula = activation_formulas::rotary(job);
        terms.add("rotary tables", Component::Activations, Bytes(peak.shared), formula, source, Layer::Allocated);
    }
    if peak.in_flight > 0 {
        let source = "arXiv 2104.04473, section 2.2; megatron-core, pipeline_parallel/schedules.py";
        let formula = activation_formulas::in_flight(job, peak.in_flight);
        terms.add(
            "micro-batches in flight",
            Component::Activations,
            Bytes(peak.in_flight),
            formula,
            source,
            Layer::Allocated,
        );
    }
    // They are part of what sharding adds while the passes run, but gradients to whoever reads the account.
    let whole = if peak.phase == Phase::Optimizer { Bytes::ZERO } else { run.resident.accumulated };
    let (formula, source) = state_formulas::whole_gradients(job);
    terms.add("whole gradients", Component::Gradients, whole, formula, source, Layer::Allocated);
    let buffers = Bytes(peak.buffers).saturating_sub(whole);
    if buffers > Bytes::ZERO {
        let (formula, source) = activation_formulas::sharding(job, run.resident.root, run.resident.unsharded_layer);
        let component = Component::CommunicationBuffers;
        terms.add("sharding buffers", component, buffers, formula, source, Layer::Allocated);
    }
    terms.add(
        "optimizer temporaries",
        Component::Temporaries,
        Bytes(peak.optimizer),
        "what the optimizer's kernels make while they step",
        rule_of(job).source,
        Layer::Allocated,
    );
}
