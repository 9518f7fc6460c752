//! FSDP over several micro-batches of a step: who keeps gradients whole between them, and what is exchanged how often.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction};

/// Llama of 4 layers with embedding and head of their own: a layer has 4 x 1024^2 + 3 x 1024 x 4096 + 2 x 1024 parameters.
const LAYER: u64 = 4 * 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024;
const PARAMETERS: u64 = 4 * LAYER + 2 * 32_000 * 1024 + 1024;

fn run(framework: &str, sharding: &str, steps: u64, more: &str) -> Prediction {
    let plan = format!(
        "{{model: {{framework: {framework}, batch_size: {}, sequence_length: 512, hf_config: {{model_type: llama,
         hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 16,
         intermediate_size: 4096, vocab_size: 32000, max_position_embeddings: 512, tie_word_embeddings: false}}}},
         training: {{precision: bf16-mixed, optimizer: adamw-fused, micro_batch_size: 8,
         gradient_accumulation_steps: {steps}}}, hardware: {{library_workspaces: false}},
         cluster: {{num_gpus: 16, nodes: 2, gpus_per_node: 8}},
         distribution: {{data_parallel: 16, sharding: {sharding}, reduce_dtype: fp32{more}}}}}",
        8 * 16 * steps
    );
    predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap()
}

fn whole(prediction: &Prediction) -> u64 {
    let terms = &prediction.largest().terms;
    terms.iter().find(|term| term.name == "whole gradients").map_or(0, |term| term.bytes.0)
}

/// How often units are gathered and scattered in a step.
fn exchanges(prediction: &Prediction) -> f64 {
    let term = prediction.time_terms.iter().find(|term| term.name.starts_with("weights gathered")).unwrap();
    term.transfer.as_ref().unwrap().count
}

/// transformers' Trainer runs all micro-batches but the last under `accelerator.no_sync` (trainer.py,
/// `_inner_training_loop`), where FSDP1 adds to the whole gradient of the flat parameter in the type of the gathered weights
/// (_runtime_utils.py, `_post_backward_hook`), FSDP2 in that of the reduction (_fsdp_param.py,
/// `to_accumulated_grad_if_needed`). torchtitan and Composer reduce each micro-batch's (Composer,
/// distributed/dist_strategy.py, `ddp_sync_context`: nothing but DistributedDataParallel is told to wait).
#[test]
fn trainers_that_wait_for_the_last_micro_batch_keep_gradients_whole() {
    let [one, four] = [1, 4].map(|steps| run("pytorch", "zero3", steps, ""));
    assert_eq!((whole(&one), whole(&four)), (0, 2 * PARAMETERS));
    assert_eq!(whole(&run("pytorch", "zero3", 4, ", engine: fsdp2")), 4 * PARAMETERS);
    for framework in ["torchtitan", "llm-foundry"] {
        let [one, four] = [1, 4].map(|steps| run(framework, "zero3", steps, ""));
        assert_eq!((whole(&one), whole(&four)), (0, 0));
    }
    // At the loss no gradient is there in the first micro-batch, and all are in the others.
    let [one, four] = [&one, &four].map(Prediction::largest);
    assert_eq!(four.peak_allocated.0 - one.peak_allocated.0, 2 * PARAMETERS, "{}", four.peak_cause);
    assert_eq!(one.static_bytes, four.static_bytes);
    // Their flat tensors lie in the pool of the activations: in room that those leave, or in room of their own.
    let reserved = four.peak_reserved.0 - one.peak_reserved.0;
    assert!(reserved < 4 * PARAMETERS, "{reserved}");
}

/// A unit is gathered twice a micro-batch, and scattered once a step where gradients wait, else once a micro-batch: 4 x 2 + 1
/// times for 3, or 4 x 3. Weights that are not resharded stay until gradients are reduced (_runtime_utils.py,
/// `_should_free_in_backward`): gathered once and scattered once, however many micro-batches a step has.
#[test]
fn what_waits_is_scattered_once() {
    let times = |framework: &str, sharding: &str| {
        let [one, four] = [1, 4].map(|steps| exchanges(&run(framework, sharding, steps, "")));
        four / one
    };
    assert!((times("pytorch", "zero3") - 9.0 / 3.0).abs() < 1e-9);
    assert!((times("torchtitan", "zero3") - 4.0).abs() < 1e-9);
    assert!((times("pytorch", "zero2") - 1.0).abs() < 1e-9);
}

/// Accelerate's `GradientAccumulationPlugin(sync_each_batch=True)` leaves `no_sync` out (accelerator.py, `accumulate`): no
/// gradient stays whole, and each of 4 micro-batches scatters, 4 x 3 exchanges a unit for 3. Composer's loop, told to
/// wait, scatters once: 9 for 3.
#[test]
fn a_plan_says_whether_each_micro_batch_is_reduced() {
    let at = |framework: &str, each: bool| {
        let said = format!(", engine: fsdp1, sync_each_micro_batch: {each}");
        let [one, four] = [1, 4].map(|steps| run(framework, "zero3", steps, &said));
        (whole(&four), (exchanges(&four) / exchanges(&one) * 3.0).round())
    };
    assert_eq!(at("pytorch", true), (0, 12.0));
    assert_eq!(at("pytorch", false), (2 * PARAMETERS, 9.0));
    assert_eq!(at("llm-foundry", false).1, 9.0);
}

/// Gradients of weights in host memory go there as they are made (FSDP's `CPUOffload`): neither one pass nor several leave
/// any on the GPU, which would be 15 GiB of these.
#[test]
fn gradients_of_offloaded_weights_never_wait_on_the_gpu() {
    let peak = |micro_batches: u64| {
        let text = format!(
            "model: {{preset: llama-3-8b, sequence_length: 512, batch_size: {micro_batches}}}\n\
             training: {{precision: bf16, micro_batch_size: 1, cpu_offload: parameters}}\n"
        );
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        predict::of(&plan, catalog()).unwrap().largest().peak_allocated
    };
    assert_eq!(peak(1), peak(4));
    assert!(peak(1).gib() < 6.0, "{}", peak(1));
}

/// The first micro-batch's gradients stay where they were made (`zero_grad` sets them to none): of three micro-batches two are
/// added. FSDP's are reduced and gone, so that none is added to anything whole.
#[test]
fn the_first_micro_batchs_gradients_are_added_to_nothing() {
    let step = |steps: u64, more: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, sequence_length: 2048, framework: {}}}, training: {{precision: bf16-mixed,
             micro_batch_size: 1, gradient_accumulation_steps: {steps}}}, {more}}}",
            if more.contains("sharding") { "torchtitan" } else { "pytorch" }
        );
        predict::of(&Document::parse(&plan).unwrap().plan().unwrap(), catalog()).unwrap().time.step.0
    };
    for more in ["cluster: {num_gpus: 1}", "cluster: {num_gpus: 8}, distribution: {sharding: zero3}"] {
        let [one, two, three, four] = [1, 2, 3, 4].map(|steps| step(steps, more));
        let [second, third, fourth] = [two - one, three - two, four - three];
        assert!(
            (third / second - 1.0).abs() < 2e-3 && (fourth / second - 1.0).abs() < 2e-3,
            "{second} {third} {fourth}"
        );
        // 8.03e9 gradients of two bytes are read with as many of four, and their sum written: at 3.35 TB/s no less than this.
        let added = 8.03e9 * 10.0 / 3.352e12;
        assert!(more.contains("sharding") || second > added, "{second} {added}");
    }
}
