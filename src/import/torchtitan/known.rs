//! What torchtitan's own code decides: defaults, names that have changed, and the configurations
//! of its registry.

use serde_json::Value;

use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::settings::{DefaultValue, Settings};

/// The version whose defaults are meant.
pub const VERSION: &str = "torchtitan 0.2";

pub const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("model.name", DefaultValue::Text("llama3")),
    ("model.flavor", DefaultValue::Text("debugmodel")),
    ("training.local_batch_size", DefaultValue::Whole(8)),
    ("training.seq_len", DefaultValue::Whole(2048)),
    ("training.max_norm", DefaultValue::Number(1.0)),
    ("training.dtype", DefaultValue::Text("float32")),
    ("training.mixed_precision_param", DefaultValue::Text("bfloat16")),
    ("optimizer.name", DefaultValue::Text("AdamW")),
    ("activation_checkpoint.mode", DefaultValue::Text("selective")),
    ("activation_checkpoint.selective_ac_option", DefaultValue::Text("2")),
    ("parallelism.pipeline_parallel_schedule", DefaultValue::Text("1F1B")),
];

/// Old names of settings, and the ones that they have now.
pub const RENAMED: &[(&str, &str)] = &[
    ("training.batch_size", "training.local_batch_size"),
    ("training.data_parallel_degree", "parallelism.data_parallel_shard_degree"),
    ("training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"),
    ("training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"),
    ("training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"),
    ("training.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    ("experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    ("experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"),
    ("experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches"),
    ("experimental.context_parallel_degree", "parallelism.context_parallel_degree"),
    ("experimental.context_parallel_rotate_method", "parallelism.context_parallel_rotate_method"),
    ("experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("training.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
    ("training.compile", "compile.enable"),
    ("training.max_context_length", "training.seq_len"),
    ("quantize.linear.float8.enable_fsdp_float8_all_gather", "float8.enable_fsdp_float8_all_gather"),
    (
        "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
        "float8.precompute_float8_dynamic_scale_for_fsdp",
    ),
    ("quantize.linear.float8.recipe_name", "float8.recipe_name"),
    ("quantize.linear.float8.filter_fqns", "float8.filter_fqns"),
    ("quantize.linear.float8.emulate", "float8.emulate"),
    ("quantize.grouped_mm.float8.fqns", "float8.moe_fqns"),
    ("float8.moe_fqns_prototype", "float8.moe_fqns"),
    ("quantize.linear.mx.recipe_name", "mx.recipe_name"),
    ("quantize.linear.mx.filter_fqns", "mx.filter_fqns"),
    ("quantize.linear.mx.mxfp8_dim1_cast_kernel_choice", "mx.mxfp8_dim1_cast_kernel_choice"),
    ("quantize.grouped_mm.mx.recipe_name", "mx.moe_recipe_name"),
    ("quantize.grouped_mm.mx.fqns", "mx.moe_fqns"),
];

/// A configuration of the registry: flavor, samples a rank, sequence, tensor and expert ranks, whole
/// blocks recomputed, compiled, FP8.
pub struct RegistryEntry {
    pub name: &'static str,
    pub model: &'static str,
    pub flavor: &'static str,
    pub samples: u64,
    pub sequence: u64,
    pub tensor: u64,
    pub experts: u64,
    pub full: bool,
    pub compiled: bool,
    pub fp8: bool,
}

macro_rules! registered {
    ($($name:literal $model:literal $flavor:literal $samples:literal x $sequence:literal tp $tensor:literal ep $experts:literal $($flag:ident)*;)+) => {
        &[$(RegistryEntry {
            samples: $samples, sequence: $sequence, tensor: $tensor, experts: $experts,
            $($flag: true,)*
            ..plain($name, $model, $flavor)
        },)+]
    };
}

const fn plain(name: &'static str, model: &'static str, flavor: &'static str) -> RegistryEntry {
    RegistryEntry {
        name,
        model,
        flavor,
        samples: 8,
        sequence: 2048,
        tensor: 1,
        experts: 1,
        full: false,
        compiled: false,
        fp8: false,
    }
}

/// `torchtitan/models/*/config_registry.py` at b5bcd76c.
pub const REGISTRY: &[RegistryEntry] = registered! {
    "llama3_debugmodel" "llama3" "debugmodel" 8 x 2048 tp 1 ep 1;
    "llama3_8b" "llama3" "8B" 1 x 8192 tp 1 ep 1;
    "llama3_8b_mxfp8" "llama3" "8B" 1 x 8192 tp 1 ep 1 compiled fp8;
    "llama3_70b" "llama3" "70B" 8 x 8192 tp 8 ep 1 full;
    "llama3_405b" "llama3" "405B" 2 x 8192 tp 8 ep 1 full compiled fp8;
    "deepseek_v3_16b" "deepseek_v3" "16B" 4 x 4096 tp 1 ep 8;
    "deepseek_v3_671b" "deepseek_v3" "671B" 4 x 4096 tp 1 ep 2;
    "qwen3_0_6b" "qwen3" "0.6B" 4 x 4096 tp 1 ep 1;
    "qwen3_1_7b" "qwen3" "1.7B" 4 x 4096 tp 1 ep 1;
    "qwen3_14b" "qwen3" "14B" 4 x 4096 tp 1 ep 1 full;
    "qwen3_32b" "qwen3" "32B" 2 x 4096 tp 1 ep 1 full;
    "qwen3_30b_a3b" "qwen3" "30B-A3B" 2 x 4096 tp 1 ep 1 full;
};

/// Sets what a configuration of the registry says; of one that is not known no default is taken.
pub fn registered(settings: &mut Settings, name: &Setting<String>, imported: &mut ImportedPlan) {
    let known = REGISTRY.iter().find(|entry| entry.name == name.value);
    let Some(entry) = known else {
        imported.unread = Some(format!("--config {}", name.value));
        return imported.note(format!("--config {}: not among the configurations that are known here", name.value));
    };
    let origin = Origin::Argument(format!("--config {}", entry.name));
    let values: [(&str, Value); 8] = [
        ("model.name", entry.model.into()),
        ("model.flavor", entry.flavor.into()),
        ("training.local_batch_size", entry.samples.into()),
        ("training.seq_len", entry.sequence.into()),
        ("parallelism.tensor_parallel_degree", entry.tensor.into()),
        ("parallelism.expert_parallel_degree", entry.experts.into()),
        ("activation_checkpoint.mode", if entry.full { "full" } else { "selective" }.into()),
        ("activation_checkpoint.selective_ac_option", "op".into()),
    ];
    for (name, value) in values {
        settings.set(name, value, origin.clone());
    }
    // Every configuration of the registry computes its loss in chunks of tokens.
    settings.set("loss.chunked", true.into(), origin.clone());
    if entry.compiled {
        settings.set("compile.enable", true.into(), origin.clone());
    }
    if entry.fp8 {
        settings.set("float8.enable_float8_linear", true.into(), origin);
    }
}
