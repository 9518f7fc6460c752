//! llm.c: `train_gpt2cu -b 64 -t 1024 -d 524288 -e d12` (`train_gpt2.cu` at f1e2ace6). Its options are single letters;
//! one of two is told by its first two.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "llm.c of 2024";

/// `main`
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("b", DefaultValue::Whole(4)),
    ("t", DefaultValue::Whole(1024)),
    ("c", DefaultValue::Number(0.0)),
    ("e", DefaultValue::Text("gpt2_124M_bf16.bin")),
    ("w", DefaultValue::Flag(true)),
    ("z", DefaultValue::Whole(0)),
    ("r", DefaultValue::Whole(1)),
    ("pn", DefaultValue::Whole(1)),
];

const ROWS: &[SettingRow] = &[
    (&["t"], keys::model::sequence_length, SettingKind::Whole),
    (&["b"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["c"], keys::training::weight_decay, SettingKind::Share),
];

/// Whether the program is its own.
pub fn runs(context: &ImportContext) -> bool {
    is_program(context.program.name())
}

/// Whether a program of this name is its own.
pub fn is_program(name: &str) -> bool {
    matches!(name, "train_gpt2cu" | "train_gpt2fp32cu")
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// Pairs of an option and its value, whatever the value looks like.
fn options(words: &[String]) -> Settings {
    let mut settings = Settings::default();
    for pair in words.chunks_exact(2) {
        if let [name, value] = pair
            && let Some(plain) = name.strip_prefix('-')
        {
            settings.set(plain, value.as_str().into(), Origin::Argument(name.clone()));
        }
    }
    settings
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("llm.c");
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(options(&context.program.words));
    imported.say(keys::model::framework, "nanogpt", Origin::Program(context.program.shown()));
    not_modelled(&mut imported, "llm.c's own kernels, counted as nanoGPT's modules: a pass keeps other tensors");
    take(&mut imported, settings, ROWS);
    // `-d` is in tokens.
    if let (Some(total), Some(length)) = (settings.whole("d"), settings.whole("t"))
        && length.value > 0
        && total.value.is_multiple_of(length.value)
    {
        let origin = Origin::Derived(format!("{}: {} tokens / {}", total.origin, total.value, length.value));
        imported.say(keys::model::batch_size, total.value / length.value, origin);
    } else if settings.get("d").is_none() {
        imported.say(keys::training::gradient_accumulation_steps, 1, default("one pass, without -d"));
    }
    shape(&mut imported, settings);
    precision(&mut imported, settings, context.program.name());
    imported.say(keys::training::optimizer, "adamw-fused", default("adamw_kernel3"));
    imported.say(keys::training::gradient_clipping, true, default("grad_clip 1.0"));
    imported.say(keys::training::compile, false, default("CUDA"));
    if settings.whole("r").is_some_and(|found| found.value > 0) {
        not_modelled(&mut imported, "-r above 0: GELU, and with 2 LayerNorm, is computed again");
    }
    imported.say(keys::training::activation_checkpointing, "none", default("train_gpt2.cu"));
    let stage = settings.whole("z").map(|found| found.map(|stage| if stage == 0 { "none" } else { "zero1" }));
    if stage.as_ref().is_some_and(|stage| stage.value == "zero1") {
        // `multi_gpu_config.zero_stage`: its own, which shares optimizer states out as PyTorch does beside DDP.
        imported.say(keys::distribution::engine, "ddp", default("-z 1"));
    }
    imported.set(keys::distribution::sharding, stage);
    imported.set(keys::cluster::num_gpus, settings.whole("pn").filter(|_| settings.is_set("pn")));
    imported.set(keys::cluster::gpus_per_node, settings.whole("pg"));
    imported
}

/// bf16 weights and gradients, fp32 states and with `-w` an fp32 copy of the weights (`gpt2_update`).
fn precision(imported: &mut ImportedPlan, settings: &Settings, program: &str) {
    if program == "train_gpt2fp32cu" {
        return imported.say(keys::training::precision, "fp32", Origin::Program(program.to_owned()));
    }
    let masters = settings.flag("w").unwrap_or_else(|| Setting::new(true, default("-w 1")));
    if masters.value {
        imported.say(keys::training::precision, "bf16-fp32-master", masters.origin);
        imported.say(keys::training::gradient_dtype, "bf16", default("PRECISION=BF16"));
    } else {
        imported.miss(keys::training::precision, "bf16 weights with fp32 states have no word in a plan");
        not_modelled(imported, "-w 0: bf16 weights without an fp32 copy, with fp32 states");
    }
}

/// `gpt2_set_hyperparameters`, `gpt3_set_hyperparameters`: GPT-2's vocabulary, padded to 128; a file holds its own.
fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    const GPT2: &[(u64, u64, u64)] = &[
        (6, 384, 6),
        (12, 768, 12),
        (24, 1024, 16),
        (36, 1280, 20),
        (48, 1600, 25),
        (60, 1920, 30),
        (72, 2880, 30),
        (84, 3456, 36),
    ];
    const GPT3: &[(u64, u64, u64)] = &[
        (6, 384, 6),
        (12, 768, 12),
        (24, 1024, 16),
        (24, 1536, 16),
        (24, 2048, 16),
        (32, 2560, 32),
        (32, 4096, 32),
        (40, 5140, 40),
        (96, 12288, 96),
    ];
    let Some(found) = settings.text("e") else { return imported.miss(keys::model::preset, "-e is not known") };
    let named = found.value.as_str();
    if let Some(file) = named.strip_prefix("gpt2_").filter(|file| file.ends_with(".bin")) {
        let preset = match file.split('_').next() {
            Some("124M") => "gpt2",
            Some("350M" | "355M") => "gpt2-medium",
            Some("774M") => "gpt2-large",
            Some("1558M") => "gpt2-xl",
            _ => return imported.miss(keys::model::preset, format!("{named} holds its own sizes")),
        };
        return imported.say(keys::model::preset, preset, found.origin);
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let sizes = match (named.strip_prefix("gpt3:c"), named.strip_prefix("gpt2:d").or_else(|| named.strip_prefix('d'))) {
        (Some(width), _) => number(width).and_then(|width| GPT3.iter().find(|sizes| sizes.1 == width)),
        (_, Some(depth)) => number(depth).and_then(|depth| GPT2.iter().find(|sizes| sizes.0 == depth)),
        _ => None,
    };
    let Some((layers, width, heads)) = sizes.copied() else {
        return imported.miss(keys::model::preset, format!("-e {named} holds its own sizes, or resumes"));
    };
    let positions = if named.starts_with("gpt3") { 2048 } else { 1024 };
    let own = || Origin::Derived(format!("-e {named}: gpt2_set_hyperparameters"));
    for (key, value) in [
        ("model.architecture.hidden_size", width),
        ("model.architecture.num_layers", layers),
        ("model.architecture.num_attention_heads", heads),
        ("model.architecture.max_position_embeddings", positions),
        ("model.architecture.vocab_size", 50_304),
    ] {
        imported.say(key, value, own());
    }
    for (key, word) in [
        ("model.architecture.position", "learned"),
        ("model.architecture.activation", "gelu"),
        ("model.architecture.norm", "layernorm"),
    ] {
        imported.say(key, word, own());
    }
    imported.say(keys::architecture::tie_embeddings, true, own());
}
