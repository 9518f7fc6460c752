//! Buffers of sharded training, worked by hand from the frameworks' code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memwall::catalog::Catalog;
use memwall::plan::Document;
use memwall::predict::{self, Phase, Prediction};

fn predicted(plan: &str) -> Prediction {
    let catalog = Catalog::embedded().unwrap();
    predict::of(&Document::parse(plan).unwrap().plan().unwrap(), &catalog).unwrap()
}

/// Bytes of a term of the largest stage, which must have its peak in that phase.
fn term(prediction: &Prediction, phase: Phase, name: &str) -> u64 {
    let stage = prediction.largest();
    assert_eq!(stage.peak_phase, phase, "{}", stage.peak_cause);
    stage.terms.iter().find(|term| term.name == name).map_or(0, |term| term.bytes.0)
}

/// Megatron FSDP as megatron-core's code has it (core/distributed/fsdp/src/megatron_fsdp). A layer of 4 x 4096^2 +
/// 3 x 4096 x 11 008 + 2 x 4096 = 202 383 360 parameters is a unit; embedding and head, 32 000 x 4096 each, and the final
/// norm are in none.
#[test]
fn megatron_fsdp_gathers_ahead_and_frees_late() {
    let run = |layers: u64| {
        predicted(&format!(
            "{{model: {{framework: megatron, type: transformer, sequence_length: 64, architecture: {{hidden_size: 4096,
             num_layers: {layers}, num_attention_heads: 32, intermediate_size: 11008, vocab_size: 32000,
             vocab_padding_multiple: 128, activation: swiglu, norm: rmsnorm, linear_bias: false,
             tie_embeddings: false}}}},
             training: {{micro_batch_size: 1}}, hardware: {{library_workspaces: false}},
             cluster: {{num_gpus: 8}}, distribution: {{data_parallel: 8, sharding: zero3}}}}"
        ))
    };
    let buffers = |layers: u64| term(&run(layers), Phase::Backward, "sharding buffers");
    let (layer, matrix) = (202_383_360_u64, 32_000_u64 * 4096);
    // 16 bit, always gathered: `AllGatherPipeline.reset` keeps what belongs to no unit.
    let ends = (2 * matrix + 4096) * 2;
    // Ahead of a layer until 5e8 elements are reached: three more.
    let gathered = 4 * layer * 2;
    // fp32 gradients are freed before others are handed on only while those that wait have more than 1e9 elements. The
    // head's 131 076 096 and four layers' have not, so that a fifth is handed on, and a sixth made, before any is freed.
    assert_eq!(buffers(24), ends + gathered + (matrix + 4096 + 6 * layer) * 4);
    // With two layers nothing is ever freed: the head's, the upper layer's, and the lower one's being made.
    assert_eq!(buffers(2), ends + 2 * layer * 2 + (matrix + 4096) * 4 + 2 * layer * 4);
}

/// A transformer of 12 layers of 4 x 1024^2 + 2 x 1024 x 4096 + 13 x 1024 parameters on 8 GPUs with 16-bit weights and
/// fp32 masters.
fn deepspeed(more: &str) -> Prediction {
    predicted(&format!(
        "{{model: {{framework: pytorch, sequence_length: 64, hf_config: {{model_type: gpt2, n_embd: 1024, n_layer: 12,
         n_head: 16, n_positions: 1024, vocab_size: 50257}}}},
         training: {{precision: bf16-fp32-master, optimizer: adamw-fused, micro_batch_size: 1}},
         hardware: {{library_workspaces: false}}, cluster: {{num_gpus: 8}}, distribution: {{data_parallel: 8{more}}}}}"
    ))
}

/// DeepSpeed's ZeRO 2 (runtime/zero/stage_1_and_2.py, `setup_buckets`): `torch.empty(int(reduce_bucket_size))` in the
/// type of the weights when the backward pass begins, 5e8 x 2 B whatever the model's size, and one of them, as
/// `overlap_comm` is on for stage 3 only (runtime/zero/config.py, `overlap_comm_valid`). It is gone between steps.
#[test]
fn zero_2_makes_its_whole_bucket_for_a_small_model() {
    let prediction = deepspeed(", sharding: zero2");
    assert_eq!(term(&prediction, Phase::Backward, "sharding buffers"), 1_000_000_000);
    let stage = prediction.largest();
    let resting =
        stage.terms.iter().filter(|term| ["weights", "master weights", "optimizer states"].contains(&&*term.name));
    assert_eq!(stage.static_bytes.0, resting.map(|term| term.bytes.0).sum::<u64>());
}

/// DeepSpeed's ZeRO 3 (runtime/zero/stage3.py): the bucket is there from the start. 203 508 736 parameters are all used
/// again within 1e9 elements when the loss is there (partitioned_param_coordinator.py, `__params_to_release`): none has
/// been released when the last layer's backward pass makes its gradients in 16 bit.
#[test]
fn zero_3_keeps_its_bucket_and_releases_nothing_of_a_small_model() {
    let prediction = deepspeed(", sharding: zero3");
    let bucket = 1_000_000_000;
    let params = 50_257 * 1024 + 1024 * 1024 + 12 * (12 * 1024 * 1024 + 13 * 1024) + 2 * 1024;
    assert_eq!(prediction.params.total, params);
    let layer = 12 * 1024 * 1024 + 13 * 1024;
    assert_eq!(term(&prediction, Phase::Backward, "sharding buffers"), bucket + 2 * (params + layer));
    assert!(prediction.largest().static_bytes.0 > bucket);
}
