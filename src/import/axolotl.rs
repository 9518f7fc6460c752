//! axolotl's YAML (`src/axolotl/utils/schemas/config.py` at 067b021c).

use super::accelerate;
use super::adapters;
use super::arguments;
use super::axolotl_kernels;
use super::common::ImportContext;
use super::deepspeed;
use super::imported::ImportedPlan;
use super::launch::World;
use super::methods::{self, TrainingMethod};
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings};
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use super::{versions, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "axolotl 0.13";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("sequence_len", DefaultValue::Whole(512)),
    ("micro_batch_size", DefaultValue::Whole(1)),
    ("gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("optimizer", DefaultValue::Text("adamw_torch_fused")),
    ("weight_decay", DefaultValue::Number(0.0)),
    ("max_grad_norm", DefaultValue::Number(1.0)),
    ("gradient_checkpointing", DefaultValue::Flag(false)),
];

/// Whether the program is axolotl.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let command = program.words.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    (program.name() == "axolotl" && command == "train")
        || matches!(program.path.as_str(), "axolotl.cli.train" | "scripts/finetune.py")
        || program.path.ends_with("axolotl/cli/train.py")
        || program.path.ends_with("axolotl/scripts/finetune.py")
}

/// Whether settings are axolotl's.
pub fn is_config(settings: &Settings) -> bool {
    let others = ["merge_method", "slices", "models"];
    settings.holds("base_model")
        && (settings.holds("sequence_len") || settings.holds("micro_batch_size") || settings.holds("datasets"))
        && !others.iter().any(|name| settings.holds(name))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("axolotl");
    let given = arguments::read(&context.program.words);
    let path = given.words.iter().find(|word| word.ends_with(".yml") || word.ends_with(".yaml"));
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    if let Some(file) = path.and_then(|path| context.configuration(path, &mut imported)) {
        settings.over(file);
    }
    settings.over(given.options);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    if context.world.total.is_none() {
        self_launched(&mut imported, context, "axolotl starts accelerate on every GPU in sight");
    }
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

/// The world of a command that starts a launcher by itself.
pub fn self_launched(imported: &mut ImportedPlan, context: &ImportContext, why: &str) {
    let whole =
        |name: &str| context.variable(name).and_then(|found| found.and_then(|text| text.trim().parse::<u64>().ok()));
    let nodes = whole("NNODES");
    let in_sight = || {
        let gpus = context.visible_gpus()?;
        Some(Setting::new(gpus.value, Origin::Derived(format!("{why} ({})", gpus.origin))))
    };
    // LLaMA-Factory's `launcher.py` counts GPUs only where nobody says how many processes start.
    let Some(per_node) = whole("NPROC_PER_NODE").or_else(in_sight) else {
        return imported.miss(keys::cluster::num_gpus, format!("{why}, and none is"));
    };
    let world = World {
        total: None,
        nodes: Some(nodes.unwrap_or_else(|| Setting::new(1, Origin::Derived("one node".to_owned())))),
        per_node: Some(per_node),
    };
    let world = world.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("axolotl");
    imported.say(keys::model::framework, "pytorch", Origin::Program("axolotl's own keys".to_owned()));
    let settings = Settings::defaults(VERSION, DEFAULTS).with(file);
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let named = settings.first_text(&["base_model", "base_model_config"]);
    match named {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no base_model"),
    }
    // Every kind of model that transformers loads for pictures and text is loaded so (`utils/config`, `is_multimodal`).
    vision::whole(imported);
    if imported.tower.is_some() && settings.get("processor_type").is_none() {
        let text = Origin::Default { framework: VERSION, option: "no processor_type: text alone".to_owned() };
        imported.say(keys::model::images, 0, text);
    }
    imported.set(keys::model::sequence_length, settings.whole("sequence_len"));
    lora(imported, settings, context);
    let arguments = as_arguments(settings, context);
    // Weights are loaded in the type that is computed in.
    trainer::set(imported, &arguments, context, WeightStorage::Half);
    keep_preparation(imported, settings, context);
    if let Some(global) = settings.whole("batch_size").filter(|_| !settings.is_set("gradient_accumulation_steps")) {
        let micro = settings.whole("micro_batch_size").map_or(1, |found| found.value.max(1));
        imported.set(keys::training::gradient_accumulation_steps, Some(global.map(|batch| (batch / micro).max(1))));
    }
    degrees(imported, settings);
    loss(imported, settings);
    liger_modules(imported, settings);
    method(imported, settings);
    // TRL's own fused loss (`core/trainers/dpo/__init__.py`).
    let of_pairs = settings.on("dpo_use_liger_kernel").map(|found| found.map(|_| "fused"));
    imported.set(keys::training::loss, of_pairs);
    methods::options(imported, settings);
    settings.accept("tf32");
    // What older releases were told of the model's family, which is the model's own.
    for family in ["llama", "mistral", "falcon", "qwen"] {
        settings.accept(&format!("is_{family}_derived_model"));
    }
    // Older releases call their own `unsloth` (`utils/models.py`, `hf_grad_checkpoint_unsloth_wrapper`).
    let names = |found: &Setting<String>| found.value.starts_with("offload") || found.value == "unsloth";
    let offload = settings.text("gradient_checkpointing").filter(names);
    if let Some(found) = offload {
        imported.say(keys::training::activation_checkpointing, "full", found.origin.clone());
        // A plan has one word for what lies in host memory: what FSDP keeps there is more.
        if imported.get(keys::training::cpu_offload).is_some() {
            not_modelled(imported, &format!("{}: checkpoints in host memory too", found.origin));
        } else {
            imported.say(keys::training::cpu_offload, "activations", found.origin);
        }
    }
}

/// `rl: dpo`; IPO is a loss of DPO's trainer.
fn method(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("rl") else { return };
    let kind = if found.value == "ipo" { "dpo" } else { found.value.as_str() };
    match TrainingMethod::of_name(kind) {
        Some(method) => method.apply(imported),
        None => not_modelled(imported, &format!("{}: {}: what it holds and generates beside", found.origin, kind)),
    }
}

/// axolotl's keys by the names that `TrainingArguments` have.
fn as_arguments(settings: &Settings, context: &ImportContext) -> Settings {
    const NAMES: &[(&str, &str)] = &[
        ("micro_batch_size", "per_device_train_batch_size"),
        ("gradient_accumulation_steps", "gradient_accumulation_steps"),
        ("optimizer", "optim"),
        ("weight_decay", "weight_decay"),
        ("max_grad_norm", "max_grad_norm"),
        ("gradient_checkpointing", "gradient_checkpointing"),
        ("gradient_checkpointing_kwargs", "gradient_checkpointing_kwargs"),
        (trainer::reentrant::NAME, trainer::reentrant::NAME),
        ("torch_compile", "torch_compile"),
        ("deepspeed", "deepspeed"),
        ("fsdp", "fsdp"),
        ("attn_implementation", "attn_implementation"),
        ("flash_attention", "flash_attention"),
        ("tf32", "tf32"),
        ("fp16", "fp16"),
        ("bf16", "bf16"),
    ];
    let mut arguments = Settings::default();
    for (theirs, ours) in NAMES {
        arguments.adopt(ours, settings, theirs);
    }
    let inline = |name: &str| name.starts_with("fsdp_config.") || name.starts_with("deepspeed.");
    arguments.adopt_all(settings, |name| inline(name).then(|| name.to_owned()));
    trainer::reentrant::of_axolotl(&mut arguments, settings);
    for (option, word) in [("eager_attention", "eager"), ("sdp_attention", "sdpa"), ("xformers_attention", "sdpa")] {
        if let Some(found) = settings.on(option) {
            arguments.set("attn_implementation", word.into(), found.origin);
        }
    }
    for (option, word) in [("float16", "float16"), ("bfloat16", "bfloat16")] {
        if let Some(found) = settings.on(option) {
            arguments.set("dtype", word.into(), found.origin);
        }
    }
    // `auto`: bf16 where the GPU has it, which is all but the oldest two generations.
    let auto = settings.get("bf16").is_none_or(|found| found.value == "auto") || settings.is("bfloat16");
    if auto {
        settings.accept("bf16");
    }
    if auto && !settings.is("fp16") && !settings.is("float16") {
        let old = context.run.gpus.iter().any(|name| name.contains("V100") || name.contains("T4"));
        let origin = settings
            .get("bf16")
            .map_or(Origin::Default { framework: VERSION, option: "bf16 auto".to_owned() }, |found| {
                found.origin.clone()
            });
        arguments.set(if old { "fp16" } else { "bf16" }, true.into(), origin);
    }
    // FSDP2 is told by `fsdp_config` alone.
    if arguments.get("fsdp").is_none() && settings.holds("fsdp_config") {
        let origin =
            settings.iter().find(|(name, _)| name.starts_with("fsdp_config.")).map(|(_, found)| found.origin.clone());
        if let Some(origin) = origin {
            arguments.set("fsdp", "auto_wrap".into(), origin);
        }
    }
    arguments
}

fn lora(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(kind) = settings.text("adapter").filter(|found| ["lora", "qlora", "dora"].contains(&found.value.as_str()))
    else {
        // `adapter:` without a word: all weights are trained, whatever rank stands below.
        let none = settings.text("adapter").is_none() && settings.iter().any(|(name, _)| name == "adapter");
        for (name, _) in settings.iter().filter(|(name, _)| none && name.starts_with("lora_")) {
            settings.accept(name);
        }
        return;
    };
    let four = settings.on("load_in_4bit").map(|found| found.map(|_| 4));
    let eight = settings.on("load_in_8bit").map(|found| found.map(|_| 8));
    let gptq = settings.on("gptq").map(|found| found.map(|_| 4));
    let implied = (kind.value == "qlora").then(|| kind.clone().map(|_| 4));
    let other = gptq.as_ref().map(|found| found.clone().map(|_| "gptq".to_owned()));
    let unquantised = four.clone().filter(|_| kind.value == "lora" && gptq.is_none());
    let four = if unquantised.is_some() { None } else { four };
    adapters::set(imported, settings.whole("lora_r"), ("peft", 8), four.or(eight).or(implied).or(gptq));
    // Experts in one tensor are quantised with the rest then, as they are counted (axolotl 0.14, `quantize_moe_experts`).
    if imported.get(keys::lora::base_bits).is_some() {
        settings.accept("quantize_moe_experts");
    }
    let told = settings.flag("bnb_config_kwargs.bnb_4bit_use_double_quant");
    adapters::set_double_quant(imported, told, VERSION, other);
    if let Some(bits) = unquantised {
        four_bits_without_qlora(imported, bits, context);
    }
    let linear = settings.on("lora_target_linear").map(|found| found.map(|_| vec!["all-linear".to_owned()]));
    let named = settings.texts("lora_target_modules");
    // Both are taken (`loaders/adapter.py`, `load_lora`), and linear layers of blocks are among all linear ones.
    let among = named.as_ref().is_none_or(|found| found.value.iter().all(|name| name.ends_with("_proj")));
    if linear.is_some() && !among {
        settings.refuse("lora_target_modules");
    }
    adapters::set_targets(imported, linear.or(named));
    imported
        .set(keys::lora::dropout, settings.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)));
    axolotl_kernels::set(imported, settings, context);
    adapters::take_saved(imported, settings.texts("lora_modules_to_save"));
}

/// `adapter: lora` with `load_in_4bit`: up to 0.12 transformers' loader gets the word and quantises once, since 0.13 nobody
/// asks for it (`loaders/model.py`, `_set_quantization_config`). 0.13 is the first with transformers 4.57.
fn four_bits_without_qlora(imported: &mut ImportedPlan, bits: Setting<u64>, context: &ImportContext) {
    let since = |library, version| {
        versions::of(&context.run.versions, library).and_then(|range| range.is_within(version, versions::NEWEST))
    };
    match since("axolotl", (0, 13)).or_else(|| since("transformers", (4, 57))) {
        Some(false) => {
            imported.set(keys::lora::double_quant, Some(bits.clone().map(|_| false)));
            imported.set(keys::lora::base_bits, Some(bits));
        }
        Some(true) => {
            imported.note(format!("{}: axolotl quantises for `adapter: qlora` alone since 0.13", bits.origin))
        }
        None => {
            let why = format!("{}: with `adapter: lora` axolotl before 0.13 loads 4 bits, later ones 16", bits.origin);
            not_modelled(imported, &why);
            imported.miss(keys::lora::base_bits, why);
        }
    }
}

/// Releases before 0.3 cast what peft's preparation raised back to 16 bits under flash attention of a Llama alone
/// (`utils/models.py`, `load_model`); since then under any adapter (`needs_fa2_dtype or …`). What stays raised is the
/// embeddings, the head and the norms, under autocast.
fn keep_preparation(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const LOADER: &str = "src/axolotl/utils/models.py";
    let by_version = || versions::of(&context.run.versions, "axolotl")?.is_within((0, 0), (0, 3));
    let by_text = context
        .run
        .files
        .read(LOADER)
        .ok()
        .map(|text| text.contains("prepare_model_for_kbit_training") && !text.contains("needs_fa2_dtype or"));
    let prepared = imported.get(keys::lora::base_bits).is_some() && !settings.is("gptq");
    let cast = settings.is("flash_attention") && settings.is("is_llama_derived_model");
    if !prepared || cast || by_text.or_else(by_version) != Some(true) {
        return;
    }
    let half = imported.get(keys::training::precision).and_then(|found| found.value.as_str().map(str::to_owned));
    if let Some(half) = half.filter(|word| word == "bf16" || word == "fp16") {
        let option = "prepare_model_for_kbit_training: embeddings, head and norms in fp32".to_owned();
        let origin = Origin::Default { framework: "axolotl before 0.3", option };
        imported.say(keys::training::precision, format!("{half}-mixed"), origin);
    }
}

fn degrees(imported: &mut ImportedPlan, settings: &Settings) {
    let above_one = |found: &Setting<u64>| found.value > 1;
    imported.set(keys::distribution::tensor_parallel, settings.whole("tensor_parallel_size").filter(above_one));
    let context = settings.first_whole(&["context_parallel_size", "sequence_parallel_degree"]).filter(above_one);
    imported.set(keys::distribution::context_parallel, context);
    imported.set(keys::distribution::expert_parallel, settings.whole("expert_parallel_size").filter(above_one));
    let shard = settings.whole("dp_shard_size").filter(above_one);
    if let Some(replicas) = settings.whole("dp_replicate_size").filter(above_one) {
        let ranks = shard.as_ref().and_then(|shard| shard.value.checked_mul(replicas.value));
        imported.set(
            keys::distribution::data_parallel,
            ranks.map(|ranks| Setting::new(ranks, Origin::Derived("dp_replicate_size x dp_shard_size".to_owned()))),
        );
        imported.set(keys::distribution::shard_group, shard);
    } else {
        imported.set(keys::distribution::data_parallel, shard);
    }
    if deepspeed_stage_of_name(settings).is_some()
        && imported.get(keys::distribution::sharding).is_none_or(|found| found.value == "none")
    {
        let stage = deepspeed_stage_of_name(settings);
        imported.set(keys::distribution::sharding, stage.map(|found| found.map(deepspeed::stage)));
    }
    if let Some(found) = settings.on("fsdp_config.activation_checkpointing") {
        imported.say(keys::training::activation_checkpointing, "full", found.origin.clone());
        trainer::reentrant::wrapped(imported, found.origin);
    }
    let second = settings.whole("fsdp_version").filter(|found| found.value == 2);
    if imported.get(keys::distribution::engine).is_some_and(|found| found.value == "fsdp1") {
        imported.set(keys::distribution::engine, second.clone().map(|found| found.map(|_| "fsdp2")));
    }
    let mut resharding = settings.below("fsdp_config");
    resharding.adopt("fsdp_version", settings, "fsdp_version");
    if resharding.holds("reshard_after_forward") || resharding.holds("fsdp_sharding_strategy") {
        accelerate::set_fsdp(imported, &resharding);
    }
}

/// `deepspeed_configs/zero3_bf16.json` comes with axolotl: where the file is not at hand, its
/// name tells the stage.
fn deepspeed_stage_of_name(settings: &Settings) -> Option<Setting<u64>> {
    let path = settings.text("deepspeed")?;
    path.and_then(|path| {
        let at = path.find("zero")? + "zero".len();
        path.get(at..at + 1)?.parse().ok()
    })
}

/// Its plugin hands Liger one flag for each kernel (`integrations/liger/plugin.py`); without the plugin none is read.
fn liger_modules(imported: &mut ImportedPlan, settings: &Settings) {
    const NAMES: [(&str, &str); 4] = [
        ("liger_rms_norm", "rms_norm"),
        ("liger_rope", "rope"),
        ("liger_glu_activation", "glu"),
        ("liger_swiglu", "glu"),
    ];
    let on: Vec<(&str, Setting<bool>)> =
        NAMES.iter().filter_map(|(name, kernel)| Some((*kernel, settings.on(name)?))).collect();
    // Of text models, those that Liger knows have no layer norms.
    settings.accept("liger_layer_norm");
    let Some((_, first)) = on.first().cloned() else { return };
    let mut kernels: Vec<&str> = on.iter().map(|(kernel, _)| *kernel).collect();
    kernels.dedup();
    imported.set(keys::training::liger_kernels, Some(first.map(|_| kernels)));
}

fn loss(imported: &mut ImportedPlan, settings: &Settings) {
    let on = |name: &str| settings.on(name);
    let fused = ["liger_fused_linear_cross_entropy", "cut_cross_entropy", "unsloth_cross_entropy_loss"]
        .iter()
        .find_map(|name| on(name));
    let plugin =
        settings.texts("plugins").filter(|found| found.value.iter().any(|name| name.contains("CutCrossEntropy")));
    let fused = fused.or(plugin.map(|found| found.map(|_| true)));
    let chunked = on("chunked_cross_entropy");
    let word = fused.map(|found| found.map(|_| "fused")).or(chunked.map(|found| found.map(|_| "chunked")));
    imported.set(keys::training::loss, word);
}
