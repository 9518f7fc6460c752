//! A project's own copy of a tool. What is taken for the tool's default rests on its source: where that lies in the
//! checkout and does not say so, the copy is another version or a changed one, and the default is left open.

use super::Files;
use super::imported::ImportedPlan;
use super::origin::Origin;
use crate::plan::keys;

/// What a default rests on: one of `parts` in the first of `files` that is there.
struct Assumption {
    /// How the tool with its version begins, as defaults name it.
    framework: &'static str,
    key: &'static str,
    files: &'static [&'static str],
    parts: &'static [&'static str],
}

const fn rests(
    framework: &'static str,
    key: &'static str,
    files: &'static [&'static str],
    parts: &'static [&'static str],
) -> Assumption {
    Assumption { framework, key, files, parts }
}

const VERL: &[&str] = &["verl/workers/fsdp_workers.py", "verl/workers/engine_workers.py"];
const OPENRLHF: &[&str] = &["openrlhf/utils/deepspeed/deepspeed.py", "openrlhf/utils/deepspeed.py"];
const FACTORY: &[&str] = &["src/llamafactory/hparams/model_args.py", "src/llmtuner/hparams/model_args.py"];
/// Before `hparams/model_args.py` had the switch, the model's preparation took it as given.
const FACTORY_CHECKPOINTS: &[&str] = &[
    "src/llmtuner/tuner/core/utils.py",
    "src/llamafactory/hparams/model_args.py",
    "src/llmtuner/hparams/model_args.py",
];
const NANO: &[&str] = &["model.py"];
const CHATS: &[&str] =
    &["utils/ds_utils.py", "training/utils/ds_utils.py", "dschat/utils/ds_utils.py", "src/utils/ds_utils.py"];
const LIT: &[&str] = &["litgpt/model.py", "lit_gpt/model.py"];

/// Each was read in the named file of the version that its tool's reader names.
const ASSUMPTIONS: &[Assumption] = &[
    rests("verl ", keys::training::optimizer, VERL, &["optim.AdamW(", "build_optimizer(", "optim.SGD("]),
    rests("verl ", keys::training::attention, VERL, &["flash_attention_2"]),
    rests("verl ", keys::training::precision, VERL, &["MixedPrecision"]),
    rests("EasyR1 ", keys::training::attention, VERL, &["flash_attention_2"]),
    rests("OpenRLHF ", keys::training::optimizer, OPENRLHF, &["FusedAdam", "AdamW"]),
    rests(
        "OpenRLHF ",
        keys::training::gradient_dtype,
        &["openrlhf/utils/deepspeed/deepspeed_utils.py", "openrlhf/utils/deepspeed_utils.py"],
        &["grad_accum_dtype"],
    ),
    rests(
        "LLaMA-Factory 0.9",
        keys::training::activation_checkpointing,
        FACTORY_CHECKPOINTS,
        &["disable_gradient_checkpointing", "use_gradient_checkpointing: Optional[bool] = True"],
    ),
    rests("LLaMA-Factory 0.9", keys::training::attention, FACTORY, &["\"auto\"", "AUTO"]),
    rests("nanotron ", keys::training::attention, &["src/nanotron/models/llama.py"], &["flash_attn"]),
    rests("nanotron ", keys::training::loss, &["src/nanotron/models/llama.py"], &["sharded_cross_entropy"]),
    rests("litgpt ", keys::training::attention, LIT, &["scaled_dot_product_attention"]),
    rests("litgpt ", keys::training::loss, &["litgpt/utils.py", "lit_gpt/utils.py"], &["chunked_cross_entropy"]),
    rests(
        "litgpt ",
        keys::training::activation_checkpointing,
        &["litgpt/finetune/full.py"],
        &["activation_checkpointing_policy"],
    ),
    rests("GPT-NeoX ", keys::training::loss, &["megatron/mpu/cross_entropy.py"], &["vocab_parallel_cross_entropy"]),
    rests("GPT-NeoX ", keys::training::attention, &["megatron/neox_arguments/neox_args.py"], &["attention_config"]),
    rests("nanoGPT", keys::training::attention, NANO, &["scaled_dot_product_attention"]),
    rests("nanoGPT", keys::training::optimizer, NANO, &["torch.optim.AdamW("]),
    rests("OLMo ", keys::distribution::sharding, &["olmo/config.py"], &["FULL_SHARD"]),
    rests(
        "torchtitan 0.2",
        keys::training::optimizer,
        &["torchtitan/config_manager.py", "torchtitan/config/job_config.py"],
        &["implementation"],
    ),
    // Before 0.3, of 2024-09, it wrapped its models in `FullyShardedDataParallel`.
    rests(
        "torchtune ",
        keys::distribution::engine,
        &["recipes/full_finetune_distributed.py"],
        &["fully_shard", "shard_model"],
    ),
    rests("DeepSpeed-Chat", keys::training::precision, CHATS, &["fp16"]),
    rests("DeepSpeed-Chat", keys::training::gradient_dtype, CHATS, &["fp16"]),
    rests("open-instruct", keys::training::optimizer, &["open_instruct/finetune.py"], &["AdamW("]),
    rests("NeMo-RL ", keys::distribution::sharding, &["nemo_rl/models/dtensor/parallelize.py"], &["fully_shard"]),
];

/// Takes out defaults that a copy of their tool does not bear out.
pub fn hold_against_source(imported: &mut ImportedPlan, files: &dyn Files) {
    for assumption in ASSUMPTIONS {
        let framework = match imported.get(assumption.key).map(|found| &found.origin) {
            Some(Origin::Default { framework, .. }) if framework.starts_with(assumption.framework) => *framework,
            _ => continue,
        };
        let read = assumption.files.iter().find_map(|path| Some((path, files.read(path).ok()?)));
        let Some((path, text)) = read else { continue };
        let mut code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        if !code.any(|line| assumption.parts.iter().any(|part| line.contains(part))) {
            let parts = assumption.parts.join(" nor ");
            let why = format!("{path} is no {framework}: it has no {parts}");
            imported.doubt_default(assumption.key, why);
        }
    }
}
