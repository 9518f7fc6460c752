//! Fine-tuning of `SkyRL`: `-m skyrl.train.main_sft strategy=… model.path=…`. Its settings become those of the policy
//! (`skyrl/train/config/sft_config.py`, `SFTConfig` and `build_skyrl_config_for_sft`, of 2026).

use super::{DEFAULTS, VERSION, policy};
use crate::arguments;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::plan::keys;
use crate::rollout;
use crate::rows::not_modelled;
use crate::settings::{DefaultValue, Settings};
use crate::unread::account_for;

/// `SFTConfig`, `SFTPlacementConfig`.
const OWN: &[(&str, DefaultValue)] = &[
    ("strategy", DefaultValue::Text("megatron")),
    ("model.path", DefaultValue::Text("Qwen/Qwen3-0.6B")),
    ("placement.num_gpus_per_node", DefaultValue::Whole(4)),
    ("megatron_config.tensor_model_parallel_size", DefaultValue::Whole(2)),
    ("megatron_config.pipeline_model_parallel_size", DefaultValue::Whole(2)),
    ("batch_size", DefaultValue::Whole(4)),
    ("micro_train_batch_size_per_gpu", DefaultValue::Whole(2)),
];

/// Data, their order and what is done between the steps.
const OTHERS: [&str; 22] = [
    "train_datasets",
    "train_dataset_splits",
    "train_dataset_weights",
    "dataset_name",
    "dataset_split",
    "pretokenized_dataset_paths",
    "messages_key",
    "tools_key",
    "system_key",
    "train_on_what",
    "num_steps",
    "num_epochs",
    "num_workers",
    "async_batch_collation",
    "force_recache",
    "disable_cache",
    "cache_dir",
    "sampler",
    "dummy_run_full_ctx",
    "dummy_run_max_steps",
    "remove_microbatch_padding",
    "max_training_steps",
];

/// Whether the program is SkyRL's fine-tuning.
pub fn runs(context: &ImportContext) -> bool {
    context.program.path.ends_with("skyrl.train.main_sft") || context.program.path.ends_with("skyrl/train/main_sft.py")
}

/// The name that a setting has where a policy is trained.
fn of_policy(name: &str) -> Option<String> {
    const SECTIONS: [&str; 6] = [
        "model.",
        "optimizer_config.",
        "megatron_config.",
        "fsdp_config.",
        "model_config_kwargs.",
        "sequence_parallel_size",
    ];
    if SECTIONS.iter().any(|section| name.starts_with(section)) {
        return Some(format!("trainer.policy.{name}"));
    }
    if let Some(place) = name.strip_prefix("placement.") {
        return Some(format!("trainer.placement.policy_{place}"));
    }
    matches!(name, "strategy" | "micro_train_batch_size_per_gpu").then(|| format!("trainer.{name}"))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("SkyRL");
    let given = Settings::defaults(VERSION, OWN).with(arguments::overrides(&context.program.words));
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    settings.adopt_all(&given, |name| Some(of_policy(name).unwrap_or_else(|| name.to_owned())));
    policy(&mut imported, &settings, context);
    imported.set(keys::model::batch_size, settings.whole("batch_size"));
    imported.set(keys::model::sequence_length, settings.whole("max_length"));
    imported.miss(keys::model::sequence_length, "max_length is not set: the data decides");
    if settings.is("use_sequence_packing") {
        imported.drop(keys::training::micro_batch_size);
        rollout::packed(&mut imported, settings.first_whole(&["max_tokens_per_microbatch", "max_length"]));
    }
    settings.accept("max_tokens_per_microbatch");
    if settings.is("trainer.policy.model.fake_int4_qat.enabled") {
        not_modelled(&mut imported, "model.fake_int4_qat");
    }
    let beside = ["trainer.algorithm.", "trainer.ref.", "generator.", "eval_", "sampler_kwargs", "dataloader_"];
    // What a run would hold with an engine beside it, or by another strategy, which is not there.
    let unused = ["trainer.placement.colocate", "trainer.max_prompt_length", "trainer.policy_mini_batch_size"];
    for (name, _) in settings.iter() {
        let is_other = OTHERS.contains(&name) || super::OTHERS.contains(&name) || super::is_detail(name);
        if is_other || beside.iter().chain(&unused).any(|part| name.starts_with(part)) {
            settings.accept(name);
        }
    }
    imported.set(keys::training::compile, settings.on("use_torch_compile"));
    account_for(&mut imported, &settings);
    imported
}
