//! What runs beside the passes and what waits: transfers to host memory and experts' exchanges, by hand.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Job, Prediction};

fn prediction(text: &str) -> Prediction {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

fn step(text: &str) -> f64 {
    prediction(text).time.step.0
}

/// Megatron sends what a model's first layers save to the host in the forward pass, and takes it back in the backward pass
/// (--cpu-offloading-num-layers): a layer's bytes at a time.
#[test]
fn offloaded_layers_move_their_own_bytes() {
    let with = |card: &str, training: &str| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master{training}}}\nhardware: {{gpu_type: {card}}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let layers = |count: u64| with("NVIDIA H100", &format!(", cpu_offload: activations, offload_layers: {count}"));
    // Over PCIe 30 layers take longer than either pass: each further one adds the same.
    let [half, more, all] = [30, 31, 32].map(layers);
    assert!(all > more && more > half, "{half} {more} {all}");
    assert!(((all - more) / (more - half) - 1.0).abs() < 1e-6, "{half} {more} {all}");
    assert!((layers(0) / with("NVIDIA H100", "") - 1.0).abs() < 1e-9);
    // The number of layers alone switches it on, and names of modules do, of which each sends its own bytes.
    assert_eq!(with("NVIDIA H100", ", offload_layers: 30").to_bits(), half.to_bits());
    let cores = with("NVIDIA H100", ", offload_modules: [core_attn]");
    assert!(cores < half && cores >= with("NVIDIA H100", ""), "{cores} {half}");
    // NVLink-C2C is seven times as quick: all of it runs behind the passes.
    let superchip = with("NVIDIA GH200 480GB", ", cpu_offload: activations");
    assert!((superchip / with("NVIDIA GH200 480GB", "") - 1.0).abs() < 1e-9, "{superchip}");
}

/// L40S has one set of lanes: what goes to the host and what goes to other GPUs wait for each other, so that a GPU whose power is
/// cut is never the quicker one.
#[test]
fn transfers_and_collectives_share_the_boards_lanes() {
    let with = |watts: u64| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 8, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1, cpu_offload: activations}}\n\
             hardware: {{gpu_type: NVIDIA L40S, power_limit_w: {watts}}}\ncluster: {{num_gpus: 8}}\n\
             distribution: {{tensor_parallel: 8}}\n"
        ))
    };
    let times = [350, 250, 150, 75].map(with);
    assert!(times.is_sorted_by(|more, less| *less >= more * (1.0 - 1e-9)), "{times:?}");
}

fn experts(micro_batches: u64, training: &str, distribution: &str) -> String {
    format!(
        "model: {{preset: mixtral-8x7b, framework: megatron, batch_size: {}, sequence_length: 4096}}\n\
         training: {{precision: bf16-fp32-master, micro_batch_size: 1{training}}}\n\
         hardware: {{gpu_type: NVIDIA H100}}\ncluster: {{num_gpus: 8}}\n\
         distribution: {{data_parallel: 8, expert_parallel: 8{distribution}}}\n",
        8 * micro_batches
    )
}

/// The first pass forward and the last one backward have no partner (megatron-core, pipeline_parallel/combined_1f1b.py):
/// of n micro-batches n - 1 hide their experts' exchanges.
#[test]
fn experts_exchange_beside_another_micro_batch() {
    let saves = |count: u64| {
        let alone = step(&experts(count, "", ", overlap_expert_parallel: false"));
        alone - step(&experts(count, "", ", overlap_expert_parallel: true"))
    };
    let [one, two, four] = [1, 2, 4].map(saves);
    assert!(one.abs() < 1e-9 && two > 0.0, "{one} {two}");
    assert!((four / two - 3.0).abs() < 1e-6, "{two} {four}");
}

/// Megatron Bridge's recipes that capture whole iterations exchange beside another micro-batch.
#[test]
fn captured_iterations_overlap_experts_by_default() {
    let captured = prediction(&experts(4, ", cuda_graph: full_iteration", ""));
    assert!(captured.assumptions.iter().any(|one| one.starts_with("distribution.overlap_expert_parallel")));
    let told = step(&experts(4, ", cuda_graph: full_iteration", ", overlap_expert_parallel: true"));
    assert!((captured.time.step.0 / told - 1.0).abs() < 1e-12);
}

/// Collectives that run in pieces beside the products are never slower than those that do not.
#[test]
fn pieces_never_slow_tensor_parallel_down() {
    let with = |pieces: bool| {
        step(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 4, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master, micro_batch_size: 4}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             cluster: {{num_gpus: 8}}\n\
             distribution: {{tensor_parallel: 8, sequence_parallel: true, overlap_tensor_parallel: {pieces}}}\n"
        ))
    };
    assert!(with(true) < with(false));
}

/// Userbuffers hide gathers and scatters along the sequence alone: without sequence parallelism Megatron-LM refuses
/// --tp-comm-overlap (training/arguments.py, validate_args). It saves neither time nor counts buffers.
#[test]
fn pieces_need_sequence_parallelism() {
    let with = |more: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, framework: megatron, batch_size: 4, sequence_length: 4096}}\n\
             training: {{precision: bf16-fp32-master, micro_batch_size: 4}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             cluster: {{num_gpus: 8}}\ndistribution: {{tensor_parallel: 8{more}}}\n"
        ))
    };
    let [plain, told] = ["", ", overlap_tensor_parallel: true"].map(with);
    assert!((told.time.step.0 - plain.time.step.0).abs() < 1e-12);
    assert_eq!(told.largest().peak_allocated, plain.largest().peak_allocated);
    let said = |of: &Prediction| of.assumptions.iter().any(|one| one.contains("overlap_tensor_parallel: no effect"));
    assert!(said(&told) && !said(&plain));
    assert!(!said(&with(", sequence_parallel: true, overlap_tensor_parallel: true")));
}

/// Megatron reduces gradients in buckets of 40 million parameters where they overlap, and in one bucket where nothing does
/// (core/distributed/distributed_data_parallel.py, `bucket_size`). A layer has 4 x 1024^2 + 3 x 1024 x 4096 + 2 x 1024
/// parameters, embedding and head 2 x 1024^2 + 1024: 35.7, 52.4 and 136.3 million make 1, 2 and 4 buckets, and each
/// further one waits for the latency of a ring once more.
#[test]
fn megatron_reduces_one_bucket_where_nothing_overlaps() {
    let comm = |layers: u64, overlaps: bool| {
        let prediction = prediction(&format!(
            "{{model: {{framework: megatron, batch_size: 2, sequence_length: 1024, hf_config: {{model_type: llama,
             hidden_size: 1024, num_hidden_layers: {layers}, num_attention_heads: 16, num_key_value_heads: 16,
             intermediate_size: 4096, vocab_size: 1024, max_position_embeddings: 1024, tie_word_embeddings: false}}}},
             training: {{precision: bf16-fp32-master, micro_batch_size: 1}}, hardware: {{gpu_type: NVIDIA H100}},
             cluster: {{num_gpus: 2}}, distribution: {{data_parallel: 2, overlap_grad_reduce: {overlaps}}}}}"
        ));
        let term = prediction.time_terms.iter().find(|term| term.name == "gradients reduced").unwrap();
        (term.seconds + term.hidden).0
    };
    let more = |layers: u64| comm(layers, true) - comm(layers, false);
    let [one, two, four] = [2, 3, 8].map(more);
    assert!(one.abs() < 1e-12 && two > 0.0, "{one} {two}");
    assert!((four / two - 3.0).abs() < 1e-6, "{two} {four}");
}

/// DPO's reference is the model once more, without gradients and states, and reads each sample forward alone
/// (TRL, `trainer/dpo_trainer.py`: `ref_model` under `torch.no_grad`).
#[test]
fn a_reference_model_is_a_copy_and_a_forward_pass() {
    let of = |training: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16{training}}}\nhardware: {{gpu_type: NVIDIA H200}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let copy = |prediction: &Prediction| {
        let term = prediction.largest().terms.iter().find(|term| term.name == "reference model");
        term.map_or(0, |term| term.bytes.0)
    };
    let (plain, with) = (of(""), of(", reference_model: true"));
    // 6 738 415 616 parameters of 2 B; each tensor is a multiple of 512 B.
    assert_eq!([copy(&plain), copy(&with)], [0, 13_476_831_232]);
    assert_eq!(with.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 13_476_831_232);
    assert!((with.flops.forward.0 / plain.flops.forward.0 - 2.0).abs() < 1e-9);
    assert_eq!(with.flops.backward.0, plain.flops.backward.0);
    // Of three equal passes there are four then; norms and the optimizer's step take a part of their own.
    let longer = with.time.step.0 / plain.time.step.0;
    assert!((1.25..1.40).contains(&longer), "{longer}");
    let parts = [with.time.compute, with.time.memory_bound, with.time.communication, with.time.launch];
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    assert!((sum / with.time.step.0 - 1.0).abs() < 1e-6, "{sum}");
    // Its operators are in the roofline and among the terms, and what they read in the traffic.
    let terms: f64 = with.time_terms.iter().map(|term| term.seconds.0).sum();
    assert!((terms / with.time.step.0 - 1.0).abs() < 1e-6, "{terms}");
    let attention = |of: &Prediction| of.roofline.ops.iter().find(|op| op.name == "attention.core").unwrap().count;
    assert!(attention(&with) > attention(&plain));
    let more = with.traffic.total().0 - plain.traffic.total().0;
    // At least every weight once more.
    assert!(more > 13_476_831_232 && more < plain.traffic.total().0 / 2, "{more}");
    // No law says how long a policy learns beside its reference.
    assert!(plain.time.total_hours.is_some() && with.time.total_hours.is_none());
    // With adapters the base is its own reference.
    assert_eq!(copy(&of(", reference_model: true, lora: {rank: 8}")), 0);
}

/// A frozen model beside is its weights; a critic is weights and states once more; an engine that keeps its part of the
/// GPU adds that, and one that sleeps only what the step itself does not reach.
#[test]
fn other_models_and_engines_have_their_own_terms() {
    let of = |training: &str| {
        prediction(&format!(
            "model: {{preset: llama-2-7b, batch_size: 1, sequence_length: 4096}}\n\
             training: {{precision: bf16{training}}}\nhardware: {{gpu_type: NVIDIA H200}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    let term = |prediction: &Prediction, name: &str| {
        let term = prediction.largest().terms.iter().find(|term| term.name == name);
        term.map_or(0, |term| term.bytes.0)
    };
    let plain = of("");
    // CLIP's tower of 304 million parameters of 2 B.
    let tower = of(", frozen_models_billions: 0.304");
    assert_eq!(term(&tower, "other frozen models"), 608_000_000);
    assert_eq!(tower.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 608_000_000);
    // 6 738 415 616 parameters: 2 B of weights and two states of 2 B.
    let critic = of(", critic_model: true");
    assert_eq!(term(&critic, "critic"), 6_738_415_616 * 6);
    assert_eq!(critic.largest().peak_allocated.0 - plain.largest().peak_allocated.0, 6_738_415_616 * 6);
    let part = |per_mille: u64| plain.capacity.bytes.0 / 1000 * per_mille;
    let standing = of(", generation_memory: 0.3");
    assert_eq!(standing.largest().device_used.0 - plain.largest().device_used.0, part(300));
    // Asleep while the model trains, and smaller than what the step takes: nothing more.
    let asleep = of(", generation_memory: 0.3, generation_beside: nothing");
    assert_eq!(asleep.largest().device_used, plain.largest().device_used);
    // Larger than the step: the peak is the generation's, alone or beside weights and states.
    let reserved = plain.largest().peak_reserved.0;
    let alone = of(", generation_memory: 0.9, generation_beside: nothing");
    assert_eq!(alone.largest().device_used.0 - plain.largest().device_used.0, part(900) - reserved);
    let beside = of(", generation_memory: 0.9, generation_beside: states");
    let states = 6_738_415_616 * 6;
    let more = beside.largest().device_used.0 - alone.largest().device_used.0;
    // Library workspaces are no part of the states.
    assert_eq!(more, states);
}

/// Composer wraps modules in PyTorch's `save_on_cpu`, which copies in the stream of the passes and waits for it: what leaves
/// and comes back is waited for, each way once.
#[test]
fn what_composer_sends_to_the_host_is_waited_for() {
    let with = |framework: &str, offload: &str| {
        prediction(&format!(
            "model: {{preset: llama-3-8b, framework: {framework}, batch_size: 8, sequence_length: 4096}}\n\
             training: {{micro_batch_size: 1, cpu_offload: {offload}}}\nhardware: {{gpu_type: NVIDIA B200}}\n\
             distribution: {{sharding: zero3}}\ncluster: {{num_gpus: 8}}\n"
        ))
    };
    let added = |framework: &str| {
        let (with, without) = (with(framework, "activations"), with(framework, "none"));
        with.time.communication.0 - without.time.communication.0
    };
    let [composer, trl] = ["llm-foundry", "pytorch"].map(added);
    let plan = "model: {preset: llama-3-8b, framework: llm-foundry, batch_size: 8, sequence_length: 4096}\n\
                training: {micro_batch_size: 1, cpu_offload: activations}\nhardware: {gpu_type: NVIDIA B200}\n\
                distribution: {sharding: zero3}\ncluster: {num_gpus: 8}\n";
    let job = Job::resolve(&Document::parse(plan).unwrap().plan().unwrap(), catalog()).unwrap();
    let host = predict::host_memory(&job);
    // Pinned copies reach 12.36 of 16 GB/s (NVIDIA/nvbandwidth, README.md).
    let both_ways = 2.0 * host.0 as f64 / (job.hardware.gpu.host_link.0 * 12.36 / 16.0);
    assert!((composer / both_ways - 1.0).abs() < 1e-3, "{composer} {both_ways}");
    assert!(trl < 0.9 * composer, "{trl} {composer}");
}

/// The base without its adapters is the reference of DPO: a forward pass more, no byte more.
#[test]
fn a_reference_of_adapters_is_a_pass_and_no_copy() {
    let with = |reference: &str| {
        prediction(&format!(
            "model: {{preset: llama-3-8b, batch_size: 8, sequence_length: 4096}}\nhardware: {{gpu_type: NVIDIA H100}}\n\
             training: {{precision: bf16, micro_batch_size: 8, activation_checkpointing: full, lora: {{rank: 16}}{reference}}}\n\
             cluster: {{num_gpus: 1}}\n"
        ))
    };
    let (dpo, sft) = (with(", reference_model: true"), with(""));
    assert_eq!(dpo.largest().static_bytes, sft.largest().static_bytes);
    // Forward, forward again and the gradients of inputs, each about 2 N: three, and a fourth for the reference.
    let ratio = dpo.time.step.0 / sft.time.step.0;
    assert!((1.25..1.45).contains(&ratio), "{ratio}");
}

/// What the host is late with is time in which transfers go on: a quicker GPU is never slower for it.
#[test]
fn transfers_go_on_while_the_host_launches() {
    let step = |card: &str| {
        step(&format!(
            "model: {{preset: t5-large, batch_size: 1, sequence_length: 512}}\ntraining: {{cpu_offload: activations}}\n\
             hardware: {{gpu_type: {card}}}\ncluster: {{num_gpus: 1}}\n"
        ))
    };
    // 3.35, 4.8 and 8 TB/s, with no fewer FLOP/s.
    let [slow, middle, quick] = ["NVIDIA H100", "NVIDIA H200", "NVIDIA B200"].map(step);
    assert!(quick <= middle * 1.0001 && middle <= slow * 1.0001, "{slow} {middle} {quick}");
}
