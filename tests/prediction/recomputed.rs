//! Modules that Megatron recomputes: what is freed is what runs again.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

/// Qwen1.5-MoE-A2.7B: 24 layers of experts with a shared one of 5632 beside them, on 4096 tokens of 2048.
fn predicted(recomputed: &str) -> Prediction {
    let plan = format!(
        "{{model: {{preset: qwen1.5-moe-a2.7b, framework: megatron, sequence_length: 4096}}, cluster: {{num_gpus: 4}},
         distribution: {{expert_parallel: 4, sharding: zero1}}, training: {{micro_batch_size: 1,
         gradient_accumulation_steps: 1{recomputed}}}}}"
    );
    predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap()
}

fn modules(names: &str) -> Prediction {
    predicted(&format!(", activation_checkpointing: {{modules: [{names}]}}"))
}

/// Three matrices of 2048 x 5632 for each of 4096 tokens in 24 layers, a multiply-add as two.
const SHARED: f64 = 2.0 * 3.0 * 2048.0 * 5632.0 * 4096.0 * 24.0;

#[test]
fn shared_experts_run_again_where_they_are_freed() {
    let (plain, shared, dense) = (predicted(""), modules("shared_experts"), modules("mlp"));
    assert!(shared.largest().peak_allocated < plain.largest().peak_allocated);
    assert!((shared.flops.recompute.0 / SHARED - 1.0).abs() < 0.01, "{:.4e} of {SHARED:.4e}", shared.flops.recompute.0);
    assert!(shared.time.step > plain.time.step);
    // Every layer routes: there is no dense block to recompute.
    assert_eq!(dense.flops.recompute.0, 0.0);
    assert_eq!((dense.time.step, dense.largest().peak_allocated), (plain.time.step, plain.largest().peak_allocated));
    // An expert layer is recomputed with its shared experts: four of 60 experts of 1408 beside them, which do as much.
    let both = modules("moe");
    assert_eq!(both.largest().peak_allocated, modules("moe, shared_experts").largest().peak_allocated);
    assert!((both.flops.recompute.0 / (2.0 * SHARED) - 1.0).abs() < 0.02, "{:.4e}", both.flops.recompute.0);
}

/// Transformer Engine runs a norm with the matrix behind it: by itself it is not recomputed, and takes no time again.
#[test]
fn norms_within_a_matrix_are_not_recomputed() {
    let of = |recomputed: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, framework: megatron, sequence_length: 2048}},
             training: {{micro_batch_size: 1{recomputed}}}}}"
        );
        predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap()
    };
    let (plain, norms) = (of(""), of(", activation_checkpointing: {modules: [layernorm]}"));
    assert_eq!(plain.time.step, norms.time.step);
}
