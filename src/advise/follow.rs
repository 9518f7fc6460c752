//! What follows when keys change: keys of the plan that said the same in other words, or that were only right
//! together with the old value, are left to be derived.

use crate::catalog::Catalog;
use crate::plan::Plan;
use crate::plan::keywords::Strategy;

/// Leaves the link to the GPU that `plan` names now, where that GPU does not have the one that the plan says: the link
/// that it takes instead. None where the plan's stays.
pub fn link_gives_way(plan: &mut Plan, catalog: &Catalog) -> Option<String> {
    let gpu = catalog.gpu(plan.hardware.gpu_type.as_deref()?)?;
    let link = catalog.link(plan.cluster.interconnect.as_deref()?)?;
    if catalog.has_link(gpu, link) {
        return None;
    }
    plan.cluster.interconnect = None;
    Some(gpu.link.clone())
}

const DEGREES: [&str; 3] =
    ["distribution.tensor_parallel", "distribution.pipeline_parallel", "distribution.context_parallel"];

/// Keys of `plan` that give way to those in `varied`, because both cannot stand.
pub fn give_way(plan: &Plan, varied: &[&str]) -> Vec<&'static str> {
    let is = |key: &str| varied.contains(&key);
    let mut gone: Vec<&'static str> = Vec::new();
    model(&is, &mut gone);
    degrees(plan, &is, &mut gone);
    batch(plan, &is, !gone.is_empty(), &mut gone);
    if is("hardware.gpu_type") {
        gone.push("hardware.custom");
    }
    if is("distribution.virtual_pipeline") {
        gone.push("distribution.pipeline_schedule");
    }
    gone.retain(|key| !is(key));
    gone.sort_unstable();
    gone.dedup();
    gone
}

/// The architecture comes from the first key that has one: those before the varied one would win.
fn model(is: &impl Fn(&str) -> bool, gone: &mut Vec<&'static str>) {
    const ORDER: [&str; 4] = ["model.hf_config", "model.preset", "model.architecture", "model.size_billions"];
    if let Some(at) = ORDER.iter().position(|key| is(key)) {
        gone.extend(&ORDER[..at]);
    }
}

fn degrees(plan: &Plan, is: &impl Fn(&str) -> bool, gone: &mut Vec<&'static str>) {
    if is("distribution.strategy") {
        gone.extend(DEGREES);
        gone.extend(["distribution.data_parallel", "distribution.sharding", "training.distributed_optimizer"]);
    }
    if is("distribution.sharding") {
        gone.push("training.distributed_optimizer");
        let shards = matches!(
            plan.distribution.strategy,
            Some(Strategy::Fsdp | Strategy::Zero1 | Strategy::Zero2 | Strategy::Zero3)
        );
        gone.extend(shards.then_some("distribution.strategy"));
    }
    if is("cluster.nodes") || is("cluster.gpus_per_node") {
        gone.extend(["cluster.num_gpus", "distribution.data_parallel"]);
    }
    if is("cluster.num_gpus") {
        gone.extend(["cluster.nodes", "distribution.data_parallel"]);
    }
    if is("distribution.data_parallel") {
        // More replicas are more GPUs, unless it is said how many there are.
        gone.extend(["cluster.num_gpus", "cluster.nodes"]);
    } else if DEGREES.iter().any(|key| is(key)) {
        gone.push("distribution.data_parallel");
    }
}

/// `batch_size` = `micro_batch_size` x `gradient_accumulation_steps` x `data_parallel`: the accumulation follows
/// where it can.
fn batch(plan: &Plan, is: &impl Fn(&str) -> bool, other_ranks: bool, gone: &mut Vec<&'static str>) {
    let (micro, steps) = ("training.micro_batch_size", "training.gradient_accumulation_steps");
    let said = plan.model.batch_size.is_some() || is("model.batch_size");
    if !said {
        return;
    }
    let by_micro = plan.training.micro_batch_size.is_some() || is(micro);
    if is(steps) {
        gone.push(micro);
    } else if by_micro && (is("model.batch_size") || is(micro) || other_ranks) {
        gone.push(steps);
    }
}
