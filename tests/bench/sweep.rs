//! A sweep of 1000 plans: 70B over micro batches, checkpointing and degrees. It is to take less than 50 ms. And one of
//! 1024 plans on one GPU, whose allocator is replayed: less than 100 ms.

#![allow(clippy::unwrap_used, missing_docs, clippy::panic)]

use std::path::Path;

use divan::Bencher;
use divan::counter::ItemsCount;
use memwall::advise::{Axis, sweep};
use memwall::catalog::Catalog;
use memwall::plan::Document;

const PLAN: &str = include_str!("../../configs/plans/70b_hybrid_training.yaml");

fn main() {
    divan::main();
}

#[divan::bench]
fn a_thousand_plans(bencher: Bencher) {
    let (plan, catalog) = (Document::parse(PLAN).unwrap().plan().unwrap(), Catalog::embedded().unwrap());
    let axes: Vec<Axis> = [
        "sequence_length=1024..=51200+1024",
        "precision=bf16,fp16,bf16-mixed,fp8-mixed,bf16-fp32-master",
        "activation_checkpointing=none,full",
        "sharding=none,zero1",
    ]
    .iter()
    .map(|text| Axis::parse(text, Path::new("")).unwrap())
    .collect();
    assert_eq!(axes.iter().map(|axis| axis.values.len()).product::<usize>(), 1000);
    bencher.counter(ItemsCount::new(1000_usize)).bench(|| sweep(divan::black_box(&plan), axes.clone(), &catalog));
}

/// On one GPU the allocator is replayed; plans in which it sees the same share the replay.
const LONE: &str = "\
model: {preset: gpt2, framework: pytorch, sequence_length: 1024}
training: {precision: bf16, micro_batch_size: 1}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1}
";

#[divan::bench]
fn on_one_gpu(bencher: Bencher) {
    let (plan, catalog) = (Document::parse(LONE).unwrap().plan().unwrap(), Catalog::embedded().unwrap());
    let axes: Vec<Axis> = [
        "micro_batch_size=1..=16",
        "gradient_accumulation_steps=1..=16",
        "activation_checkpointing=none,full",
        "precision=bf16,fp32",
    ]
    .iter()
    .map(|text| Axis::parse(text, Path::new("")).unwrap())
    .collect();
    assert_eq!(axes.iter().map(|axis| axis.values.len()).product::<usize>(), 1024);
    bencher.counter(ItemsCount::new(1024_usize)).bench(|| sweep(divan::black_box(&plan), axes.clone(), &catalog));
}
