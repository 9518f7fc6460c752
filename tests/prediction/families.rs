//! Models that are not decoder-only transformers: tensors, counts and rules held against the
//! frameworks' code and against traced steps.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::{Value, json};

fn answered(plan: &Value) -> Result<Prediction, Vec<String>> {
    let texts = |faults: Vec<memwall::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let catalog = catalog();
    let plan = Document::parse(&plan.to_string()).map_err(texts)?.plan().map_err(texts)?;
    predict::of(&plan, catalog).map_err(texts)
}

fn predicted(plan: &Value) -> Prediction {
    answered(plan).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn params(config: &Value) -> u64 {
    predicted(&json!({"model": {"hf_config": config}})).params.total
}

fn t5(more: &Value) -> Value {
    let mut config = json!({"model_type": "t5", "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 1024,
                            "num_layers": 8, "num_heads": 6});
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// A gated T5 with an output matrix of its own: 3 matrices in a feed-forward block instead of 2
/// (models/t5/modeling_t5.py, `T5DenseGatedActDense`), and the vocabulary twice.
#[test]
fn gated_t5_has_one_matrix_more_in_each_layer() {
    let plain = params(&t5(&json!({})));
    let gated = params(&t5(&json!({"feed_forward_proj": "gated-gelu"})));
    assert_eq!(gated - plain, 16 * 512 * 1024);
    let untied = params(&t5(&json!({"tie_word_embeddings": false})));
    assert_eq!(untied - plain, 32128 * 512);
}

/// umT5 learns 32 rows for 6 heads in each layer of its encoder and its decoder, where T5 learns them once in each half
/// (models/umt5/modeling_umt5.py, `UMT5LayerSelfAttention`): 2 x (8 - 1) tables more. Its feed-forward blocks are gated.
#[test]
fn umt5_learns_distances_in_every_layer() {
    let of = |kind: &str| params(&t5(&json!({"model_type": kind, "feed_forward_proj": "gated-gelu"})));
    assert_eq!(of("umt5") - of("t5"), 2 * 7 * 32 * 6);
}

/// The encoder's positions are sinusoids held as a parameter that is not trained
/// (models/whisper/modeling_whisper.py, `embed_positions.requires_grad_(False)`).
#[test]
fn whisper_keeps_its_encoder_positions_out_of_training() {
    let config = json!({"model_type": "whisper", "d_model": 384, "encoder_layers": 4, "decoder_layers": 4,
                        "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
                        "decoder_ffn_dim": 1536, "vocab_size": 51865});
    let count = predicted(&json!({"model": {"hf_config": config}})).params;
    assert_eq!(count.total - count.trainable, 1500 * 384);
    // openai/whisper-tiny as transformers counts it.
    assert_eq!(count.total, 37_760_640);
}

/// bart-base by hand: 50265 words and twice 1026 positions of 768 channels, a norm over each half's embedding; six layers of an
/// encoder (4 matrices of attention, 2 of a feed-forward block four times as wide, 2 norms) and six of a decoder, which attend to
/// the encoder by 4 matrices and a norm more. Pegasus has a norm behind each half in place of that over its embedding, and keeps
/// its sinusoids out of training (`PegasusSinusoidalPositionalEmbedding`).
#[test]
fn bart_and_pegasus_have_what_their_classes_build() {
    let attention = 4 * (768 * 768 + 768);
    let encoder = attention + 8 * 768 * 768 + 5 * 768 + 4 * 768;
    let halves = 6 * encoder + 6 * (encoder + attention + 2 * 768);
    let of = |kind: &str| {
        predicted(&json!({"model": {"hf_config": {
            "model_type": kind, "vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6,
            "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}}}))
        .params
    };
    let bart = of("bart");
    assert_eq!(bart.total, 50265 * 768 + 2 * 1026 * 768 + 2 * 2 * 768 + halves);
    // facebook/bart-base as transformers counts it.
    assert_eq!((bart.total, bart.trainable), (139_420_416, 139_420_416));
    // mBART has the norms behind its halves as well.
    assert_eq!(of("mbart").total, bart.total + 2 * 2 * 768);
    let pegasus = of("pegasus");
    assert_eq!(pegasus.total, bart.total - 2 * 2 * 768);
    assert_eq!(pegasus.total - pegasus.trainable, 2 * 1024 * 768);
}

/// Layers that chance leaves out, and classes with another head or none, have no rules.
#[test]
fn encoder_decoders_without_rules_are_refused_by_name() {
    let refusal = |config: &Value| {
        let faults = answered(&json!({"model": {"hf_config": config, "batch_size": 1}})).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].clone()
    };
    assert!(refusal(&json!({"model_type": "bart", "encoder_layerdrop": 0.1})).contains("encoder_layerdrop"));
    for (kind, class) in [("bart", "BartForSequenceClassification"), ("bart", "BartModel"), ("t5", "T5Model")] {
        assert!(refusal(&json!({"model_type": kind, "architectures": [class]})).contains(class), "{class}");
    }
}

fn resnet(framework: &str, depths: &Value, widths: &Value, kind: &str) -> Value {
    json!({"model": {"framework": framework, "image_size": 224, "batch_size": 32,
                     "hf_config": {"model_type": "resnet", "depths": depths, "hidden_sizes": widths,
                                   "layer_type": kind, "num_labels": 1000}},
           "training": {"precision": "fp32", "optimizer": "sgd-momentum"},
           "hardware": {"library_workspaces": false}})
}

/// torchvision's documented counts (models/resnet.py, `ResNet18_Weights` and `ResNet101_Weights`, `num_params`).
#[test]
fn residual_networks_count_as_torchvision_documents() {
    let basic = resnet("torchvision", &json!([2, 2, 2, 2]), &json!([64, 128, 256, 512]), "basic");
    assert_eq!(predicted(&basic).params.total, 11_689_512);
    let deep = resnet("torchvision", &json!([3, 4, 23, 3]), &json!([256, 512, 1024, 2048]), "bottleneck");
    assert_eq!(predicted(&deep).params.total, 44_549_160);
}

/// Both keep ReLU's output and nothing of the norm's: what is saved is the same, what is alive while a
/// block runs is not.
#[test]
fn relu_in_place_saves_the_same_and_needs_no_more() {
    let run = |framework| {
        let plan = resnet(framework, &json!([3, 4, 6, 3]), &json!([256, 512, 1024, 2048]), "bottleneck");
        let prediction = predicted(&plan);
        let stage = prediction.largest();
        (stage.activations_end_of_forward, stage.peak_allocated)
    };
    let ((own, own_peak), (other, other_peak)) = (run("torchvision"), run("pytorch"));
    assert_eq!(own, other);
    assert!(own_peak <= other_peak);
    // The step followed in allocator.json.
    assert_eq!(own.0, 2_730_181_632);
}

/// Saved bytes of T5 grow with source and target each on its own (scores: two of the encoder's and decoder's
/// lengths, one of both).
#[test]
fn source_and_target_lengths_count_each() {
    let run = |source: u64, target: u64| {
        let plan = json!({"model": {"hf_config": t5(&json!({})), "sequence_length": source,
                                    "decoder_sequence_length": target, "batch_size": 4},
                          "training": {"precision": "fp32", "attention": "eager"}});
        predicted(&plan).largest().activations_end_of_forward.0
    };
    assert!(run(512, 128) < run(512, 512));
    assert!(run(128, 512) < run(512, 512));
    assert_ne!(run(512, 128), run(128, 512));
}

/// Checkpointing keeps the inputs of residual and transformer blocks (diffusers 0.39,
/// models/unets/unet_2d_blocks.py): less is saved, more is computed.
#[test]
fn a_checkpointed_unet_saves_less_and_computes_again() {
    let run = |checkpointing: &str| {
        let plan = json!({"model": {"hf_config": {"_class_name": "UNet2DConditionModel",
                                                  "block_out_channels": [64, 128], "layers_per_block": 1,
                                                  "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
                                                  "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
                                                  "cross_attention_dim": 64},
                                    "image_size": 32, "batch_size": 4},
                          "training": {"precision": "fp32", "activation_checkpointing": checkpointing}});
        let prediction = predicted(&plan);
        (prediction.largest().activations_end_of_forward, prediction.flops)
    };
    let ((plain, once), (kept, twice)) = (run("none"), run("full"));
    assert!(kept.0 * 2 < plain.0);
    assert!(once.recompute.0 == 0.0 && twice.recompute.0 > 0.5 * twice.forward.0);
    assert!((once.forward.0 - twice.forward.0).abs() < 1.0);
}

/// Degrees that a family is not split by are refused by name.
#[test]
fn unsupported_degrees_name_their_key() {
    let mut plan = resnet("torchvision", &json!([1]), &json!([64]), "basic");
    plan["cluster"] = json!({"num_gpus": 2});
    for key in ["tensor_parallel", "pipeline_parallel", "context_parallel"] {
        plan["distribution"] = json!({key: 2});
        let faults = answered(&plan).unwrap_err();
        assert!(faults.iter().any(|fault| fault.contains(key)), "{key}: {faults:?}");
    }
    plan["distribution"] = json!({"data_parallel": 2});
    plan["model"]["batch_size"] = json!(64);
    assert_eq!(predicted(&plan).num_gpus, 2);
}

/// Sizes beyond all reason give a fault or an answer, never a panic.
#[test]
fn absurd_sizes_are_answered() {
    let plans = [
        resnet("pytorch", &json!([10000, 10000]), &json!([1_048_576, 1]), "bottleneck"),
        resnet("pytorch", &json!([0]), &json!([64]), "basic"),
        resnet("pytorch", &json!([1, 2]), &json!([64]), "basic"),
        json!({"model": {"hf_config": {"model_type": "t5", "num_layers": 10000, "d_model": 1_048_576, "num_heads": 8},
                         "sequence_length": 100_000_000}}),
        json!({"model": {"hf_config": {"_class_name": "UNet2DConditionModel", "norm_num_groups": 7}}}),
        json!({"model": {"hf_config": {"_class_name": "UNet2DConditionModel", "layers_per_block": 1000,
                                       "transformer_layers_per_block": 1000}}}),
        json!({"model": {"hf_config": {"_class_name": "UNet2DConditionModel", "block_out_channels": []}}}),
        json!({"model": {"hf_config": {"_class_name": "UNet2DConditionModel"}, "image_size": 1}}),
        json!({"model": {"hf_config": {"model_type": "whisper", "d_model": 100, "decoder_attention_heads": 7}}}),
        json!({"model": {"type": "diffusion_model", "architecture": {"hidden_size": 8, "num_layers": 1,
                         "num_attention_heads": 3}}}),
    ];
    for plan in &plans {
        if let Ok(prediction) = answered(plan) {
            let stage = prediction.largest();
            assert_eq!(stage.terms.iter().map(|term| term.bytes).sum::<memwall::units::Bytes>(), stage.device_used);
        }
    }
}

/// Classes of every family, small, with the head that their name says and with none, and the kinds of model whose
/// parameters alone are as their classes have them: each count is what transformers itself has (`source` in the file).
#[test]
fn classes_count_as_transformers_builds_them() {
    let path = format!("{}/tests/counts/classes.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 130, "{}", cases.len());
    for case in cases {
        assert_eq!(params(&case["config"]), case["params"].as_u64().unwrap(), "{}", case["config"]);
    }
}

/// What is read by another's modules says so, and what is known by name only is refused.
#[test]
fn kinds_without_a_walk_are_named() {
    let config = |kind: &str| {
        json!({"model": {"hf_config": {"model_type": kind, "hidden_size": 256, "num_hidden_layers": 2,
                                       "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1000}}})
    };
    let said = predicted(&config("olmo2")).assumptions.join("\n");
    assert!(said.contains("olmo2: llama's modules, with what its class writes in its own way"), "{said}");
    let faults = answered(&config("nystromformer")).unwrap_err();
    assert!(faults[0].contains("what its modules save has no checked rules"), "{faults:?}");
    let mut half = json!({"model": {"hf_config": t5(&json!({}))}});
    half["model"]["hf_config"]["architectures"] = json!(["T5EncoderModel"]);
    assert!(answered(&half).unwrap_err()[0].contains("T5EncoderModel"));
}

/// megatron-core 0.16, core/transformer/attention.py, `SelfAttention.get_query_key_value_tensors`: queries and keys pass
/// norms of the head size under Megatron as well. 4 layers of 2 x 128 weights; each norm keeps its input and a
/// reciprocal deviation a head, and makes what the rotation reads: (16 + 8) heads x (128 x 2 + 4) B for 2048 tokens.
#[test]
fn megatron_norms_queries_and_keys() {
    let run = |kind: &str| {
        let config = json!({"model_type": kind, "hidden_size": 1024, "num_hidden_layers": 4,
                            "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                            "intermediate_size": 3072, "vocab_size": 128_000, "attention_bias": false});
        predicted(&json!({"model": {"framework": "megatron", "hf_config": config, "sequence_length": 2048},
                          "cluster": {"num_gpus": 1}}))
    };
    let (with, without) = (run("qwen3"), run("llama"));
    assert_eq!(with.params.total - without.params.total, 4 * 2 * 128);
    let end = |prediction: &Prediction| prediction.largest().activations_end_of_forward.0;
    assert_eq!(end(&with) - end(&without), 4 * 2048 * (16 + 8) * (128 * 2 + 4));
}

/// Flash attention takes the tokenizer's mask of one row a sample; SDPA is given one of each pair of tokens, for the encoder's
/// scores and for those of the decoder against it: in 16 bit 4 x 256 x 256 and 4 x 128 x 256 of 2 bytes, which all layers keep.
#[test]
fn bart_makes_no_mask_of_pairs_for_flash_attention() {
    let kept = |attention: &str, padded: bool| {
        predicted(&json!({
            "model": {"preset": "bart-base", "framework": "pytorch", "batch_size": 4, "sequence_length": 256,
                      "decoder_sequence_length": 128},
            "training": {"precision": "bf16", "attention": attention, "padded_batch": padded},
            "hardware": {"gpu_type": "NVIDIA H100"}, "cluster": {"num_gpus": 1}}))
        .largest()
        .activations_end_of_forward
        .0
    };
    assert_eq!(kept("flash", true), kept("flash", false));
    // The kernel that takes a mask pads each head's row of sums to 32 queries; both lengths divide by that.
    assert_eq!(kept("sdpa", true) - kept("sdpa", false), 4 * 256 * (256 + 128) * 2);
}
