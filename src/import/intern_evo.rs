//! `InternEvo`: configurations in Python (`configs/7B_sft.py`) and `train.py --config FILE`
//! (`internlm/initialize/launch.py`, `internlm/model/modeling_internlm.py`, `modeling_internlm2.py`, `modeling_llama.py`,
//! `internlm/solver/optimizer/hybrid_zero_optim.py` of 0.4). Read, never run.

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::Settings;
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "InternEvo 0.4";

const ROWS: &[SettingRow] = &[
    (&["data.seq_len"], keys::model::sequence_length, SettingKind::Whole),
    (&["data.micro_bsz"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["model.hidden_size"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["model.num_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["model.num_attention_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (&["model.num_kv_attention_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["model.vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
    (&["parallel.pipeline.size"], keys::distribution::pipeline_parallel, SettingKind::Whole),
    (&["adam.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["hybrid_zero_optimizer.clip_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["hybrid_zero_optimizer.overlap_sync_grad"], keys::distribution::overlap_grad_reduce, SettingKind::Flag),
];

/// Sections of such a file whose settings neither memory nor time show.
const WITHOUT_BEARING: [&str; 7] =
    ["ckpt.", "grad_scaler.", "lr_scheduler.", "beta2_scheduler.", "monitor.", "loss.", "data.valid"];

/// Whether a Python file is such a configuration.
pub fn is_config(content: &str) -> bool {
    ["hybrid_zero_optimizer = dict(", "\nparallel = dict(", "\nmodel = dict("].iter().all(|part| content.contains(part))
}

fn configuration(context: &ImportContext) -> Option<(String, String)> {
    let path = arguments::read(&context.program.words).options.text("config")?.value;
    let content = context.run.files.read(&path).ok()?;
    is_config(&content).then_some((path, content))
}

/// Whether the program trains by such a file.
pub fn runs(context: &ImportContext) -> bool {
    context.program.python && context.program.name() == "train.py" && configuration(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let Some((path, content)) = configuration(context) else { return ImportedPlan::of("InternEvo") };
    of_file(&path, &content)
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of a file alone.
pub fn of_file(name: &str, content: &str) -> ImportedPlan {
    let mut imported = ImportedPlan::of("InternEvo");
    let reader = ScriptReader::new(name, content, Settings::default());
    let mut settings = Settings::default();
    for section in ["data", "model", "parallel", "adam", "hybrid_zero_optimizer", "ckpt", "loss"] {
        settings.over(reader.section(section));
    }
    settings.over(super::text::python(name, content));
    imported.say(keys::model::framework, "pytorch", Origin::Program("InternEvo's own keys".to_owned()));
    take(&mut imported, &settings, ROWS);
    shape(&mut imported, &settings, content);
    let steps = settings.first_whole(&["data.gradient_accumulation", "data.micro_num"]);
    imported.set(keys::training::gradient_accumulation_steps, steps);
    training(&mut imported, &settings);
    parallel(&mut imported, &settings);
    for (found, _) in settings.iter() {
        // Names in capitals are put in where they are used.
        let constant = found.chars().all(|letter| !letter.is_ascii_lowercase());
        if constant || WITHOUT_BEARING.iter().any(|section| found.starts_with(section)) {
            settings.accept(found);
        }
    }
    account_for(&mut imported, &settings);
    imported
}

/// Blocks of Llama's kind: RMS norms, rotary embeddings, SwiGLU whose width is a multiple of 256; `InternLM`'s first
/// version has biases in attention.
fn shape(imported: &mut ImportedPlan, settings: &Settings, content: &str) {
    let kind = settings.text("model_type").map(|found| found.value).unwrap_or_else(|| "INTERNLM".to_owned());
    let width = settings.whole("model.hidden_size").map(|found| found.value);
    let given = content.lines().find_map(|line| line.trim_start().strip_prefix("mlp_ratio="));
    let ratio = match given.map(|right| right.split([',', '#']).next().unwrap_or(right).trim()) {
        Some(text) => ratio(text).or_else(|| ratio(&assigned(content, text)?)),
        None => Some((4, 1)),
    };
    settings.accept("model.mlp_ratio");
    match width.zip(ratio) {
        Some((width, (times, by))) => {
            let wide = width.saturating_mul(times) / by.max(1);
            let origin = Origin::Derived("hidden_size x mlp_ratio, a multiple of 256".to_owned());
            imported.say(keys::architecture::intermediate_size, wide.div_ceil(256) * 256, origin);
        }
        None => imported.miss(keys::architecture::intermediate_size, "model.mlp_ratio was not understood"),
    }
    let blocks = |what: &str| default(&format!("{kind}: {what}"));
    imported.say(keys::architecture::position, "rope", blocks("rotary embeddings"));
    imported.say(keys::architecture::activation, "swiglu", blocks("use_swiglu"));
    let norm = settings.text("model.norm_type").filter(|found| found.value == "layernorm");
    imported.set(
        keys::architecture::norm,
        Some(norm.unwrap_or_else(|| Setting::new("rmsnorm".to_owned(), blocks("norm_type")))),
    );
    imported.say(keys::architecture::linear_bias, false, blocks("no bias in the feed-forward"));
    imported.say(keys::architecture::tie_embeddings, false, blocks("a head of its own"));
    match kind.as_str() {
        "INTERNLM" | "INTERNLM_MoE" => {
            imported.say(keys::architecture::qkv_bias, true, blocks("bias in Wqkv and out_proj"));
        }
        "INTERNLM2_PUBLIC" | "INTERNLM2" | "LLAMA2" => {}
        other => not_modelled(imported, &format!("model_type {other}: its layers are counted as Llama's")),
    }
    if kind.contains("MoE") || settings.whole("model.num_experts").is_some_and(|found| found.value > 1) {
        imported.miss(keys::architecture::moe, "experts of InternEvo are not read");
        not_modelled(imported, "experts: the plan is of one dense feed-forward a layer");
    }
}

fn assigned(content: &str, name: &str) -> Option<String> {
    let right = content.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='))?;
    Some(right.split('#').next().unwrap_or(right).trim().to_owned())
}

/// `8 / 3`, `3.5`, `4` as a fraction.
fn ratio(text: &str) -> Option<(u64, u64)> {
    if let Some((times, by)) = text.split_once('/') {
        return Some((times.trim().parse().ok()?, by.trim().parse().ok()?));
    }
    let value: f64 = text.trim().parse().ok()?;
    (value > 0.0 && value < 1e3).then_some(((value * 1024.0) as u64, 1024))
}

/// The whole model in one type, fp32 main weights and states in `HybridZeroOptimizer`.
fn training(imported: &mut ImportedPlan, settings: &Settings) {
    let word = settings.text("model.dtype").and_then(|found| {
        let word = match found.value.rsplit('.').next()? {
            "bfloat16" => "bf16-fp32-master",
            "float16" | "half" => "fp16-fp32-master",
            "float32" | "tf32" => "fp32",
            _ => return None,
        };
        Some(found.map(|_| word))
    });
    match word {
        Some(word) => imported.set(keys::training::precision, Some(word)),
        None => imported.miss(keys::training::precision, "model.dtype was not understood"),
    }
    imported.say(keys::training::optimizer, "adamw-fused", default("FusedAdamW (HybridZeroOptimizer)"));
    let flash = settings.flag("model.use_flash_attn").unwrap_or_else(|| Setting::new(true, default("use_flash_attn")));
    imported.set(keys::training::attention, Some(flash.map(|on| if on { "flash" } else { "eager" })));
    match settings.get("model.checkpoint") {
        None => imported.say(keys::training::activation_checkpointing, "none", default("checkpoint False")),
        Some(found) => match settings.number("model.checkpoint").map(|share| share.value) {
            _ if settings.is("model.checkpoint") => {
                imported.say(keys::training::activation_checkpointing, "full", found.origin.clone());
            }
            Some(share) if share > 0.0 && share < 1.0 => {
                let said = format!("{}: blocks in part", found.origin);
                imported.miss(keys::training::activation_checkpointing, said.clone());
                not_modelled(imported, &said);
            }
            Some(share) if share >= 1.0 => {
                imported.say(keys::training::activation_checkpointing, "full", found.origin.clone());
            }
            _ => imported.say(keys::training::activation_checkpointing, "none", found.origin.clone()),
        },
    }
}

/// `parallel = dict(zero1=…, tensor=dict(size, mode), pipeline=…, weight=…)`.
fn parallel(imported: &mut ImportedPlan, settings: &Settings) {
    let size = |name: &str| settings.first_whole(&[&format!("parallel.{name}.size"), &format!("parallel.{name}")]);
    let mode = settings.text("parallel.tensor.mode").map_or_else(|| "mtp".to_owned(), |found| found.value);
    if mode == "isp" {
        // Sequences are cut among tensor ranks, weights among weight ranks.
        imported.set(keys::distribution::context_parallel, size("tensor").filter(|found| found.value > 1));
        imported.say(keys::distribution::cp_comm, "a2a", default("isp"));
        if let Some(found) = size("weight").filter(|found| found.value > 1) {
            not_modelled(imported, &format!("{}: weights are shared out among {} ranks", found.origin, found.value));
        }
    } else {
        imported.set(keys::distribution::tensor_parallel, size("tensor"));
        let cut = Setting::new(matches!(mode.as_str(), "msp" | "fsp"), Origin::Derived(format!("tensor mode {mode}")));
        imported.set(keys::distribution::sequence_parallel, Some(cut));
    }
    let zero = settings.get("parallel.zero1.size").or_else(|| settings.get("parallel.zero1"));
    let ranks = zero.and_then(|found| super::settings::number(&found.value));
    imported.say(keys::distribution::engine, "deepspeed", default("HybridZeroOptimizer, as ZeRO's first stage"));
    if settings.is("parallel.zero1.fsdp") {
        imported.say(keys::distribution::engine, "fsdp1", Origin::Derived("zero1.fsdp".to_owned()));
        imported.say(keys::distribution::sharding, "zero3", Origin::Derived("zero1.fsdp".to_owned()));
        return;
    }
    let origin = zero.map_or_else(|| default("zero1 size -1"), |found| found.origin.clone());
    match ranks {
        Some(1.0) => imported.say(keys::distribution::sharding, "none", origin),
        Some(ranks) if ranks > 1.0 => {
            imported.say(keys::distribution::sharding, "zero1", origin.clone());
            not_modelled(imported, &format!("{origin}: states are shared out in groups of {ranks}"));
        }
        _ => imported.say(keys::distribution::sharding, "zero1", origin),
    }
    for name in ["pipeline.interleaved_overlap", "weight.overlap", "weight.memory_pool", "weight.size", "tensor.size"] {
        settings.accept(&format!("parallel.{name}"));
    }
}
