//! Measured cases under `tests/truth` against predictions: errors by quantity and group,
//! and bars that hold.

use crate::rows::{Row, all_predicted, held, print};

#[test]
fn allocator() {
    let (rows, failed) = print("allocator.json");
    all_predicted(&failed);
    let bars = [
        ("params", 0.0, 0.0),
        ("trainable_params", 0.0, 0.0),
        ("peak_allocated_bytes", 0.05, 0.3),
        ("activation_bytes", 0.05, 0.5),
        ("flops_forward", 0.001, 0.001),
        ("flops_backward", 0.001, 0.001),
        ("peak_reserved_bytes", 2.0, 12.0),
    ];
    for (quantity, mean, worst) in bars {
        let (cases, is, most) = held(&rows, "allocator", quantity);
        let all = if quantity == "peak_reserved_bytes" { 93 } else { 98 };
        assert!(cases >= all, "{quantity}: {cases} cases");
        assert!(is <= mean && most <= worst, "{quantity}: mean {is}, worst {most}");
    }
}

/// Steps followed by tests/allocator/measure.py: families and settings that allocator.json lacks.
#[test]
fn ours() {
    let (rows, failed) = print("ours.json");
    all_predicted(&failed);
    for quantity in ["params", "trainable_params"] {
        assert!(held(&rows, "followed", quantity).2 <= 0.0, "{quantity}");
    }
    // Checkpointed blocks of transformers 5 with scores in memory leave a hole of three such matrices that is not predicted.
    let holed = |row: &Row| row.id == "near-gpt_bigcode-ckpt-fp32-eager" && row.quantity == "peak_reserved_bytes";
    assert!(rows.iter().filter(|row| holed(row)).all(|row| row.error.abs() <= 23.0));
    let rows: Vec<Row> = rows.into_iter().filter(|row| !holed(row)).collect();
    let (replayed, mean, worst) = held(&rows, "followed", "peak_reserved_bytes");
    // Falcon of 180B in fp32 with Adafactor is bad, its states are made one by one where gradients were, and a small GPT-2 whose
    // reentrant checkpoints accumulate in fp16.
    assert!(replayed >= 32 && mean <= 4.0 && worst <= 15.0, "reserved: {replayed} cases, mean {mean}, worst {worst}");
    for quantity in ["peak_allocated_bytes", "activation_bytes", "flops_forward", "flops_backward"] {
        let (cases, mean, _) = held(&rows, "followed", quantity);
        assert!(cases >= 490 && mean <= 0.1, "{quantity}: {cases} cases, mean {mean}");
        // Adapters under autocast, and Falcon's and BLOOM's modules: Python's frames hold more at a block's forward peak
        // than the walk has names for. gpt-oss's experts are walked as one, though they run one by one. DeepSeek V2's
        // model has a name for its embedding's output while its layers run. The others are open.
        let known = [
            ("drawn-t5-b3-s512-fp32-eager-every3-adafactor-lora-keep_outputs-acc4", 2.7),
            ("drawn-gemma3-b7-s1500-bf16-mixed-eager-every2-adamw-padded_batch-lora", 1.7),
            ("drawn-falcon-b4-s333-fp16-mixed-eager-adamw-acc4", 2.0),
            ("drawn-class-falcon-b4-s512-fp16-mixed-sdpa-every3-adafactor", 1.5),
            ("drawn-class-gpt2-b1-s333-bf16-mixed-sdpa-adamw-loop-gradient_clipping-lora", 1.1),
            ("drawn-class-gpt2-b3-s777-fp32-sdpa-ckpt-adamw-lora-acc4", 1.9),
            ("drawn-class-qwen2-b2-s512-bf16-mixed-sdpa-sgd-momentum-lora", 1.6),
            ("drawn-class-gemma2-b3-s1500-bf16-mixed-sdpa-sgd-lora", 2.4),
            ("drawn-class-bloom-b3-s1024-bf16-mixed-eager-ckpt-adafactor", 1.6),
            ("drawn-class-bert-b5-s777-fp16-mixed-sdpa-every2-adamw-padded_batch-acc2", 2.3),
            ("drawn-class-gptoss-b1-s1500-fp16-mixed-eager-ckpt-adamw-acc2", 1.2),
            ("drawn-class-gptoss-b8-s1024-bf16-mixed-eager-ckpt-adamw", 1.1),
            ("drawn-class-gptoss-b4-s512-fp16-eager-every2-adamw-fused-acc3", 1.4),
            // Autocast casts no operand of GPT-2's upcast scores down, the walk does; OLMo 3 keeps more beside its windows.
            ("class-gpt2-reorder-bf16-mixed-eager", 2.4),
            ("class-olmo3-listed-bf16-sdpa", 2.1),
            ("class-olmo3-listed-bf16-mixed-sdpa", 1.4),
            ("drawn-dsv2-b4-s1280-bf16-sdpa-adamw-fused-gradient_clipping-lora=kv_b_proj+o_proj", 1.3),
            // Gradients of a matrix that is the embedding and the head at once, and of layers that are one, meet elsewhere.
            ("drawn-deberta-v3-mlm-b2-s130-fp32-eager-sgd", 1.6),
            ("drawn-albert-token-b4-s512-bf16-mixed-sdpa-adamw", 1.7),
            ("drawn-albert-choice-b8-s64-fp32-sdpa-padded_batch-adamw", 1.5),
            ("drawn-albert-seq-b6-s200-bf16-mixed-sdpa-padded_batch-adamw", 1.1),
        ];
        each(&rows, "followed", quantity, 1.0, &known);
    }
}

#[test]
fn published() {
    let (rows, failed) = print("published.json");
    all_predicted(&failed);
    for row in rows.iter().filter(|row| row.group == "simumax" && row.quantity == "peak_allocated_bytes") {
        let bar = if row.id.contains("deepseek") { 0.5 } else { 0.2 };
        assert!(row.error.abs() <= bar, "{}: {}", row.id, row.error);
    }
    let of_seven: Vec<&Row> =
        rows.iter().filter(|row| row.id.contains("gpt3_7b") && row.quantity.contains("bytes")).collect();
    assert_eq!(of_seven.len(), 4);
    assert!(of_seven.iter().all(|row| row.error.abs() <= if row.quantity.contains("static") { 0.1 } else { 2.5 }));
    for quantity in ["static_bytes", "peak_allocated_bytes", "static_bytes_last_rank", "peak_allocated_bytes_last_rank"]
    {
        let mut errors: Vec<f64> = rows
            .iter()
            .filter(|row| row.group == "megatron-lm" && row.quantity == quantity)
            .map(|row| row.error.abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let bar = if quantity.contains("static") { 1.0 } else { 3.0 };
        assert!(errors[errors.len() / 2] <= bar, "{quantity}: median {}", errors[errors.len() / 2]);
    }
    let ladder: Vec<f64> = rows
        .iter()
        .filter(|row| row.group == "torchtune" && row.quantity == "peak_allocated_bytes")
        .map(|row| row.predicted)
        .collect();
    assert!(ladder.is_sorted_by(|a, b| a > b), "the ladder goes down: {ladder:?}");
}

/// Rows that the same sources publish and published.json leaves out: file, group, quantity, how many, and the mean and
/// the worst error in percent. The means are the bars of issue 4 (issue 3 for memory), except where the rows are better.
/// On torchtitan's the share that context parallel leaves of attention's rate was measured; the others were predicted
/// before they were looked at, and then showed how long Megatron's host takes to launch, that offloaded layers count
/// alone, that superchips have a quicker link to their host and what NeMo's recipes overlap.
const FURTHER: [(&str, &str, &str, usize, f64, f64); 17] = [
    ("torchtitan.json", "torchtitan-2024", "peak_reserved_bytes", 12, 8.0, 15.0),
    ("torchtitan.json", "torchtitan-2024", "tokens_per_s_per_gpu", 12, 12.0, 21.0),
    ("torchtitan.json", "torchtitan-rest", "tokens_per_s_per_gpu", 14, 9.0, 27.0),
    ("torchtitan.json", "torchtitan-rest", "peak_reserved_bytes", 1, 8.0, 15.0),
    ("simumax.json", "simumax-rest", "peak_allocated_bytes", 13, 0.2, 0.5),
    ("simumax.json", "simumax-rest", "peak_reserved_bytes", 13, 2.5, 4.0),
    ("simumax.json", "simumax-rest", "step_time_s", 25, 5.4, 22.0),
    ("torchtune.json", "torchtune-rest", "peak_allocated_bytes", 5, 2.0, 3.5),
    ("llm-foundry.json", "llm-foundry-rest", "params", 121, 0.0, 0.0),
    ("llm-foundry.json", "llm-foundry-rest", "tokens_per_s_per_gpu", 121, 6.0, 38.0),
    // Releases differ by up to a factor of two with the same plan.
    ("bridge.json", "megatron-bridge-rest", "tokens_per_s_per_gpu", 114, 9.0, 73.0),
    ("bridge.json", "nemo-24.07-rest", "tokens_per_s_per_gpu", 14, 8.2, 19.0),
    ("bridge.json", "megatron-bridge-overlap", "step_time_s", 4, 16.0, 20.0),
    ("mlperf.json", "mlperf", "samples_per_s_per_gpu", 13, 10.0, 31.0),
    ("mlperf.json", "mlperf", "tokens_per_s_per_gpu", 3, 10.0, 16.0),
    ("mlperf.json", "mlperf", "step_time_s", 7, 12.0, 18.0),
    ("vtrain.json", "vtrain-rest", "step_time_s", 54, 8.0, 36.0),
];

#[test]
fn the_rest_of_what_the_sources_publish() {
    let mut files: Vec<&str> = FURTHER.iter().map(|row| row.0).collect();
    files.dedup();
    for file in files {
        let (rows, failed) = print(file);
        all_predicted(&failed);
        for (_, group, quantity, count, mean, most) in FURTHER.iter().filter(|row| row.0 == file) {
            let (cases, off, worst) = held(&rows, group, quantity);
            assert!(cases == *count && off <= *mean && worst <= *most, "{group} {cases}: mean {off}, worst {worst}");
        }
    }
}

/// Megatron-LM's other functional tests, which no rule was looked at with before: half of the figures within 1 % (between
/// steps) and 2 % (peak), each within 5 % or 130 MiB.
#[test]
fn megatron() {
    let (rows, failed) = print("megatron.json");
    all_predicted(&failed);
    // Megatron FSDP of a small DeepSeek: what it keeps beside shards is not all named.
    // Attention captured as a graph: its saved tensors lie in the graph's pool, of which allocated bytes know nothing.
    // Muon of May 2026 had its other parameters whole on each rank. Without Transformer Engine installed the softmax of
    // local attention keeps one more tensor of scores. Experts that get more than their share of the tokens: the first
    // step of `dist_optimizer` lies 5 % below its last. What offloaded modules have under way is counted as one layer.
    let open = [
        "moe-deepseek_proxy_fsdp_ep2_fsdp2-dev-dgx_gb200",
        "moe-gpt3_mcore_te_tp2_zp_z3_resume_torch_dist_te_8experts2parallel_top2router-dev-dgx_gb200",
        "moe-gpt3_mcore_te_tp2_pp2_ep4_etp1_resume_torch_dist_attn_cudagraph-dev-dgx_h100",
        "moe-gpt3_moe_mcore_te_ep8_resume_torch_dist_dist_muon-dev-dgx_gb200",
        "moe-gpt3_moe_mcore_te_ep8_resume_torch_dist_dist_optimizer-dev-dgx_a100",
        "moe-gpt3_moe_mcore_te_tp2_pp2_ep4_etp1_fine_grained_offloading-dev-dgx_gb200",
        "gpt-gpt3_mcore_tp2_pp2_resume_torch_dist_uninstall_te-dev-dgx_a100",
    ];
    for row in &rows {
        let near = row.error.abs() <= 5.0 || (row.predicted - row.measured).abs() <= 130.0 * 1_048_576.0;
        let open = open.iter().any(|id| row.id.strip_prefix("mlm-") == Some(id));
        assert!(near || open, "{} {}: {} %", row.id, row.quantity, row.error);
    }
    for (of, bar) in [("static", 1.0), ("peak", 2.0)] {
        let mut errors: Vec<f64> =
            rows.iter().filter(|row| row.quantity.starts_with(of)).map(|row| row.error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        assert!(errors.len() == 196 && median <= bar, "{of}: {} figures, median {median}", errors.len());
    }
}

/// Each row of a group's quantity within `bar`, those named in `open` within a bar of their own.
fn each(rows: &[Row], group: &str, quantity: &str, bar: f64, open: &[(&str, f64)]) {
    let of_group = rows.iter().filter(|row| row.group == group && row.quantity == quantity);
    for row in of_group {
        let bar = open.iter().find(|(id, _)| row.id == *id).map_or(bar, |(_, bar)| *bar);
        assert!(row.error.abs() <= bar, "{} {quantity}: {} %, held at {bar} %", row.id, row.error);
    }
}

/// What stays open, and why.
#[test]
fn residuals() {
    let (rows, _) = print("published.json");
    // The H200 run (June 2025, torchtitan e7c0cae) compiles its loss, which then keeps 16-bit logits and no fp32
    // copy: 4.2 + 4.2 GB where the loss of December 2024 (9dec370, "compiling loss function causes CUDA errors,
    // turning off for now"), which the other runs used, has 25.2 GB. Its case says `loss: hf`; with `plain`, which is
    // what it computes, it comes to 51.6 of 51.5 GB, and its sister in torchtitan.json, which says so, to 49.6 of 50.4.
    each(&rows, "torchtitan", "peak_reserved_bytes", 7.0, &[("tt-h200-4n", 34.0)]);
    // 2 GB that neither torchao's AdamW8bit (what Inductor makes of it for the embedding is counted) nor bitsandbytes'
    // explains; states of 32 bits for the embedding would.
    each(&rows, "torchtune", "peak_allocated_bytes", 6.0, &[("tune-ladder-7-adamw8bit", 11.0)]);
    // Measured in 2022. Trainer's AdamW of that time updated tensor by tensor: the contract's `adamw` makes a
    // temporary of 1.34 GB here (rows 4 and 6, +20 and +12 %). `zero_grad` filled gradients with zeros instead of
    // freeing them: 1.34 GB more through forward and backward in rows without accumulation (7 and 9, -20 %). And
    // PyTorch before 1.11 saved the softmax's input beside its output: one more tensor of scores a layer, 1.6 GB.
    each(&rows, "hf-bert", "device_used_bytes", 21.0, &[("hf-bert-10", 2.0)]);
    // The 70B rows state neither rank nor type of gradients, nor how weights are stored: with `gradient_dtype: bf16`
    // and `fp8_param_gather: true`, which that project's recipes set (grad_reduce_in_fp32 off;
    // bf16_with_fp8_current_scaling_mixed), they read -4.3 and +0.3 %.
    // The Moonlight rows read 2 to 4 % low since the experts' saved tensors are as the code has them (which brought
    // SimuMax's from 1.25 to 0.3 %); why is not known: the walk takes routing to be balanced, a real run's is not.
    each(
        &rows,
        "megatron-bridge-memory",
        "peak_allocated_bytes",
        1.6,
        &[
            ("mbmem-moonlight16b-none", 4.1),
            ("mbmem-moonlight16b-mla_up_proj", 2.4),
            ("mbmem-moonlight16b-mla_up_proj+mlp", 2.4),
            ("mbmem-70bsft-2", 13.5),
            ("mbmem-70b-rc-mlp+core_attn", 30.0),
        ],
    );
}

#[test]
fn params() {
    let (rows, failed) = print("params.json");
    all_predicted(&failed);
    assert_eq!(rows.len(), 91, "{} counts", rows.len());
    for row in rows {
        assert!((row.predicted - row.measured).abs() < 0.5, "{}: {} for {}", row.id, row.predicted, row.measured);
    }
}
