//! Predictions far from all measured runs: on every GPU of the catalogue nothing is beyond what its kernels reach, work that
//! grows takes longer and not suddenly so, and a GPU that is better in all figures is no slower.

use crate::support::catalog;
use memwall::catalog::{Generation, Gpu};
use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::{Value, json};

fn predicted(plan: &Value) -> Prediction {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap_or_else(|faults| panic!("{plan:?}: {faults:?}"))
}

fn step(plan: &Value) -> f64 {
    predicted(plan).time.step.0
}

/// A plan of one GPU: a preset, or a decoder of a width and a vocabulary.
fn plan(gpu: &Gpu, model: &Value, precision: &str, micro: u64) -> Value {
    let mut model = model.clone();
    model["batch_size"] = json!(micro);
    json!({
        "model": model, "training": {"precision": precision, "micro_batch_size": micro}, "hardware": {"gpu_type": gpu.name},
    })
}

fn decoder(hidden: u64, heads: u64, vocabulary: u64, sequence: u64) -> Value {
    json!({
        "architecture": {
            "hidden_size": hidden, "num_layers": 8, "num_attention_heads": heads, "intermediate_size": 4 * hidden,
            "vocab_size": vocabulary,
        },
        "sequence_length": sequence,
    })
}

fn gpus() -> impl Iterator<Item = &'static Gpu> {
    catalog().gpus.iter().filter(|gpu| gpu.generation != Generation::Cpu)
}

/// Nobody counted B300's multiprocessors once, and what a multiprocessor does a clock was taken for all of it: GPT-2 took 56
/// times as long as on B200. Kernels for rows at odd addresses keep a half of the rate (CUTLASS, media/docs/profiler.md:
/// align1 and align8); Hopper's and Blackwell's, whose loads take 16 bytes and more, lose more of theirs.
#[test]
fn an_odd_vocabulary_costs_the_head_its_alignment_and_no_more() {
    for gpu in gpus() {
        let even = step(&plan(gpu, &decoder(1024, 8, 32000, 1024), "bf16-mixed", 4));
        let odd = step(&plan(gpu, &decoder(1024, 8, 32001, 1024), "bf16-mixed", 4));
        assert!(odd >= even * 0.999 && odd < even * 2.5, "{}: {odd} s, {even} s with an even one", gpu.name);
    }
}

/// A sample more takes a tenth more than its share at most, 1088 tokens for 1024 (a sixteenth more) a third at most.
#[test]
fn a_little_more_work_takes_a_little_longer() {
    for gpu in gpus() {
        for precision in ["bf16-mixed", "fp32"] {
            for micro in [1, 3, 7, 16, 64] {
                let model = json!({"preset": "gpt2", "sequence_length": 512});
                let (one, more) = (plan(gpu, &model, precision, micro), plan(gpu, &model, precision, micro + 1));
                let (one, more) = (step(&one), step(&more));
                let work = (micro + 1) as f64 / micro as f64;
                assert!(more >= one && more / one < 1.1 * work, "{} {precision} {micro}: {one}, {more}", gpu.name);
            }
            let longer = |sequence| step(&plan(gpu, &decoder(1024, 8, 32000, sequence), precision, 4));
            let (one, more) = (longer(1024), longer(1088));
            assert!(more >= one * 0.999 && more < 1.33 * one, "{} {precision}: {one}, {more}", gpu.name);
        }
    }
}

/// Of one architecture and capability, better in every figure that the catalogue has of both.
fn is_better(one: &Gpu, other: &Gpu) -> bool {
    let peaks = one.peaks.named().into_iter().zip(other.peaks.named());
    let same = one.peaks.named().len() == other.peaks.named().len();
    let mut peaks = peaks.map(|((name, a), (of, b))| name == of && a.0 >= b.0);
    let count = |gpu: &Gpu| gpu.sm_count.unwrap_or(0);
    let watts = |gpu: &Gpu| gpu.tdp.map_or(0.0, |watts| watts.0);
    one.generation == other.generation
        && one.compute_capability == other.compute_capability
        && same
        && peaks.all(|is| is)
        && one.bandwidth.0 >= other.bandwidth.0
        && count(one) >= count(other)
        && watts(one) >= watts(other)
        && one.inline_ecc == other.inline_ecc
}

#[test]
fn a_gpu_that_is_better_in_every_figure_is_no_slower() {
    let mut pairs = 0;
    for one in gpus() {
        for other in gpus().filter(|other| other.name != one.name && is_better(one, other)) {
            pairs += 1;
            for (model, micro) in [
                (json!({"preset": "gpt2", "sequence_length": 1024}), 8),
                (json!({"preset": "llama-3-8b", "sequence_length": 4096}), 1),
                (json!({"preset": "bert-large", "sequence_length": 384}), 16),
                (json!({"preset": "resnet-50"}), 64),
                (json!({"preset": "vit-base"}), 32),
            ] {
                for precision in ["bf16-mixed", "tf32", "fp32"] {
                    let of = |gpu| step(&plan(gpu, &model, precision, micro));
                    let (quick, slow) = (of(one), of(other));
                    // Waves of more multiprocessors may be less full.
                    let names = (&one.name, &other.name);
                    assert!(quick <= slow * 1.05, "{names:?}: {quick} s, {slow} s, {model} {precision}");
                }
            }
        }
    }
    assert!(pairs >= 20, "{pairs}");
}

/// Matrix units of A10G, L40 and L20 do half of what their silicon can, so that power does not hold them; a server's board
/// states its peak at its highest clock, of which L20 reaches 0.96 (DefTruth/CUDA-Learn-Notes, hgemm: 115 of 119.5 TFLOP/s).
/// RTX 3090 of the same silicon as A10G passes its stated clock.
#[test]
fn no_server_board_passes_the_peak_of_its_clock() {
    let large = json!({"preset": "llama-3-8b", "sequence_length": 4096});
    let most = |gpu: &Gpu| {
        let ops = predicted(&plan(gpu, &large, "bf16", 8)).roofline.ops;
        ops.iter().map(|op| op.flops.0 / op.seconds.0.max(1e-12) / op.peak.0).fold(0.0, f64::max)
    };
    for gpu in gpus().filter(|gpu| !gpu.exceeds_boost) {
        let most = most(gpu);
        assert!(most <= 0.96, "{}: {most} of the peak", gpu.name);
    }
    let [own, served] = ["RTX 3090 24GB", "A10G"].map(|gpu| most(catalog().gpu(gpu).unwrap()));
    assert!(own > 1.05 * served, "{own} {served}");
}

/// The operators of a decoder, whose operations are executed as they are counted.
#[test]
fn no_kernel_is_quicker_than_measured_ones() {
    for gpu in gpus() {
        for (model, micro) in
            [(json!({"preset": "llama-3-70b", "sequence_length": 4096}), 8), (decoder(512, 8, 999, 128), 1)]
        {
            for precision in ["bf16", "fp32"] {
                let prediction = predicted(&plan(gpu, &model, precision, micro));
                let curves = catalog().curves(gpu).unwrap();
                let vector = curves.matrix.vector.map_or(curves.matrix.fp32, |vector| vector.most);
                let most = if precision == "fp32" { vector } else { curves.matrix.most };
                for op in prediction.roofline.ops.iter().filter(|op| op.flops.0 > 0.0 && op.seconds.0 > 0.0) {
                    let share = op.flops.0 / op.seconds.0 / op.peak.0;
                    assert!(share <= most * 1.0001, "{} {precision} {}: {share} of the peak", gpu.name, op.name);
                }
            }
        }
    }
}

/// Groups of experts on Hopper take a share of their rate that was fitted on runs of experts up to 2880 wide (GPT-OSS 120B).
/// Mixtral's are 14336 wide, of which eight ranks have one each, which is no group; Qwen3's are 768.
#[test]
fn experts_wider_than_those_of_measured_runs_are_said() {
    let says = |preset: &str, ranks: u64| {
        let plan = json!({
            "model": {"preset": preset, "framework": "megatron", "batch_size": 64, "sequence_length": 4096},
            "training": {"precision": "bf16-fp32-master", "micro_batch_size": 1},
            "hardware": {"gpu_type": "H100"},
            "cluster": {"num_gpus": 64},
            "distribution": {"data_parallel": 64, "expert_parallel": ranks, "sharding": "zero1"},
        });
        predicted(&plan).assumptions.iter().any(|said| said.contains("several experts are timed"))
    };
    assert!(says("mixtral-8x7b", 4));
    assert!(!says("mixtral-8x7b", 8));
    assert!(!says("qwen3-30b-a3b", 8));
}
