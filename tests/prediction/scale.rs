//! What figures do as a plan grows: more GPUs, longer samples, other links.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Job, Prediction, scaling_efficiency};

fn job(text: &str) -> Job {
    Job::resolve(&Document::parse(text).unwrap().plan().unwrap(), catalog()).unwrap()
}

fn predicted(text: &str) -> Prediction {
    predict::of(&Document::parse(text).unwrap().plan().unwrap(), catalog()).unwrap()
}

/// A step from rank to rank was measured among the eight GPUs of a B200's node (8.6 us, SimuMax). Paid once for each of
/// thousands of ranks it made a faster GPU on a faster link, with the same network, three times as slow.
#[test]
fn a_nodes_latency_is_not_paid_by_thousands_of_ranks() {
    let seconds = |gpu: &str| {
        let text = format!(
            "model: {{preset: llama-3-8b, framework: torchtitan, sequence_length: 4096, batch_size: 4096}}\n\
             training: {{micro_batch_size: 1}}\nhardware: {{gpu_type: {gpu}}}\n\
             cluster: {{num_gpus: 4096}}\ndistribution: {{sharding: zero3}}\n"
        );
        predicted(&text).time.step.0
    };
    let times = ["NVIDIA A100", "NVIDIA H100", "NVIDIA B200"].map(seconds);
    assert!(times.is_sorted_by(|slower, faster| slower >= faster), "{times:?}");
}

/// While the GPU waits for its host, weights are gathered: longer samples hide nothing more there, and cost no less.
#[test]
fn longer_samples_take_no_less_time_where_the_host_is_slow() {
    let seconds = |length: u32| {
        predicted(&format!(
            "model: {{preset: llama-3-8b, batch_size: 256, sequence_length: {length}}}\n\
             training: {{micro_batch_size: 2, lora: {{rank: 8, targets: [q_proj, v_proj]}}}}\n\
             hardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 8}}\ndistribution: {{strategy: fsdp}}\n"
        ))
        .time
        .step
        .0
    };
    let times = [64, 128, 256, 512, 1024, 2048].map(seconds);
    assert!(times.is_sorted(), "{times:?}");
}

/// Frozen weights have no gradients: no more is needed than runs, and a GPU has no more than its peak.
#[test]
fn adapters_use_no_more_of_a_gpu_than_it_has() {
    for targets in ["lm_head", "q_proj, v_proj"] {
        let prediction = predicted(&format!(
            "model: {{preset: llama-3-8b, batch_size: 8, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1, lora: {{rank: 8, targets: [{targets}]}}}}\nhardware: {{gpu_type: NVIDIA H200}}\n"
        ));
        let (needed, ran) = (prediction.time.mfu.unwrap(), prediction.time.hfu.unwrap());
        assert!(needed <= ran && ran < 1.0, "{targets}: {needed} of {ran}");
    }
}

/// One GPU with all experts waits for its host at each of them: eight that share them are more than eight times as quick,
/// which measures nothing.
#[test]
fn no_cluster_is_more_efficient_than_its_gpus() {
    let text = "model: {preset: qwen3-30b-a3b, framework: megatron, batch_size: 64, sequence_length: 4096}\n\
                training: {micro_batch_size: 1}\nhardware: {gpu_type: NVIDIA B200}\ncluster: {num_gpus: 8}\n\
                distribution: {expert_parallel: 8, sharding: zero1}\n";
    let of = |text: &str| {
        let job = job(text);
        scaling_efficiency(&job, &predict::predict(&job).time)
    };
    assert_eq!(of(text), None);
    let dense = text.replace("qwen3-30b-a3b", "llama-3-8b").replace("expert_parallel: 8, ", "");
    assert!(of(&dense).is_some_and(|share| share.0 > 0.5 && share.0 <= 1.0));
}

/// Both schedules run the same kernels in the same time: which stage needs the most memory changes nothing for the others.
#[test]
fn a_pipelines_power_is_that_of_all_its_stages() {
    let of = |schedule: &str| {
        let text = format!(
            "{{model: {{preset: llama-3-8b, framework: megatron, sequence_length: 4096}}, cluster: {{num_gpus: 4}},
             distribution: {{pipeline_parallel: 4, pipeline_schedule: {schedule}}},
             training: {{micro_batch_size: 1, gradient_accumulation_steps: 8}}}}"
        );
        predicted(&text).time
    };
    let (gpipe, one) = (of("gpipe"), of("1f1b"));
    assert!((gpipe.step.0 / one.step.0 - 1.0).abs() < 1e-3, "{} {}", gpipe.step, one.step);
    let [gpipe, one] = [gpipe, one].map(|time| time.power.unwrap().0);
    // The optimizer is that of one stage each.
    assert!((gpipe / one - 1.0).abs() < 0.02, "{gpipe} {one}");
}
