//! What is reserved or left behind beyond the tensors of a step, against hand counts from the frameworks' code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn predicted(plan: &str) -> Prediction {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

fn llama(framework: &str, rest: &str) -> Prediction {
    predicted(&format!("model:\n  preset: llama-3-8b\n  framework: {framework}\n  sequence_length: 8192\n{rest}"))
}

/// FSDP2's streams have pools of their own: the all-gathers of root and one layer, the sharded gradients. The 16-bit
/// logits leave room that no fp32 copy fits into, and what a block frees between what it keeps is too small for any of
/// them: most of that is there while SwiGLU multiplies.
#[test]
fn streams_keep_what_they_reserved() {
    let prediction = llama(
        "torchtitan",
        "training: {activation_checkpointing: selective-op, loss: hf, micro_batch_size: 2}\n\
         cluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}\n",
    );
    let stage = &prediction.stages[0];
    let layer: u64 = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336 + 2 * 4096;
    let root: u64 = 2 * 128_256 * 4096 + 4096;
    let gradients = (32 * layer + root) / 8 * 4;
    let logits = 2 * 8192 * 128_256 * 2;
    // silu(gate), up and their product beside the attention block's result, while the down projection's result and
    // the block's are still to come.
    let block = 2 * 8192 * (3 * 14_336 + 4096 - 2 * 4096) * 2;
    let by_hand = 2 * (root + layer) + gradients + logits + block;
    let beyond = stage.peak_reserved.0 - stage.peak_allocated.0;
    assert!(beyond.abs_diff(by_hand) < 4 << 20, "{beyond} for {by_hand}");
}

/// Each of Megatron's model chunks keeps the hidden state that it was sent last and its gradient; the first chunk of
/// the first stage is sent none.
#[test]
fn pipelines_leave_hidden_states_behind() {
    let stages = |chunks: u64| {
        let schedule = if chunks > 1 { "interleaved" } else { "1f1b" };
        let rest = format!(
            "training: {{micro_batch_size: 1, gradient_accumulation_steps: 8}}\ncluster: {{num_gpus: 4}}\n\
             distribution: {{pipeline_parallel: 4, pipeline_schedule: {schedule}, virtual_pipeline: {chunks}}}\n"
        );
        let prediction = llama("megatron", &rest);
        prediction.stages.iter().map(|stage| stage.static_bytes.0).collect::<Vec<_>>()
    };
    let (plain, interleaved) = (stages(1), stages(2));
    let state = 8192 * 4096 * 2;
    for (one, two) in plain.iter().zip(&interleaved) {
        assert_eq!(two - one, 2 * state);
    }
}
