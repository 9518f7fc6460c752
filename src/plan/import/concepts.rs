//! Settings that no reader asked for and whose names say what they decide: a batch, a length, a precision, a degree.
//! A tool's own name for one of these is not known here, so it is said, and no default stands in for it.

use serde_json::Value;

use super::settings::{truth, whole};

/// What a name may decide.
pub struct Concept {
    /// Parts of the last word of a dotted name; `=` in front means the whole of it.
    parts: &'static [&'static str],
    /// Parts of the whole name that speak of something else.
    others: &'static [&'static str],
    /// The largest whole number that changes nothing.
    idle: u64,
    /// The plan's keys whose default is doubtful then.
    pub keys: &'static [&'static str],
}

/// Sections and purposes whose settings are none of the trained model's.
const ELSEWHERE: [&str; 42] = [
    // DeepSpeed's reading and writing of disks.
    "aio.",
    // `--ckpt-fully-parallel-load`: how a checkpoint is read and written.
    "fully_parallel",
    "eval",
    "valid",
    "test",
    "val_",
    "predict",
    "infer",
    "generat",
    "gen_",
    "rollout",
    "vllm",
    "sglang",
    "critic",
    "ref.",
    "ref_",
    "reward",
    "teacher",
    "data.",
    "dataset",
    "tokeniz",
    "preprocess",
    "cache",
    "caching",
    "save",
    "log_prob",
    "logprob",
    "logging",
    "wandb",
    "comet",
    "launcher",
    "benchmark",
    "profil",
    "convert",
    "export",
    "icl",
    "log_",
    "tensorboard",
    "group_by",
    "buffer",
    "pin_memory",
    "merge",
];

const MICRO: &str = "training.micro_batch_size";
const LENGTH: &str = "model.sequence_length";
const LONGEST: u64 = 1 << 25;
const BATCH: &str = "model.batch_size";
const STEPS: &str = "training.gradient_accumulation_steps";

/// The first concept that a name fits counts.
const CONCEPTS: &[Concept] = &[
    Concept {
        parts: &["accum", "acc_steps", "grad_acc", "update_freq", "=gas"],
        others: &["allreduce", "all_reduce", "fusion", "dtype", "in_fp32", "summary", "metric", "auto"],
        idle: 1,
        keys: &[STEPS, BATCH],
    },
    Concept {
        parts: &[
            "batch_size",
            "batchsize",
            "_bsz",
            "micro_batch",
            "microbatch",
            "global_batch",
            "samples_per_gpu",
            "samples_per_device",
            "batch_per",
            "=batch",
            "=mbs",
            "=gbs",
            "=bs",
            "=bsz",
        ],
        others: &["bucket", "queue", "encode", "index", "retriev", "find", "warmup", "ramp", "num_batches", "mini_"],
        idle: 0,
        keys: &[MICRO, BATCH, STEPS],
    },
    Concept {
        parts: &[
            "max_len",
            "maxlen",
            "max_length",
            "_length",
            "seq_len",
            "seqlen",
            "block_size",
            "context_len",
            "context_size",
            "ctx_len",
            "max_tokens",
            "total_len",
            "input_len",
            "=length",
            "=seq",
        ],
        others: &[
            "new_tokens",
            "by_length",
            "penalty",
            "column",
            "min_",
            "label",
            "normal",
            "amax",
            "epoch",
            "step",
            "prompt",
            "completion",
            "mask",
            "stride",
            "truncat",
            "reciprocal",
            "chunk",
            "data_",
            "doc_",
            "quant",
            "flash",
        ],
        idle: 0,
        keys: &[LENGTH],
    },
    Concept {
        parts: &[
            "grad_ckpt",
            "gradient_checkpoint",
            "grad_checkpoint",
            "checkpoint_grad",
            "activation_checkpoint",
            "activations_checkpoint",
            "checkpoint_activation",
            "checkpoint_num_layers",
            "recompute",
            "remat",
            "use_checkpoint",
            "checkpointed_layers",
        ],
        others: &["kwargs", "reentrant", "old_", "activation_checkpointing."],
        idle: 0,
        keys: &["training.activation_checkpointing"],
    },
    Concept {
        parts: &[
            "=optimizer",
            "=optim",
            "=optimizer_name",
            "=optimizer_type",
            "=optim_type",
            "=opt",
            "=optimizer_class",
            "use_8bit_adam",
            "8bit_adam",
            "adam_8bit",
            "use_muon",
        ],
        others: &[],
        idle: 0,
        keys: &["training.optimizer"],
    },
    Concept {
        parts: &["fp8", "fp4", "nf4", "load_in_", "quantiz", "quantis", "=amp", "=use_amp", "nbits", "param_dtype"],
        others: &[
            "margin",
            "amax",
            "history",
            "interval",
            "scal",
            "kv_",
            "bnb_",
            "compute_dtype",
            "double",
            "group_size",
            "config",
            "wgrad",
            "e4m3",
            "hybrid",
            "skip",
        ],
        idle: 0,
        keys: &["training.precision"],
    },
    Concept {
        parts: &["zero_stage", "zero_opt", "sharding_strategy", "sharding_stage", "=shard", "=fsdp", "=zero"],
        others: &["state_dict", "shards"],
        idle: 0,
        keys: &["distribution.sharding", "distribution.engine"],
    },
    Concept {
        parts: &["offload"],
        others: &["enable_model", "folder", "path", "dir", "ratio", "buffer"],
        idle: 0,
        keys: &["training.cpu_offload"],
    },
    Concept {
        parts: &[
            "parallel_size",
            "_parallel",
            "parallelism",
            "tp_size",
            "pp_size",
            "sp_size",
            "cp_size",
            "ep_size",
            "ulysses",
            "virtual_pipeline",
            "=tp",
            "=pp",
            "=cp",
            "=ep",
            "mp_size",
            "pipeline_stages",
            "num_stages",
        ],
        others: &[
            "residual",
            "attn",
            "adapter",
            "output",
            "data_parallel",
            "dataloader",
            "async",
            "allreduce",
            "expert_model",
            "replicate",
            "worker",
            "vocab",
        ],
        idle: 1,
        keys: &[
            "distribution.tensor_parallel",
            "distribution.pipeline_parallel",
            "distribution.context_parallel",
            "distribution.pipeline_schedule",
        ],
    },
    Concept {
        parts: &[
            "=activation",
            "=activation_function",
            "=hidden_act",
            "glu_activation",
            "=act_fn",
            "=hidden_activation",
            "=activation_type",
            "=activation_fn",
            "=mlp_type",
            "=ffn_type",
            "=use_swiglu",
            "=use_geglu",
        ],
        others: &[],
        idle: 0,
        keys: &["model.architecture.activation"],
    },
    Concept {
        parts: &["pos_emb", "position_emb", "positional_e", "position_enc", "=pe_type", "=use_rope", "=use_alibi"],
        others: &["max_position", "interpol", "scal", "base", "percent", "dim", "fusion"],
        idle: 0,
        keys: &["model.architecture.position"],
    },
    Concept {
        parts: &["=norm_type", "=normalization_type", "=layernorm_type", "=use_rmsnorm"],
        others: &[],
        idle: 0,
        keys: &["model.architecture.norm"],
    },
    Concept {
        parts: &["=tie_embeddings", "=share_embeddings", "=tied_embeddings"],
        others: &[],
        idle: 0,
        keys: &["model.architecture.tie_embeddings"],
    },
    Concept {
        parts: &["num_layers", "n_layer", "hidden_size", "n_embd", "d_model", "ffn_hidden", "num_experts", "moe_layer"],
        others: &["vision", "prefix", "mm_", "draft", "connector", "dropout", "loss", "aux", "resid", "freq"],
        idle: 0,
        keys: &[],
    },
];

/// Names of the model that is trained, beside the ones that readers know; and of what is none.
const MODELS: [&str; 9] = [
    "model_name_or_path",
    "=model_path",
    "=base_model",
    "=model_name",
    "=model_id",
    "=pretrained_model",
    "=pretrained_model_path",
    "=base_model_path",
    "=llm_path",
];

/// Names of adapters; where the plan has a rank they are its details.
const ADAPTERS: [&str; 8] =
    ["lora", "peft", "=adapter", "use_adapter", "prefix_tuning", "prompt_tuning", "ia3", "dora"];
const DETAILS: [&str; 16] = [
    "alpha",
    "dropout",
    "bias",
    "path",
    "name",
    "weight",
    "dir",
    "_lr",
    "lr_",
    "target",
    "task_type",
    "merge",
    "scal",
    "init",
    "dtype",
    "modules",
];

/// What an unread setting decides by its name; none where it changes nothing, or where its name does not tell.
pub fn of(name: &str, value: &Value, adapted: bool) -> Option<&'static [&'static str]> {
    let lower = name.to_lowercase().replace('-', "_");
    let last = lower.rsplit('.').next().unwrap_or(&lower);
    let fits = |parts: &[&str]| {
        parts.iter().any(|part| part.strip_prefix('=').map_or_else(|| last.contains(part), |whole| last == whole))
    };
    let validates = last.ends_with("_val") || last.starts_with("llm_judge");
    if is_off(value) || validates || ELSEWHERE.iter().any(|part| lower.contains(part)) {
        return None;
    }
    if fits(&MODELS) && !lower.contains("adapter") && !lower.contains("peft") {
        return Some(&["model.preset", "model.hf_config", "model.size_billions"]);
    }
    // `--baseline lora`
    let word = value.as_str().map(str::to_lowercase).unwrap_or_default();
    if !adapted && ["lora", "qlora", "dora", "adalora", "ia3", "vera"].contains(&word.as_str()) {
        return Some(&[]);
    }
    if !adapted && fits(&ADAPTERS) && !DETAILS.iter().any(|part| last.contains(part)) {
        return Some(&[]);
    }
    let found =
        CONCEPTS.iter().find(|concept| fits(concept.parts) && !concept.others.iter().any(|part| lower.contains(part)));
    let number = whole(value);
    // More tokens than any sample has are those of the run.
    let fitting = |concept: &&Concept| number.is_none_or(|number| number > concept.idle && number < LONGEST);
    found.filter(fitting).map(|concept| concept.keys)
}

/// Whether an unread setting is a length by its name.
pub fn is_length(name: &str, value: &Value) -> bool {
    const PARTS: [&str; 9] = ["source", "summary", "response", "output", "answer", "target", "query", "global", "env"];
    let whole = !PARTS.iter().any(|part| name.to_lowercase().contains(part));
    whole && of(name, value, true).is_some_and(|keys| keys.contains(&LENGTH))
}

/// Whether a value says that there is none of it.
fn is_off(value: &Value) -> bool {
    let text = value.as_str().map(str::to_lowercase);
    let none =
        text.is_some_and(|text| matches!(text.trim(), "" | "none" | "null" | "no" | "auto" | "disabled" | "default"));
    let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty);
    none || empty || value.is_null() || truth(value) == Some(false)
}

#[cfg(test)]
mod tests {
    use super::of;
    use serde_json::json;

    #[test]
    fn names_tell_what_they_decide() {
        for (name, value, told) in [
            ("acc_steps", json!("4"), true),
            ("activations_checkpoint_method", json!("uniform"), true),
            ("train.max_input_length", json!(2048), true),
            ("virtual_pipeline_model_parallel_size", json!(12), true),
            ("ulysses_degree", json!("2"), true),
            ("lora_enabled", json!("true"), true),
            ("lora_enabled", json!("false"), false),
            ("eval_batch_size", json!(8), false),
            ("learning_rate", json!(1e-4), false),
            ("sequence_parallel_size", json!(1), false),
            ("fp8_amax_history_len", json!(1024), false),
            ("accumulate_allreduce_grads_in_fp32", json!(true), false),
            ("actor_rollout_ref.rollout.tensor_model_parallel_size", json!(4), false),
        ] {
            assert_eq!(of(name, &value, false).is_some(), told, "{name}");
        }
    }
}
