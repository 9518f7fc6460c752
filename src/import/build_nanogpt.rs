//! Scripts on the model of `karpathy/build-nanogpt` (`train_gpt2.py` at 6104ab1b): one file, or two, with a GPT of
//! its own, the sizes of a step as names of the script (`B`, `T`, `total_batch_size`) and no command line.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::nanogpt_copy;
use super::origin::{Origin, Setting};
use super::own_loop;
use super::python::ScriptReader;
use super::rows::not_modelled;
use super::script_defaults;
use super::script_doubts::code;
use super::script_modules::project_text;
use super::settings::{Settings, UNKNOWN};
use crate::plan::keys;

/// Names of a micro batch and of a length, as copies have them.
const MICRO: [&str; 4] = ["B", "micro_batch_size", "batch_size", "BATCH_SIZE"];
const LENGTH: [&str; 5] = ["T", "seq_len", "sequence_length", "block_size", "BLOCK_SIZE"];

/// The tokens of all ranks in a step.
const TOTAL: &str = "total_batch_size";

/// Whether the program is such a script.
pub fn runs(context: &ImportContext) -> bool {
    script_defaults::script_of(context).is_some_and(|(path, text)| is_script(&path, &text, context))
}

/// Whether a script trains such a model by its own loop, with sizes that no command line says.
pub fn is_script(path: &str, text: &str, context: &ImportContext) -> bool {
    let loops = code(text).any(|line| line.contains(".backward(")) && !text.contains("add_argument(");
    let makes = text.contains("GPT(GPTConfig(") || text.contains("GPTConfig(");
    loops && makes && !text.contains("configurator.py") && {
        let whole = project_text(context, path, text);
        ["class GPT(", "class GPTConfig", "c_attn", "n_embd"].iter().all(|part| whole.contains(part))
    }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let (path, text) = script_defaults::script_of(context).unwrap_or_default();
    of_file(&path, &text, context)
}

/// The plan of such a script.
pub fn of_file(path: &str, text: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("build-nanogpt");
    let whole = project_text(context, path, text);
    let reader = ScriptReader::of_project(path, text, &whole, Settings::default(), context.outside());
    imported.say(keys::model::framework, "nanogpt", Origin::Program(format!("{path}: a GPT of its own")));
    let model = model_file(path, text, context);
    let defines = context.run.files.read(&model).unwrap_or_else(|_| text.to_owned());
    shape(&mut imported, path, (&model, &defines), &reader);
    nanogpt_copy::altered(&mut imported, &model, context);
    step(&mut imported, path, &reader, context);
    arithmetic(&mut imported, path, text, &reader);
    optimizer(&mut imported, path, &whole, &reader);
    let own = || Origin::Program(format!("{path}: its loop"));
    imported.say(keys::distribution::sharding, "none", own());
    if ["DDP(", "DistributedDataParallel("].iter().any(|call| text.contains(call)) {
        imported.say(keys::distribution::engine, "ddp", own());
    }
    for key in ["distribution.tensor_parallel", "distribution.pipeline_parallel"] {
        imported.say(key, 1, own());
    }
    imported
}

/// The file that the model's class stands in.
fn model_file(path: &str, text: &str, context: &ImportContext) -> String {
    if text.contains("class GPT(") {
        return path.to_owned();
    }
    let defines = |file: &String| context.run.files.read(file).is_ok_and(|text| text.contains("class GPT("));
    super::script_modules::of(path, text).into_iter().find(defines).unwrap_or_else(|| path.to_owned())
}

/// The architecture: fields of `GPTConfig`, and what the call that makes it is given.
fn shape(imported: &mut ImportedPlan, path: &str, (model, text): (&str, &str), reader: &ScriptReader) {
    if let Some(name) = reader.calls(&["GPT.from_pretrained"]).first_text(&["0", "model_type"]) {
        return imported.set(keys::model::preset, Some(name));
    }
    let settings = script_defaults::read(model, text).with(given(path, reader));
    for (name, key) in [
        ("n_embd", keys::architecture::hidden_size),
        ("n_layer", keys::architecture::num_layers),
        ("n_head", keys::architecture::num_attention_heads),
        ("vocab_size", keys::architecture::vocab_size),
        ("block_size", keys::architecture::max_position_embeddings),
    ] {
        imported.set(key, settings.whole(name));
        if imported.get(key).is_none() {
            imported.miss(key, format!("{path}: {name} of its GPTConfig is not followed"));
        }
    }
    let own = || Origin::Program(format!("{model}: class GPT"));
    imported.say(keys::architecture::tie_embeddings, true, own());
    imported.say(keys::architecture::position, "learned", own());
    imported.say(keys::architecture::activation, "gelu", own());
    imported.say(keys::architecture::norm, "layernorm", own());
    imported.say(keys::training::attention, "sdpa", own());
    let layer = |name: &str| code(text).find(|line| line.contains(name) && line.contains('(')).unwrap_or("");
    let asks = layer("c_attn = nn.Linear(").contains("bias=config.bias");
    let bias = match settings.flag("bias").filter(|_| asks) {
        Some(found) => Some(found),
        None if asks => None,
        None => Some(Setting::new(!layer("c_attn = nn.Linear(").contains("bias=False"), own())),
    };
    imported.set(keys::architecture::linear_bias, bias.clone());
    let of_norm = layer("ln_1 =").contains("bias=config.bias");
    imported.set(keys::architecture::norm_bias, if of_norm { bias } else { Some(Setting::new(true, own())) });
    let drops = code(text).any(|line| line.contains("Dropout("));
    let dropout = if drops { settings.number("dropout") } else { Some(Setting::new(0.0, own())) };
    imported.set(keys::training::dropout, dropout.filter(|found| (0.0..1.0).contains(&found.value)));
}

/// What the script's own call of `GPTConfig` is given; unknown is what is not followed.
fn given(path: &str, reader: &ScriptReader) -> Settings {
    let mut settings = Settings::default();
    for part in own_loop::calls(reader.content(), "GPTConfig").into_iter().flatten() {
        if let Some((name, value)) = part.split_once('=') {
            let value = reader.expression(value.trim()).unwrap_or_else(|| UNKNOWN.into());
            settings.set(name.trim(), value, Origin::Program(format!("{path}: GPTConfig({})", part.trim())));
        }
    }
    settings
}

/// What a step takes: the micro batch, the length, and how often until all ranks have their tokens.
fn step(imported: &mut ImportedPlan, path: &str, reader: &ScriptReader, context: &ImportContext) {
    let named = |names: &[&str]| reader.named(names).first_whole(names);
    imported.set(keys::training::micro_batch_size, named(&MICRO));
    imported.set(keys::model::sequence_length, named(&LENGTH));
    for key in [keys::training::micro_batch_size, keys::model::sequence_length] {
        if imported.get(key).is_none() {
            imported.miss(key, format!("{path}: what its loader takes is not followed"));
        }
    }
    let sizes = imported.whole(keys::training::micro_batch_size).zip(imported.whole(keys::model::sequence_length));
    let Some(total) = named(&[TOTAL]) else {
        if !code(reader.content()).any(|line| line.contains("accum")) {
            let origin = Origin::Program(format!("{path}: no accumulation in it"));
            return imported.say(keys::training::gradient_accumulation_steps, 1, origin);
        }
        let why = format!("{path}: its accumulation is not followed");
        return imported.miss(keys::training::gradient_accumulation_steps, why);
    };
    let Some((micro, length)) = sizes.filter(|(micro, length)| *micro > 0 && *length > 0) else { return };
    let origin = Origin::Derived(format!("{}: {} tokens / {length}", total.origin, total.value));
    match context.world.total.as_ref().map(|found| found.value) {
        None => imported.say(keys::model::batch_size, total.value / length, origin),
        Some(ranks) => {
            let share = micro.saturating_mul(length).saturating_mul(ranks).max(1);
            let steps = total.value / share;
            if steps == 0 || !total.value.is_multiple_of(share) {
                imported.note(format!("{} tokens are no multiple of {micro} x {length} x {ranks} ranks", total.value));
            }
            let origin = Origin::Derived(format!("{} tokens / ({micro} x {length} x {ranks} ranks)", total.value));
            imported.say(keys::training::gradient_accumulation_steps, steps.max(1), origin);
        }
    }
}

/// In which types it computes, and whether by compiled kernels.
fn arithmetic(imported: &mut ImportedPlan, path: &str, text: &str, reader: &ScriptReader) {
    let casts: Vec<&str> = code(text).filter(|line| line.contains("autocast(")).collect();
    let word = match casts.first() {
        None => Some("fp32"),
        Some(line) if line.contains("bfloat16") => Some("bf16-mixed"),
        Some(line) if line.contains("float16") => Some("fp16-mixed"),
        Some(_) => None,
    };
    let origin = || Origin::Program(format!("{path}: autocast"));
    match word {
        Some(word) => imported.say(keys::training::precision, word, origin()),
        None => imported.miss(keys::training::precision, format!("{path}: the type of its autocast is not followed")),
    }
    let compiles =
        if text.contains("torch.compile(") { reader.reached(&["torch.compile", "compile"]) } else { Some(false) };
    match compiles {
        Some(flag) => imported.say(keys::training::compile, flag, Origin::Program(format!("{path}: torch.compile"))),
        None => imported.miss(keys::training::compile, format!("{path}: whether it compiles is not followed")),
    }
    let clips = code(text).any(|line| line.contains("clip_grad_norm_("));
    imported.say(keys::training::gradient_clipping, clips, Origin::Program(format!("{path}: clip_grad_norm_")));
}

/// The optimizer: build-nanogpt's `configure_optimizers` asks for the fused `AdamW` on CUDA.
fn optimizer(imported: &mut ImportedPlan, path: &str, whole: &str, reader: &ScriptReader) {
    let fused = code(whole).any(|line| line.contains("fused=use_fused") || line.contains("fused=True"))
        || code(whole).any(|line| line.contains("dict(fused=True)"));
    let others = ["Muon(", "SGD(", "Lion(", "Shampoo(", "SOAP(", "Adafactor(", "8bit("];
    let other = others.iter().find(|name| code(whole).any(|line| line.contains(*name)));
    match other {
        Some(name) => {
            not_modelled(imported, &format!("{path}: {}: an optimizer beside AdamW", name.trim_end_matches('(')))
        }
        None if whole.contains("AdamW(") => {
            let word = if fused { "adamw-fused" } else { "adamw" };
            imported.say(keys::training::optimizer, word, Origin::Program(format!("{path}: AdamW")));
        }
        None => imported.miss(keys::training::optimizer, format!("{path}: which optimizer it makes is not followed")),
    }
    let calls = reader.calls(&["configure_optimizers"]);
    let told = calls.number("weight_decay").or_else(|| reader.calls(&["AdamW"]).number("weight_decay"));
    imported.set(keys::training::weight_decay, told.filter(|found| (0.0..=1.0).contains(&found.value)));
}
