//! What losses keep that go through the tokens in parts, worked by hand from the frameworks' code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Phase};

const TOKENS: u64 = 8192;
const WORDS: u64 = 128_256;
const WIDTH: u64 = 1024;

/// Bytes of logits and loss at the peak, which must be in the forward pass.
fn kept(loss: &str) -> u64 {
    let plan = format!(
        "{{model: {{framework: torchtitan, type: transformer, sequence_length: {TOKENS}, batch_size: 1, architecture:
          {{hidden_size: {WIDTH}, num_layers: 1, num_attention_heads: 8, intermediate_size: 4096, vocab_size: {WORDS},
          activation: swiglu, norm: rmsnorm, linear_bias: false, tie_embeddings: false}}}},
          training: {{precision: bf16, micro_batch_size: 1, loss: {loss}, compile: false}}, hardware: {{gpu_type: H100}}}}"
    );
    let prediction = predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap();
    let stage = prediction.largest();
    assert_eq!(stage.peak_phase, Phase::Forward, "{}", stage.peak_cause);
    stage.terms.iter().find(|term| term.name == "logits and loss").unwrap().bytes.0
}

/// torchtune's `LinearCrossEntropyLoss` takes `F.cross_entropy(logits.float())` of a chunk: eager, autograd keeps the fp32
/// log-softmax of every chunk, beside which the last chunk's fp32 logits stand. The loss itself takes 512 bytes.
#[test]
fn an_eager_loss_in_chunks_keeps_each_chunks_log_softmax() {
    assert_eq!(kept("chunked"), TOKENS * WORDS * 4 + TOKENS / 8 * WORDS * 4 + 512);
}

/// torchtitan's `ChunkedLossWrapper` goes backward through each of 8 parts at once: one part's logits in 16 bits and in
/// fp32, the gradient of all hidden states, and the part's own gradient of the matrix.
#[test]
fn a_loss_that_goes_backward_by_parts_keeps_one_parts_logits() {
    assert_eq!(kept("fused"), TOKENS / 8 * WORDS * (2 + 4) + TOKENS * WIDTH * 2 + WORDS * WIDTH * 2 + 512);
}

/// Liger makes the gradient of the head's weight where that is trained (ops/fused_linear_cross_entropy.py,
/// `if weight_needs_grad`): under adapters there are two products of the head's size in place of three.
#[test]
fn a_frozen_head_has_no_gradient_in_a_fused_loss() {
    let flops = |lora: &str| {
        let plan = format!(
            "{{model: {{framework: pytorch, type: transformer, sequence_length: {TOKENS}, batch_size: 1, architecture:
              {{hidden_size: {WIDTH}, num_layers: 1, num_attention_heads: 8, intermediate_size: 4096, vocab_size: {WORDS},
              activation: swiglu, norm: rmsnorm, linear_bias: false, tie_embeddings: false}}}},
              training: {{precision: bf16, micro_batch_size: 1, loss: fused{lora}}}, hardware: {{gpu_type: H100}}}}"
        );
        predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap().flops.forward.0
    };
    let product = (2 * TOKENS * WORDS * WIDTH) as f64;
    let adapter = (2 * TOKENS * 8 * (WIDTH + WIDTH)) as f64;
    let less = flops("") - flops(", lora: {rank: 8, targets: [q_proj]}") + adapter;
    assert!((less - product).abs() < 1e-6 * product, "{less} {product}");
}
