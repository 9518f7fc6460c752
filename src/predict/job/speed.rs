//! What decides how fast a job runs and not how much memory it takes: curves, overlap, graphs.

use super::Notes;
use crate::catalog::{Catalog, Curves, Gpu, LinkCurve, Scope, Stack};
use crate::plan::Plan;
use crate::plan::keywords::{CudaGraph, Fp8Recipe, Framework};

/// What kernels and collectives reach, and what runs beside what.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Kernels of the card's generation.
    pub curves: Curves,
    /// How the framework drives the card.
    pub stack: Stack,
    /// Collectives within a node.
    pub node: LinkCurve,
    /// Collectives between nodes.
    pub network: LinkCurve,
    /// How FP8 scales are kept.
    pub fp8_recipe: Fp8Recipe,
    /// What is captured as a graph, so that the host launches it once.
    pub cuda_graph: CudaGraph,
    /// Gradients are reduced while the backward pass runs.
    pub overlap_gradients: bool,
    /// Weights are gathered while the forward pass runs.
    pub overlap_weights: bool,
    /// Tensor-parallel collectives run in pieces beside the products that they feed.
    pub overlap_tensor: bool,
    /// All-to-alls of experts run beside other micro-batches.
    pub overlap_experts: bool,
}

/// Looks the curves up and fills what the plan leaves open.
pub(super) fn resolve(
    plan: &Plan,
    catalog: &Catalog,
    gpu: &Gpu,
    framework: Framework,
    notes: &mut Notes,
) -> Option<Speed> {
    let found = (
        catalog.curves(gpu.generation),
        catalog.stack(framework.name()),
        catalog.link_curve(Scope::Node),
        catalog.link_curve(Scope::Network),
    );
    let (Some(curves), Some(stack), Some(node), Some(network)) = found else {
        notes.fault("hardware", "the catalogue has no efficiency curves for this card, framework or link");
        return None;
    };
    let (training, part) = (&plan.training, &plan.distribution);
    // PyTorch's DDP and FSDP overlap by themselves; Megatron's two flags are off by default
    // (megatron/training/arguments.py, --overlap-grad-reduce and --overlap-param-gather).
    let by_itself = framework != Framework::Megatron;
    Some(Speed {
        curves: curves.clone(),
        stack: stack.clone(),
        node: node.clone(),
        network: network.clone(),
        fp8_recipe: training.fp8_recipe.unwrap_or(Fp8Recipe::Delayed),
        cuda_graph: training.cuda_graph.unwrap_or(CudaGraph::None),
        overlap_gradients: part.overlap_grad_reduce.unwrap_or(by_itself),
        overlap_weights: part.overlap_param_gather.unwrap_or(by_itself),
        overlap_tensor: part.overlap_tensor_parallel.or(part.async_tensor_parallel).unwrap_or(false),
        overlap_experts: part.overlap_expert_parallel.unwrap_or(false),
    })
}
