//! A plan as a function for torchtitan's `config_registry.py`, which took the place of its TOML in February 2026
//! (`torchtitan/config/configs.py` and `torchtitan/models/llama3/config_registry.py` at b5bcd76c).

use std::fmt::Write;

use super::shape::{self, ExportDegrees};
use super::{ExportedPlan, recomputation_name, torchtitan};
use crate::catalog::Catalog;
use crate::plan::keys::Plan;
use crate::plan::keywords::{Engine, Fp8Recipe, Loss, Optimizer, Precision, Schedule};
use crate::plan::torchtitan::flavor_of;
use crate::plan::types::Checkpointing;

/// The file.
pub fn python(plan: &Plan, catalog: &Catalog) -> ExportedPlan {
    let mut notes = Vec::new();
    let degrees = ExportDegrees::of(plan);
    let preset = plan.model.preset.as_deref().and_then(|name| catalog.model(name));
    let known = preset.and_then(|preset| flavor_of(&preset.name));
    let (model, flavor) = known.unwrap_or_else(|| {
        notes.push(torchtitan::no_flavor());
        ("llama3", torchtitan::UNREGISTERED)
    });
    let after = optimizer(plan, &mut notes);
    let loss = match plan.training.loss {
        Some(Loss::Chunked | Loss::Fused) => {
            "ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)))"
        }
        None | Some(Loss::Plain) => "CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))",
        Some(other) => {
            notes.push(format!("training.loss: {other} is none of torchtitan's"));
            "CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))"
        }
    };
    let registry = converted(plan, flavor, &mut notes);
    let mut text = imports(model);
    let decay = plan.training.weight_decay.map_or(String::new(), |decay| format!(", weight_decay={decay:?}"));
    let mut lines = vec![
        format!("loss={loss}"),
        "model_spec=model_spec".to_owned(),
        format!("optimizer=default_adamw(lr=3e-4{decay})"),
        call("training=TrainingConfig", &training(plan, catalog, degrees, &mut notes)),
        call("parallelism=ParallelismConfig", &parallelism(plan, degrees, &mut notes)),
        format!("activation_checkpoint={}", recomputation(plan, &mut notes)),
    ];
    lines.push(format!("compile=CompileConfig(enable={})", python_truth(plan.training.compile.unwrap_or(false))));
    // A text takes whatever is written to it.
    let _ =
        writeln!(text, "\n\ndef plan() -> Trainer.Config:\n    model_spec = {registry}\n    config = Trainer.Config(");
    for line in lines {
        let _ = writeln!(text, "        {line},");
    }
    let _ = writeln!(text, "    )");
    for line in after {
        let _ = writeln!(text, "    {line}");
    }
    let _ = writeln!(text, "    return config");
    torchtitan::unsaid(plan, &mut notes);
    ExportedPlan { text, notes, refused: None }
}

type Keywords = Vec<(&'static str, String)>;

fn call(name: &str, keywords: &Keywords) -> String {
    let keywords: Vec<String> = keywords.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name}({})", keywords.join(", "))
}

const fn python_truth(on: bool) -> &'static str {
    if on { "True" } else { "False" }
}

fn imports(model: &str) -> String {
    format!(
        "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss\n\
         from torchtitan.components.optimizer import default_adamw\n\
         from torchtitan.components.quantization import Float8LinearConverter\n\
         from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig\n\
         from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n\
         from torchtitan.models.common.config_utils import decoder_vocab_size\n\
         from torchtitan.models.{model} import model_registry\n\
         from torchtitan.trainer import Trainer\n"
    )
}

fn converted(plan: &Plan, flavor: &str, notes: &mut Vec<String>) -> String {
    match plan.training.precision {
        Some(Precision::Fp8Mixed) => {
            // A scale a row is all that its configuration has (`components/quantization/float8.py`).
            if let Some(other) = plan.training.fp8_recipe.filter(|recipe| *recipe != Fp8Recipe::Rowwise) {
                notes.push(format!("training.fp8_recipe: {other} is none of torchtitan's of 2026; rowwise it is"));
            }
            let compiled = python_truth(plan.training.compile.unwrap_or(false));
            format!(
                "model_registry(\"{flavor}\", converters=[Float8LinearConverter.Config(model_compile_enabled={compiled})])"
            )
        }
        None | Some(Precision::Bf16Mixed | Precision::Bf16 | Precision::Fp32) => {
            format!("model_registry(\"{flavor}\")")
        }
        Some(other) => {
            notes.push(format!("training.precision: {other} is none of torchtitan's; bf16-mixed it is"));
            format!("model_registry(\"{flavor}\")")
        }
    }
}

/// What is set of the optimizer once it is there: its kernels.
fn optimizer(plan: &Plan, notes: &mut Vec<String>) -> Vec<String> {
    if plan.training.optimizer_in_backward == Some(true) {
        notes.push("training.optimizer_in_backward: torchtitan's configuration of 2026 has no key for it".to_owned());
    }
    let kernels = match plan.training.optimizer {
        None | Some(Optimizer::AdamwFused) => return Vec::new(),
        Some(Optimizer::Adamw) => "foreach",
        Some(Optimizer::AdamwLoop) => "for-loop",
        Some(other) => {
            notes.push(format!("training.optimizer: {other} is none of torchtitan's"));
            return Vec::new();
        }
    };
    vec![format!("config.optimizer.implementation = \"{kernels}\"")]
}

/// Tokens in place of samples: of one forward pass, and of all ranks in a step.
fn training(plan: &Plan, catalog: &Catalog, degrees: ExportDegrees, notes: &mut Vec<String>) -> Keywords {
    let mut keywords = Keywords::new();
    let (micro, _, global) = torchtitan::batch(plan, degrees);
    let sequence = shape::sequence(plan, shape::positions(plan, catalog));
    let tokens = |samples: u64| samples.checked_mul(sequence).map(|tokens| tokens.to_string());
    keywords.extend(micro.and_then(tokens).map(|tokens| ("num_tokens_per_microbatch_per_dp_rank", tokens)));
    keywords.extend(global.and_then(tokens).map(|tokens| ("num_tokens_per_train_step", tokens)));
    keywords.push(("max_context_length", sequence.to_string()));
    match plan.training.precision {
        Some(Precision::Bf16) => keywords.push(("dtype", "\"bfloat16\"".to_owned())),
        Some(Precision::Fp32) => keywords.push(("mixed_precision_param", "\"float32\"".to_owned())),
        _ => {}
    }
    keywords.extend(plan.training.gradient_clipping.filter(|on| !on).map(|_| ("max_norm", "0.0".to_owned())));
    torchtitan::offload(plan, notes, || keywords.push(("enable_cpu_offload", "True".to_owned())));
    keywords
}

fn parallelism(plan: &Plan, degrees: ExportDegrees, notes: &mut Vec<String>) -> Keywords {
    notes.extend(shape::other_engine(plan, "torchtitan", &[Engine::Fsdp2, Engine::Ddp]));
    let (replicas, shards) = torchtitan::data_degrees(plan, degrees, notes);
    let mut keywords = vec![
        ("data_parallel_replicate_degree", replicas.to_string()),
        ("data_parallel_shard_degree", shards.to_string()),
        ("tensor_parallel_degree", degrees.tensor.to_string()),
        ("pipeline_parallel_degree", degrees.pipeline.to_string()),
        ("context_parallel_degree", degrees.context.to_string()),
    ];
    let policy = torchtitan::resharding(plan, degrees);
    keywords.extend(policy.map(|policy| ("fsdp_reshard_after_forward", format!("\"{policy}\""))));
    keywords.extend(plan.distribution.expert_parallel.map(|ranks| ("expert_parallel_degree", ranks.to_string())));
    if plan.distribution.expert_tensor_parallel.is_some_and(|ranks| ranks > 1) {
        notes.push(
            "distribution.expert_tensor_parallel: torchtitan's configuration of 2026 has no key for it".to_owned(),
        );
    }
    if plan.distribution.async_tensor_parallel == Some(true) {
        notes.push("distribution.async_tensor_parallel: a model's own choice since 2026 (tp_gemm_backend)".to_owned());
    }
    if degrees.pipeline > 1 {
        let name = match plan.distribution.pipeline_schedule {
            Some(Schedule::Gpipe) => "GPipe",
            Some(Schedule::Interleaved) => "Interleaved1F1B",
            Some(Schedule::OneFOneB) | None => "1F1B",
        };
        keywords.push(("pipeline_parallel_schedule", format!("\"{name}\"")));
        keywords.extend(torchtitan::batch(plan, degrees).1.map(|steps| ("num_pp_microbatches", steps.to_string())));
    }
    keywords
}

fn recomputation(plan: &Plan, notes: &mut Vec<String>) -> &'static str {
    match &plan.training.activation_checkpointing {
        None | Some(Checkpointing::None) => "None",
        Some(Checkpointing::Full) => "FullAC.Config()",
        Some(Checkpointing::SelectiveOp) => "SelectiveAC.Config()",
        Some(other) => {
            notes.push(format!(
                "training.activation_checkpointing: {} is none of torchtitan's since 2026; SelectiveAC stands in its place",
                recomputation_name(other)
            ));
            "SelectiveAC.Config()"
        }
    }
}
