//! The calls by which a script gets its models: weights that it loads, or new ones by the configuration of a name. Read,
//! never run.

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::python::{PassedArgument, ScriptReader};
use super::python_calls::call;
use super::settings::Settings;
use super::vision;

/// Endings of classes whose `from_pretrained` makes the model that trains.
const MODELS: [&str; 16] = [
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
    "ForMultipleChoice",
    "ForVision2Seq",
    "ForImageTextToText",
    "ForImageClassification",
    "ForSpeechSeq2Seq",
];

/// The calls that make models: `LlamaForCausalLM.from_pretrained`.
pub fn models(content: &str) -> Vec<String> {
    made_of(content, ".from_pretrained")
}

/// Puts the tower before a language model that a script loads by classes for pictures and text alone.
pub fn put_tower(imported: &mut ImportedPlan, classes: &[String], text: &str) {
    const SEE: [&str; 4] = ["ForImageTextToText", "ForVision2Seq", "ForMultimodalLM", "ForConditionalGeneration"];
    let sees = |class: &String| SEE.iter().any(|part| class.contains(part));
    if !classes.is_empty() && classes.iter().all(sees) {
        vision::whole(imported);
    } else if !text.contains("Gemma3ForCausalLM") {
        vision::of_causal_class(imported);
    }
}

/// The calls that load the models of a script: of classes of models, or of whatever else.
pub fn loads(content: &str) -> Vec<String> {
    let named = models(content);
    if named.is_empty() { vec!["from_pretrained".to_owned()] } else { named }
}

/// Whether a class's name is that of a model that trains.
pub fn is_model(class: &str) -> bool {
    MODELS.iter().any(|end| class.ends_with(end))
}

/// The calls of that method of classes of models; of none the classes' own.
pub fn made_of(content: &str, method: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in content.match_indices(&format!("{method}(")) {
        let before = content.get(..at).unwrap_or("");
        let class = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().unwrap_or("");
        let name = format!("{class}{method}");
        if is_model(class) && !found.contains(&name) && call(content, &name).is_some() {
            found.push(name);
        }
    }
    found
}

/// What changes nothing of a model's sizes where its configuration is asked for by name, or is told later.
const SIZELESS: [&str; 14] = [
    "0",
    "pretrained_model_name_or_path",
    "use_cache",
    "trust_remote_code",
    "cache_dir",
    "revision",
    "token",
    "use_auth_token",
    "local_files_only",
    "attn_implementation",
    "torch_dtype",
    "dtype",
    "return_dict",
    "output_hidden_states",
];

/// The model whose configuration a script makes a new one by: `AutoModelForCausalLM.from_config(config)`, where `config`
/// is `AutoConfig.from_pretrained(name)`; with what that call is given itself. Nothing where anything else is told the
/// configuration, which may be sizes of the script's own.
pub fn made_anew(reader: &ScriptReader) -> Settings {
    for method in [".from_config", ""] {
        let calls = made_of(reader.content(), method);
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        let configured =
            ["0", "config"].iter().find_map(|place| match reader.passed(&calls, place).into_iter().next()?.0 {
                PassedArgument::Made(path, given) if path.ends_with("Config.from_pretrained") => Some(given),
                _ => None,
            });
        let Some(given) = configured.filter(|given| given.iter().all(|(name, _)| SIZELESS.contains(&name))) else {
            continue;
        };
        let mut made = reader.calls(&calls);
        if let Some(name) = ["0", "pretrained_model_name_or_path"].iter().find(|name| given.text(name).is_some()) {
            made.adopt("0", &given, name);
        }
        // In the type that the configuration names, where the call names none (`PreTrainedModel._from_config`).
        if method == ".from_config" && !["dtype", "torch_dtype"].iter().any(|name| made.holds(name)) {
            made.set("dtype", "auto".into(), Origin::Program(format!("{}: from_config", reader.name())));
        }
        return made;
    }
    Settings::default()
}
