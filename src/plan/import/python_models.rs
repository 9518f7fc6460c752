//! The calls by which a script gets its models: weights that it loads, or new ones by the configuration of a name. Read,
//! never run.

use super::origin::Origin;
use super::python::{Handed, ScriptReader};
use super::python_calls::call;
use super::settings::Settings;

/// Endings of classes whose `from_pretrained` makes the model that trains.
const MODELS: [&str; 15] = [
    "FastLanguageModel",
    "FastModel",
    "FastVisionModel",
    "ForCausalLM",
    "ForSequenceClassification",
    "ForSeq2SeqLM",
    "ForConditionalGeneration",
    "LMHeadModel",
    "ForMaskedLM",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForVision2Seq",
    "ForImageTextToText",
    "ForImageClassification",
    "ForSpeechSeq2Seq",
];

/// The calls that make models: `LlamaForCausalLM.from_pretrained`.
pub fn models(content: &str) -> Vec<String> {
    of_models(content, ".from_pretrained")
}

/// The calls of that method of classes of models; of none the classes' own.
fn of_models(content: &str, method: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in content.match_indices(&format!("{method}(")) {
        let before = content.get(..at).unwrap_or("");
        let class = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap_or("");
        let name = format!("{class}{method}");
        if MODELS.iter().any(|end| class.ends_with(end)) && !found.contains(&name) && call(content, &name).is_some() {
            found.push(name);
        }
    }
    found
}

/// The model whose configuration a script makes a new one by: `AutoModelForCausalLM.from_config(config)`, where `config`
/// is `AutoConfig.from_pretrained(name)`; with what that call is given itself.
pub fn made_anew(reader: &ScriptReader) -> Settings {
    let mut made = Settings::default();
    for method in [".from_config", ""] {
        let calls = of_models(reader.content(), method);
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        for (place, (handed, _)) in
            ["0", "config"].iter().flat_map(|place| reader.handed(&calls, place).into_iter().enumerate())
        {
            if let (Handed::Made(path, given), 0) = (handed, place)
                && path.ends_with("Config.from_pretrained")
            {
                made = reader.calls(&calls);
                let named = ["0", "pretrained_model_name_or_path"].iter().find(|name| given.text(name).is_some());
                if let Some(name) = named {
                    made.adopt("0", &given, name);
                }
                // In the type that the configuration names, where the call names none (`PreTrainedModel._from_config`).
                if method == ".from_config" && !["dtype", "torch_dtype"].iter().any(|name| made.holds(name)) {
                    made.set("dtype", "auto".into(), Origin::Program(format!("{}: from_config", reader.name())));
                }
                return made;
            }
        }
    }
    made
}
