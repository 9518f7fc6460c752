//! nanoGPT: `train.py`, its configuration files of plain assignments, and `--key=value` over
//! both. Defaults: `train.py` and `model.py` at 3adf61e1.

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::model;
use super::nanogpt_copy::{altered, own_context, own_optimizer, own_settings, own_vocabulary};
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings};
use super::text;
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "nanoGPT train.py";

pub const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("gradient_accumulation_steps", DefaultValue::Whole(40)),
    ("batch_size", DefaultValue::Whole(12)),
    ("block_size", DefaultValue::Whole(1024)),
    ("n_layer", DefaultValue::Whole(12)),
    ("n_head", DefaultValue::Whole(12)),
    ("n_embd", DefaultValue::Whole(768)),
    ("dropout", DefaultValue::Number(0.0)),
    ("bias", DefaultValue::Flag(false)),
    ("init_from", DefaultValue::Text("scratch")),
    ("dataset", DefaultValue::Text("openwebtext")),
    ("weight_decay", DefaultValue::Number(0.1)),
    ("grad_clip", DefaultValue::Number(1.0)),
    ("compile", DefaultValue::Flag(true)),
    ("dtype", DefaultValue::Text("bfloat16")),
    ("device", DefaultValue::Text("cuda")),
    ("max_iters", DefaultValue::Whole(600_000)),
];

/// Names that no other framework has together.
const OWN: [&str; 8] = [
    "n_embd",
    "n_layer",
    "n_head",
    "block_size",
    "gradient_accumulation_steps",
    "eval_interval",
    "max_iters",
    "init_from",
];

/// Whether the program is nanoGPT's `train.py`.
pub fn runs(context: &ImportContext) -> bool {
    let words = &context.program.words;
    let script = context.program.name();
    if script != "train.py" && script != "bench.py" {
        return false;
    }
    // Its configurator takes `--key=value` and file names, nothing else.
    let configured = words.iter().all(|word| word.ends_with(".py") || (word.starts_with("--") && word.contains('=')));
    if !configured {
        return false;
    }
    let named = words.iter().any(|word| OWN.iter().any(|name| word.starts_with(&format!("--{name}="))));
    let config = words.iter().filter(|word| word.ends_with(".py") && !word.starts_with("--")).any(|word| {
        const OF_NANOGPT: [&str; 6] = [
            "train_gpt2.py",
            "train_shakespeare_char.py",
            "finetune_shakespeare.py",
            "eval_gpt2.py",
            "eval_gpt2_xl.py",
            "eval_gpt2_medium.py",
        ];
        let known = OF_NANOGPT.iter().any(|name| word.rsplit('/').next() == Some(name));
        known || context.run.files.read(word).is_ok_and(|content| is_config(&text::python(word, &content)))
    });
    // karpathy/llama2.c has its configurator and some of its names, and another model.
    let script = context.run.files.read(&context.program.path);
    let is_another = script.is_ok_and(|text| text.contains("configurator.py") && !text.contains("n_embd"));
    (named && !is_another) || config || script_says_so(context)
}

fn script_says_so(context: &ImportContext) -> bool {
    context
        .run
        .files
        .read(&context.program.path)
        .is_ok_and(|text| text.contains("configurator.py") && text.contains("n_embd"))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("nanoGPT");
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    let mut length = None;
    let script = context.run.files.read(&context.program.path).ok().filter(|script| script.contains("n_embd"));
    if let Some(script) = &script {
        let own = text::python(&context.program.path, script);
        length = length_name(script);
        settings.over(known(&by_length(own, length.as_deref())));
        settings.over(own_settings(&context.program.path, script));
    }
    for word in &context.program.words {
        if let Some((name, value)) = word.strip_prefix("--").and_then(|word| word.split_once('=')) {
            let value = text::python_literal(value).unwrap_or_else(|| Value::from(value));
            let mut given = Settings::default();
            given.set(name, value, Origin::Argument(format!("--{name}")));
            settings.over(by_length(given, length.as_deref()));
        } else {
            match context.run.files.read(word) {
                Ok(file) => settings.over(by_length(text::python(word, &file), length.as_deref())),
                Err(why) => imported.note(format!("not read: {why}")),
            }
        }
    }
    imported.say(keys::model::framework, "nanogpt", Origin::Program(context.program.shown()));
    set(&mut imported, &settings, context);
    if let Some(script) = &script {
        own_optimizer(&mut imported, &context.program.path, script, &settings);
        own_context(&mut imported, &context.program.path, script);
        own_vocabulary(&mut imported, &context.program.path, script);
    }
    let folder = context.program.path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    altered(&mut imported, &format!("{folder}{MODEL}"), context);
    account_for(&mut imported, &settings);
    imported
}

/// The plan of a configuration file alone.
pub fn of_file(file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("nanoGPT");
    if is_of_another_script(name, context) {
        let why = format!("no {SCRIPT} near the configuration: what reads it is not known, nanoGPT's own stands in");
        not_modelled(&mut imported, &why);
    }
    imported.say(keys::model::framework, "nanogpt", Origin::Program("nanoGPT's own names".to_owned()));
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    // A copy of nanoGPT has defaults of its own: the configuration goes over them.
    let script = own_script(context);
    let length = script.as_deref().and_then(length_name);
    if let Some(script) = &script {
        settings.over(known(&by_length(text::python(SCRIPT, script), length.as_deref())));
        settings.over(own_settings(SCRIPT, script));
    }
    let settings = settings.with(by_length(file, length.as_deref()));
    set(&mut imported, &settings, context);
    if let Some(script) = &script {
        own_optimizer(&mut imported, SCRIPT, script, &settings);
        own_context(&mut imported, SCRIPT, script);
        own_vocabulary(&mut imported, SCRIPT, script);
    }
    altered(&mut imported, MODEL, context);
    account_for(&mut imported, &settings);
    imported
}

/// What runs configurations, in the folder that they are run in.
const SCRIPT: &str = "train.py";

/// The model, beside it.
const MODEL: &str = "model.py";

/// The script of this project that reads configurations.
fn own_script(context: &ImportContext) -> Option<String> {
    let script = context.run.files.read(SCRIPT).ok()?;
    (script.contains("configurator.py") && script.contains("n_embd")).then_some(script)
}

/// Whether a configuration lies among scripts none of which is the one that reads it.
fn is_of_another_script(name: &str, context: &ImportContext) -> bool {
    let above = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let folder = above(name);
    let names = [context.run.files.names(&above(&folder)), context.run.files.names(&folder)];
    let holds = |names: &Vec<String>| names.iter().any(|other| other == SCRIPT);
    let scripts = names[0].iter().any(|other| other.ends_with(".py") && !name.ends_with(other.as_str()));
    scripts && !names.iter().any(holds) && context.run.files.read(SCRIPT).is_err()
}

/// Whether assignments are those of nanoGPT.
pub fn is_config(settings: &Settings) -> bool {
    OWN.iter().filter(|name| settings.holds(name)).count() >= 2
}

/// Of a script's assignments those that are settings: the rest is its own business.
fn known(all: &Settings) -> Settings {
    let mut kept = Settings::default();
    kept.adopt_all(all, |name| DEFAULTS.iter().any(|(known, _)| *known == name).then(|| name.to_owned()));
    kept
}

/// What a copy calls the length of its samples, where it has another name for it: `get_batch` draws its offsets from
/// `len(data) - n_ctx`.
fn length_name(script: &str) -> Option<String> {
    let (_, behind) = script.split_once("len(data) - ")?;
    let name = behind.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
    let assigned = script.lines().any(|line| line.split_once('=').is_some_and(|(left, _)| left.trim() == name));
    (assigned && name != LENGTH).then(|| name.to_owned())
}

/// nanoGPT's own name for it.
pub const LENGTH: &str = "block_size";

/// The length under nanoGPT's name; what a copy calls by that name is something else.
fn by_length(settings: Settings, length: Option<&str>) -> Settings {
    let Some(length) = length else { return settings };
    let mut renamed = Settings::default();
    renamed.adopt_all(&settings, |name| match name {
        LENGTH => None,
        _ if name == length => Some(LENGTH.to_owned()),
        _ => Some(name.to_owned()),
    });
    renamed
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    match settings.text("init_from").filter(|found| !matches!(found.value.as_str(), "scratch" | "resume")) {
        None => shape(imported, settings, context),
        Some(found) => {
            // Copies load other models by the same name.
            let own = found.value.starts_with("gpt2");
            if own {
                imported.set(keys::model::preset, Some(found))
            } else {
                model::set(imported, context, found)
            }
            ["n_embd", "n_layer", "n_head", "bias"].iter().for_each(|name| settings.accept(name));
        }
    }
    imported.set(keys::model::sequence_length, settings.whole("block_size"));
    imported.set(keys::training::micro_batch_size, settings.whole("batch_size"));
    accumulation(imported, settings, context);
    let word = settings.text("dtype").map(|found| {
        found.map(|name| match name.as_str() {
            // `torch.backends.cuda.matmul.allow_tf32 = True` (`train.py`).
            "float32" => "tf32",
            "float16" => "fp16-mixed",
            _ => "bf16-mixed",
        })
    });
    if let Some(found) =
        settings.text("device").filter(|found| !["cuda", "cpu"].iter().any(|kind| found.value.starts_with(kind)))
    {
        not_modelled(imported, &format!("{}: the run is on {}, the plan on CUDA", found.origin, found.value));
    }
    // There its context is none: no autocast.
    let on_cpu = settings.text("device").filter(|found| found.value == "cpu").map(|found| found.map(|_| "fp32"));
    let fused = if on_cpu.is_some() { "adamw" } else { "adamw-fused" };
    imported.set(keys::training::precision, on_cpu.or(word));
    imported.say(
        keys::training::optimizer,
        fused,
        Origin::Default { framework: VERSION, option: "AdamW, fused on CUDA".to_owned() },
    );
    imported.say(
        keys::training::attention,
        "sdpa",
        Origin::Default { framework: VERSION, option: "scaled_dot_product_attention".to_owned() },
    );
    imported.set(keys::training::dropout, settings.number("dropout"));
    imported.set(keys::training::compile, settings.flag("compile"));
    imported.set(keys::training::weight_decay, settings.number("weight_decay").filter(|found| found.value <= 1.0));
    imported
        .set(keys::training::gradient_clipping, settings.number("grad_clip").map(|found| found.map(|norm| norm > 0.0)));
    let none = || Origin::Default { framework: VERSION, option: "DDP".to_owned() };
    imported.say(keys::distribution::sharding, "none", none());
    imported.say(keys::distribution::engine, "ddp", none());
    for key in ["distribution.tensor_parallel", "distribution.pipeline_parallel"] {
        imported.say(key, 1, none());
    }
    tokens(imported, settings);
}

fn shape(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    for (name, key) in [
        ("n_embd", keys::architecture::hidden_size),
        ("n_layer", keys::architecture::num_layers),
        ("n_head", keys::architecture::num_attention_heads),
        ("block_size", keys::architecture::max_position_embeddings),
    ] {
        imported.set(key, settings.whole(name));
    }
    match vocabulary(settings, context) {
        Ok(found) => imported.set(keys::architecture::vocab_size, Some(found)),
        Err(why) => imported.miss(keys::architecture::vocab_size, why),
    }
    for (key, value) in [
        ("model.architecture.tie_embeddings", Value::from(true)),
        ("model.architecture.position", "learned".into()),
        ("model.architecture.activation", "gelu".into()),
        ("model.architecture.norm", "layernorm".into()),
    ] {
        imported.say(key, value, Origin::Default { framework: "nanoGPT model.py", option: "GPT".to_owned() });
    }
    for key in ["model.architecture.linear_bias", "model.architecture.norm_bias"] {
        imported.set(key, settings.flag("bias"));
    }
}

/// The data set's own vocabulary (`data/*/prepare.py`), else GPT-2's rounded up to 64.
fn vocabulary(settings: &Settings, context: &ImportContext) -> Result<Setting<u64>, String> {
    let Some(dataset) = settings.text("dataset") else {
        let option = "vocabulary 50304".to_owned();
        return Ok(Setting::new(50_304, Origin::Default { framework: VERSION, option }));
    };
    // meta.pkl is a pickle: read it nobody does, but that it is there tells characters from BPE.
    if dataset.value == "shakespeare_char" {
        return Ok(dataset.map(|_| 65));
    }
    let meta = format!("data/{}/meta.pkl", dataset.value);
    let prepared = context.run.files.read(&format!("data/{}/prepare.py", dataset.value));
    if prepared.as_ref().is_ok_and(|script| script.contains("meta.pkl")) {
        return Err(format!("data/{}/prepare.py writes it into meta.pkl", dataset.value));
    }
    let of_nanogpt = ["openwebtext", "shakespeare"].contains(&dataset.value.as_str());
    let tells = !of_nanogpt && prepared.is_err() && own_script(context).is_some();
    let origin = if tells || context.run.files.read(&meta).is_ok() {
        Origin::Derived(format!("{meta} may say otherwise; the vocabulary of GPT-2"))
    } else {
        Origin::Default { framework: VERSION, option: "vocabulary 50304".to_owned() }
    };
    Ok(Setting::new(50_304, origin))
}

/// The steps are shared out among the ranks.
fn accumulation(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(steps) = settings.whole("gradient_accumulation_steps") else { return };
    // Copies from before that change run all the steps on every rank.
    let shares = own_script(context)
        .is_none_or(|script| script.contains("// ddp_world_size") || script.contains("//= ddp_world_size"));
    if let (None, true, Some(micro)) = (&context.world.total, shares, imported.whole(keys::training::micro_batch_size))
    {
        let origin = Origin::Derived(format!(
            "{}: micro batch {micro} x {} steps, which train.py shares among its ranks",
            steps.origin, steps.value
        ));
        return imported.say(keys::model::batch_size, micro.saturating_mul(steps.value), origin);
    }
    let ranks = context.world.total.as_ref().map_or(1, |found| found.value);
    match steps.value.checked_div(ranks) {
        Some(share) if ranks > 1 && share > 0 && steps.value.is_multiple_of(ranks) => {
            let origin = Origin::Derived(format!("{}: {} / {ranks} ranks", steps.origin, steps.value));
            imported.say(keys::training::gradient_accumulation_steps, share, origin);
        }
        _ if ranks > 1 => imported.note(format!("{} accumulation steps are no multiple of {ranks} ranks", steps.value)),
        _ => imported.set(keys::training::gradient_accumulation_steps, Some(steps)),
    }
}

fn tokens(imported: &mut ImportedPlan, settings: &Settings) {
    let all = ["max_iters", "batch_size", "gradient_accumulation_steps", "block_size"];
    let product = all.iter().try_fold(1_u64, |product, name| product.checked_mul(settings.whole(name)?.value));
    if let (Some(tokens), true) = (product, settings.is_set("max_iters")) {
        let origin = settings.whole("max_iters").map(|found| found.origin);
        imported.set(keys::run::total_tokens, origin.map(|origin| Setting::new(tokens, origin)));
    }
}
