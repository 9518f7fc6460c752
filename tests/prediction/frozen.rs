//! Frozen parts: what stays trained, counted by hand from the models' matrices.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

fn predicted(preset: &str, frozen: &str) -> Result<Prediction, Vec<String>> {
    let text = format!(
        "model: {{preset: {preset}, sequence_length: 512}}\ntraining: {{precision: bf16, frozen: [{frozen}]}}\n"
    );
    let plan = Document::parse(&text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// Parameters that are not trained.
fn untrained(preset: &str, frozen: &str) -> u64 {
    let params = predicted(preset, frozen).unwrap().params;
    params.total - params.trainable
}

/// Llama 2's output matrix is its own; GPT-2's is the embedding, beside which lies a table of positions.
#[test]
fn a_head_is_frozen_with_the_embedding_where_it_is_the_embedding() {
    assert_eq!(untrained("llama-2-7b", "embeddings"), 32_000 * 4096);
    assert_eq!(untrained("llama-2-7b", "embeddings, head"), 2 * 32_000 * 4096);
    assert_eq!(untrained("gpt2", "embeddings"), (50_257 + 1024) * 768);
    assert_eq!(untrained("gpt2", "head"), 0);
}

#[test]
fn parts_of_a_layer() {
    assert_eq!(untrained("llama-2-7b", "attention"), 32 * 4 * 4096 * 4096);
    assert_eq!(untrained("llama-2-7b", "mlp"), 32 * 3 * 4096 * 11_008);
    assert_eq!(untrained("llama-2-7b", "norms"), (2 * 32 + 1) * 4096);
    assert_eq!(untrained("mixtral-8x7b", "experts"), 32 * 8 * 3 * 4096 * 14_336);
    assert_eq!(untrained("mixtral-8x7b", "router"), 32 * 8 * 4096);
}

/// AdamW in bf16: two states of 2 bytes for each parameter that is trained; gradients are gone after the step.
#[test]
fn frozen_weights_have_no_states() {
    let fixed = |frozen: &str| {
        let prediction = predicted("llama-2-7b", frozen).unwrap();
        prediction.stages[0].static_bytes.0
    };
    assert_eq!(fixed("") - fixed("mlp"), 32 * 3 * 4096 * 11_008 * (2 + 2));
}

#[test]
fn an_unknown_part_is_refused() {
    let expected = "training.frozen: `vision` is not a part of a model; known: embeddings, head, attention, mlp, experts, \
                    router, norms, convolutions";
    assert_eq!(predicted("llama-2-7b", "vision").unwrap_err(), [expected]);
}

#[test]
fn a_part_that_the_model_lacks_is_refused_and_so_is_a_plan_that_trains_nothing() {
    let lacks = predicted("llama-2-7b", "convolutions").unwrap_err();
    assert_eq!(lacks, ["training.frozen: convolutions: the model has no parameters there"]);
    let nothing = predicted("llama-2-7b", "embeddings, attention, mlp, norms, head").unwrap_err();
    assert_eq!(nothing, ["training.frozen: nothing is left to train: no parameter has a gradient"]);
}

/// Where the head alone is trained nothing below it is run backward (torch.autograd: what needs no gradient saves
/// nothing): its matrix's gradient is 2 x 512 tokens x 4096 x 32 000 operations, and fewer than as many again are those of
/// the loss, which are counted one or two an element.
#[test]
fn below_the_first_trained_parameter_nothing_runs_backward() {
    let probe = predicted("llama-2-7b", "embeddings, attention, mlp, norms").unwrap();
    let matrix = 2.0 * 512.0 * 4096.0 * 32_000.0;
    assert!((matrix..1.01 * matrix).contains(&probe.flops.backward.0), "{:?}", probe.flops);
    // Of each of 32 blocks' inputs nothing is kept: 512 x 4096 x 2 bytes = 4 MiB each.
    let whole = predicted("llama-2-7b", "embeddings").unwrap();
    let activations = |prediction: &Prediction| prediction.largest().activations_end_of_forward.0;
    assert!(activations(&whole) - activations(&probe) > 32 * (4 << 20), "{}", activations(&probe));
    // Experts are no feed-forward blocks beside them, and short convolutions no attention: what is not there is not trained,
    // and what is there is. LFM2's convolutions are trained here: a gradient flows through all 16 layers.
    let experts = predicted("qwen3-30b-a3b", "embeddings, attention, norms, router, experts").unwrap();
    assert!(experts.flops.backward.0 < 0.5 * experts.flops.forward.0, "{:?}", experts.flops);
    let convolved = predicted("lfm2-1.2b", "embeddings, attention, mlp, norms").unwrap();
    assert!(convolved.flops.backward.0 > 0.8 * convolved.flops.forward.0, "{:?}", convolved.flops);
    // An encoder's head, too: BERT's blocks alone would take 12 x 4 x 2 x 512 x 768 x 768 operations backward for weights.
    let bert = predicted("bert-base", "embeddings, attention, mlp, norms").unwrap();
    assert!(bert.flops.backward.0 < 0.6 * bert.flops.forward.0, "{:?}", bert.flops);
}
