//! Runs that a framework refuses, or that fail in their first step: each limit from its code.

use crate::support::catalog;
use memwall::advise::{Request, SearchProgress, search};
use memwall::plan::Document;
use memwall::predict::{self, Job};

/// The faults of a plan; none where it is predicted.
fn faults(text: &str) -> Vec<String> {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    predict::of(&plan, catalog())
        .err()
        .map(|faults| faults.iter().map(ToString::to_string).collect())
        .unwrap_or_default()
}

const NONE: [String; 0] = [];

/// GPT-2's table has 1024 rows; RoBERTa's 514, of which padding and what lies before it take two
/// (models/roberta/modeling_roberta.py, `create_position_ids_from_input_ids`). Rotary positions have no table.
#[test]
fn a_sequence_ends_with_the_learned_positions() {
    let gpt2 = |tokens: u64| faults(&format!("model: {{preset: gpt2, sequence_length: {tokens}}}"));
    assert_eq!(gpt2(1024), NONE);
    assert_eq!(gpt2(8192), ["model.sequence_length: 8192: the model has learned positions for 1024 tokens"]);
    let roberta = |tokens: u64| {
        faults(&format!(
            "model: {{hf_config: {{model_type: roberta, max_position_embeddings: 514}}, sequence_length: {tokens}}}"
        ))
    };
    assert_eq!(roberta(512), NONE);
    assert_eq!(roberta(514), ["model.sequence_length: 514: the model has learned positions for 512 tokens"]);
    assert_eq!(faults("model: {preset: llama-2-7b, sequence_length: 32768}"), NONE);
}

/// `PreTrainedModel.gradient_checkpointing_enable` raises where a class sets no `supports_gradient_checkpointing`:
/// models/albert/modeling_albert.py sets none, models/bert/modeling_bert.py does.
#[test]
fn albert_recomputes_nothing() {
    let plan = |preset: &str, word: &str| {
        faults(&format!(
            "model: {{preset: {preset}, sequence_length: 128}}\ntraining: {{activation_checkpointing: {word}}}"
        ))
    };
    assert_eq!(
        plan("albert-base-v2", "full"),
        ["training.activation_checkpointing: transformers' ALBERT has none; must be none"]
    );
    assert_eq!(plan("albert-base-v2", "none"), NONE);
    assert_eq!(plan("bert-base", "full"), NONE);
}

/// `seq_length % (context_parallel_size * 2)` (megatron/training/arguments.py).
#[test]
fn context_parallel_halves_each_share() {
    let plan = |tokens: u64| {
        faults(&format!(
            "model: {{preset: llama-3-8b, framework: megatron, sequence_length: {tokens}}}\n\
             distribution: {{context_parallel: 4}}\ncluster: {{num_gpus: 4}}\n"
        ))
    };
    assert_eq!(plan(8192), NONE);
    let expected = "model.sequence_length: 8196: must divide by 2 x distribution.context_parallel = 8";
    assert_eq!(plan(8196), [expected]);
}

/// Megatron needs as many micro-batches as stages (core/pipeline_parallel/schedules.py,
/// `microbatch_group_size_per_vp_stage`). PyTorch's rounds may be longer, but all alike: 6 over 4 stages are one, 9 two.
#[test]
fn interleaved_micro_batches_fill_their_rounds() {
    let plan = |framework: &str, batches: u64| {
        faults(&format!(
            "model: {{preset: llama-3-8b, framework: {framework}}}\n\
             training: {{micro_batch_size: 1, gradient_accumulation_steps: {batches}}}\n\
             distribution: {{pipeline_parallel: 4, virtual_pipeline: 2}}\ncluster: {{num_gpus: 4}}\n"
        ))
    };
    assert_eq!(plan("megatron", 8), NONE);
    assert_eq!(plan("megatron", 5), NONE);
    let expected = "training.gradient_accumulation_steps: 3: interleaved needs at least \
                    distribution.pipeline_parallel = 4";
    assert_eq!(plan("megatron", 3), [expected]);
    assert_eq!(plan("pytorch", 6), NONE);
    let expected =
        "training.gradient_accumulation_steps: 9: interleaved needs a multiple of its 2 rounds over 4 stages";
    assert_eq!(plan("pytorch", 9), [expected]);
}

/// torchtune's recipes raise where both are asked for: each backward pass steps.
#[test]
fn what_steps_in_the_backward_pass_accumulates_nothing() {
    let plan = |steps: u64| {
        faults(&format!(
            "model: {{preset: llama-3.2-1b, sequence_length: 1024, framework: torchtitan}}\n\
             training: {{precision: bf16, optimizer_in_backward: true, micro_batch_size: 1, \
             gradient_accumulation_steps: {steps}}}"
        ))
    };
    assert_eq!(plan(1), NONE);
    let told = "training.optimizer_in_backward: true: each of 8 backward passes would step; must be false, or one pass";
    assert_eq!(plan(8), [told]);
}

/// runtime/pipe/engine.py, PipelineEngine: `assert self.zero_optimization_stage() < ZeroStageEnum.gradients`; its
/// TrainSchedule (runtime/pipe/schedule.py) knows one chunk a stage.
#[test]
fn deepspeeds_pipeline_shares_out_states_at_most() {
    let plan = |sharding: &str, more: &str| {
        faults(&format!(
            "model: {{preset: llama-3-8b, framework: pytorch, sequence_length: 2048}}\n\
             training: {{precision: bf16-mixed, micro_batch_size: 1, gradient_accumulation_steps: 4}}\n\
             cluster: {{num_gpus: 8}}\n\
             distribution: {{engine: deepspeed, sharding: {sharding}, pipeline_parallel: 2{more}}}"
        ))
    };
    assert_eq!(plan("zero1", ""), NONE);
    assert_eq!(
        plan("zero2", ", virtual_pipeline: 2"),
        [
            "distribution.sharding: zero2: a pipeline of DeepSpeed shares out nothing or optimizer states; must be none or zero1",
            "distribution.virtual_pipeline: 2: a stage of DeepSpeed's pipeline has one chunk; must be 1"
        ]
    );
}

/// What DeepSpeed's pipeline refuses (runtime/pipe/engine.py, runtime/pipe/schedule.py) is not found either.
#[test]
fn plans_under_deepspeed_run_there() {
    let text = "model: {preset: llama-3-8b, batch_size: 16, sequence_length: 2048, framework: pytorch}\n\
                training: {precision: bf16-mixed}\ncluster: {num_gpus: 8}\n\
                distribution: {engine: deepspeed, sharding: zero2}";
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let request = Request { plan: &plan, keep: Vec::new(), top: 10, free_batch: false };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    assert!(!found.ranked.is_empty());
    for ranked in &found.ranked {
        let edited = Document::parse(text).unwrap().changed(&ranked.change).unwrap();
        assert_eq!(Job::resolve(&edited.plan().unwrap(), catalog()).err(), None, "{}", edited.text());
    }
}

/// 16 GPUs on 4 nodes are 4 a node: a tensor-parallel group of 8 spans two of them. Nodes alone have eight each.
#[test]
fn nodes_tell_how_many_gpus_each_has() {
    let plan = |cluster: &str| {
        format!(
            "model: {{preset: llama-3-8b, framework: megatron, batch_size: 64, sequence_length: 4096}}\n\
             hardware: {{gpu_type: NVIDIA A100}}\ncluster: {{{cluster}}}\ndistribution: {{tensor_parallel: 8}}\n"
        )
    };
    let job =
        |cluster: &str| Job::resolve(&Document::parse(&plan(cluster)).unwrap().plan().unwrap(), catalog()).unwrap();
    let nodes = |cluster: &str| job(cluster).hardware.gpus_per_node;
    assert_eq!(nodes("num_gpus: 16, nodes: 4"), 4);
    assert_eq!(nodes("num_gpus: 16"), 8);
    assert_eq!((job("nodes: 4").degrees.num_gpus, nodes("nodes: 4")), (32, 8));
    // Where all degrees are said they tell how many GPUs there are: 2 x 8 on 4 nodes.
    let said = plan("nodes: 4").replace("tensor_parallel: 8", "tensor_parallel: 8, data_parallel: 2");
    let job = Job::resolve(&Document::parse(&said).unwrap().plan().unwrap(), catalog()).unwrap();
    assert_eq!((job.degrees.num_gpus, job.hardware.gpus_per_node), (16, 4));
    let uneven = "cluster.num_gpus: 16 GPUs are not shared evenly by cluster.nodes 3; cluster.gpus_per_node says how many a \
                  full node has";
    assert_eq!(faults(&plan("num_gpus: 16, nodes: 3")), [uneven]);
    assert_eq!(faults(&plan("num_gpus: 16, nodes: 3, gpus_per_node: 6")), NONE);
}

/// accelerate 1.15, parallelism_config.py, `_validate_accelerator`: FSDP version 2.
#[test]
fn ranks_share_a_sequence_under_fsdp2_alone() {
    let plan = |engine: &str| {
        format!(
            "model: {{preset: llama-3-8b, batch_size: 8, sequence_length: 8192}}\ncluster: {{num_gpus: 8}}\n\
             distribution: {{context_parallel: 2, sharding: zero3{engine}}}\n"
        )
    };
    let job = Job::resolve(&Document::parse(&plan("")).unwrap().plan().unwrap(), catalog()).unwrap();
    assert_eq!(job.degrees.engine.name(), "fsdp2");
    let refused = "distribution.engine: fsdp1: ranks share a sequence under fsdp2; must be fsdp2";
    assert_eq!(faults(&plan(", engine: fsdp1")), [refused]);
    // verl's Ulysses stands in the model (verl/workers/fsdp_workers.py, `ulysses_sequence_parallel_size` under `fsdp`).
    assert_eq!(faults(&plan(", engine: fsdp1, cp_comm: a2a")), NONE);
}

/// Where nobody says how many GPUs there are, as many are taken as shards and experts are shared out over evenly: 8 ranks for
/// 8 experts on each of 4 stages, 8 of a copy's shards.
#[test]
fn unsaid_gpus_are_as_many_as_the_degrees_need() {
    let gpus = |distribution: &str| {
        let text = format!("model: {{preset: mixtral-8x7b, framework: megatron}}\ndistribution: {{{distribution}}}\n");
        let plan = Document::parse(&text).unwrap().plan().unwrap();
        Job::resolve(&plan, catalog()).unwrap().degrees.num_gpus
    };
    assert_eq!(gpus("expert_parallel: 8, pipeline_parallel: 4"), 32);
    assert_eq!(gpus("expert_parallel: 8, tensor_parallel: 2, expert_tensor_parallel: 1"), 8);
    assert_eq!(gpus("shard_group: 8, sharding: zero1"), 8);
}

/// A key that would change the figures and does not stands in the first line; one that cannot is refused.
#[test]
fn what_is_not_modelled_is_told_apart() {
    let left_out = |text: &str| -> Vec<String> {
        let plan = Document::parse(text).unwrap().plan().unwrap();
        predict::of(&plan, catalog()).unwrap().not_modelled().map(str::to_owned).collect()
    };
    let again = "training.activation_checkpointing";
    let net = |kind: &str| format!("model: {{preset: resnet-50}}\ntraining: {{activation_checkpointing: {kind}}}\n");
    assert_eq!(left_out(&net("full")), [again]);
    assert_eq!(left_out(&net("none")), NONE);
    let room = |parts: &str| {
        format!("model: {{preset: mixtral-8x7b, framework: megatron}}\ntraining: {{moe_capacity_factor: {parts}}}\n")
    };
    assert_eq!(left_out(&room("0.5")), ["training.moe_capacity_factor"]);
    assert_eq!(left_out(&room("1.25")), NONE);
    assert_eq!(left_out("model: {preset: t5-base}\ntraining: {mode: inference}\n"), ["training.use_cache"]);
    let flux = faults("model: {preset: flux.1-dev, image_size: 1024}\ntraining: {precision: bf16}\n");
    assert!(flux.len() == 1 && flux[0].starts_with("model.image_size: the trace is sized by"), "{flux:?}");
}

/// A batch of 64 is too small for 128 replicas, which nobody asked for: what the search sets runs.
#[test]
fn a_search_starts_where_the_plan_leaves_its_degrees_open() {
    let text = "model: {preset: llama-3-70b, batch_size: 64, sequence_length: 8192, framework: megatron}\n\
                cluster: {num_gpus: 128}\n";
    let document = Document::parse(text).unwrap();
    let plan = document.plan().unwrap();
    let request = Request { plan: &plan, keep: Vec::new(), top: 1, free_batch: false };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    let fault = found.own.unwrap_err().to_string();
    assert!(fault.starts_with("model.batch_size: 64 samples do not reach"), "{fault}");
    let best = &found.ranked[0];
    let changed = document.changed(&best.change).unwrap().plan().unwrap();
    let again = predict::of(&changed, catalog()).unwrap();
    assert!((again.time.step.0 / best.outline.time.step.0 - 1.0).abs() < 0.01);
    let given = format!("{text}distribution: {{data_parallel: 128}}\n");
    let plan = Document::parse(&given).unwrap().plan().unwrap();
    let request = Request { plan: &plan, keep: Vec::new(), top: 1, free_batch: false };
    assert!(search(&request, catalog(), &SearchProgress::default()).is_err(), "asked for");
    // By nodes as by GPUs; and a degree that is kept open stays 1.
    let by_nodes = text.replace("num_gpus: 128", "nodes: 16, gpus_per_node: 8");
    let plan = Document::parse(&by_nodes).unwrap().plan().unwrap();
    let request = Request { plan: &plan, keep: vec!["distribution.tensor_parallel"], top: 1, free_batch: false };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    assert!(found.ranked.iter().all(|one| one.knobs.tensor == 1) && found.own.is_err(), "{:?}", found.ranked);
}

/// Megatron casts weights to FP8 once a step, however many micro batches read them: a plan with more of them is another walk.
#[test]
fn a_search_in_fp8_tells_what_its_plans_take() {
    let text = "model: {preset: llama-3-70b, batch_size: 64, sequence_length: 8192, framework: megatron}\n\
                training: {precision: fp8-mixed}\ncluster: {num_gpus: 64}\ndistribution: {tensor_parallel: 8}\n";
    let document = Document::parse(text).unwrap();
    let plan = document.plan().unwrap();
    let keep = vec!["distribution.tensor_parallel", "distribution.context_parallel"];
    let request = Request { plan: &plan, keep, top: 20, free_batch: false };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    let batches: std::collections::BTreeSet<u64> =
        found.ranked.iter().map(|one| one.knobs.data * one.knobs.micro).collect();
    assert!(batches.len() > 1, "one number of micro batches: nothing is tried");
    for one in &found.ranked {
        let changed = document.changed(&one.change).unwrap().plan().unwrap();
        assert_eq!(predict::of(&changed, catalog()).unwrap().time, one.outline.time, "{}", one.change.words());
    }
}

/// core/transformer/moe/moe_layer.py, `MoELayer.forward`, raises in training; core/transformer/transformer_config.py names the
/// modules whose saved tensors may go to the host, which never takes the weights.
#[test]
fn megatron_refuses_what_its_own_code_refuses() {
    let experts = |keys: &str| {
        faults(&format!(
            "model: {{preset: mixtral-8x7b, framework: megatron, sequence_length: 2048}}\n\
             distribution: {{tensor_parallel: 2, data_parallel: 4{keys}}}\ncluster: {{num_gpus: 8}}\n"
        ))
    };
    assert_eq!(experts(", sequence_parallel: true"), NONE);
    // What it refuses to run is predicted all the same, and said.
    assert_eq!(experts(""), NONE);
    let offloads =
        |keys: &str| faults(&format!("model: {{preset: llama-3-8b, framework: megatron}}\ntraining: {{{keys}}}\n"));
    assert_eq!(offloads("offload_modules: [core_attn]"), NONE);
    assert_eq!(offloads("offload_modules: [core]"), NONE);
    assert_eq!(offloads("cpu_offload: parameters"), NONE);
}

/// Of 8 KV heads 16 ranks would hold half a one each: the view of keys by heads fails (huggingface/transformers issue 48307);
/// megatron-core gathers them since 0.16 (core/transformer/attention.py), and servers give each rank a copy.
#[test]
fn a_kv_head_is_not_cut_where_nothing_puts_it_together() {
    let plan = |framework: &str, training: &str| {
        format!(
            "model: {{preset: llama-3-8b, framework: {framework}, sequence_length: 2048}}\n{training}\
             distribution: {{tensor_parallel: 16}}\ncluster: {{num_gpus: 16}}\n"
        )
    };
    let told = "distribution.tensor_parallel: 16: no rank may hold a part of one of the model's 8 KV heads; at most 8";
    for framework in ["pytorch", "torchtitan"] {
        assert_eq!(faults(&plan(framework, "")), [told]);
    }
    assert_eq!(faults(&plan("pytorch", "training: {mode: inference}\n")), NONE);
    assert_eq!(faults(&plan("megatron", "")), NONE);
    let said = "distribution.tensor_parallel: 16 over 8 KV heads, which Megatron's core before 0.16 refuses";
    assert!(assumed(&plan("megatron", "")).iter().any(|line| line == said));
}

fn assumed(text: &str) -> Vec<String> {
    let plan = Document::parse(text).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap().assumptions.iter().map(ToString::to_string).collect()
}

/// DeepSpeed's `offload_param` is "Valid only with stage 3" (runtime/zero/config.py); on one rank its third stage has it all.
#[test]
fn weights_lie_on_the_host_in_shares() {
    let plan = |sharding: &str, gpus: u64| {
        format!(
            "model: {{preset: llama-3.2-1b, sequence_length: 2048}}\ntraining: {{cpu_offload: parameters}}\n\
             distribution: {{{sharding}}}\ncluster: {{num_gpus: {gpus}}}\n"
        )
    };
    let told = |sharding: &str| {
        [format!(
            "training.cpu_offload: parameters: distribution.sharding is {sharding}; must be zero3, or optimizer here"
        )]
    };
    assert_eq!(faults(&plan("sharding: zero2, engine: deepspeed", 4)), told("zero2"));
    assert_eq!(faults(&plan("sharding: none", 4)), told("none"));
    for legal in ["sharding: zero3, engine: deepspeed", "sharding: zero2, engine: fsdp2"] {
        assert_eq!(faults(&plan(legal, 4)), NONE);
    }
    assert_eq!(faults(&plan("sharding: none", 1)), NONE);
    assert!(assumed(&plan("sharding: none", 1)).iter().any(|line| line.contains("as DeepSpeed's third stage")));
}

/// `_split_along_first_dim` asserts it (core/tensor_parallel/mappings.py): tools pad what they get to it.
#[test]
fn a_sequence_is_split_in_equal_parts() {
    let padded = |tokens: u64| {
        assumed(&format!(
            "model: {{preset: llama-3-8b, framework: megatron, sequence_length: {tokens}}}\n\
             distribution: {{tensor_parallel: 8, sequence_parallel: true}}\ncluster: {{num_gpus: 8}}\n"
        ))
        .iter()
        .any(|line| line.starts_with("model.sequence_length: 4098, which tools that run it pad to 4104"))
    };
    assert!(!padded(4096) && padded(4098));
}

/// Transformer Engine, pytorch/fp8.py: "Device compute capability 10.0 or higher required for MXFP8 execution"; 9.0 for scales
/// of blocks.
#[test]
fn scales_that_a_board_has_no_units_for_are_said() {
    let told = |card: &str, recipe: &str| {
        assumed(&format!(
            "model: {{preset: llama-3-8b, framework: megatron, sequence_length: 2048}}\nhardware: {{gpu_type: {card}}}\n\
             training: {{precision: fp8-mixed, fp8_recipe: {recipe}}}\ncluster: {{num_gpus: 8}}\n"
        ))
        .iter()
        .any(|line| line.starts_with("training.fp8_recipe:") && line.contains("refuse to run it"))
    };
    assert!(told("NVIDIA H100", "mxfp8") && told("RTX 4090", "blockwise"));
    assert!(!told("NVIDIA H100", "blockwise") && !told("NVIDIA B200", "mxfp8") && !told("NVIDIA H100", "delayed"));
}

/// What a layout asks for and has nothing to do with.
#[test]
fn keys_of_a_layout_without_effect_are_named() {
    let plan = "model: {preset: llama-3-8b, sequence_length: 2048}\ncluster: {num_gpus: 4}\n\
                distribution: {sharding: none, shard_group: 2, virtual_pipeline: 2, sequence_parallel: true, \
                moe_dispatcher: alltoall, overlap_expert_parallel: true}\n";
    let lines = assumed(plan);
    for key in ["shard_group", "virtual_pipeline", "sequence_parallel", "moe_dispatcher", "overlap_expert_parallel"] {
        let named = |line: &String| line.starts_with(&format!("distribution.{key}")) && line.contains("has no effect");
        assert!(lines.iter().any(named), "{key}: {lines:?}");
    }
}

/// DeepSpeed steps on gradients in fp32 beside masters and two moments of 4 bytes. The third stage, with weights on the host
/// too, has those and the gradients that it reduces in 2 bytes each: 20 bytes a parameter of a rank's share
/// (runtime/zero/stage3.py, `grad_partitions_flat_buffer`, `fp32_partitioned_groups_flat[i].grad`). The first two have the new
/// weights of the share in 2 bytes, whatever gradients lie on the GPU: 18 bytes (stage_1_and_2.py,
/// `param_buffer_of_bit16_for_cpu_offload_groups`).
#[test]
fn deepspeed_steps_on_gradients_in_fp32_on_the_host() {
    for (stage, offload, gradients, bytes) in [
        ("zero3", "parameters", "bf16", 20.0),
        ("zero2", "optimizer", "bf16", 18.0),
        ("zero1", "optimizer", "fp32", 18.0),
    ] {
        let text = format!(
            "model: {{preset: llama-3-8b, framework: pytorch, batch_size: 8, sequence_length: 2048}}\n\
             training: {{precision: bf16-fp32-master, gradient_dtype: {gradients}, micro_batch_size: 1, cpu_offload: {offload}}}\n\
             hardware: {{gpu_type: H100}}\ncluster: {{num_gpus: 8}}\ndistribution: {{strategy: {stage}, engine: deepspeed}}\n"
        );
        let job = Job::resolve(&Document::parse(&text).unwrap().plan().unwrap(), catalog()).unwrap();
        let share = job.params.total as f64 / 8.0;
        let each = predict::host_memory(&job).as_f64() / share;
        assert!((each - bytes).abs() < 0.05, "{stage}: {each} B a parameter");
    }
}
