//! Linear attention by the gated delta rule (Qwen3-Next, Qwen3.5): work by hand, and where there are no rules for it.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::{Value, json};

fn answered(plan: &Value) -> Result<Prediction, Vec<String>> {
    let texts = |faults: Vec<memwall::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let plan = Document::parse(&plan.to_string()).map_err(texts)?.plan().map_err(texts)?;
    predict::of(&plan, catalog()).map_err(texts)
}

/// Layers of linear attention alone, without experts.
fn config(layers: usize) -> Value {
    json!({"model_type": "qwen3_next", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 768,
           "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 0,
           "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64,
           "linear_value_head_dim": 128, "layer_types": vec!["linear_attention"; layers]})
}

fn plan(config: &Value, training: &Value) -> Value {
    json!({"model": {"hf_config": config, "sequence_length": 100, "batch_size": 3}, "training": training,
           "cluster": {"num_gpus": 1}})
}

/// One layer more, 3 samples of 100 tokens: two chunks of 64 a sample, of which the second is not full. 2 key heads of 64, 4
/// value heads of 128 (fla-core 0.6.0, the `tl.dot` of the kernels that fla/ops/gated_delta_rule/chunk.py calls).
#[test]
fn a_layer_works_as_its_matrices_and_kernels_do() {
    let flops = |layers| {
        let flops = answered(&plan(&config(layers), &json!({"precision": "bf16"}))).unwrap().flops;
        (flops.forward.0, flops.backward.0)
    };
    let (more, less) = (flops(3), flops(2));
    let (tokens, hidden, keys, values, heads, inner) = (300.0, 256.0, 128.0, 512.0, 4.0, 768.0);
    // Queries, keys, values and gate; both gates of the rule; the output; three matrices of the feed-forward block.
    let matrices = hidden * (2.0 * keys + 2.0 * values) + hidden * 2.0 * heads + values * hidden + 3.0 * hidden * inner;
    let matrices = 2.0 * tokens * matrices;
    // Four tokens under the window of each channel.
    let convolution = 2.0 * tokens * (2.0 * keys + values) * 4.0;
    let (chunk, key, value) = (64.0, 64.0, 128.0);
    let chunks = 3.0 * 2.0 * heads;
    // Keys with keys, `w`, queries with keys; `u` and the result of a chunk; states three times.
    let rule = 2.0 * chunks * (chunk * chunk * (3.0 * key + 2.0 * value) + 3.0 * chunk * key * value);
    let forward = matrices + convolution + rule;
    assert!((more.0 - less.0 - forward).abs() < 1.0, "{} {forward}", more.0 - less.0);
    // `w` and `u` again, then 8 and 4 more over a chunk's pairs, the states twice again and six gradients, two of the triangle.
    let rule = 2.0
        * chunks
        * (chunk * chunk * (9.0 * key + 5.0 * value) + 8.0 * chunk * key * value + 2.0 * chunk * chunk * chunk);
    let backward = 2.0 * (matrices + convolution) + rule;
    assert!((more.1 - less.1 - backward).abs() < 1.0, "{} {backward}", more.1 - less.1);
}

#[test]
fn it_is_refused_where_it_has_no_rules() {
    let bf16 = json!({"precision": "bf16"});
    let refused = |plan: &Value, key: &str| {
        let faults = answered(plan).unwrap_err();
        let told = faults.iter().any(|fault| fault.starts_with(key) && fault.contains("linear"));
        assert!(told, "{key}: {faults:?}");
    };
    for key in ["tensor_parallel", "context_parallel"] {
        let mut split = plan(&config(2), &bf16);
        split["distribution"] = json!({key: 2});
        split["cluster"] = json!({"num_gpus": 2});
        refused(&split, &format!("distribution.{key}"));
    }
    refused(&plan(&config(2), &json!({"mode": "inference"})), "training.mode");
    let mut titan = plan(&config(2), &bf16);
    titan["model"]["framework"] = json!("torchtitan");
    refused(&titan, "model.framework");
    // No other family has such layers.
    let mut llama = config(2);
    llama["model_type"] = json!("llama");
    refused(&plan(&llama, &bf16), "model.hf_config.layer_types");
    let mut uneven = config(2);
    uneven["linear_num_value_heads"] = json!(3);
    refused(&plan(&uneven, &bf16), "model.hf_config.linear_num_key_heads");
}

/// Which kernels are meant is said, for others keep more.
#[test]
fn the_kernels_are_an_assumption() {
    let prediction = answered(&plan(&config(2), &json!({"precision": "bf16"}))).unwrap();
    let said = prediction.assumptions.iter().any(|line| line.contains("flash-linear-attention"));
    assert!(said, "{:?}", prediction.assumptions);
}

/// peft finds the matrices by their names: rank times the columns that go in and come out, in each of two layers.
#[test]
fn adapters_stand_on_the_projections_of_linear_layers() {
    let lora = |target: &str| {
        let training = json!({"precision": "bf16", "lora": {"rank": 8, "targets": [target]}});
        answered(&plan(&config(2), &training)).unwrap().params.trainable
    };
    assert_eq!(lora("in_proj_qkvz"), 2 * 8 * (256 + 2 * 128 + 2 * 512));
    assert_eq!(lora("in_proj_ba"), 2 * 8 * (256 + 2 * 4));
    assert_eq!(lora("out_proj"), 2 * 8 * (512 + 256));
}

/// What the Hub has of Qwen3.5 holds a vision tower before the language model.
#[test]
fn a_composite_configuration_is_counted_with_its_tower() {
    let mut text = config(4);
    text["model_type"] = json!("qwen3_5_text");
    text.as_object_mut().unwrap().remove("layer_types");
    text["rope_parameters"] = json!({"partial_rotary_factor": 0.25, "rope_theta": 10_000_000});
    let whole = json!({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
                       "vision_config": {"model_type": "qwen3_5", "depth": 2}});
    let mut shown = plan(&whole, &json!({"precision": "bf16"}));
    shown["model"]["images"] = json!(0);
    let prediction = answered(&shown).unwrap();
    // transformers 5.3, models/qwen3_5/modeling_qwen3_5.py. Three layers of four are linear: four matrices, the output, the
    // convolution, a norm of a head, two numbers a value head; the fourth attends with a gate of as many rows as its queries.
    let linear = 256 * (2 * 128 + 512) + 256 * 512 + 2 * 256 * 4 + 512 * 256 + (2 * 128 + 512) * 4 + 128 + 2 * 4;
    let full = 256 * (2 * 256 + 2 * 128) + 256 * 256 + 2 * 64;
    let each = 3 * 256 * 768 + 2 * 256;
    // `Qwen3_5VisionConfig`: 1152 channels, 4304 within a block, patches of 2 x 3 x 16 x 16 numbers, 2304 positions; four patches a token.
    let block = 4 * 1152 + 4 * 1152 * 1152 + 4 * 1152 + 2 * 1152 * 4304 + 4304 + 1152;
    let merger = 2 * 1152 + 4608 * 4608 + 4608 + 4608 * 256 + 256;
    let tower = (1536 + 1) * 1152 + 2304 * 1152 + 2 * block + merger;
    assert_eq!(prediction.params.total, 3 * linear + full + 4 * each + 2 * 1000 * 256 + 256 + tower);
}
