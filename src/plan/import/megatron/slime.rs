//! slime: Megatron-LM's arguments behind a launcher of its own, with rollouts beside the training (`THUDM/slime`,
//! `slime/backends/megatron_utils/arguments.py`, `_set_default_megatron_args` and `megatron_parse_args`).

use serde_json::Value;

use super::super::imported::ImportedPlan;
use super::super::launch::World;
use super::super::origin::Origin;
use super::super::rows::not_modelled;
use super::super::settings::Settings;
use crate::plan::keys;

const NODES: &str = "actor_num_nodes";
const PER_NODE: &str = "actor_num_gpus_per_node";

/// Whether the arguments are slime's.
pub fn is_meant(settings: &Settings) -> bool {
    settings.is_set(NODES) || settings.is_set(PER_NODE)
}

/// What slime sets over Megatron's own defaults.
pub fn with_defaults(mut settings: Settings) -> Settings {
    let mut own = |name: &str, why: &str| {
        let option = format!("{name} ({why})");
        settings.set(name, Value::Bool(true), Origin::Default { framework: "slime", option });
    };
    own("use_distributed_optimizer", "always");
    if !settings.is("fp16") {
        let option = "bf16 (without --fp16)".to_owned();
        settings.set("bf16", Value::Bool(true), Origin::Default { framework: "slime", option });
    }
    settings
}

/// The actor's GPUs and batch, which no launcher tells, and what stands beside it.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    let world = World { total: None, nodes: settings.whole(NODES), per_node: settings.whole(PER_NODE) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "--actor-num-nodes or --actor-num-gpus-per-node is not given");
    if settings.is("use_dynamic_batch_size") {
        imported.drop(keys::training::micro_batch_size);
        let why = "--use-dynamic-batch-size: as many samples a pass as --max-tokens-per-gpu holds";
        imported.miss(keys::training::micro_batch_size, why);
    }
    if settings.get("global_batch_size").is_none() {
        steps(imported, settings);
    }
    if settings.get("seq_length").is_none() {
        imported.miss(keys::model::sequence_length, "the rollout decides how long the answers are");
    }
    not_modelled(imported, "the engine of the rollout and the reference's weights; the plan is the actor's");
}

/// Samples a step: those of a rollout in `--num-steps-per-rollout` parts.
fn steps(imported: &mut ImportedPlan, settings: &Settings) {
    let (Some(prompts), Some(answers), Some(parts)) = (
        settings.whole("rollout_batch_size"),
        settings.whole("n_samples_per_prompt"),
        settings.whole("num_steps_per_rollout"),
    ) else {
        return;
    };
    let all = prompts.value.saturating_mul(answers.value);
    if let Some(batch) = all.checked_div(parts.value).filter(|batch| *batch > 0) {
        let origin = format!("{} x {} answers / {} steps", prompts.origin, answers.value, parts.value);
        imported.say(keys::model::batch_size, batch, Origin::Derived(origin));
    }
}
