//! `memwall search` against brute force: every plan of a small space written out as text and predicted the plain way.

use crate::brute::{agrees, brute, realised};
use crate::support::catalog;
use memwall::advise::{
    KNOBS, RankedPlan, Request, SearchOutcome, SearchProgress, fewest_gpus, fold, largest_model, search,
    smallest_change, throughput, why_slower,
};
use memwall::plan::{Document, EXAMPLES, Plan};
use memwall::predict::{self, Job};

pub fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap()
}

pub fn found(text: &str, keep: Vec<&'static str>) -> SearchOutcome {
    let plan = plan(text);
    let request = Request { plan: &plan, keep, top: 10, free_batch: false };
    search(&request, catalog(), &SearchProgress::default()).unwrap()
}

#[test]
fn four_gpus_of_plain_pytorch_as_by_brute_force() {
    let base = "model: {architecture: {hidden_size: 1024, num_layers: 4, num_attention_heads: 16, vocab_size: 32000}, \
                batch_size: 8, sequence_length: 2048}\ncluster: {num_gpus: 4}\nhardware: {gpu_type: A10G, memory_limit_gb: 6}\n";
    let text = format!("{base}training: {{precision: bf16}}\n");
    let all = brute(base, (4, 8, 2048, 4), false, 1);
    agrees(&text, &found(&text, Vec::new()), &all);
}

#[test]
fn six_gpus_of_megatron_with_experts_as_by_brute_force() {
    let base = "model: {architecture: {hidden_size: 768, num_layers: 6, num_attention_heads: 12, vocab_size: 32000, \
                moe: {num_experts: 6, experts_per_token: 2}}, batch_size: 6, sequence_length: 1024, framework: megatron}\n\
                cluster: {num_gpus: 6}\nhardware: {gpu_type: A10G, memory_limit_gb: 2.2}\n";
    let text = format!("{base}training: {{precision: bf16}}\ndistribution: {{strategy: tensor_parallel}}\n");
    let all = brute(base, (6, 6, 1024, 6), true, 6);
    agrees(&text, &found(&text, Vec::new()), &all);
}

#[test]
fn on_a_cpu_every_plan_that_is_found_is_one_that_may_be_written() {
    // A host of 16 GiB that reaches 100 GFLOP/s.
    let (mut catalog, progress) = (catalog().clone(), SearchProgress::default());
    let host = "sources: {m: a test}\ngpus:\n- {name: CPU, short: CPU, vendor: cpu, architecture: cpu, \
                sm_count: {value: 2, source: m}, memory_gib: {value: 16, source: m}, \
                bandwidth_gb_s: {value: 20, source: m}, peak_tflops: {source: m, fp32: 0.1, bf16: 0.1}, link: pcie_4, \
                process_mib: {source: m, torch: 200, transformers: 300}}\n";
    catalog.extend("host", host).unwrap();
    let text = "model: {preset: gpt2, batch_size: 4, sequence_length: 128}\ntraining: {precision: fp32}\n\
                hardware: {gpu_type: cpu}\n";
    let request = Request { plan: &plan(text), keep: Vec::new(), top: 20, free_batch: false };
    let found = search(&request, &catalog, &progress).unwrap();
    assert!(!found.ranked.is_empty());
    for one in &found.ranked {
        // What a CPU offloads is in its memory already: the plan file refuses the key.
        let edited = Document::parse(text).unwrap().changed(&one.change).unwrap();
        assert_eq!(Job::resolve(&edited.plan().unwrap(), &catalog).err(), None, "{}", edited.text());
    }
}

#[test]
fn what_is_kept_stays() {
    let text = include_str!("../../configs/plans/70b_hybrid_training.yaml");
    let keep = vec!["distribution.tensor_parallel", "training.cpu_offload", "distribution.context_parallel"];
    let found = found(text, keep);
    assert!(!found.ranked.is_empty());
    for one in &found.ranked {
        assert_eq!((one.knobs.tensor, one.knobs.context, one.knobs.offload.name()), (8, 1, "none"));
        realised(text, one);
    }
    for pair in found.ranked.windows(2) {
        assert!(pair[0].outline.time.step <= pair[1].outline.time.step);
        assert!(!why_slower(&pair[0], &pair[1]).is_empty());
    }
    let better = found.ranked[0].outline.time.step <= found.own.unwrap().outline.time.step;
    assert!(better, "the plan as it is belongs to the space");
}

#[test]
fn a_cancelled_search_ends_with_what_it_has() {
    let plan = plan(include_str!("../../configs/plans/70b_hybrid_training.yaml"));
    let progress = SearchProgress::default();
    progress.cancel();
    let request = Request { plan: &plan, keep: Vec::new(), top: 5, free_batch: false };
    let found = search(&request, catalog(), &progress).unwrap();
    assert!(found.cancelled && found.ranked.is_empty() && found.evaluated == 0);
}

#[test]
fn the_fewest_gpus_fit_and_half_a_node_less_do_not() {
    let text = "model: {preset: llama-3-8b, framework: megatron, batch_size: 64, sequence_length: 8192}\n\
                hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 64, nodes: 8, gpus_per_node: 8}\n";
    let (plan, catalog) = (plan(text), catalog());
    // Offload would bring any model onto one GPU.
    let keep = vec![KNOBS[13]];
    let request = Request { plan: &plan, keep: keep.clone(), top: 1, free_batch: false };
    let (gpus, one) = fewest_gpus(&request, catalog, &SearchProgress::default()).unwrap().any.unwrap();
    // 8 billion parameters at 18 bytes are 135 GiB: two GPUs of 80 GiB at least.
    assert_eq!(gpus, 2, "{one:?}");
    let mut smaller = plan.clone();
    (smaller.cluster.num_gpus, smaller.cluster.nodes) = (Some(gpus / 2), None);
    let request = Request { plan: &smaller, keep, top: 1, free_batch: false };
    assert!(search(&request, catalog, &SearchProgress::default()).unwrap().ranked.is_empty());
}

#[test]
fn the_largest_model_fits() {
    let text = "model: {preset: llama-3-8b, framework: megatron, batch_size: 8, sequence_length: 2048}\n\
                hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 1}\ntraining: {precision: bf16}\n";
    let (plan, catalog) = (plan(text), catalog());
    let request = Request { plan: &plan, keep: vec![KNOBS[13]], top: 1, free_batch: false };
    let found = largest_model(&request, catalog, &SearchProgress::default()).unwrap();
    let (billions, one) = found.any.billions.unwrap();
    let capacity = one.outline.capacity;
    assert!(capacity.needed <= capacity.bytes);
    // Weights, gradients and states in 16 bit are 8 bytes a parameter: 79.6 GiB hold 10.7 billion at the very most.
    assert!((7.0..10.7).contains(&billions), "{billions}");
}

#[test]
fn offload_takes_the_time_of_its_transfers() {
    let text = "model: {preset: llama-3.2-1b, batch_size: 4, sequence_length: 2048}\ntraining: {precision: bf16}\n\
                hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 1}\n";
    let catalog = catalog();
    let step = |offload: &str| {
        let text = text.replace("bf16}", &format!("bf16, cpu_offload: {offload}}}"));
        predict::of(&plan(&text), catalog).unwrap().time.communication.0
    };
    assert!(step("none") == 0.0);
    // 1.236 billion parameters: 2 bytes of gradient out, 2 of weight back at 77 % of 64 GB/s are 100 ms; 0.24 s a billion on
    // the host are 297 ms.
    assert!((step("optimizer") / 0.397 - 1.0).abs() < 0.02, "{}", step("optimizer"));
    // Weights twice more.
    assert!((step("parameters") / 0.447 - 1.0).abs() < 0.02, "{}", step("parameters"));
}

/// Throughput of the best plan at a batch that is held.
fn best_at(text: &str, batch: u64, own: &str) -> Option<f64> {
    let held = found(&text.replace(own, &format!("batch_size: {batch}")), Vec::new());
    held.ranked.first().map(|best| throughput(&best.outline))
}

#[test]
fn a_freed_batch_finds_the_best_of_all_batches() {
    let text = "model: {preset: gpt2, batch_size: 8, sequence_length: 1024}\ncluster: {num_gpus: 2}\n\
                hardware: {gpu_type: NVIDIA A100 40GB}\n";
    let plan = plan(text);
    let request = Request { plan: &plan, keep: Vec::new(), top: 10, free_batch: true };
    let free = search(&request, catalog(), &SearchProgress::default()).unwrap();
    let best = throughput(&free.ranked[0].outline);
    let held = [2, 4, 8, 16, 32, 64].into_iter().filter_map(|batch| best_at(text, batch, "batch_size: 8"));
    let most = held.fold(0.0, f64::max);
    assert!((best / most - 1.0).abs() < 1e-12, "{best} of {most}");
    for one in &free.ranked {
        let edited = Document::parse(text).unwrap().changed(&one.change).unwrap();
        let job = Job::resolve(&edited.plan().unwrap(), catalog()).unwrap();
        assert_eq!(job.batch.global, one.knobs.batch());
        assert_eq!(predict::outline(&job).time, one.outline.time);
        assert!(why_slower(&free.ranked[0], one).chars().count() > 4);
    }
    assert!(free.ranked[0].knobs.batch() > 8, "kernels of gpt2 are short: more samples fill the GPU better");
}

#[test]
fn the_smallest_change_that_fits_is_of_one_key_where_one_is_enough() {
    // 8 samples of 4096 tokens at once: recomputation, a smaller micro batch or sharding are each one key.
    let text = "model: {preset: llama-3.2-1b, batch_size: 64, sequence_length: 4096}\n\
                training: {precision: bf16, micro_batch_size: 8}\nhardware: {gpu_type: NVIDIA A100 80GB}\n\
                cluster: {num_gpus: 8}\n";
    let plan = plan(text);
    assert!(
        predict::of(&plan, catalog())
            .is_ok_and(|prediction| { prediction.capacity.needed > prediction.capacity.bytes })
    );
    let request = Request { plan: &plan, keep: Vec::new(), top: 50, free_batch: false };
    let found = smallest_change(&request, catalog(), &SearchProgress::default()).unwrap().unwrap();
    assert_eq!(found.keys, 1);
    let speeds: Vec<f64> = found.plans.iter().map(|one| throughput(&one.ranked.outline)).collect();
    assert!(speeds.is_sorted_by(|a, b| a >= b), "{speeds:?}");
    // Written out: each of these alone, predicted the plain way.
    let alone = [
        ("training.micro_batch_size", "1"),
        ("training.micro_batch_size", "2"),
        ("training.micro_batch_size", "4"),
        ("training.activation_checkpointing", "full"),
        ("training.activation_checkpointing", "selective"),
        ("training.cpu_offload", "activations"),
        ("distribution.sharding", "zero1"),
        ("distribution.sharding", "zero3"),
    ];
    for (key, value) in alone {
        let changed = Document::parse(text).unwrap().with_value(key, value).unwrap().plan().unwrap();
        let fits = predict::of(&changed, catalog()).is_ok_and(|after| after.capacity.needed <= after.capacity.bytes);
        let told = found.plans.iter().any(|one| one.ranked.change.set == [(key, value.to_owned())]);
        assert_eq!(
            fits,
            told,
            "{key} {value}: {:?}",
            found.plans.iter().map(|one| one.ranked.change.words()).collect::<Vec<_>>()
        );
    }
    // A plan that fits needs none.
    let small = text.replace("micro_batch_size: 8", "micro_batch_size: 1");
    let small = Document::parse(&small).unwrap().plan().unwrap();
    let request = Request { plan: &small, ..request };
    assert_eq!(smallest_change(&request, catalog(), &SearchProgress::default()).unwrap().unwrap().keys, 0);
}

#[test]
fn variants_of_one_immaterial_knob_are_one_row_and_nothing_is_lost() {
    // With 40 layers on two stages, 20, 10, 5 or 4 chunks a stage leave bubbles of 1/20 to 1/4 of a micro-batch among 16:
    // steps within 1.3 % of each other.
    let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == "13b_long_sequence").unwrap();
    let found = found(text, vec![KNOBS[10], KNOBS[12], KNOBS[13]]);
    let folded = fold(&found.ranked);
    let rows: usize = folded.iter().map(|one| 1 + one.alike.len()).sum();
    assert_eq!(rows, found.ranked.len());
    assert!(
        folded.len() < found.ranked.len(),
        "{:?}",
        found.ranked.iter().map(|one| one.change.words()).collect::<Vec<_>>()
    );
    assert_eq!((folded[0].rank, folded[0].plan), (1, &found.ranked[0]));
    for (one, two) in folded.iter().zip(&folded[1..]) {
        assert!(throughput(&one.plan.outline) >= throughput(&two.plan.outline));
    }
}

/// Experts over two nodes. A search changes its knobs alone: chunks of a pipeline do not turn on that tokens are sent beside
/// another micro-batch (Megatron's `--overlap-moe-expert-parallel-comm`, which is false unless it is given:
/// megatron/core/model_parallel_config.py), unless the plan does so itself.
#[test]
fn chunks_do_not_turn_on_what_the_plan_leaves_off() {
    let free = ["distribution.pipeline_schedule", "distribution.virtual_pipeline"];
    let keep: Vec<&str> = KNOBS.into_iter().filter(|key| !free.contains(key)).collect();
    const KEY: &str = "distribution.overlap_expert_parallel";
    let searched = |said: &str| {
        let text = format!(
            "model: {{framework: megatron, batch_size: 64, sequence_length: 2048, architecture: {{hidden_size: 2048,
             num_layers: 8, num_attention_heads: 16, intermediate_size: 4096, vocab_size: 32000,
             moe: {{num_experts: 16, experts_per_token: 4}}}}}}
training: {{precision: bf16, micro_batch_size: 1, gradient_accumulation_steps: 4, attention: flash}}
hardware: {{gpu_type: NVIDIA B200}}
cluster: {{num_gpus: 32, nodes: 4, gpus_per_node: 8}}
distribution: {{data_parallel: 16, pipeline_parallel: 2, expert_parallel: 16, sharding: zero1{said}}}
"
        );
        let found = found(&text, keep.clone());
        found.ranked.into_iter().find(|one| one.knobs.chunks == 2).unwrap()
    };
    let set = |one: &RankedPlan| one.change.set.iter().find(|(key, _)| *key == KEY).map(|(_, value)| value.clone());
    let [open, off, on] = ["", "false", "true"].map(|word| match word {
        "" => searched(""),
        word => searched(&format!(", overlap_expert_parallel: {word}")),
    });
    assert_eq!((set(&open).as_deref(), set(&off), set(&on)), (Some("false"), None, None));
    assert_eq!(open.outline.time.step, off.outline.time.step);
    assert!(on.outline.time.step < off.outline.time.step);
}
