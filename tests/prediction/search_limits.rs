//! What `search`, the smallest change, the fewest GPUs and the largest model call a plan is one thing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::catalog;
use memwall::advise::{
    KNOBS, Request, SearchProgress, fewest_gpus, largest_model, left_out, search, smallest_change, throughput,
};
use memwall::compare::Bands;
use memwall::plan::keywords::{CpuOffload, Sharding};
use memwall::plan::{Document, Plan};
use memwall::predict::{self, Job};
use memwall::report::search as report;

const MODEL_70B: &str = "model: {preset: llama-3-70b, framework: megatron, batch_size: 32, sequence_length: 4096}\n\
                         hardware: {gpu_type: NVIDIA A100}\ncluster: {num_gpus: 8}\n";
const MODEL_8B: &str = "model: {preset: llama-3-8b, framework: megatron, batch_size: 32, sequence_length: 4096}\n\
                        hardware: {gpu_type: NVIDIA A100}\ncluster: {num_gpus: 8}\n";
const OFFLOAD: &str = KNOBS[13];

fn plan(text: &str) -> Plan {
    Document::parse(text).unwrap().plan().unwrap()
}

fn request<'a>(plan: &'a Plan, keep: &[&'static str]) -> Request<'a> {
    Request { plan, keep: keep.to_vec(), top: 1, free_batch: false }
}

fn any(text: &str, keep: &[&'static str]) -> bool {
    let plan = plan(text);
    !search(&request(&plan, keep), catalog(), &SearchProgress::default()).unwrap().ranked.is_empty()
}

/// Whether the plan fits, predicted the plain way.
fn fits(text: &str) -> bool {
    predict::of(&plan(text), catalog()).is_ok_and(|told| told.capacity.needed <= told.capacity.bytes)
}

#[test]
fn the_fewest_gpus_are_those_of_the_first_search_that_finds_a_plan() {
    let whole = plan(MODEL_70B);
    let found = fewest_gpus(&request(&whole, &[]), catalog(), &SearchProgress::default()).unwrap();
    let of = |gpus: u64| MODEL_70B.replace("num_gpus: 8", &format!("num_gpus: {gpus}"));
    let first = (1..=8).find(|gpus| any(&of(*gpus), &[])).unwrap();
    assert_eq!(found.any.as_ref().unwrap().0, first);
    // 70.6 billion fp32 masters and two states, 12 bytes each, lie on the host of all GPUs, and gradients of 4 bytes.
    let host = found.any.unwrap().1.host.unwrap().as_f64() * first as f64;
    assert!((host / (16.0 * 70.6e9) - 1.0).abs() < 0.05, "{host}");
    // Without offload 18 bytes for each of 70.6 billion are 1 183 GiB: 15 GPUs of 80 GiB hold it at the very least, so two nodes.
    let (kept, _) = found.kept.unwrap();
    assert!(kept.is_multiple_of(8) && kept >= 16, "{kept}");
    assert!(any(&of(kept), &[OFFLOAD]) && !any(&of(kept - 8), &[OFFLOAD]), "{kept}");
}

#[test]
fn offload_is_a_knob_of_the_largest_model_too() {
    let whole = plan(MODEL_8B);
    let found = largest_model(&request(&whole, &[]), catalog(), &SearchProgress::default()).unwrap();
    let [any, kept] = [found.any.billions.unwrap().0, found.kept.billions.unwrap().0];
    // 640 GiB hold 18 bytes each of 38.2 billion parameters, or, with what the host updates elsewhere, 6 of 114 billion.
    assert!((25.0..38.2).contains(&kept) && (75.0..114.6).contains(&any), "{any} {kept}");
    let offloaded = plan(&format!("{MODEL_8B}training: {{cpu_offload: optimizer}}\n"));
    let same = largest_model(&request(&offloaded, &[OFFLOAD]), catalog(), &SearchProgress::default()).unwrap();
    assert!((same.any.billions.unwrap().0 / any - 1.0).abs() < 0.03);
}

#[test]
fn an_offload_without_a_switch_in_the_framework_is_named_where_nothing_else_fits() {
    // Four GPUs hold 18 bytes of 19 billion parameters, and 6 bytes of 57 billion.
    let four = MODEL_70B.replace("num_gpus: 8", "num_gpus: 4");
    let whole = plan(&four);
    let found = search(&request(&whole, &[]), catalog(), &SearchProgress::default()).unwrap();
    assert!(found.ranked.is_empty());
    let named = found.unsupported.unwrap();
    assert_eq!(named.knobs.offload, CpuOffload::Parameters);
    let changed = Document::parse(&four).unwrap().changed(&named.change).unwrap();
    assert!(fits(changed.text()), "{}", changed.text());
    assert!(any(&format!("{four}training: {{cpu_offload: parameters}}\n"), &[OFFLOAD]));
}

#[test]
fn the_smallest_change_counts_the_keys_that_it_lists() {
    for text in [MODEL_8B, &MODEL_8B.replace(", framework: megatron", "")] {
        let whole = plan(text);
        let request = Request { top: 50, ..request(&whole, &[]) };
        let found = smallest_change(&request, catalog(), &SearchProgress::default()).unwrap().unwrap();
        assert!(!fits(text) && found.keys == 2, "{}", found.keys);
        for one in &found.plans {
            assert_eq!((one.chosen.set.len(), one.follows.set.len()), (2, 0), "{}", one.ranked.change.words());
            let document = Document::parse(text).unwrap();
            assert!(fits(document.changed(&one.ranked.change).unwrap().text()), "{}", one.ranked.change.words());
            // Neither key alone is enough.
            for (key, value) in &one.chosen.set {
                let alone = document.with_value(key, value).unwrap();
                assert!(!fits(alone.text()), "{key} {value}");
            }
        }
    }
}

#[test]
fn sharding_of_another_engine_is_searched_where_the_plan_has_it() {
    let catalog = catalog();
    let open = Job::resolve(&plan(MODEL_8B), catalog).unwrap();
    assert_eq!(left_out(&open), [Sharding::Zero2, Sharding::Zero3]);
    let text = format!("{MODEL_8B}distribution: {{sharding: zero3}}\n");
    let given = plan(&text);
    assert_eq!(left_out(&Job::resolve(&given, catalog).unwrap()), [Sharding::Zero2]);
    let best = |keep: &[&'static str]| {
        let found = search(&request(&given, keep), catalog, &SearchProgress::default()).unwrap();
        found.ranked[0].outline.time.step
    };
    assert!(best(&[]) <= best(&[KNOBS[7]]));
    // PyTorch's engines are all searched.
    let plain = plan(&MODEL_8B.replace(", framework: megatron", ""));
    assert!(left_out(&Job::resolve(&plain, catalog).unwrap()).is_empty());
}

/// What is said of #3 is said of one plan that is printed: rows of both tables with one number are one plan.
#[test]
fn a_number_of_a_search_is_one_printed_plan() {
    let whole = plan(MODEL_8B);
    let request = Request { top: 20, ..request(&whole, &[]) };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    let bands = Bands::of(&Job::resolve(&whole, catalog()).unwrap());
    for top in [3, 10] {
        let text = report::text("plan", "", &found, (Duration::ZERO, top), 400);
        let (first, front) = text.split_once("less memory for less speed").unwrap();
        let rows = |table: &str| -> BTreeMap<usize, String> {
            // Rate, MFU, memory and the first degrees: a column that is alike in all rows stands in one table alone.
            let numbered = |line: &str| {
                let (number, plan) = line.trim().split_once(' ')?;
                Some((number.parse().ok()?, plan.split_whitespace().take(7).collect::<Vec<_>>().join(" ")))
            };
            table.lines().filter(|line| line.starts_with("  ")).filter_map(numbered).collect()
        };
        let (first, front) = (rows(first), rows(front));
        assert!(first.keys().copied().eq(1..=top) && front.len() == found.front.len(), "{text}");
        assert!(front.iter().all(|(number, row)| first.get(number).is_none_or(|own| own == row)), "{text}");
        let said = report::trust(&found, (&bands, top), 400);
        let numbers = said.split('#').skip(1).map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap());
        assert!(
            numbers.clone().count() == 3 && numbers.into_iter().all(|number| first.contains_key(&number)),
            "{said}"
        );
    }
}

/// How much the host holds no plan says: what needs nothing of it is the answer, and the rest comes behind it.
#[test]
fn the_largest_model_without_the_host_is_said_first() {
    let whole = plan(MODEL_8B);
    let found = largest_model(&request(&whole, &[]), catalog(), &SearchProgress::default()).unwrap();
    let text = report::model("plan", &found, 200);
    let first = text.lines().next().unwrap();
    let three = memwall::units::three_figures(found.kept.billions.as_ref().unwrap().0);
    assert_eq!(first, format!("plan: {three} B parameters fit on 8 GPUs"));
    assert!(text.contains("\nwith more in host memory: "), "{text}");
    let value = report::model_json("plan", &found);
    let sizes = ["any", "kept"].map(|which| value[which]["standard"]["size_billions"].as_f64().unwrap());
    assert_eq!(sizes, [&found.any, &found.kept].map(|one| one.billions.as_ref().unwrap().0));
    assert!(
        value["kept"]["standard"]["device_used"].is_u64() && value["kept"]["preset"]["preset"].is_string(),
        "{value}"
    );
}

/// FSDP shares out weights or gradients: with it as the plan's engine replicas are searched all the same, and its own plan
/// is among them.
#[test]
fn an_engine_that_only_shares_out_is_searched_with_replicas() {
    let text = "model: {preset: llama-3-8b, framework: pytorch, batch_size: 64, sequence_length: 4096}\n\
                training: {precision: bf16-mixed, micro_batch_size: 1, activation_checkpointing: full}\n\
                hardware: {gpu_type: H100}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp, engine: fsdp2}\n";
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let request = Request { plan: &plan, keep: Vec::new(), top: 10, free_batch: false };
    let found = search(&request, catalog(), &SearchProgress::default()).unwrap();
    let best = &found.ranked[0];
    assert!(best.knobs.data > 1, "{:?}", best.knobs);
    assert!(throughput(&best.outline) >= throughput(&found.own.unwrap().outline));
}
