//! What single settings cost, each by its names.

use serde_json::Value;

use super::costs::{Cost, Under};
use crate::settings::{number, text, truth};

pub(super) fn on(value: &Value) -> bool {
    truth(value) == Some(true)
}

fn off(value: &Value) -> bool {
    truth(value) == Some(false)
}

fn above_zero(value: &Value) -> bool {
    number(value).is_some_and(|number| number > 0.0)
}

fn is_one_of(value: &Value, words: &[&str]) -> bool {
    text(value).is_some_and(|word| words.contains(&word.to_lowercase().as_str()))
}

/// Modules beside the head, which is never quantised (`transformers/quantizers/quantizers_utils.py`, `get_keys_to_not_convert`).
fn names_more_than_the_head(value: &Value) -> bool {
    let head = |name: &str| matches!(name.trim(), "" | "lm_head" | "score" | "classifier");
    match value {
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(|name| !head(name)),
        Value::String(names) => names.split([',', ' ']).any(|name| !head(name)),
        _ => false,
    }
}

pub(super) const COSTS: &[Cost] = &[
    // `torch.cuda.empty_cache()`: transformers' `Trainer.training_step`, Oumi's `training_params.py`, NeMo-RL's
    // `dtensor_policy_worker.py`, Megatron's `training.py`. Behind each hundredth step it changes nothing.
    Cost {
        names: &[
            "torch_empty_cache_steps",
            "empty_cache_steps",
            "empty_device_cache_steps",
            "clear_cache_every_n_steps",
            "empty_unused_memory_level",
        ],
        costs: |value| number(value).is_some_and(|each| (1.0..=10.0).contains(&each)),
        under: Under::Everything,
        weighs: false,
        what: "cached blocks are given back between steps: less stays reserved, and steps take longer",
    },
    // `accelerate/utils/memory.py`, `find_executable_batch_size`.
    Cost {
        names: &["auto_find_batch_size"],
        costs: on,
        under: Under::Everything,
        weighs: false,
        what: "a batch that does not fit is made smaller: the one that is stated is counted",
    },
    // `torch/distributed/fsdp/_runtime_utils.py`, `_prefetch_handle`.
    Cost {
        names: &[
            "backward_prefetch",
            "fsdp_backward_prefetch",
            "backward_prefetch_policy",
            "fsdp_backward_prefetch_policy",
        ],
        costs: |value| is_one_of(value, &["no_prefetch", "none", "backward_post"]),
        under: Under::Fsdp,
        weighs: false,
        what: "the next weights are gathered late in the backward pass: fewer at once, and longer steps",
    },
    // `accelerate/utils/dataclasses.py`, `set_auto_wrap_policy`.
    Cost {
        names: &["fsdp_auto_wrap_policy", "auto_wrap_policy"],
        costs: |value| is_one_of(value, &["no_wrap", "size_based_wrap"]),
        under: Under::Fsdp,
        weighs: true,
        what: "units of FSDP that are no blocks: a unit for each block is counted",
    },
    // `torch/distributed/fsdp/_limiter_utils.py`: no more than two units at once.
    Cost {
        names: &["limit_all_gathers", "fsdp_limit_all_gathers"],
        costs: off,
        under: Under::Fsdp,
        weighs: true,
        what: "gathers run ahead without a limit: weights of more units at once",
    },
    // `accelerate/utils/dataclasses.py`, `DDPCommunicationHookType`.
    Cost {
        names: &["ddp_comm_hook", "comm_hook"],
        costs: |value| is_one_of(value, &["fp16", "bf16", "power_sgd", "batched_power_sgd"]),
        under: Under::Everything,
        weighs: true,
        what: "gradients are exchanged in another form than they are in",
    },
    // `torch/nn/parallel/distributed.py`
    Cost {
        names: &["gradient_as_bucket_view"],
        costs: on,
        under: Under::Ddp,
        weighs: true,
        what: "gradients lie in the buckets: a bucket beside each is counted",
    },
    // `qkv.clamp_(…)` keeps what it goes over (`olmo/model.py`, `OLMoBlock.attention`; `llmfoundry/models/layers/attention.py`).
    Cost {
        names: &["clip_qkv"],
        costs: above_zero,
        under: Under::Everything,
        weighs: true,
        what: "clamping keeps queries, keys and values once more",
    },
    // `megatron/core/transformer/mlp.py`: `bias_swiglu_impl` keeps its input alone.
    Cost {
        names: &["bias_activation_fusion", "bias_swiglu_fusion"],
        costs: off,
        under: Under::Gated,
        weighs: true,
        what: "the activation function by several kernels, which keep more",
    },
    // `megatron/core/tensor_parallel/random.py`, `CheckpointFunction`.
    Cost {
        names: &["distribute_saved_activations"],
        costs: on,
        under: Under::SharedLayers,
        weighs: true,
        what: "kept inputs are shared out over the ranks of a layer",
    },
    // `megatron/core/transformer/moe/moe_utils.py`, `fused_permute`.
    Cost {
        names: &["moe_permute_fusion"],
        costs: on,
        under: Under::Experts,
        weighs: false,
        what: "tokens are permuted by fused kernels: plain ones are timed",
    },
    // `megatron/core/transformer/moe/shared_experts.py`
    Cost {
        names: &["moe_shared_expert_overlap"],
        costs: on,
        under: Under::Experts,
        weighs: false,
        what: "the shared expert runs beside the dispatch: one after the other is timed",
    },
    // `megatron/core/rerun_state_machine.py`, `RerunMode`.
    Cost {
        names: &["rerun_mode"],
        costs: |value| is_one_of(value, &["report_stats", "report_determinism_stats"]),
        under: Under::Everything,
        weighs: true,
        what: "each step is computed twice",
    },
    // `megatron/core/fusions/fused_softmax.py`, `forward_torch_softmax`.
    Cost {
        names: &["masked_softmax_fusion"],
        costs: off,
        under: Under::Eager,
        weighs: true,
        what: "the softmax of attention by several kernels, which keep more",
    },
    Cost {
        names: &["no_masked_softmax_fusion"],
        costs: on,
        under: Under::Eager,
        weighs: true,
        what: "the softmax of attention by several kernels, which keep more",
    },
    // verl's `workers/actor/dp_actor.py` and `utils/torch_functional.py` (`entropy_from_logits`), ROLL's `base_worker.py`,
    // slime's `backends/megatron_utils/loss.py`, SkyRL's `worker.py`: with a coefficient of 0 no gradient asks for it.
    Cost {
        names: &["actor.entropy_coeff", "=entropy_loss_coef", "=entropy_coef", "policy_trainer.entropy_coef"],
        costs: above_zero,
        under: Under::WholeLogits,
        weighs: true,
        what: "the entropy in the loss keeps a softmax of all logits",
    },
    Cost {
        names: &["use_entropy_loss"],
        costs: on,
        under: Under::Everything,
        weighs: true,
        what: "the entropy in the loss keeps a softmax of all logits",
    },
    // `slime/backends/megatron_utils/actor.py`: its weights come from the host for a pass, as the reference's do.
    Cost {
        names: &["=opd_teacher_load"],
        costs: Value::is_string,
        under: Under::Everything,
        weighs: false,
        what: "the teacher takes the policy's place for a pass, which is not in the time",
    },
    // verl's `trainer/ppo/ray_trainer.py`: the pass that asks for the log-probabilities does so.
    Cost {
        names: &["calculate_sum_pi_squared"],
        costs: on,
        under: Under::Everything,
        weighs: false,
        what: "a softmax of all logits beside the log-probabilities",
    },
    // `transformers/utils/quantization_config.py`, `BitsAndBytesConfig`.
    Cost {
        names: &["llm_int8_skip_modules", "modules_to_not_convert"],
        costs: names_more_than_the_head,
        under: Under::QuantisedBase,
        weighs: true,
        what: "modules that are not quantised",
    },
    // `deepspeed/runtime/zero/partition_parameters.py`: smaller parameters stay whole on each rank.
    Cost {
        names: &["stage3_param_persistence_threshold", "param_persistence_threshold"],
        costs: |value| number(value).is_some_and(|elements| elements > 1e6),
        under: Under::Zero3,
        weighs: true,
        what: "parameters of fewer elements stay whole on each rank",
    },
    // `deepspeed/runtime/zero/linear.py`
    Cost {
        names: &["memory_efficient_linear"],
        costs: off,
        under: Under::Zero3,
        weighs: true,
        what: "linear layers keep the weights that were gathered for them",
    },
    // `megatron/model/gpt2_model.py` of GPT-NeoX, `ParallelLinearPipe`.
    Cost {
        names: &["output_layer_parallelism"],
        costs: |value| is_one_of(value, &["row"]),
        under: Under::SharedLayers,
        weighs: true,
        what: "each rank has the logits of the whole vocabulary",
    },
    // `megatron/core/transformer/transformer_config.py`
    Cost {
        names: &["first_last_layers_bf16"],
        costs: on,
        under: Under::Fp8,
        weighs: false,
        what: "the first and the last layers stay in bf16: all are counted in FP8",
    },
    // `nanotron/nn/layer_norm.py`, `LlamaRMSNorm`.
    Cost {
        names: &["_fused_rms_norm"],
        costs: off,
        under: Under::Everything,
        weighs: true,
        what: "norms of plain PyTorch, which keep copies in fp32",
    },
    // `spectrum/spectrum.py` of Spectrum: the weights that a file lists train, all others are frozen.
    Cost {
        names: &["spectrum_config_path", "spectrum_top_fraction", "unfrozen_parameters"],
        costs: |value| !off(value) && !value.is_null(),
        under: Under::Everything,
        weighs: true,
        what: "a part of the weights alone trains: all are counted as trained",
    },
    // `megatron/core/pipeline_parallel/deepspeed_zbh1_engine.py` of Megatron-DeepSpeed.
    Cost {
        names: &["enable_zbh1_pipeline"],
        costs: on,
        under: Under::Everything,
        weighs: true,
        what: "zero bubbles: gradients of weights are computed apart from those of inputs; 1F1B is counted",
    },
    // `unsloth_zoo/tiled_mlp.py`; `TiledMLP` of Arctic's long sequences (axolotl, `monkeypatch/tiled_mlp`).
    Cost {
        names: &["unsloth_tiled_mlp", "tiled_mlp"],
        costs: on,
        under: Under::Everything,
        weighs: true,
        what: "an MLP runs over parts of the sequence, one after the other: the whole is counted at once",
    },
    // `composer/algorithms`: without arguments of its own one is on all the same.
    Cost {
        names: &[
            "algorithms.low_precision_layernorm",
            "algorithms.fused_layernorm",
            "algorithms.low_precision_groupnorm",
            "algorithms.gated_linear_units",
            "algorithms.ema",
            "algorithms.label_smoothing",
        ],
        costs: Value::is_object,
        under: Under::Everything,
        weighs: true,
        what: "Composer's algorithm puts other modules in, or holds more",
    },
    // `torchtune/utils/_device.py`; `train.py` of timm.
    Cost {
        names: &["=device"],
        costs: |value| is_one_of(value, &["cpu"]),
        under: Under::Gpus,
        weighs: true,
        what: "the run is on CPUs, the plan on GPUs",
    },
    // `train.py` of timm: a batch holds each picture so often (`AugMixDataset`).
    Cost {
        names: &["=aug_splits"],
        costs: |value| number(value).is_some_and(|splits| splits > 1.0),
        under: Under::Everything,
        weighs: true,
        what: "a batch holds each picture so often",
    },
    Cost {
        names: &["=naflex_loader"],
        costs: on,
        under: Under::Everything,
        weighs: true,
        what: "pictures of several sizes, as many in a batch as its tokens hold",
    },
];
