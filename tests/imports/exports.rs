//! A plan exported and imported again: the same prediction, or notes that name each key that differs.

use std::collections::BTreeMap;

use memwall::advise;
use memwall::import::{self, ImportedPlan, ProcessView};
use memwall::plan::export::{ExportedPlan, Target};
use memwall::plan::{Document, schema};
use memwall::predict;
use serde_json::{Value, json};

use crate::CaseFiles;
use crate::support::catalog;

/// Parameters, allocated between steps and at the peak, step.
fn measured(plan: &Value) -> Result<[f64; 4], String> {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().map_err(|faults| format!("{faults:?}"))?;
    let of = predict::of(&plan, catalog()).map_err(|faults| format!("{faults:?}"))?;
    let stage = of.largest();
    Ok([of.params.total as f64, stage.static_bytes.0 as f64, stage.peak_allocated.0 as f64, of.time.step.0])
}

fn is_same(one: &[f64; 4], other: &[f64; 4]) -> bool {
    one.iter().zip(other).all(|(one, other)| (one - other).abs() <= 0.003 * one.max(*other))
}

fn exported(plan: &Value, target: Target) -> ExportedPlan {
    advise::export(&Document::parse(&plan.to_string()).unwrap().plan().unwrap(), catalog(), target)
}

fn read_back(text: &str, target: Target, gpus: u64) -> ImportedPlan {
    let files = CaseFiles(BTreeMap::new());
    let mut run = ProcessView::of(Vec::new(), &files);
    run.world = Some(gpus);
    import::file(&format!("a.{}", target.ending()), text, &run, catalog()).unwrap()
}

/// The schema's keys that the notes name.
fn named(notes: &[String]) -> Vec<&'static str> {
    let keys = notes.iter().filter_map(|note| schema::key(note.split(':').next()?));
    keys.map(|key| key.path).collect()
}

/// What `plan` has under a dotted path.
fn at<'a>(plan: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(plan, |value, part| value.get(part))
}

/// Puts a key of `plan` as `from` has it.
fn put_back(plan: &mut Value, from: &Value, path: &str) {
    match at(from, path) {
        Some(value) => {
            let (mut place, value) = (plan, value.clone());
            for part in path.split('.') {
                place = &mut place[part];
            }
            *place = value;
        }
        None => {
            let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
            if let Some(inside) = above.split('.').try_fold(plan, |value, part| value.get_mut(part))
                && let Some(map) = inside.as_object_mut()
            {
                map.remove(name);
            }
        }
    }
}

/// Plans of a framework: precisions, optimizers, modules and schedules, each with every other at least once.
fn drawn(framework: &str, preset: &str) -> Vec<Value> {
    let precisions =
        ["bf16-mixed", "bf16", "bf16-fp32-master", "fp16-mixed", "fp16-fp32-master", "fp32", "tf32", "fp8-mixed"];
    let optimizers = ["adamw", "adamw-fused", "sgd", "sgd-momentum", "adamw-8bit"];
    let schedules = [
        json!({}),
        json!({"tensor_parallel": 2}),
        json!({"pipeline_parallel": 2, "pipeline_schedule": "1f1b"}),
        json!({"pipeline_parallel": 2, "pipeline_schedule": "gpipe"}),
        json!({"sharding": "zero1"}),
        json!({"sharding": "zero3"}),
    ];
    let mut plans = Vec::new();
    for (row, precision) in precisions.iter().enumerate() {
        for (column, optimizer) in optimizers.iter().enumerate() {
            let place = row * optimizers.len() + column;
            let schedule = &schedules[place % schedules.len()];
            let steps = if schedule.get("pipeline_parallel").is_some() { 4 } else { 1 };
            let mut plan = json!({
                "model": {"preset": preset, "framework": framework},
                "training": {
                    "precision": precision, "optimizer": optimizer, "micro_batch_size": 1,
                    "gradient_accumulation_steps": steps,
                },
                "hardware": {"gpu_type": "NVIDIA H100"},
                "cluster": {"num_gpus": 8},
                "distribution": schedule,
            });
            if place.is_multiple_of(2) {
                plan["model"]["sequence_length"] = json!(1024);
            }
            if framework == "megatron" && place.is_multiple_of(3) {
                plan["model"]["transformer_impl"] = json!(["local", "transformer_engine"][place % 2]);
            }
            if place.is_multiple_of(7) {
                plan["training"]["launch_blocking"] = json!(true);
            }
            plans.push(plan);
        }
    }
    plans
}

/// Put back as the plan has them, the keys that the notes name are all that differs.
#[test]
fn an_export_is_read_back_the_same_or_names_each_key_that_differs() {
    let (mut wrong, mut same, mut noted) = (Vec::new(), 0, 0);
    let targets = [
        ("megatron", "gpt2-xl", Target::Megatron),
        ("megatron", "llama-3-8b", Target::Torchrun),
        ("torchtitan", "llama-3-8b", Target::Torchtitan),
        ("torchtitan", "llama-3-8b", Target::TorchtitanPython),
        ("pytorch", "llama-3-8b", Target::Deepspeed),
    ];
    for (framework, preset, target) in targets {
        for plan in drawn(framework, preset) {
            let Ok(own) = measured(&plan) else { continue };
            let exported = exported(&plan, target);
            let mut again = read_back(&exported.text, target, 8).json();
            for section in ["hardware", "cluster"] {
                again[section] = plan[section].clone();
            }
            if target == Target::Deepspeed {
                again["model"] = plan["model"].clone();
            }
            if measured(&again).is_ok_and(|other| is_same(&own, &other)) {
                same += 1;
                continue;
            }
            let keys = named(&exported.notes);
            keys.iter().for_each(|key| put_back(&mut again, &plan, key));
            noted += 1;
            let other = measured(&again);
            if keys.is_empty() || !other.as_ref().is_ok_and(|other| is_same(&own, other)) {
                wrong.push(format!("{target:?} {plan}: {own:?} became {other:?}; {:?}", exported.notes));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {noted}, {same} the same: {}", wrong.len(), wrong.join("\n"));
    assert!(same > 20 && noted > 50, "{same} {noted}");
}

fn text(plan: &Value, target: Target) -> (String, Vec<&'static str>) {
    let exported = exported(plan, target);
    let keys = named(&exported.notes);
    (exported.text, keys)
}

/// Megatron computes in fp32 where neither --bf16 nor --fp16 stands (megatron/training/arguments.py, validate_args), and
/// decays by 0.01 where nothing is said (_add_regularization_args).
#[test]
fn megatron_is_told_its_precision_length_and_decay() {
    for (precision, flag) in [("bf16-mixed", "--bf16\n"), ("bf16", "--bf16\n"), ("fp16-mixed", "--fp16\n")] {
        let plan = json!({
            "model": {"preset": "gpt2-xl", "framework": "megatron"},
            "training": {"precision": precision, "optimizer": "sgd", "micro_batch_size": 2, "launch_blocking": true},
        });
        let (text, keys) = text(&plan, Target::Megatron);
        // GPT-2's 1024 positions (its config.json, n_positions).
        for line in [flag, "--weight-decay 0\n", "--seq-length 1024\n"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(keys.contains(&"training.precision") && keys.contains(&"training.launch_blocking"), "{keys:?}");
    }
    // Its own modules have no fused attention (core/transformer/dot_product_attention.py): a plan that asks for none has none.
    let local = |attention: Option<&str>| {
        json!({
            "model": {"preset": "llama-3-8b", "framework": "megatron", "transformer_impl": "local"},
            "training": {"micro_batch_size": 1, "attention": attention},
        })
    };
    assert!(text(&local(Some("flash")), Target::Megatron).1.contains(&"training.attention"));
    assert!(!text(&local(None), Target::Megatron).1.contains(&"training.attention"));
}

/// 32 layers on 5 stages: Megatron asserts that they divide (core/transformer/transformer_block.py) where no layout stands.
/// Muon's states are not its distributed optimizer's (megatron/training/arguments.py, validate_args).
#[test]
fn what_megatron_asserts_is_written_as_it_runs() {
    let plan = json!({
        "model": {"preset": "llama-3-8b", "framework": "megatron"},
        "training": {"micro_batch_size": 1, "gradient_accumulation_steps": 5, "optimizer": "muon"},
        "cluster": {"num_gpus": 10},
        "distribution": {"pipeline_parallel": 5, "sharding": "zero1", "overlap_grad_reduce": true},
    });
    let written = text(&plan, Target::Megatron).0;
    assert!(written.contains("--pipeline-model-parallel-layout 'Et*7|t*7|t*6|t*6|t*6L'\n"), "{written}");
    assert!(written.contains("--optimizer dist_muon\n"), "{written}");
    assert!(!written.contains("--use-distributed-optimizer") && !written.contains("--overlap"), "{written}");
    // A layout tells the chunks, and the layer that predicts a second token is a part of it.
    let pieces = json!({
        "model": {"preset": "llama-3-8b", "framework": "megatron"},
        "training": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
        "cluster": {"num_gpus": 4},
        "distribution": {"pipeline_parallel": 4, "virtual_pipeline": 3},
    });
    let (written, keys) = text(&pieces, Target::Megatron);
    assert!(written.contains("--pipeline-model-parallel-layout 'Et*3|"), "{written}");
    assert!(!written.contains("--num-virtual-stages-per-pipeline-rank"), "{written}");
    assert!(!keys.iter().any(|key| key.starts_with("distribution")), "{keys:?}");
    let further = json!({
        "model": {"preset": "deepseek-v3", "framework": "megatron"},
        "training": {"micro_batch_size": 1, "gradient_accumulation_steps": 4},
        "cluster": {"num_gpus": 4},
        "distribution": {"pipeline_parallel": 4},
    });
    let written = text(&further, Target::Megatron).0;
    let predicts = written.contains("--mtp-num-layers 1\n");
    assert!(!predicts || written.contains("t*15mL'\n"), "{written}");
}

/// Without a flavor torchtitan trains `debugmodel`, 256 wide (torchtitan/config/job_config.py, Model).
#[test]
fn a_shape_that_torchtitan_has_not_is_no_debugmodel() {
    let plan = json!({"model": {"preset": "gpt2-xl", "framework": "torchtitan"}, "training": {"micro_batch_size": 1}});
    for target in [Target::Torchtitan, Target::TorchtitanPython] {
        let exported = exported(&plan, target);
        assert!(exported.notes.iter().any(|note| note.starts_with("model:")), "{:?}", exported.notes);
        let again = read_back(&exported.text, target, 1);
        assert!(again.names_no_model().is_some(), "{target:?}: {}", exported.text);
    }
}

/// torchtitan 0.2: `components/quantization/float8.py` registers `quantize.linear.float8`, whose `recipe_name` is rowwise or
/// tensorwise (`config/job_config.py`, Float8Linear); since 2026 a row's scale is all that there is.
#[test]
fn torchtitan_is_told_how_fp8_is_scaled() {
    let plan = |recipe: &str| {
        json!({
            "model": {"preset": "llama-3-8b", "framework": "torchtitan", "batch_size": 8, "sequence_length": 2048},
            "training": {"precision": "fp8-mixed", "fp8_recipe": recipe, "compile": true},
            "cluster": {"num_gpus": 8}, "distribution": {"sharding": "zero3"},
        })
    };
    let says = |recipe: &str, target: Target| {
        let exported = exported(&plan(recipe), target);
        let found = read_back(&exported.text, target, 8);
        let found = found.get("training.fp8_recipe").map(|found| found.value.to_string());
        (found, named(&exported.notes).contains(&"training.fp8_recipe"), exported.text)
    };
    for recipe in ["rowwise", "tensorwise"] {
        let (found, noted, text) = says(recipe, Target::Torchtitan);
        assert!(text.contains("converters = [\"quantize.linear.float8\"]\n"), "{text}");
        assert!(text.contains(&format!("[quantize.linear.float8]\nrecipe_name = \"{recipe}\"\n")), "{text}");
        assert_eq!((found, noted), (Some(format!("\"{recipe}\"")), false));
    }
    let (found, noted, _) = says("rowwise", Target::TorchtitanPython);
    assert_eq!((found, noted), (Some("\"rowwise\"".to_owned()), false));
    for target in [Target::Torchtitan, Target::TorchtitanPython] {
        assert!(says("delayed", target).1, "{target:?} has no history of scales");
    }
    assert!(says("tensorwise", Target::TorchtitanPython).1);
}

/// Arguments say no number of GPUs: what starts the run does (`torch/distributed/run.py`).
#[test]
fn megatrons_arguments_leave_the_gpus_to_what_starts_the_run() {
    let plan = json!({
        "model": {"preset": "llama-3-8b", "framework": "megatron", "batch_size": 64, "sequence_length": 4096},
        "training": {"micro_batch_size": 1, "activation_checkpointing": "full", "distributed_optimizer": true},
        "cluster": {"num_gpus": 32, "nodes": 4},
        "distribution": {"tensor_parallel": 2, "pipeline_parallel": 2, "sequence_parallel": true},
    });
    let notes = exported(&plan, Target::Megatron).notes;
    let said = notes.iter().find(|note| note.starts_with("cluster.num_gpus: 32; ")).unwrap();
    assert!(said.contains("--nnodes 4 --nproc-per-node 8"), "{said}");
    let command = exported(&plan, Target::Torchrun).text;
    let files = CaseFiles(BTreeMap::new());
    let again = import::file("a.torchrun.sh", &command, &ProcessView::of(Vec::new(), &files), catalog()).unwrap();
    let again = again.plan().unwrap();
    assert_eq!((again.gpus(), again.distribution.tensor_parallel), (Some(32), Some(2)), "{command}");
}

/// Gemma 2 has norms behind its layers and caps its scores, for which `megatron/training/arguments.py` has no words.
#[test]
fn a_shape_that_megatron_cannot_be_told_is_not_written() {
    let plan =
        json!({"model": {"preset": "gemma-2-9b", "framework": "megatron", "batch_size": 8, "sequence_length": 4096}});
    for target in [Target::Megatron, Target::Torchrun] {
        let exported = exported(&plan, target).with_notes(target);
        assert!(exported.text.is_empty() && exported.refused.unwrap().contains("gemma-2-9b"), "{target:?}");
    }
}
