//! What configuration classes make of keys that are absent, null or not theirs. Counts are PyTorch's, of the classes of
//! transformers 4.57.6 built on the meta device from the same configurations.

use memwall::plan::Document;
use memwall::predict;
use serde_json::{Map, Value, json};

use crate::support::catalog;

fn preset(name: &str) -> Map<String, Value> {
    (*catalog().model(name).unwrap_or_else(|| panic!("{name}")).hf_config).clone()
}

fn params(config: &Map<String, Value>) -> Result<u64, String> {
    let plan = json!({"model": {"hf_config": config, "sequence_length": 128}}).to_string();
    let plan = Document::parse(&plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map(|of| of.params.total).map_err(|faults| format!("{faults:?}"))
}

/// `None` is false: the head is a matrix of its own.
#[test]
fn a_null_tie_is_no_tie() {
    for (name, expected) in [
        ("gpt2", 163_037_184),
        ("opt-125m", 163_848_192),
        ("bloom-560m", 816_115_712),
        ("t5-small", 76_956_160),
        ("gemma-2b", 3_030_460_416),
        ("smollm3-3b", 3_337_766_912),
        ("bert-base", 132_955_194),
        ("mamba-130m", 167_750_400),
    ] {
        let mut config = preset(name);
        config.insert("tie_word_embeddings".to_owned(), Value::Null);
        assert_eq!(params(&config), Ok(expected), "{name}");
    }
}

/// An absent size is the class's own, not that of the family whose modules it runs.
#[test]
fn an_absent_size_is_that_of_its_own_class() {
    // Names, the key that goes, the layers that are left where all would take long, the count.
    let rows: &[(&str, &str, Option<u64>, u64)] = &[
        ("nemotron-mini-4b", "vocab_size", None, 4_190_509_056),
        ("nemotron-mini-4b", "hidden_size", None, 8_381_018_112),
        ("nemotron-mini-4b", "intermediate_size", None, 7_210_407_936),
        ("nemotron-mini-4b", "num_attention_heads", None, 4_794_488_832),
        ("dots.llm1-142b", "vocab_size", Some(2), 3_764_146_688),
        ("dots.llm1-142b", "hidden_size", Some(2), 4_253_539_392),
        ("gpt-neo-125m", "vocab_size", None, 125_198_592),
        ("hunyuan-a13b", "intermediate_size", Some(2), 18_194_022_912),
        ("hunyuan-a13b", "num_key_value_heads", Some(2), 5_567_070_720),
        ("starcoder2-3b", "num_attention_heads", None, 3_030_371_328),
        ("glm-4.5-air-106b", "intermediate_size", Some(2), 3_826_565_120),
        ("olmoe-1b-7b", "num_experts", Some(2), 1_045_186_560),
        ("command-r7b", "hidden_size", Some(2), 2_969_591_808),
        ("seed-oss-36b", "num_key_value_heads", Some(2), 2_668_676_096),
        ("mt5-small", "num_heads", None, 300_176_768),
        // ApertusConfig's 131072 tokens are what its models have.
        ("apertus-8b", "vocab_size", None, params(&preset("apertus-8b")).unwrap()),
    ];
    for (name, key, layers, expected) in rows {
        let mut config = preset(name);
        assert!(config.remove(*key).is_some(), "{name} has no {key}");
        if let Some(layers) = layers {
            config.insert("num_hidden_layers".to_owned(), json!(layers));
            if config.contains_key("layer_types") {
                let kind = if *name == "command-r7b" { "sliding_attention" } else { "full_attention" };
                config.insert("layer_types".to_owned(), json!(vec![kind; 2]));
            }
        }
        assert_eq!(params(&config), Ok(*expected), "{name} without {key}");
    }
}

/// Phi3Attention and MistralAttention have no biases, Qwen2Attention always has (`models/*/modeling_*.py`).
#[test]
fn a_key_that_a_class_does_not_read_adds_nothing() {
    for (name, key, value, expected) in [
        ("phi-3-mini", "attention_bias", true, 3_821_079_552_u64),
        ("mistral-7b", "attention_bias", true, 7_241_732_096_u64),
        ("qwen2.5-0.5b", "qkv_bias", false, 494_032_768_u64),
    ] {
        let mut config = preset(name);
        config.insert(key.to_owned(), json!(value));
        assert_eq!(params(&config), Ok(expected), "{name} {key}");
    }
}
