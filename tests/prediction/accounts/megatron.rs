//! A mixture of experts in Megatron-LM's own tests on 8 H100s: tensor parallel 4 with sequence parallel, two pipeline
//! stages, expert parallel 2 with expert-tensor parallel 2, distributed optimizer. The sums follow megatron-core 0.16
//! and the case's `model_config.yaml`.

use super::{assert_terms, case, predicted};

/// A micro-batch: 4 x 1024 tokens, of which a rank has a quarter where norms and residuals are split along the sequence.
const TOKENS: u64 = 4 * 1024;
const TENSOR: u64 = 4;
const STREAM: u64 = TOKENS / TENSOR;
/// Each of the two stages holds half of the twelve layers.
const LAYERS: u64 = 6;
const HIDDEN: u64 = 512;
const HEADS: u64 = 8;
const HEAD: u64 = 64;
const POSITIONS: u64 = 1024;
/// 50257 rows padded to a multiple of 128 x 4.
const VOCABULARY: u64 = 99 * 512;
const EXPERTS: u64 = 8;
const EXPERT: u64 = 2;
/// Experts that a token chooses.
const CHOSEN: u64 = 2;
const EXPERT_TENSOR: u64 = 2;
const EXPERT_WIDTH: u64 = 1024;
const SHARED_WIDTH: u64 = 512;

const BF16: u64 = 2;
const FP32: u64 = 4;
const INT64: u64 = 8;
const BOOL: u64 = 1;
const MIB: u64 = 1024 * 1024;

/// The caching allocator's granule: what the smallest tensor takes.
const SMALLEST: u64 = 512;

/// Parameters of a layer on one rank.
fn layer() -> u64 {
    // Weight and bias of two layer norms, and the router, on every rank.
    let norms = 2 * 2 * HIDDEN;
    let router = EXPERTS * HIDDEN;
    // Queries, keys and values by columns, the output by rows.
    let attention = 3 * HEADS * HEAD / TENSOR * HIDDEN + HIDDEN * HEADS * HEAD / TENSOR;
    // An expert's two matrices over the expert-tensor ranks (transformer/moe/experts.py, TEGroupedMLP);
    // the shared expert is a dense block (shared_experts.py), so over the tensor ranks.
    let experts = EXPERTS / EXPERT * 2 * HIDDEN * EXPERT_WIDTH / EXPERT_TENSOR;
    let shared = 2 * HIDDEN * SHARED_WIDTH / TENSOR;
    norms + router + attention + experts + shared
}

/// The embedding's rows on one rank. The last stage has a copy: embedding and output are one matrix.
fn embedding() -> u64 {
    VOCABULARY / TENSOR * HIDDEN
}

/// What a layer saves for the backward pass under Transformer Engine, experts apart.
fn saved() -> [(&'static str, u64); 4] {
    let stream = STREAM * HIDDEN * BF16;
    // Attention reads one tensor of queries, keys and values and keeps its output, which the output matrix keeps too,
    // the log-sum-exp of each row, and two scalars of the random state. Matrices work on all tokens of their columns.
    let heads = TOKENS * HEADS * HEAD / TENSOR * BF16;
    let log_sum = TOKENS * HEADS / TENSOR * FP32;
    [
        // The inputs of both residual additions' branches, and their dropouts' masks.
        ("residual stream", 2 * (stream + STREAM * HIDDEN * BOOL)),
        // A norm's result, which the matrices keep before it is gathered (module/layernorm_linear.py), mean and
        // reciprocal deviation.
        ("norms", 2 * (stream + 2 * STREAM * FP32)),
        ("attention", 4 * heads + log_sum + 2 * SMALLEST),
        // The shared expert: its first product, for the GELU, and the GELU's result, for the second.
        ("feed-forward", 2 * TOKENS * SHARED_WIDTH / TENSOR * BF16),
    ]
}

/// Weights in bf16, main gradients and masters in fp32: data parallel is 1, so nobody shares the masters
/// (optimizer/distrib_optimizer.py; experts over their own 8 / (2 stages x 2 x 2) / 2 = 1 rank).
fn resident(parameters: u64) -> [(&'static str, u64); 5] {
    [
        ("weights", parameters * BF16),
        ("gradients", parameters * FP32),
        ("master weights", parameters * FP32),
        // Two moments. Steps are counted in the parameter group, on the host (pytorch/optimizers/fused_adam.py).
        ("optimizer states", parameters * 2 * FP32),
        // `CUBLAS_WORKSPACE_CONFIG=:4096:8` for two threads; Transformer Engine's own, and one for each of the four
        // streams of a grouped product (module/base.py, get_multi_stream_cublas_workspace).
        ("library workspaces", (2 + 1 + 4) * 32 * MIB),
    ]
}

const CASE: &str = "mlm-moe-gpt3_moe_mcore_te_tp4_ep2_etp2_pp2_resume_torch_dist_dist_optimizer-dev-dgx_h100";

/// Terms left out of this account: what experts save is held within bounds below.
const APART: [&str; 1] = ["experts"];

#[test]
fn the_last_stage_term_by_term() {
    let case = case("published.json", CASE);
    let prediction = predicted(&case["plan"]);
    // The peak is the loss: the logits of this rank's part of the vocabulary in bf16, their fp32 copy that becomes
    // the exponentials in place, target, mask and loss of each token (tensor_parallel/cross_entropy.py).
    let columns = VOCABULARY / TENSOR;
    let logits = TOKENS * (columns * (BF16 + FP32) + INT64 + BOOL + FP32);
    let stream = STREAM * HIDDEN * BF16;
    let [residual, norms, attention, feed_forward] = saved();
    let mut expected = resident(LAYERS * layer() + 2 * HIDDEN + embedding()).to_vec();
    expected.extend([
        // The last norm reads the last layer's output.
        (residual.0, LAYERS * residual.1 + stream),
        (norms.0, LAYERS * norms.1 + norms.1 / 2),
        (attention.0, LAYERS * attention.1),
        (feed_forward.0, LAYERS * feed_forward.1),
        ("logits and loss", logits),
        // The output matrix's gathered input (core/utils.py, GlobalMemoryBuffer; tensor_parallel/layers.py).
        ("global memory buffer", TOKENS * HIDDEN * BF16),
        // Labels and the mask of the loss (training/utils.py, get_batch_on_this_tp_rank). The loader's attention mask,
        // a byte a pair, is no part of plans.
        ("inputs and buffers", TOKENS * (INT64 + FP32)),
    ]);
    let stage = &prediction.stages[1];
    assert_terms(stage, &expected, &APART);
    // Experts: dispatched tokens, the first product, its GELU, and that times the probabilities, which the second
    // product reads; the combination keeps indices alone (transformer/moe/experts.py, TEGroupedMLP `bias_act_func`;
    // moe_utils.py `unpermute`). A rank has as many tokens as the stream chooses experts, times its two
    // expert-tensor ranks, and half of the width. The router's probabilities and indices are small beside them.
    let rows = STREAM * CHOSEN * EXPERT_TENSOR;
    let products = rows * (HIDDEN + 3 * EXPERT_WIDTH / EXPERT_TENSOR) * BF16;
    let experts = stage.terms.iter().find(|term| term.name == "experts").unwrap().bytes.0;
    assert!((LAYERS * products..LAYERS * (products + 128 * 1024)).contains(&experts), "{experts}");
    let measured = case["measured"]["peak_allocated_bytes_last_rank"].as_u64().unwrap();
    assert!(stage.peak_allocated.0.abs_diff(measured) * 100 <= measured * 6);
}

#[test]
fn the_first_stage_term_by_term() {
    let case = case("published.json", CASE);
    let prediction = predicted(&case["plan"]);
    let mut expected = resident(LAYERS * layer() + embedding() + POSITIONS * HIDDEN).to_vec();
    let [residual, norms, attention, _] = saved();
    expected.extend([
        // The peak is in the backward pass of the last layer's experts, whose gradients go back through the order of their
        // ranks: the dropout's mask behind them is used.
        (residual.0, LAYERS * residual.1 - STREAM * HIDDEN * BOOL),
        (norms.0, LAYERS * norms.1),
        (attention.0, LAYERS * attention.1),
        // The mask of the embedding's dropout, which comes after the scatter along the sequence
        // (models/common/embeddings/language_model_embedding.py).
        ("embedding", STREAM * HIDDEN * BOOL),
        // Token and position ids.
        ("inputs and buffers", TOKENS * 2 * INT64),
    ]);
    let stage = &prediction.stages[0];
    let moment = ["feed-forward", "activation gradients", "micro-batches in flight"];
    assert_terms(stage, &expected, &[&APART[..], &moment[..]].concat());
}
