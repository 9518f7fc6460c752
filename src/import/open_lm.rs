//! `open_lm`: `python -m open_lm.main --model open_lm_1b …`, `open_lm/main.py` (`open_lm/params.py`, `main.py`, `model.py`,
//! `model_configs/*.json` of 2024).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::base;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "open_lm of 2024";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("model", DefaultValue::Text("open_lm_1b")),
    ("precision", DefaultValue::Text("amp")),
    ("accum_freq", DefaultValue::Whole(1)),
    ("wd", DefaultValue::Number(0.2)),
    ("ffn_type", DefaultValue::Text("swiglu")),
    ("model_norm", DefaultValue::Text("default_layer_norm")),
];

const ROWS: &[SettingRow] = &[
    (&["accum_freq"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["wd"], keys::training::weight_decay, SettingKind::Share),
    (&["grad_clip_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["torchcompile"], keys::training::compile, SettingKind::Flag),
];

/// Width, layers and heads of the configurations that come with it; 2048 tokens, 50 432 rows unless said.
const MODELS: [(&str, u64, u64, u64); 23] = [
    ("open_lm_11m", 96, 12, 12),
    ("quark_neox", 96, 12, 12),
    ("open_lm_11m_v2", 96, 8, 4),
    ("open_lm_25m", 192, 12, 12),
    ("atom_neox", 192, 12, 12),
    ("open_lm_41m", 288, 12, 12),
    ("open_lm_79m_v2", 512, 8, 4),
    ("open_lm_87m", 488, 12, 12),
    ("aphid_neox", 488, 12, 12),
    ("open_lm_154m_v2", 576, 24, 8),
    ("open_lm_160m", 768, 12, 12),
    ("ant_neox", 768, 12, 12),
    ("open_lm_410m", 1024, 24, 16),
    ("potato_neox", 1024, 24, 16),
    ("open_lm_411m_v2", 1024, 24, 8),
    ("open_lm_830m", 1536, 24, 16),
    ("marmot_neox", 1536, 24, 16),
    ("open_lm_1b", 2048, 24, 16),
    ("m1b_neox", 2048, 24, 16),
    ("open_lm_3b", 2560, 32, 32),
    ("g3b_neox", 2560, 32, 32),
    ("open_lm_7b", 4096, 32, 32),
    ("l7b_neox", 4096, 32, 32),
];

/// Whether the program is its main module.
pub fn runs(context: &ImportContext) -> bool {
    let path = &context.program.path;
    path == "open_lm.main" || path.ends_with("open_lm/main.py")
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("open_lm");
    let given = arguments::read(&context.program.words).options;
    let file = given.text("config").and_then(|path| context.configuration(&path.value, &mut imported));
    let file = file.map(|file| {
        let mut renamed = Settings::default();
        renamed.adopt_all(&file, |name| Some(name.replace('-', "_")));
        renamed
    });
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file.unwrap_or_default()).with(given);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    shape(&mut imported, settings, context);
    take(&mut imported, settings, ROWS);
    batch(&mut imported, settings);
    precision(&mut imported, settings);
    imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    imported.say(keys::training::attention, "flash", default("attn_name auto: xformers' memory-efficient attention"));
    let recompute = settings.on("grad_checkpointing").map(|found| found.map(|_| "full"));
    let none = || Setting::new("none", default("no --grad-checkpointing"));
    imported.set(keys::training::activation_checkpointing, Some(recompute.unwrap_or_else(none)));
    sharding(&mut imported, settings);
    account_for(&mut imported, settings);
    imported
}

/// A configuration of its own by name, or a file of the same keys.
fn shape(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(model) = settings.text("model").filter(|_| !settings.is_set("hf_model")) else {
        return match settings.text("hf_model") {
            Some(found) => super::model::set(imported, context, found),
            None => imported.miss(keys::model::preset, "no --model"),
        };
    };
    let name = base(&model.value).trim_end_matches(".json");
    let of_file = model.value.ends_with(".json").then(|| context.configuration(&model.value, imported)).flatten();
    let known = MODELS.iter().find(|(known, ..)| *known == name);
    if let Some(file) = of_file {
        let rows: &[SettingRow] = &[
            (&["hidden_dim"], keys::architecture::hidden_size, SettingKind::Whole),
            (&["n_layers"], keys::architecture::num_layers, SettingKind::Whole),
            (&["n_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
            (&["vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
            (&["seq_len"], keys::model::sequence_length, SettingKind::Whole),
            (&["weight_tying"], keys::architecture::tie_embeddings, SettingKind::Flag),
        ];
        take(imported, &file, rows);
    } else if let Some((_, width, layers, heads)) = known {
        let of = || Origin::Derived(format!("{}: open_lm's model_configs/{name}.json", model.origin));
        imported.say(keys::architecture::hidden_size, *width, of());
        imported.say(keys::architecture::num_layers, *layers, of());
        imported.say(keys::architecture::num_attention_heads, *heads, of());
        imported.say(keys::architecture::vocab_size, 50_432_u64, of());
        imported.say(keys::model::sequence_length, 2048_u64, of());
        imported.say(keys::architecture::tie_embeddings, false, of());
    } else {
        return imported
            .miss("model.architecture", format!("--model {}: not one of open_lm's that is known", model.value));
    }
    blocks(imported, settings);
}

/// `Block`: layer norms, rotary embeddings, SwiGLU whose width is a multiple of 256, no bias in a linear layer.
fn blocks(imported: &mut ImportedPlan, settings: &Settings) {
    let width = imported.get(keys::architecture::hidden_size).and_then(|found| found.value.as_u64());
    let kind = settings.text("ffn_type").map(|found| found.value).unwrap_or_default();
    let wide =
        width.map(|width| if kind == "gelu" { width.saturating_mul(4) } else { (8 * width / 3).div_ceil(256) * 256 });
    let origin = || Origin::Derived(format!("ffn_type {kind}"));
    imported.set(keys::architecture::intermediate_size, wide.map(|wide| Setting::new(wide, origin())));
    let word = match kind.as_str() {
        "gelu" => "gelu",
        "gemma_geglu" => "geglu",
        _ => "swiglu",
    };
    imported.say(keys::architecture::activation, word, origin());
    if kind == "moe" {
        not_modelled(imported, "--ffn-type moe: experts of megablocks, the plan is of one dense feed-forward a layer");
    }
    let norm = settings
        .text("model_norm")
        .map(|found| found.map(|name| if name == "rms_norm" { "rmsnorm" } else { "layernorm" }));
    imported.set(keys::architecture::norm, norm);
    let bias = settings
        .text("model_norm")
        .map(|found| found.map(|name| name == "default_layer_norm" || name == "lp_layer_norm"));
    imported.set(keys::architecture::norm_bias, bias);
    imported.set(keys::architecture::qk_norm, settings.on("qk_norm"));
    imported.say(keys::architecture::position, "rope", default("rotary"));
    imported.say(keys::architecture::linear_bias, false, default("no bias"));
}

/// `--global-batch-size`; before, `--batch-size` was that of one GPU. What a GPU has is cut into `--accum-freq` pieces.
fn batch(imported: &mut ImportedPlan, settings: &Settings) {
    let pieces = settings.whole("accum_freq").map_or(1, |found| found.value.max(1));
    match (settings.whole("global_batch_size"), settings.first_whole(&["per_gpu_batch_size", "batch_size"])) {
        (_, Some(found)) => {
            imported.set(keys::training::micro_batch_size, Some(found.map(|batch| (batch / pieces).max(1))))
        }
        (Some(found), None) => imported.set(keys::model::batch_size, Some(found)),
        (None, None) => imported.say(keys::model::batch_size, 64_u64, default("--global-batch-size 64")),
    }
}

fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let found = settings.text("precision");
    let word = found.and_then(|found| {
        let word = match found.value.as_str() {
            "amp" | "fp16" => "fp16-mixed",
            "amp_bf16" | "amp_bfloat16" | "bf16" => "bf16-mixed",
            "pure_bf16" => "bf16",
            "fp32" => "fp32",
            _ => return None,
        };
        Some(found.map(|_| word))
    });
    let policy = ["fsdp_amp", "fsdp_pure_bf16"].iter().find_map(|name| settings.on(name));
    match policy.map(|found| found.map(|_| "bf16-mixed")).or(word) {
        Some(word) => imported.set(keys::training::precision, Some(word)),
        None => imported.miss(keys::training::precision, "--precision is none that is known"),
    }
    if let Some(found) = settings.on("fsdp_pure_bf16") {
        imported.say(keys::distribution::reduce_dtype, "bf16", found.origin);
    }
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.on("fsdp") else {
        imported.say(keys::distribution::sharding, "none", default("no --fsdp"));
        return imported.say(keys::distribution::engine, "ddp", default("no --fsdp"));
    };
    imported.say(keys::distribution::engine, "fsdp1", found.origin.clone());
    let second = settings.on("fsdp_hybrid_o2");
    if let Some(hybrid) = settings.on("fsdp_hybrid").or_else(|| second.clone()) {
        not_modelled(imported, &format!("{}: shards within a node, copies between nodes", hybrid.origin));
    }
    let word = if second.is_some() { "zero2" } else { "zero3" };
    imported.say(keys::distribution::sharding, word, found.origin);
    imported.set(keys::training::cpu_offload, settings.on("fsdp_cpu_offload").map(|found| found.map(|_| "parameters")));
    for name in
        ["fsdp_limit_all_gathers", "fsdp_use_orig_params", "fsdp_backward_prefetch", "qk_norm", "dataset_resampled"]
    {
        settings.accept(name);
    }
}
