//! The whole space of a 70B model on 512 GPUs. It is to take no more than a second on two cores. Plans a second are
//! printed first, evaluated and pruned ones told apart.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, clippy::panic)]

use std::time::Instant;

use divan::Bencher;
use memwall::advise::{Request, SearchOutcome, SearchProgress, search};
use memwall::catalog::Catalog;
use memwall::plan::{Document, Plan};

/// By framework: Megatron shares out optimizer states only, FSDP everything.
const FRAMEWORKS: [&str; 2] = ["megatron", "torchtitan"];

fn main() {
    for framework in FRAMEWORKS {
        let (plan, catalog) = (plan(framework), Catalog::embedded().unwrap());
        let start = Instant::now();
        let found = explore(&plan, &catalog);
        let seconds = start.elapsed().as_secs_f64();
        let (evaluated, pruned) = (found.evaluated, found.pruned);
        println!(
            "70b on 512 GPUs, {framework}: {} plans in {:.0} ms: {evaluated} evaluated ({:.0} a second), {pruned} pruned",
            evaluated + pruned,
            1e3 * seconds,
            evaluated as f64 / seconds,
        );
    }
    divan::main();
}

fn plan(framework: &str) -> Plan {
    let text = format!(
        "model: {{preset: llama-3-70b, framework: {framework}, batch_size: 1024, sequence_length: 8192}}\n\
         hardware: {{gpu_type: NVIDIA H100}}\n\
         cluster: {{num_gpus: 512, nodes: 64, gpus_per_node: 8, interconnect: nvlink_4, network: infiniband_ndr}}\n"
    );
    Document::parse(&text).unwrap().plan().unwrap()
}

fn explore(plan: &Plan, catalog: &Catalog) -> SearchOutcome {
    search(&Request { plan, keep: Vec::new(), top: 20, free_batch: false }, catalog, &SearchProgress::default())
        .unwrap()
}

#[divan::bench(args = FRAMEWORKS, sample_count = 5)]
fn the_whole_space(bencher: Bencher, framework: &str) {
    let (plan, catalog) = (plan(framework), Catalog::embedded().unwrap());
    bencher.bench(|| explore(divan::black_box(&plan), &catalog));
}
