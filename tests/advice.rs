//! Bottlenecks and fixes: what is found, and that each effect told is that of the changed plan.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memwall::advise::{Advice, Finding, Severity, advise, throughput};
use memwall::catalog::Catalog;
use memwall::plan::{Document, EXAMPLES};
use memwall::predict::{self, Job, Verdict};
use memwall::report::{Report, json, text};

/// 8 billion parameters with their states, eager attention: more than a card of 80 GB.
const TOO_LARGE: &str = "\
model: {preset: llama-3-8b, batch_size: 16, sequence_length: 4096}
training: {attention: eager, precision: bf16}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 8}
";

fn advice(text: &str) -> Advice {
    let catalog = Catalog::embedded().unwrap();
    let plan = Document::parse(text).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, &catalog).unwrap();
    advise(&plan, &job, &predict::predict(&job), &catalog)
}

fn kind<'a>(advice: &'a Advice, kind: &str) -> Option<&'a Finding> {
    advice.findings.iter().find(|finding| finding.kind == kind)
}

/// The edited text, predicted the plain way, says what the fix says.
fn effects_are_computed(text: &str) {
    let catalog = Catalog::embedded().unwrap();
    let advice = advice(text);
    let before = predict::of(&Document::parse(text).unwrap().plan().unwrap(), &catalog).unwrap();
    for fix in advice.findings.iter().flat_map(|finding| &finding.fixes) {
        let edited = Document::parse(text).unwrap().changed(&fix.change).unwrap();
        let after =
            predict::of(&edited.plan().unwrap(), &catalog).unwrap_or_else(|faults| panic!("{}: {faults:?}", fix.name));
        assert_eq!(after.capacity, fix.outline.capacity, "{}", fix.name);
        assert_eq!(after.time, fix.outline.time, "{}", fix.name);
        assert_eq!(fix.memory, after.capacity.needed - before.capacity.needed, "{}", fix.name);
        assert_eq!(fix.fits, after.capacity.verdict() != Verdict::DoesNotFit, "{}", fix.name);
        let line = fix.line(&advice.outline);
        assert!(line.starts_with(&fix.name) && line.contains('B'), "{line}");
    }
}

#[test]
fn every_effect_is_that_of_the_changed_plan() {
    effects_are_computed(TOO_LARGE);
    for (_, text) in EXAMPLES {
        effects_are_computed(text);
    }
}

#[test]
fn a_plan_that_does_not_fit_is_told_which_one_change_makes_it_fit() {
    let text = TOO_LARGE.replace("batch_size: 16", "batch_size: 8").replace("4096", "1024");
    let advice = advice(&text);
    let first = &advice.findings[0];
    assert_eq!((first.severity, first.kind), (Severity::Critical, "does_not_fit"));
    let remedy = advice.remedy().unwrap();
    assert!(remedy.fits);
    let line = remedy.line(&advice.outline);
    assert!(line.ends_with("fits") || line.ends_with("fits, tight"), "{line}");
}

#[test]
fn findings_stand_in_the_order_of_their_severity() {
    for (name, text) in EXAMPLES {
        let advice = advice(text);
        assert!(advice.findings.is_sorted_by_key(|finding| finding.severity), "{name}");
        assert_eq!(
            advice.outline.capacity.verdict() == Verdict::DoesNotFit,
            kind(&advice, "does_not_fit").is_some(),
            "{name}"
        );
        assert!(throughput(&advice.outline) > 0.0);
    }
}

#[test]
fn a_deep_pipeline_with_few_micro_batches_waits() {
    // (8 - 1) / 8 of the passes' time is added by the bubble: 47 % of the step.
    let text = "model: {preset: llama-2-7b, framework: megatron, batch_size: 8, sequence_length: 2048}\n\
                training: {micro_batch_size: 1}\ncluster: {num_gpus: 8}\ndistribution: {pipeline_parallel: 8}\n";
    let advice = advice(text);
    let finding = kind(&advice, "pipeline_bubble").unwrap();
    assert_eq!(finding.severity, Severity::High);
    assert!(finding.message.contains("8 stages for 8 micro-batches"), "{}", finding.message);
    assert!(!finding.fixes.is_empty() && finding.fixes.iter().all(|fix| fix.speed > 0.0));
}

#[test]
fn replicas_that_each_hold_all_states_are_named() {
    let text = "model: {preset: llama-3.2-1b, framework: megatron, batch_size: 8, sequence_length: 2048}\n\
                cluster: {num_gpus: 8}\n";
    let advice = advice(text);
    let finding = kind(&advice, "replicated_states").unwrap();
    assert!(finding.message.contains("8 replicas"), "{}", finding.message);
    let fix = &finding.fixes[0];
    // Masters and two moments, 12 bytes of 1.24 billion parameters, of which an eighth stays: 12.1 GiB less.
    let gib = fix.memory.magnitude().gib();
    assert!(fix.memory.is_negative() && (11.0..13.5).contains(&gib), "{}", fix.line(&advice.outline));
}

#[test]
fn the_report_holds_them() {
    let catalog = Catalog::embedded().unwrap();
    let plan = Document::parse(TOO_LARGE).unwrap().plan().unwrap();
    let job = Job::resolve(&plan, &catalog).unwrap();
    let prediction = predict::predict(&job);
    let advice = advise(&plan, &job, &prediction, &catalog);
    let report = Report {
        plan: "a",
        prediction: &prediction,
        scaling: None,
        max_batch: None,
        max_sequence: None,
        advice: Some(&advice),
    };
    let value = json::report(&report);
    let first = &value["bottlenecks"][0];
    assert_eq!(first["severity"], "critical");
    assert_eq!(first["kind"], "does_not_fit");
    assert!(first["fixes"].as_array().unwrap().iter().all(|fix| fix.as_str().unwrap().contains('B')));
    assert!(text::report(&report, false).contains("critical: "));
}
