//! verl's supervised trainers (`verl/trainer/fsdp_sft_trainer.py`, `sft_trainer.py`).

use super::{attention, low_rank, optimizer, shared};
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::plan::keys;
use crate::rows::{SettingKind, SettingRow, take};
use crate::settings::Settings;
use crate::unread::account_for;
use crate::{model, vision};

const SFT_ROWS: &[SettingRow] = &[
    (&["data.train_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["data.max_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["optim.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["optim.clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["model.fsdp_config.offload_params"], keys::training::cpu_offload, SettingKind::On("parameters")),
    (&["ulysses_sequence_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
];

/// What such a trainer does.
pub fn set(imported: &mut ImportedPlan, settings: Settings, context: &ImportContext) {
    let settings = &settings;
    match settings.first_text(&["model.partial_pretrain", "model.path"]) {
        Some(found) => {
            model::set(imported, context, found);
            // `fsdp_sft_trainer.py` makes the class for text.
            vision::of_causal_class(imported);
        }
        None => imported.miss(keys::model::preset, "no model.partial_pretrain"),
    }
    take(imported, settings, SFT_ROWS);
    if settings.is_set("data.micro_batch_size_per_gpu") || !settings.holds("data.micro_batch_size") {
        imported.set(keys::training::micro_batch_size, settings.whole("data.micro_batch_size_per_gpu"));
    } else {
        old_micro_batch(imported, settings, context);
    }
    let recompute = settings.flag("model.enable_gradient_checkpointing");
    low_rank(imported, settings, "model");
    shared(imported, recompute, settings.text("model.fsdp_config.model_dtype"), settings.text("model.strategy"));
    attention(imported, settings, "model");
    optimizer(imported, settings, "optim");
    // torchrun starts its processes; what else the section of the trainer says of GPUs nobody reads there.
    let unread = ["trainer.nnodes", "trainer.n_gpus_per_node"];
    for name in ["model.strategy", "model.fsdp_config.model_dtype", "use_remove_padding"].into_iter().chain(unread) {
        settings.accept(name);
    }
    // What a fork asks its rewards of evaluates, and trains nothing here.
    settings.iter().filter(|(name, _)| name.starts_with("reward_model.")).for_each(|(name, _)| settings.accept(name));
    if let Some(found) = settings.on("model.fsdp_config.cpu_offload") {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "parameters")));
    }
    account_for(imported, settings);
}

/// The old name meant the samples of all ranks in one version and of a rank in another: the trainer beside the file says
/// which.
fn old_micro_batch(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const TRAINER: &str = "verl/trainer/fsdp_sft_trainer.py";
    const NEW: &str = "data.micro_batch_size_per_gpu";
    let key = keys::training::micro_batch_size;
    let told = settings.whole("data.micro_batch_size");
    match context.run.files.read(TRAINER).ok().filter(|text| text.contains("data.micro_batch_size")) {
        None => imported.miss(key, "data.micro_batch_size means another number in each version"),
        Some(text) if !text.replace(NEW, "").contains("data.micro_batch_size") => {
            imported.set(key, settings.whole(NEW));
        }
        Some(text) if !text.contains("data.micro_batch_size //= ") => imported.set(key, told),
        Some(_) => {
            let ranks = context.world.total.as_ref().map(|found| found.value).filter(|ranks| *ranks > 0);
            let share = told.zip(ranks).map(|(found, ranks)| found.map(|all| all / ranks));
            imported.set(key, share.filter(|found| found.value > 0));
            imported.miss(key, format!("data.micro_batch_size is of all ranks ({TRAINER}), whose number is unknown"));
        }
    }
}
