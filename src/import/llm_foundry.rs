//! llm-foundry's YAML and `key=value` over it (`scripts/train` at 8c8dd48f).

use serde_json::Value;

use super::accelerate;
use super::adapters;
use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::LauncherKind;
use super::model;
use super::origin::{Origin, Setting};
use super::settings::Settings;
use super::text;
use super::trainer;
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "llm-foundry 0.22";

/// Whether settings are llm-foundry's.
pub fn is_config(settings: &Settings) -> bool {
    let batches = settings.holds("global_train_batch_size") || settings.holds("device_train_microbatch_size");
    // OLMo has the batches by the same names; the loader and the model's builder are llm-foundry's alone.
    // Composer's other examples have their batches by these names too.
    let own = settings.text("model.name").is_none_or(|found| {
        ["mpt", "hf_", "fc_", "openai", "finetune"].iter().any(|start| found.value.starts_with(start))
    });
    batches && own && (settings.holds("train_loader") || settings.holds("model.name") || settings.holds("max_seq_len"))
}

/// Whether the program trains by such a file.
pub fn runs(context: &ImportContext) -> bool {
    let path = &context.program.path;
    let composer = context.launchers.iter().any(|launcher| launcher.kind == LauncherKind::Composer);
    path.starts_with("llmfoundry.command_utils.train")
        || (composer && path.ends_with("train/train.py"))
        || config(context).is_some_and(|path| {
            let text = context.run.files.read(&path).unwrap_or_default();
            text.contains("train_batch_size") && text::yaml(&path, &text).is_ok_and(|settings| is_config(&settings))
        })
}

fn config(context: &ImportContext) -> Option<String> {
    let mut words = context.program.words.iter().filter(|word| arguments::override_of(word).is_none());
    words.rfind(|word| word.ends_with(".yaml") || word.ends_with(".yml")).cloned()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("llm-foundry");
    let mut settings = Settings::default();
    if let Some(file) = config(context).and_then(|path| context.configuration(&path, &mut imported)) {
        settings.over(file);
    }
    settings.over(arguments::overrides(&context.program.words));
    imported.say(keys::model::framework, "llm-foundry", Origin::Program(context.program.shown()));
    set(&mut imported, settings, context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("llm-foundry");
    imported.say(keys::model::framework, "llm-foundry", Origin::Program("llm-foundry's own keys".to_owned()));
    set(&mut imported, file, context);
    imported
}

/// The plan of a job of MosaicML's `mcli`, whose `parameters` are a file's: on nodes of eight GPUs.
pub fn of_job(job: &Settings, context: &ImportContext) -> ImportedPlan {
    const PER_NODE: u64 = 8;
    let mut imported = of_file(job.below("parameters"), context);
    let gpus = job.first_whole(&["compute.gpus", "gpu_num", "gpus"]).filter(|found| found.value > 0);
    if let Some(found) = gpus.filter(|found| found.value < PER_NODE || found.value.is_multiple_of(PER_NODE)) {
        imported.set(keys::cluster::nodes, Some(found.clone().map(|gpus| gpus.div_ceil(PER_NODE))));
        imported.set(keys::cluster::gpus_per_node, Some(found.clone().map(|gpus| gpus.min(PER_NODE))));
        imported.set(keys::cluster::num_gpus, Some(found));
    }
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, mut settings: Settings, context: &ImportContext) {
    settings.interpolate();
    set_interpolated(imported, &settings, context);
    // MPT's own longest sequence; samples are as long as the file's `max_seq_len`.
    settings.accept("model.config_overrides.max_seq_len");
    for name in ["tokenizer.kwargs.model_max_length", "train_loader.dataset.max_seq_len"] {
        settings.accept(name);
    }
    account_for(imported, &settings);
}

fn set_interpolated(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    if let Some(found) = settings.first_text(&["model.pretrained_model_name_or_path"]) {
        model::set(imported, context, found);
        imported.say(
            keys::model::framework,
            "pytorch",
            Origin::Derived("a Hugging Face model under Composer".to_owned()),
        );
    } else {
        shape(imported, settings);
    }
    imported.set(
        keys::model::sequence_length,
        settings.first_whole(&[
            "max_seq_len",
            "variables.max_seq_len",
            "model.max_seq_len",
            "train_loader.dataset.max_seq_len",
        ]),
    );
    // Variables are put in where they are used.
    settings.iter().filter(|(name, _)| name.starts_with("variables.")).for_each(|(name, _)| settings.accept(name));
    imported.set(keys::model::batch_size, settings.whole("global_train_batch_size"));
    match settings
        .first_whole(&["device_train_microbatch_size", "device_train_grad_accum"])
        .filter(|found| found.value > 0)
    {
        Some(found) => imported.set(keys::training::micro_batch_size, Some(found)),
        None => {
            imported.miss(keys::training::micro_batch_size, "device_train_microbatch_size is auto: found while it runs")
        }
    }
    if settings.holds("model.peft_config") {
        adapters::set(imported, settings.whole("model.peft_config.r"), ("peft", 8), None);
        adapters::set_targets(imported, settings.texts("model.peft_config.target_modules"));
        let dropout = settings.number("model.peft_config.lora_dropout");
        imported.set(keys::lora::dropout, dropout.filter(|found| (0.0..1.0).contains(&found.value)));
    }
    precision(imported, settings);
    optimizer(imported, settings);
    attention(imported, settings, context);
    sharding(imported, settings);
    let clipped = settings.number("algorithms.gradient_clipping.clipping_threshold");
    imported.set(keys::training::gradient_clipping, clipped.map(|found| found.map(|norm| norm > 0.0)));
    imported.set(
        keys::training::compile,
        Some(settings.holds("compile_config")).filter(|on| *on).map(|on| Setting::new(on, default("compile_config"))),
    );
}

/// An MPT model: `llmfoundry/models/mpt/configuration_mpt.py`.
fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    for (name, key, usual) in [
        ("d_model", keys::architecture::hidden_size, 2048),
        ("n_layers", keys::architecture::num_layers, 24),
        ("n_heads", keys::architecture::num_attention_heads, 16),
        ("vocab_size", keys::architecture::vocab_size, 50_368),
        ("max_seq_len", keys::architecture::max_position_embeddings, 2048),
    ] {
        let stood_in = || Setting::new(usual, default(&format!("model.{name} {usual}")));
        imported.set(key, Some(settings.whole(&format!("model.{name}")).unwrap_or_else(stood_in)));
    }
    imported.set(keys::architecture::num_kv_heads, settings.whole("model.attn_config.kv_n_heads"));
    if settings.text("model.attn_config.attn_type").is_some_and(|found| found.value == "multiquery_attention") {
        imported.say(keys::architecture::num_kv_heads, 1, Origin::Derived("multiquery_attention".to_owned()));
    }
    let hidden = imported.whole(keys::architecture::hidden_size).unwrap_or(2048);
    let wide = settings.whole("model.ffn_config.ffn_hidden_size").or_else(|| {
        let ratio = settings.whole("model.expansion_ratio");
        let ratio = ratio.unwrap_or_else(|| Setting::new(4, default("model.expansion_ratio 4")));
        ratio.and_then(|ratio| ratio.checked_mul(hidden))
    });
    imported.set(keys::architecture::intermediate_size, wide);
    let alibi = settings.on("model.attn_config.alibi").map(|found| found.map(|_| "alibi"));
    let rope = settings.on("model.attn_config.rope").map(|found| found.map(|_| "rope"));
    let learned =
        settings.flag("model.learned_pos_emb").filter(|found| !found.value).map(|found| found.map(|_| "none"));
    let position =
        alibi.or(rope).or(learned).unwrap_or_else(|| Setting::new("learned", default("model.learned_pos_emb true")));
    imported.set(keys::architecture::position, Some(position));
    let tied = settings.flag("model.tie_word_embeddings");
    imported.set(
        keys::architecture::tie_embeddings,
        Some(tied.unwrap_or_else(|| Setting::new(true, default("model.tie_word_embeddings true")))),
    );
    let bias = settings.flag("model.no_bias").map(|found| found.map(|off| !off));
    let bias = bias.unwrap_or_else(|| Setting::new(true, default("model.no_bias false")));
    for key in ["model.architecture.linear_bias", "model.architecture.norm_bias"] {
        imported.set(key, Some(bias.clone()));
    }
    let gated = settings.text("model.ffn_config.ffn_type").filter(|found| found.value.contains("glu"));
    let activation =
        gated.map(|found| found.map(|_| "swiglu")).unwrap_or_else(|| Setting::new("gelu", default("mptmlp")));
    imported.set(keys::architecture::activation, Some(activation));
    let norm = settings
        .text("model.norm_type")
        .map(|found| found.map(|name| if name.contains("rms") { "rmsnorm" } else { "layernorm" }));
    imported.set(
        keys::architecture::norm,
        Some(norm.unwrap_or_else(|| Setting::new("layernorm", default("low_precision_layernorm")))),
    );
    experts(imported, settings);
}

fn experts(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(experts) = settings.whole("model.ffn_config.moe_num_experts").filter(|found| found.value > 1) else {
        return;
    };
    imported.set(keys::moe::num_experts, Some(experts));
    imported.set(keys::moe::experts_per_token, settings.whole("model.ffn_config.moe_top_k"));
    if let Some(width) = imported.get(keys::architecture::intermediate_size).cloned() {
        imported.say(keys::moe::intermediate_size, width.value, width.origin);
    }
}

/// Weights are fp32 shards; FSDP casts what it gathers.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let found = settings
        .text("precision")
        .unwrap_or_else(|| Setting::new("amp_bf16".to_owned(), default("precision amp_bf16")));
    let word = found.map(|name| match name.as_str() {
        "amp_bf16" => "bf16-mixed",
        "amp_fp16" => "fp16-mixed",
        "amp_fp8" => "fp8-mixed",
        _ => "fp32",
    });
    imported.set(keys::training::precision, Some(word));
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    common::set_optimizer(imported, settings.text("optimizer.name"));
    imported.set(
        keys::training::weight_decay,
        settings.number("optimizer.weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
    );
}

fn attention(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    // Of the hub's models only MPT's configuration has such a part.
    let mpt = imported
        .get(keys::model::preset)
        .and_then(|found| found.value.as_str())
        .is_some_and(|name| name.starts_with("mpt"));
    let overridden = settings.text("model.config_overrides.attn_config.attn_impl").filter(|_| mpt);
    let word = settings
        .text("model.attn_config.attn_impl")
        .or(overridden)
        .map(|found| found.map(|name| if name == "torch" { "eager" } else { "flash" }));
    let hugging = settings.is("model.use_flash_attention_2");
    let named = settings.text("model.attn_implementation").filter(|_| !hugging).and_then(|found| {
        let word = ["eager", "sdpa"].into_iter().find(|word| *word == found.value);
        word.or_else(|| found.value.starts_with("flash").then_some("flash")).map(|word| found.map(|_| word))
    });
    let default = if hugging || imported.get(keys::architecture::hidden_size).is_some() {
        Setting::new("flash", default("attn_impl flash"))
    } else {
        // `models/hf/hf_base.py`, `build_inner_model`: `if attn_implementation is None`; before 0.20, which has that argument
        // first, by `use_flash_attention_2` alone.
        Setting::new("eager", default("attn_implementation eager"))
    };
    imported.set(keys::training::attention, Some(word.or(named).unwrap_or(default)));
    trainer::attention::of_model(imported, context);
    let fused = settings.text("model.loss_fn").map(|found| found.map(|_| Value::from("plain")));
    imported.set(keys::training::loss, fused);
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    if !settings.holds("fsdp_config") {
        imported.say(keys::distribution::engine, "ddp", default("no fsdp_config: DDP"));
        return imported.say(keys::distribution::sharding, "none", default("no fsdp_config: DDP"));
    }
    imported.say(keys::distribution::engine, "fsdp1", default("Composer's FSDP"));
    let strategy =
        settings.text("fsdp_config.sharding_strategy").map(|found| found.map(|name| accelerate::strategy(&name)));
    imported.set(
        keys::distribution::sharding,
        Some(strategy.unwrap_or_else(|| Setting::new("zero3", default("fsdp_config.sharding_strategy FULL_SHARD")))),
    );
    let mixed = settings
        .text("fsdp_config.mixed_precision")
        .map(|found| found.map(|name| if name == "PURE" { "bf16" } else { "fp32" }));
    let half = settings.text("precision").is_none_or(|found| found.value == "amp_bf16");
    imported.set(keys::distribution::reduce_dtype, mixed.filter(|_| half));
    let recompute = settings.flag("fsdp_config.activation_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        Some(recompute.map_or(Setting::new("none", default("fsdp_config.activation_checkpointing false")), |found| {
            found.map(|on| if on { "full" } else { "none" })
        })),
    );
    let offload = settings.on("fsdp_config.activation_cpu_offload");
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "activations")));
}
