use super::*;
use crate::advise::{Axis as SweptAxis, Request, SearchProgress, search, sweep as sweep_plan};
use crate::catalog::Catalog;
use crate::plan::{Document, Plan, plan_of};
use crate::predict::{Component, Job, Prediction, predict};
use crate::report::drawing::DrawnShape;
use crate::report::plot::{Plot, drawing, hold_words_apart};
use crate::report::roofline::{OwnOp, RooflineChart};
use crate::units::Bytes;

fn plan(text: &str) -> Plan {
    plan_of(&Document::parse(text).unwrap(), std::path::Path::new("")).unwrap()
}

fn predicted(text: &str) -> Prediction {
    let catalog = Catalog::embedded().unwrap();
    predict(&Job::resolve(&plan(text), &catalog).unwrap())
}

fn hold(plots: &[Plot]) {
    hold_words_apart(&drawing(plots));
    for plot in plots {
        let text = plot.text(80, false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

/// Five models on ten GPUs in four ways: 200 plans, each with its roofline, its memory and its stages.
#[test]
fn no_two_labels_overlap_or_leave_the_page_on_200_plans() {
    let catalog = Catalog::embedded().unwrap();
    let models = ["gpt2", "llama-3-8b", "llama-3-70b", "bert-base-uncased", "mixtral-8x7b"];
    let gpus = ["V100 SXM2 32GB", "T4", "A100 SXM 80GB", "A100 40GB", "H100", "H200", "B200", "RTX 4090", "L4", "A10G"];
    let ways = [
        "training: {precision: fp32}",
        "training: {activation_checkpointing: full}",
        "training: {mode: inference}",
        "distribution: {strategy: zero1}\ncluster: {num_gpus: 8}",
    ];
    let mut drawn = 0;
    for model in models {
        for gpu in gpus {
            for (at, way) in ways.iter().enumerate() {
                let text = format!("model: {{preset: {model}, batch_size: 8}}\nhardware: {{gpu_type: {gpu}}}\n{way}\n");
                let job = Job::resolve(&plan(&text), &catalog).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
                let prediction = predict(&job);
                let own = [OwnOp::parse("tiny=1:1e3").unwrap(), OwnOp::parse("far=1e15:1e3").unwrap()];
                let chart = RooflineChart::of(&text, &prediction, prediction.roofline.roofs.clone(), &own[..at % 3]);
                hold_words_apart(&chart.drawing());
                hold(&[step("dir/a.yaml", &prediction)]);
                hold(&[stages("dir/a.yaml", &prediction), ranks("dir/a.yaml", &prediction)]);
                drawn += 1;
            }
        }
    }
    assert_eq!(drawn, 200);
}

#[test]
fn parts_of_the_step_sum_to_what_is_allocated_and_agree_with_the_terms_at_the_peak() {
    for text in [
        "model: {preset: llama-3-8b, batch_size: 16}\ncluster: {num_gpus: 8}\ndistribution: {strategy: fsdp}",
        "model: {preset: gpt2, batch_size: 8}\nhardware: {gpu_type: A100}",
        "model: {preset: llama-3-8b, batch_size: 16, framework: megatron}\ncluster: {num_gpus: 8}\n\
         distribution: {tensor_parallel: 2, pipeline_parallel: 2}\ntraining: {activation_checkpointing: full}",
        "model: {preset: gpt2, batch_size: 8}\ntraining: {mode: inference}",
    ] {
        let prediction = predicted(text);
        for stage in &prediction.stages {
            for point in &stage.timeline {
                assert_eq!(point.parts.iter().copied().sum::<Bytes>(), point.allocated, "{text}: {}", point.at);
            }
            let peak = stage.timeline.iter().find(|point| point.allocated == stage.peak_allocated).unwrap();
            let weights = stage.component(Component::Parameters);
            assert_eq!(peak.parts[Component::Parameters as usize], weights, "{text}");
            let states = stage.component(Component::OptimizerStates);
            assert_eq!(peak.parts[Component::OptimizerStates as usize], states, "{text}");
        }
    }
}

#[test]
fn sweeps_show_both_walls_and_searches_their_front() {
    let catalog = Catalog::embedded().unwrap();
    let plan = plan("model: {preset: llama-3-8b, batch_size: 64, sequence_length: 4096}\nhardware: {gpu_type: H200}\n");
    let axes = |all: &[&str]| -> Vec<SweptAxis> {
        all.iter().map(|text| SweptAxis::parse(text, std::path::Path::new("")).unwrap()).collect()
    };
    for varied in [
        &["micro_batch_size=1..64x2"][..],
        &["precision=bf16,fp32"],
        &["micro_batch_size=1..8x2", "attention=sdpa,eager"],
    ] {
        let plots = sweep("a/plan.yaml", &sweep_plan(&plan, axes(varied), &catalog).unwrap());
        assert_eq!(plots.len(), 2);
        hold(&plots);
    }
    let plots = sweep("a/plan.yaml", &sweep_plan(&plan, axes(&["micro_batch_size=1..64x2"]), &catalog).unwrap());
    assert!(plots[0].labels.iter().any(|label| label.words.contains("capacity")), "{plots:?}");
    assert!(plots[1].labels.iter().any(|label| label.words.starts_with("flat from ")), "{plots:?}");
    let request = Request { plan: &plan, keep: Vec::new(), top: 20, free_batch: false };
    let found = search(&request, &catalog, &SearchProgress::default()).unwrap();
    hold(&[pareto("a/plan.yaml", &found)]);
}

/// The two values lie at their own places: 1 and 2 GiB measured, both predicted as 2 GiB.
#[test]
fn measured_cases_lie_against_their_predictions() {
    let cases = r#"[{"id": "a", "plan": {"model": {}}, "measured": {"peak_allocated_bytes": 8589934593}},
        {"id": "b", "plan": {"model": {}}, "measured": {"peak_allocated_bytes": 4294967296, "step_time_s": 0.4}}]"#;
    let mut outcome = crate::report::validate::ValidationOutcome::default();
    for case in crate::report::validate::read(cases).unwrap() {
        outcome.add(case, |_| Ok::<_, String>(crate::report::sample::two_stages()));
    }
    let plots = validation(&outcome);
    assert_eq!(plots.len(), 2);
    hold(&plots);
    let dots = drawing(&plots[..1]).shapes.into_iter().filter(|shape| matches!(shape, DrawnShape::Dot { .. })).count();
    // Two cases and the legend's.
    assert_eq!(dots, 3);
}

#[test]
fn titles_have_no_paths() {
    assert_eq!(plan_name("some/where/plan.v2.yaml"), "plan.v2");
    assert_eq!(plan_name("transformer 7.0 32"), "transformer 7.0 32");
}
