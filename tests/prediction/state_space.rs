//! State-space layers (Mamba, Mamba-2 and hybrids): work and what is kept by hand, and where there are no rules for them.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Component, Prediction};
use serde_json::{Value, json};

fn answered(plan: &Value) -> Result<Prediction, Vec<String>> {
    let texts = |faults: Vec<memwall::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let plan = Document::parse(&plan.to_string()).map_err(texts)?.plan().map_err(texts)?;
    predict::of(&plan, catalog()).map_err(texts)
}

/// 8 heads of 64 channels in 2 groups, a state of 64 numbers, chunks of 64 tokens.
fn config(layers: u64) -> Value {
    json!({"model_type": "mamba2", "vocab_size": 1000, "hidden_size": 256, "num_hidden_layers": layers, "num_heads": 8,
           "head_dim": 64, "n_groups": 2, "state_size": 64, "conv_kernel": 4, "expand": 2, "chunk_size": 64,
           "residual_in_fp32": false})
}

fn mamba(layers: u64) -> Value {
    json!({"model_type": "mamba", "vocab_size": 1000, "hidden_size": 256, "num_hidden_layers": layers, "state_size": 16,
           "conv_kernel": 4, "expand": 2, "time_step_rank": 16, "residual_in_fp32": false})
}

fn plan(config: &Value, training: &Value) -> Value {
    json!({"model": {"hf_config": config, "sequence_length": 100, "batch_size": 3}, "training": training,
           "cluster": {"num_gpus": 1}})
}

/// One layer more, 3 samples of 100 tokens.
fn one_more(config: fn(u64) -> Value) -> (f64, f64, u64) {
    let of = |layers| {
        let prediction = answered(&plan(&config(layers), &json!({"precision": "bf16"}))).unwrap();
        let kept = prediction.stages[0].activations_end_of_forward.0;
        (prediction.flops.forward.0, prediction.flops.backward.0, kept)
    };
    let (more, less) = (of(3), of(2));
    (more.0 - less.0, more.1 - less.1, more.2 - less.2)
}

/// Bytes of a tensor as PyTorch allocates them.
fn allocated(numel: u64, bytes: u64) -> u64 {
    (numel * bytes).div_ceil(512) * 512
}

/// Two chunks of 64 tokens a sample, of which the second is not full (mamba-ssm 2.3.2, the `tl.dot` of the kernels that
/// ops/triton/ssd_combined.py calls).
#[test]
fn a_layer_of_mamba_2_works_as_its_matrices_and_kernels_do() {
    let (forward, backward, _) = one_more(config);
    let (tokens, hidden, inner, convolved) = (300.0, 256.0, 512.0, 512.0 + 2.0 * 2.0 * 64.0);
    let matrices = 2.0 * tokens * (hidden * (inner + convolved + 8.0) + inner * hidden);
    // Four tokens under the window of each channel; backward it is made again.
    let convolution = 2.0 * tokens * convolved * 4.0;
    let (chunk, channels, state) = (64.0, 64.0, 64.0);
    let (chunks, pieces) = (3.0 * 2.0 * 8.0, 3.0 * 2.0 * 2.0);
    // What goes into states by what is read from them once a group; states from values, values from states; values by pairs.
    let pairs = 2.0 * pieces * chunk * chunk * state;
    let by_state = 2.0 * chunks * chunk * channels * state;
    let by_pair = 2.0 * chunks * chunk * chunk * channels;
    let expected = matrices + convolution + pairs + 2.0 * by_state + by_pair;
    assert!((forward - expected).abs() < 1.0, "{forward} {expected}");
    // States and pairs again; gradients of states, of values by them, of both that share a group; of values by pairs, of pairs
    // themselves and of decays; of both that made pairs.
    let expected = 2.0 * matrices + 3.0 * convolution + 3.0 * pairs + 5.0 * by_state + 3.0 * by_pair;
    assert!((backward - expected).abs() < 1.0, "{backward} {expected}");
}

/// `MambaSplitConv1dScanCombinedFn.forward`, `ctx.save_for_backward`: what the input matrix gave, what the scan gave and a
/// deviation for each group; besides the norm of the layer in fp32, and what the input matrix reads.
#[test]
fn a_layer_of_mamba_2_keeps_what_its_function_saves() {
    let (tokens, hidden, inner) = (300, 256, 512);
    let projected = inner + inner + 2 * 2 * 64 + 8;
    let norm = allocated(tokens * hidden, 4) + allocated(tokens, 4) + allocated(tokens * hidden, 2);
    let function = allocated(tokens * projected, 2) + allocated(tokens * inner, 2) + allocated(tokens * 2, 4);
    // Decays of eight heads, and what they were taken from.
    let decays = 2 * allocated(8, 4);
    assert_eq!(one_more(config).2, norm + allocated(tokens * hidden, 2) + function + decays);
}

/// `MambaInnerFn.forward`: a copy of what the input matrix gave, time steps of rank 16 and what goes into states of 16 numbers and
/// comes from them, both of the latter once more along tokens, a state at every 2048th token twice, and what the scan gave.
#[test]
fn a_layer_of_mamba_keeps_what_its_function_saves() {
    let (tokens, hidden, inner) = (300, 256, 512);
    let norm = allocated(tokens * hidden, 4) + allocated(tokens, 4) + allocated(tokens * hidden, 2);
    let function = allocated(tokens * 2 * inner, 2)
        + allocated(tokens * (16 + 2 * 16), 2)
        + 2 * allocated(tokens * 16, 2)
        + allocated(3 * inner * 2 * 16, 4)
        + allocated(tokens * inner, 2);
    // Decays and what they were taken from; the bias of the time steps and the skip, in fp32.
    let weights = 2 * allocated(inner * 16, 4) + 2 * allocated(inner, 4);
    assert_eq!(one_more(mamba).2, norm + allocated(tokens * hidden, 2) + function + weights);
}

#[test]
fn they_are_refused_where_they_have_no_rules() {
    let bf16 = json!({"precision": "bf16"});
    let refused = |plan: &Value, key: &str, word: &str| {
        let faults = answered(plan).unwrap_err();
        let told = faults.iter().any(|fault| fault.starts_with(key) && fault.contains(word));
        assert!(told, "{key}: {faults:?}");
    };
    for key in ["tensor_parallel", "context_parallel"] {
        let mut split = plan(&config(2), &bf16);
        split["distribution"] = json!({key: 2});
        split["cluster"] = json!({"num_gpus": 2});
        refused(&split, &format!("distribution.{key}"), "state-space");
    }
    refused(&plan(&config(2), &json!({"mode": "inference"})), "training.mode", "state-space");
    for (framework, config) in [("torchtitan", config(2)), ("megatron", mamba(2))] {
        let mut other = plan(&config, &bf16);
        other["model"]["framework"] = json!(framework);
        refused(&other, "model.framework", "state-space");
    }
    // Megatron splits heads and groups, of which there are two.
    let mut split = plan(&config(2), &bf16);
    split["model"]["framework"] = json!("megatron");
    split["distribution"] = json!({"tensor_parallel": 4});
    split["cluster"] = json!({"num_gpus": 4});
    refused(&split, "distribution.tensor_parallel", "groups");
    let quantised = json!({"precision": "bf16", "lora": {"rank": 8, "targets": ["in_proj"], "base_bits": 4}});
    refused(&plan(&config(2), &quantised), "training.lora.base_bits", "mamba-ssm");
    let with = |mut config: Value, key: &str, value: Value| {
        config[key] = value;
        plan(&config, &bf16)
    };
    refused(&with(config(2), "num_heads", json!(7)), "model.hf_config.num_heads", "512");
    refused(&with(config(2), "n_groups", json!(3)), "model.hf_config.n_groups", "divide");
    refused(&with(mamba(2), "use_bias", json!(true)), "model.hf_config.use_bias", "gradient");
    let jamba = json!({"model_type": "jamba", "num_hidden_layers": 8, "hidden_size": 256, "intermediate_size": 512});
    refused(&plan(&jamba, &json!({"precision": "bf16-mixed"})), "training.precision", "Jamba");
    // No other family has such layers.
    let llama = json!({"model_type": "llama", "num_hidden_layers": 2, "layer_types": ["mamba", "mamba"]});
    refused(&plan(&llama, &bf16), "model.hf_config.layer_types", "mamba");
    let letters = json!({"model_type": "nemotron_h", "hybrid_override_pattern": "M-X*"});
    refused(&plan(&letters, &bf16), "model.hf_config.hybrid_override_pattern", "layers of X");
}

/// A layer for each letter, with one norm and one part.
#[test]
fn the_letters_of_nemotron_h_are_its_layers() {
    let params = |pattern: &str| {
        let config = json!({"model_type": "nemotron_h", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 640,
                            "hybrid_override_pattern": pattern, "num_attention_heads": 4, "num_key_value_heads": 2,
                            "head_dim": 32, "mamba_num_heads": 8, "mamba_head_dim": 48, "n_groups": 2, "ssm_state_size": 32,
                            "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
                            "moe_shared_expert_intermediate_size": 192});
        answered(&plan(&config, &json!({"precision": "bf16"}))).unwrap().params.total
    };
    let base = params("M*");
    // NVIDIA's modeling_nemotron_h.py. Input, convolution with its bias, three numbers a head, gated norm, output.
    let (inner, convolved) = (8 * 48, 8 * 48 + 2 * 2 * 32);
    let space = 256 * (inner + convolved + 8) + convolved * 5 + 3 * 8 + inner + inner * 256;
    assert_eq!(params("M*M") - base, 256 + space);
    assert_eq!(params("M**") - base, 256 + 256 * 32 * (2 * 4 + 2 * 2));
    assert_eq!(params("M*-") - base, 256 + 2 * 256 * 640);
    assert_eq!(params("M*E") - base, 256 + 6 * 256 + 6 * 2 * 256 * 96 + 2 * 256 * 192);
}

/// Nemotron 3 Super (transformers 5, models/nemotron_h/modeling_nemotron_h.py, `NemotronHMoE`): one matrix brings tokens down to 64
/// channels for the routed experts and another back; the router and the shared expert read all 256.
#[test]
fn experts_of_nemotron_h_may_read_fewer_channels_than_the_stream() {
    let config = |latent: Option<u64>| {
        json!({"model_type": "nemotron_h", "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 640,
               "hybrid_override_pattern": "ME", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
               "mamba_num_heads": 8, "mamba_head_dim": 48, "n_groups": 2, "ssm_state_size": 32, "n_routed_experts": 6,
               "num_experts_per_tok": 2, "moe_intermediate_size": 96, "moe_shared_expert_intermediate_size": 192,
               "moe_latent_size": latent})
    };
    let of = |latent| answered(&plan(&config(latent), &json!({"precision": "bf16"}))).unwrap();
    let (whole, low) = (of(None), of(Some(64)));
    let experts = |width: u64| 6 * 2 * width * 96;
    assert_eq!(whole.params.total - low.params.total, experts(256) - experts(64) - 2 * 256 * 64);
    // Two experts for each of 300 tokens, of two matrices each.
    let less = 2.0 * 300.0 * (2.0 * 2.0 * (256.0 - 64.0) * 96.0 - 2.0 * 256.0 * 64.0);
    let forward = whole.flops.forward.0 - low.flops.forward.0;
    assert!((forward - less).abs() < 1.0, "{forward} {less}");
    let training = json!({"precision": "bf16", "lora": {"rank": 8, "targets": ["fc1_latent_proj"]}});
    assert_eq!(answered(&plan(&config(Some(64)), &training)).unwrap().params.trainable, 8 * (256 + 64));
}

/// Nemotron 3 Nano, two ranks of tensor and four of expert parallel: Megatron-LM's own test counts 8,449,294,624 parameters on each
/// (tests/unit_tests/models/test_mamba_moe_model.py). Those of 2 bytes are allocated in granules of 512: three numbers for each of
/// 32 heads in 23 layers, and 53 norms of 2688 channels.
#[test]
fn a_rank_of_megatron_holds_the_parameters_that_its_own_test_counts() {
    let plan = json!({"model": {"preset": "nemotron-3-nano-30b-a3b", "framework": "megatron", "sequence_length": 1024},
                      "cluster": {"num_gpus": 8}, "training": {"precision": "bf16", "micro_batch_size": 2},
                      "distribution": {"tensor_parallel": 2, "expert_parallel": 4, "expert_tensor_parallel": 1,
                                       "sequence_parallel": true}});
    let prediction = answered(&plan).unwrap();
    let held = prediction.largest().component(Component::Parameters).0;
    let rounded = 23 * 3 * (512 - 32 * 2) + 53 * (5632 - 2688 * 2);
    assert_eq!(held, 2 * 8_449_294_624 + rounded);
}

/// `MambaMixer._ssm_training` for one sample of 128 tokens: what the input matrix gave, what the scan gave before and behind its
/// gate (which the norm keeps), the norm's output and a deviation for each of two groups; besides the layer's own norm.
#[test]
fn a_layer_of_megatron_keeps_its_norm_and_the_input_of_its_output_matrix() {
    let kept = |layers: usize| {
        let config = json!({"model_type": "nemotron_h", "vocab_size": 1024, "hidden_size": 256,
                            "hybrid_override_pattern": "M".repeat(layers), "mamba_num_heads": 8, "mamba_head_dim": 64,
                            "n_groups": 2, "ssm_state_size": 64, "chunk_size": 64});
        let plan = json!({"model": {"hf_config": config, "framework": "megatron", "sequence_length": 128},
                          "cluster": {"num_gpus": 1}, "training": {"precision": "bf16", "micro_batch_size": 1}});
        answered(&plan).unwrap().stages[0].activations_end_of_forward.0
    };
    let (tokens, hidden, inner) = (128, 256, 512);
    let projected = inner + inner + 2 * 2 * 64 + 8;
    let mixer = allocated(tokens * projected, 2) + 3 * allocated(tokens * inner, 2) + allocated(tokens * 2, 4);
    let norm = 2 * allocated(tokens * hidden, 2) + allocated(tokens, 4);
    assert_eq!(kept(3) - kept(2), mixer + norm + 2 * allocated(8, 4));
}

/// Which kernels are meant is said, for transformers' own code keeps more.
#[test]
fn the_kernels_are_an_assumption() {
    let prediction = answered(&plan(&config(2), &json!({"precision": "bf16"}))).unwrap();
    let said = prediction.assumptions.iter().any(|line| line.contains("predicted after mamba-ssm's source"));
    assert!(said, "{:?}", prediction.assumptions);
}

/// peft finds the input matrix by its name: rank times the columns that go in and come out, in each of two layers.
#[test]
fn adapters_stand_on_the_input_matrix() {
    let training = json!({"precision": "bf16", "lora": {"rank": 8, "targets": ["in_proj"]}});
    let trainable = answered(&plan(&config(2), &training)).unwrap().params.trainable;
    assert_eq!(trainable, 2 * 8 * (256 + 512 + 512 + 2 * 2 * 64 + 8));
}
