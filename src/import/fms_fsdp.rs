//! fms-fsdp: `torchrun main_training_llama.py --model_variant=llama3_8b` (`foundation-model-stack/fms-fsdp`,
//! `fms_fsdp/config/training.py`, `utils/config_utils.py`, `utils/train_utils.py`, `main_training_llama.py`, 2025).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::script_defaults::script_of;
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "fms-fsdp";

/// `train_config`. Of its default variant, `7b`, it has no sizes.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("seq_length", DefaultValue::Whole(4096)),
    ("batch_size", DefaultValue::Whole(2)),
    ("sharding_strategy", DefaultValue::Text("hsdp")),
    ("fsdp_activation_checkpointing", DefaultValue::Flag(false)),
    ("selective_checkpointing", DefaultValue::Number(1.0)),
    ("mixed_precision", DefaultValue::Flag(true)),
    ("use_torch_compile", DefaultValue::Flag(true)),
    ("grad_clip_thresh", DefaultValue::Number(1.0)),
];

const ROWS: &[SettingRow] = &[
    (&["seq_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["grad_clip_thresh"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["use_torch_compile"], keys::training::compile, SettingKind::Flag),
];

/// A variant: vocabulary, width, heads, heads of keys and values, layers, width of the MLP (`get_model_config`; `fms/models/llama.py`,
/// `LLaMAConfig`, rounds the last to a multiple of 256).
type Sizes = (&'static str, [u64; 6]);

const VARIANTS: &[Sizes] = &[
    ("llama2_70b", [32_000, 8192, 64, 8, 80, 28_672]),
    ("llama2_34b", [32_000, 8192, 64, 8, 48, 22_016]),
    ("llama2_13b", [32_000, 5120, 40, 40, 40, 13_824]),
    ("llama2_7b", [32_000, 4096, 32, 32, 32, 11_008]),
    ("llama2_1.4b", [32_000, 2048, 16, 4, 24, 6144]),
    ("llama3_8b", [128_256, 4096, 32, 8, 32, 14_336]),
    ("llama3_1.8b", [128_256, 2048, 16, 8, 24, 7168]),
    ("llama3_3.2b", [128_256, 3072, 24, 8, 24, 8192]),
    ("llama3_70b", [128_256, 8192, 64, 8, 80, 28_672]),
    ("llama3_194m", [128_256, 1024, 8, 8, 10, 2816]),
];

/// Whether the program is fms-fsdp's training of Llama or Mamba.
pub fn runs(context: &ImportContext) -> bool {
    let named = ["main_training_llama.py", "main_training_mamba.py", "main_training.py"];
    let own = || {
        let sharding = arguments::read(&context.program.words).options.holds("sharding_strategy");
        script_of(context).map_or(sharding, |(_, text)| text.contains("fms_fsdp"))
    };
    named.contains(&context.program.name()) && own()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of(VERSION);
    let settings = Settings::defaults(VERSION, DEFAULTS).with(arguments::read(&context.program.words).options);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    model(&mut imported, &settings);
    take(&mut imported, &settings, ROWS);
    let mixed = settings.flag("mixed_precision").map(|found| found.map(|on| if on { "bf16-mixed" } else { "fp32" }));
    imported.set(keys::training::precision, mixed);
    imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    imported.say(keys::training::weight_decay, 0.1, default("weight_decay 0.1"));
    imported.say(keys::training::attention, "sdpa", default("scaled_dot_product_attention"));
    imported.say(keys::training::gradient_accumulation_steps, 1, default("a step after each batch"));
    checkpointing(&mut imported, &settings);
    sharding(&mut imported, &settings, context);
    ["low_cpu_fsdp", "use_dummy_dataset", "use_profiler", "num_steps", "resuming_dataset", "training_stage"]
        .iter()
        .for_each(|name| settings.accept(name));
    account_for(&mut imported, &settings);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn model(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("model_variant") else {
        return imported.miss(keys::model::architecture, "no --model_variant: its default, 7b, has no sizes");
    };
    // `llama3_8b_4k` has the sizes of `llama3_8b`, for shorter samples.
    let name = found.value.trim_end_matches("_4k");
    let Some((_, sizes)) = VARIANTS.iter().find(|(variant, _)| *variant == name) else {
        return imported
            .miss(keys::model::architecture, format!("{}: {} has no sizes here", found.origin, found.value));
    };
    const NAMES: [&str; 6] = [
        keys::architecture::vocab_size,
        keys::architecture::hidden_size,
        keys::architecture::num_attention_heads,
        keys::architecture::num_kv_heads,
        keys::architecture::num_layers,
        keys::architecture::intermediate_size,
    ];
    for (key, size) in NAMES.into_iter().zip(sizes) {
        imported.say(key, *size, found.origin.clone());
    }
    for (key, word) in [
        (keys::architecture::activation, "swiglu"),
        (keys::architecture::norm, "rmsnorm"),
        (keys::architecture::position, "rope"),
    ] {
        imported.say(key, word, default("fms.models.llama.LLaMA"));
    }
    for key in [keys::architecture::linear_bias, keys::architecture::qkv_bias, keys::architecture::tie_embeddings] {
        imported.say(key, false, default("fms.models.llama.LLaMA"));
    }
}

/// Checkpoints of all blocks, or of a share of them (`policies/ac_handler.py`).
fn checkpointing(imported: &mut ImportedPlan, settings: &Settings) {
    let on = settings.flag("fsdp_activation_checkpointing");
    let some = settings.number("selective_checkpointing").is_none_or(|found| found.value < 1.0);
    if some && on.as_ref().is_some_and(|found| found.value) {
        let why = "--selective_checkpointing: a share of the blocks";
        not_modelled(imported, why);
        return imported.miss(keys::training::activation_checkpointing, why);
    }
    let word = on.map(|found| found.map(|on| if on { "full" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, word);
}

/// `get_policies`: a strategy that is none of three shards over all ranks.
fn sharding(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(found) = settings.text("sharding_strategy") else { return };
    let several = context.world.nodes.as_ref().is_none_or(|nodes| nodes.value > 1);
    if found.value == "hsdp" && several {
        match context.world.per_node.clone() {
            Some(node) => imported.set(keys::distribution::shard_group, Some(node)),
            None => not_modelled(imported, "HYBRID_SHARD: shards within a node, whose GPUs are not told"),
        }
    }
    let word = found.map(|name| if name == "ddp" { "none" } else { "zero3" });
    imported.set(keys::distribution::sharding, Some(word));
    let engine = Setting::new("fsdp1", default("FullyShardedDataParallel"));
    imported.set(keys::distribution::engine, Some(engine));
}
