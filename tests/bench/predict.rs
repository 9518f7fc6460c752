//! One prediction: 70B over 8 tensor-parallel ranks and 4 stages, every stage. It is to take
//! no more than 50 µs on one core, because an edit of the plan predicts at once. One of a tape may take 5 ms.

#![allow(clippy::unwrap_used, missing_docs, clippy::panic)]

use std::path::Path;

use divan::Bencher;
use memwall::catalog::Catalog;
use memwall::plan::{Document, Plan, plan_of};
use memwall::predict::{Job, predict};

/// The plans that are timed, by name.
const PLANS: [(&str, &str); 9] = [
    ("70b tp8 pp4", include_str!("../../configs/plans/70b_hybrid_training.yaml")),
    ("mixture of experts", include_str!("../../configs/plans/moe_expert_parallel.yaml")),
    // The caching allocator is replayed block by block.
    ("8b on one GPU", include_str!("../../configs/plans/8b_single_gpu.yaml")),
    ("7b with adapters on one GPU", include_str!("../../configs/plans/7b_lora.yaml")),
    ("a thousand layers on one GPU", DEEP),
    ("7b inference", include_str!("../../configs/plans/7b_inference.yaml")),
    ("a traced encoder", "model: {trace: bert.tape.json.gz, sequence_length: 512}"),
    ("a traced t5 under fsdp", SHARDED),
    ("a traced densenet", "model: {trace: tv-densenet121.tape.json.gz}"),
];

/// One of eight ranks.
const SHARDED: &str = "\
model: {trace: t5.gathered.tape.json.gz, sequence_length: 512, decoder_sequence_length: 128}
training: {precision: bf16-mixed}
cluster: {num_gpus: 8}
distribution: {sharding: fsdp}
";

/// More blocks than are replayed.
const DEEP: &str = "\
model: {architecture: {hidden_size: 512, num_layers: 1000, num_attention_heads: 8, activation: swiglu}}
training: {precision: bf16, micro_batch_size: 1}
hardware: {gpu_type: NVIDIA H200}
cluster: {num_gpus: 1}
";

fn main() {
    divan::main();
}

fn names() -> impl Iterator<Item = &'static str> {
    PLANS.into_iter().map(|(name, _)| name)
}

fn plan(name: &str) -> Plan {
    let (_, text) = PLANS.into_iter().find(|(known, _)| *known == name).unwrap();
    plan_of(&Document::parse(text).unwrap(), &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/truth/traced")).unwrap()
}

/// From a decided plan to the figures of every stage.
#[divan::bench(args = names())]
fn one_prediction(bencher: Bencher, name: &str) {
    let job = Job::resolve(&plan(name), &Catalog::embedded().unwrap()).unwrap();
    bencher.bench(|| predict(divan::black_box(&job)));
}

/// With everything that the plan leaves open decided first.
#[divan::bench(args = names())]
fn with_its_plan_resolved(bencher: Bencher, name: &str) {
    let (plan, catalog) = (plan(name), Catalog::embedded().unwrap());
    bencher.bench(|| Job::resolve(divan::black_box(&plan), &catalog).map(|job| predict(&job)));
}
