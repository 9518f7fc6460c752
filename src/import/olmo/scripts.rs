//! OLMo-core's scripts: programs that make their configuration by calls (`src/scripts/official`, `src/scripts/train`,
//! `src/olmo_core/internal/cookbook.py` at fa6c5014).

use crate::common::{self, ImportContext};
use crate::imported::ImportedPlan;
use crate::model;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::python::ScriptReader;
use crate::python_calls::call;
use crate::rows::not_modelled;
use crate::settings::Settings;
use crate::unread::account_for_call;

/// Models of `TransformerConfig` that are published: their own names.
const MODELS: [(&str, &str); 16] = [
    ("olmo2_1B_v2", "allenai/OLMo-2-0425-1B"),
    ("olmo2_7B", "allenai/OLMo-2-1124-7B"),
    ("olmo2_13B", "allenai/OLMo-2-1124-13B"),
    ("olmo2_32B", "allenai/OLMo-2-0325-32B"),
    ("olmo3_7B", "allenai/Olmo-3-1025-7B"),
    ("olmo3_32B", "allenai/Olmo-3-1125-32B"),
    ("llama2_7B", "meta-llama/Llama-2-7b-hf"),
    ("llama2_13B", "meta-llama/Llama-2-13b-hf"),
    ("llama2_70B", "meta-llama/Llama-2-70b-hf"),
    ("llama3_8B", "meta-llama/Meta-Llama-3-8B"),
    ("llama3_70B", "meta-llama/Meta-Llama-3-70B"),
    ("qwen3_0_6B", "Qwen/Qwen3-0.6B"),
    ("qwen3_1_7B", "Qwen/Qwen3-1.7B"),
    ("qwen3_4B", "Qwen/Qwen3-4B"),
    ("qwen3_8B", "Qwen/Qwen3-8B"),
    ("qwen3_32B", "Qwen/Qwen3-32B"),
];

/// Names of a script's own for the length of its samples, which the command may go over.
const LENGTHS: [&str; 5] =
    ["DEFAULT_SEQUENCE_LENGTH", "SEQUENCE_LENGTH", "SEQ_LENGTH", "SEQ_LEN", "MAX_SEQUENCE_LENGTH"];

/// The name of a script's own for the tokens of a step.
const TOKENS: &str = "GLOBAL_BATCH_SIZE";

/// The calls that say how the model is trained: the configuration's own, and the cookbook's.
const OWN: &str = "TransformerTrainModuleConfig";
const COOKBOOK: &str = "configure_train_module";

/// What these calls are given that is read here or changes nothing that is held.
const KNOWN: [(&[&str], &[&str]); 5] = [
    (
        &[OWN, COOKBOOK],
        &[
            "rank_microbatch_size",
            "max_sequence_length",
            "optim",
            "compile_model",
            "dp_config",
            "ac_config",
            "cp_config",
            "z_loss_multiplier",
            "max_grad_norm",
            "scheduler",
            "activation_memory_budget",
            "dp_shard_degree",
            "label_ignore_index",
        ],
    ),
    (
        &["TransformerDataParallelConfig"],
        &["name", "param_dtype", "reduce_dtype", "shard_degree", "num_replicas", "wrapping_strategy"],
    ),
    (&["TransformerActivationCheckpointingConfig"], &["mode", "block_interval", "modules"]),
    (&["Float8Config"], &["enabled", "ao", "ao_mx", "ao_recipe", "modules_to_ignore"]),
    (
        &["SkipStepAdamWConfig", "AdamWConfig"],
        &["lr", "weight_decay", "betas", "eps", "foreach", "group_overrides", "fused", "step_increment_bugfix"],
    ),
];

/// Whether a script makes such a configuration.
pub fn is_script(content: &str) -> bool {
    let trains = [OWN, COOKBOOK].iter().any(|name| content.contains(&format!("{name}(")));
    trains && content.contains("from olmo_core.") && content.contains("TransformerConfig.")
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: "OLMo-core 2", option: option.to_owned() }
}

/// The plan of such a script.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("OLMo-core");
    let reader = ScriptReader::new(name, content, Settings::default());
    imported.say(keys::model::framework, "torchtitan", Origin::Program("OLMo-core's own calls".to_owned()));
    trained_model(&mut imported, content, context);
    let cookbook = call(content, OWN).is_none();
    let module = reader.calls(&[if cookbook { COOKBOOK } else { OWN }]);
    lengths(&mut imported, &reader, &module);
    let weight_decay = reader.calls(&["SkipStepAdamWConfig", "AdamWConfig"]);
    optimizer(&mut imported, &weight_decay, content, cookbook);
    let norm = module.number("max_grad_norm").map(|found| found.map(|norm| norm > 0.0));
    imported.set(
        keys::training::gradient_clipping,
        Some(norm.unwrap_or_else(|| Setting::new(cookbook, default("max_grad_norm")))),
    );
    recomputation(&mut imported, &reader, &module, content, cookbook);
    sharding(&mut imported, &reader, &module, content, cookbook);
    context_parallel(&mut imported, content, &reader);
    // `olmo_core/nn/attention/__init__.py`: PyTorch's, unless a backend is named or layers have windows (Olmo 3).
    let flash =
        ["flash_2", "flash_3", "use_flash=True", "TransformerConfig.olmo3_"].iter().any(|word| content.contains(word));
    imported.say(keys::training::attention, if flash { "flash" } else { "sdpa" }, default("attn_backend"));
    let compiled = module.flag("compile_model");
    imported.set(
        keys::training::compile,
        Some(compiled.unwrap_or_else(|| Setting::new(cookbook, default("compile_model")))),
    );
    imported.note("OLMo-core's blocks are counted as torchtitan's: PyTorch's own, under FSDP2");
    let eight = reader.calls(&["Float8Config"]).flag("enabled");
    for (calls, known) in KNOWN {
        let off = eight.as_ref().is_some_and(|found| !found.value).then_some("float8_config");
        let known: Vec<&str> = known.iter().copied().chain(off).collect();
        account_for_call(&mut imported, &reader.calls(calls), &known);
    }
    let launch = reader.calls(&["build_launch_config"]);
    if let Some(nodes) = launch.whole("num_nodes") {
        let per_node = Setting::new(8, default("build_launch_config: 8 GPUs a node"));
        let origin = Origin::Derived(format!("{} x 8 GPUs a node", nodes.origin));
        imported.say(keys::cluster::num_gpus, nodes.value.saturating_mul(8), origin);
        imported.set(keys::cluster::nodes, Some(nodes));
        imported.set(keys::cluster::gpus_per_node, Some(per_node));
    }
    imported.note("its arguments are taken at their defaults: import the command that starts it, where it gives some");
    imported
}

/// The model by the name of what makes it; one that is changed behind that is another.
fn trained_model(imported: &mut ImportedPlan, content: &str, context: &ImportContext) {
    let made = content.split("TransformerConfig.").skip(1).find_map(|rest| {
        let (factory, _) = rest.split_once('(')?;
        factory.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_').then_some(factory)
    });
    let Some(factory) = made else {
        return imported.miss(keys::model::preset, "what makes the model is not followed");
    };
    let changed = [
        "GatedDeltaNet",
        "block_pattern",
        ".d_model",
        ".n_layers",
        "n_layers=",
        "block_overrides",
        "d_model=",
        ".n_heads",
    ];
    if let Some(word) = changed.iter().find(|word| content.contains(**word)) {
        return imported.miss(keys::model::preset, format!("TransformerConfig.{factory}, of which {word} is changed"));
    }
    match MODELS.iter().find(|(known, _)| *known == factory) {
        Some((_, published)) => {
            let origin = Origin::Program(format!("TransformerConfig.{factory}"));
            model::set(imported, context, Setting::new((*published).to_owned(), origin));
            // A shape of others with the words of whatever tokenizer the script has (`TokenizerConfig.dolma2`).
            if !published.starts_with("allenai/") && content.contains("padded_vocab_size()") {
                not_modelled(
                    imported,
                    &format!("TransformerConfig.{factory}: the tokenizer's words; {published}'s are counted"),
                );
            }
        }
        None if sized(imported, factory, content) => {}
        None => imported.miss(keys::model::preset, format!("TransformerConfig.{factory} is not in the catalogue")),
    }
}

/// OLMo 2's own small models, which nobody published (`src/olmo_core/nn/transformer/config.py`, `olmo2_*` and `llama_like`):
/// width, layers and heads.
const SIZES: [(&str, u64, u64, u64); 8] = [
    ("olmo2_60M", 384, 8, 8),
    ("olmo2_100M", 512, 12, 8),
    ("olmo2_190M", 768, 12, 12),
    ("olmo2_370M", 1024, 16, 16),
    ("olmo2_600M", 1344, 16, 16),
    ("olmo2_760M", 1536, 16, 16),
    ("olmo2_1B", 2048, 18, 16),
    ("olmo2_3B", 3328, 16, 16),
];

/// The words of `TokenizerConfig.dolma2` in whole 128s (`src/olmo_core/data/tokenizer.py`).
const WORDS: u64 = 100_352;

/// The sizes of such a model, where the script has the tokenizer that they are trained with.
fn sized(imported: &mut ImportedPlan, factory: &str, content: &str) -> bool {
    let Some((_, width, layers, heads)) = SIZES.iter().find(|(name, ..)| *name == factory).copied() else {
        return false;
    };
    if !content.contains("TokenizerConfig.dolma2()") || !content.contains("padded_vocab_size()") {
        return false;
    }
    // `int(1.5 * int(8 * d_model / 3))` in whole 256s.
    let inner = (8 * width / 3 * 3 / 2).next_multiple_of(256);
    let config = serde_json::json!({
        "model_type": "olmo2",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": inner,
        "vocab_size": WORDS,
        "tie_word_embeddings": false,
    });
    imported.say(keys::model::hf_config, config, Origin::Program(format!("TransformerConfig.{factory}")));
    true
}

/// Lengths and batches, which are counted in tokens.
fn lengths(imported: &mut ImportedPlan, reader: &ScriptReader, module: &Settings) {
    let data = reader.calls(&[
        "NumpyFSLDatasetConfig",
        "NumpyPackedFSLDatasetConfig",
        "NumpyFSLDatasetConfig.from_data_mix",
        "NumpyFSLDatasetConfig.from_src_mix",
    ]);
    let named = reader.named(&LENGTHS);
    let constant = LENGTHS.iter().find_map(|name| named.whole(name));
    let length = module.whole("max_sequence_length").or_else(|| data.whole("sequence_length")).or(constant);
    imported.set(keys::model::sequence_length, length.clone());
    imported.miss(keys::model::sequence_length, "max_sequence_length is not followed");
    let loader = reader.calls(&["NumpyDataLoaderConfig"]);
    // `partial(build_config, global_batch_size=GLOBAL_BATCH_SIZE, …)` (`src/olmo_core/internal/experiment.py`).
    let tokens = loader.whole("global_batch_size").or_else(|| reader.named(&[TOKENS]).whole(TOKENS));
    let samples = in_samples(reader.content()).zip(length.clone());
    if doubled(reader.content()) && samples.is_some() {
        imported
            .note("rank_microbatch_size: the script doubles it where its clusters have B200 alone, which is not taken");
    }
    let micro = samples.map(|(samples, length)| {
        let origin = Origin::Program(format!("rank_microbatch_size of {samples} x max_sequence_length"));
        Setting::new(samples.saturating_mul(length.value), origin)
    });
    let parts = [
        (keys::model::batch_size, tokens),
        (keys::training::micro_batch_size, module.whole("rank_microbatch_size").or(micro)),
    ];
    for (key, tokens) in parts {
        let samples = tokens.zip(length.clone()).and_then(|(tokens, length)| {
            let whole = length.value > 0 && tokens.value.is_multiple_of(length.value);
            whole.then(|| tokens.map(|tokens| tokens / length.value))
        });
        imported.set(key, samples);
        imported.miss(key, "how many tokens it holds is not followed, or they are no whole samples");
    }
}

/// Samples of a rank's micro batch, written as `2 * common.max_sequence_length` or by the script's own name of the length.
fn in_samples(content: &str) -> Option<u64> {
    let mut given = content.split("rank_microbatch_size=").skip(1).map(|rest| rest.split([',', '\n', '#']).next());
    let mut text = given.next()??.trim();
    // A name that is given a value once.
    if text == "rank_microbatch_size" {
        let mut values = content.lines().filter_map(|line| line.trim().strip_prefix("rank_microbatch_size = "));
        text = values.next().filter(|_| values.next().is_none())?.trim();
    }
    let is_length = |text: &str| {
        matches!(text.trim(), "common.max_sequence_length" | "sequence_length") || LENGTHS.contains(&text.trim())
    };
    match text.split_once('*') {
        None => is_length(text).then_some(1),
        Some((samples, of)) if is_length(of) => samples.trim().parse().ok(),
        Some((of, samples)) if is_length(of) => samples.trim().parse().ok(),
        Some(_) => None,
    }
}

/// Whether a script doubles that name under a condition on its clusters: `all("B200" in g for g in gpus)`.
fn doubled(content: &str) -> bool {
    let mut lines = content.lines().map(str::trim);
    lines.any(|line| line.starts_with("if all(\"B200\" in")) && lines.next() == Some("rank_microbatch_size *= 2")
}

/// AdamW by the tensor or by lists (`olmo_core/optim/adamw.py`).
fn optimizer(imported: &mut ImportedPlan, given: &Settings, content: &str, cookbook: bool) {
    let made = cookbook || call(content, "SkipStepAdamWConfig").is_some() || call(content, "AdamWConfig").is_some();
    if !made {
        return imported.miss(keys::training::optimizer, "the optimizer that the script makes has no word in a plan");
    }
    let alone = given.flag("foreach").filter(|found| !found.value).map(|found| found.map(|_| "adamw-loop"));
    // PyTorch's own class can be fused; the one that skips steps cannot.
    let fused = given.on("fused").map(|found| found.map(|_| "adamw-fused"));
    let usual = || Setting::new("adamw", default("SkipStepAdamWConfig: foreach"));
    imported.set(keys::training::optimizer, Some(fused.or(alone).unwrap_or_else(usual)));
    common::say_foreach(imported);
    let decay = given.number("weight_decay").filter(|found| (0.0..=1.0).contains(&found.value));
    let decay =
        decay.or_else(|| cookbook.then(|| Setting::new(0.1, default("configure_train_module: weight_decay 0.1"))));
    imported.set(keys::training::weight_decay, decay);
}

fn recomputation(imported: &mut ImportedPlan, reader: &ScriptReader, module: &Settings, content: &str, cookbook: bool) {
    let key = keys::training::activation_checkpointing;
    let budget = module.number("activation_memory_budget").filter(|found| cookbook && found.value < 1.0);
    let mode = content.split("TransformerActivationCheckpointingMode.").nth(1);
    let mode: String =
        mode.unwrap_or_default().chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect();
    let given = reader.calls(&["TransformerActivationCheckpointingConfig"]);
    match mode.as_str() {
        mode if budget.is_some() || mode == "budget" => {
            not_modelled(imported, "activation_memory_budget: counted as selective-op");
            imported.say(key, "selective-op", default("a budget of activations"));
        }
        "" => imported.say(key, "none", default("no ac_config")),
        "full" => imported.say(key, "full", Origin::Program("TransformerActivationCheckpointingMode.full".to_owned())),
        "selected_blocks" if let Some(every) = given.whole("block_interval") => {
            imported.set(key, Some(every.map(|every| serde_json::json!({ "every": every }))));
        }
        other => imported.miss(key, format!("TransformerActivationCheckpointingMode.{other} has no word in a plan")),
    }
}

/// Ranks that share a sample, over which FSDP shards as well (`olmo_core/distributed/parallel/__init__.py`,
/// `_get_model_mesh`: the last data-parallel dimension takes them in).
fn context_parallel(imported: &mut ImportedPlan, content: &str, reader: &ScriptReader) {
    const MADE: [(&str, &str); 3] = [("llama3", "all_gather"), ("zig_zag", "p2p"), ("ulysses", "a2a")];
    if !content.contains("cp_config=") {
        return;
    }
    let call = |kind: &str| format!("TransformerContextParallelConfig.{kind}");
    let made = MADE.iter().find(|(kind, _)| content.contains(&format!("cp_config={}(", call(kind))));
    let degree = made.and_then(|(kind, exchange)| Some((reader.calls(&[&call(kind)]).whole("degree")?, *exchange)));
    let Some((degree, exchange)) = degree.filter(|(degree, _)| degree.value > 0) else {
        return not_modelled(imported, "cp_config: how many ranks share a sample is not followed");
    };
    imported.say(keys::distribution::cp_comm, exchange, degree.origin.clone());
    if let Some(group) = imported.whole(keys::distribution::shard_group) {
        let origin = Origin::Derived(format!("shard_degree {group} x context parallel {}", degree.value));
        imported.drop(keys::distribution::shard_group);
        imported.say(keys::distribution::shard_group, group.saturating_mul(degree.value), origin);
    }
    imported.set(keys::distribution::context_parallel, Some(degree));
}

/// FSDP2 or HSDP with bf16 beside fp32 shards (`get_replicate_and_shard_degree`: a replica a node unless it is said).
fn sharding(imported: &mut ImportedPlan, reader: &ScriptReader, module: &Settings, content: &str, cookbook: bool) {
    let given = reader.calls(&["TransformerDataParallelConfig"]);
    let told = content.contains("DataParallelType.");
    let hybrid = cookbook || content.contains("DataParallelType.hsdp");
    if !cookbook && (!told || content.contains("DataParallelType.ddp")) {
        return imported.miss(keys::distribution::sharding, "how the script shards is not followed");
    }
    imported.say(keys::distribution::engine, "fsdp2", default("dp_config"));
    imported.say(keys::distribution::sharding, "zero3", default("dp_config"));
    if cookbook || content.contains("param_dtype=DType.bfloat16") {
        imported.say(keys::training::precision, "bf16-mixed", default("param_dtype bfloat16 beside fp32 shards"));
    } else {
        imported.miss(keys::training::precision, "param_dtype is not followed");
    }
    let degree = given.whole("shard_degree").or_else(|| module.whole("dp_shard_degree"));
    match degree {
        Some(degree) if hybrid => imported.set(keys::distribution::shard_group, Some(degree)),
        None if hybrid && content.contains("num_replicas=") => {
            imported.miss(keys::distribution::shard_group, "num_replicas follows from the number of GPUs");
        }
        None if hybrid => imported.say(keys::distribution::shard_group, 8, default("a replica a node, of 8 GPUs")),
        _ => {}
    }
}
