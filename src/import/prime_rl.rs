//! prime-rl: `rl @ rl.toml`, `sft @ sft.toml`, `trainer @ train.toml` (`PrimeIntellect-ai/prime-rl`,
//! `src/prime_rl/configs/{rl,sft,trainer}.py` to May 2026 and `packages/prime-rl-configs` of August 2026,
//! `src/prime_rl/trainer/model.py` and `optim.py`).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::{Program, World};
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::unread::account_for;
use super::{adapters, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "prime-rl of 2026";

/// Names that releases up to May 2026 have alone: `rollouts_per_example` became `group_size` (its change 2599),
/// `trainer_gpu_ids` a section `deployment`, `orchestrator.env` a list below `train` (2193).
const OLDER: [&str; 4] =
    ["orchestrator.rollouts_per_example", "trainer_gpu_ids", "inference_gpu_ids", "data.pack_function"];

/// `LoRAConfig.target_modules`, of which a model without experts has these.
const ADAPTED: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// What else stands in its files: who generates, judges, stores and reports.
const BESIDE: [&str; 13] = [
    "orchestrator.",
    "inference.",
    "wandb.",
    "monitors.",
    "ckpt.",
    "log.",
    "eval.",
    "val.",
    "slurm.",
    "scheduler.",
    "loss.",
    "weight_broadcast.",
    "tokenizer.",
];

/// How the trainer's settings are called in a file, and what it trains.
struct TrainerSection<'a> {
    settings: &'a Settings,
    /// `trainer.` in a file of the whole, nothing in one of its own.
    prefix: &'static str,
}

impl TrainerSection<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn text(&self, name: &str) -> Option<Setting<String>> {
        self.settings.text(&self.name(name))
    }

    fn whole(&self, name: &str) -> Option<Setting<u64>> {
        self.settings.whole(&self.name(name))
    }

    fn flag(&self, name: &str) -> Option<Setting<bool>> {
        self.settings.flag(&self.name(name))
    }

    fn holds(&self, name: &str) -> bool {
        self.settings.holds(&self.name(name))
    }

    /// A section's first setting, where it is there.
    fn section(&self, name: &str) -> Option<Origin> {
        let whole = self.name(name);
        let below = format!("{whole}.");
        let own = |(found, _): &(&str, &Setting<_>)| *found == whole || found.starts_with(&below);
        self.settings.iter().find(own).map(|(_, found)| found.origin.clone())
    }
}

/// Whether settings are those of a file of prime-rl.
pub fn is_config(settings: &Settings) -> bool {
    let named = settings.holds("model.name") || settings.holds("trainer.model.name");
    let whole = settings.holds("orchestrator") && (settings.holds("trainer") || settings.holds("inference"));
    let toml = |origin: &Origin| matches!(origin, Origin::File { name, .. } if name.ends_with(".toml"));
    // `sft.toml` has names that others have too, none of them in TOML.
    let tuned = settings.get("data.name").is_some_and(|found| toml(&found.origin))
        && ["data.seq_len", "data.batch_size"].iter().any(|name| settings.holds(name))
        && settings.holds("optim")
        && !settings.holds("training");
    named && (whole || tuned)
}

/// Whether it is a command of prime-rl's, which takes its settings from a file by `@`.
pub fn is_command(program: &Program) -> bool {
    matches!(program.name(), "rl" | "sft" | "trainer") && program.words.iter().any(|word| word == "@")
}

/// Whether the program is prime-rl's.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let named = is_command(program);
    let own = ["prime_rl/trainer/", "prime_rl.trainer."].iter().any(|part| program.path.contains(part));
    named || own
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("prime-rl");
    let arguments = arguments::read(&context.program.words);
    let mut settings = Settings::default();
    for pair in arguments.words.windows(2) {
        if let [at, path] = pair
            && at == "@"
            && let Some(file) = context.configuration(path, &mut imported)
        {
            settings.over(file);
        }
    }
    // `--trainer @ train.toml` is a section's own file.
    for (name, found) in arguments.options.iter() {
        match arguments.options.texts(name).map(|found| found.value).as_deref() {
            Some([at, path]) if at == "@" => {
                if let Some(file) = context.configuration(path, &mut imported) {
                    settings.adopt_all(&file, |inner| Some(format!("{name}.{inner}")));
                }
            }
            _ => settings.set(name, found.value.clone(), found.origin.clone()),
        }
    }
    let tunes = context.program.name() == "sft" || context.program.path.contains("trainer/sft");
    set(&mut imported, &settings, context, tunes);
    imported
}

/// The plan of such a file.
pub fn of_file(settings: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("prime-rl");
    let tunes = !settings.holds("orchestrator");
    set(&mut imported, &settings, context, tunes);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, tunes: bool) {
    let prefix = if settings.holds("trainer") || settings.holds("orchestrator") { "trainer." } else { "" };
    let trainer = &TrainerSection { settings, prefix };
    imported.say(keys::model::framework, "pytorch", Origin::Program("prime-rl's own keys".to_owned()));
    match trainer.text("model.name").or_else(|| settings.text("model.name")) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no model.name"),
    }
    world(imported, settings, tunes);
    if tunes {
        batches(imported, settings);
    } else {
        rollouts(imported, trainer);
    }
    weights(imported, trainer);
    by_release(imported, trainer, tunes);
    parallel(imported, trainer);
    optimizer(imported, trainer);
    low_rank(imported, trainer);
    for (name, _) in settings.iter() {
        let own = name.strip_prefix("trainer.").unwrap_or(name);
        if BESIDE.iter().any(|part| own.starts_with(part)) {
            settings.accept(name);
        }
    }
    account_for(imported, settings);
}

/// The GPUs that train; whoever generates has others.
fn world(imported: &mut ImportedPlan, settings: &Settings, tunes: bool) {
    let several = settings.text("deployment.type").is_some_and(|found| found.value == "multi_node");
    let world = if several {
        let eight = || Setting::new(8, default("deployment.gpus_per_node 8"));
        let per_node = settings.whole("deployment.gpus_per_node").unwrap_or_else(eight);
        World { total: None, nodes: settings.whole("deployment.num_train_nodes"), per_node: Some(per_node) }.completed()
    } else {
        let listed = settings.get("trainer_gpu_ids").and_then(|found| {
            let count = found.value.as_array()?.len() as u64;
            Some(Setting::new(count, found.origin.clone()))
        });
        // `rl` has one GPU train where nobody says more (`SingleNodeDeploymentConfig`, `trainer_gpu_ids` before it).
        let one = || (!tunes).then(|| Setting::new(1, default("deployment.num_train_gpus 1")));
        settings.accept("trainer_gpu_ids");
        match settings.whole("deployment.num_train_gpus").or(listed).or_else(one) {
            Some(count) => World::here(count.value, count.origin),
            None => return,
        }
    };
    for name in [
        "inference_gpu_ids",
        "teacher_gpu_ids",
        "deployment.num_infer_gpus",
        "deployment.num_infer_nodes",
        "deployment.num_infer_replicas",
    ] {
        settings.accept(name);
    }
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "deployment.num_train_nodes is no number");
}

/// `BaseDataConfig`: a batch of all ranks together, its samples packed to `seq_len`.
fn batches(imported: &mut ImportedPlan, settings: &Settings) {
    let usual = |count, option: &str| Setting::new(count, default(option));
    let length = settings.whole("data.seq_len").unwrap_or_else(|| usual(128, "data.seq_len 128"));
    imported.set(keys::model::sequence_length, Some(length));
    let batch = settings.whole("data.batch_size").unwrap_or_else(|| usual(128, "data.batch_size 128"));
    imported.set(keys::model::batch_size, Some(batch));
    let micro = settings.whole("data.micro_batch_size").unwrap_or_else(|| usual(1, "data.micro_batch_size 1"));
    imported.set(keys::training::micro_batch_size, Some(micro));
}

/// Answers are packed into rows of `seq_len`, one of which goes through at a time (`trainer/batch.py`).
fn rollouts(imported: &mut ImportedPlan, trainer: &TrainerSection) {
    let settings = trainer.settings;
    let usual = || Setting::new(2048, default("model.seq_len 2048"));
    let length = trainer
        .whole("model.seq_len")
        .or_else(|| settings.first_whole(&["seq_len", "orchestrator.seq_len"]))
        .unwrap_or_else(usual);
    imported.set(keys::model::sequence_length, Some(length));
    imported.say(keys::training::micro_batch_size, 1_u64, default("one packed row at a time"));
    let why = "answers are packed: how many rows a step has follows from their lengths";
    imported.miss(keys::model::batch_size, why);
    imported.miss(keys::training::gradient_accumulation_steps, why);
    imported.note("answers are generated on other GPUs: those are not counted");
}

/// Weights lie as `optimization_dtype` says, FSDP2 computes in bf16 and reduces in `reduce_dtype` (`setup_fsdp`).
fn weights(imported: &mut ImportedPlan, trainer: &TrainerSection) {
    let usual = |option: &str| Setting::new("float32".to_owned(), default(option));
    let stored = trainer.text("model.optimization_dtype").unwrap_or_else(|| usual("optimization_dtype float32"));
    match stored.value.as_str() {
        "float32" => imported.say(keys::training::precision, "bf16-mixed", stored.origin),
        "bfloat16" => imported.say(keys::training::precision, "bf16", stored.origin),
        _ => trainer.settings.refuse(&trainer.name("model.optimization_dtype")),
    }
    let reduced = trainer.text("model.reduce_dtype").unwrap_or_else(|| usual("reduce_dtype float32"));
    match reduced.value.as_str() {
        "float32" => imported.say(keys::distribution::reduce_dtype, "fp32", reduced.origin),
        "bfloat16" => imported.say(keys::distribution::reduce_dtype, "bf16", reduced.origin),
        _ => trainer.settings.refuse(&trainer.name("model.reduce_dtype")),
    }
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    let usual = || Setting::new(true, default("reshard_after_forward"));
    let reshard = trainer.flag("model.reshard_after_forward").unwrap_or_else(usual);
    imported.set(keys::distribution::sharding, Some(reshard.map(|on| if on { "zero3" } else { "zero2" })));
    let words = [("sdpa", "sdpa"), ("eager", "eager")];
    let attention = trainer.text("model.attn").map_or_else(
        || Setting::new("flash", default("model.attn")),
        |found| found.map(|name| words.iter().find(|(theirs, _)| *theirs == name).map_or("flash", |(_, word)| word)),
    );
    imported.set(keys::training::attention, Some(attention));
}

/// Checkpointing, compiling and states on the host became usual in June 2026 (its change 2868): a file that says nothing
/// of them means the one or the other, which its other names may tell.
fn by_release(imported: &mut ImportedPlan, trainer: &TrainerSection, tunes: bool) {
    let older = OLDER.iter().any(|name| trainer.settings.holds(name));
    let open = "on since June 2026, off before: neither the file nor its names tell which";
    // Its own layers are what `auto` takes where it has some; experts chosen while generating are chosen again.
    if trainer.text("model.impl").is_some_and(|found| matches!(found.value.as_str(), "custom" | "auto")) {
        trainer.settings.accept(&trainer.name("model.impl"));
    }
    trainer.settings.accept(&trainer.name("enable_router_replay"));
    let parts = trainer.whole("model.fused_lm_head_token_chunk_size").filter(|found| found.value > 0);
    imported.set(keys::training::loss, parts.map(|found| found.map(|_| "chunked")));
    // `sft` refused a head in parts until its loss became that of `rl` (its change 3044).
    if !(tunes && older) {
        imported.miss(keys::training::loss, "whether the head is taken in parts differs by release");
    }
    match trainer.section("model.ac").or_else(|| trainer.section("model.ac_offloading")) {
        Some(origin) => {
            let all = trainer.whole("model.ac.freq").is_none_or(|found| found.value == 1);
            let full = trainer.text("model.ac.mode").is_none_or(|found| found.value == "full");
            if all && full {
                imported.say(keys::training::activation_checkpointing, "full", origin);
            } else {
                imported.miss(keys::training::activation_checkpointing, format!("{origin}: a part of the layers"));
            }
        }
        None if older => imported.say(keys::training::activation_checkpointing, "none", default("no model.ac")),
        None => imported.miss(keys::training::activation_checkpointing, format!("no model.ac: {open}")),
    }
    if let Some(origin) = trainer.section("model.ac_offloading") {
        not_modelled(imported, &format!("{origin}: activations on the host"));
    }
    match trainer.section("model.compile") {
        Some(origin) => imported.say(keys::training::compile, true, origin),
        None if older => {}
        None => imported.miss(keys::training::compile, format!("no model.compile: {open}")),
    }
    let whole = trainer.flag("model.fsdp_cpu_offload").filter(|found| found.value);
    let states = trainer.flag("model.optim_cpu_offload");
    if let Some(found) = whole {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "parameters")));
    } else if let Some(found) = states {
        imported.set(keys::training::cpu_offload, found.value.then(|| found.map(|_| "optimizer")));
    } else if !older {
        imported.miss(keys::training::cpu_offload, format!("no model.optim_cpu_offload: {open}"));
    }
    if let Some(origin) = trainer.section("model.full_offload") {
        not_modelled(imported, &format!("{origin}: masters and gradients on the host"));
    }
}

fn parallel(imported: &mut ImportedPlan, trainer: &TrainerSection) {
    let several = |name: &str| trainer.whole(name).filter(|found| found.value > 1);
    let context = several("model.cp");
    let ulysses = trainer.text("model.cp_style").is_some_and(|found| found.value == "ulysses");
    if context.is_some() && ulysses {
        imported.say(keys::distribution::cp_comm, "a2a", Origin::Argument(trainer.name("model.cp_style")));
    }
    imported.set(keys::distribution::context_parallel, context);
    imported.set(keys::distribution::expert_parallel, several("model.ep"));
    let total = imported.whole(keys::cluster::num_gpus);
    if let (Some(copies), Some(total)) = (several("model.dp_replicate"), total)
        && total.is_multiple_of(copies.value)
    {
        imported.set(keys::distribution::shard_group, Some(copies.map(|copies| total / copies)));
    }
}

/// `torch.optim.AdamW` without `fused` (`_create_optimizer`).
fn optimizer(imported: &mut ImportedPlan, trainer: &TrainerSection) {
    let kind =
        trainer.text("optim.type").unwrap_or_else(|| Setting::new("adamw".to_owned(), default("optim.type adamw")));
    match kind.value.as_str() {
        "adamw" | "muon" | "sgd" => imported.set(keys::training::optimizer, Some(kind)),
        _ => {
            imported.miss(keys::training::optimizer, format!("{} has no word in a plan", kind.value));
            not_modelled(imported, &format!("{}: its states", kind.origin));
        }
    }
    let number = |name: &str, usual: f64| {
        let found = trainer.settings.number(&trainer.name(name));
        found.unwrap_or_else(|| Setting::new(usual, default(&format!("{name} {usual}"))))
    };
    imported.set(keys::training::weight_decay, Some(number("optim.weight_decay", 0.01)));
    imported.set(keys::training::gradient_clipping, Some(number("optim.max_norm", 1.0).map(|norm| norm > 0.0)));
}

fn low_rank(imported: &mut ImportedPlan, trainer: &TrainerSection) {
    if !trainer.holds("model.lora") {
        return;
    }
    let usual = || Setting::new(16, default("lora.rank 16"));
    adapters::set(imported, Some(trainer.whole("model.lora.rank").unwrap_or_else(usual)), (VERSION, 16), None);
    let told = trainer.settings.texts(&trainer.name("model.lora.target_modules"));
    let usual = || Setting::new(ADAPTED.map(str::to_owned).to_vec(), default("lora.target_modules"));
    adapters::set_targets(imported, Some(told.unwrap_or_else(usual)));
    let dropout = trainer.settings.number(&trainer.name("model.lora.dropout"));
    imported.set(keys::lora::dropout, dropout.or_else(|| Some(Setting::new(0.0, default("lora.dropout 0")))));
    trainer.settings.accept(&trainer.name("model.lora.alpha"));
    let saved = trainer.settings.texts(&trainer.name("model.lora.modules_to_save"));
    if let Some(found) = saved.filter(|found| !found.value.is_empty()) {
        not_modelled(imported, &format!("{}: modules that are trained whole", found.origin));
    }
}
