//! Kinds of training beside plain fine-tuning, by the script's name or the keys that only they have: what they hold
//! beside the model is said.

use super::super::imported::ImportedPlan;
use super::super::rows::not_modelled;
use super::super::settings::Settings;

/// Parts of a script's name, and what such a training holds or runs beside the model.
const KINDS: &[(&[&str], &str)] = &[
    (&["dpo"], "DPO: the reference model, and chosen and rejected run together"),
    (&["kto", "bco"], "KTO: the reference model beside"),
    (&["orpo", "simpo", "cpo"], "chosen and rejected run together"),
    (&["grpo", "rloo", "reinforce"], "reinforcement: the reference model, and what generates"),
    (&["ppo"], "PPO: the reference, critic and reward models, and what generates"),
    (&["reward", "train_rm", "run_rm"], "reward model: chosen and rejected run together, a head of one value"),
    (&["distill", "gkd"], "distillation: the teacher beside"),
];

/// Says what a script of that name trains otherwise.
pub fn note(imported: &mut ImportedPlan, name: &str) {
    let lower = name.to_lowercase();
    if let Some((_, what)) = KINDS.iter().find(|(parts, _)| parts.iter().any(|part| lower.contains(part))) {
        not_modelled(imported, what);
    }
}

/// As [`note`], of a file of arguments alone: preference tuning has a `beta` and a length for prompts.
pub fn note_of_settings(imported: &mut ImportedPlan, settings: &Settings) {
    let beta = settings.holds("beta") || settings.holds("dpo_beta");
    if settings.holds("num_generations") || settings.holds("max_completion_length") {
        not_modelled(imported, "reinforcement: the reference model, and what generates");
    } else if beta && ["max_prompt_length", "loss_type", "dpo_loss_type"].iter().any(|name| settings.holds(name)) {
        not_modelled(imported, "DPO: the reference model, and chosen and rejected run together");
    }
}
