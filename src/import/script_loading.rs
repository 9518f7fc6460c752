//! How a script loads the models that it trains: in which type, and with which attention. As it was followed, read and
//! never run.

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::python_calls::ARGUMENTS;
use super::python_models::loads;
use super::rows::not_modelled;
use super::script_doubts::code;
use super::settings::Settings;
use super::trainer;
use crate::plan::keys;

/// What the calls that load models are told by a keyword.
enum ToldKeyword {
    /// Nothing.
    Nothing,
    /// A word, by all that count.
    Word(Setting<String>),
    /// What is not followed.
    Open,
}

impl ToldKeyword {
    fn of(passed: PassedArgument) -> Self {
        match passed {
            PassedArgument::Nothing => Self::Nothing,
            PassedArgument::Plain(found) => match (found.value.as_str(), found.value.as_bool()) {
                (Some(word), _) => Self::Word(Setting::new(word.to_owned(), found.origin)),
                (_, Some(on)) => Self::Word(found.map(|_| on.to_string())),
                _ => Self::Open,
            },
            PassedArgument::Made(..) | PassedArgument::Open => Self::Open,
        }
    }

    fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Word(one), Self::Word(two)) => one.value == two.value,
            _ => false,
        }
    }
}

/// What is told by one of several names: by the first call that is made for certain, or by all that may be.
fn told(reader: &ScriptReader, names: &[&str]) -> ToldKeyword {
    match followed(reader, names) {
        // What is written nowhere is not handed on by `**` either.
        ToldKeyword::Open if !names.iter().any(|name| is_written(reader.whole(), name)) => ToldKeyword::Nothing,
        found => found,
    }
}

/// Whether a name stands in a line that is no comment.
fn is_written(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.contains(name) && !line.trim_start().starts_with('#'))
}

fn followed(reader: &ScriptReader, names: &[&str]) -> ToldKeyword {
    let calls = loads(reader.content());
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let mut answers = by_call(reader, &calls, "", names);
    if answers.iter().all(|(told, _)| matches!(told, ToldKeyword::Nothing)) {
        // TRL's trainers load a model that they are given the name of.
        let arguments = by_call(reader, &ARGUMENTS, "model_init_kwargs.", names);
        answers.extend(arguments.into_iter().filter(|(told, _)| !matches!(told, ToldKeyword::Nothing)));
    }
    let certain = answers.iter().position(|(told, certain)| *certain && !matches!(told, ToldKeyword::Nothing));
    if let Some(found) = certain.or_else(|| answers.iter().position(|(_, certain)| *certain)) {
        return answers.swap_remove(found).0;
    }
    let mut answers = answers.into_iter().map(|(told, _)| told);
    match answers.next() {
        None if reader.reached(&calls).is_none() => ToldKeyword::Open,
        None => ToldKeyword::Nothing,
        Some(first) if answers.all(|other| other.is_as(&first)) => first,
        Some(_) => ToldKeyword::Open,
    }
}

/// What each call of those names is told, and whether it is made for certain: by itself, or by the configuration that it
/// is handed.
fn by_call(reader: &ScriptReader, calls: &[&str], before: &str, names: &[&str]) -> Vec<(ToldKeyword, bool)> {
    let all = names.iter().flat_map(|name| [(format!("{before}{name}"), true), (format!("config.{name}"), false)]);
    let mut answers: Vec<(ToldKeyword, bool)> = Vec::new();
    for (keyword, itself) in all {
        for (place, (passed, certain)) in reader.passed(calls, &keyword).into_iter().enumerate() {
            let found = match ToldKeyword::of(passed) {
                // A configuration that is not followed says nothing of this.
                ToldKeyword::Open if !itself => ToldKeyword::Nothing,
                found => found,
            };
            match answers.get_mut(place) {
                None => answers.push((found, certain)),
                Some((answer @ ToldKeyword::Nothing, _)) => *answer = found,
                Some(_) => {}
            }
        }
    }
    answers
}

/// The type that a script loads its weights in; or why it stays open.
pub fn weights_type(reader: &ScriptReader) -> Result<Settings, String> {
    let mut settings = Settings::default();
    match told(reader, &["torch_dtype", "dtype"]) {
        ToldKeyword::Nothing => {}
        ToldKeyword::Word(found) => {
            settings.set("torch_dtype", found.value.trim_start_matches("torch.").into(), found.origin)
        }
        ToldKeyword::Open => {
            return Err(format!("{}: the type that weights are loaded in is not followed", reader.name()));
        }
    }
    Ok(settings)
}

/// A script that names an attention itself goes over the library's default; one that names it on a condition that is not
/// followed, or puts its own in, leaves it open.
pub fn attention(imported: &mut ImportedPlan, reader: &ScriptReader) {
    const KEY: &str = "training.attention";
    let guessed = imported.get(KEY).is_some_and(|found| matches!(found.origin, Origin::Default { .. }));
    if !guessed {
        if let Some((name, None)) = patch(reader).filter(|(name, _)| replaces(name)) {
            not_modelled(imported, &format!("{}: {name}( puts attention of its own in", reader.name()));
        }
        return;
    }
    let program = |part: &str| Origin::Program(format!("{}: {part}", reader.name()));
    // These take FlashAttention where it is installed, which open-instruct's package requires
    // (`open_instruct/model_utils.py`, `detect_attn_implementation`).
    const INSTALLED: [&str; 2] =
        ["model_utils.detect_hf_attn_implementation()", "model_utils.olmo_core_attn_to_hf(args.attn_implementation)"];
    if let Some(part) = INSTALLED.iter().find(|part| reader.content().contains(**part)) {
        return imported.say(KEY, "flash", program(part));
    }
    let open = match (patch(reader), told(reader, &["attn_implementation", "_attn_implementation"])) {
        (Some((name, Some(word))), _) if is_patched(imported) => return imported.say(KEY, word, program(&name)),
        (Some((name, Some(_))), _) => format!("{name}( for LLaMA's classes"),
        (Some((name, None)), _) => name,
        (None, ToldKeyword::Word(found)) => {
            let word = trainer::implementation(&found.value);
            return imported.say(KEY, word, program(&format!("attn_implementation=\"{}\"", found.value)));
        }
        (None, ToldKeyword::Open) => "attn_implementation".to_owned(),
        (None, ToldKeyword::Nothing) => match told(reader, &["use_flash_attention_2"]) {
            ToldKeyword::Word(found) if found.value == "true" => {
                return imported.say(KEY, "flash", program("use_flash_attention_2=True"));
            }
            // A field of the alignment handbook's `ModelArguments` (`src/alignment/configs.py`), off where nobody sets it.
            ToldKeyword::Open if hands_its_field_on(reader.content()) => return,
            ToldKeyword::Open => "use_flash_attention_2".to_owned(),
            _ if set_within(reader) => "_attn_implementation".to_owned(),
            _ => return,
        },
    };
    imported.drop(KEY);
    imported.miss(KEY, format!("{} has {open}, which is not followed", reader.name()));
}

/// Whether each loader of a script is handed the handbook's own field, which the settings were asked for.
fn hands_its_field_on(content: &str) -> bool {
    const FIELD: &str = "use_flash_attention_2=model_args.use_flash_attention_2,";
    let all = content.matches("use_flash_attention_2=").count();
    content.contains("ModelArguments") && all > 0 && all == content.matches(FIELD).count()
}

/// Whether a script sets the attention of what it has loaded: `model.config._attn_implementation = "flash_attention_2"`.
fn set_within(reader: &ScriptReader) -> bool {
    code(reader.content()).any(|line| line.contains("config._attn_implementation") && line.contains(" = "))
}

/// A function that puts another attention into a library's model, with what that is where it is known.
fn patch(reader: &ScriptReader) -> Option<(String, Option<&'static str>)> {
    // FastChat's patches, which LLaVA and others took over: every layer calls `flash_attn`, or xformers' memory-efficient
    // attention.
    const KNOWN: [(&str, &str); 2] =
        [("replace_llama_attn_with_flash_attn", "flash"), ("replace_llama_attn_with_xformers_attn", "sdpa")];
    const PARTS: [&str; 2] = ["flash_attn", "flash_attention"];
    let known = KNOWN.into_iter().find(|(name, _)| {
        let called = code(reader.content()).any(|line| line.contains(&format!("{name}(")));
        called && reader.calls_any(name) == Some(true)
    });
    if let Some((name, word)) = known {
        return Some((name.to_owned(), Some(word)));
    }
    let called =
        code(reader.content()).flat_map(|line| line.match_indices('(').map(move |(at, _)| line.split_at(at).0));
    let mut names = called.filter_map(|before| before.rsplit(|letter: char| !is_of_name(letter)).next());
    let other = names.find(|name| {
        let asks = ["is_", "has_", "check_"].iter().any(|start| name.starts_with(start));
        // LongLoRA's `replace_llama_attn` puts attention in shifted groups in.
        let patches = replaces(name) || PARTS.iter().any(|part| name.contains(part));
        patches && !asks && reader.calls_any(name) != Some(false)
    });
    other.map(|name| (name.to_owned(), None))
}

/// Whether a model may be of the classes that FastChat's patches change, LLaMA's: none whose name is another family's is.
fn is_patched(imported: &ImportedPlan) -> bool {
    const OTHERS: [&str; 15] = [
        "phi", "qwen", "gemma", "mistral", "mixtral", "stablelm", "minicpm", "bloom", "gpt", "opt", "falcon", "mpt",
        "pythia", "baichuan", "chatglm",
    ];
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or("");
    !OTHERS.iter().any(|family| preset.starts_with(family))
}

/// Whether a function by its name puts another attention into a model.
fn replaces(name: &str) -> bool {
    ["replace_", "patch_"].iter().any(|start| name.starts_with(start)) && name.contains("attn")
}

const fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn given(entries: &[(&str, bool)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in entries {
            settings.set(name, (*value).into(), Origin::Argument((*name).to_owned()));
        }
        settings
    }

    fn attention_of(text: &str, own: &[(&str, bool)]) -> Option<String> {
        let reader = ScriptReader::new("train.py", text, given(own));
        let mut imported = ImportedPlan::default();
        let default = Origin::Default { framework: "transformers", option: "sdpa".to_owned() };
        imported.say("training.attention", "sdpa", default);
        attention(&mut imported, &reader);
        imported.get("training.attention").and_then(|found| found.value.as_str().map(str::to_owned))
    }

    #[test]
    fn the_type_is_that_of_the_branch_that_is_taken() {
        let text = "\
def kwargs(args):
    if args.load_in_4bit:
        return {}
    elif args.bf16:
        return {'torch_dtype': torch.bfloat16}
    return dict(torch_dtype=torch.float16)

def main(args):
    model = AutoModelForCausalLM.from_pretrained(args.name, **kwargs(args))

main(parser.parse_args())
";
        let read = |own: &[(&str, bool)]| {
            let reader = ScriptReader::new("train.py", text, given(own));
            weights_type(&reader).map(|found| found.text("torch_dtype").map(|found| found.value))
        };
        assert_eq!(read(&[("load_in_4bit", false), ("bf16", true)]), Ok(Some("bfloat16".to_owned())));
        assert_eq!(read(&[("load_in_4bit", false), ("bf16", false)]), Ok(Some("float16".to_owned())));
        assert_eq!(read(&[("load_in_4bit", true), ("bf16", true)]), Ok(None));
        // Nobody says which, so no type is taken for it.
        assert!(read(&[("load_in_4bit", false)]).is_err());
    }

    #[test]
    fn attention_is_that_of_the_call_that_loads() {
        let loads = "model = AutoModelForCausalLM.from_pretrained('a', attn_implementation=chosen)\n";
        let flash = format!("chosen = 'flash_attention_2' if args.flash else 'eager'\n{loads}");
        assert_eq!(attention_of(&flash, &[("flash", true)]).as_deref(), Some("flash"));
        assert_eq!(attention_of(&flash, &[("flash", false)]).as_deref(), Some("eager"));
        assert_eq!(attention_of(&flash, &[]), None);
        // By the configuration that a new model is made of.
        let made = "config = AutoConfig.from_pretrained('a', attn_implementation='flash_attention_2')\nmodel = AutoModelForCausalLM.from_pretrained('a', config=config)\n";
        assert_eq!(attention_of(made, &[]).as_deref(), Some("flash"));
        // A comment says nothing, and a function that is never called does nothing.
        let silent =
            "# train(attn_implementation=\"flash_attention_2\")\nmodel = AutoModelForCausalLM.from_pretrained('a')\n";
        assert_eq!(attention_of(silent, &[]).as_deref(), Some("sdpa"));
    }

    #[test]
    fn a_patch_goes_over_what_the_library_does() {
        let loads = "model = AutoModelForCausalLM.from_pretrained('a')\n";
        let patched = format!("replace_llama_attn_with_flash_attn()\n{loads}");
        assert_eq!(attention_of(&patched, &[]).as_deref(), Some("flash"));
        let other = format!("if args.long:\n    patch_with_flash_attention(model)\n{loads}");
        assert_eq!(attention_of(&other, &[("long", true)]), None);
        assert_eq!(attention_of(&other, &[("long", false)]).as_deref(), Some("sdpa"));
    }
}
