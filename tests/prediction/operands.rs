//! What FP8 and multi-token prediction change in Megatron's memory, by hand counts from the frameworks' code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

const HIDDEN: u64 = 4096;
const MIDDLE: u64 = 14_336;
const LAYERS: u64 = 32;
const TOKENS: u64 = 8192;
/// Query, output, key and value matrices of Llama 3 8B, and its three feed-forward matrices.
const MATRICES: u64 = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * 1024 + 3 * HIDDEN * MIDDLE;

fn predicted(plan: &str) -> Prediction {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

fn llama(gpu: &str, training: &str) -> Prediction {
    predicted(&format!(
        "model: {{preset: llama-3-8b, framework: megatron, sequence_length: {TOKENS}}}\n\
         training: {{micro_batch_size: 1, {training}}}\nhardware: {{gpu_type: {gpu}}}\n"
    ))
}

/// Saved: both norms' outputs and SwiGLU's at one byte instead of two; the attention's output, which its kernel keeps
/// in 16 bit, once more (pytorch/module/layernorm_linear.py and linear.py, `ctx.save_for_backward`). Weights: by rows
/// and by columns beside the 16-bit ones, or in their place.
#[test]
fn fp8_saves_operands_at_one_byte() {
    let plain = llama("NVIDIA H100", "precision: bf16-fp32-master");
    let fp8 = llama("NVIDIA H100", "precision: fp8-mixed, fp8_recipe: tensorwise");
    let gathered = llama("NVIDIA H100", "precision: fp8-mixed, fp8_recipe: tensorwise, fp8_param_gather: true");
    let saved = |prediction: &Prediction| prediction.stages[0].activations_end_of_forward.0;
    let fixed = |prediction: &Prediction| prediction.stages[0].static_bytes.0;
    assert_eq!(saved(&plain) - saved(&fp8), LAYERS * TOKENS * (2 * HIDDEN + MIDDLE - HIDDEN));
    assert_eq!(fixed(&fp8) - fixed(&plain), LAYERS * 2 * MATRICES);
    assert_eq!(fixed(&gathered), fixed(&plain));
}

/// MXFP8 has a scale of one byte for 32 values (pytorch/tensor/mxfp8_tensor.py); Blackwell's products need no second
/// layout where a tensor has one scale (pytorch/utils.py, `is_non_tn_fp8_gemm_supported`).
#[test]
fn scales_and_layouts_of_recipes() {
    let weights = |gpu: &str, recipe: &str| {
        let prediction = llama(gpu, &format!("precision: fp8-mixed, fp8_recipe: {recipe}"));
        let terms = &prediction.stages[0].terms;
        terms.iter().find(|term| term.name == "FP8 copies of weights").unwrap().bytes.0
    };
    assert_eq!(weights("NVIDIA B200", "mxfp8"), LAYERS * 2 * (MATRICES + MATRICES / 32));
    assert_eq!(weights("NVIDIA B200", "delayed"), LAYERS * MATRICES);
    assert_eq!(weights("NVIDIA H100", "delayed"), LAYERS * 2 * MATRICES);
}

/// A prediction module holds a layer, a matrix of two hidden states to one, and three norms; embedding and output
/// matrix are the model's (core/transformer/multi_token_prediction.py).
#[test]
fn prediction_modules_are_megatrons() {
    let count = |framework: &str, modules: u64| {
        predicted(&format!(
            "model:\n  framework: {framework}\n  architecture: {{hidden_size: {HIDDEN}, num_layers: {LAYERS}, \
             num_attention_heads: 32, num_kv_heads: 8, intermediate_size: {MIDDLE}, vocab_size: 128256, position: rope, \
             activation: swiglu, norm: rmsnorm, mtp_layers: {modules}}}\n"
        ))
        .params
        .total
    };
    let layer = MATRICES + 2 * HIDDEN;
    assert_eq!(count("megatron", 2) - count("megatron", 0), 2 * (layer + 2 * HIDDEN * HIDDEN + 3 * HIDDEN));
    assert_eq!(count("pytorch", 2), count("pytorch", 0));
}

/// Megatron's CheckpointFunction.backward runs the whole block again (core/tensor_parallel/random.py); torch's
/// checkpoint stops where the last saved tensor is made (utils/checkpoint.py), before the last matrix of the block.
#[test]
fn a_recomputed_block_runs_to_its_end_in_megatron_alone() {
    let plan = |framework: &str| {
        predicted(&format!(
            "model: {{preset: llama-3-8b, framework: {framework}, sequence_length: {TOKENS}}}\n\
             training: {{micro_batch_size: 1, precision: bf16, activation_checkpointing: full}}\n"
        ))
    };
    let again = |framework: &str| {
        let flops = plan(framework).flops;
        // Everything but the head's product, 2 operations a token and weight.
        let blocks = flops.forward.0 - (2 * TOKENS * HIDDEN * 128_256) as f64;
        (blocks, blocks - flops.recompute.0)
    };
    let (blocks, missing) = again("megatron");
    assert!((missing / blocks).abs() < 1e-9, "{missing} of {blocks}");
    let (blocks, missing) = again("pytorch");
    let last = (2 * TOKENS * LAYERS * MIDDLE * HIDDEN) as f64;
    assert!(((missing - last) / blocks).abs() < 1e-9, "{missing}, by hand {last}");
}
