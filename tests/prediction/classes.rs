//! The catalogue never guesses: every class of transformers with its default configuration is answered with the
//! parameters that it has, or refused.

use std::collections::BTreeMap;

use memwall::catalog::Catalog;
use memwall::plan::{Document, Plan};
use memwall::predict::{self, counted};
use serde_json::{Map, Value, json};

fn file(name: &str) -> Value {
    let path = format!("{}/tests/counts/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn plan(config: &Value) -> Plan {
    Document::parse(&json!({"model": {"hf_config": config, "batch_size": 1}}).to_string()).unwrap().plan().unwrap()
}

/// How a configuration is answered, with how many parameters, or the refusal.
fn answer(config: &Value, catalog: &Catalog) -> (&'static str, Result<u64, String>) {
    let plan = plan(config);
    match predict::of(&plan, catalog) {
        Ok(prediction) if prediction.model.contains("language model only") => ("part", Ok(prediction.params.total)),
        Ok(prediction) => ("predicted", Ok(prediction.params.total)),
        Err(faults) => {
            assert_eq!(faults.len(), 1, "more than a sentence: {faults:?}");
            match counted(&plan) {
                Some(count) => ("counted", Ok(count.total)),
                None => ("refused", Err(faults[0].to_string())),
            }
        }
    }
}

fn of_class(config: &Value, class: &str) -> Value {
    let mut config = config.clone();
    config["architectures"] = json!([class]);
    config
}

/// Each row: what PyTorch counts, and how it is answered. None is off by more than half a percent without a word: a
/// part of a model says that it is one.
#[test]
fn no_class_is_silently_wrong() {
    let (catalog, file) = (Catalog::embedded().unwrap(), file("defaults.json"));
    let mut wrong = Vec::new();
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut classes, mut kinds, mut answered_kinds) = (0_u64, 0_u64, 0_u64);
    for (kind, entry) in file["types"].as_object().unwrap() {
        let mut is_answered = true;
        for row in entry["classes"].as_array().unwrap() {
            let (class, params) = (row["class"].as_str().unwrap(), row["params"].as_u64().unwrap());
            let (how, found) = answer(&of_class(&entry["config"], class), &catalog);
            classes += 1;
            *answers.entry(how).or_default() += 1;
            if how != row["answer"] {
                wrong.push(format!("{kind} {class}: {how}, was {}", row["answer"]));
            }
            is_answered &= matches!(how, "predicted" | "counted");
            if let (Ok(found), "predicted" | "counted") = (&found, how)
                && found.abs_diff(params) * 200 > params
            {
                wrong.push(format!("{kind} {class}: {found} of {params}"));
            }
            if let Err(sentence) = found {
                assert!(
                    sentence.contains("has no checked rules")
                        || sentence.contains("have no checked rules")
                        || sentence.contains("with checked rules")
                        || sentence.contains("by the rules here"),
                    "{sentence}"
                );
            }
        }
        kinds += 1;
        answered_kinds += u64::from(is_answered);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{classes} classes of {kinds} kinds: {answers:?}, {answered_kinds} kinds answered in all classes");
    assert!(classes >= 800 && kinds >= 280);
    assert!(answered_kinds * 100 >= kinds * 55);
}

/// Kinds of transformers 5, drawn by the hash of their names, and those that count otherwise than in version 4: each class
/// has the parameters that PyTorch counts, or is refused.
#[test]
fn no_class_of_transformers_5_is_silently_wrong() {
    let (catalog, file) = (Catalog::embedded().unwrap(), file("defaults_5.json"));
    let (mut wrong, mut kinds, mut answered) = (Vec::new(), 0_u64, 0_u64);
    for (kind, entry) in file["types"].as_object().unwrap() {
        let mut is_answered = true;
        for row in entry["classes"].as_array().unwrap() {
            let (class, params) = (row["class"].as_str().unwrap(), row["params"].as_u64().unwrap());
            let (how, found) = answer(&of_class(&entry["config"], class), &catalog);
            is_answered &= matches!(how, "predicted" | "counted");
            if let (Ok(found), "predicted" | "counted") = (&found, how)
                && found.abs_diff(params) * 200 > params
            {
                wrong.push(format!("{kind} {class}: {found} of {params}"));
            }
        }
        kinds += 1;
        answered += u64::from(is_answered);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{answered} of {kinds} kinds answered in all classes");
    assert!(kinds >= 110);
    assert!(answered * 100 >= kinds * 55);
}

/// transformers 5.24.0, `modeling_luke.py`: `_tied_weights_keys` names the entities' decoder alone, so that the head of
/// `LukeForMaskedLM` is a matrix of its own, of 50267 x 768; 4.57.6 tied it.
#[test]
fn the_version_that_wrote_a_configuration_decides() {
    let count = |more: &Value| counted(&plan(&of_class(&config("luke", more), "LukeForMaskedLM"))).unwrap().total;
    let (before, since) = (count(&json!({})), count(&json!({"transformers_version": "5.24.0"})));
    assert_eq!(since - before, 50267 * 768);
    assert_eq!(before, count(&json!({"transformers_version": "4.57.6"})));
}

/// The same classes with other sizes than their defaults, several keys at once: right, or refused.
#[test]
fn other_sizes_count_as_pytorch_builds_them() {
    let (right, refused) = of_other_sizes("defaults.json");
    println!("{right} answered, {refused} refused");
    assert!(right >= 800, "{right}");
    let (right, refused) = of_other_sizes("defaults_5.json");
    println!("transformers 5: {right} answered, {refused} refused");
    assert!(right >= 60, "{right}");
}

/// How many are answered, and how many refused; none wrong.
fn of_other_sizes(name: &str) -> (u64, u64) {
    let (catalog, file) = (Catalog::embedded().unwrap(), file(name));
    let (mut right, mut refused, mut wrong) = (0, 0, Vec::new());
    for (kind, entry) in file["types"].as_object().unwrap() {
        for changed in entry.get("changed").and_then(Value::as_array).into_iter().flatten() {
            let class = changed["class"].as_str().unwrap();
            let mut config = of_class(&entry["config"], class);
            for (path, value) in changed["set"].as_object().unwrap() {
                put(&mut config, path, Some(value.clone()));
            }
            for path in changed.get("drop").and_then(Value::as_array).into_iter().flatten() {
                put(&mut config, path.as_str().unwrap(), None);
            }
            let params = changed["params"].as_u64().unwrap();
            match answer(&config, &catalog) {
                ("part", _) => {}
                (_, Ok(found)) if found.abs_diff(params) * 200 > params => {
                    wrong.push(format!("{kind} {class}: {found} of {params}, {}", changed["set"]));
                }
                (_, Ok(_)) => right += 1,
                (_, Err(_)) => refused += 1,
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    (right, refused)
}

fn put(config: &mut Value, path: &str, value: Option<Value>) {
    let (folder, name) = path.rsplit_once('.').unwrap_or(("", path));
    let holder =
        if folder.is_empty() { Some(config) } else { config.pointer_mut(&format!("/{}", folder.replace('.', "/"))) };
    match (holder, value) {
        (Some(Value::Array(items)), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (Some(Value::Object(map)), Some(value)) => drop(map.insert(name.to_owned(), value)),
        (Some(Value::Object(map)), None) => drop(map.remove(name)),
        _ => {}
    }
}

fn config(kind: &str, more: &Value) -> Value {
    let mut config: Map<String, Value> = Map::new();
    config.insert("model_type".to_owned(), json!(kind));
    config.extend(more.as_object().unwrap().clone());
    Value::Object(config)
}

fn refusal(config: &Value) -> String {
    let faults = predict::of(&plan(config), &Catalog::embedded().unwrap()).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].to_string()
}

/// `architectures` decides: a class of another kind, or one that nobody knows, is no language model by its keys.
#[test]
fn a_class_without_rules_is_refused_in_a_sentence() {
    let sizes = json!({"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000});
    let said = refusal(&config("brand-new", &sizes));
    assert!(
        said.starts_with("model.hf_config.model_type: models of the kind brand-new have no checked rules"),
        "{said}"
    );
    let mut other = config("llama", &sizes);
    other["architectures"] = json!(["LlamaWithThoughts"]);
    let said = refusal(&other);
    assert!(said.contains("LlamaWithThoughts is no class of llama with checked rules"), "{said}");
    let mut nothing = config("llama", &sizes);
    nothing.as_object_mut().unwrap().remove("model_type");
    assert!(refusal(&nothing).contains("model_type: is absent"));
}

/// A key for which a formula was not checked is named, not passed over: BERT's relative positions have a table a layer.
#[test]
fn a_value_that_was_not_checked_has_no_count() {
    let config = config("electra", &json!({"position_embedding_type": "relative_key"}));
    assert_eq!(counted(&plan(&config)), None);
}

/// `google/gemma-2-2b` with its caps set to nothing: models/gemma2/modeling_gemma2.py divides, takes the tanh and
/// multiplies only `if self.config.final_logit_softcapping is not None`.
#[test]
fn an_explicit_null_is_nothing() {
    let catalog = Catalog::embedded().unwrap();
    let forward = |more: &Value| {
        let prediction = predict::of(&plan(&config("gemma2", more)), &catalog).unwrap();
        prediction.largest().activations_end_of_forward
    };
    let (absent, null) = (forward(&json!({})), forward(&json!({"final_logit_softcapping": null})));
    assert!(null < absent, "{null:?} {absent:?}");
    assert_eq!(absent, forward(&json!({"final_logit_softcapping": 30.0})));
}

/// A value that the rules here do not read is refused, though the family is known; keys that a published file has at the
/// top, where transformers has an inner configuration, are not passed over (`Qwen2VLConfig`).
#[test]
fn what_the_rules_do_not_read_is_refused() {
    let relative = config("bert", &json!({"position_embedding_type": "relative_key"}));
    assert!(refusal(&relative).contains("position_embedding_type: bert with this value"));
    let flat = config("qwen2_vl", &json!({"hidden_size": 1536, "num_hidden_layers": 28}));
    assert_eq!(counted(&plan(&flat)), None);
    assert!(counted(&plan(&config("qwen2_vl", &json!({})))).is_some());
    // Ovis 2 ties the head of a language model whose own configuration does not (`Ovis2Config.tie_word_embeddings`): by that one
    // alone the part would have more than the whole.
    let inner = json!({"model_type": "qwen2", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                       "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 151_936,
                       "tie_word_embeddings": false});
    let said = refusal(&config("ovis2", &json!({"text_config": inner})));
    assert!(said.contains("has 12011608566 parameters, its language model alone 12049846272 by the rules"), "{said}");
}

/// What the file describes and the prediction has not stands in the headline.
#[test]
fn a_part_left_out_stands_in_the_headline() {
    let catalog = Catalog::embedded().unwrap();
    let model = |config: &Value| predict::of(&plan(config), &catalog).unwrap().model;
    let inner = json!({"model_type": "qwen2", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                       "num_key_value_heads": 4});
    assert_eq!(model(&config("llava", &json!({"text_config": inner}))), "qwen2 2 x 256, language model only");
    let fp8 = json!({"quantization_config": {"quant_method": "fp8"}, "num_nextn_predict_layers": 1});
    let said = model(&config("deepseek_v3", &fp8));
    assert_eq!(said, "deepseek_v3 61 x 7168, without its fp8 storage, without its MTP layers");
}
