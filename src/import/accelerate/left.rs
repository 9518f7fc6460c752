//! What a file of accelerate's says that nobody understood.

use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::settings::{Settings, is_open};
use crate::unread::account_for;

/// Says what of accelerate's own file nobody understood. Its launcher's options have been accounted for.
pub fn account_for_file(imported: &mut ImportedPlan, settings: &Settings) {
    let mut file = Settings::default();
    file.adopt_all(settings, |name| {
        let found = settings.get(name)?;
        let open = found.value.as_str().is_some_and(is_open);
        let written = matches!(found.origin, Origin::File { .. });
        (written && (open || !LAUNCHED.contains(&name))).then(|| name.to_owned())
    });
    account_for(imported, &file);
}

/// Where accelerate's file and the Trainer's argument say two accumulations the Trainer stops
/// (`HfTrainerDeepSpeedConfig.trainer_config_finalize`); in a loop of one's own the launcher's counts.
pub fn compare_accumulation(imported: &mut ImportedPlan, launched: &Settings, settings: &Settings) {
    let file = launched.whole("deepspeed_config.gradient_accumulation_steps");
    let own = settings.whole("gradient_accumulation_steps");
    let Some((file, own)) = file.zip(own).filter(|(file, own)| file.value != own.value) else { return };
    let why = format!("{} {} and {} {}: the Trainer stops at that", file.origin, file.value, own.origin, own.value);
    imported.drop(keys::training::gradient_accumulation_steps);
    imported.miss(keys::training::gradient_accumulation_steps, why);
}

/// What the launcher itself takes from its file: how many processes it starts, and where
/// (`accelerate/commands/config/config_args.py`).
const LAUNCHED: [&str; 27] = [
    "deepspeed_config.seq_parallel_communication_data_type",
    "parallelism_config.parallelism_config_sp_backend",
    "parallelism_config.parallelism_config_sp_attn_implementation",
    "parallelism_config.parallelism_config_sp_seq_length",
    "parallelism_config.parallelism_config_sp_seq_length_is_variable",
    "parallelism_config.parallelism_config_cp_comm_strategy",
    "compute_environment",
    "num_processes",
    "num_machines",
    "machine_rank",
    "gpu_ids",
    "same_network",
    "rdzv_backend",
    "enable_cpu_affinity",
    "main_training_function",
    "main_process_ip",
    "main_process_port",
    "mixed_precision",
    "distributed_type",
    "debug",
    "downcast_bf16",
    "tpu_env",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "gradient_accumulation_steps",
    "deepspeed_config.deepspeed_config_file",
    "deepspeed_config.deepspeed_multinode_launcher",
];
