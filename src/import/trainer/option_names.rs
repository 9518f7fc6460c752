//! Options that a command names by their beginnings: argparse, and so `HfArgumentParser`, takes the only option that
//! begins with a word for it (`argparse.ArgumentParser`, `allow_abbrev`).

use serde_json::Value;

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::own_loop;
use super::super::script_defaults::{option_names, script_of};
use super::super::script_modules::project_text;
use super::super::settings::Settings;

/// The names of `TrainingArguments` in transformers 4.57 and 5.24 (`training_args.py`), with one that older versions had: one
/// that lacked here would be taken for the beginning of another.
const TRAINING_ARGUMENTS: &str = "\
    output_dir overwrite_output_dir do_train do_eval do_predict eval_strategy evaluation_strategy \
    prediction_loss_only per_device_train_batch_size per_device_eval_batch_size per_gpu_train_batch_size \
    per_gpu_eval_batch_size gradient_accumulation_steps eval_accumulation_steps eval_delay learning_rate \
    weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm num_train_epochs max_steps lr_scheduler_type \
    lr_scheduler_kwargs warmup_ratio warmup_steps log_level log_level_replica log_on_each_node logging_dir \
    logging_strategy logging_first_step logging_steps logging_nan_inf_filter save_strategy save_steps \
    save_total_limit save_safetensors save_on_each_node save_only_model seed data_seed bf16 fp16 fp16_opt_level \
    half_precision_backend bf16_full_eval fp16_full_eval tf32 local_rank ddp_backend debug dataloader_drop_last \
    eval_steps dataloader_num_workers past_index run_name disable_tqdm remove_unused_columns label_names \
    load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip fsdp fsdp_min_num_params \
    fsdp_config fsdp_transformer_layer_cls_to_wrap accelerator_config deepspeed label_smoothing_factor optim \
    optim_args adafactor group_by_length length_column_name report_to ddp_find_unused_parameters \
    ddp_bucket_cap_mb ddp_broadcast_buffers ddp_timeout dataloader_pin_memory dataloader_persistent_workers \
    skip_memory_metrics push_to_hub resume_from_checkpoint hub_model_id hub_strategy hub_token hub_private_repo \
    gradient_checkpointing gradient_checkpointing_kwargs include_inputs_for_metrics fp16_backend \
    auto_find_batch_size full_determinism torchdynamo torch_compile torch_compile_backend torch_compile_mode \
    neftune_noise_alpha optim_target_modules use_liger_kernel torch_empty_cache_steps \
    restore_callback_states_from_checkpoint no_cuda use_cpu use_mps_device jit_mode_eval tpu_num_cores \
    tpu_metrics_debug dataloader_prefetch_factor parallelism_config project trackio_space_id \
    use_legacy_prediction_loop hub_always_push hub_revision include_for_metrics eval_do_concat_batches \
    push_to_hub_model_id push_to_hub_organization push_to_hub_token mp_parameters ray_scope \
    include_tokens_per_second include_num_input_tokens_seen batch_eval_metrics eval_on_start liger_kernel_config \
    eval_use_gather_object average_tokens_across_devices activation_checkpointing \
    activation_checkpointing_kwargs use_cache trackio_bucket_id trackio_static_space_id enable_jit_checkpoint \
    dataloader_multiprocessing_context dataloader_in_order train_sampling_strategy ddp_static_graph";

/// Short options that a script declares beside long ones: `add_argument("--type", "-t")`.
fn short_names(text: &str) -> Vec<(String, String)> {
    let calls = own_loop::calls(text, "add_argument");
    let names = |parts: &[String]| -> Vec<String> {
        parts.iter().map(|part| part.trim().trim_matches(['"', '\'']).to_owned()).collect()
    };
    let pair = |parts: &Vec<String>| {
        let names = names(parts);
        let long = names.iter().find_map(|name| name.strip_prefix("--"))?.replace('-', "_");
        let is_short = |name: &&str| name.len() == 1 && name.chars().all(|letter| letter.is_ascii_alphabetic());
        let short = names.iter().filter_map(|name| name.strip_prefix('-')).find(is_short)?;
        Some((short.to_owned(), long))
    };
    calls.iter().filter_map(pair).collect()
}

/// Whether a script leaves alone what its classes do not know, and a name is one of these: it stands nowhere in it. Classes
/// of other libraries than transformers have names that are not known here.
fn leaves_alone(text: &str, name: &str) -> bool {
    const LEFT_OVER: [&str; 2] = ["return_remaining_strings=True", "parse_known_args("];
    const OTHERS: [&str; 2] = ["from trl", "import trl"];
    let mentioned = text.contains(name) || text.contains(&name.replace('_', "-"));
    LEFT_OVER.iter().any(|word| text.contains(word)) && !OTHERS.iter().any(|word| text.contains(word)) && !mentioned
}

/// Whether the parser is given a class that stands in no text at hand: what that takes is not known.
fn parses_unread_classes(text: &str) -> bool {
    const OF_LIBRARY: [&str; 2] = ["TrainingArguments", "Seq2SeqTrainingArguments"];
    let named = own_loop::calls(text, "HfArgumentParser").into_iter().flatten();
    let mut words = named.flat_map(|part| {
        let words = part.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_owned);
        words.filter(|word| word.starts_with(char::is_uppercase)).collect::<Vec<_>>()
    });
    let is_at_hand = |word: &str| OF_LIBRARY.contains(&word) || text.contains(&format!("class {word}"));
    words.any(|word| !is_at_hand(&word))
}

/// Takes out options that the script's parser hands back unread.
pub fn left_alone(mut options: Settings, imported: &mut ImportedPlan, context: &ImportContext) -> Settings {
    let Some((path, text)) = script_of(context).filter(|(_, text)| text.contains("ArgumentParser(")) else {
        return options;
    };
    let text = project_text(context, &path, &text);
    if parses_unread_classes(&text) {
        return options;
    }
    let of_library = |name: &str| TRAINING_ARGUMENTS.split_whitespace().any(|known| known == name);
    let idle = |(name, _): &(&str, &Setting<Value>)| !of_library(name) && leaves_alone(&text, name);
    let left: Vec<String> = options.iter().filter(idle).map(|(name, _)| name.to_owned()).collect();
    for name in left {
        imported.note(format!("{path} takes no --{name} and passes it over: without effect"));
        options.set(&name, Value::Null, Origin::Program(String::new()));
    }
    options
}

/// The options of a command under the whole names that its script has for them.
pub fn completed(options: Settings, context: &ImportContext) -> Settings {
    let Some((path, text)) = script_of(context).filter(|(_, text)| text.contains("ArgumentParser(")) else {
        return options;
    };
    let text = project_text(context, &path, &text);
    let own = option_names(&text);
    let of_library = TRAINING_ARGUMENTS.split_whitespace().filter(|_| own_loop::parses(&text));
    let known: Vec<&str> = own.iter().map(String::as_str).chain(of_library).collect();
    let mut completed = options.clone();
    for (short, long) in short_names(&text) {
        if let Some(found) = options.get(&short).filter(|_| !options.holds(&long)) {
            completed.set(&long, found.value.clone(), found.origin.clone());
            completed.set(&short, Value::Null, found.origin.clone());
        }
    }
    for (name, found) in options.iter().filter(|(name, _)| !known.contains(name)) {
        let mut whole: Vec<&str> = known.iter().copied().filter(|known| known.starts_with(name)).collect();
        whole.sort_unstable();
        whole.dedup();
        if let [only] = whole.as_slice() {
            completed.set(only, found.value.clone(), found.origin.clone());
            completed.set(name, Value::Null, found.origin.clone());
        }
    }
    completed
}
