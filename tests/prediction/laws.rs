//! Laws of time that hold of every plan, whatever the constants: more work is never quicker, a faster GPU or link
//! never slower, what is hidden is no more than what it hides behind, and a pipeline's bubble is the textbook's.

use crate::support::catalog;
use memwall::plan::Document;
use memwall::predict::{self, Prediction, StepTime};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

fn predicted(plan: &Value) -> Option<Prediction> {
    let plan = Document::parse(&plan.to_string()).ok()?.plan().ok()?;
    predict::of(&plan, catalog()).ok()
}

fn time(plan: &Value) -> Option<StepTime> {
    predicted(plan).map(|prediction| prediction.time)
}

/// The value at a dotted path, made where there is none.
fn at<'a>(plan: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(plan, |at, name| {
        if !at.is_object() {
            *at = json!({});
        }
        &mut at[name]
    })
}

fn with(plan: &Value, changes: &[(&str, Value)]) -> Value {
    let mut plan = plan.clone();
    for (path, value) in changes {
        *at(&mut plan, path) = value.clone();
    }
    plan
}

/// A whole number of the plan, times as many.
fn times(plan: &Value, path: &str, factor: u64) -> (&'static str, Value) {
    let path: &'static str = PATHS.iter().find(|known| **known == path).unwrap();
    let now = path.split('.').fold(plan, |at, name| &at[name]).as_u64().unwrap();
    (path, json!(now * factor))
}

const LAYERS: &str = "model.architecture.num_layers";
const SEQUENCE: &str = "model.sequence_length";
const BATCH: &str = "model.batch_size";
const MICRO: &str = "training.micro_batch_size";
const STEPS: &str = "training.gradient_accumulation_steps";
const REPLICAS: &str = "distribution.data_parallel";
const GPUS: &str = "cluster.num_gpus";
const NODES: &str = "cluster.nodes";
const PATHS: [&str; 8] = [LAYERS, SEQUENCE, BATCH, MICRO, STEPS, REPLICAS, GPUS, NODES];

/// Decoders of 0.1B to 200B, dense and of experts.
fn architecture() -> impl Strategy<Value = Value> {
    let experts = proptest::option::of(proptest::sample::select(vec![8_u64, 64]));
    (0..4_u32, 1..5_u64, experts, any::<bool>()).prop_map(|(width, depth, experts, gated)| {
        let hidden = 1024_u64 << width;
        let mut architecture = json!({
            "hidden_size": hidden, "num_layers": depth * 8, "num_attention_heads": hidden / 128,
            "num_kv_heads": 8, "vocab_size": 32000, "intermediate_size": hidden * 4,
            "activation": if gated { "swiglu" } else { "gelu" },
        });
        if let Some(experts) = experts {
            architecture["moe"] = json!({
                "num_experts": experts, "experts_per_token": 2, "intermediate_size": hidden,
            });
        }
        architecture
    })
}

/// Plans as people run them: GPUs, precisions and degrees of every kind, on whole nodes of eight.
fn plans() -> impl Strategy<Value = Value> {
    let card = proptest::sample::select(vec!["A100 80GB", "H100", "H200", "B200", "MI300X", "L40S", "RTX 4090"]);
    let framework = proptest::sample::select(vec!["pytorch", "megatron", "torchtitan"]);
    let precision = proptest::sample::select(vec!["bf16", "bf16-mixed", "fp16-mixed", "tf32"]);
    let sharding = proptest::sample::select(vec!["none", "zero1", "zero3"]);
    let degrees = (0..4_u32, 0..3_u32, 0..2_u32, 0..4_u32);
    let sizes = (0..4_u32, 9..15_u32, 1..4_u32);
    (architecture(), card, framework, precision, sharding, degrees, sizes, any::<bool>()).prop_map(
        |(architecture, card, framework, precision, sharding, degrees, sizes, hides)| {
            let [tensor, pipeline, context, expert] =
                [degrees.0, degrees.1, degrees.2, degrees.3].map(|power| 1_u64 << power);
            let (micro, sequence) = (1_u64 << sizes.0, 1_u64 << sizes.1);
            let replicas = (64 / (tensor * pipeline * context)).max(1);
            let gpus = replicas * tensor * pipeline * context;
            let steps = pipeline * u64::from(sizes.2);
            let experts = architecture.get("moe").is_some() && framework == "megatron";
            json!({
                "model": {
                    "architecture": architecture, "framework": framework, "sequence_length": sequence,
                    "batch_size": replicas * micro * steps,
                },
                "training": {
                    "precision": precision, "micro_batch_size": micro, "gradient_accumulation_steps": steps,
                    "optimizer": "adamw",
                },
                "hardware": {"gpu_type": card},
                "cluster": {
                    "num_gpus": gpus, "nodes": gpus.div_ceil(8), "gpus_per_node": 8,
                    "interconnect": "nvlink_4", "network_gb_s_per_gpu": 25.0,
                },
                "distribution": {
                    "data_parallel": replicas, "tensor_parallel": tensor, "pipeline_parallel": pipeline,
                    "context_parallel": context, "sharding": sharding,
                    "expert_parallel": if experts { expert.min(replicas) } else { 1 },
                    "sequence_parallel": tensor > 1 && framework == "megatron",
                    "overlap_grad_reduce": hides, "overlap_param_gather": hides,
                },
            })
        },
    )
}

/// More work for each GPU, and slower hardware.
fn slowed(plan: &Value) -> Vec<(&'static str, Value)> {
    let full = json!("full");
    let checkpointing = "training.activation_checkpointing";
    let once = |change: (&'static str, Value)| with(plan, &[change]);
    vec![
        ("twice the layers", once(times(plan, LAYERS, 2))),
        ("twice the sequence", once(times(plan, SEQUENCE, 2))),
        ("twice the micro-batch", with(plan, &[times(plan, MICRO, 2), times(plan, BATCH, 2)])),
        ("twice the accumulation", with(plan, &[times(plan, STEPS, 2), times(plan, BATCH, 2)])),
        ("selective checkpointing", once((checkpointing, json!("selective")))),
        ("full checkpointing", once((checkpointing, full))),
        ("half the network", once(("cluster.network_gb_s_per_gpu", json!(12.5)))),
        ("PCIe for NVLink", once(("cluster.interconnect", json!("pcie_4")))),
        ("a third of the DRAM bandwidth", once(("hardware.custom.bandwidth_gb_s", json!(300)))),
        ("half the power", once(("hardware.power_limit_w", json!(150)))),
        ("nothing hidden", once(("distribution.overlap_grad_reduce", json!(false)))),
        ("fp32 in place of its kind", once(("training.precision", json!("fp32")))),
    ]
}

proptest! {
    // The same plans in every run: a law that fails fails for whoever changed what it holds for.
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
    })]

    #[test]
    fn more_work_and_slower_hardware_take_longer(plan in plans()) {
        let Some(before) = time(&plan) else { return Ok(()) };
        for (change, slowed) in slowed(&plan) {
            // A type of fewer bytes costs casts, which small batches do not earn.
            let casts = change.starts_with("fp32") && plan["training"]["precision"] != json!("tf32");
            let Some(after) = time(&slowed).filter(|_| !casts) else { continue };
            prop_assert!(
                after.step.0 >= before.step.0 * (1.0 - 1e-9),
                "{change}: {} s, before {} s\n{plan}", after.step.0, before.step.0
            );
        }
    }

    #[test]
    fn what_is_hidden_is_no_more_than_what_it_hides_behind(plan in plans()) {
        let hidden = with(&plan, &[
            ("distribution.overlap_grad_reduce", json!(true)), ("distribution.overlap_param_gather", json!(true)),
        ]);
        let bare = with(&plan, &[
            ("distribution.overlap_grad_reduce", json!(false)), ("distribution.overlap_param_gather", json!(false)),
        ]);
        let (Some(hidden), Some(bare)) = (time(&hidden), time(&bare)) else { return Ok(()) };
        let kernels = bare.compute.0 + bare.memory_bound.0;
        let saved = bare.step.0 - hidden.step.0;
        let passes = kernels + bare.launch.0;
        prop_assert!(saved >= -1e-9 && saved <= passes, "{saved} s behind {passes} s\n{plan}");
        prop_assert!(hidden.step.0 >= kernels, "{} s with {kernels} s of kernels\n{plan}", hidden.step.0);
    }

    #[test]
    fn more_replicas_do_more_in_all_and_no_more_each(plan in plans()) {
        let more = with(&plan, &[
            times(&plan, REPLICAS, 2), times(&plan, BATCH, 2), times(&plan, GPUS, 2), times(&plan, NODES, 2),
        ]);
        // What one rank has to itself is exchanged with nobody: of experts that may be all.
        let alone = plan["distribution"]["data_parallel"] == json!(1) || plan["model"]["architecture"].get("moe").is_some();
        let (Some(one), Some(two), false) = (time(&plan), time(&more), alone) else { return Ok(()) };
        prop_assert!(two.samples_per_s >= one.samples_per_s, "{} of {}\n{plan}", two.samples_per_s, one.samples_per_s);
        // Sharded states are updated by more ranks, which is quicker.
        if plan["distribution"]["sharding"] == json!("none") {
            prop_assert!(two.step.0 >= one.step.0 * (1.0 - 1e-9), "{} after {}\n{plan}", two.step.0, one.step.0);
        }
    }

    #[test]
    fn a_newer_card_is_no_slower(plan in plans()) {
        let step = |card: &str| time(&with(&plan, &[("hardware.gpu_type", json!(card))])).map(|time| time.step.0);
        let cards = ["A100 80GB", "H100", "H200", "B200", "GB200"];
        let steps: Vec<f64> = cards.iter().filter_map(|card| step(card)).collect();
        // Kernels too small to fill a GPU take about as long on any: their measured rates differ by a little. PyTorch's
        // attention in FP32 is not written for newer matrix units, no more than FlashAttention-2, which does 370 TFLOP/s on H100
        // (arXiv 2407.08608, figure 5) and 352 to 362 on B200 (meta-pytorch/tritonbench pull request 171).
        let single = ["fp32", "tf32"].contains(&plan["training"]["precision"].as_str().unwrap());
        let near = if single { 1.05 } else { 1.02 };
        prop_assert!(steps.is_sorted_by(|older, newer| older * near >= *newer), "{cards:?}: {steps:?}\n{plan}");
    }
}

/// A quicker type pays where products are large: hidden size 4096 and up, 8192 tokens.
#[test]
fn fp8_is_no_slower_than_16_bit_on_large_products() {
    for card in ["H100", "H200", "B200"] {
        for hidden in [4096, 8192, 12288] {
            let plan = json!({
                "model": {
                    "architecture": {
                        "hidden_size": hidden, "num_layers": 8, "num_attention_heads": hidden / 128, "num_kv_heads": 8,
                        "vocab_size": 32000,
                    },
                    "framework": "megatron", "batch_size": 8, "sequence_length": 8192,
                },
                "training": {"precision": "bf16-fp32-master", "micro_batch_size": 1},
                "hardware": {"gpu_type": card},
            });
            let wide = time(&plan).unwrap().step.0;
            let narrow = time(&with(&plan, &[("training.precision", json!("fp8-mixed"))])).unwrap().step.0;
            assert!(narrow < wide, "{card}, {hidden}: {narrow} s in FP8, {wide} s in BF16");
        }
    }
}

/// Megatron's schedules over equal stages of `chunks` runs of layers each. The vocabulary is so small that the ends of
/// the model count for nothing.
fn piped(stages: u64, micro_batches: u64, chunks: u64) -> Value {
    json!({
        "model": {
            "architecture": {
                "hidden_size": 4096, "num_layers": 32, "num_attention_heads": 32, "vocab_size": 128,
                "tie_embeddings": false,
            },
            "framework": "megatron", "batch_size": micro_batches, "sequence_length": 4096,
        },
        "training": {
            "precision": "bf16-fp32-master", "micro_batch_size": 1, "gradient_accumulation_steps": micro_batches,
        },
        "hardware": {"gpu_type": "H100"},
        "cluster": {"num_gpus": stages, "nodes": 1, "gpus_per_node": stages, "interconnect": "nvlink_4"},
        "distribution": {
            "data_parallel": 1, "pipeline_parallel": stages, "virtual_pipeline": chunks,
            "pipeline_schedule": if chunks > 1 { "interleaved" } else { "1f1b" },
        },
    })
}

/// With equal stages (p - 1) / m of the passes wait, a v-th of it where v chunks interleave (arXiv 2104.04473,
/// section 2.2).
#[test]
fn a_bubble_is_stages_less_one_over_micro_batches() {
    for (stages, micro_batches, chunks) in [(2, 8, 1), (4, 16, 1), (8, 32, 1), (8, 8, 1), (4, 16, 2), (8, 32, 4)] {
        let prediction = predicted(&piped(stages, micro_batches, chunks)).unwrap();
        let time = &prediction.time;
        let update = prediction.roofline.ops.iter().find(|op| op.name == "optimizer").unwrap().seconds.0;
        // Sends that fill and drain interleaved stages are no part of the passes.
        let sends = if chunks > 1 { time.communication.0 } else { 0.0 };
        let passes = time.step.0 - time.bubble.0 - update - sends;
        let textbook = (stages - 1) as f64 / (micro_batches * chunks) as f64;
        let share = time.bubble.0 / passes;
        assert!(
            (share / textbook - 1.0).abs() < 0.03,
            "{stages} stages, {micro_batches}, {chunks}: {share}, {textbook}"
        );
    }
}

/// What stages send each other: with one run of layers a stage each micro-batch waits for it, there and back. Where
/// chunks interleave, sends run beside the other way's passes but for the first stage's 2 (p - 1) + (v - 1) p passes
/// before its first one backward, and as many after its last one forward (megatron-core, schedules.py,
/// get_pp_rank_microbatches and its warm-up and cool-down loops).
#[test]
fn chunks_wait_for_sends_while_the_pipeline_fills_and_drains() {
    let waits = |micro_batches, chunks| time(&piped(4, micro_batches, chunks)).unwrap().communication.0;
    // 2 x 3 + 1 x 4 = 10 and 2 x 3 + 3 x 4 = 18 passes of a chunk.
    for (chunks, micro_batches, bare) in [(2, 16, 10.0), (4, 16, 18.0), (2, 64, 10.0)] {
        let share = waits(micro_batches, chunks) / waits(micro_batches, 1);
        assert!((share - bare / micro_batches as f64).abs() < 1e-9, "{chunks} chunks, {micro_batches}: {share}");
    }
}

/// Seconds of a step of 32 micro batches through four stages on a node each, at so many GB/s between them.
fn over_network(framework: &str, rate: f64) -> f64 {
    let plan = with(
        &piped(4, 32, 1),
        &[
            ("model.framework", json!(framework)),
            (NODES, json!(4)),
            ("cluster.gpus_per_node", json!(1)),
            ("cluster.network_gb_s_per_gpu", json!(rate)),
        ],
    );
    time(&plan).unwrap().step.0
}

/// A stage between two others gets activations, sends them on, gets their gradient and sends its input's. Megatron's send
/// and receive at once, two transfers for each micro batch; DeepSpeed's do so one after the other (runtime/pipe/p2p.py), four.
/// 32 micro batches wait for those of the slowest stage, and the other three are passed once: 32 x 2 + 3 x 2 = 70, and
/// 32 x 4 + 4 + 2 x 2 = 136.
#[test]
fn stages_of_deepspeed_send_and_receive_one_after_the_other() {
    let waits = |framework| over_network(framework, 5.0) - over_network(framework, 10.0);
    let share = waits("megatron-deepspeed") / waits("megatron");
    assert!((share - 136.0 / 70.0).abs() < 1e-6, "{share}");
}

/// A host that waits for each kernel (CUDA_LAUNCH_BLOCKING=1) is added to the kernels' own time: so much a launch, however
/// long its kernel takes.
#[test]
fn launches_that_block_are_added_each() {
    let plan = |more: &[(&str, Value)]| {
        let document: serde_yaml::Value =
            serde_yaml::from_str(include_str!("../../configs/plans/8b_single_gpu.yaml")).unwrap();
        time(&with(&serde_json::to_value(document).unwrap(), more)).unwrap()
    };
    let blocking = ("training.launch_blocking", json!(true));
    let (plain, waits) = (plan(&[]), plan(std::slice::from_ref(&blocking)));
    assert!(plain.launch.0 == 0.0 && waits.launch.0 > 0.0, "{plain:?} {waits:?}");
    assert!((waits.step.0 - plain.step.0 - waits.launch.0).abs() < 1e-9 * waits.step.0);
    // Twice the tokens a launch are as many launches, twice the micro batches twice as many.
    let longer = plan(&[blocking.clone(), (SEQUENCE, json!(8192))]);
    assert!((longer.launch.0 / waits.launch.0 - 1.0).abs() < 1e-9, "{} {}", longer.launch, waits.launch);
    let more = plan(&[blocking, (BATCH, json!(32)), (STEPS, json!(32))]);
    assert!((more.launch.0 / waits.launch.0 - 2.0).abs() < 0.01, "{} {}", more.launch, waits.launch);
}

/// Among boards of one kind NVLink 5 has twice NVLink 4's rate: no message takes longer, in a node or between nodes.
#[test]
fn the_newer_link_is_never_slower() {
    for (model, gpus) in
        [("gpt2", 2_u64), ("gpt2", 8), ("gpt2-xl", 8), ("gpt2-xl", 16), ("gpt2-xl", 32), ("gpt2-xl", 256)]
    {
        let step = |link: &str| {
            let plan = json!({
                "model": {"preset": model, "batch_size": gpus, "sequence_length": 1024},
                "hardware": {"gpu_type": "NVIDIA H100"},
                "cluster": {"num_gpus": gpus, "gpus_per_node": gpus.min(8), "nodes": gpus.div_ceil(8), "interconnect": link},
            });
            time(&plan).unwrap().communication.0
        };
        assert!(step("nvlink_5") <= step("nvlink_4"), "{model} on {gpus}: {} {}", step("nvlink_5"), step("nvlink_4"));
    }
}
