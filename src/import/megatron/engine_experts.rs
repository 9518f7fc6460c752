//! Experts of Megatron-DeepSpeed, whose layers are DeepSpeed's own (`megatron/model/transformer.py`, `ParallelMLP` and
//! `get_num_experts_per_layer`; `deepspeed/moe/layer.py`, `MoE`).

use super::Job;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rows::not_modelled;

/// Whether a job has DeepSpeed's layers of experts.
pub fn are_meant(job: &Job) -> bool {
    ["deepspeed", "deepspeed_config", "moe_expert_parallel_size"].iter().any(|name| job.settings.is_set(name))
}

/// The experts, one number for all layers or one for each; none of a dense model.
pub fn count(imported: &mut ImportedPlan, job: &Job) -> Option<Setting<u64>> {
    let listed = job.settings.texts("num_experts")?;
    let numbers: Vec<u64> = listed.value.iter().filter_map(|word| word.parse().ok()).collect();
    let most = numbers.iter().copied().max().filter(|most| *most > 1)?;
    if numbers.iter().any(|number| *number != most) {
        not_modelled(
            imported,
            &format!("{}: another number of experts in each layer; the most are counted", listed.origin),
        );
    }
    Some(Setting::new(most, listed.origin))
}

/// Sets what these layers have by other names, or another default, than Megatron's.
pub fn shape(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    let or =
        |name: &str, usual: u64, said: &str| settings.whole(name).unwrap_or_else(|| Setting::new(usual, default(said)));
    imported.set(keys::moe::experts_per_token, Some(or("topk", 1, "--topk 1")));
    imported.set(keys::moe::layer_frequency, Some(or("expert_interval", 2, "--expert-interval 2")));
    // The residual MLP runs beside each layer of experts (`deepspeed/moe/layer.py`, `use_residual`).
    let residual = settings.text("mlp_type").filter(|found| found.value == "residual");
    let width = imported.whole(keys::moe::intermediate_size);
    imported
        .set(keys::moe::shared_intermediate_size, residual.and_then(|found| width.map(|width| found.map(|_| width))));
    if settings.text("mlp_type").is_some_and(|found| found.value == "standard") {
        settings.accept("mlp_type");
    }
}

/// Sets who holds the experts, and how many tokens each of them takes.
pub fn train(imported: &mut ImportedPlan, job: &Job) {
    let settings = job.settings;
    if imported.get(keys::moe::num_experts).is_none() {
        const OF_EXPERTS: [&str; 4] =
            ["moe_expert_parallel_size", "moe_min_capacity", "moe_train_capacity_factor", "moe_eval_capacity_factor"];
        return OF_EXPERTS.iter().for_each(|name| settings.accept(name));
    }
    imported.set(keys::distribution::expert_parallel, settings.whole("moe_expert_parallel_size"));
    imported.say(keys::distribution::moe_dispatcher, "alltoall", default("deepspeed/moe/sharded_moe.py, _AllToAll"));
    if !settings.is("enable_expert_tensor_parallelism") {
        imported.say(keys::distribution::expert_tensor_parallel, 1, default("no --enable-expert-tensor-parallelism"));
    }
    if settings.is("disable_moe_token_dropping") {
        return;
    }
    let room = settings.number("moe_train_capacity_factor");
    imported.set(
        keys::training::moe_capacity_factor,
        Some(room.unwrap_or_else(|| Setting::new(1.0, default("--moe-train-capacity-factor 1.0")))),
    );
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: "Megatron-DeepSpeed", option: option.to_owned() }
}
