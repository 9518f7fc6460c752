//! What must hold between two plans, whatever the figures are: who writes out what was assumed means the same, and what a
//! key adds comes on top.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use memwall::units::Bytes;

fn tried(plan: &str) -> Result<Prediction, Vec<String>> {
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn predicted(plan: &str) -> Prediction {
    tried(plan).unwrap_or_else(|faults| panic!("{plan}: {faults:?}"))
}

/// NVIDIA's recipes of FP8 overlap the exchange and reduce in bf16: a plan that says so is no other than one that is silent.
#[test]
fn what_recipes_have_may_be_written_out() {
    let step = |distribution: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, framework: megatron, batch_size: 32, sequence_length: 2048}},
             training: {{precision: fp8-mixed}}, cluster: {{num_gpus: 8}}, distribution: {{tensor_parallel: 2{distribution}}}}}"
        );
        predicted(&plan).time.step.0
    };
    let silent = step("");
    for said in [", overlap_grad_reduce: true", ", overlap_param_gather: true", ", reduce_dtype: bf16"] {
        assert_eq!(step(said), silent, "{said}");
    }
    // Megatron's own default, fp32, is another run.
    assert!(step(", reduce_dtype: fp32") > silent);
}

/// Keys and values in the computation's own type are what a plan means that does not say in which.
#[test]
fn the_computations_type_is_the_caches() {
    let token = |dtype: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, batch_size: 64, sequence_length: 8192}}, hardware: {{gpu_type: H200}},
             training: {{mode: inference, precision: bf16{dtype}}}}}"
        );
        predicted(&plan).decode.unwrap().step.0
    };
    assert_eq!(token(""), token(", kv_cache_dtype: bf16"));
}

/// Weights of another model lie there all the time: what is reserved grows by them, 1e9 of 2 bytes, in segments of 2 MiB.
#[test]
fn other_models_come_on_top_of_what_is_reserved() {
    let reserved = |billions: f64| {
        let plan = format!(
            "{{model: {{preset: llama-3.2-1b, batch_size: 8, sequence_length: 2048}}, hardware: {{gpu_type: H100}},
             training: {{precision: bf16, activation_checkpointing: full, frozen_models_billions: {billions}}}}}"
        );
        predicted(&plan).largest().peak_reserved
    };
    let (less, more) = (reserved(1.0), reserved(2.0));
    let added = more.saturating_sub(less);
    assert!(added.0.abs_diff(2_000_000_000) <= 4 << 20, "{less} {more}");
}

/// All-to-all waits for heads of whole sequences, a gather for all keys: neither runs beside the scores, as a ring does.
/// With 8 ranks of 32 query and 8 KV heads of 128, 32 768 / 8 tokens and bf16, a rank sends 4096 x (2 x 32 + 2 x 8) x 128 x 2
/// bytes of queries, output, keys and values, and once more of their gradients.
#[test]
fn ways_to_share_a_sequence_take_their_own_time() {
    let plan = |tensor: u64, context: u64, comm: &str| {
        format!(
            "{{model: {{preset: llama-3-8b, framework: megatron, batch_size: 1, sequence_length: 32768}},
             hardware: {{gpu_type: H100}}, cluster: {{num_gpus: {}}},
             distribution: {{tensor_parallel: {tensor}, context_parallel: {context}, cp_comm: {comm}}}}}",
            tensor * context
        )
    };
    let of = |comm: &str| {
        let prediction = predicted(&plan(1, 8, comm));
        let term = prediction.time_terms.iter().find(|term| term.name.starts_with("context-parallel"));
        let term = term.unwrap_or_else(|| panic!("{:?}", prediction.time_terms));
        (term.transfer.as_ref().unwrap().bytes, term.seconds)
    };
    let (sent, waited) = of("a2a");
    // Forward and backward in each of 32 layers.
    assert_eq!(sent, Bytes(64 * 4096 * (2 * 32 + 2 * 8) * 128 * 2));
    assert!(waited > of("p2p").1, "{waited:?}");
    assert!(of("all_gather").1 > of("p2p").1);
    // Eight KV heads over eight tensor ranks leave one, which cannot go to eight ranks, nor to two.
    let faults = tried(&plan(8, 8, "a2a")).unwrap_err();
    assert!(faults[0].contains("context_parallel 8 must divide"), "{faults:?}");
    let faults = tried(&plan(8, 2, "a2a+p2p")).unwrap_err();
    assert!(faults[0].contains("must divide the 1 KV head of a tensor rank"), "{faults:?}");
    assert!(tried(&plan(1, 3, "a2a+p2p")).unwrap_err()[0].contains("context_parallel 3 is odd"));
    // Neighbours exchange what all would; then the pairs pass keys and values of half of the heads around, once forward and
    // twice backward in each of 32 layers: 32 768 x 4 x 128 x 2 x 2 bytes.
    let both = predicted(&plan(1, 8, "a2a+p2p"));
    let bytes = |name: &str| {
        let term = both.time_terms.iter().find(|term| term.name.starts_with(name));
        term.unwrap_or_else(|| panic!("{:?}", both.time_terms)).transfer.as_ref().unwrap().bytes
    };
    assert_eq!(bytes("context-parallel pairs"), sent);
    assert_eq!(bytes("context-parallel ring of pairs"), Bytes(32 * 3 * 32_768 * 4 * 128 * 2 * 2));
}

/// What a framework does not read refuses no plan: PyTorch's own way needs no whole heads.
#[test]
fn a_key_without_effect_refuses_nothing() {
    for framework in ["pytorch", "torchtitan"] {
        let plan = format!(
            "{{model: {{preset: qwen2.5-3b, framework: {framework}}}, cluster: {{num_gpus: 4}},
             distribution: {{sharding: zero3, context_parallel: 4, cp_comm: a2a}}}}"
        );
        tried(&plan).unwrap_or_else(|faults| panic!("{framework}: {faults:?}"));
    }
}

/// Heads that go to other ranks are no tokens that several experts of a node want: how these are sent changes nothing.
#[test]
fn heads_are_sent_alike_however_tokens_are() {
    let seconds = |dispatcher: &str| {
        let prediction = predicted(&format!(
            "{{model: {{preset: mixtral-8x7b, framework: megatron, batch_size: 2, sequence_length: 32768}},
             hardware: {{gpu_type: H100}}, cluster: {{num_gpus: 32, nodes: 4}},
             distribution: {{tensor_parallel: 2, context_parallel: 8, cp_comm: a2a+p2p, expert_parallel: 8,
             expert_tensor_parallel: 2, moe_dispatcher: {dispatcher}}}}}"
        ));
        let terms = prediction.time_terms.iter().filter(|term| term.name.starts_with("context-parallel"));
        let seconds: Vec<_> = terms.map(|term| term.seconds).collect();
        assert_eq!(seconds.len(), 2, "{:?}", prediction.time_terms);
        seconds
    };
    assert_eq!(seconds("alltoall"), seconds("hybridep"));
}

/// A mask of the plan's own has the memory-efficient kernel read all of it: a window of 4096 in 32 768 saves nothing, where
/// flash kernels skip what it hides (PyTorch 2.9, sdp_utils.cpp: flash takes no `attn_mask`).
#[test]
fn a_mask_of_ones_own_spares_no_scores() {
    let seconds = |attention: &str| {
        let plan = format!(
            "{{model: {{preset: mistral-7b, batch_size: 1, sequence_length: 32768}}, hardware: {{gpu_type: H100}},
             training: {{precision: bf16, attention: {attention}}}}}"
        );
        let prediction = predicted(&plan);
        let core = prediction.roofline.ops.iter().find(|op| op.name == "attention.core").unwrap();
        core.flops.0
    };
    // Both matmuls of every pair, and five backward: 7 x 2 x 32 768^2 x 4096 for each of 32 layers.
    let all = 7.0 * 2.0 * 32_768.0_f64.powi(2) * 4096.0 * 32.0;
    assert!((seconds("sdpa") / all - 1.0).abs() < 0.01, "{}", seconds("sdpa") / all);
    assert!(seconds("flash") < 0.2 * all);
}

/// AOTriton has no attention for gfx908, and none for a Radeon that it is not told to try: scores are written out, as on no
/// MI300X.
#[test]
fn without_fused_attention_scores_are_written_out() {
    let peak = |gpu: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3.2-1b, batch_size: 1, sequence_length: 8192}}, hardware: {{gpu_type: {gpu}}},
             training: {{precision: bf16}}}}"
        );
        predicted(&plan).largest().peak_allocated
    };
    // One layer's scores in bf16: 32 heads x 8192 x 8192 x 2 bytes = 4 GiB.
    let scores = Bytes(4 << 30);
    let fused = peak("MI300X");
    for gpu in ["MI100", "RX 7900 XTX", "RX 9070 XT"] {
        assert!(peak(gpu) > fused + scores, "{gpu}");
    }
    assert!(peak("MI210") < fused + scores);
}

/// A model without experts has none to cut.
#[test]
fn a_degree_that_the_model_has_no_use_for_is_refused() {
    let plan = |model: &str| {
        format!("{{model: {{preset: {model}}}, cluster: {{num_gpus: 8}}, distribution: {{expert_tensor_parallel: 2}}}}")
    };
    assert_eq!(
        tried(&plan("llama-3-8b")).unwrap_err(),
        ["distribution.expert_tensor_parallel: 2: the model has no experts"]
    );
}

/// What is counted for MFU is what a token is routed to, whichever way a framework runs experts; and nothing that runs can
/// reach more of the peak than all operators together do.
#[test]
fn a_slower_way_to_run_experts_has_no_more_of_them_count() {
    let of = |framework: &str| {
        predicted(&format!(
            "{{model: {{preset: llama-4-scout-17b-16e, framework: {framework}, batch_size: 8}}, cluster: {{num_gpus: 8}},
             distribution: {{sharding: zero1}}}}"
        ))
    };
    let (every, routed) = (of("pytorch"), of("megatron"));
    // Megatron's vocabulary is padded to a multiple of 128.
    assert!(routed.params.active_per_token - every.params.active_per_token < 128 * 5120 * 2);
    assert!(every.time.mfu.unwrap() < routed.time.mfu.unwrap());
    let flux = predicted(
        "{model: {preset: flux.1-dev, batch_size: 4}, hardware: {gpu_type: A100}, training: {precision: bf16}}",
    );
    let flops = flux.flops.forward.0 + flux.flops.backward.0;
    let share = flops / flux.time.step.0 / 312e12;
    assert!((flux.time.mfu.unwrap() / share - 1.0).abs() < 0.02, "{:?} {share}", flux.time.mfu);
    // litgpt has no such model.
    let faults = tried("{model: {preset: flux.1-dev, framework: litgpt}}").unwrap_err();
    assert!(faults[0].contains("has no diffusion models"), "{faults:?}");
}
