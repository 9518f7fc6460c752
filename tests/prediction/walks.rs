//! Worked accounts: what a block saves, against the figures that were found tensor by tensor,
//! and the parts of a stage against their sum.

use crate::support::catalog;
use memwall::plan::{Document, Fault};
use memwall::predict::{self, Component, Job, Layer, Phase, Prediction, StageMemory};
use proptest::prelude::*;

fn of(text: &str) -> Result<Prediction, Vec<Fault>> {
    predict::of(&Document::parse(text)?.plan()?, catalog())
}

/// Saved bytes of one more layer: what 3 layers keep beyond 2 at the end of the forward pass.
fn saved_by_a_layer(plan: impl Fn(u64) -> String) -> u64 {
    let end = |layers| of(&plan(layers)).unwrap().largest().activations_end_of_forward.0;
    end(3) - end(2)
}

/// tests/truth/README.md: saved bytes a token a layer in 16 bit with fused attention: Llama 16h + 4q + 4k + 8f + 4a + 8
/// (less the row statistics of 4 bytes a head and a norm, which it counts in 4a + 8).
#[test]
fn a_llama_layer_in_bf16_saves_what_was_followed_tensor_by_tensor() {
    let (h, f, heads, kv, d, tokens) = (1024, 2816, 16, 4, 64, 2048);
    let saved = saved_by_a_layer(|layers| {
        format!(
            "{{model: {{hf_config: {{model_type: llama, hidden_size: {h}, intermediate_size: {f}, num_hidden_layers: {layers}, \
             num_attention_heads: {heads}, num_key_value_heads: {kv}, vocab_size: 1000}}, batch_size: 1, sequence_length: {tokens}}}, \
             training: {{precision: bf16}}, cluster: {{num_gpus: 1}}}}"
        )
    });
    let expected = tokens * (16 * h + 4 * heads * d + 4 * kv * d + 8 * f + 4 * heads + 8);
    // Two 8-byte random-number states take a granule of 512 each.
    assert_eq!(saved, expected + 1024);
}

/// The same source: GPT-2 58h, with gelu_new's four tensors; statistics and masks of the head count beside.
#[test]
fn a_gpt2_layer_in_bf16_saves_58_bytes_a_channel() {
    let (h, heads, tokens) = (768, 12, 1024);
    let saved = saved_by_a_layer(|layers| {
        format!(
            "{{model: {{hf_config: {{model_type: gpt2, n_embd: {h}, n_head: {heads}, n_layer: {layers}}}, batch_size: 1, \
             sequence_length: {tokens}}}, training: {{precision: bf16}}, cluster: {{num_gpus: 1}}}}"
        )
    });
    // Four rows of statistics for two norms, and the log-sums of attention, 4 bytes each.
    assert_eq!(saved, tokens * (58 * h + 4 * 4 + 4 * heads) + 1024);
}

/// FORMULAS: Transformer Engine with sequence parallel, no dropout: (10h + 2ad + 4kd + 6f) / t a token a layer and the
/// row statistics (two norms, the log-sums of this rank's heads).
#[test]
fn a_megatron_layer_saves_its_formula() {
    let (h, f, heads, kv, d, tokens, t) = (4096_u64, 14_336_u64, 32_u64, 8_u64, 128_u64, 4096_u64, 4_u64);
    let saved = saved_by_a_layer(|layers| {
        format!(
            "{{model: {{hf_config: {{model_type: llama, hidden_size: {h}, intermediate_size: {f}, num_hidden_layers: {layers}, \
             num_attention_heads: {heads}, num_key_value_heads: {kv}, vocab_size: 1000}}, framework: megatron, batch_size: 1, \
             sequence_length: {tokens}}}, training: {{loss: te_fused}}, cluster: {{num_gpus: 4}}, \
             distribution: {{tensor_parallel: {t}, sequence_parallel: true}}}}"
        )
    });
    let tensors = tokens * (10 * h + 2 * heads * d + 4 * kv * d + 6 * f) / t;
    let statistics = tokens / t * 4 * 2 + tokens * heads / t * 4;
    assert_eq!(saved, tensors + statistics + 1024);
}

/// tests/truth/README.md: HF causal LMs hold 12 bytes a logit at the loss's backward, whatever the precision.
#[test]
fn the_loss_of_transformers_holds_twelve_bytes_a_logit() {
    let peak = |vocab: u64| {
        let text = format!(
            "{{model: {{hf_config: {{model_type: llama, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 1, \
             num_attention_heads: 4, vocab_size: {vocab}}}, batch_size: 8, sequence_length: 2048}}, \
             training: {{precision: bf16}}, cluster: {{num_gpus: 1}}}}"
        );
        let prediction = of(&text).unwrap();
        assert_eq!(prediction.largest().peak_phase, Phase::Backward);
        prediction.largest().peak_allocated.0
    };
    let logits = 8 * 2048 * (60_000 - 50_000);
    // Two matrices of 256 columns: 2 bytes a weight and 4 of states.
    assert_eq!(peak(60_000) - peak(50_000), 12 * logits + (2 + 4) * 2 * 256 * 10_000);
}

fn sums(stage: &StageMemory) {
    let all: u64 = stage.terms.iter().map(|term| term.bytes.0).sum();
    assert_eq!(all, stage.device_used.0);
    let allocated: u64 =
        stage.terms.iter().filter(|term| term.layer == Layer::Allocated).map(|term| term.bytes.0).sum();
    assert_eq!(allocated, stage.peak_allocated.0);
    let reserved: u64 = stage.terms.iter().filter(|term| term.layer != Layer::Device).map(|term| term.bytes.0).sum();
    assert_eq!(reserved, stage.peak_reserved.0);
    let by_component: u64 = Component::ALL.iter().map(|component| stage.component(*component).0).sum();
    assert_eq!(by_component, all);
    let highest = stage.timeline.iter().map(|point| point.allocated.0).max().unwrap_or(0);
    assert!(highest <= stage.peak_allocated.0, "{highest} above {}", stage.peak_allocated.0);
    assert!(stage.static_bytes <= stage.peak_allocated);
}

prop_compose! {
    fn any_plan()(
        heads_of_kv in 1_u64..5,
        kv in prop::sample::select(vec![1_u64, 2, 4, 8]),
        dim in prop::sample::select(vec![8_u64, 64, 128]),
        layers in 1_u64..40,
        vocab in 1_u64..200_000,
        micro in 1_u64..9,
        accumulation in 1_u64..5,
        sequence in 1_u64..9000,
        tensor in prop::sample::select(vec![1_u64, 2, 4, 8]),
        pipeline in 1_u64..5,
        data in 1_u64..5,
        framework in prop::sample::select(vec!["pytorch", "megatron", "torchtitan", "nanogpt", "llm-foundry"]),
        precision in prop::sample::select(vec!["fp32", "tf32", "bf16-mixed", "fp16-mixed", "bf16", "bf16-fp32-master", "fp8-mixed"]),
        optimizer in prop::sample::select(vec!["adamw", "adamw-fused", "adamw-loop", "adamw-8bit", "adafactor", "lion", "muon", "sgd", "sgd-momentum", "rmsprop"]),
        checkpointing in prop::sample::select(vec!["none", "selective", "full", "{every: 3}", "selective-op", "{modules: [core_attn, mlp, layernorm]}"]),
        attention in prop::sample::select(vec!["sdpa", "flash", "eager"]),
        loss in prop::sample::select(vec!["hf", "plain", "chunked", "fused", "vocab_parallel", "vocab_parallel_fused", "te_fused"]),
        sharding in prop::sample::select(vec!["none", "zero1", "zero2", "zero3"]),
        family in prop::sample::select(vec!["llama", "gpt_neox", "gemma2", "qwen3", "mixtral", "phi", "bert"]),
        more in prop::sample::select(vec!["", "compile: true", "lora: {rank: 8}", "optimizer_in_backward: true", "mode: inference",
                                          "cpu_offload: parameters", "cpu_offload: activations", "dropout: 0.1", "padded_batch: true"]),
    ) -> String {
        let heads = heads_of_kv * kv;
        let (hidden, gpus) = (heads * dim, tensor * pipeline * data);
        let rest = if more.is_empty() { String::new() } else { format!(", {more}") };
        format!(
            "{{model: {{hf_config: {{model_type: {family}, hidden_size: {hidden}, num_hidden_layers: {layers}, num_attention_heads: {heads}, \
             num_key_value_heads: {kv}, head_dim: {dim}, intermediate_size: 512, vocab_size: {vocab}}}, framework: {framework}, sequence_length: {sequence}}}, \
             training: {{micro_batch_size: {micro}, gradient_accumulation_steps: {accumulation}, precision: {precision}, optimizer: {optimizer}, \
             attention: {attention}, loss: {loss}, activation_checkpointing: {checkpointing}{rest}}}, cluster: {{num_gpus: {gpus}}}, \
             distribution: {{tensor_parallel: {tensor}, pipeline_parallel: {pipeline}, data_parallel: {data}, sharding: {sharding}, \
             sequence_parallel: true}}}}"
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn parts_sum_to_the_whole_and_figures_are_finite(text in any_plan()) {
        // A plan that contradicts itself (heads, stages) is a fault, never a figure.
        if let Ok(prediction) = of(&text) {
            prediction.stages.iter().for_each(sums);
            let step = prediction.time.step.0;
            prop_assert!(step.is_finite() && step > 0.0, "{step}");
            prop_assert!(prediction.flops.forward.0 > 0.0);
            prop_assert_eq!(prediction.stages.iter().map(|stage| stage.layers).sum::<u64>() > 0, true);
        }
    }

    #[test]
    fn absurd_sizes_are_faults_or_finite(hidden in 1_u64..1 << 20, layers in 1_u64..10_000, sequence in 1_u64..1 << 27, batch in 1_u64..1 << 24) {
        let hidden = hidden / 64 * 64 + 64;
        let text = format!(
            "{{model: {{architecture: {{hidden_size: {hidden}, num_layers: {layers}, num_attention_heads: {}}}, batch_size: {batch}, \
             sequence_length: {sequence}}}, cluster: {{num_gpus: 1}}}}", hidden / 64
        );
        if let Ok(prediction) = of(&text) {
            prediction.stages.iter().for_each(sums);
        }
    }
}

/// Each broken plan, the key that its fault names, and a word of the rule.
#[test]
fn faults_name_their_key_and_rule() {
    let base = "hf_config: {model_type: llama, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4}";
    let cases = [
        (
            format!(
                "{{model: {{{base}, batch_size: 7}}, training: {{micro_batch_size: 2, gradient_accumulation_steps: 2}}}}"
            ),
            "model.batch_size",
            "training.micro_batch_size 2 x training.gradient_accumulation_steps 2 x distribution.data_parallel 1",
        ),
        (
            format!("{{model: {{{base}}}, cluster: {{num_gpus: 6}}, distribution: {{tensor_parallel: 4}}}}"),
            "distribution.tensor_parallel",
            "4 must divide cluster.num_gpus 6",
        ),
        (
            format!("{{model: {{{base}}}, cluster: {{num_gpus: 3}}, distribution: {{tensor_parallel: 3}}}}"),
            "distribution.tensor_parallel",
            "attention heads",
        ),
        (format!("{{model: {{{base}}}, hardware: {{gpu_type: H10O}}}}"), "hardware.gpu_type", "nearest"),
        (format!("{{model: {{{base}}}, cluster: {{interconnect: nvlinc_4}}}}"), "cluster.interconnect", "nearest"),
        ("{model: {preset: lama-3-8b}}".to_owned(), "model.preset", "nearest"),
        (
            format!("{{model: {{{base}}}, cluster: {{num_gpus: 2}}, distribution: {{expert_parallel: 2}}}}"),
            "distribution.expert_parallel",
            "no experts",
        ),
        (
            format!("{{model: {{{base}}}, cluster: {{num_gpus: 8}}, distribution: {{pipeline_parallel: 8}}}}"),
            "distribution.pipeline_parallel",
            "more than the 2 layers",
        ),
        (
            "{model: {hf_config: {model_type: llama, hidden_size: 1000000000000000000}}}".to_owned(),
            "model.hf_config.hidden_size",
            "from 1 to",
        ),
        (
            "{model: {hf_config: {model_type: marian, d_model: 64}}}".to_owned(),
            "model.hf_config.architectures",
            "what its modules save has no checked rules",
        ),
    ];
    for (text, key, rule) in cases {
        let faults = of(&text).expect_err(&text);
        let fault = faults.iter().find(|fault| fault.key == key).unwrap_or_else(|| panic!("{text}: {faults:?}"));
        assert!(fault.message.contains(rule), "{}", fault.message);
    }
}

#[test]
fn nothing_is_silently_ignored() {
    let plan =
        "{model: {preset: llama-3-8b}, training: {cuda_graph: local, fp8_recipe: delayed}, cluster: {num_gpus: 1}}";
    let plan = Document::parse(plan).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, catalog()).unwrap();
    for key in ["training.cuda_graph", "training.fp8_recipe", "hardware.gpu_type", "training.precision"] {
        assert!(job.assumptions.iter().any(|line| line.starts_with(key)), "{key}: {:?}", job.assumptions);
    }
}

/// A Megatron run of 4 layers whose 2048 tokens two ranks share; its vocabulary is small, so that attention's backward
/// pass is the peak.
fn shared_by_two(cp_comm: &str) -> Prediction {
    let text = format!(
        "{{model: {{architecture: {{hidden_size: 1024, num_layers: 4, num_attention_heads: 8, num_kv_heads: 8, \
         intermediate_size: 1024, vocab_size: 128, vocab_padding_multiple: 128, norm: rmsnorm, activation: swiglu, \
         position: rope}}, framework: megatron, batch_size: 1, sequence_length: 2048}}, training: {{optimizer: sgd}}, \
         cluster: {{num_gpus: 2}}, distribution: {{context_parallel: 2, cp_comm: {cp_comm}}}}}"
    );
    of(&text).unwrap()
}

/// One rank's queries; its keys, its values and its output are as large: 1024 tokens x 1024 channels x 2 B.
const SHARE: u64 = 1024 * 1024 * 2;

/// Transformer Engine, context_parallel.py, `AttnFuncWithCPAndQKVOA2A`: the output is saved as the kernel saw it and once
/// more as it was sent back; the ring saves one buffer of keys and values instead of those that came in.
#[test]
fn heads_sent_for_tokens_keep_the_output_twice() {
    let end = |cp_comm| shared_by_two(cp_comm).largest().activations_end_of_forward.0;
    assert_eq!(end("p2p"), end("all_gather"));
    assert_eq!(end("a2a") - end("p2p"), 4 * SHARE);
}

/// `AttnFuncWithCPAndKVP2P` over pairs: of two ranks one pair, a ring of one. Queries are saved as they were sent, the output
/// as the kernel made it and once more as it was sent back; keys and values as one buffer, as in any ring.
#[test]
fn a_ring_of_pairs_keeps_the_output_twice_as_well() {
    let end = |cp_comm| shared_by_two(cp_comm).largest().activations_end_of_forward.0;
    assert_eq!(end("a2a+p2p"), end("a2a"));
}

/// The same file, backward. Ring: a step's gradient of queries (1 share), two pairs of a buffer of keys and values and its
/// gradient's (2 x 2 x 2), a step's gradients of both (2), the two put together (2), less what is the result (2).
/// Gathered: keys and values of two ranks, their gradients and a step's (3 x 2 x 2), halves of queries, outputs and
/// their gradients (4).
#[test]
fn gathered_keys_and_values_need_more_than_a_ring() {
    let peak = |cp_comm| shared_by_two(cp_comm).largest().peak_allocated.0;
    assert_eq!(peak("all_gather") - peak("p2p"), (3 * 2 * 2 + 4 - 11) * SHARE);
}
