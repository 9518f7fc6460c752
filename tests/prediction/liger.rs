//! Liger's kernels in the place of transformers' modules: what each saves, from Liger-Kernel 0.8.2.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict;

const TOKENS: u64 = 2 * 1024;

fn end_of_forward(layers: u64, training: &str) -> u64 {
    let text = format!(
        "{{model: {{hf_config: {{model_type: llama, hidden_size: 512, intermediate_size: 1408, num_hidden_layers: {layers},
         num_attention_heads: 8, num_key_value_heads: 4, vocab_size: 1000}}, sequence_length: 1024}},
         training: {{precision: bf16, micro_batch_size: 2, attention: flash, loss: fused{training}}}, cluster: {{num_gpus: 1}}}}"
    );
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap().largest().activations_end_of_forward.0
}

/// Of a token in bf16: the inputs of both norms and their results; queries, keys, values and the result of attention; gate
/// and up (ops/swiglu.py) and their product. In fp32: a deviation for each norm (ops/rms_norm.py), and what attention
/// keeps of each of 8 heads. The rotation saves the model's own table alone (ops/rope.py).
#[test]
fn a_layer_saves_what_the_kernels_save() {
    let kernels = ", liger_kernels: [rms_norm, rope, glu]";
    let wide = 2 * 512 + 2 * 512 + (512 + 256 + 256 + 512) + 3 * 1408;
    let narrow = 2 + 8;
    // Flash attention keeps the seed and the offset of its random numbers, each in a block of 512 bytes.
    let layer = TOKENS * (2 * wide + 4 * narrow) + 2 * 512;
    assert_eq!(end_of_forward(4, kernels) - end_of_forward(3, kernels), layer);
}

/// `LlamaMLP` saves the activation of the gate besides; the kernel makes it again.
#[test]
fn a_kernel_is_counted_by_itself() {
    let less = end_of_forward(4, "") - end_of_forward(4, ", liger_kernels: [glu]");
    assert_eq!(less, 4 * TOKENS * 2 * 1408);
}

#[test]
fn an_unknown_kernel_and_another_frameworks_modules_are_refused() {
    for (plan, said) in [
        ("{model: {preset: llama-3-8b}, training: {liger_kernels: [norm]}}", "known: rms_norm, rope, glu"),
        (
            "{model: {preset: llama-3-8b, framework: megatron}, training: {liger_kernels: [glu]}}",
            "transformers' modules alone",
        ),
    ] {
        let faults = predict::of(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap_err();
        assert!(faults.iter().any(|fault| fault.to_string().contains(said)), "{faults:?}");
    }
}

/// Under autocast the logits and both gradients are products of 16 bit (ops/fused_linear_cross_entropy.py: "fp32 params under
/// AMP", "grad_logits is the autocast dtype"). Three of 2 x 8192 x 2048 x 128 256 are 12.9 TFLOP: 13 ms of an H100's 989
/// TFLOP/s, 192 ms of the 67 that it has in fp32.
#[test]
fn the_fused_loss_multiplies_in_the_type_of_autocast() {
    let plan =
        "{model: {preset: llama-3.2-1b, batch_size: 2, sequence_length: 4096}, hardware: {gpu_type: NVIDIA H100},
        training: {precision: bf16-mixed, loss: fused}, cluster: {num_gpus: 1}}";
    let prediction = predict::of(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap();
    let all = prediction.roofline.ops.iter().find(|operator| operator.name == "loss.fused").unwrap();
    assert!((12.8e12..13.0e12).contains(&all.flops.0), "{:?}", all.flops);
    assert!((0.013..0.1).contains(&all.seconds.0), "{:?}", all.seconds);
}
