//! How long one prediction takes (issue: at most 50 µs for 70B, tp8 pp4, every stage, on one core).
//! Run with `cargo test --release --test speed -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use memwall::catalog::Catalog;
use memwall::plan::Document;
use memwall::predict::{self, Job};

#[test]
#[ignore = "a measurement, for release builds"]
fn a_70b_prediction_with_every_stage() {
    let catalog = Catalog::embedded().unwrap();
    let text = "model: {preset: llama-2-70b, framework: megatron, batch_size: 128, sequence_length: 4096}\n\
                training: {micro_batch_size: 1, attention: flash}\n\
                hardware: {gpu_type: NVIDIA H100}\n\
                cluster: {num_gpus: 64, nodes: 8, gpus_per_node: 8}\n\
                distribution: {tensor_parallel: 8, pipeline_parallel: 4, sequence_parallel: true, sharding: zero1}\n";
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, &catalog).unwrap();
    for (name, run) in [
        ("predict", Box::new(|| drop(predict::predict(&job))) as Box<dyn Fn()>),
        ("resolve and predict", Box::new(|| drop(predict::of(&plan, &catalog)))),
    ] {
        let mut best = f64::MAX;
        for _ in 0..50 {
            let start = Instant::now();
            for _ in 0..20 {
                run();
            }
            best = best.min(start.elapsed().as_secs_f64() / 20.0);
        }
        println!("{name}: {:.1} µs", best * 1e6);
    }
}
