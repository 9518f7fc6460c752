//! Configurations as transformers 5 saves them again: other keys, other names for layers, the same model.

use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::{Value, json};

use crate::support::catalog;

fn predicted(model: &Value) -> Prediction {
    let plan = json!({"model": model, "training": {"precision": "bf16"}, "hardware": {"gpu_type": "NVIDIA B300"}});
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap_or_else(|faults| panic!("{model}: {faults:?}"))
}

/// tests/counts/saved_5.json, `source`: parameters as the class has them, memory as the published file's.
#[test]
fn a_configuration_saved_by_transformers_5_is_the_same_model() {
    let path = format!("{}/tests/counts/saved_5.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let name = &case["preset"];
        let again = predicted(&json!({"hf_config": case["config"], "batch_size": 2, "sequence_length": 1024}));
        assert_eq!(again.params.total, case["params"].as_u64().unwrap(), "{name}");
        let first = predicted(&json!({"preset": name, "batch_size": 2, "sequence_length": 1024}));
        assert_eq!(again.largest().peak_allocated, first.largest().peak_allocated, "{name}");
    }
}

fn resnet_18(more: &Value) -> Value {
    let mut config = json!({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
                            "transformers_version": "5.24.0", "embedding_size": 64, "hidden_sizes": [64, 128, 256, 512],
                            "depths": [2, 2, 2, 2], "layer_type": "basic", "num_labels": 1000});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// torchvision's `resnet18` has 11 689 512 parameters, and so has this class of transformers 5, whose formula knows one
/// list of depths alone.
#[test]
fn stages_of_a_residual_net_are_read_in_transformers_5_too() {
    let saved = resnet_18(&json!({"out_features": ["stage4"], "out_indices": [4]}));
    let model = json!({"hf_config": saved, "type": "cnn", "batch_size": 8, "image_size": 224});
    assert_eq!(predicted(&model).params.total, 11_689_512);
}

/// transformers 5.24, `Qwen3_5ForCausalLM` built of the file with a tower (models/auto/modeling_auto.py): 24 layers of it
/// less, as the same class of the inner configuration alone.
#[test]
fn a_class_without_the_tower_has_none() {
    let text = json!({"model_type": "qwen3_5_text", "hidden_size": 512, "num_hidden_layers": 4, "vocab_size": 1000,
                      "intermediate_size": 1024, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128});
    let of = |class: &str| {
        let config = json!({"model_type": "qwen3_5", "architectures": [class], "text_config": text,
                            "vision_config": {"model_type": "qwen3_5", "depth": 2, "hidden_size": 128, "num_heads": 4,
                                              "intermediate_size": 256, "out_hidden_size": 512}});
        predicted(&json!({"hf_config": config, "batch_size": 1, "sequence_length": 512}))
    };
    let mut alone = text.clone();
    alone["architectures"] = json!(["Qwen3_5ForCausalLM"]);
    let alone = predicted(&json!({"hf_config": alone, "batch_size": 1, "sequence_length": 512}));
    let without = of("Qwen3_5ForCausalLM");
    assert_eq!(without.params.total, alone.params.total);
    assert_eq!(without.largest().peak_allocated, alone.largest().peak_allocated);
    assert!(!without.model.contains("language model only"), "{}", without.model);
    assert!(of("Qwen3_5ForConditionalGeneration").params.total > alone.params.total);
}

/// transformers 5 keeps the embedding and the head of Mistral Small 3.1 apart, since its checkpoint has both
/// (modeling_utils.py, `tie_weights`), though its class has them as one: 131 072 x 5120 elements.
#[test]
fn a_head_that_the_file_keeps_apart_stays_apart() {
    let preset = catalog().models.iter().find(|preset| preset.name == "mistral-small-3.1-24b").unwrap();
    let mut config = Value::Object((*preset.hf_config).clone());
    config["transformers_version"] = json!("5.24.0");
    config["tie_word_embeddings"] = json!(true);
    config["text_config"]["tie_word_embeddings"] = json!(false);
    let model = json!({"hf_config": config, "batch_size": 1, "sequence_length": 2048});
    assert_eq!(predicted(&model).params.total, 24_011_361_280);
}

/// Where the language model's own keys say nothing, transformers 4 asks its class's default, transformers 5 the keys at the top
/// (modeling_utils.py, `tie_weights`). LLaVA before a Llama of 1000 x 64, whose default is two matrices: 64 000 elements.
#[test]
fn whose_tie_counts_depends_on_who_wrote_the_file() {
    let of = |version: &str| {
        let config = json!({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
                            "transformers_version": version, "tie_word_embeddings": true,
                            "text_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
                                            "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000},
                            "vision_config": {"model_type": "clip_vision_model", "hidden_size": 64, "intermediate_size": 128,
                                              "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 56,
                                              "patch_size": 14}});
        predicted(&json!({"hf_config": config, "batch_size": 1, "sequence_length": 512})).params.total
    };
    assert_eq!(of("4.57.6") - of("5.24.0"), 64_000);
}
