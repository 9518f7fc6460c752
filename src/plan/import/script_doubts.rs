//! What a script does in its own text, whatever its arguments are: a default of the library does not stand against it.

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::python::{Handed, ScriptReader};
use super::python_calls::call;
use super::python_models::models;
use super::rows::not_modelled;
use super::script_adapters;
use super::script_conditions::{holds, reached};
use super::settings::Settings;
use super::text::python_literal;
use crate::plan::keys;

/// Parts of a script's text, and the plan's key whose default is doubtful then.
const DOUBTS: &[(&str, &[&str])] = &[
    (
        "training.activation_checkpointing",
        &[
            "gradient_checkpointing_enable(",
            "apply_activation_checkpointing(",
            "checkpoint_sequential(",
            "utils.checkpoint(",
        ],
    ),
    ("training.precision", &["autocast(", ".half()", ".bfloat16()", "amp.initialize(", "GradScaler("]),
    (
        "training.optimizer",
        &["Adam8bit(", "AdamW8bit(", "PagedAdam", "Adafactor(", "Lion(", "SGD(", "Muon(", "Lomo(", "LOMO(", "CPUAdam("],
    ),
];

/// Further parts that speak of precision in a training loop of one's own.
const OWN_PRECISION: [&str; 4] = ["mixed_precision", "torch.bfloat16", "torch.float16", "torch.half"];

/// Lines that run: no comments, imports and declarations of arguments.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    const OTHERS: [&str; 7] = ["#", "import ", "from ", "def ", "class ", "parser.add_argument", "help="];
    text.lines().map(str::trim_start).filter(|line| !OTHERS.iter().any(|start| line.starts_with(start)))
}

/// Takes defaults out that a script's own text may go over, but where its arguments keep it from that. `own` is whether
/// it has a training loop of its own.
pub fn reconcile(imported: &mut ImportedPlan, reader: &ScriptReader, own: bool, settings: &Settings) {
    let (path, text) = (reader.name(), reader.content());
    script_adapters::prepare(imported, reader, settings);
    for (key, parts) in DOUBTS {
        let further: &[&str] = if own && *key == "training.precision" { &OWN_PRECISION } else { &[] };
        let said = |part: &&&str| code(text).any(|line| line.contains(**part));
        let made = |part: &&&str| match part.strip_suffix('(') {
            Some(call) => reader.reached(&[call.trim_start_matches('.')]) != Some(false),
            None => reached(text, part, settings) != Some(false),
        };
        let named = parts.iter().chain(further).find(|part| said(part) && made(part));
        // A default of the script's own arguments is what its text asks.
        let guessed = imported.get(key).is_some_and(
            |found| matches!(found.origin, Origin::Default { framework, .. } if framework != "the script"),
        );
        if let Some(part) = named.filter(|_| guessed) {
            imported.drop(key);
            imported.miss(key, format!("{path} has {part}, which is not followed"));
        }
    }
}

/// A script that names an attention itself goes over the library's default; one that names it on a condition that is not
/// followed, or puts its own in, leaves it open.
pub fn attention(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let (path, text) = (reader.name(), reader.content());
    const KEY: &str = "training.attention";
    // The last two take FlashAttention where it is installed, which open-instruct's package requires
    // (`open_instruct/model_utils.py`, `detect_attn_implementation`).
    const ALWAYS: [&str; 5] = [
        "train(attn_implementation=\"flash_attention_2\")",
        "use_flash_attention_2=True",
        "replace_llama_attn_with_flash_attn()",
        "model_utils.detect_hf_attn_implementation()",
        "model_utils.olmo_core_attn_to_hf(args.attn_implementation)",
    ];
    let guessed = imported.get(KEY).is_some_and(|found| matches!(found.origin, Origin::Default { .. }));
    if !guessed {
        return;
    }
    if let Some(part) = ALWAYS.iter().find(|part| text.contains(**part)) {
        return imported.say(KEY, "flash", Origin::Program(format!("{path}: {part}")));
    }
    // FastChat's patch, which LLaVA and others took over: every layer calls xformers' memory-efficient attention.
    const PATCH: &str = "replace_llama_attn_with_xformers_attn()";
    if code(text).any(|line| line.starts_with(PATCH)) {
        return imported.say(KEY, "sdpa", Origin::Program(format!("{path}: {PATCH}")));
    }
    match loaded_with(reader).unwrap_or_else(|| chosen(text, settings)) {
        Chosen::Never => {}
        Chosen::Always(condition) => imported.say(KEY, "flash", Origin::Program(format!("{path}: {condition}"))),
        Chosen::Perhaps => {
            imported.drop(KEY);
            imported.miss(KEY, format!("{path} names flash attention, on a condition that is not followed"));
        }
    }
}

/// Whether a script takes FlashAttention.
enum Chosen {
    Never,
    /// On this condition, which holds.
    Always(String),
    Perhaps,
}

/// What all calls that load models of the script are given for it; none where they do not tell.
fn loaded_with(reader: &ScriptReader) -> Option<Chosen> {
    const NAME: &str = "attn_implementation";
    let models = models(reader.content());
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let given = reader.handed(&names, NAME);
    let told = given.iter().map(|(handed, certain)| match handed {
        Handed::Plain(found) => found.value.as_str().filter(|_| *certain).map(str::to_owned),
        _ => None,
    });
    let told: Vec<String> = told.collect::<Option<_>>()?;
    let flash = |word: &String| matches!(word.as_str(), "flash_attention_2" | "flash_attention_3");
    match told.iter().filter(|word| flash(word)).count() {
        0 => None,
        count if count == told.len() => Some(Chosen::Always(format!("{NAME}=\"{}\"", told.first()?))),
        _ => None,
    }
}

/// `"flash_attention_2" if args.use_flash_attn else "eager"`, in each line that names it.
fn chosen(text: &str, settings: &Settings) -> Chosen {
    let named = |line: &&str| line.contains("flash_attention_2") || line.contains("flash_attn");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).filter(named).collect();
    if lines.is_empty() {
        return Chosen::Never;
    }
    // Of a field or an option that asks for it the name alone stands there.
    let declared = |line: &str| line.contains(": bool") || line.contains("add_argument(") || line.contains("help");
    let mut answers = lines.iter().filter(|line| !declared(line)).map(|line| {
        let bare = line.trim().trim_end_matches(',');
        if matches!(bare, "attn_implementation=\"flash_attention_2\"" | "attn_implementation='flash_attention_2'") {
            return Some((bare.to_owned(), reached(text, line.trim(), settings)?));
        }
        let (_, rest) = line.split_once("flash_attention_2\" if ")?;
        let (condition, _) = rest.split_once(" else ")?;
        Some((condition.to_owned(), holds(condition, settings, 0)?))
    });
    match answers.next() {
        Some(Some((condition, true))) if answers.all(|other| other.is_some_and(|(_, holds)| holds)) => {
            Chosen::Always(condition)
        }
        Some(Some((_, false))) if answers.all(|other| other.is_some_and(|(_, holds)| !holds)) => Chosen::Never,
        _ => Chosen::Perhaps,
    }
}

/// Says of adapters that a script may make and that nothing was read of.
pub fn adapters(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let (path, text) = (reader.name(), reader.content());
    let told = settings.iter().any(|(name, _)| ["lora", "peft", "adapter"].iter().any(|part| name.contains(part)));
    let open = imported.get(keys::lora::rank).is_none()
        && !imported.missing.iter().any(|missing| missing.key == "training.lora.rank");
    const CALL: &str = "get_peft_model";
    let made = call(text, CALL).is_some() && reader.reached(&[CALL]) != Some(false);
    let handed = script_adapters::hands_on(reader) != Some(false);
    if open && !told && (made || handed) {
        not_modelled(imported, &format!("{path} makes adapters by itself: all weights are counted as trained"));
    }
}

/// Arguments of the Trainer that decide what a step holds, and that scripts write down themselves.
pub const STEP_ARGUMENTS: [&str; 6] =
    ["bf16", "fp16", "gradient_checkpointing", "optim", "per_device_train_batch_size", "gradient_accumulation_steps"];

/// Arguments of the Trainer that a script writes down itself, `bf16=True` or `training_args.bf16 = True`: those that
/// have one value throughout. One that reads its arguments from a command line by `HfArgumentParser` is believed where it
/// sets them afterwards.
pub fn literals(path: &str, text: &str) -> Settings {
    const ALSO: [&str; 3] = ["torch_compile", "use_liger_kernel", "attn_implementation"];
    let mut settings = Settings::default();
    let parsed = ["HfArgumentParser(", "TrlParser("].iter().any(|part| text.contains(part));
    let trains = ["TrainingArguments(", "Config(", "training_args."].iter().any(|part| text.contains(part));
    for name in STEP_ARGUMENTS.iter().chain(&ALSO).filter(|_| trains) {
        let mut values = text.lines().enumerate().filter_map(|(at, line)| {
            let code = line.split('#').next().unwrap_or("");
            let value = written(code, name, parsed)?;
            Some((at + 1, python_literal(value)))
        });
        let Some((line, Some(value))) = values.next() else { continue };
        if values.all(|(_, other)| other.as_ref() == Some(&value)) {
            let origin = Origin::File { name: path.to_owned(), line: Some(line), key: (*name).to_owned() };
            settings.set(name, value, origin);
        }
    }
    settings
}

/// The type that a script loads its weights in, where it writes one in all its calls: `torch_dtype=torch.bfloat16`.
pub fn loaded_type(path: &str, text: &str) -> Settings {
    let mut settings = Settings::default();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let mut found = lines.filter_map(|(at, line)| {
        let behind = line.split_once("torch_dtype=")?.1.trim();
        let end = behind.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '.' | '_'));
        let (word, rest) = behind.split_at(end.unwrap_or(behind.len()));
        let whole = rest.is_empty() || rest.starts_with([',', ')']);
        Some((at + 1, word.strip_prefix("torch.").filter(|_| whole)))
    });
    let Some((line, Some(word))) = found.next() else { return settings };
    if ["bfloat16", "float16"].contains(&word) && found.all(|(_, other)| other == Some(word)) {
        let origin = Origin::File { name: path.to_owned(), line: Some(line), key: "torch_dtype".to_owned() };
        settings.set("torch_dtype", word.into(), origin);
    }
    settings
}

/// What a line gives `name`: as a keyword, a key of a dictionary, or an attribute of the arguments.
fn written<'a>(code: &'a str, name: &str, attribute: bool) -> Option<&'a str> {
    let at = code.find(name)?;
    let (before, behind) = (code.get(..at)?, code.get(at + name.len()..)?);
    let is_attribute = before.ends_with("training_args.");
    let start = before.trim_end_matches(['"', '\'']);
    let own = is_attribute || start.is_empty() || start.ends_with([' ', '(', '{', ',']);
    let behind = behind.trim_start_matches(['"', '\'']).trim_start();
    let value = behind.strip_prefix('=').filter(|rest| !rest.starts_with('=')).or_else(|| behind.strip_prefix(':'))?;
    let keyword = !attribute && !is_attribute && !value.contains("field(");
    (own && (is_attribute || keyword)).then(|| value.trim().trim_end_matches([',', ')', '}']).trim())
}

#[cfg(test)]
mod tests {
    use super::literals;

    #[test]
    fn arguments_written_in_a_script_are_read() {
        let text = "config = dict(\n    bf16=True,\n    gradient_checkpointing=True,  # saves\n    optim=args.optim,\n)\nGRPOConfig(**config)\n";
        let read = literals("train.py", text);
        assert!(read.is("bf16") && read.is("gradient_checkpointing") && read.get("optim").is_none());
        let parsed = "parser = HfArgumentParser(A)\nmodel = load(bf16=True)\ntraining_args.fp16 = True\n";
        let read = literals("train.py", parsed);
        assert!(read.is("fp16") && read.get("bf16").is_none());
    }
}
