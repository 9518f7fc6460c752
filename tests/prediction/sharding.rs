//! Buffers of sharded training, worked by hand from the frameworks' code.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Phase, Prediction};

fn predicted(plan: &str) -> Prediction {
    let catalog = catalog();
    predict::of(&Document::parse(plan).unwrap().plan().unwrap(), catalog).unwrap()
}

/// Bytes of a term of the largest stage, which must have its peak in that phase.
fn term(prediction: &Prediction, phase: Phase, name: &str) -> u64 {
    let stage = prediction.largest();
    assert_eq!(stage.peak_phase, phase, "{}", stage.peak_cause);
    stage.terms.iter().find(|term| term.name == name).map_or(0, |term| term.bytes.0)
}

/// Megatron FSDP as megatron-core's code has it (core/distributed/fsdp/src/megatron_fsdp). A layer of 4 x 4096^2 +
/// 3 x 4096 x 11 008 + 2 x 4096 = 202 383 360 parameters is a unit; embedding and head, 32 000 x 4096 each, and the final
/// norm are in none.
#[test]
fn megatron_fsdp_gathers_ahead_and_frees_late() {
    let run = |layers: u64| {
        predicted(&format!(
            "{{model: {{framework: megatron, type: transformer, sequence_length: 64, architecture: {{hidden_size: 4096,
             num_layers: {layers}, num_attention_heads: 32, intermediate_size: 11008, vocab_size: 32000,
             vocab_padding_multiple: 128, activation: swiglu, norm: rmsnorm, linear_bias: false,
             tie_embeddings: false}}}},
             training: {{micro_batch_size: 1}}, hardware: {{library_workspaces: false}},
             cluster: {{num_gpus: 8}}, distribution: {{data_parallel: 8, sharding: zero3}}}}"
        ))
    };
    let buffers = |layers: u64| term(&run(layers), Phase::Backward, "sharding buffers");
    let (layer, matrix) = (202_383_360_u64, 32_000_u64 * 4096);
    // 16 bit, always gathered: `AllGatherPipeline.reset` keeps what belongs to no unit.
    let ends = (2 * matrix + 4096) * 2;
    // Ahead of a layer until 5e8 elements are reached: three more.
    let gathered = 4 * layer * 2;
    // fp32 gradients are freed before others are handed on only while those that wait have more than 1e9 elements. The
    // head's 131 076 096 and four layers' have not, so that a fifth is handed on, and a sixth made, before any is freed.
    assert_eq!(buffers(24), ends + gathered + (matrix + 4096 + 6 * layer) * 4);
    // With two layers nothing is ever freed: the head's, the upper layer's, and the lower one's being made.
    assert_eq!(buffers(2), ends + 2 * layer * 2 + (matrix + 4096) * 4 + 2 * layer * 4);
}

/// A transformer of 12 layers of 4 x 1024^2 + 2 x 1024 x 4096 + 13 x 1024 parameters on 8 GPUs with 16-bit weights and
/// fp32 masters.
fn deepspeed(more: &str) -> Prediction {
    predicted(&format!(
        "{{model: {{framework: pytorch, sequence_length: 64, hf_config: {{model_type: gpt2, n_embd: 1024, n_layer: 12,
         n_head: 16, n_positions: 1024, vocab_size: 50257}}}},
         training: {{precision: bf16-fp32-master, optimizer: adamw-fused, micro_batch_size: 1}},
         hardware: {{library_workspaces: false}}, cluster: {{num_gpus: 8}}, distribution: {{data_parallel: 8{more}}}}}"
    ))
}

/// DeepSpeed's ZeRO 2 (runtime/zero/stage_1_and_2.py, `setup_buckets`): `torch.empty(int(reduce_bucket_size))` in the
/// type of the weights when the backward pass begins, 5e8 x 2 B whatever the model's size, and one of them, as
/// `overlap_comm` is on for stage 3 only (runtime/zero/config.py, `overlap_comm_valid`). It is gone between steps.
#[test]
fn zero_2_makes_its_whole_bucket_for_a_small_model() {
    let prediction = deepspeed(", sharding: zero2");
    assert_eq!(term(&prediction, Phase::Backward, "sharding buffers"), 1_000_000_000);
    let stage = prediction.largest();
    let resting =
        stage.terms.iter().filter(|term| ["weights", "master weights", "optimizer states"].contains(&&*term.name));
    assert_eq!(stage.static_bytes.0, resting.map(|term| term.bytes.0).sum::<u64>());
    // "Use double buffers to avoid data access conflict when overlap_comm is enabled."
    let overlapped = deepspeed(", sharding: zero2, overlap_grad_reduce: true");
    assert_eq!(term(&overlapped, Phase::Backward, "sharding buffers"), 2_000_000_000);
}

/// DeepSpeed's ZeRO 3 (runtime/zero/stage3.py): the bucket is there from the start. 203 508 736 parameters are all used
/// again within 1e9 elements when the loss is there (partitioned_param_coordinator.py, `__params_to_release`): none has
/// been released when the last layer's backward pass makes its gradients in 16 bit.
#[test]
fn zero_3_keeps_its_bucket_and_releases_nothing_of_a_small_model() {
    let prediction = deepspeed(", sharding: zero3");
    let bucket = 1_000_000_000;
    let params = 50_257 * 1024 + 1024 * 1024 + 12 * (12 * 1024 * 1024 + 13 * 1024) + 2 * 1024;
    assert_eq!(prediction.params.total, params);
    let layer = 12 * 1024 * 1024 + 13 * 1024;
    assert_eq!(term(&prediction, Phase::Backward, "sharding buffers"), bucket + 2 * (params + layer));
    assert!(prediction.largest().static_bytes.0 > bucket);
}

/// torchtitan's FSDP2 under a pipeline does not reshard after the forward pass (distributed/fsdp.py,
/// `get_fsdp_reshard_after_forward_policy`), and PyTorch's stages reduce gradients behind the last backward pass alone
/// (torch/distributed/pipelining/stage.py, `backward_maybe_with_nosync`; _fsdp_param_group.py, `post_backward`).
#[test]
fn fsdp2_under_a_pipeline_keeps_its_stage_whole() {
    let prediction = predicted(
        "{model: {framework: torchtitan, batch_size: 6, sequence_length: 64, hf_config: {model_type: llama,
         hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 16,
         intermediate_size: 4096, vocab_size: 32000, max_position_embeddings: 64, tie_word_embeddings: false}},
         training: {precision: bf16-mixed, micro_batch_size: 1, gradient_accumulation_steps: 3},
         hardware: {library_workspaces: false}, cluster: {num_gpus: 4},
         distribution: {data_parallel: 2, pipeline_parallel: 2, sharding: zero3}}",
    );
    let layer = 4 * 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024;
    let head = 32_000 * 1024 + 1024;
    let stage = 2 * layer + head;
    // All weights of the last stage in bf16, all gradients in fp32, and in bf16 those of the layer that runs and the
    // head's, which wait for the end of the root's backward pass.
    assert_eq!(term(&prediction, Phase::Backward, "sharding buffers"), 2 * stage + 2 * layer + 2 * head);
    assert_eq!(term(&prediction, Phase::Backward, "whole gradients"), 4 * stage);
    // Sharded over two ranks: fp32 weights; no gradients yet.
    assert_eq!(term(&prediction, Phase::Backward, "weights"), 4 * stage / 2);
    assert_eq!(term(&prediction, Phase::Backward, "gradients"), 0);
    // Three buffers for activations of 64 x 1024 in bf16, of which the micro-batch under way has one; the last stage
    // receives no gradients. Logits of the two other micro-batches are kept until the step ends (`output_chunks`).
    assert_eq!(term(&prediction, Phase::Backward, "receive buffers"), 2 * 64 * 1024 * 2);
    assert_eq!(term(&prediction, Phase::Backward, "outputs kept"), 2 * 64 * 32_000 * 2);
}

/// FSDP without resharding behind the forward pass (`reshard_after_forward=False`, SHARD_GRAD_OP): fp32 shards at rest as
/// with it, and the bf16 weights of all layers until the loss is there, where with it two layers are.
#[test]
fn fsdps_second_stage_shares_weights_out_and_leaves_them_gathered() {
    let run = |framework: &str, sharding: &str| {
        predicted(&format!(
            "{{model: {{framework: {framework}, batch_size: 4, sequence_length: 64, hf_config: {{model_type: llama,
             hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 16,
             intermediate_size: 4096, vocab_size: 4000, max_position_embeddings: 64, tie_word_embeddings: false}}}},
             training: {{precision: bf16-mixed, micro_batch_size: 1}}, hardware: {{library_workspaces: false}},
             cluster: {{num_gpus: 4}}, distribution: {{data_parallel: 4, sharding: {sharding}, reduce_dtype: fp32}}}}"
        ))
    };
    let layer = 4 * 1024 * 1024 + 3 * 1024 * 4096 + 2 * 1024;
    let head = 4_000 * 1024 + 1024;
    let all = 4 * layer + 4_000 * 1024 + head;
    // FSDP2 (_fsdp_param_group.py, `post_backward`): in a layer below the top one, whose weights are gone and whose
    // gradients in fp32 stay until the next are reduced; its own in bf16.
    // FSDP1 (_flat_param.py, `_use_unsharded_views`): in the top layer, its gradients in bf16 one by one and as one flat
    // tensor, which are then cast to fp32 where its weights were.
    for (framework, gone, reduced, in_flight) in
        [("torchtitan", layer, 4 * layer, 2 * layer), ("pytorch", 0, 0, 4 * layer)]
    {
        let (kept, resharded) = (run(framework, "zero2"), run(framework, "zero3"));
        assert_eq!(kept.largest().static_bytes, resharded.largest().static_bytes);
        assert_eq!(term(&kept, Phase::Backward, "weights"), 4 * all / 4);
        // The head's gradients wait for the root's turn.
        let waiting = 2 * head;
        assert_eq!(term(&kept, Phase::Backward, "sharding buffers"), 2 * (all - gone) + reduced + waiting);
        // The embedding, the head, the layer that runs and the one that is gathered ahead.
        let gathered = 2 * (4_000 * 1024 + head) + 2 * 2 * layer;
        assert_eq!(term(&resharded, Phase::Backward, "sharding buffers"), gathered + reduced + waiting);
        for prediction in [&kept, &resharded] {
            assert_eq!(term(prediction, Phase::Backward, "weight gradients in flight"), in_flight);
        }
        assert!(kept.time.step.0 <= resharded.time.step.0 * (1.0 + 1e-9));
    }
}

/// DTensor gathers and scatters along the sequence from the outermost dimension and puts the parts in order with a copy
/// (torch/distributed/_functional_collectives.py): 2 x 2 B for each of N = 2 x 64 x 1024 elements about each collective.
/// A layer has two gathers and two scatters and their transposes, the head one gather, the embedding one scatter.
#[test]
fn collectives_along_the_sequence_copy_what_they_bring() {
    let bytes = |more: &str, name: &str| {
        let prediction = predicted(&format!(
            "{{model: {{framework: torchtitan, batch_size: 2, sequence_length: 64, hf_config: {{model_type: llama,
             hidden_size: 1024, num_hidden_layers: 4, num_attention_heads: 16, num_key_value_heads: 16,
             intermediate_size: 4096, vocab_size: 32000, max_position_embeddings: 64, tie_word_embeddings: false}}}},
             training: {{micro_batch_size: 2{more}}}, hardware: {{gpu_type: NVIDIA H100}}, cluster: {{num_gpus: 2}},
             distribution: {{tensor_parallel: 2, sequence_parallel: true}}}}"
        ));
        prediction.roofline.ops.iter().find(|op| op.name == name).map_or(0, |op| op.bytes.0)
    };
    let n = 2 * 64 * 1024;
    assert_eq!(bytes(", precision: bf16", "collective.copy"), n * (4 * 8 * 4 + 2 * 4 + 2 * 4));
    // torchao with one scale a tensor casts the shards and gathers a byte an element, forward and the gradients: half of
    // a layer's eight collectives (float8/float8_tensor_parallel.py). The others carry fp32: without FSDP torchtitan ends
    // mixed precision beside tensor-parallel ranks (distributed/utils.py, `maybe_enable_amp`).
    let fp8 = ", precision: fp8-mixed, fp8_recipe: tensorwise";
    assert_eq!(bytes(fp8, "collective.copy"), n * (4 * (4 * 2 + 4 * 8) + 2 * 8 + 2 * 8));
    // Recomputing a layer gathers its two inputs and scatters the attention's result once more: the scatter behind the
    // block brings what nothing saved.
    let full = ", precision: bf16, activation_checkpointing: full";
    assert_eq!(bytes(full, "collective.copy"), n * (4 * 11 * 4 + 2 * 4 + 2 * 4));
}

/// DeepSeek V2 Lite has 64 experts of 3 x 2048 x 1408 in each of 26 layers: of eight ranks each holds eight of them.
#[test]
fn experts_that_run_one_by_one_are_shared_out_too() {
    let weights = |ranks: u64| {
        let prediction = predicted(&format!(
            "{{model: {{hf_config: {{model_type: deepseek_v2, hidden_size: 2048, num_hidden_layers: 27,
             num_attention_heads: 16, num_key_value_heads: 16, intermediate_size: 10944, moe_intermediate_size: 1408,
             n_routed_experts: 64, n_shared_experts: 2, num_experts_per_tok: 6, first_k_dense_replace: 1,
             kv_lora_rank: 512, q_lora_rank: null, qk_rope_head_dim: 64, qk_nope_head_dim: 128, v_head_dim: 128,
             vocab_size: 102400}}, framework: pytorch, sequence_length: 512}},
             training: {{precision: bf16, micro_batch_size: 1}}, cluster: {{num_gpus: 8}},
             distribution: {{data_parallel: 8, expert_parallel: {ranks}}}}}"
        ));
        let terms = &prediction.largest().terms;
        terms.iter().find(|term| term.name == "weights").expect("weights").bytes.0
    };
    let experts = 26 * 64 * 3 * 2048 * 1408 * 2;
    assert_eq!(weights(1) - weights(8), experts / 8 * 7);
}

/// Llama 2 7B (6 738 415 616 parameters) on 32 nodes of 8 GPUs with 1 GB/s of network each, four micro-batches a step. Where
/// all 256 ranks share one copy, each micro-batch brings the weights into every node twice in 16 bit and sends its gradients
/// out in fp32: (2 x 2 + 4) bytes a parameter, 31 of 32 of them through 8 ports, 6.53 GB each. Groups within a node only sum
/// their shares of the gradients over the nodes: 2 x 4 / 8 bytes a parameter and 31 of 32 of them, 6.53 GB. torchtitan does
/// so for each micro-batch (train.py, `train_step`), transformers' Trainer once a step, under `no_sync`.
#[test]
fn groups_that_share_a_copy_within_a_node_spare_the_network_all_but_the_gradients() {
    let step = |framework: &str, group: u64| {
        let prediction = predicted(&format!(
            "{{model: {{preset: llama-2-7b, framework: {framework}, batch_size: 1024, sequence_length: 4096}},
             training: {{precision: bf16-mixed, micro_batch_size: 1}},
             hardware: {{gpu_type: NVIDIA A100 80GB}},
             cluster: {{num_gpus: 256, nodes: 32, gpus_per_node: 8, network_gb_s_per_gpu: 1}},
             distribution: {{strategy: fsdp, shard_group: {group}, reduce_dtype: fp32}}}}"
        ));
        prediction.time.step.0
    };
    let each_time = 8.0 * 6_738_415_616.0 * 31.0 / 32.0 / 8.0 / 1e9;
    let (all, node) = (step("torchtitan", 256), step("torchtitan", 8));
    assert!(all > 4.0 * each_time, "{all} s");
    // As many bytes leave a node either way.
    assert!((node / all - 1.0).abs() < 0.1, "{node} s, {all} s");
    let once = step("pytorch", 8);
    assert!(once > each_time && once < node / 3.0, "{once} s");
}

/// DeepSpeed sums whole buckets of gradients on every rank (`use_multi_rank_bucket_allreduce`), under the second stage after
/// each micro-batch (`reduce_ready_partitions_and_remove_grads`), and hides none of it unless told (`overlap_comm_valid`).
/// A gradient in fp32 has the bytes of a gathered weight, which is sent as it is stored, and passes twice: twice its time.
#[test]
fn deepspeed_sums_gradients_whole_and_as_often_as_they_are_shared_out() {
    let waits = |sharding: &str, steps: u64, rest: &str| {
        let plan = predicted(&format!(
            "{{model: {{preset: llama-3-8b, batch_size: {}, sequence_length: 2048}},
             training: {{precision: bf16-mixed, micro_batch_size: 1, gradient_accumulation_steps: {steps}}},
             hardware: {{gpu_type: A100 80GB}}, cluster: {{num_gpus: 32, nodes: 4, network_gb_s_per_gpu: 6}},
             distribution: {{engine: deepspeed, sharding: {sharding}{rest}}}}}",
            32 * steps
        ));
        let found = plan.time_terms.iter().find(|term| term.name.starts_with("gradients scattered")).unwrap();
        (found.seconds.0, found.hidden.0)
    };
    let near = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 0.03, "{one}, {other}");
    let ((both, hidden), (four, _)) = (waits("zero2", 1, ""), waits("zero2", 4, ""));
    assert!(hidden < 1e-9, "{hidden}");
    let gradients = (four - both) / 3.0;
    near(gradients, 2.0 * (both - gradients));
    near(waits("zero1", 4, "").0, both);
    let told = waits("zero2", 1, ", overlap_grad_reduce: true");
    assert!(told.1 > 0.0 && told.0 < both, "{told:?}");
}

/// Megatron-DeepSpeed sums bf16's gradients, which are fp32 then, on every rank (deepspeed 0.6.5, pipe/engine.py,
/// `_bf16_reduce_grads`), and sends fp16's shares to the ranks that keep them (zero/stage_1_and_2.py, `average_tensor`).
/// With the weights' two bytes a parameter that are gathered: 2 x 4 + 2 = 10 bytes against 2 + 2 = 4.
#[test]
fn megatron_deepspeed_sums_whole_buckets_in_bf16_alone() {
    let waits = |precision: &str| {
        let plan = predicted(&format!(
            "{{model: {{preset: gpt-3-175b, batch_size: 32, sequence_length: 2048, framework: megatron-deepspeed}},
             training: {{precision: {precision}, micro_batch_size: 1}},
             hardware: {{gpu_type: A100 80GB}}, cluster: {{num_gpus: 256, nodes: 32, network_gb_s_per_gpu: 6}},
             distribution: {{tensor_parallel: 1, pipeline_parallel: 8, sharding: zero1}}}}"
        ));
        let found = plan.time_terms.iter().find(|term| term.name.starts_with("gradients scattered")).unwrap();
        found.seconds.0 + found.hidden.0
    };
    let times = waits("bf16-fp32-master") / waits("fp16-fp32-master");
    assert!((times / 2.5 - 1.0).abs() < 0.02, "{times}");
}

/// DDP sums fp32 gradients, 2 x 4 bytes a parameter, and ZeroRedundancyOptimizer behind it sends every rank the weights
/// that it does not step itself, 4 bytes (torch/distributed/optim/zero_redundancy_optimizer.py, `_sync_params`).
#[test]
fn an_optimizer_that_is_shared_out_behind_ddp_adds_the_weights_way() {
    let waits = |sharding: &str| {
        let plan = predicted(&format!(
            "{{model: {{preset: llama-3-8b, batch_size: 32, sequence_length: 256}},
             training: {{precision: fp32, micro_batch_size: 1}},
             hardware: {{gpu_type: A100 80GB}}, cluster: {{num_gpus: 32, nodes: 4, network_gb_s_per_gpu: 6}},
             distribution: {{engine: ddp, sharding: {sharding}}}}}"
        ));
        let terms = plan.time_terms.iter().filter(|term| term.name.contains("gradients"));
        terms.map(|term| term.seconds.0 + term.hidden.0).sum::<f64>()
    };
    let times = waits("zero1") / waits("none");
    assert!((times / 1.5 - 1.0).abs() < 0.03, "{times}");
}

/// Megatron's precision-aware optimizer (Transformer Engine, pytorch/optimizers/fused_adam.py): of fp32 masters of bf16
/// weights it keeps 16 bits; narrow states are read as fp32 copies of all parameters, and written back after the step. It
/// reads narrow main gradients as they are. 4 layers of 202 383 360 parameters, two matrices of 32 000 x 4096 and a norm
/// on 8 ranks.
#[test]
fn a_precision_aware_optimizer_keeps_narrow_masters_and_steps_on_copies() {
    let run = |types: &str| {
        predicted(&format!(
            "{{model: {{framework: megatron, type: transformer, sequence_length: 64, architecture: {{hidden_size: 4096,
             num_layers: 4, num_attention_heads: 32, intermediate_size: 11008, vocab_size: 32000,
             vocab_padding_multiple: 128, activation: swiglu, norm: rmsnorm, linear_bias: false,
             tie_embeddings: false}}}},
             training: {{micro_batch_size: 1, distributed_optimizer: true{types}}}, hardware: {{library_workspaces: false}},
             cluster: {{num_gpus: 8}}, distribution: {{data_parallel: 8}}}}"
        ))
    };
    let held = |types: &str, name: &str| {
        let prediction = run(types);
        let terms = &prediction.largest().terms;
        terms.iter().find(|term| term.name == name).map_or(0, |term| term.bytes.0)
    };
    let share = (4 * 202_383_360_u64 + 2 * 32_000 * 4096 + 4096) / 8;
    assert_eq!(held("", "master weights"), 4 * share);
    assert_eq!(held(", master_dtype: int16", "master weights"), 2 * share);
    let narrow = ", gradient_dtype: bf16, optimizer_state_dtype: bf16, master_dtype: bf16";
    assert_eq!(held(narrow, "master weights"), 2 * share);
    assert_eq!(held(narrow, "optimizer states"), 2 * 2 * share);
    // Three states of each parameter.
    assert_eq!(term(&run(narrow), Phase::Optimizer, "optimizer temporaries"), 3 * 4 * share);
    // fp32 copies of gradients in 16 bits, of which there are none where masters are the optimizer's.
    assert_eq!(term(&run(", gradient_dtype: bf16"), Phase::Optimizer, "optimizer temporaries"), 4 * share);
    assert_eq!(held(", gradient_dtype: bf16, master_dtype: int16", "optimizer temporaries"), 0);
}

/// Transformer Engine's FusedAdam over FSDP2's shards (NeMo-Automodel, `components/optim/optimizer.py`): the 16 bits that
/// bf16 weights lack in the place of fp32 masters. Two layers of 4 x 1024 x 1024 + 3 x 1024 x 2816 + 2 x 1024 parameters,
/// two matrices of 32 000 x 1024 and a norm on 8 ranks.
#[test]
fn fused_adam_keeps_remainders_over_shards_of_fsdp2() {
    let masters = |types: &str| {
        let prediction = predicted(&format!(
            "{{model: {{framework: pytorch, type: transformer, sequence_length: 64, architecture: {{hidden_size: 1024,
             num_layers: 2, num_attention_heads: 16, intermediate_size: 2816, vocab_size: 32000, activation: swiglu,
             norm: rmsnorm, linear_bias: false, tie_embeddings: false, position: rope}}}},
             training: {{micro_batch_size: 1, precision: bf16-fp32-master, gradient_dtype: bf16, optimizer: adamw-fused{types}}},
             cluster: {{num_gpus: 8}}, distribution: {{sharding: zero3, engine: fsdp2}}}}"
        ));
        let terms = &prediction.largest().terms;
        terms.iter().find(|term| term.name == "master weights").map_or(0, |term| term.bytes.0)
    };
    let layer = 4 * 1024 * 1024_u64 + 3 * 1024 * 2816 + 2 * 1024;
    let share = (2 * layer + 2 * 32_000 * 1024 + 1024) / 8;
    assert_eq!(masters(""), 4 * share);
    assert_eq!(masters(", master_dtype: fp32"), 4 * share);
    // A rank's 128 elements of each of five norms take the allocator's 512 bytes in place of 256.
    assert_eq!(masters(", master_dtype: int16"), 2 * share + 5 * 256);
}

/// DeepSpeed's first stage hands gradients to the host behind the last backward pass (runtime/zero/stage_1_and_2.py,
/// `process_gradients`: `if self.partition_gradients or self.overlap_comm`): with more passes they lie on the GPU all the time,
/// 8 030 261 248 x 2 B of them; its second stage hands them on as they come.
#[test]
fn the_first_stage_keeps_gradients_beside_an_optimizer_on_the_host() {
    let most = |stage: &str, batch: u64| {
        let prediction = predicted(&format!(
            "{{model: {{preset: llama-3-8b, framework: pytorch, sequence_length: 2048, batch_size: {batch}}},
             training: {{precision: bf16-fp32-master, gradient_dtype: bf16, cpu_offload: optimizer, micro_batch_size: 1,
             activation_checkpointing: full}}, cluster: {{num_gpus: 8}}, distribution: {{sharding: {stage}, engine: deepspeed}}}}"
        ));
        prediction.largest().peak_allocated.0
    };
    let gradients = 8_030_261_248 * 2;
    assert!(most("zero1", 16) >= 2 * gradients, "{}", most("zero1", 16));
    assert!(most("zero1", 16) >= most("zero1", 8), "{} {}", most("zero1", 16), most("zero1", 8));
    assert!(most("zero2", 16) < most("zero1", 16));
}

/// DDP copies each gradient into a bucket, 4 bytes a parameter here, unless gradients are views of the buckets
/// (torch/nn/parallel/distributed.py, `gradient_as_bucket_view`).
#[test]
fn gradients_that_are_views_of_buckets_have_none_beside_them() {
    let run = |more: &str| {
        predicted(&format!(
            "{{model: {{framework: pytorch, sequence_length: 64, hf_config: {{model_type: gpt2, n_embd: 1024, n_layer: 12,
             n_head: 16, n_positions: 1024, vocab_size: 50257}}}},
             training: {{precision: bf16-mixed, micro_batch_size: 1}}, hardware: {{library_workspaces: false}},
             cluster: {{num_gpus: 2}}, distribution: {{engine: ddp{more}}}}}"
        ))
    };
    let (copied, views) = (run(""), run(", gradient_as_bucket_view: true"));
    let less = copied.largest().peak_allocated.0 - views.largest().peak_allocated.0;
    // Words and places, 12 layers of 12 x 1024^2 + 13 x 1024, the final norm.
    let params = (50_257 + 1024) * 1024 + 12 * (12 * 1024 * 1024 + 13 * 1024) + 2 * 1024;
    assert_eq!(less, 4 * params);
    // Nothing keeps them on the device in their stead.
    let used = copied.largest().device_used.0 - views.largest().device_used.0;
    assert!(used >= 4 * params - 64 * 1024 * 1024, "{used}");
}
