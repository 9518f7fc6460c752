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
    stage.terms.iter().find(|term| term.name.to_string() == name).map_or(0, |term| term.bytes.0)
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
