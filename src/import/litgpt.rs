//! litgpt: `litgpt pretrain|finetune…`, its YAML and arguments (`litgpt/args.py` and the commands'
//! own at 26857050).

use serde_json::Value;

use super::adapters;
use super::arguments;
use super::axolotl::self_launched;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::{World, base};
use super::litgpt_shape;
use super::model;
use super::origin::{Origin, Setting};
use super::preset_length;
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "litgpt 0.5";

/// What every command has where nothing is said.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    // get_default_supported_precision(training=True)
    ("precision", DefaultValue::Text("bf16-mixed")),
    ("num_nodes", DefaultValue::Whole(1)),
];

/// Whether the program is litgpt.
pub fn runs(context: &ImportContext) -> bool {
    const TRAINING: [&str; 3] = ["pretrain", "finetune", "finetune_"];
    let program = context.program;
    let command = program.words.first().map_or("", String::as_str);
    let by_name = matches!(program.name(), "litgpt" | "litgpt.__main__");
    // Its own scripts, before there was a command: `litgpt/finetune/lora.py`.
    let script = ["litgpt/finetune/", "litgpt/pretrain", "litgpt.finetune.", "litgpt.pretrain"];
    by_name && TRAINING.iter().any(|name| command.starts_with(name))
        || script.iter().any(|part| program.path.contains(part))
}

/// Whether settings are litgpt's.
pub fn is_config(settings: &Settings) -> bool {
    const OWN: [&str; 6] =
        ["checkpoint_dir", "model_name", "out_dir", "tokenizer_dir", "train.save_interval", "train.lr_warmup_steps"];
    let batches = settings.holds("train.micro_batch_size") && settings.holds("train.global_batch_size");
    batches && !settings.holds("train.train_iters") && OWN.iter().any(|name| settings.holds(name))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("litgpt");
    let given = arguments::read(&context.program.words);
    let mut words = given.words.iter();
    let command = words.next().cloned().unwrap_or_else(|| context.program.name().to_owned());
    let mut settings = defaults(&command);
    if let Some(file) = given.options.text("config").and_then(|path| context.configuration(&path.value, &mut imported))
    {
        settings.over(file);
    }
    if let Some(name) = words.next() {
        let key = if command.starts_with("pretrain") { "model_name" } else { "checkpoint_dir" };
        settings.set(key, name.clone().into(), Origin::Argument(command.clone()));
    }
    settings.over(given.options);
    imported.say(keys::model::framework, "litgpt", Origin::Program(context.program.shown()));
    devices(&mut imported, &settings, context);
    set(&mut imported, &settings, context, &command);
    account_for(&mut imported, &settings);
    imported
}

/// The plan of a file alone: what it does its keys tell.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("litgpt");
    imported.say(keys::model::framework, "litgpt", Origin::Program("litgpt's own keys".to_owned()));
    let command = if file.holds("model_name") {
        "pretrain"
    } else if file.holds("lora_r") {
        "finetune_lora"
    } else {
        "finetune_full"
    };
    let settings = defaults(command).with(file);
    devices(&mut imported, &settings, context);
    set(&mut imported, &settings, context, command);
    account_for(&mut imported, &settings);
    imported
}

fn defaults(command: &str) -> Settings {
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    let pretraining = command.starts_with("pretrain");
    let (micro, batch) = if pretraining { (4, 512) } else { (1, 16) };
    let more: [(&str, DefaultValue); 2] = [
        ("train.micro_batch_size", DefaultValue::Whole(micro)),
        ("train.global_batch_size", DefaultValue::Whole(batch)),
    ];
    settings.over(Settings::defaults(VERSION, &more));
    if pretraining {
        settings.over(Settings::defaults(VERSION, &[("devices", DefaultValue::Text("auto"))]));
    } else {
        settings.over(Settings::defaults(
            VERSION,
            &[("devices", DefaultValue::Whole(1)), ("lora_r", DefaultValue::Whole(8))],
        ));
    }
    settings
}

/// Lightning starts its own processes: as many as `devices` says.
fn devices(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    if context.world.total.is_some() {
        return;
    }
    match settings.whole("devices") {
        Some(per_node) => {
            let world = World { total: None, nodes: settings.whole("num_nodes"), per_node: Some(per_node) }.completed();
            imported.set(keys::cluster::num_gpus, world.total);
            imported.set(keys::cluster::nodes, world.nodes);
            imported.set(keys::cluster::gpus_per_node, world.per_node);
        }
        None => self_launched(imported, context, "devices auto: every GPU in sight"),
    }
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, command: &str) {
    // It goes over the name (`litgpt/pretrain.py`, `setup`).
    let spelled = settings.below("model_config");
    match settings.first_text(&["model_name", "checkpoint_dir", "initial_checkpoint_dir"]) {
        _ if command.starts_with("pretrain") && spelled.iter().next().is_some() => {
            settings.accept("model_name");
            litgpt_shape::set(imported, &litgpt_shape::completed(spelled));
        }
        Some(found) => set_model(imported, context, found),
        None => imported.miss(keys::model::preset, "neither a model nor a checkpoint is named"),
    }
    // Fine-tuning goes by its longest sample.
    let own = || {
        let origin = Origin::Default { framework: VERSION, option: "max_seq_length: the model's".to_owned() };
        preset_length::longest(imported, context)
            .filter(|_| command == "pretrain")
            .map(|tokens| Setting::new(tokens, origin))
    };
    let length = settings.whole("train.max_seq_length").or_else(own);
    imported.set(keys::model::sequence_length, length);
    imported.set(keys::model::batch_size, settings.whole("train.global_batch_size"));
    imported.set(keys::training::micro_batch_size, settings.whole("train.micro_batch_size"));
    // Of all devices (`litgpt/pretrain.py`, `main`: `train.max_tokens // fabric.world_size`).
    if command.starts_with("pretrain") {
        imported.set(keys::run::total_tokens, settings.whole("train.max_tokens"));
    }
    imported.set(keys::training::precision, settings.text("precision").and_then(precision));
    set_optimizer(imported, settings, command);
    let lora = command.contains("lora") || command == "finetune";
    if lora {
        adapters(imported, settings, gates(imported, context));
    }
    share_out(imported, context, command);
    imported.say(keys::training::compile, command.starts_with("pretrain"), default("torch.compile in pretraining"));
    // Every chunk's logits and log-probabilities stay for its backward pass: in memory it is a loss in one piece.
    imported.say(keys::training::loss, "plain", default("chunked_cross_entropy, which keeps every chunk"));
    head(imported, context, settings.on("train.tie_embeddings"));
}

/// What litgpt does where nothing else is asked of it.
fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set_optimizer(imported: &mut ImportedPlan, settings: &Settings, command: &str) {
    let optimizer = settings.first_text(&["optimizer.class_path", "optimizer"]);
    let usual = || Setting::new("AdamW".to_owned(), default("optimizer AdamW"));
    common::set_optimizer(imported, Some(optimizer.unwrap_or_else(usual)));
    // Pretraining asks PyTorch's AdamW for its fused kernel (`litgpt/pretrain.py`, `main`: `extra_kwargs`).
    let plain = imported.get(keys::training::optimizer).filter(|found| found.value == "adamw").cloned();
    if let Some(found) = plain.filter(|_| command.starts_with("pretrain")) {
        imported.say(keys::training::optimizer, "adamw-fused", found.origin);
    }
    paged(imported, settings);
    imported.set(
        keys::training::weight_decay,
        settings.number("optimizer.init_args.weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
    );
    imported
        .set("training.gradient_clipping", settings.number("train.max_norm").map(|found| found.map(|norm| norm > 0.0)));
}

/// FSDP over several devices, and what of a block fine-tuning recomputes under it.
fn share_out(imported: &mut ImportedPlan, context: &ImportContext, command: &str) {
    let several = imported
        .whole("cluster.num_gpus")
        .or(context.world.total.as_ref().map(|found| found.value))
        .is_none_or(|gpus| gpus > 1);
    if several {
        imported.say(keys::distribution::sharding, "zero3", default("FSDP over several devices"));
        imported.say(keys::distribution::engine, "fsdp1", default("FSDPStrategy"));
    }
    // Pretraining shards within a node (`litgpt/pretrain.py`, `sharding_strategy="HYBRID_SHARD"`).
    let nodes = imported.whole(keys::cluster::nodes).is_some_and(|nodes| nodes > 1);
    if let Some(each) =
        imported.whole(keys::cluster::gpus_per_node).filter(|_| nodes && command.starts_with("pretrain"))
    {
        imported.say(keys::distribution::shard_group, each, default("HYBRID_SHARD"));
    }
    let recomputed = several && !command.starts_with("pretrain");
    imported.say(
        keys::training::activation_checkpointing,
        if recomputed { "full" } else { "none" },
        default("blocks recomputed under FSDP in fine-tuning"),
    );
}

/// Lightning's word for a precision as a plan's.
fn precision(found: Setting<String>) -> Option<Setting<&'static str>> {
    found.and_then(|name| match name.as_str() {
        "bf16-true" => Some("bf16"),
        "16-true" => Some("fp16"),
        "bf16-mixed" => Some("bf16-mixed"),
        "16-mixed" => Some("fp16-mixed"),
        "32-true" => Some("fp32"),
        _ => None,
    })
}

/// litgpt's head is a matrix of its own, whatever the checkpoint has (`litgpt/model.py`, `GPT.__init__`); only
/// `litgpt/pretrain.py` ties it to the embeddings, where it is told to.
fn head(imported: &mut ImportedPlan, context: &ImportContext, tied: Option<Setting<bool>>) {
    const TIED: &str = "tie_word_embeddings";
    if let Some(tied) = tied.as_ref().filter(|_| imported.get(keys::architecture::tie_embeddings).is_some()) {
        return imported.say(keys::architecture::tie_embeddings, true, tied.origin.clone());
    }
    let Some(found) = imported.get(keys::model::preset).cloned() else { return };
    let Some(preset) = found.value.as_str().and_then(|name| context.catalog.model(name)) else { return };
    if preset.hf_config.get(TIED).and_then(Value::as_bool).unwrap_or(false) == tied.is_some() {
        return;
    }
    let mut config = (*preset.hf_config).clone();
    config.insert(TIED.to_owned(), tied.is_some().into());
    let own = format!("{}: {} with a head apart from the embeddings, as litgpt has it", found.origin, preset.name);
    let origin = tied.map_or(own, |tied| format!("{}: {} with {}", found.origin, preset.name, tied.origin));
    imported.drop(keys::model::preset);
    imported.say(keys::model::hf_config, Value::Object(config), Origin::Derived(origin));
}

/// The model by the name of its folder, where the catalogue has it, else by what lies there.
fn set_model(imported: &mut ImportedPlan, context: &ImportContext, found: Setting<String>) {
    let name = hub_name(&found.value);
    let own = || litgpt_shape::of_checkpoint(context, &found.value);
    match own().filter(|_| model::preset(context, &name).is_none()) {
        Some(settings) => litgpt_shape::set(imported, &settings),
        None => model::set(imported, context, found.map(|_| name)),
    }
}

/// Over weights that bitsandbytes quantises litgpt takes its `PagedAdamW`, which keeps its states in fp32
/// (`litgpt/utils.py`: `instantiate_bnb_optimizer`).
fn paged(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.text("quantize").is_none_or(|found| !found.value.starts_with("bnb.")) {
        return;
    }
    let origin = || Origin::Default { framework: VERSION, option: "bitsandbytes' PagedAdamW over bnb.*".to_owned() };
    imported.say(keys::training::optimizer, "adamw-fused", origin());
    imported.say(keys::training::optimizer_state_dtype, "fp32", origin());
    imported.note("bitsandbytes' PagedAdamW may move its states to the host; they are counted on the GPU");
}

/// Whether the model's MLP has a gate: `GptNeoxMLP` has none (`litgpt/config.py`, `mlp_class_name`).
fn gates(imported: &ImportedPlan, context: &ImportContext) -> bool {
    const UNGATED: [&str; 3] = ["gpt_neox", "falcon", "phi"];
    let preset = imported.get(keys::model::preset).and_then(|found| context.catalog.model(found.value.as_str()?));
    let kind = preset.and_then(|preset| preset.hf_config.get("model_type")).and_then(Value::as_str);
    let spelled = imported.get(keys::architecture::activation).and_then(|found| found.value.as_str());
    kind.is_none_or(|kind| !UNGATED.contains(&kind)) && spelled.is_none_or(|activation| activation.ends_with("glu"))
}

fn adapters(imported: &mut ImportedPlan, settings: &Settings, gated: bool) {
    let bits = settings.text("quantize").and_then(|found| {
        found.and_then(|name| if name.contains('4') { Some(4) } else { name.contains('8').then_some(8) })
    });
    adapters::set(imported, settings.whole("lora_r"), (VERSION, 8), bits);
    let parts: [(&str, &[&str], bool); 6] = [
        ("lora_query", &["q_proj"], true),
        ("lora_key", &["k_proj"], false),
        ("lora_value", &["v_proj"], true),
        ("lora_projection", &["o_proj"], false),
        ("lora_mlp", if gated { &["gate_proj", "up_proj", "down_proj"] } else { &["up_proj", "down_proj"] }, false),
        ("lora_head", &["lm_head"], false),
    ];
    let on = |name: &str, usual: bool| settings.flag(name).map_or(usual, |found| found.value);
    let targets: Vec<String> = parts
        .iter()
        .filter(|(name, _, usual)| on(name, *usual))
        .flat_map(|(_, names, _)| names.iter().map(|name| (*name).to_owned()))
        .collect();
    let origin = settings.get("lora_query").map_or_else(
        || Origin::Default { framework: VERSION, option: "lora_query, lora_value".to_owned() },
        |found| found.origin.clone(),
    );
    adapters::set_targets(imported, Some(Setting::new(targets, origin)));
    imported
        .set(keys::lora::dropout, settings.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)));
}

/// `checkpoints/meta-llama/Llama-2-7b-hf`: the hub's name without what stands before it.
fn hub_name(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    base(trimmed).replace("tiny-llama", "tinyllama")
}
