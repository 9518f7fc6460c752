//! Models that a script makes of sizes of its own: `GPT2LMHeadModel(GPT2Config(n_layer=4))`. Read, never run.

use serde_json::{Map, Value};

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::python_models::made_of;
use super::script_defaults::script_of;
use super::settings::{Settings, UNKNOWN};
use crate::plan::keys;

/// Classes of configurations, the kinds that they describe (transformers 4.57.6, `models/auto/configuration_auto.py`,
/// `CONFIG_MAPPING_NAMES`), and the class that `AutoModelForCausalLM` makes of them.
const CONFIGURATIONS: [(&str, &str, &str); 32] = [
    ("GPT2Config", "gpt2", "GPT2LMHeadModel"),
    ("GPTBigCodeConfig", "gpt_bigcode", "GPTBigCodeForCausalLM"),
    ("GPTNeoConfig", "gpt_neo", "GPTNeoForCausalLM"),
    ("GPTNeoXConfig", "gpt_neox", "GPTNeoXForCausalLM"),
    ("GPTJConfig", "gptj", "GPTJForCausalLM"),
    ("OPTConfig", "opt", "OPTForCausalLM"),
    ("BloomConfig", "bloom", "BloomForCausalLM"),
    ("FalconConfig", "falcon", "FalconForCausalLM"),
    ("LlamaConfig", "llama", "LlamaForCausalLM"),
    ("MistralConfig", "mistral", "MistralForCausalLM"),
    ("MixtralConfig", "mixtral", "MixtralForCausalLM"),
    ("Qwen2Config", "qwen2", "Qwen2ForCausalLM"),
    ("Qwen2MoeConfig", "qwen2_moe", "Qwen2MoeForCausalLM"),
    ("Qwen3Config", "qwen3", "Qwen3ForCausalLM"),
    ("Qwen3MoeConfig", "qwen3_moe", "Qwen3MoeForCausalLM"),
    ("GemmaConfig", "gemma", "GemmaForCausalLM"),
    ("Gemma2Config", "gemma2", "Gemma2ForCausalLM"),
    ("Gemma3TextConfig", "gemma3_text", "Gemma3ForCausalLM"),
    ("PhiConfig", "phi", "PhiForCausalLM"),
    ("Phi3Config", "phi3", "Phi3ForCausalLM"),
    ("OlmoConfig", "olmo", "OlmoForCausalLM"),
    ("Olmo2Config", "olmo2", "Olmo2ForCausalLM"),
    ("BertConfig", "bert", "BertLMHeadModel"),
    ("RobertaConfig", "roberta", "RobertaForCausalLM"),
    ("DistilBertConfig", "distilbert", ""),
    ("ElectraConfig", "electra", "ElectraForCausalLM"),
    ("AlbertConfig", "albert", ""),
    ("ModernBertConfig", "modernbert", ""),
    ("ViTConfig", "vit", ""),
    ("T5Config", "t5", ""),
    ("BartConfig", "bart", "BartForCausalLM"),
    ("ResNetConfig", "resnet", ""),
];

/// What configurations call the attention that they ask for.
const ATTENTION: [&str; 2] = ["attn_implementation", "_attn_implementation"];

/// A model of a script's own sizes.
struct SizedModel {
    /// Its `config.json`.
    config: Map<String, Value>,
    origin: Origin,
    /// The attention that its configuration asks for.
    attention: Option<Setting<Value>>,
}

/// Tells the model that a script names nowhere: one of sizes of its own, or why none is known. What its configuration
/// says of attention goes to the `settings`; `otherwise` is said where the script makes none.
pub fn tell(imported: &mut ImportedPlan, settings: &mut Settings, reader: &ScriptReader, otherwise: &str) {
    match of_script(reader) {
        Some(Ok(made)) => {
            if let Some(told) = made.attention {
                settings.set(ATTENTION[0], told.value, told.origin);
            }
            imported.missing.retain(|missing| missing.key != keys::model::preset);
            imported.say(keys::model::hf_config, Value::Object(made.config), made.origin);
        }
        Some(Err(why)) => imported.miss(keys::model::preset, why),
        None => imported.miss(keys::model::preset, otherwise),
    }
}

/// Tells the model of a script whose training nobody recognises, Lightning's or its own, where it makes one of
/// transformers of sizes of its own: a hook inside of the run tells the rest.
pub fn tell_of_unknown(imported: &mut ImportedPlan, context: &ImportContext) {
    let Some((path, text)) = script_of(context).filter(|(_, text)| text.contains("transformers")) else { return };
    let reader = ScriptReader::new(&path, &text, Settings::default());
    if let Some(Ok(made)) = of_script(&reader) {
        imported.missing.clear();
        imported.say(keys::model::hf_config, Value::Object(made.config), made.origin);
        imported.say(keys::model::framework, "pytorch", Origin::Program(format!("classes of transformers in {path}")));
    }
}

/// The only model that a script makes of sizes of its own; none where it makes none.
///
/// # Errors
/// Why its sizes are not known.
fn of_script(reader: &ScriptReader) -> Option<Result<SizedModel, String>> {
    let mut found = Vec::new();
    for call in made_of(reader.content(), "").into_iter().chain(["AutoModelForCausalLM.from_config".to_owned()]) {
        for place in ["0", "config"] {
            for (passed, _) in reader.passed(&[&call], place) {
                let PassedArgument::Made(path, given) = passed else { continue };
                let class = path.rsplit('.').next().unwrap_or_default();
                let Some((_, kind, causal)) = CONFIGURATIONS.iter().find(|(name, ..)| *name == class) else { continue };
                let open =
                    matches!(reader.passed(&[&call], &format!("{place}.")).first(), Some((PassedArgument::Open, _)));
                let model = if call.ends_with(".from_config") { causal } else { call.as_str() };
                let made = (class.to_owned(), *kind, model.to_owned(), given, open);
                if !found.contains(&made) {
                    found.push(made);
                }
            }
        }
    }
    let (class, kind, model, given, open) = found.pop()?;
    let name = reader.name();
    if !found.is_empty() {
        return Some(Err(format!("{name} makes several models of sizes of its own")));
    }
    if open || model.is_empty() {
        return Some(Err(format!("{name}: what {class} is given is not followed")));
    }
    let mut config = Map::new();
    config.insert("model_type".to_owned(), kind.into());
    config.insert("architectures".to_owned(), Value::from(vec![model]));
    let mut attention = None;
    for (key, told) in given.iter() {
        if ATTENTION.contains(&key) {
            attention = Some(told.clone());
        } else if told.value == UNKNOWN {
            return Some(Err(format!("{}: {class}({key}) is not followed", told.origin)));
        } else {
            put(&mut config, key, told.value.clone());
        }
    }
    let line = given.iter().find_map(|(_, told)| match &told.origin {
        Origin::File { line, .. } => *line,
        _ => None,
    });
    let origin = Origin::File { name: name.to_owned(), line, key: class };
    Some(Ok(SizedModel { config, origin, attention }))
}

/// Puts a value under a dotted name.
fn put(config: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            config.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            if let Value::Object(inner) = config.entry(first).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(text: &str) -> Option<Result<Value, String>> {
        let text = format!("from transformers import *\n{text}\n");
        let reader = ScriptReader::new("train.py", &text, Settings::default());
        of_script(&reader).map(|found| found.map(|model| Value::Object(model.config)))
    }

    #[test]
    fn a_model_of_sizes_in_the_script_is_its_configuration() {
        let config = json!({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 512,
                            "vocab_size": 1000});
        let inside = "model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_embd=512, n_layer=4))";
        assert_eq!(told(inside).unwrap().unwrap(), config);
        let apart = "width = 64\nconfig = GPT2Config(vocab_size=1000, n_embd=8 * width, n_layer=4)\n\
                     def main():\n    model = GPT2LMHeadModel(config=config)\n\nmain()";
        assert_eq!(told(apart).unwrap().unwrap(), config);
        let auto = "config = GPT2Config(vocab_size=1000, n_embd=512, n_layer=4)\n\
                    model = AutoModelForCausalLM.from_config(config)";
        assert_eq!(told(auto).unwrap().unwrap(), config);
    }

    #[test]
    fn sizes_that_are_not_followed_are_said() {
        let open = told("config = LlamaConfig(vocab_size=len(tokenizer))\nmodel = LlamaForCausalLM(config)");
        assert!(open.unwrap().unwrap_err().contains("LlamaConfig(vocab_size) is not followed"));
        let handed_on = told("model = LlamaForCausalLM(LlamaConfig(**load()))");
        assert!(handed_on.unwrap().unwrap_err().contains("not followed"));
        let two = "a = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2))\nb = LlamaForCausalLM(LlamaConfig(num_hidden_layers=9))";
        assert!(told(two).unwrap().unwrap_err().contains("several models"));
        // What is set of the configuration afterwards goes over what it was given.
        let later =
            "config = LlamaConfig(num_hidden_layers=2)\nconfig.num_hidden_layers = 4\nm = LlamaForCausalLM(config)";
        assert_eq!(told(later).unwrap().unwrap()["num_hidden_layers"], 4);
        assert!(told("model = LlamaForCausalLM.from_pretrained('x')").is_none());
    }
}
