//! What decides how fast a job runs and not how much memory it takes: curves, overlap, graphs.

use std::sync::Arc;

use super::Notes;
use super::{Degrees, Hardware, Job};
use crate::catalog::{Catalog, Curves, Generation, LinkCurve, Scope, Stack};
use crate::framework::Profile;
use crate::plan::Plan;
use crate::plan::keys;
use crate::plan::keywords::{CudaGraph, Dtype, Engine, Fp8Recipe, Mode, MoeDispatcher, Precision, Sharding};

/// What kernels and collectives reach, and what runs beside what.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Kernels of the GPU's generation.
    pub curves: Arc<Curves>,
    /// How the framework drives the GPU.
    pub stack: Arc<Stack>,
    /// Collectives within a node.
    pub node: Arc<LinkCurve>,
    /// Collectives between nodes.
    pub network: Arc<LinkCurve>,
    /// How FP8 scales are kept.
    pub fp8_recipe: Fp8Recipe,
    /// What is captured as a graph, so that the host launches it once.
    pub cuda_graph: CudaGraph,
    /// Gradients are reduced while the backward pass runs.
    pub overlap_gradients: bool,
    /// Weights are gathered while the forward pass runs.
    pub overlap_weights: bool,
    /// Tensor-parallel collectives run in pieces beside the matmuls that they feed.
    pub overlap_tensor: bool,
    /// The plan says so: buffers for it are counted.
    pub userbuffers: bool,
    /// All-to-alls of experts run beside other micro-batches.
    pub overlap_experts: bool,
    /// A token that several experts of one node want is sent there once.
    pub sent_once: bool,
}

/// Whether a plan in FP8, which Megatron has of NVIDIA's recipes, is silent on what data-parallel ranks exchange. NeMo
/// 24.07's all overlap it (NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training: gpt3, llama, nemotron;
/// `overlap_grad_sync`, `overlap_param_sync`), in 16 bit (examples/training: gpt, llama; `grad_sync_dtype=bf16`).
pub(super) fn exchanges_as_recipes(plan: &Plan, profile: &Profile, degrees: &Degrees) -> bool {
    let part = &plan.distribution;
    let optimizer = (part.sharding, plan.training.distributed_optimizer);
    // Who writes out what recipes have means the same.
    let silent = [part.overlap_grad_reduce, part.overlap_param_gather].iter().all(|said| *said != Some(false))
        && part.reduce_dtype.is_none_or(|said| said == Dtype::Bf16)
        && optimizer == (None, None)
        && degrees.sharding == Sharding::None;
    silent && is_recipe(plan, profile) && degrees.data.saturating_mul(degrees.context) > 1
}

fn is_recipe(plan: &Plan, profile: &Profile) -> bool {
    let training = &plan.training;
    let trains = training.mode != Some(Mode::Inference);
    profile.overlap.nvidia_recipes.is && trains && training.precision == Some(Precision::Fp8Mixed)
}

/// What NVIDIA's recipes run beside the passes, where a plan in FP8 is silent: the exchange between data-parallel ranks,
/// and tensor-parallel collectives along the sequence (NeMo's `ub_tp_comm_overlap`; NVIDIA-NeMo/Megatron-Bridge,
/// perf_recipes/llama, `tp_comm_overlap`).
#[derive(Clone, Copy)]
struct Recipe {
    exchange: bool,
    tensor: bool,
}

impl Recipe {
    fn of(plan: &Plan, profile: &Profile, degrees: &Degrees, notes: &mut Notes) -> Self {
        let exchange = exchanges_as_recipes(plan, profile, degrees);
        let tensor = is_recipe(plan, profile) && degrees.tensor > 1 && degrees.sequence_parallel;
        let part = &plan.distribution;
        let other = part.reduce_dtype.is_some_and(|dtype| dtype != Dtype::Bf16);
        let said = match exchange {
            true => Some("true, as NVIDIA's recipes of FP8 have it"),
            false if other && is_recipe(plan, profile) => Some("false: reduce_dtype is not that of NVIDIA's recipes"),
            false => None,
        };
        for (key, given) in [
            (keys::distribution::overlap_grad_reduce, part.overlap_grad_reduce),
            (keys::distribution::overlap_param_gather, part.overlap_param_gather),
        ] {
            if let Some(said) = said.filter(|_| given.is_none()) {
                notes.assume(key, said);
            }
        }
        if tensor && said_of_tensor(plan, degrees).is_none() {
            notes.assume(keys::distribution::overlap_tensor_parallel, "true (its buffers left out of memory)");
        }
        Self { exchange, tensor }
    }
}

/// Whether a plan says that tensor-parallel collectives overlap. Transformer Engine's userbuffers hide the gathers and
/// scatters along the sequence alone: without sequence parallelism Megatron-LM refuses `--tp-comm-overlap`
/// (training/arguments.py, validate_args).
fn said_of_tensor(plan: &Plan, degrees: &Degrees) -> Option<bool> {
    let part = &plan.distribution;
    part.overlap_tensor_parallel.map(|on| on && degrees.sequence_parallel).or(part.async_tensor_parallel)
}

/// Says which kernels of a measured generation are estimated from another's.
fn note_estimated(curves: &Curves, stack: &Stack, hardware: &Hardware, notes: &mut Notes) {
    let parts = [
        (&curves.matrix.source, "matmuls"),
        (&curves.memory.source, "kernels bound by memory"),
        (&curves.attention(stack.attention).source, "fused attention"),
    ];
    let estimated: Vec<&str> =
        parts.into_iter().filter(|(source, _)| *source == ESTIMATED).map(|(_, part)| part).collect();
    if curves.estimated_from.is_none() && !estimated.is_empty() {
        let (name, parts) = (&hardware.gpu.name, estimated.join(" and "));
        notes.assume(keys::hardware::gpu_type, format!("{name}'s {parts}: not measured, estimated from Ampere"));
    }
}

/// The key of the catalogue's sources for what no kernel was measured of.
const ESTIMATED: &str = "estimated";

/// Whether NVIDIA's recipes run the experts' all-to-all beside another micro-batch: between nodes where chunks of a pipeline
/// allow it, and where they capture whole iterations within a node as well (perf_recipes: qwen/common.py, deepseek/common.py
/// and gpt_oss/common.py, full-iteration MXFP8).
fn recipes_overlap(hardware: &Hardware, [expert, within]: [u64; 2], chunks: u64, captured: bool) -> bool {
    let far = expert.saturating_mul(within) > hardware.node_gpus;
    (far && chunks > 1) || (captured && expert > 1)
}

impl Job {
    /// Whether another layout of the same plan would be taken to run its experts' all-to-all beside another micro-batch, and
    /// this one does not.
    #[must_use]
    pub fn would_overlap_experts(&self, ranks: [u64; 2], chunks: u64) -> bool {
        let captured = self.speed.cuda_graph == CudaGraph::FullIteration;
        let by_recipe = self.profile.overlap.nvidia_recipes.is;
        !self.speed.overlap_experts && by_recipe && recipes_overlap(&self.hardware, ranks, chunks, captured)
    }
}

/// How tokens go to their experts.
struct SentTokens {
    /// Beside another micro-batch.
    beside: bool,
    /// Once to each node.
    once: bool,
}

impl SentTokens {
    fn of(plan: &Plan, (hardware, degrees): (&Hardware, &Degrees), profile: &Profile, notes: &mut Notes) -> Self {
        let (training, part) = (&plan.training, &plan.distribution);
        let as_recipes = profile.overlap.nvidia_recipes.is;
        // Where experts are sent between nodes, NVIDIA's recipes send each token once to each node (DeepEP, HybridEP), beside
        // another micro-batch where chunks of a pipeline allow it; on Hopper where it is so hidden they leave it at the plain
        // all-to-all (NVIDIA-NeMo/Megatron-Bridge, perf_recipes: qwen/h100/qwen3_moe.py for 16 and for 256 GPUs,
        // deepseek/b200/deepseek_v3.py).
        let far = as_recipes && degrees.expert.saturating_mul(degrees.expert_tensor) > hardware.node_gpus;
        let chunks = if degrees.pipeline > 1 { degrees.virtual_pipeline } else { 1 };
        let captured = training.cuda_graph == Some(CudaGraph::FullIteration);
        let beside = as_recipes && recipes_overlap(hardware, [degrees.expert, degrees.expert_tensor], chunks, captured);
        let overlaps = part.overlap_expert_parallel.unwrap_or(beside);
        let plain = overlaps && hardware.gpu.generation == Generation::Hopper;
        if as_recipes && degrees.expert > 1 && part.moe_dispatcher.is_none() {
            let assumed = match (far, plain) {
                (true, false) => "hybridep (experts are sent between nodes)",
                (true, true) => "alltoall (beside another micro-batch)",
                (false, _) => "alltoall, as NVIDIA's recipes have it (Megatron's own default is allgather)",
            };
            notes.assume(keys::distribution::moe_dispatcher, assumed);
        }
        if beside && part.overlap_expert_parallel.is_none() {
            notes.assume(keys::distribution::overlap_expert_parallel, true);
        }
        let once = part.moe_dispatcher.map_or(far && !plain, |dispatcher| dispatcher == MoeDispatcher::Hybridep);
        Self { beside: overlaps, once }
    }
}

/// Says where the GPU's curves come from, if not from measured kernels of its own.
fn note_source(curves: &Curves, hardware: &Hardware, notes: &mut Notes) {
    if let Some(from) = &curves.estimated_from {
        let name = &hardware.gpu.name;
        notes.assume(
            keys::hardware::gpu_type,
            format!("{name} has no measured kernels: its times are estimated from {from}"),
        );
    }
    if let Some(measured) = &curves.measured {
        let name = &hardware.gpu.name;
        let doubt = measured.doubt().map_or_else(String::new, |why| format!("; {why}"));
        let when = format!("{name}: kernels measured on this machine, {}, {}{doubt}", measured.date, measured.versions);
        notes.assume(keys::hardware::gpu_type, when);
    }
}

/// Looks the curves up and fills what the plan leaves open.
pub(super) fn resolve(
    plan: &Plan,
    catalog: &Catalog,
    hardware: &Hardware,
    degrees: &Degrees,
    profile: &Profile,
    notes: &mut Notes,
) -> Option<Speed> {
    let found = (
        catalog.curves(&hardware.gpu),
        catalog.stack(profile.name(), &hardware.gpu),
        catalog.link_curve(Scope::Node, &hardware.interconnect.name),
        catalog.link_curve(Scope::Network, &hardware.network.name),
    );
    let (Some(curves), Some(stack), Some(node), Some(network)) = found else {
        notes.fault("hardware", "the catalogue has no efficiency curves for this GPU, framework or link");
        return None;
    };
    note_source(curves, hardware, notes);
    note_estimated(curves, stack, hardware, notes);
    let (training, part) = (&plan.training, &plan.distribution);
    let usual = profile.defaults.fp8_recipe.is;
    let fp8_recipe = match training.precision {
        Some(Precision::Fp8Mixed) if training.mode != Some(Mode::Inference) => {
            notes.or(keys::training::fp8_recipe, training.fp8_recipe, usual)
        }
        _ => training.fp8_recipe.unwrap_or(usual),
    };
    // DeepSpeed hides no gradients below its third stage unless told (runtime/zero/config.py, `overlap_comm_valid`), and
    // gathers what was stepped at the end of the step (stage_1_and_2.py, `step`).
    let waits = degrees.engine == Engine::Deepspeed && degrees.sharding != Sharding::Zero3;
    let by_itself = profile.overlap.by_itself.is && !waits;
    if waits && profile.overlap.by_itself.is && part.overlap_grad_reduce.is_none() && degrees.num_gpus > 1 {
        notes.assume(keys::distribution::overlap_grad_reduce, "false (DeepSpeed's overlap_comm, below stage 3)");
    }
    let recipe = Recipe::of(plan, profile, degrees, notes);
    let sent = SentTokens::of(plan, (hardware, degrees), profile, notes);
    Some(Speed {
        curves: Arc::clone(curves),
        stack: Arc::clone(stack),
        node: Arc::clone(node),
        network: Arc::clone(network),
        fp8_recipe,
        cuda_graph: training.cuda_graph.unwrap_or(CudaGraph::None),
        overlap_gradients: part.overlap_grad_reduce.unwrap_or(by_itself || recipe.exchange),
        overlap_weights: part.overlap_param_gather.unwrap_or(by_itself || recipe.exchange),
        overlap_tensor: said_of_tensor(plan, degrees).unwrap_or(recipe.tensor),
        userbuffers: said_of_tensor(plan, degrees).unwrap_or(false),
        overlap_experts: sent.beside,
        sent_once: sent.once,
    })
}
