//! What verl puts on the actor's GPUs beside it: the engine of the rollout, reference and critic
//! (`verl/trainer/ppo/utils.py`, `verl/workers/fsdp_workers.py`, `verl/workers/megatron_workers.py` at b178a3cd).

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::model;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rollout;
use crate::rows::not_modelled;
use crate::settings::Settings;

use super::default;

/// Which of a role's states go to the host while others work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offloaded {
    Nothing,
    Some,
    All,
}

/// `param_offload` and `optimizer_offload` of a role's section.
fn offloaded(settings: &Settings, section: &str, megatron: bool) -> Offloaded {
    let engine = if megatron { "megatron" } else { "fsdp_config" };
    let on = |what: &str| settings.is(&format!("{section}.{engine}.{what}_offload"));
    match (on("param"), on("optimizer")) {
        (true, true) => Offloaded::All,
        (false, false) => Offloaded::Nothing,
        _ => Offloaded::Some,
    }
}

/// Sets what stands beside the actor.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, megatron: bool, context: &ImportContext) {
    if !megatron {
        own_optimizer(imported, context);
    }
    engine(imported, settings, megatron, context);
    reference(imported, settings, megatron);
    critic(imported, settings, megatron, context);
    if settings.is("reward_model.enable") {
        not_modelled(imported, "the reward model beside");
    }
}

/// The optimizer that a fork's own workers make, whatever the configuration says (`verl/workers/fsdp_workers.py`,
/// `_build_model_optimizer`: `optim.AdamW` up to 0.5).
fn own_optimizer(imported: &mut ImportedPlan, context: &ImportContext) {
    const SOURCE: &str = "verl/workers/fsdp_workers.py";
    let Ok(text) = context.run.files.read(SOURCE) else { return };
    let mut made = text.match_indices("actor_optimizer = optim.").filter(|(at, _)| {
        // Not a line that is commented out.
        text[..*at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
    });
    let (Some((at, start)), None) = (made.next(), made.next()) else { return };
    let call = &text[at + start.len()..];
    let (class, arguments) = call.split_once('(').unwrap_or((call, ""));
    let arguments = arguments.split_once("\n            )").map_or(arguments, |(inside, _)| inside);
    let word = match class {
        "AdamW" | "Adam" => return,
        "SGD" if arguments.contains("momentum") => "sgd-momentum",
        "SGD" => "sgd",
        _ => {
            imported.drop(keys::training::optimizer);
            return imported.miss(keys::training::optimizer, format!("{SOURCE} makes optim.{class}"));
        }
    };
    let option = format!("{SOURCE} makes optim.{class}");
    imported.say(keys::training::optimizer, word, Origin::Default { framework: "the project's own verl", option });
}

fn engine(imported: &mut ImportedPlan, settings: &Settings, megatron: bool, context: &ImportContext) {
    let program = context.program.shown();
    let apart = settings.holds("rollout.n_gpus_per_node")
        || ["one_step_off", "fully_async"].iter().any(|part| program.contains(part))
        || settings.holds("trainer.n_training_gpus_per_node");
    if apart {
        return imported.note("the engine of the rollout has GPUs of its own");
    }
    let section = "actor_rollout_ref.rollout";
    if settings.text(&format!("{section}.name")).is_some_and(|found| found.value == "hf") {
        return not_modelled(imported, "generation by the actor itself (rollout.name hf)");
    }
    let share = settings.number(&format!("{section}.gpu_memory_utilization"));
    let freed = settings.flag(&format!("{section}.free_cache_engine")).is_none_or(|found| found.value);
    let host = offloaded(settings, "actor_rollout_ref.actor", megatron);
    let (word, why) = match (freed, host) {
        (false, _) => ("step", "free_cache_engine false"),
        (true, Offloaded::All) => ("nothing", "free_cache_engine, param_offload, optimizer_offload"),
        (true, _) => ("states", "free_cache_engine"),
    };
    if freed && host == Offloaded::Some {
        imported.note("a part of the actor's states is on the host while answers are generated: all are counted there");
    }
    rollout::engine(imported, share, Setting::new(word, Origin::Derived(why.to_owned())));
}

/// There is one where the loss or the reward has its divergence (`need_reference_policy`); FSDP's lies on the host
/// (`CPUOffload(offload_params=True)` for every role but the actor), Megatron's on the GPU.
fn reference(imported: &mut ImportedPlan, settings: &Settings, megatron: bool) {
    let asked =
        ["algorithm.use_kl_in_reward", "actor_rollout_ref.actor.use_kl_loss"].iter().find_map(|name| settings.on(name));
    // Before there was that key, every run had one.
    let old = settings.is_set("algorithm.kl_ctrl.kl_coef") && !settings.holds("algorithm.use_kl_in_reward");
    let Some(why) = asked.map(|found| found.origin).or_else(|| old.then(|| default("algorithm.kl_ctrl"))) else {
        return;
    };
    if imported.get(keys::lora::rank).is_some() {
        return;
    }
    if megatron && !settings.is("actor_rollout_ref.ref.megatron.param_offload") {
        imported.say(keys::training::reference_model, true, why);
    } else {
        imported.note("the reference's weights lie on the host: its pass is not in the time");
    }
}

/// What verl's own files have in the critic's section, without the sections before it (`trainer/config/critic`).
const CRITICS: &str = include_str!("critic_names.txt");

/// Whether a setting is the critic's that verl knows, or that of one that is not there.
pub fn is_of_critic(imported: &ImportedPlan, name: &str) -> bool {
    let Some(inner) = name.strip_prefix("critic.") else { return false };
    let last = inner.rsplit('.').next().unwrap_or(inner);
    // What a profiler or a checkpoint has changes nothing.
    let idle = ["profiler.", "checkpoint.", "model.override_config"].iter().any(|part| inner.starts_with(part));
    idle || imported.get(keys::training::critic_model).is_none() || CRITICS.lines().any(|known| known == last)
}

/// Generalised advantage estimation has a critic (`need_critic`).
fn critic(imported: &mut ImportedPlan, settings: &Settings, megatron: bool, context: &ImportContext) {
    let estimator = settings.text("algorithm.adv_estimator").map_or_else(|| "gae".to_owned(), |found| found.value);
    let told = settings.flag("critic.enable").map(|found| found.value);
    if !told.unwrap_or(estimator == "gae") {
        return;
    }
    let section = if megatron { "critic" } else { "critic.model" };
    match offloaded(settings, section, megatron) {
        Offloaded::All => return imported.note("the critic's states are on the host while the actor trains"),
        Offloaded::Some => return not_modelled(imported, "the critic, of which a part goes to the host"),
        Offloaded::Nothing => {}
    }
    let Some(named) = settings.text("critic.model.path") else {
        return not_modelled(imported, "the critic: no critic.model.path");
    };
    let actor = settings.text("actor_rollout_ref.model.path").map(|found| found.value).unwrap_or_default();
    let same = named.value == actor || {
        let preset = model::preset(context, &named.value);
        preset.is_some() && preset == model::preset(context, &actor)
    };
    let dynamic = settings.is("actor_rollout_ref.actor.use_dynamic_bsz");
    let name = if dynamic { "ppo_max_token_len_per_gpu" } else { "ppo_micro_batch_size_per_gpu" };
    let micro = |role: &str| settings.whole(&format!("{role}.{name}")).map(|found| found.value);
    // `trainer/config/critic/critic.yaml`
    let critics = micro("critic").or(dynamic.then_some(32_768));
    let keeps = settings.flag("critic.model.enable_gradient_checkpointing").is_some_and(|found| !found.value);
    if keeps || critics > micro("actor_rollout_ref.actor") {
        not_modelled(imported, "the critic's own passes, which keep more than the actor's");
    }
    if same {
        imported.say(keys::training::critic_model, true, named.origin);
    } else {
        not_modelled(imported, &format!("the critic {}: another model than the actor", named.value));
    }
}
