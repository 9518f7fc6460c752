//! Defaults that changed with a version. Each row was read in the named file of the last release that has the old value
//! and the first that has the new one.

use super::super::settings::DefaultValue;
use super::super::trainer::reentrant;
use super::range::{NEWEST, Version};

/// A default that holds from a version on, or until one.
#[derive(Debug, Clone, Copy)]
pub struct VersionedDefault {
    /// The library whose version decides.
    pub library: &'static str,
    /// The first version that has it.
    pub since: Version,
    /// The first that has it no more.
    pub until: Version,
    /// The setting.
    pub name: &'static str,
    /// What it is there.
    pub value: DefaultValue,
    /// Which defaults these are, as the report names them.
    pub label: &'static str,
}

const fn row(
    library: &'static str,
    since: Version,
    until: Version,
    setting: (&'static str, DefaultValue),
    label: &'static str,
) -> VersionedDefault {
    VersionedDefault { library, since, until, name: setting.0, value: setting.1, label }
}

const OLDEST: Version = (0, 0);

/// `modeling_utils.py`, `gradient_checkpointing_enable`, whoever calls it.
const CHECKPOINTS_OF_5: VersionedDefault = row(
    "transformers",
    reentrant::OTHERWISE_SINCE,
    NEWEST,
    (reentrant::NAME, DefaultValue::Flag(false)),
    "transformers 5.0",
);

/// `TrainingArguments` and `from_pretrained`, against 4.57. Later rows go over earlier ones.
pub const TRAINER: &[VersionedDefault] = &[
    // `training_args.py`, `TrainingArguments.default_optim`: the fused one since 4.54, with PyTorch 2.8 and later;
    // `adamw_torch` from 4.32 (`OptimizerNames.ADAMW_HF` in 4.31).
    row("torch", OLDEST, (2, 8), ("optim", DefaultValue::Text("adamw_torch")), "transformers under PyTorch before 2.8"),
    row("transformers", (4, 32), (4, 54), ("optim", DefaultValue::Text("adamw_torch")), "transformers 4.32 to 4.53"),
    row("transformers", OLDEST, (4, 32), ("optim", DefaultValue::Text("adamw_hf")), "transformers before 4.32"),
    // `modeling_utils.py`, `_autoset_attn_implementation`: sdpa where the class has it since 4.36, none before.
    row(
        "transformers",
        OLDEST,
        (4, 36),
        ("attn_implementation", DefaultValue::Text("eager")),
        "transformers before 4.36",
    ),
    // `utils/import_utils.py`, `is_torch_sdpa_available`: from PyTorch 2.1.1 on.
    row(
        "torch",
        OLDEST,
        (2, 1),
        ("attn_implementation", DefaultValue::Text("eager")),
        "transformers under PyTorch before 2.1.1",
    ),
    CHECKPOINTS_OF_5,
    // `training_args.py`, `_process_fsdp_args`: `fsdp_config.get("version", 1)` up to 5.9, 2 since 5.10.
    row("transformers", (5, 10), NEWEST, ("fsdp_config.version", DefaultValue::Text("2")), "transformers 5.10"),
];

/// TRL's own configurations and scripts, against 1.0. Later rows go over earlier ones.
pub const TRL: &[VersionedDefault] = &[
    // `trainer/*_config.py`, `gradient_checkpointing`: a field of its own, True, since 0.22.
    row("trl", OLDEST, (0, 22), ("gradient_checkpointing", DefaultValue::Flag(false)), "TRL before 0.22"),
    // `trainer/*_config.py`, `bf16`: a field of its own, on unless fp16 is, since 0.19.
    row("trl", OLDEST, (0, 19), ("bf16", DefaultValue::Flag(false)), "TRL before 0.19"),
    // TRL 0.22 asks for transformers 4.55, TRL 0.19 for 4.51 (`setup.cfg`, `install_requires`).
    row(
        "transformers",
        OLDEST,
        (4, 55),
        ("gradient_checkpointing", DefaultValue::Flag(false)),
        "TRL before 0.22, by its transformers",
    ),
    row("transformers", OLDEST, (4, 51), ("bf16", DefaultValue::Flag(false)), "TRL before 0.19, by its transformers"),
    // `trainer/*_config.py`, `__post_init__`: the kind that isn't reentrant since 0.27, transformers' own before; TRL 0.27
    // asks for transformers 4.56.2.
    row("trl", OLDEST, (0, 27), (reentrant::NAME, DefaultValue::Flag(true)), "transformers under TRL before 0.27"),
    row(
        "transformers",
        OLDEST,
        (4, 56),
        (reentrant::NAME, DefaultValue::Flag(true)),
        "transformers under TRL before 0.27",
    ),
    CHECKPOINTS_OF_5,
    // `trainer/model_config.py`, `ModelConfig.dtype`: None before 0.27, float32 since.
    row("trl", (0, 27), NEWEST, ("dtype", DefaultValue::Text("float32")), "TRL since 0.27"),
];

/// `SFTConfig` (`trainer/sft_config.py`, `loss_type`): `chunked_nll` by itself since 1.7, of which `nll` is another name since
/// 1.15 (`trainer/sft_trainer.py`, `add_fused_lm_head`: "without materializing the full logits").
pub const TRL_SFT: &[VersionedDefault] =
    &[row("trl", (1, 7), NEWEST, ("loss_type", DefaultValue::Text("chunked_nll")), "TRL since 1.7")];

/// The first TRL whose `nll` is taken in parts.
pub const NLL_IN_PARTS: Version = (1, 15);

/// The same for preferences and rewards: `trainer/{dpo,kto,reward}_trainer.py` before 0.14 say "it will be set to `512`
/// by default" where `max_length` is None.
pub const TRL_PAIRS: &[VersionedDefault] =
    &[row("trl", OLDEST, (0, 14), ("max_length", DefaultValue::Whole(512)), "TRL before 0.14")];

/// `GRPOConfig` (`trainer/grpo_config.py`). TRL 0.19 asks for transformers 4.51, TRL 0.23 for 4.56.1.
pub const TRL_GROUPS: &[VersionedDefault] = &[
    // 0.04 up to 0.18, 0.0 since 0.19.
    row("trl", OLDEST, (0, 19), ("beta", DefaultValue::Number(0.04)), "TRL before 0.19"),
    row("transformers", OLDEST, (4, 51), ("beta", DefaultValue::Number(0.04)), "TRL before 0.19, by its transformers"),
    // 512 up to 0.25; since 0.26 prompts are as long as they are.
    row("trl", OLDEST, (0, 26), ("max_prompt_length", DefaultValue::Whole(512)), "TRL before 0.26"),
    row(
        "transformers",
        OLDEST,
        (4, 56),
        ("max_prompt_length", DefaultValue::Whole(512)),
        "TRL before 0.23, by its transformers",
    ),
    // A server up to 0.29, in the training processes since 1.0.
    row("trl", OLDEST, (1, 0), ("vllm_mode", DefaultValue::Text("server")), "TRL before 1.0"),
    row("trl", (1, 0), NEWEST, ("vllm_mode", DefaultValue::Text("colocate")), "TRL 1.0"),
];

/// The first accelerate under whose FSDP trained weights of 16 bits become fp32 (`accelerator.py`, `prepare_model`:
/// `upcasted_log`; 0.29 has it not).
pub const FSDP_UPCASTS: Version = (0, 30);

/// The first peft that keeps adapters of a model of 16 bits in fp32 (`mapping.py`, `get_peft_model`:
/// `autocast_adapter_dtype`; in 0.11 `tuners/lora/layer.py`, `update_layer` moves them to the weight's type).
pub const ADAPTERS_IN_FP32: Version = (0, 12);

/// The first PyTorch whose AdamW takes the foreach kernels by itself (`optim/optimizer.py`,
/// `_default_to_fused_or_foreach`; in 1.13 `foreach` None is a loop over the tensors), and that frees gradients between
/// steps (`zero_grad(set_to_none=True)`).
pub const FOREACH: Version = (2, 0);

/// The PyTorch versions that multiply fp32 matrices in TF32 by themselves (`backends/cuda/__init__.py`,
/// `matmul.allow_tf32`: on from 1.7, off since 1.12).
pub const TF32: [Version; 2] = [(1, 7), (1, 12)];

/// The first transformers that keeps the experts of a layer in one parameter each way (`models/qwen2_moe/
/// modeling_qwen2_moe.py`, `Qwen2MoeExperts`).
pub const EXPERTS_IN_ONE: Version = (5, 0);
