//! What a plan that divides a model leaves to its framework, its engine and its board, against their code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Component, Prediction};
use memwall::units::Bytes;

fn predicted(plan: &str) -> Prediction {
    predict::of(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap()
}

fn transfer(prediction: &Prediction, name: &str) -> (f64, Bytes) {
    let term = prediction.time_terms.iter().find(|term| term.name == name);
    let transfer = term.and_then(|term| term.transfer.as_ref()).unwrap_or_else(|| panic!("no {name}"));
    (transfer.count, transfer.bytes)
}

/// torchtitan, models/llama3/infra/parallelize.py, `apply_tp`: norms are SequenceParallel; infra of its pipelines
/// (parallelisms/pipelining_utils.py): as many micro batches as stages, 4 of 8 samples of a rank's 32.
#[test]
fn torchtitan_splits_the_sequence_and_cuts_the_batch() {
    let said = |more: &str| {
        predicted(&format!(
            "{{model: {{preset: llama-3-8b, framework: torchtitan, batch_size: 32, sequence_length: 2048}},
             cluster: {{num_gpus: 4}}, distribution: {{{more}}}}}"
        ))
    };
    let silent = said("tensor_parallel: 4");
    assert!(silent.assumptions.iter().any(|line| line == "distribution.sequence_parallel: true"));
    assert_eq!(silent.capacity.needed, said("tensor_parallel: 4, sequence_parallel: true").capacity.needed);
    let staged = said("pipeline_parallel: 4");
    for line in ["training.gradient_accumulation_steps: 4", "training.micro_batch_size: 8"] {
        assert!(staged.assumptions.iter().any(|one| one == line), "{line}");
    }
}

/// Of 64 ranks with tokens of their own each sends what goes to others' experts, and gets it back: 94 layers of
/// 4096 tokens x 8 experts x 4096 in 16 bit, there and back, forward, run again and backward.
#[test]
fn experts_of_other_ranks_are_sent_their_tokens() {
    let plan = "{model: {preset: qwen3-235b-a22b, batch_size: 256, sequence_length: 4096},
        training: {micro_batch_size: 1, activation_checkpointing: full},
        cluster: {num_gpus: 256, nodes: 32}, distribution: {expert_parallel: 64, sharding: zero3}}";
    let sent = transfer(&predicted(plan), "expert-parallel all-to-all");
    assert_eq!(sent, (94.0 * 6.0, Bytes(94 * 6 * 4096 * 8 * 4096 * 2)));
}

/// Megatron's two all-reduces of a layer, forward and backward (arXiv 1909.08053, section 3), of 4096 x 4096 in 16 bit: what is
/// recomputed runs the forward pass's again.
#[test]
fn what_is_recomputed_is_sent_again() {
    let sent = |checkpointing: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, framework: megatron, batch_size: 64, sequence_length: 4096}},
             training: {{micro_batch_size: 1, activation_checkpointing: {checkpointing}}},
             cluster: {{num_gpus: 8}}, distribution: {{tensor_parallel: 8}}}}"
        );
        transfer(&predicted(&plan), "tensor-parallel all-reduce")
    };
    let ((once, plain), (again, more)) = (sent("none"), sent("full"));
    // 64 micro batches, 32 layers, two.
    assert_eq!(again - once, 64.0 * 32.0 * 2.0);
    assert_eq!(more, plain + Bytes(64 * 32 * 2 * 4096 * 4096 * 2));
}

/// FSDP1 and DeepSpeed hand over flat shares, of which Adafactor keeps a whole second moment in fp32: of 8 030 261 248
/// parameters over 8 ranks 4.02 GB. FSDP2 hands over matrices: their rows and columns, a thousandth of that.
#[test]
fn flat_shares_have_no_rows_and_columns() {
    let states = |engine: &str| {
        let plan = format!(
            "{{model: {{preset: llama-3-8b, batch_size: 8, sequence_length: 512}},
             training: {{optimizer: adafactor, micro_batch_size: 1, activation_checkpointing: full}},
             cluster: {{num_gpus: 8}}, distribution: {{sharding: zero3, engine: {engine}}}}}"
        );
        predicted(&plan).largest().component(Component::OptimizerStates).0 as f64
    };
    let whole = 8_030_261_248.0 * 4.0 / 8.0;
    for engine in ["fsdp1", "deepspeed"] {
        let share = states(engine) / whole;
        assert!((1.0..1.001).contains(&share), "{engine}: {share}");
    }
    assert!(states("fsdp2") < whole / 100.0);
}

/// A bridge of H100 NVL joins two cards (its datasheet), one of H200 NVL four.
#[test]
fn bridges_join_their_own_cards_alone() {
    for (gpu, gpus, link) in [
        ("H100 NVL", 2, "nvlink_bridge_h100"),
        ("H100 NVL", 8, "pcie_5"),
        ("H200 NVL", 4, "nvlink_bridge_h200"),
        ("H200 NVL", 8, "pcie_5"),
    ] {
        let prediction = predicted(&format!(
            "{{model: {{preset: llama-3.2-1b, batch_size: {gpus}, sequence_length: 512}}, training: {{micro_batch_size: 1}},
             hardware: {{gpu_type: {gpu}}}, cluster: {{num_gpus: {gpus}}}}}"
        ));
        let over = prediction.time_terms.iter().find_map(|term| term.transfer.as_ref());
        assert_eq!(over.map(|transfer| transfer.link.as_str()), Some(link), "{gpus} {gpu}");
        let said = prediction.assumptions.iter().any(|line| line.starts_with("cluster.interconnect: pcie_5 (nvlink"));
        assert_eq!(said, link == "pcie_5");
    }
}

/// Where activations go to the host, each layer adds its share of gradients and takes nothing away: most is held in the last
/// layer that another is gathered beside, which a search has to visit as well.
#[test]
fn a_search_sees_the_layer_before_the_first() {
    let plan = "{model: {preset: llama-3-70b, framework: torchtitan, batch_size: 64, sequence_length: 2048},
        training: {activation_checkpointing: full, cpu_offload: activations},
        distribution: {sharding: zero3}, cluster: {num_gpus: 64, nodes: 8}}";
    let job = predict::Job::resolve(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap();
    let prediction = predict::predict(&job);
    assert!(prediction.largest().peak_cause.starts_with("block 1 "), "{}", prediction.largest().peak_cause);
    assert_eq!(predict::outline(&job).capacity, prediction.capacity);
}

/// Forward operations of a rank, and GPUs of the plan.
fn forward(model: &str, framework: &str, mode: &str, distribution: &str) -> f64 {
    let plan = format!(
        "{{model: {{preset: {model}, framework: {framework}, batch_size: 32, sequence_length: 1024}},
         training: {{mode: {mode}, precision: bf16}}, cluster: {{num_gpus: 8}}, hardware: {{gpu_type: H200}},
         distribution: {{{distribution}}}}}"
    );
    predicted(&plan).flops.forward.0
}

/// However a mixture of experts is divided over 8 ranks, the work of all of them is the same but for routers and what else
/// is not divided.
#[test]
fn layouts_of_experts_share_out_the_same_work() {
    let layouts = [
        "expert_parallel: 8",
        "tensor_parallel: 8",
        "tensor_parallel: 8, sequence_parallel: true",
        "tensor_parallel: 8, expert_parallel: 8, expert_tensor_parallel: 1",
        "tensor_parallel: 8, expert_parallel: 8, expert_tensor_parallel: 1, sequence_parallel: true",
        "tensor_parallel: 2, expert_parallel: 8, expert_tensor_parallel: 1",
        "tensor_parallel: 4, expert_parallel: 2, expert_tensor_parallel: 4, sequence_parallel: true",
    ];
    for model in ["gpt-oss-20b", "mixtral-8x7b", "qwen3-30b-a3b", "llama-4-scout"] {
        for (framework, mode) in [("pytorch", "train"), ("pytorch", "inference"), ("torchtitan", "train")] {
            let heads = |layout: &str| model == "qwen3-30b-a3b" && layout.contains("tensor_parallel: 8");
            let whole = forward(model, framework, mode, "data_parallel: 8");
            for layout in layouts.iter().filter(|layout| !heads(layout)) {
                let ratio = forward(model, framework, mode, layout) / whole;
                assert!((0.97..1.05).contains(&ratio), "{model} {framework} {mode} {layout}: {ratio}");
            }
        }
    }
}
