//! What [`super::bounds`] holds of plain training, of the other kinds: adapters, quantized bases, FP8, diffusion, inference,
//! experts, long contexts, states shared out or in host memory. On every GPU more work takes longer and not suddenly so, needs
//! no less memory, and what spares work is no slower.

use crate::support::catalog;
use memwall::catalog::{Generation, Gpu};
use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::{Value, json};

fn predicted(plan: &Value) -> Prediction {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap_or_else(|faults| panic!("{plan:?}: {faults:?}"))
}

fn gpus() -> impl Iterator<Item = &'static Gpu> {
    catalog().gpus.iter().filter(|gpu| gpu.generation != Generation::Cpu)
}

/// One of each generation, and of those whose boards differ.
fn some_gpus() -> impl Iterator<Item = &'static Gpu> {
    const NAMES: [&str; 9] = [
        "NVIDIA V100 SXM2 32GB",
        "NVIDIA A100",
        "A10",
        "NVIDIA A40 48GB",
        "L40S",
        "NVIDIA H100",
        "NVIDIA H20 96GB",
        "B200",
        "AMD Instinct MI300X 192GB",
    ];
    NAMES.iter().map(|name| catalog().gpu(name).unwrap_or_else(|| panic!("{name}")))
}

fn plan(gpu: &Gpu, model: &Value, training: &Value, micro: u64) -> Value {
    let (mut model, mut training) = (model.clone(), training.clone());
    (model["batch_size"], training["micro_batch_size"]) = (json!(micro), json!(micro));
    json!({"model": model, "training": training, "hardware": {"gpu_type": gpu.name}})
}

fn over(mut plan: Value, gpus: u64, distribution: &Value) -> Value {
    plan["cluster"] = json!({"num_gpus": gpus});
    plan["distribution"] = distribution.clone();
    let replicas = gpus / distribution["context_parallel"].as_u64().unwrap_or(1);
    plan["model"]["batch_size"] = json!(plan["training"]["micro_batch_size"].as_u64().unwrap() * replicas);
    plan
}

/// Kinds by name, with model and training.
fn kinds() -> Vec<(&'static str, Value, Value)> {
    let llama = json!({"preset": "llama-3-8b", "sequence_length": 1024});
    let targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
    let lora = |bits: Value| {
        json!({
            "precision": "bf16", "activation_checkpointing": "full",
            "lora": {"rank": 16, "targets": targets, "base_bits": bits},
        })
    };
    let of = |framework: &str| json!({"preset": "llama-3-8b", "sequence_length": 1024, "framework": framework});
    let dit = json!({
        "type": "diffusion_model", "image_size": 32,
        "architecture": {
            "hidden_size": 1152, "num_layers": 28, "num_attention_heads": 16, "intermediate_size": 4608, "patch_size": 2,
            "channels": 4, "image_size": 32, "num_classes": 1000, "adaptive_norm": "adaln_zero", "learn_sigma": true,
        },
    });
    vec![
        ("lora", llama.clone(), lora(Value::Null)),
        ("qlora", llama.clone(), lora(json!(4))),
        ("fp8, torchtitan", of("torchtitan"), json!({"precision": "fp8-mixed"})),
        ("fp8, megatron", of("megatron"), json!({"precision": "fp8-mixed"})),
        ("dit", dit, json!({"precision": "bf16-mixed"})),
        ("unet", json!({"preset": "stable-diffusion-1.5", "image_size": 64}), json!({"precision": "fp16-mixed"})),
        ("inference", llama, json!({"mode": "inference", "precision": "bf16"})),
    ]
}

/// Twice the samples or tokens: longer by a twentieth at least where the GPU is full, by half more than their share at most.
fn grows(what: &str, gpu: &Gpu, (one, more): (&Prediction, &Prediction), work: f64) {
    let (time, longer) = (one.time.step.0, more.time.step.0);
    assert!(longer >= time * 0.999, "{what} on {}: {time} s, {longer} s with more", gpu.name);
    assert!(longer <= time * work * 1.15, "{what} on {}: {time} s, {longer} s with {work} of it", gpu.name);
    let peak = |of: &Prediction| of.largest().peak_allocated;
    assert!(peak(more) >= peak(one), "{what} on {}: {} and less with more, {}", gpu.name, peak(one), peak(more));
}

#[test]
fn more_samples_take_longer_in_each_kind() {
    for gpu in gpus() {
        for (name, model, training) in kinds() {
            let of = |micro| predicted(&plan(gpu, &model, &training, micro));
            for (few, many) in [(1, 2), (4, 5), (16, 17), (16, 32)] {
                let (one, more) = (of(few), of(many));
                grows(&format!("{name} {few} {many}"), gpu, (&one, &more), many as f64 / few as f64);
                if let (Some(one), Some(more)) = (&one.decode, &more.decode) {
                    let (one, more) = (one.step.0, more.step.0);
                    assert!(more >= one * 0.999 && more <= one * 1.15 * many as f64 / few as f64, "{} {few}", gpu.name);
                }
            }
        }
    }
}

/// Of a frozen weight no gradient is computed, and a quantized one is made whole before each matmul.
#[test]
fn a_quantized_base_is_never_quicker_than_a_whole_one() {
    let kinds = kinds();
    for gpu in gpus() {
        for micro in [1, 8] {
            let of = |at: usize| predicted(&plan(gpu, &kinds[at].1, &kinds[at].2, micro));
            let (lora, qlora) = (of(0), of(1));
            assert!(qlora.time.step.0 >= lora.time.step.0 * 0.999, "{}", gpu.name);
            assert!(qlora.largest().peak_allocated < lora.largest().peak_allocated, "{}", gpu.name);
        }
    }
}

/// Linear layers multiply in FP8 twice as fast as in 16 bit at the very most.
#[test]
fn fp8_is_not_more_than_twice_as_fast() {
    let model = json!({"preset": "llama-3-8b", "sequence_length": 4096, "framework": "megatron"});
    for gpu in gpus().filter(|gpu| gpu.peaks.fp8.is_some()) {
        let of = |precision| predicted(&plan(gpu, &model, &json!({"precision": precision}), 4)).time.step.0;
        let (half, fp8) = (of("bf16-fp32-master"), of("fp8-mixed"));
        assert!(fp8 <= half * 1.1 && fp8 >= half / 2.0, "{}: {half} s, {fp8} s", gpu.name);
    }
}

/// What lies in host memory is fetched from there: no step is quicker for it, and none needs more of the GPU.
#[test]
fn host_memory_costs_time_and_saves_memory() {
    let model = json!({"preset": "llama-3-8b", "sequence_length": 2048});
    let training =
        |offload| json!({"precision": "bf16-mixed", "activation_checkpointing": "full", "cpu_offload": offload});
    for gpu in some_gpus() {
        for gpus in [1, 8] {
            let of = |offload| {
                let sharding = if gpus > 1 { json!({"sharding": "zero3", "engine": "fsdp2"}) } else { json!({}) };
                predicted(&over(plan(gpu, &model, &training(offload), 2), gpus, &sharding))
            };
            let plain = of("none");
            for offload in ["optimizer", "parameters", "activations"] {
                let one = of(offload);
                assert!(one.time.step.0 >= plain.time.step.0 * 0.999, "{} {gpus} {offload}", gpu.name);
                let (less, all) = (one.largest().peak_allocated, plain.largest().peak_allocated);
                assert!(less <= all, "{} {gpus} {offload}: {less} of {all}", gpu.name);
            }
        }
    }
}

/// A longer sequence over context ranks, more samples of experts' ranks, and more of sharded ranks.
#[test]
fn more_work_takes_longer_over_several_gpus() {
    for gpu in some_gpus() {
        for framework in ["megatron", "torchtitan"] {
            let sharding = if framework == "megatron" { "zero1" } else { "zero3" };
            for context in [1, 2, 8] {
                let degrees = json!({"context_parallel": context, "sharding": sharding});
                let of = |sequence: u64| {
                    let model = json!({"preset": "llama-3-8b", "sequence_length": sequence, "framework": framework});
                    predicted(&over(plan(gpu, &model, &json!({"activation_checkpointing": "full"}), 1), 8, &degrees))
                };
                let what = format!("{framework} context {context}");
                // Scores grow with the square.
                grows(&what, gpu, (&of(16384), &of(32768)), 4.0 / 1.15);
            }
            for experts in [1, 4, 8] {
                let degrees = json!({"expert_parallel": experts, "sharding": sharding});
                let of = |micro| {
                    let model = json!({"preset": "qwen3-30b-a3b", "sequence_length": 4096, "framework": framework});
                    predicted(&over(plan(gpu, &model, &json!({}), micro), 8, &degrees))
                };
                grows(&format!("{framework} experts {experts}"), gpu, (&of(1), &of(2)), 2.0);
            }
        }
        for engine in ["fsdp1", "fsdp2", "deepspeed"] {
            let of = |micro| {
                let model = json!({"preset": "llama-3-8b", "sequence_length": 2048});
                let degrees = json!({"engine": engine, "sharding": "zero3"});
                predicted(&over(plan(gpu, &model, &json!({"precision": "bf16-mixed"}), micro), 16, &degrees))
            };
            grows(engine, gpu, (&of(1), &of(2)), 2.0);
        }
    }
}
