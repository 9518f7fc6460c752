//! TRL's trainers make the model themselves where a script gives them its name: `SFTTrainer(model="Qwen/Qwen3-8B", …)`
//! (`trl/trainer/*_trainer.py`, `if isinstance(model, str)`; `trainer/utils.py`, `create_model_from_path`).

use super::origin::Origin;
use super::own_loop;
use super::python::ScriptReader;
use super::python_calls::{call, keywords_of};
use super::settings::Settings;

/// The trainers that do.
pub const TRAINERS: [&str; 9] = [
    "SFTTrainer",
    "DPOTrainer",
    "KTOTrainer",
    "ORPOTrainer",
    "CPOTrainer",
    "GRPOTrainer",
    "RLOOTrainer",
    "RewardTrainer",
    "OnlineDPOTrainer",
];

/// What stands in `model` where it is no name, or not one that is written down.
const NO_NAME: [char; 3] = ['(', ' ', '?'];

/// Words of `model_init_kwargs`, and the setting that each is.
const HANDED_ON: [(&str, &str); 7] = [
    ("bfloat16", "dtype"),
    ("float16", "dtype"),
    ("float32", "dtype"),
    ("auto", "dtype"),
    ("flash_attention_2", "attn_implementation"),
    ("sdpa", "attn_implementation"),
    ("eager", "attn_implementation"),
];

/// How a script trains that gives one of TRL's trainers no arguments: each then has its configuration as it is made
/// (`if args is None: args = GRPOConfig(…)`).
pub fn method_alone(content: &str) -> Option<&'static str> {
    const METHODS: [(&str, &str); 7] = [
        ("SFTTrainer", "sft"),
        ("DPOTrainer", "dpo"),
        ("KTOTrainer", "kto"),
        ("CPOTrainer", "cpo"),
        ("GRPOTrainer", "grpo"),
        ("RLOOTrainer", "rloo"),
        ("RewardTrainer", "reward"),
    ];
    let is_told = |parts: &Vec<String>| {
        let named = |part: &String| part.trim_start().starts_with(['*']) || part.split('=').next().is_some_and(is_args);
        parts.iter().any(named) || parts.get(1).is_some_and(|part| !part.contains('='))
    };
    let alone = |name: &&str| {
        let calls = own_loop::calls(content, name);
        !calls.is_empty() && !calls.iter().any(is_told)
    };
    let of_trl = content.contains("from trl import") || content.contains("import trl");
    METHODS.iter().find(|(name, _)| of_trl && alone(name)).map(|(_, method)| *method)
}

fn is_args(name: &str) -> bool {
    matches!(name.trim(), "args" | "config")
}

/// Whether a script trains by one of TRL's trainers as it is.
pub fn trains_alone(content: &str) -> bool {
    method_alone(content).is_some()
}

/// Whether a script trains in that way.
pub fn trains(content: &str) -> bool {
    TRAINERS.iter().any(|name| call(content, name).is_some() && names_model(&keywords_of("", content, name)))
}

/// What the trainer is given, as the call that makes a model has it: its name, and the keywords that it hands on.
pub fn made(reader: &ScriptReader, content: &str) -> Settings {
    let given = reader.calls(&TRAINERS);
    let mut made = Settings::default();
    if names_model(&given) {
        let name = if given.get("model").is_some() { "model" } else { "0" };
        made.adopt("model_name", &given, name);
    }
    let written = handed_on(content).unwrap_or("");
    for (word, setting) in HANDED_ON {
        let holds =
            written.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|part| part == word);
        if holds && made.get(setting).is_none() {
            made.set(setting, word.into(), Origin::Program("model_init_kwargs".to_owned()));
        }
    }
    made
}

/// Whether a script hands keywords on that are not followed: made elsewhere, or a type that is no word there.
pub fn hands_on_unknown(content: &str) -> bool {
    const TYPES: [&str; 4] = ["bfloat16", "float16", "float32", "auto"];
    content.contains("model_init_kwargs")
        && handed_on(content)
            .is_none_or(|written| written.contains("dtype") && !TYPES.iter().any(|word| written.contains(word)))
}

/// What stands in `model_init_kwargs={…}` or `model_init_kwargs = dict(…)`, where it is written down there.
fn handed_on(content: &str) -> Option<&str> {
    let (_, rest) = content.split_once("model_init_kwargs")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let (inner, end) =
        [("{", '}'), ("dict(", ')')].iter().find_map(|(start, end)| Some((rest.strip_prefix(start)?, end)))?;
    inner.split(*end).next().filter(|written| !written.contains(['{', '(', '*']))
}

fn names_model(given: &Settings) -> bool {
    let named = given.first_text(&["model", "0"]).map(|found| found.value);
    named.is_some_and(|name| !name.is_empty() && !name.contains(NO_NAME))
}

#[cfg(test)]
mod tests {
    use super::hands_on_unknown;

    #[test]
    fn keywords_that_are_not_written_down_are_open() {
        assert!(!hands_on_unknown("SFTTrainer(model=\"a\")"));
        assert!(!hands_on_unknown("SFTConfig(model_init_kwargs={\"dtype\": torch.bfloat16})"));
        assert!(!hands_on_unknown("args.model_init_kwargs = dict(attn_implementation=\"sdpa\")"));
        assert!(hands_on_unknown("SFTConfig(model_init_kwargs=kwargs)"));
        assert!(hands_on_unknown("args.model_init_kwargs = dict(dtype=dtype)"));
        assert!(hands_on_unknown("SFTConfig(model_init_kwargs={\"quantization_config\": Bits(4)})"));
    }
}
