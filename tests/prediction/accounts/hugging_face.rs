//! Llama-3-8B with transformers' modules in pure bf16, 8 x 2048 tokens, AdamW foreach.
//! The sums follow `modeling_llama.py` of transformers 4.57.6 and PyTorch 2.9.

use super::{assert_terms, case, predicted};

const TOKENS: u64 = 8 * 2048;
const LAYERS: u64 = 32;
const HIDDEN: u64 = 4096;
const FEED_FORWARD: u64 = 14336;
const HEADS: u64 = 32;
const HEAD: u64 = 128;
const KV_HEADS: u64 = 8;
const VOCABULARY: u64 = 128_256;
const PARAMETERS: u64 = 8_030_261_248;

const BF16: u64 = 2;
const FP32: u64 = 4;
const INT64: u64 = 8;

/// The caching allocator's granule: what the smallest tensor takes.
const SMALLEST: u64 = 512;

#[test]
fn llama_3_8b_term_by_term() {
    let case = case("allocator.json", "alloc-llama-3-8b-b8-s2048-bf16-sdpa-adamw_foreach");
    let prediction = predicted(&case["plan"]);

    // LlamaRMSNorm keeps its input in fp32 (for the square and the product), the reciprocal
    // deviation, the normalised input in bf16 (for the weight's gradient) and its result,
    // which the projections keep: two norms a layer and the last one.
    let norm = TOKENS * (HIDDEN * FP32 + FP32 + HIDDEN * BF16 + HIDDEN * BF16);
    // LlamaMLP keeps gate, its SiLU, up, and their product.
    let feed_forward = TOKENS * 4 * FEED_FORWARD * BF16;
    // Flash attention keeps rotated queries and keys, values, its result, the log-sum-exp in
    // fp32, and two scalars of the random state.
    let queries = TOKENS * HEADS * HEAD * BF16;
    let keys = TOKENS * KV_HEADS * HEAD * BF16;
    let attention = 2 * queries + 2 * keys + TOKENS * HEADS * FP32 + 2 * SMALLEST;
    // The peak: the backward of the fp32 log-softmax holds its saved output, the gradient that
    // came in and the one that goes out.
    let logits = TOKENS * VOCABULARY * FP32;

    assert_terms(
        prediction.largest(),
        &[
            ("weights", PARAMETERS * BF16),
            ("optimizer states", PARAMETERS * 2 * BF16),
            ("norms", (2 * LAYERS + 1) * norm),
            ("feed-forward", LAYERS * feed_forward),
            ("attention", LAYERS * attention),
            ("logits and loss", logits),
            ("activation gradients", 2 * logits),
            // Cosines and sines of one sequence.
            ("rotary tables", 2 * 2048 * HEAD * BF16),
            // Ids and labels, and the rotary frequencies.
            ("inputs and buffers", 2 * TOKENS * INT64 + SMALLEST),
        ],
        &[],
    );

    // And the sum is what the allocator saw, to the kilobyte.
    let measured = case["measured"]["peak_allocated_bytes"].as_u64().unwrap();
    assert!(prediction.largest().peak_allocated.0.abs_diff(measured) <= 1024 * 1024 + 1024);
    let detail = &case["detail"]["by_category_at_peak"];
    assert_eq!(detail["params"], PARAMETERS * BF16);
    assert_eq!(detail["optimizer"], PARAMETERS * 2 * BF16);
    assert_eq!(detail["logits_loss"], 3 * logits);
}
