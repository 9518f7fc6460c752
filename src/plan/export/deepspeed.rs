//! A plan as DeepSpeed's JSON (<https://www.deepspeed.ai/docs/config-json/>).

use serde_json::{Map, Value, json};

use super::shape::{self, ExportDegrees};
use super::{ExportedPlan, recomputation_name};
use crate::plan::keys::Plan;
use crate::plan::keywords::{CpuOffload, Dtype, Engine, Optimizer, Precision, Sharding};
use crate::plan::types::Checkpointing;

/// The configuration.
pub fn json(plan: &Plan) -> ExportedPlan {
    let mut notes = Vec::new();
    let mut root = Map::new();
    let degrees = ExportDegrees::of(plan);
    let (micro, steps, global) = shape::batch(plan, degrees.data);
    for (key, value) in [
        ("train_batch_size", global),
        ("train_micro_batch_size_per_gpu", micro),
        ("gradient_accumulation_steps", steps.or(micro.map(|_| 1))),
    ] {
        if let Some(value) = value {
            root.insert(key.to_owned(), value.into());
        }
    }
    root.insert("zero_optimization".to_owned(), zero(plan));
    precision(&mut root, plan, &mut notes);
    optimizer(&mut root, plan, &mut notes);
    if let Some(on) = plan.training.gradient_clipping {
        root.insert("gradient_clipping".to_owned(), if on { 1.0 } else { 0.0 }.into());
    }
    if degrees.tensor > 1 {
        root.insert("tensor_parallel".to_owned(), json!({"autotp_size": degrees.tensor}));
    }
    notes.extend(shape::other_engine(plan, "DeepSpeed", &[Engine::Deepspeed]));
    unsaid(plan, degrees, &mut notes);
    let text = serde_json::to_string_pretty(&Value::Object(root)).unwrap_or_default();
    ExportedPlan { text: format!("{text}\n"), notes, refused: None }
}

fn zero(plan: &Plan) -> Value {
    let stage = match shape::sharding(plan) {
        Sharding::None => 0,
        Sharding::Zero1 => 1,
        Sharding::Zero2 => 2,
        Sharding::Zero3 => 3,
    };
    let mut zero = json!({ "stage": stage });
    if let Some(on) = plan.distribution.overlap_grad_reduce {
        zero["overlap_comm"] = on.into();
    }
    match plan.training.cpu_offload {
        Some(CpuOffload::Optimizer) => zero["offload_optimizer"] = json!({"device": "cpu"}),
        Some(CpuOffload::Parameters) => {
            zero["offload_optimizer"] = json!({"device": "cpu"});
            zero["offload_param"] = json!({"device": "cpu"});
        }
        _ => {}
    }
    zero
}

fn precision(root: &mut Map<String, Value>, plan: &Plan, notes: &mut Vec<String>) {
    let half = match plan.training.precision {
        Some(Precision::Bf16Fp32Master) | None => Some("bf16"),
        Some(Precision::Fp16Fp32Master) => Some("fp16"),
        Some(Precision::Fp32 | Precision::Tf32) => None,
        Some(other) => {
            notes.push(format!(
                "training.precision: {other} is not DeepSpeed's way; 16-bit weights with fp32 masters are"
            ));
            Some(if matches!(other, Precision::Fp16 | Precision::Fp16Mixed) { "fp16" } else { "bf16" })
        }
    };
    let Some(half) = half else { return };
    root.insert(half.to_owned(), json!({"enabled": true}));
    let gradients = plan.training.gradient_dtype.unwrap_or(Dtype::Fp32);
    root.insert("data_types".to_owned(), json!({"grad_accum_dtype": gradients.name()}));
    if let Some(dtype) = plan.distribution.reduce_dtype {
        let name = if dtype == Dtype::Bf16 { "bfp16" } else { dtype.name() };
        root.insert("communication_data_type".to_owned(), name.into());
    }
}

/// Whether the optimizer's states go to the host.
const fn on_host(plan: &Plan) -> bool {
    matches!(plan.training.cpu_offload, Some(CpuOffload::Optimizer | CpuOffload::Parameters))
}

fn optimizer(root: &mut Map<String, Value>, plan: &Plan, notes: &mut Vec<String>) {
    let (kind, torch) = match plan.training.optimizer {
        None => return,
        Some(Optimizer::AdamwFused) => ("AdamW", false),
        // On the host it is DeepSpeed's own (`runtime/engine.py`, `_configure_basic_optimizer`).
        Some(Optimizer::Adamw) => ("AdamW", !on_host(plan)),
        Some(Optimizer::Lion) => ("Lion", false),
        Some(Optimizer::Muon) => ("Muon", false),
        Some(Optimizer::Sgd) => ("SGD", false),
        Some(other) => return notes.push(format!("training.optimizer: {other} must be made by the script")),
    };
    let mut parameters = Map::new();
    if torch {
        parameters.insert("torch_adam".to_owned(), true.into());
    }
    if let Some(decay) = plan.training.weight_decay {
        parameters.insert("weight_decay".to_owned(), decay.into());
    }
    root.insert("optimizer".to_owned(), json!({"type": kind, "params": parameters}));
}

/// What the script says, or nobody.
fn unsaid(plan: &Plan, degrees: ExportDegrees, notes: &mut Vec<String>) {
    notes.push("model, sequence length and attention are the script's".to_owned());
    if degrees.pipeline > 1 {
        notes.push(format!(
            "distribution.pipeline_parallel: {} stages are the script's PipelineModule's; without it the batch is another",
            degrees.pipeline
        ));
    }
    if degrees.context > 1 {
        notes.push("distribution.context_parallel: no key says it".to_owned());
    }
    match &plan.training.activation_checkpointing {
        None | Some(Checkpointing::None) => {}
        Some(other) => {
            let name = recomputation_name(other);
            notes.push(format!("training.activation_checkpointing: {name}, which the script turns on"));
        }
    }
    if plan.training.lora.is_some() {
        notes.push("training.lora: the script's".to_owned());
    }
}
