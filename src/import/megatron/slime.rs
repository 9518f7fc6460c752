//! slime: Megatron-LM's arguments behind a launcher of its own, with rollouts beside the training (`THUDM/slime`,
//! `slime/backends/megatron_utils/arguments.py`, `_set_default_megatron_args` and `megatron_parse_args`).

use serde_json::Value;

use super::super::imported::ImportedPlan;
use super::super::launch::World;
use super::super::origin::{Origin, Setting};
use super::super::rollout;
use super::super::rows::not_modelled;
use super::super::settings::Settings;
use crate::plan::keys;

const NODES: &str = "actor_num_nodes";
const PER_NODE: &str = "actor_num_gpus_per_node";

/// Options of slime's own, which are read here or bear on what generates alone.
const OWN: [&str; 20] = [
    "use_dynamic_batch_size",
    "max_tokens_per_gpu",
    "log_probs_max_tokens_per_gpu",
    "over_sampling_batch_size",
    "rollout_batch_size",
    "rollout_max_prompt_len",
    "rollout_max_response_len",
    "rollout_max_context_len",
    "opd_teacher_load",
    "ref_load",
    "colocate",
    "sglang_mem_fraction_static",
    "sglang_enable_dp_attention",
    "sglang_enable_dp_lm_head",
    // One of the two reasons for a reference (`slime/ray/placement_group.py`, `with_ref`), which is said to be there.
    "use_kl_loss",
    // A teacher's log-probabilities come from a server, or from weights that lie on the host as the reference's do
    // (`slime/ray/placement_group.py`, `with_opd_teacher`).
    "use_opd",
    "opd_type",
    "opd_kl_coef",
    "opd_teacher_load",
    "opd_teacher_ckpt_step",
];

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
    OWN.iter().for_each(|name| settings.accept(name));
    settings
}

/// The actor's GPUs and batch, which no launcher tells, and what stands beside it.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    let world = World { total: None, nodes: settings.whole(NODES), per_node: settings.whole(PER_NODE) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "--actor-num-nodes or --actor-num-gpus-per-node is not given");
    if settings.get("global_batch_size").is_none() {
        steps(imported, settings);
    }
    passes(imported, settings);
    if settings.get("seq_length").is_none() {
        imported.miss(keys::model::sequence_length, "the rollout decides how long the answers are");
    }
    beside(imported, settings);
}

/// Samples are packed: a pass holds up to so many tokens of each GPU, whose context-parallel ranks share it
/// (`slime/utils/dp_schedule.py`, `max_per_bin`). A sample is a prompt with its answer where both have a bound; else
/// no sample is longer than a pass, and how many passes a step takes the answers decide.
fn passes(imported: &mut ImportedPlan, settings: &Settings) {
    if !settings.is_set("use_dynamic_batch_size") {
        return;
    }
    imported.drop(keys::training::micro_batch_size);
    imported.drop(keys::training::gradient_accumulation_steps);
    let Some(tokens) = settings.whole("max_tokens_per_gpu") else {
        let why = "--use-dynamic-batch-size: as many samples a pass as --max-tokens-per-gpu holds";
        return imported.miss(keys::training::micro_batch_size, why);
    };
    let lengths = settings.whole("rollout_max_prompt_len").zip(settings.whole("rollout_max_response_len"));
    if let Some((prompt, answer)) = lengths {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
        return rollout::packed(imported, Some(tokens));
    }
    for name in ["rollout_max_prompt_len", "rollout_max_response_len"] {
        if settings.get(name).is_some() && settings.whole(name).is_none() {
            imported.note(format!("not understood: --{}, which only the run knows", name.replace('_', "-")));
        }
    }
    let context = imported.whole(keys::distribution::context_parallel).unwrap_or(1).max(1);
    let origin = Origin::Derived(format!("{} x {context}: a pass of packed samples as one", tokens.origin));
    imported.say(keys::model::sequence_length, tokens.value.saturating_mul(context), origin.clone());
    imported.say(keys::training::micro_batch_size, 1, origin);
    let samples = imported.get(keys::model::batch_size).map(|found| found.value.to_string()).unwrap_or_default();
    imported.drop(keys::model::batch_size);
    imported.miss(
        keys::training::gradient_accumulation_steps,
        format!("a step's {samples} samples are as many passes as their answers fill"),
    );
}

/// A colocated engine has the GPUs while the policy's weights and states lie on the host (`slime/utils/arguments.py`,
/// `offload_train` and `offload_rollout`); the weights of a reference or a teacher are backed up there and take the
/// policy's place for a pass (`slime/backends/megatron_utils/actor.py`, `TensorBackuper`).
fn beside(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.text("advantage_estimator").is_some_and(|found| found.value == "ppo") {
        not_modelled(imported, "the critic, which has the GPUs in turn with the actor");
    }
    imported.note("the reference's weights lie on the host and take the policy's place for a pass: not in the time");
    if !settings.is_set("colocate") {
        return imported.note("the engine of the rollout has GPUs of its own");
    }
    let share = settings.number("sglang_mem_fraction_static");
    let why = Origin::Derived("--colocate: the policy is on the host while answers are generated".to_owned());
    rollout::engine(imported, share, Setting::new("nothing", why));
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
